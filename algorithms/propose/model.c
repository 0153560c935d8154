/* A draft model: a smaller model guesses, level by level, one forward pass a level for the
 * frontiers of all sequences. Its vocabulary is the target's, or overlaps with it (rows are
 * then suppressed to what both know before anything is drawn from them), or is any: then its
 * text counts, the best one or the law of its beginning. Rows live until observe, so each level
 * keeps its logits. */
#include "algorithms/propose/draft_law.h"
#include "algorithms/propose/draft_string.h"
#include "algorithms/propose/draft_text.h"
#include "algorithms/propose/drafter.h"

#include <math.h>
#include <stdlib.h>

struct draft {
    void *model;
    int32_t depth, spellings;                /* spellings INT32_MIN: not given */
    struct cop_vocabulary_option vocabulary; /* choices: enum cop_draft_vocabulary */
    struct cop_draft_law law;
};

static const struct cop_option options[] = {
    {.name = "model",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct draft, model),
     .choices = "model",
     .flags = COP_OPTION_REQUIRED | COP_OPTION_POSITIONAL,
     .help = "the draft model"},
    {.name = "depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct draft, depth),
     .min = 1,
     .max = COP_TREE_LIMIT - 1,
     .fallback = 5,
     .help = "length of the chain when no tree is given; with vocabulary = \"text\" also the "
             "draft's own tokens that are written a cycle"},
    {.name = "vocabulary",
     .type = COP_OPTION_VOCABULARY,
     .offset = offsetof(struct draft, vocabulary),
     .choices = COP_DRAFT_VOCABULARIES,
     .fallback = COP_DRAFT_SAME,
     .help =
         "same: the target's; intersection: tokens with the same text are drafted, the rest "
         "is suppressed before drawing (TLI); auto: the same if it is, else the "
         "intersection; text: the draft's text is cut into the target's tokens, which are "
         "points (SLEM); string: the law of the target's token that the draft's text begins "
         "with, summed over its spellings (SLRS); ids (as cop.ranking makes them from texts), "
         "or how many of the first "
         "ids: the target's vocabulary, and only these are drafted (FR-Spec)"},
    {.name = "spellings",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct draft, spellings),
     .min = 1,
     .max = COP_STRING_TEXTS,
     .flags = COP_OPTION_ABSENT,
     .help =
         "with vocabulary = \"string\": beginnings of a target token that the draft reads for "
         "a row at most, the likeliest first and the empty one included; times the draft's "
         "top_k (or its vocabulary) at most 16,384 unless it is 1; absent: 16"},
    COP_DRAFT_LAW_OPTIONS(struct draft, law),
    {0}};

static enum cop_status prepare(void *state, struct cop_error *err)
{
    const struct draft *draft = state;
    const struct cop_draft_law *law = &draft->law;
    bool is_shaped = !isnan(law->temperature) || law->top_k != INT32_MIN ||
                     !isnan(law->top_p) || !isnan(law->min_p);
    if (draft->vocabulary.choice == COP_DRAFT_TEXT && is_shaped) {
        return cop_fail(
            err, COP_ERR_ARGUMENT,
            "cop.propose.model: vocabulary = \"text\" drafts the best text and has "
            "no rows that temperature, top_k, top_p or min_p could shape; leave them "
            "out, or use vocabulary = \"intersection\" or \"string\"");
    }
    if (draft->vocabulary.choice != COP_DRAFT_STRING && draft->spellings != INT32_MIN) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.propose.model: spellings says how vocabulary = \"string\" sums; "
                        "leave it out, or write that");
    }
    return COP_OK;
}

static int32_t spellings_of(const struct draft *draft)
{
    return draft->spellings == INT32_MIN ? 16 : draft->spellings;
}

static int32_t own_depth(const void *state)
{
    return ((const struct draft *)state)->depth;
}

static void facts(const void *state, struct cop_proposer_facts *facts)
{
    if (((const struct draft *)state)->vocabulary.choice == COP_DRAFT_TEXT) {
        facts->supply = COP_SUPPLY_POINTS;
    }
}

/* ---- Sessions --------------------------------------------------------------------------- */

struct session {
    struct cop_drafter drafter;
    struct cop_draft_text text;
    struct cop_draft_string string;
    bool is_text, is_string;
    struct cop_row_arena *arena;
    struct cop_sampling sampling;
    struct cop_floats *levels; /* [n_levels] */
    int32_t n_levels;
};

static void close_session(void *opened)
{
    struct session *session = opened;
    if (!session) {
        return;
    }
    for (int32_t i = 0; session->levels && i < session->n_levels; i++) {
        free(session->levels[i].items);
    }
    free(session->levels);
    cop_draft_text_close(&session->text);
    if (session->is_string) {
        cop_draft_string_close(&session->string);
    }
    cop_drafter_close(&session->drafter);
    cop_row_arena_free(session->arena);
    free(session);
}

/* How many own tokens the drafter may be fed in a cycle. */
static enum cop_status find_capacity(const struct session *session, const struct draft *draft,
                                     const struct cop_proposer_env *env, int32_t *capacity,
                                     struct cop_error *err)
{
    *capacity = env->capacity;
    if (session->is_text && draft->depth > env->capacity) {
        *capacity = draft->depth;
    }
    return session->is_string
               ? cop_draft_string_room(spellings_of(draft), &session->sampling, draft->model,
                                       env->capacity + 1, capacity, err)
               : COP_OK;
}

/* What stands between the drafter's rows and those of the target's vocabulary. */
static enum cop_status open_vocabulary(struct session *session, const struct draft *draft,
                                       const struct cop_proposer_env *env,
                                       struct cop_error *err)
{
    if (session->is_text) {
        return cop_draft_text_open(&session->text, &session->drafter, draft->depth, err);
    }
    return session->is_string
               ? cop_draft_string_open(&session->string, &session->drafter, &session->sampling,
                                       spellings_of(draft), env->capacity + 1, err)
               : cop_drafter_reduce(&session->drafter, &draft->vocabulary, env, err);
}

static enum cop_status open_parts(struct session *session, const struct draft *draft,
                                  const struct cop_proposer_env *env, struct cop_error *err)
{
    int32_t capacity, choice = draft->vocabulary.choice;
    session->is_text = choice == COP_DRAFT_TEXT;
    session->is_string = choice == COP_DRAFT_STRING;
    session->sampling = cop_draft_law_sampling(&draft->law, &env->sampling);
    session->n_levels = env->capacity + 1;
    enum cop_status status = find_capacity(session, draft, env, &capacity, err);
    if (status == COP_OK) {
        status = cop_drafter_open(&session->drafter, draft->model,
                                  choice == INT32_MIN ? COP_DRAFT_SAME
                                                      : (enum cop_draft_vocabulary)choice,
                                  env, capacity, err);
    }
    if (status == COP_OK) {
        status = open_vocabulary(session, draft, env, err);
    }
    session->arena = cop_row_arena_new();
    session->levels = calloc((size_t)session->n_levels, sizeof *session->levels);
    if (status == COP_OK && (!session->arena || !session->levels)) {
        status = cop_fail(err, COP_ERR_MEMORY, "no memory for a draft model's session");
    }
    return status;
}

static enum cop_status open_session(const void *state, const struct cop_proposer_env *env,
                                    void **out, struct cop_error *err)
{
    struct session *session = calloc(1, sizeof *session);
    if (!session) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a draft model's session");
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
    return cop_drafter_begin(&((struct session *)opened)->drafter, sequence, ids, n, err);
}

static void end(void *opened, int32_t sequence)
{
    cop_drafter_end(&((struct session *)opened)->drafter, sequence);
}

/* ---- One level -------------------------------------------------------------------------- */

static enum cop_status feed_level(struct cop_drafter *drafter,
                                  const struct cop_frontier *frontiers, int32_t n_frontiers,
                                  int32_t depth, struct cop_error *err)
{
    int32_t n = 0;
    for (int32_t f = 0; f < n_frontiers; f++) {
        n += frontiers[f].count;
    }
    enum cop_status status = cop_drafter_start(drafter, n, n_frontiers, err);
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        const struct cop_frontier *frontier = &frontiers[f];
        const struct cop_tree *tree = frontier->tree;
        bool is_fed;
        if (depth == 0) {
            status = cop_drafter_feed_root(drafter, frontier->sequence, &is_fed, err);
            continue;
        }
        for (int32_t i = 0; i < frontier->count; i++) {
            int32_t node = frontier->nodes[i];
            (void)cop_drafter_feed_node(drafter, frontier->sequence, node, tree->parent[node],
                                        depth, tree->token[node]);
        }
    }
    return status;
}

/* In the order in which tokens were fed. */
static enum cop_status hand_out(struct session *session, struct cop_frontier *frontiers,
                                int32_t n_frontiers, float *logits, struct cop_error *err)
{
    const struct cop_drafter *drafter = &session->drafter;
    for (int32_t f = 0; f < n_frontiers; f++) {
        struct cop_frontier *frontier = &frontiers[f];
        const struct cop_drafter_context *context = &drafter->contexts[frontier->sequence];
        for (int32_t i = 0; i < frontier->count && !context->is_off; i++) {
            if (context->slot_of[frontier->nodes[i]] < 0) {
                continue;
            }
            enum cop_status status = cop_drafter_hand_out(
                drafter, frontier, i, logits, &session->sampling, session->arena, err);
            if (status != COP_OK) {
                return status;
            }
            logits += drafter->stride;
        }
    }
    return COP_OK;
}

static enum cop_status expand(void *opened, struct cop_frontier *frontiers, int32_t n_frontiers,
                              struct cop_error *err)
{
    struct session *session = opened;
    if (session->is_text) {
        return cop_draft_text_expand(&session->text, frontiers, n_frontiers, err);
    }
    int32_t depth = cop_tree_depth(frontiers[0].tree, frontiers[0].nodes[0]);
    struct cop_floats *level = &session->levels[depth];
    if (depth == 0) {
        cop_row_arena_reset(session->arena);
    }
    if (session->is_string) {
        return cop_draft_string_expand(&session->string, frontiers, n_frontiers, level,
                                       session->arena, err);
    }
    enum cop_status status = feed_level(&session->drafter, frontiers, n_frontiers, depth, err);
    if (status == COP_OK) {
        status = cop_drafter_run(&session->drafter, level, err);
    }
    return status == COP_OK ? hand_out(session, frontiers, n_frontiers, level->items, err)
                            : status;
}

static enum cop_status observe(void *opened, const struct cop_observed *observed,
                               struct cop_error *err)
{
    struct session *session = opened;
    if (session->is_string) { /* its own tokens are no nodes */
        cop_drafter_forget_nodes(&session->drafter, observed->sequence);
    }
    return cop_drafter_observe(&session->drafter, observed, NULL, err);
}

static bool is_over(void *opened, int32_t sequence)
{
    return cop_drafter_is_over(&((struct session *)opened)->drafter, sequence);
}

const struct cop_proposer_ops cop_propose_model = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "model",
             .help = "a smaller model drafts, one forward pass a level; its tokenizer may be "
                     "another one",
             .source =
                 "Leviathan, Kalman, Matias 2023, arXiv:2211.17192; Chen et al. 2023, "
                 "arXiv:2302.01318; other vocabularies: Timor et al. 2025, "
                 "arXiv:2502.05202 (TLI: algorithm 4, SLEM: algorithm 2, SLRS: algorithm 3)",
             .synonyms =
                 "draft model, assistant model, approximation model, universal assisted "
                 "generation",
             .state_size = sizeof(struct draft),
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
    .is_over = is_over,
    .facts = facts,
};
