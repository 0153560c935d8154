/* Where an answer ends, and what its reader is shown, however many tokens a cycle commits. */
#include "core/cycle/answer.h"
#include "tests/text/toy_tokenizer.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { MAX_TOKENS = 64, EOS = 2, CONTROL = 1 };

/* What one answer made of a list of tokens. */
struct outcome {
    cop_token tokens[MAX_TOKENS];
    int32_t n_tokens, n_logprobs;
    char text[256];
    char shown[256]; /* all that on_text got */
    cop_token shown_tokens[MAX_TOKENS];
    int32_t n_shown_tokens, n_calls;
    enum cop_finish finish;
    int32_t refuse_at; /* the call that returns false; 0: none */
    bool was_torn;     /* a text was no whole number of characters */
};

static bool collect(void *user, uint32_t request, const char *text, size_t length,
                    const cop_token *tokens, const int32_t *depths, int32_t n_tokens)
{
    struct outcome *outcome = user;
    cr_expect_eq(request, 7);
    strncat(outcome->shown, text, length);
    outcome->was_torn |= cop_utf8_valid_prefix(text, length) != length;
    for (int32_t i = 0; i < n_tokens; i++) {
        cr_expect_geq(depths[i], 0);
        outcome->shown_tokens[outcome->n_shown_tokens++] = tokens[i];
    }
    return ++outcome->n_calls != outcome->refuse_at;
}

static struct cop_tokenizer *tokenizer;
static void open_tokenizer(void)
{
    struct gguf_writer *w = gguf_writer_new();
    struct cop_error err = {0};
    toy_tokenizer_put(w, NULL);
    cr_assert_eq(toy_tokenizer_open(w, &tokenizer, &err), COP_OK, "%s", err.text);
    gguf_writer_free(w);
}
static void free_tokenizer(void)
{
    cop_tokenizer_free(tokenizer);
}
TestSuite(answer, .init = open_tokenizer, .fini = free_tokenizer);

static float row_logits[4] = {0, 1, 2, -INFINITY};
static const struct cop_row *any_row(void *context, int32_t node)
{
    static struct cop_row row;
    (void)context;
    (void)node;
    row = (struct cop_row){.kind = COP_ROW_ONE_HOT, .vocab = 4, .logits = row_logits};
    row.max_logit = 2;
    return &row;
}

static struct outcome finish_outcome(struct cop_answer *answer, struct outcome *outcome)
{
    struct cop_result result = {0};
    outcome->finish = answer->finish;
    cop_answer_move(answer, &result);
    outcome->n_tokens = result.n_tokens;
    memcpy(outcome->tokens, result.tokens, (size_t)result.n_tokens * sizeof(cop_token));
    memcpy(outcome->text, result.text.bytes ? result.text.bytes : "", result.text.length);
    cop_result_release(&result);
    cop_answer_release(answer);
    return *outcome;
}

/* Commits the tokens `size` at a time (the last short) until the answer ends or they do; then
 * ends it as cancelled. */
static struct outcome answer_to(const struct cop_request *wish, int32_t limit,
                                const cop_token *tokens, int32_t n, int32_t size,
                                int32_t refuse_at)
{
    struct outcome outcome = {.refuse_at = refuse_at};
    struct cop_request request = *wish;
    struct cop_answer answer;
    struct cop_error err = {0};
    int32_t nodes[MAX_TOKENS] = {0};
    request.id = 7;
    request.on_text = collect;
    request.user = &outcome;
    cr_assert_eq(cop_answer_init(&answer, &request, tokenizer, limit, &err), COP_OK, "%s",
                 err.text);
    for (int32_t at = 0; at < n && answer.finish == COP_FINISH_NONE; at += size) {
        struct cop_taken taken = {.tokens = tokens + at,
                                  .nodes = nodes,
                                  .n_accepted = (n - at < size ? n - at : size) - 1,
                                  .target = {.at = any_row}};
        cr_assert_eq(cop_answer_take(&answer, &taken, &err), COP_OK);
        cop_answer_show(&answer);
    }
    cr_assert_eq(cop_answer_finish(&answer, COP_FINISH_CANCELLED, &err), COP_OK);
    return finish_outcome(&answer, &outcome);
}

/* Bytes as tokens; '$' stands for the end token, '^' for a control token, '#' for "hello". */
static int32_t spell(const char *text, cop_token *tokens)
{
    int32_t n = 0;
    for (; *text; text++) {
        tokens[n++] = *text == '$'   ? EOS
                      : *text == '^' ? CONTROL
                      : *text == '#' ? TOY_HELLO
                                     : TOY_BYTE + (uint8_t)*text;
    }
    return n;
}

#define EURO "\xE2\x82\xAC" /* three bytes, three tokens */
#define HALF "\xE2\x82"
#define BAD  "\xEF\xBF\xBD"

static const struct ending {
    const char *input;
    const char *stop[3];
    int32_t n_stop;
    const char *stop_tokens;
    int32_t limit, min_tokens;
    bool ignore_eos;
    const char *tokens, *text;
    enum cop_finish finish;
} endings[] = {
    {"xxENDyyyyyyyyyyyy", {"END"}, 1, "", 40, 0, 0, "xx", "xx", COP_FINISH_STOP},
    {"ENDyy", {"END"}, 1, "", 40, 0, 0, "", "", COP_FINISH_STOP},
    {"a#b", {"ell"}, 1, "", 40, 0, 0, "a#", "ah", COP_FINISH_STOP},   /* cut inside a token */
    {"a^^ENDx", {"END"}, 1, "", 40, 0, 0, "a", "a", COP_FINISH_STOP}, /* silent ones fall */
    {"a^bENDx", {"END"}, 1, "", 40, 0, 0, "a^b", "ab", COP_FINISH_STOP},
    {"abENxx$", {"END"}, 1, "", 40, 0, 0, "abENxx$", "abENxx", COP_FINISH_EOS},
    {"abEN$D", {"END"}, 1, "", 40, 0, 0, "abEN$", "abEN", COP_FINISH_EOS},
    {"abEND", {"END"}, 1, "", 4, 0, 0, "abEN", "abEN", COP_FINISH_LENGTH},
    {"abEND", {"END"}, 1, "", 5, 0, 0, "ab", "ab", COP_FINISH_STOP},
    {"$ab", {NULL}, 0, "", 40, 0, 0, "$", "", COP_FINISH_EOS},
    {"ab$c$d", {NULL}, 0, "", 6, 0, 1, "ab$c$d", "abcd", COP_FINISH_LENGTH},
    {"abqc", {NULL}, 0, "q", 40, 0, 0, "ab", "ab", COP_FINISH_STOP},
    {"abqcqd", {NULL}, 0, "q", 40, 3, 0, "abqc", "abqc", COP_FINISH_STOP},
    {"ab$c$d", {NULL}, 0, "", 40, 3, 0, "ab$c$", "abc", COP_FINISH_EOS},
    /* before min_tokens a stop is ordinary text, and none may begin there */
    {"ENDENDE", {"END"}, 1, "", 40, 2, 0, "END", "END", COP_FINISH_STOP},
    {"xENDyEND", {"END"}, 1, "", 40, 2, 0, "xENDy", "xENDy", COP_FINISH_STOP},
    {"abcxyzabc", {"bc", "za"}, 2, "", 40, 0, 0, "a", "a", COP_FINISH_STOP},
    {"1" EURO "+" HALF,
     {"*"},
     1,
     "",
     40,
     0,
     0,
     "1" EURO "+" HALF,
     "1" EURO "+" BAD,
     COP_FINISH_CANCELLED},
    {"a" EURO, {EURO}, 1, "", 40, 0, 0, "a", "a", COP_FINISH_STOP},
    {"a\xFF" HALF "c",
     {NULL},
     0,
     "",
     5,
     0,
     0,
     "a\xFF" HALF "c",
     "a" BAD BAD "c",
     COP_FINISH_LENGTH},
};

static void expect_ending(size_t i, int32_t size, int32_t logprobs)
{
    const struct ending *e = &endings[i];
    cop_token input[MAX_TOKENS], expected[MAX_TOKENS], stop_tokens[4];
    int32_t n = spell(e->input, input), n_expected = spell(e->tokens, expected);
    struct cop_request request = {.stop = e->stop,
                                  .n_stop = e->n_stop,
                                  .stop_tokens = stop_tokens,
                                  .n_stop_tokens = spell(e->stop_tokens, stop_tokens),
                                  .min_tokens = e->min_tokens,
                                  .ignore_eos = e->ignore_eos,
                                  .logprobs = logprobs};
    struct outcome got = answer_to(&request, e->limit, input, n, size, 0);
    cr_expect_eq(got.finish, e->finish, "case %zu, %d a cycle: finish %s", i, size,
                 cop_finish_name(got.finish));
    cr_expect_eq(got.n_tokens, n_expected, "case %zu, %d a cycle: %d tokens", i, size,
                 got.n_tokens);
    cr_expect_arr_eq(got.tokens, expected, (size_t)n_expected * sizeof *expected,
                     "case %zu, %d a cycle", i, size);
    cr_expect_str_eq(got.shown, got.text, "case %zu, %d a cycle: shown \"%s\", text \"%s\"", i,
                     size, got.shown, got.text);
    cr_expect_eq(got.n_shown_tokens, got.n_tokens, "case %zu, %d a cycle", i, size);
    cr_expect_arr_eq(got.shown_tokens, got.tokens, (size_t)got.n_tokens * sizeof(cop_token));
    cr_expect_not(got.was_torn, "case %zu, %d a cycle", i, size);
    cr_expect_str_eq(got.text, e->text, "case %zu, %d a cycle: \"%s\"", i, size, got.text);
}

Test(answer, ends_at_the_same_place_for_every_length_of_a_cycle)
{
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        for (int32_t size = 1; size <= 20; size++) {
            expect_ending(i, size, -1);
        }
    }
}

Test(answer, holds_back_what_may_become_a_stop)
{
    const char *stop[] = {"END"};
    struct cop_request request = {.stop = stop, .n_stop = 1, .logprobs = -1};
    cop_token tokens[MAX_TOKENS];
    int32_t n = spell("aENbENENx", tokens);
    struct outcome got = answer_to(&request, 40, tokens, n, 1, 0);
    /* "a", then "ENb" at once, then "EN" when the second E shows it cannot end, then "ENx" */
    cr_expect_eq(got.n_calls, 4);
    cr_expect_str_eq(got.shown, "aENbENENx");
}

Test(answer, refusing_reader_ends_it_where_it_was_shown)
{
    const char *stop[] = {"END"};
    struct cop_request request = {.stop = stop, .n_stop = 1, .logprobs = -1};
    cop_token tokens[MAX_TOKENS];
    int32_t n = spell("abEcd", tokens);
    struct outcome got = answer_to(&request, 40, tokens, n, 3, 1);
    cr_expect_eq(got.finish, COP_FINISH_CANCELLED);
    cr_expect_str_eq(got.text, "ab"); /* the E was held back and never shown */
    cr_expect_str_eq(got.shown, "ab");
    cr_expect_eq(got.n_tokens, 2);
    cr_expect_eq(got.n_calls, 1);
}

Test(answer, reports_best_tokens_and_cuts_them_with_the_text)
{
    struct cop_request request = {.logprobs = 3, .id = 7};
    struct cop_answer answer;
    struct cop_error err = {0};
    cop_token tokens[] = {2, 0, 1};
    int32_t nodes[] = {0, 0, 0};
    request.ignore_eos = true;
    cr_assert_eq(cop_answer_init(&answer, &request, tokenizer, 2, &err), COP_OK);
    struct cop_taken taken = {
        .tokens = tokens, .nodes = nodes, .n_accepted = 2, .target = {.at = any_row}};
    cr_assert_eq(cop_answer_take(&answer, &taken, &err), COP_OK);
    cr_assert_eq(answer.n_tokens, 2);
    cr_expect_eq(answer.finish, COP_FINISH_LENGTH);
    double total = 2 + log(1 + exp(-1.0) + exp(-2.0)); /* logits 0, 1, 2, -inf */
    cr_expect_float_eq(answer.logprobs[0].logprob, 2 - total, 1e-14);
    cr_expect_float_eq(answer.logprobs[1].logprob, 0 - total, 1e-14);
    cr_assert_eq(answer.logprobs[1].n_top, 3); /* token 3 is impossible */
    cr_expect_eq(answer.logprobs[1].top[0], 2);
    cr_expect_eq(answer.logprobs[1].top[1], 1);
    cr_expect_eq(answer.logprobs[1].top[2], 0);
    cr_expect_float_eq(answer.logprobs[1].top_logprobs[1], 1 - total, 1e-14);
    cop_answer_release(&answer);
}

Test(answer, ties_go_to_the_lowest_id)
{
    struct cop_request request = {.logprobs = 2};
    struct cop_answer answer;
    cop_token token = 0;
    int32_t node = 0;
    float equal[4] = {1, 3, 3, 3};
    memcpy(row_logits, equal, sizeof equal);
    cr_assert_eq(cop_answer_init(&answer, &request, tokenizer, 2, NULL), COP_OK);
    struct cop_taken taken = {.tokens = &token, .nodes = &node, .target = {.at = any_row}};
    cr_assert_eq(cop_answer_take(&answer, &taken, NULL), COP_OK);
    cr_expect_eq(answer.logprobs[0].top[0], 1);
    cr_expect_eq(answer.logprobs[0].top[1], 2);
    cop_answer_release(&answer);
}

Test(answer, without_tokenizer_has_tokens_only)
{
    struct outcome outcome = {0};
    struct cop_request request = {
        .logprobs = -1, .id = 7, .on_text = collect, .user = &outcome};
    struct cop_answer answer;
    cop_token tokens[] = {5, 6, 7};
    int32_t nodes[] = {0, 0, 0};
    cr_assert_eq(cop_answer_init(&answer, &request, NULL, 8, NULL), COP_OK);
    struct cop_taken taken = {.tokens = tokens, .nodes = nodes, .n_accepted = 2};
    cr_assert_eq(cop_answer_take(&answer, &taken, NULL), COP_OK);
    cop_answer_show(&answer);
    cr_expect_eq(outcome.n_shown_tokens, 3);
    cr_expect_eq(answer.text.length, 0);
    cr_expect_eq(answer.finish, COP_FINISH_NONE);
    cop_answer_release(&answer);
}
