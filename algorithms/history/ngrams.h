/* A growing sequence of tokens that knows where each of its n-grams occurred first.
 *
 *     tokens  5 1 2 3 9 1 2       the last 2-gram is (1 2), first seen at 1
 *
 * Every n-gram of min to max tokens is entered when its last token arrives, once: a later
 * occurrence finds it there. So the leftmost occurrence of the sequence's own end costs one
 * probe, however long the sequence is. */
#ifndef COP_ALGORITHMS_NGRAMS_H
#define COP_ALGORITHMS_NGRAMS_H

#include "core/text/tokenizer.h"

struct cop_ngram { /* a slot of the table */
    uint64_t hash;
    int32_t start;
    int32_t length; /* 0: free */
};
struct cop_ngrams {
    int32_t min, max; /* lengths that are indexed */
    struct cop_ids ids;
    struct cop_ngram *slots; /* open addressing, at most half full */
    size_t n_slots;          /* a power of two, or 0 */
    size_t count;
};

/* Empty, 1 <= min <= max. */
void cop_ngrams_init(struct cop_ngrams *ngrams, int32_t min, int32_t max);
void cop_ngrams_release(struct cop_ngrams *ngrams);
enum cop_status cop_ngrams_push(struct cop_ngrams *ngrams, const cop_token *ids, int32_t n,
                                struct cop_error *err);

/* Where the last `length` tokens occurred first; at most count - length, their own place. -1
 * where the sequence is shorter or the length is not indexed. */
int32_t cop_ngrams_first(const struct cop_ngrams *ngrams, int32_t length);

#endif
