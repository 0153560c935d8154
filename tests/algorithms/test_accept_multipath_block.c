/* Greedy multi-path block verification: published numbers, losslessness, and ties. */
#include "tests/algorithms/prefix_laws.h"

static struct fixed_row half = {2, {{.5, .5}}};

Test(multipath_block, numbers_of_the_page)
{
    const struct cop_rule_ops *rule = &cop_accept_multipath_block;
    NEAR(accepted_by(toy(rule, independent_paths_of(1, 2))), 11.0 / 9);
    NEAR(accepted_by(toy(rule, independent_paths_of(2, 2))), 131.0 / 81);
    NEAR(accepted_by(fixed_case(rule, independent_paths_of(1, 2), &half, &half)), 2);
    NEAR(accepted_by(fixed_case(rule, independent_paths_of(2, 2), &half, &half)), 23.0 / 16);
}

static struct cop_part *merged(int32_t i)
{
    static const int32_t sizes[][2] = {{1, 2}, {2, 1}, {2, 2}, {3, 1}, {3, 2}, {2, 3}, {5, 1}};
    return independent_paths_of(sizes[i][0], sizes[i][1]);
}

Test(multipath_block, lossless_for_merged_paths)
{
    struct sweep sweep = {&cop_accept_multipath_block,
                          COP_DRAW_INDEPENDENT,
                          merged,
                          {4, 5, 3, 4, 2, 2, 3},
                          .salts = 3};
    cr_expect_gt(expect_lossless(&sweep), 300);
}

Test(multipath_block, lossless_where_the_draft_ends_early)
{
    struct sweep sweep = {
        &cop_accept_multipath_block, COP_DRAW_INDEPENDENT, merged,
        {4, 5, 3, 4, 2, 2},          .salts = 2,           .has_length = true};
    (void)expect_lossless(&sweep);
}

static struct cop_part *chains(int32_t i)
{
    return chain_of(i + 1);
}

Test(multipath_block, one_path_is_block_verification)
{
    expect_same_laws(&cop_accept_multipath_block, &cop_accept_block, chains, 3);
}
