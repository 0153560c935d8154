/* Products of training, by the device or, in double, by loops. */
#include "algorithms/networks/product.h"

#ifdef COP_TRAIN_DOUBLE

void cop_products_run(struct cop_products *products, const struct cop_product *list, int32_t n)
{
    (void)products;
    for (const struct cop_product *p = list; p < list + n; p++) {
        for (int32_t t = 0; t < p->n; t++) {
            for (int32_t r = 0; r < p->rows; r++) {
                double *out = p->out + t * p->out_stride + r;
                double sum = p->accumulate ? *out : 0;
                for (int32_t k = 0; k < p->depth; k++) {
                    sum += p->left.data[r * p->left.line_stride + k * p->left.entry_stride] *
                           p->right.data[t * p->right.line_stride + k * p->right.entry_stride];
                }
                *out = sum;
            }
        }
    }
}

void cop_products_spread(struct cop_products *products, size_t count,
                         void (*work)(void *arg, size_t first, size_t end), void *arg)
{
    (void)products;
    work(arg, 0, count);
}

#else

static struct cop_factor factor(const struct cop_table *table)
{
    return (struct cop_factor){table->data, table->line_stride, table->entry_stride};
}

void cop_products_run(struct cop_products *products, const struct cop_product *list, int32_t n)
{
    enum { AT_ONCE = 64 };
    struct cop_multiplication some[AT_ONCE];
    for (int32_t first = 0, count; first < n && !products->failed; first += count) {
        count = n - first < AT_ONCE ? n - first : AT_ONCE;
        for (int32_t i = 0; i < count; i++) {
            const struct cop_product *p = &list[first + i];
            some[i] = (struct cop_multiplication){.left = factor(&p->left),
                                                  .right = factor(&p->right),
                                                  .rows = p->rows,
                                                  .n = p->n,
                                                  .depth = p->depth,
                                                  .accumulate = p->accumulate,
                                                  .out = p->out,
                                                  .out_stride = p->out_stride};
        }
        products->failed |= !products->ops->multiply(products->device, some, count);
    }
}

struct spread {
    size_t count;
    void (*work)(void *arg, size_t first, size_t end);
    void *arg;
};

static void spread_part(void *arg, int32_t rank, int32_t size)
{
    const struct spread *spread = arg;
    size_t first = spread->count * (size_t)rank / (size_t)size;
    size_t end = spread->count * ((size_t)rank + 1) / (size_t)size;
    if (first < end) {
        spread->work(spread->arg, first, end);
    }
}

void cop_products_spread(struct cop_products *products, size_t count,
                         void (*work)(void *arg, size_t first, size_t end), void *arg)
{
    struct spread spread = {count, work, arg};
    products->ops->together(products->device, spread_part, &spread);
}

#endif

void cop_product_forward(struct cop_products *products, const cop_real *w, int32_t rows,
                         int32_t cols, const cop_real *x, int32_t n, const cop_real *bias,
                         bool accumulate, cop_real *y)
{
    for (int32_t t = 0; bias && t < n; t++) {
        cop_real *out = y + (size_t)t * (size_t)rows;
        for (int32_t r = 0; r < rows; r++) {
            out[r] = (accumulate ? out[r] : 0) + bias[r];
        }
    }
    const struct cop_product product = {.left = {w, cols, 1},
                                        .right = {x, cols, 1},
                                        .rows = rows,
                                        .n = n,
                                        .depth = cols,
                                        .accumulate = accumulate || bias,
                                        .out = y,
                                        .out_stride = rows};
    cop_products_run(products, &product, 1);
}

void cop_product_inputs(struct cop_products *products, const cop_real *w, int32_t rows,
                        int32_t cols, const cop_real *dy, int32_t n, bool accumulate,
                        cop_real *dx)
{
    const struct cop_product product = {.left = {w, 1, cols},
                                        .right = {dy, rows, 1},
                                        .rows = cols,
                                        .n = n,
                                        .depth = rows,
                                        .accumulate = accumulate,
                                        .out = dx,
                                        .out_stride = cols};
    cop_products_run(products, &product, 1);
}

void cop_product_weights(struct cop_products *products, const cop_real *dy, int32_t rows,
                         const cop_real *x, int32_t cols, int32_t n, cop_real *dw)
{
    const struct cop_product product = {.left = {x, 1, cols},
                                        .right = {dy, 1, rows},
                                        .rows = cols,
                                        .n = rows,
                                        .depth = n,
                                        .accumulate = true,
                                        .out = dw,
                                        .out_stride = cols};
    cop_products_run(products, &product, 1);
}
