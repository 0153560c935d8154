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

/* Half of the nodes stop, by tokens that the selected path does not carry. */
Test(multipath_block, refuses_lengths_that_follow_tokens)
{
    static struct fixed_row target = {3, {{.5, .3, .2}}}, draft = {3, {{.2, .3, .5}}};
    struct cop_law_case what =
        fixed_case(&cop_accept_multipath_block, independent_paths_of(2, 2), &target, &draft);
    what.length = part_of(&cop_length_confidence.plug);
    struct cop_law law;
    struct cop_error err;
    cr_expect_eq(cop_law_enumerate(&law, &what, &err), COP_ERR_UNSOUND);
    cr_expect_str_eq(err.text,
                     "accept.multipath_block is lossless only where every cycle drafts to the "
                     "same depth, and the draft length \"confidence\" varies; use "
                     "cop.length.fixed {}, or say relaxed = true");
    what.relaxed = true;
    cr_assert_eq(cop_law_enumerate(&law, &what, &err), COP_OK);
    cr_expect_gt(law.total_variation, .001, "%g", law.total_variation);
    cop_law_release(&law);
    free_case(&what);
    what = fixed_case(&cop_accept_multipath_block, independent_paths_of(2, 3), &target, &draft);
    what.length = cop_part_new(&cop_length_fixed.plug);
    cr_assert_eq(
        cop_option_set_number(&what.length->plug->options[0], what.length->state, 2, "t", &err),
        COP_OK);
    NEAR(accepted_by(what), 1.5508);
}

static struct cop_part *chains(int32_t i)
{
    return chain_of(i + 1);
}

Test(multipath_block, one_path_is_block_verification)
{
    expect_same_laws(&cop_accept_multipath_block, &cop_accept_block, chains, 3);
}
