/* A tree whose shape is settled beforehand, by ranks: what builders of static trees share.
 *
 * Nodes stand in breadth-first order, so that the children of a node are neighbours. A drafted
 * node is found again by its ranks, because a row with too few tokens may leave some out. */
#ifndef ALGORITHMS_TREE_FIXED_TREE_H
#define ALGORITHMS_TREE_FIXED_TREE_H

#include "core/cycle/contract/builder.h"

struct cop_fixed_tree {
    int32_t n_nodes; /* root not counted */
    int32_t depth;
    bool is_chain;
    int32_t *parent, *rank, *first_child,
        *n_children; /* [n_nodes + 1]; parent owns the block */
};

/* Room for n_nodes, none of them there. */
enum cop_status cop_fixed_tree_init(struct cop_fixed_tree *tree, int32_t n_nodes,
                                    struct cop_error *err);
void cop_fixed_tree_release(struct cop_fixed_tree *tree);

/* The place of a drafted node in the fixed tree, or -1. */
int32_t cop_fixed_tree_find(const struct cop_fixed_tree *fixed, const struct cop_tree *tree,
                            int32_t node);

/* One level; only nodes that have children are expanded on the next one. */
void cop_fixed_tree_grow(const struct cop_fixed_tree *fixed, struct cop_grow *grow);

/* Parents and ranks; returns n_nodes + 1. */
int32_t cop_fixed_tree_sketch(const struct cop_fixed_tree *fixed, int32_t *parents,
                              int32_t *ranks);

#endif
