/* Parts of training with numbers made by hand: AdamW, products, the loss of a row, and files of
 * training data that are damaged. */
#include "algorithms/networks/choice.h"
#include "algorithms/train/corpus.h"
#include "algorithms/train/vocabulary.h"
#include "tests/support/mutate.h"
#include "tests/support/tiny_model.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- AdamW ---------------------------------------------------------------------------------
 */

Test(train, adamw_by_hand)
{
    struct cop_products products = {.ops = &cop_ops_cpu, .device = cop_ops_cpu.open(2, NULL)};
    struct cop_parameters list = {0};
    struct cop_parameter *matrix = cop_parameters_add(&list, 1, 2, "matrix");
    struct cop_parameter *vector = cop_parameters_add(&list, 0, 1, "v.%d", 7);
    cr_assert_str_eq(vector->name, "v.7");
    matrix->value[0] = 1;
    matrix->gradient[0] = 3;
    matrix->gradient[1] = 0;
    vector->value[0] = 2;
    vector->gradient[0] = -4;
    cr_expect_float_eq(cop_parameters_norm(&list, &products), 5, 1e-12);
    const struct cop_adamw adamw = {
        .rate = 0.1, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 0, .decay = 0.5, .clip = 1};
    matrix->gradient[1] = 0.001f;
    cop_parameters_step(&list, &products, &adamw, 5, 1);
    /* the first step is rate * sign; a matrix decays by rate * 0.5 of itself, a vector does not
     */
    cr_expect_float_eq(matrix->value[0], 1 - 0.1 - 0.05, 1e-6);
    cr_expect_float_eq(matrix->value[1], -0.1, 1e-6);
    cr_expect_float_eq(vector->value[0], 2 + 0.1, 1e-6);
    /* clipped to norm 1: a fifth of it went into the moments */
    cr_expect_float_eq(matrix->first[0], 0.1 * 0.6, 1e-6);
    cr_expect_float_eq(vector->second[0], 0.05 * 0.64, 1e-6);
    cop_parameters_clear(&list, &products);
    cop_parameters_step(&list, &products, &adamw, 0, 2);
    /* m = 0.9 * 0.06, v = 0.95 * 0.018, made older: 0.19 and 0.0975 */
    double m = 0.054 / 0.19, v = 0.95 * 0.05 * 0.36 / 0.0975;
    cr_expect_float_eq(matrix->value[0], 0.85 - 0.1 * m / sqrt(v) - 0.05 * 0.85, 1e-5);
    cop_parameters_release(&list);
    cop_ops_cpu.close(products.device);
}

Test(train, normal_numbers_are_normal_and_named)
{
    struct cop_parameters list = {0};
    struct cop_parameter *a = cop_parameters_add(&list, 100, 101, "a");
    struct cop_parameter *b = cop_parameters_add(&list, 100, 101, "b");
    cop_parameter_normal(a, 2, 5);
    cop_parameter_normal(b, 2, 5);
    double sum = 0, squares = 0, both = 0, neighbours = 0;
    for (size_t i = 0; i < a->count; i++) {
        neighbours += i % 2 ? (double)a->value[i] * (double)a->value[i - 1] : 0;
        sum += (double)a->value[i];
        squares += (double)a->value[i] * (double)a->value[i];
        both += (double)a->value[i] * (double)b->value[i];
    }
    double n = (double)a->count; /* standard errors: 0.02, 0.056, 0.04 */
    cr_expect_float_eq(sum / n, 0, 0.1);
    cr_expect_float_eq(squares / n, 4, 0.3);
    cr_expect_float_eq(both / n, 0, 0.2);
    cr_expect_float_eq(neighbours / (n / 2), 0, 0.3); /* the two numbers of one draw */
    cop_parameters_release(&list);
}

/* ---- Products ------------------------------------------------------------------------------
 */

enum { N = 37, ROWS = 29, COLS = 45 };

static float random_at(uint64_t seed, size_t i)
{
    return (float)(2 * tiny_uniform(seed, i) - 1);
}

Test(train, products_are_those_of_loops)
{
    static float w[ROWS * COLS], x[N * COLS], dy[N * ROWS], y[N * ROWS], dx[N * COLS];
    static float dw[ROWS * COLS], bias[ROWS];
    for (size_t i = 0; i < N * COLS; i++) {
        x[i] = random_at(1, i);
    }
    for (size_t i = 0; i < ROWS * COLS; i++) {
        w[i] = random_at(2, i);
        dw[i] = 1;
    }
    for (size_t i = 0; i < N * ROWS; i++) {
        dy[i] = random_at(3, i);
    }
    for (size_t i = 0; i < ROWS; i++) {
        bias[i] = random_at(4, i);
    }
    struct cop_products products = {.ops = &cop_ops_cpu, .device = cop_ops_cpu.open(2, NULL)};
    cop_product_forward(&products, w, ROWS, COLS, x, N, bias, false, y);
    cop_product_inputs(&products, w, ROWS, COLS, dy, N, false, dx);
    cop_product_weights(&products, dy, ROWS, x, COLS, N, dw);
    cr_assert_not(products.failed);
    for (size_t t = 0; t < N; t++) { /* sums of 45 products below 1: about 1e-6 */
        for (size_t r = 0; r < ROWS; r++) {
            double sum = (double)bias[r];
            for (size_t k = 0; k < COLS; k++) {
                sum += (double)w[r * COLS + k] * (double)x[t * COLS + k];
            }
            cr_expect_float_eq((double)y[t * ROWS + r], sum, 1e-5);
        }
        for (size_t k = 0; k < COLS; k++) {
            double sum = 0;
            for (size_t r = 0; r < ROWS; r++) {
                sum += (double)w[r * COLS + k] * (double)dy[t * ROWS + r];
            }
            cr_expect_float_eq((double)dx[t * COLS + k], sum, 1e-5);
        }
    }
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t k = 0; k < COLS; k++) {
            double sum = 1;
            for (size_t t = 0; t < N; t++) {
                sum += (double)dy[t * ROWS + r] * (double)x[t * COLS + k];
            }
            cr_expect_float_eq((double)dw[r * COLS + k], sum, 1e-5);
        }
    }
    cop_ops_cpu.close(products.device);
}

/* ---- The loss of a row ---------------------------------------------------------------------
 */

/* Two labels of three tokens; the output layer says their logits as they are. */
Test(train, loss_by_hand)
{
    const cop_real matrix[] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    const cop_real x[] = {0, (cop_real)0.69314718, 0}; /* laws 1/4, 1/2, 1/4 */
    const cop_token tokens[] = {0}, ids[] = {1, 2};
    const float probs[] = {0.5f, 0.5f}, weights[] = {1};
    const int32_t starts[] = {0}, lengths[] = {1};
    const struct cop_train_batch batch = {.n_windows = 1,
                                          .n = 1,
                                          .starts = starts,
                                          .lengths = lengths,
                                          .tokens = tokens,
                                          .n_labels = 2,
                                          .label_ids = ids,
                                          .label_probs = probs,
                                          .weights = weights};
    const struct cop_train_output output = {.matrix = matrix, .rows = 3, .inner = 3};
    struct cop_products products = {.ops = &cop_ops_cpu, .device = cop_ops_cpu.open(1, NULL)};
    struct cop_choice choice;
    struct cop_error err;
    cop_real d_x[3];
    cr_assert_eq(cop_choice_init(&choice, 3, 5, 1, 2, &err), COP_OK);
    cop_choice_draw(&choice, &batch, NULL, 3, (const uint32_t[]){1, 2}, 0);
    const struct cop_choice_rows rows = {.batch = &batch, .weight = 2, .x = x, .d_x = d_x};
    double loss = cop_choice_loss(&choice, &products, &output, &rows);
    /* 2 (½ ln(½ / ½) + ½ ln(½ / ¼)) = ln 2 */
    cr_expect_float_eq(loss, 0.69314718, 1e-6);
    cr_expect_float_eq(d_x[0], 2 * 0.25, 1e-6);
    cr_expect_float_eq(d_x[1], 2 * (0.5 - 0.5), 1e-6);
    cr_expect_float_eq(d_x[2], 2 * (0.25 - 0.5), 1e-6);
    cop_choice_release(&choice);
    cop_ops_cpu.close(products.device);
}

/* ---- Files of training data ----------------------------------------------------------------
 */

static struct cop_model *open_tiny(struct gguf_writer **file)
{
    struct cop_model *model = NULL;
    struct cop_error err;
    *file = tiny_model_new(&(struct tiny_model){.seed = 7});
    const struct cop_model_options options = {.path = gguf_save(*file), .threads = 1};
    cr_assert_eq(cop_model_open(&model, &options, &err), COP_OK, "%s", err.text);
    return model;
}

static void write_corpus(struct cop_model *model, const char *path)
{
    static const cop_token texts[3][9] = {{1, 2, 3, 4, 5, 6, 7, 8, 9},
                                          {9, 9, 9, 1, 1, 1, 2, 2, 2},
                                          {60, 0, 60, 0, 60, 0, 60, 0, 60}};
    const struct cop_corpus_source source = {.target = model,
                                             .fingerprint = "f",
                                             .recipe = "r",
                                             .layers = {COP_HIDDEN_NORMED, 1},
                                             .n_layers = 2};
    struct cop_corpus_writer *writer;
    struct cop_error err;
    int32_t next;
    (void)remove(path);
    cr_assert_eq(cop_corpus_writer_open(&writer, path, &source, &next, &err), COP_OK);
    cr_assert_eq(next, 0);
    for (int32_t i = 0; i < 3; i++) {
        cr_assert_eq(cop_corpus_write(writer, texts[i], 9, 4, i, NULL, &err), COP_OK, "%s",
                     err.text);
    }
    cr_assert_eq(cop_corpus_writer_close(writer, &err), COP_OK);
}

static void temporary(char *path, size_t size)
{
    (void)snprintf(path, size, "/tmp/coppice-test-%d.train", (int)getpid());
}

/* Of two that write one file the second is refused, whether the first began it or went on. */
Test(train, data_have_one_writer)
{
    struct gguf_writer *file;
    struct cop_model *model = open_tiny(&file);
    const struct cop_corpus_source source = {.target = model,
                                             .fingerprint = "f",
                                             .recipe = "r",
                                             .layers = {COP_HIDDEN_NORMED},
                                             .n_layers = 1};
    struct cop_corpus_writer *first, *second;
    char path[64];
    temporary(path, sizeof path);
    (void)remove(path);
    for (int32_t i = 0; i < 2; i++) {
        struct cop_error err = {0};
        int32_t next;
        cr_assert_eq(cop_corpus_writer_open(&first, path, &source, &next, &err), COP_OK, "%s",
                     err.text);
        cr_expect_eq(cop_corpus_writer_open(&second, path, &source, &next, &err),
                     COP_ERR_ARGUMENT);
        cr_expect_not_null(strstr(err.text, "another training writes \""), "%s", err.text);
        cr_expect_not_null(strstr(err.text, path), "%s", err.text);
        cr_expect_null(second);
        cr_expect_eq(cop_corpus_writer_close(first, &err), COP_OK);
    }
    (void)remove(path);
    cop_model_free(model);
    gguf_writer_free(file);
}

/* What is stored is what the target says of the whole text, and its states. */
Test(train, data_hold_the_targets_rows)
{
    char path[64];
    struct gguf_writer *file;
    struct cop_model *model = open_tiny(&file);
    struct cop_corpus corpus;
    struct cop_error err;
    temporary(path, sizeof path);
    write_corpus(model, path);
    cr_assert_eq(cop_corpus_open(&corpus, path, &err), COP_OK, "%s", err.text);
    cr_assert_eq(corpus.n, 3);
    const struct cop_corpus_record *record = &corpus.records[2];
    cr_expect_eq(record->n, 9);
    cr_expect_eq(record->n_prompt, 4);
    cr_expect_eq(record->tokens[2], 60);
    int32_t vocab = cop_model_info(model)->vocab_size,
            width = cop_model_info(model)->hidden_size;
    float *logits = malloc(9 * (size_t)vocab * sizeof *logits);
    float *hidden = malloc(9 * (size_t)width * sizeof *hidden);
    struct cop_cache *cache;
    cr_assert_eq(cop_model_cache_new(model, 1, 16, &cache, &err), COP_OK);
    const int32_t chain[] = {-1, 0, 1, 2, 3, 4, 5, 6, 7}, layers[] = {COP_HIDDEN_NORMED};
    const struct cop_score score = {.n = 9,
                                    .tokens = record->tokens,
                                    .parents = chain,
                                    .logits = logits,
                                    .hidden_layers = layers,
                                    .n_hidden = 1,
                                    .hidden = hidden};
    cr_assert_eq(cop_model_score(model, cache, &score, &err), COP_OK);
    for (int32_t r = 0; r < 9; r++) {
        const float *row = logits + (size_t)r * (size_t)vocab;
        cop_token best = record->ids[(size_t)r * COP_CORPUS_LABELS];
        cop_token second = record->ids[(size_t)r * COP_CORPUS_LABELS + 1];
        cr_expect_eq(best, cop_argmax(row, vocab));
        cr_expect_eq(record->logits[(size_t)r * COP_CORPUS_LABELS + 1],
                     row[second] - row[best]);
    }
    for (size_t i = 0; i < 9 * (size_t)width; i++) {
        cr_expect_eq(record->states[i], cop_f32_to_f16(hidden[i]));
    }
    cop_token *ids;
    cr_assert_eq(cop_train_vocabulary(&corpus, 5, &ids, &err), COP_OK);
    for (int32_t i = 1; i < 5; i++) {
        cr_expect_lt(ids[i - 1], ids[i]);
    }
    free(ids);
    free(logits);
    free(hidden);
    cop_cache_free(cache);
    cop_corpus_close(&corpus);
    cop_model_free(model);
    gguf_writer_free(file);
    (void)remove(path);
}

/* A damaged file is refused, or ends before the damage. */
Test(train, damaged_data, .timeout = 120)
{
    char path[64];
    struct gguf_writer *file;
    struct cop_model *model = open_tiny(&file);
    struct cop_corpus corpus;
    struct cop_error err;
    static uint8_t image[1 << 16];
    temporary(path, sizeof path);
    write_corpus(model, path);
    FILE *in = fopen(path, "rb");
    size_t size = fread(image, 1, sizeof image, in);
    (void)fclose(in);
    cr_assert_lt(size, sizeof image);
    int refused = 0, shorter = 0;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        size_t length;
        uint8_t *bad = mutate(image, size, seed, &length);
        FILE *out = fopen(path, "wb");
        (void)fwrite(bad, 1, length, out);
        (void)fclose(out);
        free(bad);
        if (cop_corpus_open(&corpus, path, &err) != COP_OK) {
            refused++;
        } else {
            shorter += corpus.n < 3;
            cr_expect_leq(corpus.n, 3);
            cop_corpus_close(&corpus);
        }
    }
    cr_expect_gt(refused, 20);
    cr_expect_gt(shorter, 1000);
    cop_model_free(model);
    gguf_writer_free(file);
    (void)remove(path);
}
