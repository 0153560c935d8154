/* Normal forms and properties, on values of the Unicode standard. */
#include "core/base/utf8.h"
#include "core/text/split/unicode.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(unicode, .timeout = 60);

static struct cop_error err;

static char *form(enum cop_form kind, const char *text, size_t length, size_t *out_length)
{
    struct cop_text out = {0};
    cr_assert_eq(cop_unicode_form(kind, text, length, &out, &err), COP_OK);
    *out_length = out.length;
    return out.bytes;
}

static const struct {
    const char *text, *nfc, *nfd, *nfkc, *nfkd;
} forms[] = {
    {"abc", "abc", "abc", "abc", "abc"},
    {"\u00E9x", "\u00E9x", "e\u0301x", "\u00E9x", "e\u0301x"},
    {"xe\u0301e", "x\u00E9e", "xe\u0301e", "x\u00E9e", "xe\u0301e"},
    {"\u212B", "\u00C5", "A\u030A", "\u00C5", "A\u030A"},
    /* Marks are sorted by class; one that is blocked does not compose. */
    {"q\u0307\u0323", "q\u0323\u0307", "q\u0323\u0307", "q\u0323\u0307", "q\u0323\u0307"},
    {"a\u0327\u0301\u0323", "\u1EA1\u0327\u0301", "a\u0327\u0323\u0301", "\u1EA1\u0327\u0301",
     "a\u0327\u0323\u0301"},
    {"\u1E9B\u0323", "\u1E9B\u0323", "\u017F\u0323\u0307", "\u1E69", "s\u0323\u0307"},
    {"\uAC01", "\uAC01", "\u1100\u1161\u11A8", "\uAC01", "\u1100\u1161\u11A8"},
    {"\u1100\u1161\u11A8x", "\uAC01x", "\u1100\u1161\u11A8x", "\uAC01x", "\u1100\u1161\u11A8x"},
    {"\u0958", "\u0915\u093C", "\u0915\u093C", "\u0915\u093C", "\u0915\u093C"}, /* excluded */
    {"\uFB01\u00BD", "\uFB01\u00BD", "\uFB01\u00BD", "fi1\u20442", "fi1\u20442"},
    {"\u0301a", "\u0301a", "\u0301a", "\u0301a", "\u0301a"},
    {"\U0001D15E", "\U0001D157\U0001D165", "\U0001D157\U0001D165", "\U0001D157\U0001D165",
     "\U0001D157\U0001D165"},
    {"", "", "", "", ""},
};

Test(unicode, the_four_forms)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const char *wanted[] = {forms[i].nfc, forms[i].nfd, forms[i].nfkc, forms[i].nfkd};
        for (int kind = 0; kind < 4; kind++) {
            size_t length;
            char *made =
                form((enum cop_form)kind, forms[i].text, strlen(forms[i].text), &length);
            cr_expect(length == strlen(wanted[kind]) &&
                          (length == 0 || memcmp(made, wanted[kind], length) == 0),
                      "row %zu, form %d: %s", i, kind, made ? made : "");
            free(made);
        }
    }
}

Test(unicode, zero_bytes_pass)
{
    size_t length;
    char *made = form(COP_FORM_NFC, "a\0e\u0301\0", 6, &length);
    cr_expect(length == 5 && memcmp(made, "a\0\u00E9\0", 5) == 0);
    free(made);
}

/* Any order of 100,000 marks is sorted in linear time; utf8proc's own takes 10^10 steps. */
Test(unicode, many_marks_on_one_letter)
{
    enum { PAIRS = 50000 };
    char *text = malloc(1 + 4 * PAIRS);
    text[0] = 'q';
    for (size_t i = 0; i < PAIRS; i++) { /* dot above (230), dot below (220) */
        memcpy(text + 1 + 4 * i, "\u0307\u0323", 4);
    }
    size_t length;
    char *made = form(COP_FORM_NFC, text, 1 + 4 * PAIRS, &length);
    cr_assert_eq(length, 1 + 4 * PAIRS);
    cr_expect_eq(memcmp(made + 1, "\u0323\u0323", 4), 0);
    cr_expect_eq(memcmp(made + 1 + 2 * PAIRS, "\u0307\u0307", 4), 0);
    free(made);
    free(text);
}

Test(unicode, lower_case)
{
    struct cop_text out = {0};
    const char text[] = "A\u00C9\u0130\u01C4\u1E9E\u03A3z1";
    cr_assert_eq(cop_unicode_lower(text, strlen(text), &out, &err), COP_OK);
    cr_expect_str_eq(out.bytes, "a\u00E9i\u0307\u01C6\u00DF\u03C3z1");
    cop_text_release(&out);
}

Test(unicode, white_space_and_words)
{
    static const uint32_t white[] = {0x09,   0x0D,   0x20,   0x85,   0xA0,   0x1680,
                                     0x2000, 0x200A, 0x2028, 0x202F, 0x205F, 0x3000};
    static const uint32_t others[] = {0x08, 0x0E, 0x1C, 0x200B, 0x180E, 0xFEFF};
    static const uint32_t words[] = {'a',    '0',    '_',    0xE9,   0x301,  0x4E2D,
                                     0x203F, 0x2167, 0x24B6, 0x200D, 0x1F130};
    static const uint32_t signs[] = {'-', ' ', 0xB2, 0x2460, 0x20AC, 0x1F600};
    for (size_t i = 0; i < sizeof white / sizeof white[0]; i++) {
        cr_expect(cop_is_white(white[i]), "U+%04X", white[i]);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        cr_expect_not(cop_is_white(others[i]), "U+%04X", others[i]);
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        cr_expect(cop_is_word(words[i]), "U+%04X", words[i]);
    }
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        cr_expect_not(cop_is_word(signs[i]), "U+%04X", signs[i]);
    }
}
