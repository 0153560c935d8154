/* EARS: a tolerance in proportion to how unsure the target is. */
#include "algorithms/accept/relaxed/relaxed.h"

struct ears {
    double beta;
    int32_t correction; /* enum cop_correction */
};

static const struct cop_option options[] = {
    COP_A_NUMBER(ears, beta, 0, 10, 0.3,
                 "tolerance per unit of 1 - max target; 0 is strict (0.3: the example of "
                 "vllm-ascend)"),
    COP_A_CHOICE(ears, correction, "strict|target|argmax",
                 "after a refusal: norm((target - draft)+), the target, or its best token"),
    {0}};

static double relax(const void *state, double ratio, double most)
{
    return ratio + ((const struct ears *)state)->beta * (1 - most);
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    const struct ears *s = state;
    const struct cop_tolerance tolerance = {.relax = relax,
                                            .correction = (enum cop_correction)s->correction};
    return cop_ratio_walk(&tolerance, state, "ears", in, out, err);
}

const struct cop_rule_ops cop_accept_ears = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "ears",
             .help = "keeps a drafted token with probability min(1, target / draft + beta (1 - "
                     "max target)); after a refusal draws from norm((target - draft)+), the "
                     "bonus token from the target. Siblings are tried in turn as in recursive "
                     "rejection, for which no law is published. At temperature 0: keeps tokens "
                     "whose plain target probability over the largest, so relaxed, reaches 1.",
             .source = "Efficient Adaptive Rejection Sampling, arXiv:2512.13194",
             .synonyms = "efficient adaptive rejection sampling, uncertainty tolerance",
             .state_size = sizeof(struct ears),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_sampled_tree,
    .needs_draft_rows = true,
    .verify = verify,
    .cost = "1 at the refused node, and 1 per further sibling",
    .promise = "L4, none: measured only. On chains TV(target, output) is what acceptance gains "
               "over strict",
};
