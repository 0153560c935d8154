/* REST: what followed the last tokens in a datastore, as a tree of the most frequent
 * continuations.
 *
 * The longest n-gram of max_ngram to min_ngram last tokens that the datastore has decides. Of
 * its first `occurrences` places (in the order of what follows them) the next `tokens` tokens
 * form a trie with counts; the `choices` nodes of the highest count are drafted. Of equal
 * counts the shallower node comes first, then the one whose path has the lower ids. A node's
 * confidence is its share of the places.
 *
 * The trie is never built: continuations are sorted in the datastore, so a node is a range of
 * places and its count is the length of that range. */
#include "algorithms/history/datastore.h"
#include "algorithms/propose/points.h"
#include "algorithms/tree/own_tree.h"

#include <stdlib.h>
#include <string.h>

struct retrieval {
    char *path;
    int32_t min_ngram, max_ngram, occurrences, tokens, choices;
    struct cop_datastore store; /* made by prepare */
};

#define COUNT(field, low, high, usual, text)                                                   \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_INT, .offset = offsetof(struct retrieval, field),   \
        .min = (low), .max = (high), .fallback = (usual), .help = (text)                       \
    }

static const struct cop_option options[] = {
    {.name = "path",
     .type = COP_OPTION_STRING,
     .offset = offsetof(struct retrieval, path),
     .flags = COP_OPTION_REQUIRED | COP_OPTION_POSITIONAL,
     .help = "file that cop.datastore wrote"},
    COUNT(min_ngram, 1, COP_DATASTORE_ORDER - 1, 2, "shortest n-gram to look for"),
    COUNT(max_ngram, 1, COP_DATASTORE_ORDER - 1, 16, "longest n-gram to look for"),
    COUNT(occurrences, 1, INT32_MAX, 5000, "places that are counted at most"),
    COUNT(tokens, 1, COP_DATASTORE_ORDER - 1, 10, "tokens read behind each place"),
    COUNT(choices, 1, COP_TREE_LIMIT - 1, 64, "nodes of the tree at most"),
    {0}};

static enum cop_status prepare(void *state, struct cop_error *err)
{
    struct retrieval *r = state;
    if (r->min_ngram > r->max_ngram) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.propose.retrieval: min_ngram = %d is above max_ngram = %d",
                        r->min_ngram, r->max_ngram);
    }
    enum cop_status status = cop_datastore_open(&r->store, r->path, err);
    if (status == COP_OK && r->max_ngram + r->tokens > (int32_t)r->store.header->order) {
        status =
            cop_fail(err, COP_ERR_ARGUMENT,
                     "cop.propose.retrieval: max_ngram = %d and tokens = %d; the datastore "
                     "is sorted by %u tokens, so their sum can be no more",
                     r->max_ngram, r->tokens, r->store.header->order);
        cop_datastore_close(&r->store);
    }
    return status;
}

static void release(void *state)
{
    cop_datastore_close(&((struct retrieval *)state)->store);
}

static int32_t vocab_of(const void *state)
{
    return (int32_t)((const struct retrieval *)state)->store.header->vocab;
}

static int32_t own_depth(const void *state)
{
    return ((const struct retrieval *)state)->tokens;
}

static enum cop_status own_tree(const void *state, struct cop_part **builder,
                                struct cop_error *err)
{
    const struct retrieval *r = state;
    int32_t depth = r->tokens < r->choices ? r->tokens : r->choices;
    return cop_own_tree_new(COP_SHAPE_TREE, depth, r->choices, builder, err);
}

/* ---- Sessions --------------------------------------------------------------------------- */

/* A node of the trie that may be drafted. */
struct candidate {
    struct cop_range range;
    cop_token token;
    int32_t parent; /* of the draft */
    int32_t depth;
};
struct context {
    cop_token tail[COP_DATASTORE_ORDER]; /* the last tokens of the text */
    int32_t n_tail, n_matched;
    struct cop_points points;
};
struct session {
    const struct retrieval *options;
    int32_t vocab_size, n_sequences;
    struct context *contexts; /* [n_sequences] */
    struct candidate *heap;   /* [heap_capacity] scratch: the best one first */
    int32_t n_heap, heap_capacity;
    cop_token *tokens; /* [n_tokens] scratch */
    int32_t n_tokens;
};

static void close_session(void *opened)
{
    struct session *session = opened;
    for (int32_t i = 0; session && i < session->n_sequences; i++) {
        cop_points_release(&session->contexts[i].points);
    }
    if (session) {
        free(session->contexts);
        free(session->heap);
        free(session->tokens);
    }
    free(session);
}

static enum cop_status check_fit(const struct cop_datastore *store,
                                 const struct cop_proposer_env *env, struct cop_error *err)
{
    const struct cop_tokenizer *tokenizer =
        env->target ? cop_model_tokenizer(env->target) : NULL;
    uint64_t here = tokenizer ? cop_tokenizer_fingerprint(tokenizer) : 0;
    uint64_t there = store->header->tokenizer;
    if (here && there && here != there) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.propose.retrieval: the datastore was built with another tokenizer "
                        "than the target's");
    }
    return (int32_t)store->header->vocab <= env->vocab_size
               ? COP_OK
               : cop_fail(err, COP_ERR_ARGUMENT,
                          "cop.propose.retrieval: the datastore has a vocabulary of %u, the "
                          "target one of %d",
                          store->header->vocab, env->vocab_size);
}

static enum cop_status open_session(const void *state, const struct cop_proposer_env *env,
                                    void **out, struct cop_error *err)
{
    const struct retrieval *r = state;
    enum cop_status status = check_fit(&r->store, env, err);
    if (status != COP_OK) {
        return status;
    }
    struct session *session = calloc(1, sizeof *session);
    struct context *contexts = calloc((size_t)env->n_sequences, sizeof *contexts);
    if (!session || !contexts) {
        free(session);
        free(contexts);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for retrieval");
    }
    *session = (struct session){.options = r,
                                .vocab_size = env->vocab_size,
                                .n_sequences = env->n_sequences,
                                .contexts = contexts};
    for (int32_t i = 0; i < env->n_sequences && status == COP_OK; i++) {
        status = cop_points_init(&contexts[i].points, r->choices, env->capacity, err);
    }
    if (status != COP_OK) {
        close_session(session);
        return status;
    }
    *out = session;
    return COP_OK;
}

static void push(struct context *context, const cop_token *ids, int32_t n)
{
    for (int32_t i = n > COP_DATASTORE_ORDER ? n - COP_DATASTORE_ORDER : 0; i < n; i++) {
        if (context->n_tail == COP_DATASTORE_ORDER) {
            memmove(context->tail, context->tail + 1,
                    (COP_DATASTORE_ORDER - 1) * sizeof *context->tail);
            context->n_tail--;
        }
        context->tail[context->n_tail++] = ids[i];
    }
}

static enum cop_status begin(void *opened, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err)
{
    (void)err;
    struct context *context = &((struct session *)opened)->contexts[sequence];
    context->n_tail = context->n_matched = 0;
    push(context, ids, n);
    return COP_OK;
}

static enum cop_status observe(void *opened, const struct cop_observed *observed,
                               struct cop_error *err)
{
    (void)err;
    push(&((struct session *)opened)->contexts[observed->sequence], observed->committed,
         observed->n_accepted + 1);
    return COP_OK;
}

static void end(void *opened, int32_t sequence)
{
    ((struct session *)opened)->contexts[sequence].n_tail = 0;
}

/* ---- The heap --------------------------------------------------------------------------- */

static bool comes_before(const struct candidate *a, const struct candidate *b)
{
    int32_t count_a = a->range.high - a->range.low, count_b = b->range.high - b->range.low;
    if (count_a != count_b) {
        return count_a > count_b;
    }
    return a->depth != b->depth ? a->depth < b->depth : a->range.low < b->range.low;
}

static enum cop_status offer(struct session *session, struct candidate candidate,
                             struct cop_error *err)
{
    if (session->n_heap == session->heap_capacity) {
        int32_t capacity = 2 * session->heap_capacity + 64;
        struct candidate *heap = realloc(session->heap, (size_t)capacity * sizeof *heap);
        if (!heap) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory for continuations");
        }
        session->heap = heap;
        session->heap_capacity = capacity;
    }
    int32_t at = session->n_heap++;
    for (; at > 0 && comes_before(&candidate, &session->heap[(at - 1) / 2]);
         at = (at - 1) / 2) {
        session->heap[at] = session->heap[(at - 1) / 2];
    }
    session->heap[at] = candidate;
    return COP_OK;
}

static struct candidate take_best(struct session *session)
{
    struct candidate *heap = session->heap, best = heap[0], last = heap[--session->n_heap];
    int32_t n = session->n_heap, at = 0;
    for (int32_t child = 1; child < n; child = 2 * at + 1) {
        child += child + 1 < n && comes_before(&heap[child + 1], &heap[child]);
        if (!comes_before(&heap[child], &last)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return best;
}

/* ---- The draft -------------------------------------------------------------------------- */

/* If the last n tokens are there, so are the last n - 1: the longest n by halving. */
static struct cop_range longest_match(const struct session *session, struct context *context)
{
    const struct retrieval *r = session->options;
    struct cop_range found = {0, 0};
    int32_t low = r->min_ngram - 1; /* matches, or is too short */
    int32_t high = (r->max_ngram < context->n_tail ? r->max_ngram : context->n_tail) + 1;
    while (high - low > 1) {
        int32_t n = low + (high - low) / 2;
        struct cop_range range =
            cop_datastore_find(&r->store, context->tail + context->n_tail - n, n);
        if (range.low < range.high) {
            low = n;
            found = range;
        } else {
            high = n;
        }
    }
    context->n_matched = found.low < found.high ? low : 0;
    return found;
}

static enum cop_status reserve_tokens(struct session *session, int32_t n, struct cop_error *err)
{
    if (n > session->n_tokens) {
        cop_token *tokens = realloc(session->tokens, (size_t)n * sizeof *tokens);
        if (!tokens) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory for continuations");
        }
        session->tokens = tokens;
        session->n_tokens = n;
    }
    return COP_OK;
}

/* What follows a node that is in the draft: runs of equal tokens. Places that end there come
 * first. */
static enum cop_status offer_children(struct session *session, struct cop_range range,
                                      int32_t parent, int32_t depth, int32_t n_matched,
                                      struct cop_error *err)
{
    const struct retrieval *r = session->options;
    int32_t n = range.high - range.low;
    if (depth >= r->tokens || n < 1) {
        return COP_OK;
    }
    enum cop_status status = reserve_tokens(session, n, err);
    if (status != COP_OK) {
        return status;
    }
    const cop_token *tokens = session->tokens;
    cop_datastore_read(&r->store, range, n_matched + depth, session->tokens);
    for (int32_t first = 0, next; first < n && status == COP_OK; first = next) {
        for (next = first + 1; next < n && tokens[next] == tokens[first]; next++) {
        }
        if (tokens[first] >= 0) {
            struct cop_range run = {range.low + first, range.low + next};
            status =
                offer(session, (struct candidate){run, tokens[first], parent, depth + 1}, err);
        }
    }
    return status;
}

static enum cop_status make_draft(struct session *session, struct context *context,
                                  struct cop_error *err)
{
    const struct retrieval *r = session->options;
    cop_points_start(&context->points, true);
    struct cop_range range = longest_match(session, context);
    if (range.high - range.low > r->occurrences) {
        range.high = range.low + r->occurrences;
    }
    int32_t total = range.high - range.low, n_matched = context->n_matched;
    session->n_heap = 0;
    enum cop_status status = offer_children(session, range, 0, 0, n_matched, err);
    while (status == COP_OK && session->n_heap > 0) {
        struct candidate best = take_best(session);
        double share = (double)(best.range.high - best.range.low) / total;
        int32_t node = cop_points_add(&context->points, best.parent, best.token, share);
        if (node < 0) {
            break; /* `choices` are there */
        }
        status = offer_children(session, best.range, node, best.depth, n_matched, err);
    }
    context->n_matched = context->points.count > 0 ? n_matched : 0;
    cop_points_seal(&context->points);
    return status;
}

static enum cop_status expand(void *opened, struct cop_frontier *frontiers, int32_t n_frontiers,
                              struct cop_error *err)
{
    struct session *session = opened;
    enum cop_status status = COP_OK;
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        struct context *context = &session->contexts[frontiers[f].sequence];
        if (frontiers[f].nodes[0] == 0) {
            status = make_draft(session, context, err);
        }
        cop_points_answer(&context->points, &frontiers[f], session->vocab_size);
    }
    return status;
}

static int32_t matched(void *opened, int32_t sequence)
{
    return ((const struct session *)opened)->contexts[sequence].n_matched;
}

const struct cop_proposer_ops cop_propose_retrieval = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "retrieval",
             .help =
                 "the most frequent continuations, in a datastore, of the longest n-gram of "
                 "last tokens that it has",
             .source = "He et al. 2023, arXiv:2311.08252",
             .synonyms = "REST, retrieval-based speculative decoding",
             .state_size = sizeof(struct retrieval),
             .options = options,
             .prepare = prepare,
             .release = release},
    .supply = COP_SUPPLY_POINTS,
    .is_cheap = true,
    .own_depth = own_depth,
    .own_tree = own_tree,
    .open = open_session,
    .close = close_session,
    .begin = begin,
    .expand = expand,
    .observe = observe,
    .end = end,
    .matched = matched,
    .vocab = vocab_of,
};
