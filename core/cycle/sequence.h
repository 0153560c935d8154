/* One request while it is served: what a slot of the engine's batch holds.
 *
 * `committed` is the truth: the prompt and every token decided since, the last of which is the
 * next root. The cache holds all of them but the root. Everything else belongs to the cycle
 * that runs (tree, rows, verdict) or to the reader (answer). Private to the engine. */
#ifndef COP_CYCLE_SEQUENCE_H
#define COP_CYCLE_SEQUENCE_H

#include "core/cycle/answer.h"
#include "core/cycle/drafting.h"
#include "core/cycle/draws/coins.h"
#include "core/cycle/plan.h"

/* A request that waits or is served: the engine's own copy. */
struct cop_ticket {
    struct cop_request request;
    void (*done)(void *user, struct cop_result *result);
    struct cop_ticket *next;
};
struct cop_ticket *cop_ticket_new(const struct cop_request *request); /* NULL: no memory */
void cop_ticket_free(struct cop_ticket *ticket);

struct cop_sequence {
    int32_t slot; /* its number in the batch and in the caches */
    const struct cop_plan *plan;
    struct cop_ticket *ticket; /* NULL: the slot is free */
    struct cop_ids committed;
    struct cop_answer answer;
    struct cop_coins coins;
    struct cop_draws draws;
    struct cop_error draw_error; /* a question that `draws` refused */
    void *rule_state, *length_state;
    /* Share of cycles that accepted depth d + 1 given depth d, and its two counts. [plan depth]
     */
    double *acceptance;
    int32_t *n_reached, *n_passed;
    struct cop_length_cycle last; /* the cycle before this one */
    int32_t reserved_pages;
    bool has_begun; /* the proposer knows the sequence */

    /* Of the cycle that runs. */
    int32_t cycle;
    int32_t context_length; /* committed positions before it */
    int32_t n_answered;     /* tokens of the answer before it */
    int32_t n_kept;
    int64_t kv_bytes_moved;
    struct cop_drafting drafting;
    enum cop_undrafted undrafted; /* so far */
    struct cop_verdict verdict;
    cop_token *tokens;      /* committed: the accepted ones and the last [tree capacity] */
    int32_t *path;          /* the root and the accepted nodes [tree capacity] */
    double *draft_logprob;  /* [tree capacity] */
    float *logits;          /* [tree size, vocab] as scored */
    const float *hidden;    /* [n_hidden, tree size, hidden_size] or NULL */
    struct cop_row *target; /* [tree capacity], each made when first asked for */
    bool *is_made;
    bool *is_stand_in;           /* the node's row is no law; target[node] stands in for it */
    struct cop_row_arena *arena; /* lent */

    struct cop_error error; /* ends the request */
    bool is_cancelled;
    struct cop_result sums; /* counters and times so far */
};

/* Memory that every request in this slot shares. */
enum cop_status cop_sequence_init(struct cop_sequence *sequence, int32_t slot,
                                  const struct cop_plan *plan, struct cop_row_arena *arena,
                                  struct cop_error *err);
void cop_sequence_release(struct cop_sequence *sequence);

/* Takes over the ticket, also after failure; `limit`: tokens of the answer at most. */
enum cop_status cop_sequence_begin(struct cop_sequence *sequence, struct cop_ticket *ticket,
                                   int32_t limit, struct cop_error *err);

/* Levels that a cycle may draft: a committed token can follow each drafted one, so depth stays
 * below what may still come. */
int32_t cop_sequence_room(const struct cop_sequence *sequence);

/* A new cycle: a lone root, no rows, no questions asked. */
void cop_sequence_start(struct cop_sequence *sequence);

/* at(node): the law of the token after the node. Plain decoding meets a row that is no law (not
 * finite, or a processor failed on it) only if it gets there. So at the root such a row sets
 * sequence->error; below it one stands in that puts all mass on token 0: whatever the row, a
 * lossless rule gives the tokens before it their law. */
struct cop_rows cop_sequence_target(struct cop_sequence *sequence);

/* Lets draft rows see what target rows see: penalties, biases, bans, the least length. A
 * script's own processor is called for target rows only: it may be slow. */
void cop_sequence_lend_processors(struct cop_sequence *sequence, struct cop_frontier *frontier);

/* Cuts the verdict at the first node whose row is no law: the node's token becomes the last
 * one, and the next cycle meets the row at its root. A path that passes no such node is left
 * alone. */
void cop_sequence_cut_verdict(struct cop_sequence *sequence);

/* After the verdict: commits its tokens to `committed` and to the answer, and shows them. */
void cop_sequence_commit(struct cop_sequence *sequence);

/* Counts which depths were drafted and accepted; teaches the length policy. `took`: the seconds
 * of the cycle, the rest is filled in. */
void cop_sequence_learn(struct cop_sequence *sequence, const struct cop_length_cycle *took);

/* Fails it with *err unless the status is COP_OK or it has failed already. */
void cop_sequence_fail(struct cop_sequence *sequence, enum cop_status status,
                       const struct cop_error *err);
/* Failed or cancelled: takes no part in what is left of the cycle. */
bool cop_sequence_is_out(const struct cop_sequence *sequence);

/* Ends the answer, hands the result to `done` and frees the slot. */
void cop_sequence_end(struct cop_sequence *sequence);

#endif
