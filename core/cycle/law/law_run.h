/* The state of one enumeration, shared by law.c (set-up and results), law_branches.c (all
 * branches) and law_cycle.c (one cycle of one branch). Private to the law. */
#ifndef COP_CYCLE_LAW_RUN_H
#define COP_CYCLE_LAW_RUN_H

#include "core/cycle/drafting.h"
#include "core/cycle/law/enumerate.h"
#include "core/cycle/law/law.h"
#include "core/cycle/law/prefixes.h"

/* Where cycles ended and the next one begins: a prefix, and the memory that goes with it. */
struct cop_law_place {
    int32_t prefix;
    int32_t next; /* 1 + another place at this prefix, with other memory; 0: none */
    double probability;
};
struct cop_law_places {
    struct cop_law_place *items;
    char *memory; /* [capacity][rule_memory + length_memory] */
    int32_t count, capacity;
};

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
    int32_t *place;                    /* [tree capacity] prefix of each node */
    struct cop_row *targets;           /* [tree capacity] */
    struct cop_row *given;             /* [tree capacity] draft rows of a given tree */
    int32_t *accepted;                 /* [tree capacity] */
    double *acceptance;                /* [depth + 1] nothing known */
    size_t rule_memory, length_memory; /* bytes, multiples of 16 */
    char *memory;                      /* owns the block of the next two */
    char *sequence_state, *length_state;
    struct cop_law_places places[2]; /* of this cycle, of the next one */
    int32_t wanted;                  /* tokens that end a branch; 0: n_cycles end it */
    int32_t n_cycles;
    int64_t n_questions;     /* asked by all branches so far */
    int32_t depth_before;    /* 1 + levels that the last branch drafted; 0: none yet */
    int32_t start, n_placed; /* prefix of this cycle's root; nodes placed so far */
    struct cop_error *err;
};

/* Every branch from the start of the sequence: fills what is of the first cycle in run->law,
 * and the probability that came to rest on every prefix. */
enum cop_status cop_law_branches(struct cop_law_run *run);
/* Back to before that; rows stay known. */
void cop_law_forget(struct cop_law_run *run);

/* One cycle from run->start: drafts, verifies, moves start past what was committed. */
enum cop_status cop_law_cycle(struct cop_law_run *run, const struct cop_draws *draws,
                              int32_t *n_accepted);

#endif
