/* One level of a tree: the root's rows, then drafted nodes through the stages that need them.
 */
#include "algorithms/heads/carried/carry_state.h"

#include <stdlib.h>
#include <string.h>

static int32_t last_stage(const struct carry_session *session)
{
    return session->carry.n_stages - 1;
}

/* The stage that drafts below nodes of a depth. */
static int32_t stage_of(const struct carry_session *session, int32_t depth)
{
    return depth < last_stage(session) ? depth : last_stage(session);
}

/* ---- Drafted nodes ----------------------------------------------------------------------- */

/* A node whose parent has no row in `from` gets none; so do all whose row would lie past the
 * context. */
static enum cop_status feed_nodes(struct carry_session *session, int32_t stage, int32_t from,
                                  const struct cop_frontier *frontier, int32_t depth,
                                  struct cop_error *err)
{
    struct carry_context *context = &session->contexts[frontier->sequence];
    struct carry_stage *own = &context->stages[stage];
    const struct carry_stage *source = &context->stages[from];
    const struct cop_tree *tree = frontier->tree;
    size_t width = session->width;
    int32_t slot = cop_cache_speculative(session->caches[stage], frontier->sequence);
    if (context->taps.length - 1 + depth > session->positions) {
        return COP_OK;
    }
    for (int32_t i = 0; i < frontier->count; i++) {
        int32_t node = frontier->nodes[i], parent = tree->parent[node];
        int32_t carried = source->slot_of[parent];
        if (carried < 0) {
            continue;
        }
        carried = parent == 0 ? 0 : carried + 1;
        memcpy(session->x + (size_t)session->feed.n * width,
               source->y + (size_t)carried * width, width * sizeof *session->x);
        cop_feed_add(&session->feed, frontier->sequence, tree->token[node],
                     parent == 0 ? -1 : own->slot_of[parent]);
        own->slot_of[node] = slot++;
    }
    return carry_reserve_y(session, own, slot + 1, err);
}

/* y [n, width] in the order in which nodes were fed. */
static void keep(struct carry_session *session, int32_t stage,
                 const struct cop_frontier *frontiers, int32_t n_frontiers, const float *y)
{
    size_t width = session->width;
    for (int32_t f = 0; f < n_frontiers; f++) {
        const struct cop_frontier *frontier = &frontiers[f];
        struct carry_stage *own = &session->contexts[frontier->sequence].stages[stage];
        for (int32_t i = 0; i < frontier->count; i++) {
            int32_t node = frontier->nodes[i], slot = own->slot_of[node];
            if (slot >= 0) {
                memcpy(own->y + (node == 0 ? 0 : (size_t)slot + 1) * width, y,
                       width * sizeof *y);
                y += width;
            }
        }
    }
}

static enum cop_status run_stage(struct carry_session *session, int32_t stage,
                                 const struct cop_frontier *frontiers, int32_t n_frontiers,
                                 int32_t depth, struct cop_error *err)
{
    int32_t n = 0, from = depth > last_stage(session) ? stage : stage - 1;
    for (int32_t f = 0; f < n_frontiers; f++) {
        n += frontiers[f].count;
    }
    enum cop_status status = carry_reserve(session, n, err);
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        status = feed_nodes(session, stage, from, &frontiers[f], depth, err);
    }
    return status == COP_OK ? carry_step(session, stage, err) : status;
}

/* Stages behind the one that drafts. */
static enum cop_status run_others(struct carry_session *session,
                                  const struct cop_frontier *frontiers, int32_t n_frontiers,
                                  int32_t depth, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    for (int32_t s = stage_of(session, depth) + 1;
         s < session->carry.n_stages && status == COP_OK; s++) {
        status = run_stage(session, s, frontiers, n_frontiers, depth, err);
        if (status == COP_OK) {
            keep(session, s, frontiers, n_frontiers, session->x);
        }
    }
    return status;
}

/* ---- The root ---------------------------------------------------------------------------- */

/* session->y of the roots, in order; *n of them. A prompt of one token has no states yet. */
static enum cop_status feed_roots(struct carry_session *session,
                                  const struct cop_frontier *frontiers, int32_t n_frontiers,
                                  int32_t *n, struct cop_error *err)
{
    int32_t n_texts = 0;
    for (int32_t f = 0; f < n_frontiers; f++) {
        int32_t sequence = frontiers[f].sequence;
        int32_t count = session->contexts[sequence].taps.n;
        if (count > 0) {
            session->texts[n_texts++] =
                (struct carry_text){.sequence = sequence, .count = count};
        }
    }
    *n = n_texts;
    enum cop_status status = n_texts > 0 ? carry_feed_texts(session, n_texts, err) : COP_OK;
    for (int32_t t = 0; t < n_texts && status == COP_OK; t++) {
        int32_t sequence = session->texts[t].sequence;
        for (int32_t s = 0; s < session->carry.n_stages; s++) {
            bool has_row = cop_cache_committed(session->caches[s], sequence) > 0;
            session->contexts[sequence].stages[s].slot_of[0] = has_row ? 0 : -1;
        }
    }
    return status;
}

/* ---- Rows -------------------------------------------------------------------------------- */

/* In the order in which nodes were fed. */
static enum cop_status hand_out(struct carry_session *session, int32_t stage,
                                struct cop_frontier *frontiers, int32_t n_frontiers,
                                float *logits, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        struct cop_frontier *frontier = &frontiers[f];
        const struct carry_stage *own = &session->contexts[frontier->sequence].stages[stage];
        for (int32_t i = 0; i < frontier->count && status == COP_OK; i++) {
            if (own->slot_of[frontier->nodes[i]] >= 0) {
                status = cop_row_make(&session->maker, frontier, i, logits, err);
                logits += session->maker.vocab;
            }
        }
    }
    return status;
}

enum cop_status cop_carry_expand(void *opened, struct cop_frontier *frontiers,
                                 int32_t n_frontiers, struct cop_error *err)
{
    struct carry_session *session = opened;
    int32_t depth = cop_tree_depth(frontiers[0].tree, frontiers[0].nodes[0]);
    int32_t stage = stage_of(session, depth), n = 0;
    struct cop_floats *level = &session->levels[depth];
    enum cop_status status;
    if (depth == 0) {
        cop_row_arena_reset(session->maker.arena);
        status = feed_roots(session, frontiers, n_frontiers, &n, err);
    } else {
        status = run_stage(session, stage, frontiers, n_frontiers, depth, err);
        n = session->feed.n;
        if (status == COP_OK && n > 0) {
            memcpy(session->y, session->x, (size_t)n * session->width * sizeof *session->y);
        }
    }
    if (status != COP_OK || n == 0) {
        return status;
    }
    if (!cop_row_reserve(&session->maker, level, n)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", n);
    }
    status = session->carry.logits(session->carry.net, stage, session->y, n, level->items, err);
    if (status != COP_OK) {
        return status;
    }
    keep(session, stage, frontiers, n_frontiers, session->y);
    status = hand_out(session, stage, frontiers, n_frontiers, level->items, err);
    return status == COP_OK && depth > 0
               ? run_others(session, frontiers, n_frontiers, depth, err)
               : status;
}
