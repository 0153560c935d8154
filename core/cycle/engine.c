/* A step of the engine: admission, then one cycle for everyone who is served.
 *
 * Phases work on `serving`, in the order of slots. Who fails or is cancelled in a phase drops
 * out of the list at its end (settle) and is retired after the cycle; the others never notice.
 * A phase returns a status other than COP_OK only for what ends the whole engine. */
#include "core/cycle/engine_state.h"

#include "kernels/ops.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double cop_clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

void cop_stopwatch_lap(struct cop_stopwatch *watch, double *lap)
{
    double now = cop_clock_us();
    *lap += now - watch->since;
    watch->since = now;
}

void cop_engine_settle(struct cop_engine *engine)
{
    int32_t n = 0;
    for (int32_t i = 0; i < engine->n_serving; i++) {
        if (!cop_sequence_is_out(engine->serving[i])) {
            engine->serving[n++] = engine->serving[i];
        }
    }
    engine->n_serving = n;
}

static void cancel_serving(struct cop_engine *engine)
{
    for (int32_t i = 0; i < engine->n_serving; i++) {
        engine->serving[i]->is_cancelled = true;
    }
    cop_engine_settle(engine);
}

/* ---- Propose
 * --------------------------------------------------------------------------------- */

static void start(struct cop_engine *engine)
{
    cop_row_arena_reset(engine->arena);
    engine->n_serving = 0;
    for (int32_t i = 0; i < engine->plan.batch; i++) {
        struct cop_sequence *sequence = &engine->sequences[i];
        if (sequence->ticket) {
            cop_sequence_start(sequence);
            engine->serving[engine->n_serving++] = sequence;
        }
    }
}

/* The frontiers of everyone who drafts one more level. */
static void gather_frontiers(struct cop_engine *engine)
{
    const struct cop_plan *plan = &engine->plan;
    engine->n_asked = 0;
    for (int32_t i = 0; i < engine->n_serving; i++) {
        struct cop_sequence *sequence = engine->serving[i];
        struct cop_error err = {0};
        if (!cop_drafting_goes_on(&sequence->drafting, plan->length, sequence->length_state,
                                  sequence->acceptance)) {
            sequence->drafting.n_frontier = 0;
            continue;
        }
        struct cop_frontier *frontier = &engine->frontiers[engine->n_asked];
        enum cop_status status =
            cop_drafting_ask(&sequence->drafting, sequence->slot, frontier, &err);
        if (status != COP_OK) {
            cop_sequence_fail(sequence, status, &err);
            continue;
        }
        frontier->error = &sequence->error;
        engine->asked[engine->n_asked++] = sequence;
    }
    cop_engine_settle(engine);
}

/* A failed call cannot be laid to one sequence: everyone who asked fails. */
static void fail_asked(struct cop_engine *engine, enum cop_status status,
                       const struct cop_error *err)
{
    for (int32_t i = 0; i < engine->n_asked; i++) {
        if (status == COP_ERR_CANCELLED) {
            engine->asked[i]->is_cancelled = true;
        } else {
            cop_sequence_fail(engine->asked[i], status, err);
        }
    }
}

static void grow_level(struct cop_engine *engine)
{
    const struct cop_plan *plan = &engine->plan;
    struct cop_error err = {0};
    enum cop_status status =
        plan->proposer_ops->expand(engine->session, engine->frontiers, engine->n_asked, &err);
    if (status != COP_OK) {
        fail_asked(engine, status, &err);
    }
    for (int32_t i = 0; i < engine->n_asked; i++) {
        struct cop_sequence *sequence = engine->asked[i];
        if (!cop_sequence_is_out(sequence)) {
            status = cop_drafting_grow(&sequence->drafting, plan->builder, &sequence->draws,
                                       &err);
            cop_sequence_fail(sequence, status, &err);
        }
    }
    cop_engine_settle(engine);
}

static void propose(struct cop_engine *engine)
{
    if (engine->plan.proposer) {
        for (gather_frontiers(engine); engine->n_asked > 0; gather_frontiers(engine)) {
            grow_level(engine);
        }
    }
    cop_stopwatch_lap(&engine->watch, &engine->watch.draft);
}

/* ---- Score
 * ----------------------------------------------------------------------------------- */

static enum cop_status reserve_tokens(struct cop_engine *engine, int32_t n,
                                      struct cop_error *err)
{
    if (n <= engine->token_capacity) {
        return COP_OK;
    }
    size_t bytes = (size_t)n * sizeof(int32_t);
    cop_token *tokens = realloc(engine->tokens, bytes);
    engine->tokens = tokens ? tokens : engine->tokens;
    int32_t *slots = realloc(engine->slots, bytes);
    engine->slots = slots ? slots : engine->slots;
    int32_t *parents = realloc(engine->parents, bytes);
    engine->parents = parents ? parents : engine->parents;
    if (!tokens || !slots || !parents) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to score %d tokens", n);
    }
    engine->token_capacity = n;
    return COP_OK;
}

/* Contents are not kept. */
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

/* A proposer may be anybody's code: an id that no row of the embedding has ends the request that
 * it was drafted for, not the pass. */
static void check_drafts(struct cop_engine *engine)
{
    int32_t vocab = engine->plan.env.vocab_size;
    for (int32_t i = 0; i < engine->n_serving; i++) {
        const struct cop_tree *tree = &engine->serving[i]->drafting.tree;
        for (int32_t node = 1; node < tree->size; node++) {
            if (tree->token[node] < 0 || tree->token[node] >= vocab) {
                struct cop_error err;
                enum cop_status status = cop_fail(
                    &err, COP_ERR_ARGUMENT,
                    "\"%s\" drafted token %d, which is outside the vocabulary of %d",
                    engine->plan.proposer->plug->name, tree->token[node], vocab);
                cop_sequence_fail(engine->serving[i], status, &err);
            }
        }
    }
    cop_engine_settle(engine);
}

/* All trees one after another; node i of a tree gets speculative slot i of its sequence. */
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

static enum cop_status score(struct cop_engine *engine, struct cop_error *err)
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

/* ---- Verify
 * ---------------------------------------------------------------------------------- */

static enum cop_status verify_one(const struct cop_plan *plan, struct cop_sequence *sequence,
                                  struct cop_error *err)
{
    struct cop_verify_in in = {.tree = &sequence->drafting.tree,
                               .target = cop_sequence_target(sequence),
                               .draft = cop_drafting_rows(&sequence->drafting),
                               .draws = &sequence->draws,
                               .sequence_state = plan->rule_ops->sequence_state_size > 0
                                                     ? sequence->rule_state
                                                     : NULL};
    enum cop_status status =
        plan->rule_ops->verify(plan->rule->state, &in, &sequence->verdict, err);
    if (status != COP_OK || sequence->error.code != COP_OK) {
        return status; /* a row that is no law has set sequence->error */
    }
    if (sequence->draw_error.code != COP_OK) {
        return cop_fail(err, sequence->draw_error.code, "%s", sequence->draw_error.text);
    }
    return cop_verdict_check(&in, &sequence->verdict, err);
}

static void verify(struct cop_engine *engine)
{
    for (int32_t i = 0; i < engine->n_serving; i++) {
        struct cop_error err = {0};
        enum cop_status status = verify_one(&engine->plan, engine->serving[i], &err);
        cop_sequence_fail(engine->serving[i], status, &err);
    }
    cop_engine_settle(engine);
    cop_stopwatch_lap(&engine->watch, &engine->watch.verify);
}

/* ---- Commit
 * ---------------------------------------------------------------------------------- */

/* K and V of the root and of what was accepted stay; visible output follows. */
static void commit_one(struct cop_engine *engine, struct cop_sequence *sequence)
{
    int64_t moved = cop_cache_usage(engine->cache).bytes_moved;
    int32_t pages = (sequence->context_length + sequence->drafting.tree.size +
                     COP_PAGE_SLOTS - 1) /
                    COP_PAGE_SLOTS;
    if (pages > sequence->sums.peak_pages) {
        sequence->sums.peak_pages = pages;
    }
    cop_sequence_commit(sequence);
    cop_cache_commit(engine->cache, sequence->slot, sequence->path,
                     sequence->verdict.n_accepted + 1);
    sequence->kv_bytes_moved = cop_cache_usage(engine->cache).bytes_moved - moved;
}

static void commit(struct cop_engine *engine)
{
    for (int32_t i = 0; i < engine->n_serving; i++) {
        commit_one(engine, engine->serving[i]);
    }
    cop_engine_settle(engine);
    cop_stopwatch_lap(&engine->watch, &engine->watch.commit);
}

/* ---- Observe
 * --------------------------------------------------------------------------------- */

static void teach(struct cop_engine *engine, struct cop_sequence *sequence)
{
    const struct cop_plan *plan = &engine->plan;
    cop_sequence_learn(sequence);
    if (!plan->proposer) {
        return;
    }
    struct cop_error err = {0};
    struct cop_observed observed = {.sequence = sequence->slot,
                                    .cycle = sequence->cycle,
                                    .tree = &sequence->drafting.tree,
                                    .accepted = sequence->verdict.accepted,
                                    .n_accepted = sequence->verdict.n_accepted,
                                    .last = sequence->verdict.last,
                                    .committed = sequence->tokens,
                                    .target = cop_sequence_target(sequence),
                                    .hidden = plan->n_hidden > 0 ? sequence->hidden : NULL,
                                    .n_hidden = plan->n_hidden};
    enum cop_status status = plan->proposer_ops->observe(engine->session, &observed, &err);
    cop_sequence_fail(sequence, status, &err);
}

static void fill_draft_logprobs(struct cop_sequence *sequence)
{
    for (int32_t node = 0; node < sequence->drafting.tree.size; node++) {
        double probability = cop_drafting_probability(&sequence->drafting, node);
        sequence->draft_logprob[node] =
            isnan(probability) ? probability : cop_log(probability);
    }
}

static void report(struct cop_engine *engine, struct cop_sequence *sequence, double foreign_us)
{
    const struct cop_request *request = &sequence->ticket->request;
    const struct cop_stopwatch *watch = &engine->watch;
    struct cop_result *sums = &sequence->sums;
    double host_us = watch->verify + watch->commit + watch->other;
    sums->draft_seconds += watch->draft * 1e-6;
    sums->score_seconds += watch->score * 1e-6;
    sums->host_seconds += host_us * 1e-6;
    sums->seconds += (watch->draft + watch->score + host_us) * 1e-6;
    if (!request->on_cycle) {
        return;
    }
    struct cop_cycle cycle = {.request = request->id,
                              .sequence = sequence->slot,
                              .cycle = sequence->cycle,
                              .tree = &sequence->drafting.tree,
                              .draft_logprob = sequence->draft_logprob,
                              .accepted = sequence->verdict.accepted,
                              .n_accepted = sequence->verdict.n_accepted,
                              .last = sequence->verdict.last,
                              .origin = sequence->verdict.origin,
                              .progress = sequence->verdict.n_accepted + 1,
                              .kept = sequence->n_kept,
                              .context_length = sequence->context_length,
                              .tokens_scored = engine->n_scored,
                              .batch_size = engine->n_serving,
                              .kv_bytes_moved = sequence->kv_bytes_moved,
                              .draft_us = watch->draft,
                              .score_us = watch->score,
                              .verify_us = watch->verify,
                              .commit_us = watch->commit,
                              .other_us = watch->other,
                              .lua_us = foreign_us};
    struct cop_error err = {0};
    enum cop_status status = request->on_cycle(request->user, &cycle, &err);
    cop_sequence_fail(sequence, status, &err);
}

static void observe(struct cop_engine *engine)
{
    struct cop_stopwatch *watch = &engine->watch;
    for (int32_t i = 0; i < engine->n_serving; i++) {
        teach(engine, engine->serving[i]);
    }
    cop_engine_settle(engine);
    for (int32_t i = 0; i < engine->n_serving; i++) {
        if (engine->serving[i]->ticket->request.on_cycle) {
            fill_draft_logprobs(engine->serving[i]);
        }
    }
    cop_stopwatch_lap(watch, &watch->other);
    double reading = engine->plan.foreign_us ? *engine->plan.foreign_us : 0;
    double foreign_us = reading - watch->foreign;
    watch->foreign = reading;
    for (int32_t i = 0; i < engine->n_serving; i++) {
        report(engine, engine->serving[i], foreign_us);
    }
    watch->draft = watch->score = watch->verify = watch->commit = watch->other = 0;
}

/* ---- The cycle
 * ------------------------------------------------------------------------------- */

static enum cop_status cycle(struct cop_engine *engine, struct cop_error *err)
{
    start(engine);
    propose(engine);
    enum cop_status status = score(engine, err);
    if (status != COP_OK) {
        return status;
    }
    verify(engine);
    commit(engine);
    observe(engine);
    return COP_OK;
}

enum cop_status cop_engine_step(struct cop_engine *engine, int32_t *active,
                                struct cop_error *err)
{
    engine->watch.since = cop_clock_us(); /* what the caller did in between is nobody's */
    struct cop_error failure = {0};
    cop_engine_notice_cancel(engine);
    cop_engine_admit(engine);
    enum cop_status status = cycle(engine, &failure);
#ifdef COP_DEBUG
    if (status == COP_OK) {
        status = cop_engine_inspect(engine, &failure);
    }
#endif
    if (status != COP_OK) {
        cop_engine_fail(engine, &failure);
        *active = 0;
        return cop_fail(err, failure.code, "%s", failure.text);
    }
    cop_engine_retire(engine);
    *active = engine->n_queued;
    for (int32_t i = 0; i < engine->plan.batch; i++) {
        *active += engine->sequences[i].ticket != NULL;
    }
    cop_stopwatch_lap(&engine->watch, &engine->watch.other);
    return COP_OK;
}

enum cop_status cop_engine_run(struct cop_engine *engine, struct cop_error *err)
{
    int32_t active = 0;
    enum cop_status status = COP_OK;
    do {
        status = cop_engine_step(engine, &active, err);
    } while (status == COP_OK && active > 0);
    return status;
}
