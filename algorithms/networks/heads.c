/* Medusa's and Hydra's heads as they are trained: residual blocks on the target's last state,
 * Hydra's with the embeddings of the tokens behind it.
 *
 *     x = h, or [h; E(t(r+1)); … ; E(t(r+1+i))]
 *     block 1:  z = W x + b,  y = (x, or R x + c) + silu(z)      block 2 …: on y, R = identity
 *
 * W begins at zero, so that an untrained Medusa head says what the LM head says; R begins as
 * the identity of h. The LM head is the target's and stays as it is. */
#include "algorithms/networks/layers.h"
#include "algorithms/networks/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 8 };

struct block {
    struct cop_parameter *linear, *bias, *skip, *skip_bias;
};

struct heads {
    bool sees_path;
    struct block blocks[COP_TRAIN_DEPTHS][BLOCKS];
    int32_t n; /* rows that there is room for */
    /* By depth and block: its input, and W x + b. */
    cop_real *inputs[COP_TRAIN_DEPTHS][BLOCKS], *sums[COP_TRAIN_DEPTHS][BLOCKS];
    cop_real *d_sum; /* [n, width] */
};

static int32_t inputs_of(const struct cop_network *network, int32_t depth, int32_t j)
{
    const struct heads *heads = network->state;
    int32_t width = network->target->width;
    return heads->sees_path && j == 0 ? (depth + 2) * width : width;
}

static int32_t layers(const struct cop_network_options *options,
                      const struct cop_train_target *target, int32_t *out)
{
    (void)options, (void)target;
    out[0] = COP_HIDDEN_NORMED;
    return 1;
}

/* ---- Parameters ----------------------------------------------------------------------------
 */

static bool add_block(struct cop_network *network, int32_t i, int32_t j)
{
    struct heads *heads = network->state;
    struct block *block = &heads->blocks[i][j];
    struct cop_parameters *list = &network->parameters;
    int32_t width = network->target->width, inputs = inputs_of(network, i, j);
    char stem[64];
    (void)snprintf(stem, sizeof stem, heads->sees_path ? "hydra_mlp.%d.%d" : "%d.%d", i, j);
    block->linear = cop_parameters_add(list, width, inputs, "%s.linear.weight", stem);
    block->bias = cop_parameters_add(list, 0, width, "%s.linear.bias", stem);
    if (inputs != width) {
        block->skip = cop_parameters_add(list, width, inputs, "%s.res_connection.weight", stem);
        block->skip_bias = cop_parameters_add(list, 0, width, "%s.res_connection.bias", stem);
        for (int32_t k = 0; block->skip && k < width; k++) {
            block->skip->value[(size_t)k * (size_t)inputs + (size_t)k] = 1;
        }
    }
    return block->linear && block->bias &&
           (inputs == width || (block->skip && block->skip_bias));
}

static enum cop_status open_heads(struct cop_network *network, bool sees_path,
                                  struct cop_error *err)
{
    struct heads *heads = network->state = calloc(1, sizeof *heads);
    bool is_whole = heads != NULL;
    if (heads) {
        heads->sees_path = sees_path;
    }
    for (int32_t i = 0; i < network->depths && is_whole; i++) {
        for (int32_t j = 0; j < network->options.blocks && is_whole; j++) {
            is_whole = add_block(network, i, j);
        }
    }
    return is_whole ? COP_OK : cop_fail(err, COP_ERR_MEMORY, "no memory for heads to train");
}

static enum cop_status open_medusa(struct cop_network *network, struct cop_error *err)
{
    return open_heads(network, false, err);
}

static enum cop_status open_hydra(struct cop_network *network, struct cop_error *err)
{
    return open_heads(network, true, err);
}

static void release_rows(struct heads *heads)
{
    for (int32_t i = 0; i < COP_TRAIN_DEPTHS; i++) {
        for (int32_t j = 0; j < BLOCKS; j++) {
            free(heads->inputs[i][j]);
            free(heads->sums[i][j]);
            heads->inputs[i][j] = heads->sums[i][j] = NULL;
        }
    }
    free(heads->d_sum);
    heads->d_sum = NULL;
}

static void close_heads(struct cop_network *network)
{
    if (network->state) {
        release_rows(network->state);
    }
    free(network->state);
    network->state = NULL;
}

static enum cop_status reserve(struct cop_network *network, int32_t n, struct cop_error *err)
{
    struct heads *heads = network->state;
    size_t rows = (size_t)n, width = (size_t)network->target->width;
    release_rows(heads);
    bool is_whole = (heads->d_sum = malloc(rows * width * sizeof(cop_real))) != NULL;
    for (int32_t i = 0; i < network->depths; i++) {
        for (int32_t j = 0; j < network->options.blocks; j++) {
            size_t inputs = (size_t)inputs_of(network, i, j);
            heads->inputs[i][j] = malloc(rows * inputs * sizeof(cop_real));
            heads->sums[i][j] = malloc(rows * width * sizeof(cop_real));
            is_whole &= heads->inputs[i][j] && heads->sums[i][j];
        }
    }
    return is_whole ? COP_OK : cop_fail(err, COP_ERR_MEMORY, "no memory for batches of %d", n);
}

/* ---- Forward and backward ------------------------------------------------------------------
 */

/* inputs = [h; E(t(r+1)); …], zeros behind the end of a window. */
static void gather(const struct cop_network *network, const struct cop_train_batch *batch,
                   int32_t depth, cop_real *inputs)
{
    size_t width = (size_t)network->target->width;
    size_t stride = (size_t)inputs_of(network, depth, 0);
    for (int32_t w = 0; w < batch->n_windows; w++) {
        for (int32_t r = 0; r < batch->lengths[w]; r++) {
            size_t at = (size_t)(batch->starts[w] + r);
            cop_real *to = inputs + at * stride;
            memcpy(to, batch->states[0] + at * width, width * sizeof *to);
            for (size_t d = 1; d * width < stride; d++) {
                if ((size_t)r + d < (size_t)batch->lengths[w]) {
                    memcpy(to + d * width, batch->embedded + (at + d) * width,
                           width * sizeof *to);
                } else {
                    memset(to + d * width, 0, width * sizeof *to);
                }
            }
        }
    }
}

static void forward(struct cop_network *network, const struct cop_train_batch *batch,
                    int32_t depth, cop_real *out)
{
    struct heads *heads = network->state;
    struct cop_products *products = network->products;
    int32_t width = network->target->width, n = batch->n;
    size_t count = (size_t)n * (size_t)width;
    gather(network, batch, depth, heads->inputs[depth][0]);
    for (int32_t j = 0; j < network->options.blocks; j++) {
        const struct block *block = &heads->blocks[depth][j];
        const cop_real *x = heads->inputs[depth][j];
        int32_t inputs = inputs_of(network, depth, j);
        cop_product_forward(products, block->linear->value, width, inputs, x, n,
                            block->bias->value, false, heads->sums[depth][j]);
        if (block->skip) {
            cop_product_forward(products, block->skip->value, width, inputs, x, n,
                                block->skip_bias->value, false, out);
        } else {
            memcpy(out, x, count * sizeof *out);
        }
        cop_silu_add(network->products, heads->sums[depth][j], count, out);
        if (j + 1 < network->options.blocks) {
            memcpy(heads->inputs[depth][j + 1], out, count * sizeof *out);
        }
    }
}

static void backward(struct cop_network *network, const struct cop_train_batch *batch,
                     int32_t depth, cop_real *d_out)
{
    struct heads *heads = network->state;
    struct cop_products *products = network->products;
    int32_t width = network->target->width, n = batch->n;
    for (int32_t j = network->options.blocks - 1; j >= 0; j--) {
        const struct block *block = &heads->blocks[depth][j];
        const cop_real *x = heads->inputs[depth][j];
        int32_t inputs = inputs_of(network, depth, j);
        cop_silu_back(network->products, heads->sums[depth][j], d_out,
                      (size_t)n * (size_t)width, heads->d_sum);
        cop_product_weights(products, heads->d_sum, width, x, inputs, n,
                            block->linear->gradient);
        cop_sum_rows(heads->d_sum, n, width, block->bias->gradient);
        if (block->skip) {
            cop_product_weights(products, d_out, width, x, inputs, n, block->skip->gradient);
            cop_sum_rows(d_out, n, width, block->skip_bias->gradient);
        } else if (j > 0) { /* d_out: by what the block read, the identity's share included */
            cop_product_inputs(products, block->linear->value, width, inputs, heads->d_sum, n,
                               true, d_out);
        }
    }
}

static void output(const struct cop_network *network, int32_t depth,
                   struct cop_train_output *out)
{
    (void)depth;
    *out = (struct cop_train_output){.matrix = network->target->lm_head,
                                     .rows = network->target->vocab,
                                     .inner = network->target->width};
}

static int32_t eval_depths(const struct cop_network *network)
{
    return network->depths;
}

/* ---- What is published ---------------------------------------------------------------------
 */

static void describe_medusa(const struct cop_network *network, const char *target_name,
                            char *config, size_t size)
{
    (void)snprintf(config, size,
                   "  \"medusa_num_heads\": %d,\n  \"medusa_num_layers\": %d,\n"
                   "  \"hidden_size\": %d,\n  \"vocab_size\": %d,\n"
                   "  \"base_model_name_or_path\": \"%s\",\n  \"version\": \"2\",\n"
                   "  \"share_lm_head\": %s,\n  \"torch_dtype\": \"float16\"",
                   network->depths, network->options.blocks, network->target->width,
                   network->target->vocab, target_name,
                   network->options.copies_lm_head ? "false" : "true");
}

static void describe_hydra(const struct cop_network *network, const char *target_name,
                           char *config, size_t size)
{
    (void)snprintf(config, size,
                   "  \"hydra_num_heads\": %d,\n  \"hydra_num_layers\": %d,\n"
                   "  \"hydra_head_arch\": \"mlp\",\n  \"grounded_heads\": true,\n"
                   "  \"hidden_state_offset\": 0,\n  \"hidden_size\": %d,\n"
                   "  \"vocab_size\": %d,\n  \"base_model_name_or_path\": \"%s\",\n"
                   "  \"share_lm_head\": %s,\n  \"torch_dtype\": \"float16\"",
                   network->depths, network->options.blocks, network->target->width,
                   network->target->vocab, target_name,
                   network->options.copies_lm_head ? "false" : "true");
}

static void output_name(const struct cop_network *network, int32_t depth, char *name,
                        size_t size)
{
    if (((const struct heads *)network->state)->sees_path) {
        (void)snprintf(name, size, "hydra_lm_head.%d.weight", depth);
    } else {
        (void)snprintf(name, size, "%d.%d.weight", depth, network->options.blocks);
    }
}

const struct cop_network_ops cop_network_medusa = {.name = "medusa",
                                                   .layers = layers,
                                                   .open = open_medusa,
                                                   .close = close_heads,
                                                   .reserve = reserve,
                                                   .label_shift = 1,
                                                   .eval_depths = eval_depths,
                                                   .forward = forward,
                                                   .backward = backward,
                                                   .output = output,
                                                   .describe = describe_medusa,
                                                   .file = "medusa_lm_head.safetensors",
                                                   .output_name = output_name};

const struct cop_network_ops cop_network_hydra = {.name = "hydra",
                                                  .layers = layers,
                                                  .open = open_hydra,
                                                  .close = close_heads,
                                                  .reserve = reserve,
                                                  .label_shift = 1,
                                                  .eval_depths = eval_depths,
                                                  .forward = forward,
                                                  .backward = backward,
                                                  .output = output,
                                                  .describe = describe_hydra,
                                                  .file = "hydra_lm_head.safetensors",
                                                  .output_name = output_name};
