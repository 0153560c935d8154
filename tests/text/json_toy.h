/* Tokenizers from JSON written in a test. */
#ifndef TESTS_TEXT_JSON_TOY_H
#define TESTS_TEXT_JSON_TOY_H

#include "core/text/json/json_source.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline struct cop_json_text json_toy_text(const char *name, const char *bytes)
{
    return (struct cop_json_text){name, {bytes, bytes ? strlen(bytes) : 0}};
}

static inline enum cop_status json_toy_open(const char *json, struct cop_tokenizer **out,
                                            struct cop_error *err)
{
    struct cop_json_text files[COP_JSON_FILES] = {json_toy_text("t.json", json)};
    return cop_tokenizer_from_json(out, files, err);
}

/* "1 2 3": the ids of a text. */
static inline const char *json_toy_ids(const struct cop_tokenizer *tokenizer, const char *text,
                                       bool special)
{
    static char shown[512];
    struct cop_ids ids = {0};
    struct cop_error err;
    cr_assert_eq(cop_tokenizer_encode(tokenizer, text, strlen(text),
                                      (struct cop_encode_options){.special = special}, &ids,
                                      &err),
                 COP_OK, "%s", err.text);
    size_t filled = 0;
    shown[0] = '\0';
    for (size_t i = 0; i < ids.count && filled < sizeof shown - 16; i++) {
        filled += (size_t)snprintf(shown + filled, sizeof shown - filled, "%s%d",
                                   i > 0 ? " " : "", ids.items[i]);
    }
    cop_ids_release(&ids);
    return shown;
}

/* The text of "1 2 3". */
static inline const char *json_toy_decode(const struct cop_tokenizer *tokenizer,
                                          const char *list, bool special)
{
    static char shown[256];
    struct cop_ids ids = {0};
    struct cop_text text = {0};
    struct cop_error err;
    char *end;
    for (const char *at = list; *at; at = end) {
        cop_ids_push(&ids, (cop_token)strtol(at, &end, 10), NULL);
    }
    cr_assert_eq(cop_tokenizer_decode(tokenizer, ids.items, ids.count, special, &text, &err),
                 COP_OK, "%s", err.text);
    (void)snprintf(shown, sizeof shown, "%s", text.bytes ? text.bytes : "");
    cop_ids_release(&ids);
    cop_text_release(&text);
    return shown;
}

#endif
