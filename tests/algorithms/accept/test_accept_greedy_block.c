/* Greedy block verification: the ideal number of accepted tokens in its first cycle, and
 * losslessness over the tokens of several cycles. */
#include "core/cycle/contract/proposer.h"
#include "tests/algorithms/prefix_laws.h"

static struct fixed_row three_target = {3, {{.3, .4, .3}}}, three_draft = {3, {{.6, .3, .1}}};

Test(greedy_block, numbers_of_the_page)
{
    const double on_toy[] = {2.0 / 3, 12.0 / 9, 50.0 / 27, 64.0 / 27};
    const double on_three[] = {.7, 1.31, 93.0 / 50, 4721.0 / 2000};
    for (int32_t depth = 1; depth <= 4; depth++) {
        NEAR(accepted_by(toy(&cop_accept_greedy_block, chain_of(depth))), on_toy[depth - 1]);
        NEAR(accepted_by(fixed_case(&cop_accept_greedy_block, chain_of(depth), &three_target,
                                    &three_draft)),
             on_three[depth - 1]);
    }
}

static struct cop_part *chains(int32_t i)
{
    return chain_of(i + 1);
}

Test(greedy_block, lossless_over_its_tokens)
{
    struct sweep sweep = {
        &cop_accept_greedy_block, COP_DRAW_INDEPENDENT, chains, {4, 3, 3, 2}, .salts = 3};
    (void)expect_lossless(&sweep);
    sweep.horizon = 5;
    cr_expect_gt(expect_lossless(&sweep), 200);
}

Test(greedy_block, one_token_is_the_token_rule)
{
    expect_same_laws(&cop_accept_greedy_block, &cop_accept_token, chains, 1);
}

/* Sum over prefixes of min(target, draft) on context-dependent rows of laws.h. */
static double ideal(struct mixed_row *target, struct mixed_row *draft, cop_token *prefix,
                    int32_t length, int32_t depth, double p, double q)
{
    double target_row[5], draft_row[5], sum = 0;
    struct cop_error err;
    (void)mixed_rows(target, prefix, length, 0, target_row, &err);
    (void)mixed_rows(draft, prefix, length, 0, draft_row, &err);
    for (cop_token t = 0; t < target->vocab && length < depth; t++) {
        prefix[length] = t;
        double longer_p = p * target_row[t], longer_q = q * draft_row[t];
        sum += fmin(longer_p, longer_q) +
               ideal(target, draft, prefix, length + 1, depth, longer_p, longer_q);
    }
    return sum;
}

Test(greedy_block, attains_the_ideal_in_its_first_cycle)
{
    for (uint32_t salt = 0; salt < 40; salt++) {
        struct mixed_row target = {3, salt % FLAVOURS, salt, false};
        struct mixed_row draft = {3, salt % FLAVOURS, salt, true};
        for (int32_t i = 0; i < 3; i++) {
            cop_token prefix[4];
            double accepted =
                accepted_on(&cop_accept_greedy_block, COP_DRAW_AUTO, chains, i, salt);
            NEAR(accepted, ideal(&target, &draft, prefix, 0, i + 1, 1, 1));
        }
    }
}

/* A cycle is not lossless by itself: continued from the plain target its output differs. That
 * is what its debt is for; this rule forgets it. */
static enum cop_status verify_and_forget(const void *state, const struct cop_verify_in *in,
                                         struct cop_verdict *out, struct cop_error *err)
{
    enum cop_status status = cop_accept_greedy_block.verify(state, in, out, err);
    memset(in->sequence_state, 0, cop_accept_greedy_block.sequence_state_size);
    return status;
}

Test(greedy_block, a_debt_that_is_forgotten_shows)
{
    struct cop_rule_ops forgetful = cop_accept_greedy_block;
    forgetful.verify = verify_and_forget;
    struct cop_law law = law_of(toy(&forgetful, chain_of(2)));
    /* Accepted 4/3, and the law is wrong by what naive testing of the last position costs. */
    NEAR(law.expected_accepted, 4.0 / 3);
    cr_expect_gt(law.total_variation, .05, "%g", law.total_variation);
    cop_law_release(&law);
}

Test(greedy_block, refuses_drafts_of_other_lengths)
{
    struct cop_law law;
    struct cop_error err;
    struct cop_law_case what = toy(&cop_accept_greedy_block, chain_of(3));
    what.length = part_of(&cop_length_confidence.plug);
    cr_expect_eq(cop_law_enumerate(&law, &what, &err), COP_ERR_UNSOUND);
    cr_expect(strstr(err.text, "every cycle drafts to the same depth"), "%s", err.text);
    struct mixed_row target = {3, PLAIN, 1, false}, draft = {3, PLAIN, 1, true};
    what.relaxed = true;
    what.vocab = 3;
    what.target = what.draft = mixed_rows;
    what.target_context = &target;
    what.draft_context = &draft;
    cr_expect_eq(cop_law_enumerate(&law, &what, &err), COP_ERR_ARGUMENT);
    cr_expect(strstr(err.text, "accept.greedy_block is lossless only where every cycle drafts "
                               "to the same depth; it was 1 and is 2 now"),
              "%s", err.text);
    free_case(&what);
}

Test(greedy_block, needs_rows_that_do_not_depend_on_the_cycle)
{
    struct cop_proposer_ops wandering = {.plug = {.name = "heads"}};
    struct cop_part proposer = {.plug = &wandering.plug};
    struct cop_pairing pairing = {.rule = part_of(&cop_accept_greedy_block.plug),
                                  .builder = chain_of(2),
                                  .proposer = &proposer};
    bool is_lossless;
    struct cop_error err;
    cr_expect_eq(cop_pairing_check(&pairing, NULL, NULL, &err), COP_ERR_UNSOUND);
    cr_expect_str_eq(
        err.text, "accept.greedy_block is lossless only where the draft row after a prefix is "
                  "the same in every cycle, which cop.propose.heads does not promise; use "
                  "cop.accept.block {}, or say relaxed = true");
    pairing.relaxed = true;
    cr_expect_eq(cop_pairing_check(&pairing, NULL, &is_lossless, &err), COP_OK);
    cr_expect_not(is_lossless);
    pairing.relaxed = false;
    wandering.rows_by_prefix = true;
    cr_expect_eq(cop_pairing_check(&pairing, NULL, &is_lossless, &err), COP_OK);
    wandering.rows_by_prefix = false;
    pairing.is_zero_temperature = true;
    cr_expect_eq(cop_pairing_check(&pairing, NULL, &is_lossless, &err), COP_OK);
    cop_part_free((struct cop_part *)(uintptr_t)pairing.rule);
    cop_part_free((struct cop_part *)(uintptr_t)pairing.builder);
}

Test(greedy_block, match_at_temperature_zero)
{
    expect_match_at_zero(&cop_accept_greedy_block, chains, 3, COP_DRAW_INDEPENDENT);
    expect_match_at_zero(&cop_accept_greedy_block, chains, 3, COP_DRAW_DETERMINISTIC);
}
