/* llama.cpp's three n-gram caches: what most often followed the last few tokens, in this text,
 * in the engine's earlier ones, in a given corpus.
 *
 *     context   this text: prompt and answer               n = 4 … 1, lax limits
 *     dynamic   texts of requests that have ended          n = 4 … 1, strict limits
 *     static    the option's lists, 2-grams alone          n = 2, lax limits
 *
 * One token after another is drafted: the first cache, and in it the longest n-gram, with a
 * candidate that passes the limits decides. The candidate is the follower of the greatest
 * count, in context and dynamic times 100 * (count in static) where the last two tokens have
 * that follower there. It passes when the n-gram was seen often enough and the candidate's own
 * count is a large enough share. Of equal candidates the one that was there first wins.
 *
 * A request's context is merged into dynamic when it ends, whatever ended it. */
#include "algorithms/history/grams.h"
#include "algorithms/history/room.h"
#include "algorithms/propose/points.h"

#include <stdlib.h>

enum { STATIC_LENGTH = 2 };

struct limits { /* by n - 1 */
    int32_t samples[COP_GRAM_MOST], percent[COP_GRAM_MOST];
};
static const struct limits lax = {{2, 2, 1, 1}, {66, 50, 50, 50}};
static const struct limits strict = {{4, 3, 2, 2}, {75, 66, 66, 66}};

struct ngram_cache {
    int32_t tokens;
    struct cop_path_list texts;
};

static const struct cop_option options[] = {
    {.name = "tokens",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct ngram_cache, tokens),
     .min = 1,
     .max = COP_TREE_LIMIT - 1,
     .fallback = 16,
     .help = "length of the draft at most"},
    {.name = "static",
     .type = COP_OPTION_LISTS,
     .offset = offsetof(struct ngram_cache, texts),
     .min = 0,
     .max = INT32_MAX,
     .flags = COP_OPTION_ABSENT,
     .help = "texts whose 2-grams fill the static cache, lists of token ids"},
    {0}};

static int32_t own_depth(const void *state)
{
    return ((const struct ngram_cache *)state)->tokens;
}

/* ---- Sessions --------------------------------------------------------------------------- */

struct context {
    struct cop_ids ids; /* the text, and behind it the draft while it is made */
    struct cop_grams grams;
    struct cop_points points;
    int32_t n_matched; /* of the first drafted token; 0: none */
};
struct session {
    const struct ngram_cache *options;
    int32_t vocab_size, n_sequences, context;
    struct cop_grams dynamic, corpus;
    struct context *contexts; /* [n_sequences] */
};

static void close_session(void *opened)
{
    struct session *session = opened;
    if (!session) {
        return;
    }
    for (int32_t i = 0; session->contexts && i < session->n_sequences; i++) {
        cop_ids_release(&session->contexts[i].ids);
        cop_grams_release(&session->contexts[i].grams);
        cop_points_release(&session->contexts[i].points);
    }
    cop_grams_release(&session->dynamic);
    cop_grams_release(&session->corpus);
    free(session->contexts);
    free(session);
}

static enum cop_status index_corpus(struct session *session, struct cop_error *err)
{
    const struct cop_path_list *texts = &session->options->texts;
    enum cop_status status = cop_points_check_lists(
        texts, session->vocab_size, "cop.propose.ngram_cache: option \"static\"", err);
    for (int32_t t = 0; t < texts->count && status == COP_OK; t++) {
        const int32_t *text = texts->ranks + texts->starts[t];
        int32_t n = texts->starts[t + 1] - texts->starts[t];
        for (int32_t end = 1; end <= n && status == COP_OK; end++) {
            status =
                cop_grams_learn(&session->corpus, text, end, STATIC_LENGTH, STATIC_LENGTH, err);
        }
    }
    return status;
}

static enum cop_status open_session(const void *state, const struct cop_proposer_env *env,
                                    void **out, struct cop_error *err)
{
    struct session *session = calloc(1, sizeof *session);
    struct context *contexts = calloc((size_t)env->n_sequences, sizeof *contexts);
    if (!session || !contexts) {
        free(session);
        free(contexts);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for n-gram caches");
    }
    *session = (struct session){.options = state,
                                .vocab_size = env->vocab_size,
                                .n_sequences = env->n_sequences,
                                .context = env->context,
                                .contexts = contexts};
    enum cop_status status = index_corpus(session, err);
    for (int32_t i = 0; i < env->n_sequences && status == COP_OK; i++) {
        status =
            cop_points_init(&contexts[i].points, session->options->tokens, env->capacity, err);
    }
    if (status != COP_OK) {
        close_session(session);
        return status;
    }
    *out = session;
    return COP_OK;
}

static enum cop_status push(struct context *context, const cop_token *ids, int32_t n,
                            struct cop_error *err)
{
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < n && status == COP_OK; i++) {
        status = cop_ids_push(&context->ids, ids[i], err);
        if (status == COP_OK) {
            status = cop_grams_learn(&context->grams, context->ids.items,
                                     (int32_t)context->ids.count, 1, COP_GRAM_MOST, err);
        }
    }
    return status;
}

static enum cop_status begin(void *opened, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err)
{
    struct session *session = opened;
    struct context *context = &session->contexts[sequence];
    int32_t room = cop_room_tokens(n, session->context);
    context->ids.count = 0;
    enum cop_status status = cop_grams_clear(&context->grams, room, err);
    if (status == COP_OK) {
        status = cop_room_ids(&context->ids, room + session->options->tokens, err);
    }
    return status == COP_OK ? push(context, ids, n, err) : status;
}

/* A context that memory does not suffice to merge is forgotten. */
static void end(void *opened, int32_t sequence)
{
    struct session *session = opened;
    struct context *context = &session->contexts[sequence];
    struct cop_error ignored;
    (void)cop_grams_merge(&session->dynamic, &context->grams, &ignored);
    (void)cop_grams_clear(&context->grams, 0, &ignored);
    context->ids.count = 0;
}

/* ---- The draft -------------------------------------------------------------------------- */

static bool passes(const struct limits *limits, int32_t n, int32_t count, int32_t total)
{
    return total >= limits->samples[n - 1] &&
           100 * (int64_t)count >= limits->percent[n - 1] * (int64_t)total;
}

/* The candidate among the followers of `gram`, of which `corpus` (the last two tokens in the
 * static cache, or NULL) knows some. */
static const struct cop_follower *candidate(const struct cop_grams *grams,
                                            const struct cop_gram *gram,
                                            const struct cop_grams *corpus,
                                            const struct cop_gram *known)
{
    const struct cop_follower *best = &grams->followers[gram->best];
    int64_t most = 0;
    for (int32_t i = known ? gram->first : -1; i >= 0; i = grams->followers[i].next) {
        const struct cop_follower *follower = &grams->followers[i];
        int64_t weight = 100 * (int64_t)cop_grams_count(corpus, known, follower->token);
        if (weight * follower->count > most ||
            (weight > 0 && weight * follower->count == most)) {
            most = weight * follower->count;
            best = follower;
        }
    }
    const struct cop_follower *usual = &grams->followers[gram->best];
    return most > 0 && most >= usual->count ? best : usual;
}

/* The token that `grams` draft after text[0..n), or -1; *length: of the n-gram. */
static cop_token look_up(const struct cop_grams *grams, const struct limits *limits,
                         const cop_token *text, int32_t n, const struct cop_grams *corpus,
                         const struct cop_gram *known, int32_t *length)
{
    for (*length = n < COP_GRAM_MOST ? n : COP_GRAM_MOST; *length > 0; --*length) {
        const struct cop_gram *gram = cop_grams_find(grams, text + n - *length, *length);
        int32_t most = gram ? grams->followers[gram->best].count : 0;
        if (!gram || !passes(limits, *length, most, gram->total)) {
            continue; /* no follower has a larger share than the best one */
        }
        const struct cop_follower *follower = candidate(grams, gram, corpus, known);
        if (passes(limits, *length, follower->count, gram->total)) {
            return follower->token;
        }
    }
    return -1;
}

static cop_token next_token(const struct session *session, const struct context *context,
                            int32_t *length)
{
    const cop_token *text = context->ids.items;
    int32_t n = (int32_t)context->ids.count;
    const struct cop_grams *corpus = &session->corpus;
    const struct cop_gram *known =
        n >= STATIC_LENGTH ? cop_grams_find(corpus, text + n - STATIC_LENGTH, STATIC_LENGTH)
                           : NULL;
    cop_token token = look_up(&context->grams, &lax, text, n, corpus, known, length);
    if (token < 0) {
        token = look_up(&session->dynamic, &strict, text, n, corpus, known, length);
    }
    if (token < 0 && known) {
        const struct cop_follower *best = &corpus->followers[known->best];
        *length = STATIC_LENGTH;
        token = passes(&lax, STATIC_LENGTH, best->count, known->total) ? best->token : -1;
    }
    return token;
}

static enum cop_status make_draft(const struct session *session, struct context *context,
                                  struct cop_error *err)
{
    size_t n_text = context->ids.count;
    enum cop_status status = COP_OK;
    context->n_matched = 0;
    for (int32_t i = 0; i < session->options->tokens && status == COP_OK; i++) {
        int32_t length;
        cop_token token = next_token(session, context, &length);
        if (token < 0) {
            break;
        }
        context->n_matched = i == 0 ? length : context->n_matched;
        status = cop_ids_push(&context->ids, token, err);
    }
    cop_points_chain(&context->points, context->ids.items + n_text,
                     (int32_t)(context->ids.count - n_text));
    context->ids.count = n_text;
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

static enum cop_status observe(void *opened, const struct cop_observed *observed,
                               struct cop_error *err)
{
    struct session *session = opened;
    return push(&session->contexts[observed->sequence], observed->committed,
                observed->n_accepted + 1, err);
}

const struct cop_proposer_ops cop_propose_ngram_cache = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "ngram_cache",
             .help = "the most frequent follower of the last 4 to 1 tokens in this text, in "
                     "earlier requests, or in a given corpus",
             .source = "Gaessler 2024, ggml-org/llama.cpp (examples/lookup)",
             .synonyms = "llama.cpp lookup, lookup cache, n-gram cache",
             .state_size = sizeof(struct ngram_cache),
             .options = options},
    .supply = COP_SUPPLY_POINTS,
    .is_cheap = true,
    .remembers = true,
    .own_depth = own_depth,
    .open = open_session,
    .close = close_session,
    .begin = begin,
    .expand = expand,
    .observe = observe,
    .end = end,
    .matched = matched,
};
