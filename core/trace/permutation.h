/* The sign-flip test of paired differences, and the interval that it gives.
 *
 * If a pair's two numbers could as well be exchanged, each difference has either sign. p is the
 * share of the sign patterns whose sum is as far from 0 as the one seen. A centre is in the
 * interval when the test does not refuse it; for the mean of symmetric differences those are
 * the centres between two order statistics of the means of subsets (Hartigan 1969). All 2^n
 * patterns are taken when there are no more than `patterns` of them, else that many are drawn;
 * p then counts the pattern seen as one more. Coins are Philox words of (seed; pattern, block
 * of 128 signs). */
#ifndef COP_TRACE_PERMUTATION_H
#define COP_TRACE_PERMUTATION_H

#include "core/base/error.h"
#include <stdbool.h>
#include <stdint.h>

struct cop_permutation {
    const double *differences; /* [n] */
    int32_t n, patterns;
    double level; /* 0.95 */
    uint64_t seed;
};
struct cop_permutation_result {
    double value;      /* mean difference */
    double p;          /* two-sided */
    bool has_interval; /* false: so few items show nothing at this level */
    double low, high;
    bool is_exact;
};
/* Allocates for the call only. */
enum cop_status cop_permutation_test(const struct cop_permutation *of,
                                     struct cop_permutation_result *out, struct cop_error *err);

#endif
