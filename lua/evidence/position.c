/* core.position_law: how far the token of one position is from the target's, for rows of
 * models. */
#include "core/cycle/law/position_law.h"
#include "lua/evidence/evidence.h"

#include <math.h>
#include <stdlib.h>

#define OWNER "kl_to_target"

struct position_work {
    double *law, *values;
    float *logits[2];
    struct cop_row_arena *arena;
};

static void release(void *block)
{
    struct position_work *w = block;
    free(w->law);
    free(w->values);
    free(w->logits[0]);
    free(w->logits[1]);
    cop_row_arena_free(w->arena);
}

static void must(lua_State *L, enum cop_status status, const struct cop_error *err)
{
    if (status != COP_OK) {
        cop_lua_raise(L, "%s", err->text);
    }
}

static void read_logits(lua_State *L, int index, int32_t vocab, struct position_work *w,
                        int side, const struct cop_sampling *sampling, struct cop_row *row)
{
    struct cop_error err;
    cop_lua_read_row(L, index, vocab, OWNER ": a row", w->values);
    for (int32_t i = 0; i < vocab; i++) {
        w->logits[side][i] = (float)w->values[i];
    }
    must(L, cop_row_from_logits(row, w->logits[side], vocab, sampling, w->arena, &err), &err);
    must(L, cop_row_normalise(row, w->arena, &err), &err);
}

static struct cop_sampling sampling_at(lua_State *L, int index)
{
    struct cop_sampling sampling = COP_SAMPLING_DEFAULT;
    lua_getfield(L, index, "temperature");
    lua_getfield(L, index, "top_k");
    lua_getfield(L, index, "top_p");
    lua_getfield(L, index, "min_p");
    sampling.temperature = luaL_checknumber(L, -4);
    sampling.top_k = (int32_t)luaL_optinteger(L, -3, 0);
    sampling.top_p = luaL_optnumber(L, -2, 1);
    sampling.min_p = luaL_optnumber(L, -1, 0);
    lua_pop(L, 4);
    return sampling;
}

/* Distances of law from the target; kl is KL(law || target). */
static void push_distances(lua_State *L, const struct cop_row *target,
                           const struct cop_row *draft, const double *law,
                           const struct cop_position_law *found)
{
    double kl = 0, distance = 0, strict = 0;
    for (int32_t token = 0; token < target->vocab; token++) {
        double wanted = cop_row_probability(target, token);
        double offered = cop_row_probability(draft, token);
        kl += law[token] > 0 ? law[token] * log(law[token] / wanted) : 0;
        distance += fabs(law[token] - wanted) / 2;
        strict += wanted < offered ? wanted : offered;
    }
    lua_createtable(L, 0, 5);
    cop_lua_set_number(L, "kl", kl > 0 ? kl : 0);
    cop_lua_set_number(L, "total_variation", distance);
    cop_lua_set_number(L, "acceptance", found->acceptance);
    cop_lua_set_number(L, "strict", strict);
    cop_lua_set_number(L, "left_out", found->left_out);
}

/* position_law(rule, target row, draft row, { temperature =, top_k =, top_p =, min_p = }, draw,
 * floor) → { kl =, total_variation =, acceptance =, strict =, left_out = } */
static int position_law(lua_State *L)
{
    struct cop_row target, draft;
    struct cop_error err;
    lua_settop(L, 6);
    const struct cop_part *rule = cop_lua_check_part(L, 1, COP_PLUG_RULE);
    int32_t vocab = cop_lua_row_size(L, 2, OWNER ": the target's row");
    struct cop_sampling sampling = sampling_at(L, 4);
    struct position_work *w = cop_lua_guard(L, sizeof *w, release);
    size_t n = (size_t)vocab;
    w->law = malloc(n * sizeof *w->law);
    w->values = malloc(n * sizeof *w->values);
    w->logits[0] = malloc(n * sizeof **w->logits);
    w->logits[1] = malloc(n * sizeof **w->logits);
    w->arena = cop_row_arena_new();
    if (!w->law || !w->values || !w->logits[0] || !w->logits[1] || !w->arena) {
        return cop_lua_raise(L, OWNER ": no memory for rows of %d tokens", (int)vocab);
    }
    read_logits(L, 2, vocab, w, 0, &sampling, &target);
    read_logits(L, 3, vocab, w, 1, &sampling, &draft);
    struct cop_position position = {.rule =
                                        (const struct cop_rule_ops *)(const void *)rule->plug,
                                    .rule_state = rule->state,
                                    .target = &target,
                                    .draft = &draft,
                                    .draw = cop_draw_from_name(luaL_checkstring(L, 5)),
                                    .floor = luaL_checknumber(L, 6)};
    struct cop_position_law found;
    struct cop_lua_border border;
    struct cop_lua_home *home = cop_lua_home(L);
    cop_lua_enter(home, L, &border);
    enum cop_status status = cop_position_law(&position, w->law, &found, &err);
    status = cop_lua_leave(home, &border, status, &err);
    must(L, status, &err);
    push_distances(L, &target, &draft, w->law, &found);
    return 1;
}

/* Into the table `core` at the top. */
void cop_lua_open_position(lua_State *L)
{
    lua_pushcfunction(L, position_law);
    lua_setfield(L, -2, "position_law");
}
