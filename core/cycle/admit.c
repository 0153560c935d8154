/* A request's way in and out: checked and copied when it is submitted, queued until a slot and
 * pages are free, prefilled, and retired when it is over.
 *
 * Pages are reserved on admission for the longest that the request can become, so a cycle never
 * runs out of them and no result depends on who else is served. */
#include "core/cycle/engine_state.h"
#include "core/cycle/prefill.h"

#include "kernels/ops.h"

/* ---- Submit ----------------------------------------------------------------------------- */

/* What a prompt leaves of the context, and of what is drafted behind the last token. */
static int32_t room_after(const struct cop_engine *engine, const struct cop_request *request)
{
    return engine->plan.env.context - engine->plan.n_behind - request->n_prompt;
}

/* Prompt and answer together never exceed the context. */
static int32_t answer_limit(const struct cop_engine *engine, const struct cop_request *request)
{
    int32_t room = room_after(engine, request);
    return request->max_tokens < room ? request->max_tokens : room;
}

/* Slots in the last cycle at most: everything committed but the root, and the whole tree. */
static int32_t pages_needed(const struct cop_engine *engine, const struct cop_request *request)
{
    int64_t slots = (int64_t)request->n_prompt - 1 + answer_limit(engine, request) - 1 +
                    engine->plan.n_slots;
    return (int32_t)((slots + COP_PAGE_SLOTS - 1) / COP_PAGE_SLOTS);
}

static enum cop_status check_ids(const cop_token *ids, int32_t count, int32_t vocab,
                                 const char *what, struct cop_error *err)
{
    for (int32_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= vocab) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "%s %d is id %d, which is outside the vocabulary of %d", what,
                            i + 1, ids[i], vocab);
        }
    }
    return COP_OK;
}

static enum cop_status check_numbers(const struct cop_request *request, int32_t vocab,
                                     struct cop_error *err)
{
    if (request->max_tokens < 1) {
        return cop_fail(err, COP_ERR_ARGUMENT, "max_tokens = %d: must be 1 or more",
                        request->max_tokens);
    }
    if (request->min_tokens < 0) {
        return cop_fail(err, COP_ERR_ARGUMENT, "min_tokens = %d: must be 0 or more",
                        request->min_tokens);
    }
    if (request->logprobs < -1 || request->logprobs > vocab) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "logprobs = %d: must be 0 to %d, the vocabulary, or -1 for none",
                        request->logprobs, vocab);
    }
    return COP_OK;
}

static enum cop_status check_prompt(const struct cop_engine *engine,
                                    const struct cop_request *request, struct cop_error *err)
{
    const struct cop_plan *plan = &engine->plan;
    if (request->n_prompt < 1) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "the prompt is empty: an answer needs at least one token to follow");
    }
    if (room_after(engine, request) < 1) {
        return cop_fail(err, COP_ERR_LIMIT,
                        "a prompt of %d tokens leaves no room in the context of %d; raise the "
                        "model's `context` or shorten it",
                        request->n_prompt, plan->env.context);
    }
    int32_t pages = cop_cache_usage(engine->cache).pages;
    if (pages_needed(engine, request) > pages) {
        return cop_fail(err, COP_ERR_LIMIT,
                        "the request may need %d cache pages (prompt %d, answer %d and tree %d "
                        "tokens, %d a page), the pool has %d; raise the model's `pages` or "
                        "lower max_tokens",
                        pages_needed(engine, request), request->n_prompt,
                        answer_limit(engine, request), plan->n_slots, COP_PAGE_SLOTS, pages);
    }
    return COP_OK;
}

static enum cop_status check_stops(const struct cop_engine *engine,
                                   const struct cop_request *request, struct cop_error *err)
{
    if (request->n_stop > 0 && !cop_model_tokenizer(engine->plan.target)) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "stop strings need text, and the model has no tokenizer; use "
                        "stop_tokens");
    }
    struct cop_stops stops;
    enum cop_status status =
        cop_stops_init(&stops, request->stop, request->stop_lengths, request->n_stop, err);
    cop_stops_release(&stops);
    return status;
}

static void put_last(struct cop_engine *engine, struct cop_ticket *ticket)
{
    *(engine->last ? &engine->last->next : &engine->first) = ticket;
    engine->last = ticket;
    engine->n_queued++;
    engine->n_watched += ticket->request.cancel != NULL;
}

static struct cop_ticket *take_first(struct cop_engine *engine)
{
    struct cop_ticket *ticket = engine->first;
    engine->first = ticket->next;
    engine->last = engine->first ? engine->last : NULL;
    engine->n_queued--;
    engine->n_watched -= ticket->request.cancel != NULL;
    ticket->next = NULL;
    return ticket;
}

enum cop_status cop_engine_submit(struct cop_engine *engine, const struct cop_request *request,
                                  void (*done)(void *user, struct cop_result *result),
                                  struct cop_error *err)
{
    int32_t vocab = engine->plan.env.vocab_size;
    enum cop_status status = check_numbers(request, vocab, err);
    if (status == COP_OK) {
        status = check_prompt(engine, request, err);
    }
    if (status == COP_OK) {
        status = check_ids(request->prompt, request->n_prompt, vocab, "prompt token", err);
    }
    if (status == COP_OK) {
        status =
            check_ids(request->stop_tokens, request->n_stop_tokens, vocab, "stop token", err);
    }
    if (status == COP_OK) {
        status = check_stops(engine, request, err);
    }
    if (status != COP_OK) {
        return status;
    }
    struct cop_ticket *ticket = cop_ticket_new(request);
    if (!ticket) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to queue a request");
    }
    ticket->done = done;
    put_last(engine, ticket);
    return COP_OK;
}

/* ---- Admit ------------------------------------------------------------------------------ */

static struct cop_sequence *free_slot(struct cop_engine *engine)
{
    for (int32_t i = 0; i < engine->plan.batch; i++) {
        if (!engine->sequences[i].ticket) {
            return &engine->sequences[i];
        }
    }
    return NULL;
}

static bool is_set(const atomic_bool *flag)
{
    return flag && atomic_load_explicit(flag, memory_order_relaxed);
}

/* Positions that two requests read alike. */
static int32_t common_positions(const struct cop_request *a, const struct cop_request *b)
{
    int32_t most = (a->n_prompt < b->n_prompt ? a->n_prompt : b->n_prompt) - 1, i = 0;
    while (i < most && a->prompt[i] == b->prompt[i]) {
        i++;
    }
    return i;
}

/* The mate whose prompt begins like this one for longest; *length is how long. */
static const struct cop_sequence *nearest_mate(const struct cop_engine *engine,
                                               const struct cop_sequence *sequence,
                                               int32_t *length)
{
    const struct cop_sequence *nearest = NULL;
    *length = 0;
    for (int32_t i = 0; i < engine->plan.batch; i++) {
        const struct cop_sequence *mate = &engine->sequences[i];
        int32_t common =
            mate->ticket && mate != sequence
                ? common_positions(&sequence->ticket->request, &mate->ticket->request)
                : 0;
        if (common > *length) {
            nearest = mate;
            *length = common;
        }
    }
    return nearest;
}

/* Positions that a mate has read are shared, those that another engine has read are copied,
 * whichever are more; *seconds is what reading them took. */
static int32_t known_positions(struct cop_engine *engine, const struct cop_sequence *sequence,
                               double *seconds)
{
    const struct cop_request *request = &sequence->ticket->request;
    int32_t n = request->n_prompt - 1, length, known = 0;
    const struct cop_sequence *mate = nearest_mate(engine, sequence, &length);
    *seconds = 0;
    if (engine->plan.n_hidden > 0) { /* the proposer needs the states of every position */
        return 0;
    }
    if (engine->prompts && length < n) {
        known = cop_prompts_take(engine->prompts, request->prompt, n, engine->cache,
                                 sequence->slot, seconds);
    }
    if (length <= known ||
        cop_cache_fork(engine->cache, mate->slot, sequence->slot, NULL) != COP_OK) {
        return known;
    }
    cop_cache_truncate(engine->cache, sequence->slot, length);
    *seconds = mate->sums.prefill_seconds * length / (mate->ticket->request.n_prompt - 1);
    return length;
}

/* The model looks at one of the two flags inside a chunk, at the other one in between. */
static enum cop_status prefill(struct cop_engine *engine, struct cop_sequence *sequence,
                               int32_t n_known, struct cop_error *err)
{
    const struct cop_plan *plan = &engine->plan;
    const struct cop_request *request = &sequence->ticket->request;
    const struct cop_prefill in = {.target = plan->target,
                                   .cache = engine->cache,
                                   .sequence = sequence->slot,
                                   .ids = request->prompt,
                                   .n = request->n_prompt,
                                   .n_known = n_known,
                                   .ops = plan->proposer_ops,
                                   .session = engine->session,
                                   .layers = plan->hidden_layers,
                                   .n_layers = plan->n_hidden,
                                   .cancel = plan->cancel ? plan->cancel : request->cancel,
                                   .between = request->cancel};
    enum cop_status status = COP_OK;
    if (plan->proposer) {
        status = plan->proposer_ops->begin(engine->session, sequence->slot, request->prompt,
                                           request->n_prompt, err);
        sequence->has_begun = true;
    }
    return status == COP_OK ? cop_prefill(&in, err) : status;
}

static void admit_one(struct cop_engine *engine, struct cop_sequence *sequence)
{
    struct cop_ticket *ticket = take_first(engine);
    struct cop_error err = {0};
    double prefill_us = 0, known_seconds = 0;
    cop_stopwatch_lap(&engine->watch, &engine->watch.other);
    cop_cache_reset(engine->cache, sequence->slot);
    int32_t pages = pages_needed(engine, &ticket->request);
    enum cop_status status =
        cop_sequence_begin(sequence, ticket, answer_limit(engine, &ticket->request), &err);
    sequence->reserved_pages = pages;
    engine->reserved_pages += pages;
    if (status == COP_OK) {
        int32_t n_known = known_positions(engine, sequence, &known_seconds);
        status = prefill(engine, sequence, n_known, &err);
    }
    cop_stopwatch_lap(&engine->watch, &prefill_us);
    sequence->sums.prefill_seconds = prefill_us * 1e-6 + known_seconds;
    if (status == COP_OK && engine->prompts) {
        const struct cop_request *request = &ticket->request;
        cop_prompts_keep(engine->prompts, request->prompt, request->n_prompt - 1, engine->cache,
                         sequence->slot, sequence->sums.prefill_seconds);
        cop_stopwatch_lap(&engine->watch, &prefill_us); /* nobody's */
    }
    if (status == COP_ERR_CANCELLED) {
        sequence->is_cancelled = true;
    } else {
        cop_sequence_fail(sequence, status, &err);
    }
    cop_engine_retire(engine);
}

void cop_engine_admit(struct cop_engine *engine)
{
    int32_t pages = cop_cache_usage(engine->cache).pages;
    for (;;) {
        struct cop_sequence *slot = free_slot(engine);
        if (!slot || !engine->first ||
            engine->reserved_pages + pages_needed(engine, &engine->first->request) > pages) {
            return;
        }
        admit_one(engine, slot);
    }
}

/* ---- Retire ----------------------------------------------------------------------------- */

static void retire_one(struct cop_engine *engine, struct cop_sequence *sequence)
{
    if (sequence->has_begun) {
        engine->plan.proposer_ops->end(engine->session, sequence->slot);
        sequence->has_begun = false;
    }
    cop_cache_reset(engine->cache, sequence->slot);
    engine->reserved_pages -= sequence->reserved_pages;
    cop_sequence_end(sequence);
}

void cop_engine_retire(struct cop_engine *engine)
{
    for (int32_t i = 0; i < engine->plan.batch; i++) {
        struct cop_sequence *sequence = &engine->sequences[i];
        if (sequence->ticket &&
            (cop_sequence_is_out(sequence) || sequence->answer.finish != COP_FINISH_NONE)) {
            retire_one(engine, sequence);
        }
    }
}

/* A request that never got a slot. */
static void deliver_unserved(struct cop_ticket *ticket, enum cop_finish finish,
                             const struct cop_error *err)
{
    struct cop_result result = {.request = ticket->request.id, .finish = finish};
    if (err) {
        result.error = *err;
    }
    void (*done)(void *, struct cop_result *) = ticket->done;
    void *user = ticket->request.user;
    cop_ticket_free(ticket);
    if (done) {
        done(user, &result);
    }
    cop_result_release(&result);
}

/* Queued requests that want to be cancelled leave the queue; the others keep their order. */
static void cancel_queued(struct cop_engine *engine, bool everything)
{
    for (int32_t n = engine->n_queued; n > 0; n--) {
        struct cop_ticket *ticket = take_first(engine);
        if (everything || is_set(ticket->request.cancel)) {
            deliver_unserved(ticket, COP_FINISH_CANCELLED, NULL);
            continue;
        }
        put_last(engine, ticket);
    }
}

void cop_engine_notice_cancel(struct cop_engine *engine)
{
    bool everything = is_set(engine->plan.cancel);
    for (int32_t i = 0; i < engine->plan.batch; i++) {
        struct cop_sequence *sequence = &engine->sequences[i];
        if (sequence->ticket && (everything || is_set(sequence->ticket->request.cancel))) {
            sequence->is_cancelled = true;
        }
    }
    cop_engine_retire(engine);
    if (everything || engine->n_watched > 0) {
        cancel_queued(engine, everything);
    }
}

void cop_engine_fail(struct cop_engine *engine, const struct cop_error *err)
{
    for (int32_t i = 0; i < engine->plan.batch; i++) {
        cop_sequence_fail(&engine->sequences[i], err->code, err);
    }
    cop_engine_retire(engine);
    for (int32_t n = engine->n_queued; n > 0; n--) {
        deliver_unserved(take_first(engine), COP_FINISH_ERROR, err);
    }
}
