/* The state of one enumeration, shared by law.c (all branches) and law_cycle.c (one cycle of
 * one branch). Private to the law. */
#ifndef COP_CYCLE_LAW_RUN_H
#define COP_CYCLE_LAW_RUN_H

#include "core/cycle/drafting.h"
#include "core/cycle/enumerate.h"
#include "core/cycle/law.h"
#include "core/cycle/prefixes.h"

/* All that one enumeration owns. */
struct cop_law_run {
    const struct cop_law_case *what;
    struct cop_law *law;
    const struct cop_rule_ops *rule;
    const struct cop_builder_ops *builder; /* NULL: a given tree */
    struct cop_prefixes prefixes;
    struct cop_enumeration enumeration;
    struct cop_error asked; /* wrong questions */
    struct cop_drafting drafting;
    int32_t *place;          /* [tree capacity] prefix of each node */
    struct cop_row *targets; /* [tree capacity] */
    struct cop_row *given;   /* [tree capacity] draft rows of a given tree */
    int32_t *accepted;       /* [tree capacity] */
    double *acceptance;      /* [depth + 1] nothing known */
    char *sequence_state, *length_state;
    int32_t start, n_placed; /* prefix of this cycle's root; nodes placed so far */
    struct cop_error *err;
};

/* One cycle from run->start: drafts, verifies, moves start past what was committed. */
enum cop_status cop_law_cycle(struct cop_law_run *run, const struct cop_draws *draws,
                              int32_t *n_accepted);

#endif
