/* Jacobi decoding: the answer's next tokens are guessed all at once, and every pass of the
 * target replaces each guess by the best token after the guesses before it.
 *
 *     pass 1   root  x1 x2 x3 x4      best after each:  a  y2 y3 y4 y5
 *              x1 is not a: a is committed, guesses become y2 y3 y4 y5 … without their first
 *     pass 2   a     y2 y3 y4 z       best after each:  y2 …  y2 is right: committed, and so on
 *
 * The guesses are a chain of points: rows of those that were not accepted are what observe is
 * for. Guesses that no pass has made yet are tokens of the text, chosen by their place. */
#include "algorithms/propose/points.h"

#include <stdlib.h>
#include <string.h>

struct jacobi {
    int32_t tokens;
};

static const struct cop_option options[] = {{.name = "tokens",
                                             .type = COP_OPTION_INT,
                                             .offset = offsetof(struct jacobi, tokens),
                                             .min = 1,
                                             .max = COP_TREE_LIMIT - 1,
                                             .fallback = 8,
                                             .help = "guesses that are refined together"},
                                            {0}};

static int32_t own_depth(const void *state)
{
    return ((const struct jacobi *)state)->tokens;
}

struct context {
    struct cop_points points;
    cop_token *guess; /* [tokens] */
    struct cop_ids text;
};
struct session {
    int32_t tokens, vocab_size, n_sequences;
    struct context *contexts; /* [n_sequences] */
};

static void close_session(void *opened)
{
    struct session *session = opened;
    if (!session) {
        return;
    }
    for (int32_t i = 0; session->contexts && i < session->n_sequences; i++) {
        cop_points_release(&session->contexts[i].points);
        cop_ids_release(&session->contexts[i].text);
        free(session->contexts[i].guess);
    }
    free(session->contexts);
    free(session);
}

static enum cop_status open_session(const void *state, const struct cop_proposer_env *env,
                                    void **out, struct cop_error *err)
{
    struct session *session = calloc(1, sizeof *session);
    if (!session) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for guesses");
    }
    session->tokens = own_depth(state);
    session->vocab_size = env->vocab_size;
    session->n_sequences = env->n_sequences;
    session->contexts = calloc((size_t)env->n_sequences, sizeof *session->contexts);
    enum cop_status status =
        session->contexts ? COP_OK : cop_fail(err, COP_ERR_MEMORY, "no memory for guesses");
    for (int32_t i = 0; i < env->n_sequences && status == COP_OK; i++) {
        struct context *context = &session->contexts[i];
        context->guess = malloc((size_t)session->tokens * sizeof *context->guess);
        status = context->guess
                     ? cop_points_init(&context->points, session->tokens, env->capacity, err)
                     : cop_fail(err, COP_ERR_MEMORY, "no memory for guesses");
    }
    if (status != COP_OK) {
        close_session(session);
        return status;
    }
    *out = session;
    return COP_OK;
}

/* Guesses from number `first` on, which no pass has made. */
static void guess_rest(const struct session *session, struct context *context, int32_t first)
{
    size_t n = context->text.count;
    for (int32_t i = first; i < session->tokens; i++) {
        uint32_t place = ((uint32_t)n + (uint32_t)i) * 0x9e3779b1u;
        context->guess[i] = context->text.items[(place >> 8) % n];
    }
}

static enum cop_status append(struct context *context, const cop_token *ids, int32_t n,
                              struct cop_error *err)
{
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < n && status == COP_OK; i++) {
        status = cop_ids_push(&context->text, ids[i], err);
    }
    return status;
}

static enum cop_status begin(void *opened, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err)
{
    struct session *session = opened;
    struct context *context = &session->contexts[sequence];
    context->text.count = 0;
    enum cop_status status = append(context, ids, n, err);
    if (status == COP_OK) {
        guess_rest(session, context, 0);
    }
    return status;
}

static void end(void *opened, int32_t sequence)
{
    ((struct session *)opened)->contexts[sequence].text.count = 0;
}

static enum cop_status expand(void *opened, struct cop_frontier *frontiers, int32_t n_frontiers,
                              struct cop_error *err)
{
    (void)err;
    struct session *session = opened;
    for (int32_t f = 0; f < n_frontiers; f++) {
        struct context *context = &session->contexts[frontiers[f].sequence];
        if (frontiers[f].nodes[0] == 0) {
            cop_points_chain(&context->points, context->guess, session->tokens);
        }
        cop_points_answer(&context->points, &frontiers[f], session->vocab_size);
    }
    return COP_OK;
}

/* The best token after each guess behind the first wrong one, where that guess was scored. */
static enum cop_status observe(void *opened, const struct cop_observed *observed,
                               struct cop_error *err)
{
    struct session *session = opened;
    struct context *context = &session->contexts[observed->sequence];
    int32_t node = 0, n = 0;
    for (int32_t i = 0; i < session->tokens && node >= 0; i++) {
        node = cop_tree_find(observed->tree, node, context->guess[i]);
        const struct cop_row *row = node >= 0 && i >= observed->n_accepted
                                        ? cop_rows_at(&observed->target, node)
                                        : NULL;
        if (row) {
            context->guess[n++] = row->best;
        }
    }
    enum cop_status status =
        append(context, observed->committed, observed->n_accepted + 1, err);
    if (status == COP_OK) {
        guess_rest(session, context, n);
    }
    return status;
}

const struct cop_proposer_ops cop_propose_jacobi = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "jacobi",
             .help = "the target refines a chain of guesses, all at once, in the passes that "
                     "verify them",
             .source = "Santilli et al. 2023, arXiv:2305.10427",
             .synonyms = "parallel decoding, fixed-point iteration; with a tuned target: CLLM",
             .state_size = sizeof(struct jacobi),
             .options = options},
    .supply = COP_SUPPLY_POINTS,
    .own_depth = own_depth,
    .open = open_session,
    .close = close_session,
    .begin = begin,
    .expand = expand,
    .observe = observe,
    .end = end,
};
