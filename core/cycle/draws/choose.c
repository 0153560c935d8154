/* Inverse CDF: total = sum of block sums, mass = u * total; the first block whose running sum
 * exceeds mass holds the token, and the pick within it is the shared one of ops.h. */
#include "core/cycle/draws/choose.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

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

/* The block on which u * *total falls, total being the sum of all, first to last; *within is
 * what of it is left inside the block. -1: no block has weight. */
static int32_t find_block(const double *sums, int32_t n_blocks, double u, double *total,
                          double *within)
{
    int32_t last = -1, block = 0;
    *total = 0;
    for (int32_t b = 0; b < n_blocks; b++) {
        *total += sums[b];
        last = sums[b] > 0 ? b : last;
    }
    double mass = u * *total, before = 0;
    while (block < last && before + sums[block] <= mass) {
        before += sums[block++];
    }
    *within = mass - before;
    return last < 0 ? -1 : block;
}

cop_token cop_choose(const struct cop_weights *weights, double u, struct cop_error *err)
{
    int32_t n_blocks = (weights->vocab + COP_SUM_BLOCK - 1) / COP_SUM_BLOCK;
    if (n_blocks > COP_WEIGHT_BLOCKS) {
        cop_draws_refuse(err, "a pick chooses among at most 1048576 tokens");
        return -1;
    }
    double sums[COP_WEIGHT_BLOCKS], total, within;
    sums[0] = 0; /* of no blocks */
    for (int32_t b = 0; b < n_blocks; b++) {
        sums[b] = block_sum(weights, b);
    }
    int32_t block = find_block(sums, n_blocks, u, &total, &within);
    if (!(total > 0) || isinf(total)) {
        cop_draws_refuse(err, total <= 0
                                  ? "a pick from weights that are all zero"
                                  : "a pick from weights that are negative or not finite");
        return -1;
    }
    double values[COP_SUM_BLOCK];
    int32_t count = block_count(weights, block);
    weights->fill(weights->context, block * COP_SUM_BLOCK, count, values);
    return block * COP_SUM_BLOCK + cop_pick_block(values, count, within, NULL);
}

/* ---- Several, without replacement -------------------------------------------------------- */

enum { SLICE = 128 }; /* entries of a block that a draw steps over at once */

/* The entry of a block on which `mass` falls, found slice by slice. */
static int32_t pick_by_slices(const double *values, int32_t count, double mass)
{
    int32_t first = 0;
    for (; first + SLICE < count; first += SLICE) {
        double sum = cop_sum_block(values + first, SLICE);
        if (mass < sum) {
            break;
        }
        mass -= sum;
    }
    int32_t at = cop_pick_block(values + first, count - first, mass, NULL);
    return at < 0 ? cop_pick_block(values, count, HUGE_VAL, NULL) : first + at;
}

static void sum_below(struct cop_urn *urn, int32_t first)
{
    for (int32_t block = first; block < urn->n_blocks; block++) {
        urn->below[block + 1] = urn->below[block] + urn->sums[block];
    }
}

/* What is left of a block; returns its size. */
static int32_t look_into(const struct cop_urn *urn, int32_t block, double *values)
{
    const struct cop_weights weights = cop_row_weights(urn->row);
    int32_t count = block_count(&weights, block);
    weights.fill(weights.context, block * COP_SUM_BLOCK, count, values);
    for (int32_t word = 0; word < COP_SUM_BLOCK / 64; word++) {
        for (uint64_t bits = urn->gone[block][word]; bits != 0; bits &= bits - 1) {
            values[word * 64 + __builtin_ctzll(bits)] = 0;
        }
    }
    return count;
}

static void mark_gone(struct cop_urn *urn, cop_token id)
{
    int32_t at = id % COP_SUM_BLOCK;
    urn->gone[id / COP_SUM_BLOCK][at / 64] |= (uint64_t)1 << at % 64;
}

static bool has_lost(const struct cop_urn *urn, int32_t block)
{
    uint64_t any = 0;
    for (int32_t word = 0; word < COP_SUM_BLOCK / 64; word++) {
        any |= urn->gone[block][word];
    }
    return any != 0;
}

bool cop_urn_fill(struct cop_urn *urn, const struct cop_row *row, const cop_token *ids,
                  int32_t n, struct cop_error *err)
{
    const struct cop_weights weights = cop_row_weights(row);
    double values[COP_SUM_BLOCK];
    urn->row = row;
    urn->n_gone = n;
    urn->n_blocks = (row->vocab + COP_SUM_BLOCK - 1) / COP_SUM_BLOCK;
    urn->below[0] = 0;
    if (urn->n_blocks > COP_WEIGHT_BLOCKS) {
        cop_draws_refuse(err, "a race is among at most 1048576 tokens");
        return false;
    }
    memset(urn->gone, 0, (size_t)urn->n_blocks * sizeof *urn->gone);
    double total = cop_weights_blocks(&weights, urn->sums);
    if (isnan(total) || isinf(total)) {
        cop_draws_refuse(err, "a race among weights that are not finite");
        return false;
    }
    for (int32_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && ids[i] < row->vocab) {
            mark_gone(urn, ids[i]);
        }
    }
    for (int32_t block = 0; n > 0 && block < urn->n_blocks; block++) {
        if (has_lost(urn, block)) {
            urn->sums[block] = cop_sum_block(values, look_into(urn, block, values));
        }
    }
    sum_below(urn, 0);
    return true;
}

/* The block on which `mass` falls, or the last that has something; -1: none has. */
static int32_t find_in_urn(const struct cop_urn *urn, double mass)
{
    int32_t low = 0, high = urn->n_blocks;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (urn->below[middle + 1] > mass) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    int32_t block = low < urn->n_blocks ? low : urn->n_blocks - 1;
    while (block >= 0 && !(urn->sums[block] > 0)) {
        block--;
    }
    return block;
}

/* Takes the token on which u falls; -1: nothing is left. */
static cop_token take_from(struct cop_urn *urn, double u)
{
    double mass = u * urn->below[urn->n_blocks], values[COP_SUM_BLOCK];
    int32_t block = find_in_urn(urn, mass);
    if (block < 0) {
        return -1;
    }
    int32_t count = look_into(urn, block, values);
    int32_t at = pick_by_slices(values, count, mass - urn->below[block]);
    values[at] = 0;
    urn->sums[block] = cop_sum_block(values, count);
    sum_below(urn, block);
    mark_gone(urn, block * COP_SUM_BLOCK + at);
    return block * COP_SUM_BLOCK + at;
}

int32_t cop_urn_draw(struct cop_urn *urn, int32_t k,
                     double (*coin)(void *context, int32_t index), void *context,
                     cop_token *ids)
{
    while (urn->n_gone < k) {
        double u = coin(context, urn->n_gone);
        cop_token id = isnan(u) ? -1 : take_from(urn, u);
        if (id < 0) {
            break;
        }
        ids[urn->n_gone++] = id;
    }
    return urn->n_gone;
}
