/* What a pass of n tokens and a draft of d levels take, learnt while they run.
 *
 *     seconds of a pass = pass * ratio(n)          ratio(1) = 1
 *     seconds of a draft = start + level * d + wake * w     w: cycles without one before it
 *
 * `pass` follows the machine and the length of the context within a few cycles, at any n; the
 * ratios, which neither changes much, are means over many. Where nearly all cycles draft,
 * `pass` is what their passes say over their ratios, which rest on the few passes of one token:
 * another one of these puts both right, and is asked for now and then (want_plain). A size that
 * was seldom timed leans on the line through all of them, and leans back on it when it has not
 * been timed for long, so that no single slow moment condemns a size for good; one that was
 * never timed lies between those that were. A time counts for at most half as much again as was
 * expected (a draft's: thrice). What a draft takes longer after a pause is its catching up with
 * the text, which says nothing of the next draft, so it is kept apart. Drafts of two kinds, by
 * different proposers, have lines of their own. */
#ifndef ALGORITHMS_LENGTH_LEARNT_COSTS_H
#define ALGORITHMS_LENGTH_LEARNT_COSTS_H

#include "core/cycle/contract/length.h"
#include "core/trace/pace.h"

enum {
    COP_LEARNT_SIZES = 64, /* passes of more tokens lie on the line */
    COP_LEARNT_KINDS = 2
};

/* Decayed sums over drafts. */
struct cop_learnt_drafts {
    double drafts, levels, level_squares, seconds, products;
    double waited, wake_seconds; /* of those after a pause: its cycles; what they took longer */
};

/* All zero: nothing is known. */
struct cop_learnt_costs {
    double pass;    /* seconds of one token; 0: no pass was timed */
    bool is_pinned; /* a pass of one token was: before, `pass` is a guess */
    double ratios[COP_LEARNT_SIZES], weights[COP_LEARNT_SIZES]; /* decayed sums, by n - 1 */
    int32_t passes;                                             /* since all of them faded */
    int32_t n_plain, since_plain; /* passes of one token, up to some number; others since */
    double lean;                  /* how much of `pass` comes from passes of more tokens */
    double more, more_squares, more_ratios; /* of the line: sums of n - 1, its square, and its
                                               product with the ratio */
    struct cop_learnt_drafts drafts[COP_LEARNT_KINDS];
    double cycles, host;
};

/* Nothing where no clock runs. `waited`: cycles since the last draft of that kind. */
void cop_learnt_costs_take(struct cop_learnt_costs *costs, const struct cop_length_cycle *cycle,
                           int32_t kind, int32_t waited);

/* Whether a pass of one token should be timed again: after 4, 8, … at last every 32 others. */
bool cop_learnt_costs_want_plain(const struct cop_learnt_costs *costs);

/* Seconds that a draft takes longer after so many cycles without one. */
double cop_learnt_costs_wake(const struct cop_learnt_costs *costs, int32_t kind,
                             int32_t waited);

/* For drafts of a kind: fills score, of passes of up to n_score tokens, n_score, start, draft
 * and host of *pace; false before passes of one token and of another size have been timed. */
bool cop_learnt_costs_pace(const struct cop_learnt_costs *costs, int32_t kind, double *score,
                           int32_t n_score, struct cop_pace *pace);
double cop_learnt_costs_plain(const struct cop_learnt_costs *costs); /* a cycle of one token */
/* What a cycle like that takes, whatever the clock said of this one. */
double cop_learnt_costs_usual(const struct cop_learnt_costs *costs,
                              const struct cop_length_cycle *cycle, int32_t kind,
                              int32_t waited);

#endif
