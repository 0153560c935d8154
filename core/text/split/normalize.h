/* Normalisers: how a tokenizer changes text before it cuts it. */
#ifndef COP_TEXT_NORMALIZE_H
#define COP_TEXT_NORMALIZE_H

#include "core/text/split/regex.h"
#include "core/text/split/unicode.h"

#define COP_NORMALIZE_STEPS 16

/* Longer texts are refused: places inside a text are 32-bit numbers in the merger. */
#define COP_LONGEST_TEXT ((size_t)1 << 28)

enum cop_normalize_kind {
    COP_NORMALIZE_FORM,
    COP_NORMALIZE_LOWER,
    COP_NORMALIZE_UNMARK,  /* combining marks go */
    COP_NORMALIZE_STRIP,   /* white space goes from the ends that are said */
    COP_NORMALIZE_PREPEND, /* `to` in front of a text that is not empty */
    COP_NORMALIZE_REPLACE  /* each match, or each `from`, by `to` */
};

struct cop_normalize_step {
    enum cop_normalize_kind kind;
    enum cop_form form;
    bool left, right;         /* STRIP */
    struct cop_regex *regex;  /* REPLACE: owned; NULL: `from` is meant */
    struct cop_text from, to; /* owned */
};

struct cop_normalizer {
    struct cop_normalize_step steps[COP_NORMALIZE_STEPS];
    size_t n_steps;
};

void cop_normalizer_release(struct cop_normalizer *normalizer); /* idempotent */

/* What normalising needs; zero-initialise, keep from text to text. */
struct cop_normalize_work {
    struct cop_text texts[2];
    struct cop_regex_work regex;
};
void cop_normalize_work_release(struct cop_normalize_work *work);

/* The normalised text in *out: lent by the work or, where nothing changes, by the caller. */
enum cop_status cop_normalize(const struct cop_normalizer *normalizer, struct cop_string text,
                              struct cop_normalize_work *work, struct cop_string *out,
                              struct cop_error *err);

/* Appends a text with each `from` (not empty) replaced. */
enum cop_status cop_replace(struct cop_string text, struct cop_string from,
                            struct cop_string to, struct cop_text *out, struct cop_error *err);

#endif
