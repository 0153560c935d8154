/* luaopen_coppice: the table that require("coppice") returns.
 *
 * Functions written in C are entered by one open function per file; then the scripts of
 * lua/scripts run, each called with (cop, core). `core` holds what only our scripts use:
 *
 *     core.raise(text)                    raises at the line of the script that called us
 *     core.options(owner, given, spec)    strict option tables (spec.c)
 *     core.unknown(owner, word, name, known)   raises "unknown …; did you mean …?"
 *     core.type(value)                    "model", "tokenizer", "row", "engine", "propose",
 *                                         "tree", "accept", "length"; else Lua's type
 *     core.wrap(f)                        f as a C function: see below
 *     core.microseconds()                 time spent in a script's functions so far
 *     core.engine, core.engine_check      bind_engine.c
 *     core.parts, core.part, core.draws               bind_parts.c
 *     core.trace, core.system             bind_trace.c, bind_system.c
 *
 * Functions that our scripts leave in the module are wrapped in C functions: a script's
 * `return cop.experiment {…}` is a tail call, which would take away the frame whose line an
 * error has to name; calling a C function keeps it. */
#include "lua/home.h"

#include "algorithms/register.h"
#include "kernels/ops.h"
#include "lua/embed.h"
#include "lua/options/options.h"
#include <stdlib.h>
#include <string.h>

#define COP_VERSION "0.1.0"

static int after_forward(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    return lua_gettop(L);
}

static int forward(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, after_forward);
    return after_forward(L, LUA_OK, 0);
}

static int core_wrap(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 1);
    lua_pushcclosure(L, forward, 1);
    return 1;
}

/* Wraps the Lua functions of the table at the top, and of the tables in it. */
static void wrap_functions(lua_State *L, int depth)
{
    luaL_checkstack(L, 8, NULL);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_isfunction(L, -1) && !lua_iscfunction(L, -1)) {
            lua_pushvalue(L, -2);
            lua_pushvalue(L, -2);
            lua_pushcclosure(L, forward, 1);
            lua_rawset(L, -5); /* an existing key: the walk goes on */
        } else if (lua_istable(L, -1) && depth > 0) {
            wrap_functions(L, depth - 1);
        }
    }
}

static int core_raise(lua_State *L)
{
    return cop_lua_raise(L, "%s", luaL_checkstring(L, 1));
}

static int core_unknown(lua_State *L)
{
    luaL_checktype(L, 4, LUA_TTABLE);
    lua_settop(L, 4);
    size_t count = (size_t)lua_rawlen(L, 4);
    const char **known = lua_newuserdatauv(L, (count + 1) * sizeof *known, 0);
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(L, 4, (lua_Integer)i + 1);
        known[i] = luaL_checkstring(L, -1);
        lua_pop(L, 1);
    }
    return cop_lua_unknown(L, luaL_checkstring(L, 1), luaL_checkstring(L, 2),
                           luaL_checkstring(L, 3), known, count);
}

static int core_type(lua_State *L)
{
    static const char *const classes[][2] = {{COP_LUA_MODEL, "model"},
                                             {COP_LUA_TOKENIZER, "tokenizer"},
                                             {COP_LUA_ROW, "row"},
                                             {COP_LUA_VECTOR, "vector"},
                                             {COP_LUA_ENGINE, "engine"}};
    luaL_checkany(L, 1);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (luaL_testudata(L, 1, classes[i][0])) {
            lua_pushstring(L, classes[i][1]);
            return 1;
        }
    }
    for (int kind = 0; kind < COP_PLUG_KINDS; kind++) {
        if (luaL_testudata(L, 1, cop_lua_part_class((enum cop_plug_kind)kind))) {
            lua_pushstring(L, cop_plug_kind_name((enum cop_plug_kind)kind));
            return 1;
        }
    }
    lua_pushstring(L, luaL_typename(L, 1));
    return 1;
}

static int core_microseconds(lua_State *L)
{
    lua_pushnumber(L, *cop_lua_microseconds(L));
    return 1;
}

bool cop_embedded(const char *name, const char **bytes, size_t *length)
{
    for (const struct cop_embedded *script = cop_embedded_scripts; script->name; script++) {
        if (strcmp(script->name, name) == 0) {
            *bytes = script->bytes;
            *length = script->length;
            return true;
        }
    }
    return false;
}

/* In this order: a script may use what those before it have entered. */
static const char *const scripts[] = {
    "sampling",    "generate", "steps",      "judge",        "help",
    "args",        "dataset",  "statistics", "text_quality", "table",
    "experiment",  "study",    "cost",       "tune",         "search_paths",
    "datastore",   "ranking",  "check",      "stored_run",   "recipe",
    "rows",        "replay",   "traces",     "simulate",     "train",
    "certificate", NULL};

/* Module table at -2, core at -1. */
static void run_scripts(lua_State *L)
{
    for (const char *const *name = scripts; *name; name++) {
        const char *bytes;
        size_t length;
        if (!cop_embedded(*name, &bytes, &length)) {
            continue;
        }
        lua_pushfstring(L, COP_EMBEDDED_CHUNK "%s.lua", *name);
        if (luaL_loadbufferx(L, bytes, length, lua_tostring(L, -1), "t") != LUA_OK) {
            lua_error(L);
        }
        lua_remove(L, -2);
        lua_pushvalue(L, -3);
        lua_pushvalue(L, -3);
        lua_call(L, 2, 0);
    }
}

static void push_build(lua_State *L)
{
    lua_newtable(L);
    lua_createtable(L, 1, 0);
    lua_pushstring(L, cop_ops_cpu.name);
    lua_rawseti(L, -2, 1);
    lua_setfield(L, -2, "backends");
    cop_lua_set_string(L, "simd", cop_cpu_best_level());
    cop_lua_set_string(L, "compiler", __VERSION__);
#ifdef COP_DEBUG
    cop_lua_set_boolean(L, "debug", true);
#else
    cop_lua_set_boolean(L, "debug", false);
#endif
}

static const luaL_Reg core_functions[] = {
    {"raise", core_raise}, {"unknown", core_unknown},           {"type", core_type},
    {"wrap", core_wrap},   {"microseconds", core_microseconds}, {NULL, NULL}};

static void (*const open_functions[])(lua_State *L) = {
    cop_lua_open_rows,     cop_lua_open_recorded, cop_lua_open_tree,   cop_lua_open_tokenizer,
    cop_lua_open_model,    cop_lua_open_parts,    cop_lua_open_engine, cop_lua_open_law,
    cop_lua_open_position, cop_lua_open_trace,    cop_lua_open_train,  cop_lua_open_system,
    cop_lua_open_spec};

int luaopen_coppice(lua_State *L)
{
    luaL_checkversion(L);
    luaL_checkstack(L, 16, NULL);
    struct cop_registry *registry = cop_lua_registry(L);
    struct cop_error err = {0};
    if (registry->count == 0 && cop_register_all(registry, &err) != COP_OK) {
        return luaL_error(L, "coppice: %s", err.text);
    }
    lua_newtable(L); /* the module */
    cop_lua_set_string(L, "version", COP_VERSION);
    push_build(L);
    lua_setfield(L, -2, "build");
    luaL_newlib(L, core_functions); /* module core */
    for (size_t i = 0; i < sizeof open_functions / sizeof *open_functions; i++) {
        open_functions[i](L);
    }
    run_scripts(L);
    lua_pop(L, 1);
    wrap_functions(L, 1);
    return 1;
}
