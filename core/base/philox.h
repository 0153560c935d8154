/* Philox4x32-10 (Salmon et al., SC 2011; Random123): a counter-based generator. The same
 * counter and key give the same four words on every machine, so a random number depends on what
 * it is for, not on when it is drawn.
 *
 *     counter {0,0,0,0}, key {0,0}  ->  6627e8d5 e169c58d bc57ac4c 9b00dbd8
 */
#ifndef COP_BASE_PHILOX_H
#define COP_BASE_PHILOX_H

#include <stdint.h>

/* out[0..4) from counter[0..4) and key[0..2); rounds is 10 everywhere but in the known-answer
 * tests. */
void cop_philox(const uint32_t counter[4], const uint32_t key[2], int rounds, uint32_t out[4]);

/* Four counters at once, 10 rounds, in little more time than one: a round waits for the one
 * before. out[i] belongs to counters[i]. */
void cop_philox_four(uint32_t counters[4][4], const uint32_t key[2], uint32_t out[4][4]);

/* A uniform in [0, 1) from two words, 53 bits: ((high << 32 | low) >> 11) * 2^-53. */
static inline double cop_uniform(uint32_t high, uint32_t low)
{
    uint64_t bits = (uint64_t)high << 32 | low;
    return (double)(bits >> 11) * 0x1p-53;
}

#endif
