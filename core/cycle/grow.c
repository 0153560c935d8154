/* Picking children from a draft row as the tree's draw says. */
#include "core/cycle/builder.h"

/* The row that child j of frontier[i] is drawn from, and its index among the cycle's rows. */
static int32_t row_of(const struct cop_grow *grow, int32_t i, int32_t j)
{
    int32_t n = grow->n_drafters > 1 ? grow->n_drafters : 1;
    return i * n + (j < n ? j : n - 1);
}

static int32_t append_child(struct cop_grow *grow, int32_t i, cop_token token, int32_t row)
{
    if (grow->budget < 1 || token < 0) {
        return -1;
    }
    int32_t node = cop_tree_add(grow->tree, grow->frontier[i], token, grow->first_row + row);
    if (node >= 0) {
        grow->budget--;
        grow->next[grow->n_next++] = node;
    }
    return node;
}

int32_t cop_grow_add(struct cop_grow *grow, int32_t i, cop_token token)
{
    int32_t row = row_of(grow, i, cop_tree_children(grow->tree, grow->frontier[i]));
    if (grow->rows[row].kind == COP_ROW_NONE) {
        return -1;
    }
    return append_child(grow, i, token, row);
}

/* A child of its own for each of k draws; in a merged tree an equal sibling is there already.
 * The coin is named by the number of the draw, so that a wider request keeps the narrower one's
 * coins. */
static int32_t draw_independent(struct cop_grow *grow, int32_t i, int32_t k)
{
    struct cop_tree *tree = grow->tree;
    int32_t parent = grow->frontier[i], added = 0;
    int32_t elders = tree->is_merged ? 0 : cop_tree_children(tree, parent);
    for (int32_t j = 0; j < k; j++) {
        int32_t row = row_of(grow, i, elders + j);
        struct cop_weights weights = cop_row_weights(&grow->rows[row]);
        if (weights.vocab < 1) {
            break;
        }
        uint32_t key = cop_tree_child_key(tree->key[parent], elders + j);
        cop_token token = grow->rows[row].kind == COP_ROW_POINTS
                              ? (grow->rows[row].count > 0 ? grow->rows[row].ids[0] : -1)
                              : cop_pick(grow->draws, COP_PURPOSE_DRAFT, key, &weights);
        if (tree->is_merged && cop_tree_find(tree, parent, token) >= 0) {
            continue;
        }
        if (append_child(grow, i, token, row) < 0) {
            break;
        }
        added++;
    }
    return added;
}

/* Without replacement: a race. Deterministic: the best, or the points in their order. */
static int32_t draw_list(struct cop_grow *grow, int32_t i, int32_t k)
{
    int32_t row = row_of(grow, i, 0), parent = grow->frontier[i], added = 0;
    cop_token ids[COP_TREE_LIMIT];
    int32_t n = grow->tree->draw == COP_DRAW_DETERMINISTIC
                    ? cop_row_top(&grow->rows[row], k, ids)
                    : cop_race(grow->draws, COP_PURPOSE_DRAFT, grow->tree->key[parent],
                               &grow->rows[row], k, ids);
    for (int32_t j = 0; j < n; j++) {
        if (append_child(grow, i, ids[j], row) < 0) {
            break;
        }
        added++;
    }
    return added;
}

/* Several drafters at temperature 0: each gives its own best; siblings may be equal. */
static int32_t draw_bests(struct cop_grow *grow, int32_t i, int32_t k)
{
    int32_t added = 0;
    for (int32_t j = 0; j < k && j < grow->n_drafters; j++) {
        cop_token best;
        int32_t row = row_of(grow, i, j);
        if (cop_row_top(&grow->rows[row], 1, &best) < 1 ||
            append_child(grow, i, best, row) < 0) {
            break;
        }
        added++;
    }
    return added;
}

int32_t cop_grow_draw(struct cop_grow *grow, int32_t i, int32_t k)
{
    k = k < grow->budget ? k : grow->budget;
    k = k < COP_TREE_LIMIT ? k : COP_TREE_LIMIT;
    if (k < 1 || grow->rows[row_of(grow, i, 0)].kind == COP_ROW_NONE) {
        return 0;
    }
    switch (grow->tree->draw) {
    case COP_DRAW_INDEPENDENT: return draw_independent(grow, i, k);
    case COP_DRAW_DETERMINISTIC:
        return grow->n_drafters > 1 ? draw_bests(grow, i, k) : draw_list(grow, i, k);
    case COP_DRAW_WITHOUT_REPLACEMENT: return draw_list(grow, i, k);
    case COP_DRAW_AUTO:
    case COP_DRAW_GREEDY:
    case COP_DRAW_HUB_PAIR:
    case COP_DRAW_BEAM:
    case COP_DRAW_SELECTED:
    case COP_DRAW_COUNT: break; /* refused by cop_pairing_check */
    }
    return 0;
}
