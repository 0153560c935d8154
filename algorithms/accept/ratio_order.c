/* Buckets of ratios: one pass that divides and adds, and lists of single buckets, sorted by the
 * bits of their f32 ratio and then, among neighbours, exactly. */
#include "algorithms/accept/ratio_order.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Making
 * ---------------------------------------------------------------------------------- */

bool cop_ratio_order_init(struct cop_ratio_order *order, int32_t vocab)
{
    size_t n = (size_t)vocab;
    *order = (struct cop_ratio_order){
        .sums = malloc(COP_RATIO_BUCKETS * sizeof *order->sums),
        .buckets = malloc(n * sizeof *order->buckets),
        .entries = malloc(2 * n * sizeof *order->entries),
    };
    return order->sums && order->buckets && order->entries;
}

void cop_ratio_order_release(struct cop_ratio_order *order)
{
    free(order->sums);
    free(order->buckets);
    free(order->entries);
}

void cop_ratio_order_set(struct cop_ratio_order *order, const struct cop_row *target,
                         const struct cop_row *draft)
{
    order->target = target;
    order->draft = draft;
    order->is_kept = target->kind == COP_ROW_LOGITS && draft->kind == COP_ROW_LOGITS &&
                     target->vocab == draft->vocab;
    order->target_scale = order->is_kept ? target->inverse_normaliser : 1;
    order->draft_scale = order->is_kept ? draft->inverse_normaliser : 1;
}

static uint32_t bits_of(float ratio)
{
    uint32_t bits;
    memcpy(&bits, &ratio, sizeof bits);
    return bits;
}

static void add_kept(struct cop_ratio_order *order, int32_t first, int32_t count)
{
    const float *target = order->target->exponentials + first;
    const float *draft = order->draft->exponentials + first;
    uint16_t *buckets = order->buckets + first;
    cop_ratio_buckets(target, draft, count, buckets);
    for (int32_t i = 0; i < count; i++) {
        order->sums[buckets[i]] += (cop_ratio_sums){(double)target[i], (double)draft[i]};
    }
}

static void add_any(struct cop_ratio_order *order, int32_t first, int32_t count)
{
    double target[COP_SUM_BLOCK], draft[COP_SUM_BLOCK];
    uint16_t *buckets = order->buckets + first;
    cop_row_fill(order->target, first, count, target);
    cop_row_fill(order->draft, first, count, draft);
    for (int32_t i = 0; i < count; i++) {
        const float ratio = (float)(target[i] / draft[i]), one = 1;
        cop_ratio_buckets(&ratio, &one, 1, &buckets[i]);
        /* What is too small for an f32 is not 0. */
        buckets[i] = (uint16_t)(buckets[i] == 0 && target[i] > 0 ? 1 : buckets[i]);
        order->sums[buckets[i]] += (cop_ratio_sums){target[i], draft[i]};
    }
}

void cop_ratio_order_fill(struct cop_ratio_order *order)
{
    int32_t vocab = order->target->vocab;
    memset(order->sums, 0, COP_RATIO_BUCKETS * sizeof *order->sums);
    for (int32_t first = 0; first < vocab; first += COP_SUM_BLOCK) {
        int32_t count = vocab - first < COP_SUM_BLOCK ? vocab - first : COP_SUM_BLOCK;
        (order->is_kept ? add_kept : add_any)(order, first, count);
    }
}

double cop_ratio_edge(int32_t bucket)
{
    if (bucket < 2) {
        return 0;
    }
    uint32_t bits = (uint32_t)(bucket - 1 + COP_RATIO_LEAST) << COP_RATIO_SHIFT;
    float edge;
    memcpy(&edge, &bits, sizeof edge);
    return bucket < COP_RATIO_BUCKETS ? (double)edge : HUGE_VAL;
}

/* ---- One token
 * ------------------------------------------------------------------------------- */

struct cop_ratio_entry cop_ratio_entry_of(const struct cop_ratio_order *order, cop_token token)
{
    struct cop_ratio_entry entry = {.token = token};
    if (order->is_kept) {
        float target = order->target->exponentials[token];
        float draft = order->draft->exponentials[token];
        entry.target = (double)target;
        entry.draft = (double)draft;
        entry.bits = target > 0 ? bits_of(target / draft) : 0;
    } else {
        entry.target = cop_row_probability(order->target, token);
        entry.draft = cop_row_probability(order->draft, token);
        entry.bits = cop_ratio_bits(entry.target, entry.draft);
    }
    return entry;
}

uint32_t cop_ratio_bits(double target, double draft)
{
    return target > 0 ? bits_of((float)(target / draft)) : 0;
}

double cop_ratio_of(const struct cop_ratio_entry *entry)
{
    return entry->draft > 0 ? entry->target / entry->draft : entry->target > 0 ? HUGE_VAL : 0;
}

bool cop_ratio_precedes(const struct cop_ratio_entry *a, const struct cop_ratio_entry *b)
{
    double x = cop_ratio_of(a), y = cop_ratio_of(b);
    return x < y || (x <= y && a->token < b->token);
}

static double any_before(const struct cop_ratio_order *order,
                         const struct cop_ratio_entry *entry, double *total)
{
    double target[COP_SUM_BLOCK], draft[COP_SUM_BLOCK], before = 0;
    int32_t vocab = order->target->vocab;
    *total = 0;
    for (int32_t first = 0; first < vocab; first += COP_SUM_BLOCK) {
        int32_t count = vocab - first < COP_SUM_BLOCK ? vocab - first : COP_SUM_BLOCK;
        cop_row_fill(order->target, first, count, target);
        cop_row_fill(order->draft, first, count, draft);
        *total += cop_sum_block(draft, count);
        for (int32_t i = 0; i < count; i++) {
            struct cop_ratio_entry other = {target[i], draft[i], 0, first + i};
            draft[i] = cop_ratio_precedes(&other, entry) ? draft[i] : 0;
        }
        before += cop_sum_block(draft, count);
    }
    return before;
}

double cop_ratio_draft_before(const struct cop_ratio_order *order,
                              const struct cop_ratio_entry *entry, double *total)
{
    if (!order->is_kept) {
        return any_before(order, entry, total);
    }
    const float *target = order->target->exponentials, *draft = order->draft->exponentials;
    int32_t vocab = order->target->vocab;
    double before = 0;
    *total = order->draft->normaliser;
    for (int32_t first = 0, end; first < vocab; first = end) {
        end = vocab - first < COP_SUM_BLOCK ? vocab : first + COP_SUM_BLOCK;
        bool is_split = first <= entry->token && entry->token < end;
        bool is_before = end <= entry->token; /* equal ratios precede it */
        int32_t middle = is_split ? entry->token : end;
        before += cop_ratio_below(target + first, draft + first, entry->target, entry->draft,
                                  is_split || is_before, middle - first);
        if (is_split) {
            before += cop_ratio_below(target + middle, draft + middle, entry->target,
                                      entry->draft, false, end - middle);
        }
    }
    return before;
}

/* ---- Lists
 * ----------------------------------------------------------------------------------- */

enum { DIGIT = 11, FEW = 64 };

/* What entries are sorted by: the bits of the ratio as f32, or as double. */
static uint64_t key_of(const struct cop_ratio_entry *entry, bool is_double)
{
    double ratio = cop_ratio_of(entry);
    uint64_t bits = entry->bits;
    if (is_double) {
        memcpy(&bits, &ratio, sizeof bits);
    }
    return bits;
}

/* A stable step of a sort by 11 bits of key - least. */
static void sort_by_digit(const struct cop_ratio_entry *from, int32_t n, bool is_double,
                          uint64_t least, uint32_t shift, struct cop_ratio_entry *to)
{
    int32_t begin[1 << DIGIT] = {0}, at = 0;
    for (int32_t i = 0; i < n; i++) {
        begin[(key_of(&from[i], is_double) - least) >> shift & ((1u << DIGIT) - 1)]++;
    }
    for (int32_t d = 0; d < 1 << DIGIT; d++) {
        int32_t count = begin[d];
        begin[d] = at;
        at += count;
    }
    for (int32_t i = 0; i < n; i++) {
        to[begin[(key_of(&from[i], is_double) - least) >> shift & ((1u << DIGIT) - 1)]++] =
            from[i];
    }
}

/* By the keys; ids stay in order among equals. */
static void sort_by_keys(struct cop_ratio_entry *entries, int32_t n, bool is_double,
                         struct cop_ratio_entry *other)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (int32_t i = 0; i < n; i++) {
        uint64_t key = key_of(&entries[i], is_double);
        least = key < least ? key : least;
        most = key > most ? key : most;
    }
    struct cop_ratio_entry *from = entries, *to = other;
    for (uint32_t shift = 0; shift < 64 && (most - least) >> shift > 0; shift += DIGIT) {
        sort_by_digit(from, n, is_double, least, shift, to);
        struct cop_ratio_entry *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != entries) {
        memcpy(entries, from, (size_t)n * sizeof *entries);
    }
}

/* What is nearly in order already, or short; false, still a permutation with the ids of equal
 * ratios in order, where it is neither. */
static bool sort_by_moves(struct cop_ratio_entry *entries, int32_t n)
{
    int64_t moves = 0;
    for (int32_t i = 1; i < n; i++) {
        struct cop_ratio_entry moved = entries[i];
        int32_t at = i;
        for (; at > 0 && cop_ratio_precedes(&moved, &entries[at - 1]); at--) {
            entries[at] = entries[at - 1];
        }
        entries[at] = moved;
        moves += i - at;
        if (moves > FEW * (int64_t)n) {
            return false;
        }
    }
    return true;
}

/* Ratios that differ by less than an f32 can say are few, except where the rows are nearly
 * equal. */
void cop_ratio_sort(struct cop_ratio_entry *entries, int32_t n, struct cop_ratio_entry *other)
{
    if (n > FEW) {
        sort_by_keys(entries, n, false, other);
    }
    if (!sort_by_moves(entries, n)) {
        sort_by_keys(entries, n, true, other);
    }
}

int32_t cop_ratio_order_list(struct cop_ratio_order *order, int32_t first, int32_t last)
{
    typedef uint16_t eight __attribute__((vector_size(16), aligned(2)));
    typedef uint64_t halves __attribute__((vector_size(16)));
    const int32_t vocab = order->target->vocab;
    const eight low = (eight){0} + (uint16_t)first;
    const eight width = (eight){0} + (uint16_t)(last - first);
    int32_t n = 0;
    for (int32_t i = 0; i < vocab;) {
        if (i + 8 <= vocab) {
            halves any = (halves)(*(const eight *)(order->buckets + i) - low <= width);
            if (!(any[0] | any[1])) {
                i += 8;
                continue;
            }
        }
        int32_t end = vocab - i < 8 ? vocab : i + 8;
        for (; i < end; i++) {
            if (order->buckets[i] >= first && order->buckets[i] <= last) {
                order->entries[n] = cop_ratio_entry_of(order, i);
                n += order->entries[n].target > 0 || order->entries[n].draft > 0;
            }
        }
    }
    cop_ratio_sort(order->entries, n, order->entries + vocab);
    return n;
}
