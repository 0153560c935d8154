/* The contract of the forward pass: what it refuses, what it leaves behind, what it may leave
 * out. */
#include "core/model/model.h"
#include "tests/support/tiny_model.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 61, WIDTH = 32, LAYERS = 2 };

static struct cop_model *model;
static struct cop_cache *cache;

static struct cop_model *open_tiny(struct tiny_model description)
{
    struct gguf_writer *file = tiny_model_new(&description);
    struct cop_model *opened = NULL;
    struct cop_error err = {0};
    const struct cop_model_options options = {
        .path = gguf_save(file), .threads = 1, .context = 40, .pages = 6};
    cr_assert_eq(cop_model_open(&opened, &options, &err), COP_OK, "%s", err.text);
    gguf_writer_free(file);
    return opened;
}

static void set_up(void)
{
    model = open_tiny((struct tiny_model){.seed = 3});
    cr_assert_eq(cop_model_cache_new(model, 3, 16, &cache, NULL), COP_OK);
}

static void tear_down(void)
{
    cop_cache_free(cache);
    cop_model_free(model);
}

TestSuite(score, .init = set_up, .fini = tear_down);

static const int32_t chain[64] = {
    -1, 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
    21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42,
    43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62};
static const int32_t words[64] = {
    5,  1,  60, 0,  33, 12, 7,  7,  41, 18, 2,  9,  50, 31, 22, 3,  11, 44, 6,  59, 20, 17,
    28, 36, 1,  0,  5,  8,  13, 21, 34, 55, 4,  14, 24, 35, 45, 57, 10, 15, 25, 16, 26, 37,
    47, 58, 19, 29, 39, 49, 23, 27, 30, 32, 38, 40, 42, 43, 46, 48, 51, 52, 53, 54};

static void refuse(const struct cop_score *score, enum cop_status status, const char *word)
{
    struct cop_error err = {0};
    struct cop_cache_usage before = cop_cache_usage(cache);
    int32_t committed[3], speculative[3];
    for (int32_t s = 0; s < 3; s++) {
        committed[s] = cop_cache_committed(cache, s);
        speculative[s] = cop_cache_speculative(cache, s);
    }
    cr_expect_eq(cop_model_score(model, cache, score, &err), status, "%s", err.text);
    cr_expect_not_null(strstr(err.text, word), "\"%s\" lacks \"%s\"", err.text, word);
    struct cop_cache_usage after = cop_cache_usage(cache);
    cr_expect_eq(after.used, before.used);
    for (int32_t s = 0; s < 3; s++) {
        cr_expect_eq(cop_cache_committed(cache, s), committed[s]);
        cr_expect_eq(cop_cache_speculative(cache, s), speculative[s]);
    }
    cr_expect_eq(cop_cache_check(cache, &err), COP_OK, "%s", err.text);
}

Test(score, refuses_what_is_wrong_and_changes_nothing)
{
    const int32_t negative[2] = {3, -1}, large[2] = {61, 3};
    cr_assert_eq(cop_model_prefill(model, cache, 0, words, 5, 0, NULL, NULL), COP_OK);
    refuse(&(struct cop_score){.n = 2, .tokens = negative, .parents = chain}, COP_ERR_ARGUMENT,
           "-1");
    refuse(&(struct cop_score){.n = 2, .tokens = large, .parents = chain}, COP_ERR_ARGUMENT,
           "vocabulary of 61");
    refuse(&(struct cop_score){.n = 0, .tokens = words, .parents = chain}, COP_ERR_ARGUMENT,
           "0 tokens");
    refuse(&(struct cop_score){.n = 2, .tokens = words}, COP_ERR_ARGUMENT, "parents");
    refuse(&(struct cop_score){.n = 2, .tokens = words, .parents = (int32_t[]){-1, 1}},
           COP_ERR_ARGUMENT, "parent 1");
    refuse(&(struct cop_score){.n = 2,
                               .tokens = words,
                               .parents = (int32_t[]){-1, -1},
                               .sequences = (int32_t[]){0, 3}},
           COP_ERR_ARGUMENT, "sequence 3");
    refuse(&(struct cop_score){.n = 3,
                               .tokens = words,
                               .parents = (int32_t[]){-1, -1, -1},
                               .sequences = (int32_t[]){1, 0, 1}},
           COP_ERR_ARGUMENT, "stand together");
    float hidden[WIDTH];
    refuse(&(struct cop_score){.n = 1,
                               .tokens = words,
                               .parents = chain,
                               .hidden_layers = (int32_t[]){3},
                               .n_hidden = 1,
                               .hidden = hidden},
           COP_ERR_ARGUMENT, "layer 3");
}

/* 6 pages of 16; 40 positions. The third sequence of a batch finds no page: the first two give
 * theirs back, and slots they had before the call stay. */
Test(score, refuses_when_full_and_changes_nothing)
{
    int32_t sequences[64], parents[64];
    cr_assert_eq(cop_model_prefill(model, cache, 0, words, 39, 0, NULL, NULL), COP_OK);
    const struct cop_score one = {.n = 1, .tokens = words, .parents = chain};
    cr_assert_eq(cop_model_score(model, cache, &one, NULL), COP_OK, "the 40th position");
    refuse(&(struct cop_score){.n = 1, .tokens = words, .parents = (int32_t[]){0}},
           COP_ERR_LIMIT, "context of 40");
    for (int32_t i = 0; i < 64; i++) {
        sequences[i] = i < 4 ? 0 : i < 34 ? 1 : 2;
        parents[i] = -1;
    }
    refuse(
        &(struct cop_score){
            .n = 64, .tokens = words, .parents = parents, .sequences = sequences},
        COP_ERR_MEMORY, "pages");
    cr_expect_eq(cop_cache_speculative(cache, 0), 1);
}

Test(score, refuses_the_cache_of_another_model)
{
    struct cop_model *other = open_tiny((struct tiny_model){.seed = 3, .layers = 1});
    struct cop_error err = {0};
    const struct cop_score one = {.n = 1, .tokens = words, .parents = chain};
    cr_expect_eq(cop_model_score(other, cache, &one, &err), COP_ERR_ARGUMENT);
    cr_expect_not_null(strstr(err.text, "another model"), "%s", err.text);
    cop_model_free(other);
}

Test(score, cancels_between_layers)
{
    atomic_bool cancel = true;
    struct cop_error err = {0};
    const struct cop_score score = {
        .n = 3, .tokens = words, .parents = chain, .cancel = &cancel};
    cr_expect_eq(cop_model_score(model, cache, &score, &err), COP_ERR_CANCELLED);
    cr_expect_eq(cop_cache_speculative(cache, 0), 3);
    cop_cache_rollback(cache, 0);
    cr_expect_eq(cop_model_prefill(model, cache, 0, words, 5, 2, &cancel, &err),
                 COP_ERR_CANCELLED);
    cr_expect_eq(cop_cache_speculative(cache, 0), 0);
    cr_expect_eq(cop_cache_committed(cache, 0), 0);
    cancel = false;
    cr_expect_eq(cop_model_prefill(model, cache, 0, words, 5, 2, &cancel, &err), COP_OK);
    cr_expect_eq(cop_cache_committed(cache, 0), 5);
}

/* Asking for less computes the same rows. */
Test(score, wanted_rows_are_the_same_rows)
{
    enum { N = 20 };
    float every[N * VOCAB], some[N * VOCAB], hidden[3 * N * WIDTH], again[N * WIDTH];
    const bool wanted[N] = {false, true, true, [7] = true, [19] = true};
    const struct cop_score full = {.n = N,
                                   .tokens = words,
                                   .parents = chain,
                                   .logits = every,
                                   .hidden_layers = (int32_t[]){0, 1, 2},
                                   .n_hidden = 3,
                                   .hidden = hidden};
    cr_assert_eq(cop_model_score(model, cache, &full, NULL), COP_OK);
    cop_cache_rollback(cache, 0);
    const struct cop_score part = {
        .n = N, .tokens = words, .parents = chain, .wanted = wanted, .logits = some};
    cr_assert_eq(cop_model_score(model, cache, &part, NULL), COP_OK);
    for (int32_t i = 0, row = 0; i < N; i++) {
        if (wanted[i]) {
            cr_expect_eq(memcmp(every + i * VOCAB, some + row * VOCAB, VOCAB * 4), 0, "%d", i);
            row++;
        }
    }
    cop_cache_rollback(cache, 0);
    for (int32_t layer = 0; layer <= LAYERS; layer++) {
        const struct cop_score states = {.n = N,
                                         .tokens = words,
                                         .parents = chain,
                                         .hidden_layers = &layer,
                                         .n_hidden = 1,
                                         .hidden = again};
        cr_assert_eq(cop_model_score(model, cache, &states, NULL), COP_OK);
        cr_expect_eq(memcmp(again, hidden + layer * N * WIDTH, sizeof again), 0, "%d", layer);
        cop_cache_rollback(cache, 0);
    }
    const bool none[N] = {false};
    const struct cop_score nothing = {
        .n = N, .tokens = words, .parents = chain, .wanted = none, .logits = some};
    cr_expect_eq(cop_model_score(model, cache, &nothing, NULL), COP_OK);
}

/* What drafters borrow is what a pass computes: in at one end, out at the other. */
Test(score, the_two_ends_are_those_of_a_pass)
{
    enum { N = 20 };
    static float logits[N * VOCAB], hidden[2 * N * WIDTH], again[N * VOCAB];
    const struct cop_score full = {.n = N,
                                   .tokens = words,
                                   .parents = chain,
                                   .logits = logits,
                                   .hidden_layers = (int32_t[]){COP_HIDDEN_NORMED, 0},
                                   .n_hidden = 2,
                                   .hidden = hidden};
    cr_assert_eq(cop_model_score(model, cache, &full, NULL), COP_OK);
    cop_cache_rollback(cache, 0);
    cr_assert_eq(cop_model_head(model, hidden, N, again, NULL), COP_OK);
    cr_expect_arr_eq(again, logits, sizeof logits);
    cr_assert_eq(cop_model_head(model, hidden + 7 * WIDTH, 1, again, NULL), COP_OK);
    cr_expect_arr_eq(again, logits + 7 * VOCAB, VOCAB * sizeof *logits);
    cr_assert_eq(cop_model_embed(model, words, N, again, NULL), COP_OK);
    cr_expect_arr_eq(again, hidden + N * WIDTH, N * WIDTH * sizeof *hidden);
    struct cop_error err = {0};
    const cop_token bad[] = {3, VOCAB};
    cr_expect_eq(cop_model_embed(model, bad, 2, again, &err), COP_ERR_ARGUMENT);
    cr_expect_not_null(strstr(err.text, "vocabulary of 61"), "%s", err.text);
    const struct cop_score normed = {.n = N,
                                     .tokens = words,
                                     .parents = chain,
                                     .hidden_layers = (int32_t[]){COP_HIDDEN_NORMED},
                                     .n_hidden = 1,
                                     .hidden = again};
    cr_assert_eq(cop_model_score(model, cache, &normed, NULL), COP_OK, "without logits");
    cr_expect_arr_eq(again, hidden, N * WIDTH * sizeof *hidden);
    cop_cache_rollback(cache, 0);
}

/* A tree built by several calls, children in a later call than their parents. */
Test(score, trees_grow_over_several_calls)
{
    const int32_t parents[8] = {-1, -1, 0, 1, 1, 3, 2, 5};
    float together[8 * VOCAB], apart[8 * VOCAB];
    cr_assert_eq(cop_model_prefill(model, cache, 0, words, 13, 0, NULL, NULL), COP_OK);
    const struct cop_score whole = {
        .n = 8, .tokens = words + 20, .parents = parents, .logits = together};
    cr_assert_eq(cop_model_score(model, cache, &whole, NULL), COP_OK);
    cop_cache_rollback(cache, 0);
    const int32_t cuts[5] = {0, 2, 5, 7, 8};
    for (int32_t i = 0; i < 4; i++) {
        int32_t from = cuts[i];
        const struct cop_score piece = {.n = cuts[i + 1] - from,
                                        .tokens = words + 20 + from,
                                        .parents = parents + from,
                                        .logits = apart + from * VOCAB};
        cr_assert_eq(cop_model_score(model, cache, &piece, NULL), COP_OK);
    }
    cr_expect_eq(memcmp(together, apart, sizeof together), 0);
}

/* Changing one leaf of a star changes no other row by one bit. */
Test(score, siblings_do_not_see_each_other)
{
    enum { LEAVES = 33 };
    int32_t parents[LEAVES + 1] = {-1}, tokens[LEAVES + 1];
    float before[(LEAVES + 1) * VOCAB], after[(LEAVES + 1) * VOCAB];
    for (int32_t i = 0; i <= LEAVES; i++) {
        tokens[i] = words[i];
        parents[i] = i ? 0 : -1;
    }
    cr_assert_eq(cop_model_prefill(model, cache, 0, words + 30, 17, 0, NULL, NULL), COP_OK);
    struct cop_score score = {
        .n = LEAVES + 1, .tokens = tokens, .parents = parents, .logits = before};
    cr_assert_eq(cop_model_score(model, cache, &score, NULL), COP_OK);
    cop_cache_rollback(cache, 0);
    tokens[9] = (tokens[9] + 1) % VOCAB;
    score.logits = after;
    cr_assert_eq(cop_model_score(model, cache, &score, NULL), COP_OK);
    for (int32_t i = 0; i <= LEAVES; i++) {
        int is_equal = memcmp(before + i * VOCAB, after + i * VOCAB, VOCAB * 4) == 0;
        cr_expect_eq(is_equal, i != 9, "row %d", i);
    }
}

/* Visibility words in place of ancestors: ancestors written out are the same to the last bit; a
 * block whose tokens see each other notices its last one. */
Test(score, words_say_who_sees_whom)
{
    enum { N = 5 };
    const int32_t parents[N] = {-1, 0, 0, 2, 1}, line[N] = {-1, 0, 1, 2, 3};
    const uint64_t ancestors[N] = {1, 3, 5, 13, 19}, all[N] = {31, 31, 31, 31, 31};
    float plain[N * VOCAB], worded[N * VOCAB], changed[N * VOCAB];
    int32_t tokens[N];
    memcpy(tokens, words + 20, sizeof tokens);
    cr_assert_eq(cop_model_prefill(model, cache, 0, words, 13, 0, NULL, NULL), COP_OK);
    struct cop_score score = {.n = N, .tokens = tokens, .parents = parents, .logits = plain};
    cr_assert_eq(cop_model_score(model, cache, &score, NULL), COP_OK);
    cop_cache_rollback(cache, 0);
    score.visible = ancestors;
    score.logits = worded;
    cr_assert_eq(cop_model_score(model, cache, &score, NULL), COP_OK);
    cr_expect_eq(memcmp(plain, worded, sizeof plain), 0);
    cop_cache_rollback(cache, 0);
    score.visible = all;
    score.parents = line;
    cr_assert_eq(cop_model_score(model, cache, &score, NULL), COP_OK);
    cop_cache_rollback(cache, 0);
    tokens[N - 1] = (tokens[N - 1] + 1) % VOCAB;
    score.logits = changed;
    cr_assert_eq(cop_model_score(model, cache, &score, NULL), COP_OK);
    cop_cache_rollback(cache, 0);
    for (int32_t i = 0; i < N; i++) {
        cr_expect_neq(memcmp(worded + i * VOCAB, changed + i * VOCAB, VOCAB * 4), 0, "%d", i);
    }
    /* The last token of a line that sees all before it is what it always was. */
    score.visible = NULL;
    score.logits = plain;
    const uint64_t line_words[N] = {1, 3, 7, 15, 31};
    cr_assert_eq(cop_model_score(model, cache, &score, NULL), COP_OK);
    cop_cache_rollback(cache, 0);
    score.visible = line_words;
    score.logits = worded;
    cr_assert_eq(cop_model_score(model, cache, &score, NULL), COP_OK);
    cr_expect_eq(memcmp(plain, worded, sizeof plain), 0);
}

Test(score, prefill_checks_and_does_nothing_for_nothing)
{
    struct cop_error err = {0};
    cr_expect_eq(cop_model_prefill(model, cache, 0, NULL, 0, 0, NULL, &err), COP_OK);
    cr_expect_eq(cop_cache_committed(cache, 0), 0);
    cr_expect_eq(cop_model_prefill(model, cache, 0, words, -1, 0, NULL, &err),
                 COP_ERR_ARGUMENT);
    cr_expect_eq(cop_model_prefill(model, cache, 3, words, 1, 0, NULL, &err), COP_ERR_ARGUMENT);
    cr_expect_eq(cop_model_prefill(model, cache, 0, words, 41, 16, NULL, &err), COP_ERR_LIMIT);
    cr_expect_eq(cop_cache_committed(cache, 0), 32, "the chunks done stay");
    cr_expect_eq(cop_cache_speculative(cache, 0), 0);
    const struct cop_score one = {.n = 1, .tokens = words, .parents = chain};
    cr_assert_eq(cop_model_score(model, cache, &one, NULL), COP_OK);
    cr_expect_eq(cop_model_prefill(model, cache, 0, words, 1, 0, NULL, &err), COP_ERR_ARGUMENT);
    cr_expect_not_null(strstr(err.text, "speculative"), "%s", err.text);
}

/* Files that call themselves "mistral" hold what those that say "llama" hold. */
Test(score, a_file_may_say_mistral)
{
    struct cop_model *named = open_tiny((struct tiny_model){
        .seed = 3,
        .architecture = "mistral",
        .n_edits = 1,
        .edits = (const struct tiny_edit[]){
            {TINY_KEY_U32, "mistral.attention.sliding_window", 100, 0, 0, NULL}}});
    struct cop_cache *other = NULL;
    float expected[8 * VOCAB], got[8 * VOCAB];
    struct cop_score call = {.n = 8, .tokens = words, .parents = chain, .logits = expected};
    cr_assert_eq(cop_model_cache_new(named, 1, 16, &other, NULL), COP_OK);
    cr_assert_eq(cop_model_score(model, cache, &call, NULL), COP_OK);
    call.logits = got;
    cr_assert_eq(cop_model_score(named, other, &call, NULL), COP_OK);
    cr_expect_arr_eq(got, expected, sizeof expected);
    cr_expect_str_eq(cop_model_info(named)->architecture, "mistral");
    cop_cache_free(other);
    cop_model_free(named);
}

/* Rows of the LM head for some ids give the numbers that all of them give, in any format. */
Test(score, some_rows_of_the_head_are_those_of_all)
{
    enum { N = 8, SOME = 5 };
    static const enum cop_format formats[] = {COP_FORMAT_F32, COP_FORMAT_F16, COP_FORMAT_Q8_0,
                                              COP_FORMAT_Q4_1};
    const cop_token ids[SOME] = {0, 7, 8, 33, VOCAB - 1};
    for (size_t f = 0; f < 2 * sizeof formats / sizeof *formats; f++) {
        struct cop_model *other = open_tiny(
            (struct tiny_model){.seed = 5, .format = formats[f / 2], .has_output = f % 2 > 0});
        struct cop_cache *own = NULL;
        struct cop_weight *rows = NULL;
        float all[N * VOCAB], some[N * SOME];
        struct cop_score call = {.n = N, .tokens = words, .parents = chain, .logits = all};
        cr_assert_eq(cop_model_cache_new(other, 1, 16, &own, NULL), COP_OK);
        cr_assert_eq(cop_model_score(other, own, &call, NULL), COP_OK);
        cop_cache_rollback(own, 0);
        cr_assert_eq(cop_model_head_rows(other, ids, SOME, &rows, NULL), COP_OK);
        call.head = rows;
        call.logits = some;
        cr_assert_eq(cop_model_score(other, own, &call, NULL), COP_OK);
        for (int32_t i = 0; i < N * SOME; i++) {
            cr_expect_eq(some[i], all[i / SOME * VOCAB + ids[i % SOME]], "%zu: %d", f, i);
        }
        cop_model_ops(other)->weight_free(cop_model_device(other), rows);
        cop_cache_free(own);
        cop_model_free(other);
    }
    struct cop_weight *none;
    struct cop_error err = {0};
    cr_expect_eq(cop_model_head_rows(model, (cop_token[]){VOCAB}, 1, &none, &err),
                 COP_ERR_ARGUMENT);
    cr_expect_null(none);
}
