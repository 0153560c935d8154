/* Additive tolerance: a constant is added to the ratio. */
#include "algorithms/accept/relaxed/relaxed.h"

struct additive {
    double epsilon;
    int32_t correction; /* enum cop_correction */
};

static const struct cop_option options[] = {
    COP_A_NUMBER(additive, epsilon, 0, 1, 0.1, "added to target / draft; 0 is strict"),
    COP_A_CHOICE(additive, correction, "strict|target|argmax",
                 "after a refusal: norm((target - draft)+), the target, or its best token"),
    {0}};

static double relax(const void *state, double ratio, double most)
{
    (void)most;
    return ratio + ((const struct additive *)state)->epsilon;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    const struct additive *s = state;
    const struct cop_tolerance tolerance = {.relax = relax,
                                            .correction = (enum cop_correction)s->correction};
    return cop_ratio_walk(&tolerance, state, "additive", in, out, err);
}

const struct cop_rule_ops cop_accept_additive = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "additive",
             .help = "keeps a drafted token with probability min(1, target / draft + epsilon); "
                     "after a refusal draws from norm((target - draft)+), the bonus token from "
                     "the target. Siblings are tried in turn as in recursive rejection, for "
                     "which no law is published. At temperature 0: keeps tokens whose plain "
                     "target probability over the largest, so relaxed, reaches 1.",
             .source = "as lossy speculative decoding in SecureSD, arXiv:2610.08678; the "
                       "default of epsilon is ours",
             .synonyms = "additive tolerance, lossy speculative decoding",
             .state_size = sizeof(struct additive),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_sampled_tree,
    .needs_draft_rows = true,
    .verify = verify,
    .cost = "1 at the refused node, and 1 per further sibling",
    .promise = "L4, none: measured only. On chains TV(target, output) is what acceptance gains "
               "over strict",
};
