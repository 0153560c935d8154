/* The head of a node: its likeliest draft tokens one by one, and all others as one lump, the
 * rest. Rules that solve a small problem per node (transport, canonical) solve it over the head
 * and stay exact whatever it holds, because they know the law of a drafted token of the rest:
 * the draft row's own, scaled.
 *
 *     items    0 … n - 1: the tokens ids[0 … n), n: the rest */
#ifndef COP_ALGORITHMS_HEAD_H
#define COP_ALGORITHMS_HEAD_H

#include "core/cycle/contract/rule.h"

enum {
    COP_HEAD_LIMIT = 16, /* tokens */
    COP_HEAD_ITEMS = COP_HEAD_LIMIT + 1
};

/* The children of a node that were asked for together, so that their number does not depend on
 * their tokens. Equal rows are the same pointer. */
struct cop_siblings {
    int32_t node, n;               /* children; a child may stand for several draws */
    int32_t n_draws;               /* >= n: with multiplicity in a merged tree */
    int32_t *children;             /* [n] in draw order */
    const struct cop_row **drafts; /* [n]: the row that each was drawn from */
    bool same_draft;               /* all from one row, as in a merged tree */
};

struct cop_head {
    int32_t n;
    cop_token ids[COP_HEAD_LIMIT];
    double target[COP_HEAD_ITEMS]; /* target probability of each item */
};

/* Room for a tree's nodes. */
enum cop_status cop_siblings_init(struct cop_siblings *siblings, const struct cop_tree *tree,
                                  struct cop_error *err);
void cop_siblings_release(struct cop_siblings *siblings);
/* The first children of a node. COP_ERR_ARGUMENT where the draft row of any child is missing.
 */
enum cop_status cop_siblings_read(struct cop_siblings *siblings, const struct cop_verify_in *in,
                                  int32_t node, const char *rule, struct cop_error *err);

/* The `limit` likeliest tokens of the draft rows. Depends on the rows alone, not on what was
 * drawn from them. */
void cop_head_fill(struct cop_head *head, const struct cop_siblings *siblings,
                   const struct cop_row *target, int32_t limit);
/* Probability of each item under a draft row. */
void cop_head_law(const struct cop_head *head, const struct cop_row *draft, double *law);
/* The item of a token. */
int32_t cop_head_item(const struct cop_head *head, cop_token token);

#endif
