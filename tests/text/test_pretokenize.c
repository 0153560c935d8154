/* How each family cuts text. */
#include "core/text/split/pretokenize.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

TestSuite(pretokenize, .timeout = 60);

static struct cop_error err;

struct cuts {
    char text[512]; /* the words with bars between */
    size_t length, count, n_bytes;
    bool is_counting;
};

static enum cop_status take(void *context, const char *bytes, size_t length,
                            struct cop_error *error)
{
    struct cuts *cuts = context;
    (void)error;
    cuts->count++;
    cuts->n_bytes += length;
    if (!cuts->is_counting) {
        cr_assert_lt(cuts->length + length + 2, sizeof cuts->text);
        if (cuts->count > 1) {
            cuts->text[cuts->length++] = '|';
        }
        memcpy(cuts->text + cuts->length, bytes, length);
        cuts->length += length;
        cuts->text[cuts->length] = '\0';
    }
    return COP_OK;
}

static struct cop_pretokenizer *make(const char *name)
{
    struct cop_pretokenizer *made;
    const struct cop_pretoken_family *family = cop_pretoken_family_find(name, strlen(name));
    cr_assert(family != NULL, "%s", name);
    cr_assert_eq(cop_pretokenizer_new(&made, family, &err), COP_OK, "%s", err.text);
    return made;
}

#define NEL  "\xC2\x85"
#define MVS  "\u180E" /* looks like a space and is none */
#define WIDE "\u3000"

static const struct {
    const char *family, *text, *words;
} cases[] = {
    {"gpt-2", "Hello world!! 3333", "Hello| world|!!| 3333"},
    {"gpt-2", "I'll we'RE it's", "I|'ll| we|'|RE| it|'s"},
    {"gpt-2", "a  b   ", "a| | b|   "},
    {"gpt-2", " \n\nx", " \n|\n|x"},
    {"gpt-2", "a" MVS "b", "a|" MVS "|b"},
    {"gpt-2", "a" NEL NEL "b", "a|" NEL "|" NEL "|b"},
    {"smollm", "Hello 3333+777 x", "Hello| |3|3|3|3|+|7|7|7| x"},
    {"smollm", "a1 2", "a|1| |2"},
    {"smollm", "  1", "  |1"}, /* the spaces do not see the digit */
    {"smollm", "\u00B2\u2167\u0967", "\u00B2|\u2167|\u0967"},
    {"smollm", "we'RE", "we|'|RE"},
    {"llama-bpe", "3333+777", "333|3|+|777"},
    {"llama-bpe", "we'RE 'S", "we|'RE| '|S"},
    {"llama-bpe", "that'\u017F", "that|'\u017F"}, /* long s folds to s */
    {"llama-bpe", "x();\n\n  y", "x|();\n\n| | y"},
    {"llama-bpe", " \t\n \n  a", " \t\n \n| | a"},
    {"llama-bpe", "\ta", "\ta"},
    {"llama-bpe", "a\r\nb", "a|\r\n|b"},
    {"llama-bpe", "a" WIDE "b", "a|" WIDE "b"},
    {"llama-bpe", "   ", "   "},
    {"qwen2", "3333+777", "3|3|3|3|+|7|7|7"},
    {"qwen2", "cafe\u0301 x", "cafe|\u0301| x"}, /* a combining mark is no letter */
};

Test(pretokenize, families_cut_as_published)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cop_pretokenizer *made = make(cases[i].family);
        struct cuts cuts = {0};
        cr_assert_eq(cop_pretokenizer_cut(made, cases[i].text, strlen(cases[i].text), true,
                                          take, &cuts, &err),
                     COP_OK);
        cr_expect_str_eq(cuts.text, cases[i].words, "%s \"%s\"", cases[i].family,
                         cases[i].text);
        cop_pretokenizer_free(made);
    }
}

Test(pretokenize, other_names_of_a_family)
{
    cr_expect_eq(cop_pretoken_family_find("llama3", 6),
                 cop_pretoken_family_find("llama-bpe", 9));
    cr_expect_null(cop_pretoken_family_find("llama", 5));
    cr_expect_null(cop_pretoken_family_find("", 0));
    char names[100];
    cr_expect_str_eq(cop_pretoken_family_names(names, sizeof names),
                     "gpt-2, smollm, llama-bpe, qwen2");
    char few[10];
    cr_expect_str_eq(cop_pretoken_family_names(few, sizeof few), "gpt-2, sm");
}

/* Texts on which a backtracking engine takes a square of time, overflows its stack, or gives
 * up: a unit repeated to a million bytes. */
static const char *const units[] = {
    "a",  "A1", " ",  "\n",     "  \n",   " \r\n \t",         "7",
    "'",  "'s", "!",  "\u00E9", "\u3000", "\U0001F468\u200D", "\u0301",
    "a ", " a", "\t", "\x01",
};

static void *cut_long_runs(void *context)
{
    static const char *const families[] = {"gpt-2", "smollm", "llama-bpe", "qwen2"};
    enum { SIZE = 1000000 };
    char *text = malloc(SIZE + 16);
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        struct cop_pretokenizer *made = make(families[f]);
        for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
            size_t length = 0;
            while (length < SIZE) {
                memcpy(text + length, units[u], strlen(units[u]));
                length += strlen(units[u]);
            }
            struct cuts cuts = {.is_counting = true};
            cr_assert_eq(cop_pretokenizer_cut(made, text, length, true, take, &cuts, &err),
                         COP_OK, "%s, \"%s\": %s", families[f], units[u], err.text);
            cr_expect_eq(cuts.n_bytes, length);
        }
        cop_pretokenizer_free(made);
    }
    free(text);
    return context;
}

/* On a thread with a small stack. */
Test(pretokenize, long_runs_take_linear_time_and_little_stack)
{
    pthread_t thread;
    pthread_attr_t attributes;
    cr_assert_eq(pthread_attr_init(&attributes), 0);
    cr_assert_eq(pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
    cr_assert_eq(pthread_create(&thread, &attributes, cut_long_runs, NULL), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
}

static enum cop_status stop(void *context, const char *bytes, size_t length,
                            struct cop_error *error)
{
    (void)bytes;
    (void)length;
    return ++*(int *)context == 3 ? cop_fail(error, COP_ERR_CANCELLED, "enough") : COP_OK;
}

Test(pretokenize, stops_when_the_taker_fails)
{
    struct cop_pretokenizer *made = make("smollm");
    int count = 0;
    cr_expect_eq(cop_pretokenizer_cut(made, "a b c d e", 9, true, stop, &count, &err),
                 COP_ERR_CANCELLED);
    cr_expect_eq(count, 3);
    cop_pretokenizer_free(made);
}

/* ---- Steps ------------------------------------------------------------------------------ */

static struct cop_text text_of(const char *bytes)
{
    struct cop_text text = {0};
    cr_assert_eq(cop_text_append(&text, bytes, strlen(bytes), &err), COP_OK);
    return text;
}

static const struct {
    enum cop_split split;
    bool is_inverted;
    const char *text, *words;
} splits[] = {
    {COP_SPLIT_ISOLATED, false, "a-b--c", "a|-|b|-|-|c"},
    {COP_SPLIT_REMOVED, false, "a-b--c", "a|b|c"},
    {COP_SPLIT_WITH_PREVIOUS, false, "a-b--c", "a-|b-|-|c"},
    {COP_SPLIT_WITH_NEXT, false, "a-b--c", "a|-b|-|-c"},
    {COP_SPLIT_CONTIGUOUS, false, "a-b--c", "a|-|b|--|c"},
    {COP_SPLIT_REMOVED, true, "a-b--c", "-|-|-"},
    {COP_SPLIT_WITH_PREVIOUS, false, "-a-", "-|a-"},
    {COP_SPLIT_WITH_NEXT, false, "-a-", "-a|-"},
    {COP_SPLIT_WITH_PREVIOUS, true, "a-b", "a|-b"},
    {COP_SPLIT_WITH_NEXT, true, "a-b", "a-|b"},
    {COP_SPLIT_CONTIGUOUS, true, "a-b--c", "a|-|b|--|c"},
    {COP_SPLIT_REMOVED, false, "--", ""},
    {COP_SPLIT_ISOLATED, false, "abc", "abc"},
};

Test(pretokenize, what_becomes_of_matches)
{
    for (size_t i = 0; i < 2 * (sizeof splits / sizeof splits[0]); i++) {
        size_t row = i / 2;
        struct cop_pretokenizer *made = cop_pretokenizer_empty();
        struct cop_cut_step step = {.kind = COP_CUT_SPLIT,
                                    .split = splits[row].split,
                                    .is_inverted = splits[row].is_inverted};
        if (i % 2 == 0) {
            step.from = text_of("-");
        } else {
            cr_assert_eq(cop_regex_new(&step.regex, "-", 1, COP_REGEX_FOREIGN, &err), COP_OK);
        }
        cr_assert_eq(cop_pretokenizer_add(made, step, &err), COP_OK);
        struct cuts cuts = {0};
        cr_assert_eq(cop_pretokenizer_cut(made, splits[row].text, strlen(splits[row].text),
                                          true, take, &cuts, &err),
                     COP_OK);
        cr_expect_str_eq(cuts.text, splits[row].words, "row %zu", row);
        cop_pretokenizer_free(made);
    }
}

Test(pretokenize, steps_see_what_the_step_before_left)
{
    struct cop_pretokenizer *made = cop_pretokenizer_empty();
    struct cop_cut_step replace = {
        .kind = COP_CUT_REPLACE, .from = text_of(" "), .to = text_of("_")};
    struct cop_cut_step split = {
        .kind = COP_CUT_SPLIT, .split = COP_SPLIT_WITH_NEXT, .from = text_of("_")};
    struct cop_cut_step prefix = {.kind = COP_CUT_PREFIX, .to = text_of("+")};
    cr_assert_eq(cop_pretokenizer_add(made, replace, &err), COP_OK);
    cr_assert_eq(cop_pretokenizer_add(made, split, &err), COP_OK);
    cr_assert_eq(cop_pretokenizer_add(made, prefix, &err), COP_OK);
    struct cuts cuts = {0};
    cr_assert_eq(cop_pretokenizer_cut(made, "+a b  c", 7, true, take, &cuts, &err), COP_OK);
    cr_expect_str_eq(cuts.text, "+a|+_b|+_|+_c");
    cop_pretokenizer_free(made);
}
