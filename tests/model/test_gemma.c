/* Gemma 3 in GGUF: the reference folder's model written as a converter would write it gives the
 * folder's numbers; and the words of its configuration, older and newer. */
#include "core/model/state.h"
#include "tests/model/reference_pass.h"
#include "tests/support/gguf_writer.h"

#define FOLDER "reference/tiny/gemma3_optional"
enum { TOKENS = 24 };

/* What folders and GGUF files call the vectors and matrices of a layer. */
static const char *const names[][2] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

/* Norms come with 1 added. */
static void put_weight(struct gguf_writer *file, const struct cop_safetensors *folder,
                       const char *from, const char *to)
{
    const struct cop_tensor *tensor = cop_safetensors_tensor(folder, from);
    cr_assert_not_null(tensor, "%s", from);
    float *values = malloc(tensor->bytes);
    memcpy(values, tensor->data, tensor->bytes);
    for (int64_t i = 0; tensor->rank == 1 && i < tensor->dims[0]; i++) {
        values[i] += 1;
    }
    gguf_put_tensor(file, to, GGML_F32, (uint32_t)tensor->rank, tensor->dims, values,
                    tensor->bytes);
    free(values);
}

static void put_weights(struct gguf_writer *file, const struct cop_safetensors *folder)
{
    char from[128], to[128];
    put_weight(file, folder, "model.embed_tokens.weight", "token_embd.weight");
    put_weight(file, folder, "model.norm.weight", "output_norm.weight");
    for (int32_t layer = 0; layer < 4; layer++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            (void)snprintf(from, sizeof from, "model.layers.%d.%s.weight", layer, names[i][0]);
            (void)snprintf(to, sizeof to, "blk.%d.%s.weight", layer, names[i][1]);
            put_weight(file, folder, from, to);
        }
    }
}

static struct gguf_writer *convert(void)
{
    static const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {
        {"gemma3.block_count", 4},
        {"gemma3.context_length", 512},
        {"gemma3.embedding_length", 48},
        {"gemma3.feed_forward_length", 80},
        {"gemma3.attention.head_count", 3},
        {"gemma3.attention.head_count_kv", 1},
        {"gemma3.attention.key_length", 16},
        {"gemma3.attention.value_length", 16},
        {"gemma3.attention.sliding_window", 6},
        {"gemma3.attention.sliding_window_pattern", 2},
    };
    struct cop_safetensors *folder = NULL;
    struct cop_error err = {0};
    cr_assert_eq(cop_safetensors_open(&folder, reference_path(FOLDER), &err), COP_OK, "%s",
                 err.text);
    struct gguf_writer *file = gguf_writer_new();
    gguf_put_string(file, "general.architecture", "gemma3");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        gguf_put_u32(file, sizes[i].key, sizes[i].value);
    }
    gguf_put_f32(file, "gemma3.rope.freq_base", 1e6f);
    gguf_put_f32(file, "gemma3.attention.layer_norm_rms_epsilon", 1e-6f);
    gguf_put_string(file, "tokenizer.ggml.model", "no_vocab");
    put_weights(file, folder);
    cop_safetensors_close(folder);
    return file;
}

Test(gemma, a_gguf_file_gives_the_folder_s_logits)
{
    cJSON *json = json_file(FOLDER "/reference.json");
    struct gguf_writer *file = convert();
    struct cop_model *model = open_model(gguf_save(file), COP_PRECISION_AUTO);
    struct cop_cache *cache = new_cache(model);
    int32_t n = 0, vocab = cop_model_info(model)->vocab_size;
    int32_t *ids = json_ints(json_get(json, "ids"), &n);
    float *logits = calloc((size_t)(TOKENS * vocab), sizeof *logits);
    cr_assert_eq(n, TOKENS);
    feed(model, cache, ids, n, n, logits);
    for (int32_t i = 0; i < TOKENS; i++) {
        double *expected = json_numbers(cJSON_GetArrayItem(json_get(json, "logits"), i), &n);
        for (int32_t k = 0; k < vocab; k++) {
            double got = (double)logits[i * vocab + k];
            cr_assert(fabs(got - expected[k]) <= 1e-4, "row %d, logit %d: %g, expected %g", i,
                      k, got, expected[k]);
        }
        free(expected);
    }
    free(logits);
    free(ids);
    cop_cache_free(cache);
    cop_model_free(model);
    gguf_writer_free(file);
    cJSON_Delete(json);
}

/* ---- config.json ------------------------------------------------------------------------- */

static enum cop_status read_config(struct cop_model *model, const char *extra,
                                   struct cop_error *err)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"model_type\":\"gemma3_text\",\"hidden_size\":64,\"num_hidden_layers\":7,"
                   "\"num_attention_heads\":8,\"intermediate_size\":96,\"vocab_size\":100%s}",
                   extra);
    memset(model, 0, sizeof *model);
    return cop_model_read_config(model, "config.json", text, strlen(text), err);
}

static struct cop_model good_config(const char *extra)
{
    struct cop_model model;
    struct cop_error err = {0};
    cr_assert_eq(read_config(&model, extra, &err), COP_OK, "%s: %s", extra, err.text);
    return model;
}

Test(gemma, what_is_missing_has_the_family_s_default)
{
    struct cop_model model = good_config("");
    cr_expect_eq(model.info.kv_heads, 4);
    cr_expect_eq(model.info.head_dim, 256);
    cr_expect_eq(model.info.trained_context, 131072);
    cr_expect_float_eq(model.info.rope_theta, 1e6, 0);
    cr_expect_float_eq(model.window_theta, 1e4, 0);
    cr_expect_float_eq(model.query_scalar, 256, 0);
    cr_expect_eq(model.presence[COP_IF_UNTIED], COP_PRESENCE_OPTIONAL);
    for (int32_t i = 0; i < 7; i++) {
        cr_expect_eq(model.windows[i], i == 5 ? 0 : 4096, "layer %d", i);
    }
    free(model.windows);
}

Test(gemma, older_and_newer_words_mean_the_same)
{
    static const char *const styles[] = {
        ",\"sliding_window\":9,\"sliding_window_pattern\":3,\"query_pre_attn_scalar\":168,"
        "\"rope_theta\":2e6,\"rope_local_base_freq\":5000,"
        "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}",
        ",\"sliding_window\":9,\"_sliding_window_pattern\":3,\"query_pre_attn_scalar\":168,"
        "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\",\"factor\":8,"
        "\"rope_theta\":2e6},\"sliding_attention\":{\"rope_type\":\"default\","
        "\"rope_theta\":5000}}"};
    for (int i = 0; i < 2; i++) {
        struct cop_model model = good_config(styles[i]);
        cr_expect_float_eq(model.info.rope_theta, 2e6, 0);
        cr_expect_float_eq(model.window_theta, 5000, 0);
        cr_expect_float_eq(model.query_scalar, 168, 0);
        cr_expect_eq(model.rope_scaling.kind, COP_ROPE_LINEAR);
        cr_expect_float_eq(model.rope_scaling.factor, 8, 0);
        for (int32_t k = 0; k < 7; k++) {
            cr_expect_eq(model.windows[k], k % 3 == 2 ? 0 : 9);
        }
        free(model.windows);
    }
}

Test(gemma, what_is_not_built_is_refused)
{
    static const char *const bad[][2] = {
        {",\"final_logit_softcapping\":30.0", "\"final_logit_softcapping\" is 30"},
        {",\"use_bidirectional_attention\":true", "\"use_bidirectional_attention\" is true"},
        {",\"hidden_activation\":\"silu\"", "known is gelu_pytorch_tanh"},
        {",\"sliding_window\":null", "\"sliding_window\" is null"},
        {",\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"linear\"}}",
         "\"rope_type\" is \"linear\""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct cop_model model;
        struct cop_error err = {0};
        cr_expect_neq(read_config(&model, bad[i][0], &err), COP_OK, "%s", bad[i][0]);
        cr_expect_not_null(strstr(err.text, bad[i][1]), "\"%s\" lacks \"%s\"", err.text,
                           bad[i][1]);
        free(model.windows);
    }
}
