/* Traversal verification: published numbers, losslessness on every draw and shape it claims,
 * and what it is equal to. */
#include "tests/algorithms/prefix_laws.h"

static struct fixed_row three_target = {3, {{.3, .4, .3}}}, three_draft = {3, {{.6, .3, .1}}};
static struct fixed_row half = {2, {{.5, .5}}};

static struct cop_law_case on(struct cop_law_case what, enum cop_draw draw)
{
    what.draw = draw;
    return what;
}

Test(traversal, numbers_of_the_page)
{
    const struct cop_rule_ops *rule = &cop_accept_traversal;
    const enum cop_draw without = COP_DRAW_WITHOUT_REPLACEMENT;
    const double chain[] = {2.0 / 3, 11.0 / 9, 5.0 / 3, 166.0 / 81};
    for (int32_t depth = 1; depth <= 4; depth++) {
        NEAR(accepted_by(toy(rule, chain_of(depth))), chain[depth - 1]);
    }
    NEAR(accepted_by(toy(rule, independent_paths_of(1, 2))), 11.0 / 9);
    NEAR(accepted_by(toy(rule, independent_paths_of(2, 2))), 115.0 / 81);
    NEAR(accepted_by(on(toy(rule, widths_of("21")), without)), 16.0 / 9);
    const struct {
        const char *widths;
        double expected;
    } three[] = {{"2", 7.0 / 8}, {"12", 27.0 / 20}, {"3", 1}};
    for (int i = 0; i < 3; i++) {
        struct cop_law_case what =
            fixed_case(rule, widths_of(three[i].widths), &three_target, &three_draft);
        NEAR(accepted_by(on(what, without)), three[i].expected);
    }
    /* Equal rows: everything is kept, whatever the number of paths. */
    for (int32_t k = 1; k <= 2; k++) {
        NEAR(accepted_by(fixed_case(rule, independent_paths_of(k, 2), &half, &half)), 2);
    }
}

Test(traversal, the_tree_of_the_paper)
{
    /* root -> {a, c}, a -> {b, c}, c -> {a}: given, so its own law is not the target's. */
    struct cop_tree tree;
    cr_assert_eq(cop_tree_init(&tree, 8, NULL), COP_OK);
    (void)cop_tree_add(&tree, 0, 0, -1);
    (void)cop_tree_add(&tree, 0, 2, -1);
    (void)cop_tree_add(&tree, 1, 1, -1);
    (void)cop_tree_add(&tree, 1, 2, -1);
    (void)cop_tree_add(&tree, 2, 0, -1);
    tree.draw = COP_DRAW_WITHOUT_REPLACEMENT;
    struct cop_law_case what =
        fixed_case(&cop_accept_traversal, NULL, &three_target, &three_draft);
    what.given = &tree;
    struct cop_law law = law_of(what);
    NEAR(law.expected_accepted, 64.0 / 33);
    cop_law_release(&law);
    cop_tree_release(&tree);
}

static struct cop_part *shapes(int32_t i)
{
    static const char *const widths[] = {"1", "2", "3", "12", "21", "22", "111", "211"};
    return i < 8 ? widths_of(widths[i]) : paths_of(i == 8 ? "0 00 1 10 11" : "0 1 2 00 000");
}

Test(traversal, lossless_without_replacement)
{
    struct sweep sweep = {&cop_accept_traversal,
                          COP_DRAW_WITHOUT_REPLACEMENT,
                          shapes,
                          {5, 5, 4, 3, 3, 2, 3, 2, 2, 3},
                          .salts = 2};
    cr_expect_gt(expect_lossless(&sweep), 300);
}

Test(traversal, lossless_for_independent_children)
{
    struct sweep sweep = {&cop_accept_traversal,
                          COP_DRAW_INDEPENDENT,
                          shapes,
                          {5, 5, 4, 3, 3, 2, 3, 2, 2, 3},
                          .salts = 2};
    cr_expect_gt(expect_lossless(&sweep), 300);
}

static struct cop_part *merged(int32_t i)
{
    static const int32_t sizes[][2] = {{1, 2}, {2, 1}, {2, 2}, {3, 1}, {3, 2}, {2, 3}};
    return independent_paths_of(sizes[i][0], sizes[i][1]);
}

Test(traversal, lossless_for_merged_paths)
{
    struct sweep sweep = {
        &cop_accept_traversal, COP_DRAW_INDEPENDENT, merged, {4, 4, 3, 4, 2, 2}, .salts = 2};
    cr_expect_gt(expect_lossless(&sweep), 150);
}

Test(traversal, lossless_for_several_drafters)
{
    struct sweep sweep = {&cop_accept_traversal, COP_DRAW_INDEPENDENT, shapes,
                          {4, 4, 3, 2, 2},       .n_drafters = 2,      .salts = 2};
    cr_expect_gt(expect_lossless(&sweep), 100);
    sweep.n_drafters = 3;
    (void)expect_lossless(&sweep);
}

Test(traversal, lossless_where_the_draft_ends_early)
{
    struct sweep sweep = {&cop_accept_traversal,
                          COP_DRAW_WITHOUT_REPLACEMENT,
                          shapes,
                          {4, 4, 3, 3, 3, 2, 3},
                          .salts = 2,
                          .has_length = true};
    (void)expect_lossless(&sweep);
    sweep.draw = COP_DRAW_INDEPENDENT;
    (void)expect_lossless(&sweep);
}

static struct cop_part *chains(int32_t i)
{
    return chain_of(i + 1);
}

Test(traversal, a_chain_is_block_verification)
{
    expect_same_laws(&cop_accept_traversal, &cop_accept_block, chains, 3);
}

/* Token-identical trees of K independent children: acceptance by the formula of recursive
 * rejection without replacement, for two children drawn so. */
Test(traversal, one_level_is_recursive_rejection_without_replacement)
{
    static struct fixed_row b_target = {3, {{.5, .3, .2}}}, b_draft = {3, {{.2, .3, .5}}};
    static struct fixed_row c_target = {4, {{.1, .2, .3, .4}}},
                            c_draft = {4, {{.4, .3, .2, .1}}};
    const struct {
        struct fixed_row *target, *draft;
        const char *widths;
        double expected;
    } cases[] = {{&toy_target, &toy_draft, "2", 1},
                 {&b_target, &b_draft, "2", 41.0 / 50},
                 {&b_target, &b_draft, "3", 1},
                 {&c_target, &c_draft, "2", 107.0 / 140},
                 {&c_target, &c_draft, "3", 14117.0 / 16800}};
    for (int i = 0; i < 5; i++) {
        struct cop_law_case what = fixed_case(&cop_accept_traversal, widths_of(cases[i].widths),
                                              cases[i].target, cases[i].draft);
        NEAR(accepted_by(on(what, COP_DRAW_WITHOUT_REPLACEMENT)), cases[i].expected);
    }
}
