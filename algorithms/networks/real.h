/* The number that training computes in: float. The same sources are compiled once more with
 * COP_TRAIN_DOUBLE for the tests, where every gradient meets finite differences in double. */
#ifndef COP_NETWORKS_REAL_H
#define COP_NETWORKS_REAL_H

#include "kernels/ops.h"
#include <math.h>

#ifdef COP_TRAIN_DOUBLE
typedef double cop_real;
#define cop_real_exp  cop_exp
#define cop_real_sqrt sqrt
#else
typedef float cop_real;
#define cop_real_exp  cop_expf
#define cop_real_sqrt sqrtf
#endif

#endif
