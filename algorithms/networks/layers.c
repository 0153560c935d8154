/* Functions of rows and their gradients. */
#include "algorithms/networks/layers.h"

#include <string.h>

/* Without overflow at either end. */
static cop_real sigmoid(cop_real x)
{
    cop_real small = cop_real_exp(x < 0 ? x : -x); /* at most 1 */
    return (x < 0 ? small : 1) / (1 + small);
}

void cop_silu_add(const cop_real *x, size_t count, cop_real *out)
{
    for (size_t i = 0; i < count; i++) {
        out[i] += x[i] * sigmoid(x[i]);
    }
}

static cop_real silu_slope(cop_real x, cop_real s)
{
    return s * (1 + x * (1 - s));
}

void cop_silu_back(const cop_real *x, const cop_real *d_out, size_t count, cop_real *d_x)
{
    for (size_t i = 0; i < count; i++) {
        d_x[i] = d_out[i] * silu_slope(x[i], sigmoid(x[i]));
    }
}

void cop_swiglu(const cop_real *gate, const cop_real *up, size_t count, cop_real *out)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = gate[i] * sigmoid(gate[i]) * up[i];
    }
}

void cop_swiglu_back(const cop_real *gate, const cop_real *up, const cop_real *d_out,
                     size_t count, cop_real *d_gate, cop_real *d_up)
{
    for (size_t i = 0; i < count; i++) {
        cop_real s = sigmoid(gate[i]), d = d_out[i];
        d_gate[i] = d * up[i] * silu_slope(gate[i], s);
        d_up[i] = d * gate[i] * s;
    }
}

static double phi(double x) /* the normal law below x */
{
    return 0.5 * (1 + erf(x * 0.70710678118654752));
}

void cop_gelu(const cop_real *x, size_t count, cop_real *out)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = (cop_real)((double)x[i] * phi((double)x[i]));
    }
}

void cop_gelu_back(const cop_real *x, const cop_real *d_out, size_t count, cop_real *d_x)
{
    for (size_t i = 0; i < count; i++) {
        double at = (double)x[i];
        double density = 0.39894228040143268 * cop_exp(-0.5 * at * at);
        d_x[i] = (cop_real)((double)d_out[i] * (phi(at) + at * density));
    }
}

/* 1 / sqrt(mean x² + epsilon) of one row. */
static cop_real inverse_size(const struct cop_norm *norm, const cop_real *x)
{
    double sum = 0;
    for (int32_t k = 0; k < norm->width; k++) {
        sum += (double)x[k] * (double)x[k];
    }
    return (cop_real)(1 / sqrt(sum / norm->width + norm->epsilon));
}

void cop_norm_forward(const struct cop_norm *norm, const cop_real *x, int32_t n, cop_real *out)
{
    for (int32_t i = 0; i < n; i++, x += norm->width, out += norm->width) {
        cop_real inverse = inverse_size(norm, x);
        for (int32_t k = 0; k < norm->width; k++) {
            out[k] = x[k] * inverse * norm->gain[k] + (norm->shift ? norm->shift[k] : 0);
        }
    }
}

void cop_norm_back(const struct cop_norm *norm, const cop_real *x, const cop_real *d_out,
                   int32_t n, cop_real *d_x, cop_real *d_gain, cop_real *d_shift)
{
    int32_t width = norm->width;
    if (d_shift) {
        cop_sum_rows(d_out, n, width, d_shift);
    }
    for (int32_t i = 0; i < n; i++, x += width, d_out += width) {
        cop_real inverse = inverse_size(norm, x);
        for (int32_t k = 0; d_gain && k < width; k++) {
            d_gain[k] += d_out[k] * x[k] * inverse;
        }
        if (!d_x) {
            continue;
        }
        double along = 0; /* d_out gain · x */
        for (int32_t k = 0; k < width; k++) {
            along += (double)d_out[k] * (double)norm->gain[k] * (double)x[k];
        }
        cop_real pull = (cop_real)(along * (double)inverse * (double)inverse / width);
        for (int32_t k = 0; k < width; k++) {
            d_x[k] += inverse * (d_out[k] * norm->gain[k] - pull * x[k]);
        }
        d_x += width;
    }
}

void cop_sum_rows(const cop_real *x, int32_t n, int32_t width, cop_real *sums)
{
    for (int32_t i = 0; i < n; i++, x += width) {
        for (int32_t k = 0; k < width; k++) {
            sums[k] += x[k];
        }
    }
}

void cop_join(const cop_real *left, int32_t left_width, const cop_real *right,
              int32_t right_width, int32_t n, cop_real *out)
{
    size_t a = (size_t)left_width, b = (size_t)right_width;
    for (size_t i = 0; i < (size_t)n; i++) {
        memcpy(out + i * (a + b), left + i * a, a * sizeof *out);
        memcpy(out + i * (a + b) + a, right + i * b, b * sizeof *out);
    }
}

void cop_part_add(const cop_real *from, int32_t stride, int32_t offset, int32_t width,
                  int32_t n, cop_real *out)
{
    from += offset;
    for (int32_t i = 0; i < n; i++, from += stride, out += width) {
        for (int32_t k = 0; k < width; k++) {
            out[k] += from[k];
        }
    }
}
