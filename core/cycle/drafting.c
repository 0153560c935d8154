/* Growing one tree level by level; the picking itself is cop_grow_draw's (grow.c). */
#include "core/cycle/drafting.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum cop_status cop_drafting_init(struct cop_drafting *drafting, int32_t n_nodes,
                                  struct cop_row_arena *arena, struct cop_error *err)
{
    *drafting = (struct cop_drafting){.arena = arena};
    size_t capacity = (size_t)n_nodes + 1;
    enum cop_status status = cop_tree_init(&drafting->tree, n_nodes + 1, err);
    if (status != COP_OK) {
        return status;
    }
    drafting->frontier = malloc(capacity * sizeof *drafting->frontier);
    drafting->next = malloc(capacity * sizeof *drafting->next);
    drafting->scores = malloc(capacity * sizeof *drafting->scores);
    drafting->keep = malloc(capacity);
    if (!drafting->frontier || !drafting->next || !drafting->scores || !drafting->keep) {
        cop_drafting_release(drafting);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a tree of %d nodes", n_nodes);
    }
    return COP_OK;
}

void cop_drafting_release(struct cop_drafting *drafting)
{
    cop_tree_release(&drafting->tree);
    free(drafting->rows);
    free(drafting->frontier);
    free(drafting->next);
    free(drafting->scores);
    free(drafting->keep);
    *drafting = (struct cop_drafting){0};
}

void cop_drafting_start(struct cop_drafting *drafting, cop_token root, int32_t max_depth)
{
    cop_tree_reset(&drafting->tree, root);
    drafting->n_rows = 0;
    drafting->first_row = 0;
    drafting->frontier[0] = 0;
    drafting->n_frontier = 1;
    drafting->depth = 0;
    drafting->max_depth = max_depth;
    drafting->n_scouts = 0;
    for (int32_t i = 0; i < drafting->tree.capacity; i++) {
        drafting->scores[i] = (double)NAN;
    }
}

static int32_t rows_per_node(const struct cop_drafting *drafting)
{
    return drafting->n_drafters > 1 ? drafting->n_drafters : 1;
}

bool cop_drafting_has_room(const struct cop_drafting *drafting)
{
    return drafting->n_frontier > 0 && drafting->depth < drafting->max_depth &&
           drafting->tree.size < drafting->tree.capacity - drafting->scout_room;
}

bool cop_drafting_is_wanted(struct cop_drafting *drafting, const struct cop_part *length,
                            const struct cop_length_memory *memory)
{
    if (!length) {
        return true;
    }
    const struct cop_length_ops *ops = (const struct cop_length_ops *)length->plug;
    struct cop_length_in in = {.level = drafting->depth + 1,
                               .limit = drafting->max_depth,
                               .tree = &drafting->tree,
                               .frontier = drafting->frontier,
                               .n_frontier = drafting->n_frontier,
                               .draft = cop_drafting_rows(drafting),
                               .acceptance = memory->acceptance,
                               .last = memory->last,
                               .sequence_state = memory->state,
                               .shared_state = memory->shared,
                               .n_drafters = rows_per_node(drafting),
                               .n_matched = memory->n_matched};
    if (memory->is_offered) {
        in.offered = drafting->rows + drafting->first_row;
    }
    return ops->more(length->state, &in);
}

bool cop_drafting_goes_on(struct cop_drafting *drafting, const struct cop_part *length,
                          const struct cop_length_memory *memory)
{
    return cop_drafting_has_room(drafting) && cop_drafting_is_wanted(drafting, length, memory);
}

void cop_drafting_stop(struct cop_drafting *drafting)
{
    drafting->n_frontier = 0;
}

static enum cop_status reserve_rows(struct cop_drafting *drafting, int32_t count,
                                    struct cop_error *err)
{
    if (drafting->n_rows + count > drafting->rows_capacity) {
        int32_t capacity = 2 * drafting->rows_capacity + count;
        struct cop_row *rows = realloc(drafting->rows, (size_t)capacity * sizeof *rows);
        if (!rows) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory for draft rows");
        }
        drafting->rows = rows;
        drafting->rows_capacity = capacity;
    }
    return COP_OK;
}

enum cop_status cop_drafting_ask(struct cop_drafting *drafting, int32_t sequence,
                                 struct cop_frontier *frontier, struct cop_error *err)
{
    int32_t count = drafting->n_frontier * rows_per_node(drafting);
    enum cop_status status = reserve_rows(drafting, count, err);
    if (status != COP_OK) {
        return status;
    }
    drafting->first_row = drafting->n_rows;
    drafting->n_rows += count;
    struct cop_row *rows = drafting->rows + drafting->first_row;
    for (int32_t i = 0; i < count; i++) {
        rows[i] = (struct cop_row){.kind = COP_ROW_NONE};
    }
    *frontier = (struct cop_frontier){.sequence = sequence,
                                      .tree = &drafting->tree,
                                      .nodes = drafting->frontier,
                                      .count = drafting->n_frontier,
                                      .rows = rows};
    return COP_OK;
}

bool cop_frontier_offers(const struct cop_frontier *frontier, int32_t n_drafters)
{
    bool offers = false;
    for (int32_t i = 0; i < frontier->count * n_drafters; i++) {
        offers |= frontier->rows[i].kind != COP_ROW_NONE;
    }
    return offers;
}

enum cop_status cop_frontier_row(struct cop_frontier *frontier, int32_t i, float *logits,
                                 const struct cop_row_tokens *tokens,
                                 const struct cop_sampling *sampling,
                                 struct cop_row_arena *arena, struct cop_error *err)
{
    struct cop_error reason = {0};
    enum cop_status status = COP_OK;
    if (frontier->process && cop_argmax(logits, tokens->vocab) >= 0) {
        status =
            frontier->process(frontier->process_context, frontier->nodes[i], logits, &reason);
    }
    if (status == COP_ERR_NUMERIC) {
        frontier->rows[i] = (struct cop_row){.kind = COP_ROW_NONE};
        return COP_OK;
    }
    return status == COP_OK
               ? cop_row_from_listed(&frontier->rows[i], logits, tokens, sampling, arena, err)
               : cop_fail(err, status, "%s", reason.text);
}

/* Normalises the frontier's rows; *found: whether any of them proposes something. */
static enum cop_status ready_rows(struct cop_drafting *drafting, bool *found,
                                  struct cop_error *err)
{
    struct cop_row *rows = drafting->rows + drafting->first_row;
    enum cop_status status = COP_OK;
    *found = false;
    int32_t count = drafting->n_frontier * rows_per_node(drafting);
    for (int32_t i = 0; i < count && status == COP_OK; i++) {
        *found |= rows[i].kind != COP_ROW_NONE;
        if (rows[i].kind == COP_ROW_LOGITS) {
            status = cop_row_normalise(&rows[i], drafting->arena, err);
        }
    }
    return status;
}

static enum cop_status grow_chain(struct cop_grow *grow)
{
    for (int32_t i = 0; i < grow->n_frontier; i++) {
        (void)cop_grow_draw(grow, i, 1);
    }
    return COP_OK;
}

enum cop_status cop_drafting_grow(struct cop_drafting *drafting, const struct cop_part *builder,
                                  const struct cop_draws *draws, struct cop_error *err)
{
    bool found = false;
    enum cop_status status = ready_rows(drafting, &found, err);
    if (status != COP_OK || !found) {
        drafting->n_frontier = 0;
        return status;
    }
    struct cop_grow grow = {.tree = &drafting->tree,
                            .draws = draws,
                            .level = drafting->depth + 1,
                            .frontier = drafting->frontier,
                            .rows = drafting->rows + drafting->first_row,
                            .first_row = drafting->first_row,
                            .n_frontier = drafting->n_frontier,
                            .budget = drafting->tree.capacity - drafting->scout_room -
                                      drafting->tree.size,
                            .next = drafting->next,
                            .n_drafters = drafting->n_drafters,
                            .scores = drafting->scores,
                            .position = drafting->position,
                            .shares_noise = drafting->shares_noise,
                            .may_stop = drafting->may_stop};
    int32_t size = drafting->tree.size;
    if (builder) {
        const struct cop_builder_ops *ops = (const struct cop_builder_ops *)builder->plug;
        status = ops->grow(builder->state, &grow, err);
    } else {
        status = grow_chain(&grow);
    }
    if (status == COP_OK && draws->error && draws->error->code != COP_OK) {
        status = cop_fail(err, draws->error->code, "%s", draws->error->text);
    }
    drafting->next = drafting->frontier;
    drafting->frontier = grow.next;
    drafting->n_frontier = grow.n_next;
    drafting->depth += drafting->tree.size > size;
    return status;
}

void cop_drafting_finish(struct cop_drafting *drafting, const struct cop_part *builder)
{
    const struct cop_builder_ops *ops =
        builder ? (const struct cop_builder_ops *)builder->plug : NULL;
    struct cop_tree *tree = &drafting->tree;
    if (!ops || !ops->select || tree->size < 2) {
        return;
    }
    memset(drafting->keep, 1, (size_t)tree->size);
    ops->select(builder->state, tree, drafting->scores, drafting->keep);
    cop_tree_keep(tree, drafting->keep);
    for (int32_t node = 1; node < tree->size; node++) {
        drafting->scores[node] = drafting->scores[tree->drafted[node]];
    }
}

struct cop_tree cop_drafting_tree(const struct cop_drafting *drafting)
{
    struct cop_tree tree = drafting->tree;
    tree.size -= drafting->n_scouts;
    return tree;
}

static const struct cop_row *recorded_row(const struct cop_drafting *drafting, int32_t node)
{
    int32_t row = drafting->tree.draft_row[node];
    if (row < 0 || drafting->rows[row].kind == COP_ROW_NONE) {
        return NULL;
    }
    return &drafting->rows[row];
}

static const struct cop_row *row_of(void *context, int32_t node)
{
    return recorded_row(context, node);
}

struct cop_rows cop_drafting_rows(struct cop_drafting *drafting)
{
    return (struct cop_rows){.at = row_of, .context = drafting};
}

double cop_drafting_probability(const struct cop_drafting *drafting, int32_t node)
{
    const struct cop_row *row = recorded_row(drafting, node);
    cop_token token = drafting->tree.token[node];
    if (!row) {
        return (double)NAN;
    }
    if (row->kind != COP_ROW_POINTS) {
        return cop_row_probability(row, token);
    }
    for (int32_t i = 0; row->weights && i < row->count; i++) {
        if (row->ids[i] == token) {
            return row->weights[i];
        }
    }
    return (double)NAN;
}
