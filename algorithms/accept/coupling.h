/* The best coupling of one node's children with its target row, as a plan: of the probability
 * of every observable set of children, how much goes to each token in it.
 *
 * Over the head of the node (algorithms/heads/head.h), a state is what the plan looks at:
 *
 *     (the set of head tokens among the children, whether one of the rest is among them)
 *
 * and its law follows from the draw and the draft rows. Without replacement, how the race goes
 * on after a token of the rest depends on which one it was, so there the set is of the children
 * before the first of the rest. A maximal flow
 *
 *     source --law--> state --> each token of its set, the rest --target--> sink
 *
 * is the plan. Whatever the flow, the plan is then made feasible: no state gives more than its
 * law, no token of the head gets more than its target. A rule that sends a state's probability
 * as the plan says, and the remainder to target - used, is lossless for any feasible plan; the
 * best one makes it optimal. What the rest gets is a multiple of the draft row, of which the
 * target takes what it can. */
#ifndef COP_ALGORITHMS_TRANSPORT_H
#define COP_ALGORITHMS_TRANSPORT_H

#include "algorithms/heads/head.h"

/* Sets of at most k of the head's tokens: the head shrinks until that many are enough. For a
 * model's vocabulary solving a node then takes about as long as reading its rows; a vocabulary
 * of 16 tokens at most is for proofs and gets the best plan that is affordable at all. */
enum { COP_TRANSPORT_SETS = 128, COP_TRANSPORT_SMALL_SETS = 1024 };

struct cop_transport {
    int32_t n;        /* tokens of the head; item n is the rest */
    int32_t n_states; /* set s without the rest: 2 s, with it: 2 s + 1 */
    int32_t n_sets;
    int32_t size;   /* of a set at most */
    uint32_t *sets; /* [n_sets] masks, by size */
    int16_t *place; /* [2^n] number of a set, by its mask; only of those in sets */
    double *law;    /* [n_states] */
    double *gives;  /* [n_states, n + 1] the plan */
    double used[COP_HEAD_ITEMS];
    double draft_rest; /* probability of the rest under the draft row, where there is one */
    double rest_scale; /* what the rest is offered: this multiple of the draft row */
};

/* How many tokens the head may have for that many draws: at most `limit`. */
int32_t cop_transport_head(int32_t n_draws, int32_t limit, int32_t vocab);

/* Solves one node. The plan is feasible. */
enum cop_status cop_transport_solve(struct cop_transport *plan,
                                    const struct cop_siblings *siblings,
                                    const struct cop_head *head, bool is_replaced,
                                    struct cop_error *err);
/* Scales `gives` down to a feasible plan and computes `used` from it. */
void cop_transport_settle(struct cop_transport *plan, const double *target);
/* The state with this set of the head's tokens. */
int32_t cop_transport_state(const struct cop_transport *plan, uint32_t set, bool has_rest);
void cop_transport_release(struct cop_transport *plan);

#endif
