/* Keys and values of many sequences in one pool of pages, with the verbs of a transaction.
 *
 *     committed positions          | speculative slots (one token tree)
 *     0 1 2 3 4 … C-1              | 0 1 2 3 4 5 …      logical slot: C + speculative index
 *     page table of the sequence:  [ 7 ][ 2 ][ 9 ]…     COP_PAGE_SLOTS slots a page
 *
 * `extend` adds speculative slots, each with its parent among them (or -1: the last committed
 * position). `commit(path)` keeps the slots of a path in order, moving what is not in place;
 * `rollback` drops them all. Pages carry reference counts: `fork` shares a prefix, and a shared
 * page is copied before it is written. Invariants (cop_cache_check; after every cycle in debug
 * builds): free + used = pages; a page's count is the number of tables that hold it; committed
 * + speculative fits the table. */
#ifndef COP_CACHE_CACHE_H
#define COP_CACHE_CACHE_H

#include "core/base/error.h"
#include "kernels/ops.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cop_cache;

struct cop_cache_usage {
    int32_t pages, used, peak; /* of the pool: all, in use now, most ever in use */
    size_t page_bytes;
    int64_t bytes_moved; /* by commits, copies before writing included */
};

/* A pool for up to n_sequences sequences (slots 0 … n_sequences - 1) of at most `context`
 * positions each. n_pages 0: enough for every slot at full context with `speculative` slots
 * above. Memory is mapped now and touched when used. */
enum cop_status cop_cache_new(struct cop_cache **out, const struct cop_ops *ops,
                              const struct cop_kv_layout *layout, int32_t context,
                              int32_t n_sequences, int32_t speculative, int32_t n_pages,
                              struct cop_error *err);
void cop_cache_free(struct cop_cache *cache); /* NULL is fine */

/* Empties a sequence and gives its pages back; also how a sequence ends. */
void cop_cache_reset(struct cop_cache *cache, int32_t sequence);

/* Adds count speculative slots; parents[i] is the speculative index of the parent, smaller than
 * the new slot's own, or -1. COP_ERR_LIMIT when a position would pass the context,
 * COP_ERR_MEMORY when the pool has no page left; nothing has changed then. */
enum cop_status cop_cache_extend(struct cop_cache *cache, int32_t sequence,
                                 const int32_t *parents, int32_t count, struct cop_error *err);

/* Keeps the slots path[0..n) (speculative indices, each the parent of the next, the first with
 * parent -1), in order, as committed positions; drops the other speculative slots. n = 0 is a
 * rollback. */
void cop_cache_commit(struct cop_cache *cache, int32_t sequence, const int32_t *path,
                      int32_t n);
void cop_cache_rollback(struct cop_cache *cache, int32_t sequence);

/* Drops the `count` newest speculative slots: takes back an extend of several sequences that
 * failed half-way. */
void cop_cache_retract(struct cop_cache *cache, int32_t sequence, int32_t count);

/* Drops committed positions from `length` on (of a fork whose beginning alone is shared);
 * speculative slots must be none. */
void cop_cache_truncate(struct cop_cache *cache, int32_t sequence, int32_t length);

/* Makes `to` (reset first) share the committed positions of `from`. COP_ERR_ARGUMENT if from
 * has speculative slots. */
enum cop_status cop_cache_fork(struct cop_cache *cache, int32_t from, int32_t to,
                               struct cop_error *err);

/* Copies the first `length` committed positions of sequence `from_sequence` into the empty
 * sequence `to`; the caches have the same layout and may be two. False, and nothing has
 * changed, without pages or memory for them. */
bool cop_cache_copy(struct cop_cache *cache, int32_t to, const struct cop_cache *from,
                    int32_t from_sequence, int32_t length);

int32_t cop_cache_committed(const struct cop_cache *cache, int32_t sequence);
int32_t cop_cache_speculative(const struct cop_cache *cache, int32_t sequence);
int32_t cop_cache_context(const struct cop_cache *cache);
int32_t cop_cache_sequences(const struct cop_cache *cache);

/* For the forward pass. Depth of a speculative slot: 0 below the last committed position. The
 * path of a slot: logical slots of its ancestors from depth 0 on and itself, written to
 * slots[0..depth]. */
int32_t cop_cache_depth(const struct cop_cache *cache, int32_t sequence, int32_t index);
void cop_cache_path(const struct cop_cache *cache, int32_t sequence, int32_t index,
                    int32_t *slots);
int32_t cop_cache_pool_slot(const struct cop_cache *cache, int32_t sequence,
                            int32_t logical_slot);
const int32_t *cop_cache_page_table(const struct cop_cache *cache, int32_t sequence);
const struct cop_kv_pool *cop_cache_pool(const struct cop_cache *cache);
const struct cop_ops *cop_cache_ops(const struct cop_cache *cache);

struct cop_cache_usage cop_cache_usage(const struct cop_cache *cache);

/* Every invariant of the essay above; COP_ERR_ARGUMENT with the first one broken. */
enum cop_status cop_cache_check(const struct cop_cache *cache, struct cop_error *err);

#endif
