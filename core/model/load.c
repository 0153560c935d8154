/* Tensors of a file to weights of a device: stacked with its neighbours (q, k, v; gate, up) and
 * repacked; the pages of the file that have been read are given back as we go, so that a model
 * is never in memory twice. */
#include "core/base/quote.h"
#include "core/model/state.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct loader {
    struct cop_model *model;
    struct cop_error *err;
    enum cop_product product;
    bool has_int8; /* some product is done in int8 */
    const struct cop_tensor
        *found[COP_TENSOR_COUNT]; /* of the layer at hand, and global ones */
};

static const char *file_of(const struct loader *in)
{
    return cop_source_name(&in->model->source);
}

/* ---- Vectors ----------------------------------------------------------------------------- */

static enum cop_status widen_vector(struct loader *in, const struct cop_tensor *tensor,
                                    float *out)
{
    int64_t count = tensor->dims[0];
    cop_format_info(tensor->format)->widen(tensor->data, count, out);
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(out[i])) {
            char quoted[COP_QUOTE_SIZE];
            return cop_fail(in->err, COP_ERR_FORMAT, "%s: tensor \"%s\" has value %g at %lld",
                            file_of(in),
                            cop_quote(quoted, tensor->name.bytes, tensor->name.length),
                            isnan(out[i]) ? (double)NAN : (double)out[i], (long long)i);
        }
    }
    return COP_OK;
}

static bool is_norm(enum cop_tensor_slot slot)
{
    return slot == COP_TENSOR_ATTENTION_NORM || slot == COP_TENSOR_Q_NORM ||
           slot == COP_TENSOR_K_NORM || slot == COP_TENSOR_POST_ATTENTION_NORM ||
           slot == COP_TENSOR_FFN_NORM || slot == COP_TENSOR_POST_FFN_NORM ||
           slot == COP_TENSOR_OUTPUT_NORM;
}

/* One vector, as the forward pass uses it. */
static enum cop_status read_vector(struct loader *in, enum cop_tensor_slot slot, int32_t count,
                                   float *out)
{
    const struct cop_model *model = in->model;
    enum cop_status status = widen_vector(in, in->found[slot], out);
    bool is_offset = model->architecture->is_norm_offset && model->naming == COP_NAMING_FOLDER;
    for (int32_t i = 0; is_offset && is_norm(slot) && i < count; i++) {
        out[i] += 1;
    }
    return status;
}

/* The vectors of `slots`, one after another, `extents` long each, in *out; zeros for those that
 * are absent; NULL if all are. */
static enum cop_status load_vectors(struct loader *in, float **out, int32_t n_slots,
                                    const enum cop_tensor_slot *slots,
                                    const enum cop_extent *extents)
{
    size_t total = 0;
    bool is_any = false;
    for (int32_t i = 0; i < n_slots; i++) {
        total += (size_t)cop_model_extent(in->model, extents[i]);
        is_any |= in->found[slots[i]] != NULL;
    }
    if (!is_any) {
        return COP_OK;
    }
    *out = calloc(total, sizeof **out);
    if (!*out) {
        return cop_fail(in->err, COP_ERR_MEMORY, "no memory for the vectors of a model");
    }
    in->model->info.weight_bytes += total * sizeof **out;
    enum cop_status status = COP_OK;
    float *at = *out;
    for (int32_t i = 0; status == COP_OK && i < n_slots; i++) {
        int32_t count = cop_model_extent(in->model, extents[i]);
        if (in->found[slots[i]]) {
            status = read_vector(in, slots[i], count, at);
        }
        at += count;
    }
    return status;
}

static enum cop_status load_vector(struct loader *in, float **out, enum cop_tensor_slot slot,
                                   enum cop_extent extent)
{
    return load_vectors(in, out, 1, &slot, &extent);
}

/* ---- Matrices ---------------------------------------------------------------------------- */

static struct cop_matrix matrix_of(const struct cop_tensor *tensor)
{
    return (struct cop_matrix){.format = tensor->format,
                               .rows = (int32_t)tensor->dims[1],
                               .cols = (int32_t)tensor->dims[0],
                               .data = tensor->data};
}

/* Whole pages around the data; a neighbour that shares one is read again from the file's cache.
 */
static void forget(const struct cop_tensor *tensor)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t before = (uintptr_t)tensor->data % page;
    struct cop_map pages = {.data = (const uint8_t *)tensor->data - before,
                            .size = tensor->bytes + before};
    cop_map_forget(&pages);
}

static enum cop_status load_weight(struct loader *in, struct cop_weight **out, int32_t n_slots,
                                   const enum cop_tensor_slot *slots)
{
    struct cop_matrix parts[3];
    for (int32_t i = 0; i < n_slots; i++) {
        enum cop_status status =
            cop_model_check_finite(file_of(in), in->found[slots[i]], in->err);
        if (status != COP_OK) {
            return status;
        }
        parts[i] = matrix_of(in->found[slots[i]]);
    }
    bool is_int8;
    *out = cop_model_stack(in->model, parts, n_slots, in->product, &is_int8);
    in->has_int8 |= is_int8;
    if (!*out) {
        const struct cop_tensor *first = in->found[slots[0]];
        char quoted[COP_QUOTE_SIZE];
        return cop_fail(in->err, COP_ERR_MEMORY, "%s: no memory to repack tensor \"%s\" (%s)",
                        file_of(in), cop_quote(quoted, first->name.bytes, first->name.length),
                        cop_format_info(first->format)->name);
    }
    in->model->info.weight_bytes += in->model->ops->weight_bytes(*out);
    for (int32_t i = 0; i < n_slots; i++) {
        forget(in->found[slots[i]]);
    }
    return COP_OK;
}

/* ---- Layers and the rest ----------------------------------------------------------------- */

static enum cop_status load_layer_weights(struct loader *in, struct cop_layer *layer)
{
    const struct {
        struct cop_weight **out;
        int32_t n_slots;
        enum cop_tensor_slot slots[3];
    } weights[] = {
        {&layer->qkv, 3, {COP_TENSOR_Q, COP_TENSOR_K, COP_TENSOR_V}},
        {&layer->attention_out, 1, {COP_TENSOR_ATTENTION_OUT}},
        {&layer->gate_up, 2, {COP_TENSOR_GATE, COP_TENSOR_UP}},
        {&layer->down, 1, {COP_TENSOR_DOWN}},
    };
    enum cop_status status = COP_OK;
    for (size_t i = 0; status == COP_OK && i < sizeof weights / sizeof *weights; i++) {
        status = load_weight(in, weights[i].out, weights[i].n_slots, weights[i].slots);
    }
    return status;
}

static enum cop_status load_layer_vectors(struct loader *in, struct cop_layer *layer)
{
    const struct {
        float **out;
        int32_t n_slots;
        enum cop_tensor_slot slots[3];
        enum cop_extent extents[3];
    } vectors[] = {
        {&layer->attention_norm, 1, {COP_TENSOR_ATTENTION_NORM}, {COP_EXTENT_WIDTH}},
        {&layer->qkv_bias,
         3,
         {COP_TENSOR_Q_BIAS, COP_TENSOR_K_BIAS, COP_TENSOR_V_BIAS},
         {COP_EXTENT_QUERY, COP_EXTENT_KEY, COP_EXTENT_KEY}},
        {&layer->q_norm, 1, {COP_TENSOR_Q_NORM}, {COP_EXTENT_HEAD}},
        {&layer->k_norm, 1, {COP_TENSOR_K_NORM}, {COP_EXTENT_HEAD}},
        {&layer->attention_out_bias, 1, {COP_TENSOR_ATTENTION_OUT_BIAS}, {COP_EXTENT_WIDTH}},
        {&layer->post_attention_norm, 1, {COP_TENSOR_POST_ATTENTION_NORM}, {COP_EXTENT_WIDTH}},
        {&layer->ffn_norm, 1, {COP_TENSOR_FFN_NORM}, {COP_EXTENT_WIDTH}},
        {&layer->post_ffn_norm, 1, {COP_TENSOR_POST_FFN_NORM}, {COP_EXTENT_WIDTH}},
        {&layer->gate_up_bias,
         2,
         {COP_TENSOR_GATE_BIAS, COP_TENSOR_UP_BIAS},
         {COP_EXTENT_FFN, COP_EXTENT_FFN}},
        {&layer->down_bias, 1, {COP_TENSOR_DOWN_BIAS}, {COP_EXTENT_WIDTH}},
    };
    enum cop_status status = COP_OK;
    for (size_t i = 0; status == COP_OK && i < sizeof vectors / sizeof *vectors; i++) {
        status = load_vectors(in, vectors[i].out, vectors[i].n_slots, vectors[i].slots,
                              vectors[i].extents);
    }
    return status;
}

static enum cop_status load_rope_factors(struct loader *in)
{
    struct cop_model *model = in->model;
    size_t half = (size_t)model->rope.dim / 2;
    float *factors = NULL;
    enum cop_status status =
        load_vector(in, &factors, COP_TENSOR_ROPE_FACTORS, COP_EXTENT_HALF_ROPE);
    model->rope_factor = factors ? calloc(half, sizeof *model->rope_factor) : NULL;
    if (factors && !model->rope_factor && status == COP_OK) {
        status = cop_fail(in->err, COP_ERR_MEMORY, "no memory for rotary factors");
    }
    for (size_t i = 0; factors && status == COP_OK && i < half; i++) {
        if (!(factors[i] > 0)) {
            status = cop_fail(in->err, COP_ERR_FORMAT,
                              "%s: tensor \"rope_freqs.weight\" has value %g at %zu, expected "
                              "above 0",
                              file_of(in), (double)factors[i], i);
        }
        model->rope_factor[i] = (double)factors[i];
    }
    free(factors);
    return status;
}

/* The output matrix of its own, or the embedding. A configuration that ties them may stand
 * beside a file that stores both, as long as they are the same. */
static enum cop_status choose_head(struct loader *in, enum cop_tensor_slot *head)
{
    const struct cop_tensor *embedding = in->found[COP_TENSOR_EMBEDDING];
    const struct cop_tensor *output = in->found[COP_TENSOR_OUTPUT];
    bool is_tied = in->model->naming == COP_NAMING_FOLDER &&
                   in->model->presence[COP_IF_UNTIED] == COP_PRESENCE_OPTIONAL;
    *head = output && !is_tied ? COP_TENSOR_OUTPUT : COP_TENSOR_EMBEDDING;
    if (output && is_tied &&
        (output->format != embedding->format ||
         memcmp(output->data, embedding->data, output->bytes) != 0)) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: \"tie_word_embeddings\" of config.json is true, but "
                        "\"lm_head.weight\" differs from \"model.embed_tokens.weight\"",
                        file_of(in));
    }
    return COP_OK;
}

/* What belongs to no layer; found before the layers, repacked after them. */
static enum cop_status load_ends(struct loader *in)
{
    struct cop_model *model = in->model;
    const struct cop_tensor *embedding = in->found[COP_TENSOR_EMBEDDING];
    enum cop_tensor_slot head;
    model->embedding = matrix_of(embedding);
    enum cop_status status = choose_head(in, &head);
    if (status == COP_OK && head != COP_TENSOR_EMBEDDING) {
        status = cop_model_check_finite(file_of(in), embedding, in->err);
        forget(embedding);
    }
    if (status == COP_OK) {
        status = load_vector(in, &model->output_norm, COP_TENSOR_OUTPUT_NORM, COP_EXTENT_WIDTH);
    }
    if (status == COP_OK) {
        status = load_rope_factors(in);
    }
    if (status == COP_OK) {
        model->output = matrix_of(in->found[head]);
        status = load_weight(in, &model->head, 1, &head);
    }
    return status;
}

enum cop_status cop_model_load_layer(struct cop_model *model,
                                     const struct cop_tensor *const *found,
                                     enum cop_product product, struct cop_layer *layer,
                                     struct cop_error *err)
{
    struct loader in = {.model = model, .err = err, .product = product};
    memcpy(in.found, found, sizeof in.found);
    enum cop_status status = load_layer_vectors(&in, layer);
    if (status == COP_OK && model->has_context) {
        const enum cop_tensor_slot slots[] = {COP_TENSOR_K, COP_TENSOR_V};
        status = load_weight(&in, &layer->kv, 2, slots);
    }
    return status == COP_OK ? load_layer_weights(&in, layer) : status;
}

static enum cop_status load_layers(struct loader *in)
{
    struct cop_model *model = in->model;
    model->layers = calloc((size_t)model->info.layers, sizeof *model->layers);
    if (!model->layers) {
        return cop_fail(in->err, COP_ERR_MEMORY, "no memory for %d layers", model->info.layers);
    }
    enum cop_status status = COP_OK;
    for (int32_t i = 0; status == COP_OK && i < model->info.layers; i++) {
        status = cop_model_find_tensors(model, i, in->found, in->err);
        if (status == COP_OK) {
            status = load_layer_vectors(in, &model->layers[i]);
        }
        if (status == COP_OK) {
            status = load_layer_weights(in, &model->layers[i]);
        }
    }
    return status;
}

enum cop_status cop_model_load_tensors(struct cop_model *model,
                                       enum cop_precision_choice precision,
                                       struct cop_error *err)
{
    bool is_f32 = precision == COP_PRECISION_CHOOSE_F32;
    struct loader in = {
        .model = model, .err = err, .product = is_f32 ? COP_PRODUCT_F32 : COP_PRODUCT_INT8};
    enum cop_status status = cop_model_refuse_strangers(model, err);
    if (status == COP_OK) {
        status = cop_model_find_tensors(model, -1, in.found, err);
    }
    if (status == COP_OK) {
        status = load_layers(&in);
    }
    if (status == COP_OK) {
        status = load_ends(&in);
    }
    if (status != COP_OK) {
        return status;
    }
    if (precision == COP_PRECISION_CHOOSE_INT8 && !in.has_int8) {
        return cop_fail(
            err, COP_ERR_UNSUPPORTED,
            "%s: precision \"int8\" needs block-quantised weights, and this file has "
            "none; use \"auto\" or \"f32\"",
            file_of(&in));
    }
    model->info.precision = in.has_int8 ? COP_PRECISION_INT8 : COP_PRECISION_F32;
    return COP_OK;
}

void cop_model_release_tensors(struct cop_model *model)
{
    for (int32_t i = 0; model->layers && i < model->info.layers; i++) {
        struct cop_layer *layer = &model->layers[i];
        struct cop_weight *weights[] = {layer->qkv, layer->kv, layer->attention_out,
                                        layer->gate_up, layer->down};
        float *vectors[] = {layer->attention_norm, layer->qkv_bias,  layer->q_norm,
                            layer->k_norm,         layer->ffn_norm,  layer->attention_out_bias,
                            layer->gate_up_bias,   layer->down_bias, layer->post_attention_norm,
                            layer->post_ffn_norm};
        for (size_t w = 0; w < sizeof weights / sizeof *weights; w++) {
            if (weights[w]) {
                model->ops->weight_free(model->device, weights[w]);
            }
        }
        for (size_t v = 0; v < sizeof vectors / sizeof *vectors; v++) {
            free(vectors[v]);
        }
    }
    if (model->head) {
        model->ops->weight_free(model->device, model->head);
    }
    free(model->layers);
    free(model->output_norm);
    free(model->rope_factor);
}
