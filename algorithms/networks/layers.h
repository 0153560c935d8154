/* Functions of rows, and what a gradient becomes on its way back through them. n rows of
 * `width`; `d_` is the gradient of the loss by what follows. Backward functions add to their
 * results, so that branches meet by themselves. */
#ifndef COP_NETWORKS_LAYERS_H
#define COP_NETWORKS_LAYERS_H

#include "algorithms/networks/product.h"
#include <stddef.h>

/* row = e^(scale (row - shift)); returns their sum, whose order does not depend on threads */
double cop_exponentials(cop_real *row, int32_t n, cop_real shift, double scale);

/* out += silu(x);  d_x = d_out silu'(x) (overwritten) */
void cop_silu_add(struct cop_products *products, const cop_real *x, size_t count,
                  cop_real *out);
void cop_silu_back(struct cop_products *products, const cop_real *x, const cop_real *d_out,
                   size_t count, cop_real *d_x);

/* out = silu(gate) up;  d_gate and d_up are overwritten; either may be d_out */
void cop_swiglu(struct cop_products *products, const cop_real *gate, const cop_real *up,
                size_t count, cop_real *out);
void cop_swiglu_back(struct cop_products *products, const cop_real *gate, const cop_real *up,
                     const cop_real *d_out, size_t count, cop_real *d_gate, cop_real *d_up);

/* x ← x Phi(x), Phi the normal law;  d_x = d_out gelu'(x) (overwritten) */
void cop_gelu(struct cop_products *products, const cop_real *x, size_t count, cop_real *out);
void cop_gelu_back(struct cop_products *products, const cop_real *x, const cop_real *d_out,
                   size_t count, cop_real *d_x);

/* out = x / sqrt(mean x² + epsilon) gain + shift; shift NULL: none */
struct cop_norm {
    const cop_real *gain, *shift; /* [width] */
    double epsilon;
    int32_t width;
};
void cop_norm_forward(const struct cop_norm *norm, const cop_real *x, int32_t n, cop_real *out);
/* d_gain, d_shift NULL: not trained; d_x NULL: not wanted */
void cop_norm_back(const struct cop_norm *norm, const cop_real *x, const cop_real *d_out,
                   int32_t n, cop_real *d_x, cop_real *d_gain, cop_real *d_shift);

/* sums[width] += the rows of x */
void cop_sum_rows(const cop_real *x, int32_t n, int32_t width, cop_real *sums);
/* Two tables side by side, and apart again (added). */
void cop_join(const cop_real *left, int32_t left_width, const cop_real *right,
              int32_t right_width, int32_t n, cop_real *out);
void cop_part_add(const cop_real *from, int32_t stride, int32_t offset, int32_t width,
                  int32_t n, cop_real *out);

#endif
