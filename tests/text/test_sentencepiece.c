/* SentencePiece's vocabularies in GGUF: merging by scores, bytes, spaces. */
#include "tests/support/mutate.h"
#include "tests/text/json_toy.h"
#include "tests/text/toy_tokenizer.h"

#include <math.h>

static struct cop_tokenizer *toy;
static struct cop_error err;

static void close_toy(void)
{
    cop_tokenizer_free(toy);
}

TestSuite(sentencepiece, .fini = close_toy, .timeout = 300);

#define SPACE "\u2581"
static const char *const pieces[] = {"<unk>",   "<s>", "</s>", "<0xC3>", "<0xA9>", SPACE,
                                     "a",       "b",   "aa",   "ab",     "aaa",    "ba",
                                     SPACE "a", "bab", "<t>",  "aab"};
static const int32_t types[] = {2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4, 5};
static const float scores[] = {0, 0, 0, 0, 0, -9, -9, -9, -1, -2, -3, -2, -4, -5, -6, 0};
enum { N_PIECES = sizeof types / sizeof types[0] };

static struct gguf_writer *make(void)
{
    struct gguf_writer *w = gguf_writer_new();
    gguf_put_string(w, "tokenizer.ggml.model", "llama");
    gguf_put_strings(w, "tokenizer.ggml.tokens", pieces, N_PIECES);
    gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, types, N_PIECES);
    gguf_put_array(w, "tokenizer.ggml.scores", GGUF_F32, scores, N_PIECES);
    gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 1);
    gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 2);
    gguf_put_u32(w, "tokenizer.ggml.unknown_token_id", 0);
    return w;
}

static void open_toy(struct gguf_writer *w)
{
    cr_assert_eq(toy_tokenizer_open(w, &toy, &err), COP_OK, "%s", err.text);
    gguf_writer_free(w);
}

Test(sentencepiece, merges_by_score_and_from_the_left)
{
    struct gguf_writer *w = make();
    gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", false);
    open_toy(w);
    cr_expect_str_eq(json_toy_ids(toy, "aab", false), "8 7");  /* aa before ab; 15 is unused */
    cr_expect_str_eq(json_toy_ids(toy, "aaa", false), "10");   /* aa, then aaa */
    cr_expect_str_eq(json_toy_ids(toy, "aaaa", false), "8 8"); /* two of the best score */
    cr_expect_str_eq(json_toy_ids(toy, "abab", false), "9 9"); /* ab and ba share a score */
    cr_expect_str_eq(json_toy_ids(toy, "bab", false), "13");   /* ba, which is left, then bab */
    cr_expect_str_eq(json_toy_ids(toy, " a", false), "12");
    cr_expect_str_eq(json_toy_ids(toy, SPACE "a", false), "12"); /* is no other character */
    cr_expect_str_eq(json_toy_ids(toy, "\u00E9\u00E8", false), "3 4 0"); /* bytes, unknown */
    cr_expect_str_eq(json_toy_ids(toy, "a<t>a</s>", false), "6 14 6 0 0 0 0");
    cr_expect_str_eq(json_toy_ids(toy, "a</s>a", true), "6 2 6");
    cr_expect_str_eq(json_toy_decode(toy, "12 6", true), " aa");
}

Test(sentencepiece, a_space_stands_in_front_of_each_stretch)
{
    open_toy(make());
    cr_expect_str_eq(json_toy_ids(toy, "a", false), "12");
    cr_expect_str_eq(json_toy_ids(toy, " a", false), "5 12");
    cr_expect_str_eq(json_toy_ids(toy, "", false), "");
    cr_expect_str_eq(json_toy_ids(toy, "a</s>a</s>", true), "12 2 12 2");
    cr_expect_str_eq(json_toy_decode(toy, "12 12", true), "a a");
    cr_expect_str_eq(json_toy_decode(toy, "2 12", true), "</s> a");
    cr_expect_str_eq(json_toy_decode(toy, "2 12", false), "a");
    cr_expect_str_eq(json_toy_decode(toy, "3 4 3 12", true), "\uFFFD\uFFFD\uFFFD a");
    cr_expect(cop_tokenizer_adds_bos(toy));
    cr_expect_eq(cop_tokenizer_id(toy, " a", 2), 12);
    cr_expect_eq(cop_tokenizer_kind(toy, 3), COP_PIECE_BYTE);
    cr_expect_eq((unsigned char)cop_tokenizer_piece(toy, 3).bytes[0], 0xC3);
}

static const struct {
    const char *key;
    size_t n_scores;
    float first;
    size_t length; /* of a long piece */
    enum cop_status status;
    const char *text;
} faults[] = {
    {"x", 2, 0, 0, COP_ERR_FORMAT, "toy.gguf: has no key \"tokenizer.ggml.scores\""},
    {"tokenizer.ggml.scores", 1, 0, 0, COP_ERR_FORMAT,
     "toy.gguf: key \"tokenizer.ggml.scores\" has 1 items for 2 tokens"},
    {"tokenizer.ggml.scores", 2, NAN, 0, COP_ERR_FORMAT,
     "toy.gguf: key \"tokenizer.ggml.scores\": item 0 is not finite"},
    {"tokenizer.ggml.scores", 2, 0, 1025, COP_ERR_LIMIT,
     "toy.gguf: token 1 has 1025 bytes; at most 1024 can be merged"},
};

Test(sentencepiece, one_fault_one_message)
{
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        static char piece[2000];
        memset(piece, 'x', sizeof piece);
        piece[faults[i].length ? faults[i].length : 1] = '\0';
        const char *const two[] = {"a", piece};
        const float values[] = {faults[i].first, 0};
        struct gguf_writer *w = gguf_writer_new();
        gguf_put_string(w, "tokenizer.ggml.model", "llama");
        gguf_put_strings(w, "tokenizer.ggml.tokens", two, 2);
        gguf_put_array(w, faults[i].key, GGUF_F32, values, faults[i].n_scores);
        cr_expect_eq(toy_tokenizer_open(w, &toy, &err), faults[i].status);
        cr_expect_str_eq(err.text, faults[i].text);
        cr_expect_null(toy);
        gguf_writer_free(w);
    }
}

Test(sentencepiece, damaged_files)
{
    struct gguf_writer *w = make();
    size_t size;
    const uint8_t *image = gguf_image(w, &size);
    size_t n_opened = 0;
    for (uint64_t seed = 0; seed < MUTATIONS; seed++) {
        size_t damaged_size;
        uint8_t *damaged = mutate(image, size, seed, &damaged_size);
        struct cop_gguf *file;
        if (cop_gguf_open_memory(&file, "m.gguf", damaged, damaged_size, &err) == COP_OK) {
            enum cop_status status = cop_tokenizer_from_gguf(&toy, file, &err);
            cop_gguf_close(file);
            cr_assert(status == COP_OK || (!toy && strncmp(err.text, "m.gguf: ", 8) == 0));
            if (toy) {
                (void)json_toy_ids(toy, "aab \u00E9 a</s>bab<t>  aaaaaaaa", true);
                n_opened++;
            }
            cop_tokenizer_free(toy);
            toy = NULL;
        }
        free(damaged);
    }
    cr_expect_gt(n_opened, 1000);
    gguf_writer_free(w);
}
