/* Two races with the same runners: the joint law of their winners. Private to core/cycle.
 *
 * Runner k has one exponential clock E_k; the first race is won by the least E_k / first_k, the
 * second by the least E_k / second_k. With M(r) = sum over k of max(first_k r, second_k),
 *
 *     P(i, i) = 1 / sum over y of max(second_y / second_i, first_y / first_i)
 *     P(i, j) = first_i second_j * integral of dr / M(r)^2 from second_i / first_i
 *                                                            to second_j / first_j (0 if down)
 *
 * (r is the ratio of the two finishing times; source of P(i, i): Daliri, Musco, Suresh 2024,
 * arXiv:2408.07978). M is linear between the ratios second_k / first_k, so the integral is a
 * sum of terms (b - a) / (M(a) M(b)). */
#ifndef COP_CYCLE_SHARED_RACE_H
#define COP_CYCLE_SHARED_RACE_H

#include "core/base/error.h"
#include <stdbool.h>
#include <stdint.h>

/* out[j], j < n: probability that j wins the second race given that `winner` won the first.
 * Both rows are laws, first[winner] > 0. False: no memory. */
bool cop_shared_race(const double *first, const double *second, int32_t n, int32_t winner,
                     double *out);

#endif
