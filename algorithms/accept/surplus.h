/* What a scaled target row has over scaled draft rows, token by token:
 *
 *     surplus(t) = (target_scale * target(t) - sum over terms of scale * row(t))+
 *
 * Rules that subtract draft rows one after another accept by its sum and draw their last token
 * from it. The surplus of a surplus has the same form, (a (s - u)+ - v)+ = (a s - a u - v)+ for
 * a, u, v >= 0, so however often a rule subtracts, one number a row keeps the result: no rule
 * holds a row of its own. */
#ifndef ALGORITHMS_ACCEPT_SURPLUS_H
#define ALGORITHMS_ACCEPT_SURPLUS_H

#include "core/cycle/draws/draws.h"

struct cop_surplus_term {
    const struct cop_row *row;
    double scale;
};
struct cop_surplus {
    const struct cop_row *target;
    double target_scale;
    /* [n_terms], lent: room for as many rows as are subtracted */
    struct cop_surplus_term *terms;
    int32_t n_terms;
    struct cop_residual one; /* set by cop_surplus_weights: up to one term has a fast sum */
};

/* Rows of one drafter at one node, also where each child has a view of its own. */
bool cop_is_same_row(const struct cop_row *a, const struct cop_row *b);

/* Adds `scale` to the term of a row, a new term if there is none. Returns its index. */
int32_t cop_surplus_subtract(struct cop_surplus *surplus, const struct cop_row *row,
                             double scale);

/* The surplus of one token; of all: valid while the surplus stays as it is. */
double cop_surplus_at(const struct cop_surplus *surplus, cop_token token);
struct cop_weights cop_surplus_weights(struct cop_surplus *surplus);

#endif
