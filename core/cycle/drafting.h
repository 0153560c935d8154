/* One tree in the making: the level-by-level growth that engine and propose_once share.
 *
 *     cop_drafting_start      a lone root
 *     { cop_drafting_goes_on  may there be a next level? limits, then the length policy
 *       cop_drafting_ask      the frontier to hand to the proposer's expand
 *       cop_drafting_grow }   children below it, as builder and draw say
 *     cop_drafting_finish     drops what the builder does not want to keep
 *
 * Rows are kept in the order in which nodes were expanded; draft_row[i] of the tree says which
 * one node i was drawn from. They are normalised here, so that builders, policies and rules can
 * read them. */
#ifndef COP_CYCLE_DRAFTING_H
#define COP_CYCLE_DRAFTING_H

#include "core/cycle/contract/builder.h"
#include "core/cycle/contract/length.h"
#include "core/cycle/contract/proposer.h"

struct cop_drafting {
    struct cop_tree tree;
    struct cop_row *rows; /* [n_rows, of rows_capacity] of this cycle */
    int32_t n_rows, rows_capacity;
    int32_t first_row;                    /* of the frontier being expanded */
    int32_t *frontier, *next, n_frontier; /* [tree capacity] */
    double *scores;                       /* [tree capacity] the builder's */
    uint8_t *keep;                        /* [tree capacity] scratch */
    int32_t depth;                        /* levels grown so far */
    int32_t max_depth;                    /* of this cycle */
    struct cop_row_arena *arena;          /* lent: normalisers of the rows */
    /* 0, 1: one row per frontier node; more: that many, see struct cop_grow */
    int32_t n_drafters;
    int32_t scout_room; /* of the tree's capacity, kept for scouts */
    int32_t n_scouts;   /* of this cycle's nodes, the last ones */
    int64_t position;   /* of the root in its sequence; set by whoever starts a cycle */
    bool shares_noise;  /* by the rule */
    bool may_stop;      /* by the length policy */
};

/* A tree of at most n_nodes drafted nodes. `arena` is lent and shared; whoever owns it resets
 * it before the first start of a cycle. */
enum cop_status cop_drafting_init(struct cop_drafting *drafting, int32_t n_nodes,
                                  struct cop_row_arena *arena, struct cop_error *err);
void cop_drafting_release(struct cop_drafting *drafting);

void cop_drafting_start(struct cop_drafting *drafting, cop_token root, int32_t max_depth);

/* Whether the limits allow another level, and whether the policy wants it; both. length NULL:
 * as deep as the limits allow, and memory may be NULL too. */
bool cop_drafting_has_room(const struct cop_drafting *drafting);
bool cop_drafting_is_wanted(struct cop_drafting *drafting, const struct cop_part *length,
                            const struct cop_length_memory *memory);
bool cop_drafting_goes_on(struct cop_drafting *drafting, const struct cop_part *length,
                          const struct cop_length_memory *memory);

/* No further level, although there may be room. */
void cop_drafting_stop(struct cop_drafting *drafting);

/* Fills *frontier and makes room for its rows, all of kind NONE. */
enum cop_status cop_drafting_ask(struct cop_drafting *drafting, int32_t sequence,
                                 struct cop_frontier *frontier, struct cop_error *err);

/* Grows one level from the rows that expand has filled in. builder NULL: one child a node. */
enum cop_status cop_drafting_grow(struct cop_drafting *drafting, const struct cop_part *builder,
                                  const struct cop_draws *draws, struct cop_error *err);

/* After the last level. */
void cop_drafting_finish(struct cop_drafting *drafting, const struct cop_part *builder);

/* What rules, observers and traces see: the tree without its scouts. Lent. */
struct cop_tree cop_drafting_tree(const struct cop_drafting *drafting);

/* at(node): the row that the node's token was drawn from. */
struct cop_rows cop_drafting_rows(struct cop_drafting *drafting);

/* Probability of a node's token under its row; of a point, the proposer's confidence. NaN where
 * there is none. */
double cop_drafting_probability(const struct cop_drafting *drafting, int32_t node);

#endif
