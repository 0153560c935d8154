/* JSON to Lua values and back, without loss: integers of 64 bits stay integers, 3.0 stays a
 * float, an empty list stays a list.
 *
 * A list that was read carries the metatable COP_LUA_LIST; a table is written as a list when it
 * carries it or has an entry 1, else as an object with its keys in order. null is the light
 * userdata NULL (core.system.null); NaN and infinities are written as null. */
#include "core/base/json.h"
#include "core/base/utf8.h"
#include "lua/home.h"
#include "lua/system/system.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COP_LUA_LIST "coppice.list"

/* ---- Reading --------------------------------------------------------------------------------
 */

static void release_reader(void *block)
{
    cop_json_release(block);
}

/* Pushes the value of an event that opens nothing. */
static void push_scalar(lua_State *L, const struct cop_json_event *event)
{
    switch (event->kind) {
    case COP_JSON_TRUE:
    case COP_JSON_FALSE: lua_pushboolean(L, event->kind == COP_JSON_TRUE); break;
    case COP_JSON_INTEGER: lua_pushinteger(L, event->integer); break;
    case COP_JSON_NUMBER: lua_pushnumber(L, event->number); break;
    case COP_JSON_STRING: lua_pushlstring(L, event->bytes, event->length); break;
    case COP_JSON_NULL:
    case COP_JSON_END:
    case COP_JSON_KEY:
    case COP_JSON_LIST:
    case COP_JSON_LIST_END:
    case COP_JSON_OBJECT:
    case COP_JSON_OBJECT_END: lua_pushlightuserdata(L, NULL); break;
    }
}

/* Puts the finished value at the top into its container, which lies below it (a list) or below
 * its key (an object). */
static void enter_value(lua_State *L, int bottom)
{
    if (lua_gettop(L) <= bottom + 1) {
        return; /* the outermost value */
    }
    if (lua_istable(L, -2)) {
        lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    } else {
        lua_rawset(L, -3);
    }
}

/* Stack while reading: container, then (in an object) the key, then the next container, … */
static enum cop_status read_value(lua_State *L, struct cop_json *json, struct cop_error *err)
{
    int bottom = lua_gettop(L);
    for (;;) {
        struct cop_json_event event;
        enum cop_status status = cop_json_next(json, &event, err);
        if (status != COP_OK || event.kind == COP_JSON_END) {
            return status;
        }
        luaL_checkstack(L, 8, NULL);
        if (event.kind == COP_JSON_KEY) {
            lua_pushlstring(L, event.bytes, event.length);
        } else if (event.kind == COP_JSON_LIST || event.kind == COP_JSON_OBJECT) {
            lua_newtable(L);
            if (event.kind == COP_JSON_LIST) {
                luaL_setmetatable(L, COP_LUA_LIST);
            }
        } else {
            if (event.kind != COP_JSON_LIST_END && event.kind != COP_JSON_OBJECT_END) {
                push_scalar(L, &event);
            }
            enter_value(L, bottom);
        }
    }
}

/* decode(text) → value | nil, message, code */
static int decode(lua_State *L)
{
    size_t length;
    struct cop_error err = {0};
    const char *text = luaL_checklstring(L, 1, &length);
    lua_settop(L, 1);
    struct cop_json *json = cop_lua_guard(L, sizeof *json, release_reader);
    cop_json_start(json, text, length);
    enum cop_status status = read_value(L, json, &err);
    cop_lua_guard_close(L, 2);
    if (status != COP_OK) {
        return cop_lua_fail(L, &err);
    }
    return 1;
}

/* ---- Writing --------------------------------------------------------------------------------
 */

static void add_string(luaL_Buffer *out, const char *bytes, size_t length)
{
    luaL_addchar(out, '"');
    for (size_t i = 0; i < length;) {
        size_t used = 1;
        unsigned char byte = (unsigned char)bytes[i];
        if (byte == '"' || byte == '\\') {
            luaL_addchar(out, '\\');
            luaL_addchar(out, (char)byte);
        } else if (byte < 0x20 || byte == 0x7f) {
            char escape[8];
            (void)snprintf(escape, sizeof escape, "\\u%04x", byte);
            luaL_addstring(out, escape);
        } else if (cop_utf8_next(bytes + i, length - i, &used) == COP_UTF8_WHOLE) {
            luaL_addlstring(out, bytes + i, used);
        } else {
            luaL_addstring(out, COP_UTF8_REPLACEMENT);
        }
        i += used;
    }
    luaL_addchar(out, '"');
}

/* The shortest of 15, 16 or 17 digits that reads back as the same number, with a point. */
static void add_number(luaL_Buffer *out, double value)
{
    char text[40];
    if (!isfinite(value)) {
        luaL_addstring(out, "null");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    luaL_addstring(out, text);
    if (!strpbrk(text, ".e")) {
        luaL_addstring(out, ".0");
    }
}

struct writer {
    luaL_Buffer out; /* its box lies on the stack, above everything that the walk needs */
    int indent;      /* spaces per level; 0: one line */
};

static void add_break(struct writer *writer, int depth)
{
    if (writer->indent) {
        luaL_addchar(&writer->out, '\n');
        for (int i = 0; i < depth * writer->indent; i++) {
            luaL_addchar(&writer->out, ' ');
        }
    }
}

/* Pushes the table's string keys, sorted by bytes, as a list. */
static lua_Integer push_sorted_keys(lua_State *L, int table)
{
    lua_Integer count = 0;
    lua_getglobal(L, "table");
    lua_getfield(L, -1, "sort");
    lua_remove(L, -2); /* sort */
    lua_newtable(L);   /* sort keys */
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) {
            luaL_error(L, "JSON: a key of an object must be a string, got a %s",
                       luaL_typename(L, -2));
        }
        lua_pushvalue(L, -2);
        lua_rawseti(L, -4, ++count);
    }
    lua_pushvalue(L, -1); /* sort keys keys */
    lua_insert(L, -3);    /* keys sort keys */
    lua_call(L, 1, 0);    /* keys */
    return count;
}

static bool is_list(lua_State *L, int table)
{
    bool marked = false;
    if (lua_getmetatable(L, table)) {
        luaL_getmetatable(L, COP_LUA_LIST);
        marked = lua_rawequal(L, -1, -2);
        lua_pop(L, 2);
    }
    return marked || lua_rawlen(L, table) > 0;
}

/* Writing in two steps keeps luaL_Buffer (which owns the top of the stack) simple: every piece
 * is a string in the list at index 2. */
static void add_piece(lua_State *L, lua_Integer *count)
{
    lua_rawseti(L, 2, ++*count);
}

static void encode_value(lua_State *L, int value, struct writer *writer, int depth,
                         lua_Integer *count);

static void encode_break(lua_State *L, struct writer *writer, int depth, const char *mark,
                         lua_Integer *count)
{
    luaL_buffinit(L, &writer->out);
    luaL_addstring(&writer->out, mark);
    add_break(writer, depth);
    luaL_pushresult(&writer->out);
    add_piece(L, count);
}

static void encode_list(lua_State *L, int table, struct writer *writer, int depth,
                        lua_Integer *count)
{
    lua_Integer n = (lua_Integer)lua_rawlen(L, table);
    struct writer flat = {.indent = 0}; /* lists stay on one line unless they hold tables */
    bool nested = n > 0 && lua_rawgeti(L, table, 1) == LUA_TTABLE;
    lua_pop(L, n > 0);
    struct writer *inner = nested ? writer : &flat;
    for (lua_Integer i = 1; i <= n; i++) {
        encode_break(L, inner, depth + 1, i == 1 ? "[" : (inner->indent ? "," : ", "), count);
        lua_rawgeti(L, table, i);
        encode_value(L, lua_gettop(L), inner, depth + 1, count);
        lua_pop(L, 1);
    }
    encode_break(L, inner, depth, n ? "" : "[", count);
    lua_pushliteral(L, "]");
    add_piece(L, count);
}

static void encode_object(lua_State *L, int table, struct writer *writer, int depth,
                          lua_Integer *count)
{
    lua_Integer n = push_sorted_keys(L, table);
    int keys = lua_gettop(L);
    if (n == 0) {
        lua_pushliteral(L, "{}");
        add_piece(L, count);
        lua_pop(L, 1);
        return;
    }
    for (lua_Integer i = 1; i <= n; i++) {
        encode_break(L, writer, depth + 1, i == 1 ? "{" : (writer->indent ? "," : ", "), count);
        lua_rawgeti(L, keys, i); /* keys … key */
        size_t length;
        const char *key = lua_tolstring(L, -1, &length);
        luaL_buffinit(L, &writer->out);
        add_string(&writer->out, key, length);
        luaL_addstring(&writer->out, ": ");
        luaL_pushresult(&writer->out);
        add_piece(L, count);
        lua_rawget(L, table); /* the key becomes its value */
        encode_value(L, lua_gettop(L), writer, depth + 1, count);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    encode_break(L, writer, depth, "", count);
    lua_pushliteral(L, "}");
    add_piece(L, count);
}

/* nil and the null of JSON, booleans, strings, numbers */
static bool is_scalar(lua_State *L, int value)
{
    switch (lua_type(L, value)) {
    case LUA_TNIL:
    case LUA_TBOOLEAN:
    case LUA_TSTRING:
    case LUA_TNUMBER: return true;
    default: return lua_islightuserdata(L, value) && !lua_touserdata(L, value);
    }
}

static void encode_value(lua_State *L, int value, struct writer *writer, int depth,
                         lua_Integer *count)
{
    luaL_checkstack(L, 16, NULL);
    size_t length;
    const char *text;
    if (lua_istable(L, value)) {
        if (depth >= COP_JSON_DEPTH) {
            luaL_error(L, "JSON: tables nested more than %d deep", COP_JSON_DEPTH);
        }
        if (is_list(L, value)) {
            encode_list(L, value, writer, depth, count);
        } else {
            encode_object(L, value, writer, depth, count);
        }
        return;
    }
    if (!is_scalar(L, value)) {
        luaL_error(L, "JSON: cannot write a %s", luaL_typename(L, value));
    }
    luaL_buffinit(L, &writer->out);
    switch (lua_type(L, value)) {
    case LUA_TBOOLEAN:
        luaL_addstring(&writer->out, lua_toboolean(L, value) ? "true" : "false");
        break;
    case LUA_TSTRING:
        text = lua_tolstring(L, value, &length);
        add_string(&writer->out, text, length);
        break;
    case LUA_TNUMBER:
        if (lua_isinteger(L, value)) {
            char digits[32];
            (void)snprintf(digits, sizeof digits, "%lld", (long long)lua_tointeger(L, value));
            luaL_addstring(&writer->out, digits);
        } else {
            add_number(&writer->out, lua_tonumber(L, value));
        }
        break;
    default: luaL_addstring(&writer->out, "null"); break;
    }
    luaL_pushresult(&writer->out);
    add_piece(L, count);
}

/* encode(value [, indent]) → text. Raises for what JSON cannot say. */
static int encode(lua_State *L)
{
    luaL_checkany(L, 1);
    struct writer writer = {.indent = (int)luaL_optinteger(L, 2, 0)};
    lua_Integer count = 0;
    lua_settop(L, 1);
    lua_newtable(L);
    encode_value(L, 1, &writer, 0, &count);
    luaL_buffinit(L, &writer.out);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, 2, i);
        luaL_addvalue(&writer.out);
    }
    luaL_pushresult(&writer.out);
    return 1;
}

/* list(table) → the same table, marked as a list */
static int mark_list(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    luaL_setmetatable(L, COP_LUA_LIST);
    return 1;
}

void cop_lua_open_json(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"decode", decode}, {"encode", encode}, {"list", mark_list}, {NULL, NULL}};
    luaL_newmetatable(L, COP_LUA_LIST);
    lua_pop(L, 1);
    luaL_newlib(L, functions);
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");
    lua_setfield(L, -2, "json");
}
