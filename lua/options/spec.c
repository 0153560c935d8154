/* Option tables of functions that are written in Lua, checked by the same code as those in C.
 *
 *     local o = core.options("cop.generate", given, {
 *        { "model", "model", required = true },
 *        { "top_k", "integer", min = 0, max = 1e6, default = 0 },
 *        { "finish", "choice", choices = "stop|length", default = "stop" },
 *     })
 *
 * Types: integer, number, boolean, choice, string, integers, paths; long (64-bit integer); an
 * object: model, tokenizer, propose, tree, accept, length; a Lua type: function, table; any.
 * The result has a field for every option that was given or has a default. Integral floats come
 * out as integers. */
#include "lua/home.h"
#include "lua/options/options.h"

#include <math.h>
#include <string.h>

#define LONG "long" /* an OBJECT to cop_option, checked here */

union value {
    int32_t integer;
    double number;
    bool boolean;
    char *string;
    struct cop_int_list integers;
    struct cop_path_list paths;
    void *object;
};

struct scratch {
    union value value;
    struct cop_option option; /* whose value it is: a copy, the table may be collected first */
    bool is_used;
};

static void scratch_release(void *block)
{
    struct scratch *scratch = block;
    if (scratch->is_used) {
        struct cop_option row[2] = {scratch->option, {0}};
        cop_option_release(row, &scratch->value);
        scratch->is_used = false;
    }
}

static const struct {
    const char *name;
    enum cop_option_type type;
} types[] = {{"integer", COP_OPTION_INT},   {"number", COP_OPTION_NUMBER},
             {"boolean", COP_OPTION_BOOL},  {"choice", COP_OPTION_CHOICE},
             {"string", COP_OPTION_STRING}, {"integers", COP_OPTION_INTS},
             {"paths", COP_OPTION_PATHS},   {"numbers", COP_OPTION_NUMBERS},
             {"lists", COP_OPTION_LISTS}};

/* The field of the entry at the top of the stack, as a string that the entry keeps alive. */
static const char *text_field(lua_State *L, lua_Integer position, const char *key)
{
    if (key) {
        lua_getfield(L, -1, key);
    } else {
        lua_rawgeti(L, -1, position);
    }
    const char *text = lua_tostring(L, -1);
    lua_pop(L, 1);
    return text;
}

static double number_field(lua_State *L, const char *key, double fallback)
{
    lua_getfield(L, -1, key);
    double value = lua_isnumber(L, -1) ? lua_tonumber(L, -1) : fallback;
    lua_pop(L, 1);
    return value;
}

static bool flag_field(lua_State *L, const char *key)
{
    lua_getfield(L, -1, key);
    bool value = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

/* The entry at the top of the stack as a row of an option table. */
static void read_entry(lua_State *L, struct cop_option *option)
{
    const char *type = text_field(L, 2, NULL);
    option->name = text_field(L, 1, NULL);
    luaL_argcheck(L, option->name && type, 3, "an entry without name or type");
    option->type = COP_OPTION_OBJECT;
    option->choices = type;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(type, types[i].name) == 0) {
            option->type = types[i].type;
            option->choices = text_field(L, 0, "choices");
        }
    }
    double low = number_field(L, "min", (double)-INFINITY);
    double high = number_field(L, "max", (double)INFINITY);
    if (isfinite(low) || isfinite(high)) { /* 0 and 0: no range */
        option->min = low;
        option->max = high;
    }
    option->flags = (flag_field(L, "required") ? (uint32_t)COP_OPTION_REQUIRED : 0) |
                    (flag_field(L, "positional") ? (uint32_t)COP_OPTION_POSITIONAL : 0);
    option->help = text_field(L, 0, "help");
}

static struct cop_option *read_spec(lua_State *L, int spec)
{
    lua_Unsigned count = lua_rawlen(L, spec);
    struct cop_option *options = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *options, 0);
    memset(options, 0, ((size_t)count + 1) * sizeof *options);
    for (lua_Unsigned i = 0; i < count; i++) {
        lua_rawgeti(L, spec, (lua_Integer)i + 1);
        read_entry(L, &options[i]);
        lua_pop(L, 1);
    }
    return options;
}

/* Pushes the checked value at the top of the stack in the form in which it is handed on. */
static void push_checked(lua_State *L, struct scratch *scratch, struct cop_option *option,
                         const char *owner)
{
    int index = lua_gettop(L);
    if (option->type == COP_OPTION_OBJECT && strcmp(option->choices, LONG) == 0) {
        const char *what = lua_pushfstring(L, "%s: option \"%s\"", owner, option->name);
        bool has_range = option->min != 0 || option->max != 0;
        lua_Integer low =
            has_range && isfinite(option->min) ? (lua_Integer)option->min : LUA_MININTEGER;
        lua_Integer high =
            has_range && isfinite(option->max) ? (lua_Integer)option->max : LUA_MAXINTEGER;
        lua_pushinteger(L, cop_lua_check_integer(L, index, low, high, what));
        return;
    }
    memset(&scratch->value, 0, sizeof scratch->value);
    scratch->option = *option;
    scratch->is_used = true;
    cop_lua_option_set(L, index, option, &scratch->value, owner, 0, NULL);
    if (option->type == COP_OPTION_INT) {
        lua_pushinteger(L, scratch->value.integer);
    } else {
        lua_pushvalue(L, index);
    }
    scratch_release(scratch);
}

static int core_options(lua_State *L)
{
    const char *owner = luaL_checkstring(L, 1);
    luaL_checktype(L, 3, LUA_TTABLE);
    if (lua_type(L, 2) != LUA_TTABLE) {
        return cop_lua_raise(L, "%s: expects one table of options, got %s", owner,
                             cop_lua_got(L, 2));
    }
    lua_settop(L, 3);
    struct cop_option *options = read_spec(L, 3);
    cop_lua_option_describe(L, options, 3);
    struct scratch *scratch = cop_lua_guard(L, sizeof *scratch, scratch_release);
    lua_newtable(L);
    int result = lua_gettop(L);
    cop_lua_option_keys(L, 2, options, owner);
    for (struct cop_option *o = options; o->name; o++) {
        cop_lua_option_push(L, 2, options, o, owner);
        if (!lua_isnil(L, -1)) {
            push_checked(L, scratch, o, owner);
        } else if (o->flags & COP_OPTION_REQUIRED) {
            cop_lua_option_missing(L, o, owner);
        } else {
            lua_rawgeti(L, 3, (lua_Integer)(o - options) + 1);
            lua_getfield(L, -1, "default");
        }
        lua_setfield(L, result, o->name);
        lua_settop(L, result);
    }
    return 1;
}

void cop_lua_open_spec(lua_State *L)
{
    lua_pushcfunction(L, core_options);
    lua_setfield(L, -2, "options");
    cop_lua_open_describe(L);
}
