/* Regular expressions of tokenizer.json in PCRE2's syntax.
 *
 * The library that runs them elsewhere is Oniguruma with Ruby's syntax. What differs:
 *     \s \w \b           white space and words of Unicode; PCRE2's sets are others
 *     \h                 a hexadecimal digit; blanks to PCRE2
 *     \v                 U+000B; all ends of lines to PCRE2
 *     \uXXXX             a character; unknown to PCRE2
 *     ^ $                ends of lines always (an option of compiling)
 *     (?m:               . matches line feeds too; (?s: to PCRE2
 *     {,3}               {0,3}; plain text to older PCRE2
 * Refused: sets inside sets, && in sets, \W and \H in sets, {1,3}+ (not possessive there), and
 * (*, by which PCRE2 takes orders. */
#include "core/text/split/regex.h"

#include <string.h>

#define WORD_SET                                                                               \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}"                \
    "\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"
/* Outside brackets Oniguruma counts six fractions and raised digits as words too. */
#define WORD    WORD_SET "\\xB2\\xB3\\xB9\\xBC-\\xBE"
#define EDGE    "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))"
#define NO_EDGE "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))"
#define WHITE   COP_REGEX_WHITE
#define HEX     "0-9A-Fa-f"

/* Escapes that change; NULL in a set: refused there. All others stay as they are. */
static const struct {
    char letter;
    const char *alone, *in_set;
} escapes[] = {
    {'s', "[" WHITE "]", WHITE},
    /* PCRE2's own set lacks one character that is no white space. */
    {'S', "[^" WHITE "]", "\\S\\x{180E}"},
    {'w', "[" WORD "]", WORD_SET},
    {'W', "[^" WORD "]", NULL},
    {'h', "[" HEX "]", HEX},
    {'H', "[^" HEX "]", NULL},
    {'v', "\\x{0B}", "\\x{0B}"},
    {'b', EDGE, "\\x{08}"},
    {'B', NO_EDGE, NULL},
};
#define N_ESCAPES (sizeof escapes / sizeof escapes[0])

/* Named sets, inside brackets. */
static const struct {
    const char *name, *set;
} named_sets[] = {
    {"[:alpha:]", "\\p{Alphabetic}"},
    {"[:alnum:]", "\\p{Alphabetic}\\p{Nd}"},
    {"[:digit:]", "\\p{Nd}"},
    {"[:lower:]", "\\p{Lowercase}"},
    {"[:punct:]", "\\p{P}\\p{S}"},
    {"[:space:]", WHITE},
    {"[:upper:]", "\\p{Uppercase}"},
    {"[:word:]", WORD_SET},
    {"[:xdigit:]", HEX},
};
#define N_NAMED_SETS (sizeof named_sets / sizeof named_sets[0])

struct translation {
    const char *at, *end;
    struct cop_text *out;
    bool in_set;
    bool after_interval; /* the last thing was {n,m} */
    struct cop_error *err;
};

static enum cop_status refuse(const struct translation *t, const char *what)
{
    return cop_fail(t->err, COP_ERR_UNSUPPORTED,
                    "the regular expression holds %s, which is not built", what);
}

static enum cop_status put(struct translation *t, const char *text, size_t length)
{
    return cop_text_append(t->out, text, length, t->err);
}

/* Copies the next `length` bytes. */
static enum cop_status copy(struct translation *t, size_t length)
{
    const char *from = t->at;
    t->at += length;
    return put(t, from, length);
}

static bool begins(const struct translation *t, const char *what)
{
    size_t length = strlen(what);
    return (size_t)(t->end - t->at) >= length && memcmp(t->at, what, length) == 0;
}

static bool is_hex(char byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'F') ||
           (byte >= 'a' && byte <= 'f');
}

/* \uXXXX */
static enum cop_status put_unit(struct translation *t)
{
    for (int i = 2; i < 6; i++) {
        if (t->end - t->at <= i || !is_hex(t->at[i])) {
            return refuse(t, "\\u without four digits");
        }
    }
    enum cop_status status = put(t, "\\x{", 3);
    status = status == COP_OK ? put(t, t->at + 2, 4) : status;
    t->at += 6;
    return status == COP_OK ? put(t, "}", 1) : status;
}

static enum cop_status put_escape(struct translation *t)
{
    if (t->end - t->at < 2) {
        return copy(t, 1); /* for PCRE2 to complain about */
    }
    char letter = t->at[1];
    if (letter == 'u') {
        return put_unit(t);
    }
    if (letter == 'Q' || letter == 'E') { /* letters, no quotation */
        t->at++;
        return copy(t, 1);
    }
    for (size_t i = 0; i < N_ESCAPES; i++) {
        if (escapes[i].letter == letter) {
            const char *text = t->in_set ? escapes[i].in_set : escapes[i].alone;
            t->at += 2;
            return text ? put(t, text, strlen(text))
                        : refuse(t, "\\W, \\H or \\B inside brackets");
        }
    }
    /* A name or number in braces belongs to the escape. */
    const char *close = memchr(t->at, '}', (size_t)(t->end - t->at));
    bool is_braced = t->end - t->at > 2 && t->at[2] == '{' && strchr("pPxkgo", letter) && close;
    return copy(t, is_braced ? (size_t)(close - t->at) + 1 : 2);
}

/* What stands inside brackets, from behind "[" or "[^". */
static enum cop_status put_in_set(struct translation *t)
{
    if (*t->at == '\\') {
        return put_escape(t);
    }
    if (begins(t, "&&")) {
        return refuse(t, "&& inside brackets");
    }
    for (size_t i = 0; i < N_NAMED_SETS; i++) {
        if (begins(t, named_sets[i].name)) {
            t->at += strlen(named_sets[i].name);
            return put(t, named_sets[i].set, strlen(named_sets[i].set));
        }
    }
    if (*t->at == '[') {
        return refuse(t, "brackets inside brackets");
    }
    t->in_set = *t->at != ']';
    return copy(t, 1);
}

static enum cop_status open_set(struct translation *t)
{
    t->in_set = true;
    size_t length = begins(t, "[^") ? 2 : 1;
    length += length < (size_t)(t->end - t->at) && t->at[length] == ']'; /* text there */
    return copy(t, length);
}

/* "(", and options behind "(?" up to ":" or ")". */
static enum cop_status open_group(struct translation *t)
{
    if (begins(t, "(*")) {
        return refuse(t, "\"(*\"");
    }
    enum cop_status status = copy(t, begins(t, "(?") ? 2 : 1);
    const char *letter = t->at;
    while (letter < t->end && *letter && strchr("imx-", *letter)) {
        letter++;
    }
    bool has_options = letter > t->at && letter < t->end && (*letter == ':' || *letter == ')');
    while (status == COP_OK && has_options && t->at < letter) {
        status = *t->at == 'm' ? put(t, "s", 1) : put(t, t->at, 1);
        t->at++;
    }
    return status;
}

/* The length of {n}, {n,}, {,m} or {n,m} at t->at; 0: plain text. */
static size_t interval_length(const struct translation *t)
{
    const char *at = t->at + 1;
    size_t n_digits = 0;
    size_t n_commas = 0;
    while (at < t->end && ((*at >= '0' && *at <= '9') || (*at == ',' && n_commas == 0))) {
        n_digits += *at != ',';
        n_commas += *at == ',';
        at++;
    }
    return at < t->end && *at == '}' && n_digits > 0 ? (size_t)(at - t->at) + 1 : 0;
}

static enum cop_status put_interval(struct translation *t)
{
    size_t length = interval_length(t);
    if (length == 0) {
        return copy(t, 1);
    }
    if (t->at[1] == ',') {
        enum cop_status status = put(t, "{0", 2);
        t->at++;
        status = status == COP_OK ? copy(t, length - 1) : status;
        t->after_interval = true;
        return status;
    }
    t->after_interval = true;
    return copy(t, length);
}

static enum cop_status put_next(struct translation *t)
{
    bool after_interval = t->after_interval;
    t->after_interval = false;
    if (t->in_set) {
        return put_in_set(t);
    }
    switch (*t->at) {
    case '\\': return put_escape(t);
    case '[': return open_set(t);
    case '(': return open_group(t);
    case '{': return put_interval(t);
    case '+': return after_interval ? refuse(t, "{n,m}+") : copy(t, 1);
    default: return copy(t, 1);
    }
}

enum cop_status cop_regex_translate(const char *pattern, size_t length, struct cop_text *out,
                                    struct cop_error *err)
{
    struct translation t = {.at = pattern, .end = pattern + length, .out = out, .err = err};
    enum cop_status status = cop_text_append(out, "", 0, err);
    while (status == COP_OK && t.at < t.end) {
        status = put_next(&t);
    }
    return status;
}
