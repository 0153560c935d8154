/* The life of a session, and committed text: true states, fed to all stages. */
#include "algorithms/heads/carried/carry_state.h"

#include <stdlib.h>
#include <string.h>

/* ---- Sessions --------------------------------------------------------------------------- */

static void free_context(struct carry_context *context)
{
    cop_taps_release(&context->taps);
    for (int32_t s = 0; s < COP_CARRY_STAGES; s++) {
        free(context->stages[s].slot_of);
        free(context->stages[s].y);
    }
}

void cop_carry_close(void *opened)
{
    struct carry_session *session = opened;
    if (!session) {
        return;
    }
    for (int32_t i = 0; session->contexts && i < session->n_sequences; i++) {
        free_context(&session->contexts[i]);
    }
    for (int32_t i = 0; session->levels && i <= session->capacity; i++) {
        free(session->levels[i].items);
    }
    free(session->contexts);
    free(session->texts);
    free(session->levels);
    cop_feed_release(&session->feed);
    free(session->floats.items);
    cop_row_arena_free(session->maker.arena);
    for (int32_t s = 0; s < COP_CARRY_STAGES; s++) {
        cop_cache_free(session->caches[s]);
    }
    session->carry.close(session->carry.net);
    cop_model_free(session->target);
    free(session);
}

static enum cop_status make_contexts(struct carry_session *session, struct cop_error *err)
{
    size_t nodes = (size_t)session->capacity + 1;
    session->contexts = calloc((size_t)session->n_sequences, sizeof *session->contexts);
    session->texts = calloc((size_t)session->n_sequences, sizeof *session->texts);
    session->levels = calloc(nodes, sizeof *session->levels);
    bool is_whole =
        session->contexts && session->texts && session->levels && session->maker.arena;
    for (int32_t i = 0; is_whole && i < session->n_sequences; i++) {
        struct carry_context *context = &session->contexts[i];
        context->taps.n_layers = session->carry.n_layers;
        context->taps.width = cop_model_info(session->target)->hidden_size;
        for (int32_t s = 0; is_whole && s < session->carry.n_stages; s++) {
            context->stages[s].slot_of = malloc(nodes * sizeof(int32_t));
            is_whole = context->stages[s].slot_of != NULL;
        }
    }
    return is_whole ? COP_OK
                    : cop_fail(err, COP_ERR_MEMORY, "no memory for the session of %s",
                               session->carry.of);
}

enum cop_status cop_carry_open(const struct cop_carry *carry, const struct cop_draft_law *law,
                               const struct cop_proposer_env *env, void **out,
                               struct cop_error *err)
{
    struct carry_session *session = calloc(1, sizeof *session);
    if (!session) {
        carry->close(carry->net);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the session of %s", carry->of);
    }
    const struct cop_model_info *info = cop_model_info(env->target);
    session->carry = *carry;
    session->target = cop_model_share(env->target);
    session->width = (size_t)carry->width;
    session->states_width = (size_t)carry->n_layers * (size_t)info->hidden_size;
    session->maker =
        (struct cop_row_maker){.vocab = env->vocab_size,
                               .sampling = cop_draft_law_sampling(law, &env->sampling),
                               .arena = cop_row_arena_new(),
                               .of = "draft level",
                               .ids = carry->ids,
                               .n_ids = carry->n_ids};
    session->positions = info->context;
    session->n_sequences = env->n_sequences;
    session->capacity = env->capacity;
    enum cop_status status = make_contexts(session, err);
    for (int32_t s = 0; status == COP_OK && s < carry->n_stages; s++) {
        status =
            cop_block_cache_new(carry->block(carry->net, s), env->n_sequences,
                                env->capacity + COP_PREFILL_CHUNK, &session->caches[s], err);
    }
    if (status != COP_OK) {
        cop_carry_close(session);
        return status;
    }
    *out = session;
    return COP_OK;
}

static void forget_tree(struct carry_session *session, int32_t sequence)
{
    for (int32_t s = 0; s < session->carry.n_stages; s++) {
        memset(session->contexts[sequence].stages[s].slot_of, -1,
               ((size_t)session->capacity + 1) * sizeof(int32_t));
    }
}

void cop_carry_end(void *opened, int32_t sequence)
{
    struct carry_session *session = opened;
    for (int32_t s = 0; s < session->carry.n_stages; s++) {
        cop_cache_reset(session->caches[s], sequence);
    }
    cop_taps_begin(&session->contexts[sequence].taps, 0);
}

enum cop_status cop_carry_begin(void *opened, int32_t sequence, const cop_token *ids, int32_t n,
                                struct cop_error *err)
{
    struct carry_session *session = opened;
    (void)ids, (void)err;
    cop_carry_end(session, sequence);
    cop_taps_begin(&session->contexts[sequence].taps, n);
    forget_tree(session, sequence);
    return COP_OK;
}

/* ---- One pass --------------------------------------------------------------------------- */

enum cop_status carry_reserve(struct carry_session *session, int32_t n, struct cop_error *err)
{
    size_t rows = (size_t)n, width = session->width;
    size_t before = session->floats.capacity;
    if (!cop_feed_start(&session->feed, n) ||
        !cop_floats_reserve(&session->floats, rows * (3 * width + session->states_width))) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to draft with %d rows", n);
    }
    if (session->floats.capacity != before) {
        session->x = session->floats.items;
        session->next = session->x + rows * width;
        session->y = session->next + rows * width;
        session->states = session->y + rows * width;
    }
    return COP_OK;
}

enum cop_status carry_step(struct carry_session *session, int32_t stage, struct cop_error *err)
{
    const struct cop_pair_rows rows = {.n = session->feed.n,
                                       .sequences = session->feed.sequences,
                                       .parents = session->feed.parents,
                                       .tokens = session->feed.tokens,
                                       .x = session->x};
    return session->feed.n > 0 ? session->carry.step(session->carry.net, stage,
                                                     session->caches[stage], &rows, err)
                               : COP_OK;
}

enum cop_status carry_reserve_y(struct carry_session *session, struct carry_stage *stage,
                                int32_t n, struct cop_error *err)
{
    if (n <= stage->y_capacity) {
        return COP_OK;
    }
    n += n / 2;
    float *y = realloc(stage->y, (size_t)n * session->width * sizeof *y);
    if (!y) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the states of %d nodes", n);
    }
    stage->y = y;
    stage->y_capacity = n;
    return COP_OK;
}

/* ---- Committed text ---------------------------------------------------------------------- */

/* Rows of stage 0: true states. */
static enum cop_status feed_states(struct carry_session *session, int32_t n_texts,
                                   struct cop_error *err)
{
    for (int32_t t = 0; t < n_texts; t++) {
        struct carry_text *text = &session->texts[t];
        const struct cop_taps *taps = &session->contexts[text->sequence].taps;
        text->first = session->feed.n;
        text->skipped = 0;
        memcpy(session->states + (size_t)session->feed.n * session->states_width, taps->states,
               (size_t)text->count * session->states_width * sizeof *session->states);
        for (int32_t i = 0; i < text->count; i++) {
            cop_feed_add(&session->feed, text->sequence, taps->behind[i], i - 1);
        }
    }
    return session->feed.n > 0 ? session->carry.fuse(session->carry.net, session->states,
                                                     session->feed.n, session->x, err)
                               : COP_OK;
}

/* Rows of the stage behind: the y that this one gave the token before. Where it had no row for
 * that, at the beginning of a text, there is none either. */
static void feed_carried(struct carry_session *session, int32_t stage, int32_t n_texts)
{
    size_t width = session->width;
    session->feed.n = 0;
    for (int32_t t = 0; t < n_texts; t++) {
        struct carry_text *text = &session->texts[t];
        const struct carry_context *context = &session->contexts[text->sequence];
        bool had_rows = cop_cache_committed(session->caches[stage], text->sequence) > 0;
        int32_t skipped = had_rows ? 0 : text->skipped + 1;
        text->next_first = session->feed.n;
        text->next_skipped = skipped < text->count ? skipped : text->count;
        for (int32_t i = skipped; i < text->count; i++) {
            const float *y =
                i == 0 ? context->stages[stage].y
                       : session->x + (size_t)(text->first + i - 1 - text->skipped) * width;
            memcpy(session->next + (size_t)session->feed.n * width, y, width * sizeof *y);
            cop_feed_add(&session->feed, text->sequence, context->taps.behind[i],
                         i - skipped - 1);
        }
    }
}

/* The rows are decided; the last one's y is what tokens behind it need. */
static enum cop_status commit_text(struct carry_session *session, int32_t stage,
                                   const struct carry_text *text, struct cop_error *err)
{
    struct carry_stage *own = &session->contexts[text->sequence].stages[stage];
    int32_t n = text->count - text->skipped;
    enum cop_status status = n > 0 ? carry_reserve_y(session, own, 1, err) : COP_OK;
    if (status != COP_OK || n == 0) {
        return status;
    }
    memcpy(own->y, session->x + (size_t)(text->first + n - 1) * session->width,
           session->width * sizeof *own->y);
    return cop_taps_commit(session->caches[stage], text->sequence, n, err);
}

static enum cop_status run_stage(struct carry_session *session, int32_t stage, int32_t n_texts,
                                 struct cop_error *err)
{
    enum cop_status status = carry_step(session, stage, err);
    if (status == COP_OK && stage + 1 < session->carry.n_stages) {
        feed_carried(session, stage, n_texts);
    }
    for (int32_t t = 0; t < n_texts && status == COP_OK; t++) {
        struct carry_text *text = &session->texts[t];
        status = commit_text(session, stage, text, err);
        if (stage == 0 && status == COP_OK) {
            memcpy(session->y + (size_t)t * session->width,
                   session->contexts[text->sequence].stages[0].y,
                   session->width * sizeof *session->y);
        }
        text->first = text->next_first;
        text->skipped = text->next_skipped;
    }
    float *x = session->x;
    session->x = session->next;
    session->next = x;
    return status;
}

enum cop_status carry_feed_texts(struct carry_session *session, int32_t n_texts,
                                 struct cop_error *err)
{
    int32_t n = 0;
    for (int32_t t = 0; t < n_texts; t++) {
        n += session->texts[t].count;
    }
    enum cop_status status = carry_reserve(session, n, err);
    if (status == COP_OK) {
        status = feed_states(session, n_texts, err);
    }
    for (int32_t s = 0; s < session->carry.n_stages && status == COP_OK; s++) {
        status = run_stage(session, s, n_texts, err);
    }
    for (int32_t t = 0; t < n_texts && status == COP_OK; t++) {
        const struct carry_text *text = &session->texts[t];
        cop_taps_drop(&session->contexts[text->sequence].taps, text->count);
    }
    return status;
}

/* All waiting states but the root's. */
static enum cop_status catch_up(struct carry_session *session, int32_t sequence,
                                struct cop_error *err)
{
    int32_t count = session->contexts[sequence].taps.n - 1;
    session->texts[0] = (struct carry_text){.sequence = sequence, .count = count};
    return count > 0 ? carry_feed_texts(session, 1, err) : COP_OK;
}

enum cop_status cop_carry_prefilled(void *opened, const struct cop_prefilled *chunk,
                                    struct cop_error *err)
{
    struct carry_session *session = opened;
    struct cop_taps *taps = &session->contexts[chunk->sequence].taps;
    enum cop_status status = cop_taps_prefilled(taps, chunk, err);
    return status == COP_OK ? catch_up(session, chunk->sequence, err) : status;
}

enum cop_status cop_carry_observe(void *opened, const struct cop_observed *observed,
                                  struct cop_error *err)
{
    struct carry_session *session = opened;
    int32_t sequence = observed->sequence;
    struct carry_context *context = &session->contexts[sequence];
    for (int32_t s = 0; s < session->carry.n_stages; s++) {
        cop_cache_rollback(session->caches[s], sequence);
    }
    forget_tree(session, sequence);
    enum cop_status status = cop_taps_observe(&context->taps, observed, err);
    return status == COP_OK && context->taps.n > COP_TAPS_WAIT
               ? catch_up(session, sequence, err)
               : status;
}
