/* The paired bootstrap of a ratio of sums: items are drawn with replacement, the same ones for
 * every column, and the statistic is computed again.
 *
 *     (sum of a / sum of b) / (sum of c / sum of d)         a column that is NULL is all ones
 *
 * With a = tokens and b = seconds of an arm, c and d of plain decoding, per prompt, it is the
 * speed-up of pooled throughputs; with a = differences alone it is their mean. Coins are Philox
 * words of (seed; resample, draw), so an interval is a function of its inputs. */
#ifndef COP_TRACE_BOOTSTRAP_H
#define COP_TRACE_BOOTSTRAP_H

#include "core/base/error.h"
#include <stdint.h>

struct cop_bootstrap {
    const double *a, *b, *c, *d; /* [n] each */
    int32_t n, resamples;
    double level; /* 0.95 */
    uint64_t seed;
};
struct cop_interval {
    double value; /* of the items as they are */
    double low, high;
};
/* The percentile interval (linear between order statistics). A resample of 0 / 0 says nothing
 * and does not count; where no other is left, the ends are NaN. Allocates for the call only. */
enum cop_status cop_bootstrap_interval(const struct cop_bootstrap *bootstrap,
                                       struct cop_interval *out, struct cop_error *err);

#endif
