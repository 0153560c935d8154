/* Philox4x32: two 32-bit multiplications a round, key bumped by two Weyl constants. */
#include "core/base/philox.h"

#include <string.h>

void cop_philox(const uint32_t counter[4], const uint32_t key[2], int rounds, uint32_t out[4])
{
    uint32_t a = counter[0], b = counter[1], c = counter[2], d = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < rounds; round++) {
        uint64_t left = (uint64_t)a * 0xd2511f53u;
        uint64_t right = (uint64_t)c * 0xcd9e8d57u;
        a = (uint32_t)(right >> 32) ^ b ^ k0;
        c = (uint32_t)(left >> 32) ^ d ^ k1;
        b = (uint32_t)right;
        d = (uint32_t)left;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}

/* One round of all blocks; the loop of fixed length becomes vector instructions. */
static void round_run(uint32_t words[4][COP_PHILOX_RUN], uint32_t k0, uint32_t k1)
{
    uint32_t *a = words[0], *b = words[1], *c = words[2], *d = words[3];
    for (int i = 0; i < COP_PHILOX_RUN; i++) {
        uint64_t left = (uint64_t)a[i] * 0xd2511f53u;
        uint64_t right = (uint64_t)c[i] * 0xcd9e8d57u;
        a[i] = (uint32_t)(right >> 32) ^ b[i] ^ k0;
        c[i] = (uint32_t)(left >> 32) ^ d[i] ^ k1;
        b[i] = (uint32_t)right;
        d[i] = (uint32_t)left;
    }
}

void cop_philox_run(const uint32_t counter[4], const uint32_t key[2],
                    uint32_t out[4][COP_PHILOX_RUN])
{
    uint32_t words[4][COP_PHILOX_RUN];
    for (uint32_t i = 0; i < COP_PHILOX_RUN; i++) {
        words[0][i] = counter[0];
        words[1][i] = counter[1] + i;
        words[2][i] = counter[2];
        words[3][i] = counter[3];
    }
    for (uint32_t round = 0; round < 10; round++) {
        round_run(words, key[0] + round * 0x9e3779b9u, key[1] + round * 0xbb67ae85u);
    }
    memcpy(out, words, sizeof words);
}

double cop_uniform(uint32_t high, uint32_t low)
{
    uint64_t bits = (uint64_t)high << 32 | low;
    return (double)(bits >> 11) * 0x1p-53;
}
