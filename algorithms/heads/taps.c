/* A queue of states. */
#include "algorithms/heads/taps.h"

#include <stdlib.h>
#include <string.h>

static enum cop_status reserve(struct cop_taps *taps, int32_t more, struct cop_error *err)
{
    int32_t n = taps->n + more;
    if (n <= taps->capacity) {
        return COP_OK;
    }
    float *states =
        realloc(taps->states, (size_t)n * cop_taps_width(taps) * sizeof *taps->states);
    if (states) {
        taps->states = states;
    }
    cop_token *behind = realloc(taps->behind, (size_t)n * sizeof *behind);
    if (behind) {
        taps->behind = behind;
    }
    if (!states || !behind) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the hidden states of %d tokens", n);
    }
    taps->capacity = n;
    return COP_OK;
}

/* States of one token, out of [layer, n tokens, width]. */
static void push(struct cop_taps *taps, const float *hidden, int32_t n, int32_t at,
                 cop_token behind)
{
    size_t width = (size_t)taps->width;
    float *to = taps->states + (size_t)taps->n * cop_taps_width(taps);
    for (size_t layer = 0; layer < (size_t)taps->n_layers; layer++) {
        memcpy(to + layer * width, hidden + (layer * (size_t)n + (size_t)at) * width,
               width * sizeof *to);
    }
    taps->behind[taps->n++] = behind;
}

void cop_taps_begin(struct cop_taps *taps, int32_t length)
{
    taps->length = length;
    taps->n = 0;
}

enum cop_status cop_taps_prefilled(struct cop_taps *taps, const struct cop_prefilled *chunk,
                                   struct cop_error *err)
{
    enum cop_status status = reserve(taps, chunk->n, err);
    for (int32_t i = 0; status == COP_OK && i < chunk->n; i++) {
        push(taps, chunk->hidden, chunk->n, i, chunk->ids[i + 1]);
    }
    return status;
}

enum cop_status cop_taps_observe(struct cop_taps *taps, const struct cop_observed *observed,
                                 struct cop_error *err)
{
    enum cop_status status = reserve(taps, observed->n_accepted + 1, err);
    taps->length += observed->n_accepted + 1;
    for (int32_t i = 0; status == COP_OK && i <= observed->n_accepted; i++) {
        push(taps, observed->hidden, observed->tree->size,
             i == 0 ? 0 : observed->accepted[i - 1], observed->committed[i]);
    }
    return status;
}

void cop_taps_drop(struct cop_taps *taps, int32_t count)
{
    size_t width = cop_taps_width(taps);
    if (count == 0) {
        return;
    }
    taps->n -= count;
    memmove(taps->states, taps->states + (size_t)count * width,
            (size_t)taps->n * width * sizeof *taps->states);
    memmove(taps->behind, taps->behind + count, (size_t)taps->n * sizeof *taps->behind);
}

void cop_taps_release(struct cop_taps *taps)
{
    free(taps->states);
    free(taps->behind);
    *taps = (struct cop_taps){0};
}

enum cop_status cop_taps_commit(struct cop_cache *cache, int32_t sequence, int32_t count,
                                struct cop_error *err)
{
    int32_t *path = malloc(((size_t)count + 1) * sizeof *path);
    if (!path) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to commit %d rows", count);
    }
    for (int32_t i = 0; i < count; i++) {
        path[i] = i;
    }
    cop_cache_commit(cache, sequence, path, count);
    free(path);
    return COP_OK;
}
