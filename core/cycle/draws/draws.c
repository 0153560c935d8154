/* Weights: what a pick chooses from, produced block by block so that nobody needs a whole row.
 */
#include "core/cycle/draws/draws.h"
#include "kernels/ops.h"

#include <math.h>

uint32_t cop_purpose(const char *name)
{
    uint32_t hash = 0x811c9dc5u;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        hash = (hash ^ *c) * 0x01000193u;
    }
    return hash;
}

static bool is_kept(const struct cop_row *row, int32_t end)
{
    return row && row->kind == COP_ROW_LOGITS && end <= row->vocab;
}

static bool are_kept(const struct cop_residual *r, int32_t end)
{
    return is_kept(r->target, end) && is_kept(r->draft, end);
}

/* Both sides are kept as f32: one fused pass, which also gives the block's sum. */
static double kept_residual(const struct cop_residual *r, int32_t first, int32_t count,
                            double *out)
{
    return cop_residual_block(r->target->exponentials + first,
                              r->target_scale * r->target->inverse_normaliser,
                              r->draft->exponentials + first,
                              r->draft_scale * r->draft->inverse_normaliser, count, out);
}

/* Blocks of at most COP_SUM_BLOCK entries at a time, so that the draft side fits on the stack.
 */
static void fill_residual(const void *context, int32_t first, int32_t count, double *out)
{
    const struct cop_residual *residual = context;
    if (count <= COP_SUM_BLOCK && are_kept(residual, first + count)) {
        (void)kept_residual(residual, first, count, out);
        return;
    }
    while (count > 0) {
        double draft[COP_SUM_BLOCK];
        int32_t n = count < COP_SUM_BLOCK ? count : COP_SUM_BLOCK;
        cop_row_fill(residual->target, first, n, out);
        if (residual->draft) {
            cop_row_fill(residual->draft, first, n, draft);
            for (int32_t i = 0; i < n; i++) {
                double rest =
                    residual->target_scale * out[i] - residual->draft_scale * draft[i];
                out[i] = rest > 0 ? rest : 0.0;
            }
        } else {
            for (int32_t i = 0; i < n; i++) {
                out[i] *= residual->target_scale;
            }
        }
        first += n;
        count -= n;
        out += n;
    }
}

struct cop_weights cop_residual_weights(const struct cop_residual *residual)
{
    return (struct cop_weights){
        .vocab = residual->target->vocab, .fill = fill_residual, .context = residual};
}

static void fill_rest(const void *context, int32_t first, int32_t count, double *out)
{
    const struct cop_rest *rest = context;
    cop_row_fill(rest->row, first, count, out);
    for (int32_t i = 0; i < rest->n_gone; i++) {
        int32_t at = rest->gone[i] - first;
        if (at >= 0 && at < count) {
            out[at] = 0;
        }
    }
}

struct cop_weights cop_rest_weights(const struct cop_rest *rest)
{
    return (struct cop_weights){.vocab = rest->row->vocab, .fill = fill_rest, .context = rest};
}

/* Entries of a block of weights; the sum of it. */
static int32_t block_count(const struct cop_weights *weights, int32_t block)
{
    int32_t left = weights->vocab - block * COP_SUM_BLOCK;
    return left < COP_SUM_BLOCK ? left : COP_SUM_BLOCK;
}

/* The sum of a block of `rest` that no gone token lies in is known; else negative. */
static double known_rest(const struct cop_rest *rest, int32_t first, int32_t count)
{
    if (!is_kept(rest->row, first + count)) {
        return -1;
    }
    for (int32_t i = 0; i < rest->n_gone; i++) {
        if (rest->gone[i] >= first && rest->gone[i] - first < count) {
            return -1;
        }
    }
    return rest->row->block_sums[first / COP_SUM_BLOCK] * rest->row->inverse_normaliser;
}

double cop_weights_block_sum(const struct cop_weights *weights, int32_t block)
{
    if (weights->block_sums) {
        return weights->block_sums[block];
    }
    int32_t first = block * COP_SUM_BLOCK, count = block_count(weights, block);
    if (weights->fill == fill_residual && are_kept(weights->context, first + count)) {
        return kept_residual(weights->context, first, count, NULL);
    }
    double known = weights->fill == fill_rest ? known_rest(weights->context, first, count) : -1;
    if (known >= 0) {
        return known;
    }
    double values[COP_SUM_BLOCK];
    weights->fill(weights->context, block * COP_SUM_BLOCK, count, values);
    return cop_sum_block(values, count);
}

double cop_weights_blocks(const struct cop_weights *weights, double *sums)
{
    double total = 0.0;
    for (int32_t block = 0; block * COP_SUM_BLOCK < weights->vocab; block++) {
        double sum = cop_weights_block_sum(weights, block);
        total += sum;
        if (sums && block < COP_WEIGHT_BLOCKS) {
            sums[block] = sum;
        }
    }
    return total;
}

double cop_weights_sum(const struct cop_weights *weights)
{
    return cop_weights_blocks(weights, NULL);
}

cop_token cop_pick_else(const struct cop_draws *draws, uint32_t purpose, uint32_t key,
                        const struct cop_weights *weights, const struct cop_row *otherwise)
{
    struct cop_weights known = *weights;
    double sums[COP_WEIGHT_BLOCKS], total = cop_weights_blocks(&known, sums);
    known.block_sums = known.vocab <= COP_WEIGHT_BLOCKS * COP_SUM_BLOCK ? sums : NULL;
    if (!(total > 0) || isinf(total)) {
        known = cop_row_weights(otherwise);
    }
    return cop_pick(draws, purpose, key, &known);
}

cop_token cop_pick_residual(const struct cop_draws *draws, uint32_t purpose, uint32_t key,
                            const struct cop_residual *residual)
{
    struct cop_weights weights = cop_residual_weights(residual);
    return cop_pick_else(draws, purpose, key, &weights, residual->target);
}
