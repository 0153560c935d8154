/* Tree builders: their shapes by ranks, what they grow, what they refuse. */
#include "core/cycle/drafting.h"
#include "core/cycle/law/enumerate.h"
#include "tests/algorithms/laws.h"

#include <stdio.h>

static const struct cop_builder_ops *ops_of(const struct cop_part *part)
{
    return (const struct cop_builder_ops *)part->plug;
}

/* Parents and ranks of a sketch, "0:0 0:1 1:0". Frees the part. */
static const char *sketched(struct cop_part *part)
{
    static char text[400];
    int32_t parents[64], ranks[64];
    int32_t n = ops_of(part)->sketch(part->state, parents, ranks, NULL);
    cr_expect_eq(n, ops_of(part)->nodes(part->state) + 1);
    text[0] = '\0';
    for (int32_t i = 1; i < n; i++) {
        (void)snprintf(text + strlen(text), sizeof text - strlen(text),
                       i > 1 ? " %d:%d" : "%d:%d", parents[i], ranks[i]);
    }
    cop_part_free(part);
    return text;
}

Test(builders, sketches)
{
    cr_expect_str_eq(sketched(chain_of(3)), "0:0 1:0 2:0");
    cr_expect_str_eq(sketched(widths_of("22")), "0:0 0:1 1:0 1:1 2:0 2:1");
    cr_expect_str_eq(sketched(widths_of("121")), "0:0 1:0 1:1 2:0 3:0");
    cr_expect_str_eq(sketched(paths_of("1 00 0 01 10 010")), "0:0 0:1 1:0 1:1 2:0 4:0");
}

static void expect_facts(struct cop_part *part, enum cop_shape shape, int32_t depth,
                         int32_t nodes)
{
    cr_expect_eq(ops_of(part)->shape(part->state), shape);
    cr_expect_eq(ops_of(part)->depth(part->state), depth);
    cr_expect_eq(ops_of(part)->nodes(part->state), nodes);
    cop_part_free(part);
}

Test(builders, shape_depth_and_size)
{
    expect_facts(chain_of(5), COP_SHAPE_CHAIN, 5, 5);
    expect_facts(widths_of("422"), COP_SHAPE_TREE, 3, 28);
    expect_facts(widths_of("111"), COP_SHAPE_CHAIN, 3, 3);
    expect_facts(paths_of("0 00 1"), COP_SHAPE_TREE, 2, 3);
    expect_facts(paths_of("0 00"), COP_SHAPE_CHAIN, 2, 2);
    struct cop_part *part = part_of(&cop_tree_chain.plug);
    cr_expect_eq(ops_of(part)->depth(part->state), 5, "the default");
    cop_part_free(part);
}

/* What grows from the draft row (.1 .2 .3 .4) at every node, deterministic: "3<0 2<0 3<1". */
static const char *grown(struct cop_part *part, const double *p, int32_t *n_expanded)
{
    static char text[800];
    struct cop_error error = {.code = COP_OK};
    struct cop_enumeration e;
    cop_enumeration_init(&e, &error);
    struct cop_draws draws = cop_enumeration_start(&e);
    struct cop_drafting drafting;
    cr_assert_eq(cop_drafting_init(&drafting, ops_of(part)->nodes(part->state), NULL, &error),
                 COP_OK);
    drafting.tree.draw = COP_DRAW_DETERMINISTIC;
    cop_drafting_start(&drafting, 0, ops_of(part)->depth(part->state));
    *n_expanded = 0;
    while (cop_drafting_goes_on(&drafting, NULL, NULL)) {
        struct cop_frontier frontier;
        cr_assert_eq(cop_drafting_ask(&drafting, 0, &frontier, &error), COP_OK);
        *n_expanded += frontier.count;
        for (int32_t i = 0; i < frontier.count; i++) {
            frontier.rows[i] = (struct cop_row){.kind = COP_ROW_DENSE, .vocab = 4, .dense = p};
        }
        cr_assert_eq(cop_drafting_grow(&drafting, part, &draws, &error), COP_OK);
    }
    text[0] = '\0';
    for (int32_t i = 1; i < drafting.tree.size; i++) {
        (void)snprintf(text + strlen(text), sizeof text - strlen(text),
                       i > 1 ? " %d<%d" : "%d<%d", drafting.tree.token[i],
                       drafting.tree.parent[i]);
    }
    cr_expect_eq(cop_tree_check(&drafting.tree, NULL), COP_OK);
    cop_drafting_release(&drafting);
    cop_enumeration_release(&e);
    cop_part_free(part);
    return text;
}

Test(builders, growth)
{
    static const double p[] = {.1, .2, .3, .4}, two[] = {0, .5, .5, 0};
    int32_t n;
    cr_expect_str_eq(grown(chain_of(3), p, &n), "3<0 3<1 3<2");
    cr_expect_eq(n, 3);
    cr_expect_str_eq(grown(widths_of("21"), p, &n), "3<0 2<0 3<1 3<2");
    cr_expect_eq(n, 3);
    cr_expect_str_eq(grown(paths_of("0 1 2 00 01 20"), p, &n), "3<0 2<0 1<0 3<1 2<1 3<3");
    cr_expect_eq(n, 3, "only nodes with listed children are expanded");
    /* Two tokens are possible: ranks from the third on do not grow, nor what hangs below them.
     */
    cr_expect_str_eq(grown(paths_of("0 1 2 00 01 20"), two, &n), "1<0 2<0 1<1 2<1");
    cr_expect_str_eq(grown(widths_of("31"), two, &n), "1<0 2<0 1<1 1<2");
}

/* Growing from rows that depend on the depth alone, once per branch: calls `visit` with each
 * tree and its probability. */
static void each_tree(struct cop_part *part, enum cop_draw draw, const double (*rows)[3],
                      void (*visit)(const struct cop_tree *tree, double probability))
{
    struct cop_error error = {.code = COP_OK};
    struct cop_enumeration e;
    struct cop_drafting drafting;
    cr_assert_eq(cop_drafting_init(&drafting, ops_of(part)->nodes(part->state), NULL, &error),
                 COP_OK);
    drafting.tree.draw = draw;
    cop_enumeration_init(&e, &error);
    do {
        struct cop_draws draws = cop_enumeration_start(&e);
        cop_drafting_start(&drafting, 0, ops_of(part)->depth(part->state));
        while (cop_drafting_goes_on(&drafting, NULL, NULL)) {
            struct cop_frontier frontier;
            cr_assert_eq(cop_drafting_ask(&drafting, 0, &frontier, &error), COP_OK);
            for (int32_t i = 0; i < frontier.count; i++) {
                frontier.rows[i] = (struct cop_row){
                    .kind = COP_ROW_DENSE, .vocab = 3, .dense = rows[drafting.depth]};
            }
            cr_assert_eq(cop_drafting_grow(&drafting, part, &draws, &error), COP_OK);
        }
        cr_assert_eq(cop_tree_check(&drafting.tree, &error), COP_OK, "%s", error.text);
        visit(&drafting.tree, e.probability);
    } while (error.code == COP_OK && cop_enumeration_next(&e));
    cr_assert_eq(error.code, COP_OK, "%s", error.text);
    cop_enumeration_release(&e);
    cop_drafting_release(&drafting);
    cop_part_free(part);
}

/* A tree as text, "0<0*2 2<1*2": token < parent * multiplicity. */
static struct {
    char text[60];
    double probability;
} grown_trees[64];
static int n_grown_trees;

static void note_tree(const struct cop_tree *tree, double probability)
{
    char text[60] = "";
    for (int32_t i = 1; i < tree->size; i++) {
        char node[20];
        (void)snprintf(node, sizeof node, i > 1 ? " %d<%d*%d" : "%d<%d*%d", tree->token[i],
                       tree->parent[i], tree->multiplicity[i]);
        (void)strncat(text, node, sizeof text - strlen(text) - 1);
    }
    cr_expect(tree->is_merged);
    int i = 0;
    while (i < n_grown_trees && strcmp(grown_trees[i].text, text) != 0) {
        i++;
    }
    n_grown_trees += i == n_grown_trees;
    memcpy(grown_trees[i].text, text, sizeof text);
    grown_trees[i].probability += probability;
}

static void expect_tree(const char *text, double probability)
{
    for (int i = 0; i < n_grown_trees; i++) {
        if (strcmp(grown_trees[i].text, text) == 0) {
            cr_expect_lt(fabs(grown_trees[i].probability - probability), 1e-15, "%s: %.17g",
                         text, grown_trees[i].probability);
            return;
        }
    }
    cr_expect_fail("%s does not occur", text);
}

Test(builders, independent_paths_merge_in_order_of_first_appearance)
{
    static const double rows[][3] = {{.5, .3, .2}, {0, .25, .75}};
    each_tree(independent_paths_of(2, 1), COP_DRAW_INDEPENDENT, rows, note_tree);
    cr_expect_eq(n_grown_trees, 9);
    expect_tree("0<0*2", .25);
    expect_tree("0<0*1 1<0*1", .15);
    expect_tree("1<0*1 0<0*1", .15);
    expect_tree("2<0*2", .04);
    n_grown_trees = 0;
    memset(grown_trees, 0, sizeof grown_trees);
    each_tree(independent_paths_of(2, 2), COP_DRAW_INDEPENDENT, rows, note_tree);
    cr_expect_eq(n_grown_trees, 3 * 4 + 6 * 4);
    expect_tree("0<0*2 2<1*2", .25 * .75 * .75);
    expect_tree("0<0*2 1<1*1 2<1*1", .25 * .25 * .75); /* the first path is the one with 1 */
    expect_tree("0<0*2 2<1*1 1<1*1", .25 * .75 * .25);
    expect_tree("1<0*1 0<0*1 2<1*1 1<2*1", .15 * .75 * .25);
}

Test(builders, independent_paths_part_at_temperature_zero)
{
    static const double rows[][3] = {{.5, .3, .2}, {0, .25, .75}};
    each_tree(independent_paths_of(2, 2), COP_DRAW_DETERMINISTIC, rows, note_tree);
    each_tree(independent_paths_of(5, 2), COP_DRAW_DETERMINISTIC, rows, note_tree);
    cr_expect_eq(n_grown_trees, 2);
    expect_tree("0<0*1 1<0*1 2<1*1 2<2*1", 1);
    expect_tree("0<0*2 1<0*2 2<0*1 2<1*1 1<1*1 2<2*1 1<2*1 2<3*1", 1);
}

Test(builders, independent_paths_must_fit_a_tree)
{
    expect_facts(independent_paths_of(3, 4), COP_SHAPE_PATHS, 4, 12);
    expect_facts(independent_paths_of(1, 4), COP_SHAPE_CHAIN, 4, 4);
    struct cop_part *part = cop_part_new(&cop_tree_independent_paths.plug);
    struct cop_error err;
    (void)cop_option_set_number(&part->plug->options[0], part->state, 1000, "t", &err);
    cr_expect_eq(cop_part_prepare(part, &err), COP_ERR_ARGUMENT);
    cr_expect_str_eq(err.text, "cop.tree.independent_paths: 1000 paths of 5 tokens, a tree "
                               "holds at most 4096 nodes");
    cop_part_free(part);
}

static void expect_paths_refused(const char *words, const char *message)
{
    struct cop_part *part = cop_part_new(&cop_tree_paths.plug);
    struct cop_error err = {0};
    cr_expect_eq(set_paths(part, words, &err), COP_ERR_ARGUMENT);
    cr_expect_str_eq(err.text, message);
    cop_part_free(part);
}

Test(builders, paths_must_be_closed)
{
    expect_paths_refused("0 11", "cop.tree.paths: path {2, 2} needs {2} in the list as well");
    expect_paths_refused("0 1 11",
                         "cop.tree.paths: path {2, 2} needs {2, 1} in the list as well");
    expect_paths_refused("0 2", "cop.tree.paths: path {3} needs {2} in the list as well");
    expect_paths_refused("1", "cop.tree.paths: path {2} needs {1} in the list as well");
    expect_paths_refused("0 000",
                         "cop.tree.paths: path {1, 1, 1} needs {1, 1} in the list as well");
    expect_paths_refused("0 1 0", "cop.tree.paths: path {1} is listed twice");
    expect_paths_refused("0 00 000 00", "cop.tree.paths: path {1, 1} is listed twice");
    struct cop_part *part = cop_part_new(&cop_tree_paths.plug);
    struct cop_error err;
    cr_expect_eq(cop_part_prepare(part, &err), COP_ERR_ARGUMENT);
    cr_expect(strstr(err.text, "cop.tree.paths: option \"paths\" is required"), "%s", err.text);
    cop_part_free(part);
}

Test(builders, widths_must_fit_a_tree)
{
    struct cop_part *part = cop_part_new(&cop_tree_widths.plug);
    const struct cop_option *option = &part->plug->options[0];
    struct cop_error err;
    const int32_t wide[] = {64, 64}, fits[] = {64, 63}, zero[] = {2, 0};
    int32_t deep[65];
    for (int i = 0; i < 65; i++) {
        deep[i] = 1;
    }
    cr_assert_eq(cop_option_set_ints(option, part->state, wide, 2, "cop.tree.widths", &err), 0);
    cr_expect_eq(cop_part_prepare(part, &err), COP_ERR_ARGUMENT);
    cr_expect_str_eq(err.text,
                     "cop.tree.widths: 4160 nodes down to level 2, a tree holds at most 4096");
    cr_assert_eq(cop_option_set_ints(option, part->state, fits, 2, "cop.tree.widths", &err), 0);
    cr_expect_eq(cop_part_prepare(part, &err), COP_OK);
    cr_expect_eq(cop_tree_widths.nodes(part->state), 4096);
    cr_assert_eq(cop_option_set_ints(option, part->state, deep, 65, "cop.tree.widths", &err),
                 0);
    cr_expect_eq(cop_part_prepare(part, &err), COP_ERR_ARGUMENT);
    cr_expect_eq(cop_option_set_ints(option, part->state, zero, 2, "cop.tree.widths", &err),
                 COP_ERR_ARGUMENT);
    cr_expect_str_eq(err.text, "cop.tree.widths: option \"widths\" must be a list of integers, "
                               "each from 1 to 4096, got 0");
    cop_part_free(part);
}

/* mc_sim_7b_63 of Medusa: 63 nodes, levels of 10, 28, 23 and 2, depths that sum to 143. */
Test(builders, medusa_tree)
{
    struct cop_part *part = paths_of("0 00 1 01 2 000 10 02 3 03 4 04 20 05 001 5 06 6 07 010 "
                                     "11 7 08 002 30 09 8 9 100 020 12 "
                                     "003 40 21 004 005 0000 011 006 030 50 13 007 008 009 60 "
                                     "040 14 70 012 200 31 22 80 050 15 "
                                     "101 021 90 060 0001 16 070");
    static const struct {
        int32_t parent, count;
    } runs[] = {{0, 10}, {1, 10}, {2, 7},  {3, 3},   {4, 2},  {5, 1},  {6, 1},  {7, 1},
                {8, 1},  {9, 1},  {10, 1}, {11, 10}, {12, 3}, {13, 2}, {14, 1}, {15, 1},
                {16, 1}, {17, 1}, {18, 1}, {21, 2},  {28, 1}, {39, 2}};
    int32_t parents[64], ranks[64], depths[64] = {0}, node = 1, sum = 0;
    cr_expect_eq(cop_tree_paths.depth(part->state), 4);
    cr_assert_eq(cop_tree_paths.sketch(part->state, parents, ranks, NULL), 64);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        for (int32_t rank = 0; rank < runs[i].count; rank++, node++) {
            cr_expect_eq(parents[node], runs[i].parent, "node %d", node);
            cr_expect_eq(ranks[node], rank, "node %d", node);
            depths[node] = depths[parents[node]] + 1;
            sum += depths[node];
        }
    }
    cr_expect_eq(node, 64);
    cr_expect_eq(sum, 143);
    cop_part_free(part);
}
