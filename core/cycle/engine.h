/* The engine: serves a set of requests by repeating one cycle.
 *
 *     propose ──► score ──► verify ──► commit ──► observe       (cycle() of engine.c)
 *
 * A cycle serves every active sequence at once, each with its own tree, progress, coins and
 * stop conditions; one sequence is a batch of one. Prefill ends before the last prompt token,
 * which is the first root, so committed tokens = sum of progress. Results of a request never
 * depend on its batch mates, but for the tokens of a seed above temperature 0 where a proposer
 * or a policy learns from other requests: their law stays. Plain decoding is an engine without
 * a proposer: a lone root a cycle. */
#ifndef COP_CYCLE_ENGINE_H
#define COP_CYCLE_ENGINE_H

#include "core/cycle/contract/builder.h"
#include "core/cycle/contract/length.h"
#include "core/cycle/contract/observer.h"
#include "core/cycle/contract/proposer.h"
#include "core/cycle/contract/rule.h"
#include "core/cycle/rows/process.h"
#include "core/model/model.h"

struct cop_engine_options {
    struct cop_model *target;
    struct cop_part *proposer; /* NULL: plain decoding */
    struct cop_part *builder;  /* NULL: the proposer's own, else a chain of its own depth */
    struct cop_part *rule;     /* NULL: match at temperature 0, sample_match above (below) */
    struct cop_part *length;   /* NULL: everything */
    enum cop_draw draw;        /* AUTO: resolved, see cop_engine_facts */
    bool relaxed;
    struct cop_sampling sampling;
    struct cop_processing processing; /* penalties, bias, bans, a script's processor: of target
                                         rows; arrays and user lent while the engine lives */
    int32_t batch;                    /* sequences served together, 1 to 256 */
    /* where the defaults "chain", "match", "sample_match" are looked up */
    const struct cop_registry *registry;
    const atomic_bool *cancel; /* stops the whole engine; NULL: never */
    const double *foreign_us;  /* a counter of microseconds spent in a script's functions, read
                                  once a cycle (cop_cycle.lua_us); NULL: none */
};

/* What the engine made of its options: for checks, results and manifests. */
struct cop_engine_facts {
    enum cop_draw draw;
    enum cop_shape shape;
    bool is_lossless;
    bool remembers; /* the proposer: its drafts depend on earlier requests of the engine */
    const char *rule, *builder, *proposer, *length; /* names; NULL: none */
    int32_t depth, nodes;                           /* of a tree at most */
    int32_t vocab_size;                             /* of the target */
    size_t draft_bytes; /* of weights in memory that only drafting needs: of the proposer's
                           models, and of what it put on the target's device (heads) */
};

enum cop_finish {
    COP_FINISH_NONE,
    COP_FINISH_STOP,
    COP_FINISH_LENGTH,
    COP_FINISH_EOS,
    COP_FINISH_CANCELLED,
    COP_FINISH_ERROR
};
/* "stop", "length", "eos", "cancelled", "error" */
const char *cop_finish_name(enum cop_finish finish);

struct cop_logprob {
    cop_token id;
    double logprob; /* under the target's raw row: penalties and processors applied, before
                       temperature and truncation */
    cop_token *top; /* [n_top] best tokens, best first, with their log-probabilities */
    double *top_logprobs;
    int32_t n_top;
};

struct cop_request {
    const cop_token *prompt; /* [n_prompt], n_prompt >= 1; copied */
    int32_t n_prompt;
    uint64_t seed;
    uint32_t id;        /* names the request's coins; unique within a seed */
    int32_t max_tokens; /* >= 1 */
    /* tokens of the answer before which stops are ignored and end tokens cannot be sampled */
    int32_t min_tokens;
    const char *const *stop;    /* [n_stop] strings; the answer ends before the first one that
                                   appears in its text */
    const size_t *stop_lengths; /* [n_stop] bytes, zero bytes count; NULL: C strings */
    int32_t n_stop;
    const cop_token *stop_tokens; /* the answer ends before one of these */
    int32_t n_stop_tokens;
    bool ignore_eos;
    int32_t logprobs; /* best tokens to report per position; -1: no log-probabilities at all */
    /* optional: text that may be shown now (whole characters, never part of a stop string), and
     * the tokens that became final with it, with the drafted depth each came from (0: drawn
     * from the target). All texts together are result.text. false cancels the request: its
     * answer ends with what was shown. */
    bool (*on_text)(void *user, uint32_t request, const char *text, size_t length,
                    const cop_token *tokens, const int32_t *depths, int32_t n_tokens);
    enum cop_status (*on_cycle)(void *user, const struct cop_cycle *cycle,
                                struct cop_error *err); /* optional observer */
    enum cop_status (*on_rows)(void *user, const struct cop_cycle_rows *rows,
                               struct cop_error *err); /* optional recorder, before on_cycle */
    void *user;
    const atomic_bool *cancel; /* of this request; optional */
};

struct cop_result {
    uint32_t request;
    cop_token *tokens; /* [n_tokens], cut at the same place as text, log-probabilities and
                          counters; the end token is included for "eos" */
    int32_t n_tokens;
    struct cop_text text;
    enum cop_finish finish;
    struct cop_logprob *logprobs;        /* [n_tokens] or NULL */
    struct cop_error error;              /* for COP_FINISH_ERROR */
    int32_t forward_passes;              /* target passes of cycles, prefill not */
    int64_t drafted, accepted, progress; /* sums over cycles; progress before the cut */
    double seconds, prefill_seconds;     /* of the cycles that served it; of its prefill, also
                                            where another engine did it (cop_engine_share) */
    double draft_seconds, score_seconds, host_seconds;
    int32_t peak_pages;
};
void cop_result_release(struct cop_result *result);

struct cop_engine;

/* The dry run: refuses what is unsound, unknown or impossible before anything runs, and says
 * what to write instead. */
enum cop_status cop_engine_check(const struct cop_engine_options *options,
                                 struct cop_engine_facts *facts, struct cop_error *err);

/* Checks as above, shares the parts and the model, allocates caches. *out is NULL after
 * failure. */
enum cop_status cop_engine_new(struct cop_engine **out,
                               const struct cop_engine_options *options, struct cop_error *err);
/* Ends what is active without delivering it; NULL is fine. */
void cop_engine_free(struct cop_engine *engine);
/* From now on what one of the two engines, of the same target, reads of a prompt the other one
 * copies; each counts the seconds that reading took. Engines that draft from hidden states read
 * for themselves. Sharing goes on through third engines. */
enum cop_status cop_engine_share(struct cop_engine *engine, struct cop_engine *with,
                                 struct cop_error *err);
/* The proposer begins anew: what earlier answers taught it is gone. Refused while requests are
 * queued or served. After failure the engine can only be freed. */
enum cop_status cop_engine_forget(struct cop_engine *engine, struct cop_error *err);
const struct cop_engine_facts *cop_engine_facts(const struct cop_engine *engine);
struct cop_cache_usage cop_engine_usage(const struct cop_engine *engine);

/* Queues a request. Prompt and answer together never exceed the context. Refuses an empty
 * prompt, ids outside the vocabulary, a prompt that leaves no room in the context (with the
 * limit and how to raise it), one that the pool could never hold, max_tokens < 1, ill-formed
 * stop strings. The result is delivered to `done` during step, in order of finishing; it is
 * lent: who wants to keep the contents copies the struct and zeroes *result. Callbacks may
 * submit, but not step or free. */
enum cop_status cop_engine_submit(struct cop_engine *engine, const struct cop_request *request,
                                  void (*done)(void *user, struct cop_result *result),
                                  struct cop_error *err);

/* Admits queued requests to free slots (prefill), then runs one cycle for all active ones.
 * *active: requests still queued or served. A failure of one request ends that request only; a
 * status other than COP_OK ends everything, each request with that error. The engine's cancel
 * flag ends every request as cancelled and is no failure. */
enum cop_status cop_engine_step(struct cop_engine *engine, int32_t *active,
                                struct cop_error *err);
enum cop_status cop_engine_run(struct cop_engine *engine,
                               struct cop_error *err); /* steps until none is active */

/* The drafted tree for a context, without scoring it (cop.propose_once). env.target may be NULL
 * for proposers that need no model. The tree is initialised by the caller with enough capacity;
 * probabilities[node] of each node as cop_drafting_probability says (NaN: none) and the
 * builder's scores (NaN: none); both may be NULL. *matched (may be NULL): length of the n-gram
 * that a lookup found, 0: none; -1: the proposer looks nothing up. */
enum cop_status cop_propose_once(struct cop_part *proposer, struct cop_part *builder,
                                 enum cop_draw draw, const struct cop_proposer_env *env,
                                 const cop_token *context, int32_t n_context, uint64_t seed,
                                 struct cop_tree *tree, double *probabilities, double *scores,
                                 int32_t *matched, struct cop_error *err);

#endif
