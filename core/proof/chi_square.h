/* Pearson's test of counts against a law. */
#ifndef COP_PROOF_CHI_SQUARE_H
#define COP_PROOF_CHI_SQUARE_H

#include <stdint.h>

#define COP_CHI_SQUARE_BINS 20 /* the likeliest outcomes; all others are one more bin */

struct cop_chi_square {
    double statistic;
    int32_t dof; /* degrees of freedom: bins - 1 */
    double p;    /* probability of a statistic at least this large when the law is right */
};

/* Probability that a chi-square variable of `dof` degrees of freedom exceeds `statistic`. */
double cop_chi_square_tail(double statistic, int32_t dof);

/* counts[0..n) of `total` draws against law[0..n). Bins with an expected count below 5 join the
 * rest. An outcome of probability 0 that came: p = 0. */
struct cop_chi_square cop_chi_square_test(const int64_t *counts, int64_t total,
                                          const double *law, int32_t n);

#endif
