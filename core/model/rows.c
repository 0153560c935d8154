/* Some rows of a matrix as a weight of their own: what a reduced vocabulary reads of an output
 * layer. A row's product is the same number whatever rows stand beside it. */
#include "core/model/state.h"

#include <stdlib.h>
#include <string.h>

enum cop_status cop_model_weight_rows(const struct cop_model *model,
                                      const struct cop_matrix *matrix, const int32_t *rows,
                                      int32_t n, enum cop_product product,
                                      struct cop_weight **out, struct cop_error *err)
{
    const struct cop_format_info *format = cop_format_info(matrix->format);
    size_t row_bytes =
        (size_t)matrix->cols / (size_t)format->block_elements * (size_t)format->block_bytes;
    uint8_t *bytes = malloc((size_t)n * row_bytes);
    for (int32_t i = 0; bytes && i < n; i++) {
        memcpy(bytes + (size_t)i * row_bytes,
               (const uint8_t *)matrix->data + (size_t)rows[i] * row_bytes, row_bytes);
    }
    const struct cop_matrix some = {
        .format = matrix->format, .rows = n, .cols = matrix->cols, .data = bytes};
    *out = bytes ? cop_model_stack(model, &some, 1, product, NULL) : NULL;
    free(bytes);
    return *out ? COP_OK
                : cop_fail(err, COP_ERR_MEMORY, "no memory for %d rows of an output layer", n);
}

enum cop_status cop_model_head_rows(const struct cop_model *model, const cop_token *ids,
                                    int32_t n, struct cop_weight **out, struct cop_error *err)
{
    *out = NULL;
    enum cop_status status = cop_model_check_ids(model, ids, n, err);
    bool is_int8 = model->info.precision == COP_PRECISION_INT8;
    return status == COP_OK
               ? cop_model_weight_rows(model, &model->output, ids, n,
                                       is_int8 ? COP_PRODUCT_INT8 : COP_PRODUCT_F32, out, err)
               : status;
}
