/* The head of a node: its likeliest draft tokens one by one, and all others as one lump, the
 * rest. Rules that solve a small problem per node (transport, canonical) solve it over the head
 * and stay exact whatever it holds, because they know the law of a drafted token of the rest:
 * the draft row's own, scaled.
 *
 *     items    0 … n - 1: the tokens ids[0 … n), n: the rest
 *     residual on the head as the rule says, on the rest (target - sum of scale_j draft_j)+ */
#ifndef COP_ALGORITHMS_HEAD_H
#define COP_ALGORITHMS_HEAD_H

#include "core/cycle/rule.h"

enum {
    COP_HEAD_LIMIT = 16, /* tokens */
    COP_HEAD_ITEMS = COP_HEAD_LIMIT + 1
};

/* The drafted children of a node. Equal rows are the same pointer. */
struct cop_siblings {
    int32_t node, n;               /* children; a child may stand for several draws */
    int32_t n_draws;               /* >= n: with multiplicity in a merged tree */
    const int32_t *children;       /* [n] in draw order */
    const struct cop_row **drafts; /* [n]: the row that each was drawn from */
    bool same_draft;               /* all from one row, as in a merged tree */
};

struct cop_head {
    int32_t n;
    cop_token ids[COP_HEAD_LIMIT];
    double target[COP_HEAD_ITEMS]; /* target probability of each item */
};

/* Fills `siblings` for a node with children; `children` and `drafts` have room for the tree's
 * nodes. COP_ERR_ARGUMENT where a draft row is missing. */
enum cop_status cop_siblings_read(struct cop_siblings *siblings, const struct cop_verify_in *in,
                                  int32_t node, int32_t *children,
                                  const struct cop_row **drafts, const char *rule,
                                  struct cop_error *err);

/* The `limit` likeliest tokens of the draft rows. Depends on the rows alone, not on what was
 * drawn from them. */
void cop_head_fill(struct cop_head *head, const struct cop_siblings *siblings,
                   const struct cop_row *target, int32_t limit);
/* Probability of each item under a draft row. */
void cop_head_law(const struct cop_head *head, const struct cop_row *draft, double *law);
/* The item of a token. */
int32_t cop_head_item(const struct cop_head *head, cop_token token);

struct cop_head_residual {
    const struct cop_head *head;
    const double *left; /* [n] weight of each token of the head, not negative */
    const struct cop_row *target;
    const struct cop_row *const *drafts; /* [n_drafts] */
    const double *scales;
    int32_t n_drafts;
};
/* As cop_pick_residual: where rounding left nothing, from the target. */
cop_token cop_head_pick(const struct cop_draws *draws, uint32_t purpose, uint32_t key,
                        const struct cop_head_residual *residual);

#endif
