/* Growing a tree whose shape is settled beforehand. */
#include "algorithms/tree/fixed_tree.h"

#include <stdlib.h>
#include <string.h>

enum cop_status cop_fixed_tree_init(struct cop_fixed_tree *tree, int32_t n_nodes,
                                    struct cop_error *err)
{
    size_t room = (size_t)n_nodes + 1;
    *tree = (struct cop_fixed_tree){.is_chain = true,
                                    .parent = calloc(4 * room, sizeof *tree->parent)};
    if (!tree->parent) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a tree of %d nodes", (int)n_nodes);
    }
    tree->rank = tree->parent + room;
    tree->first_child = tree->parent + 2 * room;
    tree->n_children = tree->parent + 3 * room;
    return COP_OK;
}

void cop_fixed_tree_release(struct cop_fixed_tree *tree)
{
    free(tree->parent);
    *tree = (struct cop_fixed_tree){0};
}

int32_t cop_fixed_tree_find(const struct cop_fixed_tree *fixed, const struct cop_tree *tree,
                            int32_t node)
{
    if (node == 0) {
        return 0;
    }
    int32_t parent = cop_fixed_tree_find(fixed, tree, tree->parent[node]);
    return parent >= 0 && tree->rank[node] < fixed->n_children[parent]
               ? fixed->first_child[parent] + tree->rank[node]
               : -1;
}

void cop_fixed_tree_grow(const struct cop_fixed_tree *fixed, struct cop_grow *grow)
{
    int32_t first = grow->n_next, kept = first;
    for (int32_t i = 0; i < grow->n_frontier; i++) {
        int32_t at = cop_fixed_tree_find(fixed, grow->tree, grow->frontier[i]);
        if (at >= 0 && fixed->n_children[at] > 0) {
            (void)cop_grow_draw(grow, i, fixed->n_children[at]);
        }
    }
    for (int32_t i = first; i < grow->n_next; i++) {
        int32_t at = cop_fixed_tree_find(fixed, grow->tree, grow->next[i]);
        if (at >= 0 && fixed->n_children[at] > 0) {
            grow->next[kept++] = grow->next[i];
        }
    }
    grow->n_next = kept;
}

int32_t cop_fixed_tree_sketch(const struct cop_fixed_tree *fixed, int32_t *parents,
                              int32_t *ranks)
{
    for (int32_t node = 1; node <= fixed->n_nodes; node++) {
        parents[node] = fixed->parent[node];
        ranks[node] = fixed->rank[node];
    }
    return fixed->n_nodes + 1;
}
