/* What a cache holds: private to core/cache.
 *
 * A sequence's table covers exactly its slots: ceil((committed + speculative) / page) pages.
 * Only the page that holds the last committed position can be shared *and* written: pages below
 * it are full, pages above it were taken for speculative slots and belong to one table. So
 * `extend` copies at most one page, and `commit` writes into pages that are its own. */
#ifndef COP_CACHE_STATE_H
#define COP_CACHE_STATE_H

#include "core/cache/cache.h"
#include "core/cache/pages.h"
#include <assert.h>

struct cop_cache_slots {
    int32_t committed, speculative;
    int32_t *table; /* [n_table, of table_capacity] logical page -> page of the pool */
    int32_t n_table, table_capacity;
    int32_t *parents; /* [speculative, of tree_capacity] speculative index, or -1 */
    int32_t *depths;  /* [speculative, of tree_capacity] */
    int32_t tree_capacity;
};

struct cop_cache {
    const struct cop_ops *ops;
    struct cop_kv_pool pool;
    size_t page_bytes, slot_bytes;
    struct cop_pages pages;
    int32_t context, n_sequences;
    int64_t bytes_moved;
    struct cop_cache_slots *sequences; /* [n_sequences] */
};

static inline int32_t cop_pages_for(int64_t slots)
{
    return (int32_t)((slots + COP_PAGE_SLOTS - 1) / COP_PAGE_SLOTS);
}

static inline struct cop_cache_slots *cop_cache_slots_of(const struct cop_cache *cache,
                                                         int32_t sequence)
{
    assert(sequence >= 0 && sequence < cache->n_sequences);
    return &cache->sequences[sequence];
}

#endif
