/* The token tree: the guesses of one cycle.
 *
 *              0 root: last committed token, already decided
 *            /   \
 *           1     2          parent  = { -1, 0, 0, 1, 1, 2 }
 *          / \     \         rank    = {  0, 0, 1, 0, 1, 0 }   draw order among siblings
 *         3   4     5        depth   = {  0, 1, 1, 2, 2, 2 }
 *
 * The parent array is the only truth (parent[i] < i, so one pass visits parents first); depth,
 * children, paths and masks are derived by functions. A chain is a tree whose nodes have one
 * child, and nothing treats it specially. draft_row[i] is the row from which node i's token was
 * drawn (siblings usually share one). */
#ifndef COP_CYCLE_TREE_H
#define COP_CYCLE_TREE_H

#include "core/base/error.h"
#include "core/text/tokenizer.h"
#include <stdbool.h>
#include <stdint.h>

#define COP_TREE_LIMIT  4096  /* drafted nodes at most, root not counted */
#define COP_DRAFT_LIMIT 65536 /* the same while it is drafted, for builders that drop nodes */

/* How the children of a node were picked from its draft row. */
enum cop_draw {
    COP_DRAW_AUTO, /* options only: the one that rule, builder and proposer fit */
    COP_DRAW_INDEPENDENT,
    COP_DRAW_WITHOUT_REPLACEMENT, /* one after another, each removes its token and renormalises
                                   */
    COP_DRAW_DETERMINISTIC, /* the best by draft probability, ties to the lowest id; or any
                               function of the context */
    COP_DRAW_GREEDY,        /* the k - 1 best and one sample of the rest */
    COP_DRAW_HUB_PAIR,      /* SpecHub's ordered pair */
    COP_DRAW_BEAM,          /* stochastic beam search */
    COP_DRAW_SELECTED,      /* samples pruned after they were drawn */
    COP_DRAW_COUNT
};
const char *cop_draw_name(enum cop_draw draw); /* "independent", …, "greedy_draw", "hub_pair" */
enum cop_draw cop_draw_from_name(const char *name); /* COP_DRAW_COUNT: unknown */

/* Every chain is paths, every paths is a tree. */
enum cop_shape {
    COP_SHAPE_CHAIN,
    COP_SHAPE_PATHS, /* independent paths merged into a trie */
    COP_SHAPE_TREE
};
const char *cop_shape_name(enum cop_shape shape);

enum {
    COP_NODE_SCOUT = 1, /* scored and observed, hidden from the rule */
    COP_NODE_LATER = 2  /* begins a further request for children of its parent, which may depend
                           on the elder siblings: their number was not settled beforehand */
};

struct cop_tree {
    int32_t size; /* nodes, root included */
    int32_t capacity;
    cop_token *token;      /* all arrays: [capacity] */
    int32_t *parent;       /* -1 for the root */
    int32_t *rank;         /* draw order among siblings, from 0 */
    int32_t *draft_row;    /* index of the row it was drawn from, -1: none recorded */
    int32_t *multiplicity; /* draws that gave this node: independent paths through it in a
                              merged tree (the root: how many paths), else 1 */
    int32_t *drafted; /* index that the node had while it was drafted: proposers keep what they
                         know of a node under it; its own index unless nodes were dropped */
    uint32_t *key;    /* hash of the ranks on the path: names the node's coins */
    uint8_t *flags;
    enum cop_draw draw;
    bool is_merged; /* equal siblings are one node */
};

/* capacity counts the root. */
enum cop_status cop_tree_init(struct cop_tree *tree, int32_t capacity, struct cop_error *err);
void cop_tree_release(struct cop_tree *tree);

/* Back to a lone root; keeps the draw kind. */
void cop_tree_reset(struct cop_tree *tree, cop_token root);

/* A new last child of `parent`. Returns its index, or -1 when the tree is full. */
int32_t cop_tree_add(struct cop_tree *tree, int32_t parent, cop_token token, int32_t draft_row);

/* The same for a scout, below the root or another scout. Scouts come after all other nodes, so
 * that a tree whose size ends before them is the tree without them. */
int32_t cop_tree_scout(struct cop_tree *tree, int32_t parent, cop_token token);

/* Drops the nodes with keep[node] == 0; a kept node's parent must be kept, the root always is.
 * The others keep their order; parents, ranks and keys are made anew, drafted[] says who was
 * who. */
void cop_tree_keep(struct cop_tree *tree, const uint8_t *keep);

/* The key of the child of a node with `key` at `rank`: also names a child that is still to be
 * drawn. */
uint32_t cop_tree_child_key(uint32_t key, int32_t rank);
#define COP_TREE_ROOT_KEY 0x9e3779b9u

int32_t cop_tree_depth(const struct cop_tree *tree, int32_t node); /* 0 for the root */
/* child, children, find and shape, which rules walk with, pass over scout nodes. */
int32_t cop_tree_child(const struct cop_tree *tree, int32_t node, int32_t rank); /* -1: none */
int32_t cop_tree_children(const struct cop_tree *tree, int32_t node);            /* how many */
/* The child of `node` that carries `token` (first in draw order), or -1. */
int32_t cop_tree_find(const struct cop_tree *tree, int32_t node, cop_token token);
bool cop_tree_is_ancestor(const struct cop_tree *tree, int32_t ancestor, int32_t node);
/* Nodes from below the root down to `node`, written to path[0..depth); returns depth. */
int32_t cop_tree_path(const struct cop_tree *tree, int32_t node, int32_t *path);
enum cop_shape cop_tree_shape(const struct cop_tree *tree);
/* Every invariant above. */
enum cop_status cop_tree_check(const struct cop_tree *tree, struct cop_error *err);

#endif
