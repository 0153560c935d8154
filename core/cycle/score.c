/* The score phase: one forward pass of the target over every node of every tree.
 *
 * Trees lie one after another, in the order of slots. The cache holds no speculative slots when
 * a cycle begins, so node i of a tree gets speculative slot i of its sequence. */
#include "core/cycle/engine_state.h"

#include <stdlib.h>
#include <string.h>

/* Reserving keeps no contents. */
static enum cop_status reserve_tokens(struct cop_engine *engine, int32_t n,
                                      struct cop_error *err)
{
    if (n <= engine->token_capacity) {
        return COP_OK;
    }
    free(engine->tokens);
    engine->token_capacity = 0;
    engine->tokens = malloc(3 * (size_t)n * sizeof *engine->tokens);
    if (!engine->tokens) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to score %d tokens", n);
    }
    engine->slots = engine->tokens + n;
    engine->parents = engine->slots + n;
    engine->token_capacity = n;
    return COP_OK;
}

static bool reserve_floats(float **floats, size_t *capacity, size_t count)
{
    if (count <= *capacity) {
        return true;
    }
    free(*floats);
    *floats = malloc(count * sizeof **floats);
    *capacity = *floats ? count : 0;
    return *floats != NULL;
}

/* A proposer may be anybody's code: an id that no row of the embedding has ends the request
 * that it was drafted for, not the pass. */
static void check_drafts(struct cop_engine *engine)
{
    int32_t vocab = engine->plan.env.vocab_size;
    for (int32_t i = 0; i < engine->n_serving; i++) {
        const struct cop_tree *tree = &engine->serving[i]->drafting.tree;
        for (int32_t node = 1; node < tree->size; node++) {
            if (tree->token[node] < 0 || tree->token[node] >= vocab) {
                struct cop_error err;
                enum cop_status status =
                    cop_fail(&err, COP_ERR_ARGUMENT,
                             "\"%s\" drafted token %d, which is outside the vocabulary of %d",
                             engine->plan.proposer->plug->name, tree->token[node], vocab);
                cop_sequence_fail(engine->serving[i], status, &err);
            }
        }
    }
    cop_engine_settle(engine);
}

static enum cop_status gather_tokens(struct cop_engine *engine, struct cop_error *err)
{
    const struct cop_plan *plan = &engine->plan;
    int32_t n = 0;
    for (int32_t i = 0; i < engine->n_serving; i++) {
        n += engine->serving[i]->drafting.tree.size;
    }
    enum cop_status status = reserve_tokens(engine, n, err);
    if (status != COP_OK) {
        return status;
    }
    size_t vocab = (size_t)plan->env.vocab_size;
    if (!reserve_floats(&engine->logits, &engine->logits_capacity, (size_t)n * vocab)) {
        return cop_fail(err, COP_ERR_MEMORY,
                        "no memory for %d rows of logits; lower the batch or the tree", n);
    }
    engine->n_scored = 0;
    for (int32_t i = 0; i < engine->n_serving; i++) {
        struct cop_sequence *sequence = engine->serving[i];
        const struct cop_tree *tree = &sequence->drafting.tree;
        sequence->logits = engine->logits + (size_t)engine->n_scored * vocab;
        for (int32_t node = 0; node < tree->size; node++, engine->n_scored++) {
            engine->tokens[engine->n_scored] = tree->token[node];
            engine->parents[engine->n_scored] = tree->parent[node];
            engine->slots[engine->n_scored] = sequence->slot;
        }
    }
    return COP_OK;
}

static enum cop_status reserve_hidden(struct cop_engine *engine, struct cop_error *err)
{
    size_t width = (size_t)cop_model_info(engine->plan.target)->hidden_size;
    size_t count = (size_t)engine->plan.n_hidden * (size_t)engine->n_scored * width;
    size_t capacity = engine->hidden_capacity;
    if (!reserve_floats(&engine->hidden, &capacity, count) ||
        !reserve_floats(&engine->sequence_hidden, &engine->hidden_capacity, count)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for hidden states");
    }
    return COP_OK;
}

/* From [layer, token of the batch] to [sequence][layer, node]. */
static void share_hidden(struct cop_engine *engine)
{
    size_t width = (size_t)cop_model_info(engine->plan.target)->hidden_size;
    float *to = engine->sequence_hidden;
    size_t first = 0, n_scored = (size_t)engine->n_scored;
    for (int32_t i = 0; i < engine->n_serving; i++) {
        struct cop_sequence *sequence = engine->serving[i];
        size_t n_nodes = (size_t)sequence->drafting.tree.size;
        sequence->hidden = to;
        for (size_t layer = 0; layer < (size_t)engine->plan.n_hidden; layer++) {
            memcpy(to, engine->hidden + (layer * n_scored + first) * width,
                   n_nodes * width * sizeof *to);
            to += n_nodes * width;
        }
        first += n_nodes;
    }
}

/* The model looks at one flag between layers: the engine's, or that of a request served alone.
 */
static const atomic_bool *cancel_flag(const struct cop_engine *engine)
{
    if (engine->plan.cancel || engine->n_serving > 1) {
        return engine->plan.cancel;
    }
    return engine->serving[0]->ticket->request.cancel;
}

static void cancel_serving(struct cop_engine *engine)
{
    for (int32_t i = 0; i < engine->n_serving; i++) {
        engine->serving[i]->is_cancelled = true;
    }
    cop_engine_settle(engine);
}

enum cop_status cop_engine_score(struct cop_engine *engine, struct cop_error *err)
{
    const struct cop_plan *plan = &engine->plan;
    check_drafts(engine);
    enum cop_status status = gather_tokens(engine, err);
    if (status == COP_OK && plan->n_hidden > 0) {
        status = reserve_hidden(engine, err);
    }
    if (status != COP_OK || engine->n_scored == 0) {
        return status;
    }
    struct cop_score pass = {.n = engine->n_scored,
                             .tokens = engine->tokens,
                             .sequences = engine->slots,
                             .parents = engine->parents,
                             .logits = engine->logits,
                             .hidden_layers = plan->hidden_layers,
                             .n_hidden = plan->n_hidden,
                             .hidden = engine->hidden,
                             .cancel = cancel_flag(engine)};
    status = cop_model_score(plan->target, engine->cache, &pass, err);
    if (status == COP_ERR_CANCELLED) {
        cancel_serving(engine);
        status = COP_OK;
    } else if (status == COP_OK && plan->n_hidden > 0) {
        share_hidden(engine);
    }
    cop_stopwatch_lap(&engine->watch, &engine->watch.score);
    return status;
}
