/* Most valuable nodes: a set of at most k of them, kept while a tree grows level by level.
 *
 * The value of a node is at most its parent's, and of equals the one that came first is better.
 * So the k best of all nodes are a tree, and a node that falls out of them never comes back,
 * nor does anything below it: only nodes that are among the best so far need be expanded. */
#ifndef ALGORITHMS_TREE_BEST_H
#define ALGORITHMS_TREE_BEST_H

#include "core/cycle/contract/builder.h"

struct cop_best_entry {
    double value;  /* what is compared */
    double score;  /* what the node's score will be */
    int32_t order; /* as it came: nodes of the tree by index, then new ones */
    int32_t place; /* of its parent in the frontier; -1: a node of the tree */
    cop_token token;
};

struct cop_best {
    struct cop_best_entry *entries; /* [k]; full: a heap, the worst on top */
    int32_t count, k;
    int32_t n_came;
};

/* Room for k; released also after failure. */
enum cop_status cop_best_init(struct cop_best *best, int32_t k, struct cop_error *err);
void cop_best_release(struct cop_best *best);

/* A node of the tree, in order of index, or a new one. */
void cop_best_offer(struct cop_best *best, double value, double score, int32_t place,
                    cop_token token);

/* The value that a new node must be above to get in; -inf while there is room. */
double cop_best_bar(const struct cop_best *best);

/* Sum of the values. */
double cop_best_sum(const struct cop_best *best);

/* Adds the new nodes that got in to the tree, in the order in which they came, with their
 * scores. Ends the use of `best`. */
void cop_best_add(struct cop_best *best, struct cop_grow *grow);

/* Leaves the k nodes of greatest score in next[0..n_next), in their order. */
enum cop_status cop_best_narrow(struct cop_grow *grow, int32_t k, struct cop_error *err);

/* By value = score = product of decay and draft probability along the path: the tree's nodes;
 * then what the frontier's rows can add to them, top_k children a node. */
void cop_best_offer_tree(struct cop_best *best, const struct cop_grow *grow);
void cop_best_offer_level(struct cop_best *best, const struct cop_grow *grow, int32_t top_k,
                          double decay);

/* The k most probable of what the frontier's rows can add, value = score = product of draft
 * probabilities along the path: a level of a beam search. */
enum cop_status cop_best_level(struct cop_grow *grow, int32_t k, struct cop_error *err);

/* Nodes that can be drafted on `depth` levels while the k best of all are kept: those of one
 * level have their parents among the best as well, one on each level above. As many as there is
 * room for; where that binds, the last levels are narrower than they might be. */
int32_t cop_best_candidates(int32_t k, int32_t depth);

/* The score of a child: never above its parent's, even where a row sums to a little over 1. */
static inline double cop_best_child(double score, const struct cop_row *row, cop_token token)
{
    double probability = cop_row_probability(row, token);
    return probability < 1 ? score * probability : score;
}

/* A node's score; the root's is 1. */
static inline double cop_best_score(const struct cop_grow *grow, int32_t node)
{
    return node > 0 ? grow->scores[node] : 1;
}

/* keep[1..size) of the k nodes of greatest value, of equals the first ones. */
void cop_best_keep(const double *values, int32_t size, int32_t k, uint8_t *keep);

/* ---- Builders that keep the `budget` nodes of greatest value on at most `depth` levels
 * -------
 *
 * Their state begins with a struct cop_best_size, and these are slots of their tables. */
struct cop_best_size {
    int32_t budget, depth;
};
#define COP_BEST_SIZE_OPTIONS(budget_fallback, depth_fallback)                                 \
    {.name = "budget",                                                                         \
     .type = COP_OPTION_INT,                                                                   \
     .offset = offsetof(struct cop_best_size, budget),                                         \
     .min = 1,                                                                                 \
     .max = COP_TREE_LIMIT,                                                                    \
     .fallback = budget_fallback,                                                              \
     .help = "drafted nodes that stay, root not counted"},                                     \
    {                                                                                          \
        .name = "depth", .type = COP_OPTION_INT,                                               \
        .offset = offsetof(struct cop_best_size, depth), .min = 1, .max = COP_TREE_LIMIT - 1,  \
        .fallback = depth_fallback, .help = "levels below the root at most"                    \
    }
int32_t cop_best_size_nodes(const void *state);
int32_t cop_best_size_depth(const void *state);
int32_t cop_best_size_candidates(const void *state);
void cop_best_size_select(const void *state, const struct cop_tree *tree, const double *scores,
                          uint8_t *keep);

#endif
