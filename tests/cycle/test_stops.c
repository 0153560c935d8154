/* Stop strings over pieces of any size. */
#include "core/cycle/stops.h"

#include <criterion/criterion.h>
#include <string.h>

static struct cop_stops new_stops(const char *const *strings, int32_t count)
{
    struct cop_stops stops;
    struct cop_error err = {0};
    cr_assert_eq(cop_stops_init(&stops, strings, NULL, count, &err), COP_OK, "%s", err.text);
    return stops;
}

/* Reads the text in pieces of `size` bytes; returns where text ends before the stop, or -1. */
static long cut_of(const char *const *strings, int32_t count, const char *text, size_t size)
{
    struct cop_stops stops = new_stops(strings, count);
    size_t total = strlen(text);
    long cut = -1;
    for (size_t at = 0; at < total && cut < 0; at += size) {
        size_t n = total - at < size ? total - at : size, end = 0, length = 0;
        if (cop_stops_read(&stops, text + at, n, &end, &length)) {
            cut = (long)(at + end - length);
        }
    }
    cop_stops_release(&stops);
    return cut;
}

static const struct cut_case {
    const char *strings[3];
    int32_t count;
    const char *text;
    long cut;
} cut_cases[] = {
    {{"END"}, 1, "xxENDyyyyyyyyyyyy", 2},
    {{"END"}, 1, "ENDx", 0},
    {{"END"}, 1, "xxEN", -1},
    {{"END"}, 1, "ENEND", 2},
    {{"aab"}, 1, "aaab", 1},        /* the failed beginning is itself a beginning */
    {{"abcd", "bc"}, 2, "abcd", 1}, /* the one that is complete first */
    {{"bc", "abc"}, 2, "xabc", 1},  /* at the same byte the longest */
    {{"ab", "abc"}, 2, "abc", 0},   /* a stop that begins another is found first */
    {{"\n\n"}, 1, "a\nb\n\nc", 3},
    {{"\xE2\x82\xAC"}, 1, "1\xE2\x82\xAD\xE2\x82\xAC", 4}, /* one character of three bytes */
    {{"abab", "ba"}, 2, "aba", 1},
    {{"x", "y", "z"}, 3, "abczyx", 3},
    {{"q"}, 0, "qqq", -1},
};

Test(stops, cut_does_not_depend_on_the_pieces)
{
    for (size_t i = 0; i < sizeof cut_cases / sizeof *cut_cases; i++) {
        const struct cut_case *c = &cut_cases[i];
        for (size_t size = 1; size <= 20; size++) {
            long cut = cut_of(c->strings, c->count, c->text, size);
            cr_expect_eq(cut, c->cut, "case %zu, pieces of %zu: %ld, expected %ld", i, size,
                         cut, c->cut);
        }
    }
}

Test(stops, holds_back_what_may_become_one)
{
    const char *strings[] = {"END", "\n\n"};
    struct cop_stops stops = new_stops(strings, 2);
    static const struct {
        const char *piece;
        size_t held;
    } steps[] = {{"xx", 0}, {"E", 1}, {"N", 2}, {"E", 1}, {"x", 0}, {"\n", 1}, {"EN", 2}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        size_t end = 0, length = 0;
        cr_assert_not(
            cop_stops_read(&stops, steps[i].piece, strlen(steps[i].piece), &end, &length));
        cr_expect_eq(cop_stops_held(&stops), steps[i].held, "after step %zu", i);
    }
    size_t end = 0, length = 0;
    cr_expect(cop_stops_read(&stops, "Dz", 2, &end, &length));
    cr_expect_eq(end, 1);
    cr_expect_eq(length, 3);
    cop_stops_release(&stops);
}

Test(stops, refuses_empty_and_ill_formed_strings)
{
    static const struct {
        const char *strings[2];
        const char *message;
    } cases[] = {{{"ok", ""}, "stop string 2 is empty: it would end every answer at once"},
                 {{"\xE2\x82", "ok"}, "stop string 1 is not well-formed UTF-8"},
                 {{"a", "\x80"}, "stop string 2 is not well-formed UTF-8"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cop_stops stops;
        struct cop_error err = {0};
        cr_expect_eq(cop_stops_init(&stops, cases[i].strings, NULL, 2, &err), COP_ERR_ARGUMENT);
        cr_expect_str_eq(err.text, cases[i].message);
        cr_expect_eq(stops.count, 0);
        cop_stops_release(&stops);
    }
}
