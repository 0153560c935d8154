/* The best static tree when acceptance depends on the rank alone: Sequoia's dynamic programme.
 *
 * The j-th child of an accepted node is the accepted one with probability P[j], whatever the
 * context, so a tree yields F = sum over nodes of the product of P along the path (the root
 * counts 1). Children are ranks 1, 2, … without gaps, and a poor rank may be worth its node for
 * the sake of a better one behind it: P need not fall. With at most l levels, root included,
 * exactly n nodes and b children of the root:
 *
 *     table_l[b][n] = max over m of table_l[b - 1][n - m] + P[b] best_{l-1}[m]
 *     best_l[n]     = max over b of table_l[b][n]          table_l[0][1] = 1
 *
 * Without a bound best_{l-1} is best_l itself, known already for every m < n. */
#ifndef ALGORITHMS_TREE_SEQUOIA_OPTIMUM_H
#define ALGORITHMS_TREE_SEQUOIA_OPTIMUM_H

#include "algorithms/tree/fixed_tree.h"

struct cop_sequoia {
    const double *acceptance; /* [n_ranks]; borrowed */
    int32_t n_ranks;
    int32_t size;     /* nodes at most, root included */
    int32_t n_levels; /* root included; after solving: those that make a difference */
    bool is_bounded;  /* else best has one level, which holds for any number of them */
    double *best;     /* [n_levels + 1][size + 1]; -inf: there is no such tree */
    double *table;    /* [n_ranks + 1][size + 1] of one level */
};

/* Solves for up to n_nodes below the root, on up to `depth` levels below it: for each number of
 * levels up to that, or, where depth is above n_nodes, in one table for any number of them. */
enum cop_status cop_sequoia_solve(struct cop_sequoia *sequoia, const double *acceptance,
                                  int32_t n_ranks, int32_t n_nodes, int32_t depth,
                                  struct cop_error *err);
void cop_sequoia_release(struct cop_sequoia *sequoia);

/* Expected tokens of the best tree of exactly `size` nodes on `levels` levels, both with the
 * root; -inf: there is none. */
double cop_sequoia_value(const struct cop_sequoia *sequoia, int32_t size, int32_t levels);

/* That tree, and the product of P on each node's path: scores[size], owned by the caller. */
enum cop_status cop_sequoia_tree(struct cop_sequoia *sequoia, int32_t size, int32_t levels,
                                 struct cop_fixed_tree *tree, double **scores,
                                 struct cop_error *err);

#endif
