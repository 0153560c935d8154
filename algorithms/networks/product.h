/* The three dense products of a layer y = W x and its gradients, and everything else of
 * training that is spread over the device's threads.
 *
 *     forward   y [n, rows]    (+)= x [n, cols]  · W^T           W [rows, cols]
 *     inputs    dx [n, cols]   (+)= dy [n, rows] · W
 *     weights   dW [rows, cols] +=  dy^T · x
 *
 * The f32 products are the device's own: on the machines that were tried they are as fast as
 * OpenBLAS's, and sums have one order whatever the number of threads. A lack of memory is
 * remembered: products then do nothing, and whoever began the step looks at `failed` once. */
#ifndef COP_NETWORKS_PRODUCT_H
#define COP_NETWORKS_PRODUCT_H

#include "algorithms/networks/real.h"

struct cop_products {
    const struct cop_ops *ops;
    struct cop_device *device; /* borrowed */
    bool failed;
};

/* As cop_multiplication, in the number of training. */
struct cop_table {
    const cop_real *data;
    ptrdiff_t line_stride, entry_stride;
};
struct cop_product {
    struct cop_table left, right;
    int32_t rows, n, depth;
    bool accumulate;
    cop_real *out;
    ptrdiff_t out_stride;
};
/* Products of which none touches what another writes. */
void cop_products_run(struct cop_products *products, const struct cop_product *list, int32_t n);

/* work(arg, first, end) for parts of [0, count) on all threads; each part does the same
 * whatever the others are. */
void cop_products_spread(struct cop_products *products, size_t count,
                         void (*work)(void *arg, size_t first, size_t end), void *arg);

/* What one call of a function of rows takes of [i, end). */
enum { COP_TRAIN_STRETCH = 1 << 16 };
static inline int32_t cop_train_stretch(size_t i, size_t end)
{
    return end - i < COP_TRAIN_STRETCH ? (int32_t)(end - i) : COP_TRAIN_STRETCH;
}

/* bias [rows] or NULL */
void cop_product_forward(struct cop_products *products, const cop_real *w, int32_t rows,
                         int32_t cols, const cop_real *x, int32_t n, const cop_real *bias,
                         bool accumulate, cop_real *y);
void cop_product_inputs(struct cop_products *products, const cop_real *w, int32_t rows,
                        int32_t cols, const cop_real *dy, int32_t n, bool accumulate,
                        cop_real *dx);
void cop_product_weights(struct cop_products *products, const cop_real *dy, int32_t rows,
                         const cop_real *x, int32_t cols, int32_t n, cop_real *dw);

#endif
