/* The life of one request in its slot: begin, { start, commit, learn }, end. */
#include "core/cycle/sequence.h"

#include "core/cycle/rows/arena.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The slot --------------------------------------------------------------------------- */

static size_t at_least_one(size_t bytes)
{
    return bytes > 0 ? bytes : 1;
}

enum cop_status cop_sequence_init(struct cop_sequence *sequence, int32_t slot,
                                  const struct cop_plan *plan, struct cop_row_arena *arena,
                                  struct cop_error *err)
{
    *sequence = (struct cop_sequence){.slot = slot, .plan = plan, .arena = arena};
    size_t capacity = (size_t)plan->candidates + (size_t)plan->n_scouts + 1,
           depth = (size_t)plan->facts.depth + 1;
    enum cop_status status =
        cop_drafting_init(&sequence->drafting, plan->candidates + plan->n_scouts, arena, err);
    sequence->drafting.scout_room = plan->n_scouts;
    if (status != COP_OK) {
        return status;
    }
    sequence->drafting.tree.draw = plan->facts.draw;
    sequence->drafting.shares_noise = plan->rule_ops->shares_noise;
    sequence->drafting.may_stop = cop_length_varies(plan->length);
    sequence->drafting.n_drafters = plan->n_drafters;
    sequence->verdict.accepted = malloc(capacity * sizeof *sequence->verdict.accepted);
    sequence->tokens = malloc(capacity * sizeof *sequence->tokens);
    sequence->path = malloc(capacity * sizeof *sequence->path);
    sequence->draft_logprob = malloc(capacity * sizeof *sequence->draft_logprob);
    sequence->target = malloc(capacity * sizeof *sequence->target);
    sequence->is_made = malloc(capacity * sizeof *sequence->is_made);
    sequence->is_stand_in = malloc(capacity * sizeof *sequence->is_stand_in);
    sequence->acceptance = malloc(depth * sizeof *sequence->acceptance);
    sequence->n_reached = malloc(depth * sizeof *sequence->n_reached);
    sequence->n_passed = malloc(depth * sizeof *sequence->n_passed);
    sequence->rule_state = malloc(at_least_one(plan->rule_ops->sequence_state_size));
    sequence->length_state =
        malloc(at_least_one(plan->length_ops ? plan->length_ops->sequence_state_size : 0));
    if (!sequence->verdict.accepted || !sequence->tokens || !sequence->path ||
        !sequence->draft_logprob || !sequence->target || !sequence->is_made ||
        !sequence->is_stand_in || !sequence->acceptance || !sequence->n_reached ||
        !sequence->n_passed || !sequence->rule_state || !sequence->length_state) {
        cop_sequence_release(sequence);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a sequence");
    }
    return COP_OK;
}

/* What belongs to one request. */
static void clear_request(struct cop_sequence *sequence)
{
    cop_answer_release(&sequence->answer);
    cop_ids_release(&sequence->committed);
    cop_coins_release(&sequence->coins);
    cop_ticket_free(sequence->ticket);
    sequence->ticket = NULL;
    sequence->reserved_pages = 0;
}

void cop_sequence_release(struct cop_sequence *sequence)
{
    clear_request(sequence);
    cop_drafting_release(&sequence->drafting);
    free(sequence->verdict.accepted);
    free(sequence->tokens);
    free(sequence->path);
    free(sequence->draft_logprob);
    free(sequence->target);
    free(sequence->is_made);
    free(sequence->is_stand_in);
    free(sequence->acceptance);
    free(sequence->n_reached);
    free(sequence->n_passed);
    free(sequence->rule_state);
    free(sequence->length_state);
    *sequence = (struct cop_sequence){0};
}

static void reset_states(struct cop_sequence *sequence)
{
    const struct cop_plan *plan = sequence->plan;
    memset(sequence->rule_state, 0, plan->rule_ops->sequence_state_size);
    if (plan->rule_ops->sequence_init) {
        plan->rule_ops->sequence_init(plan->rule->state, sequence->rule_state);
    }
    if (plan->length_ops) {
        memset(sequence->length_state, 0, plan->length_ops->sequence_state_size);
    }
    for (int32_t d = 0; d <= plan->facts.depth; d++) {
        sequence->acceptance[d] = (double)NAN;
        sequence->n_reached[d] = 0;
        sequence->n_passed[d] = 0;
    }
}

enum cop_status cop_sequence_begin(struct cop_sequence *sequence, struct cop_ticket *ticket,
                                   int32_t limit, struct cop_error *err)
{
    const struct cop_request *request = &ticket->request;
    sequence->ticket = ticket;
    sequence->cycle = -1;
    sequence->error = (struct cop_error){0};
    sequence->draw_error = (struct cop_error){0};
    sequence->is_cancelled = false;
    sequence->sums = (struct cop_result){.request = request->id};
    reset_states(sequence);
    cop_coins_init(&sequence->coins, request->seed, request->id, &sequence->draw_error);
    sequence->draws = cop_coins_draws(&sequence->coins);
    enum cop_status status = cop_answer_init(
        &sequence->answer, request, cop_model_tokenizer(sequence->plan->target), limit, err);
    for (int32_t i = 0; i < request->n_prompt && status == COP_OK; i++) {
        status = cop_ids_push(&sequence->committed, request->prompt[i], err);
    }
    return status;
}

void cop_sequence_fail(struct cop_sequence *sequence, enum cop_status status,
                       const struct cop_error *err)
{
    if (status != COP_OK && sequence->error.code == COP_OK) {
        sequence->error = *err;
        sequence->error.code = status; /* also when a plug-in wrote no message */
    }
}

bool cop_sequence_is_out(const struct cop_sequence *sequence)
{
    return sequence->error.code != COP_OK || sequence->is_cancelled;
}

/* ---- A cycle ---------------------------------------------------------------------------- */

int32_t cop_sequence_room(const struct cop_sequence *sequence)
{
    return sequence->answer.limit - sequence->n_answered - 1 + sequence->plan->n_behind;
}

void cop_sequence_start(struct cop_sequence *sequence)
{
    sequence->cycle++;
    sequence->n_answered = sequence->answer.n_tokens;
    sequence->context_length = (int32_t)sequence->committed.count - 1;
    int32_t limit = cop_sequence_room(sequence);
    int32_t depth = sequence->plan->facts.depth;
    cop_token root = sequence->committed.items[sequence->context_length];
    cop_drafting_start(&sequence->drafting, root, depth < limit ? depth : limit);
    sequence->drafting.position = sequence->context_length;
    sequence->undrafted = COP_UNDRAFTED_NOT;
    cop_coins_cycle(&sequence->coins, (uint32_t)sequence->cycle);
    memset(sequence->is_made, 0,
           (size_t)sequence->drafting.tree.capacity * sizeof *sequence->is_made);
    memset(sequence->is_stand_in, 0,
           (size_t)sequence->drafting.tree.capacity * sizeof *sequence->is_stand_in);
    sequence->verdict.n_accepted = 0;
    sequence->n_kept = 0;
    sequence->kv_bytes_moved = 0;
}

/* Everything decided before the cycle (more may have been committed since), then the tokens
 * from the root down to the node: in the arena. NULL: no memory. */
static const cop_token *make_prefix(struct cop_sequence *sequence, int32_t node, int32_t depth)
{
    const struct cop_tree *tree = &sequence->drafting.tree;
    size_t n_before = (size_t)sequence->context_length + 1;
    cop_token *prefix =
        cop_row_arena_take(sequence->arena, (n_before + (size_t)depth) * sizeof *prefix);
    if (!prefix) {
        return NULL;
    }
    memcpy(prefix, sequence->committed.items, n_before * sizeof *prefix);
    for (; depth > 0; depth--, node = tree->parent[node]) {
        prefix[n_before + (size_t)depth - 1] = tree->token[node];
    }
    return prefix;
}

/* The steps that change logits, in place: each node's logits are shaped once and read by nobody
 * else. */
static enum cop_status process_logits(struct cop_sequence *sequence,
                                      const struct cop_processing *how, int32_t node,
                                      int32_t depth, float *logits, struct cop_error *err)
{
    struct cop_process process = {
        .how = how,
        .logits = {.f32 = logits, .vocab = sequence->plan->env.vocab_size},
        .n_prompt = sequence->ticket->request.n_prompt,
        .arena = sequence->arena};
    if (cop_answer_must_go_on(&sequence->answer, sequence->n_answered + depth)) {
        process.ends = cop_answer_ends(&sequence->answer, &process.n_ends);
    }
    if (!cop_processing_is_on(how) && process.n_ends == 0) {
        return COP_OK;
    }
    if (cop_processing_needs(how)) {
        process.n_prefix = sequence->context_length + 1 + depth;
        process.prefix = make_prefix(sequence, node, depth);
        if (!process.prefix) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory for a prefix");
        }
    }
    return cop_process_apply(&process, err);
}

static enum cop_status process_draft(void *context, int32_t node, float *logits,
                                     struct cop_error *err)
{
    struct cop_sequence *sequence = context;
    struct cop_processing how = sequence->plan->processing;
    how.process = NULL;
    return process_logits(sequence, &how, node, cop_tree_depth(&sequence->drafting.tree, node),
                          logits, err);
}

void cop_sequence_lend_processors(struct cop_sequence *sequence, struct cop_frontier *frontier)
{
    struct cop_processing how = sequence->plan->processing;
    how.process = NULL;
    if (cop_processing_is_on(&how) || sequence->ticket->request.min_tokens > 0) {
        frontier->process = process_draft;
        frontier->process_context = sequence;
    }
}

static void fail_row(struct cop_sequence *sequence, enum cop_status status, int32_t depth,
                     const struct cop_error *err)
{
    struct cop_error at = *err;
    if (status != COP_ERR_CALLBACK) {
        (void)cop_fail(&at, status, "target row at position %d: %s",
                       sequence->context_length + depth, err->text);
    }
    cop_sequence_fail(sequence, status, &at);
}

static void stand_in(struct cop_sequence *sequence, int32_t node, float *logits)
{
    int32_t vocab = sequence->plan->env.vocab_size;
    sequence->is_stand_in[node] = true;
    for (int32_t i = 0; i < vocab; i++) {
        logits[i] = i == 0 ? 0 : -INFINITY;
    }
    sequence->target[node] =
        (struct cop_row){.kind = COP_ROW_ONE_HOT, .vocab = vocab, .logits = logits};
}

static void make_target_row(struct cop_sequence *sequence, int32_t node)
{
    int32_t vocab = sequence->plan->env.vocab_size;
    float *logits = sequence->logits + (size_t)node * (size_t)vocab;
    int32_t depth = cop_tree_depth(&sequence->drafting.tree, node);
    struct cop_row *row = &sequence->target[node];
    struct cop_error err = {0};
    enum cop_status status =
        process_logits(sequence, &sequence->plan->processing, node, depth, logits, &err);
    if (status == COP_OK) {
        status = cop_row_from_logits(row, logits, vocab, &sequence->plan->sampling,
                                     sequence->arena, &err);
    }
    if (status == COP_OK) {
        status = cop_row_normalise(row, sequence->arena, &err);
    }
    if (status == COP_OK) {
        return;
    }
    if (node == 0 || (status != COP_ERR_NUMERIC && status != COP_ERR_CALLBACK)) {
        fail_row(sequence, status, depth, &err);
    }
    stand_in(sequence, node, logits);
}

static const struct cop_row *target_at(void *context, int32_t node)
{
    struct cop_sequence *sequence = context;
    if (!sequence->is_made[node]) {
        sequence->is_made[node] = true;
        make_target_row(sequence, node);
    }
    return &sequence->target[node];
}

struct cop_rows cop_sequence_target(struct cop_sequence *sequence)
{
    return (struct cop_rows){.at = target_at, .context = sequence};
}

void cop_sequence_cut_verdict(struct cop_sequence *sequence)
{
    struct cop_verdict *verdict = &sequence->verdict;
    for (int32_t i = 0; i < verdict->n_accepted; i++) {
        int32_t node = verdict->accepted[i];
        if (sequence->is_stand_in[node]) {
            verdict->n_accepted = i;
            verdict->last = sequence->drafting.tree.token[node];
            verdict->origin = COP_ORIGIN_RECOVERED; /* the path did not end by itself */
            verdict->is_substitute = false;
        }
    }
}

static enum cop_status append_committed(struct cop_sequence *sequence, struct cop_error *err)
{
    const struct cop_verdict *verdict = &sequence->verdict;
    const struct cop_tree *tree = &sequence->drafting.tree;
    enum cop_status status = COP_OK;
    sequence->path[0] = 0;
    for (int32_t i = 0; i < verdict->n_accepted; i++) {
        sequence->path[i + 1] = verdict->accepted[i];
        sequence->tokens[i] = tree->token[verdict->accepted[i]];
    }
    sequence->tokens[verdict->n_accepted] = verdict->last;
    for (int32_t i = 0; i <= verdict->n_accepted && status == COP_OK; i++) {
        status = cop_ids_push(&sequence->committed, sequence->tokens[i], err);
    }
    return status;
}

void cop_sequence_commit(struct cop_sequence *sequence)
{
    struct cop_error err = {0};
    int32_t n_accepted = sequence->verdict.n_accepted;
    enum cop_status status = append_committed(sequence, &err);
    if (status == COP_OK) {
        struct cop_taken taken = {.tokens = sequence->tokens,
                                  .nodes = sequence->path,
                                  .n_accepted = n_accepted,
                                  .target = cop_sequence_target(sequence)};
        status = cop_answer_take(&sequence->answer, &taken, &err);
    }
    cop_sequence_fail(sequence, status, &err);
    if (status != COP_OK) {
        return;
    }
    cop_answer_show(&sequence->answer);
    int32_t kept = sequence->answer.n_tokens - sequence->n_answered;
    sequence->n_kept = kept > 0 ? kept : 0;
    sequence->sums.forward_passes++;
    sequence->sums.drafted += sequence->drafting.tree.size - 1 - sequence->drafting.n_scouts;
    sequence->sums.accepted += n_accepted;
    sequence->sums.progress += n_accepted + 1;
}

void cop_sequence_learn(struct cop_sequence *sequence, const struct cop_length_cycle *took)
{
    int32_t drafted = sequence->drafting.depth, accepted = sequence->verdict.n_accepted;
    for (int32_t d = 0; d < drafted && d <= accepted; d++) {
        sequence->n_reached[d]++;
        sequence->n_passed[d] += accepted > d;
        sequence->acceptance[d] =
            (double)sequence->n_passed[d] / (double)sequence->n_reached[d];
    }
    sequence->last = *took;
    sequence->last.limit = sequence->drafting.max_depth;
    sequence->last.depth = drafted;
    sequence->last.n_accepted = accepted;
    sequence->last.nodes = sequence->drafting.tree.size;
    sequence->last.n_scouts = sequence->drafting.n_scouts;
    const struct cop_plan *plan = sequence->plan;
    if (plan->length_ops && plan->length_ops->observe) {
        plan->length_ops->observe(plan->length->state, sequence->length_state, &sequence->last);
    }
}

void cop_sequence_end(struct cop_sequence *sequence)
{
    struct cop_ticket *ticket = sequence->ticket;
    bool has_failed = sequence->error.code != COP_OK;
    struct cop_error ignored = {0};
    (void)cop_answer_finish(&sequence->answer,
                            has_failed ? COP_FINISH_ERROR : COP_FINISH_CANCELLED, &ignored);
    struct cop_result result = sequence->sums;
    cop_answer_move(&sequence->answer, &result);
    if (has_failed) {
        result.finish = COP_FINISH_ERROR;
        result.error = sequence->error;
    }
    void (*done)(void *, struct cop_result *) = ticket->done;
    void *user = ticket->request.user;
    clear_request(sequence);
    if (done) {
        done(user, &result);
    }
    cop_result_release(&result);
}

void cop_result_release(struct cop_result *result)
{
    for (int32_t i = 0; result->logprobs && i < result->n_tokens; i++) {
        free(result->logprobs[i].top_logprobs); /* `top` lies in the same block */
    }
    free(result->logprobs);
    free(result->tokens);
    cop_text_release(&result->text);
    *result = (struct cop_result){0};
}
