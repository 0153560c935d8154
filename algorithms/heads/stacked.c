/* Residual blocks on a device: gathering inputs, running blocks. */
#include "algorithms/heads/stacked.h"

#include <stdlib.h>
#include <string.h>

struct block {
    struct cop_weight *linear, *skip; /* linear NULL: as in struct cop_stacked_block */
    float *bias, *skip_bias;
};

struct run {
    const struct cop_stacked *stacked;
    struct cop_model *target;
    struct block blocks[COP_HEADS_LIMIT][COP_STACKED_LIMIT];
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

static enum cop_status load_vector(struct run *run, const struct cop_tensor *tensor,
                                   float **out, struct cop_error *err)
{
    return tensor ? cop_checkpoint_vector(&run->stacked->heads.files, tensor, out, err)
                  : COP_OK;
}

static enum cop_status load_weight(struct run *run, const struct cop_tensor *tensor,
                                   struct cop_weight **out, struct cop_error *err)
{
    return tensor ? cop_checkpoint_weight(&run->stacked->heads.files, tensor, run->target, out,
                                          err)
                  : COP_OK;
}

static enum cop_status load_block(struct run *run, const struct cop_stacked_block *from,
                                  struct block *block, struct cop_error *err)
{
    enum cop_status status = load_weight(run, from->linear, &block->linear, err);
    if (status == COP_OK) {
        status = load_weight(run, from->skip, &block->skip, err);
    }
    if (status == COP_OK) {
        status = load_vector(run, from->bias, &block->bias, err);
    }
    return status == COP_OK ? load_vector(run, from->skip_bias, &block->skip_bias, err)
                            : status;
}

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
            status = load_block(run, &stacked->blocks[i][j], &run->blocks[i][j], err);
        }
    }
    return status;
}

static void close_run(void *opened)
{
    struct run *run = opened;
    for (int32_t i = 0; run && i < COP_HEADS_LIMIT; i++) {
        for (int32_t j = 0; j < COP_STACKED_LIMIT; j++) {
            struct block *block = &run->blocks[i][j];
            cop_checkpoint_free_weight(run->target, block->linear);
            cop_checkpoint_free_weight(run->target, block->skip);
            free(block->bias);
            free(block->skip_bias);
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

/* Without overflow at either end. */
static float silu(float x)
{
    float small = cop_expf(x < 0 ? x : -x); /* at most 1 */
    return (x < 0 ? x * small : x) / (1 + small);
}

/* out = skip x + silu(linear x); x and out may be the same where skip is the identity. */
static bool run_block(struct run *run, const struct block *block, const float *x, int32_t n,
                      float *out)
{
    const struct cop_ops *ops = cop_model_ops(run->target);
    struct cop_device *device = cop_model_device(run->target);
    size_t count = (size_t)n * (size_t)run->stacked->heads.width;
    if (!ops->matmul(device, block->linear, x, n, block->bias, false, run->linear)) {
        return false;
    }
    if (block->skip && !ops->matmul(device, block->skip, x, n, block->skip_bias, false, out)) {
        return false;
    }
    if (!block->skip && x != out) {
        memcpy(out, x, count * sizeof *out);
    }
    for (size_t i = 0; i < count; i++) {
        out[i] += silu(run->linear[i]);
    }
    return true;
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
    const struct block *block = run->blocks[depth];
    for (int32_t j = 0; j < run->stacked->n_blocks && status == COP_OK; j++) {
        block = run->blocks[depth][j].linear ? &run->blocks[depth][j] : block;
        if (!run_block(run, block, j == 0 ? run->inputs : out, n, out)) {
            status = cop_fail(err, COP_ERR_MEMORY, "no memory for %d nodes of a head", n);
        }
    }
    return status;
}

const struct cop_heads_family cop_stacked_plain = {
    .is_independent = true, .open = open_run, .close = close_run, .nodes = run_nodes};
const struct cop_heads_family cop_stacked_tokens = {
    .open = open_run, .close = close_run, .nodes = run_nodes};
