/* llama.cpp's form of an EAGLE-3 head: one GGUF file, whose keys and names become those of a
 * checkpoint, so that one reader checks both.
 *
 *     eagle3.extract_layers [2, 16, 29]    the layers whose entering states it reads
 *     d2t                                  the ids themselves, not distances
 *     blk.0.attn_q, attn_k                 rows in pairs, for rotation of neighbours */
#include "algorithms/heads/carried/eagle.h"
#include "core/base/quote.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cop_alias aliases[] = {
    {"norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"embed_tokens.weight", "token_embd.weight"},
    {"midlayer.input_layernorm.weight", "blk.0.attn_norm.weight"},
    {"midlayer.hidden_norm.weight", "blk.0.attn_norm_2.weight"},
    {"midlayer.hidden_norm.weight", "blk.0.hidden_norm.weight"},
    {"midlayer.self_attn.q_proj.weight", "blk.0.attn_q.weight"},
    {"midlayer.self_attn.k_proj.weight", "blk.0.attn_k.weight"},
    {"midlayer.self_attn.v_proj.weight", "blk.0.attn_v.weight"},
    {"midlayer.self_attn.o_proj.weight", "blk.0.attn_output.weight"},
    {"midlayer.post_attention_layernorm.weight", "blk.0.ffn_norm.weight"},
    {"midlayer.mlp.gate_proj.weight", "blk.0.ffn_gate.weight"},
    {"midlayer.mlp.up_proj.weight", "blk.0.ffn_up.weight"},
    {"midlayer.mlp.down_proj.weight", "blk.0.ffn_down.weight"},
    {NULL, NULL}};

/* The configuration while it is written. */
struct writer {
    const struct cop_gguf *file;
    struct cop_error *err;
    char text[2048];
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void say(struct writer *out, const char *format,
                                                      ...)
{
    va_list args;
    va_start(args, format);
    int added = vsnprintf(out->text + out->used, sizeof out->text - out->used, format, args);
    va_end(args);
    out->used += added > 0 ? (size_t)added : 0;
    out->used = out->used < sizeof out->text ? out->used : sizeof out->text - 1;
}

/* "name": the integer of a key. fallback -1: it must be there; 0: left out. */
static enum cop_status say_integer(struct writer *out, const char *name, const char *key,
                                   int64_t fallback)
{
    int64_t value = 0;
    enum cop_status status = cop_gguf_int(out->file, key, 1, 1 << 24,
                                          fallback < 0 ? NULL : &fallback, &value, out->err);
    if (status == COP_OK && value > 0) {
        say(out, "\"%s\": %lld, ", name, (long long)value);
    }
    return status;
}

static enum cop_status say_number(struct writer *out, const char *name, const char *key,
                                  bool is_required)
{
    double value = 0;
    const double none = 0;
    enum cop_status status =
        cop_gguf_number(out->file, key, is_required ? NULL : &none, &value, out->err);
    if (status == COP_OK && value != 0) {
        say(out, "\"%s\": %.17g, ", name, value);
    }
    return status;
}

/* Of the file's own embedding, or of the tokenizer that was copied into it. */
static enum cop_status say_vocabulary(struct writer *out)
{
    const struct cop_tensor *embedding = cop_gguf_tensor(out->file, "token_embd.weight");
    struct cop_string *pieces = NULL;
    size_t count = 0;
    if (embedding && embedding->rank == 2) {
        count = (size_t)embedding->dims[1];
    } else if (cop_gguf_has(out->file, "tokenizer.ggml.tokens")) {
        enum cop_status status =
            cop_gguf_strings(out->file, "tokenizer.ggml.tokens", &pieces, &count, out->err);
        free(pieces);
        if (status != COP_OK) {
            return status;
        }
    } else {
        return say_integer(out, "vocab_size", "eagle3.vocab_size", -1);
    }
    say(out, "\"vocab_size\": %zu, ", count);
    return COP_OK;
}

static enum cop_status say_layers(struct writer *out)
{
    int64_t *layers = NULL;
    size_t count;
    enum cop_status status =
        cop_gguf_ints(out->file, "eagle3.extract_layers", &layers, &count, out->err);
    if (status == COP_OK) {
        say(out, "\"eagle_aux_hidden_state_layer_ids\": [");
        for (size_t i = 0; i < count && i <= COP_EAGLE_TAPS; i++) {
            say(out, i > 0 ? ", %lld" : "%lld", (long long)layers[i]);
        }
        say(out, "], ");
    }
    free(layers);
    return status;
}

static enum cop_status say_rest(struct writer *out)
{
    const int64_t no = 0;
    int64_t is_normed = 0;
    struct cop_string kind = {"none", 4};
    enum cop_status status =
        cop_gguf_int(out->file, "eagle3.norm_before_residual", 0, 1, &no, &is_normed, out->err);
    if (status == COP_OK && cop_gguf_has(out->file, "eagle3.rope.scaling.type")) {
        status = cop_gguf_string(out->file, "eagle3.rope.scaling.type", &kind, out->err);
    }
    if (status == COP_OK && (kind.length != 4 || memcmp(kind.bytes, "none", 4) != 0)) {
        char quoted[COP_QUOTE_SIZE];
        return cop_fail(out->err, COP_ERR_UNSUPPORTED,
                        "%s: \"eagle3.rope.scaling.type\" is \"%s\"; known are none, and "
                        "rope_freqs.weight",
                        cop_path_tail(cop_gguf_path(out->file), 160),
                        cop_quote(quoted, kind.bytes, kind.length));
    }
    say(out, "\"norm_before_residual\": %s, ", is_normed ? "true" : "false");
    return status;
}

static enum cop_status say_all(struct writer *out)
{
    static const struct {
        const char *name, *key;
        int64_t fallback;
    } integers[] = {
        {"hidden_size", "eagle3.embedding_length", -1},
        {"intermediate_size", "eagle3.feed_forward_length", -1},
        {"num_hidden_layers", "eagle3.block_count", -1},
        {"num_attention_heads", "eagle3.attention.head_count", -1},
        {"num_key_value_heads", "eagle3.attention.head_count_kv", 0},
        {"head_dim", "eagle3.attention.key_length", 0},
        {"target_hidden_size", "eagle3.target_hidden_size", 0},
        {"max_position_embeddings", "eagle3.context_length", 0},
    };
    enum cop_status status = COP_OK;
    say(out, "{\"architectures\": [\"LlamaForCausalLMEagle3\"], \"model_type\": \"llama\", ");
    for (size_t i = 0; status == COP_OK && i < sizeof integers / sizeof *integers; i++) {
        status = say_integer(out, integers[i].name, integers[i].key, integers[i].fallback);
    }
    if (status == COP_OK) {
        status =
            say_number(out, "rms_norm_eps", "eagle3.attention.layer_norm_rms_epsilon", true);
    }
    if (status == COP_OK) {
        status = say_number(out, "rope_theta", "eagle3.rope.freq_base", false);
    }
    if (status == COP_OK) {
        status = say_vocabulary(out);
    }
    if (status == COP_OK) {
        status = say_layers(out);
    }
    if (status == COP_OK) {
        status = say_rest(out);
    }
    say(out, "\"hidden_act\": \"silu\"}");
    return status;
}

enum cop_status cop_eagle_open_gguf(struct cop_checkpoint *out, const char *path,
                                    struct cop_error *err)
{
    *out = (struct cop_checkpoint){0};
    (void)snprintf(out->name, sizeof out->name, "%s", cop_path_tail(path, 160));
    enum cop_status status = cop_gguf_open(&out->source.gguf, path, err);
    if (status != COP_OK) {
        return status;
    }
    struct cop_string name;
    struct writer text = {.file = out->source.gguf, .err = err};
    out->source.aliases = aliases;
    status = cop_gguf_string(text.file, "general.architecture", &name, err);
    if (status == COP_OK && (name.length != 6 || memcmp(name.bytes, "eagle3", 6) != 0)) {
        char quoted[COP_QUOTE_SIZE];
        status = cop_fail(err, COP_ERR_FORMAT,
                          "%s: \"general.architecture\" is \"%s\"; a head of EAGLE says eagle3",
                          out->name, cop_quote(quoted, name.bytes, name.length));
    }
    if (status == COP_OK) {
        status = say_all(&text);
    }
    if (status == COP_OK) {
        status = cop_json_tree_read(&out->tree, text.text, text.used, err);
    }
    if (status != COP_OK) {
        cop_checkpoint_close(out);
    }
    return status;
}
