/* The plain cell on a device, and what it shares with the other. */
#include "algorithms/heads/several/speculator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EPSILON 1e-6F

/* ---- What both cells do ------------------------------------------------------------------ */

float cop_speculator_weight(const struct cop_speculator *speculator)
{
    double state_weight = pow(0.5, 0.5 / speculator->heads.n_heads);
    double squares = (1 - state_weight * state_weight) * speculator->heads.inner / 2;
    return (float)(sqrt(squares) / state_weight);
}

float *cop_speculator_root_gain(const struct cop_speculator *speculator)
{
    float *gain = malloc((size_t)speculator->heads.width * sizeof *gain);
    for (int32_t i = 0; gain && i < speculator->heads.width; i++) {
        gain[i] = (float)sqrt(0.5);
    }
    return gain;
}

void cop_speculator_inputs(const struct cop_speculator *speculator,
                           const struct cop_model *target, const float *root_gain,
                           const struct cop_heads_kept *kept, int32_t depth,
                           const struct cop_heads_node *nodes, int32_t n, float *out)
{
    const struct cop_heads *heads = &speculator->heads;
    size_t width = depth == 0 ? (size_t)heads->width : (size_t)heads->inner;
    for (int32_t i = 0; i < n; i++) {
        const struct cop_heads_node *node = &nodes[i];
        const float *from = depth == 0 ? node->state
                                       : cop_heads_kept_at(kept, node->sequence,
                                                           node->tree->parent[node->node]);
        memcpy(out + (size_t)i * width, from, width * sizeof *from);
    }
    if (depth == 0 && speculator->is_scaled) {
        cop_model_ops(target)->rms_norm(cop_model_device(target), out, root_gain, EPSILON, n,
                                        heads->width, heads->width, out);
    }
}

static float gelu(float x)
{
    return (float)(0.5 * (double)x * (1 + erf((double)x * sqrt(0.5))));
}

void cop_speculator_norm(const struct cop_speculator *speculator,
                         const struct cop_model *target, const float *gain, const float *shift,
                         int32_t n, float *x)
{
    int32_t inner = speculator->heads.inner;
    cop_model_ops(target)->rms_norm(cop_model_device(target), x, gain, EPSILON, n, inner, inner,
                                    x);
    for (size_t i = 0; i < (size_t)n * (size_t)inner; i++) {
        x[i] = gelu(x[i] + shift[i % (size_t)inner]);
    }
}

/* ---- The plain cell ---------------------------------------------------------------------- */

struct run {
    const struct cop_speculator *speculator;
    struct cop_model *target;
    struct cop_matrix emb[COP_HEADS_LIMIT];
    struct cop_weight *proj[COP_HEADS_LIMIT];
    float *gain[COP_HEADS_LIMIT], *shift[COP_HEADS_LIMIT];
    float *root_gain; /* [width] 1 / sqrt 2 */
    float token_weight;
    struct cop_heads_kept kept; /* the vector of each node */
    /* Grown by need, for `capacity` nodes. */
    float *inputs, *tokens; /* [capacity, max(width, inner)] and [capacity, inner] */
    int32_t capacity;
};

/* Head i's tensors; those that it shares with the head before are that head's. */
static enum cop_status load_head(struct run *run, int32_t i, struct cop_error *err)
{
    const struct cop_speculator *speculator = run->speculator;
    const struct cop_checkpoint *files = &speculator->heads.files;
    enum cop_status status = cop_checkpoint_table(files, speculator->emb[i], &run->emb[i], err);
    bool is_new = i == 0 || speculator->proj[i] != speculator->proj[i - 1];
    if (status == COP_OK && is_new) {
        status =
            cop_checkpoint_weight(files, speculator->proj[i], run->target, &run->proj[i], err);
    } else if (!is_new) {
        run->proj[i] = run->proj[i - 1];
    }
    if (status == COP_OK) {
        status = cop_checkpoint_vector(files, speculator->gain[i], &run->gain[i], err);
    }
    return status == COP_OK
               ? cop_checkpoint_vector(files, speculator->shift[i], &run->shift[i], err)
               : status;
}

static bool make_vectors(struct run *run, const struct cop_proposer_env *env)
{
    run->token_weight = cop_speculator_weight(run->speculator);
    run->root_gain = cop_speculator_root_gain(run->speculator);
    return run->root_gain && cop_heads_kept_init(&run->kept, env, run->speculator->heads.inner);
}

static enum cop_status open_run(const void *state, const struct cop_proposer_env *env,
                                void **out, struct cop_error *err)
{
    struct run *run = calloc(1, sizeof *run);
    *out = run;
    if (!run) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for heads");
    }
    run->speculator = state;
    run->target = env->target;
    if (!make_vectors(run, env)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the vectors of %d nodes",
                        env->n_sequences * (env->capacity + 1));
    }
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < run->speculator->heads.n_heads && status == COP_OK; i++) {
        status = load_head(run, i, err);
    }
    return status;
}

static void close_run(void *opened)
{
    struct run *run = opened;
    for (int32_t i = 0; run && i < COP_HEADS_LIMIT; i++) {
        if (i == 0 || run->proj[i] != run->proj[i - 1]) {
            cop_checkpoint_free_weight(run->target, run->proj[i]);
        }
        free(run->gain[i]);
        free(run->shift[i]);
    }
    if (run) {
        free(run->root_gain);
        free(run->kept.rows);
        free(run->inputs);
        free(run->tokens);
    }
    free(run);
}

static bool reserve(struct run *run, int32_t n)
{
    if (n <= run->capacity) {
        return true;
    }
    const struct cop_heads *heads = &run->speculator->heads;
    size_t inner = (size_t)heads->inner, width = (size_t)heads->width;
    free(run->inputs);
    free(run->tokens);
    run->inputs = malloc((size_t)n * (width > inner ? width : inner) * sizeof *run->inputs);
    run->tokens = malloc((size_t)n * inner * sizeof *run->tokens);
    run->capacity = run->inputs && run->tokens ? n : 0;
    return run->capacity > 0;
}

static enum cop_status run_nodes(void *opened, int32_t depth,
                                 const struct cop_heads_node *nodes, int32_t n, float *out,
                                 struct cop_error *err)
{
    struct run *run = opened;
    const struct cop_ops *ops = cop_model_ops(run->target);
    struct cop_device *device = cop_model_device(run->target);
    size_t inner = (size_t)run->speculator->heads.inner;
    if (!reserve(run, n)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d nodes of a head", n);
    }
    cop_speculator_inputs(run->speculator, run->target, run->root_gain, &run->kept, depth,
                          nodes, n, run->inputs);
    for (int32_t i = 0; i < n; i++) {
        cop_checkpoint_embed(&run->emb[depth], run->target,
                             &nodes[i].tree->token[nodes[i].node], 1,
                             run->tokens + (size_t)i * inner);
    }
    if (!ops->matmul(device, run->proj[depth], run->inputs, n, NULL, false, out)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d nodes of a head", n);
    }
    for (size_t i = 0; i < (size_t)n * inner; i++) {
        out[i] += run->token_weight * run->tokens[i];
    }
    cop_speculator_norm(run->speculator, run->target, run->gain[depth], run->shift[depth], n,
                        out);
    for (int32_t i = 0; i < n; i++) {
        memcpy(cop_heads_kept_at(&run->kept, nodes[i].sequence, nodes[i].node),
               out + (size_t)i * inner, inner * sizeof *out);
    }
    return COP_OK;
}

const struct cop_heads_family cop_speculator_plain = {
    .open = open_run, .close = close_run, .nodes = run_nodes};
