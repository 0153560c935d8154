/* What is compiled once per instruction-set level: one constant table of functions each.
 *
 * kernels/cpu/level.c is the only source behind it; the Makefile compiles it for every level
 * with that level's compiler flags. Everything else in kernels/ is portable C and calls through
 * the table. */
#ifndef COP_CPU_LEVEL_H
#define COP_CPU_LEVEL_H

#include <stdbool.h>
#include <stdint.h>

struct cop_level {
    const char *name; /* as scripts say it: "avx512-vnni" */

    void (*exp_block)(const float *logits, int32_t count, double shift, double scale,
                      double *out);
    int32_t (*argmax)(const float *values, int32_t count);
};

/* The best level that this machine runs. */
const struct cop_level *cop_level_best(void);

/* The level of that name; NULL when this machine or this build lacks it. */
const struct cop_level *cop_level_find(const char *name);

/* The levels that this machine runs, from "plain" upwards; NULL past the end. */
const struct cop_level *cop_level_at(int32_t index);

#endif
