/* The tokens of a node in the order of target / draft, ties by id, without sorting a
 * vocabulary.
 *
 * Tokens fall into buckets by the leading bits of their ratio (cop_ratio_buckets), which one
 * pass fills: an order is the sum of target and draft in every bucket, and the tokens of the
 * few buckets that somebody must look into are listed in their order on request. What a rule
 * asks of a whole bucket it can mostly answer from the two sums.
 *
 * Values are raw: exponentials where both rows are kept as f32, probabilities else. Either way
 * two ratios that differ do so in double too (those of f32 by 2^-48 of them or more), so that
 * the order by raw ratios is one strict order, wherever it is asked for. */
#ifndef ALGORITHMS_ACCEPT_RATIO_ORDER_H
#define ALGORITHMS_ACCEPT_RATIO_ORDER_H

#include "core/cycle/rows/row.h"
#include "kernels/ops.h"

typedef double cop_ratio_sums __attribute__((vector_size(16))); /* target, draft */

struct cop_ratio_entry {
    double target, draft;
    uint32_t bits; /* of the ratio as f32 */
    cop_token token;
};

struct cop_ratio_order {
    const struct cop_row *target, *draft;
    bool is_kept;                     /* both rows as f32 */
    double target_scale, draft_scale; /* from raw values to probabilities */
    cop_ratio_sums *sums;             /* [COP_RATIO_BUCKETS] */
    uint16_t *buckets;                /* [vocab] */
    struct cop_ratio_entry *entries;  /* [vocab], and as many for sorting */
};

bool cop_ratio_order_init(struct cop_ratio_order *order, int32_t vocab); /* false: no memory */
void cop_ratio_order_release(struct cop_ratio_order *order);
/* Looks at two rows; their buckets are there after cop_ratio_order_fill, which is one pass. */
void cop_ratio_order_set(struct cop_ratio_order *order, const struct cop_row *target,
                         const struct cop_row *draft);
void cop_ratio_order_fill(struct cop_ratio_order *order);

/* The raw values of a token. */
struct cop_ratio_entry cop_ratio_entry_of(const struct cop_ratio_order *order, cop_token token);
double cop_ratio_of(const struct cop_ratio_entry *entry);
bool cop_ratio_precedes(const struct cop_ratio_entry *a, const struct cop_ratio_entry *b);
/* The raw draft of the tokens that precede this one, in one pass without buckets; *total: of
 * all. */
double cop_ratio_draft_before(const struct cop_ratio_order *order,
                              const struct cop_ratio_entry *entry, double *total);

/* Entries in order: n of them, ids ascending on entry, by digits of their ratio; `other` has as
 * much room. */
void cop_ratio_sort(struct cop_ratio_entry *entries, int32_t n, struct cop_ratio_entry *other);
uint32_t cop_ratio_bits(double target, double draft); /* for an entry */

/* The least raw ratio of a bucket; of COP_RATIO_BUCKETS: infinite. */
double cop_ratio_edge(int32_t bucket);
/* The tokens of buckets [first, last] with mass in either row, in order, to entries; how many.
 */
int32_t cop_ratio_order_list(struct cop_ratio_order *order, int32_t first, int32_t last);

#endif
