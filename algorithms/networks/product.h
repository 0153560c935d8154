/* The three dense products of a layer y = W x and its gradients, on the device's own f32
 * products: a matrix that changes with every step is packed for the device before each use,
 * which costs a twentieth of a product with a thousand rows.
 *
 *     forward   y [n, rows]    (+)= x [n, cols]  · W^T           W [rows, cols]
 *     inputs    dx [n, cols]   (+)= dy [n, rows] · W
 *     weights   dW [rows, cols] +=  dy^T · x
 *
 * Sums have one order, whatever the number of threads. A lack of memory is remembered: products
 * then do nothing, and whoever began the step looks at `failed` once. */
#ifndef COP_NETWORKS_PRODUCT_H
#define COP_NETWORKS_PRODUCT_H

#include "algorithms/networks/real.h"

struct cop_products {
    const struct cop_ops *ops;
    struct cop_device *device; /* borrowed */
    cop_real *turned[2];       /* transposed operands; grown by need */
    size_t capacity[2];
    bool failed;
};

void cop_products_release(struct cop_products *products);

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
