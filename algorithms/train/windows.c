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

static bool make_rows(struct cop_window_rows *rows, size_t n, size_t width, size_t labels)
{
    rows->starts = malloc(n * sizeof *rows->starts);
    rows->lengths = malloc(n * sizeof *rows->lengths);
    rows->tokens = malloc(n * sizeof *rows->tokens);
    rows->embedded = malloc(n * width * sizeof(cop_real));
    rows->label_ids = malloc(n * labels * sizeof *rows->label_ids);
    rows->label_probs = malloc(n * labels * sizeof *rows->label_probs);
    rows->weights = malloc(n * sizeof *rows->weights);
    rows->batch = (struct cop_train_batch){.starts = rows->starts,
                                           .lengths = rows->lengths,
                                           .tokens = rows->tokens,
                                           .embedded = rows->embedded,
                                           .n_labels = (int32_t)labels,
                                           .label_ids = rows->label_ids,
                                           .label_probs = rows->label_probs,
                                           .weights = rows->weights};
    return rows->starts && rows->lengths && rows->tokens && rows->embedded && rows->label_ids &&
           rows->label_probs && rows->weights;
}

static void release_rows(struct cop_window_rows *rows)
{
    free(rows->starts);
    free(rows->lengths);
    free(rows->tokens);
    free(rows->embedded);
    free(rows->label_ids);
    free(rows->label_probs);
    free(rows->weights);
}

static bool make_batch(struct cop_windows *windows, size_t n)
{
    size_t width = (size_t)windows->target->width, labels = (size_t)windows->labels;
    bool is_whole = make_rows(&windows->all, n, width, labels);
    for (int32_t i = 0; i < windows->n_layers; i++) {
        windows->states[i] = malloc(n * width * sizeof(cop_real));
        windows->all.batch.states[i] = windows->states[i];
        is_whole &= windows->states[i] != NULL;
    }
    if (windows->is_unrolled) {
        windows->froms = malloc(n * sizeof *windows->froms);
        is_whole &= windows->froms && make_rows(&windows->deep, n, width, labels);
    }
    return is_whole;
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
    if (status == COP_OK &&
        !make_batch(windows, (size_t)options->rows + (size_t)options->window)) {
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
    free(windows->froms);
    release_rows(&windows->all);
    release_rows(&windows->deep);
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
    windows->all.label_ids[at] = is_known ? record->tokens[row + 1] : -1;
    windows->all.label_probs[at] = is_known ? 1 : 0;
}

static void label_rows(struct cop_windows *windows, const struct cop_corpus_record *record,
                       int32_t row, size_t at)
{
    size_t stored = (size_t)windows->corpus->header.labels, labels = (size_t)windows->labels;
    double sum = 0;
    for (size_t k = 0; k < labels; k++) {
        double p = cop_exp((double)record->logits[(size_t)row * stored + k]);
        windows->all.label_ids[at * labels + k] = record->ids[(size_t)row * stored + k];
        windows->all.label_probs[at * labels + k] = (float)p;
        sum += p;
    }
    for (size_t k = 0; k < labels; k++) {
        windows->all.label_probs[at * labels + k] /= (float)sum;
    }
}

static void add_window(struct cop_windows *windows, const struct cop_window *window)
{
    const struct cop_corpus_record *record = &windows->corpus->records[window->record];
    struct cop_train_batch *batch = &windows->all.batch;
    size_t width = (size_t)windows->target->width, start = (size_t)batch->n;
    windows->all.starts[batch->n_windows] = batch->n;
    windows->all.lengths[batch->n_windows++] = window->length;
    batch->n += window->length;
    for (int32_t r = 0; r < window->length; r++) {
        int32_t row = window->first + r;
        size_t at = start + (size_t)r;
        cop_token token = record->tokens[row];
        windows->all.tokens[at] = token;
        memcpy(windows->all.embedded + at * width,
               windows->target->embedding + (size_t)token * width, width * sizeof(cop_real));
        /* a row's label is what follows it: an answer's begins behind the prompt's last token
         */
        windows->all.weights[at] = row + 1 >= record->n_prompt ? 1 : windows->prompt_weight;
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
    const struct cop_window_rows *all = &windows->all;
    struct cop_window_rows *deep = &windows->deep;
    size_t width = (size_t)windows->target->width, labels = (size_t)windows->labels;
    int32_t from = windows->corpus->records[window->record].n_prompt - 3 - window->first;
    from = from < 0 ? 0 : from > window->length ? window->length : from;
    size_t n = (size_t)(window->length - from), to = (size_t)deep->batch.n;
    size_t at = (size_t)(all->starts[deep->batch.n_windows] + from);
    windows->froms[deep->batch.n_windows] = from;
    deep->starts[deep->batch.n_windows] = deep->batch.n;
    deep->lengths[deep->batch.n_windows++] = (int32_t)n;
    deep->batch.n += (int32_t)n;
    memcpy(deep->tokens + to, all->tokens + at, n * sizeof *deep->tokens);
    memcpy(deep->embedded + to * width, all->embedded + at * width,
           n * width * sizeof *deep->embedded);
    memcpy(deep->label_ids + to * labels, all->label_ids + at * labels,
           n * labels * sizeof *deep->label_ids);
    memcpy(deep->label_probs + to * labels, all->label_probs + at * labels,
           n * labels * sizeof *deep->label_probs);
    memcpy(deep->weights + to, all->weights + at, n * sizeof *deep->weights);
}

static void begin_batch(struct cop_windows *windows)
{
    windows->all.batch.n = windows->all.batch.n_windows = 0;
    windows->deep.batch.n = windows->deep.batch.n_windows = 0;
    windows->all.batch.deep = NULL;
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
    while (windows->at < windows->n_trained && windows->all.batch.n < windows->rows) {
        const struct cop_window *window = &windows->trained[windows->order[windows->at++]];
        add_window(windows, window);
        if (windows->is_unrolled) {
            add_deep(windows, window);
            windows->all.batch.deep = &windows->deep.batch;
            windows->all.batch.froms = windows->froms;
        }
    }
    return &windows->all.batch;
}

const struct cop_train_batch *cop_windows_held(struct cop_windows *windows, int32_t *at)
{
    begin_batch(windows);
    while (*at < windows->n_held && windows->all.batch.n < windows->rows) {
        add_window(windows, &windows->held[(*at)++]);
    }
    return windows->all.batch.n > 0 ? &windows->all.batch : NULL;
}

int64_t cop_windows_batches(const struct cop_windows *windows)
{
    int64_t batches = 0;
    for (int32_t i = 0, rows = 0; i < windows->n_trained; i++) {
        batches += rows == 0;
        rows += windows->trained[i].length;
        rows = rows < windows->rows ? rows : 0;
    }
    return batches;
}
