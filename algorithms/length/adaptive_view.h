/* What the policy `adaptive` remembers, and what it expects of a draft by that (private to
 * adaptive.c and adaptive_view.c). */
#ifndef COP_ALGORITHMS_ADAPTIVE_VIEW_H
#define COP_ALGORITHMS_ADAPTIVE_VIEW_H

#include "algorithms/length/kept_shares.h"
#include "algorithms/length/learnt_costs.h"
#include "core/base/option.h"

enum { LEVELS = COP_KEPT_LEVELS };

struct adaptive {
    struct cop_number_list costs;
    double draft, host, explore;      /* NaN: not given */
    double acceptance, weight, decay; /* the prior and how fast the past fades */
    int32_t rest;
};

/* What drafts come from: what is looked up is offered before anything is decided, what a model
 * drafts is not. Of a mixture a cycle has the one or the other, and they differ in acceptance
 * and in what a level takes. */
enum kind { MADE, OFFERED, KINDS = COP_LEARNT_KINDS };

/* Of the engine, with measured costs. */
struct shared {
    struct cop_learnt_costs costs;
    struct cop_kept_shares kept[KINDS];
    double widths[LEVELS];  /* see struct memory, whose own are not used */
    double offered[LEVELS]; /* points offered for a level that was drafted, a decayed mean */
    double purse;           /* seconds; below 0: tries took more than there was */
};

/* Of a sequence's drafts of a kind. */
struct habit {
    struct cop_kept kept[LEVELS];
    int32_t n_resting; /* cycles in a row without such a draft */
    int32_t n_tries;   /* of a burst that are still to come */
    bool is_resting;   /* by the last plan */
};

/* Per sequence; all zero at its start. */
struct memory {
    struct habit habits[KINDS];
    double widths[LEVELS];   /* nodes by level, a decayed mean; 0: not drafted yet */
    int32_t size[LEVELS];    /* of the tree when this cycle asked for the level */
    int32_t offered[LEVELS]; /* points offered for it; 0: none, or not asked yet */
    int32_t plan;            /* levels of this cycle */
    enum kind kind;          /* of this cycle */
    bool is_try;             /* the plan, to find out */
    bool is_timing;          /* the same, before times are known */
    bool is_timed;           /* times were known to the last plan */
    bool was_all;            /* the cycle before drafted all it could, to be timed */
    uint8_t classes[LEVELS]; /* of the first n_classes levels of this cycle */
    int32_t n_classes;
    double reach; /* see cop_kept_class */
};

/* What a decision is made from. */
struct view {
    double acceptance[LEVELS], widths[LEVELS], score[COP_LEARNT_SIZES];
    struct cop_pace pace;
};

/* For drafts of up to `limit` levels, whose acceptance is taken `hope` standard deviations
 * higher than it is known to be; shared NULL: with given costs. False: times are not known yet.
 */
bool cop_adaptive_look(const struct adaptive *s, const struct memory *m,
                       const struct shared *shared, int32_t limit, double hope,
                       struct view *view);

#endif
