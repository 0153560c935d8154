/* One block on a device. */
#include "algorithms/heads/several/skip_block.h"

#include <stdlib.h>
#include <string.h>

static enum cop_status load_vector(const struct cop_checkpoint *files,
                                   const struct cop_tensor *tensor, float **out,
                                   struct cop_error *err)
{
    return tensor ? cop_checkpoint_vector(files, tensor, out, err) : COP_OK;
}

enum cop_status cop_skip_block_load(const struct cop_checkpoint *files,
                                    const struct cop_skip_tensors *tensors,
                                    const struct cop_model *target,
                                    struct cop_skip_block *block, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    if (tensors->linear) {
        status = cop_checkpoint_weight(files, tensors->linear, target, &block->linear, err);
    }
    if (status == COP_OK && tensors->skip) {
        status = cop_checkpoint_weight(files, tensors->skip, target, &block->skip, err);
    }
    if (status == COP_OK) {
        status = load_vector(files, tensors->bias, &block->bias, err);
    }
    return status == COP_OK ? load_vector(files, tensors->skip_bias, &block->skip_bias, err)
                            : status;
}

void cop_skip_block_free(struct cop_skip_block *block, const struct cop_model *target)
{
    cop_checkpoint_free_weight(target, block->linear);
    cop_checkpoint_free_weight(target, block->skip);
    free(block->bias);
    free(block->skip_bias);
    *block = (struct cop_skip_block){0};
}

float cop_silu(float x)
{
    float small = cop_expf(x < 0 ? x : -x); /* at most 1: no overflow at either end */
    return (x < 0 ? x * small : x) / (1 + small);
}

bool cop_skip_block_run(const struct cop_skip_block *block, const struct cop_model *target,
                        const float *x, int32_t n, int32_t width, float *linear, float *out)
{
    const struct cop_ops *ops = cop_model_ops(target);
    struct cop_device *device = cop_model_device(target);
    size_t count = (size_t)n * (size_t)width;
    if (!ops->matmul(device, block->linear, x, n, block->bias, false, linear)) {
        return false;
    }
    if (block->skip && !ops->matmul(device, block->skip, x, n, block->skip_bias, false, out)) {
        return false;
    }
    if (!block->skip && x != out) {
        memcpy(out, x, count * sizeof *out);
    }
    for (size_t i = 0; i < count; i++) {
        out[i] += cop_silu(linear[i]);
    }
    return true;
}
