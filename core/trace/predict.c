/* Interpolation of the cost curve, and its sum over a trace. */
#include "core/trace/predict.h"

/* The left end of the segment of `knots` that `value` uses. */
static int32_t segment(const int32_t *knots, int32_t count, double value)
{
    int32_t left = 0;
    while (left + 2 < count && value >= knots[left + 1]) {
        left++;
    }
    return left;
}

/* Where `value` lies between knots[left] and the next one: 0 to 1 inside. */
static double position(const int32_t *knots, int32_t count, int32_t left, double value)
{
    return count < 2 ? 0 : (value - knots[left]) / (knots[left + 1] - knots[left]);
}

static double along_nodes(const struct cop_cost_curve *curve, int32_t row, double nodes)
{
    const double *seconds = curve->seconds + (int64_t)row * curve->n_nodes;
    int32_t left = segment(curve->nodes, curve->n_nodes, nodes);
    double at = position(curve->nodes, curve->n_nodes, left, nodes);
    int32_t right = curve->n_nodes < 2 ? left : left + 1;
    return seconds[left] + at * (seconds[right] - seconds[left]);
}

double cop_cost_at(const struct cop_cost_curve *curve, double nodes, double context)
{
    int32_t low = segment(curve->contexts, curve->n_contexts, context);
    double at = position(curve->contexts, curve->n_contexts, low, context);
    int32_t high = curve->n_contexts < 2 ? low : low + 1;
    double near = along_nodes(curve, low, nodes), far = along_nodes(curve, high, nodes);
    double seconds = near + at * (far - near);
    return seconds > 0 ? seconds : 0;
}

static const char list_cycles[] =
    "SELECT c.tokens_scored, c.context_length, c.batch_size,"
    " c.draft_us + c.verify_us + c.commit_us + c.other_us"
    " FROM requests r JOIN cycles c ON c.request = r.id WHERE r.arm = ?1 AND r.error IS NULL";

static double number(const struct cop_query *query, int32_t column)
{
    struct cop_trace_value value = cop_query_value(query, column);
    return value.type == COP_TRACE_INTEGER ? (double)value.integer : value.real;
}

enum cop_status cop_trace_predict(struct cop_trace *trace, int64_t arm,
                                  const struct cop_cost_curve *curve, double *seconds,
                                  struct cop_error *err)
{
    struct cop_query *query;
    bool has_row = false;
    const struct cop_trace_value value = {.type = COP_TRACE_INTEGER, .integer = arm};
    enum cop_status status = cop_query_open(&query, trace, list_cycles, &value, 1, err);
    *seconds = 0;
    while (status == COP_OK) {
        status = cop_query_step(query, &has_row, err);
        if (status != COP_OK || !has_row) {
            break;
        }
        double score = cop_cost_at(curve, number(query, 0), number(query, 1));
        *seconds += (score + number(query, 3) / 1e6) / number(query, 2);
    }
    cop_query_close(query);
    return status;
}
