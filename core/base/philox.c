/* Philox4x32: two 32-bit multiplications a round, key bumped by two Weyl constants. */
#include "core/base/philox.h"

#include <string.h>

static inline void turn(uint32_t w[4], uint32_t k0, uint32_t k1)
{
    uint64_t left = (uint64_t)w[0] * 0xd2511f53u;
    uint64_t right = (uint64_t)w[2] * 0xcd9e8d57u;
    w[0] = (uint32_t)(right >> 32) ^ w[1] ^ k0;
    w[2] = (uint32_t)(left >> 32) ^ w[3] ^ k1;
    w[1] = (uint32_t)right;
    w[3] = (uint32_t)left;
}

void cop_philox(const uint32_t counter[4], const uint32_t key[2], int rounds, uint32_t out[4])
{
    uint32_t w[4] = {counter[0], counter[1], counter[2], counter[3]};
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < rounds; round++) {
        turn(w, k0, k1);
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    memcpy(out, w, sizeof w);
}

void cop_philox_four(uint32_t counters[4][4], const uint32_t key[2], uint32_t out[4][4])
{
    uint32_t a[4], b[4], c[4], d[4];
    uint32_t k0 = key[0], k1 = key[1];
    memcpy(a, counters[0], sizeof a);
    memcpy(b, counters[1], sizeof b);
    memcpy(c, counters[2], sizeof c);
    memcpy(d, counters[3], sizeof d);
    for (int round = 0; round < 10; round++) {
        turn(a, k0, k1);
        turn(b, k0, k1);
        turn(c, k0, k1);
        turn(d, k0, k1);
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    memcpy(out[0], a, sizeof a);
    memcpy(out[1], b, sizeof b);
    memcpy(out[2], c, sizeof c);
    memcpy(out[3], d, sizeof d);
}
