/* The table of architectures. */
#include "core/model/architecture.h"
#include "core/base/quote.h"
#include <stdio.h>
#include <string.h>

#define VECTOR(slot, name, folder_name, size, condition)                                       \
    {                                                                                          \
        COP_TENSOR_##slot, {name, folder_name}, COP_EXTENT_NONE, COP_EXTENT_##size,            \
            COP_##condition                                                                    \
    }
#define MATRIX(slot, name, folder_name, rows, cols, condition)                                 \
    {                                                                                          \
        COP_TENSOR_##slot, {name, folder_name}, COP_EXTENT_##rows, COP_EXTENT_##cols,          \
            COP_##condition                                                                    \
    }
#define END                                                                                    \
    {                                                                                          \
        COP_TENSOR_COUNT, {NULL, NULL}, COP_EXTENT_NONE, COP_EXTENT_NONE, COP_ALWAYS           \
    }

/* What stands before the number of a layer in the names of its tensors. */
static const char *const layer_prefixes[COP_NAMING_COUNT] = {"blk.", "model.layers."};

static const struct cop_tensor_rule decoder[] = {
    MATRIX(EMBEDDING, "token_embd.weight", "model.embed_tokens.weight", VOCAB, WIDTH, ALWAYS),
    VECTOR(OUTPUT_NORM, "output_norm.weight", "model.norm.weight", WIDTH, ALWAYS),
    MATRIX(OUTPUT, "output.weight", "lm_head.weight", VOCAB, WIDTH, IF_UNTIED),
    VECTOR(ROPE_FACTORS, "rope_freqs.weight", NULL, HALF_ROPE, MAYBE),
    VECTOR(ATTENTION_NORM, "attn_norm.weight", "input_layernorm.weight", WIDTH, ALWAYS),
    MATRIX(Q, "attn_q.weight", "self_attn.q_proj.weight", QUERY, INPUT, ALWAYS),
    MATRIX(K, "attn_k.weight", "self_attn.k_proj.weight", KEY, INPUT, ALWAYS),
    MATRIX(V, "attn_v.weight", "self_attn.v_proj.weight", KEY, INPUT, ALWAYS),
    MATRIX(ATTENTION_OUT, "attn_output.weight", "self_attn.o_proj.weight", WIDTH, QUERY,
           ALWAYS),
    MATRIX(GATE, "ffn_gate.weight", "mlp.gate_proj.weight", FFN, WIDTH, ALWAYS),
    MATRIX(UP, "ffn_up.weight", "mlp.up_proj.weight", FFN, WIDTH, ALWAYS),
    MATRIX(DOWN, "ffn_down.weight", "mlp.down_proj.weight", WIDTH, FFN, ALWAYS),
    END,
};

/* The norm in front of the feed-forward part; folders name it after where it stands. */
static const struct cop_tensor_rule one_norm[] = {
    VECTOR(FFN_NORM, "ffn_norm.weight", "post_attention_layernorm.weight", WIDTH, ALWAYS),
    END,
};

/* Norms in front of both parts and behind both. */
static const struct cop_tensor_rule three_norms[] = {
    VECTOR(POST_ATTENTION_NORM, "post_attention_norm.weight", "post_attention_layernorm.weight",
           WIDTH, ALWAYS),
    VECTOR(FFN_NORM, "ffn_norm.weight", "pre_feedforward_layernorm.weight", WIDTH, ALWAYS),
    VECTOR(POST_FFN_NORM, "post_ffw_norm.weight", "post_feedforward_layernorm.weight", WIDTH,
           ALWAYS),
    END,
};

static const struct cop_tensor_rule qkv_biases[] = {
    VECTOR(Q_BIAS, "attn_q.bias", "self_attn.q_proj.bias", QUERY, ALWAYS),
    VECTOR(K_BIAS, "attn_k.bias", "self_attn.k_proj.bias", KEY, ALWAYS),
    VECTOR(V_BIAS, "attn_v.bias", "self_attn.v_proj.bias", KEY, ALWAYS),
    END,
};

/* Some members of these families have biases. */
static const struct cop_tensor_rule attention_biases[] = {
    VECTOR(Q_BIAS, "attn_q.bias", "self_attn.q_proj.bias", QUERY, IF_ATTENTION_BIAS),
    VECTOR(K_BIAS, "attn_k.bias", "self_attn.k_proj.bias", KEY, IF_ATTENTION_BIAS),
    VECTOR(V_BIAS, "attn_v.bias", "self_attn.v_proj.bias", KEY, IF_ATTENTION_BIAS),
    VECTOR(ATTENTION_OUT_BIAS, "attn_output.bias", "self_attn.o_proj.bias", WIDTH,
           IF_ATTENTION_BIAS),
    END,
};

static const struct cop_tensor_rule mlp_biases[] = {
    VECTOR(GATE_BIAS, "ffn_gate.bias", "mlp.gate_proj.bias", FFN, IF_MLP_BIAS),
    VECTOR(UP_BIAS, "ffn_up.bias", "mlp.up_proj.bias", FFN, IF_MLP_BIAS),
    VECTOR(DOWN_BIAS, "ffn_down.bias", "mlp.down_proj.bias", WIDTH, IF_MLP_BIAS),
    END,
};

static const struct cop_tensor_rule qk_norms[] = {
    VECTOR(Q_NORM, "attn_q_norm.weight", "self_attn.q_norm.weight", HEAD, ALWAYS),
    VECTOR(K_NORM, "attn_k_norm.weight", "self_attn.k_norm.weight", HEAD, ALWAYS),
    END,
};

/* GGUF files of "llama" have the rows of Q and K permuted for interleaved pairs, the others do
 * not; those of Mistral's models say "llama" too, a few of them "mistral". */
static const struct cop_architecture architectures[] = {
    {.name = "llama",
     .class_name = "LlamaForCausalLM",
     .is_in_gguf = true,
     .is_rope_interleaved = true,
     .has_window = true,
     .window_rule = COP_WINDOW_NEVER,
     .defaults = {.positions = 2048},
     .groups = {decoder, one_norm, attention_biases, mlp_biases}},
    {.name = "mistral",
     .class_name = "MistralForCausalLM",
     .is_in_gguf = true,
     .is_rope_interleaved = true,
     .has_window = true,
     .window_rule = COP_WINDOW_STATED,
     .defaults = {.kv_heads = 8, .positions = 131072, .window = 4096},
     .groups = {decoder, one_norm}},
    {.name = "qwen2",
     .class_name = "Qwen2ForCausalLM",
     .is_in_gguf = true,
     .window_rule = COP_WINDOW_SWITCHED,
     .defaults = {.kv_heads = 32, .positions = 32768, .window = 4096, .first_window_layer = 28},
     .groups = {decoder, one_norm, qkv_biases}},
    {.name = "qwen3",
     .class_name = "Qwen3ForCausalLM",
     .is_in_gguf = true,
     .window_rule = COP_WINDOW_SWITCHED,
     .defaults = {.kv_heads = 32,
                  .head_dim = 128,
                  .positions = 32768,
                  .window = 4096,
                  .first_window_layer = 28},
     .groups = {decoder, one_norm, qk_norms, attention_biases}},
    {.name = "dflash",
     .class_name = "",
     .is_in_gguf = true,
     .is_drafter = true,
     .has_window = true,
     .window_rule = COP_WINDOW_NEVER,
     .groups = {decoder, one_norm, qk_norms, attention_biases}},
    {.name = "gemma3",
     .model_type = "gemma3_text",
     .class_name = "Gemma3ForCausalLM",
     .is_in_gguf = true,
     .is_gelu = true,
     .is_embedding_scaled = true,
     .is_norm_offset = true,
     .has_window = true,
     .window_rule = COP_WINDOW_PATTERN,
     .defaults = {.kv_heads = 4,
                  .head_dim = 256,
                  .positions = 131072,
                  .window = 4096,
                  .window_pattern = 6,
                  .rope_theta = 1e6,
                  .query_scalar = 256,
                  .is_tied = true},
     .groups = {decoder, three_norms, qk_norms}},
};
enum { N_ARCHITECTURES = sizeof architectures / sizeof *architectures };

static bool is_known(const struct cop_architecture *architecture, enum cop_naming naming)
{
    return naming == COP_NAMING_FOLDER ? !architecture->is_drafter : architecture->is_in_gguf;
}

/* What files of a kind call it. */
static const char *name_in(const struct cop_architecture *architecture, enum cop_naming naming)
{
    return naming == COP_NAMING_FOLDER && architecture->model_type ? architecture->model_type
                                                                   : architecture->name;
}

static enum cop_status fail_unknown(const char *file, struct cop_string name,
                                    enum cop_naming naming, struct cop_error *err)
{
    char quoted[COP_QUOTE_SIZE], known[200] = "";
    size_t length = 0;
    for (size_t i = 0; i < N_ARCHITECTURES && length < sizeof known; i++) {
        if (is_known(&architectures[i], naming) && !architectures[i].is_drafter) {
            length +=
                (size_t)snprintf(known + length, sizeof known - length, "%s%s",
                                 length > 0 ? ", " : "", name_in(&architectures[i], naming));
        }
    }
    return cop_fail(err, COP_ERR_UNSUPPORTED, "%s: no architecture \"%s\" here; known ones: %s",
                    file, cop_quote(quoted, name.bytes, name.length), known);
}

enum cop_status cop_architecture_find(const struct cop_architecture **out,
                                      struct cop_string name, enum cop_naming naming,
                                      const char *file, struct cop_error *err)
{
    for (size_t i = 0; i < N_ARCHITECTURES; i++) {
        const char *known = name_in(&architectures[i], naming);
        if (is_known(&architectures[i], naming) && strlen(known) == name.length &&
            memcmp(known, name.bytes, name.length) == 0) {
            *out = &architectures[i];
            return COP_OK;
        }
    }
    return fail_unknown(file, name, naming, err);
}

/* ---- Names of tensors -------------------------------------------------------------------- */

const char *cop_architecture_tensor_name(char buffer[COP_TENSOR_NAME_SIZE],
                                         const struct cop_tensor_rule *rule,
                                         enum cop_naming naming, int32_t layer)
{
    if (layer >= 0) {
        (void)snprintf(buffer, COP_TENSOR_NAME_SIZE, "%s%d.%s", layer_prefixes[naming], layer,
                       rule->names[naming]);
    } else {
        (void)snprintf(buffer, COP_TENSOR_NAME_SIZE, "%s", rule->names[naming]);
    }
    return buffer;
}

/* Splits "blk.12.attn_q.weight" into 12 and the rest; -1 and the whole for any other name. */
static int32_t split_layer(enum cop_naming naming, struct cop_string *name)
{
    const char *prefix = layer_prefixes[naming];
    size_t at = strlen(prefix);
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
    bool is_padded = digits > 1 && name->bytes[at - (size_t)digits] == '0';
    if (digits == 0 || is_padded || at >= name->length || name->bytes[at] != '.') {
        return -1;
    }
    name->bytes += at + 1;
    name->length -= at + 1;
    return layer;
}

static bool is_named(const struct cop_tensor_rule *rule, enum cop_naming naming,
                     struct cop_string name)
{
    const char *own = rule->names[naming];
    return own && strlen(own) == name.length && memcmp(own, name.bytes, name.length) == 0;
}

const struct cop_tensor_rule *cop_architecture_rule(const struct cop_architecture *architecture,
                                                    enum cop_naming naming,
                                                    struct cop_string name, int32_t n_layers,
                                                    int32_t *layer)
{
    *layer = split_layer(naming, &name);
    if (*layer >= n_layers) {
        return NULL;
    }
    for (size_t g = 0; g < sizeof architecture->groups / sizeof *architecture->groups; g++) {
        const struct cop_tensor_rule *rule = architecture->groups[g];
        for (; rule && rule->slot != COP_TENSOR_COUNT; rule++) {
            bool is_of_layer = rule->slot < COP_TENSORS_PER_LAYER;
            if (is_of_layer == (*layer >= 0) && is_named(rule, naming, name)) {
                return rule;
            }
        }
    }
    return NULL;
}
