/* Regular expressions: ours and those of strangers' files, run by PCRE2 over valid UTF-8.
 *
 * A search sees the whole text from its beginning, also when it starts in the middle. */
#ifndef COP_TEXT_REGEX_H
#define COP_TEXT_REGEX_H

#include "core/text/tokenizer.h"

/* White space of Unicode, inside brackets: PCRE2's own \s also holds U+180E, which is none. */
#define COP_REGEX_WHITE "\\t-\\r\\x{85}\\p{Z}"

struct cop_regex; /* compiled; may be used by several threads at once */

enum cop_regex_origin {
    COP_REGEX_OURS,   /* PCRE2's syntax, known to take linear time */
    COP_REGEX_FOREIGN /* that of tokenizer.json (Oniguruma's, of Ruby); an expression that
                         takes too many steps fails with COP_ERR_LIMIT */
};

/* COP_ERR_FORMAT: not an expression; COP_ERR_UNSUPPORTED: what has no translation. The message
 * does not name the expression. */
enum cop_status cop_regex_new(struct cop_regex **out, const char *pattern, size_t length,
                              enum cop_regex_origin origin, struct cop_error *err);
void cop_regex_free(struct cop_regex *regex); /* NULL is fine */

/* What a search needs; zero-initialise, keep from search to search, not shared by threads. */
struct cop_regex_work {
    void *match, *limits;
};
void cop_regex_work_release(struct cop_regex_work *work);

struct cop_span {
    size_t start, end;
};

/* The matches from left to right, as tokenizer.json counts them: an empty match right behind
 * the last one is none. Start with {0}. */
struct cop_regex_scan {
    size_t at;       /* where the next search begins */
    size_t last_end; /* of the last match */
    bool has_last;
};
enum cop_status cop_regex_next(const struct cop_regex *regex, struct cop_regex_work *work,
                               const char *text, size_t length, struct cop_regex_scan *scan,
                               struct cop_span *span, bool *is_found, struct cop_error *err);

/* Appends the expression in PCRE2's syntax; private to regex.c and its test. */
enum cop_status cop_regex_translate(const char *pattern, size_t length, struct cop_text *out,
                                    struct cop_error *err);

#endif
