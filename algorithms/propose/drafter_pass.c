/* One pass of a model that drafts: what is fed, and the rows that come of it. */
#include "algorithms/propose/drafter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum cop_status cop_drafter_start(struct cop_drafter *drafter, int32_t n_tokens,
                                  int32_t n_sequences, struct cop_error *err)
{
    int32_t n = n_tokens + n_sequences * COP_DRAFTER_CATCH_UP;
    drafter->n = 0;
    drafter->n_wanted = 0;
    drafter->n_pages = 0;
    if (n <= drafter->pass_capacity) {
        return COP_OK;
    }
    free(drafter->tokens);
    drafter->pass_capacity = 0;
    drafter->tokens = malloc((size_t)n * (3 * sizeof(int32_t) + sizeof(bool)));
    if (!drafter->tokens) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to draft with %d tokens", n);
    }
    drafter->sequences = drafter->tokens + n;
    drafter->parents = drafter->sequences + n;
    drafter->wanted = (bool *)(drafter->parents + n);
    drafter->pass_capacity = n;
    return COP_OK;
}

/* Slots of this pass come after those that the cache has. */
static int32_t next_slot(const struct cop_drafter *drafter, int32_t sequence)
{
    int32_t slot = cop_cache_speculative(drafter->cache, sequence);
    for (int32_t i = drafter->n; i > 0 && drafter->sequences[i - 1] == sequence; i--) {
        slot++;
    }
    return slot;
}

static int32_t pages_of(int32_t slots)
{
    return slots / COP_PAGE_SLOTS + (slots % COP_PAGE_SLOTS > 0);
}

bool cop_drafter_take_pages(struct cop_drafter *drafter, int32_t sequence, int32_t count)
{
    const struct cop_cache_usage usage = cop_cache_usage(drafter->cache);
    int32_t first =
        cop_cache_committed(drafter->cache, sequence) + next_slot(drafter, sequence);
    int32_t more = pages_of(first + count) - pages_of(first);
    if (more > usage.pages - usage.used - drafter->n_pages) {
        return false;
    }
    drafter->n_pages += more;
    return true;
}

static void feed(struct cop_drafter *drafter, int32_t sequence, cop_token token, int32_t parent,
                 bool is_wanted)
{
    drafter->tokens[drafter->n] = token;
    drafter->sequences[drafter->n] = sequence;
    drafter->parents[drafter->n] = parent;
    drafter->wanted[drafter->n++] = is_wanted;
    drafter->n_wanted += is_wanted;
}

/* More than a pass has room for is prefilled, all but the root. n_pages: before they were
 * taken. */
static enum cop_status catch_up(struct cop_drafter *drafter, int32_t sequence, int32_t n_pages,
                                struct cop_error *err)
{
    struct cop_ids *pending = &drafter->contexts[sequence].pending;
    if (pending->count <= COP_DRAFTER_CATCH_UP) {
        return COP_OK;
    }
    enum cop_status status =
        cop_model_prefill(drafter->model, drafter->cache, sequence, pending->items,
                          (int32_t)pending->count - 1, 0, drafter->cancel, err);
    if (status == COP_OK) {
        pending->items[0] = pending->items[pending->count - 1];
        pending->count = 1;
        drafter->n_pages = n_pages;
        (void)cop_drafter_take_pages(drafter, sequence, 1); /* all were there */
    }
    return status;
}

enum cop_status cop_drafter_feed_root(struct cop_drafter *drafter, int32_t sequence,
                                      bool *is_fed, struct cop_error *err)
{
    struct cop_drafter_context *context = &drafter->contexts[sequence];
    *is_fed = false;
    if (!context->is_off && context->length > drafter->positions) {
        cop_drafter_switch_off(drafter, sequence);
    }
    if (context->is_off || context->pending.count == 0) {
        return COP_OK;
    }
    int32_t n_pages = drafter->n_pages;
    if (!cop_drafter_take_pages(drafter, sequence, (int32_t)context->pending.count)) {
        cop_drafter_switch_off(drafter, sequence);
        return COP_OK;
    }
    enum cop_status status = catch_up(drafter, sequence, n_pages, err);
    if (status != COP_OK) {
        return status;
    }
    int32_t count = (int32_t)context->pending.count;
    for (int32_t i = 0; i < count; i++) {
        feed(drafter, sequence, context->pending.items[i], i - 1, i == count - 1);
    }
    context->slot_of[0] = count - 1;
    *is_fed = true;
    return COP_OK;
}

/* The draft's id of a target token, or -1. */
static cop_token draft_id(const struct cop_drafter *drafter, cop_token token)
{
    if (token < 0 || token >= drafter->vocab_size) {
        return -1;
    }
    if (drafter->map.to_draft) {
        return drafter->map.to_draft[token];
    }
    return token < drafter->draft_vocab ? token : -1;
}

bool cop_drafter_feed_node(struct cop_drafter *drafter, int32_t sequence, int32_t node,
                           int32_t parent, int32_t depth, cop_token token)
{
    return cop_drafter_feed_own(drafter, sequence, node, parent, depth,
                                draft_id(drafter, token), true);
}

bool cop_drafter_feed_own(struct cop_drafter *drafter, int32_t sequence, int32_t node,
                          int32_t parent, int32_t depth, cop_token own, bool is_wanted)
{
    struct cop_drafter_context *context = &drafter->contexts[sequence];
    if (context->is_off || context->slot_of[parent] < 0 || own < 0 ||
        context->length + depth > drafter->positions ||
        !cop_drafter_take_pages(drafter, sequence, 1)) {
        return false;
    }
    context->slot_of[node] = next_slot(drafter, sequence);
    feed(drafter, sequence, own, context->slot_of[parent], is_wanted);
    return true;
}

/* Rows of the target's width: the draft's padding falls away, its missing tokens get -inf. */
static void fit_rows(const struct cop_drafter *drafter, float *logits)
{
    size_t from = (size_t)drafter->draft_vocab, to = (size_t)drafter->vocab_size;
    for (size_t i = (size_t)drafter->n_wanted; from < to && i-- > 0;) {
        memmove(logits + i * to, logits + i * from, from * sizeof *logits);
        for (size_t token = from; token < to; token++) {
            logits[i * to + token] = -INFINITY;
        }
    }
}

static void map_rows(const struct cop_drafter *drafter, float *logits)
{
    for (size_t i = 0; i < (size_t)drafter->n_wanted; i++) {
        cop_glossary_row(&drafter->map, drafter->own.items + i * (size_t)drafter->draft_vocab,
                         logits + i * (size_t)drafter->stride);
    }
}

static enum cop_status score(struct cop_drafter *drafter, struct cop_floats *rows,
                             int32_t stride, struct cop_error *err)
{
    if (!cop_floats_reserve(rows, (size_t)drafter->n_wanted * (size_t)stride)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", drafter->n_wanted);
    }
    struct cop_score pass = {.n = drafter->n,
                             .tokens = drafter->tokens,
                             .sequences = drafter->sequences,
                             .parents = drafter->parents,
                             .wanted = drafter->wanted,
                             .logits = rows->items,
                             .head = drafter->head,
                             .cancel = drafter->cancel};
    return cop_model_score(drafter->model, drafter->cache, &pass, err);
}

enum cop_status cop_drafter_run_own(struct cop_drafter *drafter, struct cop_error *err)
{
    return drafter->n == 0 ? COP_OK : score(drafter, &drafter->own, drafter->draft_vocab, err);
}

/* Rows over the reduced vocabulary, spread over the target's. */
static enum cop_status run_reduced(struct cop_drafter *drafter, struct cop_floats *rows,
                                   struct cop_error *err)
{
    const struct cop_subset *reduced = &drafter->reduced;
    enum cop_status status = score(drafter, &drafter->own, reduced->n, err);
    if (status != COP_OK) {
        return status;
    }
    if (!cop_subset_reserve(reduced->ids, rows,
                            (size_t)drafter->n_wanted * (size_t)drafter->stride)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", drafter->n_wanted);
    }
    cop_subset_place(reduced->ids, reduced->n, reduced->n, drafter->own.items,
                     drafter->n_wanted, drafter->vocab_size, rows->items);
    return COP_OK;
}

enum cop_status cop_drafter_run(struct cop_drafter *drafter, struct cop_floats *rows,
                                struct cop_error *err)
{
    if (drafter->n == 0) {
        return COP_OK;
    }
    if (drafter->head) {
        return run_reduced(drafter, rows, err);
    }
    if (!drafter->map.to_draft) {
        enum cop_status status = score(drafter, rows, drafter->stride, err);
        if (status == COP_OK) {
            fit_rows(drafter, rows->items);
        }
        return status;
    }
    enum cop_status status = cop_drafter_run_own(drafter, err);
    if (status == COP_OK &&
        !cop_floats_reserve(rows, (size_t)drafter->n_wanted * (size_t)drafter->stride)) {
        status =
            cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", drafter->n_wanted);
    }
    if (status == COP_OK) {
        map_rows(drafter, rows->items);
    }
    return status;
}

enum cop_status cop_drafter_hand_out(const struct cop_drafter *drafter,
                                     struct cop_frontier *frontier, int32_t i, float *logits,
                                     const struct cop_sampling *sampling,
                                     struct cop_row_arena *arena, struct cop_error *err)
{
    const struct cop_row_tokens tokens = {drafter->vocab_size, drafter->reduced.ids,
                                          drafter->reduced.n};
    struct cop_error failure = {0};
    enum cop_status status =
        cop_frontier_row(frontier, i, logits, &tokens, sampling, arena, &failure);
    if (status == COP_OK) {
        status = cop_row_normalise(&frontier->rows[i], arena, &failure);
    }
    if (status == COP_OK) {
        return COP_OK;
    }
    frontier->rows[i] = (struct cop_row){.kind = COP_ROW_NONE};
    (void)cop_fail(frontier->error ? frontier->error : err, status,
                   "draft row at position %d: %s",
                   drafter->contexts[frontier->sequence].length - 1 +
                       cop_tree_depth(frontier->tree, frontier->nodes[i]),
                   failure.text);
    return frontier->error ? COP_OK : status;
}
