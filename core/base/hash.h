/* A 64-bit hash of bytes, and a table from byte strings to numbers made with it.
 *
 * The hash is a fixed function of bytes and seed, so that it can serve as a fingerprint; it is
 * not a cryptographic one. Tables draw their seed once per process, so that a file cannot be
 * written to make all its names collide. What a table answers never depends on the seed. */
#ifndef COP_BASE_HASH_H
#define COP_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t cop_hash_bytes(const void *bytes, size_t length, uint64_t seed);
uint64_t cop_hash_u64(uint64_t value, uint64_t seed);
uint64_t cop_hash_seed(void); /* the seed of this process */

/* Byte strings, borrowed, to numbers >= 0. Open addressing, at most half full. Set up for a
 * number of entries; release is idempotent and a zeroed table is empty. */
struct cop_names {
    struct cop_name *slots;
    size_t n_slots; /* a power of two, or 0 */
    size_t count, limit;
    uint64_t seed;
};
struct cop_name {
    const char *bytes;
    uint32_t length;
    int32_t value; /* -1: the slot is free */
};

bool cop_names_init(struct cop_names *names, size_t limit); /* false: no memory */
void cop_names_release(struct cop_names *names);

/* Enters a string unless it is there; returns the number that it has now. At most `limit`
 * strings, each shorter than 4 GiB. */
int32_t cop_names_add(struct cop_names *names, const char *bytes, size_t length, int32_t value);
int32_t cop_names_find(const struct cop_names *names, const char *bytes, size_t length);

#endif
