/* config.json: what its keys and their absence mean, old and new words, one message for each
 * lie; and whole folders with faults in them. */
#include "core/model/state.h"
#include "tests/support/mutate.h"
#include "tests/support/tiny_model.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(config, .timeout = 120);

static enum cop_status read_text(struct cop_model *model, const char *text, size_t length,
                                 struct cop_error *err)
{
    memset(model, 0, sizeof *model);
    return cop_model_read_config(model, "config.json", text, length, err);
}

/* The least of a configuration: `extra` ends it and comes last, so it wins. */
static void least(char text[2048], const char *kind, const char *extra)
{
    (void)snprintf(text, 2048,
                   "{\"model_type\":\"%s\",\"hidden_size\":64,\"num_hidden_layers\":4,"
                   "\"num_attention_heads\":8,\"intermediate_size\":96,\"vocab_size\":100%s}",
                   kind, extra);
}

static struct cop_model read_good(const char *kind, const char *extra)
{
    char text[2048];
    struct cop_model model;
    struct cop_error err = {.text = ""};
    least(text, kind, extra);
    cr_assert_eq(read_text(&model, text, strlen(text), &err), COP_OK, "%s: %s", text, err.text);
    return model;
}

static void expect_bad(const char *kind, const char *extra, enum cop_status status,
                       const char *word)
{
    char text[2048];
    struct cop_model model;
    struct cop_error err = {.text = ""};
    least(text, kind, extra);
    cr_expect_eq(read_text(&model, text, strlen(text), &err), status, "%s: %s", text, err.text);
    cr_expect_not_null(strstr(err.text, word), "\"%s\" lacks \"%s\"", err.text, word);
    free(model.windows);
}

/* ---- What keys mean ---------------------------------------------------------------------- */

Test(config, what_is_missing_has_the_family_s_default)
{
    struct cop_model llama = read_good("llama", "");
    cr_expect_eq(llama.info.kv_heads, 8);
    cr_expect_eq(llama.info.head_dim, 8);
    cr_expect_eq(llama.info.trained_context, 2048);
    cr_expect_float_eq(llama.info.norm_epsilon, 1e-6, 1e-15);
    cr_expect_float_eq(llama.info.rope_theta, 10000, 0);
    cr_expect_eq(llama.rope_scaling.kind, COP_ROPE_PLAIN);
    cr_expect_eq(llama.presence[COP_IF_ATTENTION_BIAS], COP_PRESENCE_REFUSED);
    cr_expect_eq(llama.presence[COP_IF_UNTIED], COP_PRESENCE_REQUIRED);
    cr_expect_not(llama.rope.is_interleaved);
    free(llama.windows);
    struct cop_model mistral = read_good("mistral", "");
    cr_expect_eq(mistral.info.kv_heads, 8);
    cr_expect_eq(mistral.windows[0], 4096);
    free(mistral.windows);
    struct cop_model qwen = read_good("qwen3", ",\"num_key_value_heads\":null");
    cr_expect_eq(qwen.info.kv_heads, 8);
    cr_expect_eq(qwen.info.head_dim, 128);
    cr_expect_eq(qwen.windows[3], 0);
    free(qwen.windows);
}

Test(config, the_mask_of_a_parallel_draft)
{
    struct cop_model none = read_good("llama", ""),
                     some = read_good("llama", ",\"pard_token\":0");
    cr_expect_eq(none.info.mask_token, -1);
    cr_expect_eq(some.info.mask_token, 0);
    free(none.windows);
    free(some.windows);
    expect_bad("llama", ",\"pard_token\":-1", COP_ERR_FORMAT, "\"pard_token\" is -1");
    expect_bad("llama", ",\"pard_token\":\"<mask>\"", COP_ERR_FORMAT,
               "an id of the vocabulary");
}

Test(config, windows_by_layer)
{
    static const struct {
        const char *kind, *extra;
        int32_t windows[4];
    } rows[] = {
        {"llama", ",\"sliding_window\":7", {0, 0, 0, 0}},
        {"mistral", ",\"sliding_window\":7", {7, 7, 7, 7}},
        {"mistral", ",\"sliding_window\":null", {0, 0, 0, 0}},
        {"mistral",
         ",\"sliding_window\":7,\"layer_types\":[\"full_attention\",\"sliding_attention\","
         "\"full_attention\",\"sliding_attention\"]",
         {0, 7, 0, 7}},
        {"qwen2", ",\"num_key_value_heads\":8,\"sliding_window\":7", {0, 0, 0, 0}},
        {"qwen2",
         ",\"num_key_value_heads\":8,\"sliding_window\":7,\"use_sliding_window\":true,"
         "\"max_window_layers\":3",
         {0, 0, 0, 7}},
        {"qwen2",
         ",\"num_key_value_heads\":8,\"sliding_window\":7,\"use_sliding_window\":true",
         {0, 0, 0, 0}},
        {"qwen2",
         ",\"num_key_value_heads\":8,\"sliding_window\":7,\"use_sliding_window\":false,"
         "\"max_window_layers\":0",
         {0, 0, 0, 0}},
        {"qwen3",
         ",\"num_key_value_heads\":8,\"sliding_window\":7,\"use_sliding_window\":true,"
         "\"max_window_layers\":0,\"layer_types\":[\"sliding_attention\",\"full_attention\","
         "\"full_attention\",\"full_attention\"]",
         {7, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cop_model model = read_good(rows[i].kind, rows[i].extra);
        for (int32_t layer = 0; layer < 4; layer++) {
            cr_expect_eq(model.windows[layer], rows[i].windows[layer], "row %zu, layer %d", i,
                         layer);
        }
        free(model.windows);
    }
}

/* Cosine and sine of position 5, pair by pair, computed by hand from the published formulas. */
static void expect_rope(const char *extra, const double *frequencies, double size)
{
    struct cop_model model = read_good("llama", extra);
    struct cop_error err = {.text = ""};
    model.info.context = 6;
    cr_assert_eq(cop_model_make_rope(&model, &err), COP_OK);
    for (int32_t i = 0; i < 4; i++) {
        cr_expect_float_eq((double)model.rope.cosines[20 + i], size * cos(5 * frequencies[i]),
                           1e-6, "%s: pair %d", extra, i);
        cr_expect_float_eq((double)model.rope.sines[20 + i], size * sin(5 * frequencies[i]),
                           1e-6, "%s: pair %d", extra, i);
    }
    free(model.rope_table);
    free(model.windows);
}

#define LLAMA3                                                                                 \
    "\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"                               \
    "\"original_max_position_embeddings\":256"
#define YARN "\"factor\":4,\"original_max_position_embeddings\":512"

Test(config, rotary_frequencies)
{
    static const double plain[] = {1, 0.1, 0.01, 0.001}, linear[] = {0.5, 0.05, 0.005, 0.0005};
    static const double theta[] = {1, 0.01, 0.0001, 0.000001};
    /* Turns in 256 positions: 40.7, 4.07, 0.407, 0.0407. */
    static const double llama3[] = {1, 0.1, 0.00125, 0.000125};
    /* Borders at pairs floor(0.41) and ceil(1.91); without rounding pair 1 is 0.3946 along. */
    static const double yarn[] = {1, 0.0625, 0.0025, 0.00025};
    static const double unrounded[] = {1, 0.07039863663460479, 0.0025, 0.00025};
    const double growth = 0.1 * log(4) + 1;
    expect_rope("", plain, 1);
    expect_rope(",\"rope_scaling\":null,\"rope_theta\":1e8", theta, 1);
    expect_rope(",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":1e8}", theta,
                1);
    expect_rope(",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.0}", linear, 1);
    expect_rope(",\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2}", linear, 1);
    expect_rope(",\"rope_scaling\":{\"rope_type\":\"llama3\"," LLAMA3 "}", llama3, 1);
    expect_rope(",\"rope_scaling\":{\"type\":\"yarn\"," YARN "}", yarn, growth);
    expect_rope(",\"rope_parameters\":{\"rope_type\":\"yarn\",\"truncate\":false," YARN "}",
                unrounded, growth);
    expect_rope(",\"rope_scaling\":{\"type\":\"yarn\",\"attention_factor\":0.5," YARN "}", yarn,
                0.5);
    expect_rope(",\"rope_scaling\":{\"type\":\"yarn\",\"mscale\":2,\"mscale_all_dim\":1," YARN
                "}",
                yarn, (0.2 * log(4) + 1) / growth);
}

/* The angles of a GGUF file's keys: heads of 8, 512 positions. */
static void expect_gguf_rope(const struct tiny_edit *edits, int32_t n_edits,
                             const double frequencies[4], double size)
{
    struct gguf_writer *file =
        tiny_model_new(&(struct tiny_model){.seed = 1, .edits = edits, .n_edits = n_edits});
    struct cop_model *model = NULL;
    struct cop_error err = {.text = ""};
    const struct cop_model_options options = {.path = gguf_save(file), .threads = 1};
    cr_assert_eq(cop_model_open(&model, &options, &err), COP_OK, "%s", err.text);
    for (int32_t i = 0; i < 4; i++) {
        cr_expect_float_eq((double)model->rope.cosines[20 + i], size * cos(5 * frequencies[i]),
                           1e-6);
        cr_expect_float_eq((double)model->rope.sines[20 + i], size * sin(5 * frequencies[i]),
                           1e-6);
    }
    cop_model_free(model);
    gguf_writer_free(file);
}

Test(config, yarn_in_gguf)
{
    static const double yarn[] = {1, 0.0625, 0.0025, 0.00025};
    const struct tiny_edit edits[] = {
        {TINY_KEY_STRING, "llama.rope.scaling.type", 0, 0, 0, "yarn"},
        {TINY_KEY_F32, "llama.rope.scaling.factor", 0, 0, 4, NULL},
        {TINY_KEY_F32, "llama.rope.scaling.attn_factor", 0, 0, 0.5, NULL},
        {TINY_KEY_F32, "llama.rope.scaling.yarn_ext_factor", 0, 0, 1, NULL}};
    const double growth = 0.1 * log(4) + 1;
    expect_gguf_rope(edits, 2, yarn, growth);
    expect_gguf_rope(edits, 4, yarn, 0.5 * growth);
}

/* A type that is not said is linear, whichever key has the factor. */
Test(config, a_factor_alone_is_linear_in_gguf)
{
    static const double linear[] = {0.25, 0.025, 0.0025, 0.00025},
                        plain[] = {1, 0.1, 0.01, 0.001};
    const struct tiny_edit factor[] = {
        {TINY_KEY_F32, "llama.rope.scaling.factor", 0, 0, 4, NULL},
        {TINY_KEY_F32, "llama.rope.scale_linear", 0, 0, 2, NULL}};
    const struct tiny_edit older[] = {{TINY_KEY_F32, "llama.rope.scale_linear", 0, 0, 4, NULL}};
    const struct tiny_edit none[] = {
        {TINY_KEY_STRING, "llama.rope.scaling.type", 0, 0, 0, "none"}, factor[0]};
    expect_gguf_rope(factor, 2, linear, 1);
    expect_gguf_rope(older, 1, linear, 1);
    expect_gguf_rope(none, 2, plain, 1);
    expect_gguf_rope(NULL, 0, plain, 1);
}

Test(config, yarn_stretches_the_context)
{
    struct cop_model model =
        read_good("qwen2", ",\"num_key_value_heads\":8,"
                           "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":"
                           "4,\"original_max_position_embeddings\":32768}");
    cr_expect_eq(model.info.trained_context, 131072);
    free(model.windows);
}

/* ---- Lies -------------------------------------------------------------------------------- */

Test(config, each_lie_has_its_message)
{
    expect_bad("gpt2", "", COP_ERR_UNSUPPORTED, "known ones: llama, mistral, qwen2, qwen3");
    expect_bad("llama", ",\"architectures\":[\"LlamaForSequenceClassification\"]",
               COP_ERR_UNSUPPORTED, "LlamaForCausalLM");
    expect_bad("llama", ",\"quantization_config\":{}", COP_ERR_UNSUPPORTED, "quantization");
    expect_bad("llama", ",\"hidden_act\":\"gelu\"", COP_ERR_UNSUPPORTED, "gelu");
    expect_bad("llama", ",\"hidden_size\":\"64\"", COP_ERR_FORMAT, "hidden_size");
    expect_bad("llama", ",\"hidden_size\":1e300", COP_ERR_FORMAT, "hidden_size");
    expect_bad("llama", ",\"hidden_size\":-64", COP_ERR_FORMAT, "-64");
    expect_bad("llama", ",\"hidden_size\":64.5", COP_ERR_FORMAT, "64.5");
    expect_bad("llama", ",\"hidden_size\":null", COP_ERR_FORMAT, "\"hidden_size\" is missing");
    expect_bad("llama", ",\"hidden_size\":60", COP_ERR_FORMAT, "head_dim");
    expect_bad("llama", ",\"num_hidden_layers\":1152921504606846976", COP_ERR_FORMAT,
               "num_hidden_layers");
    expect_bad("llama", ",\"num_key_value_heads\":3", COP_ERR_FORMAT, "3 key heads");
    expect_bad("llama", ",\"num_key_value_heads\":0", COP_ERR_FORMAT, "num_key_value_heads");
    expect_bad("llama", ",\"head_dim\":7", COP_ERR_FORMAT, "even");
    expect_bad("llama", ",\"vocab_size\":[]", COP_ERR_FORMAT, "a list");
    expect_bad("llama", ",\"rms_norm_eps\":0", COP_ERR_FORMAT, "rms_norm_eps");
    expect_bad("llama", ",\"tie_word_embeddings\":1", COP_ERR_FORMAT, "true or false");
    expect_bad("llama", ",\"rope_theta\":-1", COP_ERR_FORMAT, "rope_theta");
    expect_bad("llama", ",\"rope_scaling\":\"linear\"", COP_ERR_FORMAT, "rope_scaling");
    expect_bad("llama", ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}",
               COP_ERR_UNSUPPORTED, "known: default, linear, llama3, yarn");
    expect_bad("llama", ",\"rope_scaling\":{\"type\":\"linear\"}", COP_ERR_FORMAT, "factor");
    expect_bad("llama", ",\"rope_scaling\":{\"type\":\"llama3\"," LLAMA3 ",\"factor\":0}",
               COP_ERR_FORMAT, "factor");
    expect_bad("llama",
               ",\"rope_scaling\":{\"type\":\"llama3\"," LLAMA3 ",\"high_freq_factor\":1}",
               COP_ERR_FORMAT, "high_freq_factor");
    expect_bad("llama", ",\"rope_parameters\":{\"full_attention\":{}}", COP_ERR_UNSUPPORTED,
               "full_attention");
    expect_bad("llama", ",\"partial_rotary_factor\":0.5", COP_ERR_UNSUPPORTED, "0.5");
    expect_bad("mistral", ",\"sliding_window\":0", COP_ERR_FORMAT, "sliding_window");
    expect_bad("mistral", ",\"layer_types\":[\"full_attention\"]", COP_ERR_FORMAT, "1 entries");
    expect_bad("mistral", ",\"layer_types\":[\"other\"]", COP_ERR_UNSUPPORTED, "other");
    expect_bad("mistral", ",\"max_window_layers\":-1", COP_ERR_FORMAT, "max_window_layers");
    expect_bad("llama", ",", COP_ERR_FORMAT, "byte");
}

static const char full[] =
    "{\"architectures\":[\"Qwen3ForCausalLM\"],\"attention_bias\":false,\"head_dim\":24,"
    "\"eos_token_id\":[2,3],\"hidden_act\":\"silu\",\"hidden_size\":48,\"intermediate_size\":"
    "80,"
    "\"layer_types\":[\"full_attention\",\"sliding_attention\"],"
    "\"max_position_embeddings\":512,\"max_window_layers\":1,\"model_type\":\"qwen3\","
    "\"num_attention_heads\":4,\"num_hidden_layers\":2,\"num_key_value_heads\":2,"
    "\"rms_norm_eps\":1e-06,\"rope_parameters\":{\"rope_theta\":1000000.0,\"rope_type\":"
    "\"yarn\","
    "\"factor\":4.0,\"beta_fast\":32,\"original_max_position_embeddings\":64},"
    "\"sliding_window\":8,\"tie_word_embeddings\":false,\"use_sliding_window\":true,"
    "\"vocab_size\":200}";

static bool survives(const char *text, size_t length)
{
    struct cop_model model;
    struct cop_error err = {.text = ""};
    enum cop_status status = read_text(&model, text, length, &err);
    cr_assert(status == COP_OK ||
              (err.code == status && strncmp(err.text, "config.json: ", 13) == 0));
    if (status == COP_OK) { /* what was read can be used */
        model.info.context = 2;
        cr_assert_eq(cop_model_make_rope(&model, &err), COP_OK);
    }
    free(model.rope_table);
    free(model.windows);
    return status == COP_OK;
}

Test(config, every_truncation_is_refused)
{
    for (size_t length = 0; length + 1 < sizeof full; length++) {
        char *cut = malloc(length ? length : 1);
        memcpy(cut, full, length);
        cr_expect_not(survives(cut, length), "%zu bytes", length);
        free(cut);
    }
    cr_expect(survives(full, sizeof full - 1));
}

Test(config, random_damage)
{
    size_t n_read = 0;
    for (uint64_t seed = 0; seed < MUTATIONS; seed++) {
        size_t size;
        uint8_t *damaged = mutate_json(full, sizeof full - 1, seed, &size);
        n_read += survives((const char *)damaged, size);
        free(damaged);
    }
    cr_expect_gt(n_read, MUTATIONS / 100);
    cr_expect_lt(n_read, MUTATIONS / 2);
}
