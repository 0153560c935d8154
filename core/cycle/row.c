/* Reading probability rows: one switch over the kinds per question.
 *
 * A LOGITS row answers from its logits each time: probability(i) = exp((logit[i] - max) *
 * inverse_temperature) / normaliser for kept tokens. The arg max has exponential 1, so the
 * normaliser is at least 1 and nothing overflows at tiny temperatures. */
#include "core/cycle/arena.h"
#include "core/cycle/draws.h"
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
    int32_t best = vocab > 0 ? cop_argmax(logits, vocab) : -1;
    if (best < 0) {
        return cop_fail(err, COP_ERR_NUMERIC,
                        "a row of logits is not finite (NaN, +inf, or every token at -inf)");
    }
    row->vocab = vocab;
    row->logits = logits;
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

static bool is_kept(const struct cop_row *row, int32_t token)
{
    return !row->mask || (row->mask[token >> 6] >> (token & 63) & 1u);
}

/* Exponentials of tokens [first, first + count), 0 where truncation cut. */
static void fill_exponentials(const struct cop_row *row, int32_t first, int32_t count,
                              double *out)
{
    if (!row->mask) {
        cop_exp_block(row->logits + first, count, row->max_logit, row->inverse_temperature,
                      out);
        return;
    }
    for (int32_t i = 0; i < count;) { /* mask word by mask word */
        int32_t token = first + i;
        uint64_t word = row->mask[token >> 6] >> (token & 63);
        int32_t n = 64 - (token & 63);
        n = n < count - i ? n : count - i;
        if (word == 0) {
            memset(out + i, 0, (size_t)n * sizeof *out);
        } else {
            cop_exp_block(row->logits + token, n, row->max_logit, row->inverse_temperature,
                          out + i);
            for (int32_t j = 0; j < n; j++) {
                out[i + j] = word >> j & 1u ? out[i + j] : 0.0;
            }
        }
        i += n;
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
    if (!sums) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the sums of a row");
    }
    double total = 0.0;
    for (int32_t b = 0; b < n_blocks; b++) {
        double block[COP_SUM_BLOCK];
        int32_t first = b * COP_SUM_BLOCK;
        int32_t count = row->vocab - first < COP_SUM_BLOCK ? row->vocab - first : COP_SUM_BLOCK;
        fill_exponentials(row, first, count, block);
        sums[b] = cop_sum_block(block, count);
        total += sums[b];
    }
    row->block_sums = sums;
    row->normaliser = total;
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
    case COP_ROW_LOGITS:
        return is_kept(row, token) ? cop_exp(((double)row->logits[token] - row->max_logit) *
                                             row->inverse_temperature) /
                                         row->normaliser
                                   : 0.0;
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

/* As cop_row_fill, but a LOGITS row gives exponentials without the normaliser. */
static void fill_weights(const struct cop_row *row, int32_t first, int32_t count, double *out)
{
    switch (row->kind) {
    case COP_ROW_NONE: memset(out, 0, (size_t)count * sizeof *out); break;
    case COP_ROW_LOGITS: fill_exponentials(row, first, count, out); break;
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
    fill_weights(row, first, inside, out);
    if (row->kind == COP_ROW_LOGITS) {
        for (int32_t i = 0; i < inside; i++) {
            out[i] /= row->normaliser;
        }
    }
    memset(out + inside, 0, (size_t)(count - inside) * sizeof *out);
}

static void fill_row_weights(const void *context, int32_t first, int32_t count, double *out)
{
    fill_weights(context, first, count, out);
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
