/* Counting followers. Hashes are seeded once per process; answers never depend on the seed. */
#include "algorithms/history/grams.h"
#include "algorithms/history/room.h"

#include "core/base/hash.h"
#include <stdlib.h>
#include <string.h>

void cop_grams_release(struct cop_grams *grams)
{
    free(grams->grams);
    free(grams->followers);
    free(grams->gram_slots);
    free(grams->follower_slots);
    *grams = (struct cop_grams){0};
}

static uint64_t pair(int32_t a, int32_t b)
{
    return (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
}

/* The slot of an n-gram, or the free one where it belongs. */
static int32_t *gram_slot(const struct cop_grams *grams, const cop_token *tokens)
{
    uint64_t hash = cop_hash_u64(pair(tokens[0], tokens[1]), cop_hash_seed());
    hash = cop_hash_u64(pair(tokens[2], tokens[3]), hash);
    size_t mask = grams->n_gram_slots - 1;
    for (size_t at = (size_t)hash & mask;; at = (at + 1) & mask) {
        int32_t *slot = &grams->gram_slots[at];
        if (*slot < 0 ||
            memcmp(grams->grams[*slot].tokens, tokens, COP_GRAM_MOST * sizeof *tokens) == 0) {
            return slot;
        }
    }
}

static int32_t *follower_slot(const struct cop_grams *grams, int32_t gram, cop_token token)
{
    size_t mask = grams->n_follower_slots - 1;
    uint64_t hash = cop_hash_u64(pair(gram, token), cop_hash_seed());
    for (size_t at = (size_t)hash & mask;; at = (at + 1) & mask) {
        int32_t *slot = &grams->follower_slots[at];
        if (*slot < 0 ||
            (grams->followers[*slot].gram == gram && grams->followers[*slot].token == token)) {
            return slot;
        }
    }
}

/* ---- Room -------------------------------------------------------------------------------- */

static int32_t *new_slots(size_t n)
{
    int32_t *slots = malloc(n * sizeof *slots);
    if (slots) {
        memset(slots, -1, n * sizeof *slots);
    }
    return slots;
}

static bool grow_gram_slots(struct cop_grams *grams, size_t n)
{
    int32_t *slots = new_slots(n);
    if (!slots) {
        return false;
    }
    free(grams->gram_slots);
    grams->gram_slots = slots;
    grams->n_gram_slots = n;
    for (int32_t i = 0; i < grams->n_grams; i++) {
        *gram_slot(grams, grams->grams[i].tokens) = i;
    }
    return true;
}

static bool grow_follower_slots(struct cop_grams *grams, size_t n)
{
    int32_t *slots = new_slots(n);
    if (!slots) {
        return false;
    }
    free(grams->follower_slots);
    grams->follower_slots = slots;
    grams->n_follower_slots = n;
    for (int32_t i = 0; i < grams->n_followers; i++) {
        *follower_slot(grams, grams->followers[i].gram, grams->followers[i].token) = i;
    }
    return true;
}

/* At least `wanted` entries; grows by half. */
static bool grow_block(void **block, int32_t *capacity, int32_t wanted, size_t size)
{
    int32_t more = *capacity + *capacity / 2;
    more = more < 128 ? 128 : more;
    more = more < wanted ? wanted : more;
    if (wanted <= *capacity) {
        return true;
    }
    void *grown = *capacity < INT32_MAX / 2 ? realloc(*block, (size_t)more * size) : NULL;
    if (grown) {
        *block = grown;
        *capacity = more;
    }
    return grown != NULL;
}

/* For so many n-grams and followers. */
static bool make_room(struct cop_grams *grams, int32_t n_grams, int32_t n_followers)
{
    void *block = grams->grams;
    if (!grow_block(&block, &grams->gram_capacity, n_grams, sizeof *grams->grams)) {
        return false;
    }
    grams->grams = block;
    block = grams->followers;
    if (!grow_block(&block, &grams->follower_capacity, n_followers, sizeof *grams->followers)) {
        return false;
    }
    grams->followers = block;
    size_t gram_slots = cop_room_slots((size_t)n_grams, grams->n_gram_slots);
    size_t follower_slots = cop_room_slots((size_t)n_followers, grams->n_follower_slots);
    return (gram_slots == grams->n_gram_slots || grow_gram_slots(grams, gram_slots)) &&
           (follower_slots == grams->n_follower_slots ||
            grow_follower_slots(grams, follower_slots));
}

enum cop_status cop_grams_clear(struct cop_grams *grams, int32_t n, struct cop_error *err)
{
    grams->n_grams = grams->n_followers = 0;
    if (grams->n_gram_slots > 0) {
        memset(grams->gram_slots, -1, grams->n_gram_slots * sizeof *grams->gram_slots);
    }
    if (grams->n_follower_slots > 0) {
        memset(grams->follower_slots, -1,
               grams->n_follower_slots * sizeof *grams->follower_slots);
    }
    int32_t most = n < INT32_MAX / 16 ? COP_GRAM_MOST * n : INT32_MAX / 4;
    return make_room(grams, most, most)
               ? COP_OK
               : cop_fail(err, COP_ERR_MEMORY, "no memory to count n-grams");
}

/* ---- Counting ---------------------------------------------------------------------------- */

static void pad(cop_token *key, const cop_token *tokens, int32_t n)
{
    for (int32_t i = 0; i < COP_GRAM_MOST; i++) {
        key[i] = i < n ? tokens[i] : -1;
    }
}

enum cop_status cop_grams_add(struct cop_grams *grams, const cop_token *tokens, int32_t n,
                              cop_token token, int32_t count, struct cop_error *err)
{
    cop_token key[COP_GRAM_MOST];
    pad(key, tokens, n);
    if (!make_room(grams, grams->n_grams + 1, grams->n_followers + 1)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to count n-grams");
    }
    int32_t *slot = gram_slot(grams, key);
    if (*slot < 0) {
        *slot = grams->n_grams++;
        struct cop_gram *fresh = &grams->grams[*slot];
        *fresh = (struct cop_gram){.first = -1, .best = -1};
        memcpy(fresh->tokens, key, sizeof key);
    }
    struct cop_gram *gram = &grams->grams[*slot];
    int32_t number = *slot;
    slot = follower_slot(grams, number, token);
    if (*slot < 0) {
        *slot = grams->n_followers++;
        grams->followers[*slot] = (struct cop_follower){number, token, 0, gram->first};
        gram->first = *slot;
    }
    struct cop_follower *follower = &grams->followers[*slot];
    follower->count += count;
    gram->total += count;
    if (gram->best < 0 || follower->count > grams->followers[gram->best].count) {
        gram->best = *slot;
    }
    return COP_OK;
}

enum cop_status cop_grams_learn(struct cop_grams *grams, const cop_token *text, int32_t n,
                                int32_t min, int32_t max, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    for (int32_t length = min; length <= max && length < n && status == COP_OK; length++) {
        status = cop_grams_add(grams, text + n - 1 - length, length, text[n - 1], 1, err);
    }
    return status;
}

enum cop_status cop_grams_merge(struct cop_grams *into, const struct cop_grams *from,
                                struct cop_error *err)
{
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < from->n_followers && status == COP_OK; i++) {
        const struct cop_follower *follower = &from->followers[i];
        status = cop_grams_add(into, from->grams[follower->gram].tokens, COP_GRAM_MOST,
                               follower->token, follower->count, err);
    }
    return status;
}

const struct cop_gram *cop_grams_find(const struct cop_grams *grams, const cop_token *tokens,
                                      int32_t n)
{
    cop_token key[COP_GRAM_MOST];
    pad(key, tokens, n);
    int32_t at = grams->n_grams > 0 ? *gram_slot(grams, key) : -1;
    return at >= 0 ? &grams->grams[at] : NULL;
}

int32_t cop_grams_count(const struct cop_grams *grams, const struct cop_gram *gram,
                        cop_token token)
{
    int32_t at = *follower_slot(grams, (int32_t)(gram - grams->grams), token);
    return at >= 0 ? grams->followers[at].count : 0;
}
