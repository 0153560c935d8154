/* The law of the token that a rule commits at one position of an answer, from the rows of a
 * model: one draft is drawn there, and the rule keeps it or says another.
 *
 * Unlike core/cycle/law/law.h, which branches at every answer and so takes small vocabularies,
 * this one adds up the weights of a pick in place of going down each of its tokens: the rule
 * runs once for each draft and each answer to its flips. Drafts that are less probable than
 * `floor` are taken as the strict rule would, which is exact for that one; it tells their mass,
 * and a distance is off by no more. Rules that pick twice, race or carry state from cycle to
 * cycle have no such law and are refused. */
#ifndef COP_CYCLE_POSITION_LAW_H
#define COP_CYCLE_POSITION_LAW_H

#include "core/cycle/contract/rule.h"

struct cop_position {
    const struct cop_rule_ops *rule;
    const void *rule_state;
    const struct cop_row *target, *draft; /* normalised, of one vocabulary */
    enum cop_draw
        draw;     /* INDEPENDENT: the draft is a sample; DETERMINISTIC: the draft's best */
    double floor; /* 0: every draft */
};
struct cop_position_law {
    double acceptance; /* probability that the draft is kept */
    double left_out;   /* of the draft's mass, under the floor */
};
/* Fills law[vocab], which sums to 1. */
enum cop_status cop_position_law(const struct cop_position *position, double *law,
                                 struct cop_position_law *out, struct cop_error *err);

#endif
