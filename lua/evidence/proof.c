/* The check of rules (core/proof) for our own scripts: what a rule claims, and one claimed pair
 * enumerated over many cases. */
#include "lua/evidence/evidence.h"

#include "core/proof/check.h"
#include "core/proof/chi_square.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PAIRS = 64, CASES = 1000000 };

static void set_pair(lua_State *L, const struct cop_proof_pair *pair)
{
    lua_createtable(L, 0, 12);
    cop_lua_set_string(L, "draw", cop_draw_name(pair->kind.draw));
    cop_lua_set_string(L, "shape", cop_shape_name(pair->kind.shape));
    cop_lua_set_boolean(L, "zero_only", pair->kind.zero_only);
}

/* core.rule(rule) → { pairs = { { draw =, shape =, zero_only = }, … }, promise =, cost = } */
static int rule_facts(lua_State *L)
{
    const struct cop_part *part = cop_lua_check_part(L, 1, COP_PLUG_RULE);
    const struct cop_rule_ops *rule = (const struct cop_rule_ops *)(const void *)part->plug;
    struct cop_proof_pair pairs[PAIRS];
    int32_t n = cop_proof_pairs(rule, pairs, PAIRS);
    lua_createtable(L, 0, 3);
    lua_createtable(L, n, 0);
    for (int32_t i = 0; i < n; i++) {
        set_pair(L, &pairs[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "pairs");
    cop_lua_set_string(L, "promise", rule->promise);
    cop_lua_set_string(L, "cost", rule->cost);
    return 1;
}

/* A rule written in Lua belongs to one thread. */
static int32_t threads_for(lua_State *L, int index)
{
    const struct cop_lua_part *box = lua_touserdata(L, index);
    long n = box->owned ? 1 : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > 64 ? 64 : (int32_t)n;
}

static void set_if_number(lua_State *L, const char *key, double value)
{
    if (!isnan(value)) {
        cop_lua_set_number(L, key, value);
    }
}

static int push_checked(lua_State *L, const struct cop_proof_pair *pair)
{
    set_pair(L, pair);
    cop_lua_set_integer(L, "cases", pair->cases);
    cop_lua_set_integer(L, "weaker_at_zero", pair->weaker_at_zero);
    cop_lua_set_integer(L, "branches", pair->branches);
    cop_lua_set_number(L, "worst", pair->worst);
    cop_lua_set_string(L, "at", pair->at);
    cop_lua_set_string(L, "problem", pair->problem[0] ? pair->problem : NULL);
    cop_lua_set_boolean(L, "holds", cop_proof_holds(pair));
    cop_lua_set_number(L, "seconds", pair->seconds);
    set_if_number(L, "expected_accepted", pair->expected_accepted);
    set_if_number(L, "optimum", pair->optimum);
    set_if_number(L, "distance", pair->distance);
    return 1;
}

static int run(lua_State *L, const struct cop_proof_plan *plan, struct cop_proof_pair *pair,
               enum cop_status (*body)(const struct cop_proof_plan *, struct cop_proof_pair *,
                                       struct cop_error *))
{
    struct cop_lua_home *home = cop_lua_home(L);
    struct cop_lua_border border;
    struct cop_error err;
    cop_lua_enter(home, L, &border);
    enum cop_status status = body(plan, pair, &err);
    status = cop_lua_leave(home, &border, status, &err);
    return status == COP_OK ? push_checked(L, pair) : cop_lua_fail(L, &err);
}

/* core.check_pair(rule, i, cases, seed) → the i-th pair of core.rule, with cases =, branches =,
 * weaker_at_zero =, worst =, at =, problem =, holds =, seconds =, expected_accepted =, optimum
 * = */
static int check_pair(lua_State *L)
{
    struct cop_proof_plan plan = {.rule = cop_lua_check_part(L, 1, COP_PLUG_RULE),
                                  .registry = cop_lua_registry(L),
                                  .threads = threads_for(L, 1),
                                  .cancel = &cop_lua_interrupt};
    struct cop_proof_pair pairs[PAIRS];
    int32_t n = cop_proof_pairs((const struct cop_rule_ops *)(const void *)plan.rule->plug,
                                pairs, PAIRS);
    lua_Integer i = cop_lua_check_integer(L, 2, 1, n, "core.check_pair: the pair");
    plan.cases = (int32_t)cop_lua_check_integer(L, 3, 1, CASES, "cases");
    plan.seed = (uint64_t)luaL_checkinteger(L, 4);
    return run(L, &plan, &pairs[i - 1], cop_proof_run);
}

/* core.check_reference(rule, draw, shape) → the reference case alone: expected_accepted =,
 * distance = */
static int check_reference(lua_State *L)
{
    static const char *const shapes[] = {"chain", "paths", "tree", NULL};
    struct cop_proof_plan plan = {.rule = cop_lua_check_part(L, 1, COP_PLUG_RULE),
                                  .registry = cop_lua_registry(L),
                                  .threads = 1};
    struct cop_proof_pair pair = {.kind = {.draw = cop_draw_from_name(luaL_checkstring(L, 2))}};
    pair.kind.shape = (enum cop_shape)luaL_checkoption(L, 3, NULL, shapes);
    return run(L, &plan, &pair, cop_proof_reference);
}

/* chi_square_tail(statistic, dof) → probability of more than that, when the law is right. */
static int chi_square_tail(lua_State *L)
{
    int32_t dof = (int32_t)cop_lua_check_integer(L, 2, 1, INT32_MAX, "chi_square_tail: dof");
    lua_pushnumber(L, cop_chi_square_tail(luaL_checknumber(L, 1), dof));
    return 1;
}

void cop_evidence_open_proof(lua_State *L)
{
    static const luaL_Reg functions[] = {{"rule", rule_facts},
                                         {"check_pair", check_pair},
                                         {"check_reference", check_reference},
                                         {"chi_square_tail", chi_square_tail},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
