/* The writer of tiny models: a list of tensors, each filled from a hash of its name. */
#include "tests/support/tiny_model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Random numbers ---------------------------------------------------------------------- */

uint64_t tiny_bits(uint64_t seed, uint64_t index)
{
    uint64_t z = seed * 0x9e3779b97f4a7c15u + index * 0xd1b54a32d192ed03u + 0x2545f4914f6cdd1du;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double tiny_uniform(uint64_t seed, uint64_t index)
{
    return (double)(tiny_bits(seed, index) >> 11) * 0x1p-53;
}

/* About normal: the sum of four uniforms, standard deviation 1. */
static double normal(uint64_t seed, uint64_t index)
{
    double sum = 0;
    for (uint64_t i = 0; i < 4; i++) {
        sum += tiny_uniform(seed, 4 * index + i);
    }
    return (sum - 2) * sqrt(3.0);
}

static uint64_t hash_name(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++) {
        hash = (hash ^ (uint8_t)*name) * 0x100000001b3u;
    }
    return hash;
}

/* ---- Blocks ------------------------------------------------------------------------------ */

static void *take(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        abort();
    }
    return memory;
}

static void put_half(uint8_t *bytes, float value)
{
    uint16_t bits = cop_f32_to_f16(value);
    memcpy(bytes, &bits, sizeof bits);
}

/* Any quantiser does: the reader's values are what counts. 32 values to a block. */
static void quantise_block(enum cop_format format, const float *values, uint8_t *block)
{
    float low = 0, high = 0;
    for (int32_t i = 0; i < 32; i++) {
        low = fminf(low, values[i]);
        high = fmaxf(high, values[i]);
    }
    float largest = fmaxf(-low, high);
    if (format == COP_FORMAT_Q8_0) {
        float scale = largest > 0 ? largest / 127 : 1;
        put_half(block, scale);
        for (int32_t i = 0; i < 32; i++) {
            block[2 + i] = (uint8_t)(int8_t)lrintf(values[i] / scale);
        }
        return;
    }
    bool has_minimum = format == COP_FORMAT_Q4_1;
    float scale = has_minimum ? (high - low) / 15 : largest / 7;
    float offset = has_minimum ? low : -8 * (scale > 0 ? scale : 1);
    scale = scale > 0 ? scale : 1;
    put_half(block, scale);
    if (has_minimum) {
        put_half(block + 2, offset);
    }
    uint8_t *quants = block + (has_minimum ? 4 : 2);
    for (int32_t i = 0; i < 16; i++) {
        long first = lrintf((values[i] - offset) / scale);
        long second = lrintf((values[i + 16] - offset) / scale);
        first = first < 0 ? 0 : first > 15 ? 15 : first;
        second = second < 0 ? 0 : second > 15 ? 15 : second;
        quants[i] = (uint8_t)(first | second << 4);
    }
}

static const struct {
    uint32_t type;
    size_t block_elements, block_bytes;
} blocks[COP_FORMAT_COUNT] = {
    [COP_FORMAT_F32] = {GGML_F32, 1, 4},     [COP_FORMAT_F16] = {GGML_F16, 1, 2},
    [COP_FORMAT_BF16] = {GGML_BF16, 1, 2},   [COP_FORMAT_Q8_0] = {GGML_Q8_0, 32, 34},
    [COP_FORMAT_Q4_0] = {GGML_Q4_0, 32, 18}, [COP_FORMAT_Q4_1] = {GGML_Q4_1, 32, 20},
};

static size_t encode(enum cop_format format, const float *values, size_t count, uint8_t **out)
{
    size_t per_block = blocks[format].block_elements;
    size_t bytes = count / per_block * blocks[format].block_bytes;
    if (per_block == 0 || count % per_block != 0) {
        abort();
    }
    uint8_t *data = take(bytes, 1);
    for (size_t i = 0; i < count / per_block; i++) {
        uint8_t *block = data + i * blocks[format].block_bytes;
        uint32_t bits;
        memcpy(&bits, &values[i * per_block], sizeof bits);
        if (format == COP_FORMAT_F32) {
            memcpy(block, &bits, 4);
        } else if (format == COP_FORMAT_F16) {
            put_half(block, values[i]);
        } else if (format == COP_FORMAT_BF16) {
            memcpy(block, (uint8_t *)&bits + 2, 2);
        } else {
            quantise_block(format, values + i * per_block, block);
        }
    }
    *out = data;
    return bytes;
}

/* ---- Keys and tensors, with their faults ------------------------------------------------- */

struct builder {
    const struct tiny_model *model;
    struct gguf_writer *file;
};

static const struct tiny_edit *edit_of(const struct builder *b, const char *name)
{
    for (int32_t i = 0; i < b->model->n_edits; i++) {
        if (strcmp(b->model->edits[i].name, name) == 0) {
            return &b->model->edits[i];
        }
    }
    return NULL;
}

static void put_edited_key(struct builder *b, const struct tiny_edit *edit)
{
    if (edit->fault == TINY_KEY_U32) {
        gguf_put_u32(b->file, edit->name, edit->integer);
    } else if (edit->fault == TINY_KEY_F32) {
        gguf_put_f32(b->file, edit->name, edit->number);
    } else if (edit->fault == TINY_KEY_STRING) {
        gguf_put_string(b->file, edit->name, edit->string);
    }
}

static void put_key_u32(struct builder *b, const char *suffix, int32_t value)
{
    char key[128];
    (void)snprintf(key, sizeof key, "%s.%s", b->model->architecture, suffix);
    if (!edit_of(b, key)) {
        gguf_put_u32(b->file, key, (uint32_t)value);
    }
}

static void put_key_f32(struct builder *b, const char *suffix, float value)
{
    char key[128];
    (void)snprintf(key, sizeof key, "%s.%s", b->model->architecture, suffix);
    if (!edit_of(b, key)) {
        gguf_put_f32(b->file, key, value);
    }
}

static void put_misshapen(struct builder *b, const struct tiny_edit *edit, uint32_t rank,
                          const int64_t *dims, enum cop_format format)
{
    int64_t shape[2] = {dims[0], dims[1]};
    uint32_t type = blocks[format].type;
    if (edit->fault == TINY_SHAPE) {
        shape[0] = edit->integer;
        shape[1] = edit->integer2 ? edit->integer2 : 1;
        rank = edit->integer2 ? 2 : 1;
    } else {
        type = edit->integer;
    }
    size_t bytes = (size_t)(shape[0] * shape[1]) * 4;
    for (size_t f = 0; f < sizeof blocks / sizeof *blocks; f++) { /* the bytes that it needs */
        if (blocks[f].type == type && blocks[f].block_elements > 0) {
            bytes = (size_t)(shape[0] * shape[1]) / blocks[f].block_elements *
                    blocks[f].block_bytes;
        }
    }
    void *zeros = take(bytes, 1);
    gguf_put_tensor(b->file, edit->name, type, rank, shape, zeros, bytes);
    free(zeros);
}

static void put_values(struct builder *b, const char *name, int32_t rows, int32_t cols,
                       enum cop_format format, float *values)
{
    const int64_t dims[2] = {cols, rows ? rows : 1};
    uint32_t rank = rows ? 2 : 1;
    const struct tiny_edit *edit = edit_of(b, name);
    if (edit && edit->fault == TINY_DROP) {
        return;
    }
    if (edit && edit->fault != TINY_VALUE) {
        put_misshapen(b, edit, rank, dims, format);
        return;
    }
    if (edit) {
        values[0] = edit->number;
    }
    uint8_t *data = NULL;
    size_t bytes = encode(format, values, (size_t)(dims[0] * dims[1]), &data);
    gguf_put_tensor(b->file, name, blocks[format].type, rank, dims, data, bytes);
    free(data);
}

/* rows 0: a vector of `cols`. Values: centre + deviation * (normal + noise * another). */
static void put_random(struct builder *b, int32_t layer, const char *suffix, int32_t rows,
                       int32_t cols, double centre, double deviation)
{
    char name[128];
    if (layer >= 0) {
        (void)snprintf(name, sizeof name, "blk.%d.%s", layer, suffix);
    } else {
        (void)snprintf(name, sizeof name, "%s", suffix);
    }
    size_t count = (size_t)(rows ? rows : 1) * (size_t)cols;
    float *values = take(count, sizeof *values);
    uint64_t hash = hash_name(name);
    const struct tiny_model *model = b->model;
    for (size_t i = 0; i < count; i++) {
        double value = normal(model->seed ^ hash, i);
        if (model->noise != 0) {
            value += model->noise * normal(tiny_bits(model->noise_seed, 1) ^ hash, i);
        }
        values[i] = (float)(centre + deviation * value);
    }
    put_values(b, name, rows, cols, rows ? model->format : COP_FORMAT_F32, values);
    free(values);
}

/* ---- Tokenizer --------------------------------------------------------------------------- */

/* The printable stand-in of a byte in byte-level BPE, as UTF-8: printable bytes are themselves,
 * the others count up from U+0100. */
static void byte_symbol(int32_t byte, char *out)
{
    int32_t code = byte;
    bool is_plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    if (!is_plain) {
        code = 256;
        for (int32_t i = 0; i < byte; i++) {
            bool plain = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
            code += !plain;
        }
    }
    if (code < 128) {
        out[0] = (char)code;
        out[1] = 0;
    } else {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 63));
        out[2] = 0;
    }
}

static const char *const merges[] = {"\xc4\xa0 t", "h e", "i n", "e r", "\xc4\xa0t h"};
enum { N_MERGES = sizeof merges / sizeof *merges, FIRST_PAIR = 259, PIECE_BYTES = 24 };

static const char chat_template[] =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
    "'<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
    "Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\n' }}{% endif %}";

static void make_piece(int32_t id, char *piece, int32_t *type)
{
    static const char *const control[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    *type = 1;
    if (id < 256) {
        byte_symbol(id, piece);
    } else if (id < FIRST_PAIR) {
        strcpy(piece, control[id - 256]);
        *type = 3;
    } else if (id < FIRST_PAIR + N_MERGES) {
        const char *space = strrchr(merges[id - FIRST_PAIR], ' ');
        size_t first = (size_t)(space - merges[id - FIRST_PAIR]);
        memcpy(piece, merges[id - FIRST_PAIR], first);
        strcpy(piece + first, space + 1);
    } else {
        (void)snprintf(piece, PIECE_BYTES, "[unused%d]", id);
        *type = 5;
    }
}

static void put_tokenizer(struct builder *b)
{
    struct gguf_writer *file = b->file;
    int32_t vocab = b->model->vocab;
    if (!b->model->has_tokenizer) {
        gguf_put_string(file, "tokenizer.ggml.model", "no_vocab");
        return;
    }
    if (vocab < FIRST_PAIR) {
        abort();
    }
    char(*pieces)[PIECE_BYTES] = take((size_t)vocab, sizeof *pieces);
    const char **list = take((size_t)vocab, sizeof *list);
    int32_t *types = take((size_t)vocab, sizeof *types);
    for (int32_t id = 0; id < vocab; id++) {
        make_piece(id, pieces[id], &types[id]);
        list[id] = pieces[id];
    }
    int32_t n_merges = vocab - FIRST_PAIR < N_MERGES ? vocab - FIRST_PAIR : N_MERGES;
    gguf_put_string(file, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(file, "tokenizer.ggml.pre", "smollm");
    gguf_put_strings(file, "tokenizer.ggml.tokens", list, (size_t)vocab);
    gguf_put_array(file, "tokenizer.ggml.token_type", GGUF_I32, types, (size_t)vocab);
    gguf_put_strings(file, "tokenizer.ggml.merges", merges, (size_t)n_merges);
    gguf_put_u32(file, "tokenizer.ggml.bos_token_id", 257);
    gguf_put_u32(file, "tokenizer.ggml.eos_token_id",
                 b->model->eos ? (uint32_t)b->model->eos : 258);
    gguf_put_bool(file, "tokenizer.ggml.add_bos_token", false);
    gguf_put_string(file, "tokenizer.chat_template", chat_template);
    free(pieces);
    free(list);
    free(types);
}

/* ---- The random model -------------------------------------------------------------------- */

static struct tiny_model with_defaults(struct tiny_model model)
{
#define DEFAULT(field, value) model.field = model.field ? model.field : (value)
    DEFAULT(architecture, "llama");
    DEFAULT(layers, 2);
    DEFAULT(hidden, 32);
    DEFAULT(heads, 4);
    DEFAULT(kv_heads, model.heads % 2 == 0 ? model.heads / 2 : model.heads);
    DEFAULT(ffn, 64);
    DEFAULT(vocab, model.has_tokenizer ? 264 : 61);
    DEFAULT(context, 512);
#undef DEFAULT
    model.sharpness = model.sharpness > 0 ? model.sharpness : 3;
    return model;
}

static void put_header(struct builder *b)
{
    const struct tiny_model *model = b->model;
    if (!edit_of(b, "general.architecture")) {
        gguf_put_string(b->file, "general.architecture", model->architecture);
    }
    for (int32_t i = 0; i < model->n_edits; i++) {
        put_edited_key(b, &model->edits[i]);
    }
    put_key_u32(b, "block_count", model->layers);
    put_key_u32(b, "context_length", model->context);
    put_key_u32(b, "embedding_length", model->hidden);
    put_key_u32(b, "feed_forward_length", model->ffn);
    put_key_u32(b, "attention.head_count", model->heads);
    put_key_u32(b, "attention.head_count_kv", model->kv_heads);
    put_key_f32(b, "attention.layer_norm_rms_epsilon", 1e-5f);
    put_key_f32(b, "rope.freq_base", 10000);
    put_key_u32(b, "vocab_size", model->vocab);
    if (model->head_dim) {
        put_key_u32(b, "attention.key_length", model->head_dim);
        put_key_u32(b, "attention.value_length", model->head_dim);
    }
}

static void put_layer(struct builder *b, int32_t layer)
{
    const struct tiny_model *model = b->model;
    int32_t head_dim = model->head_dim ? model->head_dim : model->hidden / model->heads;
    int32_t hidden = model->hidden, q_rows = model->heads * head_dim;
    int32_t kv_rows = model->kv_heads * head_dim;
    double in = 1 / sqrt(hidden);
    bool has_norms = strcmp(model->architecture, "qwen3") == 0;
    bool has_biases = model->has_biases || strcmp(model->architecture, "qwen2") == 0;
    put_random(b, layer, "attn_norm.weight", 0, hidden, 1, 0.2);
    put_random(b, layer, "attn_q.weight", q_rows, hidden, 0, 1.5 * in);
    put_random(b, layer, "attn_k.weight", kv_rows, hidden, 0, 1.5 * in);
    put_random(b, layer, "attn_v.weight", kv_rows, hidden, 0, in);
    put_random(b, layer, "attn_output.weight", hidden, q_rows, 0, 1 / sqrt(q_rows));
    if (has_biases) {
        put_random(b, layer, "attn_q.bias", 0, q_rows, 0, 0.3);
        put_random(b, layer, "attn_k.bias", 0, kv_rows, 0, 0.3);
        put_random(b, layer, "attn_v.bias", 0, kv_rows, 0, 0.3);
    }
    if (model->has_biases) {
        put_random(b, layer, "attn_output.bias", 0, hidden, 0, 0.3);
    }
    if (has_norms) {
        put_random(b, layer, "attn_q_norm.weight", 0, head_dim, 1, 0.2);
        put_random(b, layer, "attn_k_norm.weight", 0, head_dim, 1, 0.2);
    }
    put_random(b, layer, "ffn_norm.weight", 0, hidden, 1, 0.2);
    put_random(b, layer, "ffn_gate.weight", model->ffn, hidden, 0, in);
    put_random(b, layer, "ffn_up.weight", model->ffn, hidden, 0, in);
    put_random(b, layer, "ffn_down.weight", hidden, model->ffn, 0, 2 / sqrt(model->ffn));
}

struct gguf_writer *tiny_model_new(const struct tiny_model *description)
{
    const struct tiny_model model = with_defaults(*description);
    struct builder b = {.model = &model, .file = gguf_writer_new()};
    double in = model.sharpness / sqrt(model.hidden);
    put_header(&b);
    put_tokenizer(&b);
    put_random(&b, -1, "token_embd.weight", model.vocab, model.hidden, 0,
               model.has_output ? 1 : in);
    for (int32_t layer = 0; layer < model.layers; layer++) {
        put_layer(&b, layer);
    }
    put_random(&b, -1, "output_norm.weight", 0, model.hidden, 1, 0.2);
    if (model.has_output) {
        put_random(&b, -1, "output.weight", model.vocab, model.hidden, 0, in);
    }
    for (int32_t i = 0; i < model.n_edits; i++) {
        if (model.edits[i].fault == TINY_EXTRA) {
            const float zeros[32] = {0};
            gguf_put_tensor(b.file, model.edits[i].name, GGML_F32, 1, (int64_t[]){32}, zeros,
                            sizeof zeros);
        }
    }
    return b.file;
}

/* ---- The bigram model -------------------------------------------------------------------- */

static void put_constant(struct builder *b, const char *name, int32_t rows, int32_t cols,
                         float value)
{
    size_t count = (size_t)(rows ? rows : 1) * (size_t)cols;
    float *values = take(count, sizeof *values);
    for (size_t i = 0; i < count; i++) {
        values[i] = value;
    }
    put_values(b, name, rows, cols, COP_FORMAT_F32, values);
    free(values);
}

struct gguf_writer *tiny_bigram_begin(int32_t vocab, const double *table)
{
    if (vocab < 4 || vocab % 4 != 0) {
        abort();
    }
    const struct tiny_model model = with_defaults((struct tiny_model){
        .layers = 1, .hidden = vocab, .heads = 2, .kv_heads = 2, .ffn = 32, .vocab = vocab});
    struct builder b = {.model = &model, .file = gguf_writer_new()};
    size_t n = (size_t)vocab;
    float *embedding = take(n * n, sizeof *embedding);
    float *head = take(n * n, sizeof *head);
    for (size_t i = 0; i < n; i++) {
        embedding[i * n + i] = 1;
        for (size_t j = 0; j < n; j++) {
            double log_prob = table[i * n + j] > 0 ? log(table[i * n + j]) : -30;
            head[j * n + i] = (float)(log_prob / sqrt(vocab));
        }
    }
    put_header(&b);
    put_values(&b, "token_embd.weight", vocab, vocab, COP_FORMAT_F32, embedding);
    put_constant(&b, "blk.0.attn_norm.weight", 0, vocab, 1);
    put_constant(&b, "blk.0.attn_q.weight", vocab, vocab, 0.1f);
    put_constant(&b, "blk.0.attn_k.weight", vocab, vocab, 0.1f);
    put_constant(&b, "blk.0.attn_v.weight", vocab, vocab, 0.1f);
    put_constant(&b, "blk.0.attn_output.weight", vocab, vocab, 0);
    put_constant(&b, "blk.0.ffn_norm.weight", 0, vocab, 1);
    put_constant(&b, "blk.0.ffn_gate.weight", 32, vocab, 0.1f);
    put_constant(&b, "blk.0.ffn_up.weight", 32, vocab, 0.1f);
    put_constant(&b, "blk.0.ffn_down.weight", vocab, 32, 0);
    put_constant(&b, "output_norm.weight", 0, vocab, 1);
    put_values(&b, "output.weight", vocab, vocab, COP_FORMAT_F32, head);
    free(embedding);
    free(head);
    return b.file;
}

struct gguf_writer *tiny_bigram_new(int32_t vocab, const double *table)
{
    struct gguf_writer *file = tiny_bigram_begin(vocab, table);
    gguf_put_string(file, "tokenizer.ggml.model", "no_vocab");
    return file;
}

void tiny_bigram_scale(int32_t vocab, double *weights)
{
    for (int32_t i = 0; i < vocab; i++) {
        double *row = weights + (ptrdiff_t)i * vocab, sum = 0;
        for (int32_t j = 0; j < vocab; j++) {
            sum += row[j];
        }
        for (int32_t j = 0; j < vocab; j++) {
            row[j] /= sum;
        }
    }
}
