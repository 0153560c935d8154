/* Cactus: the drafted token's target probability is raised as far as a divergence budget
 * allows.
 *
 * The enlarged law h depends on what was drafted, so the budget bounds each h, and not the law
 * of the output. */
#include "algorithms/accept/relaxed/relaxed.h"
#include "kernels/ops.h"

#include <math.h>

enum solution { APPROXIMATE, EXACT };

struct cactus {
    double delta;
    int32_t solution;
};

static const struct cop_option options[] = {
    COP_A_NUMBER(cactus, delta, 0, 1000, 1,
                 "nats of KL(h || target); 0 is strict (0.75 and 1 in the paper)"),
    COP_A_CHOICE(cactus, solution, "approximate|exact",
                 "g = p + sqrt(2 delta p (1 - p)) as in the paper, or the root of KL = delta"),
    {0}};

/* KL between two coins, nats. */
static double coin_divergence(double g, double p)
{
    return g * cop_log(g / p) + (g < 1 ? (1 - g) * cop_log((1 - g) / (1 - p)) : 0);
}

static double exact_root(double p, double delta)
{
    if (coin_divergence(1, p) <= delta) {
        return 1;
    }
    double low = p, high = 1;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (coin_divergence(middle, p) > delta) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return low;
}

static double enlarge(const struct cactus *s, double p)
{
    if (!(p > 0) || p >= 1 || !(s->delta > 0)) {
        return p;
    }
    return s->solution == EXACT ? exact_root(p, s->delta)
                                : fmin(1, p + sqrt(2 * s->delta * p * (1 - p)));
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    const struct cop_tree *tree = in->tree;
    int32_t node = 0;
    for (int32_t child; (child = cop_next_child(tree, node, node)) > 0; node = child) {
        const struct cop_row *target = cop_rows_at(&in->target, node);
        const struct cop_row *draft = cop_rows_at(&in->draft, child);
        if (!draft) {
            return cop_fail(err, COP_ERR_ARGUMENT, "accept.cactus needs every draft row");
        }
        double p = cop_row_probability(target, tree->token[child]);
        double q = cop_row_probability(draft, tree->token[child]);
        double g = enlarge(state, p);
        double keep = q > 0 ? fmin(1, g / q) : 0;
        if (!cop_flip(in->draws, cop_purpose("accept"), tree->key[child], keep)) {
            /* h at the other tokens; at this one g < q, so nothing is left there. */
            double scale = p > 0 && p < 1 ? (1 - g) / (1 - p) : 1;
            struct cop_residual rest = {target, draft, .target_scale = scale, .draft_scale = 1};
            out->origin = COP_ORIGIN_RECOVERED;
            out->last =
                cop_pick_residual(in->draws, cop_purpose("recover"), tree->key[node], &rest);
            return COP_OK;
        }
        out->accepted[out->n_accepted++] = child;
    }
    out->origin = COP_ORIGIN_BONUS;
    cop_end_with_target(in, node, false, out);
    return COP_OK;
}

const struct cop_rule_ops cop_accept_cactus = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "cactus",
             .help =
                 "with p, q the drafted token's target and draft probability and g = min(1, "
                 "p + sqrt(2 delta p (1 - p))): keeps with probability min(1, g / q), else "
                 "draws from norm((h - draft)+), where h = g at the token and target (1 - "
                 "g) / (1 - p) elsewhere; the bonus token is the target's. At temperature "
                 "0: greedy",
             .source = "Hao, Mou 2026, arXiv:2604.04987, MANGA-UOFA/Cactus",
             .synonyms = "constrained acceptance speculative sampling",
             .state_size = sizeof(struct cactus),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_sampled_chain,
    .needs_draft_rows = true,
    .verify = verify,
    .cost = "1 at the refused node",
    .promise = "L4, none: measured only. delta bounds each enlarged law, which depends on the "
               "drafted token, and not the output",
};
