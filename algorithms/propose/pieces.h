/* What a text begins with in the target's tokens: whether it may still become a longer token,
 * and which one it is when it may not.
 *
 *     pieces   "t" "h" "e" " t" "he" " th"
 *     " t"     goes on: " th" is longer            first of " t e"    " t"
 *     " th"    goes on no further                  first of " there"  " th"  */
#ifndef ALGORITHMS_PROPOSE_PIECES_H
#define ALGORITHMS_PROPOSE_PIECES_H

#include "core/text/tokenizer.h"

struct cop_pieces {
    const struct cop_tokenizer *tokenizer; /* lent */
    int32_t size;                          /* ids are below it */
    struct cop_string *sorted;             /* [count] pieces of text, by their bytes */
    int32_t count;
    cop_token before;   /* a token that stands in front of what is cut; -1: none */
    struct cop_ids ids; /* scratch */
};

/* Released also after failure. */
enum cop_status cop_pieces_init(struct cop_pieces *pieces,
                                const struct cop_tokenizer *tokenizer, int32_t size,
                                struct cop_error *err);
void cop_pieces_release(struct cop_pieces *pieces);

/* Whether more of the text may change its first token: a longer piece begins with the whole, or
 * it ends inside a character, whose first bytes may be merged with what is before them. */
bool cop_pieces_go_on(const struct cop_pieces *pieces, const char *text, size_t length);
/* The first token of a text, whatever was written before it; -1: none begins so. */
enum cop_status cop_pieces_first(struct cop_pieces *pieces, const char *text, size_t length,
                                 cop_token *first, struct cop_error *err);

#endif
