/* The LSTM cell on a device: nodes of one level at a time. */
#include "algorithms/heads/several/speculator.h"

#include <stdlib.h>
#include <string.h>

enum { FORGET, INPUT, OUTPUT, CANDIDATE, GATES };

struct run {
    const struct cop_speculator *speculator;
    struct cop_model *target;
    struct cop_weight *proj[2]; /* [GATES * inner, what it reads] */
    struct cop_matrix emb[GATES];
    float *cell_gain, *cell_shift, *state_gain, *state_shift, *root_gain;
    float token_weight;
    struct cop_heads_kept kept; /* of each node its s, then its cell */
    /* Grown by need, for `capacity` nodes. */
    float *inputs;    /* [capacity, max(width, inner)]; owns the block */
    float *gates;     /* [capacity, GATES * inner] */
    float *token;     /* [inner] */
    float *candidate; /* [capacity, inner] */
    int32_t capacity;
};

static enum cop_status load_gates(struct run *run, struct cop_error *err)
{
    const struct cop_speculator *speculator = run->speculator;
    const struct cop_checkpoint *files = &speculator->heads.files;
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < 2 && status == COP_OK; i++) {
        int32_t n = speculator->gate_proj[i][1] ? GATES : 1;
        status = cop_checkpoint_stack(files, speculator->gate_proj[i], n, run->target,
                                      &run->proj[i], err);
    }
    for (int32_t g = 0; g < GATES && status == COP_OK; g++) {
        status = cop_checkpoint_table(files, speculator->gate_emb[g], &run->emb[g], err);
    }
    return status;
}

static enum cop_status load_norms(struct run *run, struct cop_error *err)
{
    const struct cop_speculator *speculator = run->speculator;
    const struct cop_checkpoint *files = &speculator->heads.files;
    const struct cop_tensor *from[] = {speculator->cell_gain, speculator->cell_shift,
                                       speculator->state_gain, speculator->state_shift};
    float **to[] = {&run->cell_gain, &run->cell_shift, &run->state_gain, &run->state_shift};
    enum cop_status status = COP_OK;
    for (size_t i = 0; i < sizeof from / sizeof *from && status == COP_OK; i++) {
        status = cop_checkpoint_vector(files, from[i], to[i], err);
    }
    return status;
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
    run->token_weight = cop_speculator_weight(run->speculator);
    run->root_gain = cop_speculator_root_gain(run->speculator);
    if (!run->root_gain ||
        !cop_heads_kept_init(&run->kept, env, 2 * run->speculator->heads.inner)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the vectors of %d nodes",
                        env->n_sequences * (env->capacity + 1));
    }
    enum cop_status status = load_gates(run, err);
    return status == COP_OK ? load_norms(run, err) : status;
}

static void close_run(void *opened)
{
    struct run *run = opened;
    if (!run) {
        return;
    }
    cop_checkpoint_free_weight(run->target, run->proj[0]);
    cop_checkpoint_free_weight(run->target, run->proj[1]);
    free(run->cell_gain);
    free(run->cell_shift);
    free(run->state_gain);
    free(run->state_shift);
    free(run->root_gain);
    free(run->kept.rows);
    free(run->inputs);
    free(run);
}

static bool reserve(struct run *run, int32_t n)
{
    if (n <= run->capacity) {
        return true;
    }
    const struct cop_heads *heads = &run->speculator->heads;
    size_t count = (size_t)n, inner = (size_t)heads->inner, width = (size_t)heads->width;
    size_t widest = width > inner ? width : inner;
    free(run->inputs);
    run->capacity = 0;
    run->inputs = malloc((count * (widest + (GATES + 1) * inner) + inner) * sizeof(float));
    if (!run->inputs) {
        return false;
    }
    run->gates = run->inputs + count * widest;
    run->candidate = run->gates + count * GATES * inner;
    run->token = run->candidate + count * inner;
    run->capacity = n;
    return true;
}

static float sigmoid(float x)
{
    float small = cop_expf(x < 0 ? x : -x); /* at most 1 */
    return (x < 0 ? small : 1) / (1 + small);
}

/* gates += c E(token), each gate by its own table. */
static void add_tokens(struct run *run, const struct cop_heads_node *nodes, int32_t n)
{
    size_t inner = (size_t)run->speculator->heads.inner;
    for (int32_t i = 0; i < n; i++) {
        for (size_t g = 0; g < GATES; g++) {
            float *gate = run->gates + ((size_t)i * GATES + g) * inner;
            if (g == 0 || run->emb[g].data != run->emb[g - 1].data) {
                cop_checkpoint_embed(&run->emb[g], run->target,
                                     &nodes[i].tree->token[nodes[i].node], 1, run->token);
            }
            for (size_t j = 0; j < inner; j++) {
                gate[j] += run->token_weight * run->token[j];
            }
        }
    }
}

/* out = the new cells, kept too: forget · old + input · gelu(norm candidate). */
static void make_cells(struct run *run, int32_t depth, const struct cop_heads_node *nodes,
                       int32_t n, float *out)
{
    size_t inner = (size_t)run->speculator->heads.inner;
    for (size_t i = 0; i < (size_t)n; i++) {
        memcpy(run->candidate + i * inner, run->gates + (i * GATES + CANDIDATE) * inner,
               inner * sizeof *out);
    }
    cop_speculator_norm(run->speculator, run->target, run->cell_gain, run->cell_shift, n,
                        run->candidate);
    for (size_t i = 0; i < (size_t)n; i++) {
        const struct cop_heads_node *node = &nodes[i];
        const float *gates = run->gates + i * GATES * inner;
        const float *old = depth == 0 ? NULL
                                      : cop_heads_kept_at(&run->kept, node->sequence,
                                                          node->tree->parent[node->node]) +
                                            inner;
        for (size_t j = 0; j < inner; j++) {
            float kept = old ? sigmoid(gates[FORGET * inner + j]) * old[j] : 0;
            out[i * inner + j] =
                kept + sigmoid(gates[INPUT * inner + j]) * run->candidate[i * inner + j];
        }
        memcpy(cop_heads_kept_at(&run->kept, node->sequence, node->node) + inner,
               out + i * inner, inner * sizeof *out);
    }
}

static enum cop_status run_nodes(void *opened, int32_t depth,
                                 const struct cop_heads_node *nodes, int32_t n, float *out,
                                 struct cop_error *err)
{
    struct run *run = opened;
    size_t inner = (size_t)run->speculator->heads.inner;
    if (!reserve(run, n)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d nodes of a head", n);
    }
    cop_speculator_inputs(run->speculator, run->target, run->root_gain, &run->kept, depth,
                          nodes, n, run->inputs);
    if (!cop_model_ops(run->target)
             ->matmul(cop_model_device(run->target), run->proj[depth > 0], run->inputs, n, NULL,
                      false, run->gates)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d nodes of a head", n);
    }
    add_tokens(run, nodes, n);
    make_cells(run, depth, nodes, n, out);
    cop_speculator_norm(run->speculator, run->target, run->state_gain, run->state_shift, n,
                        out);
    for (size_t i = 0; i < (size_t)n; i++) {
        const float *output = run->gates + (i * GATES + OUTPUT) * inner;
        for (size_t j = 0; j < inner; j++) {
            out[i * inner + j] *= sigmoid(output[j]);
        }
        memcpy(cop_heads_kept_at(&run->kept, nodes[i].sequence, nodes[i].node), out + i * inner,
               inner * sizeof *out);
    }
    return COP_OK;
}

const struct cop_heads_family cop_speculator_lstm = {
    .open = open_run, .close = close_run, .nodes = run_nodes};
