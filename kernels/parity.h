/* Compares every operation of the CPU backend with its slow twin. Behind `coppice check
 * kernels` and the kernel tests. */
#ifndef COP_KERNELS_PARITY_H
#define COP_KERNELS_PARITY_H

/* Called once per case. `worst` is the largest error in the case's own unit, `tolerance` the
 * largest that rounding can explain in that unit; worst > tolerance (or NaN) is a failure. */
typedef void cop_parity_report(void *ctx, const char *op, const char *shape, double worst,
                               double tolerance);

/* Runs all cases at a level (NULL: the best). Returns the number of failures; -1: no memory, or
 * a level that this machine lacks. `report` may be NULL. */
int cop_parity_run(const char *level, cop_parity_report *report, void *ctx);

#endif
