/* Shared noise: how often draft and target have the same winner, and that the draft never
 * changes what comes out. */
#include "core/cycle/draws/coins.h"
#include "tests/algorithms/level_laws.h"

Test(coupled, winners_in_common)
{
    NEAR(accepted_of(on_rows(&cop_accept_coupled, COP_DRAW_AUTO, chain_of(1), ROW_B)),
         41.0 / 65);
    NEAR(accepted_of(on_rows(&cop_accept_coupled, COP_DRAW_AUTO, chain_of(1), ROW_A)), 2.0 / 3);
    NEAR(accepted_of(on_rows(&cop_accept_coupled, COP_DRAW_AUTO, chain_of(2), ROW_A)),
         2.0 / 3 + 4.0 / 9);
    /* Between (1 - TV) / (1 + TV), which MinHash has, and 1 - TV. */
    for (uint32_t salt = 0; salt < 20; salt++) {
        struct mixed_row target = {4, ZEROS, salt, false}, draft = {4, ZEROS, salt, true};
        double p[4], q[4], overlap = 0;
        struct cop_error err;
        cr_assert_eq(mixed_rows(&target, NULL, 0, 0, p, &err), COP_OK);
        cr_assert_eq(mixed_rows(&draft, NULL, 0, 0, q, &err), COP_OK);
        for (int i = 0; i < 4; i++) {
            overlap += fmin(p[i], q[i]);
        }
        struct cop_law_case what =
            on_rows(&cop_accept_coupled, COP_DRAW_AUTO, chain_of(1), ROW_C);
        what.target = what.draft = mixed_rows;
        what.target_context = &target;
        what.draft_context = &draft;
        double met = accepted_of(what);
        cr_expect_leq(met, overlap + 1e-13);
        cr_expect_geq(met, overlap / (2 - overlap) - 1e-13);
    }
}

Test(coupled, lossless)
{
    const struct cop_rule_ops *rule = &cop_accept_coupled;
    cr_expect_eq(sweep(rule, COP_DRAW_INDEPENDENT, false, use_lossless), SHAPE_CASES);
    cr_expect_eq(sweep(rule, COP_DRAW_WITHOUT_REPLACEMENT, false, use_lossless), 10);
    cr_expect_eq(sweep(rule, COP_DRAW_DETERMINISTIC, false, use_lossless), 10);
    cr_expect_eq(sweep(rule, COP_DRAW_GREEDY, false, use_lossless), 10);
    static const struct shape_case pair = {'w', "2", 4};
    sweep_rows(rule, COP_DRAW_INDEPENDENT, &pair, 2, use_lossless);
}

Test(coupled, is_match_at_temperature_zero)
{
    cr_expect_eq(sweep(&cop_accept_coupled, COP_DRAW_INDEPENDENT, true, use_match),
                 SHAPE_CASES);
}

static const struct cop_row *only_row(void *context, int32_t node)
{
    (void)node;
    return context;
}

/* With coins: at each position the same token, however the tree before it looked. */
Test(coupled, output_is_that_of_plain_decoding)
{
    static const double p[] = {.1, .2, .3, .4};
    struct cop_row row = {.kind = COP_ROW_DENSE, .vocab = 4, .dense = p};
    struct cop_error error = {.code = COP_OK};
    struct cop_coins coins;
    cop_coins_init(&coins, 17, 3, &error);
    struct cop_draws draws = cop_coins_draws(&coins);
    struct cop_tree tree;
    cr_assert_eq(cop_tree_init(&tree, 16, NULL), COP_OK);
    cop_token plain[64];
    for (int32_t position = 0; position < 64; position++) {
        int32_t accepted[16];
        struct cop_verify_in in = {.tree = &tree,
                                   .target = {only_row, &row},
                                   .draft = {only_row, &row},
                                   .draws = &draws,
                                   .position = position};
        struct cop_verdict verdict = {.accepted = accepted, .last = -1};
        cop_coins_cycle(&coins, (uint32_t)position);
        cr_assert_eq(cop_accept_coupled.verify(NULL, &in, &verdict, &error), COP_OK);
        cr_assert_eq(verdict.n_accepted, 0);
        plain[position] = verdict.last;
    }
    int32_t position = 0, cycle = 100;
    while (position < 50) {
        int32_t accepted[16];
        cop_tree_reset(&tree, 0);
        for (int32_t i = 0; i < 6; i++) { /* two chains of three */
            (void)cop_tree_add(&tree, i < 2 ? 0 : i - 1, (cycle * 7 + i * i) % 4, -1);
        }
        struct cop_verify_in in = {.tree = &tree,
                                   .target = {only_row, &row},
                                   .draft = {only_row, &row},
                                   .draws = &draws,
                                   .position = position};
        struct cop_verdict verdict = {.accepted = accepted, .last = -1};
        cop_coins_cycle(&coins, (uint32_t)cycle++);
        cr_assert_eq(cop_accept_coupled.verify(NULL, &in, &verdict, &error), COP_OK);
        for (int32_t i = 0; i < verdict.n_accepted; i++) {
            cr_expect_eq(tree.token[accepted[i]], plain[position++]);
        }
        cr_expect_eq(verdict.last, plain[position++]);
    }
    cr_expect_lt(cycle, 100 + 50, "some were accepted");
    cr_expect_eq(error.code, COP_OK, "%s", error.text);
    cop_tree_release(&tree);
    cop_coins_release(&coins);
}
