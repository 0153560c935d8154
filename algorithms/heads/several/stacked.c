/* Residual blocks on a device: gathering inputs, running blocks. */
#include "algorithms/heads/several/stacked.h"

#include <stdlib.h>
#include <string.h>

struct run {
    const struct cop_stacked *stacked;
    struct cop_model *target;
    struct cop_skip_block blocks[COP_HEADS_LIMIT][COP_STACKED_LIMIT];
    /* Grown by need, for `capacity` nodes of the deepest head. */
    float *inputs, *linear, *rows;
    cop_token *tokens;
    int32_t *path;
    int32_t capacity;
};

int32_t cop_stacked_inputs(const struct cop_stacked *stacked, int32_t head)
{
    return stacked->sees_path ? (head + 2) * stacked->heads.width : stacked->heads.width;
}

/* ---- Opening ------------------------------------------------------------------------------
 */

static enum cop_status open_run(const void *state, const struct cop_proposer_env *env,
                                void **out, struct cop_error *err)
{
    const struct cop_stacked *stacked = state;
    struct run *run = calloc(1, sizeof *run);
    *out = run;
    if (!run) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for heads");
    }
    run->stacked = stacked;
    run->target = env->target;
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < stacked->heads.n_heads; i++) {
        for (int32_t j = 0; j < stacked->n_blocks && status == COP_OK; j++) {
            status = cop_skip_block_load(&stacked->heads.files, &stacked->blocks[i][j],
                                         run->target, &run->blocks[i][j], err);
        }
    }
    return status;
}

static void close_run(void *opened)
{
    struct run *run = opened;
    for (int32_t i = 0; run && i < COP_HEADS_LIMIT; i++) {
        for (int32_t j = 0; j < COP_STACKED_LIMIT; j++) {
            cop_skip_block_free(&run->blocks[i][j], run->target);
        }
    }
    if (run) {
        free(run->inputs);
        free(run->linear);
        free(run->rows);
        free(run->tokens);
        free(run->path);
    }
    free(run);
}

/* ---- One level ----------------------------------------------------------------------------
 */

static bool reserve(struct run *run, int32_t n)
{
    if (n <= run->capacity) {
        return true;
    }
    int32_t n_heads = run->stacked->heads.n_heads;
    size_t count = (size_t)n, width = (size_t)run->stacked->heads.width;
    size_t inputs = (size_t)cop_stacked_inputs(run->stacked, n_heads - 1);
    float **floats[] = {&run->inputs, &run->linear, &run->rows};
    const size_t sizes[] = {inputs, width, inputs};
    bool is_whole = true;
    for (int32_t i = 0; i < 3; i++) {
        free(*floats[i]);
        *floats[i] = malloc(count * sizes[i] * sizeof(float));
        is_whole &= *floats[i] != NULL;
    }
    free(run->tokens);
    free(run->path);
    run->tokens = malloc(count * ((size_t)n_heads + 1) * sizeof *run->tokens);
    run->path = malloc(((size_t)n_heads + 1) * sizeof *run->path);
    is_whole &= run->tokens && run->path;
    run->capacity = is_whole ? n : 0;
    return is_whole;
}

/* inputs[i] = the state of node i, then the embeddings of the tokens from its root to it. */
static enum cop_status gather(struct run *run, int32_t depth,
                              const struct cop_heads_node *nodes, int32_t n,
                              struct cop_error *err)
{
    size_t width = (size_t)run->stacked->heads.width;
    size_t inputs = (size_t)cop_stacked_inputs(run->stacked, depth);
    int32_t length = depth + 1; /* tokens of a path, the root's included */
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < n && run->stacked->sees_path; i++) {
        cop_token *tokens = run->tokens + (size_t)i * (size_t)length;
        tokens[0] = nodes[i].tree->token[0];
        (void)cop_tree_path(nodes[i].tree, nodes[i].node, run->path);
        for (int32_t d = 0; d < depth; d++) {
            tokens[d + 1] = nodes[i].tree->token[run->path[d]];
        }
    }
    if (run->stacked->sees_path) {
        status = cop_model_embed(run->target, run->tokens, n * length, run->rows, err);
    }
    for (int32_t i = 0; i < n && status == COP_OK; i++) {
        float *to = run->inputs + (size_t)i * inputs;
        memcpy(to, nodes[i].state, width * sizeof *to);
        memcpy(to + width, run->rows + (size_t)i * (inputs - width),
               (inputs - width) * sizeof *to);
    }
    return status;
}

static enum cop_status run_nodes(void *opened, int32_t depth,
                                 const struct cop_heads_node *nodes, int32_t n, float *out,
                                 struct cop_error *err)
{
    struct run *run = opened;
    if (!reserve(run, n)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d nodes of a head", n);
    }
    enum cop_status status = gather(run, depth, nodes, n, err);
    const struct cop_skip_block *block = run->blocks[depth];
    for (int32_t j = 0; j < run->stacked->n_blocks && status == COP_OK; j++) {
        block = run->blocks[depth][j].linear ? &run->blocks[depth][j] : block;
        if (!cop_skip_block_run(block, run->target, j == 0 ? run->inputs : out, n,
                                run->stacked->heads.width, run->linear, out)) {
            status = cop_fail(err, COP_ERR_MEMORY, "no memory for %d nodes of a head", n);
        }
    }
    return status;
}

const struct cop_heads_family cop_stacked_plain = {
    .is_independent = true, .open = open_run, .close = close_run, .nodes = run_nodes};
const struct cop_heads_family cop_stacked_tokens = {
    .open = open_run, .close = close_run, .nodes = run_nodes};
