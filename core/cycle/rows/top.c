/* The k best entries of a row, without memory of its own: the caller's list is a heap whose top
 * is the worst entry kept so far, and most entries are turned away by one comparison with it.
 * Of a row whose maxima are known only the groups are looked at that have an entry above the
 * k-th largest maximum: at most k, as the k largest entries are not below it. */
#include "core/cycle/rows/row.h"
#include "kernels/ops.h"

#include <math.h>

/* What is compared: logits as they are (temperature keeps their order), or doubles. */
struct entries {
    const float *logits;
    const double *values;
    const float *maxima; /* of logits, by COP_MAXIMA_GROUP; NULL: unknown */
    const uint64_t *mask;
    int32_t count;
    double floor; /* what is not above it may be passed over */
};

static double entry(const struct entries *in, int32_t i)
{
    return in->logits ? (double)in->logits[i] : in->values[i];
}

/* Whether a comes after b: smaller, or equal with the higher index. */
static bool is_worse(const struct entries *in, int32_t a, int32_t b)
{
    double va = entry(in, a), vb = entry(in, b);
    return va < vb || (va <= vb && a > b);
}

static void sift_down(const struct entries *in, int32_t *heap, int32_t n, int32_t at)
{
    int32_t moved = heap[at];
    for (;;) {
        int32_t child = 2 * at + 1;
        if (child >= n) {
            break;
        }
        if (child + 1 < n && is_worse(in, heap[child + 1], heap[child])) {
            child++;
        }
        if (!is_worse(in, heap[child], moved)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

typedef float lanes __attribute__((vector_size(16), aligned(4)));
typedef int32_t marks __attribute__((vector_size(16)));
typedef int64_t halves __attribute__((vector_size(16)));
enum { LANES = 4, STRIDE = 8 * LANES };

/* The first index from i on, in steps of STRIDE, whose stretch holds a value above `bar`. */
static int32_t skip_low(const float *logits, int32_t i, int32_t count, float bar)
{
    const lanes limit = {bar, bar, bar, bar};
    for (; i + STRIDE <= count; i += STRIDE) {
        const lanes *at = (const lanes *)(logits + i);
        marks above = (at[0] > limit) | (at[1] > limit) | (at[2] > limit) | (at[3] > limit) |
                      (at[4] > limit) | (at[5] > limit) | (at[6] > limit) | (at[7] > limit);
        halves any = (halves)above;
        if ((any[0] | any[1]) != 0) {
            return i;
        }
    }
    return i;
}

static bool is_kept(const struct entries *in, int32_t i)
{
    return !in->mask || (in->mask[i >> 6] >> (i & 63) & 1u);
}

/* The same by groups: the first index of a group, or i itself within one. */
static int32_t skip_low_groups(const struct entries *in, int32_t i, float bar)
{
    int32_t n_groups = (in->count + COP_MAXIMA_GROUP - 1) / COP_MAXIMA_GROUP;
    int32_t group = i / COP_MAXIMA_GROUP;
    if (in->maxima[group] > bar) {
        return i;
    }
    do {
        group = skip_low(in->maxima, group, n_groups, bar);
        for (int32_t end = group + STRIDE; group < end && group < n_groups; group++) {
            if (in->maxima[group] > bar) {
                return group * COP_MAXIMA_GROUP;
            }
        }
    } while (group < n_groups);
    return in->count;
}

/* The next index from i on that may hold a value above `bar`, and the end of the stretch that
 * is worth a closer look. */
static int32_t find_stretch(const struct entries *in, int32_t i, float bar, int32_t *end)
{
    *end = i + 1;
    if (in->maxima) {
        i = skip_low_groups(in, i, bar);
        *end = (i / COP_MAXIMA_GROUP + 1) * COP_MAXIMA_GROUP;
        *end = *end < in->count ? *end : in->count;
    } else if (in->logits) {
        i = skip_low(in->logits, i, in->count, bar);
        *end = i + STRIDE < in->count ? i + STRIDE : in->count;
    }
    return i;
}

static int32_t select_best(const struct entries *in, int32_t k, int32_t *heap)
{
    int32_t n = 0, i = 0, end;
    const float floor = nextafterf((float)in->floor, -INFINITY);
    while (i < in->count && n < k) {
        for (i = find_stretch(in, i, floor, &end); i < end && n < k; i++) {
            if (entry(in, i) > in->floor && is_kept(in, i)) {
                heap[n++] = i;
            }
        }
    }
    for (int32_t at = n / 2 - 1; at >= 0; at--) {
        sift_down(in, heap, n, at);
    }
    while (n > 0 &&
           i < in->count) { /* later equals lose: only what is above the worst counts */
        float worst = in->logits ? in->logits[heap[0]] : 0;
        for (i = find_stretch(in, i, worst, &end); i < end; i++) {
            if (is_worse(in, heap[0], i) && is_kept(in, i)) {
                heap[0] = i;
                sift_down(in, heap, n, 0);
            }
        }
    }
    for (int32_t left = n - 1; left > 0; left--) { /* worst to the back */
        int32_t worst = heap[0];
        heap[0] = heap[left];
        sift_down(in, heap, left, 0);
        heap[left] = worst;
    }
    return n;
}

/* The best k by their maxima, where those are known and nothing is cut. */
static int32_t select_by_groups(struct entries *in, int32_t k, int32_t *heap)
{
    struct entries groups = {.logits = in->maxima,
                             .count = (in->count + COP_MAXIMA_GROUP - 1) / COP_MAXIMA_GROUP,
                             .floor = in->floor};
    if (in->maxima && !in->mask && k > 0 && k < groups.count &&
        select_best(&groups, k, heap) == k) {
        double bar = (double)nextafterf(in->maxima[heap[k - 1]], -INFINITY);
        in->floor = bar > in->floor ? bar : in->floor;
    }
    return select_best(in, k, heap);
}

int32_t cop_row_top_logits(const struct cop_row *row, int32_t k, cop_token *ids)
{
    struct entries in = {
        .logits = row->logits, .maxima = row->maxima, .count = row->vocab, .floor = -HUGE_VAL};
    return select_by_groups(&in, k, ids);
}

/* A logit under that of every token with a probability above `floor`: the last bits are left to
 * the probability itself. */
static double logit_under(const struct cop_row *row, double floor)
{
    double scale = row->inverse_temperature;
    if (!(floor > 0) || !(scale > 0) || !(row->normaliser > 0)) {
        return -HUGE_VAL;
    }
    double logit = row->max_logit + log(floor * row->normaliser) / scale;
    return logit - 1e-5 / scale - 1e-6 * fabs(logit);
}

int32_t cop_row_top(const struct cop_row *row, int32_t k, cop_token *ids)
{
    return cop_row_top_above(row, 0, k, ids);
}

int32_t cop_row_top_above(const struct cop_row *row, double floor, int32_t k, cop_token *ids)
{
    struct entries in = {.count = row->vocab, .floor = floor};
    switch (row->kind) {
    case COP_ROW_NONE: return 0;
    case COP_ROW_POINTS:
        k = k < row->count ? k : row->count;
        for (int32_t i = 0; i < k; i++) {
            ids[i] = row->ids[i];
        }
        return k > 0 ? k : 0;
    case COP_ROW_ONE_HOT:
        if (k > 0) {
            ids[0] = row->best;
        }
        return k > 0;
    case COP_ROW_LOGITS:
        if (k == 1) {
            ids[0] = row->best;
            return !(floor > 0) || cop_row_probability(row, row->best) > floor;
        }
        in.floor = logit_under(row, floor);
        in.logits = row->logits;
        in.maxima = row->maxima;
        in.mask = row->mask;
        break;
    case COP_ROW_DENSE: in.values = row->dense; break;
    case COP_ROW_SPARSE:
        in.values = row->weights;
        in.count = row->count;
        break;
    }
    int32_t n = select_by_groups(&in, k, ids);
    for (int32_t i = 0; row->kind == COP_ROW_SPARSE && i < n; i++) {
        ids[i] = row->ids[ids[i]];
    }
    while (n > 0 && !(cop_row_probability(row, ids[n - 1]) > floor)) {
        n--;
    }
    return n;
}
