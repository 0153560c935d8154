/* Reading probability rows: one switch over the kinds per question.
 *
 * A LOGITS row answers from the exponentials that normalising left. The arg max has exponential
 * 1, so the normaliser is at least 1 and nothing overflows at tiny temperatures. */
#include "core/cycle/draws/draws.h"
#include "core/cycle/rows/arena.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

/* ---- Making
 * ---------------------------------------------------------------------------------- */

static enum cop_status check_sampling(const struct cop_sampling *sampling,
                                      struct cop_error *err)
{
    if (sampling->temperature < 0 || isinf(sampling->temperature)) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "temperature must be a finite number of at least 0, got %g",
                        sampling->temperature);
    }
    return COP_OK;
}

enum cop_status cop_row_from_logits(struct cop_row *row, const float *logits, int32_t vocab,
                                    const struct cop_sampling *sampling,
                                    struct cop_row_arena *arena, struct cop_error *err)
{
    memset(row, 0, sizeof *row);
    enum cop_status status = check_sampling(sampling, err);
    if (status != COP_OK) {
        return status;
    }
    size_t n_groups =
        ((size_t)(vocab > 0 ? vocab : 0) + COP_MAXIMA_GROUP - 1) / COP_MAXIMA_GROUP;
    float *maxima = cop_row_arena_take(arena, n_groups * sizeof *maxima);
    if (!maxima) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a row of %d logits", vocab);
    }
    int32_t best = vocab > 0 ? cop_argmax_groups(logits, vocab, maxima) : -1;
    if (best < 0) {
        return cop_fail(err, COP_ERR_NUMERIC,
                        "a row of logits is not finite (NaN, +inf, or every token at -inf)");
    }
    row->vocab = vocab;
    row->logits = logits;
    row->maxima = maxima;
    row->max_logit = (double)logits[best];
    row->best = best;
    if (!(sampling->temperature > 0)) {
        row->kind = COP_ROW_ONE_HOT;
        return COP_OK;
    }
    row->kind = COP_ROW_LOGITS;
    /* Bounded so that 0 * inverse stays 0 at denormal temperatures. */
    row->inverse_temperature = fmin(1.0 / sampling->temperature, 1e300);
    return cop_row_truncate(row, sampling, arena, err);
}

/* Zeroes what truncation cut in exponentials[first, first + count); the sum of the rest. */
static double cut_block(const struct cop_row *row, int32_t first, int32_t count,
                        float *exponentials)
{
    double kept[COP_SUM_BLOCK];
    for (int32_t i = 0; i < count; i++) {
        int32_t token = first + i;
        if (!(row->mask[token >> 6] >> (token & 63) & 1u)) {
            exponentials[i] = 0.0f;
        }
        kept[i] = (double)exponentials[i];
    }
    return cop_sum_block(kept, count);
}

static bool is_cut_whole(const struct cop_row *row, int32_t first, int32_t count)
{
    uint64_t any = 0;
    for (int32_t w = first / 64; row->mask && w * 64 < first + count; w++) {
        any |= row->mask[w];
    }
    return row->mask && any == 0;
}

static double fill_block(const struct cop_row *row, int32_t first, int32_t count,
                         float *exponentials)
{
    if (is_cut_whole(row, first, count)) {
        memset(exponentials, 0, (size_t)count * sizeof *exponentials);
        return 0.0;
    }
    double sum = cop_exp_row(row->logits + first, count, row->max_logit,
                             row->inverse_temperature, exponentials);
    return row->mask ? cut_block(row, first, count, exponentials) : sum;
}

static bool is_kept(const struct cop_row *row, cop_token token)
{
    return !row->mask || (row->mask[token >> 6] >> (token & 63) & 1u);
}

/* The same where only ids[0 … n) of the block can have mass: the sum in the same order, in
 * which zeros change nothing. */
static double fill_ids(const struct cop_row *row, const cop_token *ids, int32_t n,
                       float *exponentials)
{
    float logits[COP_SUM_BLOCK], powers[COP_SUM_BLOCK];
    double lanes[8] = {0.0};
    if (n <= 0) {
        return 0.0;
    }
    for (int32_t i = 0; i < n; i++) {
        logits[i] = is_kept(row, ids[i]) ? row->logits[ids[i]] : -INFINITY;
    }
    (void)cop_exp_row(logits, n, row->max_logit, row->inverse_temperature, powers);
    for (int32_t i = 0; i < n; i++) {
        exponentials[ids[i]] = powers[i];
        lanes[ids[i] % 8] += (double)powers[i];
    }
    return cop_sum_block(lanes, 8);
}

static void fill_listed(const struct cop_row *row, int32_t n_blocks, float *exponentials,
                        double *sums)
{
    int32_t at = 0;
    memset(exponentials, 0, (size_t)row->vocab * sizeof *exponentials);
    for (int32_t b = 0; b < n_blocks; b++) {
        int32_t first = at;
        while (at < row->count && row->ids[at] / COP_SUM_BLOCK == b) {
            at++;
        }
        sums[b] = fill_ids(row, row->ids + first, at - first, exponentials);
    }
}

static void fill_all(const struct cop_row *row, int32_t n_blocks, float *exponentials,
                     double *sums)
{
    for (int32_t b = 0; b < n_blocks; b++) {
        int32_t first = b * COP_SUM_BLOCK;
        int32_t count = row->vocab - first < COP_SUM_BLOCK ? row->vocab - first : COP_SUM_BLOCK;
        sums[b] = fill_block(row, first, count, exponentials + first);
    }
}

enum cop_status cop_row_normalise(struct cop_row *row, struct cop_row_arena *arena,
                                  struct cop_error *err)
{
    if (row->kind != COP_ROW_LOGITS || row->normaliser > 0) {
        return COP_OK;
    }
    int32_t n_blocks = (row->vocab + COP_SUM_BLOCK - 1) / COP_SUM_BLOCK;
    double *sums = cop_row_arena_take(arena, (size_t)n_blocks * sizeof *sums);
    float *exponentials = cop_row_arena_take(arena, (size_t)row->vocab * sizeof *exponentials);
    if (!sums || !exponentials) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to normalise a row");
    }
    (row->ids ? fill_listed : fill_all)(row, n_blocks, exponentials, sums);
    double total = 0.0;
    for (int32_t b = 0; b < n_blocks; b++) {
        total += sums[b];
    }
    row->block_sums = sums;
    row->exponentials = exponentials;
    row->normaliser = total;
    row->inverse_normaliser = 1.0 / total;
    return COP_OK;
}

/* ---- Reading
 * --------------------------------------------------------------------------------- */

/* Index of the first sparse entry whose id is not below `token`. */
static int32_t lower_bound(const struct cop_row *row, cop_token token)
{
    int32_t low = 0, high = row->count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (row->ids[middle] < token) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

double cop_row_probability(const struct cop_row *row, cop_token token)
{
    if (token < 0 || token >= row->vocab) {
        return 0.0;
    }
    switch (row->kind) {
    case COP_ROW_NONE: return 0.0;
    case COP_ROW_LOGITS: return (double)row->exponentials[token] * row->inverse_normaliser;
    case COP_ROW_DENSE: return row->dense[token];
    case COP_ROW_SPARSE: {
        int32_t i = lower_bound(row, token);
        return i < row->count && row->ids[i] == token ? row->weights[i] : 0.0;
    }
    case COP_ROW_POINTS: return row->count > 0 && row->ids[0] == token ? 1.0 : 0.0;
    case COP_ROW_ONE_HOT: return row->best == token ? 1.0 : 0.0;
    }
    return 0.0;
}

static void fill_one(int32_t first, int32_t count, cop_token token, double *out)
{
    memset(out, 0, (size_t)count * sizeof *out);
    if (token >= first && token - first < count) {
        out[token - first] = 1.0;
    }
}

/* As cop_row_fill within the vocabulary, but `scale` takes the place of a LOGITS row's
 * normaliser. */
static void fill_scaled(const struct cop_row *row, int32_t first, int32_t count, double scale,
                        double *out)
{
    switch (row->kind) {
    case COP_ROW_NONE: memset(out, 0, (size_t)count * sizeof *out); break;
    case COP_ROW_LOGITS: cop_widen(row->exponentials + first, count, scale, out); break;
    case COP_ROW_DENSE: memcpy(out, row->dense + first, (size_t)count * sizeof *out); break;
    case COP_ROW_SPARSE:
        memset(out, 0, (size_t)count * sizeof *out);
        for (int32_t i = lower_bound(row, first); i < row->count; i++) {
            if (row->ids[i] - first >= count) {
                break;
            }
            out[row->ids[i] - first] = row->weights[i];
        }
        break;
    case COP_ROW_POINTS: fill_one(first, count, row->count > 0 ? row->ids[0] : -1, out); break;
    case COP_ROW_ONE_HOT: fill_one(first, count, row->best, out); break;
    }
}

void cop_row_fill(const struct cop_row *row, int32_t first, int32_t count, double *out)
{
    int32_t inside = row->vocab - first < count ? row->vocab - first : count;
    inside = inside < 0 ? 0 : inside;
    fill_scaled(row, first, inside, row->inverse_normaliser, out);
    memset(out + inside, 0, (size_t)(count - inside) * sizeof *out);
}

static void fill_row_weights(const void *context, int32_t first, int32_t count, double *out)
{
    fill_scaled(context, first, count, 1.0, out);
}

struct cop_weights cop_row_weights(const struct cop_row *row)
{
    return (struct cop_weights){.vocab = row->vocab,
                                .fill = fill_row_weights,
                                .context = row,
                                .block_sums =
                                    row->kind == COP_ROW_LOGITS ? row->block_sums : NULL};
}

double cop_row_logsumexp(const struct cop_row *row)
{
    double total = 0.0;
    for (int32_t first = 0; first < row->vocab; first += COP_SUM_BLOCK) {
        double block[COP_SUM_BLOCK];
        int32_t count = row->vocab - first < COP_SUM_BLOCK ? row->vocab - first : COP_SUM_BLOCK;
        cop_exp_block(row->logits + first, count, row->max_logit, 1.0, block);
        total += cop_sum_block(block, count);
    }
    return row->max_logit + cop_log(total);
}
