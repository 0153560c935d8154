/* What one pass of a network needs, grown by need: room for numbers, and the rows that are fed.
 *
 *     row           0   1   2   3   4            a chain in sequence 0, a tree in sequence 3
 *     sequences     0   0   3   3   3
 *     parents      -1   0  -1   0   0            among the rows of the same sequence, as in a
 *     tokens        t   t   t   t   t            forward pass (core/model/model.h)
 */
#ifndef COP_ALGORITHMS_PASS_H
#define COP_ALGORITHMS_PASS_H

#include "core/text/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cop_floats {
    float *items; /* [capacity]; free(items) when done */
    size_t capacity;
};
/* Room for n numbers; what was there is lost. False: no memory, and no room at all. */
bool cop_floats_reserve(struct cop_floats *floats, size_t n);

struct cop_feed {
    cop_token *tokens;            /* [capacity]; owns the block that the others lie in */
    int32_t *sequences, *parents; /* [capacity] */
    int32_t n, capacity;
};
/* Empties it, with room for n rows. False: no memory, and no room at all. */
bool cop_feed_start(struct cop_feed *feed, int32_t n);
void cop_feed_add(struct cop_feed *feed, int32_t sequence, cop_token token, int32_t parent);
void cop_feed_release(struct cop_feed *feed);

#endif
