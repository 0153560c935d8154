/* Temperature and truncation on double logits, one step at a time and in any order: what
 * cop.process_row shows, and what the engine's f32 rows are held against.
 *
 * Written after the definitions, not for speed: top-p sorts the vocabulary and adds masses from
 * the smallest up, as transformers does, so that sums agree to the last digits. Ties at a
 * border of top-p stay in the order of ids. */
#include "core/cycle/rows/process.h"

#include "kernels/ops.h"
#include <math.h>
#include <stdlib.h>

struct entry {
    double value;
    int32_t id;
};

/* Smallest first; among equals the highest id first. */
static int by_value(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->value < y->value || x->value > y->value) {
        return x->value < y->value ? -1 : 1;
    }
    return (x->id < y->id) - (x->id > y->id);
}

/* The entries of values[0..vocab), sorted; free. */
static struct entry *sorted(const double *values, int32_t vocab, struct cop_error *err)
{
    struct entry *list = malloc((size_t)vocab * sizeof *list);
    if (!list) {
        (void)cop_fail(err, COP_ERR_MEMORY, "no memory to sort a row");
        return NULL;
    }
    for (int32_t i = 0; i < vocab; i++) {
        list[i] = (struct entry){values[i], i};
    }
    qsort(list, (size_t)vocab, sizeof *list, by_value);
    return list;
}

/* The best token, ties to the lowest id; -1: the row is no law. */
static int32_t best_of(const double *logits, int32_t vocab)
{
    int32_t best = 0;
    for (int32_t i = 0; i < vocab; i++) {
        if (isnan(logits[i]) || logits[i] == HUGE_VAL) {
            return -1;
        }
        best = logits[i] > logits[best] ? i : best;
    }
    return vocab > 0 && logits[best] > -HUGE_VAL ? best : -1;
}

/* cop_exp, and on through the numbers too small for it. */
static double exponential(double x)
{
    return x < -700 ? cop_exp(x + 400) * cop_exp(-400) : cop_exp(x);
}

enum cop_status cop_exact_probabilities(const double *logits, int32_t vocab, double *out,
                                        struct cop_error *err)
{
    int32_t best = best_of(logits, vocab);
    if (best < 0) {
        return cop_fail(err, COP_ERR_NUMERIC,
                        "a row of logits is not finite (NaN, +inf, or no token left)");
    }
    double total = 0;
    for (int32_t i = 0; i < vocab; i++) {
        out[i] = exponential(logits[i] - logits[best]);
        total += out[i];
    }
    for (int32_t i = 0; i < vocab; i++) {
        out[i] /= total;
    }
    return COP_OK;
}

static enum cop_status divide(double *logits, int32_t vocab, double temperature,
                              struct cop_error *err)
{
    int32_t best = best_of(logits, vocab);
    if (best < 0) {
        return cop_fail(err, COP_ERR_NUMERIC,
                        "a row of logits is not finite (NaN, +inf, or no token left)");
    }
    bool fits = isfinite(logits[best] / temperature);
    for (int32_t i = 0; i < vocab; i++) {
        if (temperature <= 0) {
            logits[i] = i == best ? logits[i] : -HUGE_VAL;
        } else if (fits) {
            logits[i] /= temperature;
        } else { /* distances from the best, which stays at 0 */
            double distance = logits[i] - logits[best];
            logits[i] = distance < 0 ? distance / temperature : 0;
        }
    }
    return COP_OK;
}

static enum cop_status cut_top_k(double *logits, int32_t vocab, int32_t k,
                                 struct cop_error *err)
{
    if (k <= 0 || k >= vocab) {
        return COP_OK;
    }
    struct entry *list = sorted(logits, vocab, err);
    if (!list) {
        return COP_ERR_MEMORY;
    }
    double least = list[vocab - k].value;
    for (int32_t i = 0; i < vocab; i++) {
        logits[i] = logits[i] < least ? -HUGE_VAL : logits[i];
    }
    free(list);
    return COP_OK;
}

static enum cop_status cut_top_p(double *logits, const double *probabilities, int32_t vocab,
                                 double top_p, struct cop_error *err)
{
    struct entry *list = sorted(probabilities, vocab, err);
    if (!list) {
        return COP_ERR_MEMORY;
    }
    double mass = 0;
    for (int32_t i = 0; i < vocab - 1; i++) {
        mass += list[i].value;
        if (mass <= 1 - top_p) {
            logits[list[i].id] = -HUGE_VAL;
        }
    }
    free(list);
    return COP_OK;
}

static void cut_min_p(double *logits, const double *probabilities, int32_t vocab, double min_p)
{
    double most = 0;
    for (int32_t i = 0; i < vocab; i++) {
        most = probabilities[i] > most ? probabilities[i] : most;
    }
    for (int32_t i = 0; i < vocab; i++) {
        logits[i] = probabilities[i] < min_p * most ? -HUGE_VAL : logits[i];
    }
}

enum cop_status cop_exact_step(double *logits, int32_t vocab, enum cop_step step,
                               const struct cop_sampling *sampling, struct cop_error *err)
{
    bool has_top_p = step == COP_STEP_TOP_P && sampling->top_p < 1;
    bool has_min_p = step == COP_STEP_MIN_P && sampling->min_p > 0;
    if (step == COP_STEP_TEMPERATURE) {
        return divide(logits, vocab, sampling->temperature, err);
    }
    if (step == COP_STEP_TOP_K) {
        return cut_top_k(logits, vocab, sampling->top_k, err);
    }
    if (!has_top_p && !has_min_p) {
        return COP_OK;
    }
    double *probabilities = malloc((size_t)vocab * sizeof *probabilities);
    if (!probabilities) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to truncate a row");
    }
    enum cop_status status = cop_exact_probabilities(logits, vocab, probabilities, err);
    if (status == COP_OK && has_top_p) {
        status = cut_top_p(logits, probabilities, vocab, sampling->top_p, err);
    } else if (status == COP_OK) {
        cut_min_p(logits, probabilities, vocab, fmin(sampling->min_p, 1.0));
    }
    free(probabilities);
    return status;
}
