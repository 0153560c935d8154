/* Reading a prompt: chunks of a chain, scored without logits and committed. */
#include "core/model/state.h"
#include <stdlib.h>

/* As parents of a chain, entries[0..n) = -1, 0, 1, …; as its path, entries[1..n]. */
static int32_t *new_chain(int32_t n)
{
    int32_t *entries = malloc(((size_t)n + 1) * sizeof *entries);
    for (int32_t i = 0; entries && i <= n; i++) {
        entries[i] = i - 1;
    }
    return entries;
}

/* With states: in one chunk. */
static enum cop_status prefill(struct cop_model *model, struct cop_cache *cache,
                               int32_t sequence, const cop_token *tokens, int32_t n,
                               int32_t chunk, const struct cop_states *states,
                               const atomic_bool *cancel, struct cop_error *err)
{
    if (n < 0 || chunk < 0 || sequence < 0 || sequence >= cop_cache_sequences(cache) ||
        cop_cache_speculative(cache, sequence) > 0) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "prefill of %d tokens in chunks of %d needs a sequence without "
                        "speculative slots (given: %d)",
                        n, chunk, sequence);
    }
    chunk = chunk == 0 ? COP_PREFILL_CHUNK : chunk;
    chunk = chunk > n ? n : chunk;
    int32_t *chain = new_chain(chunk);
    int32_t *sequences = malloc(((size_t)chunk + 1) * sizeof *sequences);
    enum cop_status status = COP_OK;
    if (!chain || !sequences) {
        status = cop_fail(err, COP_ERR_MEMORY, "no memory to prefill %d tokens", n);
    }
    for (int32_t i = 0; status == COP_OK && i < chunk; i++) {
        sequences[i] = sequence;
    }
    for (int32_t done = 0, size; status == COP_OK && done < n; done += size) {
        size = n - done < chunk ? n - done : chunk;
        const struct cop_score score = {.n = size,
                                        .tokens = tokens + done,
                                        .sequences = sequences,
                                        .parents = chain,
                                        .hidden_layers = states->layers,
                                        .n_hidden = states->n_layers,
                                        .hidden = states->out,
                                        .cancel = cancel};
        status = cop_model_score(model, cache, &score, err);
        if (status == COP_OK) {
            cop_cache_commit(cache, sequence, chain + 1, size);
        } else {
            cop_cache_rollback(cache, sequence);
        }
    }
    free(chain);
    free(sequences);
    return status;
}

enum cop_status cop_model_prefill(struct cop_model *model, struct cop_cache *cache,
                                  int32_t sequence, const cop_token *tokens, int32_t n,
                                  int32_t chunk, const atomic_bool *cancel,
                                  struct cop_error *err)
{
    const struct cop_states none = {0};
    return prefill(model, cache, sequence, tokens, n, chunk, &none, cancel, err);
}

enum cop_status cop_model_prefill_states(struct cop_model *model, struct cop_cache *cache,
                                         int32_t sequence, const cop_token *tokens, int32_t n,
                                         const struct cop_states *states,
                                         const atomic_bool *cancel, struct cop_error *err)
{
    return prefill(model, cache, sequence, tokens, n, n, states, cancel, err);
}
