/* The forward pass over the tokens of many trees at once.
 *
 *     tokens ─► embedding ─► layer 1 … layer L ─► norm ─► head ─► logits (wanted tokens only)
 *     layer: norm ─► q, k, v ─► rotate, store ─► attention ─► (norm ─►) +
 *            norm ─► gate, up ─► silu(gate) * up ─► down ─► (norm ─►) +
 *
 * Nothing here depends on what else is in the call: a token's position and keys follow from its
 * own path in the cache, and every operation treats tokens apart (kernels/ops.h). Logits are
 * handed on as they come: whether a row is finite is asked where rows are read (core/cycle). */
#include "core/model/state.h"
#include <math.h>
#include <string.h>

struct pass {
    struct cop_model *model;
    struct cop_cache *cache;
    const struct cop_score *score;
    struct cop_error *err;
};

/* ---- What came in ------------------------------------------------------------------------ */

static enum cop_status check_cache(const struct pass *pass)
{
    const struct cop_model_info *info = &pass->model->info;
    const struct cop_kv_layout *layout = &cop_cache_pool(pass->cache)->layout;
    if (cop_cache_ops(pass->cache) != pass->model->ops || layout->is_f32 != info->kv_f32 ||
        layout->layers != info->layers || layout->kv_heads != info->kv_heads ||
        layout->head_dim != info->head_dim || cop_cache_context(pass->cache) > info->context) {
        return cop_fail(pass->err, COP_ERR_ARGUMENT,
                        "the cache was made for another model than \"%.160s\"", info->path);
    }
    return COP_OK;
}

static enum cop_status check_tokens(const struct pass *pass)
{
    const struct cop_score *score = pass->score;
    const struct cop_model_info *info = &pass->model->info;
    if (score->n < 1 || !score->tokens || !score->parents) {
        return cop_fail(pass->err, COP_ERR_ARGUMENT,
                        "a forward pass needs tokens and their parents (%d tokens given)",
                        score->n);
    }
    enum cop_status status =
        cop_model_check_ids(pass->model, score->tokens, score->n, pass->err);
    for (int32_t i = 0; i < score->n_hidden; i++) {
        if (score->hidden_layers[i] < COP_HIDDEN_NORMED ||
            score->hidden_layers[i] > info->layers) {
            return cop_fail(pass->err, COP_ERR_ARGUMENT,
                            "no hidden states of layer %d: 0 (embeddings) to %d",
                            score->hidden_layers[i], info->layers);
        }
    }
    return status;
}

/* ---- The layers -------------------------------------------------------------------------- */

/* Norms of single heads, in place, in rows of `row` numbers. Rows of one call lie `stride`
 * apart, so a call covers one token's heads or one head of all tokens, whichever needs fewer
 * calls; the values are the same. */
static void norm_heads(const struct pass *pass, const float *gain, float *first, int32_t heads,
                       int32_t row)
{
    const struct cop_model *model = pass->model;
    int32_t n = pass->score->n, head_dim = model->info.head_dim;
    float epsilon = (float)model->info.norm_epsilon;
    for (int32_t t = 0; n <= heads && t < n; t++) {
        float *heads_of_token = first + (size_t)t * (size_t)row;
        model->ops->rms_norm(model->device, heads_of_token, gain, epsilon, heads, head_dim,
                             head_dim, heads_of_token);
    }
    for (int32_t h = 0; n > heads && h < heads; h++) {
        float *head_of_tokens = first + (size_t)h * (size_t)head_dim;
        model->ops->rms_norm(model->device, head_of_tokens, gain, epsilon, n, head_dim, row,
                             head_of_tokens);
    }
}

static const struct cop_rope *rope_of(const struct cop_model *model, int32_t index)
{
    return model->windows[index] > 0 && model->window_theta > 0 ? &model->window_rope
                                                                : &model->rope;
}

/* wide = q, k, v of inner; keys and values go to the cache. */
static bool project(const struct pass *pass, int32_t index)
{
    struct cop_model *model = pass->model;
    const struct cop_layer *layer = &model->layers[index];
    const struct cop_ops *ops = model->ops;
    struct cop_workspace *work = &model->work;
    int32_t n = pass->score->n;
    if (!ops->matmul(model->device, layer->qkv, work->inner, n, layer->qkv_bias, false,
                     work->wide)) {
        return false;
    }
    int32_t query = cop_model_query_rows(model), row = query + 2 * cop_model_key_rows(model);
    if (layer->q_norm) {
        norm_heads(pass, layer->q_norm, work->wide, model->info.heads, row);
    }
    if (layer->k_norm) {
        norm_heads(pass, layer->k_norm, work->wide + query, model->info.kv_heads, row);
    }
    ops->rope_store(model->device, work->wide, n, model->info.heads, rope_of(model, index),
                    work->positions, cop_cache_pool(pass->cache), index, work->slots);
    return true;
}

/* The same of the stream's norm. */
static bool run_qkv(const struct pass *pass, int32_t index)
{
    struct cop_model *model = pass->model;
    struct cop_workspace *work = &model->work;
    int32_t width = model->info.hidden_size;
    model->ops->rms_norm(model->device, work->stream, model->layers[index].attention_norm,
                         (float)model->info.norm_epsilon, pass->score->n, width, width,
                         work->inner);
    return project(pass, index);
}

/* stream += weight * inner + bias, or its norm where there is one. */
static bool add_product(const struct pass *pass, const struct cop_weight *weight,
                        const float *bias, const float *norm)
{
    struct cop_model *model = pass->model;
    struct cop_workspace *work = &model->work;
    int32_t n = pass->score->n, width = model->info.hidden_size;
    if (!norm) {
        return model->ops->matmul(model->device, weight, work->inner, n, bias, true,
                                  work->stream);
    }
    if (!model->ops->matmul(model->device, weight, work->inner, n, bias, false, work->wide)) {
        return false;
    }
    model->ops->rms_norm(model->device, work->wide, norm, (float)model->info.norm_epsilon, n,
                         width, width, work->wide);
    for (size_t i = 0; i < (size_t)n * (size_t)width; i++) {
        work->stream[i] += work->wide[i];
    }
    return true;
}

/* stream += output of attention over wide's queries. */
static bool run_attention(const struct pass *pass, int32_t index)
{
    struct cop_model *model = pass->model;
    const struct cop_layer *layer = &model->layers[index];
    struct cop_workspace *work = &model->work;
    const struct cop_attention in = {
        .kv = cop_cache_pool(pass->cache),
        .layer = index,
        .n = pass->score->n,
        .heads = model->info.heads,
        .window = model->windows[index],
        .scale = (float)(1 / sqrt(model->query_scalar)),
        .q = work->wide,
        .q_stride = cop_model_query_rows(model) + 2 * cop_model_key_rows(model),
        .tokens =
            pass->score->visible && model->windows[index] == 0 ? work->seen : work->attention,
        .paths = work->paths,
        .page_tables = work->page_tables,
    };
    return model->ops->attention(model->device, &in, work->inner) &&
           add_product(pass, layer->attention_out, layer->attention_out_bias,
                       layer->post_attention_norm);
}

/* stream += gated feed-forward of its norm. */
static bool run_ffn(const struct pass *pass, int32_t index)
{
    struct cop_model *model = pass->model;
    const struct cop_layer *layer = &model->layers[index];
    const struct cop_ops *ops = model->ops;
    struct cop_workspace *work = &model->work;
    int32_t n = pass->score->n, width = model->info.hidden_size;
    ops->rms_norm(model->device, work->stream, layer->ffn_norm, (float)model->info.norm_epsilon,
                  n, width, width, work->inner);
    if (!ops->matmul(model->device, layer->gate_up, work->inner, n, layer->gate_up_bias, false,
                     work->wide)) {
        return false;
    }
    (model->architecture->is_gelu ? ops->geglu : ops->swiglu)(
        model->device, work->wide, n, model->info.ffn_size, work->inner);
    return add_product(pass, layer->down, layer->down_bias, layer->post_ffn_norm);
}

/* Copies the stream to the caller where it asked for this layer's output. */
static void keep_hidden(const struct pass *pass, int32_t layer)
{
    const struct cop_score *score = pass->score;
    size_t count = (size_t)score->n * (size_t)pass->model->info.hidden_size;
    for (int32_t i = 0; i < score->n_hidden; i++) {
        if (score->hidden_layers[i] == layer) {
            memcpy(score->hidden + (size_t)i * count, pass->model->work.stream,
                   count * sizeof(float));
        }
    }
}

/* The same of the final norm, when the last layer is done. */
static void keep_normed(const struct pass *pass)
{
    const struct cop_model *model = pass->model;
    const struct cop_score *score = pass->score;
    int32_t width = model->info.hidden_size;
    for (int32_t i = 0; i < score->n_hidden; i++) {
        if (score->hidden_layers[i] == COP_HIDDEN_NORMED) {
            model->ops->rms_norm(model->device, model->work.stream, model->output_norm,
                                 (float)model->info.norm_epsilon, score->n, width, width,
                                 score->hidden + (size_t)i * (size_t)score->n * (size_t)width);
        }
    }
}

/* Whether anything is read from the stream after the last layer's keys are stored. */
static bool needs_last_output(const struct pass *pass)
{
    const struct cop_score *score = pass->score;
    bool is_needed = score->logits != NULL;
    for (int32_t i = 0; i < score->n_hidden; i++) {
        is_needed |= score->hidden_layers[i] == pass->model->info.layers ||
                     score->hidden_layers[i] == COP_HIDDEN_NORMED;
    }
    return is_needed;
}

static enum cop_status fail_memory(const struct pass *pass)
{
    return cop_fail(pass->err, COP_ERR_MEMORY, "no memory for a forward pass over %d tokens",
                    pass->score->n);
}

static enum cop_status run_layers(const struct pass *pass)
{
    struct cop_model *model = pass->model;
    const struct cop_score *score = pass->score;
    int32_t n_layers = model->info.layers;
    cop_model_enter(pass->model, score->tokens, score->n, pass->model->work.stream);
    keep_hidden(pass, 0);
    for (int32_t i = 0; i < n_layers; i++) {
        if (score->cancel && atomic_load_explicit(score->cancel, memory_order_relaxed)) {
            return cop_fail(pass->err, COP_ERR_CANCELLED, "cancelled in layer %d of %d", i,
                            n_layers);
        }
        uint8_t skip = score->skip ? score->skip[i] : 0;
        if (!(skip & COP_SKIP_ATTENTION) && !run_qkv(pass, i)) {
            return fail_memory(pass);
        }
        if (i == n_layers - 1 && !needs_last_output(pass)) {
            break;
        }
        if (!(skip & COP_SKIP_ATTENTION) && !run_attention(pass, i)) {
            return fail_memory(pass);
        }
        if (!(skip & COP_SKIP_MLP) && !run_ffn(pass, i)) {
            return fail_memory(pass);
        }
        keep_hidden(pass, i + 1);
    }
    keep_normed(pass);
    return COP_OK;
}

/* Final norm and head, for the wanted tokens only. */
static enum cop_status run_head(const struct pass *pass)
{
    struct cop_model *model = pass->model;
    struct cop_workspace *work = &model->work;
    const struct cop_score *score = pass->score;
    int32_t width = model->info.hidden_size, n_wanted = 0;
    for (int32_t i = 0; i < score->n; i++) {
        if (!score->wanted || score->wanted[i]) {
            memcpy(work->inner + (size_t)n_wanted++ * (size_t)width,
                   work->stream + (size_t)i * (size_t)width, (size_t)width * sizeof(float));
        }
    }
    if (n_wanted == 0) {
        return COP_OK;
    }
    model->ops->rms_norm(model->device, work->inner, model->output_norm,
                         (float)model->info.norm_epsilon, n_wanted, width, width, work->inner);
    if (!score->head) {
        return cop_model_head(model, work->inner, n_wanted, score->logits, pass->err);
    }
    return model->ops->matmul(model->device, score->head, work->inner, n_wanted, NULL, false,
                              score->logits)
               ? COP_OK
               : cop_fail(pass->err, COP_ERR_MEMORY, "no memory for the logits of %d tokens",
                          n_wanted);
}

/* ---- Layers of their own ----------------------------------------------------------------- */

bool cop_model_run_block(struct cop_model *model, struct cop_cache *cache,
                         const struct cop_score *score)
{
    const struct pass pass = {.model = model, .cache = cache, .score = score};
    bool is_run = true;
    for (int32_t i = 0; is_run && i < model->info.layers; i++) {
        bool is_projected =
            model->layers[i].attention_norm ? run_qkv(&pass, i) : project(&pass, i);
        is_run = is_projected && run_attention(&pass, i) && run_ffn(&pass, i);
    }
    return is_run;
}

bool cop_model_store_context(struct cop_model *model, struct cop_cache *cache, int32_t n)
{
    const struct cop_score score = {.n = n};
    const struct pass pass = {.model = model, .cache = cache, .score = &score};
    struct cop_workspace *work = &model->work;
    int32_t query = cop_model_query_rows(model), row = 2 * cop_model_key_rows(model);
    for (int32_t i = 0; i < model->info.layers; i++) {
        const struct cop_layer *layer = &model->layers[i];
        if (!model->ops->matmul(model->device, layer->kv, work->stream, n,
                                layer->qkv_bias ? layer->qkv_bias + query : NULL, false,
                                work->wide)) {
            return false;
        }
        if (layer->k_norm) {
            norm_heads(&pass, layer->k_norm, work->wide, model->info.kv_heads, row);
        }
        model->ops->rope_store(model->device, work->wide, n, 0, rope_of(model, i),
                               work->positions, cop_cache_pool(cache), i, work->slots);
    }
    return true;
}

/* ---- The pass ---------------------------------------------------------------------------- */

enum cop_status cop_model_score(struct cop_model *model, struct cop_cache *cache,
                                const struct cop_score *score, struct cop_error *err)
{
    const struct pass pass = {.model = model, .cache = cache, .score = score, .err = err};
    enum cop_status status = check_cache(&pass);
    if (status == COP_OK) {
        status = check_tokens(&pass);
    }
    if (status == COP_OK) {
        status = cop_model_plan(model, cache, score, err);
    }
    if (status != COP_OK) {
        return status;
    }
    status = run_layers(&pass);
    if (status == COP_OK && score->logits) {
        status = run_head(&pass);
    }
    if (status == COP_ERR_MEMORY) {
        cop_model_retract(model, cache);
    }
    return status;
}
