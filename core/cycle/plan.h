/* What an engine is going to do, decided once from its options: parts with their defaults
 * filled in, the draw, the sizes. Making a plan is the dry run. Private to the engine. */
#ifndef COP_CYCLE_PLAN_H
#define COP_CYCLE_PLAN_H

#include "core/cycle/engine.h"

#define COP_BATCH_LIMIT 256

struct cop_plan {
    struct cop_model *target;
    struct cop_part *proposer, *builder, *rule, *length; /* proposer, builder, length or NULL */
    const struct cop_proposer_ops *proposer_ops;
    const struct cop_rule_ops *rule_ops;
    const struct cop_length_ops *length_ops;
    struct cop_sampling sampling;
    struct cop_processing processing;
    struct cop_engine_facts facts;
    struct cop_proposer_env env;
    int32_t batch;
    int32_t n_drafters; /* rows a node */
    bool is_cheap;      /* see cop_proposer_ops */
    /* makes rows before the length policy decides: expand where that is cheap; or NULL */
    enum cop_status (*offer)(void *session, struct cop_frontier *frontiers, int32_t n_frontiers,
                             struct cop_error *err);
    int32_t n_scouts;   /* beside a tree's nodes */
    int32_t n_slots;    /* of one sequence above what is committed */
    int32_t candidates; /* nodes drafted at most, those that a builder drops included */
    int32_t n_behind;   /* levels drafted behind an answer's last possible token: what a rule
                           owes for them needs their draft rows */
    int32_t hidden_layers[COP_HIDDEN_LIMIT], n_hidden;
    const atomic_bool *cancel;
    const double *foreign_us;
};

/* Refuses what is unsound, unknown or impossible. Holds references until released; *plan is
 * empty after failure. */
enum cop_status cop_plan_make(struct cop_plan *plan, const struct cop_engine_options *options,
                              struct cop_error *err);
void cop_plan_release(struct cop_plan *plan);

/* Opens the proposer; *session is NULL without one. Notes the bytes of its weights. */
enum cop_status cop_plan_open(struct cop_plan *plan, void **session, struct cop_error *err);
void cop_plan_close(const struct cop_plan *plan, void *session);

#endif
