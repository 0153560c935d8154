/* Draws of best tokens and one sample: greedy_draw and spechub. */
#include "tests/algorithms/level_laws.h"

static const struct {
    int rows;
    const char *widths;
    double accepted;
} table[] = {{ROW_A, "2", 1},
             {ROW_B, "2", 9.0 / 10},
             {ROW_B, "3", 1},
             {ROW_C, "2", 23.0 / 30},
             {ROW_C, "3", 14.0 / 15}};

Test(hub, one_level)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        NEAR(accepted_of(on_rows(&cop_accept_greedy_draw, COP_DRAW_AUTO,
                                 widths_of(table[i].widths), table[i].rows)),
             table[i].accepted);
        if (table[i].widths[0] == '2') {
            NEAR(accepted_of(on_rows(&cop_accept_spechub, COP_DRAW_AUTO,
                                     widths_of(table[i].widths), table[i].rows)),
                 table[i].accepted);
        }
    }
}

/* Row B: hub 2, r = (.4, .6) on tokens 0 and 1. Each ordered pair by hand. */
Test(hub, plan_of_row_b)
{
    static const struct {
        cop_token first, second;
        double kept_0, kept_1, kept_2; /* tokens kept, given the pair */
    } pairs[] = {
        {0, 2, 1, 0, 0},         /* draft .2 of target .5: all */
        {1, 2, 0, 1, 0},         /* .3 of .3: all */
        {2, 0, 1, 0, 0},         /* second .2 of the .3 left: all */
        {2, 1, 0, 0, (.2 / .3)}, /* nothing left: the hub takes .2 of M2 = .3 */
    };
    for (int i = 0; i < 4; i++) {
        struct cop_tree tree;
        cr_assert_eq(cop_tree_init(&tree, 4, NULL), COP_OK);
        tree.draw = COP_DRAW_HUB_PAIR;
        (void)cop_tree_add(&tree, 0, pairs[i].first, -1);
        (void)cop_tree_add(&tree, 0, pairs[i].second, -1);
        struct cop_law_case what = on_rows(&cop_accept_spechub, COP_DRAW_AUTO, NULL, ROW_B);
        what.given = &tree;
        struct cop_law law = law_of(what);
        double kept[3] = {0};
        for (int64_t j = 0; j < law.n_outcomes; j++) {
            if (law.outcomes[j].n_accepted > 0) {
                kept[law.outcomes[j].tokens[0]] += law.outcomes[j].probability;
            }
        }
        NEAR(kept[0], pairs[i].kept_0);
        NEAR(kept[1], pairs[i].kept_1);
        NEAR(kept[2], pairs[i].kept_2);
        NEAR(law.accepted[0], 1 - kept[0] - kept[1] - kept[2]);
        cop_law_release(&law);
        cop_tree_release(&tree);
    }
}

Test(hub, lossless)
{
    cr_expect_eq(sweep(&cop_accept_greedy_draw, COP_DRAW_GREEDY, false, use_lossless), 10);
    cr_expect_eq(sweep(&cop_accept_greedy_draw, COP_DRAW_INDEPENDENT, false, use_lossless), 3);
    cr_expect_eq(sweep(&cop_accept_spechub, COP_DRAW_HUB_PAIR, false, use_lossless), 2);
    cr_expect_eq(sweep(&cop_accept_spechub, COP_DRAW_INDEPENDENT, false, use_lossless), 3);
}

Test(hub, is_match_at_temperature_zero)
{
    cr_expect_eq(sweep(&cop_accept_greedy_draw, COP_DRAW_AUTO, true, use_match), SHAPE_CASES);
    cr_expect_eq(sweep(&cop_accept_spechub, COP_DRAW_AUTO, true, use_match), SHAPE_CASES);
}

/* Any rows: both accept target(hub) + sum of min(target, r). */
Test(hub, greedy_draw_of_two_is_spechub)
{
    for (uint32_t salt = 0; salt < 40; salt++) {
        int32_t vocab = 3 + (int32_t)(salt % 3);
        enum flavour flavour = salt % 2 ? ZEROS : TIES;
        struct mixed_row target = {vocab, flavour, salt, false},
                         draft = {vocab, flavour, salt, true};
        double p[5], q[5], accepted[2];
        struct cop_error err;
        cr_assert_eq(mixed_rows(&target, NULL, 0, 0, p, &err), COP_OK);
        cr_assert_eq(mixed_rows(&draft, NULL, 0, 0, q, &err), COP_OK);
        int hub = 0;
        for (int i = 1; i < vocab; i++) {
            hub = q[i] > q[hub] ? i : hub;
        }
        double expected = p[hub];
        for (int i = 0; i < vocab; i++) {
            expected += i == hub || !(q[i] > 0) ? 0 : fmin(p[i], q[i] / (1 - q[hub]));
        }
        for (int i = 0; i < 2; i++) {
            struct cop_law_case what =
                on_rows(i ? &cop_accept_spechub : &cop_accept_greedy_draw, COP_DRAW_AUTO,
                        widths_of("2"), ROW_A);
            what.vocab = vocab;
            what.target = what.draft = mixed_rows;
            what.target_context = &target;
            what.draft_context = &draft;
            accepted[i] = accepted_of(what);
        }
        NEAR(accepted[0], expected);
        NEAR(accepted[1], expected);
    }
}

Test(hub, other_draws_are_refused_and_rightly)
{
    static const struct {
        const struct cop_rule_ops *rule;
        enum cop_draw draw;
    } cases[] = {{&cop_accept_greedy_draw, COP_DRAW_INDEPENDENT},
                 {&cop_accept_greedy_draw, COP_DRAW_HUB_PAIR},
                 {&cop_accept_spechub, COP_DRAW_GREEDY},
                 {&cop_accept_spechub, COP_DRAW_INDEPENDENT},
                 {&cop_accept_spechub, COP_DRAW_WITHOUT_REPLACEMENT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cop_law_case what = on_rows(cases[i].rule, cases[i].draw, widths_of("2"), ROW_C);
        struct cop_law law;
        struct cop_error err = {0};
        cr_expect_eq(cop_law_enumerate(&law, &what, &err), COP_ERR_UNSOUND);
        what.relaxed = true;
        law = law_of(what);
        cr_expect_gt(law.total_variation, .01, "case %zu: %g", i, law.total_variation);
        cop_law_release(&law);
    }
}
