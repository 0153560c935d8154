/* The toy tokenizer, id by id. */
#include "core/text/tokenizer.h"
#include "tests/text/toy_tokenizer.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct gguf_writer *w;
static struct cop_tokenizer *toy;
static struct cop_error err;

static void start(void)
{
    w = gguf_writer_new();
}

static void finish(void)
{
    cop_tokenizer_free(toy);
    gguf_writer_free(w);
}

TestSuite(tokenizer, .init = start, .fini = finish, .timeout = 60);

static void open_toy(const char *pre)
{
    toy_tokenizer_put(w, pre);
    cr_assert_eq(toy_tokenizer_open(w, &toy, &err), COP_OK, "%s", err.text);
}

#define B(character) (TOY_BYTE + (unsigned char)(character))
#define MOST         24

static const struct {
    const char *text;
    size_t length; /* 0: as terminated */
    struct cop_encode_options options;
    cop_token ids[MOST]; /* -1 ends */
} encodings[] = {
    {"", 0, {0}, {-1}},
    {"hello wor", 0, {0}, {TOY_HELLO, TOY_SPACE_WOR, -1}},
    {"hell", 0, {0}, {TOY_HELL, -1}},
    {"helo", 0, {0}, {TOY_HE, B('l'), B('o'), -1}},
    {"aaaaaaa", 0, {0}, {TOY_AAAA, TOY_AA, B('a'), -1}},
    {"a\0b", 3, {0}, {B('a'), B('\0'), B('b'), -1}},
    {"12", 0, {0}, {B('1'), B('2'), -1}},
    {"\u00E9", 0, {0}, {B('\xC3'), B('\xA9'), -1}},
    /* Control tokens are text unless asked for; added ones never are. */
    {"<|im_end|>", 0, {.special = true}, {2, -1}},
    {"he<|im_end|>he", 0, {.special = true}, {TOY_HE, 2, TOY_HE, -1}},
    {"<tool>", 0, {0}, {TOY_TOOL, -1}},
    {"<<tool><tool", 0, {0}, {B('<'), TOY_TOOL, B('<'), B('t'), B('o'), B('o'), B('l'), -1}},
    {"<|im_end|",
     0,
     {.special = true},
     {B('<'), B('|'), B('i'), B('m'), B('_'), B('e'), B('n'), B('d'), B('|'), -1}},
    /* The beginning token stands in front once. */
    {"he", 0, {.bos = true}, {1, TOY_HE, -1}},
    {"", 0, {.bos = true}, {1, -1}},
    {"<|im_start|>he", 0, {.bos = true, .special = true}, {1, TOY_HE, -1}},
    {"<|im_start|><|im_start|>", 0, {.bos = true, .special = true}, {1, 1, -1}},
    /* Ill-formed bytes become U+FFFD, one for each maximal part. */
    {"a\xE2\x82z\xFF",
     0,
     {0},
     {B('a'), B('\xEF'), B('\xBF'), B('\xBD'), B('z'), B('\xEF'), B('\xBF'), B('\xBD'), -1}},
};

Test(tokenizer, encodes_to_known_ids)
{
    open_toy(NULL);
    for (size_t i = 0; i < sizeof encodings / sizeof encodings[0]; i++) {
        size_t length = encodings[i].length ? encodings[i].length : strlen(encodings[i].text);
        struct cop_ids ids = {0};
        cr_assert_eq(cop_tokenizer_encode(toy, encodings[i].text, length, encodings[i].options,
                                          &ids, &err),
                     COP_OK);
        size_t count = 0;
        while (encodings[i].ids[count] >= 0) {
            cr_assert(count < ids.count && ids.items[count] == encodings[i].ids[count],
                      "\"%s\" at %zu", encodings[i].text, count);
            count++;
        }
        cr_expect_eq(ids.count, count, "\"%s\"", encodings[i].text);
        cop_ids_release(&ids);
    }
}

Test(tokenizer, encoding_appends)
{
    open_toy(NULL);
    struct cop_ids ids = {0};
    struct cop_encode_options options = {.bos = true};
    cr_assert_eq(cop_ids_push(&ids, 77, &err), COP_OK);
    cr_assert_eq(cop_tokenizer_encode(toy, "he", 2, options, &ids, &err), COP_OK);
    cr_expect(ids.count == 3 && ids.items[0] == 77 && ids.items[1] == 1 &&
              ids.items[2] == TOY_HE);
    cop_ids_release(&ids);
}

Test(tokenizer, decodes_with_and_without_control_tokens)
{
    open_toy(NULL);
    cop_token ids[] = {1, TOY_HELLO, TOY_TOOL, 2, B('\xC3'), 2, B('\xA9'), B('\xC3')};
    struct cop_text text = {0};
    cr_assert_eq(cop_tokenizer_decode(toy, ids, 8, true, &text, &err), COP_OK);
    cr_expect_str_eq(text.bytes,
                     "<|im_start|>hello<tool><|im_end|>\uFFFD<|im_end|>\uFFFD\uFFFD");
    cop_text_release(&text);
    /* Dropped tokens do not tear a character apart. */
    cr_assert_eq(cop_tokenizer_decode(toy, ids, 8, false, &text, &err), COP_OK);
    cr_expect_str_eq(text.bytes, "hello<tool>\u00E9\uFFFD");
    cr_expect_eq(
        cop_tokenizer_decode(toy, (cop_token[]){TOY_HE, TOY_SIZE}, 2, true, &text, &err),
        COP_ERR_ARGUMENT);
    cr_expect_str_eq(err.text, "token id 270 (at index 1) is outside the vocabulary of 270");
    cr_expect_str_eq(text.bytes, "hello<tool>\u00E9\uFFFD"); /* as before the call */
    cr_expect_eq(cop_tokenizer_decode(toy, (cop_token[]){-1}, 1, true, &text, &err),
                 COP_ERR_ARGUMENT);
    cop_text_release(&text);
}

Test(tokenizer, knows_its_pieces)
{
    open_toy(NULL);
    struct cop_string piece = cop_tokenizer_piece(toy, TOY_SPACE_WOR);
    cr_expect(piece.length == 4 && memcmp(piece.bytes, " wor", 4) == 0);
    cr_expect_eq(cop_tokenizer_piece(toy, TOY_SIZE).length, 0);
    cr_expect_eq(cop_tokenizer_piece(toy, -1).length, 0);
    cr_expect_eq(cop_tokenizer_kind(toy, 0), COP_PIECE_CONTROL);
    cr_expect_eq(cop_tokenizer_kind(toy, TOY_TOOL), COP_PIECE_ADDED);
    cr_expect_eq(cop_tokenizer_kind(toy, TOY_HE), COP_PIECE_NORMAL);
    cr_expect_eq(cop_tokenizer_kind(toy, TOY_SIZE), COP_PIECE_UNUSED);
    cr_expect(cop_tokenizer_is_padding(toy, TOY_SIZE));
    cr_expect_not(cop_tokenizer_is_padding(toy, TOY_HE));
    cr_expect_not(cop_tokenizer_is_padding(toy, 0)); /* a control token stands in texts */
    cr_expect_eq(cop_tokenizer_id(toy, " wor", 4), TOY_SPACE_WOR);
    cr_expect_eq(cop_tokenizer_id(toy, "\xFF", 1), B('\xFF'));
    cr_expect_eq(cop_tokenizer_id(toy, "<|im_end|>", 10), 2);
    cr_expect_eq(cop_tokenizer_id(toy, "", 0), -1);
    cr_expect_eq(cop_tokenizer_size(toy), TOY_SIZE);
    cr_expect_eq(cop_tokenizer_bos(toy), 1);
    size_t count;
    const cop_token *eos = cop_tokenizer_eos(toy, &count);
    cr_expect(count == 2 && eos[0] == 2 && eos[1] == 0);
    cr_expect_gt(cop_tokenizer_template(toy).length, 0);
}

Test(tokenizer, fingerprints_tell_vocabularies_apart)
{
    open_toy(NULL);
    uint64_t first = cop_tokenizer_fingerprint(toy);
    struct gguf_writer *other = gguf_writer_new();
    struct cop_tokenizer *made;
    toy_tokenizer_put(other, "qwen2"); /* the same pieces */
    cr_assert_eq(toy_tokenizer_open(other, &made, &err), COP_OK);
    cr_expect_eq(cop_tokenizer_fingerprint(made), first);
    cop_tokenizer_free(made);
    gguf_writer_free(other);
    other = gguf_writer_new();
    gguf_put_string(other, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(other, "tokenizer.ggml.pre", "gpt-2");
    gguf_put_strings(other, "tokenizer.ggml.tokens", (const char *[]){"a", "bc"}, 2);
    gguf_put_strings(other, "tokenizer.ggml.merges", NULL, 0);
    cr_assert_eq(toy_tokenizer_open(other, &made, &err), COP_OK, "%s", err.text);
    cr_expect_neq(cop_tokenizer_fingerprint(made), first);
    cop_tokenizer_free(made);
    gguf_writer_free(other);
}

/* The vocabulary holds "aaaa" but the word "aaaaaa" can only be made of parts; whole words are
 * looked up first where the family says so. */
Test(tokenizer, ignore_merges_takes_whole_words)
{
    static const char *const pieces[] = {"a", "b", "c", "bc", "abc"};
    static const char *const merges[] = {"b c"};
    for (int pass = 0; pass < 2; pass++) {
        struct gguf_writer *file = gguf_writer_new();
        gguf_put_string(file, "tokenizer.ggml.model", "gpt2");
        gguf_put_string(file, "tokenizer.ggml.pre", pass ? "llama-bpe" : "qwen2");
        gguf_put_strings(file, "tokenizer.ggml.tokens", pieces, 5);
        gguf_put_strings(file, "tokenizer.ggml.merges", merges, 1);
        struct cop_tokenizer *made;
        cr_assert_eq(toy_tokenizer_open(file, &made, &err), COP_OK, "%s", err.text);
        struct cop_ids ids = {0};
        struct cop_encode_options options = {0};
        cr_assert_eq(cop_tokenizer_encode(made, "abc", 3, options, &ids, &err), COP_OK);
        if (pass) {
            cr_expect(ids.count == 1 && ids.items[0] == 4);
        } else {
            cr_expect(ids.count == 2 && ids.items[0] == 0 && ids.items[1] == 3);
        }
        cop_ids_release(&ids);
        cop_tokenizer_free(made);
        gguf_writer_free(file);
    }
}

/* A byte without a piece vanishes, and its neighbours may merge over the gap. */
Test(tokenizer, bytes_without_a_piece_vanish)
{
    static const char *const pieces[] = {"!", "?", "!?"};
    static const char *const merges[] = {"! ?"};
    gguf_put_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(w, "tokenizer.ggml.pre", "gpt-2");
    gguf_put_strings(w, "tokenizer.ggml.tokens", pieces, 3);
    gguf_put_strings(w, "tokenizer.ggml.merges", merges, 1);
    cr_assert_eq(toy_tokenizer_open(w, &toy, &err), COP_OK, "%s", err.text);
    struct cop_ids ids = {0};
    struct cop_encode_options options = {0};
    cr_assert_eq(cop_tokenizer_encode(toy, "!\x01?x?", 5, options, &ids, &err), COP_OK);
    cr_expect(ids.count == 2 && ids.items[0] == 2 && ids.items[1] == 1);
    cop_ids_release(&ids);
}

Test(tokenizer, the_longest_special_token_wins)
{
    static const char *const pieces[] = {"<|a|>", "<|a|b|>", "<", "|", "a", ">", "b"};
    static const int32_t types[] = {3, 3, 1, 1, 1, 1, 1};
    gguf_put_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(w, "tokenizer.ggml.pre", "gpt-2");
    gguf_put_strings(w, "tokenizer.ggml.tokens", pieces, 7);
    gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, types, 7);
    gguf_put_strings(w, "tokenizer.ggml.merges", NULL, 0);
    cr_assert_eq(toy_tokenizer_open(w, &toy, &err), COP_OK, "%s", err.text);
    static const cop_token wanted[] = {1, 0, 2, 3, 4, 3, 6, 0};
    struct cop_ids ids = {0};
    struct cop_encode_options options = {.special = true};
    const char *text = "<|a|b|><|a|><|a|b<|a|>";
    cr_assert_eq(cop_tokenizer_encode(toy, text, strlen(text), options, &ids, &err), COP_OK);
    cr_assert_eq(ids.count, 8);
    cr_expect_eq(memcmp(ids.items, wanted, sizeof wanted), 0);
    cop_ids_release(&ids);
}

/* decode(encode(s)) = s for any valid text, when every byte has a piece. */
Test(tokenizer, valid_text_survives_the_round_trip)
{
    static const uint32_t tops[] = {0x80, 0x250, 0x3000, 0xFFFF, 0x10FFFF};
    open_toy("llama-bpe");
    uint64_t state = 7;
    for (int round = 0; round < 2000; round++) {
        struct cop_text text = {0};
        struct cop_text back = {0};
        struct cop_ids ids = {0};
        for (int i = 0; i < round % 50; i++) {
            char bytes[4];
            state = state * 6364136223846793005u + 1442695040888963407u;
            uint32_t top = tops[(state >> 60) % 5];
            uint32_t character = (uint32_t)(state >> 30) % (top + 1);
            character = character >= 0xD800 && character <= 0xDFFF ? 'h' : character;
            cop_text_append(&text, bytes, cop_utf8_write(character, bytes), NULL);
        }
        struct cop_encode_options options = {.special = round % 2};
        cr_assert_eq(cop_tokenizer_encode(toy, text.bytes, text.length, options, &ids, &err),
                     COP_OK);
        cr_assert_eq(cop_tokenizer_decode(toy, ids.items, ids.count, true, &back, &err),
                     COP_OK);
        cr_assert(text.length == back.length &&
                      (text.length == 0 || memcmp(text.bytes, back.bytes, text.length) == 0),
                  "round %d", round);
        cop_text_release(&text);
        cop_text_release(&back);
        cop_ids_release(&ids);
    }
}

/* Streaming random pieces shows, all in all, what decoding says. */
Test(tokenizer, streaming_equals_decoding)
{
    open_toy(NULL);
    uint64_t state = 99;
    for (int round = 0; round < 2000; round++) {
        cop_token ids[40];
        struct cop_stream stream = {0};
        struct cop_text shown = {0};
        struct cop_text text = {0};
        for (size_t i = 0; i < 40; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            /* Mostly bytes that begin, continue or break a character. */
            unsigned byte =
                "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xED\xA0\xFF"[(state >> 50) % 12];
            ids[i] = (state >> 40) % 8 == 0 ? (cop_token)((state >> 20) % TOY_SIZE)
                                            : TOY_BYTE + (cop_token)(byte & 0xFF);
            struct cop_string piece = cop_tokenizer_piece(toy, ids[i]);
            cr_assert_eq(cop_stream_push(&stream, piece.bytes, piece.length, &shown, &err),
                         COP_OK);
            cr_assert_eq(cop_utf8_valid_prefix(shown.bytes, shown.length), shown.length);
        }
        cr_assert_eq(cop_stream_flush(&stream, &shown, &err), COP_OK);
        cr_assert_eq(cop_tokenizer_decode(toy, ids, 40, true, &text, &err), COP_OK);
        cr_assert_str_eq(shown.bytes, text.bytes, "round %d", round);
        cop_text_release(&shown);
        cop_text_release(&text);
    }
}

/* Words that do not end: quadratic merging would take minutes. */
Test(tokenizer, a_word_of_a_million_letters_is_quick)
{
    enum { SIZE = 1000000 };
    open_toy(NULL);
    char *text = malloc(SIZE);
    memset(text, 'a', SIZE);
    struct cop_ids ids = {0};
    struct cop_encode_options options = {.special = true};
    cr_assert_eq(cop_tokenizer_encode(toy, text, SIZE, options, &ids, &err), COP_OK);
    cr_expect_eq(ids.count, SIZE / 4);
    free(text);
    cop_ids_release(&ids);
}

static void *encode_much(void *context)
{
    (void)context;
    size_t total = 0;
    for (int i = 0; i < 200; i++) {
        struct cop_ids ids = {0};
        struct cop_encode_options options = {0};
        cop_tokenizer_encode(toy, "hello wor 1234 hello", 20, options, &ids, NULL);
        total += ids.count;
        cop_ids_release(&ids);
    }
    cop_tokenizer_free(toy); /* the reference that the thread was given */
    return (void *)(uintptr_t)total;
}

Test(tokenizer, several_threads_share_one)
{
    open_toy(NULL);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(cop_tokenizer_share(toy), toy);
        cr_assert_eq(pthread_create(&threads[i], NULL, encode_much, NULL), 0);
    }
    for (int i = 0; i < 3; i++) {
        void *total;
        cr_assert_eq(pthread_join(threads[i], &total), 0);
        cr_expect_eq((uintptr_t)total, 200 * 9);
    }
}

Test(tokenizer, every_declared_end_token_ends)
{
    static const char *const pieces[] = {"a", "<|eot_id|>", "<|end_of_text|>", "x", "y"};
    static const int32_t types[] = {1, 3, 3, 3, 3};
    gguf_put_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(w, "tokenizer.ggml.pre", "llama-bpe");
    gguf_put_strings(w, "tokenizer.ggml.tokens", pieces, 5);
    gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, types, 5);
    gguf_put_strings(w, "tokenizer.ggml.merges", NULL, 0);
    gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 2);
    gguf_put_u32(w, "tokenizer.ggml.eot_token_id", 4);
    gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 3);
    cr_assert_eq(toy_tokenizer_open(w, &toy, &err), COP_OK, "%s", err.text);
    size_t count;
    const cop_token *eos = cop_tokenizer_eos(toy, &count);
    cr_assert_eq(count, 3);
    cr_expect(eos[0] == 2 && eos[1] == 4 && eos[2] == 1);
    cr_expect(cop_tokenizer_adds_bos(toy)); /* Llama 3's family does, unless the file denies */
}
