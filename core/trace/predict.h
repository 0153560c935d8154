/* The measured cost curve V(n, context), and the time that it predicts for the cycles of a
 * trace.
 *
 * speed = progress / (D + V + H). V comes from the curve, at the number of tokens that each
 * cycle scored and its context; D and H are taken as the cycles measured them. Prediction and
 * measurement differ where V in a run is not what it is alone (caches, other work). */
#ifndef COP_TRACE_PREDICT_H
#define COP_TRACE_PREDICT_H

#include "core/trace/trace.h"

struct cop_cost_curve {
    const int32_t *nodes;    /* [n_nodes] tokens of a pass (root included), ascending, >= 1 */
    const int32_t *contexts; /* [n_contexts] committed positions before it, ascending */
    const double *seconds;   /* [n_contexts][n_nodes] of one forward pass */
    int32_t n_nodes, n_contexts;
};

/* Linear between the measured points, and beyond them by the nearest two; never below 0. */
double cop_cost_at(const struct cop_cost_curve *curve, double nodes, double context);

/* Decode seconds of an arm's cycles as the curve predicts them, charged as in the store. */
enum cop_status cop_trace_predict(struct cop_trace *trace, int64_t arm,
                                  const struct cop_cost_curve *curve, double *seconds,
                                  struct cop_error *err);

#endif
