/* Picking children: every draw kind, budgets, merged trees, several drafters; verdict checks.
 */
#include "core/cycle/contract/builder.h"
#include "core/cycle/contract/rule.h"
#include "core/cycle/draws/coins.h"
#include <criterion/criterion.h>

#include <string.h>

static const double probabilities[] = {.2, .4, 0, .4};
static const double others[] = {.1, .1, .7, .1};
static const cop_token points[] = {9, 3, 5};
static struct cop_tree tree;
static struct cop_coins coins;
static struct cop_error error;
static struct cop_draws draws;
static struct cop_row rows[4];
static int32_t frontier[1], next[64];
static struct cop_grow grow;

static void start(void)
{
    cr_assert_eq(cop_tree_init(&tree, 64, NULL), COP_OK);
    error = (struct cop_error){.code = COP_OK};
    cop_coins_init(&coins, 1, 0, &error);
    draws = cop_coins_draws(&coins);
    rows[0] = (struct cop_row){.kind = COP_ROW_DENSE, .vocab = 4, .dense = probabilities};
    rows[1] = (struct cop_row){.kind = COP_ROW_DENSE, .vocab = 4, .dense = others};
    grow = (struct cop_grow){.tree = &tree,
                             .draws = &draws,
                             .level = 1,
                             .frontier = frontier,
                             .rows = rows,
                             .first_row = 10,
                             .n_frontier = 1,
                             .budget = 60,
                             .next = next};
}
static void stop(void)
{
    cop_tree_release(&tree);
    cop_coins_release(&coins);
}
TestSuite(grow, .init = start, .fini = stop);

Test(grow, deterministic_takes_the_best)
{
    tree.draw = COP_DRAW_DETERMINISTIC;
    cr_expect_eq(cop_grow_draw(&grow, 0, 9), 3, "token 2 cannot be drawn");
    const cop_token expected[] = {0, 1, 3, 0};
    cr_expect_eq(tree.size, 4);
    cr_expect_arr_eq(tree.token, expected, sizeof expected);
    cr_expect_eq(tree.draft_row[1], 10);
    cr_expect_eq(tree.draft_row[3], 10);
    cr_expect_eq(grow.budget, 57);
    cr_expect_eq(grow.n_next, 3);
    cr_expect_eq(next[2], 3);
    cr_expect_eq(coins.n_asked, 0, "no coin is used");
}

Test(grow, points_go_in_their_order)
{
    rows[0] = (struct cop_row){.kind = COP_ROW_POINTS, .vocab = 20, .ids = points, .count = 3};
    tree.draw = COP_DRAW_DETERMINISTIC;
    cr_expect_eq(cop_grow_draw(&grow, 0, 2), 2);
    cr_expect_eq(tree.token[1], 9);
    cr_expect_eq(tree.token[2], 3);
    cop_tree_reset(&tree, 0);
    tree.draw = COP_DRAW_INDEPENDENT; /* a draw from a point mass needs no coin */
    cr_expect_eq(cop_grow_draw(&grow, 0, 1), 1);
    cr_expect_eq(tree.token[1], 9);
    cr_expect_eq(coins.n_asked, 0);
}

Test(grow, points_that_repeat_are_one_node_of_a_merged_tree)
{
    static const cop_token twice[] = {9, 9, 3, 9};
    rows[0] = (struct cop_row){.kind = COP_ROW_POINTS, .vocab = 20, .ids = twice, .count = 4};
    tree.draw = COP_DRAW_DETERMINISTIC;
    cr_expect_eq(cop_grow_draw(&grow, 0, 4), 4, "as drafted");
    cop_tree_reset(&tree, 0);
    tree.is_merged = true;
    tree.multiplicity[0] = 4;
    cr_expect_eq(cop_grow_draw(&grow, 0, 4), 2);
    cr_expect_eq(tree.token[1], 9);
    cr_expect_eq(tree.token[2], 3);
    cr_expect_eq(cop_tree_check(&tree, NULL), COP_OK);
}

Test(grow, independent_children_have_their_own_coins)
{
    tree.draw = COP_DRAW_INDEPENDENT;
    int32_t counts[4] = {0}, n_twins = 0;
    for (uint32_t cycle = 0; cycle < 2000; cycle++) {
        cop_coins_cycle(&coins, cycle);
        cop_tree_reset(&tree, 0);
        grow.n_next = 0;
        grow.budget = 60;
        cr_assert_eq(cop_grow_draw(&grow, 0, 3), 3);
        for (int32_t i = 1; i <= 3; i++) {
            counts[tree.token[i]]++;
            double u = cop_coins_uniform(1, 0, cycle, COP_PURPOSE_DRAFT, tree.key[i], 0);
            cr_assert_eq(tree.token[i], u < .2 ? 0 : u < .6 ? 1 : 3, "named by its own key");
        }
        n_twins += tree.token[1] == tree.token[2];
    }
    cr_expect_eq(counts[2], 0);
    cr_expect(counts[0] > 1000 && counts[0] < 1400, "%d of 6000 at 1/5", counts[0]);
    cr_expect(n_twins > 580 && n_twins < 860, "%d of 2000 at 9/25", n_twins);
    cr_expect_eq(error.code, COP_OK);
}

Test(grow, merged_trees_keep_the_first_of_equal_siblings)
{
    tree.draw = COP_DRAW_INDEPENDENT;
    tree.is_merged = true;
    tree.multiplicity[0] = 40;
    int32_t n = cop_grow_draw(&grow, 0, 40);
    cr_expect_eq(n, 3, "forty draws meet all three tokens, not %d", n);
    cr_expect_eq(tree.size, 4);
    cr_expect_eq(tree.multiplicity[1] + tree.multiplicity[2] + tree.multiplicity[3], 40);
    cr_expect_eq(coins.n_asked, 40);
    cr_expect_eq(cop_tree_check(&tree, NULL), COP_OK);
}

Test(grow, without_replacement_is_a_race_below_the_parent)
{
    tree.draw = COP_DRAW_WITHOUT_REPLACEMENT;
    cop_token ids[4];
    cr_assert_eq(cop_race(&draws, COP_PURPOSE_DRAFT, tree.key[0], &rows[0], 4, ids), 3);
    cop_coins_cycle(&coins, 0);
    cr_expect_eq(cop_grow_draw(&grow, 0, 2), 2);
    cr_expect_eq(tree.token[1], ids[0]);
    cr_expect_eq(tree.token[2], ids[1]);
}

Test(grow, budget_and_capacity_end_it)
{
    tree.draw = COP_DRAW_INDEPENDENT;
    grow.budget = 2;
    cr_expect_eq(cop_grow_draw(&grow, 0, 5), 2);
    cr_expect_eq(cop_grow_draw(&grow, 0, 5), 0);
    cr_expect_eq(cop_grow_add(&grow, 0, 1), -1);
    grow.budget = 1000;
    tree.capacity = 4;
    cop_coins_cycle(&coins, 1);
    cr_expect_eq(cop_grow_draw(&grow, 0, 5), 1);
    cr_expect_eq(tree.size, 4);
}

Test(grow, rows_without_anything)
{
    tree.draw = COP_DRAW_INDEPENDENT;
    rows[0].kind = COP_ROW_NONE;
    cr_expect_eq(cop_grow_draw(&grow, 0, 5), 0);
    cr_expect_eq(cop_grow_add(&grow, 0, 5), -1);
    rows[0] = (struct cop_row){.kind = COP_ROW_POINTS, .vocab = 20, .ids = points, .count = 0};
    cr_expect_eq(cop_grow_draw(&grow, 0, 1), 0);
    cr_expect_eq(error.code, COP_OK);
}

Test(grow, given_tokens)
{
    cr_expect_eq(cop_grow_add(&grow, 0, 3), 1);
    cr_expect_eq(cop_grow_add(&grow, 0, 3), 2);
    cr_expect_eq(tree.draft_row[2], 10);
    cr_expect_eq(grow.n_next, 2);
}

Test(grow, several_drafters)
{
    grow.n_drafters = 2;
    tree.draw = COP_DRAW_DETERMINISTIC;
    cr_expect_eq(cop_grow_draw(&grow, 0, 2), 2);
    cr_expect_eq(tree.token[1], 1);
    cr_expect_eq(tree.token[2], 2);
    cr_expect_eq(tree.draft_row[1], 10);
    cr_expect_eq(tree.draft_row[2], 11);
    tree.draw = COP_DRAW_INDEPENDENT;
    cop_tree_reset(&tree, 0);
    cr_expect_eq(cop_grow_draw(&grow, 0, 2), 2);
    cr_expect_eq(tree.draft_row[2], 11);
}

/* ---- What a rule may hand back
 * -------------------------------------------------------------------- */

static const struct cop_row *target_at(void *context, int32_t node)
{
    (void)context, (void)node;
    return &rows[0];
}

Test(grow, verdicts_are_paths_with_a_possible_last_token)
{
    const int32_t parents[] = {-1, 0, 0, 1, 3};
    for (int32_t i = 1; i < 5; i++) {
        (void)cop_tree_add(&tree, parents[i], 0, -1);
    }
    tree.flags[4] = COP_NODE_SCOUT;
    struct cop_verify_in in = {.tree = &tree, .target = {target_at, NULL}};
    static const struct {
        int32_t nodes[4], n;
        cop_token last;
        bool is_right;
    } cases[] = {{{1, 3}, 2, 0, true},  {{0}, 0, 1, true},     {{2}, 1, 3, true},
                 {{1, 3}, 2, 2, false}, {{3}, 1, 0, false},    {{1, 2}, 2, 0, false},
                 {{0}, 1, 0, false},    {{9}, 1, 0, false},    {{1, 3, 4}, 3, 0, false},
                 {{0}, -1, 0, false},   {{1, 1}, 2, 0, false}, {{0}, 0, -1, false},
                 {{0}, 0, 4, false},    {{1}, 9, 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t nodes[4];
        memcpy(nodes, cases[i].nodes, sizeof nodes);
        struct cop_verdict verdict = {.accepted = nodes,
                                      .n_accepted = cases[i].n,
                                      .last = cases[i].last,
                                      .origin = COP_ORIGIN_BONUS};
        cr_expect_eq(cop_verdict_check(&in, &verdict, NULL) == COP_OK, cases[i].is_right,
                     "case %zu", i);
    }
}
