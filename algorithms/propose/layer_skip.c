/* The target drafts for itself with some of its layers left out: the same weights, and the
 * target's own cache.
 *
 *     committed K and V, all layers     | slots of this cycle's drafts
 *     t0 t1 t2 t3 t4 t5                 | root a b c     only layers that run write there
 *     before the target scores          | (dropped; scoring writes all layers anew)
 *
 * So a draft pass reads what the whole model computed of everything committed, nothing is
 * prefilled twice, and no draft value outlives its cycle. A skipped sub-layer passes the
 * residual stream through. An early exit leaves out both sub-layers of every layer from there
 * on; the target's last norm and head read the draft's rows. Scoring runs all layers again: the
 * states of an early exit are not handed over.
 *
 * Which parts go may be searched for while a request is served (SWIFT, layer_trial.h): each
 * cycle one mask is tried, and every sequence drafts with the best that it has found. */
#include "algorithms/heads/pass.h"
#include "algorithms/propose/draft_law.h"
#include "algorithms/propose/layer_trial.h"
#include "core/cycle/contract/proposer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct layer_skip {
    struct cop_int_list skip_attention, skip_mlp;
    int32_t exit, depth;
    double search, search_goal;
    int32_t search_steps, search_window;
    struct cop_draft_law law;
};

static const struct cop_option options[] = {
    {.name = "skip_attention",
     .type = COP_OPTION_INTS,
     .offset = offsetof(struct layer_skip, skip_attention),
     .min = 0,
     .max = 1023,
     .flags = COP_OPTION_ABSENT,
     .help = "layers, from 0, whose attention is left out"},
    {.name = "skip_mlp",
     .type = COP_OPTION_INTS,
     .offset = offsetof(struct layer_skip, skip_mlp),
     .min = 0,
     .max = 1023,
     .flags = COP_OPTION_ABSENT,
     .help = "layers, from 0, whose feed-forward part is left out"},
    {.name = "exit",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct layer_skip, exit),
     .min = 1,
     .max = 1023,
     .flags = COP_OPTION_ABSENT,
     .help = "layers that run at all, the first ones"},
    {.name = "search",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct layer_skip, search),
     .min = 0.01,
     .max = 0.99,
     .flags = COP_OPTION_ABSENT,
     .help = "instead: share of the parts, first and last layer apart, that is left out; which "
             "ones is searched for while a request is served (SWIFT: 0.45)"},
    {.name = "search_steps",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct layer_skip, search_steps),
     .min = 1,
     .max = 1e6,
     .fallback = 1000,
     .help = "masks tried for a request at most, one a cycle; 300 without a better one end it "
             "too"},
    {.name = "search_goal",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct layer_skip, search_goal),
     .min = 0,
     .max = 1,
     .fallback = 0.93,
     .help = "share of predicted tokens above which the search ends"},
    {.name = "search_window",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct layer_skip, search_window),
     .min = 1,
     .max = 1024,
     .fallback = 50,
     .help = "tokens that a mask predicts; the search waits for them"},
    {.name = "depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct layer_skip, depth),
     .min = 1,
     .max = COP_TREE_LIMIT - 1,
     .fallback = 5,
     .help = "length of the chain when no tree is given"},
    COP_DRAFT_LAW_OPTIONS(struct layer_skip, law),
    {0}};

static bool searches(const struct layer_skip *skip)
{
    return !isnan(skip->search);
}

static enum cop_status prepare(void *state, struct cop_error *err)
{
    const struct layer_skip *skip = state;
    bool says_which =
        skip->skip_attention.count + skip->skip_mlp.count > 0 || skip->exit != INT32_MIN;
    if (!says_which && !searches(skip)) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.propose.layer_skip leaves nothing out; write exit = 8, "
                        "skip_attention = { 3, 5 }, skip_mlp = { 3, 5 } or search = 0.45");
    }
    return says_which && searches(skip)
               ? cop_fail(err, COP_ERR_ARGUMENT,
                          "cop.propose.layer_skip: search finds what to leave out; leave exit, "
                          "skip_attention and skip_mlp out, or search")
               : COP_OK;
}

static int32_t own_depth(const void *state)
{
    return ((const struct layer_skip *)state)->depth;
}

/* A layer above a skipped part computes other keys and values for a drafted token than for the
 * same token once it is committed, so rows depend on where the root is. Below an early exit
 * they are the same. */
static void facts(const void *state, struct cop_proposer_facts *facts)
{
    const struct layer_skip *skip = state;
    facts->rows_by_prefix =
        skip->skip_attention.count + skip->skip_mlp.count == 0 && !searches(skip);
    facts->n_slots = 1;
}

/* ---- Sessions ---------------------------------------------------------------------------- */

struct session {
    struct cop_layer_trials *trials; /* NULL: what is left out is known */
    struct cop_model *model;
    struct cop_cache *cache; /* the target's */
    struct cop_cache *own;   /* instead, where the surroundings have none */
    struct cop_row_arena *arena;
    struct cop_sampling sampling;
    uint8_t *skip; /* [layers] */
    int32_t vocab_size, capacity, context;
    const atomic_bool *cancel;
    int32_t **slot_of; /* [n_sequences][capacity + 1] node as drafted -> slot */
    int32_t n_sequences;
    struct cop_floats *levels; /* [capacity + 1] logits of rows, which live until observe */
    struct cop_feed feed;
};

static void close_session(void *opened)
{
    struct session *session = opened;
    if (!session) {
        return;
    }
    for (int32_t i = 0; session->slot_of && i < session->n_sequences; i++) {
        free(session->slot_of[i]);
    }
    for (int32_t i = 0; session->levels && i <= session->capacity; i++) {
        free(session->levels[i].items);
    }
    cop_layer_trials_free(session->trials);
    free(session->slot_of);
    free(session->levels);
    cop_feed_release(&session->feed);
    free(session->skip);
    cop_row_arena_free(session->arena);
    cop_cache_free(session->own);
    cop_model_free(session->model);
    free(session);
}

static enum cop_status mark(uint8_t *skip, const struct cop_int_list *list, uint8_t what,
                            const char *name, int32_t layers, struct cop_error *err)
{
    for (int32_t i = 0; i < list->count; i++) {
        if (list->items[i] >= layers) {
            return cop_fail(
                err, COP_ERR_ARGUMENT,
                "cop.propose.layer_skip: %s names layer %d; the target's layers are "
                "0 to %d",
                name, list->items[i], layers - 1);
        }
        skip[list->items[i]] |= what;
    }
    return COP_OK;
}

static enum cop_status mark_all(const struct layer_skip *state, uint8_t *skip, int32_t layers,
                                struct cop_error *err)
{
    enum cop_status status =
        mark(skip, &state->skip_attention, COP_SKIP_ATTENTION, "skip_attention", layers, err);
    if (status == COP_OK) {
        status = mark(skip, &state->skip_mlp, COP_SKIP_MLP, "skip_mlp", layers, err);
    }
    if (status == COP_OK && state->exit != INT32_MIN && state->exit >= layers) {
        return cop_fail(
            err, COP_ERR_ARGUMENT,
            "cop.propose.layer_skip: exit = %d leaves nothing out of the target's %d "
            "layers",
            state->exit, layers);
    }
    for (int32_t i = state->exit; status == COP_OK && i >= 1 && i < layers; i++) {
        skip[i] = COP_SKIP_ATTENTION | COP_SKIP_MLP;
    }
    return status;
}

static bool make_room(struct session *session)
{
    size_t nodes = (size_t)session->capacity + 1;
    session->slot_of = calloc((size_t)session->n_sequences, sizeof *session->slot_of);
    session->levels = calloc(nodes, sizeof *session->levels);
    session->arena = cop_row_arena_new();
    bool is_whole = session->slot_of && session->levels && session->arena && session->skip;
    for (int32_t i = 0; is_whole && i < session->n_sequences; i++) {
        session->slot_of[i] = malloc(nodes * sizeof **session->slot_of);
        is_whole = session->slot_of[i] != NULL;
    }
    return is_whole;
}

static enum cop_status open_parts(struct session *session, const struct layer_skip *state,
                                  const struct cop_proposer_env *env, struct cop_error *err)
{
    int32_t layers = cop_model_info(env->target)->layers;
    session->context = cop_model_info(env->target)->context;
    session->model = cop_model_share(env->target);
    session->cache = env->cache;
    session->sampling = cop_draft_law_sampling(&state->law, &env->sampling);
    session->vocab_size = env->vocab_size;
    session->capacity = env->capacity;
    session->n_sequences = env->n_sequences;
    session->cancel = env->cancel;
    session->skip = calloc((size_t)layers, 1);
    enum cop_status status = make_room(session)
                                 ? mark_all(state, session->skip, layers, err)
                                 : cop_fail(err, COP_ERR_MEMORY, "no memory for a session");
    if (status == COP_OK && !env->cache) {
        status = cop_model_cache_new(env->target, env->n_sequences, env->capacity + 1,
                                     &session->own, err);
        session->cache = session->own;
    }
    if (status == COP_OK && searches(state)) {
        const struct cop_layer_trials_options how = {.ratio = state->search,
                                                     .goal = state->search_goal,
                                                     .most_steps = state->search_steps,
                                                     .window = state->search_window};
        status = cop_layer_trials_new(&session->trials, &how, env, err);
    }
    return status;
}

static enum cop_status open_session(const void *state, const struct cop_proposer_env *env,
                                    void **out, struct cop_error *err)
{
    if (!env->target) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "\"layer_skip\" drafts with the target, and no model is given");
    }
    struct session *session = calloc(1, sizeof *session);
    if (!session) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a session");
    }
    enum cop_status status = open_parts(session, state, env, err);
    if (status != COP_OK) {
        close_session(session);
        return status;
    }
    *out = session;
    return COP_OK;
}

/* The target's own cache is filled by whoever serves the sequence. */
static enum cop_status begin(void *opened, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err)
{
    struct session *session = opened;
    if (session->trials) {
        cop_layer_trials_begin(session->trials, sequence);
        enum cop_status status = cop_layer_trials_read(session->trials, sequence, ids, n, err);
        if (status != COP_OK) {
            return status;
        }
    }
    if (!session->own) {
        return COP_OK;
    }
    cop_cache_reset(session->own, sequence);
    int32_t n_read = n - 1 < session->context ? n - 1 : session->context;
    return cop_model_prefill(session->model, session->own, sequence, ids, n_read, 0,
                             session->cancel, err);
}

static void end(void *opened, int32_t sequence)
{
    struct session *session = opened;
    if (session->own) {
        cop_cache_reset(session->own, sequence);
    }
    if (session->trials) {
        cop_layer_trials_end(session->trials, sequence);
    }
}

/* ---- One level --------------------------------------------------------------------------- */

/* Nodes that are fed: all of a level, or none where the context ends. An engine's tree ends
 * with it; who asks ahead of the tree, or about any context, may ask for more. */
static int32_t n_fed(const struct session *session, const struct cop_frontier *frontier)
{
    int32_t depth = cop_tree_depth(frontier->tree, frontier->nodes[0]);
    int32_t root = cop_cache_committed(session->cache, frontier->sequence);
    return root < session->context - depth ? frontier->count : 0;
}

static enum cop_status reserve_pass(struct session *session, int32_t n,
                                    struct cop_floats *level, struct cop_error *err)
{
    return cop_feed_start(&session->feed, n) &&
                   cop_floats_reserve(level, (size_t)n * (size_t)session->vocab_size)
               ? COP_OK
               : cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", n);
}

static void feed(struct session *session, const struct cop_frontier *frontier)
{
    const struct cop_tree *tree = frontier->tree;
    int32_t *slot_of = session->slot_of[frontier->sequence];
    int32_t slot = cop_cache_speculative(session->cache, frontier->sequence);
    for (int32_t i = 0, n = n_fed(session, frontier); i < n; i++) {
        int32_t node = frontier->nodes[i], parent = tree->parent[node];
        slot_of[node] = slot++;
        cop_feed_add(&session->feed, frontier->sequence, tree->token[node],
                     parent < 0 ? -1 : slot_of[parent]);
    }
}

static enum cop_status hand_out(struct session *session, struct cop_frontier *frontier,
                                float *logits, struct cop_error *err)
{
    const struct cop_row_tokens tokens = {.vocab = session->vocab_size};
    enum cop_status status = COP_OK;
    for (int32_t i = 0, n = n_fed(session, frontier); i < n && status == COP_OK; i++) {
        struct cop_error failure = {0};
        status = cop_frontier_row(frontier, i, logits, &tokens, &session->sampling,
                                  session->arena, &failure);
        logits += session->vocab_size;
        if (status != COP_OK) {
            frontier->rows[i] = (struct cop_row){.kind = COP_ROW_NONE};
            (void)cop_fail(frontier->error ? frontier->error : err, status,
                           "draft row of skipped layers: %s", failure.text);
            status = frontier->error ? COP_OK : status;
        }
    }
    return status;
}

static enum cop_status run_pass(struct session *session, const uint8_t *skip, float *logits,
                                struct cop_error *err)
{
    const struct cop_score pass = {.n = session->feed.n,
                                   .tokens = session->feed.tokens,
                                   .sequences = session->feed.sequences,
                                   .parents = session->feed.parents,
                                   .skip = skip,
                                   .logits = logits,
                                   .cancel = session->cancel};
    return pass.n > 0 ? cop_model_score(session->model, session->cache, &pass, err) : COP_OK;
}

/* One for all, or one for each where each leaves out other parts. */
static enum cop_status run_passes(struct session *session, const struct cop_frontier *frontiers,
                                  int32_t n_frontiers, float *logits, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        feed(session, &frontiers[f]);
        if (session->trials) {
            status =
                run_pass(session, cop_layer_trials_best(session->trials, frontiers[f].sequence),
                         logits, err);
            logits += (size_t)session->feed.n * (size_t)session->vocab_size;
            session->feed.n = 0;
        }
    }
    return session->trials || status != COP_OK ? status
                                               : run_pass(session, session->skip, logits, err);
}

static enum cop_status expand(void *opened, struct cop_frontier *frontiers, int32_t n_frontiers,
                              struct cop_error *err)
{
    struct session *session = opened;
    int32_t depth = cop_tree_depth(frontiers[0].tree, frontiers[0].nodes[0]), n = 0;
    struct cop_floats *level = &session->levels[depth];
    if (depth == 0) {
        cop_row_arena_reset(session->arena);
    }
    for (int32_t f = 0; f < n_frontiers; f++) {
        n += n_fed(session, &frontiers[f]);
    }
    if (n == 0) {
        return COP_OK;
    }
    enum cop_status status = COP_OK;
    for (int32_t f = 0; depth == 0 && session->trials && f < n_frontiers; f++) {
        status = status == COP_OK
                     ? cop_layer_trials_step(session->trials, frontiers[f].sequence, err)
                     : status;
    }
    if (status == COP_OK) {
        status = reserve_pass(session, n, level, err);
    }
    if (status == COP_OK) {
        status = run_passes(session, frontiers, n_frontiers, level->items, err);
    }
    float *logits = level->items;
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        status = hand_out(session, &frontiers[f], logits, err);
        logits += (size_t)n_fed(session, &frontiers[f]) * (size_t)session->vocab_size;
    }
    return status;
}

/* A cache of its own is brought up to date by the whole model, as the target's would be. */
static enum cop_status observe(void *opened, const struct cop_observed *observed,
                               struct cop_error *err)
{
    struct session *session = opened;
    enum cop_status status = COP_OK;
    if (session->trials) {
        status = cop_layer_trials_read(session->trials, observed->sequence, observed->committed,
                                       observed->n_accepted + 1, err);
    }
    if (!session->own || status != COP_OK) {
        return status;
    }
    cop_cache_rollback(session->own, observed->sequence);
    status = cop_model_prefill(session->model, session->own, observed->sequence,
                               observed->tree->token, 1, 0, session->cancel, err);
    return status == COP_OK ? cop_model_prefill(session->model, session->own,
                                                observed->sequence, observed->committed,
                                                observed->n_accepted, 0, session->cancel, err)
                            : status;
}

const struct cop_proposer_ops cop_propose_layer_skip = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "layer_skip",
             .help =
                 "the target drafts for itself with chosen attention and feed-forward parts "
                 "left out, or with its first layers only; it shares the target's weights "
                 "and cache",
             .source = "Zhang et al. 2023 (Draft & Verify), arXiv:2309.08168; Elhoushi et al. "
                       "2024 (LayerSkip), arXiv:2404.16710; Xia et al. 2024 (SWIFT), "
                       "arXiv:2410.06916",
             .synonyms = "self-speculative decoding, early exit, SWIFT",
             .state_size = sizeof(struct layer_skip),
             .options = options,
             .prepare = prepare},
    .supply = COP_SUPPLY_DENSE,
    .rows_by_prefix = true,
    .own_depth = own_depth,
    .open = open_session,
    .close = close_session,
    .begin = begin,
    .expand = expand,
    .observe = observe,
    .end = end,
    .facts = facts,
};
