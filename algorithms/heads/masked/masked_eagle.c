/* P-EAGLE: an EAGLE-3 head (algorithms/heads/carried/eagle.h) that has learnt states and a
 * token for what is not known yet, so that one pass gives what others draft step by step.
 *
 *     rows of a pass     f3,t4  f4,t5  f5,root   M,[M]  M,[M]      M: fc(mask states)
 *     rows for                         t after   next   next
 *
 * Rows of true states are committed to the head's cache, those of masks are dropped. */
#include "algorithms/heads/carried/eagle.h"
#include "algorithms/heads/masked/masked.h"
#include "algorithms/heads/rows.h"
#include "algorithms/heads/taps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct run {
    struct cop_eagle eagle;
    struct cop_cache *cache;
    int32_t vocab, positions, n_positions, n_sequences;
    size_t width;
    struct cop_taps *taps; /* [n_sequences]; the last of each is beside the root */
    float *mask_x;         /* [width] */
    /* One pass; grown by need. */
    struct cop_feed feed;
    struct cop_floats x, y; /* [feed.n, width] */
    struct cop_floats logits;
};

static void close_run(void *opened)
{
    struct run *run = opened;
    if (!run) {
        return;
    }
    for (int32_t i = 0; run->taps && i < run->n_sequences; i++) {
        cop_taps_release(&run->taps[i]);
    }
    free(run->taps);
    free(run->mask_x);
    cop_feed_release(&run->feed);
    free(run->x.items);
    free(run->y.items);
    free(run->logits.items);
    cop_cache_free(run->cache);
    cop_eagle_close(&run->eagle);
    free(run);
}

static enum cop_status make_taps(struct run *run, const struct cop_model_info *target,
                                 struct cop_error *err)
{
    int32_t layers[COP_EAGLE_TAPS];
    run->taps = calloc((size_t)run->n_sequences, sizeof *run->taps);
    run->mask_x = malloc(run->width * sizeof *run->mask_x);
    if (!run->taps || !run->mask_x) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a P-EAGLE head");
    }
    for (int32_t i = 0; i < run->n_sequences; i++) {
        run->taps[i].n_layers = cop_eagle_taps(&run->eagle, target, layers);
        run->taps[i].width = target->hidden_size;
    }
    return cop_eagle_fuse(&run->eagle, run->eagle.weights.mask_states, 1, run->mask_x, err);
}

static enum cop_status open_run(const struct cop_masked *masked,
                                const struct cop_proposer_env *env, void **out,
                                struct cop_error *err)
{
    struct run *run = calloc(1, sizeof *run);
    *out = run;
    if (!run) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a P-EAGLE head");
    }
    run->vocab = env->vocab_size;
    run->positions = cop_model_info(env->target)->context;
    run->n_sequences = env->n_sequences;
    run->n_positions =
        masked->n_positions < env->capacity ? masked->n_positions : env->capacity;
    enum cop_status status = cop_eagle_open(&run->eagle, masked->path, err);
    if (status == COP_OK) {
        run->eagle.files.weights = (enum cop_head_weights)masked->weights;
        status = cop_eagle_load(&run->eagle, env->target, &masked->vocabulary, err);
    }
    run->width = (size_t)run->eagle.width;
    if (status == COP_OK) {
        status = cop_block_cache_new(run->eagle.block, env->n_sequences,
                                     run->n_positions + COP_TAPS_WAIT + COP_PREFILL_CHUNK,
                                     &run->cache, err);
    }
    return status == COP_OK ? make_taps(run, cop_model_info(env->target), err) : status;
}

static const cop_token *ids(const void *opened, int32_t *n)
{
    const struct run *run = opened;
    *n = run->eagle.drafted.ids ? run->eagle.drafted.n_ids : 0;
    return run->eagle.drafted.ids;
}

/* ---- One pass ---------------------------------------------------------------------------- */

static enum cop_status reserve(struct run *run, int32_t n, struct cop_error *err)
{
    size_t count = (size_t)n * run->width;
    return cop_feed_start(&run->feed, n) && cop_floats_reserve(&run->x, count) &&
                   cop_floats_reserve(&run->y, count)
               ? COP_OK
               : cop_fail(err, COP_ERR_MEMORY, "no memory to draft with %d rows", n);
}

/* The first `count` waiting rows as a chain, with the target's states. */
static enum cop_status feed_waiting(struct run *run, int32_t sequence, int32_t count,
                                    struct cop_error *err)
{
    const struct cop_taps *taps = &run->taps[sequence];
    float *x = run->x.items + (size_t)run->feed.n * run->width;
    for (int32_t i = 0; i < count; i++) {
        cop_feed_add(&run->feed, sequence, taps->behind[i], i - 1);
    }
    return count > 0 ? cop_eagle_fuse(&run->eagle, taps->states, count, x, err) : COP_OK;
}

static enum cop_status step(struct run *run, struct cop_error *err)
{
    const struct cop_pair_rows rows = {.n = run->feed.n,
                                       .sequences = run->feed.sequences,
                                       .parents = run->feed.parents,
                                       .tokens = run->feed.tokens,
                                       .x = run->x.items};
    return run->feed.n > 0 ? cop_eagle_step(&run->eagle, run->cache, &rows, err) : COP_OK;
}

static enum cop_status commit(struct run *run, int32_t sequence, int32_t count,
                              struct cop_error *err)
{
    cop_taps_drop(&run->taps[sequence], count);
    return cop_taps_commit(run->cache, sequence, count, err);
}

/* All waiting rows but the root's go into the cache now. */
static enum cop_status catch_up(struct run *run, int32_t sequence, struct cop_error *err)
{
    int32_t count = run->taps[sequence].n - 1;
    if (count < 1) {
        return COP_OK;
    }
    enum cop_status status = reserve(run, count, err);
    if (status == COP_OK) {
        status = feed_waiting(run, sequence, count, err);
    }
    if (status == COP_OK) {
        status = step(run, err);
    }
    return status == COP_OK ? commit(run, sequence, count, err) : status;
}

/* ---- Life -------------------------------------------------------------------------------- */

static enum cop_status begin(void *opened, int32_t sequence, const cop_token *text, int32_t n,
                             struct cop_error *err)
{
    struct run *run = opened;
    (void)text, (void)err;
    cop_taps_begin(&run->taps[sequence], n);
    cop_cache_reset(run->cache, sequence);
    return COP_OK;
}

static void end(void *opened, int32_t sequence)
{
    (void)begin(opened, sequence, NULL, 0, NULL);
}

static enum cop_status prefilled(void *opened, const struct cop_prefilled *chunk,
                                 struct cop_error *err)
{
    struct run *run = opened;
    enum cop_status status = cop_taps_prefilled(&run->taps[chunk->sequence], chunk, err);
    return status == COP_OK ? catch_up(run, chunk->sequence, err) : status;
}

static enum cop_status observe(void *opened, const struct cop_observed *observed,
                               struct cop_error *err)
{
    struct run *run = opened;
    struct cop_taps *taps = &run->taps[observed->sequence];
    enum cop_status status = cop_taps_observe(taps, observed, err);
    return status == COP_OK && taps->n > COP_TAPS_WAIT ? catch_up(run, observed->sequence, err)
                                                       : status;
}

/* ---- Drafting ---------------------------------------------------------------------------- */

/* Waiting rows and masks of a sequence; *n: rows from the root's on. */
static enum cop_status feed_sequence(struct run *run, int32_t sequence, int32_t *n,
                                     struct cop_error *err)
{
    const struct cop_taps *taps = &run->taps[sequence];
    int32_t n_waiting = taps->n, room = run->positions - taps->length + 2;
    *n = run->n_positions < room ? run->n_positions : room;
    *n = n_waiting == 0 || *n < 0 ? 0 : *n; /* a prompt of one token: no states yet */
    if (*n == 0) {
        return COP_OK;
    }
    enum cop_status status = feed_waiting(run, sequence, n_waiting, err);
    for (int32_t i = 0; i < *n - 1; i++) {
        memcpy(run->x.items + (size_t)run->feed.n * run->width, run->mask_x,
               run->width * sizeof *run->mask_x);
        cop_feed_add(&run->feed, sequence, run->eagle.mask_token, n_waiting - 1 + i);
    }
    return status;
}

/* y of the rows that are asked for, one after another, and the waiting rows are decided. */
static enum cop_status gather(struct run *run, const struct cop_frontier *frontiers,
                              int32_t n_frontiers, const struct cop_masked_rows *rows,
                              struct cop_error *err)
{
    float *to = run->y.items;
    const float *from = run->x.items;
    enum cop_status status = COP_OK;
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        int32_t sequence = frontiers[f].sequence, n_waiting = run->taps[sequence].n;
        if (rows[f].n == 0) {
            continue;
        }
        size_t count = (size_t)rows[f].n * run->width;
        from += (size_t)(n_waiting - 1) * run->width;
        memcpy(to, from, count * sizeof *to);
        from += count;
        to += count;
        status = commit(run, sequence, n_waiting, err);
    }
    return status;
}

static enum cop_status score(struct run *run, int32_t n, struct cop_error *err)
{
    size_t count = (size_t)n * (size_t)run->vocab;
    if (!cop_subset_reserve(run->eagle.drafted.ids, &run->logits, count)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", n);
    }
    return n > 0 ? cop_eagle_logits(&run->eagle, run->y.items, n, run->logits.items, err)
                 : COP_OK;
}

static enum cop_status draft(void *opened, const struct cop_frontier *frontiers,
                             int32_t n_frontiers, struct cop_masked_rows *rows,
                             struct cop_error *err)
{
    struct run *run = opened;
    int32_t n_fed = 0, n_rows = 0;
    for (int32_t f = 0; f < n_frontiers; f++) {
        n_fed += run->taps[frontiers[f].sequence].n + run->n_positions;
    }
    enum cop_status status = reserve(run, n_fed, err);
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        status = feed_sequence(run, frontiers[f].sequence, &rows[f].n, err);
        n_rows += rows[f].n;
    }
    if (status == COP_OK) {
        status = step(run, err);
    }
    if (status == COP_OK) {
        status = gather(run, frontiers, n_frontiers, rows, err);
    }
    if (status == COP_OK) {
        status = score(run, n_rows, err);
    }
    float *logits = run->logits.items;
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        rows[f].logits = logits;
        rows[f].stride = (size_t)run->vocab;
        logits += (size_t)rows[f].n * rows[f].stride;
    }
    return status;
}

/* ---- The part ---------------------------------------------------------------------------- */

static enum cop_status open_files(struct cop_masked *masked, struct cop_error *err)
{
    struct cop_eagle *eagle = calloc(1, sizeof *eagle);
    masked->files = eagle;
    if (!eagle) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a P-EAGLE head");
    }
    enum cop_status status = cop_eagle_open(eagle, masked->path, err);
    if (status == COP_OK && eagle->mask_token < 0) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "%s: an EAGLE head without masks drafts step by step; write "
                        "cop.propose.eagle { path }",
                        eagle->files.name);
    }
    masked->n_positions = eagle->n_positions;
    return status;
}

static void close_files(void *files)
{
    if (files) {
        cop_eagle_close(files);
    }
    free(files);
}

static int32_t hidden_layers(const struct cop_masked *masked,
                             const struct cop_model_info *target, int32_t *layers)
{
    return cop_eagle_taps(masked->files, target, layers);
}

const struct cop_masked_family cop_masked_eagle = {
    .open_files = open_files,
    .close_files = close_files,
    .hidden_layers = hidden_layers,
    .open = open_run,
    .close = close_run,
    .begin = begin,
    .prefilled = prefilled,
    .observe = observe,
    .end = end,
    .draft = draft,
    .ids = ids,
};
