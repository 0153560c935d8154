/* Lookahead decoding: while the target verifies guesses, the same pass runs Jacobi iterations
 * on a window of tokens ahead, and the n-grams that pass through it are the next guesses.
 *
 *     W = 5, N = 4     position of level j, column i: root + i + j
 *
 *     level 0     root  ●  ●  ●  ●        columns 1 to 4, a chain below the root
 *     level 1       ●   ●  ●  ●  ●        each column goes on below its level-0 token
 *     level 2       ●   ●  ●  ●  ●
 *     new           ◦   ◦  ◦  ◦  ◦        best tokens after the top level
 *
 * A node of level j and column i sees the level-0 tokens of columns 0 to i and its own column:
 * that is a path of a tree, so window nodes are scouts, scored with the guesses and hidden from
 * the rule. After the pass, column i has made the n-gram (level 0, level 1, …, new); its first
 * token is the key under which the pool keeps the rest, at most `guesses` of them, the oldest
 * use first out. Then the levels move down by one, whatever was committed.
 *
 * A window begins with level 0 alone, tokens of the prompt, N - 2 columns wider than it will
 * be. Each of the first N - 2 passes fills one more level with its new tokens, and the column
 * that the committed token has reached falls away. */

#include "algorithms/propose/points.h"
#include "algorithms/tree/own_tree.h"

#include <stdlib.h>
#include <string.h>

struct lookahead {
    int32_t window, ngram, guesses;
    bool prompt_pool, warm_up;
};

static const struct cop_option options[] = {
    {.name = "window",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct lookahead, window),
     .min = 1,
     .max = 256,
     .fallback = 15,
     .help = "W: columns of the window"},
    {.name = "ngram",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct lookahead, ngram),
     .min = 3,
     .max = 16,
     .fallback = 5,
     .help = "N: tokens of an n-gram; the window has N - 1 levels"},
    {.name = "guesses",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct lookahead, guesses),
     .min = 1,
     .max = 256,
     .fallback = 15,
     .help = "G: n-grams kept and verified for one first token"},
    {.name = "prompt_pool",
     .type = COP_OPTION_BOOL,
     .offset = offsetof(struct lookahead, prompt_pool),
     .fallback = 1,
     .help = "whether the pool begins with the prompt's own n-grams"},
    {.name = "warm_up",
     .type = COP_OPTION_BOOL,
     .offset = offsetof(struct lookahead, warm_up),
     .fallback = 1,
     .help =
         "whether the first passes fill the upper levels; else all begin with tokens of the "
         "prompt"},
    {0}};

static int32_t n_tail(const struct lookahead *state)
{
    return state->ngram - 1;
}

static int32_t own_depth(const void *state)
{
    return n_tail(state);
}

static enum cop_status own_tree(const void *state, struct cop_part **builder,
                                struct cop_error *err)
{
    const struct lookahead *own = state;
    int32_t nodes = own->guesses * n_tail(own);
    enum cop_shape shape = own->guesses == 1 ? COP_SHAPE_CHAIN : COP_SHAPE_TREE;
    return cop_own_tree_new(shape, n_tail(own), nodes, builder, err);
}

/* With this many levels filled. */
static int32_t n_columns(const struct lookahead *own, int32_t n_filled)
{
    return own->window + n_tail(own) - n_filled;
}

/* Window nodes at most, the root with them. */
static int32_t n_nodes(const struct lookahead *own)
{
    int32_t most = n_tail(own) * own->window;
    for (int32_t filled = 1; own->warm_up && filled < n_tail(own); filled++) {
        int32_t n = filled * n_columns(own, filled);
        most = n > most ? n : most;
    }
    return most;
}

static void facts(const void *state, struct cop_proposer_facts *facts)
{
    facts->n_scouts = n_nodes(state) - 1;
}

/* From level to level in memory: the most columns that there are. */
static int32_t stride(const struct lookahead *own)
{
    return n_columns(own, 1);
}

/* ---- The window -------------------------------------------------------------------------- */

/* Node level * window + column hangs below this one; node 0, the root, below none (-1). */
static int32_t parent_of(int32_t window, int32_t level, int32_t column)
{
    if (level == 0) {
        return column - 1;
    }
    return level == 1 ? column : (level - 1) * window + column;
}

/* ---- The pool ---------------------------------------------------------------------------- */

/* Tails by their first token: bucket b holds `count` of them, the latest used first. */
struct pool {
    int32_t n_tail, most;
    int32_t *bucket_of; /* [vocab] -1: none */
    int32_t vocab;
    int32_t *counts;  /* [n_buckets] */
    cop_token *tails; /* [n_buckets][most][n_tail] */
    int32_t n_buckets, capacity;
};

static void pool_clear(struct pool *pool)
{
    pool->n_buckets = 0;
    memset(pool->bucket_of, -1, (size_t)pool->vocab * sizeof *pool->bucket_of);
}

static size_t bucket_size(const struct pool *pool)
{
    return (size_t)pool->most * (size_t)pool->n_tail;
}

static enum cop_status pool_reserve(struct pool *pool, struct cop_error *err)
{
    if (pool->n_buckets < pool->capacity) {
        return COP_OK;
    }
    int32_t capacity = 2 * pool->capacity + 64;
    int32_t *counts = realloc(pool->counts, (size_t)capacity * sizeof *counts);
    if (!counts) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a pool of n-grams");
    }
    pool->counts = counts;
    cop_token *tails =
        realloc(pool->tails, (size_t)capacity * bucket_size(pool) * sizeof *tails);
    if (!tails) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a pool of n-grams");
    }
    pool->tails = tails;
    pool->capacity = capacity;
    return COP_OK;
}

/* To the front of its bucket; the last one falls out of a full bucket. */
static enum cop_status pool_add(struct pool *pool, cop_token key, const cop_token *tail,
                                struct cop_error *err)
{
    size_t bytes = (size_t)pool->n_tail * sizeof *tail;
    if (key < 0 || key >= pool->vocab) {
        return COP_OK;
    }
    if (pool->bucket_of[key] < 0) {
        enum cop_status status = pool_reserve(pool, err);
        if (status != COP_OK) {
            return status;
        }
        pool->counts[pool->n_buckets] = 0;
        pool->bucket_of[key] = pool->n_buckets++;
    }
    int32_t *count = &pool->counts[pool->bucket_of[key]];
    cop_token *tails = pool->tails + (size_t)pool->bucket_of[key] * bucket_size(pool);
    int32_t place = 0;
    while (place < *count && memcmp(tails + place * pool->n_tail, tail, bytes) != 0) {
        place++;
    }
    if (place == *count) {
        *count += *count < pool->most;
        place = *count - 1;
    }
    memmove(tails + pool->n_tail, tails, (size_t)place * bytes);
    memcpy(tails, tail, bytes);
    return COP_OK;
}

/* ---- Sessions ---------------------------------------------------------------------------- */

struct context {
    struct pool pool;
    struct cop_points points;
    cop_token *level; /* [ngram - 1][stride]; column 0 of level 0 is the root */
    int32_t *node;    /* [n_filled][columns] of this cycle's tree; -1: beyond the context */
    int32_t n_filled; /* levels; ngram - 1 when the window is warm */
};
struct session {
    const struct lookahead *options;
    int32_t vocab_size, n_sequences;
    struct context *contexts; /* [n_sequences] */
};

static void close_session(void *opened)
{
    struct session *session = opened;
    if (!session) {
        return;
    }
    for (int32_t i = 0; session->contexts && i < session->n_sequences; i++) {
        struct context *context = &session->contexts[i];
        cop_points_release(&context->points);
        free(context->pool.bucket_of);
        free(context->pool.counts);
        free(context->pool.tails);
        free(context->level);
        free(context->node);
    }
    free(session->contexts);
    free(session);
}

static enum cop_status open_context(const struct session *session, struct context *context,
                                    const struct cop_proposer_env *env, struct cop_error *err)
{
    const struct lookahead *own = session->options;
    size_t n = (size_t)n_tail(own) * (size_t)stride(own);
    context->pool = (struct pool){
        .n_tail = n_tail(own),
        .most = own->guesses,
        .bucket_of = malloc((size_t)env->vocab_size * sizeof *context->pool.bucket_of),
        .vocab = env->vocab_size};
    context->level = malloc(n * sizeof *context->level);
    context->node = malloc((size_t)n_nodes(own) * sizeof *context->node);
    if (!context->pool.bucket_of || !context->level || !context->node) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a window of %d tokens", (int)n);
    }
    return cop_points_init(&context->points, own->guesses * n_tail(own), env->capacity, err);
}

static enum cop_status open_session(const void *state, const struct cop_proposer_env *env,
                                    void **out, struct cop_error *err)
{
    struct session *session = calloc(1, sizeof *session);
    if (!session) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a window");
    }
    session->options = state;
    session->vocab_size = env->vocab_size;
    session->n_sequences = env->n_sequences;
    session->contexts = calloc((size_t)env->n_sequences, sizeof *session->contexts);
    enum cop_status status =
        session->contexts ? COP_OK : cop_fail(err, COP_ERR_MEMORY, "no memory for a window");
    for (int32_t i = 0; i < env->n_sequences && status == COP_OK; i++) {
        status = open_context(session, &session->contexts[i], env, err);
    }
    if (status != COP_OK) {
        close_session(session);
        return status;
    }
    *out = session;
    return COP_OK;
}

static void forget_nodes(const struct lookahead *own, struct context *context)
{
    for (int32_t i = 0; i < n_nodes(own); i++) {
        context->node[i] = -1;
    }
}

/* The window begins with tokens of the prompt, chosen by their place. */
static enum cop_status begin(void *opened, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err)
{
    struct session *session = opened;
    const struct lookahead *own = session->options;
    struct context *context = &session->contexts[sequence];
    enum cop_status status = COP_OK;
    pool_clear(&context->pool);
    context->n_filled = own->warm_up ? 1 : n_tail(own);
    for (int32_t i = 0; i < n_tail(own) * stride(own); i++) {
        context->level[i] = ids[(((uint32_t)i + 1u) * 0x9e3779b1u >> 8) % (uint32_t)n];
    }
    forget_nodes(own, context);
    for (int32_t i = 0; own->prompt_pool && i + n_tail(own) < n && status == COP_OK; i++) {
        status = pool_add(&context->pool, ids[i], ids + i + 1, err);
    }
    return status;
}

static void end(void *opened, int32_t sequence)
{
    pool_clear(&((struct session *)opened)->contexts[sequence].pool);
}

/* ---- The cycle --------------------------------------------------------------------------- */

/* The tails that follow the root, merged where they begin alike. */
static void make_guesses(struct context *context, cop_token root)
{
    const struct pool *pool = &context->pool;
    struct cop_points *points = &context->points;
    int32_t bucket = root >= 0 && root < pool->vocab ? pool->bucket_of[root] : -1;
    cop_points_start(points, false);
    for (int32_t i = 0; bucket >= 0 && i < pool->counts[bucket]; i++) {
        const cop_token *tail =
            pool->tails + (size_t)bucket * bucket_size(pool) + (size_t)i * (size_t)pool->n_tail;
        int32_t node = 0;
        for (int32_t d = 0; d < pool->n_tail && node >= 0; d++) {
            int32_t child = node + 1;
            while (child <= points->count &&
                   (points->parent[child] != node || points->token[child] != tail[d])) {
                child++;
            }
            node = child <= points->count ? child : cop_points_add(points, node, tail[d], 0);
        }
    }
    cop_points_seal(points);
}

static enum cop_status expand(void *opened, struct cop_frontier *frontiers, int32_t n_frontiers,
                              struct cop_error *err)
{
    (void)err;
    struct session *session = opened;
    for (int32_t f = 0; f < n_frontiers; f++) {
        struct context *context = &session->contexts[frontiers[f].sequence];
        if (frontiers[f].nodes[0] == 0) {
            make_guesses(context, frontiers[f].tree->token[0]);
        }
        cop_points_answer(&context->points, &frontiers[f], session->vocab_size);
    }
    return COP_OK;
}

static void scout(void *opened, int32_t sequence, struct cop_tree *tree, int32_t max_depth)
{
    const struct session *session = opened;
    const struct lookahead *own = session->options;
    struct context *context = &session->contexts[sequence];
    context->level[0] = tree->token[0];
    context->node[0] = 0;
    int32_t columns = n_columns(own, context->n_filled);
    for (int32_t i = 1; i < context->n_filled * columns; i++) {
        int32_t level = i / columns, column = i % columns;
        int32_t parent = context->node[parent_of(columns, level, column)];
        context->node[i] =
            parent < 0 || level + column > max_depth
                ? -1
                : cop_tree_scout(tree, parent, context->level[level * stride(own) + column]);
    }
}

/* The best token after the top of a column, or NULL: that was not scored. */
static const cop_token *new_token(const struct lookahead *own, const struct context *context,
                                  const struct cop_observed *observed, int32_t column)
{
    int32_t columns = n_columns(own, context->n_filled);
    int32_t node = context->node[(context->n_filled - 1) * columns + column];
    const struct cop_row *row = node < 0 ? NULL : cop_rows_at(&observed->target, node);
    return row ? &row->best : NULL;
}

/* One more level is filled; the first column falls away. */
static void fill_level(const struct lookahead *own, struct context *context,
                       const struct cop_observed *observed)
{
    int32_t columns = n_columns(own, context->n_filled);
    cop_token *top = context->level + context->n_filled * stride(own);
    for (int32_t i = 1; i < columns; i++) {
        const cop_token *found = new_token(own, context, observed, i);
        top[i - 1] = found ? *found : top[i - 1];
    }
    for (int32_t j = 0; j < context->n_filled; j++) {
        cop_token *level = context->level + j * stride(own);
        memmove(level, level + 1, (size_t)(columns - 1) * sizeof *level);
    }
    context->n_filled++;
}

/* Column i has made an n-gram; its new token becomes the top of the column. */
static enum cop_status finish_column(const struct session *session, struct context *context,
                                     const struct cop_observed *observed, int32_t column,
                                     struct cop_error *err)
{
    const struct lookahead *own = session->options;
    int32_t n = n_tail(own);
    const cop_token *found = new_token(own, context, observed, column);
    cop_token tail[16], key = context->level[column];
    for (int32_t j = 0; j + 1 < n; j++) {
        tail[j] = context->level[(j + 1) * stride(own) + column];
        context->level[j * stride(own) + column] = tail[j];
    }
    if (!found) {
        return COP_OK;
    }
    tail[n - 1] = context->level[(n - 1) * stride(own) + column] = *found;
    return pool_add(&context->pool, key, tail, err);
}

static enum cop_status observe(void *opened, const struct cop_observed *observed,
                               struct cop_error *err)
{
    struct session *session = opened;
    struct context *context = &session->contexts[observed->sequence];
    const struct lookahead *own = session->options;
    enum cop_status status = COP_OK;
    if (context->node[0] < 0) { /* no scouts were sent: the window waits */
        return COP_OK;
    }
    bool is_warm = context->n_filled == n_tail(own);
    for (int32_t i = 0; is_warm && i < own->window && status == COP_OK; i++) {
        status = finish_column(session, context, observed, i, err);
    }
    if (!is_warm) {
        fill_level(own, context, observed);
    }
    forget_nodes(own, context); /* no longer of any tree */
    return status;
}

const struct cop_proposer_ops cop_propose_lookahead = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "lookahead",
             .help =
                 "the target drafts for itself: a window of Jacobi iterations in the pass "
                 "that verifies makes n-grams, and those that begin with the last token are "
                 "the guesses",
             .source = "Fu, Bailis, Stoica, Zhang 2024, arXiv:2402.02057",
             .synonyms = "lookahead decoding, LADE",
             .state_size = sizeof(struct lookahead),
             .options = options},
    .supply = COP_SUPPLY_POINTS,
    .own_depth = own_depth,
    .own_tree = own_tree,
    .open = open_session,
    .close = close_session,
    .begin = begin,
    .expand = expand,
    .observe = observe,
    .end = end,
    .scout = scout,
    .facts = facts,
};
