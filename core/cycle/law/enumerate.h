/* Enumeration: the answers of a proof. One run of the code under test is one branch: the record
 * of the answers it was given, with the product of their probabilities.
 *
 * Usage:
 *     struct cop_enumeration e;
 *     cop_enumeration_init(&e, &error);
 *     do {
 *         struct cop_draws draws = cop_enumeration_start(&e);
 *         … run from scratch, asking draws …
 *         … this branch has probability e.probability …
 *     } while (error.code == COP_OK && cop_enumeration_next(&e));
 *     cop_enumeration_release(&e);
 *
 * The first run takes the first possible answer everywhere; next() moves the last answer that
 * has another possibility on to it and forgets what came after, like an odometer. A run that
 * does not ask the recorded questions again is no function of its inputs, which is an error. A
 * race counts as draws one after another without replacement; a second race with shared noise
 * (COP_PURPOSE_SHARED), for one token like the first, has its law given the first one's winner
 * (shared_race.h). Noise is shared within a cycle: what an earlier cycle drafted past its last
 * committed token and threw away decides nothing. */
#ifndef COP_CYCLE_ENUMERATE_H
#define COP_CYCLE_ENUMERATE_H

#include "core/cycle/draws/draws.h"

struct cop_answer {
    uint32_t purpose, key;
    int32_t index;     /* which draw of a race; 0 else */
    int32_t kind;      /* flip, pick or race */
    int32_t first;     /* probabilities[first .. first + n_options) */
    int32_t n_options; /* flip: {true, false}; else the vocabulary */
    int32_t choice;
};

struct cop_enumeration {
    struct cop_error *error;
    struct cop_answer *answers; /* [n_answers]: the record */
    int32_t n_answers, answers_capacity;
    double *probabilities; /* of every option of every recorded answer */
    int32_t n_probabilities, probabilities_capacity;
    int32_t n_asked;    /* answers given in this run */
    double probability; /* of the answers given so far */
};

void cop_enumeration_init(struct cop_enumeration *enumeration, struct cop_error *error);
void cop_enumeration_release(struct cop_enumeration *enumeration);

/* A new run from scratch. */
struct cop_draws cop_enumeration_start(struct cop_enumeration *enumeration);
/* Ends a run and moves to the next branch; false when there is none. Reports a run that asked
 * fewer questions than its record holds. */
bool cop_enumeration_next(struct cop_enumeration *enumeration);

#endif
