/* SAM decoding: what followed the longest end of the context that occurred before, found by
 * suffix automata over this text (dynamic) and over given texts (static).
 *
 * A cursor per automaton says how much of the context's end occurs there. The last token is not
 * part of the dynamic automaton while a draft is made: a cursor would always find the text
 * itself. The draft is what follows the first occurrence. In the dynamic automaton an
 * occurrence near the end has little behind it; while no more than `tokens` tokens follow, the
 * shorter end that the suffix link stands for is taken instead.
 *
 * The static match must be longer than the dynamic one by more than `bias`; it also serves
 * where the dynamic automaton knows nothing. */
#include "algorithms/history/automaton.h"
#include "algorithms/history/room.h"
#include "algorithms/propose/points.h"

#include <stdlib.h>

struct suffix_automaton {
    int32_t tokens;
    int32_t bias;
    struct cop_path_list history;
};

static const struct cop_option options[] = {
    {.name = "tokens",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct suffix_automaton, tokens),
     .min = 1,
     .max = COP_TREE_LIMIT - 1,
     .fallback = 40,
     .help = "length of the draft at most"},
    {.name = "bias",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct suffix_automaton, bias),
     .min = 0,
     .max = 1 << 20,
     .fallback = 5,
     .help = "tokens that a match in `history` must be longer than one in the text itself"},
    {.name = "history",
     .type = COP_OPTION_LISTS,
     .offset = offsetof(struct suffix_automaton, history),
     .min = 0,
     .max = INT32_MAX,
     .flags = COP_OPTION_ABSENT,
     .help = "texts of the static automaton, lists of token ids"},
    {0}};

static int32_t own_depth(const void *state)
{
    return ((const struct suffix_automaton *)state)->tokens;
}

/* ---- Sessions --------------------------------------------------------------------------- */

enum { SEPARATOR = -1 }; /* after each text of the static automaton */

struct context {
    struct cop_automaton dynamic; /* of all tokens but the last one */
    struct cop_cursor own;        /* in `dynamic`, of the same tokens */
    struct cop_cursor past;       /* in `fixed`, of all tokens */
    cop_token last;
    struct cop_points points;
    int32_t n_matched;
};
struct session {
    const struct suffix_automaton *options;
    int32_t vocab_size, n_sequences, context;
    struct cop_automaton fixed;
    struct context *contexts; /* [n_sequences] */
};

static void close_session(void *opened)
{
    struct session *session = opened;
    if (!session) {
        return;
    }
    for (int32_t i = 0; session->contexts && i < session->n_sequences; i++) {
        cop_automaton_release(&session->contexts[i].dynamic);
        cop_points_release(&session->contexts[i].points);
    }
    cop_automaton_release(&session->fixed);
    free(session->contexts);
    free(session);
}

static enum cop_status index_history(struct session *session, struct cop_error *err)
{
    const struct cop_path_list *history = &session->options->history;
    enum cop_status status = cop_points_check_lists(
        history, session->vocab_size, "cop.propose.suffix_automaton: option \"history\"", err);
    for (int32_t l = 0; l < history->count; l++) {
        for (int32_t i = history->starts[l]; i < history->starts[l + 1] && status == COP_OK;
             i++) {
            status = cop_automaton_push(&session->fixed, history->ranks[i], err);
        }
        if (status == COP_OK) {
            status = cop_automaton_push(&session->fixed, SEPARATOR, err);
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
        return cop_fail(err, COP_ERR_MEMORY, "no memory for suffix automata");
    }
    *session = (struct session){.options = state,
                                .vocab_size = env->vocab_size,
                                .n_sequences = env->n_sequences,
                                .context = env->context,
                                .contexts = contexts};
    enum cop_status status = index_history(session, err);
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

/* The next token of the text; the one before it enters the automaton. */
static enum cop_status push(struct session *session, struct context *context, cop_token token,
                            bool is_first, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    if (!is_first) {
        context->own = cop_automaton_advance(&context->dynamic, context->own, context->last);
        status = cop_automaton_push(&context->dynamic, context->last, err);
    }
    context->last = token;
    context->past = cop_automaton_advance(&session->fixed, context->past, token);
    return status;
}

static void end(void *opened, int32_t sequence)
{
    struct cop_error ignored;
    (void)cop_automaton_clear(&((struct session *)opened)->contexts[sequence].dynamic, 0,
                              &ignored);
}

static enum cop_status begin(void *opened, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err)
{
    struct session *session = opened;
    struct context *context = &session->contexts[sequence];
    context->own = context->past = (struct cop_cursor){0, 0};
    int32_t room = cop_room_tokens(n, session->context);
    enum cop_status status = cop_automaton_clear(&context->dynamic, room, err);
    for (int32_t i = 0; i < n && status == COP_OK; i++) {
        status = push(session, context, ids[i], i == 0, err);
    }
    return status;
}

/* ---- The draft -------------------------------------------------------------------------- */

static void draft_own(const struct session *session, struct context *context,
                      struct cop_cursor cursor)
{
    const struct cop_automaton *dynamic = &context->dynamic;
    int32_t n = (int32_t)dynamic->text.count, tokens = session->options->tokens;
    int32_t state = cursor.state;
    while (n - 1 - dynamic->states[state].end <= tokens && dynamic->states[state].link > 0) {
        state = dynamic->states[state].link;
    }
    int32_t follow = dynamic->states[state].end + 1;
    cop_points_chain(&context->points, dynamic->text.items + follow,
                     n - follow < tokens ? n - follow : tokens);
}

static void draft_past(const struct session *session, struct context *context)
{
    const struct cop_automaton *fixed = &session->fixed;
    const cop_token *follow = fixed->text.items + fixed->states[context->past.state].end + 1;
    int32_t n = 0;
    while (n < session->options->tokens && follow[n] != SEPARATOR) {
        n++;
    }
    cop_points_chain(&context->points, follow, n);
}

static void make_draft(const struct session *session, struct context *context)
{
    struct cop_cursor own =
        cop_automaton_advance(&context->dynamic, context->own, context->last);
    int32_t past = context->past.length;
    if (past - session->options->bias > own.length || (own.length == 0 && past > 0)) {
        context->n_matched = past;
        draft_past(session, context);
        return;
    }
    context->n_matched = own.length;
    cop_points_chain(&context->points, NULL, 0);
    if (own.length > 0) {
        draft_own(session, context, own);
    }
}

static enum cop_status expand(void *opened, struct cop_frontier *frontiers, int32_t n_frontiers,
                              struct cop_error *err)
{
    (void)err;
    struct session *session = opened;
    for (int32_t f = 0; f < n_frontiers; f++) {
        struct context *context = &session->contexts[frontiers[f].sequence];
        if (frontiers[f].nodes[0] == 0) {
            make_draft(session, context);
        }
        cop_points_answer(&context->points, &frontiers[f], session->vocab_size);
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
    struct context *context = &session->contexts[observed->sequence];
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i <= observed->n_accepted && status == COP_OK; i++) {
        status = push(session, context, observed->committed[i], false, err);
    }
    return status;
}

const struct cop_proposer_ops cop_propose_suffix_automaton = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "suffix_automaton",
             .help = "what followed the longest end of the context that occurred before, in "
                     "this text or in given ones",
             .source = "Hu et al. 2024, arXiv:2411.10666",
             .synonyms = "SAM decoding, SAM-D",
             .state_size = sizeof(struct suffix_automaton),
             .options = options},
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
