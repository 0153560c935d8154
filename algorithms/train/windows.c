/* Cutting, shuffling and widening training data. */
#include "algorithms/train/windows.h"
#include "core/base/philox.h"

#include <stdlib.h>
#include <string.h>

/* ---- Cutting ------------------------------------------------------------------------------
 */

static int32_t cut(const struct cop_corpus *corpus, int32_t window, int32_t held_out,
                   bool is_held, struct cop_window *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < corpus->n; i++) {
        const struct cop_corpus_record *record = &corpus->records[i];
        bool is_kept = held_out > 0 && record->index % held_out == held_out - 1;
        for (int32_t first = 0; is_kept == is_held && first + 2 < record->n; first += window) {
            int32_t left = record->n - first;
            if (out) {
                out[n] = (struct cop_window){i, first, left < window ? left : window};
            }
            n++;
        }
    }
    return n;
}

static int64_t count_rows(const struct cop_window *windows, int32_t n)
{
    int64_t rows = 0;
    for (int32_t i = 0; i < n; i++) {
        rows += windows[i].length;
    }
    return rows;
}

static enum cop_status cut_all(struct cop_windows *windows,
                               const struct cop_windows_options *options, struct cop_error *err)
{
    const struct cop_corpus *corpus = windows->corpus;
    windows->n_trained = cut(corpus, options->window, options->held_out, false, NULL);
    windows->n_held = cut(corpus, options->window, options->held_out, true, NULL);
    windows->trained = malloc(((size_t)windows->n_trained + 1) * sizeof *windows->trained);
    windows->held = malloc(((size_t)windows->n_held + 1) * sizeof *windows->held);
    windows->order = malloc(((size_t)windows->n_trained + 1) * sizeof *windows->order);
    if (!windows->trained || !windows->held || !windows->order) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d windows", windows->n_trained);
    }
    (void)cut(corpus, options->window, options->held_out, false, windows->trained);
    (void)cut(corpus, options->window, options->held_out, true, windows->held);
    windows->trained_rows = count_rows(windows->trained, windows->n_trained);
    windows->held_rows = count_rows(windows->held, windows->n_held);
    return windows->n_trained > 0
               ? COP_OK
               : cop_fail(
                     err, COP_ERR_ARGUMENT,
                     "nothing to train on: %d texts, of which none has three tokens and is "
                     "not held out",
                     corpus->n);
}

static bool make_batch(struct cop_windows *windows, size_t rows)
{
    size_t width = (size_t)windows->target->width, labels = (size_t)windows->labels;
    bool is_whole = true;
    for (int32_t i = 0; i < windows->n_layers; i++) {
        windows->states[i] = malloc(rows * width * sizeof(cop_real));
        windows->batch.states[i] = windows->states[i];
        is_whole &= windows->states[i] != NULL;
    }
    windows->embedded = malloc(rows * width * sizeof(cop_real));
    windows->starts = malloc(rows * sizeof *windows->starts);
    windows->lengths = malloc(rows * sizeof *windows->lengths);
    windows->tokens = malloc(rows * sizeof *windows->tokens);
    windows->label_ids = malloc(rows * labels * sizeof *windows->label_ids);
    windows->label_probs = malloc(rows * labels * sizeof *windows->label_probs);
    windows->weights = malloc(rows * sizeof *windows->weights);
    windows->batch.starts = windows->starts;
    windows->batch.lengths = windows->lengths;
    windows->batch.tokens = windows->tokens;
    windows->batch.embedded = windows->embedded;
    windows->batch.n_labels = windows->labels;
    windows->batch.label_ids = windows->label_ids;
    windows->batch.label_probs = windows->label_probs;
    windows->batch.weights = windows->weights;
    return is_whole && windows->embedded && windows->starts && windows->lengths &&
           windows->tokens && windows->label_ids && windows->label_probs && windows->weights;
}

static bool make_deep(struct cop_windows *windows, size_t rows)
{
    size_t width = (size_t)windows->target->width, labels = (size_t)windows->labels;
    windows->froms = malloc(rows * sizeof *windows->froms);
    windows->deep_starts = malloc(rows * sizeof *windows->deep_starts);
    windows->deep_lengths = malloc(rows * sizeof *windows->deep_lengths);
    windows->deep_label_ids = malloc(rows * labels * sizeof *windows->deep_label_ids);
    windows->deep_label_probs = malloc(rows * labels * sizeof *windows->deep_label_probs);
    windows->deep_weights = malloc(rows * sizeof *windows->deep_weights);
    windows->deep_embedded = malloc(rows * width * sizeof(cop_real));
    windows->deep = (struct cop_train_batch){.starts = windows->deep_starts,
                                             .lengths = windows->deep_lengths,
                                             .embedded = windows->deep_embedded,
                                             .n_labels = windows->labels,
                                             .label_ids = windows->deep_label_ids,
                                             .label_probs = windows->deep_label_probs,
                                             .weights = windows->deep_weights};
    return windows->froms && windows->deep_starts && windows->deep_lengths &&
           windows->deep_label_ids && windows->deep_label_probs && windows->deep_weights &&
           windows->deep_embedded;
}

enum cop_status cop_windows_init(struct cop_windows *windows, const struct cop_corpus *corpus,
                                 const struct cop_train_target *target,
                                 const struct cop_windows_options *options,
                                 struct cop_error *err)
{
    *windows = (struct cop_windows){.corpus = corpus,
                                    .target = target,
                                    .rows = options->rows,
                                    .labels = options->one_hot ? 1 : options->labels,
                                    .prompt_weight = (float)options->prompt_weight,
                                    .one_hot = options->one_hot,
                                    .is_unrolled = options->is_unrolled,
                                    .seed = options->seed,
                                    .n_layers = options->n_layers,
                                    .order_epoch = -1};
    for (int32_t i = 0; i < options->n_layers; i++) {
        windows->layers[i] = cop_corpus_layer(corpus, options->layers[i]);
        if (windows->layers[i] < 0) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "the training data lacks the states of layer %d, which this head "
                            "reads",
                            options->layers[i]);
        }
    }
    enum cop_status status = cut_all(windows, options, err);
    /* a batch ends with the window that fills it */
    size_t rows = (size_t)options->rows + (size_t)options->window;
    if (status == COP_OK &&
        (!make_batch(windows, rows) || (windows->is_unrolled && !make_deep(windows, rows)))) {
        status = cop_fail(err, COP_ERR_MEMORY, "no memory for batches of %d", options->rows);
    }
    if (status != COP_OK) {
        cop_windows_release(windows);
    }
    return status;
}

void cop_windows_release(struct cop_windows *windows)
{
    for (int32_t i = 0; i < COP_TRAIN_TAPS; i++) {
        free(windows->states[i]);
    }
    free(windows->trained);
    free(windows->held);
    free(windows->order);
    free(windows->embedded);
    free(windows->starts);
    free(windows->lengths);
    free(windows->tokens);
    free(windows->label_ids);
    free(windows->label_probs);
    free(windows->weights);
    free(windows->froms);
    free(windows->deep_starts);
    free(windows->deep_lengths);
    free(windows->deep_label_ids);
    free(windows->deep_label_probs);
    free(windows->deep_weights);
    free(windows->deep_embedded);
    *windows = (struct cop_windows){0};
}

/* ---- Batches ------------------------------------------------------------------------------
 */

/* Fisher and Yates, with a coin for each place of each epoch. */
static void shuffle(struct cop_windows *windows)
{
    const uint32_t key[2] = {(uint32_t)windows->seed, (uint32_t)(windows->seed >> 32)};
    for (int32_t i = 0; i < windows->n_trained; i++) {
        windows->order[i] = i;
    }
    for (int32_t i = windows->n_trained - 1; i > 0; i--) {
        const uint32_t counter[4] = {(uint32_t)i, (uint32_t)windows->epoch, 0, 2};
        uint32_t words[4];
        cop_philox(counter, key, 10, words);
        int32_t other = (int32_t)(((uint64_t)words[0] * (uint64_t)(i + 1)) >> 32);
        int32_t held = windows->order[i];
        windows->order[i] = windows->order[other];
        windows->order[other] = held;
    }
    windows->order_epoch = windows->epoch;
}

/* The text's own next token is the label of a row; the last row of a text has none. */
static void label_one_hot(struct cop_windows *windows, const struct cop_corpus_record *record,
                          int32_t row, size_t at)
{
    bool is_known = row + 1 < record->n;
    windows->label_ids[at] = is_known ? record->tokens[row + 1] : -1;
    windows->label_probs[at] = is_known ? 1 : 0;
}

static void label_rows(struct cop_windows *windows, const struct cop_corpus_record *record,
                       int32_t row, size_t at)
{
    size_t stored = (size_t)windows->corpus->header.labels, labels = (size_t)windows->labels;
    double sum = 0;
    for (size_t k = 0; k < labels; k++) {
        double p = cop_exp((double)record->logits[(size_t)row * stored + k]);
        windows->label_ids[at * labels + k] = record->ids[(size_t)row * stored + k];
        windows->label_probs[at * labels + k] = (float)p;
        sum += p;
    }
    for (size_t k = 0; k < labels; k++) {
        windows->label_probs[at * labels + k] /= (float)sum;
    }
}

static void add_window(struct cop_windows *windows, const struct cop_window *window)
{
    const struct cop_corpus_record *record = &windows->corpus->records[window->record];
    struct cop_train_batch *batch = &windows->batch;
    size_t width = (size_t)windows->target->width, start = (size_t)batch->n;
    windows->starts[batch->n_windows] = batch->n;
    windows->lengths[batch->n_windows++] = window->length;
    batch->n += window->length;
    for (int32_t r = 0; r < window->length; r++) {
        int32_t row = window->first + r;
        size_t at = start + (size_t)r;
        cop_token token = record->tokens[row];
        windows->tokens[at] = token;
        memcpy(windows->embedded + at * width,
               windows->target->embedding + (size_t)token * width, width * sizeof(cop_real));
        /* a row's label is what follows it: an answer's begins behind the prompt's last token
         */
        windows->weights[at] = row + 1 >= record->n_prompt ? 1 : windows->prompt_weight;
        if (windows->one_hot) {
            label_one_hot(windows, record, row, at);
        } else {
            label_rows(windows, record, row, at);
        }
        for (int32_t i = 0; i < windows->n_layers; i++) {
            const uint16_t *from =
                record->states +
                ((size_t)windows->layers[i] * (size_t)record->n + (size_t)row) * width;
            for (size_t k = 0; k < width; k++) {
                windows->states[i][at * width + k] = (cop_real)cop_f16_to_f32(from[k]);
            }
        }
    }
}

/* The rows of the last window at which step 1 can have a label of the answer. */
static void add_deep(struct cop_windows *windows, const struct cop_window *window)
{
    struct cop_train_batch *deep = &windows->deep;
    const struct cop_train_batch *batch = &windows->batch;
    size_t width = (size_t)windows->target->width, labels = (size_t)windows->labels;
    int32_t from = windows->corpus->records[window->record].n_prompt - 3 - window->first;
    from = from < 0 ? 0 : from > window->length ? window->length : from;
    size_t n = (size_t)(window->length - from), to = (size_t)deep->n;
    size_t at = (size_t)(batch->starts[deep->n_windows] + from);
    windows->froms[deep->n_windows] = from;
    windows->deep_starts[deep->n_windows] = deep->n;
    windows->deep_lengths[deep->n_windows++] = (int32_t)n;
    deep->n += (int32_t)n;
    memcpy(windows->deep_embedded + to * width, windows->embedded + at * width,
           n * width * sizeof(cop_real));
    memcpy(windows->deep_label_ids + to * labels, windows->label_ids + at * labels,
           n * labels * sizeof *windows->deep_label_ids);
    memcpy(windows->deep_label_probs + to * labels, windows->label_probs + at * labels,
           n * labels * sizeof *windows->deep_label_probs);
    memcpy(windows->deep_weights + to, windows->weights + at,
           n * sizeof *windows->deep_weights);
}

static void begin_batch(struct cop_windows *windows)
{
    windows->batch.n = windows->batch.n_windows = 0;
    windows->deep.n = windows->deep.n_windows = 0;
    windows->batch.deep = NULL;
}

const struct cop_train_batch *cop_windows_next(struct cop_windows *windows)
{
    begin_batch(windows);
    if (windows->at >= windows->n_trained) {
        windows->at = 0;
        windows->epoch++;
    }
    if (windows->order_epoch != windows->epoch) {
        shuffle(windows);
    }
    while (windows->at < windows->n_trained && windows->batch.n < windows->rows) {
        const struct cop_window *window = &windows->trained[windows->order[windows->at++]];
        add_window(windows, window);
        if (windows->is_unrolled) {
            add_deep(windows, window);
            windows->batch.deep = &windows->deep;
            windows->batch.froms = windows->froms;
        }
    }
    return &windows->batch;
}

const struct cop_train_batch *cop_windows_held(struct cop_windows *windows, int32_t *at)
{
    begin_batch(windows);
    while (*at < windows->n_held && windows->batch.n < windows->rows) {
        add_window(windows, &windows->held[(*at)++]);
    }
    return windows->batch.n > 0 ? &windows->batch : NULL;
}

int64_t cop_windows_batches(struct cop_windows *windows)
{
    int64_t batches = (windows->trained_rows + windows->rows - 1) / windows->rows;
    return batches > 0 ? batches : 1;
}
