/* Coins: the answers of a run. Philox4x32-10 with key = seed and counter = (node key, purpose +
 * index, cycle, request). */
#ifndef COP_CYCLE_COINS_H
#define COP_CYCLE_COINS_H

#include "core/cycle/draws/draws.h"

#define COP_COINS_ASKED                                                                        \
    64 /* first size of the list of questions of one cycle (debug builds look for repeats) */

struct cop_coins {
    uint64_t seed;
    uint32_t request, cycle;
    struct cop_error *error; /* where a wrong question is reported */
    uint64_t *asked;         /* debug builds: (purpose, key) of this cycle */
    int32_t n_asked, asked_capacity;
    struct cop_urn *urn; /* of the last race, whose first n are out of it: it may go on */
    struct {
        uint32_t purpose, key;
        int32_t n;
        cop_token last;
    } race;
};
void cop_coins_init(struct cop_coins *coins, uint64_t seed, uint32_t request,
                    struct cop_error *error);
void cop_coins_cycle(struct cop_coins *coins,
                     uint32_t cycle); /* a new cycle: nothing asked yet */
void cop_coins_release(struct cop_coins *coins);
struct cop_draws cop_coins_draws(struct cop_coins *coins);

/* The uniform behind one question, for tests and device kernels. */
double cop_coins_uniform(uint64_t seed, uint32_t request, uint32_t cycle, uint32_t purpose,
                         uint32_t key, uint32_t index);

#endif
