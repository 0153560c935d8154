/* One layer over committed text. */
#include "algorithms/heads/carried/prefix.h"
#include "algorithms/heads/pass.h"
#include "algorithms/heads/taps.h"
#include "core/model/block.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cop_prefix {
    const struct cop_model *target;
    struct cop_block *block;
    struct cop_cache *cache;
    float *norm;           /* [width] */
    struct cop_taps *taps; /* [n_sequences] what waits */
    int32_t n_sequences;
    size_t width;
    char layer[96]; /* what the names of its tensors begin with */
    /* One pass. */
    struct cop_feed feed;
    struct cop_floats stream; /* [rows, width] */
};

void cop_prefix_close(struct cop_prefix *prefix)
{
    if (!prefix) {
        return;
    }
    for (int32_t i = 0; prefix->taps && i < prefix->n_sequences; i++) {
        cop_taps_release(&prefix->taps[i]);
    }
    free(prefix->taps);
    free(prefix->norm);
    cop_feed_release(&prefix->feed);
    free(prefix->stream.items);
    cop_cache_free(prefix->cache);
    cop_block_free(prefix->block);
    free(prefix);
}

static enum cop_status find_norm(struct cop_prefix *prefix, const struct cop_checkpoint *files,
                                 const char *stem, struct cop_error *err)
{
    char name[96];
    const struct cop_tensor *tensor;
    (void)snprintf(name, sizeof name, "%snorm.weight", stem);
    const struct cop_wanted wanted = {
        .name = name, .of = "heads", .cols = (int32_t)prefix->width, .is_required = true};
    enum cop_status status = cop_source_find(&files->source, &wanted, &tensor, err);
    return status == COP_OK ? cop_checkpoint_vector(files, tensor, &prefix->norm, err) : status;
}

static enum cop_status fill(struct cop_prefix *prefix, const struct cop_checkpoint *files,
                            const char *stem, const struct cop_proposer_env *env,
                            struct cop_error *err)
{
    prefix->taps = calloc((size_t)prefix->n_sequences, sizeof *prefix->taps);
    if (!prefix->taps) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the layer of a head");
    }
    for (int32_t i = 0; i < prefix->n_sequences; i++) {
        prefix->taps[i].n_layers = 1;
        prefix->taps[i].width = (int32_t)prefix->width;
    }
    (void)snprintf(prefix->layer, sizeof prefix->layer, "%slayers.0.", stem);
    const struct cop_block_options options = {.name = files->name,
                                              .source = &files->source,
                                              .prefix = prefix->layer,
                                              .like = env->target};
    enum cop_status status = cop_block_open(&prefix->block, &options, err);
    if (status == COP_OK) {
        status = cop_block_load(prefix->block, files->weights, env->target, err);
    }
    if (status == COP_OK) {
        status = find_norm(prefix, files, stem, err);
    }
    return status == COP_OK
               ? cop_block_cache_new(prefix->block, env->n_sequences,
                                     env->capacity + COP_PREFILL_CHUNK, &prefix->cache, err)
               : status;
}

enum cop_status cop_prefix_open(struct cop_prefix **out, const struct cop_checkpoint *files,
                                const char *stem, const struct cop_proposer_env *env,
                                struct cop_error *err)
{
    *out = NULL;
    struct cop_prefix *prefix = calloc(1, sizeof *prefix);
    if (!prefix) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the layer of a head");
    }
    prefix->target = env->target;
    prefix->n_sequences = env->n_sequences;
    prefix->width = (size_t)cop_model_info(env->target)->hidden_size;
    enum cop_status status = fill(prefix, files, stem, env, err);
    if (status != COP_OK) {
        cop_prefix_close(prefix);
        return status;
    }
    *out = prefix;
    return COP_OK;
}

void cop_prefix_reset(struct cop_prefix *prefix, int32_t sequence)
{
    cop_cache_reset(prefix->cache, sequence);
    cop_taps_begin(&prefix->taps[sequence], 0);
}

enum cop_status cop_prefix_prefilled(struct cop_prefix *prefix,
                                     const struct cop_prefilled *chunk, struct cop_error *err)
{
    return cop_taps_prefilled(&prefix->taps[chunk->sequence], chunk, err);
}

enum cop_status cop_prefix_observe(struct cop_prefix *prefix,
                                   const struct cop_observed *observed, bool *is_full,
                                   struct cop_error *err)
{
    struct cop_taps *taps = &prefix->taps[observed->sequence];
    enum cop_status status = cop_taps_observe(taps, observed, err);
    *is_full = taps->n > COP_TAPS_WAIT;
    return status;
}

/* The rows of all sequences, each a chain. */
static void gather(struct cop_prefix *prefix, const int32_t *sequences, int32_t n)
{
    float *to = prefix->stream.items;
    for (int32_t i = 0; i < n; i++) {
        const struct cop_taps *taps = &prefix->taps[sequences[i]];
        size_t count = (size_t)taps->n * prefix->width;
        if (count > 0) {
            memcpy(to, taps->states, count * sizeof *to);
        }
        to += count;
        for (int32_t row = 0; row < taps->n; row++) {
            cop_feed_add(&prefix->feed, sequences[i], 0, row - 1);
        }
    }
}

static enum cop_status take(struct cop_prefix *prefix, int32_t sequence, const float *last,
                            float *state, struct cop_error *err)
{
    struct cop_taps *taps = &prefix->taps[sequence];
    int32_t width = (int32_t)prefix->width;
    cop_model_ops(prefix->target)
        ->rms_norm(cop_model_device(prefix->target), last, prefix->norm,
                   (float)cop_block_info(prefix->block)->norm_epsilon, 1, width, width, state);
    enum cop_status status = cop_taps_commit(prefix->cache, sequence, taps->n, err);
    cop_taps_drop(taps, taps->n);
    return status;
}

enum cop_status cop_prefix_read(struct cop_prefix *prefix, const int32_t *sequences, int32_t n,
                                float *states, struct cop_error *err)
{
    int32_t n_rows = 0;
    for (int32_t i = 0; i < n; i++) {
        n_rows += prefix->taps[sequences[i]].n;
    }
    if (n_rows == 0) {
        return COP_OK;
    }
    if (!cop_feed_start(&prefix->feed, n_rows) ||
        !cop_floats_reserve(&prefix->stream, (size_t)n_rows * prefix->width)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the layer of a head over %d rows",
                        n_rows);
    }
    gather(prefix, sequences, n);
    const struct cop_block_pass pass = {.n = n_rows,
                                        .sequences = prefix->feed.sequences,
                                        .parents = prefix->feed.parents,
                                        .stream = prefix->stream.items};
    enum cop_status status = cop_block_run(prefix->block, prefix->cache, &pass, err);
    const float *end = prefix->stream.items;
    for (int32_t i = 0; i < n && status == COP_OK; i++) {
        end += (size_t)prefix->taps[sequences[i]].n * prefix->width;
        if (prefix->taps[sequences[i]].n > 0) {
            status = take(prefix, sequences[i], end - prefix->width,
                          states + (size_t)sequences[i] * prefix->width, err);
        }
    }
    return status;
}
