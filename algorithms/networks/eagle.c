/* EAGLE's heads as they are trained; algorithms/heads/carried/eagle.h draws them.
 *
 *     version 1   s = fc([E(t); x])            y = layer(s)            out = y
 *     version 3   x = fc(taps) at depth 0      y = layer(x; [norm E(t); norm x])
 *                                              out = norm(y), on an LM head of its own
 *                                              or the target's
 *
 * At depth 0 x comes from the target, below from the y of the depth before (training-time
 * test, Li et al. 2025, arXiv:2503.01840). Version 1 is also drawn towards the target's next
 * state by a smooth L1, and its states get uniform noise (Li et al. 2024, arXiv:2401.15077). */
#include "algorithms/networks/layers.h"
#include "algorithms/networks/llama.h"
#include "core/base/philox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEASURED = 4 /* depths whose accuracy is told */ };

struct eagle {
    bool is_third;
    struct cop_llama decoder;
    struct cop_parameter *fc, *input_norm, *hidden_norm, *norm;
    struct cop_parameter *lm_head; /* NULL: the target's */
    int32_t *row_of;               /* [vocab] of a reduced vocabulary */
    int32_t steps;                 /* that there is room for */
    struct cop_llama_pass passes[COP_TRAIN_DEPTHS];
    cop_real *embedded[COP_TRAIN_DEPTHS]; /* [n, width] E(t) of each row */
    cop_real *x[COP_TRAIN_DEPTHS];        /* [n, width] */
    cop_real *y[COP_TRAIN_DEPTHS];        /* [n, width] */
    cop_real *joined[COP_TRAIN_DEPTHS];   /* [n, inputs of fc]; version 3: depth 0 alone */
    cop_real *carry;                      /* [n, width] the gradient by the y of a depth */
    cop_real *d_y, *d_x, *d_normed;       /* [n, width] */
    cop_real *d_input;                    /* [n, 2 width] */
    double *row_losses;                   /* [n] */
};

static int32_t layers(const struct cop_network_options *options,
                      const struct cop_train_target *target, int32_t *out)
{
    if (options->version != 3) {
        out[0] = COP_HIDDEN_NORMED;
        return 1;
    }
    const int32_t taps[3] = {2, target->layers / 2, target->layers - 3};
    for (int32_t i = 0; i < 3; i++) { /* a target of few layers: what it has */
        int32_t most = target->layers;
        out[i] = taps[i] < 0 ? 0 : taps[i] > most ? most : taps[i];
    }
    return 3;
}

static int32_t fc_inputs(const struct cop_network *network)
{
    const struct eagle *eagle = network->state;
    return (eagle->is_third ? 3 : 2) * network->target->width;
}

/* ---- Parameters ----------------------------------------------------------------------------
 */

static struct cop_parameter *add_norm(struct cop_network *network, const char *name)
{
    struct cop_parameter *p =
        cop_parameters_add(&network->parameters, 0, network->target->width, "%s", name);
    if (p) {
        cop_parameter_fill(p, 1);
    }
    return p;
}

/* fc begins as the identity of its last part, the state (or the last tap). */
static bool add_fc(struct cop_network *network)
{
    struct eagle *eagle = network->state;
    int32_t width = network->target->width, inputs = fc_inputs(network);
    eagle->fc = cop_parameters_add(&network->parameters, width, inputs, "fc.weight");
    if (!eagle->fc) {
        return false;
    }
    cop_parameter_normal(eagle->fc, 0.1 / sqrt((double)inputs), network->options.seed);
    for (int32_t k = 0; k < width; k++) {
        eagle->fc->value[(size_t)k * (size_t)inputs + (size_t)(inputs - width + k)] += 1;
    }
    return true;
}

/* The LM head of a reduced vocabulary begins as the target's rows. */
static bool add_lm_head(struct cop_network *network)
{
    struct eagle *eagle = network->state;
    const struct cop_train_target *target = network->target;
    const cop_token *ids = network->options.ids;
    size_t width = (size_t)target->width;
    int32_t n = ids ? network->options.n_ids : target->vocab;
    eagle->lm_head =
        cop_parameters_add(&network->parameters, n, target->width, "lm_head.weight");
    eagle->row_of = malloc((size_t)target->vocab * sizeof *eagle->row_of);
    if (!eagle->lm_head || !eagle->row_of) {
        return false;
    }
    memset(eagle->row_of, 0xff, (size_t)target->vocab * sizeof *eagle->row_of);
    for (int32_t i = 0; i < n; i++) {
        cop_token id = ids ? ids[i] : i;
        eagle->row_of[id] = i;
        memcpy(eagle->lm_head->value + (size_t)i * width, target->lm_head + (size_t)id * width,
               width * sizeof(cop_real));
    }
    return true;
}

static bool add_all(struct cop_network *network)
{
    struct eagle *eagle = network->state;
    const struct cop_train_target *target = network->target;
    eagle->decoder = (struct cop_llama){.width = target->width,
                                        .inputs = (eagle->is_third ? 2 : 1) * target->width,
                                        .heads = target->heads,
                                        .kv_heads = target->kv_heads,
                                        .head_dim = target->head_dim,
                                        .ffn = target->ffn,
                                        .epsilon = target->norm_epsilon,
                                        .theta = target->rope_theta};
    const char *prefix = eagle->is_third ? "midlayer." : "layers.0.";
    if (!add_fc(network) ||
        !cop_llama_add(&eagle->decoder, &network->parameters, prefix, network->options.seed)) {
        return false;
    }
    if (!eagle->is_third) {
        return true;
    }
    eagle->input_norm = add_norm(network, "midlayer.input_layernorm.weight");
    eagle->hidden_norm = add_norm(network, "midlayer.hidden_norm.weight");
    eagle->norm = add_norm(network, "norm.weight");
    return eagle->input_norm && eagle->hidden_norm && eagle->norm &&
           (network->options.shares_lm_head || add_lm_head(network));
}

static enum cop_status open_eagle(struct cop_network *network, struct cop_error *err)
{
    struct eagle *eagle = network->state = calloc(1, sizeof *eagle);
    if (eagle) {
        eagle->is_third = network->options.version == 3;
    }
    return eagle && add_all(network)
               ? COP_OK
               : cop_fail(err, COP_ERR_MEMORY, "no memory for a head to train");
}

static void close_eagle(struct cop_network *network)
{
    struct eagle *eagle = network->state;
    if (!eagle) {
        return;
    }
    cop_llama_release(&eagle->decoder);
    for (int32_t i = 0; i < COP_TRAIN_DEPTHS; i++) {
        cop_llama_pass_release(&eagle->passes[i]);
        free(eagle->embedded[i]);
        free(eagle->x[i]);
        free(eagle->y[i]);
        free(eagle->joined[i]);
    }
    free(eagle->row_of);
    free(eagle->carry);
    free(eagle->d_y);
    free(eagle->d_x);
    free(eagle->d_normed);
    free(eagle->d_input);
    free(eagle->row_losses);
    free(eagle);
    network->state = NULL;
}

static enum cop_status reserve(struct cop_network *network, int32_t n, struct cop_error *err)
{
    struct eagle *eagle = network->state;
    size_t row = (size_t)network->target->width, rows = (size_t)n * sizeof(cop_real);
    eagle->steps = network->depths > MEASURED ? network->depths : MEASURED;
    bool is_whole =
        cop_llama_reserve(&eagle->decoder, n, network->options.window, eagle->steps);
    for (int32_t i = 0; i < eagle->steps && is_whole; i++) {
        bool has_joined = i == 0 || !eagle->is_third;
        is_whole = cop_llama_pass_new(&eagle->passes[i], &eagle->decoder, n);
        eagle->embedded[i] = malloc(rows * row);
        eagle->x[i] = malloc(rows * row);
        eagle->y[i] = malloc(rows * row);
        eagle->joined[i] = has_joined ? malloc(rows * (size_t)fc_inputs(network)) : NULL;
        is_whole &= eagle->embedded[i] && eagle->x[i] && eagle->y[i] &&
                    (!has_joined || eagle->joined[i]);
    }
    eagle->carry = malloc(rows * row);
    eagle->d_y = malloc(rows * row);
    eagle->d_x = malloc(rows * row);
    eagle->d_normed = malloc(rows * row);
    eagle->d_input = malloc(2 * rows * row);
    eagle->row_losses = malloc(rows * sizeof *eagle->row_losses);
    is_whole &= eagle->carry && eagle->d_y && eagle->d_x && eagle->d_normed && eagle->d_input &&
                eagle->row_losses;
    return is_whole ? COP_OK : cop_fail(err, COP_ERR_MEMORY, "no memory for batches of %d", n);
}

/* ---- Forward -------------------------------------------------------------------------------
 */

/* out[row] = table[row + ahead] of the same window, zeros behind its end. */
static void look_ahead(const struct cop_train_batch *batch, const cop_real *table, size_t width,
                       int32_t ahead, cop_real *out)
{
    for (int32_t w = 0; w < batch->n_windows; w++) {
        for (int32_t r = 0; r < batch->lengths[w]; r++) {
            size_t at = (size_t)(batch->starts[w] + r);
            if (r + ahead < batch->lengths[w]) {
                memcpy(out + at * width, table + (at + (size_t)ahead) * width,
                       width * sizeof *out);
            } else {
                memset(out + at * width, 0, width * sizeof *out);
            }
        }
    }
}

struct noise {
    const struct cop_network *network;
    cop_real *x;
    size_t count;
    double size;
};

/* Each draw makes four numbers: draws [first, end). */
static void noise_part(void *arg, size_t first, size_t end)
{
    const struct noise *noise = arg;
    const struct cop_network *network = noise->network;
    const uint32_t key[2] = {(uint32_t)network->options.seed,
                             (uint32_t)(network->options.seed >> 32)};
    for (size_t draw = first; draw < end; draw++) {
        const uint32_t counter[4] = {(uint32_t)draw, (uint32_t)network->step,
                                     (uint32_t)(network->step >> 32), 3};
        uint32_t words[4];
        cop_philox(counter, key, 10, words);
        for (size_t k = 0, i = 4 * draw; k < 4 && i < noise->count; k++, i++) {
            noise->x[i] += (cop_real)(noise->size * (2.0 * words[k] / 4294967296.0 - 1));
        }
    }
}

static void add_noise(const struct cop_network *network, cop_real *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    struct noise noise = {network, x, count,
                          network->options.noise * sqrt(sum / (double)count)};
    cop_products_spread(network->products, (count + 3) / 4, noise_part, &noise);
}

static void first_x(struct cop_network *network, const struct cop_train_batch *batch)
{
    struct eagle *eagle = network->state;
    int32_t width = network->target->width, n = batch->n;
    size_t count = (size_t)n * (size_t)width;
    if (!eagle->is_third) {
        memcpy(eagle->x[0], batch->states[0], count * sizeof(cop_real));
        if (network->options.noise > 0 && !network->evaluates) {
            add_noise(network, eagle->x[0], count);
        }
        return;
    }
    size_t w = (size_t)width;
    for (size_t i = 0; i < (size_t)n; i++) {
        for (size_t tap = 0; tap < 3; tap++) {
            memcpy(eagle->joined[0] + (3 * i + tap) * w, batch->states[tap] + i * w,
                   w * sizeof(cop_real));
        }
    }
    cop_product_forward(network->products, eagle->fc->value, width, 3 * width, eagle->joined[0],
                        n, NULL, false, eagle->x[0]);
}

static struct cop_norm norm_of(const struct cop_network *network,
                               const struct cop_parameter *gain)
{
    return (struct cop_norm){.gain = gain->value,
                             .epsilon = network->target->norm_epsilon,
                             .width = network->target->width};
}

/* What q, k and v read, into the pass. */
static void make_input(struct cop_network *network, int32_t n, int32_t depth)
{
    struct eagle *eagle = network->state;
    int32_t width = network->target->width;
    cop_real *input = eagle->passes[depth].input;
    if (!eagle->is_third) {
        cop_join(eagle->embedded[depth], width, eagle->x[depth], width, n,
                 eagle->joined[depth]);
        cop_product_forward(network->products, eagle->fc->value, width, 2 * width,
                            eagle->joined[depth], n, NULL, false, input);
        return;
    }
    const struct cop_norm left = norm_of(network, eagle->input_norm);
    const struct cop_norm right = norm_of(network, eagle->hidden_norm);
    cop_norm_forward(&left, eagle->embedded[depth], n, eagle->d_y); /* free as yet */
    cop_norm_forward(&right, eagle->x[depth], n, eagle->d_normed);
    cop_join(eagle->d_y, width, eagle->d_normed, width, n, input);
}

/* The rows of depth 1 among those of depth 0; back: the other way round, zeros between. */
static void take_deep(const struct cop_train_batch *batch, size_t width, bool back,
                      cop_real *all, cop_real *deep)
{
    if (back) {
        memset(all, 0, (size_t)batch->n * width * sizeof *all);
    }
    const struct cop_train_batch *rows = cop_train_rows(batch, 1);
    for (int32_t w = 0; w < batch->n_windows; w++) {
        size_t at = (size_t)(batch->starts[w] + cop_train_from(batch, 1, w)) * width;
        size_t to = (size_t)rows->starts[w] * width, count = (size_t)rows->lengths[w] * width;
        memcpy(back ? all + at : deep + to, back ? deep + to : all + at, count * sizeof *all);
    }
}

static void forward(struct cop_network *network, const struct cop_train_batch *batch,
                    int32_t depth, cop_real *out)
{
    struct eagle *eagle = network->state;
    const struct cop_train_batch *rows = cop_train_rows(batch, depth);
    int32_t n = rows->n;
    size_t width = (size_t)network->target->width, bytes = (size_t)n * width * sizeof *out;
    look_ahead(rows, rows->embedded, width, depth + 1, eagle->embedded[depth]);
    if (depth == 0) {
        first_x(network, batch);
    } else if (depth == 1) {
        take_deep(batch, width, false, eagle->y[0], eagle->x[1]);
    } else {
        memcpy(eagle->x[depth], eagle->y[depth - 1], bytes);
    }
    make_input(network, n, depth);
    const cop_real *stream = eagle->is_third ? eagle->x[depth] : eagle->passes[depth].input;
    cop_llama_forward(&eagle->decoder, network->products, batch, eagle->passes, depth, stream,
                      eagle->y[depth]);
    if (eagle->is_third) {
        const struct cop_norm norm = norm_of(network, eagle->norm);
        cop_norm_forward(&norm, eagle->y[depth], n, out);
    } else {
        memcpy(out, eagle->y[depth], bytes);
    }
}

struct features {
    const struct eagle *eagle;
    const struct cop_train_batch *batch, *of_depth;
    int32_t depth;
    size_t width;
    double scale;  /* of a row that weighs 1 */
    cop_real *d_y; /* NULL: not wanted */
};

/* Of row r of a window, that of the label ahead of it; 0: it has none. */
static double feature_weight(const struct cop_train_batch *of_depth, int32_t depth,
                             int32_t window, int32_t r)
{
    int32_t label = r + depth + 1;
    return label < of_depth->lengths[window]
               ? (double)of_depth->weights[of_depth->starts[window] + label]
               : 0;
}

/* Of one row, from where it is to where it ought to be. */
static double feature_row(const struct features *f, double scale, const cop_real *y,
                          const cop_real *wanted, cop_real *d_y)
{
    double sum = 0;
    for (size_t k = 0; k < f->width; k++) {
        double gap = (double)y[k] - (double)wanted[k];
        double size = gap < 0 ? -gap : gap;
        sum += size < 1 ? 0.5 * gap * gap : size - 0.5;
        if (d_y) {
            d_y[k] += (cop_real)(scale * (size < 1 ? gap : gap < 0 ? -1 : 1));
        }
    }
    return scale * sum;
}

/* Rows [first, end) of all windows. */
static void feature_part(void *arg, size_t first, size_t end)
{
    const struct features *f = arg;
    for (int32_t w = 0; w < f->batch->n_windows; w++) {
        int32_t wanted =
            f->batch->starts[w] + cop_train_from(f->batch, f->depth, w) + f->depth + 1;
        for (int32_t r = 0; r < f->of_depth->lengths[w]; r++) {
            size_t row = (size_t)(f->of_depth->starts[w] + r), at = row * f->width;
            if (row < first || row >= end) {
                continue;
            }
            double weight = feature_weight(f->of_depth, f->depth, w, r);
            f->eagle->row_losses[row] =
                weight > 0 ? feature_row(f, weight * f->scale, f->eagle->y[f->depth] + at,
                                         f->batch->states[0] + (size_t)(wanted + r) * f->width,
                                         f->d_y ? f->d_y + at : NULL)
                           : 0;
        }
    }
}

/* Version 1: smooth L1 between y and the target's state of the position that it stands for, a
 * mean over entries and, by their weights, over rows. */
static double feature_loss(struct cop_network *network, const struct cop_train_batch *batch,
                           int32_t depth, cop_real *d_y)
{
    const struct eagle *eagle = network->state;
    const struct cop_train_batch *of_depth = cop_train_rows(batch, depth);
    struct features features = {.eagle = eagle,
                                .batch = batch,
                                .of_depth = of_depth,
                                .depth = depth,
                                .width = (size_t)network->target->width,
                                .d_y = d_y};
    double total = 0, loss = 0; /* of the weights */
    for (int32_t w = 0; w < batch->n_windows; w++) {
        for (int32_t r = 0; r < of_depth->lengths[w]; r++) {
            total += feature_weight(of_depth, depth, w, r);
        }
    }
    if (eagle->is_third || !(total > 0)) {
        return 0;
    }
    features.scale = network->options.feature_weight / (total * (double)features.width);
    cop_products_spread(network->products, (size_t)of_depth->n, feature_part, &features);
    for (int32_t i = 0; i < of_depth->n; i++) {
        loss += eagle->row_losses[i];
    }
    return loss;
}

/* ---- Backward ------------------------------------------------------------------------------
 */

/* The gradient by x of depth 0 ends in fc, that of others goes on to the y before. */
static void back_first(struct cop_network *network, int32_t n, int32_t depth)
{
    struct eagle *eagle = network->state;
    int32_t width = network->target->width;
    size_t count = (size_t)n * (size_t)width;
    for (size_t i = 0; i < count; i++) { /* fc's output is the stream and what q, k, v read */
        eagle->d_x[i] += eagle->d_input[i];
    }
    cop_product_weights(network->products, eagle->d_x, width, eagle->joined[depth], 2 * width,
                        n, eagle->fc->gradient);
    if (depth > 0) {
        cop_product_inputs(network->products, eagle->fc->value, width, 2 * width, eagle->d_x, n,
                           false, eagle->d_input);
        memset(eagle->carry, 0, count * sizeof(cop_real));
        cop_part_add(eagle->d_input, 2 * width, width, width, n, eagle->carry);
    }
}

static void back_third(struct cop_network *network, int32_t n, int32_t depth)
{
    struct eagle *eagle = network->state;
    int32_t width = network->target->width;
    size_t bytes = (size_t)n * (size_t)width * sizeof(cop_real);
    const struct cop_norm left = norm_of(network, eagle->input_norm);
    const struct cop_norm right = norm_of(network, eagle->hidden_norm);
    memset(eagle->d_normed, 0, bytes);
    cop_part_add(eagle->d_input, 2 * width, 0, width, n, eagle->d_normed);
    cop_norm_back(&left, eagle->embedded[depth], eagle->d_normed, n, NULL,
                  eagle->input_norm->gradient, NULL);
    memset(eagle->d_normed, 0, bytes);
    cop_part_add(eagle->d_input, 2 * width, width, width, n, eagle->d_normed);
    cop_norm_back(&right, eagle->x[depth], eagle->d_normed, n, eagle->d_x,
                  eagle->hidden_norm->gradient, NULL);
    if (depth == 0) {
        cop_product_weights(network->products, eagle->d_x, width, eagle->joined[0], 3 * width,
                            n, eagle->fc->gradient);
    } else {
        memcpy(eagle->carry, eagle->d_x, bytes);
    }
}

static void backward(struct cop_network *network, const struct cop_train_batch *batch,
                     int32_t depth, cop_real *d_out)
{
    struct eagle *eagle = network->state;
    int32_t n = cop_train_rows(batch, depth)->n;
    size_t width = (size_t)network->target->width, count = (size_t)n * width;
    bool is_last = depth == network->depths - 1 || cop_train_rows(batch, depth + 1)->n == 0;
    if (is_last) {
        memset(eagle->d_y, 0, count * sizeof(cop_real));
    } else if (depth == 0) {
        take_deep(batch, width, true, eagle->d_y, eagle->carry);
    } else {
        memcpy(eagle->d_y, eagle->carry, count * sizeof(cop_real));
    }
    if (eagle->is_third) {
        const struct cop_norm norm = norm_of(network, eagle->norm);
        cop_norm_back(&norm, eagle->y[depth], d_out, n, eagle->d_y, eagle->norm->gradient,
                      NULL);
    } else {
        for (size_t i = 0; i < count; i++) {
            eagle->d_y[i] += d_out[i];
        }
    }
    cop_llama_backward(&eagle->decoder, network->products, batch, eagle->passes, depth,
                       eagle->d_y, eagle->d_input, eagle->d_x);
    if (eagle->is_third) {
        back_third(network, n, depth);
    } else {
        back_first(network, n, depth);
    }
}

static void output(const struct cop_network *network, int32_t depth,
                   struct cop_train_output *out)
{
    const struct eagle *eagle = network->state;
    (void)depth;
    *out = (struct cop_train_output){.matrix = network->target->lm_head,
                                     .rows = network->target->vocab,
                                     .inner = network->target->width};
    if (eagle->lm_head) {
        out->matrix = eagle->lm_head->value;
        out->trained = eagle->lm_head;
        out->rows = eagle->lm_head->rows;
        out->row_of = eagle->row_of;
    }
}

static int32_t eval_depths(const struct cop_network *network)
{
    (void)network;
    return MEASURED;
}

/* ---- What is published ---------------------------------------------------------------------
 */

static void describe(const struct cop_network *network, const char *target_name, char *config,
                     size_t size)
{
    const struct cop_train_target *t = network->target;
    const struct eagle *eagle = network->state;
    int32_t taps[3];
    int length = snprintf(
        config, size,
        "  \"architectures\": [\"%s\"],\n  \"model_type\": \"llama\",\n"
        "  \"hidden_size\": %d,\n  \"intermediate_size\": %d,\n  \"num_hidden_layers\": 1,\n"
        "  \"num_attention_heads\": %d,\n  \"num_key_value_heads\": %d,\n  \"head_dim\": %d,\n"
        "  \"hidden_act\": \"silu\",\n  \"vocab_size\": %d,\n"
        "  \"max_position_embeddings\": %d,\n  \"rms_norm_eps\": %g,\n  \"rope_theta\": "
        "%.17g,\n"
        "  \"attention_bias\": false,\n  \"mlp_bias\": false,\n"
        "  \"base_model_name_or_path\": \"%s\",\n  \"torch_dtype\": \"float16\",\n",
        eagle->is_third ? "LlamaForCausalLMEagle3" : "LlamaForCausalLM", t->width, t->ffn,
        t->heads, t->kv_heads, t->head_dim, t->vocab, t->trained_context, t->norm_epsilon,
        t->rope_theta, target_name);
    size_t at = length > 0 && (size_t)length < size ? (size_t)length : size - 1;
    if (!eagle->is_third) {
        (void)snprintf(config + at, size - at,
                       "  \"tie_word_embeddings\": true,\n  \"bias\": false");
        return;
    }
    (void)layers(&network->options, t, taps);
    (void)snprintf(config + at, size - at,
                   "  \"tie_word_embeddings\": false,\n  \"draft_vocab_size\": %d,\n"
                   "  \"target_hidden_size\": %d,\n  \"eagle_config\": {\n"
                   "    \"use_aux_hidden_state\": true,\n"
                   "    \"eagle_aux_hidden_state_layer_ids\": [%d, %d, %d]\n  }",
                   eagle->lm_head ? eagle->lm_head->rows : t->vocab, t->width, taps[0], taps[1],
                   taps[2]);
}

const struct cop_network_ops cop_network_eagle = {.name = "eagle",
                                                  .layers = layers,
                                                  .open = open_eagle,
                                                  .close = close_eagle,
                                                  .reserve = reserve,
                                                  .label_shift = 1,
                                                  .is_unrolled = true,
                                                  .eval_depths = eval_depths,
                                                  .forward = forward,
                                                  .extra = feature_loss,
                                                  .backward = backward,
                                                  .output = output,
                                                  .describe = describe,
                                                  .file = "model.safetensors"};
