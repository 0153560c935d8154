/* Tensors found in a file by the rules of an architecture: name, shape, format, and none left
 * over. */
#include "core/base/quote.h"
#include "core/model/state.h"
#include <stdio.h>
#include <string.h>

int32_t cop_model_extent(const struct cop_model *model, enum cop_extent extent)
{
    switch (extent) {
    case COP_EXTENT_WIDTH: return model->info.hidden_size;
    case COP_EXTENT_INPUT:
        return model->input_width > 0 ? model->input_width : model->info.hidden_size;
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

/* ---- By name and shape ------------------------------------------------------------------- */

const char *cop_source_shape(char buffer[COP_SHAPE_SIZE], const struct cop_tensor *tensor)
{
    size_t length = 0, room = COP_SHAPE_SIZE;
    for (int32_t i = tensor->rank - 1; i >= 0 && length < 60; i--) {
        length += (size_t)snprintf(buffer + length, room - length, "%s%lld",
                                   length ? ", " : "[", (long long)tensor->dims[i]);
    }
    if (tensor->rank == 0) {
        return memcpy(buffer, "[]", 3);
    }
    length = length < room - 2 ? length : room - 2;
    (void)snprintf(buffer + length, room - length, "]");
    return buffer;
}

static const char *expected_text(char buffer[COP_SHAPE_SIZE], const struct cop_wanted *wanted)
{
    if (wanted->rows == 0) {
        (void)snprintf(buffer, COP_SHAPE_SIZE, "[%d]", wanted->cols);
    } else {
        (void)snprintf(buffer, COP_SHAPE_SIZE, "[%d, %d]", wanted->rows, wanted->cols);
    }
    return buffer;
}

static enum cop_status check_shape(const struct cop_weights_source *source,
                                   const struct cop_tensor *tensor,
                                   const struct cop_wanted *wanted, struct cop_error *err)
{
    char found[COP_SHAPE_SIZE], expected[COP_SHAPE_SIZE];
    bool is_vector = wanted->rows == 0;
    if (tensor->rank == (is_vector ? 1 : 2) && tensor->dims[0] == wanted->cols &&
        (is_vector || tensor->dims[1] == wanted->rows)) {
        return COP_OK;
    }
    return cop_fail(err, COP_ERR_FORMAT, "%s: tensor \"%s\" has shape %s, expected %s",
                    cop_source_name(source), wanted->name, cop_source_shape(found, tensor),
                    expected_text(expected, wanted));
}

static enum cop_status check_format(const struct cop_weights_source *source,
                                    const struct cop_tensor *tensor, const char *name,
                                    bool is_vector, struct cop_error *err)
{
    const char *file = cop_source_name(source);
    if (tensor->format == COP_FORMAT_COUNT || !cop_format_info(tensor->format)->widen) {
        return cop_fail(err, COP_ERR_UNSUPPORTED,
                        "%s: tensor \"%s\" has format %s, which is not read here; F32, F16 and "
                        "BF16 are%s",
                        file, name, cop_source_type(source, tensor),
                        source->gguf ? ", and Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K"
                                     : "");
    }
    const struct cop_format_info *format = cop_format_info(tensor->format);
    if (tensor->dims[0] % format->block_elements != 0) {
        return cop_fail(
            err, COP_ERR_FORMAT,
            "%s: tensor \"%s\" has rows of %lld values, not a multiple of the %d of "
            "a %s block",
            file, name, (long long)tensor->dims[0], format->block_elements, format->name);
    }
    if (is_vector && format->is_quantised) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: tensor \"%s\" has format %s, expected F32, F16 or BF16", file,
                        name, format->name);
    }
    return COP_OK;
}

enum cop_status cop_source_find(const struct cop_weights_source *source,
                                const struct cop_wanted *asked, const struct cop_tensor **out,
                                struct cop_error *err)
{
    const struct cop_tensor *tensor = cop_source_tensor(source, asked->name);
    struct cop_wanted wanted = *asked;
    wanted.name = cop_source_own_name(source, asked->name); /* for messages */
    *out = NULL;
    if (!tensor && wanted.is_required) {
        char expected[COP_SHAPE_SIZE];
        return cop_fail(
            err, COP_ERR_FORMAT, "%s: tensor \"%s\" is missing (%s, expected shape %s)",
            cop_source_name(source), wanted.name, wanted.of, expected_text(expected, &wanted));
    }
    if (!tensor) {
        return COP_OK;
    }
    enum cop_status status = check_shape(source, tensor, &wanted, err);
    if (status == COP_OK) {
        status = check_format(source, tensor, wanted.name, wanted.rows == 0, err);
    }
    *out = status == COP_OK ? tensor : NULL;
    return status;
}

/* ---- By rule ----------------------------------------------------------------------------- */

/* Whether a rule's tensor must be there, may be, or must not. */
static enum cop_presence presence_of(const struct cop_model *model,
                                     const struct cop_tensor_rule *rule)
{
    return rule->condition == COP_ALWAYS  ? COP_PRESENCE_REQUIRED
           : rule->condition == COP_MAYBE ? COP_PRESENCE_OPTIONAL
                                          : model->presence[rule->condition];
}

static const char *name_of(char buffer[COP_TENSOR_NAME_SIZE], const struct cop_model *model,
                           const struct cop_tensor_rule *rule, int32_t layer)
{
    char number[16] = "";
    if (layer < 0 || !model->layer_prefix) {
        return cop_architecture_tensor_name(buffer, rule, model->naming, layer);
    }
    if (model->is_numbered) {
        (void)snprintf(number, sizeof number, "%d.", layer);
    }
    (void)snprintf(buffer, COP_TENSOR_NAME_SIZE, "%s%s%s", model->layer_prefix, number,
                   rule->names[model->naming]);
    return buffer;
}

/* Only the first layer of a block may read something wider than the stream. */
static int32_t extent_of(const struct cop_model *model, enum cop_extent extent, int32_t layer)
{
    return cop_model_extent(model, extent == COP_EXTENT_INPUT && layer > 0 ? COP_EXTENT_WIDTH
                                                                           : extent);
}

/* One rule for one layer (-1: the whole model). *out is NULL where an optional tensor is
 * absent. */
static enum cop_status find(const struct cop_model *model, const struct cop_tensor_rule *rule,
                            int32_t layer, const struct cop_tensor **out, struct cop_error *err)
{
    char name[COP_TENSOR_NAME_SIZE], of[64];
    *out = NULL;
    if (!rule->names[model->naming] ||
        (model->is_bare && layer == 0 && rule->slot == COP_TENSOR_ATTENTION_NORM)) {
        return COP_OK;
    }
    (void)snprintf(of, sizeof of, "architecture %s", model->architecture->name);
    const struct cop_wanted wanted = {.name = name_of(name, model, rule, layer),
                                      .of = of,
                                      .rows = extent_of(model, rule->rows, layer),
                                      .cols = extent_of(model, rule->cols, layer),
                                      .is_required =
                                          presence_of(model, rule) == COP_PRESENCE_REQUIRED};
    return cop_source_find(&model->source, &wanted, out, err);
}

enum cop_status cop_model_find_tensors(const struct cop_model *model, int32_t layer,
                                       const struct cop_tensor **found, struct cop_error *err)
{
    const struct cop_architecture *architecture = model->architecture;
    enum cop_status status = COP_OK;
    for (size_t g = 0; g < sizeof architecture->groups / sizeof *architecture->groups; g++) {
        const struct cop_tensor_rule *rule = architecture->groups[g];
        for (; status == COP_OK && rule && rule->slot != COP_TENSOR_COUNT; rule++) {
            if ((rule->slot < COP_TENSORS_PER_LAYER) == (layer >= 0)) {
                status = find(model, rule, layer, &found[rule->slot], err);
            }
        }
    }
    return status;
}

/* ---- Strangers --------------------------------------------------------------------------- */

bool cop_model_is_further(const struct cop_model *model, int32_t layer)
{
    char name[COP_TENSOR_NAME_SIZE];
    if (model->naming == COP_NAMING_GGUF) {
        (void)snprintf(name, sizeof name, "blk.%d.nextn.eh_proj.weight", layer);
    } else {
        (void)snprintf(name, sizeof name, "model.layers.%d.eh_proj.weight", layer);
    }
    return cop_source_tensor(&model->source, name) != NULL;
}

/* Multi-token prediction is another's. */
static bool is_of_further(const struct cop_model *model, const struct cop_string *name,
                          int32_t layer)
{
    bool is_native = model->naming == COP_NAMING_FOLDER && name->length > 4 &&
                     memcmp(name->bytes, "mtp.", 4) == 0;
    return is_native || (layer >= model->info.layers && cop_model_is_further(model, layer));
}

static enum cop_status refuse(const struct cop_model *model, const struct cop_tensor *tensor,
                              const struct cop_tensor_rule *rule, struct cop_error *err)
{
    char quoted[COP_QUOTE_SIZE];
    (void)cop_quote(quoted, tensor->name.bytes, tensor->name.length);
    if (rule) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: tensor \"%s\" is there, but \"%s\" of config.json is false",
                        cop_source_name(&model->source), quoted,
                        rule->condition == COP_IF_MLP_BIAS ? "mlp_bias" : "attention_bias");
    }
    return cop_fail(err, COP_ERR_UNSUPPORTED,
                    "%s: tensor \"%s\" has no place in architecture %s with %d layers",
                    cop_source_name(&model->source), quoted, model->architecture->name,
                    model->info.layers);
}

enum cop_status cop_model_refuse_strangers(const struct cop_model *model, struct cop_error *err)
{
    for (size_t i = 0; i < cop_source_count(&model->source); i++) {
        const struct cop_tensor *tensor = cop_source_at(&model->source, i);
        int32_t layer = -1;
        const struct cop_tensor_rule *rule = cop_architecture_rule(
            model->architecture, model->naming, tensor->name, model->info.layers, &layer);
        if (rule ? presence_of(model, rule) == COP_PRESENCE_REFUSED
                 : !cop_source_is_derived(tensor) &&
                       !is_of_further(model, &tensor->name, layer)) {
            return refuse(model, tensor, rule, err);
        }
    }
    return COP_OK;
}
