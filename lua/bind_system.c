/* core.system: clock, terminal, signals, and the doors to files, JSON and measuring.
 *
 * core.use(name) runs another embedded script once, with (cop, core), and returns what it
 * returned: how scripts that are needed rarely stay out of the way of require. */
#include "lua/home.h"
#include "lua/system/system.h"

#include "lua/embed.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

atomic_bool cop_lua_interrupt;

/* ---- Clock and terminal ---------------------------------------------------------------------
 */

/* clock() → seconds that never go back */
static int clock_now(lua_State *L)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    lua_pushnumber(L, (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    return 1;
}

static int stream_of(lua_State *L)
{
    static const char *const names[] = {"stdin", "stdout", "stderr", NULL};
    return luaL_checkoption(L, 1, "stdout", names);
}

/* is_terminal("stdout") → boolean */
static int is_terminal(lua_State *L)
{
    lua_pushboolean(L, isatty(stream_of(L)));
    return 1;
}

/* width("stdout") → columns; 80 when it is not a terminal */
static int terminal_width(lua_State *L)
{
    struct winsize size;
    int columns = ioctl(stream_of(L), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
    lua_pushinteger(L, columns > 0 ? columns : 80);
    return 1;
}

/* ---- Ctrl-C ---------------------------------------------------------------------------------
 */

static struct sigaction saved_interrupt, saved_terminate;
static bool is_catching;

/* The first signal asks for a stop, the second one ends the program. Only calls that are safe
 * in a handler. */
static void on_signal(int number)
{
    static const char text[] = "\nstopping after this cycle; Ctrl-C again ends at once\n";
    if (atomic_exchange(&cop_lua_interrupt, true)) {
        (void)signal(number, SIG_DFL);
        (void)raise(number);
        return;
    }
    if (isatty(STDERR_FILENO)) {
        (void)!write(STDERR_FILENO, text, sizeof text - 1);
    }
}

/* catch(true) takes SIGINT and SIGTERM over and forgets an earlier one; catch(false) gives them
 * back. Returns whether a stop was asked for. */
static int catch_signals(lua_State *L)
{
    bool was_asked = atomic_load(&cop_lua_interrupt);
    bool wanted = lua_toboolean(L, 1);
    if (wanted && !is_catching) {
        struct sigaction action = {0};
        action.sa_handler = on_signal;
        (void)sigemptyset(&action.sa_mask);
        atomic_store(&cop_lua_interrupt, false);
        (void)sigaction(SIGINT, &action, &saved_interrupt);
        (void)sigaction(SIGTERM, &action, &saved_terminate);
    } else if (!wanted && is_catching) {
        (void)sigaction(SIGINT, &saved_interrupt, NULL);
        (void)sigaction(SIGTERM, &saved_terminate, NULL);
        atomic_store(&cop_lua_interrupt, false);
    }
    is_catching = wanted;
    lua_pushboolean(L, was_asked);
    return 1;
}

/* interrupted() → boolean */
static int is_interrupted(lua_State *L)
{
    lua_pushboolean(L, atomic_load(&cop_lua_interrupt));
    return 1;
}

/* ---- Names and scripts ----------------------------------------------------------------------
 */

/* nearest(name, list) → the known name most like it, or nil */
static int nearest(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    size_t count = (size_t)lua_rawlen(L, 2);
    const char **known = lua_newuserdatauv(L, (count + 1) * sizeof *known, 0);
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        known[i] = luaL_checkstring(L, -1);
        lua_pop(L, 1);
    }
    lua_pushstring(L, cop_nearest(name, known, count));
    return 1;
}

/* Upvalues: cop, core, a table of what was loaded. */
static int use_script(lua_State *L)
{
    const char *bytes, *name = luaL_checkstring(L, 1);
    size_t length;
    lua_settop(L, 1);
    if (lua_getfield(L, lua_upvalueindex(3), name) != LUA_TNIL) {
        return 1;
    }
    if (!cop_embedded(name, &bytes, &length)) {
        return luaL_error(L, "no script \"%s\" in this build", name);
    }
    lua_pushfstring(L, COP_EMBEDDED_CHUNK "%s.lua", name);
    if (luaL_loadbufferx(L, bytes, length, lua_tostring(L, -1), "t") != LUA_OK) {
        return lua_error(L);
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_call(L, 2, 1);
    lua_pushvalue(L, -1);
    lua_setfield(L, lua_upvalueindex(3), name);
    return 1;
}

/* scripts(prefix) → sorted names of the scripts of this build that begin so */
static int script_names(lua_State *L)
{
    size_t length;
    lua_Integer n = 0;
    const char *prefix = luaL_checklstring(L, 1, &length);
    lua_newtable(L);
    for (const struct cop_embedded *script = cop_embedded_scripts; script->name; script++) {
        if (strncmp(script->name, prefix, length) == 0) {
            lua_pushstring(L, script->name);
            lua_rawseti(L, -2, ++n);
        }
    }
    return 1;
}

static const char core_key = 'c'; /* its address is the key in the Lua registry */

void cop_lua_push_core(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &core_key);
}

void cop_lua_open_system(lua_State *L)
{
    static const luaL_Reg functions[] = {{"clock", clock_now},
                                         {"is_terminal", is_terminal},
                                         {"width", terminal_width},
                                         {"catch", catch_signals},
                                         {"interrupted", is_interrupted},
                                         {"nearest", nearest},
                                         {"scripts", script_names},
                                         {NULL, NULL}};
    luaL_newlib(L, functions); /* module core system */
    cop_lua_open_files(L);
    cop_lua_open_json(L);
    cop_lua_open_measure(L);
    cop_lua_open_parity(L);
    cop_lua_open_corpus(L);
    cop_lua_open_sandbox(L);
    lua_setfield(L, -2, "system");
    cop_lua_open_claims(L);
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_newtable(L);
    lua_pushcclosure(L, use_script, 3);
    lua_setfield(L, -2, "use");
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &core_key);
}
