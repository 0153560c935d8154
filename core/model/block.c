/* Layers of their own are a model without ends. */
#include "core/model/block.h"
#include "core/model/state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cop_block {
    struct cop_model model; /* its source is borrowed */
    const struct cop_tensor *found[COP_BLOCK_LAYERS][COP_TENSOR_COUNT];
    const struct cop_tensor *rope_factors;
    bool says_theta, says_scaling; /* whether the configuration does */
};

static bool has(const struct cop_block_options *options, const char *key)
{
    return cop_json_get(options->tree, options->node, key) != NULL;
}

/* null says of a scaling that there is none, of a number nothing. */
static bool has_number(const struct cop_block_options *options, const char *key)
{
    const struct cop_json_node *node = cop_json_get(options->tree, options->node, key);
    return node && node->kind != COP_JSON_NULL;
}

/* Rotary angles follow when it is loaded. */
static enum cop_status copy_geometry(struct cop_model *model, const struct cop_model *like,
                                     struct cop_error *err)
{
    int32_t window = like->windows[like->info.layers - 1];
    model->architecture = like->architecture;
    model->naming = COP_NAMING_FOLDER;
    model->info = like->info;
    model->info.layers = 1;
    model->rope.dim = like->rope.dim;
    model->query_scalar = like->query_scalar;
    model->window_theta = like->window_theta;
    if (like->naming == COP_NAMING_FOLDER) {
        memcpy(model->presence, like->presence, sizeof model->presence);
    }
    return cop_model_set_windows(model, window, err);
}

static enum cop_status read_geometry(struct cop_block *block,
                                     const struct cop_block_options *options,
                                     struct cop_error *err)
{
    struct cop_model *model = &block->model;
    if (options->like) {
        return copy_geometry(model, options->like, err);
    }
    if (!options->tree) {
        enum cop_status status = cop_model_read_metadata(model, err);
        block->says_theta = true;
        block->says_scaling = model->rope_scaling.kind != COP_ROPE_PLAIN;
        return status;
    }
    block->says_theta = has_number(options, "rope_theta") || has(options, "rope_parameters");
    block->says_scaling = has(options, "rope_scaling") || has(options, "rope_parameters");
    return cop_model_read_head(model, options->name, options->tree, options->node, err);
}

/* Rows of a feed-forward matrix of the first layer, or its columns; 0: there is no such matrix.
 */
static int64_t extent_of(const struct cop_block_options *options, const char *matrix,
                         int32_t dimension)
{
    char name[160];
    (void)snprintf(name, sizeof name, "%s%smlp.%s_proj.weight", options->prefix,
                   options->is_numbered ? "0." : "", matrix);
    const struct cop_tensor *tensor = cop_source_tensor(options->source, name);
    return tensor && tensor->rank == 2 ? tensor->dims[dimension] : 0;
}

/* Where all tensors of a layer agree that its inner width is another than was said, they are
 * right. */
static void trust_tensors(struct cop_block *block, const struct cop_block_options *options,
                          struct cop_error *err)
{
    int64_t rows = extent_of(options, "gate", 1);
    int32_t *said = &block->model.info.ffn_size;
    bool is_sure = rows >= 1 && rows <= 1 << 22 && rows == extent_of(options, "up", 1) &&
                   rows == extent_of(options, "down", 0);
    if (!is_sure || rows == *said) {
        return;
    }
    if (options->tree) {
        cop_warn(err,
                 "%s: \"intermediate_size\" is %d, but by the tensors it is %lld: the tensors "
                 "are used",
                 options->name, (int)*said, (long long)rows);
    }
    *said = (int32_t)rows;
}

static enum cop_status read_block(struct cop_block *block,
                                  const struct cop_block_options *options,
                                  struct cop_error *err)
{
    struct cop_model *model = &block->model;
    model->source = *options->source;
    model->layer_prefix = options->prefix;
    model->is_numbered = options->is_numbered;
    model->is_bare = options->inputs > 0;
    model->has_context = options->has_context;
    enum cop_status status = read_geometry(block, options, err);
    if (status != COP_OK) {
        return status;
    }
    trust_tensors(block, options, err);
    if (options->is_further) {
        model->windows[0] = model->windows[model->info.layers - 1];
        model->info.layers = 1;
    }
    int32_t most = options->is_numbered ? COP_BLOCK_LAYERS : 1;
    if (model->info.layers > most) {
        return cop_fail(err, COP_ERR_UNSUPPORTED,
                        "%s: \"num_hidden_layers\" is %d; known are heads of %s%d layer%s",
                        options->name, model->info.layers, most > 1 ? "up to " : "", most,
                        most > 1 ? "s" : "");
    }
    model->rope.is_interleaved |= options->is_interleaved;
    block->rope_factors = options->rope_factors;
    model->input_width = options->inputs * model->info.hidden_size;
    for (int32_t i = 0; i < model->info.layers && status == COP_OK; i++) {
        status = cop_model_find_tensors(model, i, block->found[i], err);
    }
    return status;
}

enum cop_status cop_block_open(struct cop_block **out, const struct cop_block_options *options,
                               struct cop_error *err)
{
    *out = NULL;
    struct cop_block *block = calloc(1, sizeof *block);
    if (!block) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a layer");
    }
    enum cop_status status = read_block(block, options, err);
    if (status != COP_OK) {
        cop_block_free(block);
        return status;
    }
    *out = block;
    return COP_OK;
}

void cop_block_free(struct cop_block *block)
{
    if (!block) {
        return;
    }
    cop_model_release_tensors(&block->model);
    cop_workspace_release(&block->model.work);
    free(block->model.windows);
    free(block->model.rope_table);
    free(block->model.window_table);
    free(block);
}

static enum cop_status own_factors(struct cop_block *block, struct cop_error *err)
{
    struct cop_model *model = &block->model;
    const struct cop_tensor *tensor = block->rope_factors;
    int64_t half = model->rope.dim / 2;
    if (tensor->rank != 1 || tensor->dims[0] != half || tensor->format != COP_FORMAT_F32) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: tensor \"rope_freqs.weight\" is not %lld numbers of F32",
                        cop_source_name(&model->source), (long long)half);
    }
    model->rope_factor = malloc((size_t)half * sizeof *model->rope_factor);
    if (!model->rope_factor) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for rotary factors");
    }
    for (int64_t i = 0; i < half; i++) {
        float factor;
        memcpy(&factor, (const char *)tensor->data + (size_t)i * sizeof factor, sizeof factor);
        if (!(factor > 0)) {
            return cop_fail(err, COP_ERR_FORMAT,
                            "%s: tensor \"rope_freqs.weight\" has value %g at %lld, expected "
                            "above 0",
                            cop_source_name(&model->source), (double)factor, (long long)i);
        }
        model->rope_factor[i] = (double)factor;
    }
    return COP_OK;
}

/* Old configurations lack what the target's own says of positions. */
static enum cop_status borrow_rope(struct cop_block *block, const struct cop_model *target,
                                   struct cop_error *err)
{
    struct cop_model *model = &block->model;
    if (!block->says_theta) {
        model->info.rope_theta = target->info.rope_theta;
    }
    if (block->rope_factors) {
        return own_factors(block, err);
    }
    if (block->says_scaling || model->rope.dim != target->rope.dim) {
        return COP_OK;
    }
    model->rope_scaling = target->rope_scaling;
    if (target->rope_factor) {
        size_t bytes = (size_t)model->rope.dim / 2 * sizeof *model->rope_factor;
        model->rope_factor = malloc(bytes);
        if (!model->rope_factor) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory for rotary factors");
        }
        memcpy(model->rope_factor, target->rope_factor, bytes);
    }
    return COP_OK;
}

enum cop_status cop_block_load(struct cop_block *block, enum cop_head_weights weights,
                               const struct cop_model *target, struct cop_error *err)
{
    enum cop_product product =
        weights == COP_HEAD_WEIGHTS_Q8_0 ? COP_PRODUCT_Q8_0 : COP_PRODUCT_INT8;
    struct cop_model *model = &block->model;
    model->ops = target->ops;
    model->device = target->device;
    model->info.context = target->info.context;
    model->info.kv_f32 = target->info.kv_f32;
    model->layers = calloc((size_t)model->info.layers, sizeof *model->layers);
    if (!model->layers) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d layers", model->info.layers);
    }
    enum cop_status status = borrow_rope(block, target, err);
    if (status == COP_OK) {
        status = cop_model_make_rope(model, err);
    }
    for (int32_t i = 0; i < model->info.layers && status == COP_OK; i++) {
        status = cop_model_load_layer(model, block->found[i], product, &model->layers[i], err);
    }
    return status;
}

const struct cop_model_info *cop_block_info(const struct cop_block *block)
{
    return &block->model.info;
}

bool cop_block_has_window(const struct cop_block *block)
{
    bool has_window = false;
    for (int32_t i = 0; i < block->model.info.layers; i++) {
        has_window |= block->model.windows[i] > 0;
    }
    return has_window;
}

bool cop_block_owns(const struct cop_block *block, const struct cop_tensor *tensor)
{
    bool is_own = false;
    for (int32_t i = 0; i < block->model.info.layers; i++) {
        for (size_t slot = 0; slot < COP_TENSOR_COUNT; slot++) {
            is_own |= block->found[i][slot] == tensor;
        }
    }
    return is_own;
}

enum cop_status cop_block_cache_new(const struct cop_block *block, int32_t n_sequences,
                                    int32_t speculative, struct cop_cache **out,
                                    struct cop_error *err)
{
    return cop_model_cache_new(&block->model, n_sequences, speculative, out, err);
}

static enum cop_status fail_rows(struct cop_block *block, struct cop_cache *cache, int32_t n,
                                 struct cop_error *err)
{
    cop_model_retract(&block->model, cache);
    return cop_fail(err, COP_ERR_MEMORY, "no memory for a layer over %d rows", n);
}

static size_t stream_bytes(const struct cop_block *block, const struct cop_block_pass *pass)
{
    return (size_t)pass->n * (size_t)block->model.info.hidden_size * sizeof *pass->stream;
}

enum cop_status cop_block_run(struct cop_block *block, struct cop_cache *cache,
                              const struct cop_block_pass *pass, struct cop_error *err)
{
    struct cop_model *model = &block->model;
    const struct cop_score score = {.n = pass->n,
                                    .sequences = pass->sequences,
                                    .parents = pass->parents,
                                    .visible = pass->visible};
    enum cop_status status = cop_model_plan(model, cache, &score, err);
    if (status != COP_OK) {
        return status;
    }
    if (model->is_bare) {
        memcpy(model->work.inner, pass->input,
               (size_t)pass->n * (size_t)model->input_width * sizeof *pass->input);
    }
    memcpy(model->work.stream, pass->stream, stream_bytes(block, pass));
    if (!cop_model_run_block(model, cache, &score)) {
        return fail_rows(block, cache, pass->n, err);
    }
    memcpy(pass->stream, model->work.stream, stream_bytes(block, pass));
    return COP_OK;
}

enum cop_status cop_block_remember(struct cop_block *block, struct cop_cache *cache,
                                   const struct cop_block_pass *pass, struct cop_error *err)
{
    struct cop_model *model = &block->model;
    const struct cop_score score = {
        .n = pass->n, .sequences = pass->sequences, .parents = pass->parents};
    enum cop_status status = cop_model_plan(model, cache, &score, err);
    if (status != COP_OK) {
        return status;
    }
    memcpy(model->work.stream, pass->stream, stream_bytes(block, pass));
    return cop_model_store_context(model, cache, pass->n)
               ? COP_OK
               : fail_rows(block, cache, pass->n, err);
}
