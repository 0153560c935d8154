/* Searching the sub-layers to leave out while text is generated (SWIFT): masks are tried one
 * after another on a window of the text that is there, and the best one drafts.
 *
 * A mask leaves out a fixed number of the attention and feed-forward parts of all layers but
 * the first and the last. Most masks are random; every 25th is the one of many that a Gaussian
 * process, told of the latest scores, hopes most of (mean + 2.5 deviations). The search is a
 * function of the scores alone. */
#ifndef ALGORITHMS_PROPOSE_LAYER_SEARCH_H
#define ALGORITHMS_PROPOSE_LAYER_SEARCH_H

#include "core/base/error.h"
#include <stdbool.h>
#include <stdint.h>

enum { COP_LAYER_SEARCH_MEMORY = 48 /* scores that the process knows */ };

struct cop_layer_search {
    int32_t layers, n_skipped; /* of 2 (layers - 2) parts */
    double goal;
    int32_t most_steps;
    int32_t step, idle; /* tried; since the last improvement */
    bool is_over;
    double best_score; /* -1: none yet */
    uint8_t *best;     /* [layers] COP_SKIP_…, drafts at once: a random one */
    uint8_t *trial;    /* [layers] being tried */
    /* The process: a ring of what was tried. */
    uint8_t *known; /* [COP_LAYER_SEARCH_MEMORY, layers] */
    double scores[COP_LAYER_SEARCH_MEMORY];
    int32_t n_known;
};

/* ratio: of the parts that may go, at least one part. layers >= 3. Released also after failure.
 */
enum cop_status cop_layer_search_init(struct cop_layer_search *search, int32_t layers,
                                      double ratio, double goal, int32_t most_steps,
                                      struct cop_error *err);
void cop_layer_search_release(struct cop_layer_search *search);
void cop_layer_search_restart(struct cop_layer_search *search);

/* Fills `trial`; false: the search is over. */
bool cop_layer_search_next(struct cop_layer_search *search);
/* Share of tokens that the trial predicted. */
void cop_layer_search_told(struct cop_layer_search *search, double score);

#endif
