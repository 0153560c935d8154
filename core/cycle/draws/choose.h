/* The inverse CDF over weights that come block by block: shared by the answers that turn one
 * uniform into a token. Private to core/cycle. */
#ifndef COP_CYCLE_CHOOSE_H
#define COP_CYCLE_CHOOSE_H

#include "core/cycle/draws/draws.h"

/* The token on which u * sum falls, u in [0, 1). Never one of weight zero. Where the weights
 * cannot be drawn from (no positive one, a negative, a sum that is not finite) fills *err and
 * returns -1. */
cop_token cop_choose(const struct cop_weights *weights, double u, struct cop_error *err);

/* A row without the tokens that were drawn from it, by block. Only the block that lost a token
 * is summed again, from what it still holds: a subtraction would leave the rounding of a large
 * weight in the place of small ones. So the sums depend on what is left alone. */
struct cop_urn {
    const struct cop_row *row;
    int32_t n_blocks, n_gone;
    double sums[COP_WEIGHT_BLOCKS];
    double below[COP_WEIGHT_BLOCKS + 1];                  /* sums of the blocks before */
    uint64_t gone[COP_WEIGHT_BLOCKS][COP_SUM_BLOCK / 64]; /* bit set: token is out */
};
/* Without ids[0..n), all of the row's vocabulary. False (and a report) where its weights are
 * not finite. */
bool cop_urn_fill(struct cop_urn *urn, const struct cop_row *row, const cop_token *ids,
                  int32_t n, struct cop_error *err);

/* Draws different tokens, one after another without replacement, until k are gone: the i-th,
 * from 0, is where coin(context, i) falls among what the ones before it, ids[0..i), have left.
 * Ends early when nothing is left, or at a NaN coin. Returns how many are gone. */
int32_t cop_urn_draw(struct cop_urn *urn, int32_t k,
                     double (*coin)(void *context, int32_t index), void *context,
                     cop_token *ids);

/* Reports a question whose answer would mean nothing; keeps the first report. */
void cop_draws_refuse(struct cop_error *err, const char *text);

#endif
