/* Pre-tokenizers: how a family of models cuts text into the words inside which bytes may merge.
 *
 * A family is one or more steps, each a regular expression: a step cuts what the step before
 * it left into the matches and what lies between them, and sees no further than its own part.
 */
#ifndef COP_TEXT_PRETOKENIZE_H
#define COP_TEXT_PRETOKENIZE_H

#include "core/base/error.h"
#include <stdbool.h>
#include <stddef.h>

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

struct cop_pretokenizer; /* the compiled steps; may be used by several threads at once */

enum cop_status cop_pretokenizer_new(struct cop_pretokenizer **out,
                                     const struct cop_pretoken_family *family,
                                     struct cop_error *err);
void cop_pretokenizer_free(struct cop_pretokenizer *pretokenizer); /* NULL is fine */

/* Calls `take` with each word in order; words joined are the text, none is empty. The text must
 * be valid UTF-8. Stops at the first failure of `take`. Time is linear in the text, and the
 * stack does not grow with it. */
typedef enum cop_status (*cop_pretoken_take)(void *context, const char *bytes, size_t length,
                                             struct cop_error *err);
enum cop_status cop_pretokenizer_cut(const struct cop_pretokenizer *pretokenizer,
                                     const char *text, size_t length, cop_pretoken_take take,
                                     void *context, struct cop_error *err);

#endif
