/* core.run_rule: many short seeded answers of one rule on a model, tested against the target's
 * exact law (core/proof/runs.h). */
#include "lua/evidence/evidence.h"

#include "core/proof/runs.h"
#include <stdlib.h>

struct runs_options {
    void *rule, *proposer, *tree, *model, *tokens;
    int32_t draw, runs, batch, top_k, seed;
    bool relaxed;
};

#define RUNS_OBJECT(field, type_name, more, text)                                              \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_OBJECT,                                             \
        .offset = offsetof(struct runs_options, field), .choices = type_name, .flags = more,   \
        .help = text                                                                           \
    }
#define RUNS_INT(field, low, high, otherwise, text)                                            \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_INT,                                                \
        .offset = offsetof(struct runs_options, field), .min = low, .max = high,               \
        .fallback = otherwise, .help = text                                                    \
    }

static const struct cop_option runs_options[] = {
    RUNS_OBJECT(rule, "accept", COP_OPTION_REQUIRED, "the rule"),
    RUNS_OBJECT(proposer, "propose", COP_OPTION_REQUIRED, "what drafts"),
    RUNS_OBJECT(tree, "tree", COP_OPTION_REQUIRED, "the shape"),
    RUNS_OBJECT(model, "model", COP_OPTION_REQUIRED, "the target"),
    RUNS_OBJECT(tokens, "table", COP_OPTION_REQUIRED, "the prompt, token ids"),
    {.name = "draw",
     .type = COP_OPTION_CHOICE,
     .offset = offsetof(struct runs_options, draw),
     .choices = COP_EVIDENCE_DRAWS,
     .flags = COP_OPTION_ABSENT,
     .help = "how children are picked"},
    {.name = "relaxed",
     .type = COP_OPTION_BOOL,
     .offset = offsetof(struct runs_options, relaxed),
     .help = "takes a pair that the rule does not claim"},
    RUNS_INT(runs, 1, 100000000, 2000, "answers of three tokens"),
    RUNS_INT(batch, 1, 256, 16, "answers served together"),
    RUNS_INT(top_k, 0, 1000000, 0, "truncation of the target's rows; 0: none"),
    RUNS_INT(seed, 0, 2147483647, 17, "of all coins"),
    {0}};

static void release_options(void *block)
{
    cop_option_release(runs_options, block);
}

static void release_ids(void *block)
{
    free(((struct cop_ids *)block)->items);
}

static void release_law(void *block)
{
    cop_runs_law_release(block);
}

static int push_result(lua_State *L, const struct cop_runs_result *result)
{
    lua_createtable(L, COP_RUNS_TOKENS, 4);
    for (int i = 0; i < COP_RUNS_TOKENS; i++) {
        lua_createtable(L, 0, 3);
        cop_lua_set_number(L, "statistic", result->position[i].statistic);
        cop_lua_set_integer(L, "dof", result->position[i].dof);
        cop_lua_set_number(L, "p", result->position[i].p);
        lua_rawseti(L, -2, i + 1);
    }
    cop_lua_set_number(L, "p", result->p);
    cop_lua_set_integer(L, "drafted", (lua_Integer)result->drafted);
    cop_lua_set_integer(L, "accepted", (lua_Integer)result->accepted);
    cop_lua_set_integer(L, "passes", (lua_Integer)result->passes);
    return 1;
}

/* → { { statistic =, dof =, p = } of each position, p = the smallest, drafted =, accepted =,
 * passes = }. Stack: 1 options, 2 their guard, 3 kept objects. */
static int run_rule(lua_State *L)
{
    static const char owner[] = "core.run_rule";
    cop_lua_one_table(L, owner);
    struct runs_options *how = cop_lua_guard(L, sizeof *how, release_options);
    cop_option_defaults(runs_options, how);
    lua_newtable(L);
    cop_lua_options(L, 1, runs_options, how, owner, 3);
    struct cop_ids *ids = cop_lua_guard(L, sizeof *ids, release_ids);
    lua_getfield(L, 3, "tokens");
    cop_lua_check_ids(L, -1, cop_model_info(how->model)->vocab_size, owner, ids);
    struct cop_engine_options engine = {
        .target = how->model,
        .proposer = how->proposer,
        .builder = how->tree,
        .rule = how->rule,
        .draw = cop_evidence_draw(how->draw, COP_DRAW_AUTO),
        .relaxed = how->relaxed,
        .sampling = {.temperature = 1, .top_k = how->top_k, .top_p = 1},
        .batch = how->batch,
        .registry = cop_lua_registry(L),
        .cancel = &cop_lua_interrupt};
    struct cop_runs runs = {.engine = &engine,
                            .prompt = ids->items,
                            .n_prompt = (int32_t)ids->count,
                            .n_runs = how->runs,
                            .seed = (uint64_t)how->seed};
    struct cop_runs_law *law = cop_lua_guard(L, sizeof *law, release_law);
    struct cop_runs_result result;
    struct cop_lua_home *home = cop_lua_home(L);
    struct cop_lua_border border;
    struct cop_error err;
    cop_lua_enter(home, L, &border);
    enum cop_status status =
        cop_runs_law_find(law, how->model, runs.prompt, runs.n_prompt, &engine.sampling, &err);
    if (status == COP_OK) {
        status = cop_runs_test(&result, &runs, law, &err);
    }
    status = cop_lua_leave(home, &border, status, &err);
    return status == COP_OK ? push_result(L, &result) : cop_lua_fail(L, &err);
}

void cop_evidence_open_runs(lua_State *L)
{
    lua_pushcfunction(L, run_rule);
    lua_setfield(L, -2, "run_rule");
}
