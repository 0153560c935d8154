/* Keeps what is among the target's k best. */
#include "algorithms/accept/relaxed/relaxed.h"

struct top_k {
    int32_t k, correction;
};

static const struct cop_option options[] = {
    COP_AN_INT(top_k, k, 1, 1000000, 5,
               "ranks that are kept; 1 is greedy (5: MANGA-UOFA/Cactus)"),
    COP_BEST_OR_TARGET(top_k),
    {0}};

static bool keeps(const void *state, const struct cop_look *look, cop_token token)
{
    return cop_reading_rank(&look->reading, token) < ((const struct top_k *)state)->k;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    const struct cop_set_rule set = {
        .keeps = keeps, .corrects_with_best = ((const struct top_k *)state)->correction == 0};
    return cop_set_walk(&set, state, in, out, err);
}

const struct cop_rule_ops cop_accept_top_k = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "top_k",
             .help = "keeps drafted tokens that are among the target's k most probable (plain "
                     "row, ties to the lowest id); the longest kept path; after a refusal the "
                     "target's best token, the bonus token is drawn from the target",
             .source = "as a baseline in AutoJudge, arXiv:2504.20039, and MANGA-UOFA/Cactus",
             .synonyms = "top-k acceptance",
             .state_size = sizeof(struct top_k),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_any_tree,
    .verify = verify,
    .cost = "1 per tried token",
    .promise = "L3, a deterministic bound: every kept token is among the target's k best",
};
