/* Functions of rows and their gradients. */
#include "algorithms/networks/layers.h"

#include <string.h>

double cop_exponentials(cop_real *row, int32_t n, cop_real shift, double scale)
{
    double sum = 0;
#ifdef COP_TRAIN_DOUBLE
    for (int32_t i = 0; i < n; i++) {
        sum += row[i] = cop_exp(scale * (row[i] - shift));
    }
#else
    for (int32_t i = 0; i < n; i += COP_SUM_BLOCK) {
        int32_t size = n - i < COP_SUM_BLOCK ? n - i : COP_SUM_BLOCK;
        sum += cop_exp_row(row + i, size, (double)shift, scale, row + i);
    }
#endif
    return sum;
}

/* Without overflow at either end. */
static cop_real sigmoid(cop_real x)
{
    cop_real small = cop_real_exp(x < 0 ? x : -x); /* at most 1 */
    return (x < 0 ? small : 1) / (1 + small);
}

static cop_real silu_slope(cop_real x, cop_real s)
{
    return s * (1 + x * (1 - s));
}

/* ---- Entry by entry ------------------------------------------------------------------------
 */

struct entries {
    const cop_real *x, *up, *d_out;
    cop_real *out, *d_up;
};

static void silu_part(void *arg, size_t first, size_t end)
{
    const struct entries *e = arg;
    for (size_t i = first; i < end; i++) {
        e->out[i] += e->x[i] * sigmoid(e->x[i]);
    }
}

void cop_silu_add(struct cop_products *products, const cop_real *x, size_t count, cop_real *out)
{
    struct entries entries = {.x = x, .out = out};
    cop_products_spread(products, count, silu_part, &entries);
}

static void silu_back_part(void *arg, size_t first, size_t end)
{
    const struct entries *e = arg;
    for (size_t i = first; i < end; i++) {
        e->out[i] = e->d_out[i] * silu_slope(e->x[i], sigmoid(e->x[i]));
    }
}

void cop_silu_back(struct cop_products *products, const cop_real *x, const cop_real *d_out,
                   size_t count, cop_real *d_x)
{
    struct entries entries = {.x = x, .d_out = d_out, .out = d_x};
    cop_products_spread(products, count, silu_back_part, &entries);
}

#ifdef COP_TRAIN_DOUBLE

static void swiglu_part(void *arg, size_t first, size_t end)
{
    const struct entries *e = arg;
    for (size_t i = first; i < end; i++) {
        e->out[i] = e->x[i] * sigmoid(e->x[i]) * e->up[i];
    }
}

static void swiglu_back_part(void *arg, size_t first, size_t end)
{
    const struct entries *e = arg;
    for (size_t i = first; i < end; i++) {
        cop_real s = sigmoid(e->x[i]), d = e->d_out[i];
        e->out[i] = d * e->up[i] * silu_slope(e->x[i], s);
        e->d_up[i] = d * e->x[i] * s;
    }
}

#else

static void swiglu_part(void *arg, size_t first, size_t end)
{
    const struct entries *e = arg;
    for (size_t i = first; i < end; i += COP_TRAIN_STRETCH) {
        cop_swiglu_row(e->x + i, e->up + i, cop_train_stretch(i, end), e->out + i);
    }
}

static void swiglu_back_part(void *arg, size_t first, size_t end)
{
    const struct entries *e = arg;
    for (size_t i = first; i < end; i += COP_TRAIN_STRETCH) {
        cop_swiglu_back_row(e->x + i, e->up + i, e->d_out + i, cop_train_stretch(i, end),
                            e->out + i, e->d_up + i);
    }
}

#endif

void cop_swiglu(struct cop_products *products, const cop_real *gate, const cop_real *up,
                size_t count, cop_real *out)
{
    struct entries entries = {.x = gate, .up = up, .out = out};
    cop_products_spread(products, count, swiglu_part, &entries);
}

void cop_swiglu_back(struct cop_products *products, const cop_real *gate, const cop_real *up,
                     const cop_real *d_out, size_t count, cop_real *d_gate, cop_real *d_up)
{
    struct entries entries = {.x = gate, .up = up, .d_out = d_out, .out = d_gate, .d_up = d_up};
    cop_products_spread(products, count, swiglu_back_part, &entries);
}

static double phi(double x) /* the normal law below x */
{
    return 0.5 * (1 + erf(x * 0.70710678118654752));
}

static void gelu_part(void *arg, size_t first, size_t end)
{
    const struct entries *e = arg;
    for (size_t i = first; i < end; i++) {
        e->out[i] = (cop_real)((double)e->x[i] * phi((double)e->x[i]));
    }
}

void cop_gelu(struct cop_products *products, const cop_real *x, size_t count, cop_real *out)
{
    struct entries entries = {.x = x, .out = out};
    cop_products_spread(products, count, gelu_part, &entries);
}

static void gelu_back_part(void *arg, size_t first, size_t end)
{
    const struct entries *e = arg;
    for (size_t i = first; i < end; i++) {
        double at = (double)e->x[i];
        double density = 0.39894228040143268 * cop_exp(-0.5 * at * at);
        e->out[i] = (cop_real)((double)e->d_out[i] * (phi(at) + at * density));
    }
}

void cop_gelu_back(struct cop_products *products, const cop_real *x, const cop_real *d_out,
                   size_t count, cop_real *d_x)
{
    struct entries entries = {.x = x, .d_out = d_out, .out = d_x};
    cop_products_spread(products, count, gelu_back_part, &entries);
}

/* ---- Row by row ----------------------------------------------------------------------------
 */

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
