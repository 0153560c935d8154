/* One level of multi-draft heads: rows for the frontiers of all sequences. */
#include "algorithms/heads/carried/prefix.h"
#include "algorithms/heads/several/heads_session.h"

#include <stdlib.h>
#include <string.h>

/* Rows of one frontier that are computed: one for all its nodes where they are the same. */
static int32_t rows_of(const struct heads_session *session, const struct cop_frontier *frontier)
{
    return !session->has_state[frontier->sequence] ? 0
           : session->family->is_independent       ? 1
                                                   : frontier->count;
}

static bool reserve_nodes(struct heads_session *session, int32_t n)
{
    size_t count = (size_t)n, inner = (size_t)session->heads->inner;
    if (n > session->node_capacity) {
        free(session->nodes);
        free(session->inner);
        free(session->own);
        session->nodes = malloc(count * sizeof *session->nodes);
        session->inner = malloc(count * inner * sizeof *session->inner);
        session->own =
            malloc((count * (size_t)session->maker.n_ids + 1) * sizeof *session->own);
        session->node_capacity = session->nodes && session->inner && session->own ? n : 0;
    }
    return session->node_capacity >= n;
}

/* Fills session->nodes. */
static void gather(struct heads_session *session, const struct cop_frontier *frontiers,
                   int32_t n_frontiers)
{
    struct cop_heads_node *at = session->nodes;
    for (int32_t f = 0; f < n_frontiers; f++) {
        const struct cop_frontier *frontier = &frontiers[f];
        for (int32_t i = 0; i < rows_of(session, frontier); i++) {
            *at++ = (struct cop_heads_node){.sequence = frontier->sequence,
                                            .node = frontier->nodes[i],
                                            .tree = frontier->tree,
                                            .state = session->states +
                                                     (size_t)frontier->sequence *
                                                         (size_t)session->heads->width};
        }
    }
}

/* Copies that the rows of these frontiers need besides themselves. */
static int32_t count_spare(const struct heads_session *session,
                           const struct cop_frontier *frontiers, int32_t n_frontiers)
{
    int32_t n = 0;
    for (int32_t f = 0; f < n_frontiers && session->family->is_independent; f++) {
        n += frontiers[f].process && rows_of(session, &frontiers[f]) > 0
                 ? frontiers[f].count - 1
                 : 0;
    }
    return n;
}

/* ---- Heads that wait for nothing ----------------------------------------------------------
 */

/* The rows of all heads, for the roots of these frontiers. */
static enum cop_status look_ahead(struct heads_session *session,
                                  const struct cop_frontier *frontiers, int32_t n_frontiers,
                                  struct cop_error *err)
{
    struct heads_ahead *ahead = &session->ahead;
    ahead->n = 0;
    for (int32_t f = 0; f < n_frontiers; f++) {
        int32_t n = rows_of(session, &frontiers[f]);
        ahead->row_of[frontiers[f].sequence] = n > 0 ? ahead->n : -1;
        ahead->n += n;
    }
    int32_t n_rows = ahead->n * ahead->n_heads;
    if (n_rows == 0) {
        return COP_OK;
    }
    if (!reserve_nodes(session, n_rows) ||
        !cop_row_reserve(&session->maker, &ahead->level, n_rows)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", n_rows);
    }
    gather(session, frontiers, n_frontiers);
    size_t stride = (size_t)ahead->n * (size_t)session->heads->inner;
    enum cop_status status = COP_OK;
    for (int32_t head = 0; head < ahead->n_heads && status == COP_OK; head++) {
        status = session->family->nodes(session->run, head, session->nodes, ahead->n,
                                        session->inner + (size_t)head * stride, err);
    }
    return status == COP_OK ? cop_heads_multiply(session, 0, n_rows, ahead->level.items, err)
                            : status;
}

static enum cop_status hand_out_ahead(struct heads_session *session,
                                      struct cop_frontier *frontiers, int32_t n_frontiers,
                                      int32_t depth, struct cop_error *err)
{
    const struct heads_ahead *ahead = &session->ahead;
    struct cop_floats *level = &session->levels[depth];
    size_t vocab = (size_t)session->maker.vocab;
    if (!cop_row_reserve(&session->maker, level,
                         count_spare(session, frontiers, n_frontiers))) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for draft rows");
    }
    float *spare = level->items;
    enum cop_status status = COP_OK;
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        struct cop_frontier *frontier = &frontiers[f];
        int32_t row = ahead->row_of[frontier->sequence];
        if (rows_of(session, frontier) > 0 && row >= 0) {
            size_t place = (size_t)depth * (size_t)ahead->n + (size_t)row;
            status = cop_row_share(&session->maker, frontier,
                                   ahead->level.items + place * vocab, spare, err);
            spare += (size_t)cop_row_copies(frontier) * vocab;
        }
    }
    return status;
}

/* ---- Heads of one level --------------------------------------------------------------------
 */

static enum cop_status hand_out(struct heads_session *session, struct cop_frontier *frontiers,
                                int32_t n_frontiers, float *logits, int32_t n_rows,
                                struct cop_error *err)
{
    size_t vocab = (size_t)session->maker.vocab;
    float *spare = logits + (size_t)n_rows * vocab;
    enum cop_status status = COP_OK;
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        struct cop_frontier *frontier = &frontiers[f];
        int32_t n = rows_of(session, frontier);
        if (n > 0 && session->family->is_independent) {
            status = cop_row_share(&session->maker, frontier, logits, spare, err);
            spare += (size_t)cop_row_copies(frontier) * vocab;
        }
        for (int32_t i = 0; !session->family->is_independent && i < n && status == COP_OK;
             i++) {
            status =
                cop_row_make(&session->maker, frontier, i, logits + (size_t)i * vocab, err);
        }
        logits += (size_t)n * vocab;
    }
    return status;
}

static enum cop_status run_level(struct heads_session *session, struct cop_frontier *frontiers,
                                 int32_t n_frontiers, int32_t depth, struct cop_error *err)
{
    struct cop_floats *level = &session->levels[depth];
    int32_t n = 0;
    for (int32_t f = 0; f < n_frontiers; f++) {
        n += rows_of(session, &frontiers[f]);
    }
    if (n == 0) {
        return COP_OK;
    }
    int32_t n_logits = n + count_spare(session, frontiers, n_frontiers);
    if (!reserve_nodes(session, n) || !cop_row_reserve(&session->maker, level, n_logits)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", n_logits);
    }
    gather(session, frontiers, n_frontiers);
    enum cop_status status =
        session->family->nodes(session->run, depth, session->nodes, n, session->inner, err);
    if (status == COP_OK) {
        status = cop_heads_multiply(session, depth, n, level->items, err);
    }
    return status == COP_OK ? hand_out(session, frontiers, n_frontiers, level->items, n, err)
                            : status;
}

/* One pass for all sequences that draft. */
static enum cop_status read_waiting(struct heads_session *session,
                                    const struct cop_frontier *frontiers, int32_t n_frontiers,
                                    struct cop_error *err)
{
    for (int32_t f = 0; f < n_frontiers; f++) {
        session->waiting[f] = frontiers[f].sequence;
    }
    return cop_prefix_read(session->prefix, session->waiting, n_frontiers, session->states,
                           err);
}

enum cop_status cop_heads_expand(void *opened, struct cop_frontier *frontiers,
                                 int32_t n_frontiers, struct cop_error *err)
{
    struct heads_session *session = opened;
    int32_t depth = cop_tree_depth(frontiers[0].tree, frontiers[0].nodes[0]);
    enum cop_status status = COP_OK;
    if (depth == 0) {
        cop_row_arena_reset(session->maker.arena);
    }
    if (depth == 0 && session->prefix) {
        status = read_waiting(session, frontiers, n_frontiers, err);
    }
    if (status != COP_OK) {
        return status;
    }
    if (!session->ahead.is_used) {
        return depth < session->heads->n_heads
                   ? run_level(session, frontiers, n_frontiers, depth, err)
                   : COP_OK;
    }
    if (depth == 0) {
        status = look_ahead(session, frontiers, n_frontiers, err);
    }
    return status == COP_OK && depth < session->ahead.n_heads
               ? hand_out_ahead(session, frontiers, n_frontiers, depth, err)
               : status;
}
