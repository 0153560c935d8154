/* Matrices to one weight of a device: the choice of its product. */
#include "core/model/quantise.h"
#include "core/model/state.h"

#include <stdlib.h>

struct cop_weight *cop_model_stack(const struct cop_model *model,
                                   const struct cop_matrix *parts, int32_t n_parts,
                                   enum cop_product product, bool *is_int8)
{
    struct cop_matrix own[COP_STACK_LIMIT];
    void *rooms[COP_STACK_LIMIT] = {NULL};
    struct cop_weight *weight = NULL;
    bool has_memory = true, is_quantised = product != COP_PRODUCT_F32;
    for (int32_t i = 0; i < n_parts && has_memory; i++) {
        own[i] = parts[i];
        if (product == COP_PRODUCT_Q8_0) {
            has_memory = cop_quantise(&parts[i], &own[i], &rooms[i]);
        }
        is_quantised &= cop_format_info(own[i].format)->is_quantised;
    }
    if (has_memory && is_quantised) {
        weight = model->ops->weight_new(model->device, own, n_parts, COP_PRECISION_INT8);
    }
    if (is_int8) {
        *is_int8 = weight != NULL;
    }
    if (has_memory && !weight) {
        weight = model->ops->weight_new(model->device, own, n_parts, COP_PRECISION_F32);
    }
    for (int32_t i = 0; i < n_parts; i++) {
        free(rooms[i]);
    }
    return weight;
}
