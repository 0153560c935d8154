/* Patterns of signs one after another; a set bit flips. */
#include "core/trace/permutation.h"
#include "core/base/philox.h"

#include <math.h>
#include <stdlib.h>

struct flips {
    const struct cop_permutation *of;
    bool is_exact;
    uint32_t words[4]; /* of 128 items */
};

/* Whether item `item` of pattern `number` is flipped; items are asked for in order. */
static bool is_flipped(struct flips *flips, uint32_t number, int32_t item)
{
    if (flips->is_exact) {
        return number >> item & 1;
    }
    if (item % 128 == 0) {
        const uint64_t seed = flips->of->seed;
        const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
        const uint32_t counter[4] = {number, (uint32_t)item / 128, 0, 1};
        cop_philox(counter, key, 10, flips->words);
    }
    return flips->words[item % 128 / 32] >> (item % 32) & 1;
}

/* Sum and size of what a pattern flips. */
static double flipped(struct flips *flips, uint32_t number, int32_t *count)
{
    double sum = 0;
    *count = 0;
    for (int32_t item = 0; item < flips->of->n; item++) {
        if (is_flipped(flips, number, item)) {
            sum += flips->of->differences[item];
            ++*count;
        }
    }
    return sum;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* means[count], sorted here; each of the count + 1 gaps holds the centre with the same
 * probability. */
static void set_interval(double *means, int32_t count, double level,
                         struct cop_permutation_result *out)
{
    int32_t outside = (int32_t)floor((1 - level) / 2 * (count + 1) + 1e-9);
    out->has_interval = outside >= 1;
    if (out->has_interval) {
        qsort(means, (size_t)count, sizeof *means, compare);
        out->low = means[outside - 1];
        out->high = means[count - outside];
    }
}

enum cop_status cop_permutation_test(const struct cop_permutation *of,
                                     struct cop_permutation_result *out, struct cop_error *err)
{
    if (of->n < 1 || of->patterns < 1 || !(of->level > 0 && of->level < 1)) {
        return cop_fail(
            err, COP_ERR_ARGUMENT,
            "a permutation test needs items, patterns, and a level between 0 and 1");
    }
    struct flips flips = {.of = of, .is_exact = of->n < 30 && 1 << of->n <= of->patterns};
    int32_t patterns = flips.is_exact ? 1 << of->n : of->patterns, n_means = 0;
    double *means = malloc((size_t)patterns * sizeof *means);
    if (!means) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d sign patterns", patterns);
    }
    double sum = 0, size = 0;
    for (int32_t item = 0; item < of->n; item++) {
        sum += of->differences[item];
        size += fabs(of->differences[item]);
    }
    int64_t as_far = 0;
    for (int32_t i = 0; i < patterns; i++) {
        int32_t count;
        double part = flipped(&flips, (uint32_t)i, &count);
        as_far += fabs(sum - 2 * part) >= fabs(sum) - 1e-12 * size; /* ties despite rounding */
        if (count > 0) {
            means[n_means++] = part / count;
        }
    }
    *out = (struct cop_permutation_result){.value = sum / of->n, .is_exact = flips.is_exact};
    out->p = flips.is_exact ? (double)as_far / patterns
                            : (double)(as_far + 1) / ((double)patterns + 1);
    set_interval(means, n_means, of->level, out);
    free(means);
    return COP_OK;
}
