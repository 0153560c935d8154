/* The numerical primitives that every device shares: exponential, logarithm, blocked sum, arg
 * max, inverse-CDF pick.
 *
 * Their results are the same bits on every machine: fixed sequences of correctly rounded
 * operations, no libm, no fused multiply-add. Those that walk whole vocabulary rows
 * (cop_exp_block, cop_exp_row, the sums of rows, cop_argmax) run in the widest instruction
 * set of the machine, which changes their speed only. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/level.h"
#include "kernels/ops.h"

#define COP_EXP_LANES_F64 2
#define COP_EXP_LANES_F32 4
#include "kernels/exp_lanes.h"

double cop_exp(double x)
{
    cop_lanes_f64 lanes = {x, x};
    return cop_lanes_exp(lanes)[0];
}

float cop_expf(float x)
{
    cop_lanes_f32 lanes = {x, x, x, x};
    return cop_lanes_expf(lanes)[0];
}

void cop_exp_block(const float *logits, int32_t count, double shift, double scale, double *out)
{
    cop_level_best()->exp_block(logits, count, shift, scale, out);
}

double cop_exp_row(const float *logits, int32_t count, double shift, double scale, float *out)
{
    return cop_level_best()->exp_row(logits, count, shift, scale, out);
}

double cop_squares(const float *values, int32_t count)
{
    return cop_level_best()->sum_of_squares(values, count);
}

void cop_swiglu_row(const float *gate, const float *up, int32_t count, float *out)
{
    cop_level_best()->swiglu(gate, up, count, out);
}

void cop_swiglu_back_row(const float *gate, const float *up, const float *d_out, int32_t count,
                         float *d_gate, float *d_up)
{
    cop_level_best()->swiglu_back(gate, up, d_out, count, d_gate, d_up);
}

void cop_adamw_row(const struct cop_adamw_rates *rates, const float *gradient, int32_t count,
                   float *value, float *first, float *second)
{
    cop_level_best()->adamw(rates, gradient, count, value, first, second);
}

double cop_residual_block(const float *target, double target_scale, const float *draft,
                          double draft_scale, int32_t count, double *out)
{
    return cop_level_best()->residual_block(target, target_scale, draft, draft_scale, count,
                                            out);
}

double cop_gated_block(const struct cop_gate *gate, const float *target, const float *draft,
                       const float *by, int32_t count, double *out)
{
    return cop_level_best()->gated_block(gate, target, draft, by, count, out);
}

double cop_ratio_below(const float *target, const float *draft, double p, double q,
                       bool or_equal, int32_t count)
{
    return cop_level_best()->ratio_below(target, draft, p, q, or_equal, count);
}

void cop_ratio_buckets(const float *target, const float *draft, int32_t count, uint16_t *out)
{
    cop_level_best()->ratio_buckets(target, draft, count, out);
}

double cop_energy_block(const float *weights, const float *logits, double shift, int32_t count)
{
    return cop_level_best()->energy_block(weights, logits, shift, count);
}

double cop_surprise_block(const float *weights, double scale, double guard, int32_t count)
{
    return cop_level_best()->surprise_block(weights, scale, guard, count);
}

double cop_mixture_block(const float *target, double target_scale, const float *draft,
                         double draft_scale, int32_t count)
{
    return cop_level_best()->mixture_block(target, target_scale, draft, draft_scale, count);
}

double cop_contrast_row(const float *target, double target_scale, const float *draft,
                        double draft_scale, double shift, int32_t count, float *out)
{
    return cop_level_best()->contrast_row(target, target_scale, draft, draft_scale, shift,
                                          count, out);
}

double cop_mixture_near(const float *target, double target_scale, const float *draft,
                        double draft_scale, double guard, int32_t count)
{
    return cop_level_best()->mixture_near(target, target_scale, draft, draft_scale, guard,
                                          count);
}

void cop_maxima(const float *values, int32_t count, float *out)
{
    cop_level_best()->maxima(values, count, out);
}

float cop_largest(const float *values, int32_t count)
{
    return cop_level_best()->largest(values, count);
}

int32_t cop_count_above(const float *values, int32_t count, float bar)
{
    return cop_level_best()->count_above(values, count, bar);
}

int32_t cop_argmax(const float *values, int32_t count)
{
    return cop_level_best()->argmax(values, count);
}

int32_t cop_argmax_groups(const float *values, int32_t count, float *groups)
{
    return cop_level_best()->argmax_groups(values, count, groups);
}

void cop_widen(const float *values, int32_t count, double scale, double *out)
{
    cop_level_best()->widen_row(values, count, scale, out);
}

/* x = 2^k m with m in [sqrt(1/2), sqrt(2)), and ln m = 2 artanh(s), s = (m - 1) / (m + 1), as
 * the series 2 s (1 + s^2/3 + s^4/5 + …) up to s^20/21; |s| < 0.1716, so what is left out is
 * below 2^-55 of the sum. */
static double log_of_normal(double x, int64_t k)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    k += (int64_t)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m >= 0x1.6a09e667f3bcdp0) {
        m *= 0.5;
        k++;
    }
    double s = (m - 1.0) / (m + 1.0);
    double z = s * s;
    double sum = 0.0;
    for (int odd = 21; odd >= 3; odd -= 2) {
        sum = (sum + 1.0 / odd) * z;
    }
    double log_m = 2.0 * (s + s * sum);
    double high = (double)k * 0x1.62e42fee00000p-1; /* exact: 32 + 11 bits */
    return high + (log_m + (double)k * 0x1.a39ef35793c76p-33);
}

double cop_log(double x)
{
    if (isnan(x) || x == HUGE_VAL) {
        return x;
    }
    if (x <= 0.0) {
        return x == 0.0 ? -HUGE_VAL : (double)NAN;
    }
    if (x < 0x1p-1022) {
        return log_of_normal(x * 0x1p54, -54);
    }
    return log_of_normal(x, 0);
}

/* Entry i belongs to lane i % 8; each lane adds its entries in order, then lanes fold by
 * halves. */
double cop_sum_block(const double *values, int32_t count)
{
    return cop_level_best()->sum_block(values, count);
}

int32_t cop_pick_block(const double *weights, int32_t count, double mass, double *before)
{
    int32_t last = -1;
    double sum = 0.0, sum_before_last = 0.0;
    for (int32_t i = 0; i < count; i++) {
        double next = sum + weights[i];
        if (weights[i] > 0.0) {
            last = i;
            sum_before_last = sum;
            if (next > mass) {
                break;
            }
        }
        sum = next;
    }
    if (before && last >= 0) {
        *before = sum_before_last;
    }
    return last;
}
