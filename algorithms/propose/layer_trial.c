/* Windows of text, and what masks predict in them. */
#include "algorithms/propose/layer_trial.h"

#include <stdlib.h>

enum { BEFORE = 256 /* tokens in front of a window at most */ };

struct searcher { /* of one sequence */
    struct cop_layer_search search;
    struct cop_ids text; /* committed, root included */
    size_t window_end;   /* in it; 0: no window yet */
};
struct cop_layer_trials {
    struct cop_model *model; /* borrowed */
    struct cop_cache *cache;
    struct searcher *searchers; /* [n_sequences] */
    int32_t n_sequences, window, vocab;
    float *logits;      /* [window, vocab] */
    int32_t *sequences; /* [window]; owns the block of both */
    int32_t *parents;   /* [window] a chain */
    const atomic_bool *cancel;
};

void cop_layer_trials_free(struct cop_layer_trials *trials)
{
    if (!trials) {
        return;
    }
    for (int32_t i = 0; trials->searchers && i < trials->n_sequences; i++) {
        cop_layer_search_release(&trials->searchers[i].search);
        cop_ids_release(&trials->searchers[i].text);
    }
    free(trials->searchers);
    free(trials->logits);
    free(trials->sequences);
    cop_cache_free(trials->cache);
    free(trials);
}

static enum cop_status fill(struct cop_layer_trials *trials,
                            const struct cop_layer_trials_options *options, int32_t layers,
                            struct cop_error *err)
{
    size_t n = (size_t)options->window;
    trials->searchers = calloc((size_t)trials->n_sequences, sizeof *trials->searchers);
    trials->logits = malloc(n * (size_t)trials->vocab * sizeof *trials->logits);
    trials->sequences = malloc(2 * n * sizeof *trials->sequences);
    if (!trials->searchers || !trials->logits || !trials->sequences) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to search for layers");
    }
    trials->parents = trials->sequences + n;
    for (int32_t i = 0; i < options->window; i++) {
        trials->parents[i] = i - 1;
    }
    enum cop_status status = cop_model_cache_new(trials->model, trials->n_sequences,
                                                 options->window, &trials->cache, err);
    for (int32_t i = 0; i < trials->n_sequences && status == COP_OK; i++) {
        status = cop_layer_search_init(&trials->searchers[i].search, layers, options->ratio,
                                       options->goal, options->most_steps, err);
    }
    return status;
}

enum cop_status cop_layer_trials_new(struct cop_layer_trials **out,
                                     const struct cop_layer_trials_options *options,
                                     const struct cop_proposer_env *env, struct cop_error *err)
{
    int32_t layers = cop_model_info(env->target)->layers;
    *out = NULL;
    if (layers < 3) {
        return cop_fail(
            err, COP_ERR_ARGUMENT,
            "cop.propose.layer_skip: search keeps the first and the last layer, and "
            "the target has %d in all",
            layers);
    }
    struct cop_layer_trials *trials = calloc(1, sizeof *trials);
    if (!trials) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to search for layers");
    }
    trials->model = env->target;
    trials->n_sequences = env->n_sequences;
    trials->window = options->window;
    trials->vocab = env->vocab_size;
    trials->cancel = env->cancel;
    enum cop_status status = fill(trials, options, layers, err);
    if (status != COP_OK) {
        cop_layer_trials_free(trials);
        return status;
    }
    *out = trials;
    return COP_OK;
}

/* ---- Text -------------------------------------------------------------------------------- */

void cop_layer_trials_begin(struct cop_layer_trials *trials, int32_t sequence)
{
    struct searcher *searcher = &trials->searchers[sequence];
    searcher->text.count = searcher->window_end = 0;
    cop_layer_search_restart(&searcher->search);
}

enum cop_status cop_layer_trials_read(struct cop_layer_trials *trials, int32_t sequence,
                                      const cop_token *ids, int32_t n, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < n && status == COP_OK; i++) {
        status = cop_ids_push(&trials->searchers[sequence].text, ids[i], err);
    }
    return status;
}

void cop_layer_trials_end(struct cop_layer_trials *trials, int32_t sequence)
{
    cop_cache_reset(trials->cache, sequence);
    cop_ids_release(&trials->searchers[sequence].text);
}

const uint8_t *cop_layer_trials_best(const struct cop_layer_trials *trials, int32_t sequence)
{
    return trials->searchers[sequence].search.best;
}

/* ---- One step ---------------------------------------------------------------------------- */

/* Share of the window's tokens that the model without some parts thinks best, each after the
 * true ones before it. */
static enum cop_status try_mask(struct cop_layer_trials *trials, int32_t sequence,
                                const uint8_t *skip, double *score, struct cop_error *err)
{
    const struct searcher *searcher = &trials->searchers[sequence];
    int32_t n = trials->window, n_right = 0;
    const cop_token *window = searcher->text.items + searcher->window_end - (size_t)n - 1;
    for (int32_t i = 0; i < n; i++) {
        trials->sequences[i] = sequence;
    }
    const struct cop_score pass = {.n = n,
                                   .tokens = window,
                                   .sequences = trials->sequences,
                                   .parents = trials->parents,
                                   .skip = skip,
                                   .logits = trials->logits,
                                   .cancel = trials->cancel};
    enum cop_status status = cop_model_score(trials->model, trials->cache, &pass, err);
    cop_cache_rollback(trials->cache, sequence);
    for (int32_t i = 0; i < n && status == COP_OK; i++) {
        const float *row = trials->logits + (size_t)i * (size_t)trials->vocab;
        n_right += cop_argmax(row, trials->vocab) == window[i + 1];
    }
    *score = (double)n_right / n;
    return status;
}

/* A window at the end of the text. The best mask so far is worth what it scores there. */
static enum cop_status place_window(struct cop_layer_trials *trials, int32_t sequence,
                                    struct cop_error *err)
{
    struct searcher *searcher = &trials->searchers[sequence];
    size_t n = searcher->text.count - (size_t)trials->window - 1;
    size_t first = n > BEFORE ? n - BEFORE : 0;
    searcher->window_end = searcher->text.count;
    cop_cache_reset(trials->cache, sequence);
    enum cop_status status =
        cop_model_prefill(trials->model, trials->cache, sequence, searcher->text.items + first,
                          (int32_t)(n - first), 0, trials->cancel, err);
    return status == COP_OK ? try_mask(trials, sequence, searcher->search.best,
                                       &searcher->search.best_score, err)
                            : status;
}

enum cop_status cop_layer_trials_step(struct cop_layer_trials *trials, int32_t sequence,
                                      struct cop_error *err)
{
    struct searcher *searcher = &trials->searchers[sequence];
    size_t window = (size_t)trials->window;
    enum cop_status status = COP_OK;
    if (searcher->search.is_over || searcher->text.count <= window) {
        return COP_OK;
    }
    if (searcher->window_end == 0 || searcher->text.count >= searcher->window_end + window) {
        status = place_window(trials, sequence, err);
    }
    if (status == COP_OK && cop_layer_search_next(&searcher->search)) {
        double score = 0;
        status = try_mask(trials, sequence, searcher->search.trial, &score, err);
        cop_layer_search_told(&searcher->search, score);
    }
    return status;
}
