/* SpecDec: kept are tokens among the target's best few that are not far behind the first. */
#include "algorithms/accept/relaxed/relaxed.h"

struct tau_relaxed {
    int32_t beta;
    double tau;
};

static const struct cop_option options[] = {
    COP_AN_INT(tau_relaxed, beta, 1, 1000000, 3,
               "ranks that may be kept; 1 is greedy (the code: 1; the paper: 3 and 5)"),
    COP_A_NUMBER(tau_relaxed, tau, 0, 1000, 1,
                 "largest ln target(best) - ln target(token); 0 is greedy (the code: 0; the "
                 "paper: 1 and 5)"),
    {0}};

static bool keeps(const void *state, const struct cop_look *look, cop_token token)
{
    const struct tau_relaxed *s = state;
    double gap = cop_reading_logit(&look->reading, look->best) -
                 cop_reading_logit(&look->reading, token);
    return gap <= s->tau && cop_reading_rank(&look->reading, token) < s->beta;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    static const struct cop_set_rule set = {
        .keeps = keeps, .corrects_with_best = true, .ends_with_best = true};
    return cop_set_walk(&set, state, in, out, err);
}

const struct cop_rule_ops cop_accept_tau_relaxed = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "tau_relaxed",
             .help =
                 "keeps drafted tokens among the target's beta most probable with ln "
                 "target(best) - ln target(token) <= tau (plain row); the longest kept path; "
                 "after it, refused or at its end, the target's best token",
             .source = "Xia et al. 2022, arXiv:2203.16487 (SpecDec)",
             .synonyms = "Spec-Verification, top-beta within tau",
             .state_size = sizeof(struct tau_relaxed),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_any_tree,
    .verify = verify,
    .cost = "1 per tried token",
    .promise = "L3, a deterministic bound: every token is within tau of the target's best, and "
               "among its beta best",
};
