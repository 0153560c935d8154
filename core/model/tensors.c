/* Tensors found in a file by the rules of an architecture: name, shape, format, and none left
 * over. */
#include "core/base/quote.h"
#include "core/model/state.h"
#include <stdio.h>

struct finder {
    const struct cop_model *model;
    struct cop_error *err;
};

static const char *file_of(const struct finder *in)
{
    return cop_path_tail(cop_gguf_path(in->model->file), 160);
}

int32_t cop_model_extent(const struct cop_model *model, enum cop_extent extent)
{
    switch (extent) {
    case COP_EXTENT_WIDTH: return model->info.hidden_size;
    case COP_EXTENT_QUERY: return cop_model_query_rows(model);
    case COP_EXTENT_KEY: return cop_model_key_rows(model);
    case COP_EXTENT_HEAD: return model->info.head_dim;
    case COP_EXTENT_FFN: return model->info.ffn_size;
    case COP_EXTENT_VOCAB: return model->info.vocab_size;
    case COP_EXTENT_HALF_ROPE: return model->rope.dim / 2;
    case COP_EXTENT_NONE:
    case COP_EXTENT_COUNT: break;
    }
    return 0;
}

/* "[576, 1536]": rows first. */
static const char *shape_text(char buffer[64], const struct cop_tensor *tensor)
{
    size_t length = 0;
    for (int32_t i = tensor->rank - 1; i >= 0 && length < 60; i--) {
        length += (size_t)snprintf(buffer + length, 64 - length, "%s%lld", length ? ", " : "[",
                                   (long long)tensor->dims[i]);
    }
    (void)snprintf(buffer + (length < 62 ? length : 62), 64 - (length < 62 ? length : 62), "]");
    return buffer;
}

static enum cop_status check_shape(struct finder *in, const struct cop_tensor *tensor,
                                   const struct cop_tensor_rule *rule)
{
    char quoted[COP_QUOTE_SIZE], found[64], expected[64];
    int32_t rows = cop_model_extent(in->model, rule->rows);
    int32_t cols = cop_model_extent(in->model, rule->cols);
    bool is_vector = rule->rows == COP_EXTENT_NONE;
    if (tensor->rank == (is_vector ? 1 : 2) && tensor->dims[0] == cols &&
        (is_vector || tensor->dims[1] == rows)) {
        return COP_OK;
    }
    if (is_vector) {
        (void)snprintf(expected, sizeof expected, "[%d]", cols);
    } else {
        (void)snprintf(expected, sizeof expected, "[%d, %d]", rows, cols);
    }
    return cop_fail(in->err, COP_ERR_FORMAT, "%s: tensor \"%s\" has shape %s, expected %s",
                    file_of(in), cop_quote(quoted, tensor->name.bytes, tensor->name.length),
                    shape_text(found, tensor), expected);
}

static enum cop_status check_format(struct finder *in, const struct cop_tensor *tensor,
                                    bool is_vector)
{
    char quoted[COP_QUOTE_SIZE];
    const char *name = cop_quote(quoted, tensor->name.bytes, tensor->name.length);
    const struct cop_format_info *format = cop_format_info(tensor->format);
    if (!format->widen) {
        return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                        "%s: tensor \"%s\" has format %s, which this build does not read",
                        file_of(in), name, format->name);
    }
    if (tensor->dims[0] % format->block_elements != 0) {
        return cop_fail(
            in->err, COP_ERR_FORMAT,
            "%s: tensor \"%s\" has rows of %lld values, not a multiple of the %d of "
            "a %s block",
            file_of(in), name, (long long)tensor->dims[0], format->block_elements,
            format->name);
    }
    if (is_vector && format->is_quantised) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: tensor \"%s\" has format %s, expected F32, F16 or BF16",
                        file_of(in), name, format->name);
    }
    return COP_OK;
}

/* One rule for one layer (-1: the whole model). *out is NULL where an optional tensor is
 * absent. */
static enum cop_status find(struct finder *in, const struct cop_tensor_rule *rule,
                            int32_t layer, const struct cop_tensor **out)
{
    char name[96];
    if (layer >= 0) {
        (void)snprintf(name, sizeof name, "blk.%d.%s", layer, rule->name);
    } else {
        (void)snprintf(name, sizeof name, "%s", rule->name);
    }
    *out = cop_gguf_tensor(in->model->file, name);
    if (!*out && rule->is_optional) {
        return COP_OK;
    }
    if (!*out) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: tensor \"%s\" is missing (architecture %s)", file_of(in), name,
                        in->model->architecture->name);
    }
    enum cop_status status = check_shape(in, *out, rule);
    if (status == COP_OK) {
        status = check_format(in, *out, rule->rows == COP_EXTENT_NONE);
    }
    return status;
}

enum cop_status cop_model_find_tensors(const struct cop_model *model, int32_t layer,
                                       const struct cop_tensor **found, struct cop_error *err)
{
    struct finder in = {.model = model, .err = err};
    const struct cop_architecture *architecture = model->architecture;
    enum cop_status status = COP_OK;
    for (size_t g = 0; g < sizeof architecture->groups / sizeof *architecture->groups; g++) {
        const struct cop_tensor_rule *rule = architecture->groups[g];
        for (; status == COP_OK && rule && rule->name; rule++) {
            if ((rule->slot < COP_TENSORS_PER_LAYER) == (layer >= 0)) {
                status = find(&in, rule, layer, &found[rule->slot]);
            }
        }
    }
    return status;
}

enum cop_status cop_model_refuse_strangers(const struct cop_model *model, struct cop_error *err)
{
    for (size_t i = 0; i < cop_gguf_tensor_count(model->file); i++) {
        const struct cop_tensor *tensor = cop_gguf_tensor_at(model->file, i);
        int32_t layer = -1;
        if (!cop_architecture_rule(model->architecture, tensor->name, model->info.layers,
                                   &layer)) {
            char quoted[COP_QUOTE_SIZE];
            return cop_fail(err, COP_ERR_UNSUPPORTED,
                            "%s: tensor \"%s\" has no place in architecture %s with %d layers",
                            cop_path_tail(cop_gguf_path(model->file), 160),
                            cop_quote(quoted, tensor->name.bytes, tensor->name.length),
                            model->architecture->name, model->info.layers);
        }
    }
    return COP_OK;
}
