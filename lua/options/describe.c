/* Option tables as tables of Lua, for help, completion and stubs. */
#include "lua/home.h"
#include "lua/options/options.h"

#include <string.h>

/* As core.options spells it; of objects the kind: "model", "propose", "any", "table", … */
static const char *type_word(const struct cop_option *option)
{
    switch (option->type) {
    case COP_OPTION_INT: return "integer";
    case COP_OPTION_NUMBER: return "number";
    case COP_OPTION_BOOL: return "boolean";
    case COP_OPTION_CHOICE: return "choice";
    case COP_OPTION_STRING: return "string";
    case COP_OPTION_INTS: return "integers";
    case COP_OPTION_PATHS: return "paths";
    case COP_OPTION_NUMBERS: return "numbers";
    case COP_OPTION_LISTS: return "lists";
    case COP_OPTION_VOCABULARY: return "vocabulary";
    case COP_OPTION_OBJECT: break;
    }
    return option->choices ? option->choices : "any";
}

void cop_lua_set_option_text(lua_State *L, const struct cop_option *option)
{
    for (size_t size = 1024;; size *= 2) {
        char *text = lua_newuserdatauv(L, size, 0);
        cop_option_describe(option, text, size);
        if (strlen(text) + 1 < size) { /* else it may have been cut */
            lua_pushstring(L, text);
            lua_setfield(L, -3, "text");
            lua_pop(L, 1);
            return;
        }
        lua_pop(L, 1);
    }
}

static void push_descriptions(lua_State *L, const struct cop_option *options)
{
    lua_newtable(L);
    for (size_t i = 0; options && options[i].name; i++) {
        lua_createtable(L, 0, 6);
        cop_lua_set_string(L, "name", options[i].name);
        cop_lua_set_option_text(L, &options[i]);
        cop_lua_set_string(L, "type", type_word(&options[i]));
        if (options[i].type == COP_OPTION_CHOICE || options[i].type == COP_OPTION_VOCABULARY) {
            cop_lua_set_string(L, "choices", options[i].choices);
        }
        cop_lua_set_boolean(L, "required", options[i].flags & COP_OPTION_REQUIRED);
        cop_lua_set_boolean(L, "positional", options[i].flags & COP_OPTION_POSITIONAL);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/* core.describe(f) → { { name =, text =, type =, choices =, required =, positional = }, … }, {
 * row, … } | nil, message: the option table that f checks its argument with, and the rows when
 * f is a script of ours. f is called with an empty table, and ends where it would begin to
 * check it. */
static const char describing; /* its address is the registry's key */

static int core_describe(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 1);
    lua_newtable(L); /* 2: what the check leaves */
    lua_pushvalue(L, 2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &describing);
    lua_pushvalue(L, 1);
    lua_newtable(L);
    (void)lua_pcall(L, 1, 0, 0);
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &describing);
    lua_getfield(L, 2, "options");
    lua_getfield(L, 2, "rows");
    return 2;
}

void cop_lua_option_describe(lua_State *L, const struct cop_option *options, int rows)
{
    luaL_checkstack(L, 8, NULL);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &describing) == LUA_TTABLE) {
        push_descriptions(L, options);
        lua_setfield(L, -2, "options");
        if (rows) {
            lua_pushvalue(L, rows);
            lua_setfield(L, -2, "rows");
        }
        lua_pushliteral(L, "described");
        lua_error(L);
    }
    lua_pop(L, 1);
}

void cop_lua_open_describe(lua_State *L)
{
    lua_pushcfunction(L, core_describe);
    lua_setfield(L, -2, "describe");
}
