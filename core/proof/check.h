/* The check of a rule: the exact law of many cases for every pair of draw and shape that it
 * claims, against the target's law.
 *
 * A rule passes a case when the total variation is below COP_PROOF_LIMIT, and when it does not
 * keep more than the optimum (looked at in every fourth small case). At temperature 0 it should
 * keep what greedy matching keeps; a rule that keeps less is lossless all the same. Cases are
 * enumerated by cop_law_enumerate, that is by the function that the engine calls. */
#ifndef COP_PROOF_CHECK_H
#define COP_PROOF_CHECK_H

#include "core/proof/case.h"
#include <stdatomic.h>

#define COP_PROOF_LIMIT 1e-12

struct cop_proof_plan {
    const struct cop_registry *registry; /* builders, length policies, the rule "match" */
    const struct cop_part *rule;
    uint64_t seed;
    int32_t cases;   /* of a pair; the fixed ones of the pair are always among them */
    int32_t threads; /* 1 for a rule that calls a script */
    const atomic_bool *cancel;
};

/* One line of the table. */
struct cop_proof_pair {
    struct cop_proof_kind kind;
    int64_t cases;            /* enumerated */
    int64_t weaker_at_zero;   /* cases at temperature 0 in which match keeps more */
    int64_t branches;         /* of all cases together */
    double worst;             /* total variation */
    char at[240];             /* the case of the worst one */
    char problem[700];        /* empty: none
                               */
    double expected_accepted; /* on the reference case */
    double optimum;           /* of that case: no rule keeps more; NaN: not computed */
    double distance;          /* total variation on the reference case */
    double seconds;
};

/* The pairs that a rule claims, widest shapes only; at most `room`. Returns how many. "Every
 * draw" becomes one pair for each draw. */
int32_t cop_proof_pairs(const struct cop_rule_ops *rule, struct cop_proof_pair *pairs,
                        int32_t room);

/* Runs all cases of a pair, whose `kind` is set. A fault of the rule is no failure of this
 * function: it stands in the pair. */
enum cop_status cop_proof_run(const struct cop_proof_plan *plan, struct cop_proof_pair *pair,
                              struct cop_error *err);

/* Only the reference case, claimed or not: for relaxed rules. */
enum cop_status cop_proof_reference(const struct cop_proof_plan *plan,
                                    struct cop_proof_pair *pair, struct cop_error *err);

bool cop_proof_holds(const struct cop_proof_pair *pair);

#endif
