/* The table of first occurrences. Hashes are seeded once per process, so that no text can be
 * written to make its n-grams collide; answers never depend on the seed. */
#include "algorithms/history/ngrams.h"

#include "core/base/hash.h"
#include <stdlib.h>
#include <string.h>

void cop_ngrams_init(struct cop_ngrams *ngrams, int32_t min, int32_t max)
{
    *ngrams = (struct cop_ngrams){.min = min, .max = max};
}

void cop_ngrams_release(struct cop_ngrams *ngrams)
{
    cop_ids_release(&ngrams->ids);
    free(ngrams->slots);
    cop_ngrams_init(ngrams, ngrams->min, ngrams->max);
}

/* Of one token more to the left than the n-gram that `hash` stands for. */
static uint64_t hash_left(uint64_t hash, cop_token token)
{
    return cop_hash_u64((uint64_t)(uint32_t)token, hash);
}

/* The slot of the n-gram that starts at `start`, or the free one where it belongs. */
static struct cop_ngram *find(const struct cop_ngrams *ngrams, uint64_t hash, int32_t start,
                              int32_t length)
{
    const cop_token *ids = ngrams->ids.items;
    size_t mask = ngrams->n_slots - 1;
    for (size_t at = (size_t)hash & mask;; at = (at + 1) & mask) {
        struct cop_ngram *slot = &ngrams->slots[at];
        if (slot->length == 0 ||
            (slot->hash == hash && slot->length == length &&
             memcmp(ids + slot->start, ids + start, (size_t)length * sizeof *ids) == 0)) {
            return slot;
        }
    }
}

static enum cop_status make_room(struct cop_ngrams *ngrams, size_t more, struct cop_error *err)
{
    size_t n_slots = ngrams->n_slots ? ngrams->n_slots : 64;
    while (n_slots < 2 * (ngrams->count + more)) {
        n_slots *= 2;
    }
    if (n_slots == ngrams->n_slots) {
        return COP_OK;
    }
    struct cop_ngrams grown = *ngrams;
    grown.slots = calloc(n_slots, sizeof *grown.slots);
    grown.n_slots = n_slots;
    if (!grown.slots) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for an index of n-grams");
    }
    for (size_t i = 0; i < ngrams->n_slots; i++) {
        const struct cop_ngram *slot = &ngrams->slots[i];
        if (slot->length > 0) {
            *find(&grown, slot->hash, slot->start, slot->length) = *slot;
        }
    }
    free(ngrams->slots);
    *ngrams = grown;
    return COP_OK;
}

enum cop_status cop_ngrams_push(struct cop_ngrams *ngrams, const cop_token *ids, int32_t n,
                                struct cop_error *err)
{
    size_t lengths = (size_t)(ngrams->max - ngrams->min) + 1;
    enum cop_status status = make_room(ngrams, (size_t)n * lengths, err);
    for (int32_t i = 0; i < n && status == COP_OK; i++) {
        status = cop_ids_push(&ngrams->ids, ids[i], err);
        if (status != COP_OK) {
            return status;
        }
        int32_t count = (int32_t)ngrams->ids.count;
        uint64_t hash = cop_hash_seed();
        for (int32_t length = 1; length <= ngrams->max && length <= count; length++) {
            int32_t start = count - length;
            hash = hash_left(hash, ngrams->ids.items[start]);
            struct cop_ngram *slot =
                length >= ngrams->min ? find(ngrams, hash, start, length) : NULL;
            if (slot && slot->length == 0) {
                *slot = (struct cop_ngram){hash, start, length};
                ngrams->count++;
            }
        }
    }
    return status;
}

int32_t cop_ngrams_first(const struct cop_ngrams *ngrams, int32_t length)
{
    int32_t count = (int32_t)ngrams->ids.count;
    if (length < ngrams->min || length > ngrams->max || length > count) {
        return -1;
    }
    uint64_t hash = cop_hash_seed();
    for (int32_t i = 1; i <= length; i++) {
        hash = hash_left(hash, ngrams->ids.items[count - i]);
    }
    return find(ngrams, hash, count - length, length)->start;
}
