/* Keeps what is near the target's best token: by a difference, in nats, or by a share. */
#include "algorithms/accept/relaxed/relaxed.h"

enum unit { PROBABILITY, LOG, RATIO };

struct margin {
    double margin;
    int32_t unit, correction;
};

static const struct cop_option options[] = {
    COP_A_NUMBER(margin, margin, 0, 1000, 0.1,
                 "distance from the best that is still kept; 0 is greedy; the default is ours"),
    COP_A_CHOICE(margin, unit, "probability|log|ratio",
                 "target >= most - margin; ln target >= ln most - margin; target >= (1 - "
                 "margin) most"),
    COP_BEST_OR_TARGET(margin),
    {0}};

static bool keeps(const void *state, const struct cop_look *look, cop_token token)
{
    const struct margin *s = state;
    const struct cop_reading *row = &look->reading;
    if (s->unit == LOG) {
        return cop_reading_logit(row, look->best) - cop_reading_logit(row, token) <= s->margin;
    }
    double most = cop_reading_probability(row, look->best);
    double bar = s->unit == RATIO ? (1 - s->margin) * most : most - s->margin;
    return cop_reading_probability(row, token) >= bar;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    const struct cop_set_rule set = {
        .keeps = keeps, .corrects_with_best = ((const struct margin *)state)->correction == 0};
    return cop_set_walk(&set, state, in, out, err);
}

const struct cop_rule_ops cop_accept_margin = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "margin",
             .help =
                 "keeps drafted tokens whose target probability is at least the largest less "
                 "a margin (plain row); the longest kept path; after a refusal the target's "
                 "best token, the bonus token is drawn from the target",
             .source =
                 "the set of Token-V2 in arXiv:2405.19261 (ratio: of Token-V3) without its "
                 "law",
             .synonyms = "probability margin, log margin",
             .state_size = sizeof(struct margin),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_any_tree,
    .verify = verify,
    .cost = "1 at each kept node that has children",
    .promise =
        "L3, a deterministic bound: every kept token is within the margin of the target's "
        "best",
};
