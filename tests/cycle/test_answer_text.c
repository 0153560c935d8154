/* What is shown, joined, is the decoded text, cut at the first stop, for every kind of
 * tokenizer and however many tokens a cycle commits. */
#include "core/cycle/answer.h"
#include "tests/support/reference.h"
#include "tests/support/tiny_model.h"
#include "tests/text/json_toy.h"
#include "tests/text/toy_tokenizer.h"

#include <criterion/criterion.h>
#include <string.h>

enum { LENGTH = 48, MOST_TEXT = 8192 };

static struct cop_tokenizer *tokenizer;
static struct cop_error err;
static void close_tokenizer(void)
{
    cop_tokenizer_free(tokenizer);
}
TestSuite(answer_text, .fini = close_tokenizer, .timeout = 120);

struct shown {
    char text[MOST_TEXT];
    size_t length;
    int32_t n_tokens;
};
static bool collect(void *user, uint32_t request, const char *text, size_t length,
                    const cop_token *tokens, const int32_t *depths, int32_t n_tokens)
{
    struct shown *shown = user;
    (void)request;
    (void)tokens;
    (void)depths;
    cr_assert_lt(shown->length + length, MOST_TEXT);
    memcpy(shown->text + shown->length, text, length);
    shown->length += length;
    shown->n_tokens += n_tokens;
    cr_expect_eq(cop_utf8_valid_prefix(text, length), length, "a torn character");
    return true;
}

/* The answer that is made of ids, `size` of them a cycle. */
static void make_answer(struct cop_answer *answer, struct cop_request *request,
                        const cop_token *ids, int32_t size, struct shown *shown)
{
    *shown = (struct shown){.length = 0};
    request->on_text = collect;
    request->user = shown;
    cr_assert_eq(cop_answer_init(answer, request, tokenizer, LENGTH, &err), COP_OK);
    int32_t nodes[LENGTH] = {0};
    for (int32_t at = 0; at < LENGTH && answer->finish == COP_FINISH_NONE; at += size) {
        struct cop_taken taken = {.tokens = ids + at,
                                  .nodes = nodes,
                                  .n_accepted = (LENGTH - at < size ? LENGTH - at : size) - 1};
        cr_assert_eq(cop_answer_take(answer, &taken, &err), COP_OK);
        cop_answer_show(answer);
    }
    cr_assert_eq(cop_answer_finish(answer, COP_FINISH_CANCELLED, &err), COP_OK);
}

static struct cop_text decoded(const cop_token *ids, int32_t n)
{
    struct cop_text text = {0};
    cr_assert_eq(cop_tokenizer_decode(tokenizer, ids, (size_t)n, false, &text, &err), COP_OK);
    cr_assert_eq(cop_text_append(&text, "", 0, &err), COP_OK);
    return text;
}

/* Where a stop begins whose last byte comes first, the longest of them; else the length. */
static size_t first_stop(const struct cop_text *text, const struct cop_request *request)
{
    for (size_t end = 1; end <= text->length; end++) {
        size_t longest = 0;
        for (int32_t s = 0; s < request->n_stop; s++) {
            size_t length = request->stop_lengths[s];
            if (length <= end && length > longest &&
                memcmp(text->bytes + end - length, request->stop[s], length) == 0) {
                longest = length;
            }
        }
        if (longest > 0) {
            return end - longest;
        }
    }
    return text->length;
}

/* The last token has a byte of the text that stays. Asked where prefixes of the list decode to
 * prefixes of the text: not after replaced bytes, nor after a space that their end would lose.
 */
static void expect_last_token(const struct cop_answer *answer, const struct cop_text *whole,
                              const char *what)
{
    int32_t n = answer->n_tokens;
    struct cop_text with = decoded(answer->tokens, n),
                    without = decoded(answer->tokens, n > 0 ? n - 1 : 0);
    size_t cut = answer->text.length;
    bool is_plain = cut == 0 || (answer->text.bytes[cut - 1] != ' ' &&
                                 (uint8_t)answer->text.bytes[cut - 1] != 0xBD);
    if (is_plain && with.length <= whole->length &&
        memcmp(with.bytes, whole->bytes, with.length) == 0 && without.length <= with.length &&
        memcmp(without.bytes, with.bytes, without.length) == 0) {
        cr_expect_geq(with.length, cut, "%s: a token too few", what);
        cr_expect(n == 0 || without.length < cut, "%s: a token too many", what);
    }
    cop_text_release(&with);
    cop_text_release(&without);
}

static void check_answer(const cop_token *ids, struct cop_request *request, int32_t size,
                         const char *name)
{
    static struct shown shown;
    struct cop_answer answer;
    char what[96];
    (void)snprintf(what, sizeof what, "%s, %d stops, %d a cycle", name, request->n_stop, size);
    make_answer(&answer, request, ids, size, &shown);
    struct cop_text whole = decoded(ids, LENGTH);
    size_t cut = first_stop(&whole, request);
    cr_assert(answer.text.length == cut &&
                  (cut == 0 || memcmp(answer.text.bytes, whole.bytes, cut) == 0),
              "%s: the text \"%.*s\" of \"%s\"", what, (int)answer.text.length,
              answer.text.bytes, whole.bytes);
    cr_assert(shown.length == cut && (cut == 0 || memcmp(shown.text, whole.bytes, cut) == 0),
              "%s: shown \"%s\"", what, shown.text);
    cr_expect_eq(shown.n_tokens, answer.n_tokens, "%s", what);
    if (cut < whole.length) {
        cr_expect_eq(answer.finish, COP_FINISH_STOP, "%s", what);
        expect_last_token(&answer, &whole, what);
    } else {
        cr_expect_eq(answer.n_tokens, LENGTH, "%s", what);
    }
    cop_text_release(&whole);
    cop_answer_release(&answer);
}

/* Stops are bits of the text, one to three characters long. */
static int32_t choose_stops(const cop_token *ids, uint64_t seed, char stops[2][16],
                            size_t *lengths)
{
    struct cop_text text = decoded(ids, LENGTH);
    int32_t n = 0;
    for (uint64_t s = 0; s < 2 && text.length > 0; s++) {
        size_t at = tiny_bits(seed, s) % text.length;
        while (at > 0 && ((uint8_t)text.bytes[at] & 0xC0) == 0x80) {
            at--;
        }
        size_t end = at;
        for (uint64_t k = tiny_bits(seed, s + 2) % 3 + 1; k > 0 && end < text.length; k--) {
            end++;
            while (end < text.length && ((uint8_t)text.bytes[end] & 0xC0) == 0x80) {
                end++;
            }
        }
        memcpy(stops[n], text.bytes + at, end - at);
        lengths[n++] = end - at;
    }
    cop_text_release(&text);
    return n;
}

/* Random tokens, with spaces, bytes of characters and control tokens more often than chance. */
static void choose_ids(cop_token *ids, const cop_token *likely, int32_t n_likely, uint64_t seed)
{
    int32_t size = cop_tokenizer_size(tokenizer);
    for (uint64_t i = 0; i < LENGTH; i++) {
        uint64_t bits = tiny_bits(seed, i);
        bool is_likely = n_likely > 0 && bits % 4 < 2 + seed % 2;
        ids[i] = is_likely ? likely[(bits >> 8) % (uint64_t)n_likely]
                           : (cop_token)((bits >> 8) % (uint64_t)size);
    }
}

static void check_tokenizer(const char *name, const cop_token *likely, int32_t n_likely)
{
    cop_token ids[LENGTH];
    char stops[2][16];
    size_t lengths[2];
    const char *list[] = {stops[0], stops[1]};
    for (uint64_t seed = 0; seed < 300; seed++) {
        choose_ids(ids, likely, n_likely, seed);
        struct cop_request request = {.stop = list,
                                      .stop_lengths = lengths,
                                      .n_stop = 0,
                                      .logprobs = -1,
                                      .ignore_eos = true};
        int32_t n_stops = choose_stops(ids, seed, stops, lengths);
        for (int32_t size = 1; size <= 9; size += 4) {
            request.n_stop = 0;
            check_answer(ids, &request, size, name);
            request.n_stop = n_stops;
            check_answer(ids, &request, size, name);
        }
    }
}

/* The ids of a text that every tokenizer finds hard, and the first control tokens. */
static void check_opened(const char *name)
{
    static const char hard[] = "  a  \xC3\xA9\xF0\x9F\xA6\x99\xED\x95\x9C \xE2\x96\x81x\n";
    struct cop_ids ids = {0};
    cr_assert_eq(cop_tokenizer_encode(tokenizer, hard, sizeof hard - 1,
                                      (struct cop_encode_options){0}, &ids, &err),
                 COP_OK);
    for (cop_token id = 0; id < 3; id++) {
        cop_ids_push(&ids, id, NULL);
    }
    check_tokenizer(name, ids.items, (int32_t)ids.count);
    cop_ids_release(&ids);
}

static void check_file(const char *name)
{
    cr_assert_eq(cop_tokenizer_open(&tokenizer, reference_path(name), &err), COP_OK, "%s",
                 err.text);
    check_opened(name);
}
Test(answer_text, llama2)
{
    check_file("data/tokenizers/llama2");
}
Test(answer_text, llama3)
{
    check_file("data/tokenizers/llama3_1");
}
Test(answer_text, qwen3)
{
    check_file("data/tokenizers/qwen3");
}
Test(answer_text, of_a_tiny_folder)
{
    check_file("reference/tiny/llama_with_tokenizer");
}
Test(answer_text, smollm2)
{
    const char *path = reference_model("models/SmolLM2-135M-Instruct.Q4_1.gguf");
    cr_assert_eq(cop_tokenizer_open(&tokenizer, path, &err), COP_OK, "%s", err.text);
    check_opened("smollm2");
}

/* All that a file can ask for at once: two spaces off the beginning, one off the end, runs of
 * bytes. */
#define VOCABULARY                                                                             \
    "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"<unk>\":0,\"\u2581\":1,"  \
    "\"a\":2,\"\u2581b\":3,\"<0xC3>\":4,\"<0xA9>\":5,\"<0x20>\":6,\"c\":7},\"merges\":[]},"    \
    "\"added_tokens\":[{\"id\":8,\"content\":\"<s>\",\"special\":true}]"

static void open_toy(const char *decoders)
{
    char json[1024];
    (void)snprintf(json, sizeof json, "{" VOCABULARY "%s}", decoders);
    cr_assert_eq(json_toy_open(json, &tokenizer, &err), COP_OK, "%s", err.text);
}
static const cop_token all_ids[] = {1, 1, 1, 2, 3, 4, 4, 5, 5, 6, 7, 8};

Test(answer_text, that_loses_both_ends)
{
    open_toy(",\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
             "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\u2581\"},\"content\":\" \"},"
             "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
             "{\"type\":\"Strip\",\"content\":\" \",\"start\":2,\"stop\":1}]}");
    cr_expect_str_eq(json_toy_decode(tokenizer, "1 1 1 2 1 1", true), " a ");
    cr_expect_str_eq(json_toy_decode(tokenizer, "6 6 2", true), "a");
    cr_expect_str_eq(json_toy_decode(tokenizer, "4 5 2 4 8 5 5", false),
                     "\u00E9a\uFFFD\uFFFD\uFFFD");
    check_tokenizer("both ends", all_ids, sizeof all_ids / sizeof *all_ids);
}
Test(answer_text, with_spaces_between_pieces)
{
    open_toy("");
    cr_expect_str_eq(json_toy_decode(tokenizer, "2 7", true), "a c");
    check_tokenizer("spaced", all_ids, sizeof all_ids / sizeof *all_ids);
}

/* A stop counts from the token min_tokens on, also inside a run of bytes. */
Test(answer_text, stops_do_not_begin_before_the_least_length)
{
    static const cop_token run[LENGTH] = {2, 4, 5, 4, 5, 4, 5, 2};
    static const char *const stop[] = {"\u00E9"};
    static struct shown shown;
    struct cop_answer answer;
    open_toy(",\"decoder\":{\"type\":\"ByteFallback\"}");
    for (int32_t size = 1; size < 9; size++) {
        struct cop_request request = {
            .stop = stop, .n_stop = 1, .logprobs = -1, .min_tokens = 3, .ignore_eos = true};
        make_answer(&answer, &request, run, size, &shown);
        cr_expect_eq(answer.n_tokens, 3);
        cr_expect_str_eq(answer.text.bytes, "a\u00E9");
        cop_answer_release(&answer);
    }
}
