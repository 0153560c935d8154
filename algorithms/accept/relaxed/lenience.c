/* Lenience: the draft counts only in part, so that more passes the ratio test. */
#include "algorithms/accept/relaxed/relaxed.h"

#include <math.h>

struct lenience {
    double factor;
    int32_t correction; /* enum cop_correction */
};

static const struct cop_option options[] = {
    COP_A_NUMBER(lenience, factor, 0, 1, 0.5,
                 "l of (0, 1]: 1 is strict, 0 keeps everything (Leviathan et al., A.5)"),
    COP_A_CHOICE(lenience, correction, "strict|target|argmax|scaled",
                 "after a refusal: norm((target - draft)+), the target, its best token, or "
                 "norm((target - l draft)+)"),
    {0}};

static double relax(const void *state, double ratio, double most)
{
    (void)most;
    double factor = ((const struct lenience *)state)->factor;
    return factor > 0 ? ratio / factor : HUGE_VAL;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    const struct lenience *s = state;
    const struct cop_tolerance tolerance = {
        .relax = relax, .correction = (enum cop_correction)s->correction, .scale = s->factor};
    return cop_ratio_walk(&tolerance, state, "lenience", in, out, err);
}

const struct cop_rule_ops cop_accept_lenience = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "lenience",
             .help = "keeps a drafted token with probability min(1, target / (l draft)); after "
                     "a refusal draws from norm((target - draft)+), the bonus token from the "
                     "target. Siblings are tried in turn as in recursive rejection, for which "
                     "no law is published. At temperature 0: keeps tokens with at least l "
                     "times the largest plain target probability",
             .source = "Leviathan, Kalman, Matias 2023, arXiv:2211.17192, appendix A.5",
             .synonyms = "lenient speculative decoding, lossy decoding, mentored with beta = 1 "
                         "(l = 1 - alpha)",
             .state_size = sizeof(struct lenience),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_sampled_tree,
    .needs_draft_rows = true,
    .verify = verify,
    .cost = "1 at the refused node, and 1 per further sibling",
    .promise = "L2, a one-sided bound: no drafted token comes out with more than target / l "
               "(corrections strict and scaled, on chains)",
};
