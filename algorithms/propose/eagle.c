/* EAGLE: a small layer carries the target's hidden states on (algorithms/heads/eagle.h).
 *
 *     committed           t0 t1 t2 t3 t4 t5 | t6 = root
 *     rows of the head    f0,t1  f1,t2 … f5,t6         position 0 … 5: each f is the target's
 * own a cycle's tree      (y5,a) (y5,b)  (y6,c) …      position 6, 7 …: y is the head's guess
 *
 * Only rows of true states are committed to the head's cache. What was accepted is fed again in
 * the next cycle, as states of the target with the tokens behind them (`waiting`), and all rows
 * of the tree are dropped: the head never builds on its own guesses about decided text. One
 * pass a level serves the frontiers of all sequences. */
#include "algorithms/heads/eagle.h"
#include "algorithms/propose/draft_law.h"
#include "core/cycle/proposer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT = 64 }; /* more waiting rows than this are fed between cycles */

struct settings {
    char *path;
    int32_t depth;
    struct cop_draft_law law;
    struct cop_eagle *eagle; /* what the folder holds, for questions about it */
};

static const struct cop_option options[] = {
    {.name = "path",
     .type = COP_OPTION_STRING,
     .offset = offsetof(struct settings, path),
     .flags = COP_OPTION_REQUIRED | COP_OPTION_POSITIONAL,
     .help = "of the checkpoint: config.json beside safetensors or a PyTorch file"},
    {.name = "depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct settings, depth),
     .min = 1,
     .max = COP_TREE_LIMIT - 1,
     .fallback = 5,
     .help = "length of the chain when no tree is given"},
    COP_DRAFT_LAW_OPTIONS(struct settings, law),
    {0}};

static enum cop_status prepare(void *state, struct cop_error *err)
{
    struct settings *settings = state;
    settings->eagle = calloc(1, sizeof *settings->eagle);
    enum cop_status status = settings->eagle
                                 ? cop_eagle_open(settings->eagle, settings->path, err)
                                 : cop_fail(err, COP_ERR_MEMORY, "no memory for an EAGLE head");
    if (status == COP_OK && settings->eagle->mask_token >= 0) {
        status = cop_fail(err, COP_ERR_ARGUMENT,
                          "%s: a P-EAGLE head drafts all positions in one pass; write "
                          "cop.propose.parallel { path = … }",
                          settings->eagle->files.name);
        cop_eagle_close(settings->eagle);
    }
    if (status != COP_OK) {
        free(settings->eagle);
        settings->eagle = NULL;
    }
    return status;
}

static void release(void *state)
{
    struct settings *settings = state;
    cop_eagle_close(settings->eagle);
    free(settings->eagle);
    settings->eagle = NULL;
}

static int32_t own_depth(const void *state)
{
    return ((const struct settings *)state)->depth;
}

static int32_t hidden_layers(const void *state, const struct cop_model_info *target,
                             int32_t *layers)
{
    return cop_eagle_taps(((const struct settings *)state)->eagle, target, layers);
}

/* ---- Sessions --------------------------------------------------------------------------- */

struct context {
    int32_t length;    /* committed tokens, root included */
    int32_t n_waiting; /* rows of true states that the cache lacks; the last has the root */
    int32_t waiting_capacity;
    float *states;     /* [waiting_capacity, taps * target width] */
    cop_token *tokens; /* [waiting_capacity] */
    int32_t *slot_of;  /* [capacity + 1] node -> speculative slot; -1: not fed */
    float *guesses;    /* [guess_capacity, width] x below the root, then below each slot */
    int32_t guess_capacity;
};
struct level { /* rows live until observe, so each level keeps its logits */
    float *logits;
    size_t capacity;
};
struct session {
    struct cop_eagle eagle;
    struct cop_model *target;
    struct cop_cache *cache;
    struct cop_row_arena *arena;
    struct cop_sampling sampling;
    int32_t vocab_size, positions, n_sequences, capacity;
    size_t states_width, width;
    struct context *contexts; /* [n_sequences] */
    struct level *levels;     /* [capacity + 1] */
    /* One pass; grown by need. */
    int32_t n, n_wanted, pass_capacity;
    cop_token *tokens; /* owns the block of integers */
    int32_t *sequences, *parents, *wanted;
    float *x;      /* [n, width]; owns the block of floats */
    float *states; /* [n, states_width] */
    float *y;      /* [n_wanted, width] */
};

static void close_session(void *opened)
{
    struct session *session = opened;
    if (!session) {
        return;
    }
    for (int32_t i = 0; session->contexts && i < session->n_sequences; i++) {
        free(session->contexts[i].states);
        free(session->contexts[i].tokens);
        free(session->contexts[i].slot_of);
        free(session->contexts[i].guesses);
    }
    for (int32_t i = 0; session->levels && i <= session->capacity; i++) {
        free(session->levels[i].logits);
    }
    free(session->contexts);
    free(session->levels);
    free(session->tokens);
    free(session->x);
    cop_row_arena_free(session->arena);
    cop_cache_free(session->cache);
    cop_eagle_close(&session->eagle);
    cop_model_free(session->target);
    free(session);
}

static enum cop_status make_contexts(struct session *session, struct cop_error *err)
{
    size_t nodes = (size_t)session->capacity + 1;
    session->contexts = calloc((size_t)session->n_sequences, sizeof *session->contexts);
    session->levels = calloc(nodes, sizeof *session->levels);
    session->arena = cop_row_arena_new();
    bool is_whole = session->contexts && session->levels && session->arena;
    for (int32_t i = 0; is_whole && i < session->n_sequences; i++) {
        session->contexts[i].slot_of = malloc(nodes * sizeof(int32_t));
        is_whole = session->contexts[i].slot_of != NULL;
    }
    return is_whole ? COP_OK
                    : cop_fail(err, COP_ERR_MEMORY, "no memory for an EAGLE head's session");
}

static enum cop_status fill_session(struct session *session, const struct settings *settings,
                                    const struct cop_proposer_env *env, struct cop_error *err)
{
    enum cop_status status = cop_eagle_open(&session->eagle, settings->path, err);
    if (status == COP_OK) {
        status = cop_eagle_load(&session->eagle, env->target, err);
    }
    if (status == COP_OK) {
        status = cop_block_cache_new(session->eagle.block, env->n_sequences,
                                     env->capacity + COP_PREFILL_CHUNK, &session->cache, err);
    }
    if (status != COP_OK) {
        return status;
    }
    int32_t taps[COP_EAGLE_TAPS];
    const struct cop_model_info *info = cop_model_info(env->target);
    session->width = (size_t)session->eagle.width;
    session->states_width =
        (size_t)cop_eagle_taps(&session->eagle, info, taps) * (size_t)info->hidden_size;
    session->sampling = cop_draft_law_sampling(&settings->law, &env->sampling);
    session->vocab_size = env->vocab_size;
    session->positions = info->context;
    session->n_sequences = env->n_sequences;
    session->capacity = env->capacity;
    return make_contexts(session, err);
}

static enum cop_status open_session(const void *state, const struct cop_proposer_env *env,
                                    void **out, struct cop_error *err)
{
    struct session *session = calloc(1, sizeof *session);
    if (!session) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for an EAGLE head's session");
    }
    session->target = cop_model_share(env->target);
    enum cop_status status = fill_session(session, state, env, err);
    if (status != COP_OK) {
        close_session(session);
        return status;
    }
    *out = session;
    return COP_OK;
}

static void forget_tree(struct session *session, int32_t sequence)
{
    memset(session->contexts[sequence].slot_of, -1,
           ((size_t)session->capacity + 1) * sizeof(int32_t));
}

static enum cop_status begin(void *opened, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err)
{
    struct session *session = opened;
    (void)ids;
    (void)err;
    session->contexts[sequence].length = n;
    session->contexts[sequence].n_waiting = 0;
    forget_tree(session, sequence);
    cop_cache_reset(session->cache, sequence);
    return COP_OK;
}

static void end(void *opened, int32_t sequence)
{
    struct session *session = opened;
    cop_cache_reset(session->cache, sequence);
    session->contexts[sequence].n_waiting = 0;
}

/* ---- One pass --------------------------------------------------------------------------- */

static enum cop_status reserve_pass(struct session *session, int32_t n, struct cop_error *err)
{
    session->n = 0;
    session->n_wanted = 0;
    if (n <= session->pass_capacity) {
        return COP_OK;
    }
    free(session->tokens);
    free(session->x);
    session->pass_capacity = 0;
    session->tokens = malloc(4 * (size_t)n * sizeof *session->tokens);
    session->x =
        malloc((size_t)n * (2 * session->width + session->states_width) * sizeof *session->x);
    if (!session->tokens || !session->x) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to draft with %d rows", n);
    }
    session->sequences = session->tokens + n;
    session->parents = session->sequences + n;
    session->wanted = session->parents + n;
    session->y = session->x + (size_t)n * session->width;
    session->states = session->y + (size_t)n * session->width;
    session->pass_capacity = n;
    return COP_OK;
}

static void feed(struct session *session, int32_t sequence, cop_token token, int32_t parent,
                 bool is_wanted)
{
    session->tokens[session->n] = token;
    session->sequences[session->n] = sequence;
    session->parents[session->n] = parent;
    if (is_wanted) {
        session->wanted[session->n_wanted++] = session->n;
    }
    session->n++;
}

/* The first `count` waiting rows as a chain, with the target's states. */
static void feed_waiting(struct session *session, int32_t sequence, int32_t count,
                         bool is_last_wanted)
{
    const struct context *context = &session->contexts[sequence];
    memcpy(session->states + (size_t)session->n * session->states_width, context->states,
           (size_t)count * session->states_width * sizeof *session->states);
    for (int32_t i = 0; i < count; i++) {
        feed(session, sequence, context->tokens[i], i - 1, is_last_wanted && i == count - 1);
    }
}

/* What was fed of the waiting rows is decided: the cache keeps it. */
static enum cop_status commit_waiting(struct session *session, int32_t sequence, int32_t count,
                                      struct cop_error *err)
{
    struct context *context = &session->contexts[sequence];
    int32_t *path = malloc((size_t)count * sizeof *path);
    if (!path) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to commit %d rows", count);
    }
    for (int32_t i = 0; i < count; i++) {
        path[i] = i;
    }
    cop_cache_commit(session->cache, sequence, path, count);
    free(path);
    context->n_waiting -= count;
    memmove(context->states, context->states + (size_t)count * session->states_width,
            (size_t)context->n_waiting * session->states_width * sizeof *context->states);
    memmove(context->tokens, context->tokens + count,
            (size_t)context->n_waiting * sizeof *context->tokens);
    return COP_OK;
}

static enum cop_status run_pass(struct session *session, bool is_true, struct cop_error *err)
{
    const struct cop_eagle_rows rows = {.n = session->n,
                                        .sequences = session->sequences,
                                        .parents = session->parents,
                                        .tokens = session->tokens,
                                        .x = session->x};
    enum cop_status status =
        is_true ? cop_eagle_fuse(&session->eagle, session->states, session->n, session->x, err)
                : COP_OK;
    return status == COP_OK ? cop_eagle_step(&session->eagle, session->cache, &rows, err)
                            : status;
}

/* Waiting rows but the root's go into the cache now. */
static enum cop_status catch_up(struct session *session, int32_t sequence,
                                struct cop_error *err)
{
    int32_t count = session->contexts[sequence].n_waiting - 1;
    if (count < 1) {
        return COP_OK;
    }
    enum cop_status status = reserve_pass(session, count, err);
    if (status == COP_OK) {
        feed_waiting(session, sequence, count, false);
        status = run_pass(session, true, err);
    }
    return status == COP_OK ? commit_waiting(session, sequence, count, err) : status;
}

/* ---- What the target's states teach ------------------------------------------------------ */

/* States of one token, out of [layer, n tokens, target width], beside the token behind it. */
static void push_waiting(struct session *session, int32_t sequence, const float *hidden,
                         int32_t n, int32_t at, cop_token behind)
{
    struct context *context = &session->contexts[sequence];
    size_t width = (size_t)session->eagle.target_width;
    float *to = context->states + (size_t)context->n_waiting * session->states_width;
    for (size_t layer = 0; layer < session->states_width / width; layer++) {
        memcpy(to + layer * width, hidden + (layer * (size_t)n + (size_t)at) * width,
               width * sizeof *to);
    }
    context->tokens[context->n_waiting++] = behind;
}

static enum cop_status reserve_waiting(struct session *session, int32_t sequence, int32_t more,
                                       struct cop_error *err)
{
    struct context *context = &session->contexts[sequence];
    int32_t n = context->n_waiting + more;
    if (n <= context->waiting_capacity) {
        return COP_OK;
    }
    float *states =
        realloc(context->states, (size_t)n * session->states_width * sizeof *states);
    if (states) {
        context->states = states;
    }
    cop_token *tokens = realloc(context->tokens, (size_t)n * sizeof *tokens);
    if (tokens) {
        context->tokens = tokens;
    }
    if (!states || !tokens) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the hidden states of %d tokens", n);
    }
    context->waiting_capacity = n;
    return COP_OK;
}

static enum cop_status prefilled(void *opened, const struct cop_prefilled *chunk,
                                 struct cop_error *err)
{
    struct session *session = opened;
    enum cop_status status = reserve_waiting(session, chunk->sequence, chunk->n, err);
    for (int32_t i = 0; status == COP_OK && i < chunk->n; i++) {
        push_waiting(session, chunk->sequence, chunk->hidden, chunk->n, i, chunk->ids[i + 1]);
    }
    return status == COP_OK ? catch_up(session, chunk->sequence, err) : status;
}

static enum cop_status observe(void *opened, const struct cop_observed *observed,
                               struct cop_error *err)
{
    struct session *session = opened;
    int32_t sequence = observed->sequence;
    struct context *context = &session->contexts[sequence];
    cop_cache_rollback(session->cache, sequence);
    forget_tree(session, sequence);
    context->length += observed->n_accepted + 1;
    enum cop_status status = reserve_waiting(session, sequence, observed->n_accepted + 1, err);
    for (int32_t i = 0; status == COP_OK && i <= observed->n_accepted; i++) {
        push_waiting(session, sequence, observed->hidden, observed->tree->size,
                     i == 0 ? 0 : observed->accepted[i - 1], observed->committed[i]);
    }
    return status == COP_OK && context->n_waiting > WAIT ? catch_up(session, sequence, err)
                                                         : status;
}

/* ---- One level -------------------------------------------------------------------------- */

static enum cop_status reserve_guesses(struct session *session, struct context *context,
                                       int32_t n, struct cop_error *err)
{
    if (n <= context->guess_capacity) {
        return COP_OK;
    }
    n += n / 2;
    float *guesses = realloc(context->guesses, (size_t)n * session->width * sizeof *guesses);
    if (!guesses) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the states of %d nodes", n);
    }
    context->guesses = guesses;
    context->guess_capacity = n;
    return COP_OK;
}

/* Frontier nodes below the root; one whose row would lie past the context stays unfed. */
static enum cop_status feed_nodes(struct session *session, const struct cop_frontier *frontier,
                                  int32_t depth, struct cop_error *err)
{
    struct context *context = &session->contexts[frontier->sequence];
    const struct cop_tree *tree = frontier->tree;
    int32_t slot = cop_cache_speculative(session->cache, frontier->sequence);
    if (context->length - 1 + depth > session->positions) {
        return COP_OK;
    }
    for (int32_t i = 0; i < frontier->count; i++) {
        int32_t node = frontier->nodes[i], parent = tree->parent[node];
        if (context->slot_of[parent] < 0) {
            continue;
        }
        int32_t above = parent == 0 ? -1 : context->slot_of[parent];
        memcpy(session->x + (size_t)session->n * session->width,
               context->guesses + (size_t)(above + 1) * session->width,
               session->width * sizeof *session->x);
        feed(session, frontier->sequence, tree->token[node], above, true);
        context->slot_of[node] = slot++;
    }
    return reserve_guesses(session, context, slot + 1, err);
}

static enum cop_status feed_root(struct session *session, int32_t sequence,
                                 struct cop_error *err)
{
    struct context *context = &session->contexts[sequence];
    if (context->n_waiting == 0) { /* a prompt of one token: no states yet */
        return COP_OK;
    }
    feed_waiting(session, sequence, context->n_waiting, true);
    context->slot_of[0] = 0;
    return reserve_guesses(session, context, 1, err);
}

static enum cop_status feed_level(struct session *session, const struct cop_frontier *frontiers,
                                  int32_t n_frontiers, int32_t depth, struct cop_error *err)
{
    int32_t n = 0;
    for (int32_t f = 0; f < n_frontiers; f++) {
        n += depth == 0 ? session->contexts[frontiers[f].sequence].n_waiting
                        : frontiers[f].count;
    }
    enum cop_status status = reserve_pass(session, n, err);
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        status = depth == 0 ? feed_root(session, frontiers[f].sequence, err)
                            : feed_nodes(session, &frontiers[f], depth, err);
    }
    return status;
}

/* y of the wanted rows, their logits, and the x of what will hang below them. */
static enum cop_status score_level(struct session *session, struct level *level,
                                   struct cop_error *err)
{
    size_t count = (size_t)session->n_wanted * (size_t)session->vocab_size;
    if (count > level->capacity) {
        free(level->logits);
        level->logits = malloc(count * sizeof *level->logits);
        level->capacity = level->logits ? count : 0;
        for (size_t i = 0; session->eagle.ids && i < level->capacity; i++) {
            level->logits[i] = -INFINITY; /* ids that the head does not draft stay so */
        }
    }
    if (!level->logits) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", session->n_wanted);
    }
    for (int32_t i = 0; i < session->n_wanted; i++) {
        memcpy(session->y + (size_t)i * session->width,
               session->x + (size_t)session->wanted[i] * session->width,
               session->width * sizeof *session->y);
    }
    return cop_eagle_logits(&session->eagle, session->y, session->n_wanted, level->logits, err);
}

static enum cop_status hand_out_row(struct session *session, struct cop_frontier *frontier,
                                    int32_t i, float *logits, struct cop_error *err)
{
    const struct context *context = &session->contexts[frontier->sequence];
    struct cop_error failure = {0};
    enum cop_status status = cop_frontier_row(frontier, i, logits, session->vocab_size,
                                              &session->sampling, session->arena, &failure);
    if (status == COP_OK) {
        if (frontier->rows[i].kind == COP_ROW_LOGITS && session->eagle.ids) {
            frontier->rows[i].ids = session->eagle.ids;
            frontier->rows[i].count = session->eagle.n_shared;
        }
        return COP_OK;
    }
    frontier->rows[i] = (struct cop_row){.kind = COP_ROW_NONE};
    (void)cop_fail(
        frontier->error ? frontier->error : err, status, "draft row at position %d: %s",
        context->length - 1 + cop_tree_depth(frontier->tree, frontier->nodes[i]), failure.text);
    return frontier->error ? COP_OK : status;
}

/* In the order in which nodes were fed. */
static enum cop_status hand_out(struct session *session, struct cop_frontier *frontiers,
                                int32_t n_frontiers, float *logits, struct cop_error *err)
{
    const float *y = session->y;
    enum cop_status status = COP_OK;
    for (int32_t f = 0; f < n_frontiers; f++) {
        struct cop_frontier *frontier = &frontiers[f];
        struct context *context = &session->contexts[frontier->sequence];
        for (int32_t i = 0; i < frontier->count && status == COP_OK; i++) {
            int32_t node = frontier->nodes[i];
            if (context->slot_of[node] < 0) {
                continue;
            }
            size_t place = node == 0 ? 0 : (size_t)context->slot_of[node] + 1;
            memcpy(context->guesses + place * session->width, y,
                   session->width * sizeof *context->guesses);
            status = hand_out_row(session, frontier, i, logits, err);
            y += session->width;
            logits += session->vocab_size;
        }
    }
    return status;
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
        status = run_pass(session, depth == 0, err);
    }
    for (int32_t f = 0; f < n_frontiers && depth == 0 && status == COP_OK; f++) {
        int32_t sequence = frontiers[f].sequence;
        int32_t count = session->contexts[sequence].n_waiting;
        status = count > 0 ? commit_waiting(session, sequence, count, err) : COP_OK;
    }
    if (status != COP_OK || session->n == 0) {
        return status;
    }
    status = score_level(session, level, err);
    return status == COP_OK ? hand_out(session, frontiers, n_frontiers, level->logits, err)
                            : status;
}

const struct cop_proposer_ops cop_propose_eagle = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "eagle",
             .help =
                 "one trained layer carries the target's hidden states on (EAGLE-1, 2, 3 by "
                 "checkpoint), one pass of it a level",
             .source = "Li, Wei, Zhang, Zhang 2024, arXiv:2401.15077, 2406.16858; 2025, "
                       "2503.01840",
             .synonyms = "EAGLE head, feature autoregression, HASS",
             .state_size = sizeof(struct settings),
             .options = options,
             .prepare = prepare,
             .release = release},
    .supply = COP_SUPPLY_DENSE,
    .hidden_layers = hidden_layers,
    .own_depth = own_depth,
    .open = open_session,
    .close = close_session,
    .begin = begin,
    .expand = expand,
    .observe = observe,
    .end = end,
    .prefilled = prefilled,
};
