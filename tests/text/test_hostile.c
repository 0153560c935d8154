/* Damaged tokenizers: whatever the metadata, an answer and no crash. */
#include "tests/support/mutate.h"
#include "tests/text/toy_tokenizer.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(hostile_tokenizer, .timeout = 300);

/* Encodes and decodes with whatever came out. */
static void use(const struct cop_tokenizer *tokenizer)
{
    static const char text[] = "hello <tool>wor 12\xFF aaaaaaa <|im_end|>\xC3\xA9  ";
    struct cop_encode_options options = {.special = true, .bos = true};
    struct cop_ids ids = {0};
    struct cop_text back = {0};
    struct cop_error err;
    cr_assert_eq(cop_tokenizer_encode(tokenizer, text, sizeof text, options, &ids, &err),
                 COP_OK);
    for (size_t i = 0; i < ids.count; i++) {
        cr_assert(ids.items[i] >= 0 && ids.items[i] < cop_tokenizer_size(tokenizer));
    }
    cr_assert_eq(cop_tokenizer_decode(tokenizer, ids.items, ids.count, true, &back, &err),
                 COP_OK);
    cr_assert_eq(cop_utf8_valid_prefix(back.bytes, back.length), back.length);
    cop_ids_release(&ids);
    cop_text_release(&back);
}

static bool survives(const uint8_t *image, size_t size)
{
    struct cop_gguf *file;
    struct cop_tokenizer *tokenizer;
    struct cop_error err = {.text = ""};
    if (cop_gguf_open_memory(&file, "m.gguf", image, size, &err) != COP_OK) {
        return false;
    }
    enum cop_status status = cop_tokenizer_from_gguf(&tokenizer, file, &err);
    cop_gguf_close(file);
    if (status != COP_OK) {
        cr_assert(!tokenizer && err.code == status && strncmp(err.text, "m.gguf: ", 8) == 0);
        return false;
    }
    if (tokenizer) {
        use(tokenizer);
        cop_tokenizer_free(tokenizer);
    }
    return tokenizer != NULL;
}

/* Few pieces, so that most damage falls on something that matters. */
static struct gguf_writer *make(void)
{
    static const char *const pieces[] = {"<|endoftext|>",
                                         "<|im_end|>",
                                         "<tool>",
                                         "<0x0A>",
                                         "h",
                                         "e",
                                         "l",
                                         "o",
                                         "\u0120",
                                         "w",
                                         "r",
                                         "a",
                                         "<",
                                         "he",
                                         "ll",
                                         "hell",
                                         "aa",
                                         "\u0120w"};
    static const int32_t types[] = {3, 3, 4, 6, 1, 1, 1, 1, 1, 1, 1, 1, 5, 1, 1, 1, 1, 1};
    static const char *const merges[] = {"h e", "l l", "he ll", "a a", "\u0120 w"};
    struct gguf_writer *w = gguf_writer_new();
    gguf_put_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(w, "tokenizer.ggml.pre", "smollm");
    gguf_put_strings(w, "tokenizer.ggml.tokens", pieces, 18);
    gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, types, 18);
    gguf_put_strings(w, "tokenizer.ggml.merges", merges, 5);
    gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 0);
    gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 1);
    gguf_put_string(w, "tokenizer.chat_template", "<|im_start|><|im_end|>");
    return w;
}

Test(hostile_tokenizer, random_damage)
{
    struct gguf_writer *w = make();
    size_t size;
    const uint8_t *image = gguf_image(w, &size);
    cr_assert(survives(image, size));
    size_t n_opened = 0;
    for (uint64_t seed = 0; seed < MUTATIONS; seed++) {
        size_t damaged_size;
        uint8_t *damaged = mutate(image, size, seed, &damaged_size);
        n_opened += survives(damaged, damaged_size);
        free(damaged);
    }
    cr_expect_gt(n_opened, MUTATIONS / 100);
    gguf_writer_free(w);
}

Test(hostile_tokenizer, every_byte_set_to_several_values)
{
    struct gguf_writer *w = make();
    size_t size;
    const uint8_t *image = gguf_image(w, &size);
    for (size_t at = 0; at < size; at++) {
        const uint8_t values[] = {0, 0xFF, ' ', (uint8_t)(image[at] + 1)};
        for (size_t i = 0; i < sizeof values; i++) {
            uint8_t *copy = malloc(size);
            memcpy(copy, image, size);
            copy[at] = values[i];
            (void)survives(copy, size);
            free(copy);
        }
    }
    gguf_writer_free(w);
}

static uint32_t next_random(uint64_t *state, uint32_t limit)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % limit;
}

/* A string of n letters, some of which are long, ill-formed or nothing at all. */
static void fill(char *text, uint64_t *state, uint32_t n_letters, const char *between)
{
    static const char *const letters[] = {"a",      "a",          "b",      "h",    "e",
                                          "l",      "\u0120",     "\u00E9", "\xFF", " ",
                                          "<tool>", "<|im_end|>", "ab",     "",     "aa"};
    text[0] = '\0';
    for (uint32_t i = 0; i < n_letters; i++) {
        strcat(text, i == 1 ? between : "");
        strcat(text, letters[next_random(state, sizeof letters / sizeof letters[0])]);
    }
}

static bool is_among(const char *const *list, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* A well-formed file whose lists are nonsense. */
static struct gguf_writer *make_nonsense(uint64_t seed)
{
    enum { PIECES = 24, MERGES = 8 };
    static char texts[PIECES + MERGES][64];
    const char *pieces[PIECES];
    const char *merges[MERGES];
    int32_t types[PIECES];
    size_t n_pieces = 0;
    for (size_t i = 0; i < PIECES; i++) {
        fill(texts[i], &seed, 1 + next_random(&seed, i < 8 ? 1 : 3), "");
        /* Equal pieces would be refused before anything else is looked at: few of them. */
        if (!is_among(pieces, n_pieces, texts[i]) || next_random(&seed, 200) == 0) {
            bool is_odd = next_random(&seed, 3) == 0;
            types[n_pieces] = is_odd ? 1 + (int32_t)next_random(&seed, 6) : 1;
            pieces[n_pieces++] = texts[i];
        }
    }
    for (size_t i = 0; i < MERGES; i++) {
        fill(texts[PIECES + i], &seed, 2 + next_random(&seed, 2), " ");
        merges[i] = texts[PIECES + i];
    }
    struct gguf_writer *w = gguf_writer_new();
    gguf_put_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(w, "tokenizer.ggml.pre", next_random(&seed, 2) ? "llama-bpe" : "gpt-2");
    gguf_put_strings(w, "tokenizer.ggml.tokens", pieces, n_pieces);
    gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, types, n_pieces);
    gguf_put_strings(w, "tokenizer.ggml.merges", merges, next_random(&seed, 4));
    gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 0);
    return w;
}

Test(hostile_tokenizer, nonsense_in_well_formed_files)
{
    size_t n_opened = 0;
    for (uint64_t seed = 0; seed < 20000; seed++) {
        struct gguf_writer *w = make_nonsense(seed);
        size_t size;
        const uint8_t *image = gguf_image(w, &size);
        n_opened += survives(image, size);
        gguf_writer_free(w);
    }
    cr_expect_gt(n_opened, 2000);
    cr_expect_lt(n_opened, 18000);
}
