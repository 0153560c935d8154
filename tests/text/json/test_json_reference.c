/* Published tokenizer.json files against what the library that defines the format makes of
 * them. */
#include "core/text/json/json_source.h"
#include "tests/support/json_list.h"
#include "tests/support/reference.h"
#include "tests/text/tokenizer_case.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cop_tokenizer *tokenizer;
static struct cop_error err;

static void close_tokenizer(void)
{
    cop_tokenizer_free(tokenizer);
}

TestSuite(json_reference, .fini = close_tokenizer, .timeout = 120);

static void open_path(const char *name)
{
    cr_assert_eq(cop_tokenizer_open(&tokenizer, reference_path(name), &err), COP_OK, "%s",
                 err.text);
}

/* Opens in memory what an edit makes of a file. */
static void open_edited(const char *name, void (*edit)(cJSON *json))
{
    cJSON *json = json_file(name);
    edit(json);
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    struct cop_json_text files[COP_JSON_FILES] = {{"edited.json", {text, strlen(text)}}};
    cr_assert_eq(cop_tokenizer_from_json(&tokenizer, files, &err), COP_OK, "%s", err.text);
    free(text);
}

static void check(const char *cases, size_t n_cases, const char *streams)
{
    char name[64];
    (void)snprintf(name, sizeof name, "reference/tokenizer/%s", cases);
    cr_expect_eq(reference_lines(name, tokenizer_case_check_all, tokenizer), n_cases);
    (void)snprintf(name, sizeof name, "reference/tokenizer/%s", streams);
    cr_expect_eq(reference_lines(name, tokenizer_case_stream, tokenizer), 24);
}

Test(json_reference, qwen3)
{
    open_path("data/tokenizers/qwen3/tokenizer.json");
    check("qwen3.jsonl", 194, "stream_qwen3.jsonl");
    cr_expect_eq(cop_tokenizer_size(tokenizer), 151669);
    cr_expect_eq(cop_tokenizer_bos(tokenizer), -1);
    cr_expect_not(cop_tokenizer_adds_bos(tokenizer));
    size_t count;
    const cop_token *eos = cop_tokenizer_eos(tokenizer, &count);
    cr_assert_eq(count, 2);
    cr_expect(eos[0] == 151645 && eos[1] == 151643); /* <|im_end|>, <|endoftext|> */
}

/* Qwen2.5 has Qwen3's pieces but the last four, and six more of them are special. */
static void to_qwen2_5(cJSON *json)
{
    cJSON *added = json_get(json, "added_tokens");
    cJSON *item = added->child;
    while (item) {
        cJSON *next = item->next;
        int id = json_get(item, "id")->valueint;
        if (id >= 151665) {
            cJSON_Delete(cJSON_DetachItemViaPointer(added, item));
        } else if (id >= 151659) {
            cJSON_ReplaceItemInObjectCaseSensitive(item, "special", cJSON_CreateTrue());
        }
        item = next;
    }
}

Test(json_reference, qwen2_5)
{
    open_edited("data/tokenizers/qwen3/tokenizer.json", to_qwen2_5);
    cr_expect_eq(cop_tokenizer_size(tokenizer), 151665);
    check("qwen2_5.jsonl", 194, "stream_qwen2_5.jsonl");
}

Test(json_reference, llama3)
{
    open_path("data/tokenizers/llama3_1/"); /* a folder */
    check("llama3_1.jsonl", 192, "stream_llama3_1.jsonl");
    cr_expect_eq(cop_tokenizer_size(tokenizer), 128256);
    cr_expect_eq(cop_tokenizer_bos(tokenizer), 128000);
    cr_expect(cop_tokenizer_adds_bos(tokenizer));
}

Test(json_reference, llama2)
{
    open_path("data/tokenizers/llama2");
    tokenizer_case_has_prefix = true;
    check("llama2.jsonl", 192, "stream_llama2.jsonl");
    cr_expect_eq(cop_tokenizer_size(tokenizer), 32000);
    cr_expect_eq(cop_tokenizer_bos(tokenizer), 1);
    cr_expect(cop_tokenizer_adds_bos(tokenizer));
    size_t count;
    const cop_token *eos = cop_tokenizer_eos(tokenizer, &count);
    cr_assert_eq(count, 1);
    cr_expect_eq(eos[0], 2);
}

/* The list "encode" of a file; some texts hold zero bytes. */
static void check_encoded(const char *name)
{
    size_t length;
    char *json = reference_read(reference_path(name), &length);
    struct cop_json_tree tree;
    cr_assert_eq(cop_json_tree_read(&tree, json, length, &err), COP_OK, "%s", err.text);
    const struct cop_json_node *item =
        cop_json_first(&tree, cop_json_get(&tree, cop_json_root(&tree), "encode"));
    size_t n_items = 0;
    for (; item; item = cop_json_after(&tree, item), n_items++) {
        const struct cop_json_node *text = cop_json_get(&tree, item, "text");
        const struct cop_json_node *id =
            cop_json_first(&tree, cop_json_get(&tree, item, "ids"));
        struct cop_ids ids = {0};
        cr_assert_eq(cop_tokenizer_encode(tokenizer, text->text, text->length,
                                          (struct cop_encode_options){0}, &ids, &err),
                     COP_OK);
        for (size_t i = 0; i < ids.count; i++, id = cop_json_after(&tree, id)) {
            cr_assert(id && id->integer == ids.items[i], "text %zu, id %zu", n_items, i);
        }
        cr_expect_null(id);
        cop_ids_release(&ids);
    }
    cr_expect_eq(n_items, 9);
    cop_json_tree_release(&tree);
    free(json);
}

Test(json_reference, a_whole_folder)
{
    open_path("reference/tiny/llama_with_tokenizer");
    check_encoded("reference/tiny/llama_with_tokenizer/reference.json");
    size_t count;
    const cop_token *eos = cop_tokenizer_eos(tokenizer, &count);
    cr_assert_eq(count, 2); /* tokenizer_config.json names 2, generation_config.json 2 and 0 */
    cr_expect(eos[0] == 2 && eos[1] == 0);
    cr_expect_eq(cop_tokenizer_bos(tokenizer), 1);
    cr_expect_not(cop_tokenizer_adds_bos(tokenizer));
    cr_expect_eq(cop_tokenizer_size(tokenizer), 300);
    struct cop_message message = {{"user", 4}, {"a", 1}};
    struct cop_text text = {0};
    cr_assert_eq(cop_chat_render(tokenizer, &message, 1, true, &text, &err), COP_OK);
    cr_expect_str_eq(text.bytes, "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n");
    cop_text_release(&text);
}
