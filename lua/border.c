/* Guards, the home of a state, and the border to a script's functions (see home.h). */
#include "lua/home.h"

#include <string.h>
#include <time.h>

/* ---- Classes and guards ---------------------------------------------------------------------
 */

void cop_lua_class(lua_State *L, const char *name, const luaL_Reg *functions)
{
    luaL_newmetatable(L, name);
    luaL_setfuncs(L, functions, 0);
    if (lua_getfield(L, -1, "__index") == LUA_TNIL) {
        lua_pushvalue(L, -2);
        lua_setfield(L, -3, "__index");
    }
    lua_pop(L, 1);
    lua_pushliteral(L, "protected");
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
}

#define GUARD "coppice.guard"

struct guard {
    void (*release)(void *block);
    size_t pad; /* keeps the block 16-byte aligned */
};

static void guard_release(struct guard *guard)
{
    void (*release)(void *block) = guard->release;
    guard->release = NULL;
    if (release) {
        release(guard + 1);
    }
}

static int guard_gc(lua_State *L)
{
    guard_release(luaL_checkudata(L, 1, GUARD));
    return 0;
}

void *cop_lua_guard(lua_State *L, size_t size, void (*release)(void *block))
{
    luaL_checkstack(L, 4, NULL);
    struct guard *guard = lua_newuserdatauv(L, sizeof *guard + size, 0);
    memset(guard, 0, sizeof *guard + size);
    if (luaL_newmetatable(L, GUARD)) {
        lua_pushcfunction(L, guard_gc);
        lua_setfield(L, -2, "__gc");
        lua_pushcfunction(L, guard_gc);
        lua_setfield(L, -2, "__close");
    }
    guard->release = release;
    lua_setmetatable(L, -2);
    return guard + 1;
}

void cop_lua_guard_close(lua_State *L, int index)
{
    guard_release(luaL_checkudata(L, index, GUARD));
}

void cop_lua_pressure(lua_State *L, size_t bytes)
{
    size_t kilobytes = bytes >> 10;
    if (kilobytes > 1024) {
        lua_gc(L, LUA_GCSTEP, kilobytes > INT32_MAX / 2 ? INT32_MAX / 2 : (int)kilobytes);
    }
}

bool cop_lua_collect(lua_State *L, enum cop_status status)
{
    if (status != COP_ERR_MEMORY) {
        return false;
    }
    lua_gc(L, LUA_GCCOLLECT); /* twice: what a finaliser frees may hold more */
    lua_gc(L, LUA_GCCOLLECT);
    return true;
}

/* ---- Home -----------------------------------------------------------------------------------
 */

static const char home_key = 'h'; /* its address is the key in the Lua registry */

static int home_gc(lua_State *L)
{
    struct cop_lua_home *home = lua_touserdata(L, 1);
    cop_registry_release(&home->registry);
    return 0;
}

/* Created before any other object of ours, so that at lua_close it is finalised last. */
struct cop_lua_home *cop_lua_home(lua_State *L)
{
    luaL_checkstack(L, 4, NULL);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &home_key) == LUA_TUSERDATA) {
        struct cop_lua_home *found = lua_touserdata(L, -1);
        lua_pop(L, 1);
        return found;
    }
    lua_pop(L, 1);
    struct cop_lua_home *home = lua_newuserdatauv(L, sizeof *home, 0);
    memset(home, 0, sizeof *home);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, home_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    home->main = lua_tothread(L, -1);
    lua_pop(L, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &home_key);
    return home;
}

struct cop_registry *cop_lua_registry(lua_State *L)
{
    return &cop_lua_home(L)->registry;
}

double *cop_lua_microseconds(lua_State *L)
{
    return &cop_lua_home(L)->microseconds;
}

/* ---- The border -----------------------------------------------------------------------------
 */

void cop_lua_enter(struct cop_lua_home *home, lua_State *L, struct cop_lua_border *border)
{
    *border = (struct cop_lua_border){.outer = home->current, .outer_failure = home->failure};
    home->current = L;
    home->failure = &border->failure;
}

enum cop_status cop_lua_leave(struct cop_lua_home *home, struct cop_lua_border *border,
                              enum cop_status status, struct cop_error *err)
{
    home->current = border->outer;
    home->failure = border->outer_failure;
    if (border->failure.code != COP_OK) {
        *err = border->failure;
        return err->code;
    }
    return status;
}

bool cop_lua_scope_is_open(const struct cop_lua_home *home, uint64_t serial)
{
    for (const struct cop_lua_scope *scope = home->scopes; scope; scope = scope->outer) {
        if (scope->serial == serial) {
            return true;
        }
    }
    return false;
}

/* Message handler: makes a string of whatever was raised. */
static int to_text(lua_State *L)
{
    if (lua_type(L, 1) != LUA_TSTRING) {
        luaL_tolstring(L, 1, NULL);
    }
    return 1;
}

static double now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

enum cop_status cop_lua_protected(struct cop_lua_home *home, lua_CFunction body, void *argument,
                                  int index, const char *owner, struct cop_error *err)
{
    lua_State *L = home->current ? home->current : home->main;
    if (!lua_checkstack(L, LUA_MINSTACK)) {
        return cop_fail(err, COP_ERR_CALLBACK, "%s: Lua's stack is full", owner);
    }
    double started = now_us();
    struct cop_lua_scope scope = {.serial = ++home->serial, .outer = home->scopes};
    home->scopes = &scope;
    lua_pushcfunction(L, to_text);
    lua_pushcfunction(L, body);
    lua_pushlightuserdata(L, argument);
    if (index) {
        lua_pushvalue(L, index);
    }
    int failed = lua_pcall(L, index ? 2 : 1, 0, index ? -4 : -3);
    home->scopes = scope.outer;
    if (!scope.outer) { /* else the time of the outer one holds it */
        home->microseconds += now_us() - started;
    }
    enum cop_status status = COP_OK;
    if (failed) {
        const char *text =
            lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "an error without a message";
        status = cop_fail(err, COP_ERR_CALLBACK, "%s: %s", owner, text);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return status;
}
