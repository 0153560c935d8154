/* What every file of the binding uses: errors at the script's line, checks of arguments, and
 * fields of tables. */
#include "lua/home.h"

#include "lua/embed.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- Errors ---------------------------------------------------------------------------------
 */

int cop_lua_fail(lua_State *L, const struct cop_error *err)
{
    lua_pushnil(L);
    lua_pushstring(L, err->text);
    lua_pushstring(L, cop_status_name(err->code));
    return 3;
}

/* Pushes "script.lua:12: ", or "" when no Lua function of a script is running. */
static void push_script_line(lua_State *L)
{
    lua_Debug frame;
    for (int level = 0; lua_getstack(L, level, &frame); level++) {
        if (lua_getinfo(L, "Sl", &frame) && frame.currentline > 0 &&
            strncmp(frame.source, COP_EMBEDDED_CHUNK, sizeof COP_EMBEDDED_CHUNK - 1) != 0) {
            lua_pushfstring(L, "%s:%d: ", frame.short_src, frame.currentline);
            return;
        }
    }
    lua_pushliteral(L, "");
}

int cop_lua_raise(lua_State *L, const char *format, ...)
{
    luaL_checkstack(L, 8, NULL);
    push_script_line(L);
    va_list args;
    va_start(args, format);
    lua_pushvfstring(L, format, args);
    va_end(args);
    lua_concat(L, 2);
    return lua_error(L);
}

int cop_lua_error(lua_State *L, const struct cop_error *err)
{
    switch (err->code) {
    case COP_ERR_ARGUMENT:
    case COP_ERR_UNSOUND:
    case COP_ERR_LIMIT:
    case COP_ERR_UNSUPPORTED: return cop_lua_raise(L, "%s", err->text);
    case COP_OK:
    case COP_ERR_IO:
    case COP_ERR_FORMAT:
    case COP_ERR_MEMORY:
    case COP_ERR_NUMERIC:
    case COP_ERR_CALLBACK:
    case COP_ERR_CANCELLED: break;
    }
    return cop_lua_fail(L, err);
}

static struct cop_error with_owner(const char *owner, const struct cop_error *err)
{
    struct cop_error longer = *err;
    if (strncmp(err->text, "cop.", 4) != 0 && strncmp(err->text, owner, strlen(owner)) != 0) {
        (void)cop_fail(&longer, err->code, "%s: %.400s", owner, err->text);
    }
    return longer;
}

int cop_lua_error_of(lua_State *L, const char *owner, const struct cop_error *err)
{
    struct cop_error longer = with_owner(owner, err);
    return cop_lua_error(L, &longer);
}

int cop_lua_fail_of(lua_State *L, const char *owner, const struct cop_error *err)
{
    struct cop_error longer = with_owner(owner, err);
    return cop_lua_fail(L, &longer);
}

int cop_lua_unknown(lua_State *L, const char *owner, const char *word, const char *name,
                    const char *const *known, size_t count)
{
    const char *near = cop_nearest(name, known, count);
    luaL_Buffer list;
    luaL_buffinit(L, &list);
    for (size_t i = 0; i < count; i++) {
        luaL_addstring(&list, i ? ", " : "");
        luaL_addstring(&list, known[i]);
    }
    luaL_pushresult(&list);
    const char *names = lua_tostring(L, -1);
    if (near) {
        return cop_lua_raise(L, "%s: unknown %s \"%s\"; did you mean \"%s\"? (known: %s)",
                             owner, word, name, near, names);
    }
    return cop_lua_raise(L, "%s: unknown %s \"%s\" (known: %s)", owner, word, name,
                         count ? names : "none");
}

/* ---- Arguments ------------------------------------------------------------------------------
 */

const char *cop_lua_got(lua_State *L, int index)
{
    if (lua_isnoneornil(L, index)) {
        return "nothing";
    }
    if (lua_type(L, index) == LUA_TNUMBER && !lua_isinteger(L, index)) {
        lua_Number value = lua_tonumber(L, index);
        lua_pushvalue(L, index);
        const char *text = isnan(value) ? "nan" : lua_tostring(L, -1);
        return text; /* the copy stays on the stack: the caller raises */
    }
    if (lua_type(L, index) == LUA_TNUMBER || lua_type(L, index) == LUA_TBOOLEAN) {
        return luaL_tolstring(L, index, NULL);
    }
    if (lua_type(L, index) == LUA_TSTRING) {
        return lua_pushfstring(L, "\"%s\"", lua_tostring(L, index));
    }
    int named = luaL_getmetafield(L, index, "__name");
    if (named == LUA_TSTRING && strncmp(lua_tostring(L, -1), "coppice.", 8) == 0) {
        return luaL_tolstring(L, index, NULL); /* ours print usefully */
    }
    if (named == LUA_TSTRING) {
        return lua_pushfstring(L, "a %s", lua_tostring(L, -1));
    }
    return lua_pushfstring(L, "a %s", luaL_typename(L, index));
}

void cop_lua_at_most(lua_State *L, int n, const char *owner)
{
    if (lua_gettop(L) > n) {
        int self = strchr(owner, ':') ? 1 : 0; /* nobody counts the object of a method */
        cop_lua_raise(L, "%s: %d argument%s at most, got %d", owner, n - self,
                      n - self == 1 ? "" : "s", lua_gettop(L) - self);
    }
}

void cop_lua_one_table(lua_State *L, const char *owner)
{
    cop_lua_at_most(L, 1, owner);
    if (lua_type(L, 1) != LUA_TTABLE) {
        cop_lua_raise(L, "%s: expects one table of options, got %s", owner, cop_lua_got(L, 1));
    }
}

lua_Integer cop_lua_check_integer(lua_State *L, int index, lua_Integer low, lua_Integer high,
                                  const char *what)
{
    int is_integer = 0;
    lua_Integer value = 0;
    if (lua_type(L, index) == LUA_TNUMBER) {
        value = lua_tointegerx(L, index, &is_integer);
    }
    if (!is_integer && low == LUA_MININTEGER && high == LUA_MAXINTEGER) {
        cop_lua_raise(L, "%s must be an integer of 64 bits, got %s", what,
                      cop_lua_got(L, index));
    }
    if (!is_integer || value < low || value > high) {
        cop_lua_raise(L, "%s must be an integer from %I to %I, got %s", what, (LUAI_UACINT)low,
                      (LUAI_UACINT)high, cop_lua_got(L, index));
    }
    return value;
}

void cop_lua_check_ids(lua_State *L, int index, int32_t vocab, const char *owner,
                       struct cop_ids *ids)
{
    index = lua_absindex(L, index);
    if (lua_type(L, index) != LUA_TTABLE) {
        cop_lua_raise(L, "%s: expected a list of token ids, got %s", owner,
                      cop_lua_got(L, index));
    }
    /* Everything is checked before anything is allocated, so that a raise leaks nothing. */
    lua_Unsigned count = lua_rawlen(L, index);
    for (lua_Unsigned i = 1; i <= count; i++) {
        int is_integer = 0;
        lua_rawgeti(L, index, (lua_Integer)i);
        lua_Integer id = 0;
        if (lua_type(L, -1) == LUA_TNUMBER) {
            id = lua_tointegerx(L, -1, &is_integer);
        }
        if (!is_integer || id < 0 || id >= vocab) {
            cop_lua_raise(L,
                          "%s: token id %I of the list must be an integer from 0 to %d, got %s",
                          owner, (LUAI_UACINT)i, (int)vocab - 1, cop_lua_got(L, -1));
        }
        lua_pop(L, 1);
    }
    cop_token *items = count ? realloc(ids->items, (size_t)count * sizeof *items) : ids->items;
    if (count && !items) {
        cop_lua_raise(L, "%s: no memory for %I token ids", owner, (LUAI_UACINT)count);
    }
    ids->items = items;
    ids->count = (size_t)count;
    ids->capacity = (size_t)count > ids->capacity ? (size_t)count : ids->capacity;
    for (lua_Unsigned i = 1; i <= count; i++) {
        lua_rawgeti(L, index, (lua_Integer)i);
        ids->items[i - 1] = (cop_token)lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
}

void cop_lua_push_ids(lua_State *L, const cop_token *ids, size_t count)
{
    lua_createtable(L, count > INT32_MAX ? 0 : (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushinteger(L, ids[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

void cop_lua_set_integer(lua_State *L, const char *key, lua_Integer value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, key);
}

void cop_lua_set_number(lua_State *L, const char *key, double value)
{
    lua_pushnumber(L, value);
    lua_setfield(L, -2, key);
}

void cop_lua_set_string(lua_State *L, const char *key, const char *value)
{
    if (value) {
        lua_pushstring(L, value);
        lua_setfield(L, -2, key);
    }
}

void cop_lua_set_boolean(lua_State *L, const char *key, bool value)
{
    lua_pushboolean(L, value);
    lua_setfield(L, -2, key);
}
