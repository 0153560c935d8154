/* Sizes that must fit each other, whichever file they were read from. */
#include "core/model/state.h"
#include <stdlib.h>

enum cop_status cop_model_check_heads(const struct cop_model *model, const char *name,
                                      struct cop_error *err)
{
    const struct cop_model_info *info = &model->info;
    if (info->heads % info->kv_heads != 0) {
        return cop_fail(err, COP_ERR_FORMAT, "%s: %d heads cannot share %d key heads evenly",
                        name, info->heads, info->kv_heads);
    }
    return COP_OK;
}

enum cop_status cop_model_check_head_dim(const struct cop_model *model, const char *name,
                                         struct cop_error *err)
{
    const struct cop_model_info *info = &model->info;
    if (info->head_dim < 2 || info->head_dim % 2 != 0 || info->head_dim > COP_MAX_HEAD_DIM) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: heads of %d entries; expected an even number up to %d", name,
                        info->head_dim, COP_MAX_HEAD_DIM);
    }
    return COP_OK;
}

enum cop_status cop_model_set_windows(struct cop_model *model, int32_t window,
                                      struct cop_error *err)
{
    free(model->windows);
    model->windows = calloc((size_t)model->info.layers, sizeof *model->windows);
    if (!model->windows) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d layers", model->info.layers);
    }
    for (int32_t i = 0; i < model->info.layers; i++) {
        model->windows[i] = window;
    }
    return COP_OK;
}
