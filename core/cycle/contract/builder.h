/* The contract of a tree builder: the shape of the guess. The engine calls grow once per level
 * with the rows of the frontier; the builder says how many children each node gets, and
 * cop_grow_draw picks them as the tree's draw says. */
#ifndef COP_CYCLE_BUILDER_H
#define COP_CYCLE_BUILDER_H

#include "core/cycle/contract/plug.h"
#include "core/cycle/draws/draws.h"
#include "core/cycle/rows/row.h"
#include "core/cycle/rows/tree.h"

#define COP_DRAW_BIT(draw) (1u << (draw))

struct cop_grow {
    struct cop_tree *tree;
    const struct cop_draws *draws;
    int32_t level;              /* from 1: depth of the nodes to be added */
    const int32_t *frontier;    /* [n_frontier] nodes of depth level - 1 */
    const struct cop_row *rows; /* [n_frontier]; kind COP_ROW_NONE: no children possible */
    int32_t first_row; /* index of rows[0] among the rows of this cycle (draft_row of the
                          children) */
    int32_t n_frontier;
    int32_t budget; /* drafted nodes that may still be added */
    int32_t *next;  /* out [capacity]: nodes to expand on the next level; cop_grow_draw appends
                       the new ones */
    int32_t n_next;
    /* 0, 1: one row a node; more: child j of frontier[i] is drawn from rows[i * n_drafters +
     * j], whose index is first_row + i * n_drafters + j */
    int32_t n_drafters;
    double *scores;    /* [tree capacity] what the builder thinks of each node: its path's
                          probability, an acceptance estimate; NaN until it says */
    int64_t position;  /* of the root in its sequence: names shared noise */
    bool shares_noise; /* the rule asks for it (struct cop_rule_ops) */
    bool may_stop;     /* a length policy ends the growth by what has been drawn: samples that
                          deeper nodes would push out must stay, or their own tokens decide */
};

/* Draws up to k children below frontier[i] and appends them to `next`. Fewer when the row has
 * fewer tokens of positive probability, or the budget is spent. Equal siblings stay separate
 * nodes under COP_DRAW_INDEPENDENT unless the tree is merged: then the node's multiplicity
 * counts them. A second call for a node goes on after the children that are there (greedy_draw
 * and hub_pair pick all children in one call). Returns the number of children added. */
int32_t cop_grow_draw(struct cop_grow *grow, int32_t i, int32_t k);

/* The tokens that cop_grow_draw(grow, i, k) would take for a node without children, for
 * builders that look before they add: under a deterministic draw the k best among those above
 * `floor`, else a race (to be added from the first on, without gaps, unless the draw is
 * `selected`). n of them are known from a call before, 0 the first time; asking for more than
 * that call did goes on after them. Returns their number. */
int32_t cop_grow_pick(const struct cop_grow *grow, int32_t i, double floor, int32_t k,
                      cop_token *ids, int32_t n);

/* Adds one given token below frontier[i]. Returns the node or -1. */
int32_t cop_grow_add(struct cop_grow *grow, int32_t i, cop_token token);

struct cop_builder_ops {
    struct cop_plug plug;
    uint32_t draws;                             /* set of COP_DRAW_BIT that its growth allows */
    enum cop_shape (*shape)(const void *state); /* required: the widest shape that it makes */
    int32_t (*depth)(const void *state);        /* required: levels below the root at most */
    /* required: drafted nodes of a finished tree at most */
    int32_t (*nodes)(const void *state);
    /* required: adds children for one level. A level that adds none ends the growth. */
    enum cop_status (*grow)(const void *state, struct cop_grow *grow, struct cop_error *err);
    /* optional, for builders that draft more than they keep: nodes before `select` at most, and
     * which of them stay (keep[1..size) is all 1 before; a kept node's parent stays too).
     * Dropping nodes by what they are makes a sampled tree a `selected` one. Up to
     * COP_DRAFT_LIMIT. */
    int32_t (*candidates)(const void *state);
    void (*select)(const void *state, const struct cop_tree *tree, const double *scores,
                   uint8_t *keep);
    /* optional: the shape by ranks, for documentation and build_tree without rows: fills
     * parents[1..], ranks[1..] and (if not NULL, and it has any) scores[1..] of at most
     * nodes(state) + 1 nodes and returns their number */
    int32_t (*sketch)(const void *state, int32_t *parents, int32_t *ranks, double *scores);
    /* optional: children of a node at most, on this level (from 1): rows of as many drafters
     * are used. Absent: any number */
    int32_t (*width)(const void *state, int32_t level);
};

/* Nodes that a builder drafts at most, dropped ones included. */
static inline int32_t cop_builder_candidates(const struct cop_part *builder)
{
    const struct cop_builder_ops *ops = (const struct cop_builder_ops *)builder->plug;
    return ops->candidates ? ops->candidates(builder->state) : ops->nodes(builder->state);
}

/* Rows that each node of a frontier has use for, of those that drafters may have: see
 * cop_frontier. builder NULL: one child a node. */
static inline int32_t cop_builder_places(const struct cop_part *builder, int32_t level)
{
    const struct cop_builder_ops *ops =
        builder ? (const struct cop_builder_ops *)builder->plug : NULL;
    return !ops ? 1 : ops->width ? ops->width(builder->state, level) : 0;
}

/* Whether this builder with these options can pick children so; the message names the draws
 * that it can, or the options that would do. */
enum cop_status cop_builder_check_draw(const struct cop_part *builder, enum cop_draw draw,
                                       struct cop_error *err);

#endif
