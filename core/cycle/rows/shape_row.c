/* Truncation: which tokens of a row top-k, top-p and min-p keep, as a mask.
 *
 * Let x = (max - logit) * inverse_temperature, the token's distance below the best in nats. All
 * three cuts keep the tokens up to some place in the order (x ascending, id ascending):
 *   top-k  tokens with a logit at least the k-th largest (all ties with it);
 *   top-p  the shortest prefix, of what top-k left, that carries p of its mass;
 *   min-p  exp(-x) >= min_p.
 * So the cut is found by a histogram of x (BUCKETS buckets over SPAN nats; x is monotone in the
 * logit, also after rounding), and only the bucket on the border is sorted: exact, and no sort
 * of the vocabulary. Masses are summed bucket by bucket and by id within a bucket, which is a
 * fixed order of the row's own. */
#include "core/cycle/rows/arena.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 4096 };
static const double SPAN = 64.0;

struct candidate {
    float logit;
    int32_t id;
};

struct cut {
    const struct cop_row *row;
    uint64_t *mask; /* tokens still kept */
    int32_t n_words;
    struct cop_row_arena *arena;
};

static void drop(struct cut *cut, int32_t token)
{
    cut->mask[token >> 6] &= ~((uint64_t)1 << (token & 63));
}

static int32_t bucket_of(const struct cop_row *row, float logit)
{
    double x = (row->max_logit - (double)logit) * row->inverse_temperature;
    double bucket = x * (BUCKETS / SPAN);
    return bucket < BUCKETS - 1 ? (int32_t)bucket : BUCKETS - 1; /* -inf: the last one */
}

/* Best first, ties to the lowest id. */
static int by_rank(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->logit > y->logit || x->logit < y->logit) {
        return x->logit > y->logit ? -1 : 1;
    }
    return (x->id > y->id) - (x->id < y->id);
}

/* The kept tokens of one bucket, sorted; NULL: no memory. */
static struct candidate *sort_bucket(const struct cut *cut, int32_t bucket, int32_t count)
{
    struct candidate *list =
        cop_row_arena_scratch(cut->arena, ((size_t)count + 1) * sizeof *list);
    int32_t n = 0;
    for (int32_t w = 0; list && n < count && w < cut->n_words; w++) {
        for (uint64_t word = cut->mask[w]; word && n < count; word &= word - 1) {
            int32_t i = w * 64 + __builtin_ctzll(word);
            if (bucket_of(cut->row, cut->row->logits[i]) == bucket) {
                list[n++] = (struct candidate){cut->row->logits[i], i};
            }
        }
    }
    if (list) {
        qsort(list, (size_t)n, sizeof *list, by_rank);
    }
    return list;
}

/* Drops every kept token that lies beyond `bucket`. */
static void drop_beyond(struct cut *cut, int32_t bucket)
{
    const struct cop_row *row = cut->row;
    for (int32_t w = 0; w < cut->n_words; w++) {
        for (uint64_t word = cut->mask[w]; word; word &= word - 1) {
            int32_t token = w * 64 + __builtin_ctzll(word);
            if (bucket_of(row, row->logits[token]) > bucket) {
                drop(cut, token);
            }
        }
    }
}

static enum cop_status no_memory(struct cop_error *err)
{
    return cop_fail(err, COP_ERR_MEMORY, "no memory to truncate a row");
}

static enum cop_status cut_top_k(struct cut *cut, int32_t k, struct cop_error *err)
{
    const struct cop_row *row = cut->row;
    int32_t counts[BUCKETS] = {0};
    for (int32_t w = 0; w < cut->n_words; w++) {
        for (uint64_t word = cut->mask[w]; word; word &= word - 1) {
            counts[bucket_of(row, row->logits[w * 64 + __builtin_ctzll(word)])]++;
        }
    }
    int32_t before = 0, bucket = 0;
    while (before + counts[bucket] < k) {
        before += counts[bucket++];
    }
    struct candidate *list = sort_bucket(cut, bucket, counts[bucket]);
    if (!list) {
        return no_memory(err);
    }
    float least = list[k - before - 1].logit;
    for (int32_t w = 0; w < cut->n_words; w++) {
        for (uint64_t word = cut->mask[w]; word; word &= word - 1) {
            int32_t token = w * 64 + __builtin_ctzll(word);
            if (row->logits[token] < least) {
                drop(cut, token);
            }
        }
    }
    return COP_OK;
}

static double weight_of(const struct cop_row *row, float logit)
{
    return cop_exp(((double)logit - row->max_logit) * row->inverse_temperature);
}

/* Exponentials of the 64 tokens of mask word w. */
static void fill_word(const struct cop_row *row, int32_t w, double weights[64])
{
    int32_t first = w * 64;
    int32_t count = row->vocab - first < 64 ? row->vocab - first : 64;
    cop_exp_block(row->logits + first, count, row->max_logit, row->inverse_temperature,
                  weights);
}

/* Mass and number of kept tokens by bucket. */
static void measure(const struct cut *cut, double *masses, int32_t *counts)
{
    const struct cop_row *row = cut->row;
    for (int32_t w = 0; w < cut->n_words; w++) {
        if (cut->mask[w] == 0) {
            continue;
        }
        double weights[64];
        fill_word(row, w, weights);
        for (uint64_t word = cut->mask[w]; word; word &= word - 1) {
            int32_t i = __builtin_ctzll(word);
            int32_t bucket = bucket_of(row, row->logits[w * 64 + i]);
            masses[bucket] += weights[i];
            counts[bucket]++;
        }
    }
}

static enum cop_status cut_top_p(struct cut *cut, double top_p, struct cop_error *err)
{
    const struct cop_row *row = cut->row;
    double masses[BUCKETS] = {0};
    int32_t counts[BUCKETS] = {0};
    measure(cut, masses, counts);
    double total = 0.0;
    for (int32_t b = 0; b < BUCKETS; b++) {
        total += masses[b];
    }
    double wanted = top_p * total, mass = 0.0;
    int32_t bucket = 0;
    while (bucket < BUCKETS - 1 && mass + masses[bucket] < wanted) {
        mass += masses[bucket++];
    }
    struct candidate *list = sort_bucket(cut, bucket, counts[bucket]);
    if (!list) {
        return no_memory(err);
    }
    drop_beyond(cut, bucket);
    /* The best token lies in bucket 0, so at least one stays whatever p is. */
    bool is_full = mass >= wanted && mass > 0;
    for (int32_t i = 0; i < counts[bucket]; i++) {
        if (is_full) {
            drop(cut, list[i].id);
        } else {
            mass += weight_of(row, list[i].logit);
            is_full = mass >= wanted;
        }
    }
    return COP_OK;
}

static void cut_min_p(struct cut *cut, double min_p)
{
    const struct cop_row *row = cut->row;
    for (int32_t w = 0; w < cut->n_words; w++) {
        if (cut->mask[w] == 0) {
            continue;
        }
        double weights[64];
        fill_word(row, w, weights);
        for (uint64_t word = cut->mask[w]; word; word &= word - 1) {
            int32_t i = __builtin_ctzll(word);
            if (weights[i] < min_p) {
                drop(cut, w * 64 + i);
            }
        }
    }
}

/* All tokens that may be above -inf are kept. */
static void keep_all(const struct cop_row *row, uint64_t *mask, int32_t n_words)
{
    memset(mask, row->ids ? 0 : 0xff, (size_t)n_words * sizeof *mask);
    for (int32_t i = 0; row->ids && i < row->count; i++) {
        mask[row->ids[i] >> 6] |= (uint64_t)1 << (row->ids[i] & 63);
    }
    if (!row->ids && row->vocab % 64) {
        mask[n_words - 1] = ((uint64_t)1 << (row->vocab % 64)) - 1;
    }
}

enum cop_status cop_row_truncate(struct cop_row *row, const struct cop_sampling *sampling,
                                 struct cop_row_arena *arena, struct cop_error *err)
{
    bool has_top_k = sampling->top_k > 0 && sampling->top_k < row->vocab;
    bool has_top_p = sampling->top_p > 0 && sampling->top_p < 1;
    bool has_min_p = sampling->min_p > 0;
    if (!has_top_k && !has_top_p && !has_min_p) {
        return COP_OK;
    }
    struct cut cut = {.row = row, .arena = arena, .n_words = (row->vocab + 63) / 64};
    cut.mask = cop_row_arena_take(arena, (size_t)cut.n_words * sizeof *cut.mask);
    if (!cut.mask) {
        return no_memory(err);
    }
    keep_all(row, cut.mask, cut.n_words);
    enum cop_status status = COP_OK;
    if (has_top_k && sampling->top_k < (row->ids ? row->count : row->vocab)) {
        status = cut_top_k(&cut, sampling->top_k, err);
    }
    if (status == COP_OK && has_top_p) {
        status = cut_top_p(&cut, sampling->top_p, err);
    }
    if (status == COP_OK && has_min_p) {
        cut_min_p(&cut, fmin(sampling->min_p, 1.0));
    }
    row->mask = cut.mask;
    return status;
}
