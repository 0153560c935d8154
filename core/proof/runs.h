/* Runs of a rule on a real model: many short answers, each of its own seed, counted by position
 * and tested against the exact law, which the target's rows give without any speculation.
 *
 * What enumeration cannot see is seen here: coins, rows of a model, batches, caches, the order
 * of a cycle. */
#ifndef COP_PROOF_RUNS_H
#define COP_PROOF_RUNS_H

#include "core/cycle/engine.h"
#include "core/proof/chi_square.h"

#define COP_RUNS_TOKENS 3

/* The law of the first tokens after a prompt: position[d][token], marginal over the ones
 * before. */
struct cop_runs_law {
    int32_t vocab;
    double *position[COP_RUNS_TOKENS]; /* [vocab] each; the first owns them all */
};
/* Scores every continuation of positive probability: for small vocabularies, or truncated
 * ones. COP_ERR_LIMIT past 100,000 of them. */
enum cop_status cop_runs_law_find(struct cop_runs_law *law, struct cop_model *target,
                                  const cop_token *prompt, int32_t n_prompt,
                                  const struct cop_sampling *sampling, struct cop_error *err);
void cop_runs_law_release(struct cop_runs_law *law);

struct cop_runs {
    const struct cop_engine_options *engine;
    const cop_token *prompt;
    int32_t n_prompt;
    int64_t n_runs;
    uint64_t seed;
};
struct cop_runs_result {
    struct cop_chi_square position[COP_RUNS_TOKENS];
    double p; /* the smallest */
    int64_t drafted, accepted, passes;
};
/* A request that fails ends the runs with its error. */
enum cop_status cop_runs_test(struct cop_runs_result *result, const struct cop_runs *runs,
                              const struct cop_runs_law *law, struct cop_error *err);

#endif
