/* The block that heads are stacked from: out = skip x + silu(linear x). skip is the identity
 * where x keeps its width. */
#ifndef COP_ALGORITHMS_SKIP_BLOCK_H
#define COP_ALGORITHMS_SKIP_BLOCK_H

#include "core/model/checkpoint.h"

struct cop_skip_tensors {
    const struct cop_tensor *linear;
    const struct cop_tensor *bias, *skip, *skip_bias; /* or NULL */
};

struct cop_skip_block { /* the same on a device */
    struct cop_weight *linear, *skip;
    float *bias, *skip_bias;
};

/* A tensor that is NULL leaves NULL. What was made before a failure is freed by
 * cop_skip_block_free. */
enum cop_status cop_skip_block_load(const struct cop_checkpoint *files,
                                    const struct cop_skip_tensors *tensors,
                                    const struct cop_model *target,
                                    struct cop_skip_block *block, struct cop_error *err);
void cop_skip_block_free(struct cop_skip_block *block, const struct cop_model *target);
/* n rows; out and linear [n, width]. x and out may be the same where skip is the identity.
 * False: no memory. */
bool cop_skip_block_run(const struct cop_skip_block *block, const struct cop_model *target,
                        const float *x, int32_t n, int32_t width, float *linear, float *out);

float cop_silu(float x);

#endif
