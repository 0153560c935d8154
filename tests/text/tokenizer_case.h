/* Comparing a tokenizer with the cases of reference/tokenizer (see reference/README.md): each
 * check visits one line of its file with a tokenizer as context, and reports by cr_expect. */
#ifndef TESTS_TEXT_TOKENIZER_CASE_H
#define TESTS_TEXT_TOKENIZER_CASE_H

#include "core/text/chat/chat.h"
#include "tests/support/reference.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static inline const char *name_of(const cJSON *line)
{
    return cJSON_GetObjectItemCaseSensitive(line, "name")->valuestring;
}

/* Whether ids are those of a list in the file. */
static inline bool equals(const struct cop_ids *ids, const cJSON *list)
{
    size_t i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (i >= ids->count || ids->items[i] != item->valueint) {
            return false;
        }
        i++;
    }
    return i == ids->count;
}

static inline void expect_ids(const struct cop_tokenizer *tokenizer, const cJSON *line,
                              const char *key, const char *text, size_t length, bool special)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(line, key);
    struct cop_encode_options options = {.special = special};
    struct cop_ids ids = {0};
    struct cop_error err;
    cr_assert_eq(cop_tokenizer_encode(tokenizer, text, length, options, &ids, &err), COP_OK);
    cr_expect(equals(&ids, list), "%s: ids differ from %s", name_of(line), key);
    cop_ids_release(&ids);
}

/* Decodes the list under `ids_key` and compares with the string under `text_key`, if any. */
static inline void expect_decoded(const struct cop_tokenizer *tokenizer, const cJSON *line,
                                  const char *ids_key, bool special, const char *text_key)
{
    size_t length;
    char *wanted = reference_string(line, text_key, &length);
    if (!wanted) {
        return;
    }
    struct cop_ids ids = {0};
    struct cop_error err;
    struct cop_text text = {0};
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(line, ids_key))
    {
        cop_ids_push(&ids, item->valueint, NULL);
    }
    cr_assert_eq(cop_tokenizer_decode(tokenizer, ids.items, ids.count, special, &text, &err),
                 COP_OK);
    cr_expect(text.length == length && memcmp(text.bytes, wanted, length) == 0,
              "%s: %s is \"%s\", not \"%s\"", name_of(line), text_key, text.bytes, wanted);
    cop_ids_release(&ids);
    cop_text_release(&text);
    free(wanted);
}

static inline size_t from_hex(const char *hex, char *bytes)
{
    size_t length = strlen(hex) / 2;
    for (size_t i = 0; i < length; i++) {
        char digits[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        bytes[i] = (char)strtol(digits, NULL, 16);
    }
    return length;
}

/* Every field of a case. */
static inline void tokenizer_case_check_all(const cJSON *line, void *context)
{
    const struct cop_tokenizer *tokenizer = context;
    size_t length;
    char *text = reference_string(line, "text", &length);
    expect_ids(tokenizer, line, "ids", text, length, false);
    expect_ids(tokenizer, line, "ids_special_parsed", text, length, true);
    const cJSON *raw = cJSON_GetObjectItemCaseSensitive(line, "raw_hex");
    if (raw) {
        char bytes[256];
        size_t n_bytes = from_hex(raw->valuestring, bytes);
        expect_ids(tokenizer, line, "ids", bytes, n_bytes, false);
    }
    expect_decoded(tokenizer, line, "ids", true, "decoded");
    expect_decoded(tokenizer, line, "ids_special_parsed", true, "decoded_special_parsed");
    expect_decoded(tokenizer, line, "ids_special_parsed", false, "decoded_skip_special");
    free(text);
}

/* The same by a tokenizer that does not normalise, as those from GGUF metadata. */
static inline void tokenizer_case_check(const cJSON *line, void *context)
{
    if (cJSON_HasObjectItem(line, "ids_without_nfc")) {
        size_t length;
        char *text = reference_string(line, "text", &length);
        expect_ids(context, line, "ids_without_nfc", text, length, false);
        free(text);
        return;
    }
    tokenizer_case_check_all(line, context);
}

/* Whether text[from..) is the string of the file. */
static inline void expect_shown(const cJSON *line, const struct cop_text *text, size_t from,
                                const cJSON *wanted)
{
    size_t length;
    char *bytes = reference_bytes(wanted, &length);
    cr_expect(text->length - from == length && memcmp(text->bytes + from, bytes, length) == 0,
              "%s: shows \"%s\", not \"%s\"", name_of(line), text->bytes + from, bytes);
    free(bytes);
}

/* Whether a leading space is shown by streaming, but not decoded. */
static bool tokenizer_case_has_prefix;

static inline void tokenizer_case_stream(const cJSON *line, void *context)
{
    const struct cop_tokenizer *tokenizer = context;
    struct cop_stream stream = {0};
    struct cop_text shown = {0};
    struct cop_error err;
    const cJSON *hex = cJSON_GetObjectItemCaseSensitive(line, "pieces_as_bytes_hex")->child;
    const cJSON *chunk = cJSON_GetObjectItemCaseSensitive(line, "chunks")->child;
    const cJSON *id;
    cJSON_ArrayForEach(id, cJSON_GetObjectItemCaseSensitive(line, "ids"))
    {
        char bytes[256];
        size_t n_bytes = from_hex(hex->valuestring, bytes);
        struct cop_string piece = cop_tokenizer_piece(tokenizer, id->valueint);
        cr_expect(piece.length == n_bytes && memcmp(piece.bytes, bytes, n_bytes) == 0,
                  "%s: piece %d", name_of(line), id->valueint);
        size_t from = shown.length;
        cr_assert_eq(cop_stream_push(&stream, piece.bytes, piece.length, &shown, &err), COP_OK);
        expect_shown(line, &shown, from, chunk);
        hex = hex->next;
        chunk = chunk->next;
    }
    size_t from = shown.length;
    cr_assert_eq(cop_stream_flush(&stream, &shown, &err), COP_OK);
    expect_shown(line, &shown, from, cJSON_GetObjectItemCaseSensitive(line, "flush"));
    expect_decoded(tokenizer, line, "ids", true, "text");
    const cJSON *joined = cJSON_GetObjectItemCaseSensitive(line, "text_from_pieces");
    joined = joined ? joined : cJSON_GetObjectItemCaseSensitive(line, "text");
    bool has_prefix = tokenizer_case_has_prefix && shown.length > 0 && shown.bytes[0] == ' ';
    expect_shown(line, &shown, has_prefix ? 1 : 0, joined);
    cop_text_release(&shown);
}

#define MOST_MESSAGES 8

static inline void tokenizer_case_chat(const cJSON *line, void *context)
{
    const struct cop_tokenizer *tokenizer = context;
    if (cJSON_HasObjectItem(line, "tools")) {
        return; /* tools are not rendered */
    }
    struct cop_message messages[MOST_MESSAGES];
    size_t count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(line, "messages"))
    {
        const char *role = cJSON_GetObjectItemCaseSensitive(item, "role")->valuestring;
        const char *content = cJSON_GetObjectItemCaseSensitive(item, "content")->valuestring;
        cr_assert_lt(count, MOST_MESSAGES);
        messages[count++] =
            (struct cop_message){{role, strlen(role)}, {content, strlen(content)}};
    }
    bool generation =
        cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(line, "add_generation_prompt"));
    struct cop_text text = {0};
    struct cop_error err;
    cr_assert_eq(cop_chat_render(tokenizer, messages, count, generation, &text, &err), COP_OK,
                 "%s", err.text);
    cr_expect_str_eq(text.bytes, cJSON_GetObjectItemCaseSensitive(line, "text")->valuestring,
                     "%s", name_of(line));
    expect_ids(tokenizer, line, "ids", text.bytes, text.length, true);
    cop_text_release(&text);
}

#endif
