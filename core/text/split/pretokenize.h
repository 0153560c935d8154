/* Pre-tokenizers: how a text is cut into the words inside which symbols may merge.
 *
 * A pre-tokenizer is a list of steps. A step cuts what the step before it left into the matches
 * of an expression and what lies between them, or changes it, and sees no further than its own
 * part. Families of models have their steps in a table; tokenizer.json lists its own. */
#ifndef COP_TEXT_PRETOKENIZE_H
#define COP_TEXT_PRETOKENIZE_H

#include "core/text/split/regex.h"

/* ---- Steps ------------------------------------------------------------------------------ */

enum cop_cut_kind {
    COP_CUT_SPLIT,   /* at the matches of `regex`, or at each `from` where it is NULL */
    COP_CUT_REPLACE, /* each `from` becomes `to` */
    COP_CUT_PREFIX   /* `to` in front, unless it is there */
};

/* What becomes of the matches; "a-b--c" at "-": */
enum cop_split {
    COP_SPLIT_ISOLATED,      /* a|-|b|-|-|c */
    COP_SPLIT_REMOVED,       /* a|b|c */
    COP_SPLIT_WITH_PREVIOUS, /* a-|b-|-|c */
    COP_SPLIT_WITH_NEXT,     /* a|-b|-|-c */
    COP_SPLIT_CONTIGUOUS     /* a|-|b|--|c */
};

struct cop_cut_step {
    enum cop_cut_kind kind;
    enum cop_split split;
    bool is_inverted; /* SPLIT: what lies between the matches counts as matched */
    bool first_only;  /* PREFIX: only where the whole text begins */
    struct cop_regex *regex;
    struct cop_text from, to;
};

#define COP_CUT_STEPS 16

/* Owns its steps; may be used by several threads at once. */
struct cop_pretokenizer {
    struct cop_cut_step steps[COP_CUT_STEPS];
    size_t n_steps;
};

/* No step: a text is one word. NULL: no memory. */
struct cop_pretokenizer *cop_pretokenizer_empty(void);
void cop_pretokenizer_free(struct cop_pretokenizer *pretokenizer); /* NULL is fine */

/* Takes over the step, also when it fails. */
enum cop_status cop_pretokenizer_add(struct cop_pretokenizer *pretokenizer,
                                     struct cop_cut_step step, struct cop_error *err);
void cop_cut_step_release(struct cop_cut_step *step);

/* Calls `take` with each word in order; none is empty. The text must be valid UTF-8; `at_start`
 * says that it begins where the whole text does. Stops at the first failure of `take`. With the
 * families' steps words joined are the text, time is linear in it, and the stack does not grow
 * with it. */
typedef enum cop_status (*cop_pretoken_take)(void *context, const char *bytes, size_t length,
                                             struct cop_error *err);
enum cop_status cop_pretokenizer_cut(const struct cop_pretokenizer *pretokenizer,
                                     const char *text, size_t length, bool at_start,
                                     cop_pretoken_take take, void *context,
                                     struct cop_error *err);

/* ---- Families --------------------------------------------------------------------------- */

#define COP_PRETOKEN_NAMES 8
#define COP_PRETOKEN_STEPS 3

struct cop_pretoken_family {
    const char *names[COP_PRETOKEN_NAMES]; /* values of tokenizer.ggml.pre */
    const char *steps[COP_PRETOKEN_STEPS]; /* PCRE2, applied in order; NULL ends the list */
    bool ignore_merges; /* a word that is a piece is taken whole, without merging */
    bool adds_bos;      /* unless the file says otherwise */
};

/* NULL: unknown. */
const struct cop_pretoken_family *cop_pretoken_family_find(const char *name, size_t length);
/* "gpt-2, smollm, …": the first name of every family, for messages. */
const char *cop_pretoken_family_names(char *buffer, size_t size);

enum cop_status cop_pretokenizer_new(struct cop_pretokenizer **out,
                                     const struct cop_pretoken_family *family,
                                     struct cop_error *err);

#endif
