/* Every sequence of tokens that an enumeration meets, as a trie, with the rows after it (asked
 * from the case's functions once) and the probability that came to rest on it. Private to the
 * law. */
#ifndef COP_CYCLE_PREFIXES_H
#define COP_CYCLE_PREFIXES_H

#include "core/cycle/law/law.h"

struct cop_prefix {
    int32_t parent;      /* -1 for the empty sequence, which is number 0 */
    int32_t first_child; /* 0: none yet; else of vocab neighbours, by token */
    int32_t length;
    double *target; /* [vocab] NULL until asked for */
    double *draft;  /* [n_drafters][vocab] */
    int32_t place;  /* law_branches.c: 1 + the first place that waits here; 0: none */
    double first;   /* probability that the first cycle ends here */
    double final;   /* that the last one does */
    double below;   /* sum of final over the longer sequences that begin with this one */
};

struct cop_prefixes {
    const struct cop_law_case *what;
    int32_t vocab, n_drafters;
    struct cop_prefix *items;
    int32_t count, capacity;
    cop_token *tokens; /* scratch: a prefix written out */
    int32_t tokens_capacity;
};

enum cop_status cop_prefixes_init(struct cop_prefixes *prefixes,
                                  const struct cop_law_case *what, struct cop_error *err);
void cop_prefixes_release(struct cop_prefixes *prefixes);

/* Number of the sequence one token longer, or -1 (and a report). */
int32_t cop_prefixes_child(struct cop_prefixes *prefixes, int32_t prefix, cop_token token,
                           struct cop_error *err);
/* Its tokens, valid until the next call; NULL: no memory. */
const cop_token *cop_prefixes_tokens(struct cop_prefixes *prefixes, int32_t prefix,
                                     struct cop_error *err);
/* The rows after it: [vocab], and [n_drafters][vocab]. NULL after a failure. At temperature
 * zero the target's is one-hot. They stay where they are. */
/* Behind the target's [vocab] lies the row as it was given. */
const double *cop_prefixes_target(struct cop_prefixes *prefixes, int32_t prefix,
                                  struct cop_error *err);
const double *cop_prefixes_draft(struct cop_prefixes *prefixes, int32_t prefix,
                                 struct cop_error *err);

/* The law of the first `length` tokens of the continued output beside the target's: fills
 * law->total_variation, position and target_position (law_compare.c). */
enum cop_status cop_prefixes_compare(struct cop_prefixes *prefixes, int32_t length,
                                     struct cop_law *law, struct cop_error *err);

#endif
