/* Inverse CDF: total = sum of block sums, mass = u * total; the first block whose running sum
 * exceeds mass holds the token, and the pick within it is the shared one of ops.h. */
#include "core/cycle/choose.h"
#include "kernels/ops.h"

#include <math.h>

void cop_draws_refuse(struct cop_error *err, const char *text)
{
    if (err && err->code == COP_OK) {
        (void)cop_fail(err, COP_ERR_ARGUMENT, "%s", text);
    }
}

static int32_t block_count(const struct cop_weights *weights, int32_t block)
{
    int32_t left = weights->vocab - block * COP_SUM_BLOCK;
    return left < COP_SUM_BLOCK ? left : COP_SUM_BLOCK;
}

static double block_sum(const struct cop_weights *weights, int32_t block)
{
    if (weights->block_sums) {
        return weights->block_sums[block];
    }
    double values[COP_SUM_BLOCK];
    int32_t count = block_count(weights, block);
    weights->fill(weights->context, block * COP_SUM_BLOCK, count, values);
    for (int32_t i = 0; i < count; i++) {
        if (!(values[i] >= 0)) {
            return (double)NAN;
        }
    }
    return cop_sum_block(values, count);
}

cop_token cop_choose(const struct cop_weights *weights, double u, struct cop_error *err)
{
    int32_t n_blocks = (weights->vocab + COP_SUM_BLOCK - 1) / COP_SUM_BLOCK;
    if (n_blocks > COP_WEIGHT_BLOCKS) {
        cop_draws_refuse(err, "a pick chooses among at most 1048576 tokens");
        return -1;
    }
    double sums[COP_WEIGHT_BLOCKS], total = 0.0;
    int32_t last = -1;
    for (int32_t b = 0; b < n_blocks; b++) {
        sums[b] = block_sum(weights, b);
        total += sums[b];
        last = sums[b] > 0 ? b : last;
    }
    if (!(total > 0) || isinf(total)) {
        cop_draws_refuse(err, total <= 0
                                  ? "a pick from weights that are all zero"
                                  : "a pick from weights that are negative or not finite");
        return -1;
    }
    double mass = u * total, before = 0.0;
    int32_t block = 0;
    while (block < last && before + sums[block] <= mass) {
        before += sums[block++];
    }
    double values[COP_SUM_BLOCK];
    int32_t count = block_count(weights, block);
    weights->fill(weights->context, block * COP_SUM_BLOCK, count, values);
    return block * COP_SUM_BLOCK + cop_pick_block(values, count, mass - before, NULL);
}
