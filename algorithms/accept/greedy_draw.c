/* The verifier of greedy draft sampling: the children of a node are the best tokens of the
 * draft row, which the context determines, and last one sample of the others.
 *
 * Let r be the draft row without the best tokens, normalised. The sample x is kept with
 * probability min(1, target(x) / r(x)); after a rejection the token is drawn from norm((target
 * - r)+), where r is 0 at the best tokens, and one of those leads on to its child. So they are
 * accepted for free, and no rule accepts more of this draw: target(best) + sum of min(target,
 * r) outside. */
#include "algorithms/accept/levels.h"

/* (target - draft / left)+ outside the best tokens, the target itself at those. */
struct rest {
    struct cop_residual outside;
    const cop_token *best;
    int32_t n_best;
};

static void fill_rest(const void *context, int32_t first, int32_t count, double *out)
{
    const struct rest *rest = context;
    struct cop_weights outside = cop_residual_weights(&rest->outside);
    outside.fill(outside.context, first, count, out);
    for (int32_t i = 0; i < rest->n_best; i++) {
        int32_t at = rest->best[i] - first;
        if (at >= 0 && at < count) {
            out[at] = cop_row_probability(rest->outside.target, rest->best[i]);
        }
    }
}

static enum cop_status decide(const void *state, const struct cop_verify_in *in, int32_t node,
                              struct cop_level_choice *choice, struct cop_error *err)
{
    (void)state;
    const struct cop_tree *tree = in->tree;
    const struct cop_row *target = cop_rows_at(&in->target, node);
    cop_token best[COP_TREE_LIMIT];
    int32_t sample = cop_level_next(tree, node, node), n_best = 0;
    for (int32_t next; (next = cop_level_next(tree, node, sample)) > 0; sample = next) {
        best[n_best++] = tree->token[sample];
    }
    const struct cop_row *draft = cop_rows_at(&in->draft, sample);
    if (!draft) {
        return cop_fail(err, COP_ERR_ARGUMENT, "accept.greedy_draw needs every draft row");
    }
    double left = cop_level_mass_without(draft, best, n_best);
    double law = left > 0 ? cop_row_probability(draft, tree->token[sample]) / left : 0;
    double keep = law > 0 ? cop_row_probability(target, tree->token[sample]) / law : 0;
    if (cop_flip(in->draws, cop_purpose("accept"), tree->key[sample], keep)) {
        choice->child = sample;
        return COP_OK;
    }
    struct rest rest = {{target, draft, 1, left > 0 ? 1 / left : 0}, best, n_best};
    struct cop_weights weights = {.vocab = target->vocab, .fill = fill_rest, .context = &rest};
    choice->token =
        cop_pick_else(in->draws, cop_purpose("recover"), tree->key[node], &weights, target);
    return COP_OK;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    return cop_levels_walk(decide, state, in, out, err);
}

/* A chain has no best tokens, only a sample. */
static const struct cop_claim claims[] = {{COP_DRAW_GREEDY, COP_SHAPE_TREE, false},
                                          {COP_DRAW_INDEPENDENT, COP_SHAPE_CHAIN, false},
                                          {.draw = COP_DRAW_AUTO}};

const struct cop_rule_ops cop_accept_greedy_draw = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "greedy_draw",
             .help = "for the k - 1 best tokens and one sample of the rest, whose law is r: "
                     "keeps the sample with probability min(1, target / r), else draws from "
                     "norm((target - r)+) and follows a best token; accepts target(best) + sum "
                     "of min(target, r)",
             .source = "Hu et al. 2025, arXiv:2502.18779",
             .synonyms = "greedy draft sampling, greedy multi-draft"},
    .lossless_for = claims,
    .needs_draft_rows = true,
    .verify = verify,
    .follows_luck = true,
    .cost = "1 at a node whose sample was rejected",
};
