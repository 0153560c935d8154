/* One clear message for every option that cannot be, and every file that lies: tiny models with
 * one key or tensor that is wrong. */
#include "core/model/state.h"
#include "tests/support/tiny_model.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* Opens a description; expects `status` and, where it fails, all `words` in the message. */
static void expect_open(const struct tiny_model *description,
                        const struct cop_model_options *extra, enum cop_status status,
                        const char *word, const char *second_word)
{
    struct gguf_writer *file = tiny_model_new(description);
    struct cop_model_options options = extra ? *extra : (struct cop_model_options){0};
    struct cop_model *model = NULL;
    struct cop_error err = {0};
    options.path = gguf_save(file);
    options.threads = options.threads ? options.threads : 1;
    enum cop_status found = cop_model_open(&model, &options, &err);
    cr_expect_eq(found, status, "status %d instead of %d: %s (expected: %s)", found, status,
                 err.text, word);
    cr_expect_eq(model == NULL, status != COP_OK);
    if (status != COP_OK) {
        cr_expect_eq(err.code, status);
        cr_expect_not_null(strstr(err.text, word), "\"%s\" lacks \"%s\"", err.text, word);
        cr_expect_not_null(strstr(err.text, second_word), "\"%s\" lacks \"%s\"", err.text,
                           second_word);
    }
    cop_model_free(model);
    gguf_writer_free(file);
}

static void expect_fault(struct tiny_model model, struct tiny_edit edit, enum cop_status status,
                         const char *word, const char *second_word)
{
    model.edits = &edit;
    model.n_edits = 1;
    expect_open(&model, NULL, status, word, second_word);
}

/* ---- Options ----------------------------------------------------------------------------- */

Test(open, options_are_checked)
{
    const struct tiny_model plain = {.context = 300};
    expect_open(&plain, &(struct cop_model_options){.context = 301}, COP_ERR_LIMIT, "301",
                "300");
    expect_open(&plain, &(struct cop_model_options){.context = 300}, COP_OK, "", "");
    expect_open(&plain, &(struct cop_model_options){.context = -1}, COP_ERR_ARGUMENT, "context",
                "-1");
    expect_open(&plain, &(struct cop_model_options){.pages = -1}, COP_ERR_ARGUMENT, "pages",
                "-1");
    expect_open(&plain, &(struct cop_model_options){.threads = -1}, COP_ERR_ARGUMENT, "threads",
                "1 to");
    expect_open(&plain, &(struct cop_model_options){.threads = 100000}, COP_ERR_ARGUMENT,
                "threads", "1 to");
    expect_open(&plain, &(struct cop_model_options){.device = "abacus"}, COP_ERR_ARGUMENT,
                "abacus", "cpu");
    expect_open(&plain, &(struct cop_model_options){.device = "reference"}, COP_OK, "", "");
    expect_open(&plain, &(struct cop_model_options){.level = "sse9"}, COP_ERR_UNSUPPORTED,
                "sse9", "level");
    expect_open(&(struct tiny_model){0},
                &(struct cop_model_options){.precision = COP_PRECISION_CHOOSE_INT8},
                COP_ERR_UNSUPPORTED, "int8", "block-quantised");
    struct cop_model *model = NULL;
    struct cop_error err = {0};
    cr_expect_eq(cop_model_open(&model, &(struct cop_model_options){.threads = 1}, &err),
                 COP_ERR_ARGUMENT);
}

/* ---- Lying metadata ---------------------------------------------------------------------- */

Test(open, lying_numbers)
{
    const struct {
        const char *name;
        uint32_t value;
        enum cop_status status;
        const char *word, *second_word;
    } rows[] = {
        {"llama.block_count", 0, COP_ERR_FORMAT, "block_count", "1024"},
        {"llama.block_count", 1025, COP_ERR_FORMAT, "block_count", "1024"},
        {"llama.block_count", 4000000000, COP_ERR_FORMAT, "block_count", "1024"},
        {"llama.block_count", 3, COP_ERR_FORMAT, "blk.2.attn_norm.weight", "missing"},
        {"llama.block_count", 1, COP_ERR_UNSUPPORTED, "blk.1.", "1 layers"},
        {"llama.embedding_length", 0, COP_ERR_FORMAT, "embedding_length", "1048576"},
        {"llama.embedding_length", 64, COP_ERR_FORMAT, "[61, 32]", "[61, 64]"},
        {"llama.embedding_length", 30, COP_ERR_FORMAT, "30", "4 heads"},
        {"llama.embedding_length", 4294967295, COP_ERR_FORMAT, "embedding_length", "1048576"},
        {"llama.feed_forward_length", 0, COP_ERR_FORMAT, "feed_forward_length", "4194304"},
        {"llama.feed_forward_length", 96, COP_ERR_FORMAT, "ffn_gate", "expected [96, 32]"},
        {"llama.attention.head_count", 0, COP_ERR_FORMAT, "head_count", "4096"},
        {"llama.attention.head_count", 3, COP_ERR_FORMAT, "3 heads", ""},
        {"llama.attention.head_count_kv", 0, COP_ERR_FORMAT, "head_count_kv", "4096"},
        {"llama.attention.head_count_kv", 3, COP_ERR_FORMAT, "4 heads", "3 key heads"},
        {"llama.attention.head_count_kv", 4, COP_ERR_FORMAT, "attn_k.weight", "[16, 32]"},
        {"llama.attention.key_length", 7, COP_ERR_FORMAT, "heads of 7", "even"},
        {"llama.attention.key_length", 16, COP_ERR_FORMAT, "attn_q.weight", "[64, 32]"},
        {"llama.attention.value_length", 16, COP_ERR_UNSUPPORTED, "16", "8"},
        {"llama.rope.dimension_count", 10, COP_ERR_FORMAT, "dimension_count", "8"},
        {"llama.rope.dimension_count", 5, COP_ERR_FORMAT, "dimension_count", "even"},
        {"llama.context_length", 0, COP_ERR_FORMAT, "context_length", "16777216"},
        {"llama.vocab_size", 60, COP_ERR_FORMAT, "60", "61 rows"},
        {"llama.expert_count", 8, COP_ERR_UNSUPPORTED, "8 experts", "mixture"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect_fault((struct tiny_model){0},
                     (struct tiny_edit){TINY_KEY_U32, rows[i].name, rows[i].value, 0, 0, NULL},
                     rows[i].status, rows[i].word, rows[i].second_word);
    }
}

Test(open, lying_floats_and_strings)
{
    const struct {
        const char *name;
        float value;
        const char *word;
    } rows[] = {
        {"llama.attention.layer_norm_rms_epsilon", 0, "above 0"},
        {"llama.attention.layer_norm_rms_epsilon", -1e-5f, "above 0"},
        {"llama.attention.layer_norm_rms_epsilon", 2, "at most 1"},
        {"llama.rope.freq_base", 0, "above 0"},
        {"llama.rope.freq_base", -10000, "above 0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect_fault((struct tiny_model){0},
                     (struct tiny_edit){TINY_KEY_F32, rows[i].name, 0, 0, rows[i].value, NULL},
                     COP_ERR_FORMAT, rows[i].name, rows[i].word);
    }
    const float nan = 0.0f / 0.0f;
    expect_fault((struct tiny_model){0},
                 (struct tiny_edit){TINY_KEY_F32, "llama.rope.freq_base", 0, 0, nan, NULL},
                 COP_ERR_FORMAT, "llama.rope.freq_base", "");
    expect_fault((struct tiny_model){0},
                 (struct tiny_edit){TINY_KEY_STRING, "general.architecture", 0, 0, 0, "gpt9"},
                 COP_ERR_UNSUPPORTED, "gpt9", "llama");
    expect_fault(
        (struct tiny_model){0},
        (struct tiny_edit){TINY_KEY_STRING, "llama.rope.scaling.type", 0, 0, 0, "spiral"},
        COP_ERR_UNSUPPORTED, "spiral", "linear");
    expect_fault(
        (struct tiny_model){0},
        (struct tiny_edit){TINY_KEY_STRING, "llama.rope.scaling.type", 0, 0, 0, "linear"},
        COP_ERR_FORMAT, "rope.scaling.factor", "");
    expect_fault((struct tiny_model){0},
                 (struct tiny_edit){TINY_KEY_STRING, "llama.block_count", 0, 0, 0, "two"},
                 COP_ERR_FORMAT, "block_count", "");
}

/* Keys that change the function of other families' members. */
Test(open, parts_that_are_not_built)
{
    const struct {
        const char *name;
        float value, without;
    } rows[] = {
        {"llama.attn_logit_softcapping", 50, 0},  {"llama.final_logit_softcapping", 30, 0},
        {"llama.attention.scale", 0.25f, 0},      {"llama.attention.clamp_kqv", 8, 0},
        {"llama.logit_scale", 0.5f, 1},           {"llama.residual_scale", 0.25f, 0},
        {"llama.embedding_scale", 12, 1},         {"llama.attention.causal", 0, 1},
        {"llama.attention.max_alibi_bias", 8, 0}, {"llama.rope.scaling.yarn_ext_factor", 0, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tiny_edit edit = {TINY_KEY_F32, rows[i].name, 0, 0, rows[i].value, NULL};
        expect_fault((struct tiny_model){0}, edit, COP_ERR_UNSUPPORTED, rows[i].name,
                     "not built");
        edit.number = rows[i].without;
        expect_open(&(struct tiny_model){.edits = &edit, .n_edits = 1}, NULL, COP_OK, "", "");
    }
    expect_fault((struct tiny_model){0},
                 (struct tiny_edit){TINY_KEY_U32, "split.count", 3, 0, 0, NULL},
                 COP_ERR_UNSUPPORTED, "is part 1 of 3", "merge");
    expect_open(&(struct tiny_model){.edits = &(struct tiny_edit){TINY_KEY_U32, "split.count",
                                                                  1, 0, 0, NULL},
                                     .n_edits = 1},
                NULL, COP_OK, "", "");
}

Test(open, missing_keys)
{
    static const char *const required[] = {"general.architecture",
                                           "llama.block_count",
                                           "llama.embedding_length",
                                           "llama.feed_forward_length",
                                           "llama.context_length",
                                           "llama.attention.head_count",
                                           "llama.attention.layer_norm_rms_epsilon"};
    for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
        expect_fault((struct tiny_model){0},
                     (struct tiny_edit){TINY_DROP, required[i], 0, 0, 0, NULL}, COP_ERR_FORMAT,
                     required[i], "");
    }
    static const char *const optional[] = {"llama.vocab_size", "llama.rope.freq_base"};
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
        expect_fault((struct tiny_model){0},
                     (struct tiny_edit){TINY_DROP, optional[i], 0, 0, 0, NULL}, COP_OK, "", "");
    }
}

/* ---- Wrong tensors ----------------------------------------------------------------------- */

Test(open, missing_and_unknown_tensors)
{
    static const char *const required[] = {
        "token_embd.weight",     "output_norm.weight",       "blk.0.attn_norm.weight",
        "blk.1.attn_q.weight",   "blk.0.attn_k.weight",      "blk.0.attn_v.weight",
        "blk.1.ffn_up.weight",   "blk.0.attn_output.weight", "blk.1.ffn_norm.weight",
        "blk.0.ffn_gate.weight", "blk.1.ffn_down.weight"};
    for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
        expect_fault((struct tiny_model){0},
                     (struct tiny_edit){TINY_DROP, required[i], 0, 0, 0, NULL}, COP_ERR_FORMAT,
                     required[i], "missing");
    }
    expect_fault((struct tiny_model){.has_output = true},
                 (struct tiny_edit){TINY_DROP, "output.weight", 0, 0, 0, NULL}, COP_OK, "", "");
    static const char *const unknown[] = {"blk.0.attn_q_norm.weight",
                                          "blk.2.attn_q.bias",
                                          "output.bias",
                                          "blk.00000001.attn_q.bias",
                                          "blk..attn_q.bias",
                                          "blk.0",
                                          "attn_q.weight"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        expect_fault((struct tiny_model){0},
                     (struct tiny_edit){TINY_EXTRA, unknown[i], 0, 0, 0, NULL},
                     COP_ERR_UNSUPPORTED, unknown[i], "no place");
    }
    expect_fault((struct tiny_model){.architecture = "qwen3"},
                 (struct tiny_edit){TINY_DROP, "blk.1.attn_k_norm.weight", 0, 0, 0, NULL},
                 COP_ERR_FORMAT, "blk.1.attn_k_norm.weight", "qwen3");
    expect_fault((struct tiny_model){.architecture = "qwen2"},
                 (struct tiny_edit){TINY_DROP, "blk.0.attn_v.bias", 0, 0, 0, NULL},
                 COP_ERR_FORMAT, "blk.0.attn_v.bias", "missing");
}

Test(open, misshapen_tensors)
{
    const struct {
        const char *name;
        uint32_t cols, rows;
        const char *found, *expected;
    } rows[] = {
        {"blk.0.attn_q.weight", 32, 16, "shape [16, 32]", "expected [32, 32]"},
        {"blk.1.attn_k.weight", 32, 32, "shape [32, 32]", "expected [16, 32]"},
        {"blk.0.attn_output.weight", 16, 32, "shape [32, 16]", "expected [32, 32]"},
        {"blk.0.ffn_down.weight", 32, 64, "shape [64, 32]", "expected [32, 64]"},
        {"blk.0.ffn_up.weight", 32, 1, "shape [1, 32]", "expected [64, 32]"},
        {"blk.1.attn_norm.weight", 31, 0, "shape [31]", "expected [32]"},
        {"output_norm.weight", 32, 1, "shape [1, 32]", "expected [32]"},
        {"token_embd.weight", 16, 61, "shape [61, 16]", "expected [61, 32]"},
        {"blk.0.ffn_gate.weight", 2048, 0, "shape [2048]", "expected [64, 32]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tiny_edit edit = {TINY_SHAPE, rows[i].name, rows[i].cols, rows[i].rows, 0, NULL};
        expect_fault((struct tiny_model){0}, edit, COP_ERR_FORMAT, rows[i].name, rows[i].found);
        expect_fault((struct tiny_model){0}, edit, COP_ERR_FORMAT, rows[i].expected, "gguf-");
    }
}

Test(open, wrong_formats)
{
    expect_fault(
        (struct tiny_model){0},
        (struct tiny_edit){TINY_FORMAT, "blk.0.attn_norm.weight", GGML_Q8_0, 0, 0, NULL},
        COP_ERR_FORMAT, "blk.0.attn_norm.weight", "Q8_0");
    expect_fault(
        (struct tiny_model){0},
        (struct tiny_edit){TINY_FORMAT, "blk.0.attn_norm.weight", GGML_F16, 0, 0, NULL}, COP_OK,
        "", "");
    expect_fault((struct tiny_model){.hidden = 48},
                 (struct tiny_edit){TINY_FORMAT, "blk.0.ffn_up.weight", GGML_Q8_0, 0, 0, NULL},
                 COP_ERR_FORMAT, "blk.0.ffn_up.weight", "48");
    expect_fault((struct tiny_model){0},
                 (struct tiny_edit){TINY_FORMAT, "blk.0.ffn_up.weight", 99, 0, 0, NULL},
                 COP_ERR_UNSUPPORTED, "blk.0.ffn_up.weight", "99");
}

Test(open, norms_must_be_finite)
{
    const float bad[] = {1.0f / 0.0f, -1.0f / 0.0f, 0.0f / 0.0f};
    for (size_t i = 0; i < 3; i++) {
        expect_fault(
            (struct tiny_model){0},
            (struct tiny_edit){TINY_VALUE, "blk.1.ffn_norm.weight", 0, 0, bad[i], NULL},
            COP_ERR_FORMAT, "blk.1.ffn_norm.weight", "value");
        expect_fault((struct tiny_model){0},
                     (struct tiny_edit){TINY_VALUE, "output_norm.weight", 0, 0, bad[i], NULL},
                     COP_ERR_FORMAT, "output_norm.weight", "value");
    }
}

/* ---- Weights that are no numbers --------------------------------------------------------- */

Test(open, a_weight_that_is_no_number_is_named)
{
    static const enum cop_format formats[] = {COP_FORMAT_F32, COP_FORMAT_F16, COP_FORMAT_BF16};
    static const char *const matrices[] = {"token_embd.weight", "output.weight",
                                           "blk.0.attn_k.weight", "blk.1.ffn_down.weight"};
    for (size_t i = 0; i < 12; i++) {
        expect_fault((struct tiny_model){.format = formats[i % 3], .has_output = true},
                     (struct tiny_edit){TINY_VALUE, matrices[i / 3], 0, 0, NAN, NULL},
                     COP_ERR_FORMAT, matrices[i / 3], "nan at row 0, column 0");
    }
    expect_fault((struct tiny_model){0},
                 (struct tiny_edit){TINY_VALUE, "blk.1.attn_q.weight", 0, 0, -INFINITY, NULL},
                 COP_ERR_FORMAT, "blk.1.attn_q.weight", "-inf at row 0, column 0");
}

/* Random bits in every format: refused where widening gives a value that is not finite, and
 * only there. */
Test(open, blocks_of_any_bits_are_finite_or_named)
{
    enum { ROWS = 8, COLS = 512 };
    static uint8_t bytes[ROWS * COLS * 4];
    static float values[COLS];
    for (int32_t f = 0; f < COP_FORMAT_COUNT; f++) {
        const struct cop_format_info *info = cop_format_info((enum cop_format)f);
        size_t row_bytes = (size_t)(COLS / info->block_elements * info->block_bytes);
        int32_t n_refused = 0, n_rounds = info->widen ? 400 : 0;
        for (int32_t round = 0; round < n_rounds; round++) {
            struct cop_tensor tensor = {.name = {"t", 1},
                                        .format = (enum cop_format)f,
                                        .rank = 2,
                                        .dims = {COLS, round % ROWS + 1},
                                        .data = bytes};
            for (size_t i = 0; i < row_bytes * (size_t)tensor.dims[1]; i++) {
                uint64_t bits = tiny_bits((uint64_t)(f * 1000 + round), i);
                /* Exponents seldom all ones. */
                bytes[i] = (uint8_t)(bits & (bits >> 32 & 15 ? 0x3b : 0xff));
            }
            bool is_bad = false;
            for (int64_t row = 0; row < tensor.dims[1]; row++) {
                info->widen(bytes + (size_t)row * row_bytes, COLS, values);
                for (int32_t i = 0; i < COLS; i++) {
                    is_bad |= !isfinite(values[i]);
                }
            }
            struct cop_error err = {0};
            enum cop_status status = cop_model_check_finite("f", &tensor, &err);
            cr_assert_eq(status, is_bad ? COP_ERR_FORMAT : COP_OK, "%s, round %d", info->name,
                         round);
            n_refused += is_bad;
        }
        cr_expect(n_rounds == 0 || (n_refused > 0 && n_refused < n_rounds), "%s: %d of %d",
                  info->name, n_refused, n_rounds);
    }
}
