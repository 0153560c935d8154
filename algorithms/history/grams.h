/* How often each token followed each n-gram of 1 to 4 tokens.
 *
 *     text 1 2 3 1 2       (1) → 2: 2        (1 2) → 3: 1        (2 3) → 1: 1  …
 *
 * Followers of one n-gram form a list in order of first appearance; total and most frequent one
 * (the first to get there) are kept up to date. Two open-addressing tables find n-grams and
 * followers, so that counting and asking take a probe however long the text is.
 *
 * Memory: an n-gram with its first follower takes 60 to 98 bytes (28 + 16, room to grow,
 * tables), a further follower 24 to 40. A token of new text brings up to four n-grams: 392
 * bytes at most, less the more the text repeats itself.
 */
#ifndef ALGORITHMS_HISTORY_GRAMS_H
#define ALGORITHMS_HISTORY_GRAMS_H

#include "core/text/tokenizer.h"

#define COP_GRAM_MOST 4

struct cop_gram {
    cop_token tokens[COP_GRAM_MOST]; /* unused: -1 */
    int32_t total;
    int32_t first, best; /* followers */
};
struct cop_follower {
    int32_t gram;
    cop_token token;
    int32_t count;
    int32_t next; /* of the same n-gram; -1: none */
};
struct cop_grams {
    struct cop_gram *grams;
    struct cop_follower *followers;
    int32_t n_grams, gram_capacity;
    int32_t n_followers, follower_capacity;
    int32_t *gram_slots, *follower_slots; /* numbers, -1: free; at most half full */
    size_t n_gram_slots, n_follower_slots;
};

void cop_grams_release(struct cop_grams *grams); /* leaves it empty */
/* Empty, with room for the n-grams of a text of n tokens; keeps what room it has. */
enum cop_status cop_grams_clear(struct cop_grams *grams, int32_t n, struct cop_error *err);
/* One more `count` times that `token` followed tokens[0..n). */
enum cop_status cop_grams_add(struct cop_grams *grams, const cop_token *tokens, int32_t n,
                              cop_token token, int32_t count, struct cop_error *err);
/* What the last token of text[0..n) followed: n-grams of min to max tokens. */
enum cop_status cop_grams_learn(struct cop_grams *grams, const cop_token *text, int32_t n,
                                int32_t min, int32_t max, struct cop_error *err);
enum cop_status cop_grams_merge(struct cop_grams *into, const struct cop_grams *from,
                                struct cop_error *err);

/* NULL: never seen. */
const struct cop_gram *cop_grams_find(const struct cop_grams *grams, const cop_token *tokens,
                                      int32_t n);
int32_t cop_grams_count(const struct cop_grams *grams, const struct cop_gram *gram,
                        cop_token token);

#endif
