/* Runs every script of tests/lua, each in a Lua state of its own, and loads the module into a
 * stock lua5.4.
 *
 * A script is called with (check, test): check is tests/lua/helper.lua; test.tiny { … } writes
 * a small model and returns its path, test.plugin is the folder of the plug-ins that the
 * Makefile builds beside this program, test.shared the folder of reference values or nil,
 * test.core the private table of our own scripts. */
#include "kernels/ops.h"
#include "lua/bind.h"
#include "lua/system/system.h"
#include "tests/support/head_folder.h"
#include "tests/support/tiny_model.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <glob.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#endif

/* ---- What scripts get -----------------------------------------------------------------------
 */

#define MODELS 64
static struct gguf_writer *models[MODELS];
static int n_models;

static int64_t field(lua_State *L, const char *key)
{
    lua_getfield(L, 1, key);
    int64_t value = (int64_t)luaL_optinteger(L, -1, 0);
    lua_pop(L, 1);
    return value;
}

/* tiny { seed =, vocab =, layers =, hidden =, context =, noise =, noise_seed =, tokenizer = }
 */
static int tiny(lua_State *L)
{
    lua_getfield(L, 1, "noise");
    lua_getfield(L, 1, "tokenizer");
    struct tiny_model description = {.seed = (uint64_t)field(L, "seed"),
                                     .noise = luaL_optnumber(L, -2, 0),
                                     .noise_seed = (uint64_t)field(L, "noise_seed"),
                                     .layers = (int32_t)field(L, "layers"),
                                     .vocab = (int32_t)field(L, "vocab"),
                                     .hidden = (int32_t)field(L, "hidden"),
                                     .context = (int32_t)field(L, "context"),
                                     .has_tokenizer = lua_toboolean(L, -1)};
    if (n_models == MODELS) {
        return luaL_error(L, "too many models");
    }
    models[n_models] = tiny_model_new(&description);
    lua_pushstring(L, gguf_save(models[n_models++]));
    return 1;
}

/* A bigram model: logits after token i are the logs of row i. */
static int bigram(lua_State *L)
{
    int32_t vocab = (int32_t)luaL_len(L, 1);
    double *table = lua_newuserdatauv(L, (size_t)(vocab * vocab) * sizeof *table, 0);
    for (int32_t i = 0; i < vocab * vocab; i++) {
        lua_rawgeti(L, 1, i / vocab + 1);
        lua_rawgeti(L, -1, i % vocab + 1);
        table[i] = luaL_checknumber(L, -1);
        lua_pop(L, 2);
    }
    models[n_models] = tiny_bigram_new(vocab, table);
    lua_pushstring(L, gguf_save(models[n_models++]));
    return 1;
}

static void free_models(void)
{
    while (n_models > 0) {
        gguf_writer_free(models[--n_models]);
    }
}

/* The folder that this program lies in. */
static void own_folder(char *folder, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", folder, size - 1);
    cr_assert(length > 0);
    folder[length] = '\0';
    *strrchr(folder, '/') = '\0';
}

static const char *shared_folder(void)
{
    const char *folder = getenv("COPPICE_SHARED");
    folder = folder ? folder : "../shared";
    struct stat facts;
    return stat(folder, &facts) == 0 ? folder : NULL;
}

static void push_test(lua_State *L)
{
    char folder[4096];
    own_folder(folder, sizeof folder);
    lua_newtable(L);
    lua_pushcfunction(L, tiny);
    lua_setfield(L, -2, "tiny");
    lua_pushcfunction(L, bigram);
    lua_setfield(L, -2, "bigram");
    lua_pushstring(L, folder);
    lua_setfield(L, -2, "plugin");
    lua_pushstring(L, shared_folder());
    lua_setfield(L, -2, "shared");
    cop_lua_push_core(L);
    lua_setfield(L, -2, "core");
}

/* ---- Running them ---------------------------------------------------------------------------
 */

static int with_traceback(lua_State *L)
{
    luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
    return 1;
}

/* The text of the failure into `failure`, "" when there is none. */
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
        push_test(L);
        if (lua_pcall(L, 2, 0, 1) != LUA_OK) {
            (void)snprintf(failure, size, "%s", lua_tostring(L, -1));
        }
    }
    lua_close(L);
    free_models();
}

#define SCRIPTS 64
ParameterizedTestParameters(lua, scripts)
{
    static int indices[SCRIPTS];
    glob_t found;
    size_t count = 0;
    if (glob("tests/lua/*.lua", 0, NULL, &found) == 0) {
        count = found.gl_pathc < SCRIPTS ? found.gl_pathc : SCRIPTS;
        globfree(&found);
    }
    for (size_t i = 0; i < count; i++) {
        indices[i] = (int)i;
    }
    return cr_make_param_array(int, indices, count);
}

ParameterizedTest(int *index, lua, scripts, .timeout = 240)
{
    glob_t found;
    cr_assert_eq(glob("tests/lua/*.lua", 0, NULL, &found), 0);
    const char *path = found.gl_pathv[*index];
    static char failure[16384];
    if (!strstr(path, "/helper.lua")) {
        run_script(path, failure, sizeof failure);
        cr_expect_str_empty(failure, "%s: %s", path, failure);
    }
    globfree(&found);
}

Test(lua, there_are_scripts)
{
    glob_t found;
    cr_assert_eq(glob("tests/lua/*.lua", 0, NULL, &found), 0);
    cr_expect_gt(found.gl_pathc, 10);
    globfree(&found);
}

/* ---- Memory that runs out -------------------------------------------------------------------
 */

/* Fails the allocation at which the countdown reaches 0; below 0: never. */
static void *failing(void *user, void *block, size_t old_size, size_t size)
{
    (void)old_size;
    int *countdown = user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    if (*countdown >= 0 && (*countdown)-- == 0) {
        return NULL;
    }
    return realloc(block, size);
}

static int open_module(lua_State *L)
{
    luaL_openlibs(L);
    luaL_requiref(L, "coppice", luaopen_coppice, 0);
    return 1;
}

static int open_and_run(lua_State *L)
{
    (void)open_module(L);
    if (luaL_loadfile(L, "tests/lua/memory/script.lua") != LUA_OK) {
        return lua_error(L);
    }
    lua_pushvalue(L, -2);
    lua_call(L, 1, 0);
    return 0;
}

/* Runs f with allocation number n failing; the number of allocations that were left then. */
static int run_short(lua_CFunction f, int n)
{
    int countdown = n;
    lua_State *L = lua_newstate(failing, &countdown);
    if (!L) {
        return -1;
    }
    lua_pushcfunction(L, f);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK && countdown >= 0) {
        cr_assert_fail("%s", lua_tostring(L, -1));
    }
    int left = countdown;
    countdown = -1;
    lua_close(L);
    return left;
}

/* Every allocation of Lua's fails once: an error comes out or the failure is of no account,
 * nothing is lost (the sanitizer sees), and the state can be closed. */
Test(lua, memory_may_run_out_anywhere, .timeout = 240)
{
    int many = 1 << 30;
    int n_open = many - run_short(open_module, many);
    int n_all = many - run_short(open_and_run, many);
    cr_assert_gt(n_open, 500);
    cr_assert_gt(n_all, n_open + 300);
    for (int n = 0; n < n_all; n += n < n_open ? 23 : 1) { /* opening repeats itself */
        (void)run_short(open_and_run, n);
    }
}

/* ---- Warnings -------------------------------------------------------------------------------
 */

struct told {
    char text[1024];
};
static void tell(void *user, const char *text, int goes_on)
{
    struct told *told = user;
    size_t length = strlen(told->text);
    (void)snprintf(told->text + length, sizeof told->text - length, "%s%s", text,
                   goes_on ? "" : ";");
}

/* A configuration that its tensors contradict: said once, whoever asks again. */
Test(lua, a_constructor_warns_once)
{
    struct head_folder *folder =
        head_folder_new("{\"medusa_num_heads\":2,\"share_lm_head\":true}");
    struct told told = {""};
    head_folder_put(folder, "0.0.linear.weight", 8, 8, NULL);
    const char *path = head_folder_save(folder, "medusa_lm_head.safetensors");
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    luaL_requiref(L, "coppice", luaopen_coppice, 0);
    lua_setwarnf(L, tell, &told);
    lua_getfield(L, -1, "propose");
    for (int i = 0; i < 2; i++) {
        lua_getfield(L, -1, "medusa");
        lua_createtable(L, 1, 0);
        lua_pushstring(L, path);
        lua_rawseti(L, -2, 1);
        cr_assert_eq(lua_pcall(L, 1, 1, 0), LUA_OK, "%s", lua_tostring(L, -1));
        cr_assert_eq(lua_type(L, -1), LUA_TUSERDATA);
        lua_pop(L, 1);
    }
    lua_close(L);
    cr_expect(strncmp(told.text, "cop.propose.medusa: ", 20) == 0, "%s", told.text);
    const char *end = strstr(told.text, "config.json: \"medusa_num_heads\" is 2, but by the "
                                        "tensors it is 1: the tensors are used;");
    cr_assert_not_null(end, "%s", told.text);
    cr_expect_eq(strchr(end, ';')[1], '\0', "%s", told.text);
    head_folder_free(folder);
}

/* A file that is not there: nil comes back, which a table of options does not hold. */
Test(lua, a_constructor_that_fails_warns_once)
{
    struct told told = {""};
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    luaL_requiref(L, "coppice", luaopen_coppice, 1);
    lua_setwarnf(L, tell, &told);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(luaL_dostring(L, "return coppice.propose.retrieval { \"none.store\" }"),
                     LUA_OK, "%s", lua_tostring(L, -1));
        cr_expect(lua_isnil(L, -3));
        cr_expect_str_eq(lua_tostring(L, -2),
                         "cop.propose.retrieval: none.store: No such file or directory");
        cr_expect_str_eq(lua_tostring(L, -1), "io");
        lua_pop(L, 3);
    }
    lua_close(L);
    cr_expect_str_eq(told.text,
                     "cop.propose.retrieval: none.store: No such file or directory (nil is "
                     "returned, and an option with nil is one that is not given: "
                     "assert(cop.propose.retrieval { ... }) stops here);");
}

/* ---- A stock Lua ----------------------------------------------------------------------------
 */

#ifndef IS_SANITIZED /* a stock Lua cannot load a sanitised module */
Test(lua, stock_lua_loads_the_module, .timeout = 60)
{
    if (system("command -v lua5.4 >/dev/null 2>&1") != 0) {
        cr_skip_test("no lua5.4 here");
    }
    char folder[4096], command[20000];
    own_folder(folder, sizeof folder);
    (void)snprintf(
        command, sizeof command,
        "LUA_CPATH='%s/../../?.so;%s/../../../?.so' lua5.4 tests/lua/stock/stock.lua "
        "'%s'",
        folder, folder, folder);
    cr_expect_eq(system(command), 0);
}
#endif
