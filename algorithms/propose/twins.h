/* A tree beside the engine's: every node of the engine's tree has a twin in it, its other nodes
 * were drafted ahead by whoever drafts for the drafter.
 *
 *     engine's        root ─ a ─ x                 beside it      root ─ a ─ b ─ c
 *                                                                          └ x
 *     twin of         0: 0, a: 1, x: 4             b and c: nobody's twins
 */
#ifndef COP_ALGORITHMS_TWINS_H
#define COP_ALGORITHMS_TWINS_H

#include "core/cycle/contract/proposer.h"

struct cop_twins {
    struct cop_tree tree;
    int32_t *twin;  /* [n_nodes] node as drafted -> its node of the tree; -1: none yet */
    bool *is_taken; /* [tree capacity] it is a twin */
    /* What cop_twins_observed lends. */
    int32_t *outer;    /* [tree capacity] of a twin: the engine's node */
    int32_t *accepted; /* [n_nodes] */
    uint8_t *keep;     /* [tree capacity] scratch */
    struct cop_rows target;
    int32_t n_nodes; /* of the engine's tree at most */
};

/* For trees of n_nodes, and `capacity` >= n_nodes here. Released also after failure. */
enum cop_status cop_twins_init(struct cop_twins *twins, int32_t n_nodes, int32_t capacity,
                               struct cop_error *err);
void cop_twins_release(struct cop_twins *twins);

/* A cycle begins: the root and its twin. */
void cop_twins_start(struct cop_twins *twins, cop_token root);
/* A node that was drafted ahead; -1: the tree is full. */
int32_t cop_twins_add(struct cop_twins *twins, int32_t parent, cop_token token);
/* The twin of a node whose parent has one: a child that was drafted ahead, or a new one (there
 * must be room), which *is_new tells. Equal siblings have a twin each, because each is
 * processed and drawn from by itself. */
int32_t cop_twins_find(struct cop_twins *twins, const struct cop_tree *tree, int32_t node,
                       bool *is_new);

/* Nodes before the scouts of another drafter. */
int32_t cop_twins_drafted(const struct cop_tree *tree);
/* What the engine observed, told of this tree: what was drafted ahead in vain is dropped from
 * it. All nodes but scouts have twins. Lent until the next start; without hidden states. */
struct cop_observed cop_twins_observed(struct cop_twins *twins,
                                       const struct cop_observed *observed);

#endif
