/* Pseudo-random numbers for tests: a small generator with its state in the caller's hands. */
#ifndef COP_TEST_NUMBERS_H
#define COP_TEST_NUMBERS_H

#include <stdint.h>

/* Uniform in [0, 1), 32 bits. */
static inline double test_uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t word = (*state >> 22 ^ *state) >> (22 + (*state >> 61));
    return (double)(uint32_t)word * 0x1p-32;
}

#endif
