/* Noise that draft and target share: one exponential time for every token of a vocabulary, a
 * pure function of seed, request, position and token, and races that look at few of them.
 *
 * A token of weight w finishes at its time / w. Times are independent, exponential with mean 1,
 * but made from the top: a block of 1,024 tokens has its least time, exponential with mean 1 /
 * 1024; one half of the block, by a coin, has the same least time, the other half has that plus
 * an exponential with mean 1 / 512; and so on down to single tokens. (The least of n is
 * exponential with mean 1 / n, any of them has it, and past it the others begin anew.) So a
 * race passes by every block and part whose least time is too late for the heaviest
 * token there: a few hundred looks decide a vocabulary of 100,000. */
#ifndef COP_CYCLE_NOISE_H
#define COP_CYCLE_NOISE_H

#include "core/cycle/draws/draws.h"
#include "core/cycle/draws/podium.h"

struct cop_noise {
    uint64_t seed;
    uint32_t request, position;
};

/* Everyone with positive weight runs. */
void cop_noise_race(const struct cop_noise *noise, const struct cop_row *row,
                    struct cop_podium *podium);

#endif
