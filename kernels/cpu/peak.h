/* What the machine can do at this level, measured: byte products from registers, reads (private
 * to level.c). */
#ifndef COP_CPU_PEAK_H
#define COP_CPU_PEAK_H

#include "kernels/cpu/vec.h"

static int64_t int8_peak(int64_t n, int32_t *sink)
{
    enum { CHAINS = 8, QUADS = 8 };
    static const int8_t x[CHAINS][4 * QUADS] = {{1}};
    const int8_t *from = x[0];
    vi codes[QUADS], sums[CHAINS];
    for (int j = 0; j < QUADS; j++) {
        codes[j] = vi_all(0x01020304 * (j + 1)) & 0x0f0f0f0f;
    }
    memset(sums, 0, sizeof sums);
    for (int64_t i = 0; i < n; i++) {
        __asm__("" : "+r"(from)); /* hides that x is constant */
        dot_quads(CHAINS, sums, codes, QUADS, from, sizeof x[0], 4);
    }
    UNROLL
    for (int c = 0; c < CHAINS; c++) {
        *sink += sums[c][0];
    }
    return n * CHAINS * QUADS * 4 * LANES;
}

static uint64_t read_bytes(const void *from, size_t bytes)
{
    const uint8_t *at = from;
    vi sums[4];
    memset(sums, 0, sizeof sums);
    for (const uint8_t *end = at + bytes; at < end; at += 4 * sizeof(vi)) {
        UNROLL
        for (size_t i = 0; i < 4; i++) {
            sums[i] ^= vi_load(at + i * sizeof(vi));
        }
    }
    vi all = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
    uint64_t sum = 0;
    for (int lane = 0; lane < LANES; lane++) {
        sum += (uint32_t)all[lane];
    }
    return sum;
}

#endif
