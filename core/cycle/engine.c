/* A step of the engine: admission, then one cycle for everyone who is served.
 *
 * Phases work on `serving`, in the order of slots. Who fails or is cancelled in a phase drops
 * out of the list at its end (settle) and is retired after the cycle; the others never notice.
 * A phase returns a status other than COP_OK only for what ends the whole engine. */
#include "core/cycle/engine_state.h"

#include "kernels/ops.h"
#include <math.h>
#include <time.h>

static double clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

void cop_stopwatch_lap(struct cop_stopwatch *watch, double *lap)
{
    double now = clock_us();
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

/* ---- Propose ---------------------------------------------------------------------------- */

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

const char *cop_undrafted_name(enum cop_undrafted undrafted)
{
    switch (undrafted) {
    case COP_UNDRAFTED_NOTHING: return "nothing";
    case COP_UNDRAFTED_OVER: return "over";
    case COP_UNDRAFTED_LENGTH: return "length";
    case COP_UNDRAFTED_LIMIT: return "limit";
    case COP_UNDRAFTED_NOT: break;
    }
    return NULL;
}

/* Drafting ends before the proposer is asked: who would not? */
static void note_stop(struct cop_sequence *sequence)
{
    const struct cop_drafting *drafting = &sequence->drafting;
    if (drafting->tree.size == 1 && drafting->n_frontier > 0) {
        sequence->undrafted =
            drafting->max_depth > 0 ? COP_UNDRAFTED_LENGTH : COP_UNDRAFTED_LIMIT;
    }
}

/* The proposer was asked, and the tree is a lone root. */
static void note_nothing(const struct cop_engine *engine, struct cop_sequence *sequence)
{
    const struct cop_proposer_ops *ops = engine->plan.proposer_ops;
    if (sequence->drafting.tree.size == 1 && sequence->undrafted == COP_UNDRAFTED_NOT) {
        bool is_over = ops->is_over && ops->is_over(engine->session, sequence->slot);
        sequence->undrafted = is_over ? COP_UNDRAFTED_OVER : COP_UNDRAFTED_NOTHING;
    }
}

/* Whether the length policy wants another level; it sees rows that are there already. */
static bool is_wanted(const struct cop_engine *engine, struct cop_sequence *sequence,
                      bool is_offered)
{
    const struct cop_plan *plan = &engine->plan;
    const struct cop_proposer_ops *ops = plan->proposer_ops;
    const struct cop_length_memory memory = {
        .state = sequence->length_state,
        .shared = engine->length_state,
        .acceptance = sequence->acceptance,
        .last = sequence->cycle > 0 ? &sequence->last : NULL,
        .is_offered = is_offered,
        .n_matched =
            plan->offer && ops->matched ? ops->matched(engine->session, sequence->slot) : 0};
    return cop_drafting_is_wanted(&sequence->drafting, plan->length, &memory);
}

static void stop_drafting(struct cop_sequence *sequence)
{
    note_stop(sequence);
    cop_drafting_stop(&sequence->drafting);
}

/* The frontiers of everyone who drafts one more level. */
static void gather_frontiers(struct cop_engine *engine)
{
    engine->n_asked = 0;
    for (int32_t i = 0; i < engine->n_serving; i++) {
        struct cop_sequence *sequence = engine->serving[i];
        struct cop_error err = {0};
        if (!cop_drafting_has_room(&sequence->drafting) ||
            (!engine->plan.offer && !is_wanted(engine, sequence, false))) {
            stop_drafting(sequence);
            continue;
        }
        struct cop_frontier *frontier = &engine->frontiers[engine->n_asked];
        enum cop_status status =
            cop_drafting_ask(&sequence->drafting, sequence->slot, frontier, &err);
        if (status != COP_OK) {
            cop_sequence_fail(sequence, status, &err);
            continue;
        }
        frontier->n_places =
            cop_builder_places(engine->plan.builder, sequence->drafting.depth + 1);
        frontier->error = &sequence->error;
        cop_sequence_lend_processors(sequence, frontier);
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

/* Rows that cost next to nothing; the length policy sees them, and those stop that it wants no
 * further level of. Where all rows are cheap and there is none, there is nothing to decide. */
static enum cop_status offer_rows(struct cop_engine *engine, struct cop_error *err)
{
    const struct cop_plan *plan = &engine->plan;
    enum cop_status status =
        plan->offer(engine->session, engine->frontiers, engine->n_asked, err);
    int32_t n = 0;
    for (int32_t i = 0; i < engine->n_asked && status == COP_OK; i++) {
        struct cop_sequence *sequence = engine->asked[i];
        bool is_offered = cop_frontier_offers(&engine->frontiers[i], plan->n_drafters);
        if (cop_sequence_is_out(sequence)) {
            continue;
        }
        if ((is_offered || !plan->is_cheap) && !is_wanted(engine, sequence, is_offered)) {
            stop_drafting(sequence);
            continue;
        }
        engine->asked[n] = sequence;
        engine->frontiers[n++] = engine->frontiers[i];
    }
    engine->n_asked = status == COP_OK ? n : engine->n_asked;
    return status;
}

static enum cop_status make_rows(struct cop_engine *engine, struct cop_error *err)
{
    const struct cop_plan *plan = &engine->plan;
    enum cop_status status = plan->offer ? offer_rows(engine, err) : COP_OK;
    return status == COP_OK && !plan->is_cheap && engine->n_asked > 0
               ? plan->proposer_ops->expand(engine->session, engine->frontiers, engine->n_asked,
                                            err)
               : status;
}

static void grow_level(struct cop_engine *engine)
{
    struct cop_error err = {0};
    enum cop_status status = make_rows(engine, &err);
    if (status != COP_OK) {
        fail_asked(engine, status, &err);
    }
    for (int32_t i = 0; i < engine->n_asked; i++) {
        struct cop_sequence *sequence = engine->asked[i];
        if (!cop_sequence_is_out(sequence)) {
            status = cop_drafting_grow(&sequence->drafting, engine->plan.builder,
                                       &sequence->draws, &err);
            cop_sequence_fail(sequence, status, &err);
        }
    }
    cop_engine_settle(engine);
}

/* Below the root, as far as the context reaches. Where there is no draft because the length
 * policy would have none, or the answer ends, scouts would cost a draft's pass for nothing. */
static void send_scouts(struct cop_engine *engine)
{
    const struct cop_plan *plan = &engine->plan;
    for (int32_t i = 0; plan->n_scouts > 0 && i < engine->n_serving; i++) {
        struct cop_sequence *sequence = engine->serving[i];
        struct cop_drafting *drafting = &sequence->drafting;
        int32_t size = drafting->tree.size;
        if (sequence->undrafted == COP_UNDRAFTED_NOT ||
            sequence->undrafted == COP_UNDRAFTED_NOTHING) {
            plan->proposer_ops->scout(engine->session, sequence->slot, &drafting->tree,
                                      plan->env.context - 1 - sequence->context_length);
            drafting->n_scouts = drafting->tree.size - size;
        }
    }
}

/* What a proposer that shares the target's cache left in it. */
static void drop_drafted_slots(struct cop_engine *engine)
{
    for (int32_t i = 0; i < engine->plan.batch; i++) {
        if (cop_cache_speculative(engine->cache, i) > 0) {
            cop_cache_rollback(engine->cache, i);
        }
    }
}

static void propose(struct cop_engine *engine)
{
    if (engine->plan.proposer) {
        for (gather_frontiers(engine); engine->n_asked > 0; gather_frontiers(engine)) {
            grow_level(engine);
        }
        for (int32_t i = 0; i < engine->n_serving; i++) {
            cop_drafting_finish(&engine->serving[i]->drafting, engine->plan.builder);
            note_nothing(engine, engine->serving[i]);
        }
        send_scouts(engine);
        drop_drafted_slots(engine);
    }
    cop_stopwatch_lap(&engine->watch, &engine->watch.draft);
}

/* ---- Verify ----------------------------------------------------------------------------- */

static enum cop_status verify_one(const struct cop_plan *plan, struct cop_sequence *sequence,
                                  struct cop_error *err)
{
    const struct cop_tree tree = cop_drafting_tree(&sequence->drafting);
    struct cop_verify_in in = {
        .tree = &tree,
        .target = cop_sequence_target(sequence),
        .draft = cop_drafting_rows(&sequence->drafting),
        .draws = &sequence->draws,
        .sequence_state = plan->rule_ops->sequence_state_size > 0 ? sequence->rule_state : NULL,
        .position = sequence->drafting.position};
    enum cop_status status =
        plan->rule_ops->verify(plan->rule->state, &in, &sequence->verdict, err);
    if (status != COP_OK || sequence->error.code != COP_OK) {
        return status; /* a row that is no law has set sequence->error */
    }
    status =
        cop_rule_check(plan->rule_ops, &in, &sequence->verdict, &sequence->draw_error, err);
    if (status == COP_OK) {
        cop_sequence_cut_verdict(sequence);
    }
    return status;
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

/* ---- Commit ----------------------------------------------------------------------------- */

/* K and V of the root and of what was accepted stay; visible output follows. */
static void commit_one(struct cop_engine *engine, struct cop_sequence *sequence)
{
    int64_t moved = cop_cache_usage(engine->cache).bytes_moved;
    int32_t pages =
        (sequence->context_length + sequence->drafting.tree.size + COP_PAGE_SLOTS - 1) /
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

/* ---- Observe ---------------------------------------------------------------------------- */

static void teach(struct cop_engine *engine, struct cop_sequence *sequence)
{
    const struct cop_plan *plan = &engine->plan;
    const struct cop_stopwatch *watch = &engine->watch;
    double share = 1e-6 / engine->n_serving;
    cop_sequence_learn(
        sequence, &(struct cop_length_cycle){
                      .draft_seconds = share * watch->draft,
                      .score_seconds = share * watch->score,
                      .host_seconds = share * (watch->verify + watch->commit + watch->other),
                      .shared_state = engine->length_state});
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
        sequence->draft_logprob[node] = isnan(probability) ? probability : cop_log(probability);
    }
}

static double foreign_reading(const struct cop_engine *engine)
{
    return engine->plan.foreign_us ? *engine->plan.foreign_us : 0;
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
    const struct cop_tree tree = cop_drafting_tree(&sequence->drafting);
    struct cop_cycle cycle = {.request = request->id,
                              .sequence = sequence->slot,
                              .cycle = sequence->cycle,
                              .tree = &tree,
                              .draft_logprob = sequence->draft_logprob,
                              .accepted = sequence->verdict.accepted,
                              .n_accepted = sequence->verdict.n_accepted,
                              .undrafted = sequence->undrafted,
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

static void show_rows(struct cop_sequence *sequence)
{
    const struct cop_request *request = &sequence->ticket->request;
    const struct cop_tree tree = cop_drafting_tree(&sequence->drafting);
    const struct cop_cycle_rows rows = {.tree = &tree,
                                        .target = cop_sequence_target(sequence),
                                        .draft = cop_drafting_rows(&sequence->drafting),
                                        .accepted = sequence->verdict.accepted,
                                        .n_accepted = sequence->verdict.n_accepted,
                                        .last = sequence->verdict.last,
                                        .context_length = sequence->context_length,
                                        .room = cop_sequence_room(sequence)};
    struct cop_error err = {0};
    enum cop_status status = request->on_rows(request->user, &rows, &err);
    cop_sequence_fail(sequence, status, &err);
}

/* What was committed is reported, also where the proposer failed to learn from it. */
static void observe(struct cop_engine *engine)
{
    struct cop_stopwatch *watch = &engine->watch;
    for (int32_t i = 0; i < engine->n_serving; i++) {
        if (engine->serving[i]->ticket->request.on_rows) {
            show_rows(engine->serving[i]);
            watch->since = clock_us();
        }
    }
    for (int32_t i = 0; i < engine->n_serving; i++) {
        if (engine->serving[i]->ticket->request.on_cycle) {
            fill_draft_logprobs(engine->serving[i]); /* rows are gone once it was taught */
        }
        teach(engine, engine->serving[i]);
    }
    cop_stopwatch_lap(watch, &watch->other);
    double foreign_us = foreign_reading(engine) - watch->foreign;
    for (int32_t i = 0; i < engine->n_serving; i++) {
        report(engine, engine->serving[i], foreign_us);
    }
    watch->draft = watch->score = watch->verify = watch->commit = watch->other = 0;
}

/* ---- The cycle -------------------------------------------------------------------------- */

static enum cop_status cycle(struct cop_engine *engine, struct cop_error *err)
{
    engine->watch.foreign = foreign_reading(engine); /* what ran between cycles is nobody's */
    start(engine);
    propose(engine);
    enum cop_status status = cop_engine_score(engine, err);
    if (status != COP_OK) {
        return status;
    }
    verify(engine);
    commit(engine);
    observe(engine);
    return COP_OK;
}

int32_t cop_engine_active(const struct cop_engine *engine)
{
    int32_t n = engine->n_queued;
    for (int32_t i = 0; i < engine->plan.batch; i++) {
        n += engine->sequences[i].ticket != NULL;
    }
    return n;
}

enum cop_status cop_engine_step(struct cop_engine *engine, int32_t *active,
                                struct cop_error *err)
{
    engine->watch.since = clock_us(); /* what the caller did in between is nobody's */
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
    *active = cop_engine_active(engine);
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
