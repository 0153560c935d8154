/* One level of a staged draft: what the inner proposer drafts ahead, and the pass that scores
 * it. */
#include "algorithms/propose/staged_session.h"

#include <stdlib.h>

/* ---- The inner proposer's tree ----------------------------------------------------------- */

static void clear_node(struct staged_context *context, int32_t node)
{
    context->is_asked[node] = false;
    context->row[node] = NULL;
}

void staged_start_cycle(struct staged_context *context, cop_token root)
{
    cop_twins_start(&context->twins, root);
    clear_node(context, 0);
    context->n_ahead = 0;
    context->has_root = true;
}

int32_t staged_find_twin(struct staged_context *context, const struct cop_tree *tree,
                         int32_t node)
{
    bool is_new;
    int32_t twin = cop_twins_find(&context->twins, tree, node, &is_new);
    if (is_new) {
        clear_node(context, twin);
    }
    return twin;
}

/* ---- Drafting ahead ---------------------------------------------------------------------- */

/* The inner proposer's best child of a node; -1: none. */
static enum cop_status ask(struct staged_session *session, const struct cop_frontier *outer,
                           int32_t node, cop_token *best, struct cop_error *err)
{
    struct staged_context *context = &session->contexts[outer->sequence];
    struct cop_row row = {.kind = COP_ROW_NONE};
    struct cop_frontier frontier = {.sequence = outer->sequence,
                                    .tree = &context->twins.tree,
                                    .nodes = &node,
                                    .count = 1,
                                    .rows = &row,
                                    .error = outer->error};
    *best = -1;
    context->is_asked[node] = true;
    enum cop_status status = session->inner->expand(session->inner_session, &frontier, 1, err);
    if (status == COP_OK && row.kind == COP_ROW_LOGITS) {
        cop_row_arena_reset(session->inner_arena);
        status = cop_row_normalise(&row, session->inner_arena, err);
    }
    if (status == COP_OK && row.kind != COP_ROW_NONE && cop_row_top(&row, 1, best) < 1) {
        *best = -1;
    }
    return status;
}

/* A node is asked after its ancestors. */
static enum cop_status ask_ancestors(struct staged_session *session,
                                     const struct cop_frontier *outer, int32_t node,
                                     struct cop_error *err)
{
    struct staged_context *context = &session->contexts[outer->sequence];
    const int32_t *parent = context->twins.tree.parent;
    enum cop_status status = COP_OK;
    cop_token ignored;
    for (;;) {
        int32_t first = node;
        for (int32_t i = parent[node]; i >= 0; i = parent[i]) {
            first = context->is_asked[i] ? first : i;
        }
        if (first == node || status != COP_OK) {
            return status;
        }
        status = ask(session, outer, first, &ignored, err);
    }
}

static bool feed(struct staged_session *session, int32_t sequence, int32_t node)
{
    const struct cop_tree *tree = &session->contexts[sequence].twins.tree;
    if (!cop_drafter_feed_node(&session->drafter, sequence, node, tree->parent[node],
                               cop_tree_depth(tree, node), tree->token[node])) {
        return false;
    }
    session->fed[session->n_fed++] = (struct staged_fed){.sequence = sequence, .node = node};
    return true;
}

/* A chain below a node that was fed, as long as `budget` lasts. */
static enum cop_status feed_ahead(struct staged_session *session,
                                  const struct cop_frontier *outer, int32_t node,
                                  int32_t budget, struct cop_error *err)
{
    struct staged_context *context = &session->contexts[outer->sequence];
    enum cop_status status = ask_ancestors(session, outer, node, err);
    while (status == COP_OK && budget-- > 0 && context->n_ahead < session->most_ahead) {
        cop_token best;
        status = ask(session, outer, node, &best, err);
        if (status != COP_OK || best < 0) {
            return status;
        }
        node = cop_twins_add(&context->twins, node, best);
        clear_node(context, node);
        context->n_ahead++;
        if (!feed(session, outer->sequence, node)) {
            return COP_OK;
        }
    }
    return status;
}

/* ---- One level --------------------------------------------------------------------------- */

/* What has no row yet, and below it what the inner proposer thinks. */
static enum cop_status feed_frontier(struct staged_session *session,
                                     const struct cop_frontier *frontier, int32_t depth,
                                     struct cop_error *err)
{
    struct staged_context *context = &session->contexts[frontier->sequence];
    enum cop_status status = COP_OK;
    int32_t n = 0;
    bool is_fed = false;
    if (depth == 0) {
        staged_start_cycle(context, frontier->tree->token[0]);
        status = cop_drafter_feed_root(&session->drafter, frontier->sequence, &is_fed, err);
        if (is_fed) {
            session->fed[session->n_fed++] =
                (struct staged_fed){.sequence = frontier->sequence};
            session->nodes[n++] = 0;
        }
    }
    for (int32_t i = 0; depth > 0 && i < frontier->count; i++) {
        int32_t node = staged_find_twin(context, frontier->tree, frontier->nodes[i]);
        if (!context->row[node] && feed(session, frontier->sequence, node)) {
            session->nodes[n++] = node;
        }
    }
    for (int32_t i = 0; i < n && status == COP_OK; i++) {
        int32_t budget = session->ahead / n + (i < session->ahead % n);
        status = feed_ahead(session, frontier, session->nodes[i], budget, err);
    }
    return status;
}

static enum cop_status reserve_fed(struct staged_session *session, int32_t n,
                                   struct cop_error *err)
{
    session->n_fed = 0;
    if (n > session->fed_capacity) {
        free(session->fed);
        session->fed = malloc((size_t)n * sizeof *session->fed);
        session->fed_capacity = session->fed ? n : 0;
    }
    return session->fed ? COP_OK
                        : cop_fail(err, COP_ERR_MEMORY, "no memory for a staged draft");
}

static enum cop_status run_pass(struct staged_session *session,
                                const struct cop_frontier *frontiers, int32_t n_frontiers,
                                int32_t depth, struct cop_error *err)
{
    int32_t n = 0;
    for (int32_t f = 0; f < n_frontiers; f++) {
        n += frontiers[f].count + session->ahead;
    }
    enum cop_status status = reserve_fed(session, n, err);
    if (status == COP_OK) {
        status = cop_drafter_start(&session->drafter, n, n_frontiers, err);
    }
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        status = feed_frontier(session, &frontiers[f], depth, err);
    }
    struct cop_floats *rows = &session->passes[session->n_passes];
    if (status != COP_OK || session->n_fed == 0) {
        return status;
    }
    session->n_passes++;
    status = cop_drafter_run(&session->drafter, rows, err);
    for (int32_t i = 0; i < session->n_fed && status == COP_OK; i++) {
        session->contexts[session->fed[i].sequence].row[session->fed[i].node] =
            rows->items + (size_t)i * (size_t)session->drafter.stride;
    }
    return status;
}

enum cop_status staged_expand(void *opened, struct cop_frontier *frontiers, int32_t n_frontiers,
                              struct cop_error *err)
{
    struct staged_session *session = opened;
    int32_t depth = cop_tree_depth(frontiers[0].tree, frontiers[0].nodes[0]);
    if (depth == 0) {
        cop_row_arena_reset(session->arena);
        session->n_passes = 0;
    }
    enum cop_status status = run_pass(session, frontiers, n_frontiers, depth, err);
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        struct cop_frontier *frontier = &frontiers[f];
        struct staged_context *context = &session->contexts[frontier->sequence];
        for (int32_t i = 0; i < frontier->count && status == COP_OK; i++) {
            float *logits =
                context->row[staged_find_twin(context, frontier->tree, frontier->nodes[i])];
            if (logits) {
                status = cop_drafter_hand_out(&session->drafter, frontier, i, logits,
                                              &session->sampling, session->arena, err);
            }
        }
    }
    return status;
}
