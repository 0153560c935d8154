/* Prompt lookup: what followed the last n tokens when they occurred before.
 *
 *     context  5 1 2 3 9 1 2 4 7 1 2       the end (1 2) occurred first at 1: draft 3 9 1 …
 *
 * All variants try n = max_ngram down to min_ngram and take the leftmost occurrence; they
 * differ in what they ask of it (k = `tokens`, the length of the draft): original  k tokens
 * must follow, and the occurrence must end before the last n tokens begin; hf        the draft
 * is cut at the end of the context and before the first end token; vllm      the draft is cut
 * at the end of the context. The draft is a function of the context, so it is a list of points:
 * one child a node, and a wider tree makes no difference. k does not follow the tree: a chain
 * of 4 takes the first 4 of k tokens. */
#include "algorithms/history/ngrams.h"
#include "algorithms/propose/points.h"

#include <stdlib.h>

enum variant { VARIANT_ORIGINAL, VARIANT_HF, VARIANT_VLLM };

struct lookup {
    int32_t variant;
    int32_t min_ngram, max_ngram;
    int32_t tokens;
};

static const struct cop_option options[] = {
    {.name = "variant",
     .type = COP_OPTION_CHOICE,
     .offset = offsetof(struct lookup, variant),
     .fallback = VARIANT_HF,
     .choices = "original|hf|vllm",
     .help = "whose rules for an occurrence near the end of the context"},
    {.name = "min_ngram",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct lookup, min_ngram),
     .min = 1,
     .max = 64,
     .fallback = 1,
     .help = "fewest tokens that must have occurred before"},
    {.name = "max_ngram",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct lookup, max_ngram),
     .min = 1,
     .max = 64,
     .fallback = 3,
     .help = "most tokens that are looked up (2 in transformers)"},
    {.name = "tokens",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct lookup, tokens),
     .min = 1,
     .max = COP_TREE_LIMIT - 1,
     .fallback = 10,
     .help = "length of the draft"},
    {0}};

static enum cop_status prepare(void *state, struct cop_error *err)
{
    const struct lookup *lookup = state;
    if (lookup->min_ngram > lookup->max_ngram) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.propose.lookup: min_ngram = %d is above max_ngram = %d",
                        lookup->min_ngram, lookup->max_ngram);
    }
    return COP_OK;
}

static int32_t own_depth(const void *state)
{
    return ((const struct lookup *)state)->tokens;
}

/* ---- Sessions --------------------------------------------------------------------------- */

struct context {
    struct cop_ngrams ngrams;
    struct cop_points points; /* the draft of this cycle */
    int32_t n_matched;        /* tokens of the occurrence, 0: none */
};
struct session {
    const struct lookup *lookup;
    int32_t vocab_size, n_sequences;
    const cop_token *ends; /* end tokens of the target, borrowed */
    size_t n_ends;
    struct context *contexts; /* [n_sequences] */
};

static void close_session(void *opened)
{
    struct session *session = opened;
    for (int32_t i = 0; session && session->contexts && i < session->n_sequences; i++) {
        cop_ngrams_release(&session->contexts[i].ngrams);
        cop_points_release(&session->contexts[i].points);
    }
    if (session) {
        free(session->contexts);
    }
    free(session);
}

static enum cop_status open_session(const void *state, const struct cop_proposer_env *env,
                                    void **out, struct cop_error *err)
{
    const struct lookup *lookup = state;
    struct session *session = calloc(1, sizeof *session);
    bool is_whole = session != NULL;
    if (session) {
        session->lookup = lookup;
        session->vocab_size = env->vocab_size;
        session->n_sequences = env->n_sequences;
        session->contexts = calloc((size_t)env->n_sequences, sizeof *session->contexts);
    }
    for (int32_t i = 0; session && session->contexts && i < env->n_sequences; i++) {
        struct context *context = &session->contexts[i];
        cop_ngrams_init(&context->ngrams, lookup->min_ngram, lookup->max_ngram);
        is_whole &=
            cop_points_init(&context->points, lookup->tokens, env->capacity, err) == COP_OK;
    }
    if (!is_whole || !session->contexts) {
        close_session(session);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for prompt lookup");
    }
    const struct cop_tokenizer *tokenizer =
        env->target ? cop_model_tokenizer(env->target) : NULL;
    if (tokenizer && lookup->variant == VARIANT_HF) {
        session->ends = cop_tokenizer_eos(tokenizer, &session->n_ends);
    }
    *out = session;
    return COP_OK;
}

static enum cop_status begin(void *opened, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err)
{
    struct session *session = opened;
    struct context *context = &session->contexts[sequence];
    cop_ngrams_release(&context->ngrams);
    return cop_ngrams_push(&context->ngrams, ids, n, err);
}

static void end(void *opened, int32_t sequence)
{
    struct session *session = opened;
    cop_ngrams_release(&session->contexts[sequence].ngrams);
}

/* ---- The draft -------------------------------------------------------------------------- */

/* Whether the variant takes the occurrence that ends before `follow`. Occurrences further to
 * the right do no better in any variant, so the leftmost one decides. */
static bool accepts(const struct lookup *lookup, int32_t follow, int32_t length, int32_t count)
{
    if (lookup->variant == VARIANT_ORIGINAL) {
        return follow + lookup->tokens <= count && follow < count - length;
    }
    return follow < count;
}

static int32_t cut_at_end(const struct session *session, const cop_token *draft, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        for (size_t e = 0; e < session->n_ends; e++) {
            if (draft[i] == session->ends[e]) {
                return i;
            }
        }
    }
    return n;
}

static void make_draft(const struct session *session, struct context *context)
{
    const struct lookup *lookup = session->lookup;
    const struct cop_ids *ids = &context->ngrams.ids;
    int32_t count = (int32_t)ids->count;
    cop_points_chain(&context->points, NULL, 0);
    context->n_matched = 0;
    for (int32_t length = lookup->max_ngram; length >= lookup->min_ngram; length--) {
        int32_t start = cop_ngrams_first(&context->ngrams, length);
        int32_t follow = start + length;
        if (start < 0 || !accepts(lookup, follow, length, count)) {
            continue;
        }
        int32_t n = count - follow < lookup->tokens ? count - follow : lookup->tokens;
        const cop_token *draft = ids->items + follow;
        cop_points_chain(&context->points, draft, cut_at_end(session, draft, n));
        context->n_matched = length;
        return;
    }
}

static enum cop_status expand(void *opened, struct cop_frontier *frontiers, int32_t n_frontiers,
                              struct cop_error *err)
{
    (void)err;
    struct session *session = opened;
    for (int32_t f = 0; f < n_frontiers; f++) {
        const struct cop_frontier *frontier = &frontiers[f];
        struct context *context = &session->contexts[frontier->sequence];
        if (frontier->nodes[0] == 0) {
            make_draft(session, context);
        }
        cop_points_answer(&context->points, frontier, session->vocab_size);
    }
    return COP_OK;
}

static int32_t matched(void *opened, int32_t sequence)
{
    return ((const struct session *)opened)->contexts[sequence].n_matched;
}

static enum cop_status observe(void *opened, const struct cop_observed *observed,
                               struct cop_error *err)
{
    struct session *session = opened;
    return cop_ngrams_push(&session->contexts[observed->sequence].ngrams, observed->committed,
                           observed->n_accepted + 1, err);
}

const struct cop_proposer_ops cop_propose_lookup = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "lookup",
             .help =
                 "what followed the last max_ngram (or fewer) tokens where they occurred first",
             .source = "Saxena 2023, apoorvumang/prompt-lookup-decoding",
             .synonyms = "prompt lookup decoding, PLD, n-gram speculation",
             .state_size = sizeof(struct lookup),
             .options = options,
             .prepare = prepare},
    .supply = COP_SUPPLY_POINTS,
    .is_cheap = true,
    .own_depth = own_depth,
    .open = open_session,
    .close = close_session,
    .begin = begin,
    .expand = expand,
    .observe = observe,
    .end = end,
    .matched = matched,
};
