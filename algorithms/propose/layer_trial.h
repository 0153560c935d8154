/* Masks of sub-layers on trial, for every sequence by itself, so that its drafts do not depend
 * on who else is served.
 *
 *     text      … t20 t21 t22 t23 … | t40 t41 … t89        a window at its end
 *     cache     what the whole model made of up to 256 tokens before the window
 *     a trial   one pass over the window with parts left out: how many tokens are as they are?
 */
#ifndef ALGORITHMS_PROPOSE_LAYER_TRIAL_H
#define ALGORITHMS_PROPOSE_LAYER_TRIAL_H

#include "algorithms/propose/layer_search.h"
#include "core/cycle/contract/proposer.h"

struct cop_layer_trials;

struct cop_layer_trials_options {
    double ratio, goal; /* as in cop_layer_search_init */
    int32_t most_steps;
    int32_t window; /* tokens */
};

/* COP_ERR_ARGUMENT: the target has too few layers. *out is NULL after failure. */
enum cop_status cop_layer_trials_new(struct cop_layer_trials **out,
                                     const struct cop_layer_trials_options *options,
                                     const struct cop_proposer_env *env, struct cop_error *err);
void cop_layer_trials_free(
    struct cop_layer_trials *trials); /* NULL is fine; before the target */

/* The search of a sequence begins anew; its committed text goes on; it ends. */
void cop_layer_trials_begin(struct cop_layer_trials *trials, int32_t sequence);
enum cop_status cop_layer_trials_read(struct cop_layer_trials *trials, int32_t sequence,
                                      const cop_token *ids, int32_t n, struct cop_error *err);
void cop_layer_trials_end(struct cop_layer_trials *trials, int32_t sequence);

/* One mask is tried, where the text is long enough and the search not over. */
enum cop_status cop_layer_trials_step(struct cop_layer_trials *trials, int32_t sequence,
                                      struct cop_error *err);
/* The best mask so far, [layers] as in a forward pass. */
const uint8_t *cop_layer_trials_best(const struct cop_layer_trials *trials, int32_t sequence);

#endif
