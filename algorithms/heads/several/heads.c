/* The session of multi-draft heads, and the states of its sequences. */
#include "algorithms/heads/carried/prefix.h"
#include "algorithms/heads/several/heads_session.h"
#include "core/base/quote.h"

#include <stdlib.h>
#include <string.h>

int32_t cop_heads_layers(const void *state, const struct cop_model_info *target,
                         int32_t *layers)
{
    (void)state, (void)target;
    layers[0] = COP_HIDDEN_NORMED;
    return 1;
}

int32_t cop_heads_own_depth(const void *state)
{
    return ((const struct cop_heads *)state)->n_heads;
}

/* ---- Vectors of nodes ---------------------------------------------------------------------
 */

bool cop_heads_kept_init(struct cop_heads_kept *kept, const struct cop_proposer_env *env,
                         int32_t width)
{
    kept->n_nodes = (size_t)env->capacity + 1;
    kept->width = (size_t)width;
    kept->rows =
        malloc((size_t)env->n_sequences * kept->n_nodes * kept->width * sizeof *kept->rows);
    return kept->rows != NULL;
}

float *cop_heads_kept_at(const struct cop_heads_kept *kept, int32_t sequence, int32_t node)
{
    return kept->rows + ((size_t)sequence * kept->n_nodes + (size_t)node) * kept->width;
}

/* ---- Opening ------------------------------------------------------------------------------
 */

static enum cop_status check_target(const struct cop_heads *heads,
                                    const struct cop_model_info *target, struct cop_error *err)
{
    if (heads->width != target->hidden_size) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "%s: heads of another target: they read states of %d numbers, those of "
                        "\"%s\" have %d",
                        heads->files.name, heads->width, cop_path_tail(target->path, 120),
                        target->hidden_size);
    }
    return COP_OK;
}

/* ---- The session --------------------------------------------------------------------------
 */

static enum cop_status fill_session(struct heads_session *session,
                                    const struct cop_proposer_env *env, struct cop_error *err)
{
    size_t n = (size_t)env->n_sequences;
    session->states = malloc(n * (size_t)session->heads->width * sizeof *session->states);
    session->has_state = calloc(n, sizeof *session->has_state);
    session->waiting = malloc(n * sizeof *session->waiting);
    session->maker = (struct cop_row_maker){
        .vocab = env->vocab_size,
        .sampling = cop_draft_law_sampling(&session->heads->law, &env->sampling),
        .arena = cop_row_arena_new(),
        .of = "draft head"};
    session->ahead.row_of = malloc(n * sizeof *session->ahead.row_of);
    if (!session->states || !session->has_state || !session->waiting || !session->maker.arena ||
        !session->ahead.row_of) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the states of %d sequences",
                        env->n_sequences);
    }
    enum cop_status status = cop_heads_choose_ids(session, env, err);
    session->maker.ids = session->drafted.ids;
    session->maker.n_ids = session->drafted.ids ? session->drafted.n_ids : 0;
    if (status == COP_OK) {
        status = cop_heads_load_outputs(session, err);
    }
    if (status == COP_OK && session->heads->prefix) {
        status = cop_prefix_open(&session->prefix, &session->heads->files,
                                 session->heads->prefix, env, err);
    }
    int32_t n_heads = session->heads->n_heads;
    session->ahead.is_used = cop_heads_can_look_ahead(session);
    session->ahead.n_heads = n_heads < env->capacity ? n_heads : env->capacity;
    return status == COP_OK ? session->family->open(session->heads, env, &session->run, err)
                            : status;
}

enum cop_status cop_heads_open(const struct cop_heads_family *family, const void *state,
                               const struct cop_proposer_env *env, void **out,
                               struct cop_error *err)
{
    const struct cop_heads *heads = state;
    enum cop_status status = check_target(heads, cop_model_info(env->target), err);
    if (status == COP_OK) {
        status = cop_checkpoint_check_tokenizer(&heads->files, env->target, err);
    }
    if (status != COP_OK) {
        return status;
    }
    struct heads_session *session = calloc(1, sizeof *session);
    if (!session) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for heads");
    }
    session->heads = heads;
    session->family = family;
    session->target = env->target;
    session->n_sequences = env->n_sequences;
    status = fill_session(session, env, err);
    if (status != COP_OK) {
        cop_heads_close(session);
        return status;
    }
    *out = session;
    return COP_OK;
}

void cop_heads_close(void *opened)
{
    struct heads_session *session = opened;
    if (!session) {
        return;
    }
    session->family->close(session->run);
    cop_prefix_close(session->prefix);
    for (int32_t i = 0; i < session->heads->n_heads; i++) {
        if (i == 0 || session->output[i] != session->output[0]) {
            cop_checkpoint_free_weight(session->target, session->output[i]);
        }
        free(session->output_bias[i]);
        free(session->levels[i].items);
    }
    free(session->states);
    free(session->has_state);
    free(session->waiting);
    free(session->nodes);
    free(session->inner);
    free(session->own);
    free(session->ahead.row_of);
    free(session->ahead.level.items);
    cop_reduced_release(&session->drafted);
    cop_row_arena_free(session->maker.arena);
    free(session);
}

/* ---- States -------------------------------------------------------------------------------
 */

static void keep_state(struct heads_session *session, int32_t sequence, const float *state)
{
    size_t width = (size_t)session->heads->width;
    memcpy(session->states + (size_t)sequence * width, state, width * sizeof *state);
    session->has_state[sequence] = true;
}

void cop_heads_end(void *opened, int32_t sequence)
{
    struct heads_session *session = opened;
    session->has_state[sequence] = false;
    if (session->prefix) {
        cop_prefix_reset(session->prefix, sequence);
    }
}

enum cop_status cop_heads_begin(void *opened, int32_t sequence, const cop_token *ids, int32_t n,
                                struct cop_error *err)
{
    (void)ids, (void)n, (void)err;
    cop_heads_end(opened, sequence);
    return COP_OK;
}

enum cop_status cop_heads_prefilled(void *opened, const struct cop_prefilled *chunk,
                                    struct cop_error *err)
{
    struct heads_session *session = opened;
    if (!session->prefix) {
        keep_state(session, chunk->sequence,
                   chunk->hidden + (size_t)(chunk->n - 1) * (size_t)session->heads->width);
        return COP_OK;
    }
    session->has_state[chunk->sequence] = true;
    enum cop_status status = cop_prefix_prefilled(session->prefix, chunk, err);
    return status == COP_OK
               ? cop_prefix_read(session->prefix, &chunk->sequence, 1, session->states, err)
               : status;
}

/* The last accepted node, or the root, stands before the next root. */
enum cop_status cop_heads_observe(void *opened, const struct cop_observed *observed,
                                  struct cop_error *err)
{
    struct heads_session *session = opened;
    int32_t node = observed->n_accepted > 0 ? observed->accepted[observed->n_accepted - 1] : 0;
    bool is_full;
    if (!session->prefix) {
        keep_state(session, observed->sequence,
                   observed->hidden + (size_t)node * (size_t)session->heads->width);
        return COP_OK;
    }
    session->has_state[observed->sequence] = true;
    enum cop_status status = cop_prefix_observe(session->prefix, observed, &is_full, err);
    return status == COP_OK && is_full
               ? cop_prefix_read(session->prefix, &observed->sequence, 1, session->states, err)
               : status;
}
