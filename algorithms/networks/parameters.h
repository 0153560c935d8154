/* What is trained: named tensors with their gradients, and AdamW (Loshchilov and Hutter 2019,
 * arXiv:1711.05101) with the gradient's norm clipped.
 *
 *     g ← g min(1, clip / |g|)      m ← b1 m + (1 - b1) g      v ← b2 v + (1 - b2) g²
 *     w ← w - rate (m' / (sqrt v' + e) + decay w)              decay: of matrices only
 */
#ifndef COP_NETWORKS_PARAMETERS_H
#define COP_NETWORKS_PARAMETERS_H

#include "algorithms/networks/product.h"
#include "core/base/error.h"
#include <stddef.h>

enum { COP_PARAMETERS_LIMIT = 256, COP_PARAMETER_NAME = 96 };

struct cop_parameter {
    char name[COP_PARAMETER_NAME]; /* as it is published */
    int32_t rows, cols;            /* rows 0: a vector */
    size_t count;
    cop_real *value, *gradient, *first, *second; /* one block of memory */
};

struct cop_parameters {
    struct cop_parameter *list[COP_PARAMETERS_LIMIT];
    int32_t n;
};

struct cop_adamw {
    double rate, beta1, beta2, epsilon, decay, clip;
};

/* A tensor of zeros, owned by the list; NULL without memory or room. */
struct cop_parameter *cop_parameters_add(struct cop_parameters *parameters, int32_t rows,
                                         int32_t cols, const char *name, ...)
    __attribute__((format(printf, 4, 5)));
void cop_parameters_release(struct cop_parameters *parameters);
size_t cop_parameters_count(const struct cop_parameters *parameters);

/* value = scale * a normal number that depends on (seed, name, place) alone. */
void cop_parameter_normal(struct cop_parameter *parameter, double scale, uint64_t seed);
void cop_parameter_fill(struct cop_parameter *parameter, double value);

/* gradients */
void cop_parameters_clear(struct cop_parameters *parameters, struct cop_products *products);
/* of the gradient */
double cop_parameters_norm(const struct cop_parameters *parameters,
                           struct cop_products *products);
/* step counts from 1; norm is the gradient's. */
void cop_parameters_step(struct cop_parameters *parameters, struct cop_products *products,
                         const struct cop_adamw *adamw, double norm, int64_t step);

#endif
