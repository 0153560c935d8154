/* What a scaled target row has over scaled draft rows, token by token:
 *
 *     surplus(t) = (target_scale * target(t) - sum over terms of scale * row(t))+
 *
 * Rules that weigh whole prefixes accept by its sum and draw their last token from it. The
 * surplus of a surplus has the same form, (a (s - u)+ - v)+ = (a s - a u - v)+ for a, u, v >=
 * 0, so however often a rule subtracts, one number a row keeps the result: no rule holds a row
 * of its own. */
#ifndef ALGORITHMS_SURPLUS_H
#define ALGORITHMS_SURPLUS_H

#include "core/cycle/draws.h"

struct cop_surplus_term {
    const struct cop_row *row;
    double scale;
};

struct cop_surplus {
    const struct cop_row *target;
    double target_scale;
    struct cop_surplus_term *terms; /* [n_terms], lent */
    int32_t n_terms;
    struct cop_rest
        watched;         /* row of a term, or NULL: its mass without some tokens is wanted */
    double left;         /* out: that mass; not as 1 - theirs, which cancels */
    double above, below; /* out: sums of the surplus, and of what it cut off */
    double sums[COP_WEIGHT_BLOCKS]; /* out: the surplus by COP_SUM_BLOCK */
};

/* One pass over the rows: fills everything marked out. */
void cop_surplus_measure(struct cop_surplus *surplus);

/* A token drawn from a measured surplus whose terms have not changed since. An empty one is met
 * by rounding only, and the target row itself is the right law then. */
cop_token cop_surplus_pick(const struct cop_surplus *surplus, const struct cop_draws *draws,
                           uint32_t purpose, uint32_t key);

/* The surplus of one token. */
double cop_surplus_at(const struct cop_surplus *surplus, cop_token token);

#endif
