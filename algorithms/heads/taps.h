/* States of the target that a drafter has not read yet, each beside the token behind it.
 *
 *     committed     t0 t1 t2 t3 t4 t5   root
 *     states           …  f2 f3 f4 f5           f: some layers' states, one after another
 *     behind           …  t3 t4 t5 root
 */
#ifndef COP_ALGORITHMS_TAPS_H
#define COP_ALGORITHMS_TAPS_H

#include "core/cycle/contract/proposer.h"

struct cop_taps {
    float *states;     /* [capacity, n_layers * width] */
    cop_token *behind; /* [capacity] */
    int32_t n, capacity;
    int32_t n_layers, width; /* set once, before the first call */
    int32_t length;          /* committed tokens of the text, root included */
};
enum { COP_TAPS_WAIT = 64 }; /* more waiting states than this are read between cycles */

static inline size_t cop_taps_width(const struct cop_taps *taps)
{
    return (size_t)taps->n_layers * (size_t)taps->width;
}
/* A text of `length` tokens begins, or none (0): nothing waits. */
void cop_taps_begin(struct cop_taps *taps, int32_t length);
/* Appends the positions of a chunk, or those that a cycle committed before its last token. */
enum cop_status cop_taps_prefilled(struct cop_taps *taps, const struct cop_prefilled *chunk,
                                   struct cop_error *err);
/* Without memory nothing is appended. */
enum cop_status cop_taps_observe(struct cop_taps *taps, const struct cop_observed *observed,
                                 struct cop_error *err);
/* The first `count` have been read. */
void cop_taps_drop(struct cop_taps *taps, int32_t count);
void cop_taps_release(struct cop_taps *taps);

/* The first `count` speculative slots of a sequence, a chain, become committed; the others go.
 */
enum cop_status cop_taps_commit(struct cop_cache *cache, int32_t sequence, int32_t count,
                                struct cop_error *err);

#endif
