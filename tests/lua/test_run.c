/* Runs the scripts of tests/lua/run, each in a Lua state of its own: what runs, traces,
 * datasets and the program's verbs promise.
 *
 * A script is called with (check, test, core): check is tests/lua/helper.lua, core the private
 * table of our own scripts. test.tiny { … } writes a small model and returns its path;
 * test.folder() makes a throw-away folder; test.program { words } runs the program and returns
 * its exit status and what it printed; test.quietly(f) calls f with standard output thrown
 * away. */
#include "lua/bind.h"
#include "lua/system/system.h"
#include "tests/support/tiny_model.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <fcntl.h>
#include <glob.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEPT 32
static struct gguf_writer *models[KEPT];
static int n_models;
static char folders[KEPT][64];
static int n_folders;

static int64_t field(lua_State *L, const char *key)
{
    lua_getfield(L, 1, key);
    int64_t value = (int64_t)luaL_optinteger(L, -1, 0);
    lua_pop(L, 1);
    return value;
}

/* A model with a tokenizer: tiny { seed =, layers =, noise =, noise_seed =, context = } */
static int tiny(lua_State *L)
{
    lua_getfield(L, 1, "noise");
    struct tiny_model description = {.seed = (uint64_t)field(L, "seed"),
                                     .noise = luaL_optnumber(L, -1, 0),
                                     .noise_seed = (uint64_t)field(L, "noise_seed"),
                                     .layers = (int32_t)field(L, "layers"),
                                     .context = (int32_t)field(L, "context"),
                                     .vocab = 264,
                                     .has_tokenizer = true};
    cr_assert_lt(n_models, KEPT);
    models[n_models] = tiny_model_new(&description);
    lua_pushstring(L, gguf_save(models[n_models++]));
    return 1;
}

static int folder(lua_State *L)
{
    cr_assert_lt(n_folders, KEPT);
    char *path = folders[n_folders++];
    (void)snprintf(path, sizeof folders[0], "%s/coppice-run-XXXXXX", P_tmpdir);
    cr_assert(mkdtemp(path) != NULL);
    lua_pushstring(L, path);
    return 1;
}

static void remove_folders(void)
{
    char command[128];
    while (n_folders > 0) {
        (void)snprintf(command, sizeof command, "rm -rf '%s'", folders[--n_folders]);
        cr_expect_eq(system(command), 0);
    }
}

/* Sends what goes to a stream into a file; returns what it was before. */
static int redirect(FILE *stream, const char *path)
{
    (void)fflush(stream);
    int kept = dup(fileno(stream));
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    cr_assert(kept >= 0 && fd >= 0);
    (void)dup2(fd, fileno(stream));
    (void)close(fd);
    return kept;
}

static void restore(FILE *stream, int kept)
{
    (void)fflush(stream);
    (void)dup2(kept, fileno(stream));
    (void)close(kept);
}

/* program { words } -> status, text. In this process, with the state's own module. */
static int program(lua_State *L)
{
    static char text[1 << 16];
    char path[64];
    (void)snprintf(path, sizeof path, "%s/coppice-out-XXXXXX", P_tmpdir);
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    cop_lua_push_core(L);
    lua_getfield(L, -1, "use");
    lua_pushliteral(L, "program");
    lua_call(L, 1, 1);
    lua_pushvalue(L, 1);
    int out = redirect(stdout, path), err = redirect(stderr, path);
    int failed = lua_pcall(L, 1, 1, 0);
    restore(stdout, out);
    restore(stderr, err);
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    (void)unlink(path);
    if (failed) {
        return lua_error(L);
    }
    lua_pushlstring(L, text, n > 0 ? (size_t)n : 0);
    return 2;
}

/* quietly(f) -> what f returns */
static int quietly(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 1);
    int out = redirect(stdout, "/dev/null"), err = redirect(stderr, "/dev/null");
    int failed = lua_pcall(L, 0, LUA_MULTRET, 0);
    restore(stdout, out);
    restore(stderr, err);
    return failed ? lua_error(L) : lua_gettop(L);
}

static int with_traceback(lua_State *L)
{
    luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
    return 1;
}

static void push_arguments(lua_State *L)
{
    static const luaL_Reg functions[] = {{"tiny", tiny},
                                         {"folder", folder},
                                         {"program", program},
                                         {"quietly", quietly},
                                         {NULL, NULL}};
    luaL_newlib(L, functions);
    cop_lua_push_core(L);
}

static void run_script(const char *path, char *failure, size_t size)
{
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    lua_pushcfunction(L, with_traceback);
    luaL_requiref(L, "coppice", luaopen_coppice, 0);
    lua_pop(L, 1);
    failure[0] = '\0';
    if (luaL_loadfile(L, path) != LUA_OK ||
        luaL_loadfile(L, "tests/lua/helper.lua") != LUA_OK || lua_pcall(L, 0, 1, 1) != LUA_OK) {
        (void)snprintf(failure, size, "%s", lua_tostring(L, -1));
    } else {
        push_arguments(L);
        if (lua_pcall(L, 3, 0, 1) != LUA_OK) {
            (void)snprintf(failure, size, "%s", lua_tostring(L, -1));
        }
    }
    lua_close(L);
    while (n_models > 0) {
        gguf_writer_free(models[--n_models]);
    }
    remove_folders();
}

#define SCRIPTS 64

/* COPPICE_SCRIPTS: those of another pattern, to look at a few. */
static const char *pattern(void)
{
    const char *given = getenv("COPPICE_SCRIPTS");
    return given ? given : "tests/lua/run/*.lua";
}

ParameterizedTestParameters(run, scripts)
{
    static int indices[SCRIPTS];
    glob_t found;
    size_t count = 0;
    if (glob(pattern(), 0, NULL, &found) == 0) {
        count = found.gl_pathc < SCRIPTS ? found.gl_pathc : SCRIPTS;
        globfree(&found);
    }
    for (size_t i = 0; i < count; i++) {
        indices[i] = (int)i;
    }
    return cr_make_param_array(int, indices, count);
}

ParameterizedTest(int *index, run, scripts, .timeout = 240)
{
    static char failure[16384];
    glob_t found;
    cr_assert_eq(glob(pattern(), 0, NULL, &found), 0);
    run_script(found.gl_pathv[*index], failure, sizeof failure);
    cr_expect_str_empty(failure, "%s: %s", found.gl_pathv[*index], failure);
    globfree(&found);
}

Test(run, there_are_scripts)
{
    glob_t found;
    cr_assert_eq(glob(pattern(), 0, NULL, &found), 0);
    cr_expect_geq(found.gl_pathc, getenv("COPPICE_SCRIPTS") ? 1 : 8);
    globfree(&found);
}
