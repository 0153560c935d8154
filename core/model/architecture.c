/* The table of architectures. */
#include "core/model/architecture.h"
#include "core/base/quote.h"
#include <stdio.h>
#include <string.h>

#define VECTOR(slot, name, size)                                                               \
    {                                                                                          \
        COP_TENSOR_##slot, name, COP_EXTENT_NONE, COP_EXTENT_##size, 0                         \
    }
#define MATRIX(slot, name, rows, cols)                                                         \
    {                                                                                          \
        COP_TENSOR_##slot, name, COP_EXTENT_##rows, COP_EXTENT_##cols, 0                       \
    }
#define MAYBE(slot, name, size)                                                                \
    {                                                                                          \
        COP_TENSOR_##slot, name, COP_EXTENT_NONE, COP_EXTENT_##size, 1                         \
    }

static const struct cop_tensor_rule decoder[] = {
    MATRIX(EMBEDDING, "token_embd.weight", VOCAB, WIDTH),
    VECTOR(OUTPUT_NORM, "output_norm.weight", WIDTH),
    {COP_TENSOR_OUTPUT, "output.weight", COP_EXTENT_VOCAB, COP_EXTENT_WIDTH, true},
    MAYBE(ROPE_FACTORS, "rope_freqs.weight", HALF_ROPE),
    VECTOR(ATTENTION_NORM, "attn_norm.weight", WIDTH),
    MATRIX(Q, "attn_q.weight", QUERY, WIDTH),
    MATRIX(K, "attn_k.weight", KEY, WIDTH),
    MATRIX(V, "attn_v.weight", KEY, WIDTH),
    MATRIX(ATTENTION_OUT, "attn_output.weight", WIDTH, QUERY),
    VECTOR(FFN_NORM, "ffn_norm.weight", WIDTH),
    MATRIX(GATE, "ffn_gate.weight", FFN, WIDTH),
    MATRIX(UP, "ffn_up.weight", FFN, WIDTH),
    MATRIX(DOWN, "ffn_down.weight", WIDTH, FFN),
    {0},
};

/* Some members of the llama family have biases; no key says so. */
static const struct cop_tensor_rule optional_biases[] = {
    MAYBE(Q_BIAS, "attn_q.bias", QUERY),
    MAYBE(K_BIAS, "attn_k.bias", KEY),
    MAYBE(V_BIAS, "attn_v.bias", KEY),
    MAYBE(ATTENTION_OUT_BIAS, "attn_output.bias", WIDTH),
    MAYBE(GATE_BIAS, "ffn_gate.bias", FFN),
    MAYBE(UP_BIAS, "ffn_up.bias", FFN),
    MAYBE(DOWN_BIAS, "ffn_down.bias", WIDTH),
    {0},
};

static const struct cop_tensor_rule qkv_biases[] = {
    VECTOR(Q_BIAS, "attn_q.bias", QUERY),
    VECTOR(K_BIAS, "attn_k.bias", KEY),
    VECTOR(V_BIAS, "attn_v.bias", KEY),
    {0},
};

static const struct cop_tensor_rule qk_norms[] = {
    VECTOR(Q_NORM, "attn_q_norm.weight", HEAD),
    VECTOR(K_NORM, "attn_k_norm.weight", HEAD),
    {0},
};

/* Files of "llama" have the rows of Q and K permuted for interleaved pairs, the others do not.
 */
static const struct cop_architecture architectures[] = {
    {"llama", true, true, {decoder, optional_biases}},
    {"qwen2", false, false, {decoder, qkv_biases}},
    {"qwen3", false, false, {decoder, qk_norms}},
};
enum { N_ARCHITECTURES = sizeof architectures / sizeof *architectures };

static enum cop_status fail_unknown(const struct cop_gguf *file, struct cop_string name,
                                    struct cop_error *err)
{
    char quoted[COP_QUOTE_SIZE], known[200] = "";
    size_t length = 0;
    for (size_t i = 0; i < N_ARCHITECTURES && length < sizeof known; i++) {
        length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", i ? ", " : "",
                                   architectures[i].name);
    }
    return cop_fail(err, COP_ERR_UNSUPPORTED, "%s: no architecture \"%s\" here; known ones: %s",
                    cop_path_tail(cop_gguf_path(file), 200),
                    cop_quote(quoted, name.bytes, name.length), known);
}

enum cop_status cop_architecture_find(const struct cop_architecture **out,
                                      const struct cop_gguf *file, struct cop_error *err)
{
    struct cop_string name;
    enum cop_status status = cop_gguf_string(file, "general.architecture", &name, err);
    if (status != COP_OK) {
        return status;
    }
    for (size_t i = 0; i < N_ARCHITECTURES; i++) {
        if (strlen(architectures[i].name) == name.length &&
            memcmp(architectures[i].name, name.bytes, name.length) == 0) {
            *out = &architectures[i];
            return COP_OK;
        }
    }
    return fail_unknown(file, name, err);
}

/* Splits "blk.12.attn_q.weight" into 12 and the rest; -1 and the whole for any other name. */
static int32_t split_layer(struct cop_string *name)
{
    static const char prefix[] = "blk.";
    size_t at = sizeof prefix - 1;
    if (name->length <= at || memcmp(name->bytes, prefix, at) != 0) {
        return -1;
    }
    int32_t layer = 0, digits = 0;
    for (; at < name->length && digits < 6; at++, digits++) {
        char c = name->bytes[at];
        if (c < '0' || c > '9') {
            break;
        }
        layer = 10 * layer + (c - '0');
    }
    if (digits == 0 || at >= name->length || name->bytes[at] != '.') {
        return -1;
    }
    name->bytes += at + 1;
    name->length -= at + 1;
    return layer;
}

const struct cop_tensor_rule *cop_architecture_rule(const struct cop_architecture *architecture,
                                                    struct cop_string name, int32_t n_layers,
                                                    int32_t *layer)
{
    *layer = split_layer(&name);
    if (*layer >= n_layers) {
        return NULL;
    }
    for (size_t g = 0; g < sizeof architecture->groups / sizeof *architecture->groups; g++) {
        const struct cop_tensor_rule *rule = architecture->groups[g];
        for (; rule && rule->name; rule++) {
            bool is_of_layer = rule->slot < COP_TENSORS_PER_LAYER;
            if (is_of_layer == (*layer >= 0) && strlen(rule->name) == name.length &&
                memcmp(rule->name, name.bytes, name.length) == 0) {
                return rule;
            }
        }
    }
    return NULL;
}
