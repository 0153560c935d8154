/* The runners of a race that lead so far. Private to the races of coins. */
#ifndef COP_CYCLE_PODIUM_H
#define COP_CYCLE_PODIUM_H

#include "core/text/tokenizer.h"
#include <math.h>
#include <stdint.h>

struct cop_podium {
    int32_t n, k;  /* places taken, places */
    double *times; /* [k], first to last */
    cop_token *ids;
};

/* The time that a runner must be under to get a place. */
static inline double cop_podium_limit(const struct cop_podium *podium)
{
    return podium->n < podium->k ? HUGE_VAL : podium->times[podium->k - 1];
}

static inline void cop_podium_enter(struct cop_podium *podium, cop_token id, double time)
{
    int32_t place = podium->n;
    while (place > 0 && time < podium->times[place - 1]) { /* equal times: who came first */
        place--;
    }
    if (place >= podium->k) {
        return;
    }
    int32_t last = podium->n < podium->k ? podium->n++ : podium->k - 1;
    for (int32_t i = last; i > place; i--) {
        podium->times[i] = podium->times[i - 1];
        podium->ids[i] = podium->ids[i - 1];
    }
    podium->times[place] = time;
    podium->ids[place] = id;
}

#endif
