/* Typical acceptance: what the target finds not too unlikely, given how unsure it is. */
#include "algorithms/accept/relaxed/relaxed.h"
#include "kernels/ops.h"

#include <math.h>

struct typical {
    double epsilon, delta;
    int32_t correction;
};

static const struct cop_option options[] = {
    COP_A_NUMBER(typical, epsilon, 0, 1, 0.09,
                 "largest threshold (posterior_threshold in Medusa and vLLM)"),
    COP_A_NUMBER(typical, delta, 0, 1000, 0.3,
                 "threshold at entropy 0 (posterior_alpha; the paper: sqrt of epsilon)"),
    COP_BEST_OR_TARGET(typical),
    {0}};

static double limit_of(const struct typical *s, double entropy)
{
    return fmin(s->epsilon, s->delta * cop_exp(-entropy));
}

/* The limit up to a factor of 1 + 2 COP_NEAR. */
static void look(const void *state, struct cop_look *look)
{
    look->limit = limit_of(state, cop_reading_entropy_near(&look->reading, COP_TYPICAL_GUARD));
}

static bool keeps(const void *state, const struct cop_look *look, cop_token token)
{
    double target = cop_reading_probability(&look->reading, token), limit = look->limit;
    if (fabs(target - limit) <= 2 * COP_NEAR * limit) {
        limit = limit_of(state, cop_reading_entropy(&look->reading, COP_TYPICAL_GUARD));
    }
    return target > limit;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    const struct cop_set_rule set = {.reads_as_is = true,
                                     .look = look,
                                     .keeps = keeps,
                                     .corrects_with_best =
                                         ((const struct typical *)state)->correction == 0};
    return cop_set_walk(&set, state, in, out, err);
}

const struct cop_rule_ops cop_accept_typical = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "typical",
             .help =
                 "keeps drafted tokens with target > min(epsilon, delta exp(-H)), H = -sum "
                 "target ln(target + 1e-5) at the sampling temperature; the longest kept "
                 "path, ties by the sum of log target; after a refusal the target's best "
                 "token, the bonus token is drawn from the target. At temperature 0: greedy",
             .source = "Cai et al. 2024, arXiv:2401.10774 (Medusa)",
             .synonyms = "typical_acceptance_sampler (vLLM)",
             .state_size = sizeof(struct typical),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_any_tree,
    .verify = verify,
    .cost = "1 at each kept node that has children",
    .promise = "L4, none: measured only",
};
