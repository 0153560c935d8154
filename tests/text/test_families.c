/* The other byte-level families against reference values: their published tokenizer files are
 * turned into GGUF metadata here, so that no model is needed. */
#include "core/base/hash.h"
#include "core/files/gguf_memory.h"
#include "core/text/split/pretokenize.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/reference.h"
#include "tests/text/tokenizer_case.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(families, .timeout = 120);

/* How a published file becomes a vocabulary. */
struct recipe {
    const char *path, *pre;
    int n_pieces;                /* ids above are left out; the added ones below are kept */
    const char *control_also[8]; /* added tokens that the GGUF makes control tokens */
    const char *chat_template;
};

static char *copy(const char *string)
{
    return strdup(string);
}

static bool is_listed(const char *const *list, const char *string)
{
    for (; *list; list++) {
        if (strcmp(*list, string) == 0) {
            return true;
        }
    }
    return false;
}

static void put_pieces(struct gguf_writer *w, const cJSON *json, const struct recipe *recipe)
{
    char **pieces = calloc((size_t)recipe->n_pieces, sizeof *pieces);
    int32_t *types = calloc((size_t)recipe->n_pieces, sizeof *types);
    const cJSON *item;
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(json, "model");
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(model, "vocab"))
    {
        if (item->valueint < recipe->n_pieces) {
            bool is_byte = strncmp(item->string, "<0x", 3) == 0 && strlen(item->string) == 6;
            pieces[item->valueint] = copy(item->string);
            types[item->valueint] = is_byte ? 6 : 1;
        }
    }
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(json, "added_tokens"))
    {
        int id = cJSON_GetObjectItemCaseSensitive(item, "id")->valueint;
        const char *text = cJSON_GetObjectItemCaseSensitive(item, "content")->valuestring;
        bool is_control = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "special")) ||
                          is_listed(recipe->control_also, text);
        if (id < recipe->n_pieces) {
            free(pieces[id]);
            pieces[id] = copy(text);
            types[id] = is_control ? 3 : 4;
        }
    }
    for (int i = 0; i < recipe->n_pieces; i++) {
        cr_assert(pieces[i] != NULL, "no piece %d", i);
    }
    gguf_put_strings(w, "tokenizer.ggml.tokens", (const char *const *)pieces,
                     (size_t)recipe->n_pieces);
    gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, types, (size_t)recipe->n_pieces);
    for (int i = 0; i < recipe->n_pieces; i++) {
        free(pieces[i]);
    }
    free(pieces);
    free(types);
}

/* Merges come as "a b" or as ["a", "b"]. */
static void put_merges(struct gguf_writer *w, const cJSON *json)
{
    const cJSON *merges = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(json, "model"), "merges");
    size_t count = (size_t)cJSON_GetArraySize(merges);
    char **lines = calloc(count, sizeof *lines);
    size_t i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, merges)
    {
        if (cJSON_IsArray(item)) {
            const char *left = item->child->valuestring;
            const char *right = item->child->next->valuestring;
            size_t size = strlen(left) + strlen(right) + 2;
            lines[i] = malloc(size);
            (void)snprintf(lines[i], size, "%s %s", left, right);
        } else {
            lines[i] = copy(item->valuestring);
        }
        i++;
    }
    gguf_put_strings(w, "tokenizer.ggml.merges", (const char *const *)lines, count);
    for (i = 0; i < count; i++) {
        free(lines[i]);
    }
    free(lines);
}

static struct cop_tokenizer *open_written(struct gguf_writer *w, const char *name)
{
    size_t size;
    const uint8_t *image = gguf_image(w, &size);
    struct cop_error err;
    struct cop_gguf *file;
    struct cop_tokenizer *tokenizer;
    cr_assert_eq(cop_gguf_open_memory(&file, name, image, size, &err), COP_OK, "%s", err.text);
    cr_assert_eq(cop_tokenizer_from_gguf(&tokenizer, file, &err), COP_OK, "%s", err.text);
    cop_gguf_close(file);
    gguf_writer_free(w);
    return tokenizer;
}

static struct cop_tokenizer *make(const struct recipe *recipe)
{
    size_t length;
    char *text = reference_read(reference_path(recipe->path), &length);
    cJSON *json = cJSON_ParseWithLength(text, length);
    cr_assert(json != NULL);
    struct gguf_writer *w = gguf_writer_new();
    gguf_put_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(w, "tokenizer.ggml.pre", recipe->pre);
    put_pieces(w, json, recipe);
    put_merges(w, json);
    if (recipe->chat_template) {
        gguf_put_string(w, "tokenizer.chat_template", recipe->chat_template);
    }
    cJSON_Delete(json);
    free(text);
    return open_written(w, recipe->pre);
}

Test(families, qwen3)
{
    struct recipe recipe = {
        "data/tokenizers/qwen3/tokenizer.json", "qwen2", 151669, {NULL}, NULL};
    struct cop_tokenizer *tokenizer = make(&recipe);
    cr_expect_eq(
        reference_lines("reference/tokenizer/qwen3.jsonl", tokenizer_case_check, tokenizer),
        194);
    cr_expect_eq(reference_lines("reference/tokenizer/stream_qwen3.jsonl",
                                 tokenizer_case_stream, tokenizer),
                 24);
    cop_tokenizer_free(tokenizer);
}

/* Qwen2.5 has Qwen3's pieces but the last four, and its GGUF calls six more of them control
 * tokens. */
Test(families, qwen2_5_and_its_chat_template)
{
    struct recipe recipe = {
        "data/tokenizers/qwen3/tokenizer.json",
        "qwen2",
        151665,
        {"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>",
         "<|file_sep|>", NULL},
        "{%- if messages[0]['role'] != 'system' %}{{- '<|im_start|>system\\nYou are Qwen, "
        "created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}{%- endif %}"};
    struct cop_tokenizer *tokenizer = make(&recipe);
    cr_expect_eq(
        reference_lines("reference/tokenizer/qwen2_5.jsonl", tokenizer_case_check, tokenizer),
        194);
    cr_expect_eq(reference_lines("reference/tokenizer/stream_qwen2_5.jsonl",
                                 tokenizer_case_stream, tokenizer),
                 24);
    cr_expect_eq(reference_lines("reference/tokenizer/chat_qwen2_5.jsonl", tokenizer_case_chat,
                                 tokenizer),
                 7);
    cop_tokenizer_free(tokenizer);
}

Test(families, llama3)
{
    struct recipe recipe = {
        "data/tokenizers/llama3_1/tokenizer.json", "llama-bpe", 128256, {NULL}, NULL};
    struct cop_tokenizer *tokenizer = make(&recipe);
    cr_expect_eq(
        reference_lines("reference/tokenizer/llama3_1.jsonl", tokenizer_case_check, tokenizer),
        192);
    cr_expect_eq(reference_lines("reference/tokenizer/stream_llama3_1.jsonl",
                                 tokenizer_case_stream, tokenizer),
                 24);
    cop_tokenizer_free(tokenizer);
}

/* What SentencePiece's own file says by scores: the later a piece is first made, the less. */
static float *scores_of(const cJSON *json, int n_pieces)
{
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(json, "model");
    const cJSON *vocab = cJSON_GetObjectItemCaseSensitive(model, "vocab");
    struct cop_names ids;
    cr_assert(cop_names_init(&ids, (size_t)n_pieces));
    const cJSON *item;
    cJSON_ArrayForEach(item, vocab)
    {
        (void)cop_names_add(&ids, item->string, strlen(item->string), item->valueint);
    }
    float *scores = calloc((size_t)n_pieces, sizeof *scores);
    float score = 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(model, "merges"))
    {
        char made[256];
        const char *space = strchr(item->valuestring, ' ');
        (void)snprintf(made, sizeof made, "%.*s%s", (int)(space - item->valuestring),
                       item->valuestring, space + 1);
        int32_t id = cop_names_find(&ids, made, strlen(made));
        score -= 1;
        scores[id] = scores[id] < 0 ? scores[id] : score;
    }
    cop_names_release(&ids);
    return scores;
}

Test(families, llama2_by_scores)
{
    size_t length;
    char *text =
        reference_read(reference_path("data/tokenizers/llama2/tokenizer.json"), &length);
    cJSON *json = cJSON_ParseWithLength(text, length);
    struct recipe recipe = {NULL, NULL, 32000, {NULL}, NULL};
    float *scores = scores_of(json, recipe.n_pieces);
    struct gguf_writer *w = gguf_writer_new();
    gguf_put_string(w, "tokenizer.ggml.model", "llama");
    put_pieces(w, json, &recipe);
    gguf_put_array(w, "tokenizer.ggml.scores", GGUF_F32, scores, (size_t)recipe.n_pieces);
    gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 1);
    gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 2);
    gguf_put_u32(w, "tokenizer.ggml.unknown_token_id", 0);
    struct cop_tokenizer *tokenizer = open_written(w, "llama2");
    tokenizer_case_has_prefix = true;
    cr_expect_eq(reference_lines("reference/tokenizer/llama2.jsonl", tokenizer_case_check_all,
                                 tokenizer),
                 192);
    cr_expect_eq(reference_lines("reference/tokenizer/stream_llama2.jsonl",
                                 tokenizer_case_stream, tokenizer),
                 24);
    cr_expect(cop_tokenizer_adds_bos(tokenizer));
    cop_tokenizer_free(tokenizer);
    free(scores);
    cJSON_Delete(json);
    free(text);
}
