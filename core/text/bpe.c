/* Merging with a priority queue over a linked list of symbols.
 *
 * A queue entry is (rank, place of the left symbol) in one number, so that the least number is
 * the next merge. Entries are not removed when their pair changes: each symbol remembers the
 * rank of the pair that it opens now, and an entry whose rank differs is stale. */
#include "core/text/bpe.h"

#include "core/base/hash.h"
#include <stdlib.h>
#include <string.h>

#define NO_RANK (-1)
#define NOBODY  (-1)

struct cop_bpe_symbol {
    cop_token id;
    int32_t previous, next; /* places, NOBODY at the ends */
    int32_t rank;           /* of the pair (this, next), NO_RANK: does not merge */
    cop_token result;       /* what that pair becomes */
};

/* ---- The table of merges ---------------------------------------------------------------- */

enum cop_status cop_merges_init(struct cop_merges *merges, size_t limit, struct cop_error *err)
{
    memset(merges, 0, sizeof *merges);
    size_t n_slots = 16;
    while (n_slots / 2 < limit) {
        n_slots *= 2;
    }
    merges->slots = malloc(n_slots * sizeof *merges->slots);
    if (!merges->slots) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %zu merges", limit);
    }
    for (size_t i = 0; i < n_slots; i++) {
        merges->slots[i] = (struct cop_merge_slot){0, 0, 0, NO_RANK};
    }
    merges->n_slots = n_slots;
    merges->seed = cop_hash_seed();
    return COP_OK;
}

void cop_merges_release(struct cop_merges *merges)
{
    free(merges->slots);
    memset(merges, 0, sizeof *merges);
}

static struct cop_merge_slot *find_slot(const struct cop_merges *merges, cop_token left,
                                        cop_token right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t mask = merges->n_slots - 1;
    size_t at = (size_t)cop_hash_u64(pair, merges->seed) & mask;
    for (;;) {
        struct cop_merge_slot *slot = &merges->slots[at];
        if (slot->rank == NO_RANK || (slot->left == left && slot->right == right)) {
            return slot;
        }
        at = (at + 1) & mask;
    }
}

int32_t cop_merges_add_ranked(struct cop_merges *merges, cop_token left, cop_token right,
                              cop_token result, int32_t rank)
{
    struct cop_merge_slot *slot = find_slot(merges, left, right);
    if (slot->rank != NO_RANK) {
        return slot->rank;
    }
    *slot = (struct cop_merge_slot){left, right, result, rank};
    merges->count++;
    return -1;
}

int32_t cop_merges_add(struct cop_merges *merges, cop_token left, cop_token right,
                       cop_token result)
{
    return cop_merges_add_ranked(merges, left, right, result, merges->count);
}

int32_t cop_merges_rank(const struct cop_merges *merges, cop_token left, cop_token right,
                        cop_token *result)
{
    const struct cop_merge_slot *slot =
        merges->n_slots == 0 ? NULL : find_slot(merges, left, right);
    if (!slot || slot->rank == NO_RANK) {
        return NO_RANK;
    }
    if (result) {
        *result = slot->result;
    }
    return slot->rank;
}

/* ---- The queue: a binary heap, the least entry first ------------------------------------- */

static uint64_t entry(int32_t rank, int32_t place)
{
    return (uint64_t)(uint32_t)rank << 32 | (uint32_t)place;
}

static void push(struct cop_bpe_work *work, uint64_t value)
{
    size_t at = work->n_queued++;
    while (at > 0 && work->queue[(at - 1) / 2] > value) {
        work->queue[at] = work->queue[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    work->queue[at] = value;
}

static uint64_t pop(struct cop_bpe_work *work)
{
    uint64_t least = work->queue[0];
    uint64_t last = work->queue[--work->n_queued];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= work->n_queued) {
            break;
        }
        if (child + 1 < work->n_queued && work->queue[child + 1] < work->queue[child]) {
            child++;
        }
        if (work->queue[child] >= last) {
            break;
        }
        work->queue[at] = work->queue[child];
        at = child;
    }
    work->queue[at] = last;
    return least;
}

/* ---- Merging ---------------------------------------------------------------------------- */

void cop_bpe_work_release(struct cop_bpe_work *work)
{
    free(work->symbols);
    free(work->queue);
    memset(work, 0, sizeof *work);
}

/* Each of n symbols is queued once at the start, and each of at most n - 1 merges queues two
 * pairs: 3 n entries suffice. */
static bool reserve(struct cop_bpe_work *work, size_t count)
{
    if (count <= work->capacity) {
        return true;
    }
    size_t capacity = count < 64 ? 64 : count + count / 2;
    free(work->symbols);
    free(work->queue);
    work->symbols = malloc(capacity * sizeof *work->symbols);
    work->queue = malloc(3 * capacity * sizeof *work->queue);
    work->capacity = work->symbols && work->queue ? capacity : 0;
    return work->capacity > 0;
}

/* Ranks the pair that a symbol opens now, and queues it. */
static void rank_pair(const struct cop_merges *merges, struct cop_bpe_work *work, int32_t place)
{
    struct cop_bpe_symbol *symbol = &work->symbols[place];
    symbol->rank = NO_RANK;
    if (symbol->next != NOBODY) {
        symbol->rank = cop_merges_rank(merges, symbol->id, work->symbols[symbol->next].id,
                                       &symbol->result);
    }
    if (symbol->rank != NO_RANK) {
        push(work, entry(symbol->rank, place));
    }
}

/* The symbol at `place` takes in its right neighbour. */
static void merge_pair(const struct cop_merges *merges, struct cop_bpe_work *work,
                       int32_t place)
{
    struct cop_bpe_symbol *symbol = &work->symbols[place];
    struct cop_bpe_symbol *eaten = &work->symbols[symbol->next];
    symbol->id = symbol->result;
    symbol->next = eaten->next;
    eaten->rank = NO_RANK;
    if (symbol->next != NOBODY) {
        work->symbols[symbol->next].previous = place;
    }
    rank_pair(merges, work, place);
    if (symbol->previous != NOBODY) {
        rank_pair(merges, work, symbol->previous);
    }
}

enum cop_status cop_bpe_merge(const struct cop_merges *merges, cop_token *ids, size_t *count,
                              struct cop_bpe_work *work, struct cop_error *err)
{
    if (*count < 2) {
        return COP_OK;
    }
    if (*count > INT32_MAX / 4 || !reserve(work, *count)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to merge a word of %zu bytes", *count);
    }
    int32_t n_symbols = (int32_t)*count;
    for (int32_t i = 0; i < n_symbols; i++) {
        work->symbols[i].id = ids[i];
        work->symbols[i].previous = i - 1;
        work->symbols[i].next = i + 1 < n_symbols ? i + 1 : NOBODY;
    }
    work->n_queued = 0;
    for (int32_t i = 0; i < n_symbols; i++) {
        rank_pair(merges, work, i);
    }
    while (work->n_queued > 0) {
        uint64_t next = pop(work);
        int32_t place = (int32_t)(uint32_t)next;
        if (work->symbols[place].rank == (int32_t)(next >> 32)) {
            merge_pair(merges, work, place);
        }
    }
    *count = 0;
    for (int32_t i = 0; i != NOBODY; i = work->symbols[i].next) {
        ids[(*count)++] = work->symbols[i].id;
    }
    return COP_OK;
}
