/* The law of one position: hand-made rules against laws worked out by hand, and what has none.
 */
#include "core/cycle/law/position_law.h"

#include <criterion/criterion.h>
#include <string.h>

static const double target_values[] = {.50, .30, .15, .05};
static const double draft_values[] = {.25, .25, .40, .10};
static const struct cop_row target = {
    .kind = COP_ROW_DENSE, .vocab = 4, .dense = target_values};
static const struct cop_row draft = {.kind = COP_ROW_DENSE, .vocab = 4, .dense = draft_values};

/* Keeps a draft with min(1, target / (factor * draft)); else norm((target - draft)+). */
static enum cop_status lenient(const void *state, const struct cop_verify_in *in,
                               struct cop_verdict *out, struct cop_error *err)
{
    (void)err;
    double factor = *(const double *)state;
    const struct cop_row *p = cop_rows_at(&in->target, 0), *q = cop_rows_at(&in->draft, 1);
    cop_token token = in->tree->token[1];
    double chance = cop_row_probability(p, token) / (factor * cop_row_probability(q, token));
    out->n_accepted = cop_flip(in->draws, 1, in->tree->key[1], chance) ? 1 : 0;
    out->accepted[0] = 1;
    if (out->n_accepted) {
        struct cop_weights weights = cop_row_weights(cop_rows_at(&in->target, 1));
        out->last = cop_pick(in->draws, 2, in->tree->key[1], &weights);
    } else {
        const struct cop_residual residual = {p, q, 1, 1};
        out->last = cop_pick_residual(in->draws, 3, in->tree->key[0], &residual);
    }
    return COP_OK;
}

/* Two flips, then the target's best without a pick. */
static enum cop_status doubtful(const void *state, const struct cop_verify_in *in,
                                struct cop_verdict *out, struct cop_error *err)
{
    (void)state;
    (void)err;
    bool first = cop_flip(in->draws, 1, 1, 0.5);
    bool kept = first && cop_flip(in->draws, 1, 2, 0.5);
    out->n_accepted = kept;
    out->accepted[0] = 1;
    out->last = 0;
    return COP_OK;
}

/* Names its recovered token after the child. */
static enum cop_status odd_key(const void *state, const struct cop_verify_in *in,
                               struct cop_verdict *out, struct cop_error *err)
{
    (void)state;
    (void)err;
    struct cop_weights weights = cop_row_weights(cop_rows_at(&in->target, 0));
    out->n_accepted = 0;
    out->last = cop_pick(in->draws, 2, in->tree->key[1], &weights);
    return COP_OK;
}

static enum cop_status picks_twice(const void *state, const struct cop_verify_in *in,
                                   struct cop_verdict *out, struct cop_error *err)
{
    (void)state;
    (void)err;
    struct cop_weights weights = cop_row_weights(cop_rows_at(&in->target, 0));
    (void)cop_pick(in->draws, 1, 1, &weights);
    out->last = cop_pick(in->draws, 2, 1, &weights);
    return COP_OK;
}

#define RULE(function)                                                                         \
    {                                                                                          \
        .plug = {.name = #function, .kind = COP_PLUG_RULE}, .verify = function                 \
    }
static const struct cop_rule_ops rules[] = {RULE(lenient), RULE(doubtful), RULE(odd_key),
                                            RULE(picks_twice)};

static struct cop_position_law law_of(int rule, double factor, double floor, enum cop_draw draw,
                                      double law[4])
{
    struct cop_position position = {&rules[rule], &factor, &target, &draft, draw, floor};
    struct cop_position_law out;
    struct cop_error err = {0};
    cr_assert_eq(cop_position_law(&position, law, &out, &err), COP_OK, "%s", err.text);
    double sum = law[0] + law[1] + law[2] + law[3];
    cr_expect_float_eq(sum, 1, 1e-12, "sum %g", sum);
    return out;
}

static void expect_law(const double law[4], double a, double b, double c, double d)
{
    const double wanted[] = {a, b, c, d};
    for (int i = 0; i < 4; i++) {
        cr_expect_float_eq(law[i], wanted[i], 1e-12, "token %d: %.12g, not %.12g", i, law[i],
                           wanted[i]);
    }
}

Test(position_law, the_strict_rule_gives_the_target)
{
    double law[4];
    struct cop_position_law out = law_of(0, 1, 0, COP_DRAW_INDEPENDENT, law);
    expect_law(law, .50, .30, .15, .05);
    cr_expect_float_eq(out.acceptance, .7, 1e-12);
    cr_expect_float_eq(out.left_out, 0, 0);
}

Test(position_law, lenience_of_one_half_gives_its_published_law)
{
    double law[4];
    struct cop_position_law out = law_of(0, .5, 0, COP_DRAW_INDEPENDENT, law);
    expect_law(law, 1.0 / 3, .8 / 3, .3, .1);
    cr_expect_float_eq(out.acceptance, .9, 1e-12);
}

/* Token 3 (.10) is rare: kept with .05 / .10; what it loses, .05, goes to tokens 0 and 1 as
 * (.25, .05) / .3. The others as lenience has them: .25 + .1 * .25 / .3 of token 2's loss, … */
Test(position_law, rare_drafts_are_taken_as_the_strict_rule_would)
{
    double law[4];
    struct cop_position_law out = law_of(0, .5, .2, COP_DRAW_INDEPENDENT, law);
    cr_expect_float_eq(out.left_out, .1, 1e-12);
    cr_expect_float_eq(out.acceptance, .25 + .25 + .3 + .05, 1e-12);
    expect_law(law, .25 + .15 * .25 / .3, .25 + .15 * .05 / .3, .3, .05);
    out = law_of(0, 1, .2, COP_DRAW_INDEPENDENT, law);
    expect_law(law, .50, .30, .15, .05);
    out = law_of(0, 1, 9, COP_DRAW_INDEPENDENT, law); /* all of them */
    expect_law(law, .50, .30, .15, .05);
    cr_expect_float_eq(out.acceptance, .7, 1e-12);
}

Test(position_law, a_deterministic_draft_is_the_best)
{
    double law[4]; /* token 2, kept with .15 / .40; else norm((p - q)+) */
    struct cop_position_law out = law_of(0, 1, 0, COP_DRAW_DETERMINISTIC, law);
    cr_expect_float_eq(out.acceptance, .375, 1e-12);
    expect_law(law, .625 * .25 / .3, .625 * .05 / .3, .375, 0);
}

Test(position_law, several_flips_and_no_pick)
{
    double law[4]; /* kept with 1/4, else token 0 */
    struct cop_position_law out = law_of(1, 1, 0, COP_DRAW_INDEPENDENT, law);
    cr_expect_float_eq(out.acceptance, .25, 1e-12);
    expect_law(law, .75 + .25 * .25, .25 * .25, .25 * .4, .25 * .1);
}

Test(position_law, a_pick_that_is_named_otherwise_counts_too)
{
    double law[4];
    struct cop_position_law out = law_of(2, 1, 0, COP_DRAW_INDEPENDENT, law);
    cr_expect_float_eq(out.acceptance, 0, 0);
    expect_law(law, .50, .30, .15, .05);
}

Test(position_law, what_has_no_law_is_refused_by_name)
{
    double law[4];
    struct cop_position_law out;
    struct cop_error err = {0};
    struct cop_position position = {&rules[3], NULL, &target, &draft, COP_DRAW_INDEPENDENT, 0};
    cr_expect_eq(cop_position_law(&position, law, &out, &err), COP_ERR_UNSUPPORTED);
    cr_expect(strstr(err.text, "rule \"picks_twice\" has no law of one position") != NULL, "%s",
              err.text);
    struct cop_rule_ops stateful = rules[0];
    stateful.sequence_state_size = 8;
    position.rule = &stateful;
    cr_expect_eq(cop_position_law(&position, law, &out, &err), COP_ERR_UNSUPPORTED);
    cr_expect(strstr(err.text, "carries state") != NULL, "%s", err.text);
}
