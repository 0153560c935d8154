/* One draft outside an engine, and the drafts of a live answer against such fresh ones. */
#ifndef TESTS_ALGORITHMS_LIVE_DRAFTS_H
#define TESTS_ALGORITHMS_LIVE_DRAFTS_H

#include "tests/algorithms/engine/engine_bench.h"

/* ---- One draft --------------------------------------------------------------------------- */

struct draft {
    struct cop_tree tree;
    double probabilities[COP_TREE_LIMIT + 1], scores[COP_TREE_LIMIT + 1];
};

/* What the proposer drafts after ids[0..n); released by cop_tree_release(&draft->tree). */
static UNUSED_FUNCTION void draft_once(struct draft *draft, struct cop_part *proposer,
                                       struct cop_part *builder, struct cop_model *target,
                                       const cop_token *ids, int32_t n, enum cop_draw draw,
                                       double temperature)
{
    struct cop_error err = {0};
    struct cop_proposer_env env = {.target = target,
                                   .vocab_size = cop_model_info(target)->vocab_size,
                                   .context = cop_model_info(target)->context,
                                   .sampling = COP_SAMPLING_DEFAULT};
    env.sampling.temperature = temperature;
    cr_assert_eq(cop_tree_init(&draft->tree, COP_TREE_LIMIT + 1, &err), COP_OK);
    cr_assert_eq(cop_propose_once(proposer, builder, draw, &env, ids, n, 1, &draft->tree,
                                  draft->probabilities, draft->scores, NULL, &err),
                 COP_OK, "%s", err.text);
}

/* ---- In the engine ----------------------------------------------------------------------- */

struct watched {
    struct cop_part *twin, *builder;
    struct cop_model *target;
    cop_token text[800];
    int32_t n, n_accepted, n_compared;
};

/* What was drafted live is what is drafted after the committed text from a fresh start. */
static UNUSED_FUNCTION enum cop_status rebuild(void *user, const struct cop_cycle *cycle,
                                               struct cop_error *err)
{
    static struct draft fresh;
    struct watched *watched = user;
    (void)err;
    draft_once(&fresh, watched->twin, watched->builder, watched->target, watched->text,
               watched->n, COP_DRAW_DETERMINISTIC, 0);
    cr_assert_leq(cycle->tree->size, fresh.tree.size);
    for (int32_t node = 1; node < cycle->tree->size; node++) {
        cr_assert_eq(cycle->tree->token[node], fresh.tree.token[node], "cycle %d, node %d",
                     cycle->cycle, node);
        cr_assert_eq(cycle->draft_logprob[node], cop_log(fresh.probabilities[node]),
                     "cycle %d, node %d: %.17g and %.17g", cycle->cycle, node,
                     cycle->draft_logprob[node], cop_log(fresh.probabilities[node]));
        watched->n_compared++;
    }
    cop_tree_release(&fresh.tree);
    for (int32_t i = 0; i < cycle->n_accepted; i++) {
        watched->text[watched->n++] = cycle->tree->token[cycle->accepted[i]];
    }
    watched->text[watched->n++] = cycle->last;
    watched->n_accepted += cycle->n_accepted;
    return COP_OK;
}

static UNUSED_FUNCTION void ignore_result(void *user, struct cop_result *result)
{
    (void)user;
    cr_assert_eq(result->error.code, COP_OK, "%s", result->error.text);
    cop_result_release(result);
}

#endif
