/* Resampling, and percentiles of what comes out. */
#include "core/trace/bootstrap.h"
#include "core/base/philox.h"

#include <math.h>
#include <stdlib.h>

struct sums {
    double a, b, c, d;
};

static void add_item(struct sums *sums, const struct cop_bootstrap *of, int32_t item)
{
    sums->a += of->a ? of->a[item] : 1;
    sums->b += of->b ? of->b[item] : 1;
    sums->c += of->c ? of->c[item] : 1;
    sums->d += of->d ? of->d[item] : 1;
}

static double statistic(const struct sums *sums)
{
    return sums->a * sums->d / (sums->b * sums->c);
}

/* Item number `draw` of a resample: two draws share the four words of a counter. */
static void resample(const struct cop_bootstrap *of, uint32_t number, struct sums *sums)
{
    const uint32_t key[2] = {(uint32_t)of->seed, (uint32_t)(of->seed >> 32)};
    uint32_t words[4];
    for (int32_t draw = 0; draw < of->n; draw++) {
        if (draw % 2 == 0) {
            const uint32_t counter[4] = {number, (uint32_t)draw / 2, 0, 0};
            cop_philox(counter, key, 10, words);
        }
        const uint32_t *pair = words + 2 * (draw % 2);
        add_item(sums, of, (int32_t)(cop_uniform(pair[0], pair[1]) * of->n));
    }
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double percentile(const double *sorted, int32_t count, double share)
{
    double place = share * (count - 1);
    int32_t below = (int32_t)floor(place);
    double low = sorted[below], high = sorted[below + 1 < count ? below + 1 : below];
    return low == high || place == below || isinf(low) ? low
                                                       : low + (place - below) * (high - low);
}

enum cop_status cop_bootstrap_interval(const struct cop_bootstrap *of, struct cop_interval *out,
                                       struct cop_error *err)
{
    if (of->n < 1 || of->resamples < 1 || !(of->level > 0 && of->level < 1)) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "a bootstrap needs items, resamples, and a level between 0 and 1");
    }
    double *values = malloc((size_t)of->resamples * sizeof *values);
    if (!values) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d resamples", of->resamples);
    }
    struct sums all = {0};
    for (int32_t item = 0; item < of->n; item++) {
        add_item(&all, of, item);
    }
    int32_t count = 0;
    for (int32_t i = 0; i < of->resamples; i++) {
        struct sums sums = {0};
        resample(of, (uint32_t)i, &sums);
        values[count] = statistic(&sums);
        count += !isnan(values[count]);
    }
    qsort(values, (size_t)count, sizeof *values, compare);
    double tail = (1 - of->level) / 2;
    *out = (struct cop_interval){.value = statistic(&all),
                                 .low = count ? percentile(values, count, tail) : (double)NAN,
                                 .high =
                                     count ? percentile(values, count, 1 - tail) : (double)NAN};
    free(values);
    return COP_OK;
}
