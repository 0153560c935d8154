#include "core/base/mersenne.h"

#include <stdbool.h>
#include <stddef.h>

#define N COP_MERSENNE_WORDS
#define M 397 /* the word that a word is mixed with, ahead of it */

static void start(uint32_t *words, uint32_t seed)
{
    words[0] = seed;
    for (uint32_t i = 1; i < N; i++) {
        words[i] = 1812433253u * (words[i - 1] ^ words[i - 1] >> 30) + i;
    }
}

/* Python seeds by an array, here of the one word. */
void cop_mersenne_seed(struct cop_mersenne *source, uint32_t seed)
{
    uint32_t *w = source->words, i = 1;
    start(w, 19650218u);
    for (int round = 0; round < 2 * N - 1; round++) {
        uint32_t mixed = w[i - 1] ^ w[i - 1] >> 30;
        w[i] = round < N ? (w[i] ^ mixed * 1664525u) + seed : (w[i] ^ mixed * 1566083941u) - i;
        if (++i == N) {
            w[0] = w[N - 1];
            i = 1;
        }
    }
    w[0] = 0x80000000u;
    source->at = N;
}

static void refill(uint32_t *w)
{
    for (int i = 0; i < N; i++) {
        uint32_t y = (w[i] & 0x80000000u) | (w[(i + 1) % N] & 0x7fffffffu);
        w[i] = w[(i + M) % N] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
}

static uint32_t next(struct cop_mersenne *source)
{
    if (source->at >= N) {
        refill(source->words);
        source->at = 0;
    }
    uint32_t y = source->words[source->at++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

double cop_mersenne_uniform(struct cop_mersenne *source)
{
    uint32_t high = next(source) >> 5, low = next(source) >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
}

/* random.randrange(n), n >= 1 */
static uint32_t below(struct cop_mersenne *source, uint32_t n)
{
    int bits = 0;
    while (bits < 32 && n >> bits) {
        bits++;
    }
    for (;;) {
        uint32_t drawn = next(source) >> (32 - bits);
        if (drawn < n) {
            return drawn;
        }
    }
}

/* Below this n a pool is drawn from; above it numbers are drawn again when they were drawn
 * already. */
static uint64_t pool_limit(uint32_t count)
{
    uint64_t limit = 21, power = 1;
    if (count > 5) {
        while (power < 3 * (uint64_t)count) {
            power *= 4;
        }
        limit += power;
    }
    return limit;
}

static bool is_drawn(const uint32_t *out, uint32_t count, uint32_t value)
{
    while (count > 0 && out[count - 1] != value) {
        count--;
    }
    return count > 0;
}

void cop_mersenne_sample(struct cop_mersenne *source, uint32_t n, uint32_t count, uint32_t *out,
                         uint32_t *pool)
{
    if (n > pool_limit(count)) {
        for (uint32_t i = 0; i < count; i++) {
            do {
                out[i] = below(source, n);
            } while (is_drawn(out, i, out[i]));
        }
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        pool[i] = i;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t drawn = below(source, n - i);
        out[i] = pool[drawn];
        pool[drawn] = pool[n - i - 1];
    }
}
