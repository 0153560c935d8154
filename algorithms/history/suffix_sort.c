/* The sorts, from the outside in: buckets, groups, records. */
#include "algorithms/history/suffix_sort.h"

#include <stdlib.h>
#include <string.h>

enum { AHEAD = 24, FEW = 16, RUN = 12, SMALL = 1024, DIGIT = 8, VALUES = 1 << DIGIT };

struct record {
    uint64_t key;
    int32_t place;
};

struct sorter {
    const cop_token *text;
    int32_t n, depth;
    int32_t bits, per_key; /* of one token in a key; tokens in a key */
    struct record *a, *b;  /* [largest bucket] */
};

/* Tokens of the suffix at `place` behind its first `done`, one more than their ids: as many as
 * fit and matter; 0 behind the end. */
static uint64_t key_of(const struct sorter *s, int32_t place, int32_t done)
{
    int64_t at = (int64_t)place + done;
    int32_t n = s->depth - done < s->per_key ? s->depth - done : s->per_key;
    uint64_t key = 0;
    if (at + n <= s->n) {
        for (int32_t j = 0; j < n; j++) {
            key = key << s->bits | ((uint64_t)s->text[at + j] + 1);
        }
        return key;
    }
    for (int32_t j = 0; j < n; j++, at++) {
        key = key << s->bits | (at < s->n ? (uint64_t)s->text[at] + 1 : 0);
    }
    return key;
}

/* ---- Records, stable --------------------------------------------------------------------- */

static void insertion_sort(struct record *records, int32_t n)
{
    for (int32_t i = 1; i < n; i++) {
        struct record moved = records[i];
        int32_t j = i;
        for (; j > 0 && records[j - 1].key > moved.key; j--) {
            records[j] = records[j - 1];
        }
        records[j] = moved;
    }
}

static void merge(const struct record *from, int32_t low, int32_t middle, int32_t high,
                  struct record *to)
{
    int32_t left = low, right = middle;
    for (int32_t i = low; i < high; i++) {
        bool takes_left = left < middle && (right >= high || from[left].key <= from[right].key);
        to[i] = takes_left ? from[left++] : from[right++];
    }
}

/* Both sorts return where the result lies, of the two arrays. */
static struct record *merge_sort(struct record *from, struct record *to, int32_t n)
{
    for (int32_t i = 0; i < n; i += RUN) {
        insertion_sort(from + i, n - i < RUN ? n - i : RUN);
    }
    for (int32_t width = RUN; width < n; width *= 2) {
        for (int32_t low = 0; low < n; low += 2 * width) {
            int32_t middle = low + width < n ? low + width : n;
            int32_t high = low + 2 * width < n ? low + 2 * width : n;
            merge(from, low, middle, high, to);
        }
        struct record *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static struct record *radix_sort(struct record *from, struct record *to, int32_t n)
{
    uint64_t all = ~(uint64_t)0, any = 0;
    for (int32_t i = 0; i < n; i++) {
        all &= from[i].key;
        any |= from[i].key;
    }
    for (int32_t shift = 0; shift < 64; shift += DIGIT) {
        if (((all ^ any) >> shift & (VALUES - 1)) == 0) {
            continue; /* the same digit everywhere */
        }
        int32_t starts[VALUES + 1] = {0};
        for (int32_t i = 0; i < n; i++) {
            starts[(from[i].key >> shift & (VALUES - 1)) + 1]++;
        }
        for (int32_t v = 0; v < VALUES; v++) {
            starts[v + 1] += starts[v];
        }
        for (int32_t i = 0; i < n; i++) {
            to[starts[from[i].key >> shift & (VALUES - 1)]++] = from[i];
        }
        struct record *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

/* ---- Groups ------------------------------------------------------------------------------ */

/* Whether the suffix at `a`, which comes first in the text, belongs behind the one at `b`. */
static bool is_behind(const struct sorter *s, int32_t a, int32_t b, int32_t done)
{
    const cop_token *x = s->text + a + done, *y = s->text + b + done;
    int32_t n = s->n - b - done; /* the later one ends first */
    n = n < s->depth - done ? n : s->depth - done;
    for (int32_t i = 0; i < n; i++) {
        if (x[i] != y[i]) {
            return x[i] > y[i];
        }
    }
    return n < s->depth - done; /* b ended, and comes before what goes on */
}

/* A few places, by their tokens. Places ascend before, so whoever is moved came later. */
static void sort_few(const struct sorter *s, int32_t *array, int32_t n, int32_t done)
{
    for (int32_t i = 1; i < n; i++) {
        int32_t moved = array[i], j = i;
        for (; j > 0 && is_behind(s, array[j - 1], moved, done); j--) {
            array[j] = array[j - 1];
        }
        array[j] = moved;
    }
}

/* Sorts places whose first `done` tokens agree by the next key; the first of each group that is
 * still equal is marked by its complement. */
static void sort_group(struct sorter *s, int32_t *array, int32_t n, int32_t done)
{
    for (int32_t i = 0; i < n; i++) { /* the text is read all over: its lines are sent for */
        __builtin_prefetch(s->text + array[i + AHEAD < n ? i + AHEAD : i] + done);
        s->a[i] = (struct record){.key = key_of(s, array[i], done), .place = array[i]};
    }
    const struct record *sorted =
        n < SMALL ? merge_sort(s->a, s->b, n) : radix_sort(s->a, s->b, n);
    for (int32_t i = 0; i < n; i++) {
        bool is_first = i == 0 || sorted[i].key != sorted[i - 1].key;
        array[i] = is_first ? ~sorted[i].place : sorted[i].place;
    }
}

/* array[0..n): ascending places whose first `done` tokens agree. */
static void sort_from(struct sorter *s, int32_t *array, int32_t n, int32_t done)
{
    if (done >= s->depth || n < 2) {
        return;
    }
    if (n <= FEW) {
        sort_few(s, array, n, done);
        return;
    }
    sort_group(s, array, n, done);
    for (int32_t first = 0, next; first < n; first = next) {
        array[first] = ~array[first];
        for (next = first + 1; next < n && array[next] >= 0; next++) {
        }
        sort_from(s, array + first, next - first, done + s->per_key);
    }
}

/* ---- Buckets ----------------------------------------------------------------------------- */

/* array becomes all places by their first token; starts[v] is where token v's bucket begins. */
static int32_t fill_buckets(const struct sorter *s, int32_t vocab, int32_t *array,
                            int32_t *starts)
{
    int32_t largest = 0;
    for (int32_t i = 0; i < s->n; i++) {
        starts[s->text[i] + 1]++;
    }
    for (int32_t v = 0; v < vocab; v++) {
        largest = starts[v + 1] > largest ? starts[v + 1] : largest;
        starts[v + 1] += starts[v];
    }
    for (int32_t i = 0; i < s->n; i++) {
        array[starts[s->text[i]]++] = i;
    }
    for (int32_t v = vocab; v > 0; v--) {
        starts[v] = starts[v - 1];
    }
    starts[0] = 0;
    return largest;
}

enum cop_status cop_suffix_sort(const cop_token *text, int32_t n, int32_t vocab, int32_t depth,
                                int32_t *array, struct cop_error *err)
{
    struct sorter s = {.text = text, .n = n, .depth = depth, .bits = 1};
    while (vocab >> s.bits) { /* values 0 … vocab */
        s.bits++;
    }
    s.per_key = 64 / s.bits;
    int32_t *starts = calloc((size_t)vocab + 2, sizeof *starts);
    int32_t largest = starts ? fill_buckets(&s, vocab, array, starts) : 0;
    s.a = malloc(((size_t)largest + 1) * sizeof *s.a);
    s.b = malloc(((size_t)largest + 1) * sizeof *s.b);
    bool is_whole = starts && s.a && s.b;
    for (int32_t v = 0; is_whole && v < vocab; v++) {
        sort_from(&s, array + starts[v], starts[v + 1] - starts[v], 1);
    }
    free(starts);
    free(s.a);
    free(s.b);
    return is_whole ? COP_OK
                    : cop_fail(err, COP_ERR_MEMORY, "no memory to sort %d suffixes", n);
}
