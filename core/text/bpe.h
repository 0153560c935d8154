/* Byte-pair merging, on numbers alone.
 *
 *     symbols   h e l l o      merges, by rank   0: l l   1: h e   2: he ll
 *     step 1    h e ll o
 *     step 2    he ll o
 *     step 3    hell o
 *
 * Always the pair of lowest rank merges next, the leftmost of equals; n symbols take
 * n log n time. */
#ifndef COP_TEXT_BPE_H
#define COP_TEXT_BPE_H

#include "core/text/tokenizer.h"

/* Ranked merges: a hash table from a pair of ids to its rank and to what it becomes. */
struct cop_merges {
    struct cop_merge_slot *slots;
    size_t n_slots; /* a power of two */
    int32_t count;
    uint64_t seed;
};
struct cop_merge_slot {
    cop_token left, right;
    cop_token result;
    int32_t rank; /* -1: the slot is free */
};

enum cop_status cop_merges_init(struct cop_merges *merges, size_t limit, struct cop_error *err);
void cop_merges_release(struct cop_merges *merges);
/* Adds the next rank. A pair that has a rank already keeps it: its rank is returned and nothing
 * is added; else -1. */
int32_t cop_merges_add(struct cop_merges *merges, cop_token left, cop_token right,
                       cop_token result);
/* The same with a rank >= 0 of its own, which other pairs may share: of such pairs the leftmost
 * merges first. */
int32_t cop_merges_add_ranked(struct cop_merges *merges, cop_token left, cop_token right,
                              cop_token result, int32_t rank);
/* The pair's rank, or -1; *result (if not NULL) is then left alone. */
int32_t cop_merges_rank(const struct cop_merges *merges, cop_token left, cop_token right,
                        cop_token *result);

/* Memory that merging needs, kept from word to word; zero-initialise. */
struct cop_bpe_work {
    struct cop_bpe_symbol *symbols;
    uint64_t *queue;
    size_t capacity, n_queued; /* of symbols; the queue holds three times as many */
};
void cop_bpe_work_release(struct cop_bpe_work *work);

/* Merges ids[0..*count) in place. */
enum cop_status cop_bpe_merge(const struct cop_merges *merges, cop_token *ids, size_t *count,
                              struct cop_bpe_work *work, struct cop_error *err);

#endif
