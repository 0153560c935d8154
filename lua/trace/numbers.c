/* Numbers out of a trace: metrics, the time that a cost curve predicts, bootstrap intervals,
 * permutation tests. */
#include "core/trace/bootstrap.h"
#include "core/trace/metrics.h"
#include "core/trace/permutation.h"
#include "core/trace/predict.h"
#include "lua/home.h"
#include "lua/trace/trace.h"

#include <stdio.h>

static void push_counts(lua_State *L, const char *key, const int64_t *counts, int32_t depth)
{
    lua_createtable(L, depth, 1);
    for (int32_t d = 0; d <= depth; d++) {
        lua_pushinteger(L, counts[d]);
        lua_rawseti(L, -2, d); /* entry 0: all cycles */
    }
    lua_setfield(L, -2, key);
}

static void release_metrics(void *block)
{
    cop_metrics_release(block);
}

int cop_lua_trace_metrics(lua_State *L)
{
    struct cop_error err = {0};
    struct cop_trace *trace = cop_lua_check_trace(L);
    int64_t arm = luaL_checkinteger(L, 2);
    const char *category = luaL_optstring(L, 3, NULL);
    struct cop_metrics *m = cop_lua_guard(L, sizeof *m, release_metrics);
    if (cop_trace_metrics(trace, arm, category, m, &err) != COP_OK) {
        return cop_lua_fail(L, &err);
    }
    lua_createtable(L, 0, 24);
    cop_lua_set_integer(L, "requests", m->requests);
    cop_lua_set_integer(L, "failed", m->failed);
    cop_lua_set_integer(L, "tokens", m->tokens);
    cop_lua_set_integer(L, "forward_passes", m->forward_passes);
    cop_lua_set_integer(L, "drafted", m->drafted);
    cop_lua_set_integer(L, "accepted", m->accepted);
    cop_lua_set_integer(L, "progress", m->progress);
    cop_lua_set_integer(L, "drafting_cycles", m->drafting_cycles);
    cop_lua_set_integer(L, "kv_bytes_moved", m->kv_bytes_moved);
    cop_lua_set_number(L, "decode_seconds", m->decode_seconds);
    cop_lua_set_number(L, "draft_seconds", m->draft_seconds);
    cop_lua_set_number(L, "score_seconds", m->score_seconds);
    cop_lua_set_number(L, "host_seconds", m->host_seconds);
    cop_lua_set_number(L, "lua_seconds", m->lua_seconds);
    cop_lua_set_number(L, "prefill_seconds", m->prefill_seconds);
    cop_lua_set_integer(L, "peak_pages", m->peak_pages);
    cop_lua_set_integer(L, "depth", m->depth);
    char hex[17];
    (void)snprintf(hex, sizeof hex, "%016llx", (unsigned long long)m->fingerprint);
    cop_lua_set_string(L, "fingerprint", hex);
    push_counts(L, "reached", m->reached, m->depth);
    push_counts(L, "tested", m->tested, m->depth);
    return 1;
}

/* ---- Prediction and intervals ---------------------------------------------------------------
 */

#define MAX_CURVE 64

struct curve {
    int32_t nodes[MAX_CURVE], contexts[MAX_CURVE];
    double seconds[MAX_CURVE * MAX_CURVE];
    struct cop_cost_curve view;
};

static void read_numbers(lua_State *L, int table, const char *key, int32_t *out, int32_t *count)
{
    lua_getfield(L, table, key);
    luaL_argcheck(L, lua_istable(L, -1), table, "a curve has nodes, contexts and seconds");
    lua_Unsigned n = lua_rawlen(L, -1);
    luaL_argcheck(L, n >= 1 && n <= MAX_CURVE, table, "a curve has 1 to 64 points a side");
    for (lua_Unsigned i = 0; i < n; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        out[i] = (int32_t)luaL_checkinteger(L, -1);
        luaL_argcheck(L, i == 0 || out[i] > out[i - 1], table, "points must ascend");
        lua_pop(L, 1);
    }
    *count = (int32_t)n;
    lua_pop(L, 1);
}

/* { nodes = {…}, contexts = {…}, seconds = { row of contexts[1], … } }, seconds flat */
static void read_curve(lua_State *L, int table, struct curve *curve)
{
    luaL_checktype(L, table, LUA_TTABLE);
    read_numbers(L, table, "nodes", curve->nodes, &curve->view.n_nodes);
    read_numbers(L, table, "contexts", curve->contexts, &curve->view.n_contexts);
    int32_t n = curve->view.n_nodes * curve->view.n_contexts;
    lua_getfield(L, table, "seconds");
    luaL_argcheck(L, lua_istable(L, -1) && lua_rawlen(L, -1) == (lua_Unsigned)n, table,
                  "a curve has nodes x contexts seconds");
    for (int32_t i = 0; i < n; i++) {
        lua_rawgeti(L, -1, i + 1);
        curve->seconds[i] = luaL_checknumber(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    curve->view.nodes = curve->nodes;
    curve->view.contexts = curve->contexts;
    curve->view.seconds = curve->seconds;
}

const struct cop_cost_curve *cop_lua_read_curve(lua_State *L, int index)
{
    struct curve *curve = lua_newuserdatauv(L, sizeof *curve, 0);
    read_curve(L, index, curve);
    return &curve->view;
}

int cop_lua_trace_predict(lua_State *L)
{
    struct cop_error err = {0};
    double seconds = 0;
    struct cop_trace *trace = cop_lua_check_trace(L);
    int64_t arm = luaL_checkinteger(L, 2);
    const struct cop_cost_curve *curve = cop_lua_read_curve(L, 3);
    if (cop_trace_predict(trace, arm, curve, &seconds, &err) != COP_OK) {
        return cop_lua_fail(L, &err);
    }
    lua_pushnumber(L, seconds);
    return 1;
}

/* Pushes a userdata that holds the column of the table at `key`; NULL and nil when absent. */
static double *push_column(lua_State *L, int table, const char *key, int32_t *n)
{
    double *column = NULL;
    if (lua_getfield(L, table, key) == LUA_TTABLE) {
        lua_Unsigned count = lua_rawlen(L, -1);
        luaL_argcheck(L, count <= INT32_MAX && (*n < 0 || (lua_Unsigned)*n == count), table,
                      "all columns must have one length");
        *n = (int32_t)count;
        column = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *column, 0);
        for (lua_Unsigned i = 0; i < count; i++) {
            lua_rawgeti(L, -2, (lua_Integer)i + 1);
            column[i] = luaL_checknumber(L, -1);
            lua_pop(L, 1);
        }
    }
    return column; /* what was pushed stays until the function returns */
}

int cop_lua_bootstrap(lua_State *L)
{
    struct cop_error err = {0};
    struct cop_interval out;
    int32_t n = -1;
    luaL_checktype(L, 1, LUA_TTABLE);
    struct cop_bootstrap of = {0};
    lua_getfield(L, 1, "resamples");
    of.resamples = (int32_t)lua_tointeger(L, -1);
    lua_getfield(L, 1, "level");
    of.level = lua_tonumber(L, -1);
    lua_getfield(L, 1, "seed");
    of.seed = (uint64_t)lua_tointeger(L, -1);
    of.a = push_column(L, 1, "a", &n);
    of.b = push_column(L, 1, "b", &n);
    of.c = push_column(L, 1, "c", &n);
    of.d = push_column(L, 1, "d", &n);
    of.n = n < 0 ? 0 : n;
    if (cop_bootstrap_interval(&of, &out, &err) != COP_OK) {
        return cop_lua_error(L, &err);
    }
    lua_pushnumber(L, out.value);
    lua_pushnumber(L, out.low);
    lua_pushnumber(L, out.high);
    return 3;
}

/* sign_flip { a =, patterns =, level =, seed = } → value, p, is_exact, low, high (nil, nil:
 * none) */
int cop_lua_sign_flip(lua_State *L)
{
    struct cop_error err = {0};
    struct cop_permutation_result out;
    int32_t n = -1;
    luaL_checktype(L, 1, LUA_TTABLE);
    struct cop_permutation of = {0};
    lua_getfield(L, 1, "patterns");
    of.patterns = (int32_t)lua_tointeger(L, -1);
    lua_getfield(L, 1, "level");
    of.level = lua_tonumber(L, -1);
    lua_getfield(L, 1, "seed");
    of.seed = (uint64_t)lua_tointeger(L, -1);
    of.differences = push_column(L, 1, "a", &n);
    of.n = n < 0 ? 0 : n;
    if (cop_permutation_test(&of, &out, &err) != COP_OK) {
        return cop_lua_error(L, &err);
    }
    lua_pushnumber(L, out.value);
    lua_pushnumber(L, out.p);
    lua_pushboolean(L, out.is_exact);
    if (!out.has_interval) {
        return 3;
    }
    lua_pushnumber(L, out.low);
    lua_pushnumber(L, out.high);
    return 5;
}
