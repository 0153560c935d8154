/* A byte-level tokenizer small enough to know by heart.
 *
 *     ids   0 <|endoftext|>  1 <|im_start|>  2 <|im_end|>   control
 *           3 <tool>                                        added
 *           4 + b: the byte b
 *           260 …: what the merges make, in their order:
 *           260 he  261 ll  262 hell  263 hello  264 " w"  265 or  266 " wor"  267 aa  268 aaaa
 *           269 "  "
 *
 * bos 1, eos 2; pre-tokenizer smollm unless another is named; plain ChatML template. */
#ifndef TESTS_TEXT_TOY_TOKENIZER_H
#define TESTS_TEXT_TOY_TOKENIZER_H

#include "core/base/utf8.h"
#include "core/files/gguf_memory.h"
#include "core/text/byte_symbols.h"
#include "core/text/tokenizer.h"
#include "tests/support/gguf_writer.h"

#include <string.h>

enum {
    TOY_TOOL = 3,
    TOY_BYTE = 4,
    TOY_HE = 260,
    TOY_LL,
    TOY_HELL,
    TOY_HELLO,
    TOY_SPACE_W,
    TOY_OR,
    TOY_SPACE_WOR,
    TOY_AA,
    TOY_AAAA,
    TOY_SPACES,
    TOY_SIZE
};

/* Puts all its metadata; `pre` may be NULL. */
static inline void toy_tokenizer_put(struct gguf_writer *w, const char *pre)
{
    static const char *const made[] = {"he", "ll",        "hell", "hello", "\u0120w",
                                       "or", "\u0120wor", "aa",   "aaaa",  "\u0120\u0120"};
    static const char *const merges[] = {"h e",      "l l",          "he ll",      "hell o",
                                         "\u0120 w", "o r",          "\u0120w or", "a a",
                                         "aa aa",    "\u0120 \u0120"};
    const char *pieces[TOY_SIZE] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>"};
    int32_t types[TOY_SIZE] = {3, 3, 3, 4};
    char symbols[256][5];
    memset(symbols, 0, sizeof symbols);
    for (int byte = 0; byte < 256; byte++) {
        (void)cop_utf8_write(cop_byte_symbol((uint8_t)byte), symbols[byte]);
        pieces[TOY_BYTE + byte] = symbols[byte];
    }
    for (int i = TOY_HE; i < TOY_SIZE; i++) {
        pieces[i] = made[i - TOY_HE];
    }
    for (int i = TOY_BYTE; i < TOY_SIZE; i++) {
        types[i] = 1;
    }
    gguf_put_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(w, "tokenizer.ggml.pre", pre ? pre : "smollm");
    gguf_put_strings(w, "tokenizer.ggml.tokens", pieces, TOY_SIZE);
    gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, types, TOY_SIZE);
    gguf_put_strings(w, "tokenizer.ggml.merges", merges, sizeof merges / sizeof merges[0]);
    gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 1);
    gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 2);
    gguf_put_bool(w, "tokenizer.ggml.add_bos_token", false);
    gguf_put_string(w, "tokenizer.chat_template",
                    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
                    "{{ m['content'] }}<|im_end|>\n{% endfor %}");
}

/* The tokenizer of a writer's file; the status is that of cop_tokenizer_from_gguf. */
static inline enum cop_status
toy_tokenizer_open(struct gguf_writer *w, struct cop_tokenizer **out, struct cop_error *err)
{
    size_t size;
    const uint8_t *image = gguf_image(w, &size);
    struct cop_gguf *file;
    *out = NULL;
    enum cop_status status = cop_gguf_open_memory(&file, "toy.gguf", image, size, err);
    if (status == COP_OK) {
        status = cop_tokenizer_from_gguf(out, file, err);
        cop_gguf_close(file);
    }
    return status;
}

#endif
