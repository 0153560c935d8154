/* Hierarchical speculative decoding, capped: the published equations and why they are block
 * verification's.
 *
 * With r(x_1..x_t) = target / draft of the whole prefix and r* = r / max(1, r of every shorter
 * prefix), the paper accepts, from the back and stopping at the first success,
 *
 *     h_n = min(1, r*(x_1..x_n))
 *     h_t = D*(target, draft | X) / D*(draft, target | X)            of X = x_1..x_t, t < n
 *     D*(target, draft | X) = sum_x (r*(X, x) - 1)+ draft(X, x)
 *     D*(draft, target | X) = sum_x (1 - r*(X, x))+ draft(X, x)
 *     the last token ~ (r*(X, x) - 1)+ draft(X, x)
 *
 * min(1, r*(x_1..x_t)) is block verification's w_t: a running product cut at 1 is the product
 * divided by its largest prefix above 1. A branch's r*(X, x) is w_t target(x) / draft(x), so
 * both D* divided by draft(X) are the sums of (w_t target - draft)+ and (draft - w_t target)+,
 * their difference is w_t - 1, and h_t and the last token's law are the same as well. What the
 * authors' code does instead, testing the last position by r in place of r*, is not lossless
 * (tests/algorithms/accept/test_accept_block.c measures it). */
#include "algorithms/accept/block.h"

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    (void)state;
    return cop_block_verify("hierarchical", in, out, err);
}

static const struct cop_claim claims[] = {{COP_DRAW_INDEPENDENT, COP_SHAPE_CHAIN, false},
                                          {.draw = COP_DRAW_AUTO}};

const struct cop_rule_ops cop_accept_hierarchical = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "hierarchical",
             .help = "keeps the longest prefix whose coin falls below D*(target, draft) / "
                     "D*(draft, target), the capped branch divergences below it, and the whole "
                     "draft by min(1, r*); equal in law to accept.block",
             .source = "Zhou et al. 2026, arXiv:2601.05724",
             .synonyms = "hierarchical speculative decoding, HSD"},
    .lossless_for = claims,
    .needs_draft_rows = true,
    .verify = verify,
    .cost = "1 at each drafted position from the back to the last kept one",
};
