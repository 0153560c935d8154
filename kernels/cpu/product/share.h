/* Items shared out among the ranks of a run, a stretch each, so that neighbours in memory are
 * worked on in order by one thread; who is done takes from the end of another's stretch. So a
 * thread that is slow, or kept from its processor, does not hold up the rest.
 *
 * Who takes an item must not matter to its result. */
#ifndef COP_CPU_SHARE_H
#define COP_CPU_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cop_share {
    _Alignas(64) _Atomic uint64_t left; /* [first, end): first low, end high */
};

/* Before a run: rank's items are [first, end). */
void cop_share_deal(struct cop_share *share, int32_t first, int32_t end);

/* The next items for `rank`: about half of what is left of a stretch, at least `least` and at
 * most `most` (1 <= least <= most) where there are as many. false: no items are left. */
bool cop_share_take(struct cop_share *shares, int32_t rank, int32_t size, int32_t least,
                    int32_t most, int32_t *first, int32_t *end);

#endif
