/* Sorts the suffixes of a text of tokens by their first `depth` tokens.
 *
 * A full suffix array orders by everything that follows; who looks up n-grams and reads a few
 * tokens behind them needs as many tokens as that and no more. So the work is bounded whatever
 * the text repeats: a stable counting sort by the first token, then, in each of its buckets, a
 * stable sort by as many of the next tokens as fit into 64 bits, again in each group that is
 * still equal, until `depth` is reached. Suffixes that agree that far stay in the order of
 * their places. One that ends comes before those that go on. */
#ifndef ALGORITHMS_HISTORY_SUFFIX_SORT_H
#define ALGORITHMS_HISTORY_SUFFIX_SORT_H

#include "core/text/tokenizer.h"

/* array[0..n) becomes the places 0 … n - 1 in order. Ids are in [0, vocab), vocab at most
 * 2^21. Scratch: 32 bytes for each suffix of the largest bucket. COP_ERR_MEMORY. */
enum cop_status cop_suffix_sort(const cop_token *text, int32_t n, int32_t vocab, int32_t depth,
                                int32_t *array, struct cop_error *err);

#endif
