/* Expressions of tokenizer.json in PCRE2's syntax, and how their matches are counted. */
#include "core/text/split/regex.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(regex, .timeout = 60);

static struct cop_error err;

/* "a|b|": the matches of an expression in a text. */
static const char *matches(const char *pattern, const char *text)
{
    static char shown[256];
    struct cop_regex *regex;
    struct cop_regex_work work = {0};
    struct cop_regex_scan scan = {0};
    struct cop_span span;
    bool is_found = true;
    size_t filled = 0;
    cr_assert_eq(cop_regex_new(&regex, pattern, strlen(pattern), COP_REGEX_FOREIGN, &err),
                 COP_OK, "%s: %s", pattern, err.text);
    shown[0] = '\0';
    while (is_found) {
        cr_assert_eq(
            cop_regex_next(regex, &work, text, strlen(text), &scan, &span, &is_found, &err),
            COP_OK);
        if (is_found) {
            filled += (size_t)snprintf(shown + filled, sizeof shown - filled, "%.*s|",
                                       (int)(span.end - span.start), text + span.start);
        }
    }
    cop_regex_work_release(&work);
    cop_regex_free(regex);
    return shown;
}

static const struct {
    const char *pattern, *text, *matches;
} cases[] = {
    /* White space is Unicode's: U+0085 and U+3000 are, U+180E is not. */
    {"\\s",
     "a\xC2\x85"
     "b\u3000c\u180E",
     "\xC2\x85|\u3000|"},
    {"[\\sx]+",
     "\xC2\x85"
     "x\u180Ex",
     "\xC2\x85"
     "x|x|"},
    {"\\S+", "a\u180Eb c", "a\u180Eb|c|"},
    {"[^\\S\\n]+", "a \t\n b", " \t| |"},
    {"[\\S]+", "a\u180E b", "a\u180E|b|"},
    {"[\\S]+",
     "a\xC2\x85"
     "b",
     "a|b|"},
    /* Digits are Unicode's. */
    {"\\d+", "1\u0663\uFF19x\u00B2", "1\u0663\uFF19|"},
    {"[^\\d]+", "x\u0663\u00B2", "x|\u00B2|"},
    /* Words: marks belong to them, raised digits only outside brackets. */
    {"\\w+", "e\u0301_1\u203F\u24B6-\u00B2", "e\u0301_1\u203F\u24B6|\u00B2|"},
    {"[\\w]+", "a\u00B2b", "a|b|"},
    {"\\W", "a-\u00B2", "-|"},
    {"\\b", "ab c", "||||"},
    {"a\\B.", "ab a ", "ab|"},
    {"[\\b]", "a\bb", "\b|"},
    {"\\h+", "xab9G", "ab9|"},
    {"\\H", "a\tx", "\t|x|"},
    {"a\\v", "a\n a\x0B", "a\x0B|"},
    {"\\u00e9\\u4E2D?", "\u00E9\u4E2D\u00E9", "\u00E9\u4E2D|\u00E9|"},
    {"\\x{e9}+", "\u00E9\u00E9", "\u00E9\u00E9|"},
    {"\\x{41}+", "AAb", "AA|"},
    {"\\p{Han}+|\\p{^L}", "\u4E2D\u6587a1", "\u4E2D\u6587|1|"},
    {"\\Qa", "Qa", "Qa|"},
    /* Anchors are those of lines. */
    {"^a$", "a\nab\na", "a|a|"},
    {"(?m:a.b)", "a\nb", "a\nb|"},
    {"(?i-m:A.b)", "a\nB axb", "axb|"},
    {"a.b", "a\nb", ""},
    {"(?i:'S|'t)", "'s'T'\u017F", "'s|'T|'\u017F|"},
    {"(?:a(?=b)|b(?<!a)|c(?<=c))", "abc", "a|b|c|"},
    {"a{,2}", "aaa", "aa|a|"},
    {"a{2}", "aaaaa", "aa|aa|"},
    {"a{x}", "a{x}", "a{x}|"},
    {"a++b", "aab", "aab|"},
    {"[]a]+", "a]b", "a]|"},
    {"[^]a]+", "a]b", "b|"},
    {"[a\\]]+", "a]b", "a]|"},
    {"[[:punct:]]+", "a+.\u00A3b", "+.\u00A3|"},
    {"[^[:space:][:upper:]]", "A b", "b|"},
    {"[a-z&]", "&", "&|"},
    /* An empty match right behind the last one is none. */
    {"x*", "axxb", "|xx||"},
    {"(?=b)|a", "ab", "a|"},
    {"", "ab", "|||"},
    {"", "\u00E9", "||"},
    {"(a)(b)(c)", "abc", "abc|"},
};

Test(regex, matches_are_those_of_the_other_syntax)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_expect_str_eq(matches(cases[i].pattern, cases[i].text), cases[i].matches,
                         "%s in \"%s\"", cases[i].pattern, cases[i].text);
    }
}

static const struct {
    const char *pattern;
    enum cop_status status;
} wrong[] = {
    {"(", COP_ERR_FORMAT},
    {"[a", COP_ERR_FORMAT},
    {"a\\", COP_ERR_FORMAT},
    {"*", COP_ERR_FORMAT},
    {"\\p{Nonsense}", COP_ERR_FORMAT},
    {"\\C", COP_ERR_FORMAT},
    {"(?<=a+)b", COP_ERR_FORMAT},
    {"[a[b]]", COP_ERR_UNSUPPORTED},
    {"[a&&b]", COP_ERR_UNSUPPORTED},
    {"[\\W]", COP_ERR_UNSUPPORTED},
    {"\\u12", COP_ERR_UNSUPPORTED},
    {"(*UTF)a", COP_ERR_UNSUPPORTED},
    {"a{1,2}+", COP_ERR_UNSUPPORTED},
    {"(?:a{1,65535}){1,65535}", COP_ERR_FORMAT},
};

Test(regex, what_cannot_be_is_refused)
{
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct cop_regex *regex;
        cr_expect_eq(cop_regex_new(&regex, wrong[i].pattern, strlen(wrong[i].pattern),
                                   COP_REGEX_FOREIGN, &err),
                     wrong[i].status, "%s: %s", wrong[i].pattern, err.text);
        cr_expect_null(regex);
    }
    static char longest[20001];
    struct cop_regex *regex;
    memset(longest, 'a', sizeof longest);
    cr_expect_eq(cop_regex_new(&regex, longest, sizeof longest, COP_REGEX_FOREIGN, &err),
                 COP_ERR_LIMIT);
}
