/* An MLP speculator as it is trained (Wertheimer et al. 2024, arXiv:2404.19124): one vector
 * goes through the heads and takes in a token at each.
 *
 *     s = h, or h / rms(h) / sqrt 2
 *     head i:  z = P_i s + c E_i(t(r+1+i)),   s = gelu(z / rms(z) gain_i + shift_i)
 *              logits = H_i s                 c = w_e / w_s of the paper
 *
 * With tied weights all heads share E, H, gain and shift, and those behind the first share P.
 */
#include "algorithms/networks/factor.h"
#include "algorithms/networks/layers.h"
#include "algorithms/networks/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct head {
    struct cop_parameter *emb, *proj, *gain, *shift, *out;
};

struct mlp {
    struct head heads[COP_TRAIN_DEPTHS];
    double token_weight;
    cop_real *scaled_gain; /* [width] 1 / sqrt 2 */
    cop_real *state;       /* [n, width] h as the first head reads it */
    cop_real *sums[COP_TRAIN_DEPTHS], *normed[COP_TRAIN_DEPTHS], *said[COP_TRAIN_DEPTHS];
    cop_real *carry, *d_normed, *d_sum; /* [n, inner] */
};

static const double epsilon = 1e-6;

static int32_t layers(const struct cop_network_options *options,
                      const struct cop_train_target *target, int32_t *out)
{
    (void)options, (void)target;
    out[0] = COP_HIDDEN_NORMED;
    return 1;
}

/* ---- Parameters ----------------------------------------------------------------------------
 */

static struct cop_parameter *add(struct cop_network *network, int32_t rows, int32_t cols,
                                 const char *kind, int32_t i, const char *what)
{
    return cop_parameters_add(&network->parameters, rows, cols, "speculator.%s.%d.%s", kind, i,
                              what);
}

static bool add_head(struct cop_network *network, int32_t i)
{
    struct mlp *mlp = network->state;
    struct head *head = &mlp->heads[i];
    int32_t vocab = network->target->vocab, inner = network->inner;
    int32_t inputs = i == 0 ? network->target->width : inner;
    bool is_new = i == 0 || !network->options.tied;
    if (!is_new) {
        *head = mlp->heads[0];
    }
    head->proj = i > 1 && !is_new ? mlp->heads[1].proj
                                  : add(network, inner, inputs, "proj", i, "weight");
    if (is_new) {
        head->emb = add(network, vocab, inner, "emb", i, "weight");
        head->gain = add(network, 0, inner, "ln", i, "weight");
        head->shift = add(network, 0, inner, "ln", i, "bias");
        head->out = add(network, vocab, inner, "head", i, "weight");
    }
    return head->proj && head->emb && head->gain && head->shift && head->out;
}

/* Tables begin as the target's on their likeliest axes, the first projection as these axes. */
static bool begin(struct cop_network *network)
{
    struct mlp *mlp = network->state;
    const struct cop_train_target *target = network->target;
    int32_t inner = network->inner, width = target->width;
    int32_t d = inner < width ? inner : width;
    cop_real *axes = malloc((size_t)d * (size_t)width * sizeof *axes);
    bool is_whole = axes && cop_factor_axes(target->lm_head, target->vocab, width, d, axes);
    double size = 1 / sqrt((double)inner);
    for (int32_t i = 0; i < network->depths && is_whole; i++) {
        const struct head *head = &mlp->heads[i];
        cop_parameter_fill(head->gain, 1);
        cop_parameter_normal(head->proj, size, network->options.seed);
        if (i == 0) {
            memcpy(head->proj->value, axes, (size_t)d * (size_t)width * sizeof *axes);
        }
        if (d < inner) {
            cop_parameter_normal(head->emb, size, network->options.seed);
            cop_parameter_normal(head->out, size, network->options.seed);
        } else if (i == 0 || !network->options.tied) {
            cop_factor_project(target->embedding, target->vocab, width, axes, d, size,
                               head->emb->value);
            cop_factor_project(target->lm_head, target->vocab, width, axes, d, size,
                               head->out->value);
        }
    }
    free(axes);
    return is_whole;
}

static enum cop_status open_mlp(struct cop_network *network, struct cop_error *err)
{
    struct mlp *mlp = network->state = calloc(1, sizeof *mlp);
    int32_t width = network->target->width;
    network->inner = network->options.inner > 0 ? network->options.inner : width;
    double state_weight = pow(0.5, 0.5 / network->depths);
    bool is_whole = mlp != NULL;
    if (mlp) {
        mlp->token_weight =
            sqrt((1 - state_weight * state_weight) * network->inner / 2) / state_weight;
        mlp->scaled_gain = malloc((size_t)width * sizeof(cop_real));
        is_whole = mlp->scaled_gain != NULL;
    }
    for (int32_t k = 0; is_whole && k < width; k++) {
        mlp->scaled_gain[k] = (cop_real)sqrt(0.5);
    }
    for (int32_t i = 0; i < network->depths && is_whole; i++) {
        is_whole = add_head(network, i);
    }
    return is_whole && begin(network) ? COP_OK
                                      : cop_fail(err, COP_ERR_MEMORY, "no memory for heads");
}

static void release_rows(struct mlp *mlp)
{
    for (int32_t i = 0; i < COP_TRAIN_DEPTHS; i++) {
        free(mlp->sums[i]);
        free(mlp->normed[i]);
        free(mlp->said[i]);
        mlp->sums[i] = mlp->normed[i] = mlp->said[i] = NULL;
    }
    free(mlp->state);
    free(mlp->carry);
    free(mlp->d_normed);
    free(mlp->d_sum);
    mlp->state = mlp->carry = mlp->d_normed = mlp->d_sum = NULL;
}

static void close_mlp(struct cop_network *network)
{
    struct mlp *mlp = network->state;
    if (mlp) {
        release_rows(mlp);
        free(mlp->scaled_gain);
    }
    free(mlp);
    network->state = NULL;
}

static enum cop_status reserve(struct cop_network *network, int32_t n, struct cop_error *err)
{
    struct mlp *mlp = network->state;
    size_t bytes = (size_t)n * (size_t)network->inner * sizeof(cop_real);
    release_rows(mlp);
    mlp->state = malloc((size_t)n * (size_t)network->target->width * sizeof(cop_real));
    mlp->carry = malloc(bytes);
    mlp->d_normed = malloc(bytes);
    mlp->d_sum = malloc(bytes);
    bool is_whole = mlp->state && mlp->carry && mlp->d_normed && mlp->d_sum;
    for (int32_t i = 0; i < network->depths; i++) {
        mlp->sums[i] = malloc(bytes);
        mlp->normed[i] = malloc(bytes);
        mlp->said[i] = malloc(bytes);
        is_whole &= mlp->sums[i] && mlp->normed[i] && mlp->said[i];
    }
    return is_whole ? COP_OK : cop_fail(err, COP_ERR_MEMORY, "no memory for batches of %d", n);
}

/* ---- Forward and backward ------------------------------------------------------------------
 */

/* rows [n, inner] += c E(t(r+1+depth)); or the gradient of E from that of the rows. */
static void take_tokens(const struct cop_network *network, const struct cop_train_batch *batch,
                        int32_t depth, cop_real *rows, bool back)
{
    const struct mlp *mlp = network->state;
    struct cop_parameter *emb = mlp->heads[depth].emb;
    cop_real weight = (cop_real)mlp->token_weight;
    size_t inner = (size_t)network->inner;
    for (int32_t w = 0; w < batch->n_windows; w++) {
        for (int32_t r = 0; r + 1 + depth < batch->lengths[w]; r++) {
            size_t at = (size_t)(batch->starts[w] + r);
            size_t token = (size_t)batch->tokens[at + 1 + (size_t)depth];
            cop_real *row = rows + at * inner;
            for (size_t k = 0; k < inner; k++) {
                if (back) {
                    emb->gradient[token * inner + k] += weight * row[k];
                } else {
                    row[k] += weight * emb->value[token * inner + k];
                }
            }
        }
    }
}

static struct cop_norm norm_of(const struct cop_network *network, const struct head *head)
{
    return (struct cop_norm){.gain = head->gain->value,
                             .shift = head->shift->value,
                             .epsilon = epsilon,
                             .width = network->inner};
}

static void forward(struct cop_network *network, const struct cop_train_batch *batch,
                    int32_t depth, cop_real *out)
{
    struct mlp *mlp = network->state;
    const struct head *head = &mlp->heads[depth];
    int32_t n = batch->n, width = network->target->width;
    size_t count = (size_t)n * (size_t)network->inner;
    if (depth == 0 && network->options.scaled) {
        const struct cop_norm scale = {
            .gain = mlp->scaled_gain, .epsilon = epsilon, .width = width};
        cop_norm_forward(&scale, batch->states[0], n, mlp->state);
    } else if (depth == 0) {
        memcpy(mlp->state, batch->states[0], (size_t)n * (size_t)width * sizeof *mlp->state);
    }
    cop_product_forward(network->products, head->proj->value, head->proj->rows,
                        head->proj->cols, depth == 0 ? mlp->state : mlp->said[depth - 1], n,
                        NULL, false, mlp->sums[depth]);
    take_tokens(network, batch, depth, mlp->sums[depth], false);
    const struct cop_norm norm = norm_of(network, head);
    cop_norm_forward(&norm, mlp->sums[depth], n, mlp->normed[depth]);
    cop_gelu(network->products, mlp->normed[depth], count, mlp->said[depth]);
    memcpy(out, mlp->said[depth], count * sizeof *out);
}

static void backward(struct cop_network *network, const struct cop_train_batch *batch,
                     int32_t depth, cop_real *d_out)
{
    struct mlp *mlp = network->state;
    const struct head *head = &mlp->heads[depth];
    int32_t n = batch->n;
    size_t count = (size_t)n * (size_t)network->inner;
    for (size_t i = 0; i < count && depth + 1 < network->depths; i++) {
        d_out[i] += mlp->carry[i];
    }
    cop_gelu_back(network->products, mlp->normed[depth], d_out, count, mlp->d_normed);
    const struct cop_norm norm = norm_of(network, head);
    memset(mlp->d_sum, 0, count * sizeof *mlp->d_sum);
    cop_norm_back(&norm, mlp->sums[depth], mlp->d_normed, n, mlp->d_sum, head->gain->gradient,
                  head->shift->gradient);
    take_tokens(network, batch, depth, mlp->d_sum, true);
    cop_product_weights(network->products, mlp->d_sum, head->proj->rows,
                        depth == 0 ? mlp->state : mlp->said[depth - 1], head->proj->cols, n,
                        head->proj->gradient);
    if (depth > 0) {
        cop_product_inputs(network->products, head->proj->value, head->proj->rows,
                           head->proj->cols, mlp->d_sum, n, false, mlp->carry);
    }
}

static void output(const struct cop_network *network, int32_t depth,
                   struct cop_train_output *out)
{
    struct cop_parameter *head = ((const struct mlp *)network->state)->heads[depth].out;
    *out = (struct cop_train_output){
        .matrix = head->value, .trained = head, .rows = head->rows, .inner = network->inner};
}

static int32_t eval_depths(const struct cop_network *network)
{
    return network->depths;
}

static void describe(const struct cop_network *network, const char *target_name, char *config,
                     size_t size)
{
    int length = snprintf(config, size,
                          "  \"architectures\": [\"MLPSpeculatorPreTrainedModel\"],\n"
                          "  \"model_type\": \"mlp_speculator\",\n  \"vocab_size\": %d,\n"
                          "  \"emb_dim\": %d,\n  \"inner_dim\": %d,\n  \"n_predict\": %d,\n"
                          "  \"top_k_tokens_per_head\": [",
                          network->target->vocab, network->target->width, network->inner,
                          network->depths);
    for (int32_t i = 0; i < network->depths && (size_t)length < size; i++) {
        length += snprintf(config + length, size - (size_t)length, "%s%d", i > 0 ? ", " : "",
                           i < 4 ? 5 - i : 1);
    }
    if ((size_t)length < size) {
        (void)snprintf(config + length, size - (size_t)length,
                       "],\n  \"n_candidates\": 5,\n  \"tie_weights\": %s,\n"
                       "  \"scale_input\": %s,\n  \"base_model_name_or_path\": \"%s\",\n"
                       "  \"torch_dtype\": \"float16\"",
                       network->options.tied ? "true" : "false",
                       network->options.scaled ? "true" : "false", target_name);
    }
}

const struct cop_network_ops cop_network_mlp = {.name = "mlp",
                                                .layers = layers,
                                                .open = open_mlp,
                                                .close = close_mlp,
                                                .reserve = reserve,
                                                .label_shift = 1,
                                                .eval_depths = eval_depths,
                                                .forward = forward,
                                                .backward = backward,
                                                .output = output,
                                                .describe = describe,
                                                .file = "model.safetensors"};
