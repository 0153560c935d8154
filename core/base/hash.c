/* Multiply-and-fold hashing: 16 bytes a step, each step a 64 by 64 bit product folded to 64. */
#include "core/base/hash.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static const uint64_t odd_a = 0x9E3779B97F4A7C15u;
static const uint64_t odd_b = 0xD6E8FEB86659FD93u;

static uint64_t fold(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t cop_hash_bytes(const void *bytes, size_t length, uint64_t seed)
{
    const unsigned char *at = bytes;
    uint64_t state = fold(seed ^ odd_a, (uint64_t)length ^ odd_b);
    while (length > 0) {
        uint64_t words[2] = {0, 0};
        size_t step = length < sizeof words ? length : sizeof words;
        memcpy(words, at, step);
        state = fold(words[0] ^ odd_b ^ state, words[1] ^ odd_a ^ (state >> 32));
        at += step;
        length -= step;
    }
    return fold(state ^ odd_a, odd_b);
}

uint64_t cop_hash_u64(uint64_t value, uint64_t seed)
{
    return fold(fold(value ^ odd_b, seed ^ odd_a), odd_a);
}

uint64_t cop_hash_seed(void)
{
    static _Atomic uint64_t shared; /* 0: not drawn yet */
    uint64_t seed = atomic_load(&shared);
    if (seed == 0) {
        uint64_t fresh = 0;
        if (getrandom(&fresh, sizeof fresh, GRND_NONBLOCK) != (ssize_t)sizeof fresh) {
            fresh = (uint64_t)time(NULL);
        }
        fresh |= 1;
        /* Two threads may both draw; the first to store wins, the other takes its seed. */
        if (atomic_compare_exchange_strong(&shared, &seed, fresh)) {
            seed = fresh;
        }
    }
    return seed;
}

bool cop_names_init(struct cop_names *names, size_t limit)
{
    memset(names, 0, sizeof *names);
    if (limit > SIZE_MAX / 64) {
        return false;
    }
    size_t n_slots = 16;
    while (n_slots < 2 * limit) {
        n_slots *= 2;
    }
    names->slots = malloc(n_slots * sizeof *names->slots);
    if (!names->slots) {
        return false;
    }
    for (size_t i = 0; i < n_slots; i++) {
        names->slots[i] = (struct cop_name){NULL, 0, -1};
    }
    names->n_slots = n_slots;
    names->limit = limit;
    names->seed = cop_hash_seed();
    return true;
}

void cop_names_release(struct cop_names *names)
{
    free(names->slots);
    memset(names, 0, sizeof *names);
}

/* The slot that holds the string, or the free one where it belongs. */
static struct cop_name *find_slot(const struct cop_names *names, const char *bytes,
                                  size_t length)
{
    size_t mask = names->n_slots - 1;
    size_t at = (size_t)cop_hash_bytes(bytes, length, names->seed) & mask;
    for (;;) {
        struct cop_name *slot = &names->slots[at];
        if (slot->value < 0 || (slot->length == length &&
                                (length == 0 || memcmp(slot->bytes, bytes, length) == 0))) {
            return slot;
        }
        at = (at + 1) & mask;
    }
}

int32_t cop_names_add(struct cop_names *names, const char *bytes, size_t length, int32_t value)
{
    struct cop_name *slot = find_slot(names, bytes, length);
    if (slot->value < 0) {
        *slot = (struct cop_name){bytes, (uint32_t)length, value};
        names->count++;
    }
    return slot->value;
}

int32_t cop_names_find(const struct cop_names *names, const char *bytes, size_t length)
{
    return names->n_slots == 0 ? -1 : find_slot(names, bytes, length)->value;
}
