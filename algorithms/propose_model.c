/* A draft model: a smaller model of the same vocabulary guesses, level by level.
 *
 *     committed by the target   t0 t1 t2 t3 t4 t5 | t6 = root
 *     draft's cache             t0 t1 t2 t3 t4    |              lacks t5 after full acceptance
 *     first expand of a cycle   feeds t5 t6 (catching up) and commits them: they are decided
 *     further expands           feed the frontier; the tree hangs from t6, the last position
 *     observe                   commits the accepted nodes that were fed, drops the rest
 *
 * So the draft's cache holds exactly the committed tokens that it was fed, and what is missing
 * waits in `pending`, whose last token is the root. One forward pass a level serves the
 * frontiers of all sequences. Past the end of the draft's own context nothing is drafted. */
#include "algorithms/draft_law.h"
#include "core/cycle/proposer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CATCH_UP = 64 }; /* more pending tokens than this are prefilled apart */

struct draft {
    void *model;
    int32_t depth;
    struct cop_draft_law law;
};

static const struct cop_option options[] = {
    {.name = "model",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct draft, model),
     .choices = "model",
     .flags = COP_OPTION_REQUIRED | COP_OPTION_POSITIONAL,
     .help = "the draft model, of the target's vocabulary"},
    {.name = "depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct draft, depth),
     .min = 1,
     .max = COP_TREE_LIMIT - 1,
     .fallback = 5,
     .help = "length of the chain when no tree is given"},
    COP_DRAFT_LAW_OPTIONS(struct draft, law),
    {0}};

static int32_t own_depth(const void *state)
{
    return ((const struct draft *)state)->depth;
}

/* ---- Sessions --------------------------------------------------------------------------- */

struct level { /* rows live until observe, so each level keeps its logits */
    float *logits;
    size_t capacity;
};
struct context {
    struct cop_ids pending; /* committed tokens that the cache lacks; the last is the root */
    int32_t length;         /* committed tokens, root included */
    bool is_off;            /* past the end of the draft's context */
    int32_t *slot_of;       /* [capacity + 1] node -> speculative slot; -1: not fed */
};
struct session {
    struct cop_model *model;
    struct cop_cache *cache;
    struct cop_row_arena *arena;
    struct cop_sampling sampling;
    int32_t vocab_size;  /* of the target, and so of the rows */
    int32_t draft_vocab; /* of the model */
    int32_t positions;   /* the model's context */
    int32_t n_sequences, capacity;
    const atomic_bool *cancel;
    struct context *contexts; /* [n_sequences] */
    struct level *levels;     /* [capacity + 1] */
    int32_t *path;            /* [capacity + 1] scratch */
    /* One pass; grown by need. */
    cop_token *tokens; /* owns the block that the other three lie in */
    int32_t *sequences, *parents;
    bool *wanted;
    int32_t n, n_wanted, pass_capacity;
};

static void close_session(void *opened)
{
    struct session *session = opened;
    if (!session) {
        return;
    }
    for (int32_t i = 0; session->contexts && i < session->n_sequences; i++) {
        cop_ids_release(&session->contexts[i].pending);
        free(session->contexts[i].slot_of);
    }
    for (int32_t i = 0; session->levels && i <= session->capacity; i++) {
        free(session->levels[i].logits);
    }
    free(session->contexts);
    free(session->levels);
    free(session->path);
    free(session->tokens);
    cop_row_arena_free(session->arena);
    cop_cache_free(session->cache);
    cop_model_free(session->model);
    free(session);
}

static enum cop_status check_vocabulary(const struct draft *draft,
                                        const struct cop_proposer_env *env,
                                        struct cop_error *err)
{
    if (env->target) {
        return cop_model_match(env->target, draft->model, err);
    }
    int32_t vocab = cop_model_info(draft->model)->vocab_size;
    if (vocab != env->vocab_size) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "the draft's vocabulary has %d tokens, the target's %d", vocab,
                        env->vocab_size);
    }
    return COP_OK;
}

static bool make_contexts(struct session *session)
{
    size_t nodes = (size_t)session->capacity + 1;
    session->contexts = calloc((size_t)session->n_sequences, sizeof *session->contexts);
    session->levels = calloc(nodes, sizeof *session->levels);
    session->path = malloc(nodes * sizeof *session->path);
    session->arena = cop_row_arena_new();
    bool is_whole = session->contexts && session->levels && session->path && session->arena;
    for (int32_t i = 0; is_whole && i < session->n_sequences; i++) {
        session->contexts[i].slot_of = malloc(nodes * sizeof(int32_t));
        is_whole = session->contexts[i].slot_of != NULL;
    }
    return is_whole;
}

static enum cop_status open_session(const void *state, const struct cop_proposer_env *env,
                                    void **out, struct cop_error *err)
{
    const struct draft *draft = state;
    enum cop_status status = check_vocabulary(draft, env, err);
    if (status != COP_OK) {
        return status;
    }
    struct session *session = calloc(1, sizeof *session);
    if (!session) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a draft model's session");
    }
    const struct cop_model_info *info = cop_model_info(draft->model);
    session->model = cop_model_share(draft->model);
    session->sampling = cop_draft_law_sampling(&draft->law, &env->sampling);
    session->vocab_size = env->vocab_size;
    session->draft_vocab = info->vocab_size;
    session->positions = info->context;
    session->n_sequences = env->n_sequences;
    session->capacity = env->capacity;
    session->cancel = env->cancel;
    status = make_contexts(session)
                 ? cop_model_cache_new(session->model, env->n_sequences,
                                       env->capacity + CATCH_UP, &session->cache, err)
                 : cop_fail(err, COP_ERR_MEMORY, "no memory for a draft model's session");
    if (status != COP_OK) {
        close_session(session);
        return status;
    }
    *out = session;
    return COP_OK;
}

/* Whether the draft has all these ids; it may lack padding of the target. */
static bool knows(const struct session *session, const cop_token *ids, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (ids[i] >= session->draft_vocab) {
            return false;
        }
    }
    return true;
}

static enum cop_status begin(void *opened, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err)
{
    struct session *session = opened;
    struct context *context = &session->contexts[sequence];
    context->length = n;
    context->is_off = n > session->positions || !knows(session, ids, n);
    context->pending.count = 0;
    memset(context->slot_of, -1, ((size_t)session->capacity + 1) * sizeof(int32_t));
    cop_cache_reset(session->cache, sequence);
    if (context->is_off) {
        return COP_OK;
    }
    enum cop_status status = cop_ids_push(&context->pending, ids[n - 1], err);
    return status == COP_OK ? cop_model_prefill(session->model, session->cache, sequence, ids,
                                                n - 1, 0, session->cancel, err)
                            : status;
}

static void end(void *opened, int32_t sequence)
{
    struct session *session = opened;
    cop_cache_reset(session->cache, sequence);
    cop_ids_release(&session->contexts[sequence].pending);
}

/* ---- One level: which tokens are fed ---------------------------------------------------- */

/* Room for all that a level can feed. */
static enum cop_status reserve_pass(struct session *session,
                                    const struct cop_frontier *frontiers, int32_t n_frontiers,
                                    struct cop_error *err)
{
    int32_t n = n_frontiers * CATCH_UP;
    for (int32_t f = 0; f < n_frontiers; f++) {
        n += frontiers[f].count;
    }
    session->n = 0;
    session->n_wanted = 0;
    if (n <= session->pass_capacity) {
        return COP_OK;
    }
    free(session->tokens);
    session->pass_capacity = 0;
    session->tokens = malloc((size_t)n * (3 * sizeof(int32_t) + sizeof(bool)));
    if (!session->tokens) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to draft with %d tokens", n);
    }
    session->sequences = session->tokens + n;
    session->parents = session->sequences + n;
    session->wanted = (bool *)(session->parents + n);
    session->pass_capacity = n;
    return COP_OK;
}

static void feed(struct session *session, int32_t sequence, cop_token token, int32_t parent,
                 bool is_wanted)
{
    session->tokens[session->n] = token;
    session->sequences[session->n] = sequence;
    session->parents[session->n] = parent;
    session->wanted[session->n++] = is_wanted;
    session->n_wanted += is_wanted;
}

/* The root, and before it what the draft has not seen yet. */
static enum cop_status feed_pending(struct session *session, int32_t sequence,
                                    struct cop_error *err)
{
    struct context *context = &session->contexts[sequence];
    if (context->length > session->positions) {
        context->is_off = true;
        cop_cache_reset(session->cache, sequence);
        return COP_OK;
    }
    int32_t count = (int32_t)context->pending.count;
    if (count > CATCH_UP) {
        cop_token root = context->pending.items[count - 1];
        enum cop_status status =
            cop_model_prefill(session->model, session->cache, sequence, context->pending.items,
                              count - 1, 0, session->cancel, err);
        if (status != COP_OK) {
            return status;
        }
        context->pending.items[0] = root;
        context->pending.count = 1;
        count = 1;
    }
    for (int32_t i = 0; i < count; i++) {
        feed(session, sequence, context->pending.items[i], i - 1, i == count - 1);
    }
    context->slot_of[0] = 0;
    return COP_OK;
}

/* Frontier nodes; a node whose position the draft does not have stays unfed. */
static void feed_nodes(struct session *session, const struct cop_frontier *frontier,
                       int32_t depth)
{
    struct context *context = &session->contexts[frontier->sequence];
    const struct cop_tree *tree = frontier->tree;
    if (context->length + depth > session->positions) {
        return;
    }
    int32_t slot = cop_cache_speculative(session->cache, frontier->sequence);
    for (int32_t i = 0; i < frontier->count; i++) {
        int32_t node = frontier->nodes[i], parent = tree->parent[node];
        if (context->slot_of[parent] < 0) {
            continue;
        }
        feed(session, frontier->sequence, tree->token[node],
             parent == 0 ? -1 : context->slot_of[parent], true);
        context->slot_of[node] = slot++;
    }
}

static enum cop_status feed_level(struct session *session, const struct cop_frontier *frontiers,
                                  int32_t n_frontiers, int32_t depth, struct cop_error *err)
{
    enum cop_status status = reserve_pass(session, frontiers, n_frontiers, err);
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        const struct cop_frontier *frontier = &frontiers[f];
        if (session->contexts[frontier->sequence].is_off) {
            continue;
        }
        if (depth == 0) {
            status = feed_pending(session, frontier->sequence, err);
        } else {
            feed_nodes(session, frontier, depth);
        }
    }
    return status;
}

/* ---- One level: rows -------------------------------------------------------------------- */

/* Rows of the target's width: the draft's padding falls away, its missing tokens get -inf. */
static void fit_rows(const struct session *session, float *logits)
{
    size_t from = (size_t)session->draft_vocab, to = (size_t)session->vocab_size;
    for (size_t i = (size_t)session->n_wanted; from < to && i-- > 0;) {
        memmove(logits + i * to, logits + i * from, from * sizeof *logits);
        for (size_t token = from; token < to; token++) {
            logits[i * to + token] = -INFINITY;
        }
    }
}

static enum cop_status score_level(struct session *session, struct level *level,
                                   struct cop_error *err)
{
    int32_t width =
        session->draft_vocab > session->vocab_size ? session->draft_vocab : session->vocab_size;
    size_t count = (size_t)session->n_wanted * (size_t)width;
    if (count > level->capacity) {
        free(level->logits);
        level->logits = malloc(count * sizeof *level->logits);
        level->capacity = level->logits ? count : 0;
    }
    if (!level->logits) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", session->n_wanted);
    }
    struct cop_score pass = {.n = session->n,
                             .tokens = session->tokens,
                             .sequences = session->sequences,
                             .parents = session->parents,
                             .wanted = session->wanted,
                             .logits = level->logits,
                             .cancel = session->cancel};
    enum cop_status status = cop_model_score(session->model, session->cache, &pass, err);
    if (status == COP_OK) {
        fit_rows(session, level->logits);
    }
    return status;
}

/* What was pending is decided: it becomes committed, and the tree hangs from the root. */
static void commit_pending(struct session *session, int32_t sequence)
{
    struct context *context = &session->contexts[sequence];
    int32_t path[CATCH_UP];
    int32_t count = (int32_t)context->pending.count;
    for (int32_t i = 0; i < count; i++) {
        path[i] = i;
    }
    cop_cache_commit(session->cache, sequence, path, count);
    context->pending.count = 0;
}

/* In the order in which tokens were fed. */
static enum cop_status hand_out(struct session *session, struct cop_frontier *frontiers,
                                int32_t n_frontiers, float *logits, struct cop_error *err)
{
    size_t stride = session->draft_vocab > session->vocab_size ? (size_t)session->draft_vocab
                                                               : (size_t)session->vocab_size;
    for (int32_t f = 0; f < n_frontiers; f++) {
        struct cop_frontier *frontier = &frontiers[f];
        const struct context *context = &session->contexts[frontier->sequence];
        for (int32_t i = 0; i < frontier->count && !context->is_off; i++) {
            if (context->slot_of[frontier->nodes[i]] < 0) {
                continue;
            }
            struct cop_error *where = frontier->error ? frontier->error : err;
            struct cop_error failure = {0};
            enum cop_status status =
                cop_frontier_row(frontier, i, logits, session->vocab_size, &session->sampling,
                                 session->arena, &failure);
            logits += stride;
            if (status != COP_OK) {
                frontier->rows[i] = (struct cop_row){.kind = COP_ROW_NONE};
                (void)cop_fail(where, status, "draft row at position %d: %s",
                               context->length - 1 +
                                   cop_tree_depth(frontier->tree, frontier->nodes[i]),
                               failure.text);
                if (!frontier->error) {
                    return status;
                }
            }
        }
    }
    return COP_OK;
}

static enum cop_status expand(void *opened, struct cop_frontier *frontiers, int32_t n_frontiers,
                              struct cop_error *err)
{
    struct session *session = opened;
    int32_t depth = cop_tree_depth(frontiers[0].tree, frontiers[0].nodes[0]);
    struct level *level = &session->levels[depth];
    if (depth == 0) {
        cop_row_arena_reset(session->arena);
    }
    enum cop_status status = feed_level(session, frontiers, n_frontiers, depth, err);
    if (status == COP_OK && session->n > 0) {
        status = score_level(session, level, err);
    }
    if (status != COP_OK || session->n == 0) {
        return status;
    }
    for (int32_t f = 0; f < n_frontiers && depth == 0; f++) {
        if (!session->contexts[frontiers[f].sequence].is_off) {
            commit_pending(session, frontiers[f].sequence);
        }
    }
    return hand_out(session, frontiers, n_frontiers, level->logits, err);
}

/* ---- Observe ---------------------------------------------------------------------------- */

static enum cop_status observe(void *opened, const struct cop_observed *observed,
                               struct cop_error *err)
{
    struct session *session = opened;
    struct context *context = &session->contexts[observed->sequence];
    int32_t n = 0;
    context->length += observed->n_accepted + 1;
    if (!context->is_off && !knows(session, observed->committed, observed->n_accepted + 1)) {
        context->is_off = true;
        cop_cache_reset(session->cache, observed->sequence);
    }
    if (context->is_off) {
        return COP_OK;
    }
    const int32_t *drafted = observed->tree->drafted;
    while (n < observed->n_accepted && context->slot_of[drafted[observed->accepted[n]]] >= 0) {
        session->path[n] = context->slot_of[drafted[observed->accepted[n]]];
        n++;
    }
    cop_cache_commit(session->cache, observed->sequence, session->path, n);
    memset(context->slot_of, -1, ((size_t)session->capacity + 1) * sizeof(int32_t));
    enum cop_status status = COP_OK;
    for (int32_t i = n; i <= observed->n_accepted && status == COP_OK; i++) {
        status = cop_ids_push(&context->pending, observed->committed[i], err);
    }
    return status;
}

const struct cop_proposer_ops cop_propose_model = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "model",
             .help = "a smaller model of the same vocabulary drafts, one forward pass a level",
             .source = "Leviathan, Kalman, Matias 2023, arXiv:2211.17192; Chen et al. 2023, "
                       "arXiv:2302.01318",
             .synonyms = "draft model, assistant model, approximation model",
             .state_size = sizeof(struct draft),
             .options = options},
    .supply = COP_SUPPLY_DENSE,
    .rows_by_prefix = true,
    .own_depth = own_depth,
    .open = open_session,
    .close = close_session,
    .begin = begin,
    .expand = expand,
    .observe = observe,
    .end = end,
};
