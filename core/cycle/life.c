/* Making and freeing an engine. */
#include "core/cycle/engine_state.h"

#include <stdlib.h>

static enum cop_status make_sequences(struct cop_engine *engine, struct cop_error *err)
{
    size_t batch = (size_t)engine->plan.batch;
    engine->sequences = calloc(batch, sizeof *engine->sequences);
    engine->serving = calloc(batch, sizeof *engine->serving);
    engine->frontiers = calloc(batch, sizeof *engine->frontiers);
    engine->asked = calloc(batch, sizeof *engine->asked);
    engine->arena = cop_row_arena_new();
    if (!engine->sequences || !engine->serving || !engine->frontiers || !engine->asked ||
        !engine->arena) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a batch of %d", engine->plan.batch);
    }
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < engine->plan.batch && status == COP_OK; i++) {
        status = cop_sequence_init(&engine->sequences[i], i, &engine->plan, engine->arena, err);
    }
    return status;
}

static enum cop_status make_length_state(struct cop_engine *engine, struct cop_error *err)
{
    const struct cop_length_ops *ops = engine->plan.length_ops;
    size_t size = ops ? ops->shared_state_size : 0;
    engine->length_state = size > 0 ? calloc(1, size) : NULL;
    return size == 0 || engine->length_state
               ? COP_OK
               : cop_fail(err, COP_ERR_MEMORY, "no memory for a length policy");
}

enum cop_status cop_engine_new(struct cop_engine **out,
                               const struct cop_engine_options *options, struct cop_error *err)
{
    *out = NULL;
    struct cop_engine *engine = calloc(1, sizeof *engine);
    if (!engine) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for an engine");
    }
    enum cop_status status = cop_plan_make(&engine->plan, options, err);
    if (status == COP_OK) {
        status = cop_model_cache_new(engine->plan.target, engine->plan.batch,
                                     engine->plan.n_slots, &engine->cache, err);
        engine->plan.env.cache = engine->cache;
    }
    if (status == COP_OK) {
        status = cop_plan_open(&engine->plan, &engine->session, err);
    }
    if (status == COP_OK) {
        status = make_length_state(engine, err);
    }
    if (status == COP_OK) {
        status = make_sequences(engine, err);
    }
    if (status != COP_OK) {
        cop_engine_free(engine);
        return status;
    }
    engine->watch.foreign = engine->plan.foreign_us ? *engine->plan.foreign_us : 0;
    *out = engine;
    return COP_OK;
}

/* As many prompts as both serve at once, and one more while they are changed. */
enum cop_status cop_engine_share(struct cop_engine *engine, struct cop_engine *with,
                                 struct cop_error *err)
{
    if (engine->plan.target != with->plan.target) {
        return cop_fail(err, COP_ERR_ARGUMENT, "engines of different targets share no prompts");
    }
    if (!with->prompts) {
        int32_t batch =
            engine->plan.batch > with->plan.batch ? engine->plan.batch : with->plan.batch;
        enum cop_status status =
            cop_prompts_new(&with->prompts, with->plan.target, batch + 1, err);
        if (status != COP_OK) {
            return status;
        }
    }
    if (engine != with) {
        cop_prompts_free(engine->prompts);
        engine->prompts = cop_prompts_share(with->prompts);
    }
    return COP_OK;
}

enum cop_status cop_engine_forget(struct cop_engine *engine, struct cop_error *err)
{
    if (cop_engine_active(engine) > 0) {
        return cop_fail(err, COP_ERR_ARGUMENT, "the engine has requests to serve");
    }
    cop_plan_close(&engine->plan, engine->session);
    return cop_plan_open(&engine->plan, &engine->session, err);
}

static void free_queue(struct cop_engine *engine)
{
    while (engine->first) {
        struct cop_ticket *ticket = engine->first;
        engine->first = ticket->next;
        cop_ticket_free(ticket);
    }
}

void cop_engine_free(struct cop_engine *engine)
{
    if (!engine) {
        return;
    }
    for (int32_t i = 0; engine->sequences && i < engine->plan.batch; i++) {
        if (engine->sequences[i].has_begun) {
            engine->plan.proposer_ops->end(engine->session, i);
        }
        cop_sequence_release(&engine->sequences[i]);
    }
    free_queue(engine);
    cop_plan_close(&engine->plan, engine->session);
    cop_plan_release(&engine->plan);
    cop_prompts_free(engine->prompts);
    cop_cache_free(engine->cache);
    cop_row_arena_free(engine->arena);
    free(engine->sequences);
    free(engine->serving);
    free(engine->length_state);
    free(engine->frontiers);
    free(engine->asked);
    free(engine->tokens);
    free(engine->logits);
    free(engine->hidden);
    free(engine->sequence_hidden);
    free(engine);
}

const struct cop_engine_facts *cop_engine_facts(const struct cop_engine *engine)
{
    return &engine->plan.facts;
}

struct cop_cache_usage cop_engine_usage(const struct cop_engine *engine)
{
    return cop_cache_usage(engine->cache);
}
