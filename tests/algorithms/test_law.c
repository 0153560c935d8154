/* Laws of the built-in rules: published numbers, and total variation 0 for everything claimed.
 */
#include "tests/algorithms/laws.h"

Test(law, token_on_the_toy)
{
    const double expected[] = {2.0 / 3, 10.0 / 9, 38.0 / 27, 130.0 / 81};
    for (int32_t depth = 1; depth <= 4; depth++) {
        struct cop_law law = law_of(toy(&cop_accept_token, chain_of(depth)));
        NEAR(law.expected_accepted, expected[depth - 1]);
        cr_expect_lt(law.total_variation, 1e-14);
        cr_expect_eq(law.draw, COP_DRAW_INDEPENDENT);
        cr_expect_eq(law.shape, COP_SHAPE_CHAIN);
        cr_expect_eq(law.depth, depth);
        cop_law_release(&law);
    }
}

Test(law, token_on_three_tokens)
{
    struct fixed_row target = {3, {{.3, .4, .3}}}, draft = {3, {{.6, .3, .1}}};
    const double expected[] = {.7, 1.19, 1.533, 1.77310};
    for (int32_t depth = 1; depth <= 4; depth++) {
        struct cop_law_case what =
            fixed_case(&cop_accept_token, chain_of(depth), &target, &draft);
        struct cop_law law = law_of(what);
        NEAR(law.expected_accepted, expected[depth - 1]);
        cr_expect_lt(law.total_variation, 1e-14);
        cop_law_release(&law);
    }
}

Test(law, outcomes_of_one_step)
{
    /* Token 0 drafted with 2/3 and kept with 1/2, token 1 drafted with 1/3 and always kept; the
     * residual is token 1; a kept token is followed by the target. */
    struct cop_law law = law_of(toy(&cop_accept_token, chain_of(1)));
    const struct {
        cop_token tokens[2];
        int32_t n_accepted;
        double probability;
    } expected[] = {{{0, 0}, 1, 1.0 / 9},
                    {{0, 1}, 1, 2.0 / 9},
                    {{1}, 0, 1.0 / 3},
                    {{1, 0}, 1, 1.0 / 9},
                    {{1, 1}, 1, 2.0 / 9}};
    cr_assert_eq(law.n_outcomes, 5);
    for (int i = 0; i < 5; i++) {
        cr_expect_eq(law.outcomes[i].n_accepted, expected[i].n_accepted);
        for (int32_t j = 0; j <= expected[i].n_accepted; j++) {
            cr_expect_eq(law.outcomes[i].tokens[j], expected[i].tokens[j]);
        }
        NEAR(law.outcomes[i].probability, expected[i].probability);
    }
    NEAR(law.accepted[0], 1.0 / 3);
    NEAR(law.accepted[1], 2.0 / 3);
    NEAR(law.position[0], 1.0 / 3); /* first token 0 */
    NEAR(law.position[2], 1.0 / 3); /* second token 0 */
    NEAR(law.target_position[3], 2.0 / 3);
    /* Drafts 2 x (kept: 2 bonuses), and the one possible rejection with its only residual. */
    cr_expect_eq(law.branches, 5);
    cop_law_release(&law);
}

Test(law, sample_match_with_independent_siblings)
{
    static struct fixed_row targets[] = {
        {2, {{1.0 / 3, 2.0 / 3}}}, {3, {{.5, .3, .2}}}, {4, {{.1, .2, .3, .4}}}};
    static struct fixed_row drafts[] = {
        {2, {{2.0 / 3, 1.0 / 3}}}, {3, {{.2, .3, .5}}}, {4, {{.4, .3, .2, .1}}}};
    static const struct {
        int row;
        const char *widths;
        double expected;
    } cases[] = {{0, "2", 2.0 / 3},
                 {1, "2", 483.0 / 1000},
                 {1, "3", 6161.0 / 10000},
                 {2, "2", 7.0 / 20},
                 {2, "3", 2323.0 / 5000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cop_law_case what =
            fixed_case(&cop_accept_sample_match, widths_of(cases[i].widths),
                       &targets[cases[i].row], &drafts[cases[i].row]);
        what.draw = COP_DRAW_INDEPENDENT;
        struct cop_law law = law_of(what);
        NEAR(law.expected_accepted, cases[i].expected);
        cr_expect_lt(law.total_variation, 1e-14);
        cop_law_release(&law);
    }
}

/* Merging changes nothing that sample_match meets; the draw is the builder's own. */
Test(law, sample_match_with_merged_paths)
{
    static struct fixed_row target = {3, {{.5, .3, .2}}}, draft = {3, {{.2, .3, .5}}};
    const double expected[] = {.29, 483.0 / 1000, 6161.0 / 10000};
    for (int32_t k = 1; k <= 3; k++) {
        struct cop_law_case what =
            fixed_case(&cop_accept_sample_match, independent_paths_of(k, 1), &target, &draft);
        what.draw = COP_DRAW_INDEPENDENT;
        struct cop_law law = law_of(what);
        NEAR(law.expected_accepted, expected[k - 1]);
        cr_expect_eq(law.shape, k == 1 ? COP_SHAPE_CHAIN : COP_SHAPE_PATHS);
        cop_law_release(&law);
    }
    for (int flavour = 0; flavour < FLAVOURS; flavour++) {
        for (int is_zero = 0; is_zero < 2; is_zero++) {
            struct mixed_row p = {3, flavour, 5, false}, q = {3, flavour, 5, true};
            struct cop_law_case what =
                toy(&cop_accept_sample_match, independent_paths_of(2, 3));
            what.vocab = 3;
            what.is_zero_temperature = is_zero;
            what.target = what.draft = mixed_rows;
            what.target_context = &p;
            what.draft_context = &q;
            struct cop_law law = law_of(what);
            cr_expect_lt(law.total_variation, 1e-13);
            cr_expect_eq(law.draw, is_zero ? COP_DRAW_DETERMINISTIC : COP_DRAW_INDEPENDENT);
            cop_law_release(&law);
        }
    }
}

Test(law, sample_match_prefers_the_best_tokens)
{
    /* Three tokens, two best of the draft (.2 .3 .5): the target meets {2, 1} with .2 + .3. */
    static struct fixed_row target = {3, {{.5, .3, .2}}}, draft = {3, {{.2, .3, .5}}};
    struct cop_law_case what =
        fixed_case(&cop_accept_sample_match, widths_of("2"), &target, &draft);
    struct cop_law law = law_of(what);
    cr_expect_eq(law.draw, COP_DRAW_DETERMINISTIC, "the default draw of sample_match");
    NEAR(law.expected_accepted, .5);
    cop_law_release(&law);
}

/* ---- Everything that is claimed, over context-dependent rows
 * --------------------------------- */

struct builder_case {
    const char *kind, *text;
    int32_t vocab_limit; /* keeps the branches below the limit */
};
static const struct builder_case builders[] = {
    {"chain", "1", 5},      {"chain", "2", 5},        {"chain", "3", 3},
    {"widths", "2", 5},     {"widths", "3", 4},       {"widths", "21", 3},
    {"widths", "12", 3},    {"widths", "22", 2},      {"widths", "111", 3},
    {"paths", "0 00 1", 3}, {"paths", "0 1 2 00", 3}, {"paths", "0 00 000", 3}};

static bool is_pairs(const struct builder_case *b)
{
    return strcmp(b->text, "2") == 0 || strcmp(b->text, "22") == 0;
}

static struct cop_part *build(const struct builder_case *b)
{
    return b->kind[0] == 'c'   ? chain_of(b->text[0] - '0')
           : b->kind[0] == 'w' ? widths_of(b->text)
                               : paths_of(b->text);
}

static void expect_lossless(const struct cop_rule_ops *rule, enum cop_draw draw,
                            const struct builder_case *b, enum flavour flavour, int32_t vocab,
                            bool is_zero)
{
    struct mixed_row target = {vocab, flavour, 5, false}, draft = {vocab, flavour, 5, true};
    struct cop_law_case what = {.rule = part_of(&rule->plug),
                                .builder = build(b),
                                .draw = draw,
                                .is_zero_temperature = is_zero,
                                .vocab = vocab,
                                .target = mixed_rows,
                                .draft = mixed_rows,
                                .target_context = &target,
                                .draft_context = &draft};
    struct cop_law law = law_of(what);
    cr_expect_lt(law.total_variation, 1e-12, "%s, %s, %s %s, rows %d, %d tokens: %g",
                 rule->plug.name, cop_draw_name(draw), b->kind, b->text, flavour, vocab,
                 law.total_variation);
    double total = 0;
    for (int32_t i = 0; i < vocab; i++) {
        total += law.position[law.depth * vocab + i];
    }
    cr_expect_lt(fabs(total - 1), 1e-12);
    if (flavour == EQUAL && rule == &cop_accept_token) {
        NEAR(law.expected_accepted, law.depth);
    }
    if (flavour == DISJOINT) {
        cr_expect_lt(law.expected_accepted, 1e-14);
    }
    cop_law_release(&law);
}

static void expect_all_lossless(const struct cop_rule_ops *rule, enum cop_draw draw,
                                bool only_chains, bool is_zero)
{
    int n = 0;
    for (size_t i = 0; i < sizeof builders / sizeof *builders; i++) {
        struct cop_part *builder = build(&builders[i]);
        enum cop_shape shape =
            ((const struct cop_builder_ops *)builder->plug)->shape(builder->state);
        cop_part_free(builder);
        for (int flavour = 0; flavour < FLAVOURS; flavour++) {
            for (int32_t vocab = 2; vocab <= builders[i].vocab_limit; vocab++) {
                if ((!only_chains || shape == COP_SHAPE_CHAIN) &&
                    (draw != COP_DRAW_HUB_PAIR ||
                     (builders[i].kind[0] == 'w' && is_pairs(&builders[i])))) {
                    expect_lossless(rule, draw, &builders[i], flavour, vocab, is_zero);
                    n++;
                }
            }
        }
    }
    cr_expect_gt(n, draw == COP_DRAW_HUB_PAIR ? 20 : 50);
}

Test(law, token_is_lossless_on_chains)
{
    expect_all_lossless(&cop_accept_token, COP_DRAW_INDEPENDENT, true, false);
}

Test(law, sample_match_is_lossless_for_independent)
{
    expect_all_lossless(&cop_accept_sample_match, COP_DRAW_INDEPENDENT, false, false);
}

Test(law, sample_match_is_lossless_without_replacement)
{
    expect_all_lossless(&cop_accept_sample_match, COP_DRAW_WITHOUT_REPLACEMENT, false, false);
}

Test(law, sample_match_is_lossless_for_deterministic)
{
    expect_all_lossless(&cop_accept_sample_match, COP_DRAW_DETERMINISTIC, false, false);
}

Test(law, sample_match_is_lossless_for_greedy_draw_and_hub_pair)
{
    expect_all_lossless(&cop_accept_sample_match, COP_DRAW_GREEDY, false, false);
    expect_all_lossless(&cop_accept_sample_match, COP_DRAW_HUB_PAIR, false, false);
}

Test(law, every_rule_is_match_at_temperature_zero)
{
    expect_all_lossless(&cop_accept_match, COP_DRAW_AUTO, false, true);
    expect_all_lossless(&cop_accept_sample_match, COP_DRAW_AUTO, false, true);
    expect_all_lossless(&cop_accept_token, COP_DRAW_AUTO, true, true);
}

Test(law, token_accepts_no_less_than_sample_match)
{
    for (uint32_t salt = 0; salt < 20; salt++) {
        struct mixed_row target = {3, PLAIN, salt, false}, draft = {3, PLAIN, salt, true};
        double expected[2];
        for (int i = 0; i < 2; i++) {
            struct cop_law_case what =
                toy(i ? &cop_accept_token : &cop_accept_sample_match, chain_of(2));
            what.draw = COP_DRAW_INDEPENDENT;
            what.vocab = 3;
            what.target = what.draft = mixed_rows;
            what.target_context = &target;
            what.draft_context = &draft;
            struct cop_law law = law_of(what);
            cr_expect_lt(law.total_variation, 1e-13);
            expected[i] = law.expected_accepted;
            cop_law_release(&law);
        }
        cr_expect_gt(expected[1], expected[0]);
    }
}
