/* The trainer: steps and measuring. */
#include "algorithms/train/target.h"
#include "algorithms/train/trainer_state.h"
#include "algorithms/train/vocabulary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Opening ------------------------------------------------------------------------------
 */

enum cop_status cop_train_layers(const char *head, const struct cop_network_options *options,
                                 struct cop_model *target, int32_t *layers, int32_t *n,
                                 struct cop_error *err)
{
    const struct cop_network_ops *ops = cop_network_find(head);
    if (!ops) {
        return cop_fail(err, COP_ERR_ARGUMENT, "unknown head \"%s\"", head);
    }
    struct cop_train_target shape;
    cop_train_target_shape(target, &shape);
    *n = ops->layers(options, &shape, layers);
    return COP_OK;
}

static enum cop_status open_windows(struct cop_trainer *trainer, struct cop_error *err)
{
    const struct cop_corpus_header *header = &trainer->corpus.header;
    if (header->width != trainer->target.width || header->vocab != trainer->target.vocab) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "training data of another target: states of %d numbers and %d tokens, "
                        "the target has %d and %d",
                        header->width, header->vocab, trainer->target.width,
                        trainer->target.vocab);
    }
    struct cop_windows_options options = trainer->options.windows;
    int32_t layers[COP_CORPUS_LAYERS];
    options.layers = layers;
    options.n_layers =
        trainer->network.ops->layers(&trainer->options.network, &trainer->target, layers);
    options.is_unrolled = trainer->network.ops->is_unrolled && trainer->network.depths > 1;
    enum cop_status status =
        cop_windows_init(&trainer->windows, &trainer->corpus, &trainer->target, &options, err);
    if (status != COP_OK) {
        return status;
    }
    int64_t batches = cop_windows_batches(&trainer->windows);
    trainer->steps = trainer->options.steps;
    if (trainer->steps == 0) {
        trainer->steps = (int64_t)ceil(trainer->options.epochs * (double)batches);
    }
    return COP_OK;
}

static enum cop_status make_rows(struct cop_trainer *trainer, struct cop_error *err)
{
    int32_t n = trainer->options.windows.rows + trainer->options.windows.window;
    trainer->capacity = n;
    trainer->said = malloc((size_t)n * (size_t)trainer->network.inner * sizeof *trainer->said);
    trainer->is_alive = malloc((size_t)n * sizeof *trainer->is_alive);
    trainer->best = malloc((size_t)n * sizeof *trainer->best);
    trainer->best_logit = malloc((size_t)n * sizeof *trainer->best_logit);
    if (!trainer->said || !trainer->is_alive || !trainer->best || !trainer->best_logit) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for batches of %d rows", n);
    }
    enum cop_status status = cop_network_reserve(&trainer->network, n, err);
    return status == COP_OK
               ? cop_choice_init(&trainer->choice, trainer->target.vocab,
                                 trainer->options.samples, n, trainer->windows.labels, err)
               : status;
}

static enum cop_status choose_ids(struct cop_trainer *trainer, struct cop_error *err)
{
    struct cop_network_options *options = &trainer->options.network;
    enum cop_status status =
        options->n_ids > 0
            ? cop_train_vocabulary(&trainer->corpus, options->n_ids, &trainer->ids, err)
            : COP_OK;
    options->ids = trainer->ids;
    return status;
}

static enum cop_status fill(struct cop_trainer *trainer, const char *corpus,
                            struct cop_error *err)
{
    const struct cop_network_ops *ops = cop_network_find(trainer->options.head);
    if (!ops) {
        return cop_fail(err, COP_ERR_ARGUMENT, "unknown head \"%s\"", trainer->options.head);
    }
    trainer->products = (struct cop_products){.ops = cop_model_ops(trainer->model),
                                              .device = cop_model_device(trainer->model)};
    enum cop_status status = cop_corpus_open(&trainer->corpus, corpus, err);
    if (status == COP_OK) {
        status = choose_ids(trainer, err);
    }
    if (status == COP_OK) {
        status = cop_train_target_read(trainer->model, &trainer->target, &trainer->lm_head,
                                       &trainer->embedding, err);
    }
    if (status == COP_OK) {
        status = cop_network_open(&trainer->network, ops, &trainer->target, &trainer->products,
                                  &trainer->options.network, err);
    }
    if (status == COP_OK) {
        status = open_windows(trainer, err);
    }
    return status == COP_OK ? make_rows(trainer, err) : status;
}

enum cop_status cop_trainer_new(struct cop_trainer **out,
                                const struct cop_trainer_options *options,
                                struct cop_model *target, const char *corpus,
                                struct cop_error *err)
{
    *out = NULL;
    struct cop_trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a trainer");
    }
    trainer->options = *options;
    trainer->model = cop_model_share(target);
    enum cop_status status = fill(trainer, corpus, err);
    if (status != COP_OK) {
        cop_trainer_free(trainer);
        return status;
    }
    *out = trainer;
    return COP_OK;
}

void cop_trainer_free(struct cop_trainer *trainer)
{
    if (!trainer) {
        return;
    }
    cop_network_close(&trainer->network);
    cop_choice_release(&trainer->choice);
    cop_windows_release(&trainer->windows);
    cop_corpus_close(&trainer->corpus);
    free(trainer->lm_head);
    free(trainer->embedding);
    free(trainer->ids);
    free(trainer->said);
    free(trainer->is_alive);
    free(trainer->best);
    free(trainer->best_logit);
    free(trainer->logits);
    cop_model_free(trainer->model);
    free(trainer);
}

struct cop_trainer_facts cop_trainer_facts(const struct cop_trainer *trainer)
{
    return (struct cop_trainer_facts){.step = trainer->step,
                                      .steps = trainer->steps,
                                      .rows_an_epoch = trainer->windows.trained_rows,
                                      .held_rows = trainer->windows.held_rows,
                                      .parameters =
                                          cop_parameters_count(&trainer->network.parameters),
                                      .texts = trainer->corpus.n,
                                      .rate = trainer->rate};
}

/* ---- A step -------------------------------------------------------------------------------
 */

static double rate_of(const struct cop_trainer *trainer)
{
    double done = (double)trainer->step / (double)trainer->steps;
    double warmup = trainer->options.warmup;
    if (done < warmup) {
        return trainer->options.rate * ((double)trainer->step + 1) /
               (warmup * (double)trainer->steps + 1);
    }
    double along = warmup < 1 ? (done - warmup) / (1 - warmup) : 1;
    along = along < 1 ? along : 1;
    return trainer->options.rate * (0.1 + 0.45 * (1 + cos(3.141592653589793 * along)));
}

static enum cop_status fail_memory(struct cop_trainer *trainer, struct cop_error *err)
{
    trainer->products.failed = false;
    return cop_fail(err, COP_ERR_MEMORY, "no memory for the products of a batch");
}

enum cop_status cop_trainer_step(struct cop_trainer *trainer, double *loss, int32_t *rows,
                                 struct cop_error *err)
{
    struct cop_network *network = &trainer->network;
    const struct cop_train_batch *batch = cop_windows_next(&trainer->windows);
    const uint64_t seed = trainer->options.windows.seed;
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    network->step = trainer->step;
    *loss = cop_network_loss(network, &trainer->choice, batch, trainer->options.depth_decay,
                             key, true);
    if (trainer->products.failed) {
        return fail_memory(trainer, err);
    }
    *rows = batch->n;
    double norm = cop_parameters_norm(&network->parameters, &trainer->products);
    if (!isfinite(*loss) || !isfinite(norm)) {
        return cop_fail(err, COP_ERR_NUMERIC,
                        "the loss of step %lld is not a number: lower `rate` (now %g)",
                        (long long)trainer->step + 1, trainer->options.rate);
    }
    trainer->rate = rate_of(trainer);
    trainer->step++;
    const struct cop_adamw adamw = {.rate = trainer->rate,
                                    .beta1 = 0.9,
                                    .beta2 = 0.95,
                                    .epsilon = 1e-8,
                                    .decay = trainer->options.decay,
                                    .clip = trainer->options.clip};
    cop_parameters_step(&network->parameters, &trainer->products, &adamw, norm, trainer->step);
    return COP_OK;
}

/* ---- Measuring ----------------------------------------------------------------------------
 */

/* The best row of the output matrix for each of n vectors, slice by slice. */
static enum cop_status find_best(struct cop_trainer *trainer,
                                 const struct cop_train_output *output, const cop_real *x,
                                 int32_t n, struct cop_error *err)
{
    enum { SLICE = 4096 };
    if (!trainer->logits) {
        trainer->logits = malloc((size_t)trainer->capacity * SLICE * sizeof(cop_real));
    }
    if (!trainer->logits) {
        return fail_memory(trainer, err);
    }
    for (int32_t first = 0, rows; first < output->rows; first += rows) {
        rows = output->rows - first < SLICE ? output->rows - first : SLICE;
        cop_product_forward(&trainer->products,
                            output->matrix + (size_t)first * (size_t)output->inner, rows,
                            output->inner, x, n, NULL, false, trainer->logits);
        if (trainer->products.failed) {
            return fail_memory(trainer, err);
        }
        for (int32_t i = 0; i < n; i++) {
            const cop_real *row = trainer->logits + (size_t)i * (size_t)rows;
            int32_t best = cop_argmax(row, rows);
            if (best >= 0 && (first == 0 || row[best] > trainer->best_logit[i])) {
                trainer->best_logit[i] = row[best];
                trainer->best[i] = first + best;
            } else if (first == 0) {
                trainer->best[i] = -1;
                trainer->best_logit[i] = -INFINITY;
            }
        }
    }
    return COP_OK;
}

/* Whether the best row of the output is the target's best token. */
static bool is_right(const struct cop_trainer *trainer, const struct cop_train_output *output,
                     const struct cop_train_batch *batch, int32_t row, int32_t label)
{
    cop_token wanted = batch->label_ids[(size_t)label * (size_t)batch->n_labels];
    int32_t place = wanted < 0 ? -1 : output->row_of ? output->row_of[wanted] : wanted;
    return place >= 0 && trainer->best[row] == place;
}

static void count(struct cop_trainer *trainer, const struct cop_train_batch *batch,
                  const struct cop_train_output *output, int32_t depth,
                  struct cop_train_accuracy *out)
{
    int32_t shift = depth + trainer->network.ops->label_shift;
    for (int32_t w = 0; w < batch->n_windows; w++) {
        for (int32_t r = 0; r < batch->lengths[w]; r++) {
            int32_t row = batch->starts[w] + r, label = row + shift;
            bool is_asked = r + shift < batch->lengths[w] && batch->weights[label] >= 1;
            bool right = is_asked && is_right(trainer, output, batch, row, label);
            out->alone_tried[depth] += is_asked;
            out->alone[depth] += right;
            out->rows += depth == 0 && is_asked;
            out->tried[depth] += is_asked && trainer->is_alive[row];
            out->right[depth] += right && trainer->is_alive[row];
            trainer->is_alive[row] = trainer->is_alive[row] && right;
        }
    }
}

static enum cop_status measure_batch(struct cop_trainer *trainer,
                                     const struct cop_train_batch *batch,
                                     struct cop_train_accuracy *out, struct cop_error *err)
{
    struct cop_network *network = &trainer->network;
    for (int32_t i = 0; i < batch->n; i++) {
        trainer->is_alive[i] = true;
    }
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < out->depths && status == COP_OK; i++) {
        struct cop_train_output output;
        network->ops->forward(network, batch, i, trainer->said);
        network->ops->output(network, i, &output);
        status = find_best(trainer, &output, trainer->said, batch->n, err);
        if (status == COP_OK) {
            count(trainer, batch, &output, i, out);
        }
    }
    return status;
}

enum cop_status cop_trainer_measure(struct cop_trainer *trainer, int64_t max_rows,
                                    struct cop_train_accuracy *out, struct cop_error *err)
{
    *out = (struct cop_train_accuracy){
        .depths = trainer->network.ops->eval_depths(&trainer->network)};
    enum cop_status status = COP_OK;
    trainer->network.evaluates = true;
    int64_t rows = 0;
    for (int32_t at = 0; status == COP_OK && rows < max_rows;) {
        const struct cop_train_batch *batch = cop_windows_held(&trainer->windows, &at);
        if (!batch) {
            break;
        }
        rows += batch->n;
        status = measure_batch(trainer, batch, out, err);
    }
    trainer->network.evaluates = false;
    return status;
}
