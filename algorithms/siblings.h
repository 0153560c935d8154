/* Walking a tree as rules see it: from child to child, past scout nodes. */
#ifndef ALGORITHMS_SIBLINGS_H
#define ALGORITHMS_SIBLINGS_H

#include "core/cycle/tree.h"

/* The first child of `parent` that comes after node `after` (`parent` itself: the eldest), in
 * draw order; -1: none. */
static inline int32_t cop_next_child(const struct cop_tree *tree, int32_t parent, int32_t after)
{
    for (int32_t node = after + 1; node < tree->size; node++) {
        if (tree->parent[node] == parent && !(tree->flags[node] & COP_NODE_SCOUT)) {
            return node;
        }
    }
    return -1;
}

#endif
