/* The token tree: derived links, shapes, keys without collisions, every refusal of its check.
 */
#include "core/cycle/rows/tree.h"
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static struct cop_tree tree;

/* The tree of tree.h's picture; tokens are ten times the node, but 5's twin is its sibling. */
static void start(void)
{
    cr_assert_eq(cop_tree_init(&tree, 8, NULL), COP_OK);
    cop_tree_reset(&tree, 7);
    const int32_t parents[] = {-1, 0, 0, 1, 1, 2};
    for (int32_t i = 1; i < 6; i++) {
        cr_assert_eq(cop_tree_add(&tree, parents[i], 10 * i, i), i);
    }
}
static void stop(void)
{
    cop_tree_release(&tree);
}
TestSuite(tree, .init = start, .fini = stop);

Test(tree, links_follow_from_parents)
{
    const int32_t ranks[] = {0, 0, 1, 0, 1, 0}, depths[] = {0, 1, 1, 2, 2, 2};
    cr_expect_eq(tree.size, 6);
    cr_expect_eq(tree.token[0], 7);
    cr_expect_eq(tree.draft_row[0], -1);
    for (int32_t i = 0; i < 6; i++) {
        cr_expect_eq(tree.rank[i], ranks[i]);
        cr_expect_eq(cop_tree_depth(&tree, i), depths[i]);
    }
    cr_expect_eq(cop_tree_children(&tree, 1), 2);
    cr_expect_eq(cop_tree_children(&tree, 5), 0);
    cr_expect_eq(cop_tree_child(&tree, 1, 1), 4);
    cr_expect_eq(cop_tree_child(&tree, 1, 2), -1);
    cr_expect_eq(cop_tree_find(&tree, 0, 20), 2);
    cr_expect_eq(cop_tree_find(&tree, 0, 50), -1);
    int32_t path[8];
    cr_expect_eq(cop_tree_path(&tree, 4, path), 2);
    cr_expect_eq(path[0], 1);
    cr_expect_eq(path[1], 4);
    cr_expect_eq(cop_tree_path(&tree, 0, path), 0);
    cr_expect(cop_tree_is_ancestor(&tree, 0, 4));
    cr_expect(cop_tree_is_ancestor(&tree, 1, 4));
    cr_expect(cop_tree_is_ancestor(&tree, 4, 4));
    cr_expect_not(cop_tree_is_ancestor(&tree, 2, 4));
    cr_expect_not(cop_tree_is_ancestor(&tree, 3, 4));
    cr_expect_eq(cop_tree_check(&tree, NULL), COP_OK);
}

Test(tree, equal_siblings_are_found_in_draw_order)
{
    (void)cop_tree_add(&tree, 0, 10, 9);
    cr_expect_eq(cop_tree_find(&tree, 0, 10), 1);
    cr_expect_eq(tree.rank[6], 2);
    cr_expect_neq(tree.key[6], tree.key[1], "twins have coins of their own");
}

Test(tree, shapes)
{
    cr_expect_eq(cop_tree_shape(&tree), COP_SHAPE_TREE);
    tree.is_merged = true;
    cr_expect_eq(cop_tree_shape(&tree), COP_SHAPE_PATHS);
    cop_tree_reset(&tree, 0);
    cr_expect_eq(cop_tree_shape(&tree), COP_SHAPE_CHAIN);
    (void)cop_tree_add(&tree, 0, 1, 0);
    (void)cop_tree_add(&tree, 1, 1, 0);
    cr_expect_eq(cop_tree_shape(&tree), COP_SHAPE_CHAIN);
}

Test(tree, scouts_are_hidden_from_rules)
{
    int32_t scout = cop_tree_add(&tree, 5, 60, 0);
    tree.flags[scout] = COP_NODE_SCOUT;
    cr_expect_eq(cop_tree_children(&tree, 5), 0);
    cr_expect_eq(cop_tree_child(&tree, 5, 0), -1);
    cr_expect_eq(cop_tree_find(&tree, 5, 60), -1);
    cr_expect_eq(cop_tree_depth(&tree, scout), 3);
}

Test(tree, is_full_at_its_capacity)
{
    cr_expect_eq(cop_tree_add(&tree, 0, 1, 0), 6);
    cr_expect_eq(cop_tree_add(&tree, 0, 1, 0), 7);
    cr_expect_eq(cop_tree_add(&tree, 0, 1, 0), -1);
    cr_expect_eq(tree.size, 8);
    cr_expect_eq(cop_tree_add(&tree, 9, 1, 0), -1, "no such parent");
    struct cop_tree other;
    struct cop_error err;
    cr_expect_eq(cop_tree_init(&other, COP_DRAFT_LIMIT + 2, &err), COP_ERR_LIMIT);
    cr_expect_str_eq(err.text, "a token tree holds 1 to 65537 nodes, not 65538");
    cr_expect_eq(cop_tree_init(&other, 0, &err), COP_ERR_LIMIT);
}

Test(tree, check_finds_every_fault)
{
    int32_t parent = tree.parent[4];
    tree.parent[4] = 4;
    cr_expect_eq(cop_tree_check(&tree, NULL), COP_ERR_ARGUMENT);
    tree.parent[4] = parent;
    tree.rank[4] = 0;
    cr_expect_eq(cop_tree_check(&tree, NULL), COP_ERR_ARGUMENT);
    tree.rank[4] = 1;
    tree.key[3]++;
    cr_expect_eq(cop_tree_check(&tree, NULL), COP_ERR_ARGUMENT);
    tree.key[3]--;
    tree.token[5] = -1;
    cr_expect_eq(cop_tree_check(&tree, NULL), COP_ERR_ARGUMENT);
    tree.token[5] = 50;
    tree.draft_row[5] = -2;
    cr_expect_eq(cop_tree_check(&tree, NULL), COP_ERR_ARGUMENT);
    tree.draft_row[5] = -1;
    cr_expect_eq(cop_tree_check(&tree, NULL), COP_OK);
    tree.token[4] = tree.token[3];
    cr_expect_eq(cop_tree_check(&tree, NULL), COP_OK);
    tree.is_merged = true;
    cr_expect_eq(cop_tree_check(&tree, NULL), COP_ERR_ARGUMENT);
}

/* ---- Keys
 * -------------------------------------------------------------------------------------- */

Test(tree, key_is_a_function_of_the_ranks)
{
    uint32_t key = COP_TREE_ROOT_KEY;
    key = cop_tree_child_key(key, 0);
    cr_expect_eq(key, tree.key[1]);
    cr_expect_eq(cop_tree_child_key(key, 1), tree.key[4]);
    /* Pinned: stored runs name their coins by these. */
    cr_expect_eq(cop_tree_child_key(COP_TREE_ROOT_KEY, 0), tree.key[1]);
    struct cop_tree wider;
    cr_assert_eq(cop_tree_init(&wider, 8, NULL), COP_OK);
    for (int i = 0; i < 3; i++) {
        (void)cop_tree_add(&wider, 0, 1, 0);
    }
    int32_t node = cop_tree_add(&wider, 1, 1, 0);
    cr_expect_eq(wider.key[node], tree.key[3], "a wider tree keeps the narrower one's coins");
    cop_tree_release(&wider);
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Trees of 4,096 nodes with `width` children per node, breadth first. */
Test(tree, large_trees_have_no_two_equal_keys)
{
    for (int32_t width = 1; width <= COP_TREE_LIMIT;
         width = width < 70 ? width + 1 : width * 2) {
        struct cop_tree large;
        cr_assert_eq(cop_tree_init(&large, COP_TREE_LIMIT + 1, NULL), COP_OK);
        for (int32_t node = 1; node <= COP_TREE_LIMIT; node++) {
            cr_assert_eq(cop_tree_add(&large, (node - 1) / width, 0, 0), node);
        }
        qsort(large.key, (size_t)large.size, sizeof *large.key, compare);
        int32_t n_equal = 0;
        for (int32_t i = 1; i < large.size; i++) {
            n_equal += large.key[i] == large.key[i - 1];
        }
        cr_expect_eq(n_equal, 0, "%d equal keys at width %d", n_equal, width);
        cop_tree_release(&large);
    }
}

Test(tree, names)
{
    cr_expect_str_eq(cop_draw_name(COP_DRAW_GREEDY), "greedy_draw");
    cr_expect_eq(cop_draw_from_name("without_replacement"), COP_DRAW_WITHOUT_REPLACEMENT);
    cr_expect_eq(cop_draw_from_name("topk"), COP_DRAW_COUNT);
    cr_expect_eq(cop_draw_from_name(NULL), COP_DRAW_COUNT);
    cr_expect_str_eq(cop_shape_name(COP_SHAPE_PATHS), "paths");
}

/* 0 -> 1 2, 1 -> 3 4, 2 -> 5: without 1's first child and without 5. */
Test(tree, kept_nodes_close_ranks_and_remember_who_they_were)
{
    struct cop_tree full;
    struct cop_error err;
    cr_assert_eq(cop_tree_init(&full, 6, &err), COP_OK);
    const int32_t parents[] = {0, 0, 1, 1, 2};
    for (int32_t i = 0; i < 5; i++) {
        cr_assert_eq(cop_tree_add(&full, parents[i], 10 + i, i), i + 1);
    }
    full.multiplicity[0] = full.multiplicity[1] = full.multiplicity[4] = 3;
    uint32_t elder = full.key[3];
    const uint8_t keep[] = {1, 1, 1, 0, 1, 0};
    cop_tree_keep(&full, keep);
    cr_expect_eq(full.size, 4);
    const int32_t expected_token[] = {0, 10, 11, 13}, expected_parent[] = {-1, 0, 0, 1};
    const int32_t expected_drafted[] = {0, 1, 2, 4}, expected_row[] = {-1, 0, 1, 3};
    for (int32_t i = 0; i < 4; i++) {
        cr_expect_eq(full.token[i], expected_token[i]);
        cr_expect_eq(full.parent[i], expected_parent[i]);
        cr_expect_eq(full.drafted[i], expected_drafted[i]);
        cr_expect_eq(full.draft_row[i], expected_row[i]);
    }
    cr_expect_eq(full.rank[3], 0);
    cr_expect_eq(full.key[3], elder, "the coins are those of its rank now");
    cr_expect_eq(full.multiplicity[3], 3);
    cr_expect_eq(cop_tree_check(&full, &err), COP_OK, "%s", err.text);
    cop_tree_release(&full);
}
