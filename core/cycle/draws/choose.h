/* The inverse CDF over weights that come block by block: shared by the answers that turn one
 * uniform into a token. Private to core/cycle. */
#ifndef COP_CYCLE_CHOOSE_H
#define COP_CYCLE_CHOOSE_H

#include "core/cycle/draws/draws.h"

/* The token on which u * sum falls, u in [0, 1). Never one of weight zero. Where the weights
 * cannot be drawn from (no positive one, a negative, a sum that is not finite) fills *err and
 * returns -1. */
cop_token cop_choose(const struct cop_weights *weights, double u, struct cop_error *err);

/* Up to k different tokens, one after another without replacement: the i-th, from 0, is where
 * coin(context, i) falls among what the ones before it have left. Ends early when nothing is
 * left, or at a NaN coin. Returns how many. */
int32_t cop_choose_distinct(const struct cop_row *row, int32_t k,
                            double (*coin)(void *context, int32_t index), void *context,
                            cop_token *ids, struct cop_error *err);

/* Reports a question whose answer would mean nothing; keeps the first report. */
void cop_draws_refuse(struct cop_error *err, const char *text);

#endif
