/* How often what is drafted is kept: by depth, and by what the proposer knew of it.
 *
 * What it knew is a class: how sure it was of the level (its probability, or a lookup's
 * confidence), and how long the match was that the draft comes from. A class moves the share of
 * a depth up or down, by its own share among all that were tried so far:
 *
 *     own     a level of the class was kept           where the level's class is known
 *     next    the level behind one of the class was   where it is not
 *
 * Before it was tried, a class is believed to be as good as its drafts say they are.
 *
 * A class is known from rows and tokens that are drafted already, never from the next one. */
#ifndef ALGORITHMS_LENGTH_KEPT_SHARES_H
#define ALGORITHMS_LENGTH_KEPT_SHARES_H

#include "core/cycle/contract/length.h"

enum {
    COP_KEPT_LEVELS = 64, /* what is deeper is taken as the last one */
    COP_KEPT_PLACES = 3,  /* levels 1, 2, and all others */
    COP_KEPT_CLASSES = 24
};

/* Decayed counts. */
struct cop_kept {
    double passed, tested;
};
struct cop_kept_classes {
    struct cop_kept all, of[COP_KEPT_CLASSES];
};
/* All zero: nothing is known. */
struct cop_kept_shares {
    struct cop_kept levels[COP_KEPT_LEVELS];
    struct cop_kept_classes own[COP_KEPT_PLACES], next[COP_KEPT_PLACES];
};

static inline int32_t cop_kept_index(int32_t level)
{
    return level <= COP_KEPT_LEVELS ? level - 1 : COP_KEPT_LEVELS - 1;
}
static inline void cop_kept_count(struct cop_kept *kept, double decay, bool passed)
{
    kept->tested = decay * kept->tested + 1;
    kept->passed = decay * kept->passed + passed;
}
/* With a prior that counts as `weight` trials. */
static inline double cop_kept_share(const struct cop_kept *kept, double prior, double weight)
{
    double tested = kept->tested + weight;
    return tested > 0 ? (kept->passed + weight * prior) / tested : prior;
}

/* The class of the level that is offered, of which `width` nodes are expected to be drafted, or
 * else of the one above, whose nodes are the frontier. *reach: a lookup's confidence in the
 * level before, 1 above the first; becomes that of this one. */
int32_t cop_kept_class(const struct cop_length_in *in, double width, double *reach);

/* A cycle that kept n_accepted of `depth` levels, the classes of the first n of which are
 * known. */
void cop_kept_learn(struct cop_kept_shares *shares, double decay, int32_t depth,
                    int32_t n_accepted, const uint8_t *classes, int32_t n);

/* acceptance [n_levels] by depth, moved by the classes of the first n >= 1 levels. */
void cop_kept_move(const struct cop_kept_shares *shares, const uint8_t *classes, int32_t n,
                   double *acceptance, int32_t n_levels);

#endif
