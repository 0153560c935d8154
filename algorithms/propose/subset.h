/* Reduced draft vocabularies (FR-Spec): a drafter's output layer reads the rows of some ids
 * only, and its rows are laws over these.
 *
 *     vocabulary = { 5, 9, 12, … }    these ids
 *     vocabulary = 8192               the first 8,192 ids, in the order in which the tokenizer
 *                                     learnt them; ends of an answer replace the last ones
 *
 * What is not drafted has probability 0 in the recorded row, so every rule stays exact. */
#ifndef COP_ALGORITHMS_SUBSET_H
#define COP_ALGORITHMS_SUBSET_H

#include "algorithms/heads/pass.h"
#include "core/base/option.h"
#include "core/cycle/contract/proposer.h"

struct cop_subset { /* n 0: the whole vocabulary */
    cop_token *ids; /* [n] ascending */
    int32_t n;
};

#define COP_SUBSET_OPTION(state, field)                                                        \
    {                                                                                          \
        .name = "vocabulary", .type = COP_OPTION_VOCABULARY, .offset = offsetof(state, field), \
        .flags = COP_OPTION_ABSENT,                                                            \
        .help =                                                                                \
            "what is drafted, so that the output layer reads only these rows: ids, as "        \
            "cop.ranking makes them from texts, or how many of the first ids (and the ends "   \
            "of an answer); absent: all"                                                       \
    }

/* Checked against a vocabulary of `vocab` ids. `tokenizer` knows the ends; NULL: none.
 * COP_ERR_ARGUMENT: an id outside, or twice; more than there are. */
enum cop_status cop_subset_init(struct cop_subset *out,
                                const struct cop_vocabulary_option *option,
                                const struct cop_tokenizer *tokenizer, int32_t vocab,
                                struct cop_error *err);
void cop_subset_release(struct cop_subset *reduced); /* idempotent */

/* Room for n logits of rows that come again and again. With ids all others are at -inf, where
 * they stay: rows are filled at their ids alone, and what a request does to logits (penalties,
 * biases, bans) lifts nothing from there. ids NULL: any. False: no memory. */
bool cop_subset_reserve(const cop_token *ids, struct cop_floats *rows, size_t n);
/* n rows over ids[0..n_ids), `stride` apart, to such rows over the vocabulary. */
void cop_subset_place(const cop_token *ids, int32_t n_ids, int32_t stride, const float *own,
                      int32_t n, int32_t vocab, float *logits);

#endif
