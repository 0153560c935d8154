/* The recurrence on a device: nodes of one level at a time. */
#include "algorithms/heads/several/redrafter.h"

#include <stdlib.h>
#include <string.h>

struct run {
    const struct cop_redrafter *drafter;
    struct cop_model *target;
    struct cop_skip_block w, u, project, blocks[COP_REDRAFTER_BLOCKS];
    struct cop_heads_kept kept; /* the s of each node */
    /* Grown by need, for `capacity` nodes. */
    cop_token *tokens; /* [capacity] */
    float *embedded;   /* [capacity, width]; owns the block of floats */
    float *before;     /* [capacity, width] the s of the parents */
    float *states;     /* [capacity, width] */
    float *joined;     /* [capacity, 2 width] */
    float *linear;     /* [capacity, inner] */
    int32_t capacity;
};

static enum cop_status open_run(const void *state, const struct cop_proposer_env *env,
                                void **out, struct cop_error *err)
{
    const struct cop_redrafter *drafter = state;
    struct run *run = calloc(1, sizeof *run);
    *out = run;
    if (!run) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a ReDrafter");
    }
    run->drafter = drafter;
    run->target = env->target;
    if (!cop_heads_kept_init(&run->kept, env, drafter->heads.width)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the states of %d nodes",
                        env->n_sequences * (env->capacity + 1));
    }
    const struct cop_skip_tensors *from[] = {&drafter->w, &drafter->u, &drafter->project};
    struct cop_skip_block *to[] = {&run->w, &run->u, &run->project};
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < drafter->n_blocks + 3 && status == COP_OK; i++) {
        status = cop_skip_block_load(&drafter->heads.files,
                                     i < 3 ? from[i] : &drafter->blocks[i - 3], run->target,
                                     i < 3 ? to[i] : &run->blocks[i - 3], err);
    }
    return status;
}

static void close_run(void *opened)
{
    struct run *run = opened;
    if (!run) {
        return;
    }
    cop_skip_block_free(&run->w, run->target);
    cop_skip_block_free(&run->u, run->target);
    cop_skip_block_free(&run->project, run->target);
    for (int32_t i = 0; i < COP_REDRAFTER_BLOCKS; i++) {
        cop_skip_block_free(&run->blocks[i], run->target);
    }
    free(run->kept.rows);
    free(run->tokens);
    free(run->embedded);
    free(run);
}

static bool reserve(struct run *run, int32_t n)
{
    if (n <= run->capacity) {
        return true;
    }
    size_t count = (size_t)n, width = (size_t)run->drafter->heads.width;
    free(run->tokens);
    free(run->embedded);
    run->tokens = malloc(count * sizeof *run->tokens);
    run->embedded =
        malloc(count * (5 * width + (size_t)run->drafter->heads.inner) * sizeof *run->embedded);
    run->capacity = run->tokens && run->embedded ? n : 0;
    if (run->capacity == 0) {
        return false;
    }
    run->before = run->embedded + count * width;
    run->states = run->before + count * width;
    run->joined = run->states + count * width;
    run->linear = run->joined + 2 * count * width;
    return true;
}

static bool multiply(const struct run *run, const struct cop_skip_block *linear, const float *x,
                     int32_t n, float *out)
{
    return cop_model_ops(run->target)
        ->matmul(cop_model_device(run->target), linear->linear, x, n, linear->bias, false, out);
}

/* E of the nodes' tokens, and the s of their parents. */
static enum cop_status gather(struct run *run, int32_t depth,
                              const struct cop_heads_node *nodes, int32_t n,
                              struct cop_error *err)
{
    size_t width = run->kept.width;
    for (int32_t i = 0; i < n; i++) {
        float *before = run->before + (size_t)i * width;
        int32_t node = nodes[i].node;
        run->tokens[i] = nodes[i].tree->token[node];
        if (depth == 0) {
            memset(before, 0, width * sizeof *before);
        } else {
            memcpy(
                before,
                cop_heads_kept_at(&run->kept, nodes[i].sequence, nodes[i].tree->parent[node]),
                width * sizeof *before);
        }
    }
    return cop_model_embed(run->target, run->tokens, n, run->embedded, err);
}

/* states = what each token makes of the s before it. */
static bool recur(struct run *run, int32_t n)
{
    size_t count = (size_t)n * run->kept.width;
    if (!run->w.linear) {
        for (size_t i = 0; i < count; i++) {
            run->states[i] = run->before[i] + run->embedded[i];
        }
        return true;
    }
    /* joined has room for U s. */
    if (!multiply(run, &run->w, run->embedded, n, run->states) ||
        !multiply(run, &run->u, run->before, n, run->joined)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        run->states[i] = cop_silu(run->states[i] + run->joined[i]);
    }
    return true;
}

/* Keeps the states, and joins each behind the target's. */
static void join(struct run *run, const struct cop_heads_node *nodes, int32_t n)
{
    size_t width = run->kept.width;
    for (int32_t i = 0; i < n; i++) {
        const float *state = run->states + (size_t)i * width;
        float *to = run->joined + 2 * (size_t)i * width;
        memcpy(cop_heads_kept_at(&run->kept, nodes[i].sequence, nodes[i].node), state,
               width * sizeof *state);
        memcpy(to, nodes[i].state, width * sizeof *to);
        memcpy(to + width, state, width * sizeof *to);
    }
}

static bool run_stack(struct run *run, int32_t n, float *out)
{
    int32_t inner = run->drafter->heads.inner;
    bool is_whole = true;
    if (run->project.linear) {
        is_whole = multiply(run, &run->project, run->joined, n, out);
    } else {
        memcpy(out, run->joined, (size_t)n * (size_t)inner * sizeof *out);
    }
    for (int32_t i = 0; i < run->drafter->n_blocks && is_whole; i++) {
        is_whole =
            cop_skip_block_run(&run->blocks[i], run->target, out, n, inner, run->linear, out);
    }
    return is_whole;
}

static enum cop_status run_nodes(void *opened, int32_t depth,
                                 const struct cop_heads_node *nodes, int32_t n, float *out,
                                 struct cop_error *err)
{
    struct run *run = opened;
    enum cop_status status =
        reserve(run, n) ? gather(run, depth, nodes, n, err) : COP_ERR_MEMORY;
    if (status == COP_OK && recur(run, n)) {
        join(run, nodes, n);
        if (run_stack(run, n, out)) {
            return COP_OK;
        }
    }
    return status == COP_OK || status == COP_ERR_MEMORY
               ? cop_fail(err, COP_ERR_MEMORY, "no memory for %d nodes of a ReDrafter", n)
               : status;
}

const struct cop_heads_family cop_redrafter_family = {
    .open = open_run, .close = close_run, .nodes = run_nodes};
