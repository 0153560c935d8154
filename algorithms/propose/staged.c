/* A drafter with a drafter of its own: a draft model whose passes are shortened by a smaller
 * proposer, verified exactly.
 *
 *     pass 1   feeds the root and what the inner proposer drafts below it:  root a b c
 *              rows after root, a, b, c are the model's
 *     level 1  the builder draws a from the row after the root: the row after a is there
 *     level 2  it draws x, not b: pass 2 feeds x, and what the inner proposer drafts below it
 *
 * The inner rule is sample and match with the builder's own draws: whatever the inner proposer
 * drafts, each token is drawn from the model's row, and that row is the one recorded. So every
 * builder, draw and rule may be used as with the model alone; only the number of passes falls.
 *
 * The inner proposer sees a tree of its own, a superset (algorithms/propose/twins.h). */
#include "algorithms/propose/draft_law.h"
#include "algorithms/propose/staged_session.h"
#include "core/cycle/contract/builder.h"

#include <stdlib.h>

struct staged {
    void *model, *proposer;
    int32_t depth, ahead, vocabulary;
    struct cop_draft_law law;
};

static const struct cop_option options[] = {
    {.name = "model",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct staged, model),
     .choices = "model",
     .flags = COP_OPTION_REQUIRED | COP_OPTION_POSITIONAL,
     .help = "the draft model"},
    {.name = "proposer",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct staged, proposer),
     .choices = "propose",
     .flags = COP_OPTION_REQUIRED | COP_OPTION_POSITIONAL,
     .help = "what drafts for the draft model"},
    {.name = "depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct staged, depth),
     .min = 1,
     .max = COP_TREE_LIMIT - 1,
     .fallback = 8,
     .help = "length of the chain when no tree is given"},
    {.name = "ahead",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct staged, ahead),
     .min = 1,
     .max = 64,
     .fallback = 4,
     .help = "tokens that the inner proposer drafts for one pass of the model"},
    {.name = "vocabulary",
     .type = COP_OPTION_CHOICE,
     .offset = offsetof(struct staged, vocabulary),
     .choices = "same|auto|intersection",
     .fallback = COP_DRAFT_SAME,
     .help = "of the draft model, as for cop.propose.model"},
    COP_DRAFT_LAW_OPTIONS(struct staged, law),
    {0}};

static const struct cop_part *inner_of(const struct staged *staged)
{
    return staged->proposer;
}

static enum cop_status prepare(void *state, struct cop_error *err)
{
    const struct cop_part *inner = inner_of(state);
    struct cop_proposer_facts facts = cop_proposer_facts(inner);
    if (facts.needs_hidden) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.propose.staged: \"%s\" drafts from hidden states of the target, "
                        "which the draft model does not have",
                        inner->plug->name);
    }
    if (facts.n_scouts > 0) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.propose.staged: \"%s\" drafts in the target's own pass, and needs "
                        "no draft model to draft for",
                        inner->plug->name);
    }
    if (facts.n_drafters > 1) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.propose.staged: one proposer drafts for the model; \"%s\" has %d",
                        inner->plug->name, facts.n_drafters);
    }
    return COP_OK;
}

static int32_t own_depth(const void *state)
{
    return ((const struct staged *)state)->depth;
}

/* ---- Sessions ---------------------------------------------------------------------------- */

static int32_t tree_capacity(const struct staged_session *session)
{
    return session->capacity + session->most_ahead + 1;
}

static void release_context(struct staged_context *context)
{
    cop_twins_release(&context->twins);
    free(context->is_asked);
    free(context->row);
}

static void close_session(void *opened)
{
    struct staged_session *session = opened;
    if (!session) {
        return;
    }
    if (session->inner && session->inner->close) {
        session->inner->close(session->inner_session);
    }
    for (int32_t i = 0; session->contexts && i < session->drafter.n_sequences; i++) {
        release_context(&session->contexts[i]);
    }
    for (int32_t i = 0; session->passes && i <= session->capacity; i++) {
        free(session->passes[i].items);
    }
    cop_part_free(session->part);
    cop_drafter_close(&session->drafter);
    cop_row_arena_free(session->arena);
    cop_row_arena_free(session->inner_arena);
    free(session->contexts);
    free(session->passes);
    free(session->fed);
    free(session->nodes);
    free(session);
}

static enum cop_status make_context(const struct staged_session *session,
                                    struct staged_context *context, struct cop_error *err)
{
    size_t n = (size_t)tree_capacity(session);
    context->is_asked = calloc(n, sizeof *context->is_asked);
    context->row = calloc(n, sizeof *context->row);
    if (!context->is_asked || !context->row) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a staged draft");
    }
    return cop_twins_init(&context->twins, session->capacity + 1, (int32_t)n, err);
}

static enum cop_status make_contexts(struct staged_session *session, int32_t n,
                                     struct cop_error *err)
{
    size_t nodes = (size_t)session->capacity + 1;
    session->contexts = calloc((size_t)n, sizeof *session->contexts);
    session->passes = calloc(nodes, sizeof *session->passes);
    session->nodes = malloc(nodes * sizeof *session->nodes);
    session->arena = cop_row_arena_new();
    session->inner_arena = cop_row_arena_new();
    enum cop_status status = COP_OK;
    if (!session->contexts || !session->passes || !session->nodes || !session->arena ||
        !session->inner_arena) {
        status = cop_fail(err, COP_ERR_MEMORY, "no memory for a staged draft");
    }
    for (int32_t i = 0; i < n && status == COP_OK; i++) {
        status = make_context(session, &session->contexts[i], err);
    }
    return status;
}

static enum cop_status open_parts(struct staged_session *session, const struct staged *staged,
                                  const struct cop_proposer_env *env, struct cop_error *err)
{
    struct cop_proposer_env inner_env = *env;
    session->sampling = cop_draft_law_sampling(&staged->law, &env->sampling);
    session->ahead = staged->ahead;
    session->capacity = env->capacity;
    int64_t most = (int64_t)env->capacity * staged->ahead;
    int32_t room = COP_DRAFT_LIMIT - env->capacity;
    room = room < COP_TREE_LIMIT ? room : COP_TREE_LIMIT;
    session->most_ahead = most < room ? (int32_t)most : room;
    inner_env.capacity = tree_capacity(session) - 1;
    inner_env.cache = NULL; /* it has no room for what is drafted ahead */
    enum cop_status status = cop_drafter_open(&session->drafter, staged->model,
                                              (enum cop_draft_vocabulary)staged->vocabulary,
                                              env, inner_env.capacity, err);
    if (status == COP_OK) {
        status = make_contexts(session, env->n_sequences, err);
    }
    if (status != COP_OK) {
        return status;
    }
    session->part = cop_part_share(staged->proposer);
    session->inner = (const struct cop_proposer_ops *)session->part->plug;
    return session->inner->open ? session->inner->open(session->part->state, &inner_env,
                                                       &session->inner_session, err)
                                : COP_OK;
}

static enum cop_status open_session(const void *state, const struct cop_proposer_env *env,
                                    void **out, struct cop_error *err)
{
    struct staged_session *session = calloc(1, sizeof *session);
    if (!session) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a staged draft");
    }
    enum cop_status status = open_parts(session, state, env, err);
    if (status != COP_OK) {
        close_session(session);
        return status;
    }
    *out = session;
    return COP_OK;
}

static enum cop_status begin(void *opened, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err)
{
    struct staged_session *session = opened;
    enum cop_status status = cop_drafter_begin(&session->drafter, sequence, ids, n, err);
    session->contexts[sequence].has_root = false;
    if (status == COP_OK) {
        session->contexts[sequence].has_begun = true;
        status = session->inner->begin(session->inner_session, sequence, ids, n, err);
    }
    return status;
}

static void end(void *opened, int32_t sequence)
{
    struct staged_session *session = opened;
    cop_drafter_end(&session->drafter, sequence);
    if (session->contexts[sequence].has_begun) {
        session->inner->end(session->inner_session, sequence);
        session->contexts[sequence].has_begun = false;
    }
}

/* ---- Observe ----------------------------------------------------------------------------- */

static enum cop_status observe(void *opened, const struct cop_observed *observed,
                               struct cop_error *err)
{
    struct staged_session *session = opened;
    struct staged_context *context = &session->contexts[observed->sequence];
    int32_t n_drafted = cop_twins_drafted(observed->tree);
    if (!context->has_root) {
        staged_start_cycle(context, observed->tree->token[0]);
    }
    context->has_root = false;
    for (int32_t node = 1; node < n_drafted; node++) {
        (void)staged_find_twin(context, observed->tree, node);
    }
    enum cop_status status =
        cop_drafter_observe(&session->drafter, observed, context->twins.twin, err);
    if (status != COP_OK) {
        return status;
    }
    const struct cop_observed inner = cop_twins_observed(&context->twins, observed);
    return session->inner->observe(session->inner_session, &inner, err);
}

static bool is_over(void *opened, int32_t sequence)
{
    return cop_drafter_is_over(&((struct staged_session *)opened)->drafter, sequence);
}

const struct cop_proposer_ops cop_propose_staged = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "staged",
             .help =
                 "a draft model that has a drafter of its own: tokens that the inner "
                 "proposer drafts are scored in the same pass of the draft model, whose rows "
                 "are kept for the levels that reach them. Tokens are drawn from the draft "
                 "model's rows, as if it drafted alone",
             .source = "Spector, Re 2023, arXiv:2308.04623; vertical cascade of Chen et al. "
                       "2023, arXiv:2312.11462, with an exact inner rule",
             .synonyms = "staged speculation, vertical cascade, multi-level drafting",
             .state_size = sizeof(struct staged),
             .options = options,
             .prepare = prepare},
    .supply = COP_SUPPLY_DENSE,
    .rows_by_prefix = true,
    .own_depth = own_depth,
    .open = open_session,
    .close = close_session,
    .begin = begin,
    .expand = staged_expand,
    .observe = observe,
    .end = end,
    .is_over = is_over,
};
