/* Soft-max over candidates, its loss and gradients. */
#include "algorithms/networks/choice.h"
#include "algorithms/networks/layers.h"
#include "core/base/philox.h"
#include "kernels/large.h"

#include <stdlib.h>
#include <string.h>

enum cop_status cop_choice_init(struct cop_choice *choice, int32_t vocab, int32_t samples,
                                int32_t rows, int32_t labels, struct cop_error *err)
{
    int64_t most = (int64_t)rows * labels + samples;
    *choice = (struct cop_choice){.vocab = vocab, .samples = samples};
    choice->limit = most < vocab ? (int32_t)most : vocab;
    choice->place = malloc((size_t)vocab * sizeof *choice->place);
    choice->ids = malloc((size_t)choice->limit * sizeof *choice->ids);
    choice->row_losses = malloc((size_t)rows * sizeof *choice->row_losses);
    if (!choice->place || !choice->ids || !choice->row_losses) {
        cop_choice_release(choice);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d candidates", choice->limit);
    }
    memset(choice->place, 0xff, (size_t)vocab * sizeof *choice->place);
    return COP_OK;
}

void cop_choice_release(struct cop_choice *choice)
{
    free(choice->place);
    free(choice->ids);
    free(choice->matrix);
    free(choice->d_matrix);
    free(choice->logits);
    free(choice->row_losses);
    *choice = (struct cop_choice){0};
}

static void enter(struct cop_choice *choice, cop_token id)
{
    if (choice->place[id] < 0) {
        choice->place[id] = choice->n;
        choice->ids[choice->n++] = id;
    }
}

void cop_choice_draw(struct cop_choice *choice, const struct cop_train_batch *batch,
                     const int32_t *row_of, int32_t rows, const uint32_t key[2], int64_t step)
{
    for (int32_t i = 0; i < choice->n; i++) {
        choice->place[choice->ids[i]] = -1;
    }
    choice->n = 0;
    choice->gathered = NULL;
    size_t count = (size_t)batch->n * (size_t)batch->n_labels;
    for (size_t i = 0; i < count; i++) {
        cop_token id = batch->label_ids[i];
        bool counts = batch->weights[i / (size_t)batch->n_labels] > 0;
        if (counts && id >= 0 && batch->label_probs[i] > 0 && (!row_of || row_of[id] >= 0)) {
            enter(choice, id);
        }
    }
    choice->n_sure = choice->n;
    int32_t others = rows - choice->n_sure;
    int32_t wanted = choice->samples < others ? choice->samples : others;
    if (choice->n_sure + wanted == rows) { /* everything */
        for (cop_token id = 0; id < choice->vocab; id++) {
            if (!row_of || row_of[id] >= 0) {
                enter(choice, id);
            }
        }
    }
    for (uint32_t i = 0; choice->n < choice->n_sure + wanted; i++) {
        const uint32_t counter[4] = {i, (uint32_t)step, (uint32_t)(step >> 32), 1};
        uint32_t words[4];
        cop_philox(counter, key, 10, words);
        for (int w = 0; w < 4 && choice->n < choice->n_sure + wanted; w++) {
            cop_token id = (cop_token)(((uint64_t)words[w] * (uint64_t)choice->vocab) >> 32);
            if (!row_of || row_of[id] >= 0) {
                enter(choice, id);
            }
        }
    }
    choice->offset = wanted > 0 ? (cop_real)cop_log((double)others / wanted) : 0;
}

static bool reserve(struct cop_choice *choice, int32_t n, const struct cop_train_output *output)
{
    size_t matrix = (size_t)choice->n * (size_t)output->inner;
    size_t logits = (size_t)choice->n * (size_t)n;
    if (matrix > choice->matrix_capacity) {
        free(choice->matrix);
        free(choice->d_matrix);
        choice->matrix = cop_large_new(matrix * sizeof *choice->matrix);
        choice->d_matrix = cop_large_new(matrix * sizeof *choice->d_matrix);
        choice->matrix_capacity = choice->matrix && choice->d_matrix ? matrix : 0;
        choice->gathered = NULL;
    }
    if (logits > choice->logits_capacity) {
        free(choice->logits);
        choice->logits = cop_large_new(logits * sizeof *choice->logits);
        choice->logits_capacity = choice->logits ? logits : 0;
    }
    return choice->matrix_capacity >= matrix && choice->logits_capacity >= logits;
}

static size_t matrix_row(const struct cop_choice *choice, const struct cop_train_output *output,
                         int32_t candidate)
{
    cop_token id = choice->ids[candidate];
    return (size_t)(output->row_of ? output->row_of[id] : id) * (size_t)output->inner;
}

/* row = e^(row - largest); returns their sum; *largest is what was taken off. */
static double exponentials(cop_real *row, int32_t n, cop_real *largest)
{
    cop_real most = row[0];
    for (int32_t i = 1; i < n; i++) {
        most = row[i] > most ? row[i] : most;
    }
    *largest = most;
    return cop_exponentials(row, n, most, 1);
}

/* What of a row's label is among the candidates; 0: the row has none, or its best is not. */
static double label_mass(const struct cop_choice *choice, const struct cop_train_batch *batch,
                         int32_t at)
{
    const cop_token *ids = batch->label_ids + (size_t)at * (size_t)batch->n_labels;
    const float *probs = batch->label_probs + (size_t)at * (size_t)batch->n_labels;
    double mass = 0;
    for (int32_t k = 0; k < batch->n_labels; k++) {
        mass += ids[k] >= 0 && choice->place[ids[k]] >= 0 ? (double)probs[k] : 0;
    }
    return ids[0] >= 0 && choice->place[ids[0]] >= 0 ? mass : 0;
}

/* The loss of one row; row becomes the gradient by the logits. */
static double one_row(const struct cop_choice *choice, const struct cop_train_batch *batch,
                      int32_t at, double mass, double weight, cop_real *row)
{
    const cop_token *ids = batch->label_ids + (size_t)at * (size_t)batch->n_labels;
    const float *probs = batch->label_probs + (size_t)at * (size_t)batch->n_labels;
    double loss = 0, at_labels[64];
    for (int32_t k = 0; k < batch->n_labels; k++) {
        at_labels[k] =
            ids[k] >= 0 && choice->place[ids[k]] >= 0 ? (double)row[choice->place[ids[k]]] : 0;
    }
    cop_real largest;
    double sum = exponentials(row, choice->n, &largest);
    double log_sum = cop_log(sum) + (double)largest;
    cop_real scale = (cop_real)(weight / sum);
    for (int32_t c = 0; c < choice->n; c++) {
        row[c] *= scale;
    }
    for (int32_t k = 0; k < batch->n_labels; k++) {
        double p = (double)probs[k] / mass;
        if (p > 0 && ids[k] >= 0 && choice->place[ids[k]] >= 0) {
            loss += p * (cop_log(p) - at_labels[k] + log_sum);
            row[choice->place[ids[k]]] -= (cop_real)(weight * p);
        }
    }
    return weight * loss;
}

static double weight_at(const struct cop_choice *choice, const struct cop_choice_rows *rows,
                        int32_t window, int32_t r, double *mass)
{
    const struct cop_train_batch *batch = rows->batch;
    int32_t label = r + rows->shift;
    if (label >= batch->lengths[window]) {
        return 0;
    }
    int32_t at = batch->starts[window] + label;
    *mass = label_mass(choice, batch, at);
    return *mass > 0 ? (double)batch->weights[at] : 0;
}

struct all_rows {
    const struct cop_choice *choice;
    const struct cop_choice_rows *rows;
    double total; /* of the weights */
};

/* Logits of the rows of windows [first, end) become gradients. */
static void some_rows(void *arg, size_t first, size_t end)
{
    const struct all_rows *all = arg;
    const struct cop_choice *choice = all->choice;
    const struct cop_train_batch *batch = all->rows->batch;
    int32_t w = 0;
    for (size_t i = first; i < end; i++) {
        while ((size_t)(batch->starts[w] + batch->lengths[w]) <= i) {
            w++;
        }
        int32_t r = (int32_t)i - batch->starts[w];
        cop_real *row = choice->logits + i * (size_t)choice->n;
        double mass = 0, weight = weight_at(choice, all->rows, w, r, &mass);
        choice->row_losses[i] = 0;
        if (!(weight > 0)) {
            memset(row, 0, (size_t)choice->n * sizeof *row);
            continue;
        }
        for (int32_t c = choice->n_sure; c < choice->n; c++) {
            row[c] += choice->offset;
        }
        choice->row_losses[i] = one_row(choice, batch, (int32_t)i + all->rows->shift, mass,
                                        all->rows->weight * weight / all->total, row);
    }
}

/* All rows; logits become gradients. */
static double all_rows(struct cop_choice *choice, struct cop_products *products,
                       const struct cop_choice_rows *rows)
{
    const struct cop_train_batch *batch = rows->batch;
    struct all_rows all = {choice, rows, 0};
    double loss = 0, mass = 0;
    for (int32_t w = 0; w < batch->n_windows; w++) {
        for (int32_t r = 0; r < batch->lengths[w]; r++) {
            all.total += weight_at(choice, rows, w, r, &mass);
        }
    }
    cop_products_spread(products, (size_t)batch->n, some_rows, &all);
    for (int32_t i = 0; i < batch->n; i++) {
        loss += choice->row_losses[i];
    }
    return loss;
}

struct gather {
    const struct cop_choice *choice;
    const struct cop_train_output *output;
};

static void gather_part(void *arg, size_t first, size_t end)
{
    const struct gather *gather = arg;
    size_t inner = (size_t)gather->output->inner;
    for (size_t c = first; c < end; c++) {
        memcpy(gather->choice->matrix + c * inner,
               gather->output->matrix + matrix_row(gather->choice, gather->output, (int32_t)c),
               inner * sizeof(cop_real));
    }
}

/* The rows of the output layer that belong to candidates; depths may share a frozen one. */
static void gather(struct cop_choice *choice, struct cop_products *products,
                   const struct cop_train_output *output)
{
    if (choice->gathered != output->matrix) {
        struct gather work = {choice, output};
        cop_products_spread(products, (size_t)choice->n, gather_part, &work);
        choice->gathered = output->trained ? NULL : output->matrix;
    }
}

static void scatter_gradient(const struct cop_choice *choice,
                             const struct cop_train_output *output)
{
    size_t inner = (size_t)output->inner;
    for (int32_t c = 0; c < choice->n; c++) {
        cop_real *to = output->trained->gradient + matrix_row(choice, output, c);
        const cop_real *from = choice->d_matrix + (size_t)c * inner;
        for (size_t k = 0; k < inner; k++) {
            to[k] += from[k];
        }
    }
}

double cop_choice_loss(struct cop_choice *choice, struct cop_products *products,
                       const struct cop_train_output *output,
                       const struct cop_choice_rows *rows)
{
    int32_t n = rows->batch->n, inner = output->inner;
    if (choice->n < 1 || !reserve(choice, n, output)) {
        products->failed |= choice->n > 0;
        return 0;
    }
    gather(choice, products, output);
    cop_product_forward(products, choice->matrix, choice->n, inner, rows->x, n, NULL, false,
                        choice->logits);
    if (products->failed) {
        return 0;
    }
    double loss = all_rows(choice, products, rows);
    if (rows->d_x) {
        cop_product_inputs(products, choice->matrix, choice->n, inner, choice->logits, n, false,
                           rows->d_x);
    }
    if (rows->d_x && output->trained) {
        memset(choice->d_matrix, 0, (size_t)choice->n * (size_t)inner * sizeof(cop_real));
        cop_product_weights(products, choice->logits, choice->n, rows->x, inner, n,
                            choice->d_matrix);
        scatter_gradient(choice, output);
    }
    return loss;
}
