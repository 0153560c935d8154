/* Philox4x32: two 32-bit multiplications a round, key bumped by two Weyl constants. */
#include "core/base/philox.h"

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

double cop_uniform(uint32_t high, uint32_t low)
{
    uint64_t bits = (uint64_t)high << 32 | low;
    return (double)(bits >> 11) * 0x1p-53;
}
