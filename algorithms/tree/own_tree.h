/* The builder of proposers that decide the shape themselves: below every node it takes all that
 * the proposer's row lists, in that order. A node's score is the proposer's confidence in it.
 *
 * For lists of points only; the proposer bounds depth and number. */
#ifndef ALGORITHMS_TREE_OWN_TREE_H
#define ALGORITHMS_TREE_OWN_TREE_H

#include "core/cycle/contract/builder.h"

/* A prepared builder; *out is NULL after failure. */
enum cop_status cop_own_tree_new(enum cop_shape shape, int32_t depth, int32_t nodes,
                                 struct cop_part **out, struct cop_error *err);

#endif
