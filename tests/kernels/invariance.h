/* What the tests of batch invariance share: the bits of a token's results do not depend on what
 * else is in the call, or on the number of threads. */
#ifndef TESTS_KERNELS_INVARIANCE_H
#define TESTS_KERNELS_INVARIANCE_H

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/level.h"
#include "kernels/ops.h"
#include "tests/kernels/numbers.h"

static const struct cop_ops *const ops = &cop_ops_cpu;

static inline void *memory(size_t count, size_t bytes)
{
    void *data = calloc(count, bytes);
    cr_assert_not_null(data);
    return data;
}

static inline float *random_floats(size_t count, uint64_t *state, float scale)
{
    float *values = memory(count, sizeof *values);
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(2.0 * test_uniform(state) - 1.0) * scale;
    }
    return values;
}

#endif
