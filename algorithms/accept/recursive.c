/* Recursive rejection sampling: the children of a node are tried in draw order, each against
 * what the earlier ones left of the target row.
 *
 * With P_1 = target and q_j the law of the j-th child: keep it with probability min(1, P_j(x) /
 * q_j(x)), else P_{j+1} = norm((P_j - q_j)+); after the last child draw from what is left. With
 * replacement q_j is the child's draft row. Without (also in a merged tree, where equal draws
 * became one node and the others are a sample without replacement of random width) it is the
 * row without the tokens of the earlier children, normalised.
 *
 * No row is ever stored (surplus.h). With u_j the residual before normalising and S_j its sum
 * (u_1 = target, S_1 = 1), u_{j+1} = (u_j - S_j q_j)+ stays of the form (target - sum of scale
 * * draft row)+: a child adds S_j to the scale of its row, without replacement S_j over the
 * row's mass outside the earlier tokens. Those tokens need no exception: each was rejected, so
 * nothing is left at it, or the draft row has it at 0 and it keeps the target's mass. */
#include "algorithms/accept/levels.h"
#include "algorithms/accept/surplus.h"

static enum cop_status decide(const void *state, const struct cop_verify_in *in, int32_t node,
                              struct cop_level_choice *choice, struct cop_error *err)
{
    (void)state;
    const struct cop_tree *tree = in->tree;
    bool replaces = tree->draw != COP_DRAW_WITHOUT_REPLACEMENT && tree->draw != COP_DRAW_BEAM &&
                    !tree->is_merged;
    struct cop_surplus_term terms[COP_TREE_LIMIT];
    struct cop_surplus rest = {
        .target = cop_rows_at(&in->target, node), .target_scale = 1, .terms = terms};
    cop_token tried[COP_TREE_LIMIT];
    int32_t n_tried = 0;
    for (int32_t child = node; (child = cop_level_next(tree, node, child)) > 0;) {
        const struct cop_row *draft = cop_rows_at(&in->draft, child);
        if (!draft) {
            return cop_fail(err, COP_ERR_ARGUMENT, "accept.recursive needs every draft row");
        }
        cop_token token = tree->token[child];
        if (!replaces && cop_tree_find(tree, node, token) != child) {
            continue; /* a twin, which no draw without replacement gives */
        }
        struct cop_weights weights = cop_surplus_weights(&rest);
        double mass = n_tried > 0 ? cop_weights_sum(&weights) : 1;
        double left = replaces ? 1 : cop_level_mass_without(draft, tried, n_tried);
        double law = left > 0 ? cop_row_probability(draft, token) / left : 0;
        double keep = law > 0 && mass > 0 ? cop_surplus_at(&rest, token) / (mass * law) : 0;
        if (cop_flip(in->draws, cop_purpose("accept"), tree->key[child], keep)) {
            choice->child = child;
            return COP_OK;
        }
        (void)cop_surplus_subtract(&rest, draft, left > 0 ? mass / left : 0);
        tried[n_tried++] = token;
    }
    struct cop_weights weights = cop_surplus_weights(&rest);
    choice->token = cop_pick_else(in->draws, cop_purpose("recover"), tree->key[node], &weights,
                                  rest.target);
    return COP_OK;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    return cop_levels_walk(decide, state, in, out, err);
}

static const struct cop_claim claims[] = {{COP_DRAW_WITHOUT_REPLACEMENT, COP_SHAPE_TREE, false},
                                          {COP_DRAW_INDEPENDENT, COP_SHAPE_TREE, false},
                                          {COP_DRAW_BEAM, COP_SHAPE_TREE, false},
                                          {.draw = COP_DRAW_AUTO}};

const struct cop_rule_ops cop_accept_recursive = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "recursive",
             .help = "tries the children in draw order: keeps one with probability min(1, P / "
                     "q), else P becomes norm((P - q)+), from P = target on; q is the law of "
                     "that draw: the draft row, without replacement (and in a merged tree) "
                     "less the earlier children",
             .source = "Miao et al. 2023, arXiv:2305.09781 (with replacement); Jeon et al. "
                       "2024, arXiv:2402.14160, and Chen et al. 2024, arXiv:2402.12374 "
                       "(without)",
             .synonyms = "RRS, RRSw, SpecInfer, multi-step speculative sampling, RSD, Sequoia, "
                         "MCSD, multi-round rejection"},
    .lossless_for = claims,
    .needs_draft_rows = true,
    .verify = verify,
    .follows_luck = true,
    .several_rows = true,
    .cost = "1 per rejected child",
};
