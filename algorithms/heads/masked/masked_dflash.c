/* Drafting with DFlash and DSpark (algorithms/heads/masked/dflash.h): the target's states of
 * committed text become context as they come, the block of a cycle is dropped when its rows are
 * made.
 *
 *     positions      0 … length - 2      length - 1   length  …
 *     cache          context             root         masks       (speculative)
 */
#include "algorithms/heads/masked/dflash.h"
#include "algorithms/heads/masked/masked.h"
#include "algorithms/heads/rows.h"
#include "algorithms/heads/taps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct context {
    struct cop_taps taps;
    size_t first;  /* of `rows`: the row that drafts the position behind the root */
    float *states; /* [capacity + 1, rank] RECURRENT: what a node's row left */
    double *trust; /* [capacity + 1] of the path to what follows a node */
};
struct run {
    struct cop_dflash dflash;
    struct cop_cache *cache;
    int32_t vocab, positions, n_positions, n_sequences, capacity;
    double least_trust;
    size_t width;
    struct context *contexts; /* [n_sequences] */
    /* One pass; grown by need. */
    struct cop_feed feed;
    uint64_t *visible; /* [n_visible] words */
    size_t n_visible;
    struct cop_floats rows; /* [feed.n, width] kept until the next pass */
    struct cop_floats logits, own, scratch;
    struct cop_dflash_link *links; /* [n_links] */
    int32_t n_links;
};

static void close_run(void *opened)
{
    struct run *run = opened;
    if (!run) {
        return;
    }
    for (int32_t i = 0; run->contexts && i < run->n_sequences; i++) {
        cop_taps_release(&run->contexts[i].taps);
        free(run->contexts[i].states);
        free(run->contexts[i].trust);
    }
    free(run->contexts);
    cop_feed_release(&run->feed);
    free(run->visible);
    free(run->rows.items);
    free(run->logits.items);
    free(run->own.items);
    free(run->scratch.items);
    free(run->links);
    cop_cache_free(run->cache);
    cop_dflash_close(&run->dflash);
    free(run);
}

static enum cop_status make_contexts(struct run *run, struct cop_error *err)
{
    size_t nodes = (size_t)run->capacity + 1, rank = (size_t)run->dflash.rank;
    run->contexts = calloc((size_t)run->n_sequences, sizeof *run->contexts);
    bool is_whole = run->contexts != NULL;
    for (int32_t i = 0; is_whole && i < run->n_sequences; i++) {
        struct context *context = &run->contexts[i];
        context->taps.n_layers = run->dflash.n_taps;
        context->taps.width = run->dflash.width;
        if (cop_dflash_has_chain(&run->dflash)) {
            context->states = malloc((nodes * rank + 1) * sizeof *context->states);
            context->trust = malloc(nodes * sizeof *context->trust);
            is_whole = context->states && context->trust;
        }
    }
    return is_whole ? COP_OK : cop_fail(err, COP_ERR_MEMORY, "no memory for a DFlash drafter");
}

static enum cop_status open_run(const struct cop_masked *masked,
                                const struct cop_proposer_env *env, void **out,
                                struct cop_error *err)
{
    struct run *run = calloc(1, sizeof *run);
    *out = run;
    if (!run) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a DFlash drafter");
    }
    run->vocab = env->vocab_size;
    run->positions = cop_model_info(env->target)->context;
    run->n_sequences = env->n_sequences;
    run->capacity = env->capacity;
    run->n_positions = masked->n_positions;
    run->least_trust = masked->confidence;
    enum cop_status status = cop_dflash_open(&run->dflash, masked->path, err);
    if (status == COP_OK) {
        run->dflash.files.weights = (enum cop_head_weights)masked->weights;
        status = cop_dflash_load(&run->dflash, env->target, &masked->vocabulary, err);
    }
    run->width = (size_t)run->dflash.width;
    if (status == COP_OK) {
        status =
            cop_block_cache_new(run->dflash.block, env->n_sequences,
                                run->n_positions + 1 + COP_PREFILL_CHUNK, &run->cache, err);
    }
    return status == COP_OK ? make_contexts(run, err) : status;
}

static const cop_token *ids(const void *opened, int32_t *n)
{
    const struct run *run = opened;
    *n = run->dflash.drafted.ids ? run->dflash.drafted.n_ids : 0;
    return run->dflash.drafted.ids;
}

/* ---- Passes ------------------------------------------------------------------------------ */

static enum cop_status reserve(struct run *run, int32_t n, struct cop_error *err)
{
    return cop_feed_start(&run->feed, n) &&
                   cop_floats_reserve(&run->rows, (size_t)n * run->width)
               ? COP_OK
               : cop_fail(err, COP_ERR_MEMORY, "no memory to draft with %d rows", n);
}

static struct cop_block_pass pass_of(const struct run *run)
{
    return (struct cop_block_pass){.n = run->feed.n,
                                   .sequences = run->feed.sequences,
                                   .parents = run->feed.parents,
                                   .stream = run->rows.items};
}

/* All that waits becomes context. */
static enum cop_status remember(struct run *run, const int32_t *sequences, int32_t n_sequences,
                                struct cop_error *err)
{
    int32_t n = 0;
    for (int32_t s = 0; s < n_sequences; s++) {
        n += run->contexts[sequences[s]].taps.n;
    }
    enum cop_status status = reserve(run, n, err);
    for (int32_t s = 0; s < n_sequences && status == COP_OK; s++) {
        const struct cop_taps *taps = &run->contexts[sequences[s]].taps;
        float *g = run->rows.items + (size_t)run->feed.n * run->width;
        for (int32_t i = 0; i < taps->n; i++) {
            cop_feed_add(&run->feed, sequences[s], 0, i - 1);
        }
        if (taps->n > 0) {
            status = cop_dflash_fuse(&run->dflash, taps->states, taps->n, g, err);
        }
    }
    if (status == COP_OK && run->feed.n > 0) {
        const struct cop_block_pass pass = pass_of(run);
        status = cop_block_remember(run->dflash.block, run->cache, &pass, err);
    }
    for (int32_t s = 0; s < n_sequences && status == COP_OK; s++) {
        struct cop_taps *taps = &run->contexts[sequences[s]].taps;
        status = cop_taps_commit(run->cache, sequences[s], taps->n, err);
        cop_taps_drop(taps, taps->n);
    }
    return status;
}

/* Rows of one sequence see each other. False: no memory. */
static bool see(struct run *run)
{
    const struct cop_feed *feed = &run->feed;
    size_t words = cop_visible_words(feed->n), count = (size_t)feed->n * words;
    if (count > run->n_visible) {
        free(run->visible);
        run->visible = malloc(count * sizeof *run->visible);
        run->n_visible = run->visible ? count : 0;
    }
    if (!run->visible) {
        return false;
    }
    memset(run->visible, 0, count * sizeof *run->visible);
    for (int32_t i = 0; i < feed->n; i++) {
        uint64_t *own = run->visible + (size_t)i * words;
        for (int32_t j = i - feed->parents[i] - 1;
             j < feed->n && feed->sequences[j] == feed->sequences[i]; j++) {
            own[j / 64] |= UINT64_C(1) << (j % 64);
        }
    }
    return true;
}

static enum cop_status run_block(struct run *run, struct cop_error *err)
{
    struct cop_block_pass pass = pass_of(run);
    enum cop_status status =
        cop_dflash_embed(&run->dflash, run->feed.tokens, run->feed.n, run->rows.items, err);
    if (!run->dflash.is_causal) {
        if (!see(run)) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory to draft with %d rows",
                            run->feed.n);
        }
        pass.visible = run->visible;
    }
    if (status == COP_OK) {
        status = cop_block_run(run->dflash.block, run->cache, &pass, err);
    }
    if (status == COP_OK) {
        cop_dflash_norm(&run->dflash, run->rows.items, run->feed.n);
    }
    return status;
}

/* ---- Life -------------------------------------------------------------------------------- */

static enum cop_status begin(void *opened, int32_t sequence, const cop_token *text, int32_t n,
                             struct cop_error *err)
{
    struct run *run = opened;
    (void)text, (void)err;
    cop_taps_begin(&run->contexts[sequence].taps, n);
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
    enum cop_status status =
        cop_taps_prefilled(&run->contexts[chunk->sequence].taps, chunk, err);
    return status == COP_OK ? remember(run, &chunk->sequence, 1, err) : status;
}

static enum cop_status observe(void *opened, const struct cop_observed *observed,
                               struct cop_error *err)
{
    struct run *run = opened;
    struct cop_taps *taps = &run->contexts[observed->sequence].taps;
    enum cop_status status = cop_taps_observe(taps, observed, err);
    return status == COP_OK && taps->n > COP_TAPS_WAIT
               ? remember(run, &observed->sequence, 1, err)
               : status;
}

/* ---- Drafting ---------------------------------------------------------------------------- */

/* The root and its masks; *n: positions that get rows. */
static void feed_block(struct run *run, const struct cop_frontier *frontier, int32_t *n)
{
    struct context *context = &run->contexts[frontier->sequence];
    int32_t skipped = !run->dflash.from_anchor;
    int32_t room = run->positions - context->taps.length + 1 - skipped;
    *n = run->n_positions < room ? run->n_positions : room;
    if (*n < 1 || cop_cache_committed(run->cache, frontier->sequence) == 0) {
        *n = 0; /* a prompt of one token: no states yet */
        return;
    }
    context->first = (size_t)(run->feed.n + skipped);
    for (int32_t i = 0; i < *n + skipped; i++) {
        cop_feed_add(&run->feed, frontier->sequence,
                     i == 0 ? frontier->tree->token[0] : run->dflash.mask_token, i - 1);
    }
}

/* Logits of n rows over the target's ids; -inf where the drafter knows no such id. */
static enum cop_status score_rows(struct run *run, const float *rows, int32_t n, float *logits,
                                  struct cop_error *err)
{
    const struct cop_reduced *drafted = &run->dflash.drafted;
    enum cop_status status =
        cop_dflash_logits(&run->dflash, rows, n, drafted->ids ? run->own.items : logits, err);
    if (drafted->ids && status == COP_OK) {
        cop_reduced_place(drafted, run->own.items, n, run->vocab, logits);
    }
    return status;
}

/* Of the positions of all sequences, one after another. */
static enum cop_status score(struct run *run, const struct cop_frontier *frontiers,
                             int32_t n_frontiers, struct cop_masked_rows *rows,
                             struct cop_error *err)
{
    const struct cop_reduced *drafted = &run->dflash.drafted;
    size_t vocab = (size_t)run->vocab, total = 0;
    enum cop_status status = COP_OK;
    for (int32_t f = 0; f < n_frontiers; f++) {
        total += (size_t)rows[f].n;
    }
    if (!cop_subset_reserve(drafted->ids, &run->logits, total * vocab) ||
        !cop_floats_reserve(&run->own, drafted->ids ? total * (size_t)drafted->n_ids : 0)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %zu draft rows", total);
    }
    float *logits = run->logits.items;
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        size_t first = run->contexts[frontiers[f].sequence].first;
        rows[f].logits = logits;
        rows[f].stride = vocab;
        if (rows[f].n > 0) {
            status =
                score_rows(run, run->rows.items + first * run->width, rows[f].n, logits, err);
        }
        logits += (size_t)rows[f].n * vocab;
    }
    return status;
}

static enum cop_status draft(void *opened, const struct cop_frontier *frontiers,
                             int32_t n_frontiers, struct cop_masked_rows *rows,
                             struct cop_error *err)
{
    struct run *run = opened;
    enum cop_status status = COP_OK;
    int32_t *sequences = calloc((size_t)n_frontiers, sizeof *sequences);
    if (!sequences) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d sequences", n_frontiers);
    }
    for (int32_t f = 0; f < n_frontiers; f++) {
        sequences[f] = frontiers[f].sequence;
    }
    status = remember(run, sequences, n_frontiers, err);
    free(sequences);
    if (status == COP_OK) {
        status = reserve(run, n_frontiers * (run->n_positions + 1), err);
    }
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        feed_block(run, &frontiers[f], &rows[f].n);
    }
    if (status == COP_OK && run->feed.n > 0) {
        status = run_block(run, err);
    }
    for (int32_t f = 0; f < n_frontiers; f++) {
        cop_cache_rollback(run->cache, frontiers[f].sequence);
    }
    return status == COP_OK ? score(run, frontiers, n_frontiers, rows, err) : status;
}

/* ---- The chain --------------------------------------------------------------------------- */

static enum cop_status reserve_links(struct run *run, int32_t n, struct cop_error *err)
{
    if (n > run->n_links) {
        free(run->links);
        run->links = malloc((size_t)n * sizeof *run->links);
        run->n_links = run->links ? n : 0;
    }
    size_t own = run->dflash.drafted.ids ? (size_t)run->dflash.drafted.n_ids : 0;
    return run->n_links >= n && cop_floats_reserve(&run->own, (size_t)n * own)
               ? COP_OK
               : cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", n);
}

static struct cop_dflash_link link_of(const struct run *run, int32_t depth,
                                      const struct cop_masked_node *node)
{
    const struct context *context = &run->contexts[node->sequence];
    size_t rank = (size_t)run->dflash.rank;
    int32_t parent = node->tree->parent[node->node];
    return (struct cop_dflash_link){
        .token = node->tree->token[node->node],
        .row = run->rows.items + (context->first + (size_t)depth) * run->width,
        .before = parent < 0 ? NULL : context->states + (size_t)parent * rank,
        .after = context->states + (size_t)node->node * rank};
}

/* The corrections alone go through the head's own ids where these are fewer. */
static enum cop_status correct(struct run *run, int32_t n, float *logits, struct cop_error *err)
{
    const struct cop_reduced *drafted = &run->dflash.drafted;
    size_t n_ids = (size_t)drafted->n_ids;
    float *own = logits;
    if (drafted->ids) {
        own = run->own.items;
        memset(own, 0, (size_t)n * n_ids * sizeof *own);
    }
    enum cop_status status =
        cop_dflash_follow(&run->dflash, run->links, n, own, &run->scratch, err);
    for (size_t i = 0; drafted->ids && i < (size_t)n && status == COP_OK; i++) {
        for (size_t id = 0; id < (size_t)drafted->n_ids; id++) {
            logits[i * (size_t)run->vocab + (size_t)drafted->ids[id]] += own[i * n_ids + id];
        }
    }
    return status;
}

static enum cop_status condition(void *opened, int32_t depth,
                                 const struct cop_masked_node *nodes, int32_t n, float *logits,
                                 bool *stops, struct cop_error *err)
{
    struct run *run = opened;
    enum cop_status status = reserve_links(run, n, err);
    for (int32_t i = 0; i < n && status == COP_OK; i++) {
        run->links[i] = link_of(run, depth, &nodes[i]);
    }
    if (status == COP_OK) {
        status = correct(run, n, logits, err);
    }
    for (int32_t i = 0; i < n && status == COP_OK; i++) {
        double *trust = run->contexts[nodes[i].sequence].trust;
        int32_t node = nodes[i].node, parent = nodes[i].tree->parent[node];
        trust[node] = run->links[i].trust * (parent < 0 ? 1 : trust[parent]);
        stops[i] = trust[node] < run->least_trust;
    }
    return status;
}

/* ---- The part ---------------------------------------------------------------------------- */

static enum cop_status open_files(struct cop_masked *masked, struct cop_error *err)
{
    struct cop_dflash *dflash = calloc(1, sizeof *dflash);
    masked->files = dflash;
    if (!dflash) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a DFlash drafter");
    }
    enum cop_status status = cop_dflash_open(dflash, masked->path, err);
    if (status != COP_OK) {
        return status;
    }
    masked->n_positions = dflash->block_size - !dflash->from_anchor;
    if (masked->depth > masked->n_positions) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "%s: depth = %d is more than the %d positions that its blocks of %d "
                        "were trained for",
                        dflash->files.name, masked->depth, masked->n_positions,
                        dflash->block_size);
    }
    if (masked->confidence > 0 && !dflash->tensors.trust) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "%s: there is no confidence head; leave confidence out",
                        dflash->files.name);
    }
    if (cop_dflash_has_chain(dflash)) {
        masked->family = &cop_masked_dspark;
    }
    return COP_OK;
}

static void close_files(void *files)
{
    if (files) {
        cop_dflash_close(files);
    }
    free(files);
}

static int32_t hidden_layers(const struct cop_masked *masked,
                             const struct cop_model_info *target, int32_t *layers)
{
    const struct cop_dflash *dflash = masked->files;
    (void)target;
    memcpy(layers, dflash->taps, (size_t)dflash->n_taps * sizeof *layers);
    return dflash->n_taps;
}

#define SLOTS                                                                                  \
    .open_files = open_files, .close_files = close_files, .hidden_layers = hidden_layers,      \
    .open = open_run, .close = close_run, .begin = begin, .prefilled = prefilled,              \
    .observe = observe, .end = end, .draft = draft, .ids = ids

const struct cop_masked_family cop_masked_dflash = {SLOTS};
const struct cop_masked_family cop_masked_dspark = {SLOTS, .condition = condition};
