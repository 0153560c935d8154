/* Greedy match: follow the children that carry the target's best token. At temperature 0 that
 * is what plain decoding does, for any tree and however it was drawn. Above, the output is
 * still the greedy one, which is not the target's law: relaxed. */
#include "core/cycle/contract/rule.h"

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    (void)state;
    int32_t node = 0;
    for (;;) {
        if (cop_row_top(cop_rows_at(&in->target, node), 1, &out->last) < 1) {
            return cop_fail(err, COP_ERR_NUMERIC,
                            "a target row without a positive probability");
        }
        int32_t child = cop_tree_find(in->tree, node, out->last);
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

static const struct cop_claim claims[] = {{COP_DRAW_COUNT, COP_SHAPE_TREE, .zero_only = true},
                                          {.draw = COP_DRAW_AUTO}};

const struct cop_rule_ops cop_accept_match = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "match",
             .help = "keeps a drafted token when it is the target's most probable one (ties to "
                     "the lowest id); the last token is the most probable one after the path",
             .source = "Stern, Shazeer, Uszkoreit 2018, arXiv:1811.03115",
             .synonyms = "greedy verification, exact match"},
    .lossless_for = claims,
    .several_rows = true,
    .verify = verify,
};
