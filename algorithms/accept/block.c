/* Block verification: the drafted chain is accepted as a whole prefix, not token by token.
 *
 *     w_0 = 1,  w_i = min(1, w_{i-1} target(x_i) / draft(x_i))
 *     keep i tokens with probability h_i, the longest first:
 *         h_n = w_n,  h_i = above / (above + 1 - w_i),  above = sum (w_i target - draft)+
 *     the last token ~ (w_i target - draft)+ after i < n tokens, ~ target after all n
 *
 * No rule that keeps a prefix and adds one token accepts more on average. The coins of all
 * prefixes are independent and the longest success counts, so the scan goes from the back and
 * never asks for the coins before it; stopping at the first failure from the front would be
 * wrong. w stays in [0, 1], a product of ratios that is cut at 1: its rounding does not build
 * up. (It may underflow to 0; to come back from there the ratios would have to exceed 1e300
 * together, which a chain drawn from the draft does with probability below 1e-300.) A chain
 * that ends early is as good: its end may depend on the tokens in it. */
#include "algorithms/accept/block.h"
#include "algorithms/accept/levels.h"

#include <math.h>

/* Writes the chain to out->accepted and w_i to weights[i]; n nodes or -1: a row is missing. */
static int32_t weigh(const struct cop_verify_in *in, struct cop_verdict *out, double *weights)
{
    const struct cop_tree *tree = in->tree;
    int32_t n = 0, node = 0;
    weights[0] = 1;
    for (int32_t child; (child = cop_level_next(tree, node, node)) > 0; node = child) {
        const struct cop_row *draft = cop_rows_at(&in->draft, child);
        if (!draft) {
            return -1;
        }
        double p = cop_row_probability(cop_rows_at(&in->target, node), tree->token[child]);
        double q = cop_row_probability(draft, tree->token[child]);
        /* What has q = 0 was not drawn from this row: rejected, and all that follows. */
        weights[n + 1] = q > 0 && p > 0 ? fmin(1, weights[n] * (p / q)) : 0;
        out->accepted[n++] = child;
    }
    return n;
}

/* The coin of a prefix; the root's is always kept. */
static bool keeps(const struct cop_verify_in *in, int32_t node, double probability)
{
    return node == 0 ||
           cop_flip(in->draws, cop_purpose("accept"), in->tree->key[node], probability);
}

/* Whether all drafted tokens are kept; then draws the bonus token. */
static bool ends_at_leaf(const struct cop_verify_in *in, struct cop_verdict *out, int32_t node,
                         double weight)
{
    if (!keeps(in, node, weight)) {
        return false;
    }
    struct cop_weights target = cop_row_weights(cop_rows_at(&in->target, node));
    out->last = cop_pick(in->draws, cop_purpose("bonus"), in->tree->key[node], &target);
    out->origin = COP_ORIGIN_BONUS;
    return true;
}

/* Whether the prefix that ends at `node`, followed by `child`, is kept; then draws the last
 * token. Equal rows at weight 1 leave nothing above: the prefix is kept for sure, and so is the
 * next one, which was asked before. */
static bool ends_above(const struct cop_verify_in *in, struct cop_verdict *out, int32_t node,
                       int32_t child, double weight)
{
    struct cop_residual rest = {.target = cop_rows_at(&in->target, node),
                                .draft = cop_rows_at(&in->draft, child),
                                .target_scale = weight,
                                .draft_scale = 1};
    double keep = weight;
    if (weight > 0 && weight < 1) {
        struct cop_weights weights = cop_residual_weights(&rest);
        double above = cop_weights_sum(&weights);
        keep = above / (above + (1 - weight));
    }
    if (!keeps(in, node, keep)) {
        return false;
    }
    out->last =
        cop_pick_residual(in->draws, cop_purpose("recover"), in->tree->key[node], &rest);
    out->origin = COP_ORIGIN_RECOVERED;
    return true;
}

enum cop_status cop_block_verify(const char *name, const struct cop_verify_in *in,
                                 struct cop_verdict *out, struct cop_error *err)
{
    double weights[COP_TREE_LIMIT + 1];
    if (cop_rows_at(&in->target, 0)->kind == COP_ROW_ONE_HOT) { /* temperature 0 */
        return cop_accept_match.verify(NULL, in, out, err);
    }
    int32_t n = weigh(in, out, weights);
    if (n < 0) {
        return cop_fail(err, COP_ERR_ARGUMENT, "accept.%s needs every draft row", name);
    }
    for (int32_t i = n; i >= 0; i--) {
        int32_t node = i > 0 ? out->accepted[i - 1] : 0;
        out->n_accepted = i;
        if (i == n ? ends_at_leaf(in, out, node, weights[i])
                   : ends_above(in, out, node, out->accepted[i], weights[i])) {
            break;
        }
    }
    return COP_OK;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    (void)state;
    return cop_block_verify("block", in, out, err);
}

static const struct cop_claim claims[] = {{COP_DRAW_INDEPENDENT, COP_SHAPE_CHAIN, false},
                                          {.draw = COP_DRAW_AUTO}};

const struct cop_rule_ops cop_accept_block = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "block",
             .help =
                 "keeps the longest prefix of i tokens whose coin falls below h_i = A / (A + "
                 "1 - w_i), A = sum (w_i target - draft)+, w_i = min(1, w_{i-1} target / "
                 "draft), h_n = w_n; then draws from norm((w_i target - draft)+)",
             .source = "Sun et al. 2024, arXiv:2403.10444",
             .synonyms = "block verification, BV"},
    .lossless_for = claims,
    .needs_draft_rows = true,
    .verify = verify,
    .cost = "1 at each drafted position from the back to the last kept one",
};
