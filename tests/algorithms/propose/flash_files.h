/* Drafters of DFlash and DSpark as files: folders of three styles, and GGUF. */
#ifndef TESTS_ALGORITHMS_FLASH_FILES_H
#define TESTS_ALGORITHMS_FLASH_FILES_H

#include "tests/algorithms/propose/masked_bench.h"

enum folder_kind { Z_LAB, DEEPSPEC, SPECULATORS };
enum chain_kind { NO_CHAIN, VANILLA, GATED, RECURRENT };
enum { RANK = 6 };

struct flash_kind {
    enum folder_kind folder;
    enum chain_kind chain;
    int32_t layers, n_ids; /* n_ids 0: all, without a map */
    bool has_ends, is_causal, has_trust;
};
static const struct flash_kind flashes[] = {
    {.folder = Z_LAB, .layers = 2},
    {.folder = Z_LAB, .layers = 1, .is_causal = true},
    {.folder = SPECULATORS, .layers = 3, .n_ids = 20, .has_ends = true},
    {.folder = SPECULATORS, .chain = VANILLA, .layers = 2, .n_ids = 20, .has_ends = true},
    {.folder = DEEPSPEC, .chain = VANILLA, .layers = 1},
    {.folder = DEEPSPEC, .chain = GATED, .layers = 2, .has_ends = true, .has_trust = true},
    {.folder = DEEPSPEC, .chain = RECURRENT, .layers = 1},
};
enum { N_FLASHES = sizeof flashes / sizeof *flashes };

static UNUSED_FUNCTION bool is_anchored(const struct flash_kind *kind)
{
    return kind->folder == DEEPSPEC || (kind->folder == SPECULATORS && kind->chain != NO_CHAIN);
}

static UNUSED_FUNCTION void write_flash_config(char *text, size_t size,
                                               const struct flash_kind *kind)
{
    static const char *const chains[] = {"none", "vanilla", "gated", "rnn"};
    char layer[512], chain[256] = "";
    (void)snprintf(layer, sizeof layer,
                   "\"model_type\": \"qwen3\", \"hidden_size\": 32, \"intermediate_size\": 48, "
                   "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8, "
                   "\"vocab_size\": 61, \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000, "
                   "\"num_hidden_layers\": %d",
                   kind->layers);
    if (kind->chain != NO_CHAIN) {
        (void)snprintf(chain, sizeof chain,
                       ", \"markov_rank\": %d, \"markov_head_type\": \"%s\", "
                       "\"enable_confidence_head\": %s, \"confidence_head_with_markov\": true",
                       RANK, chains[kind->chain], kind->has_trust ? "true" : "false");
    }
    if (kind->folder == Z_LAB) {
        (void)snprintf(text, size,
                       "{%s, \"block_size\": 5, \"num_target_layers\": 3%s, \"dflash_config\": "
                       "{\"mask_token_id\": 7, \"target_layer_ids\": [0, 1, 2]}}",
                       layer, kind->is_causal ? ", \"is_causal\": true" : "");
    } else if (kind->folder == DEEPSPEC) {
        (void)snprintf(text, size,
                       "{%s, \"block_size\": 4, \"mask_token_id\": 7, \"target_layer_ids\": "
                       "[-1, 0, 1], \"num_anchors\": 512%s}",
                       layer, chain);
    } else {
        (void)snprintf(text, size,
                       "{\"speculators_model_type\": \"%s\", \"transformer_layer_config\": "
                       "{%s}, \"draft_vocab_size\": 20, \"block_size\": %d, "
                       "\"aux_hidden_state_layer_ids\": [0, 1, 2], \"mask_token_id\": 7%s}",
                       kind->chain ? "dspark" : "dflash", layer, kind->chain ? 4 : 5, chain);
    }
}

static UNUSED_FUNCTION void add_chain(struct dl_tensors *t, const struct flash_kind *kind,
                                      int32_t n_ids)
{
    static const char head[] = "markov_head.";
    dl_add(t, VOCAB, RANK, "%smarkov_w1.weight", head);
    dl_add(t, n_ids, RANK, "%smarkov_w2.weight", head);
    if (kind->chain == GATED) {
        dl_add(t, RANK, DL_WIDTH + RANK, "%sgate_proj.weight", head);
        dl_add(t, 0, RANK, "%sgate_proj.bias", head);
    }
    if (kind->chain == RECURRENT) {
        dl_add(t, 3 * RANK, DL_WIDTH + 2 * RANK, "%sjoint_proj.weight", head);
        dl_add(t, 0, 3 * RANK, "%sjoint_proj.bias", head);
    }
    if (kind->has_trust) {
        dl_add(t, 1, DL_WIDTH + RANK, "confidence_head.proj.weight");
        dl_add(t, 0, 1, "confidence_head.proj.bias");
    }
}

static UNUSED_FUNCTION struct head_folder *
write_flash(struct dl_tensors *t, const struct flash_kind *kind, const char *drop)
{
    char config[2048], prefix[32];
    int32_t n_ids = kind->n_ids > 0 ? kind->n_ids : VOCAB;
    t->n = 0;
    for (int32_t i = 0; i < kind->layers; i++) {
        (void)snprintf(prefix, sizeof prefix, "layers.%d.", i);
        dl_add_layer(t, prefix, DL_WIDTH, true);
    }
    dl_add(t, DL_WIDTH, TAPS * DL_WIDTH, "fc.weight");
    dl_add(t, 0, DL_WIDTH, "hidden_norm.weight");
    dl_add(t, 0, DL_WIDTH, "norm.weight");
    if (kind->has_ends) {
        dl_add(t, n_ids, DL_WIDTH, "lm_head.weight");
        dl_add(t, VOCAB, DL_WIDTH, "embed_tokens.weight");
    }
    if (kind->chain != NO_CHAIN) {
        add_chain(t, kind, n_ids);
    }
    write_flash_config(config, sizeof config, kind);
    struct head_folder *folder = head_folder_new(config);
    dl_put(t, folder, drop);
    if (kind->n_ids > 0) {
        put_map(folder, n_ids);
    }
    head_folder_save(folder, "model.safetensors");
    return folder;
}

/* ---- GGUF -------------------------------------------------------------------------------- */

static const struct {
    const char *folder, *gguf; /* ends of names; of a layer's tensor behind its number */
} renamed[] = {
    {"hidden_norm.weight", "enc.output_norm.weight"},
    {"input_layernorm.weight", "attn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"norm.weight", "output_norm.weight"},
    {"markov_head.markov_w1.weight", "markov_w1.weight"},
    {"markov_head.markov_w2.weight", "markov_w2.weight"},
};

static const char *gguf_name(char name[96], const char *folder)
{
    int32_t layer = -1, used = 0;
    (void)snprintf(name, 96, "%s", folder);
    if (sscanf(folder, "layers.%d.%n", &layer, &used) == 1) {
        folder += used;
    }
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        if (strcmp(renamed[i].folder, folder) == 0 && layer >= 0) {
            (void)snprintf(name, 96, "blk.%d.%s", layer, renamed[i].gguf);
        } else if (strcmp(renamed[i].folder, folder) == 0) {
            (void)snprintf(name, 96, "%s", renamed[i].gguf);
        }
    }
    return name;
}

static UNUSED_FUNCTION struct gguf_writer *write_flash_gguf(const struct dl_tensors *t,
                                                            const struct flash_kind *kind)
{
    static const uint32_t outputs[] = {1, 2, 3}, inputs[] = {0, 1, 2};
    struct gguf_writer *file = gguf_writer_new();
    gguf_put_string(file, "general.architecture", "dflash");
    gguf_put_u32(file, "dflash.block_count", (uint32_t)kind->layers);
    gguf_put_u32(file, "dflash.embedding_length", DL_WIDTH);
    gguf_put_u32(file, "dflash.feed_forward_length", DL_FFN);
    gguf_put_u32(file, "dflash.attention.head_count", DL_HEADS);
    gguf_put_u32(file, "dflash.attention.head_count_kv", DL_KV);
    gguf_put_u32(file, "dflash.attention.key_length", DL_DIM);
    gguf_put_u32(file, "dflash.attention.value_length", DL_DIM);
    gguf_put_u32(file, "dflash.context_length", 512);
    gguf_put_f32(file, "dflash.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_put_f32(file, "dflash.rope.freq_base", 10000);
    gguf_put_u32(file, "dflash.block_size", is_anchored(kind) ? 4 : 5);
    gguf_put_bool(file, "dflash.attention.causal", kind->is_causal);
    gguf_put_array(file, "dflash.target_layers", GGUF_U32,
                   kind->folder == Z_LAB ? outputs : inputs, 3);
    gguf_put_u32(file, "tokenizer.ggml.mask_token_id", MASK);
    for (int32_t i = 0; i < t->n; i++) {
        const struct dl_tensor *tensor = &t->items[i];
        char name[96];
        const int64_t dims[] = {tensor->cols, tensor->rows};
        size_t n = (size_t)tensor->cols * (size_t)(tensor->rows > 0 ? tensor->rows : 1);
        gguf_put_tensor(file, gguf_name(name, tensor->name), GGML_F32, tensor->rows > 0 ? 2 : 1,
                        dims, tensor->data, n * sizeof(float));
    }
    return file;
}

#endif
