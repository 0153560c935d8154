/* The program `coppice`: a Lua state with the module, and the verbs, which are a script
 * (scripts/program.lua). Its exit status is what that script returns. */
#include "lua/bind.h"
#include "lua/edit.h"
#include "lua/system/system.h"

#include <lualib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* Runs protected: argc and argv as light userdata. */
static int body(lua_State *L)
{
    int argc = (int)lua_tointeger(L, 1);
    char **argv = lua_touserdata(L, 2);
    luaL_openlibs(L);
    lua_warning(L, "@on", 0);
    luaL_requiref(L, "coppice", luaopen_coppice, 0);
    cop_lua_push_core(L);
    cop_lua_open_edit(L);
    lua_getfield(L, -1, "use");
    lua_pushliteral(L, "program");
    lua_call(L, 1, 1);
    lua_createtable(L, argc, 0);
    for (int i = 1; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i);
    }
    lua_call(L, 1, 1);
    return 1;
}

int main(int argc, char **argv)
{
    (void)signal(
        SIGXFSZ,
        SIG_IGN); /* a write beyond a file's limit fails and is told like a full disk */
    lua_State *L = luaL_newstate();
    if (!L) {
        (void)fputs("coppice: no memory\n", stderr);
        return EXIT_FAILURE;
    }
    lua_pushcfunction(L, body);
    lua_pushinteger(L, argc);
    lua_pushlightuserdata(L, argv);
    int status = EXIT_FAILURE;
    if (lua_pcall(L, 2, 1, 0) == LUA_OK) {
        status = (int)lua_tointeger(L, -1);
    } else {
        (void)fprintf(stderr, "coppice: %s\n", luaL_tolstring(L, -1, NULL));
    }
    lua_close(L);
    return status;
}
