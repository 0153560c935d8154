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

/* ---- Matrices in Q8_0 -------------------------------------------------------------------- */

static UNUSED_FUNCTION struct cop_part *new_q8_0(const char *name, const char *path)
{
    struct cop_part *part = set_string(new_part(COP_PLUG_PROPOSER, name), "path", path);
    return ready(set_string(part, "weights", "q8_0"));
}

/* The law of the first two drafted tokens, [64, 64]; frees the part. */
static UNUSED_FUNCTION void law_of_two(struct cop_model *target, struct cop_part *proposer,
                                       double law[64][64])
{
    static const cop_token prompt[] = {3, 17, 40, 9, 22};
    static struct draft draft;
    int32_t vocab = cop_model_info(target)->vocab_size;
    cr_assert_lt(vocab, 64); /* so that the tree has room */
    struct cop_part *all = new_widths((int32_t[]){vocab, vocab}, 2);
    draft_once(&draft, proposer, all, target, prompt, 5, COP_DRAW_DETERMINISTIC, 0);
    memset(law, 0, 64 * sizeof *law);
    for (int32_t node = 1; node < draft.tree.size; node++) {
        int32_t parent = draft.tree.parent[node];
        if (parent > 0) {
            law[draft.tree.token[parent]][draft.tree.token[node]] =
                draft.probabilities[parent] * draft.probabilities[node];
        }
    }
    cop_tree_release(&draft.tree);
    cop_part_free(all);
    cop_part_free(proposer);
}

/* A weight moves by half a step at most, evenly, and a step is 1/127 of the largest of its
 * block: 0.4 % of a row's length where weights are even. An activation's step is up to an
 * eighth larger, which makes 0.5 %. So a product is off by 0.7 % of its length, the logits
 * behind two steps of six products each by 2.5 % of their spread, and the law, whose logits
 * spread by one to four, by half of the mean of that: 0.04. */
#define Q8_0_DISTANCE 0.04
static UNUSED_FUNCTION void expect_near_in_q8_0(struct cop_model *target, const char *name,
                                                const char *path)
{
    static double stored[64][64], quantised[64][64];
    double distance = 0;
    law_of_two(target, ready(set_string(new_part(COP_PLUG_PROPOSER, name), "path", path)),
               stored);
    law_of_two(target, new_q8_0(name, path), quantised);
    for (int32_t i = 0; i < 64; i++) {
        for (int32_t j = 0; j < 64; j++) {
            distance += fabs(stored[i][j] - quantised[i][j]) / 2;
        }
    }
    cr_expect(distance > 1e-5 && distance < Q8_0_DISTANCE, "%s: total variation %g", name,
              distance);
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
