/* Sample and match: draw each token from the target as plain decoding would, and follow the
 * child that carries it. The drafted tokens only decide how far one pass reaches, never what
 * comes out, so it is lossless for every draw and shape and needs no draft rows. */
#include "core/cycle/contract/rule.h"

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    (void)state;
    (void)err;
    uint32_t purpose = cop_purpose("sample");
    int32_t node = 0;
    for (;;) {
        struct cop_weights weights = cop_row_weights(cop_rows_at(&in->target, node));
        out->last = cop_pick(in->draws, purpose, in->tree->key[node], &weights);
        int32_t child = out->last < 0 ? -1 : cop_tree_find(in->tree, node, out->last);
        if (child < 0) {
            break;
        }
        out->accepted[out->n_accepted++] = child;
        node = child;
    }
    out->origin =
        cop_tree_children(in->tree, node) > 0 ? COP_ORIGIN_RECOVERED : COP_ORIGIN_BONUS;
    return COP_OK;
}

/* Deterministic comes first, so it is the default draw where the proposer leaves a choice: a
 * set S of children is met with probability target(S), and for a draft close to the target the
 * best token alone has max p, where a sampled one has only the sum of p^2. */
static const struct cop_claim claims[] = {{COP_DRAW_DETERMINISTIC, COP_SHAPE_TREE, false},
                                          {COP_DRAW_COUNT, COP_SHAPE_TREE, false},
                                          {.draw = COP_DRAW_AUTO}};

const struct cop_rule_ops cop_accept_sample_match = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "sample_match",
             .help = "draws a token from the target at each node and follows the child that "
                     "carries it; accepts with probability sum of target over the children",
             .source = "Miao et al. 2023, arXiv:2305.09781 (their baseline)",
             .synonyms = "naive sampling, NSS, sample and look up"},
    .lossless_for = claims,
    .several_rows = true,
    .verify = verify,
};
