/* The session of multi-draft heads: states of sequences, levels, rows. */
#include "algorithms/heads/heads.h"
#include "algorithms/heads/prefix.h"
#include "algorithms/heads/rows.h"
#include "core/base/quote.h"

#include <stdlib.h>
#include <string.h>

struct session {
    const struct cop_heads *heads;
    const struct cop_heads_family *family;
    struct cop_model *target;
    void *run; /* of the family */
    struct cop_weight *output[COP_HEADS_LIMIT];
    float *output_bias[COP_HEADS_LIMIT];
    struct cop_row_maker maker;
    int32_t n_sequences;
    float *states;             /* [n_sequences, width] at the position before the root */
    bool *has_state;           /* [n_sequences] */
    struct cop_prefix *prefix; /* makes the states of those of the target; NULL: they are */
    int32_t *waiting;          /* [n_sequences] scratch */
    struct cop_level levels[COP_HEADS_LIMIT];
    /* One level; grown by need. */
    struct cop_heads_node *nodes;
    float *inner; /* [node_capacity, heads->inner] */
    int32_t node_capacity;
    struct cop_level reduced; /* what output layers make where there is a map */
};

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
    if (heads->vocab > 0 && heads->vocab != target->vocab_size) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "%s: heads of another target: their vocabulary has %d tokens, that of "
                        "\"%s\" %d",
                        heads->files.name, heads->vocab, cop_path_tail(target->path, 120),
                        target->vocab_size);
    }
    const struct cop_token_map *map = &heads->map;
    if (map->ids && map->ids[map->n - 1] >= target->vocab_size) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "%s: heads of another target: they draft token %d, the vocabulary of "
                        "\"%s\" has %d",
                        heads->files.name, map->ids[map->n - 1],
                        cop_path_tail(target->path, 120), target->vocab_size);
    }
    return COP_OK;
}

/* Equal tensors (one layer that all heads share) are repacked once. */
static enum cop_status load_outputs(struct session *session, struct cop_error *err)
{
    const struct cop_heads *heads = session->heads;
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < heads->n_heads && status == COP_OK; i++) {
        if (i > 0 && heads->output[i] == heads->output[0]) {
            session->output[i] = session->output[0];
        } else if (heads->output[i]) {
            status = cop_checkpoint_weight(&heads->files, heads->output[i], session->target,
                                           &session->output[i], err);
        }
        if (status == COP_OK && heads->output_bias[i]) {
            status = cop_checkpoint_vector(&heads->files, heads->output_bias[i],
                                           &session->output_bias[i], err);
        }
    }
    return status;
}

static enum cop_status fill_session(struct session *session, const struct cop_proposer_env *env,
                                    struct cop_error *err)
{
    size_t n = (size_t)env->n_sequences;
    session->states = malloc(n * (size_t)session->heads->width * sizeof *session->states);
    session->has_state = calloc(n, sizeof *session->has_state);
    session->waiting = malloc(n * sizeof *session->waiting);
    session->maker = (struct cop_row_maker){
        .vocab = env->vocab_size,
        .sampling = cop_draft_law_sampling(&session->heads->law, &env->sampling),
        .arena = cop_row_arena_new(),
        .of = "draft head",
        .ids = session->heads->map.ids,
        .n_ids = session->heads->map.n};
    if (!session->states || !session->has_state || !session->waiting || !session->maker.arena) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the states of %d sequences",
                        env->n_sequences);
    }
    enum cop_status status = load_outputs(session, err);
    if (status == COP_OK && session->heads->prefix) {
        status = cop_prefix_open(&session->prefix, &session->heads->files,
                                 session->heads->prefix, env, err);
    }
    return status == COP_OK ? session->family->open(session->heads, env, &session->run, err)
                            : status;
}

enum cop_status cop_heads_open(const struct cop_heads_family *family, const void *state,
                               const struct cop_proposer_env *env, void **out,
                               struct cop_error *err)
{
    const struct cop_heads *heads = state;
    enum cop_status status = check_target(heads, cop_model_info(env->target), err);
    if (status != COP_OK) {
        return status;
    }
    struct session *session = calloc(1, sizeof *session);
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
    struct session *session = opened;
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
        free(session->levels[i].logits);
    }
    free(session->states);
    free(session->has_state);
    free(session->waiting);
    free(session->nodes);
    free(session->inner);
    free(session->reduced.logits);
    cop_row_arena_free(session->maker.arena);
    free(session);
}

/* ---- States -------------------------------------------------------------------------------
 */

static void keep_state(struct session *session, int32_t sequence, const float *state)
{
    size_t width = (size_t)session->heads->width;
    memcpy(session->states + (size_t)sequence * width, state, width * sizeof *state);
    session->has_state[sequence] = true;
}

void cop_heads_end(void *opened, int32_t sequence)
{
    struct session *session = opened;
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
    struct session *session = opened;
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
    struct session *session = opened;
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

/* One pass for all sequences that draft. */
static enum cop_status read_waiting(struct session *session,
                                    const struct cop_frontier *frontiers, int32_t n_frontiers,
                                    struct cop_error *err)
{
    for (int32_t f = 0; f < n_frontiers; f++) {
        session->waiting[f] = frontiers[f].sequence;
    }
    return cop_prefix_read(session->prefix, session->waiting, n_frontiers, session->states,
                           err);
}

/* ---- One level ----------------------------------------------------------------------------
 */

/* Rows of one frontier that are computed: one for all its nodes where they are the same. */
static int32_t rows_of(const struct session *session, const struct cop_frontier *frontier)
{
    return !session->has_state[frontier->sequence] ? 0
           : session->family->is_independent       ? 1
                                                   : frontier->count;
}

static bool reserve(struct session *session, struct cop_level *level, int32_t n_rows,
                    int32_t n_logits)
{
    if (n_rows > session->node_capacity) {
        free(session->nodes);
        free(session->inner);
        session->nodes = malloc((size_t)n_rows * sizeof *session->nodes);
        session->inner =
            malloc((size_t)n_rows * (size_t)session->heads->inner * sizeof *session->inner);
        session->node_capacity = session->nodes && session->inner ? n_rows : 0;
    }
    return session->nodes && session->inner &&
           cop_row_reserve(&session->maker, level, n_logits);
}

/* Fills session->nodes. */
static void gather(struct session *session, const struct cop_frontier *frontiers,
                   int32_t n_frontiers)
{
    struct cop_heads_node *at = session->nodes;
    for (int32_t f = 0; f < n_frontiers; f++) {
        const struct cop_frontier *frontier = &frontiers[f];
        for (int32_t i = 0; i < rows_of(session, frontier); i++) {
            *at++ = (struct cop_heads_node){.sequence = frontier->sequence,
                                            .node = frontier->nodes[i],
                                            .tree = frontier->tree,
                                            .state = session->states +
                                                     (size_t)frontier->sequence *
                                                         (size_t)session->heads->width};
        }
    }
}

/* out [n, columns of the output layer] */
static enum cop_status output(struct session *session, int32_t depth, int32_t n, float *out,
                              struct cop_error *err)
{
    if (!session->output[depth]) {
        return cop_model_head(session->target, session->inner, n, out, err);
    }
    return cop_model_ops(session->target)
                   ->matmul(cop_model_device(session->target), session->output[depth],
                            session->inner, n, session->output_bias[depth], false, out)
               ? COP_OK
               : cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", n);
}

static enum cop_status compute(struct session *session, int32_t depth, int32_t n, float *logits,
                               struct cop_error *err)
{
    const struct cop_heads *heads = session->heads;
    int32_t vocab = session->maker.vocab;
    int32_t cols = heads->output[depth] ? cop_heads_rows(heads->output[depth]) : vocab;
    enum cop_status status =
        session->family->nodes(session->run, depth, session->nodes, n, session->inner, err);
    if (status != COP_OK || !heads->map.ids) {
        return status == COP_OK ? output(session, depth, n, logits, err) : status;
    }
    if (!cop_level_reserve(&session->reduced, (size_t)n * (size_t)cols)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", n);
    }
    status = output(session, depth, n, session->reduced.logits, err);
    if (status == COP_OK) {
        cop_token_map_scatter(&heads->map, session->reduced.logits, n, cols, vocab, logits);
    }
    return status;
}

static enum cop_status hand_out(struct session *session, struct cop_frontier *frontiers,
                                int32_t n_frontiers, float *logits, int32_t n_rows,
                                struct cop_error *err)
{
    size_t vocab = (size_t)session->maker.vocab;
    float *spare = logits + (size_t)n_rows * vocab;
    enum cop_status status = COP_OK;
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        struct cop_frontier *frontier = &frontiers[f];
        int32_t n = rows_of(session, frontier);
        if (n > 0 && session->family->is_independent) {
            status = cop_row_share(&session->maker, frontier, logits, spare, err);
            spare += (size_t)cop_row_copies(frontier) * vocab;
        }
        for (int32_t i = 0; !session->family->is_independent && i < n && status == COP_OK;
             i++) {
            status =
                cop_row_make(&session->maker, frontier, i, logits + (size_t)i * vocab, err);
        }
        logits += (size_t)n * vocab;
    }
    return status;
}

enum cop_status cop_heads_expand(void *opened, struct cop_frontier *frontiers,
                                 int32_t n_frontiers, struct cop_error *err)
{
    struct session *session = opened;
    int32_t depth = cop_tree_depth(frontiers[0].tree, frontiers[0].nodes[0]);
    int32_t n_rows = 0, n_logits = 0;
    enum cop_status status = COP_OK;
    if (depth == 0) {
        cop_row_arena_reset(session->maker.arena);
    }
    if (depth == 0 && session->prefix) {
        status = read_waiting(session, frontiers, n_frontiers, err);
    }
    if (status != COP_OK) {
        return status;
    }
    if (depth >= session->heads->n_heads) {
        return COP_OK;
    }
    for (int32_t f = 0; f < n_frontiers; f++) {
        int32_t n = rows_of(session, &frontiers[f]);
        n_rows += n;
        n_logits +=
            n > 0 && session->family->is_independent ? 1 + cop_row_copies(&frontiers[f]) : n;
    }
    if (n_rows == 0) {
        return COP_OK;
    }
    struct cop_level *level = &session->levels[depth];
    if (!reserve(session, level, n_rows, n_logits)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", n_logits);
    }
    gather(session, frontiers, n_frontiers);
    status = compute(session, depth, n_rows, level->logits, err);
    return status == COP_OK
               ? hand_out(session, frontiers, n_frontiers, level->logits, n_rows, err)
               : status;
}
