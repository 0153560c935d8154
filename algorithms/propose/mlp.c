/* The MLP speculator: a recurrence of one vector per node, fed with the tokens of the path.
 *
 *     s before the root = h, or h / (rms(h) sqrt 2) where the input is scaled
 *     head i:   s ← gelu(norm_i(proj_i s + (w_e / w_s) emb_i[token]))     logits = head_i s
 *     w_s = 0.5^(0.5 / n),  w_e = sqrt((1 - w_s²) inner / 2),  n heads
 *
 * norm divides by the root mean square and has a scale and a shift. With tied weights all heads
 * have the tensors of head 0, but for proj: the first reads the target's width, all others the
 * inner one. So a row belongs to a path, and each node keeps its s for its children. */
#include "algorithms/heads/heads.h"
#include "core/base/quote.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPSILON 1e-6F

struct mlp { /* a part's state */
    struct cop_heads heads;
    bool is_tied, is_scaled;
    /* Equal pointers where tied. */
    const struct cop_tensor *emb[COP_HEADS_LIMIT], *proj[COP_HEADS_LIMIT];
    const struct cop_tensor *gain[COP_HEADS_LIMIT], *shift[COP_HEADS_LIMIT];
};

/* ---- Files --------------------------------------------------------------------------------
 */

/* "speculator.emb.0.weight": the tensor of head i, or the one that stands for it. */
static enum cop_status find(const struct mlp *mlp, const char *prefix, const char *kind,
                            const char *what, int32_t i, int32_t rows, int32_t cols,
                            const struct cop_tensor **out, struct cop_error *err)
{
    char name[COP_HEADS_NAME_LIMIT];
    int32_t first = strcmp(kind, "proj") == 0 ? 1 : 0;
    int32_t place = mlp->is_tied && i > first ? first : i;
    (void)snprintf(name, sizeof name, "%s%s.%d.%s", prefix, kind, place, what);
    return cop_heads_find(&mlp->heads, name, rows, cols, out, err);
}

static enum cop_status find_head(struct mlp *mlp, const char *prefix, int32_t i,
                                 struct cop_error *err)
{
    struct cop_heads *heads = &mlp->heads;
    int32_t inner = heads->inner, inputs = i == 0 ? heads->width : inner;
    enum cop_status status =
        find(mlp, prefix, "emb", "weight", i, heads->vocab, inner, &mlp->emb[i], err);
    if (status == COP_OK) {
        status = find(mlp, prefix, "proj", "weight", i, inner, inputs, &mlp->proj[i], err);
    }
    if (status == COP_OK) {
        status = find(mlp, prefix, "ln", "weight", i, 0, inner, &mlp->gain[i], err);
    }
    if (status == COP_OK) {
        status = find(mlp, prefix, "ln", "bias", i, 0, inner, &mlp->shift[i], err);
    }
    return status == COP_OK ? find(mlp, prefix, "head", "weight", i, heads->vocab, inner,
                                   &heads->output[i], err)
                            : status;
}

static enum cop_status read_config(struct mlp *mlp, struct cop_error *err)
{
    struct cop_heads *heads = &mlp->heads;
    const struct cop_checkpoint *files = &heads->files;
    const struct cop_json_node *inner =
        cop_json_get(&files->tree, cop_json_root(&files->tree), "inner_dim");
    bool is_same = inner && inner->kind == COP_JSON_INTEGER && inner->integer == 0;
    enum cop_status status =
        cop_checkpoint_int(files, "vocab_size", 1 << 24, 0, &heads->vocab, err);
    if (status == COP_OK) {
        status = cop_checkpoint_int(files, "emb_dim", 1 << 20, 0, &heads->width, err);
    }
    heads->inner = heads->width;
    if (status == COP_OK && !is_same) {
        status =
            cop_checkpoint_int(files, "inner_dim", 1 << 20, heads->width, &heads->inner, err);
    }
    if (status == COP_OK) {
        status =
            cop_checkpoint_int(files, "n_predict", COP_HEADS_LIMIT, 0, &heads->n_heads, err);
    }
    if (status == COP_OK) {
        status = cop_checkpoint_bool(files, "tie_weights", false, &mlp->is_tied, err);
    }
    return status == COP_OK
               ? cop_checkpoint_bool(files, "scale_input", false, &mlp->is_scaled, err)
               : status;
}

static enum cop_status find_all(struct mlp *mlp, struct cop_error *err)
{
    struct cop_heads *heads = &mlp->heads;
    enum cop_status status = read_config(mlp, err);
    bool is_bare = !cop_heads_look(heads, "speculator.emb.0.weight") &&
                   cop_heads_look(heads, "emb.0.weight");
    const char *prefix = is_bare ? "" : "speculator.";
    for (int32_t i = 0; i < heads->n_heads && status == COP_OK; i++) {
        status = find_head(mlp, prefix, i, err);
    }
    /* The weights of the sum depend on the number of heads: one that is wrong makes another
     * function of it. */
    if (status == COP_OK && !mlp->is_tied &&
        cop_heads_look(heads, "%semb.%d.weight", prefix, heads->n_heads)) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: \"n_predict\" is %d, but there is a tensor "
                        "\"%semb.%d.weight\"",
                        heads->files.name, heads->n_heads, prefix, heads->n_heads);
    }
    return status;
}

static enum cop_status prepare(void *state, struct cop_error *err)
{
    struct mlp *mlp = state;
    enum cop_status status = cop_heads_open_files(&mlp->heads, NULL, err);
    if (status != COP_OK) {
        return status;
    }
    status = find_all(mlp, err);
    if (status != COP_OK) {
        cop_heads_release(mlp);
    }
    return status;
}

/* ---- A session ----------------------------------------------------------------------------
 */

struct run {
    const struct mlp *mlp;
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
    const struct mlp *mlp = run->mlp;
    const struct cop_checkpoint *files = &mlp->heads.files;
    enum cop_status status = cop_checkpoint_table(files, mlp->emb[i], &run->emb[i], err);
    bool is_new = i == 0 || mlp->proj[i] != mlp->proj[i - 1];
    if (status == COP_OK && is_new) {
        status = cop_checkpoint_weight(files, mlp->proj[i], run->target, &run->proj[i], err);
    } else if (!is_new) {
        run->proj[i] = run->proj[i - 1];
    }
    if (status == COP_OK) {
        status = cop_checkpoint_vector(files, mlp->gain[i], &run->gain[i], err);
    }
    return status == COP_OK ? cop_checkpoint_vector(files, mlp->shift[i], &run->shift[i], err)
                            : status;
}

static bool make_vectors(struct run *run, const struct cop_proposer_env *env)
{
    const struct cop_heads *heads = &run->mlp->heads;
    double state_weight = pow(0.5, 0.5 / heads->n_heads);
    run->token_weight =
        (float)(sqrt((1 - state_weight * state_weight) * heads->inner / 2) / state_weight);
    run->root_gain = malloc((size_t)heads->width * sizeof *run->root_gain);
    for (int32_t i = 0; run->root_gain && i < heads->width; i++) {
        run->root_gain[i] = (float)sqrt(0.5);
    }
    return run->root_gain && cop_heads_kept_init(&run->kept, env, heads->inner);
}

static enum cop_status open_run(const void *state, const struct cop_proposer_env *env,
                                void **out, struct cop_error *err)
{
    struct run *run = calloc(1, sizeof *run);
    *out = run;
    if (!run) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for heads");
    }
    run->mlp = state;
    run->target = env->target;
    if (!make_vectors(run, env)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the vectors of %d nodes",
                        env->n_sequences * (env->capacity + 1));
    }
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < run->mlp->heads.n_heads && status == COP_OK; i++) {
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
    const struct cop_heads *heads = &run->mlp->heads;
    size_t inner = (size_t)heads->inner, width = (size_t)heads->width;
    free(run->inputs);
    free(run->tokens);
    run->inputs = malloc((size_t)n * (width > inner ? width : inner) * sizeof *run->inputs);
    run->tokens = malloc((size_t)n * inner * sizeof *run->tokens);
    run->capacity = run->inputs && run->tokens ? n : 0;
    return run->capacity > 0;
}

/* inputs = what proj reads: the state before the root, or the vectors of the parents. */
static void gather(struct run *run, int32_t depth, const struct cop_heads_node *nodes,
                   int32_t n)
{
    const struct cop_heads *heads = &run->mlp->heads;
    size_t width = depth == 0 ? (size_t)heads->width : (size_t)heads->inner;
    for (int32_t i = 0; i < n; i++) {
        const struct cop_heads_node *node = &nodes[i];
        const float *from = depth == 0 ? node->state
                                       : cop_heads_kept_at(&run->kept, node->sequence,
                                                           node->tree->parent[node->node]);
        memcpy(run->inputs + (size_t)i * width, from, width * sizeof *from);
        cop_model_ops(run->target)
            ->embed(cop_model_device(run->target), &run->emb[depth],
                    &node->tree->token[node->node], 1,
                    run->tokens + (size_t)i * (size_t)heads->inner);
    }
    if (depth == 0 && run->mlp->is_scaled) {
        cop_model_ops(run->target)
            ->rms_norm(cop_model_device(run->target), run->inputs, run->root_gain, EPSILON, n,
                       heads->width, heads->width, run->inputs);
    }
}

static float gelu(float x)
{
    return (float)(0.5 * (double)x * (1 + erf((double)x * sqrt(0.5))));
}

static enum cop_status run_nodes(void *opened, int32_t depth,
                                 const struct cop_heads_node *nodes, int32_t n, float *out,
                                 struct cop_error *err)
{
    struct run *run = opened;
    const struct cop_ops *ops = cop_model_ops(run->target);
    struct cop_device *device = cop_model_device(run->target);
    size_t inner = (size_t)run->mlp->heads.inner;
    if (!reserve(run, n)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d nodes of a head", n);
    }
    gather(run, depth, nodes, n);
    if (!ops->matmul(device, run->proj[depth], run->inputs, n, NULL, false, out)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d nodes of a head", n);
    }
    for (size_t i = 0; i < (size_t)n * inner; i++) {
        out[i] += run->token_weight * run->tokens[i];
    }
    ops->rms_norm(device, out, run->gain[depth], EPSILON, n, (int32_t)inner, (int32_t)inner,
                  out);
    for (size_t i = 0; i < (size_t)n * inner; i++) {
        out[i] = gelu(out[i] + run->shift[depth][i % inner]);
    }
    for (int32_t i = 0; i < n; i++) {
        memcpy(cop_heads_kept_at(&run->kept, nodes[i].sequence, nodes[i].node),
               out + (size_t)i * inner, inner * sizeof *out);
    }
    return COP_OK;
}

static const struct cop_heads_family family = {
    .open = open_run, .close = close_run, .nodes = run_nodes};

static enum cop_status open(const void *state, const struct cop_proposer_env *env,
                            void **session, struct cop_error *err)
{
    return cop_heads_open(&family, state, env, session, err);
}

static const struct cop_option options[] = {COP_HEADS_OPTIONS(struct mlp), {0}};

const struct cop_proposer_ops cop_propose_mlp = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "mlp",
             .help = "a vector that begins as the target's last state takes in a drafted token "
                     "at each head: s ← gelu(norm(proj s + c emb(token)))",
             .source = "Wertheimer, Rosenkranz et al. 2024, arXiv:2404.19124",
             .synonyms = "MLP speculator, recurrent speculator",
             .state_size = sizeof(struct mlp),
             .options = options,
             .prepare = prepare,
             .release = cop_heads_release},
    COP_HEADS_SLOTS,
    .open = open,
};
