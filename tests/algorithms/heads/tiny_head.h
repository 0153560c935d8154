/* A small EAGLE checkpoint on disk, with its weights beside it in memory, for tests of the
 * loader and for a reference in double. */
#ifndef TESTS_ALGORITHMS_TINY_HEAD_H
#define TESTS_ALGORITHMS_TINY_HEAD_H

#include "tests/support/tiny_model.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TH_WIDTH = 32, TH_HEADS = 4, TH_KV = 2, TH_DIM = 8, TH_FFN = 48, TH_TAPS = 3 };

struct tiny_head {
    int32_t version;
    uint64_t seed;
    int32_t vocab;
    int32_t n_ids;        /* version 3: 0: the whole vocabulary, with no map */
    int32_t target_width; /* 48: of a wider target, two layers tapped; 0: TH_WIDTH */
    bool norm_before_residual, norm_output, has_tap_norm, has_tap_norms, has_embedding,
        has_bias, is_speculators;
    bool has_head; /* version 1: an LM head of its own */
    bool is_tied;  /* version 3: its embedding is its LM head */
    /* Faults. */
    const char *drop;   /* tensor left out */
    const char *bend;   /* tensor with one row or entry too few */
    const char *spoil;  /* tensor whose last value is NaN */
    const char *extra;  /* stranger added */
    const char *config; /* written in place of its own */
    int64_t offset;     /* added to d2t[1] */
};

struct head_tensor {
    char name[64];
    int32_t rows, cols; /* rows 0: a vector */
    float *data;
};
struct head_files {
    char folder[64];
    struct head_tensor tensors[32];
    int32_t n;
    int32_t ids[512]; /* what it drafts */
};

__attribute__((format(printf, 5, 6))) static inline struct head_tensor *
head_add(struct head_files *files, uint64_t seed, int32_t rows, int32_t cols,
         const char *format, ...)
{
    struct head_tensor *tensor = &files->tensors[files->n++];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(tensor->name, sizeof tensor->name, format, args);
    va_end(args);
    tensor->rows = rows;
    tensor->cols = cols;
    size_t count = (size_t)(rows > 0 ? rows : 1) * (size_t)cols;
    tensor->data = malloc(count * sizeof *tensor->data);
    for (const char *c = tensor->name; *c; c++) {
        seed = seed * 31 + (uint64_t)*c;
    }
    for (size_t i = 0; i < count; i++) {
        double random = 2 * tiny_uniform(seed, i) - 1;
        tensor->data[i] = (float)(rows > 0 ? random * 2 / sqrt(cols) : 1 + random / 2);
    }
    return tensor;
}

static inline const float *head_data(const struct head_files *files, const char *name)
{
    for (int32_t i = 0; i < files->n; i++) {
        if (strcmp(files->tensors[i].name, name) == 0) {
            return files->tensors[i].data;
        }
    }
    return NULL;
}

static inline int32_t head_target_width(const struct tiny_head *head)
{
    return head->target_width > 0 ? head->target_width : TH_WIDTH;
}

static inline int32_t head_taps(const struct tiny_head *head)
{
    return head->version == 1 ? 1 : TH_TAPS * TH_WIDTH / head_target_width(head);
}

static inline void head_fill(struct head_files *files, const struct tiny_head *head)
{
    const char *prefix = head->version == 3 && !head->is_speculators ? "midlayer" : "layers.0";
    uint64_t seed = head->seed;
    int32_t inputs = head->version == 3 ? 2 * TH_WIDTH : TH_WIDTH, query = TH_HEADS * TH_DIM;
    int32_t tapped = head->version == 3 ? TH_TAPS * TH_WIDTH : 2 * TH_WIDTH;
    head_add(files, seed, TH_WIDTH, tapped, "fc.weight");
    head_add(files, seed, query, inputs, "%s.self_attn.q_proj.weight", prefix);
    head_add(files, seed, TH_KV * TH_DIM, inputs, "%s.self_attn.k_proj.weight", prefix);
    head_add(files, seed, TH_KV * TH_DIM, inputs, "%s.self_attn.v_proj.weight", prefix);
    head_add(files, seed, TH_WIDTH, query, "%s.self_attn.o_proj.weight", prefix);
    head_add(files, seed, TH_FFN, TH_WIDTH, "%s.mlp.gate_proj.weight", prefix);
    head_add(files, seed, TH_FFN, TH_WIDTH, "%s.mlp.up_proj.weight", prefix);
    head_add(files, seed, TH_WIDTH, TH_FFN, "%s.mlp.down_proj.weight", prefix);
    head_add(files, seed, 0, TH_WIDTH, "%s.post_attention_layernorm.weight", prefix);
    if (head->has_bias) {
        head_add(files, seed, 0, TH_WIDTH, "fc.bias");
    }
    if (head->has_embedding) {
        head_add(files, seed, head->vocab, TH_WIDTH, "embed_tokens.weight");
    }
    if (head->version == 3) {
        head_add(files, seed, 0, TH_WIDTH, "%s.input_layernorm.weight", prefix);
        head_add(files, seed, 0, TH_WIDTH, "%s.hidden_norm.weight", prefix);
        head_add(files, seed, 0, TH_WIDTH, "norm.weight");
    }
    if (head->version == 3 ? !head->is_tied : head->has_head) {
        head_add(files, seed, head->n_ids > 0 ? head->n_ids : head->vocab, TH_WIDTH,
                 "lm_head.weight");
    }
    if (head->has_tap_norm) {
        head_add(files, seed, 0, tapped, "input_norm.weight");
    }
    for (int32_t i = 0; head->has_tap_norms && i < TH_TAPS; i++) {
        head_add(files, seed, 0, TH_WIDTH, "fc_norm.%d.weight", i);
    }
}

/* ---- Writing ----------------------------------------------------------------------------- */

struct head_writer {
    char header[8192];
    size_t n_header;
    uint8_t *data;
    size_t n_data;
};

static inline void head_put(struct head_writer *out, const char *name, const char *type,
                            int32_t rows, int32_t cols, const void *data, size_t size)
{
    char shape[32];
    size_t count = (size_t)(rows > 0 ? rows : 1) * (size_t)cols * size;
    (void)snprintf(shape, sizeof shape, rows > 0 ? "%d,%d" : "%.0d%d", rows, cols);
    out->n_header += (size_t)snprintf(
        out->header + out->n_header, sizeof out->header - out->n_header,
        "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
        out->n_header > 1 ? "," : "", name, type, shape, out->n_data, out->n_data + count);
    out->data = realloc(out->data, out->n_data + count);
    memcpy(out->data + out->n_data, data, count);
    out->n_data += count;
}

static inline void head_put_map(struct head_writer *out, struct head_files *files,
                                const struct tiny_head *head)
{
    int64_t d2t[512];
    uint8_t t2d[512] = {0};
    for (int32_t i = 0; i < head->n_ids; i++) {
        files->ids[i] = i * head->vocab / head->n_ids;
        d2t[i] = files->ids[i] - i + (i == 1 ? head->offset : 0);
        t2d[files->ids[i]] = 1;
    }
    if (!head->drop || strcmp(head->drop, "d2t") != 0) {
        head_put(out, "d2t", "I64", 0, head->n_ids, d2t, sizeof *d2t);
    }
    head_put(out, "t2d", "BOOL", 0, head->vocab, t2d, 1);
}

static inline void head_config(char *text, size_t size, const struct tiny_head *head)
{
    char layer[512], third[512] = "";
    (void)snprintf(layer, sizeof layer,
                   "\"model_type\": \"llama\", \"hidden_size\": %d, \"intermediate_size\": %d, "
                   "\"num_hidden_layers\": 1, \"num_attention_heads\": %d, "
                   "\"num_key_value_heads\": %d, \"head_dim\": %d, \"vocab_size\": %d, "
                   "\"rms_norm_eps\": 1e-5, \"hidden_act\": \"silu\"",
                   TH_WIDTH, TH_FFN, TH_HEADS, TH_KV, TH_DIM, head->vocab);
    if (head->version == 3) {
        (void)snprintf(third, sizeof third,
                       ", \"draft_vocab_size\": %d, \"norm_before_residual\": %s, "
                       "\"norm_output\": %s, \"norm_before_fc\": %s, \"fc_norm\": %s, "
                       "\"tie_word_embeddings\": %s, \"target_hidden_size\": %d, "
                       "\"eagle_aux_hidden_state_layer_ids\": [0, 1%s]",
                       head->n_ids > 0 ? head->n_ids : head->vocab,
                       head->norm_before_residual ? "true" : "false",
                       head->norm_output ? "true" : "false",
                       head->has_tap_norm ? "true" : "false",
                       head->has_tap_norms ? "true" : "false", head->is_tied ? "true" : "false",
                       head_target_width(head), head_taps(head) > 2 ? ", 2" : "");
    }
    (void)snprintf(text, size,
                   head->is_speculators ? "{\"speculators_model_type\": \"eagle3\", "
                                          "\"transformer_layer_config\": {%s}%s}"
                                        : "{%s%s}",
                   layer, third);
}

static inline void head_save(const char *folder, const char *name, const void *bytes,
                             size_t size, const void *more, size_t n_more)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(bytes, 1, size, file), size);
    cr_assert_eq(fwrite(more, 1, n_more, file), n_more);
    (void)fclose(file);
}

static inline bool is_name(const char *fault, const char *name)
{
    return fault && strcmp(fault, name) == 0;
}

/* Fills *files; head_remove releases it. */
static inline void head_write(struct head_files *files, const struct tiny_head *head)
{
    static struct head_writer out;
    static char config[2048];
    free(out.data);
    out = (struct head_writer){.header = "{", .n_header = 1};
    *files = (struct head_files){.folder = "/tmp/coppice-head-XXXXXX"};
    cr_assert_not_null(mkdtemp(files->folder));
    for (int32_t i = 0; i < 512; i++) {
        files->ids[i] = i;
    }
    head_fill(files, head);
    for (int32_t i = 0; i < files->n; i++) {
        struct head_tensor *tensor = &files->tensors[i];
        int32_t less = is_name(head->bend, tensor->name), rows = tensor->rows;
        if (is_name(head->spoil, tensor->name)) {
            tensor->data[(rows > 0 ? rows : 1) * tensor->cols - 1] = NAN;
        }
        if (!is_name(head->drop, tensor->name)) {
            head_put(&out, tensor->name, "F32", rows > 0 ? rows - less : 0,
                     rows > 0 ? tensor->cols : tensor->cols - less, tensor->data,
                     sizeof(float));
        }
    }
    if (head->n_ids > 0) {
        head_put_map(&out, files, head);
    }
    if (head->extra) {
        head_put(&out, head->extra, "F32", 0, 4, (float[4]){0}, sizeof(float));
    }
    out.header[out.n_header++] = '}';
    uint64_t length = out.n_header;
    static uint8_t start[8 + sizeof out.header];
    memcpy(start, &length, 8);
    memcpy(start + 8, out.header, out.n_header);
    head_save(files->folder, "model.safetensors", start, 8 + out.n_header, out.data,
              out.n_data);
    head_config(config, sizeof config, head);
    const char *text = head->config ? head->config : config;
    head_save(files->folder, "config.json", text, strlen(text), "", 0);
}

static inline void head_remove(struct head_files *files)
{
    static const char *const names[] = {"model.safetensors", "config.json"};
    for (size_t i = 0; i < 2; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s/%s", files->folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(files->folder);
    for (int32_t i = 0; i < files->n; i++) {
        free(files->tensors[i].data);
    }
}

#endif
