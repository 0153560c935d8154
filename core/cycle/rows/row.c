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

/* How many of ids[0 … n), which ascend, are below `limit`. */
static int32_t count_below(const cop_token *ids, int32_t n, cop_token limit)
{
    int32_t low = 0, high = n;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (ids[middle] < limit) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The tokens of one block of the sums, and the listed ids among them. */
struct stretch {
    int32_t first, count;
    const cop_token *ids; /* [n] */
    int32_t n;            /* count where nothing is listed: any may be above -inf */
};

/* The stretch after this one; a zeroed one comes before the first. False: there is none. */
static bool next_stretch(const struct cop_row_tokens *tokens, struct stretch *at)
{
    at->first += at->count;
    int32_t left = tokens->vocab - at->first;
    at->count = left < COP_SUM_BLOCK ? left : COP_SUM_BLOCK;
    if (tokens->ids && left > 0) {
        at->ids = at->ids ? at->ids + at->n : tokens->ids;
        int32_t rest = tokens->n_ids - (int32_t)(at->ids - tokens->ids);
        at->n =
            count_below(at->ids, rest < at->count ? rest : at->count, at->first + at->count);
    } else {
        at->n = at->count;
    }
    return left > 0;
}

/* The arg max and the maxima, [vocab / COP_MAXIMA_GROUP]; -1: the row is no law. */
static int32_t find_best(const float *logits, const struct cop_row_tokens *tokens,
                         float *maxima)
{
    int32_t best = -1;
    if (!tokens->ids) {
        return cop_argmax_groups(logits, tokens->vocab, maxima);
    }
    for (struct stretch at = {0}; next_stretch(tokens, &at);) {
        const float *values = logits + at.first;
        float *groups = maxima + at.first / COP_MAXIMA_GROUP;
        if (at.n == 0) {
            for (int32_t i = 0; i < at.count; i += COP_MAXIMA_GROUP) {
                *groups++ = -INFINITY;
            }
            continue;
        }
        int32_t own = cop_argmax_groups(values, at.count, groups);
        if (own < 0) { /* not finite, or its ids are at -inf as well */
            return cop_argmax_groups(logits, tokens->vocab, maxima);
        }
        best = best < 0 || values[own] > logits[best] ? at.first + own : best;
    }
    return best;
}

enum cop_status cop_row_from_logits(struct cop_row *row, const float *logits, int32_t vocab,
                                    const struct cop_sampling *sampling,
                                    struct cop_row_arena *arena, struct cop_error *err)
{
    const struct cop_row_tokens all = {.vocab = vocab > 0 ? vocab : 0};
    return cop_row_from_listed(row, logits, &all, sampling, arena, err);
}

enum cop_status cop_row_from_listed(struct cop_row *row, const float *logits,
                                    const struct cop_row_tokens *tokens,
                                    const struct cop_sampling *sampling,
                                    struct cop_row_arena *arena, struct cop_error *err)
{
    memset(row, 0, sizeof *row);
    enum cop_status status = check_sampling(sampling, err);
    int32_t vocab = tokens->vocab;
    if (status != COP_OK) {
        return status;
    }
    size_t n_groups = ((size_t)vocab + COP_MAXIMA_GROUP - 1) / COP_MAXIMA_GROUP;
    float *maxima = cop_row_arena_take(arena, n_groups * sizeof *maxima);
    if (!maxima) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a row of %d logits", vocab);
    }
    int32_t best = vocab > 0 ? find_best(logits, tokens, maxima) : -1;
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
    row->ids = tokens->ids;
    row->count = tokens->ids ? tokens->n_ids : 0;
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
 * which zeros change nothing, and nothing else is written. */
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

/* Block by block; where most of a block is listed it is filled as a whole: the others are 0. */
static double fill(const struct cop_row *row, float *exponentials, double *sums)
{
    const struct cop_row_tokens tokens = {row->vocab, row->ids, row->count};
    double total = 0.0;
    for (struct stretch at = {0}; next_stretch(&tokens, &at);) {
        double sum = 2 * at.n > at.count
                         ? fill_block(row, at.first, at.count, exponentials + at.first)
                         : fill_ids(row, at.ids, at.n, exponentials);
        *sums++ = sum;
        total += sum;
    }
    return total;
}

enum cop_status cop_row_normalise(struct cop_row *row, struct cop_row_arena *arena,
                                  struct cop_error *err)
{
    if (row->kind != COP_ROW_LOGITS || row->normaliser > 0) {
        return COP_OK;
    }
    int32_t n_blocks = (row->vocab + COP_SUM_BLOCK - 1) / COP_SUM_BLOCK;
    double *sums = cop_row_arena_take(arena, (size_t)n_blocks * sizeof *sums);
    float *exponentials =
        row->ids ? cop_row_arena_listed(arena, row->ids, row->vocab)
                 : cop_row_arena_take(arena, (size_t)row->vocab * sizeof *exponentials);
    if (!sums || !exponentials) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to normalise a row");
    }
    double total = fill(row, exponentials, sums);
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
    return count_below(row->ids, row->count, token);
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
