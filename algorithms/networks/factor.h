/* A table of rank d that is nearest to a wide one: small networks begin with what the target
 * knows of its tokens. */
#ifndef COP_NETWORKS_FACTOR_H
#define COP_NETWORKS_FACTOR_H

#include "algorithms/networks/real.h"
#include <stddef.h>

/* axes [d, width], orthonormal rows: the d directions in which rows of `table` [rows, width]
 * are largest, by repeated products with their second moments. d <= width. false: no memory. */
bool cop_factor_axes(const cop_real *table, int32_t rows, int32_t width, int32_t d,
                     cop_real *axes);
/* out [rows, d] = table axes^T, scaled so that the mean square of its entries is size². */
void cop_factor_project(const cop_real *table, int32_t rows, int32_t width,
                        const cop_real *axes, int32_t d, double size, cop_real *out);

#endif
