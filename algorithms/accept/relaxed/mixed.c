/* Mixture of the strict rule and of keeping everything. */
#include "algorithms/accept/relaxed/relaxed.h"

struct mixed {
    double eta;
    int32_t correction; /* enum cop_correction */
};

static const struct cop_option options[] = {
    COP_A_NUMBER(mixed, eta, 0, 1, 0.1,
                 "probability to keep without a test; 0 is strict, 1 keeps everything"),
    COP_A_CHOICE(mixed, correction, "strict|target|argmax",
                 "after a refusal: norm((target - draft)+), the target, or its best token"),
    {0}};

static double relax(const void *state, double ratio, double most)
{
    (void)state;
    (void)most;
    return ratio;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    const struct mixed *s = state;
    const struct cop_tolerance tolerance = {
        .relax = relax, .chance = s->eta, .correction = (enum cop_correction)s->correction};
    return cop_ratio_walk(&tolerance, state, "mixed", in, out, err);
}

const struct cop_rule_ops cop_accept_mixed = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "mixed",
             .help = "keeps a drafted token with probability (1 - eta) min(1, target / draft) "
                     "+ eta; after a refusal draws from norm((target - draft)+), the bonus "
                     "token from the target. Siblings are tried in turn as in recursive "
                     "rejection, for which no law is published. At temperature 0: keeps the "
                     "best token, others with probability eta",
             .source = "SecureSD, arXiv:2610.08678; the default of eta is ours",
             .synonyms = "SecureSD mixture, mixed acceptance, always accept (eta = 1)",
             .state_size = sizeof(struct mixed),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_sampled_tree,
    .needs_draft_rows = true,
    .verify = verify,
    .cost = "1 at the refused node, and 1 per further sibling",
    .promise = "L4, none: measured only. On chains TV(target, output) is what acceptance gains "
               "over strict",
};
