/* How much a structure over a sequence's text is given beforehand, so that no cycle pays for
 * its growth: all of the context where that is short, else as much again as there is and at
 * least some thousands of tokens. What is never written to costs no memory of the machine. */
#ifndef ALGORITHMS_HISTORY_ROOM_H
#define ALGORITHMS_HISTORY_ROOM_H

#include "core/text/tokenizer.h"

#include <stdlib.h>

enum { COP_ROOM_LEAST = 8192 };

/* Tokens to make room for when a text begins with n of at most `context`. */
static inline int32_t cop_room_tokens(int32_t n, int32_t context)
{
    int32_t more = n > COP_ROOM_LEAST ? n : COP_ROOM_LEAST;
    return n < context - more ? n + more : context > n ? context : n;
}

/* Room for a text of n tokens. */
static inline enum cop_status cop_room_ids(struct cop_ids *ids, int32_t n,
                                           struct cop_error *err)
{
    if ((size_t)n > ids->capacity) {
        cop_token *items = realloc(ids->items, (size_t)n * sizeof *items);
        if (!items) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory for %d token ids", (int)n);
        }
        ids->items = items;
        ids->capacity = (size_t)n;
    }
    return COP_OK;
}

/* Slots of a table that stays at most half full with n entries: those that it has, if they do;
 * powers of two. */
static inline size_t cop_room_slots(size_t n, size_t n_slots)
{
    n_slots = n_slots < 256 ? 256 : n_slots;
    while (n_slots < 2 * n) {
        n_slots *= 2;
    }
    return n_slots;
}

#endif
