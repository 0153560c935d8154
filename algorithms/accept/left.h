/* What the children of a node have left of its target: the law, up to its mass, that the output
 * must have if none of them is kept.
 *
 *     left(x) = values[i]                                 for x = ids[i]
 *               (target(x) - sum of scale_j draft_j(x))+  for all others
 *
 * Rules that solve a small problem per node take children as planned, with values of their own
 * for the tokens in the plan. Children that a builder asked for later, knowing the elder ones
 * (COP_NODE_LATER), cannot have been planned for: they are tried one by one, by rejection. */
#ifndef COP_ALGORITHMS_LEFT_H
#define COP_ALGORITHMS_LEFT_H

#include "core/cycle/contract/rule.h"

struct cop_left {
    const struct cop_row *target;
    cop_token *ids; /* room for n tokens and one for each child */
    double *values;
    int32_t n;
    const struct cop_row **drafts; /* room for one for each child */
    double *scales;
    int32_t n_drafts;
};

/* Room for a tree's nodes and `n` tokens more. */
enum cop_status cop_left_init(struct cop_left *left, const struct cop_tree *tree, int32_t n,
                              struct cop_error *err);
void cop_left_release(struct cop_left *left);
/* All of the target; keeps the room. */
void cop_left_reset(struct cop_left *left, const struct cop_row *target);
void cop_left_set(struct cop_left *left, cop_token token, double value);
/* Takes scale * draft from every token without a value of its own. */
void cop_left_take(struct cop_left *left, const struct cop_row *draft, double scale);

/* What is left at one token, >= 0. */
double cop_left_at(const struct cop_left *left, cop_token token);
/* One token of it; where rounding left nothing, one of the target. */
cop_token cop_left_pick(const struct cop_left *left, const struct cop_draws *draws,
                        uint32_t purpose, uint32_t key);

/* Tries the children of `node` after `elder`, its last child that was planned for. The one that
 * is kept, or -1; `left` is then what they all left. A pass over the rows for each. */
int32_t cop_left_try(struct cop_left *left, const struct cop_verify_in *in, int32_t node,
                     int32_t elder);

#endif
