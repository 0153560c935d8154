/* The invariants of a cache, looked at from outside its verbs: counts recomputed from the
 * tables. */
#include "core/cache/state.h"
#include <stdlib.h>

static enum cop_status check_sequence(const struct cop_cache *cache, int32_t sequence,
                                      int32_t *seen, struct cop_error *err)
{
    const struct cop_cache_slots *seq = cop_cache_slots_of(cache, sequence);
    if (seq->n_table != cop_pages_for((int64_t)seq->committed + seq->speculative)) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "sequence %d holds %d pages for %d committed and %d speculative slots",
                        sequence, seq->n_table, seq->committed, seq->speculative);
    }
    for (int32_t i = 0; i < seq->n_table; i++) {
        int32_t page = seq->table[i];
        if (page < 0 || page >= cache->pages.n_pages) {
            return cop_fail(err, COP_ERR_ARGUMENT, "sequence %d holds page %d of %d", sequence,
                            page, cache->pages.n_pages);
        }
        seen[page]++;
        bool is_written = (i + 1) * COP_PAGE_SLOTS > seq->committed && seq->speculative > 0;
        if (is_written && cache->pages.holders[page] != 1) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "sequence %d has speculative slots in page %d, which it shares",
                            sequence, page);
        }
    }
    for (int32_t i = 0; i < seq->speculative; i++) {
        int32_t parent = seq->parents[i];
        if (parent < -1 || parent >= i ||
            seq->depths[i] != (parent < 0 ? 0 : seq->depths[parent] + 1) ||
            seq->committed + seq->depths[i] >= cache->context) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "speculative slot %d of sequence %d has parent %d and depth %d", i,
                            sequence, parent, seq->depths[i]);
        }
    }
    return COP_OK;
}

static enum cop_status check_counts(const struct cop_cache *cache, int32_t *seen,
                                    struct cop_error *err)
{
    int32_t used = 0;
    for (int32_t i = 0; i < cache->pages.n_pages; i++) {
        if (seen[i] != cache->pages.holders[i]) {
            return cop_fail(err, COP_ERR_ARGUMENT, "page %d is held %d times, counted %d times",
                            i, seen[i], cache->pages.holders[i]);
        }
        used += seen[i] > 0;
    }
    if (used + cache->pages.n_free != cache->pages.n_pages) {
        return cop_fail(err, COP_ERR_ARGUMENT, "%d used and %d free pages in a pool of %d",
                        used, cache->pages.n_free, cache->pages.n_pages);
    }
    for (int32_t i = 0; i < cache->pages.n_free; i++) {
        if (seen[cache->pages.free_stack[i]]++ != 0) {
            return cop_fail(err, COP_ERR_ARGUMENT, "page %d is free twice, or free and held",
                            cache->pages.free_stack[i]);
        }
    }
    return COP_OK;
}

enum cop_status cop_cache_check(const struct cop_cache *cache, struct cop_error *err)
{
    int32_t *seen = calloc((size_t)cache->pages.n_pages, sizeof *seen);
    if (!seen) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to check a cache");
    }
    enum cop_status status = COP_OK;
    for (int32_t i = 0; status == COP_OK && i < cache->n_sequences; i++) {
        status = check_sequence(cache, i, seen, err);
    }
    if (status == COP_OK) {
        status = check_counts(cache, seen, err);
    }
    free(seen);
    return status;
}
