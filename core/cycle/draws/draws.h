/* Randomness as rules and builders see it: three questions, each with a purpose and a node.
 *
 * Two implementations answer. Coins (coins.h) are used in runs: Philox words named by (seed;
 * node key, purpose and index, cycle, request), so an answer never depends on batch mates,
 * threads or cancelled work. Enumeration (enumerate.h) is used by the proof of losslessness: it
 * replays a recorded prefix of answers, then takes the first possible one, and weighs each run.
 * The code that asks is the same function in both.
 *
 * Asking twice for the same (purpose, key) in one cycle is an error: draws->status then holds
 * COP_ERR_ARGUMENT. */
#ifndef COP_CYCLE_DRAWS_H
#define COP_CYCLE_DRAWS_H

#include "core/base/error.h"
#include "core/cycle/rows/row.h"
#include <stdbool.h>
#include <stdint.h>

/* A purpose is the FNV-1a hash of its name, so that scripts may invent their own. */
uint32_t cop_purpose(const char *name);
#define COP_PURPOSE_DRAFT                                                                      \
    0xb576858cu /* cop_purpose("draft"): how builders pick children; key of the child to be    \
                 * drawn, or of the parent for a race */
/* Noise shared between draft and target (coupled rules): a race with this purpose takes the
 * absolute position of the token that it is for (cop_shared_key) in place of node and cycle, so
 * that draft and target race with the same runners, and plain decoding too. The one question
 * that may be asked twice in a cycle: once per side. */
#define COP_PURPOSE_SHARED 0xa4f844d4u /* cop_purpose("shared") */
/* The key of the token `depth` levels below a root at `position`; the token after a node of
 * depth d has depth d + 1. */
static inline uint32_t cop_shared_key(int64_t position, int32_t depth)
{
    return (uint32_t)(position + depth);
}

/* Non-negative weights over token ids that need not sum to 1, produced block by block. */
struct cop_weights {
    int32_t vocab;
    void (*fill)(const void *context, int32_t first, int32_t count, double *out);
    const void *context;
    const double *block_sums; /* by COP_SUM_BLOCK, if somebody has them already; else NULL */
};
/* The weights of a row are its probabilities up to a common factor (LOGITS: exponentials
 * without the normaliser, so that their block sums are at hand). */
struct cop_weights cop_row_weights(const struct cop_row *row);
/* The positive part of target_scale * target - draft_scale * draft; a NULL draft is all zero.
 * `residual` is lent and must outlive the weights. */
struct cop_residual {
    const struct cop_row *target, *draft;
    double target_scale, draft_scale;
};
#define COP_WEIGHT_BLOCKS 1024 /* COP_SUM_BLOCK tokens each: a pick chooses among a million */
struct cop_weights cop_residual_weights(const struct cop_residual *residual);
/* A row without some of its tokens: what is left to draw from after they were drawn. `rest` is
 * lent and must outlive the weights. */
struct cop_rest {
    const struct cop_row *row;
    const cop_token *gone; /* [n_gone] */
    int32_t n_gone;
};
struct cop_weights cop_rest_weights(const struct cop_rest *rest);
/* Sum in the shared blocked order; and with the sum of each block, in sums[COP_WEIGHT_BLOCKS],
 * which may serve as block_sums of the same weights. */
double cop_weights_sum(const struct cop_weights *weights);
/* The same of one block of COP_SUM_BLOCK tokens. */
double cop_weights_block_sum(const struct cop_weights *weights, int32_t block);
double cop_weights_blocks(const struct cop_weights *weights, double *sums);

struct cop_draws_ops {
    bool (*flip)(void *state, uint32_t purpose, uint32_t key, double probability);
    cop_token (*pick)(void *state, uint32_t purpose, uint32_t key,
                      const struct cop_weights *weights);
    int32_t (*race)(void *state, uint32_t purpose, uint32_t key, const struct cop_row *row,
                    int32_t k, cop_token *ids, int32_t n);
};
struct cop_draws {
    const struct cop_draws_ops *ops;
    void *state;
    struct cop_error *error; /* sticky: code COP_OK until a question was wrong */
};

/* true iff u < probability; NaN is an error. */
static inline bool cop_flip(const struct cop_draws *draws, uint32_t purpose, uint32_t key,
                            double probability)
{
    return draws->ops->flip(draws->state, purpose, key, probability);
}
/* A token with probability weight / sum, by the shared inverse CDF. All weights zero is an
 * error and gives -1. */
static inline cop_token cop_pick(const struct cop_draws *draws, uint32_t purpose, uint32_t key,
                                 const struct cop_weights *weights)
{
    return draws->ops->pick(draws->state, purpose, key, weights);
}
/* A pick from weights, or from the row where the weights are all zero. */
cop_token cop_pick_else(const struct cop_draws *draws, uint32_t purpose, uint32_t key,
                        const struct cop_weights *weights, const struct cop_row *otherwise);
/* A token drawn from a residual after a rejection. Equal rows, up to rounding, leave nothing
 * there; such a rejection came from rounding too, and the target row itself is the right law.
 */
cop_token cop_pick_residual(const struct cop_draws *draws, uint32_t purpose, uint32_t key,
                            const struct cop_residual *residual);
/* Up to k different tokens of positive probability, drawn one after another without replacement
 * (the order in which an exponential race ends has the same law); a wider request extends a
 * narrower one. Returns how many. */
static inline int32_t cop_race(const struct cop_draws *draws, uint32_t purpose, uint32_t key,
                               const struct cop_row *row, int32_t k, cop_token *ids)
{
    return draws->ops->race(draws->state, purpose, key, row, k, ids, 0);
}
/* The same race past its first n, which ids[0..n) holds, n > 0: what cop_race would have given
 * for k. Others may stand in their place; then those are not drawn again. */
static inline int32_t cop_race_on(const struct cop_draws *draws, uint32_t purpose, uint32_t key,
                                  const struct cop_row *row, int32_t k, cop_token *ids,
                                  int32_t n)
{
    return draws->ops->race(draws->state, purpose, key, row, k, ids, n);
}

#endif
