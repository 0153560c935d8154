/* core.system.sandbox: one program run by one means; which means serves is decided in
 * lua/scripts/quality/sandbox.lua. */
#include "core/sandbox/sandbox.h"
#include "lua/home.h"
#include "lua/system/system.h"

/* find(name) → absolute path of an interpreter | nil, message, code */
static int find(lua_State *L)
{
    char path[PATH_MAX];
    struct cop_error err = {0};
    if (cop_sandbox_interpreter(luaL_checkstring(L, 1), path, &err) != COP_OK) {
        return cop_lua_fail(L, &err);
    }
    lua_pushstring(L, path);
    return 1;
}

static void release(void *block)
{
    cop_sandbox_release(block);
}

static void push_text(lua_State *L, const char *key, const struct cop_sandbox_text *text)
{
    lua_pushlstring(L, text->bytes ? text->bytes : "", text->length);
    lua_setfield(L, -2, key);
}

static void push_result(lua_State *L, const struct cop_sandbox_result *result)
{
    static const char *const ends[] = {"exit", "signal", "timeout", "output"};
    lua_createtable(L, 0, 6);
    cop_lua_set_string(L, "finish", ends[result->end]);
    if (result->end == COP_SANDBOX_EXIT || result->end == COP_SANDBOX_SIGNAL) {
        cop_lua_set_integer(L, result->end == COP_SANDBOX_EXIT ? "status" : "signal",
                            result->code);
    }
    cop_lua_set_number(L, "seconds", result->seconds);
    push_text(L, "stdout", &result->out);
    push_text(L, "stderr", &result->err);
}

/* run(means, interpreter, program, seconds, memory, output) → { finish =, … } | nil, message,
 * code
 */
static int run(lua_State *L)
{
    struct cop_sandbox_job job = {0};
    struct cop_error err = {0};
    int means = luaL_checkoption(L, 1, NULL, cop_sandbox_names);
    job.interpreter = luaL_checkstring(L, 2);
    job.program = luaL_checklstring(L, 3, &job.length);
    job.seconds = luaL_checknumber(L, 4);
    job.memory_bytes = luaL_checkinteger(L, 5);
    job.output_bytes = luaL_checkinteger(L, 6);
    struct cop_sandbox_result *result = cop_lua_guard(L, sizeof *result, release);
    if (cop_sandbox_run((enum cop_sandbox_means)means, &job, result, &err) != COP_OK) {
        return cop_lua_fail(L, &err);
    }
    push_result(L, result);
    return 1;
}

/* means: their names, in the order in which they are tried */
void cop_lua_open_sandbox(lua_State *L)
{
    static const luaL_Reg functions[] = {{"find", find}, {"run", run}, {NULL, NULL}};
    luaL_newlib(L, functions);
    lua_createtable(L, COP_SANDBOX_N_MEANS, 0);
    for (int means = 0; means < COP_SANDBOX_N_MEANS; means++) {
        lua_pushstring(L, cop_sandbox_names[means]);
        lua_rawseti(L, -2, means + 1);
    }
    lua_setfield(L, -2, "means");
    lua_setfield(L, -2, "sandbox");
}
