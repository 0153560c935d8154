/* A small Llama that learns the target's rows: an ordinary draft model with the target's
 * vocabulary. Its embeddings, which are its LM head too, begin as the target's on their
 * likeliest axes. */
#include "algorithms/networks/factor.h"
#include "algorithms/networks/layers.h"
#include "algorithms/networks/llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 32, MEASURED = 4 /* tokens ahead whose accuracy is told */ };

struct layer {
    struct cop_llama llama;
    struct cop_llama_pass pass;
    struct cop_parameter *norm; /* before attention */
    cop_real *x;                /* [n, width] what enters it */
};

struct small {
    struct layer layers[LAYERS];
    int32_t n_layers;
    struct cop_parameter *embedding, *norm;
    cop_real *last;                /* [n, width] what leaves the last layer */
    cop_real *d_y, *d_x, *d_input; /* [n, width] */
};

static int32_t layers(const struct cop_network_options *options,
                      const struct cop_train_target *target, int32_t *out)
{
    (void)options, (void)target; /* none is read; the data holds at least this one */
    out[0] = COP_HIDDEN_NORMED;
    return 1;
}

/* ---- Parameters ----------------------------------------------------------------------------
 */

/* Heads of 32 numbers, or of as many as a narrow model has; keys for a third of them. */
static void shape(const struct cop_network *network, struct cop_llama *llama)
{
    int32_t width = network->inner, dim = width % 32 == 0 ? 32 : width % 4 == 0 ? 4 : 2;
    int32_t heads = width / dim;
    *llama = (struct cop_llama){.width = width,
                                .inputs = width,
                                .heads = heads,
                                .kv_heads = heads % 3 == 0 ? heads / 3 : heads,
                                .head_dim = dim,
                                .ffn = 4 * width,
                                .epsilon = 1e-5,
                                .theta = network->target->rope_theta};
}

static bool add_all(struct cop_network *network)
{
    struct small *small = network->state;
    bool is_whole = true;
    small->n_layers = network->options.blocks;
    small->embedding = cop_parameters_add(&network->parameters, network->target->vocab,
                                          network->inner, "model.embed_tokens.weight");
    small->norm =
        cop_parameters_add(&network->parameters, 0, network->inner, "model.norm.weight");
    for (int32_t i = 0; i < small->n_layers && is_whole; i++) {
        struct layer *layer = &small->layers[i];
        char prefix[32];
        (void)snprintf(prefix, sizeof prefix, "model.layers.%d.", i);
        shape(network, &layer->llama);
        layer->norm = cop_parameters_add(&network->parameters, 0, network->inner,
                                         "model.layers.%d.input_layernorm.weight", i);
        is_whole = layer->norm && cop_llama_add(&layer->llama, &network->parameters, prefix,
                                                network->options.seed);
    }
    for (int32_t i = 0; i < small->n_layers && is_whole; i++) {
        cop_parameter_fill(small->layers[i].norm, 1);
    }
    if (!is_whole || !small->embedding || !small->norm) {
        return false;
    }
    cop_parameter_fill(small->norm, 1);
    return true;
}

static bool begin(struct cop_network *network)
{
    struct small *small = network->state;
    const struct cop_train_target *target = network->target;
    int32_t width = network->inner;
    double size = 1 / sqrt((double)width);
    cop_real *axes = malloc((size_t)width * (size_t)target->width * sizeof *axes);
    bool is_whole =
        axes && cop_factor_axes(target->lm_head, target->vocab, target->width, width, axes);
    if (is_whole) {
        cop_factor_project(target->lm_head, target->vocab, target->width, axes, width, size,
                           small->embedding->value);
    }
    free(axes);
    return is_whole;
}

static enum cop_status open_small(struct cop_network *network, struct cop_error *err)
{
    network->inner = network->options.inner;
    if (network->inner < 4 || network->inner % 2 != 0 ||
        network->inner > network->target->width || network->options.blocks > LAYERS) {
        return cop_fail(
            err, COP_ERR_ARGUMENT,
            "`width` of a model must be even and from 4 to %d, the target's, got %d",
            network->target->width, network->inner);
    }
    network->state = calloc(1, sizeof(struct small));
    return network->state && add_all(network) && begin(network)
               ? COP_OK
               : cop_fail(err, COP_ERR_MEMORY, "no memory for a model to train");
}

static void close_small(struct cop_network *network)
{
    struct small *small = network->state;
    for (int32_t i = 0; small && i < LAYERS; i++) {
        cop_llama_release(&small->layers[i].llama);
        cop_llama_pass_release(&small->layers[i].pass);
        free(small->layers[i].x);
    }
    if (small) {
        free(small->last);
        free(small->d_y);
        free(small->d_x);
        free(small->d_input);
    }
    free(small);
    network->state = NULL;
}

static enum cop_status reserve(struct cop_network *network, int32_t n, struct cop_error *err)
{
    struct small *small = network->state;
    size_t bytes = (size_t)n * (size_t)network->inner * sizeof(cop_real);
    small->last = malloc(bytes);
    small->d_y = malloc(bytes);
    small->d_x = malloc(bytes);
    small->d_input = malloc(bytes);
    bool is_whole = small->last && small->d_y && small->d_x && small->d_input;
    for (int32_t i = 0; i < small->n_layers && is_whole; i++) {
        struct layer *layer = &small->layers[i];
        layer->x = malloc(bytes);
        is_whole = layer->x &&
                   cop_llama_reserve(&layer->llama, n, network->options.window, 1) &&
                   cop_llama_pass_new(&layer->pass, &layer->llama, n);
    }
    return is_whole ? COP_OK : cop_fail(err, COP_ERR_MEMORY, "no memory for batches of %d", n);
}

/* ---- Forward and backward ------------------------------------------------------------------
 */

static struct cop_norm norm_of(const struct cop_network *network,
                               const struct cop_parameter *gain)
{
    return (struct cop_norm){.gain = gain->value, .epsilon = 1e-5, .width = network->inner};
}

/* What was said of a later row, for measuring: out[r] = said of row r + depth. */
static void say_later(struct cop_network *network, const struct cop_train_batch *batch,
                      int32_t depth, cop_real *out)
{
    struct small *small = network->state;
    size_t width = (size_t)network->inner;
    const struct cop_norm norm = norm_of(network, small->norm);
    cop_norm_forward(&norm, small->last, batch->n, small->d_y);
    for (int32_t w = 0; w < batch->n_windows; w++) {
        for (int32_t r = 0; r < batch->lengths[w]; r++) {
            int32_t later = r + depth < batch->lengths[w] ? r + depth : batch->lengths[w] - 1;
            memcpy(out + (size_t)(batch->starts[w] + r) * width,
                   small->d_y + (size_t)(batch->starts[w] + later) * width,
                   width * sizeof *out);
        }
    }
}

static void forward(struct cop_network *network, const struct cop_train_batch *batch,
                    int32_t depth, cop_real *out)
{
    struct small *small = network->state;
    size_t width = (size_t)network->inner;
    if (depth > 0) {
        say_later(network, batch, depth, out);
        return;
    }
    for (size_t i = 0; i < (size_t)batch->n; i++) {
        memcpy(small->layers[0].x + i * width,
               small->embedding->value + (size_t)batch->tokens[i] * width,
               width * sizeof(cop_real));
    }
    for (int32_t i = 0; i < small->n_layers; i++) {
        struct layer *layer = &small->layers[i];
        const struct cop_norm norm = norm_of(network, layer->norm);
        cop_norm_forward(&norm, layer->x, batch->n, layer->pass.input);
        cop_llama_forward(&layer->llama, network->products, batch, &layer->pass, 0, layer->x,
                          i + 1 < small->n_layers ? small->layers[i + 1].x : small->last);
    }
    const struct cop_norm norm = norm_of(network, small->norm);
    cop_norm_forward(&norm, small->last, batch->n, out);
}

static void backward(struct cop_network *network, const struct cop_train_batch *batch,
                     int32_t depth, cop_real *d_out)
{
    struct small *small = network->state;
    size_t width = (size_t)network->inner, count = (size_t)batch->n * width;
    const struct cop_norm last = norm_of(network, small->norm);
    (void)depth;
    memset(small->d_y, 0, count * sizeof(cop_real));
    cop_norm_back(&last, small->last, d_out, batch->n, small->d_y, small->norm->gradient, NULL);
    for (int32_t i = small->n_layers - 1; i >= 0; i--) {
        struct layer *layer = &small->layers[i];
        const struct cop_norm norm = norm_of(network, layer->norm);
        cop_llama_backward(&layer->llama, network->products, batch, &layer->pass, 0, small->d_y,
                           small->d_input, small->d_x);
        cop_norm_back(&norm, layer->x, small->d_input, batch->n, small->d_x,
                      layer->norm->gradient, NULL);
        memcpy(small->d_y, small->d_x, count * sizeof(cop_real));
    }
    for (size_t i = 0; i < (size_t)batch->n; i++) {
        cop_real *row = small->embedding->gradient + (size_t)batch->tokens[i] * width;
        for (size_t k = 0; k < width; k++) {
            row[k] += small->d_y[i * width + k];
        }
    }
}

static void output(const struct cop_network *network, int32_t depth,
                   struct cop_train_output *out)
{
    const struct small *small = network->state;
    (void)depth;
    *out = (struct cop_train_output){.matrix = small->embedding->value,
                                     .trained = small->embedding,
                                     .rows = network->target->vocab,
                                     .inner = network->inner};
}

static int32_t eval_depths(const struct cop_network *network)
{
    (void)network;
    return MEASURED;
}

static void describe(const struct cop_network *network, const char *target_name, char *config,
                     size_t size)
{
    const struct small *small = network->state;
    const struct cop_llama *llama = &small->layers[0].llama;
    (void)snprintf(config, size,
                   "  \"architectures\": [\"LlamaForCausalLM\"],\n"
                   "  \"model_type\": \"llama\",\n  \"hidden_size\": %d,\n"
                   "  \"intermediate_size\": %d,\n  \"num_hidden_layers\": %d,\n"
                   "  \"num_attention_heads\": %d,\n  \"num_key_value_heads\": %d,\n"
                   "  \"head_dim\": %d,\n  \"hidden_act\": \"silu\",\n  \"vocab_size\": %d,\n"
                   "  \"max_position_embeddings\": %d,\n  \"rms_norm_eps\": %g,\n"
                   "  \"rope_theta\": %.17g,\n  \"attention_bias\": false,\n"
                   "  \"mlp_bias\": false,\n  \"tie_word_embeddings\": true,\n"
                   "  \"distilled_from\": \"%s\",\n  \"torch_dtype\": \"float16\"",
                   llama->width, llama->ffn, small->n_layers, llama->heads, llama->kv_heads,
                   llama->head_dim, network->target->vocab, network->target->trained_context,
                   llama->epsilon, llama->theta, target_name);
}

const struct cop_network_ops cop_network_model = {.name = "model",
                                                  .layers = layers,
                                                  .open = open_small,
                                                  .close = close_small,
                                                  .reserve = reserve,
                                                  .eval_depths = eval_depths,
                                                  .forward = forward,
                                                  .backward = backward,
                                                  .output = output,
                                                  .describe = describe,
                                                  .file = "model.safetensors"};
