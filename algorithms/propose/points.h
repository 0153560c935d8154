/* What a proposer without a model drafts in one cycle: a tree of tokens, found at once and
 * handed out level by level as rows of points.
 *
 *     cop_points_start    nothing yet
 *     cop_points_add …    nodes, parents first; siblings in the order in which they are offered
 *     cop_points_seal     children of a node become neighbours
 *     cop_points_answer   the rows below a frontier's nodes
 *
 * Any builder may walk it: a node beside the draft has no row, a builder of several children
 * finds as many as were drafted. */
#ifndef ALGORITHMS_PROPOSE_POINTS_H
#define ALGORITHMS_PROPOSE_POINTS_H

#include "core/cycle/contract/proposer.h"

struct cop_points {
    int32_t count, capacity; /* nodes, the root not counted */
    bool has_weights;
    cop_token *token; /* [1 + capacity] node 0 is the root */
    int32_t *parent;  /* [1 + capacity] */
    double *weight;   /* [1 + capacity] the proposer's confidence */
    int32_t *first;   /* [2 + capacity] sealed: children of node i are places first[i] to
                         first[i + 1] of the three below */
    int32_t *child;   /* [1 + capacity] */
    cop_token *ids;   /* [1 + capacity] their tokens */
    double *weights;  /* [1 + capacity] and weights */
    int32_t *at;      /* [1 + n_at] node of the draft that a node of the tree stands on; -1:
                         beside it */
    int32_t n_at;
};

/* For drafts of at most `capacity` nodes and trees of at most n_tree; released also after
 * failure. */
enum cop_status cop_points_init(struct cop_points *points, int32_t capacity, int32_t n_tree,
                                struct cop_error *err);
void cop_points_release(struct cop_points *points);

/* Forgets the draft before; with weights, those that cop_points_add gives are in the rows. */
void cop_points_start(struct cop_points *points, bool has_weights);
/* A child of `parent`; returns it, or -1 when the draft is full. */
int32_t cop_points_add(struct cop_points *points, int32_t parent, cop_token token,
                       double weight);
void cop_points_seal(struct cop_points *points);
void cop_points_answer(struct cop_points *points, const struct cop_frontier *frontier,
                       int32_t vocab);

/* A draft that is a list: ids[0..n), as many as fit; sealed. */
void cop_points_chain(struct cop_points *points, const cop_token *ids, int32_t n);

/* Lists of token ids that a script gives as history or static text: refuses ids outside the
 * vocabulary. `what` names the option. */
enum cop_status cop_points_check_lists(const struct cop_path_list *lists, int32_t vocab,
                                       const char *what, struct cop_error *err);

#endif
