/* What an engine holds, and which file does what to it. Private to the engine.
 *
 *     plan.c     what the options mean
 *     life.c     new, free
 *     admit.c    a request's way in (submit, queue, prefill) and out (retire)
 *     engine.c   a step: the cycle and its five phases
 *     score.c    the phase that calls the target
 *     inspect.c  debug builds: what must hold after every cycle */
#ifndef COP_CYCLE_ENGINE_STATE_H
#define COP_CYCLE_ENGINE_STATE_H

#include "core/cycle/prompts.h"
#include "core/cycle/sequence.h"

/* Where the time of the running cycle went, microseconds. Everything between two reports is
 * some cycle's: what follows a report counts for the next one. */
struct cop_stopwatch {
    double since; /* end of the last lap, of the monotonic clock */
    double draft, score, verify, commit, other;
    double foreign; /* reading of options.foreign_us when the cycle began */
};
/* The time since the last lap is added to *lap. */
void cop_stopwatch_lap(struct cop_stopwatch *watch, double *lap);

struct cop_engine {
    struct cop_plan plan;
    void *session;      /* of the proposer */
    void *length_state; /* of the length policy, over all requests; NULL: none */
    struct cop_cache *cache;
    struct cop_prompts *prompts; /* shared with other engines; NULL: none */
    struct cop_row_arena *arena;
    struct cop_sequence *sequences; /* [plan.batch] */
    /* Those that take part in the running cycle, by slot. */
    struct cop_sequence **serving;
    int32_t n_serving;
    struct cop_ticket *first, *last; /* the queue */
    int32_t n_queued;
    int32_t n_watched; /* of the queue: those with a cancel flag */
    int32_t reserved_pages;
    struct cop_stopwatch watch;

    /* One level of drafting. */
    struct cop_frontier *frontiers; /* [plan.batch] */
    struct cop_sequence **asked;    /* whose they are */
    int32_t n_asked;

    /* One forward pass, all sequences one after another; grown by need. */
    cop_token *tokens; /* owns the block that slots and parents lie in */
    int32_t *slots, *parents;
    int32_t n_scored, token_capacity;
    float *logits; /* [n_scored, vocab_size] */
    size_t logits_capacity;
    float *hidden; /* as scored, and by sequence */
    float *sequence_hidden;
    size_t hidden_capacity;
};

/* One pass over every node of every tree. A status other than COP_OK ends the engine; being
 * cancelled does not, it empties `serving`. */
enum cop_status cop_engine_score(struct cop_engine *engine, struct cop_error *err);

/* Requests queued or served. */
int32_t cop_engine_active(const struct cop_engine *engine);
/* Removes from `serving` who failed or was cancelled. */
void cop_engine_settle(struct cop_engine *engine);

/* Takes queued requests, in order, while slots and pages are free; prefills them. */
void cop_engine_admit(struct cop_engine *engine);
/* Cancels who wants it: requests whose flag is set, or everything. */
void cop_engine_notice_cancel(struct cop_engine *engine);
/* Ends every sequence that is over and delivers its result. */
void cop_engine_retire(struct cop_engine *engine);
/* Ends everything, queued requests included. */
void cop_engine_fail(struct cop_engine *engine, const struct cop_error *err);

/* Page accounting and lengths; with COPPICE_CHECK_KV=1 in the environment also that K and V of
 * every served sequence equal a fresh prefill, bit for bit. Called in debug builds. */
enum cop_status cop_engine_inspect(struct cop_engine *engine, struct cop_error *err);

#endif
