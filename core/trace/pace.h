/* The speed of a draft by its depth: expected progress over the time of a cycle.
 *
 *     tokens(d)  = 1 + sum over i <= d of acceptance[1] * … * acceptance[i]
 *     seconds(d) = score(1 + nodes of the first d levels) + [d > 0] start + d * draft + host
 *
 * One more level pays exactly where its survival probability over its marginal time exceeds
 * tokens(d) / seconds(d) (relaxed_rules_quality_serving.md 3.2); the best depth is the last one
 * of which that holds, found by comparing all of them, because measured costs have steps. */
#ifndef COP_TRACE_PACE_H
#define COP_TRACE_PACE_H

#include <stdint.h>

struct cop_pace {
    /* [n_acceptance] of depth i + 1 given depth i; deeper levels as the last one; none: 0 */
    const double *acceptance;
    int32_t n_acceptance;
    /* [n_score >= 1] seconds of a pass of i + 1 tokens; more tokens: along the last two, never
     * less than the last one */
    const double *score;
    int32_t n_score;
    const double *widths; /* [n_widths] nodes of level i + 1; deeper levels as the last one;
                             none: 1 */
    int32_t n_widths;
    double start; /* seconds of drafting at all: catching up with the text */
    double draft; /* seconds of one level */
    double host;  /* seconds of everything else in a cycle, also one without a draft */
};

double cop_pace_tokens(const struct cop_pace *pace, int32_t depth);
double cop_pace_seconds(const struct cop_pace *pace, int32_t depth);
/* The depth from `least` to `most` of the most tokens per second (0 is plain decoding); of
 * equal ones (to 1e-12) the shallowest. */
int32_t cop_pace_best(const struct cop_pace *pace, int32_t least, int32_t most);

/* Seconds of a pass of `tokens` >= 1, by a list as above. */
double cop_pace_score(const double *score, int32_t n_score, double tokens);

#endif
