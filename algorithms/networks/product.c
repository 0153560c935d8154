/* Products of training: each is one forward product of the device, of operands that are
 * transposed first where it needs them the other way round. */
#include "algorithms/networks/product.h"

#include <stdlib.h>

void cop_products_release(struct cop_products *products)
{
    for (int i = 0; i < 2; i++) {
        free(products->turned[i]);
        products->turned[i] = NULL;
        products->capacity[i] = 0;
    }
}

/* from [rows, cols] as [cols, rows]; NULL without memory. */
static const cop_real *turn(struct cop_products *products, int which, const cop_real *from,
                            int32_t rows, int32_t cols)
{
    enum { SIDE = 16 }; /* of the squares in which it is done: two cache lines wide */
    size_t count = (size_t)rows * (size_t)cols;
    if (count > products->capacity[which]) {
        free(products->turned[which]);
        products->turned[which] = malloc(count * sizeof(cop_real));
        products->capacity[which] = products->turned[which] ? count : 0;
    }
    cop_real *to = products->turned[which];
    if (!to) {
        products->failed = true;
        return NULL;
    }
    for (int32_t r0 = 0; r0 < rows; r0 += SIDE) {
        for (int32_t c0 = 0; c0 < cols; c0 += SIDE) {
            int32_t r1 = r0 + SIDE < rows ? r0 + SIDE : rows;
            int32_t c1 = c0 + SIDE < cols ? c0 + SIDE : cols;
            for (int32_t c = c0; c < c1; c++) {
                for (int32_t r = r0; r < r1; r++) {
                    to[(size_t)c * (size_t)rows + (size_t)r] =
                        from[(size_t)r * (size_t)cols + (size_t)c];
                }
            }
        }
    }
    return to;
}

#ifdef COP_TRAIN_DOUBLE

void cop_product_forward(struct cop_products *products, const cop_real *w, int32_t rows,
                         int32_t cols, const cop_real *x, int32_t n, const cop_real *bias,
                         bool accumulate, cop_real *y)
{
    (void)products;
    for (int32_t t = 0; t < n; t++) {
        for (int32_t r = 0; r < rows; r++) {
            double sum = bias ? bias[r] : 0;
            for (int32_t k = 0; k < cols; k++) {
                sum += w[(size_t)r * (size_t)cols + (size_t)k] *
                       x[(size_t)t * (size_t)cols + (size_t)k];
            }
            double *out = &y[(size_t)t * (size_t)rows + (size_t)r];
            *out = accumulate ? *out + sum : sum;
        }
    }
}

#else

void cop_product_forward(struct cop_products *products, const cop_real *w, int32_t rows,
                         int32_t cols, const cop_real *x, int32_t n, const cop_real *bias,
                         bool accumulate, cop_real *y)
{
    if (n < 1 || products->failed) {
        return;
    }
    const struct cop_matrix matrix = {
        .format = COP_FORMAT_F32, .rows = rows, .cols = cols, .data = w};
    struct cop_weight *packed =
        products->ops->weight_new(products->device, &matrix, 1, COP_PRECISION_F32);
    if (!packed ||
        !products->ops->matmul(products->device, packed, x, n, bias, accumulate, y)) {
        products->failed = true;
    }
    if (packed) {
        products->ops->weight_free(products->device, packed);
    }
}

#endif

void cop_product_inputs(struct cop_products *products, const cop_real *w, int32_t rows,
                        int32_t cols, const cop_real *dy, int32_t n, bool accumulate,
                        cop_real *dx)
{
    const cop_real *turned = turn(products, 0, w, rows, cols);
    if (turned) {
        cop_product_forward(products, turned, cols, rows, dy, n, NULL, accumulate, dx);
    }
}

void cop_product_weights(struct cop_products *products, const cop_real *dy, int32_t rows,
                         const cop_real *x, int32_t cols, int32_t n, cop_real *dw)
{
    const cop_real *tall = turn(products, 0, x, n, cols);
    const cop_real *left = turn(products, 1, dy, n, rows);
    if (tall && left) {
        cop_product_forward(products, tall, cols, n, left, rows, NULL, true, dw);
    }
}
