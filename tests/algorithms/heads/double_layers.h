/* Heads in double: tensors by name, written into a folder as they stand here, and the formulas
 * of a decoder layer on them, one row at a time. */
#ifndef TESTS_ALGORITHMS_DOUBLE_LAYERS_H
#define TESTS_ALGORITHMS_DOUBLE_LAYERS_H

#include "tests/support/head_folder.h"
#include "tests/support/tiny_model.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DL_WIDTH = 32,
    DL_HEADS = 4,
    DL_KV = 2,
    DL_DIM = 8,
    DL_FFN = 48,
    DL_LAYERS = 3,
    DL_ROWS = 40, /* keys of a layer */
    DL_TENSORS = 64
};

struct dl_tensor {
    char name[64];
    int32_t rows, cols; /* rows 0: a vector */
    float *data;
};
struct dl_tensors {
    struct dl_tensor items[DL_TENSORS];
    int32_t n;
};

#define DL_UNUSED __attribute__((unused))

/* Matrices of about 2 / sqrt(cols), vectors of 0.5 to 1.5. */
__attribute__((format(printf, 4, 5))) static DL_UNUSED float *
dl_add(struct dl_tensors *tensors, int32_t rows, int32_t cols, const char *format, ...)
{
    struct dl_tensor *tensor = &tensors->items[tensors->n++];
    size_t count = (size_t)(rows > 0 ? rows : 1) * (size_t)cols;
    uint64_t seed = 1;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(tensor->name, sizeof tensor->name, format, args);
    va_end(args);
    cr_assert_leq(tensors->n, DL_TENSORS);
    for (const char *c = tensor->name; *c; c++) {
        seed = tiny_bits(seed, (unsigned char)*c);
    }
    tensor->rows = rows;
    tensor->cols = cols;
    tensor->data = malloc(count * sizeof *tensor->data);
    for (size_t i = 0; i < count; i++) {
        double random = 2 * tiny_uniform(seed, i) - 1;
        tensor->data[i] = (float)(rows > 0 ? random * 2 / sqrt(cols) : 1 + random / 2);
    }
    return tensor->data;
}

/* A layer's tensors behind a prefix "layers.0."; inputs: what q, k and v read. */
static DL_UNUSED void dl_add_layer(struct dl_tensors *tensors, const char *prefix,
                                   int32_t inputs, bool has_head_norms)
{
    dl_add(tensors, 0, DL_WIDTH, "%sinput_layernorm.weight", prefix);
    dl_add(tensors, DL_HEADS * DL_DIM, inputs, "%sself_attn.q_proj.weight", prefix);
    dl_add(tensors, DL_KV * DL_DIM, inputs, "%sself_attn.k_proj.weight", prefix);
    dl_add(tensors, DL_KV * DL_DIM, inputs, "%sself_attn.v_proj.weight", prefix);
    dl_add(tensors, DL_WIDTH, DL_HEADS * DL_DIM, "%sself_attn.o_proj.weight", prefix);
    if (has_head_norms) {
        dl_add(tensors, 0, DL_DIM, "%sself_attn.q_norm.weight", prefix);
        dl_add(tensors, 0, DL_DIM, "%sself_attn.k_norm.weight", prefix);
    }
    dl_add(tensors, 0, DL_WIDTH, "%spost_attention_layernorm.weight", prefix);
    dl_add(tensors, DL_FFN, DL_WIDTH, "%smlp.gate_proj.weight", prefix);
    dl_add(tensors, DL_FFN, DL_WIDTH, "%smlp.up_proj.weight", prefix);
    dl_add(tensors, DL_WIDTH, DL_FFN, "%smlp.down_proj.weight", prefix);
}

static DL_UNUSED const float *dl_data(const struct dl_tensors *tensors, const char *prefix,
                                      const char *name)
{
    char whole[128];
    (void)snprintf(whole, sizeof whole, "%s%s", prefix, name);
    for (int32_t i = 0; i < tensors->n; i++) {
        if (strcmp(tensors->items[i].name, whole) == 0) {
            return tensors->items[i].data;
        }
    }
    return NULL;
}

/* `drop`, if not NULL, is left out. */
static DL_UNUSED void dl_put(const struct dl_tensors *tensors, struct head_folder *folder,
                             const char *drop)
{
    for (int32_t i = 0; i < tensors->n; i++) {
        const struct dl_tensor *tensor = &tensors->items[i];
        if (!drop || strcmp(tensor->name, drop) != 0) {
            head_folder_put(folder, tensor->name, tensor->rows, tensor->cols, tensor->data);
        }
    }
}

static DL_UNUSED void dl_free(struct dl_tensors *tensors)
{
    for (int32_t i = 0; i < tensors->n; i++) {
        free(tensors->items[i].data);
    }
    tensors->n = 0;
}

/* ---- Formulas ---------------------------------------------------------------------------- */

static DL_UNUSED void dl_apply(const float *weight, const double *x, int32_t rows, int32_t cols,
                               double *out)
{
    for (int32_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int32_t c = 0; c < cols; c++) {
            sum += (double)weight[r * cols + c] * x[c];
        }
        out[r] = sum;
    }
}

static DL_UNUSED void dl_norm(const float *gain, const double *x, int32_t n, double *out)
{
    double squares = 0;
    for (int32_t i = 0; i < n; i++) {
        squares += x[i] * x[i];
    }
    double scale = 1 / sqrt(squares / n + 1e-5);
    for (int32_t i = 0; i < n; i++) {
        out[i] = x[i] * scale * (double)gain[i];
    }
}

/* Norm of each head where there is one, then pairs (i, i + dim / 2), base 10000. */
static DL_UNUSED void dl_turn(const float *gain, double *heads, int32_t n_heads,
                              int32_t position)
{
    for (int32_t h = 0; h < n_heads; h++) {
        double *head = heads + h * DL_DIM;
        if (gain) {
            dl_norm(gain, head, DL_DIM, head);
        }
        for (int32_t i = 0; i < DL_DIM / 2; i++) {
            double angle = position * pow(10000, -2.0 * i / DL_DIM);
            double *a = &head[i], *b = a + DL_DIM / 2, old = *a;
            *a = old * cos(angle) - *b * sin(angle);
            *b = *b * cos(angle) + old * sin(angle);
        }
    }
}

struct dl_keys {
    double key[DL_ROWS][DL_KV * DL_DIM], value[DL_ROWS][DL_KV * DL_DIM];
};

/* Row `row`'s key and value. */
static DL_UNUSED void dl_remember(const struct dl_tensors *t, const char *prefix,
                                  const double *input, int32_t n_input, int32_t position,
                                  struct dl_keys *keys, int32_t row)
{
    cr_assert_lt(row, DL_ROWS);
    dl_apply(dl_data(t, prefix, "self_attn.k_proj.weight"), input, DL_KV * DL_DIM, n_input,
             keys->key[row]);
    dl_apply(dl_data(t, prefix, "self_attn.v_proj.weight"), input, DL_KV * DL_DIM, n_input,
             keys->value[row]);
    dl_turn(dl_data(t, prefix, "self_attn.k_norm.weight"), keys->key[row], DL_KV, position);
}

/* stream += attention of `input` over rows [first, end); stream += feed-forward of its norm. */
static DL_UNUSED void dl_layer(const struct dl_tensors *t, const char *prefix,
                               const double *input, int32_t n_input, int32_t position,
                               const struct dl_keys *keys, int32_t first, int32_t end,
                               double *stream)
{
    double q[DL_HEADS * DL_DIM], mixed[DL_HEADS * DL_DIM] = {0}, added[DL_WIDTH];
    double normed[DL_WIDTH], gate[DL_FFN], up[DL_FFN];
    dl_apply(dl_data(t, prefix, "self_attn.q_proj.weight"), input, DL_HEADS * DL_DIM, n_input,
             q);
    dl_turn(dl_data(t, prefix, "self_attn.q_norm.weight"), q, DL_HEADS, position);
    for (int32_t h = 0; h < DL_HEADS; h++) {
        int32_t from = h / (DL_HEADS / DL_KV) * DL_DIM;
        double weights[DL_ROWS], total = 0;
        for (int32_t row = first; row < end; row++) {
            double score = 0;
            for (int32_t i = 0; i < DL_DIM; i++) {
                score += q[h * DL_DIM + i] * keys->key[row][from + i];
            }
            total += weights[row] = exp(score / sqrt(DL_DIM));
        }
        for (int32_t row = first; row < end; row++) {
            for (int32_t i = 0; i < DL_DIM; i++) {
                mixed[h * DL_DIM + i] += weights[row] / total * keys->value[row][from + i];
            }
        }
    }
    dl_apply(dl_data(t, prefix, "self_attn.o_proj.weight"), mixed, DL_WIDTH, DL_HEADS * DL_DIM,
             added);
    for (int32_t i = 0; i < DL_WIDTH; i++) {
        stream[i] += added[i];
    }
    dl_norm(dl_data(t, prefix, "post_attention_layernorm.weight"), stream, DL_WIDTH, normed);
    dl_apply(dl_data(t, prefix, "mlp.gate_proj.weight"), normed, DL_FFN, DL_WIDTH, gate);
    dl_apply(dl_data(t, prefix, "mlp.up_proj.weight"), normed, DL_FFN, DL_WIDTH, up);
    for (int32_t i = 0; i < DL_FFN; i++) {
        gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
    }
    dl_apply(dl_data(t, prefix, "mlp.down_proj.weight"), gate, DL_WIDTH, DL_FFN, added);
    for (int32_t i = 0; i < DL_WIDTH; i++) {
        stream[i] += added[i];
    }
}

static DL_UNUSED void dl_softmax(const double *logits, int32_t n, double *out)
{
    double most = -HUGE_VAL, total = 0;
    for (int32_t i = 0; i < n; i++) {
        most = logits[i] > most ? logits[i] : most;
    }
    for (int32_t i = 0; i < n; i++) {
        total += out[i] = exp(logits[i] - most);
    }
    for (int32_t i = 0; i < n; i++) {
        out[i] /= total;
    }
}

#endif
