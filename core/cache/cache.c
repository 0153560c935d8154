/* The verbs of the cache: each plans its pages first, then changes everything or nothing. */
#include "core/cache/state.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- Birth and death --------------------------------------------------------------------- */

/* Mapped, not allocated: the kernel hands out zeroed memory on the first touch of a page. In
 * huge ones, if it follows a wish: attention reads a few lines of every cache page, and looking
 * up where each lies would cost as much as reading them. */
static bool map_pool(struct cop_cache *cache)
{
    size_t n_pages = (size_t)cache->pool.n_pages;
    if (cache->page_bytes == 0 || n_pages > (SIZE_MAX >> 1) / cache->page_bytes) {
        return false;
    }
    void *data = mmap(NULL, n_pages * cache->page_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
        return false;
    }
    madvise(data, n_pages * cache->page_bytes, MADV_HUGEPAGE);
    cache->pool.data = data;
    return true;
}

static enum cop_status check_sizes(int32_t context, int32_t n_sequences, int32_t speculative,
                                   int32_t n_pages, int64_t *pages, struct cop_error *err)
{
    if (context < 1 || n_sequences < 1 || speculative < 0 || n_pages < 0) {
        return cop_fail(
            err, COP_ERR_ARGUMENT,
            "a cache needs context >= 1, sequences >= 1, speculative >= 0 and pages "
            ">= 0 (got %d, %d, %d, %d)",
            context, n_sequences, speculative, n_pages);
    }
    *pages = n_pages ? n_pages
                     : (int64_t)n_sequences * cop_pages_for((int64_t)context + speculative);
    if (*pages > INT32_MAX / COP_PAGE_SLOTS) {
        return cop_fail(err, COP_ERR_LIMIT,
                        "%lld cache pages are more than the limit of %d; lower `context`, the "
                        "batch or `pages`",
                        (long long)*pages, INT32_MAX / COP_PAGE_SLOTS);
    }
    return COP_OK;
}

enum cop_status cop_cache_new(struct cop_cache **out, const struct cop_ops *ops,
                              const struct cop_kv_layout *layout, int32_t context,
                              int32_t n_sequences, int32_t speculative, int32_t n_pages,
                              struct cop_error *err)
{
    *out = NULL;
    int64_t pages = 0;
    enum cop_status status =
        check_sizes(context, n_sequences, speculative, n_pages, &pages, err);
    if (status != COP_OK) {
        return status;
    }
    struct cop_cache *cache = calloc(1, sizeof *cache);
    if (!cache) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a cache");
    }
    cache->ops = ops;
    cache->context = context;
    cache->n_sequences = n_sequences;
    cache->pool = (struct cop_kv_pool){.layout = *layout, .n_pages = (int32_t)pages};
    cache->page_bytes = ops->kv_page_bytes(layout);
    cache->slot_bytes = ops->kv_slot_bytes(layout);
    cache->sequences = calloc((size_t)n_sequences, sizeof *cache->sequences);
    if (!cache->sequences || !cop_pages_init(&cache->pages, (int32_t)pages) ||
        !map_pool(cache)) {
        double megabytes = (double)pages * (double)cache->page_bytes / 1e6;
        cop_cache_free(cache);
        return cop_fail(err, COP_ERR_MEMORY,
                        "no memory for a cache of %lld pages (%.0f MB); lower `context`, the "
                        "batch or `pages`",
                        (long long)pages, megabytes);
    }
    *out = cache;
    return COP_OK;
}

void cop_cache_free(struct cop_cache *cache)
{
    if (!cache) {
        return;
    }
    for (int32_t i = 0; cache->sequences && i < cache->n_sequences; i++) {
        free(cache->sequences[i].table);
        free(cache->sequences[i].parents);
        free(cache->sequences[i].depths);
    }
    if (cache->pool.data) {
        munmap(cache->pool.data, (size_t)cache->pool.n_pages * cache->page_bytes);
    }
    cop_pages_release(&cache->pages);
    free(cache->sequences);
    free(cache);
}

/* ---- Growing ----------------------------------------------------------------------------- */

static bool grow(int32_t **items, int32_t capacity)
{
    int32_t *grown = realloc(*items, (size_t)capacity * sizeof **items);
    if (grown) {
        *items = grown;
    }
    return grown != NULL;
}

/* Room for so many table entries and tree slots; the contents do not change. */
static bool reserve(struct cop_cache_slots *seq, int32_t n_table, int32_t n_tree)
{
    if (n_table > seq->table_capacity) {
        int32_t capacity = n_table + n_table / 2;
        if (!grow(&seq->table, capacity)) {
            return false;
        }
        seq->table_capacity = capacity;
    }
    if (n_tree > seq->tree_capacity) {
        int32_t capacity = n_tree + n_tree / 2;
        if (!grow(&seq->parents, capacity) || !grow(&seq->depths, capacity)) {
            return false;
        }
        seq->tree_capacity = capacity;
    }
    return true;
}

/* Writes parents and depths above the current slots (not yet counted) and checks them. */
static enum cop_status plan_tree(const struct cop_cache *cache, struct cop_cache_slots *seq,
                                 const int32_t *parents, int32_t count, struct cop_error *err)
{
    for (int32_t i = 0; i < count; i++) {
        int32_t index = seq->speculative + i;
        int32_t parent = parents[i];
        if (parent < -1 || parent >= index) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "speculative slot %d has parent %d; a parent comes before its "
                            "child (-1: the last committed token)",
                            index, parent);
        }
        int32_t depth = parent < 0 ? 0 : seq->depths[parent] + 1;
        if (seq->committed + depth >= cache->context) {
            return cop_fail(err, COP_ERR_LIMIT,
                            "position %d does not fit the context of %d tokens; raise the "
                            "model's `context`",
                            seq->committed + depth, cache->context);
        }
        seq->parents[index] = parent;
        seq->depths[index] = depth;
    }
    return COP_OK;
}

/* Gives the sequence its own copy of a page that others hold too. */
static void unshare(struct cop_cache *cache, struct cop_cache_slots *seq, int32_t logical)
{
    int32_t shared = seq->table[logical];
    int32_t own = cop_pages_take(&cache->pages);
    int32_t n_slots = seq->committed + seq->speculative - logical * COP_PAGE_SLOTS;
    for (int32_t i = 0; i < n_slots; i++) {
        cache->ops->kv_copy(&cache->pool, shared * COP_PAGE_SLOTS + i,
                            own * COP_PAGE_SLOTS + i);
    }
    cache->bytes_moved += (int64_t)n_slots * (int64_t)cache->slot_bytes;
    seq->table[logical] = own;
    cop_pages_drop(&cache->pages, shared);
}

enum cop_status cop_cache_extend(struct cop_cache *cache, int32_t sequence,
                                 const int32_t *parents, int32_t count, struct cop_error *err)
{
    if (sequence < 0 || sequence >= cache->n_sequences || count < 0) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cannot add %d slots to sequence %d of a cache with %d sequences",
                        count, sequence, cache->n_sequences);
    }
    struct cop_cache_slots *seq = cop_cache_slots_of(cache, sequence);
    int32_t first = seq->committed + seq->speculative;
    int64_t end = (int64_t)first + count;
    /* The context first: where neither has room, pages would not help. */
    if (end > INT32_MAX / 2 || !reserve(seq, 0, seq->speculative + count)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a tree of %d slots", count);
    }
    enum cop_status status = plan_tree(cache, seq, parents, count, err);
    if (status != COP_OK) {
        return status;
    }
    if (end > (int64_t)cache->pool.n_pages * COP_PAGE_SLOTS) {
        return cop_fail(err, COP_ERR_MEMORY,
                        "%lld tokens do not fit the cache's pool of %d pages (%d tokens each); "
                        "raise `pages`",
                        (long long)end, cache->pool.n_pages, COP_PAGE_SLOTS);
    }
    int32_t n_table = cop_pages_for(end);
    if (!reserve(seq, n_table, 0)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a page table");
    }
    int32_t last = first / COP_PAGE_SLOTS;
    bool copies =
        count > 0 && last < seq->n_table && cache->pages.holders[seq->table[last]] > 1;
    int32_t needed = n_table - seq->n_table + (copies ? 1 : 0);
    if (needed > cache->pages.n_free) {
        return cop_fail(err, COP_ERR_MEMORY,
                        "the cache's pool of %d pages has %d left where %d are needed; raise "
                        "`pages`, or lower the batch or the tree",
                        cache->pool.n_pages, cache->pages.n_free, needed);
    }
    if (copies) {
        unshare(cache, seq, last);
    }
    while (seq->n_table < n_table) {
        seq->table[seq->n_table++] = cop_pages_take(&cache->pages);
    }
    seq->speculative += count;
    return COP_OK;
}

/* ---- Keeping and dropping ---------------------------------------------------------------- */

/* Gives back the pages above the slots that are left. Highest first, so that the next extend
 * takes the same pages again. */
static void trim(struct cop_cache *cache, struct cop_cache_slots *seq)
{
    int32_t n_table = cop_pages_for((int64_t)seq->committed + seq->speculative);
    while (seq->n_table > n_table) {
        cop_pages_drop(&cache->pages, seq->table[--seq->n_table]);
    }
}

void cop_cache_reset(struct cop_cache *cache, int32_t sequence)
{
    struct cop_cache_slots *seq = cop_cache_slots_of(cache, sequence);
    seq->committed = 0;
    seq->speculative = 0;
    trim(cache, seq);
}

/* A path rises (a parent comes before its child), so target i never passes source path[i], and
 * moving in order overwrites no slot that is still to be read. */
void cop_cache_commit(struct cop_cache *cache, int32_t sequence, const int32_t *path, int32_t n)
{
    struct cop_cache_slots *seq = cop_cache_slots_of(cache, sequence);
    for (int32_t i = 0; i < n; i++) {
        assert(path[i] >= i && path[i] < seq->speculative);
        assert(seq->parents[path[i]] == (i ? path[i - 1] : -1));
        if (path[i] == i) {
            continue;
        }
        cache->ops->kv_copy(&cache->pool,
                            cop_cache_pool_slot(cache, sequence, seq->committed + path[i]),
                            cop_cache_pool_slot(cache, sequence, seq->committed + i));
        cache->bytes_moved += (int64_t)cache->slot_bytes;
    }
    seq->committed += n;
    seq->speculative = 0;
    trim(cache, seq);
}

void cop_cache_rollback(struct cop_cache *cache, int32_t sequence)
{
    cop_cache_commit(cache, sequence, NULL, 0);
}

void cop_cache_retract(struct cop_cache *cache, int32_t sequence, int32_t count)
{
    struct cop_cache_slots *seq = cop_cache_slots_of(cache, sequence);
    assert(count >= 0 && count <= seq->speculative);
    seq->speculative -= count;
    trim(cache, seq);
}

void cop_cache_truncate(struct cop_cache *cache, int32_t sequence, int32_t length)
{
    struct cop_cache_slots *seq = cop_cache_slots_of(cache, sequence);
    assert(seq->speculative == 0 && length >= 0 && length <= seq->committed);
    seq->committed = length;
    trim(cache, seq);
}

enum cop_status cop_cache_fork(struct cop_cache *cache, int32_t from, int32_t to,
                               struct cop_error *err)
{
    if (from < 0 || to < 0 || from >= cache->n_sequences || to >= cache->n_sequences ||
        from == to) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cannot fork sequence %d into %d in a cache with %d sequences", from,
                        to, cache->n_sequences);
    }
    struct cop_cache_slots *source = cop_cache_slots_of(cache, from);
    struct cop_cache_slots *copy = cop_cache_slots_of(cache, to);
    if (source->speculative > 0) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cannot fork sequence %d: it has %d speculative slots; commit or roll "
                        "back first",
                        from, source->speculative);
    }
    if (!reserve(copy, source->n_table, 0)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a page table");
    }
    cop_cache_reset(cache, to);
    for (int32_t i = 0; i < source->n_table; i++) {
        cop_pages_hold(&cache->pages, source->table[i]);
        copy->table[i] = source->table[i];
    }
    copy->n_table = source->n_table;
    copy->committed = source->committed;
    return COP_OK;
}

/* Whole pages: what lies behind `length` in the last one is written before it is read. */
bool cop_cache_copy(struct cop_cache *cache, int32_t to, const struct cop_cache *from,
                    int32_t from_sequence, int32_t length)
{
    const struct cop_cache_slots *source = cop_cache_slots_of(from, from_sequence);
    struct cop_cache_slots *copy = cop_cache_slots_of(cache, to);
    int32_t n_table = cop_pages_for(length);
    assert(length >= 0 && length <= source->committed && copy->n_table == 0);
    assert(cache->page_bytes == from->page_bytes);
    if (length > cache->context || n_table > cache->pages.n_free ||
        !reserve(copy, n_table, 0)) {
        return false;
    }
    for (int32_t i = 0; i < n_table; i++) {
        copy->table[i] = cop_pages_take(&cache->pages);
        memcpy((uint8_t *)cache->pool.data + (size_t)copy->table[i] * cache->page_bytes,
               (const uint8_t *)from->pool.data + (size_t)source->table[i] * from->page_bytes,
               cache->page_bytes);
    }
    copy->n_table = n_table;
    copy->committed = length;
    return true;
}

/* ---- Looking ----------------------------------------------------------------------------- */

int32_t cop_cache_committed(const struct cop_cache *cache, int32_t sequence)
{
    return cop_cache_slots_of(cache, sequence)->committed;
}

int32_t cop_cache_speculative(const struct cop_cache *cache, int32_t sequence)
{
    return cop_cache_slots_of(cache, sequence)->speculative;
}

int32_t cop_cache_context(const struct cop_cache *cache)
{
    return cache->context;
}

int32_t cop_cache_sequences(const struct cop_cache *cache)
{
    return cache->n_sequences;
}

int32_t cop_cache_depth(const struct cop_cache *cache, int32_t sequence, int32_t index)
{
    const struct cop_cache_slots *seq = cop_cache_slots_of(cache, sequence);
    assert(index >= 0 && index < seq->speculative);
    return seq->depths[index];
}

void cop_cache_path(const struct cop_cache *cache, int32_t sequence, int32_t index,
                    int32_t *slots)
{
    const struct cop_cache_slots *seq = cop_cache_slots_of(cache, sequence);
    assert(index >= 0 && index < seq->speculative);
    for (int32_t node = index; node >= 0; node = seq->parents[node]) {
        slots[seq->depths[node]] = seq->committed + node;
    }
}

int32_t cop_cache_pool_slot(const struct cop_cache *cache, int32_t sequence,
                            int32_t logical_slot)
{
    const struct cop_cache_slots *seq = cop_cache_slots_of(cache, sequence);
    assert(logical_slot >= 0 && logical_slot < seq->committed + seq->speculative);
    return seq->table[logical_slot / COP_PAGE_SLOTS] * COP_PAGE_SLOTS +
           logical_slot % COP_PAGE_SLOTS;
}

const int32_t *cop_cache_page_table(const struct cop_cache *cache, int32_t sequence)
{
    return cop_cache_slots_of(cache, sequence)->table;
}

const struct cop_kv_pool *cop_cache_pool(const struct cop_cache *cache)
{
    return &cache->pool;
}

const struct cop_ops *cop_cache_ops(const struct cop_cache *cache)
{
    return cache->ops;
}

struct cop_cache_usage cop_cache_usage(const struct cop_cache *cache)
{
    return (struct cop_cache_usage){.pages = cache->pages.n_pages,
                                    .used = cache->pages.n_pages - cache->pages.n_free,
                                    .peak = cache->pages.peak,
                                    .page_bytes = cache->page_bytes,
                                    .bytes_moved = cache->bytes_moved};
}
