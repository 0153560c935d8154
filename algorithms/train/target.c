/* The target's two tables in f32, whatever its files hold: embeddings as the first layer reads
 * them; the LM head column by column, as what it says of unit vectors. */
#include "algorithms/train/target.h"

#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 64 };

static enum cop_status read_embedding(struct cop_model *model, cop_real *out,
                                      struct cop_error *err)
{
    const struct cop_model_info *info = cop_model_info(model);
    cop_token ids[AT_ONCE];
    enum cop_status status = COP_OK;
    for (int32_t id = 0, n; id < info->vocab_size && status == COP_OK; id += n) {
        n = info->vocab_size - id < AT_ONCE ? info->vocab_size - id : AT_ONCE;
        for (int32_t i = 0; i < n; i++) {
            ids[i] = id + i;
        }
        status =
            cop_model_embed(model, ids, n, out + (size_t)id * (size_t)info->hidden_size, err);
    }
    return status;
}

static enum cop_status read_lm_head(struct cop_model *model, cop_real *out,
                                    struct cop_error *err)
{
    const struct cop_model_info *info = cop_model_info(model);
    size_t width = (size_t)info->hidden_size, vocab = (size_t)info->vocab_size;
    float *units = calloc(AT_ONCE * width, sizeof *units);
    float *columns = malloc(AT_ONCE * vocab * sizeof *columns);
    enum cop_status status =
        units && columns ? COP_OK : cop_fail(err, COP_ERR_MEMORY, "no memory for an LM head");
    for (size_t first = 0, n; first < width && status == COP_OK; first += n) {
        n = width - first < AT_ONCE ? width - first : AT_ONCE;
        memset(units, 0, AT_ONCE * width * sizeof *units);
        for (size_t i = 0; i < n; i++) {
            units[i * width + first + i] = 1;
        }
        status = cop_model_head(model, units, (int32_t)n, columns, err);
        for (size_t id = 0; id < vocab && status == COP_OK; id++) {
            for (size_t i = 0; i < n; i++) {
                out[id * width + first + i] = columns[i * vocab + id];
            }
        }
    }
    free(units);
    free(columns);
    return status;
}

enum cop_status cop_train_target_read(struct cop_model *model, struct cop_train_target *target,
                                      cop_real **lm_head, cop_real **embedding,
                                      struct cop_error *err)
{
    const struct cop_model_info *info = cop_model_info(model);
    size_t count = (size_t)info->vocab_size * (size_t)info->hidden_size;
    cop_train_target_shape(model, target);
    *lm_head = malloc(count * sizeof **lm_head);
    *embedding = malloc(count * sizeof **embedding);
    target->lm_head = *lm_head;
    target->embedding = *embedding;
    if (!*lm_head || !*embedding) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the target's tables");
    }
    enum cop_status status = read_embedding(model, *embedding, err);
    return status == COP_OK ? read_lm_head(model, *lm_head, err) : status;
}

void cop_train_target_shape(const struct cop_model *model, struct cop_train_target *target)
{
    const struct cop_model_info *info = cop_model_info(model);
    *target = (struct cop_train_target){.width = info->hidden_size,
                                        .vocab = info->vocab_size,
                                        .layers = info->layers,
                                        .heads = info->heads,
                                        .kv_heads = info->kv_heads,
                                        .head_dim = info->head_dim,
                                        .ffn = info->ffn_size,
                                        .trained_context = info->trained_context,
                                        .norm_epsilon = info->norm_epsilon,
                                        .rope_theta = info->rope_theta};
}
