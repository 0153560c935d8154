/* Builders that shape the tree by what they see: their law, and every lossless rule that claims
 * the draws they allow. Values of proposers.md 14.8 and 14.11. */
#include "core/cycle/drafting.h"
#include "core/cycle/law/enumerate.h"
#include "tests/algorithms/level_laws.h"

extern const struct cop_rule_ops cop_accept_traversal;

/* Budget or width, and depth. */
static const struct shape_case thresholds[] = {{'t', "42", 3}, {'t', "33", 3}, {'t', "63", 2}};
static const struct shape_case beams[] = {
    {'b', "22", 3}, {'b', "31", 5}, {'b', "32", 2}, {'b', "23", 2}};

Test(tree_laws, threshold_is_lossless)
{
    static const struct cop_rule_ops *const rules[] = {
        &cop_accept_recursive, &cop_accept_traversal, &cop_accept_sample_match};
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < 3; i++) {
            sweep_rows(rules[r], COP_DRAW_WITHOUT_REPLACEMENT, &thresholds[i], 1, use_lossless);
            sweep_rows(rules[r], COP_DRAW_DETERMINISTIC, &thresholds[i], 1, use_match);
        }
    }
    sweep_rows(&cop_accept_sample_match, COP_DRAW_DETERMINISTIC, &thresholds[0], 1,
               use_lossless);
}

Test(tree_laws, beam_is_lossless)
{
    static const struct cop_rule_ops *const rules[] = {
        &cop_accept_recursive, &cop_accept_traversal, &cop_accept_sample_match};
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < 4; i++) {
            sweep_rows(rules[r], COP_DRAW_BEAM, &beams[i], 1, use_lossless);
            sweep_rows(rules[r], COP_DRAW_BEAM, &beams[i], 1, use_match);
        }
    }
    sweep_rows(&cop_accept_sample_match, COP_DRAW_DETERMINISTIC, &beams[0], 1, use_lossless);
}

/* ---- Builders that drop nodes ------------------------------------------------------------ */

static struct cop_part *dropping(int which)
{
    static const struct {
        const struct cop_plug *plug;
        const char *names[3];
        double values[3];
    } parts[] = {
        {&cop_tree_expand_rerank.plug, {"top_k", "depth", "budget"}, {2, 1, 3}},
        {&cop_tree_best_first.plug, {"budget", "depth", "decay"}, {3, 2, 0.9}},
        {&cop_tree_opt_tree.plug, {"budget", "depth", "delta"}, {2, 2, 0.3}},
        {&cop_tree_beam_search.plug, {"width", "depth"}, {2, 2}},
    };
    struct cop_part *part = cop_part_new(parts[which].plug);
    struct cop_error err;
    for (int i = 0; i < 3 && parts[which].names[i]; i++) {
        const struct cop_option *option =
            cop_option_find(part->plug->options, parts[which].names[i]);
        cr_assert_eq(
            cop_option_set_number(option, part->state, parts[which].values[i], "t", &err),
            COP_OK);
    }
    cr_assert_eq(cop_part_prepare(part, &err), COP_OK, "%s", err.text);
    return part;
}

Test(tree_laws, dropping_builders_are_lossless_by_sample_match)
{
    static const enum cop_draw draws[] = {COP_DRAW_DETERMINISTIC, COP_DRAW_SELECTED};
    for (int which = 0; which < 4; which++) {
        for (int flavour = 0; flavour < FLAVOURS; flavour++) {
            for (int d = 0; d < 2; d++) {
                struct mixed_row target = {3, (enum flavour)flavour, 5, false},
                                 draft = {3, (enum flavour)flavour, 5, true};
                struct cop_law_case what = {.rule = part_of(&cop_accept_sample_match.plug),
                                            .builder = dropping(which),
                                            .draw = draws[d],
                                            .vocab = 3,
                                            .target = mixed_rows,
                                            .draft = mixed_rows,
                                            .target_context = &target,
                                            .draft_context = &draft};
                use_lossless(what, what.builder->plug->name);
            }
        }
    }
}

/* What is selected for its value is no sample: rules by ratios are not lossless for it. */
Test(tree_laws, selected_is_not_without_replacement)
{
    struct fixed_row target = {3, {{.2, .3, .5}}}, draft = {3, {{.5, .3, .2}}};
    struct cop_law_case what = {.rule = part_of(&cop_accept_recursive.plug),
                                .builder = dropping(0),
                                .draw = COP_DRAW_SELECTED,
                                .relaxed = true,
                                .vocab = 3,
                                .target = fixed_rows,
                                .draft = fixed_rows,
                                .target_context = &target,
                                .draft_context = &draft};
    struct cop_law law = law_of(what);
    cr_expect_gt(law.total_variation, 0.01);
    cop_law_release(&law);
}

/* ---- Stochastic beam search -------------------------------------------------------------- */

/* The pair of children of the root in draw order is without replacement: p1 p2 / (1 - p1). On
 * level 2 the first node of the beam is a sample of whole paths, and so is the ordered pair. */
static double pairs[3][3], first_paths[9], path_pairs[9][9];

static void note_beam(const struct cop_tree *tree, double probability)
{
    int32_t path[2];
    for (int32_t i = 0; i < 2; i++) {
        const cop_token above = tree->token[tree->parent[3 + i]];
        path[i] = 3 * above + tree->token[3 + i];
    }
    pairs[tree->token[1]][tree->token[2]] += probability;
    first_paths[path[0]] += probability;
    path_pairs[path[0]][path[1]] += probability;
}

static const double row_after[4][3] = {
    {.5, .3, .2}, {.25, .7, .05}, {.6, .1, .3}, {.2, .3, .5}};

Test(tree_laws, beams_are_paths_without_replacement)
{
    struct cop_part *part = two_of(&cop_tree_beam.plug, "width", "22");
    struct cop_error error = {.code = COP_OK};
    struct cop_enumeration e;
    struct cop_drafting drafting;
    cr_assert_eq(cop_drafting_init(&drafting, 4, NULL, &error), COP_OK);
    drafting.tree.draw = COP_DRAW_BEAM;
    cop_enumeration_init(&e, &error);
    do {
        struct cop_draws draws = cop_enumeration_start(&e);
        cop_drafting_start(&drafting, 0, 2);
        while (cop_drafting_goes_on(&drafting, NULL, NULL)) {
            struct cop_frontier frontier;
            cr_assert_eq(cop_drafting_ask(&drafting, 0, &frontier, &error), COP_OK);
            for (int32_t i = 0; i < frontier.count; i++) {
                int32_t node = frontier.nodes[i];
                const double *row = row_after[node ? 1 + drafting.tree.token[node] : 0];
                frontier.rows[i] =
                    (struct cop_row){.kind = COP_ROW_DENSE, .vocab = 3, .dense = row};
            }
            cr_assert_eq(cop_drafting_grow(&drafting, part, &draws, &error), COP_OK);
        }
        cr_assert_eq(drafting.tree.size, 5);
        cr_assert_eq(cop_tree_check(&drafting.tree, &error), COP_OK, "%s", error.text);
        note_beam(&drafting.tree, e.probability);
    } while (error.code == COP_OK && cop_enumeration_next(&e));
    cr_assert_eq(error.code, COP_OK, "%s", error.text);
    for (int a = 0; a < 9; a++) {
        const double p = row_after[0][a / 3] * row_after[1 + a / 3][a % 3];
        NEAR(first_paths[a], p);
        for (int b = 0; b < 9; b++) {
            const double q = row_after[0][b / 3] * row_after[1 + b / 3][b % 3];
            NEAR(path_pairs[a][b], a == b ? 0 : p * q / (1 - p));
        }
    }
    for (int a = 0; a < 3; a++) {
        for (int b = 0; b < 3; b++) {
            const double *p = row_after[0];
            NEAR(pairs[a][b], a == b ? 0 : p[a] * p[b] / (1 - p[a]));
        }
    }
    cop_enumeration_release(&e);
    cop_drafting_release(&drafting);
    cop_part_free(part);
}
