/* Token-level speculative sampling over a chain: keep each drafted token with probability
 * min(1, target_prob / draft_prob); at the first rejection draw from what the draft row lacks.
 */
#include "core/cycle/contract/rule.h"

#include <math.h>

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    (void)state; /* no options */
    const struct cop_tree *tree = in->tree;
    int32_t node = 0;
    for (int32_t child; (child = cop_tree_child(tree, node, 0)) > 0; node = child) {
        const struct cop_row *target = cop_rows_at(&in->target, node);
        const struct cop_row *draft = cop_rows_at(&in->draft, child);
        if (!draft) {
            return cop_fail(err, COP_ERR_ARGUMENT, "accept.token needs every draft row");
        }
        double p = cop_row_probability(target, tree->token[child]);
        double q = cop_row_probability(draft, tree->token[child]);
        /* What has q = 0 was not drawn from this row: reject. p = 0 is never kept (u >= 0). */
        double keep = q > 0 ? fmin(1, p / q) : 0;
        if (!cop_flip(in->draws, cop_purpose("accept"), tree->key[child], keep)) {
            struct cop_residual rest = {target, draft, .target_scale = 1, .draft_scale = 1};
            out->last =
                cop_pick_residual(in->draws, cop_purpose("recover"), tree->key[node], &rest);
            out->origin = COP_ORIGIN_RECOVERED;
            return COP_OK;
        }
        out->accepted[out->n_accepted++] = child;
    }
    struct cop_weights target = cop_row_weights(cop_rows_at(&in->target, node));
    out->last = cop_pick(in->draws, cop_purpose("bonus"), tree->key[node], &target);
    out->origin = COP_ORIGIN_BONUS;
    return COP_OK;
}

/* Siblings would each need a residual of their own, and a child that the context determines was
 * not drawn from its row: neither is claimed. */
static const struct cop_claim claims[] = {{COP_DRAW_INDEPENDENT, COP_SHAPE_CHAIN, false},
                                          {.draw = COP_DRAW_AUTO}};

const struct cop_rule_ops cop_accept_token = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "token",
             .help = "keeps a drafted token with probability min(1, target / draft); after a "
                     "rejection draws from norm((target - draft)+)",
             .source = "Leviathan, Kalman, Matias 2023, arXiv:2211.17192; Chen et al. 2023, "
                       "arXiv:2302.01318",
             .synonyms = "speculative sampling, rejection sampling, token verification"},
    .lossless_for = claims,
    .needs_draft_rows = true,
    .verify = verify,
};
