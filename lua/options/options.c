/* Option tables of Lua against option tables of C: strict keys and positions.
 *
 *     cop.tree.chain { dept = 5 }
 *     script.lua:12: cop.tree.chain: unknown option "dept"; did you mean "depth"?
 *     (known: depth)
 *
 * A value goes where values.c puts it. The same checks serve our own scripts:
 * core.options(owner, given, spec) of spec.c. */
#include "lua/options/options.h"
#include "lua/home.h"

#include <string.h>

static bool is_list(const struct cop_option *option)
{
    return option->type == COP_OPTION_INTS || option->type == COP_OPTION_NUMBERS ||
           option->type == COP_OPTION_PATHS || option->type == COP_OPTION_LISTS;
}

/* Whether the value at the top may be meant for an option: a path is no model. */
static bool suits(lua_State *L, const struct cop_option *option)
{
    bool is_text = lua_type(L, -1) == LUA_TSTRING;
    return option->type == COP_OPTION_STRING   ? is_text
           : option->type == COP_OPTION_OBJECT ? !is_text || strcmp(option->choices, "any") == 0
                                               : true;
}

/* Position i (from 1) of the table as an option: the first one that may be given so, that no
 * position before it took, and that its value suits (or else the first of these); a list option
 * takes all positions. NULL: none. */
static const struct cop_option *at_position(lua_State *L, int table,
                                            const struct cop_option *options, lua_Integer i)
{
    uint64_t taken = 0;
    const struct cop_option *found = NULL;
    for (lua_Integer at = 1; at <= i; at++) {
        found = NULL;
        bool is_suited = false;
        lua_rawgeti(L, table, at);
        for (const struct cop_option *o = options; o && o->name && !is_suited; o++) {
            if (!(o->flags & COP_OPTION_POSITIONAL) || (taken >> (o - options) & 1)) {
                continue;
            }
            is_suited = is_list(o) || suits(L, o);
            found = is_suited || !found ? o : found;
        }
        lua_pop(L, 1);
        if (!found || is_list(found)) {
            return found;
        }
        taken |= UINT64_C(1) << (found - options);
    }
    return found;
}

static int raise_unknown(lua_State *L, const struct cop_option *options, const char *name,
                         const char *owner)
{
    size_t count = 0;
    while (options && options[count].name) {
        count++;
    }
    const char **known = lua_newuserdatauv(L, (count + 1) * sizeof *known, 0);
    for (size_t i = 0; i < count; i++) {
        known[i] = options[i].name;
    }
    return cop_lua_unknown(L, owner, "option", name, known, count);
}

/* Refuses the first key, in alphabetical order, that no option has: the same message in every
 * run. */
void cop_lua_option_keys(lua_State *L, int table, const struct cop_option *options,
                         const char *owner)
{
    const char *worst = NULL;
    lua_Unsigned n = lua_rawlen(L, table);
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        if (lua_type(L, -2) == LUA_TSTRING) {
            const char *name = lua_tostring(L, -2);
            if (!cop_option_find(options, name) && (!worst || strcmp(name, worst) < 0)) {
                worst = name;
            }
            continue;
        }
        lua_Integer i = lua_isinteger(L, -2) ? lua_tointeger(L, -2) : 0;
        if (i < 1 || (lua_Unsigned)i > n) {
            cop_lua_raise(L, "%s: unknown option [%s]", owner, cop_lua_got(L, -2));
        }
        if (!at_position(L, table, options, i)) {
            cop_lua_raise(L, "%s: value %I has no name: %s is not an option", owner,
                          (LUAI_UACINT)i, cop_lua_got(L, -1));
        }
    }
    if (worst) {
        raise_unknown(L, options, worst, owner);
    }
}

/* Pushes the value that the table has for an option, under its name or by position; nil: none.
 */
void cop_lua_option_push(lua_State *L, int table, const struct cop_option *options,
                         const struct cop_option *option, const char *owner)
{
    lua_pushstring(L, option->name);
    lua_rawget(L, table);
    lua_Integer n = (lua_Integer)lua_rawlen(L, table);
    for (lua_Integer i = 1; i <= n; i++) {
        if (at_position(L, table, options, i) != option) {
            continue;
        }
        if (!lua_isnil(L, -1)) {
            cop_lua_raise(L, "%s: option \"%s\" is given twice: by name and by position", owner,
                          option->name);
        }
        lua_pop(L, 1);
        if (is_list(option)) {
            lua_pushvalue(L, table); /* its array part is the list */
        } else {
            lua_rawgeti(L, table, i);
        }
        return;
    }
}

void cop_lua_options(lua_State *L, int index, const struct cop_option *options, void *state,
                     const char *owner, int keeper)
{
    cop_lua_options_from(L, index, options, state, owner, keeper, NULL);
}

void cop_lua_options_from(lua_State *L, int index, const struct cop_option *options,
                          void *state, const char *owner, int keeper, const char *source)
{
    luaL_checkstack(L, 16, NULL);
    int table = lua_absindex(L, index);
    cop_lua_option_describe(L, options, 0);
    cop_lua_option_keys(L, table, options, owner);
    for (const struct cop_option *o = options; o && o->name; o++) {
        cop_lua_option_push(L, table, options, o, owner);
        if (!lua_isnil(L, -1)) {
            cop_lua_option_set(L, -1, o, state, owner, keeper, source);
        } else if (o->flags & COP_OPTION_REQUIRED) {
            cop_lua_option_missing(L, o, owner);
        }
        lua_pop(L, 1);
    }
}
