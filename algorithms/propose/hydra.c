/* Hydra: Medusa's heads made to depend on each other. Head i reads the state and the embeddings
 * of the i + 1 tokens below it, so a row belongs to a path and the tree grows level by level.
 *
 *     hydra_mlp.{i}.{j}.linear.weight, .bias           block 1: [width, (i + 2) width]
 *     hydra_mlp.{i}.{j}.res_connection.weight, .bias   of block 1, which changes the width
 *     hydra_lm_head.{i}.weight or .{i}.{k}.weight      and .bias in some
 *
 * j and k count dropouts where training had them, so blocks are numbered as they come. Without
 * output layers `share_lm_head` must say that the target's LM head is meant. Of the published
 * kinds of head "mlp" and Hydra++'s "prefix-mlp" are built: there the state is what one more
 * decoder layer, prefix_embeding_layer.layers.0 (sic), makes of the target's. */
#include "algorithms/heads/several/stacked.h"

#include <stdio.h>

enum { MOST_PLACES = 2 * COP_STACKED_LIMIT };

static const struct cop_tensor *look_block(const struct cop_heads *heads, int32_t i, int32_t j)
{
    return cop_heads_look(heads, "hydra_mlp.%d.%d.linear.weight", i, j);
}

/* The place of the first block of a head at or behind `from`; -1: none. */
static int32_t next_block(const struct cop_heads *heads, int32_t i, int32_t from)
{
    for (int32_t j = from; j < MOST_PLACES; j++) {
        if (look_block(heads, i, j)) {
            return j;
        }
    }
    return -1;
}

static enum cop_status check_kind(struct cop_stacked *hydra, struct cop_error *err)
{
    static const char prefix[] = "prefix_embeding_layer.";
    const struct cop_checkpoint *files = &hydra->heads.files;
    const struct cop_json_node *root = cop_json_root(&files->tree);
    const struct cop_json_node *kind = cop_json_get(&files->tree, root, "hydra_head_arch");
    const struct cop_json_node *offset =
        cop_json_get(&files->tree, root, "hidden_state_offset");
    bool is_plain = !kind || cop_json_is(kind, "mlp");
    if (!is_plain && !cop_json_is(kind, "prefix-mlp")) {
        return cop_fail(err, COP_ERR_UNSUPPORTED,
                        "%s: \"hydra_head_arch\" is neither \"mlp\" nor \"prefix-mlp\": heads "
                        "that attend themselves (\"cross-attn\", \"eagle-attn\") are not read",
                        files->name);
    }
    bool has_layer =
        cop_heads_look(&hydra->heads, "%slayers.0.self_attn.q_proj.weight", prefix) != NULL;
    hydra->heads.prefix = has_layer || !is_plain ? prefix : NULL;
    if (has_layer && kind && is_plain) {
        cop_warn(err,
                 "%s: \"hydra_head_arch\" is \"mlp\", but there are tensors %s*: the tensors "
                 "are used",
                 files->name, prefix);
    }
    if (offset && !(offset->kind == COP_JSON_INTEGER && offset->integer == 0)) {
        return cop_fail(
            err, COP_ERR_UNSUPPORTED,
            "%s: \"hidden_state_offset\" is not 0: states of another layer than the "
            "last are not read",
            files->name);
    }
    return COP_OK;
}

/* Blocks that stand for themselves and, the last of them, for all that follow: a first one that
 * changes the width cannot. */
static int32_t repeatable(const struct cop_stacked *hydra)
{
    return hydra->sees_path ? 2 : 1;
}

/* The first block of head 0 says how wide a state is. */
static enum cop_status count(struct cop_stacked *hydra, struct cop_error *err)
{
    struct cop_heads *heads = &hydra->heads;
    int32_t j = next_block(heads, 0, 0);
    if (j < 0) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: no Hydra heads: tensor \"hydra_mlp.0.0.linear.weight\" is missing",
                        cop_source_name(&heads->files.source));
    }
    heads->n_heads = cop_heads_count(heads, "hydra_mlp.");
    if (heads->n_heads > COP_HEADS_LIMIT) {
        return cop_fail(err, COP_ERR_LIMIT, "%s: more than %d heads",
                        cop_source_name(&heads->files.source), COP_HEADS_LIMIT);
    }
    heads->width = heads->inner = (int32_t)look_block(heads, 0, j)->dims[1];
    if (heads->width < 1 || heads->width > INT32_MAX / (COP_HEADS_LIMIT + 2)) {
        return cop_fail(err, COP_ERR_FORMAT, "%s: heads of width %d",
                        cop_source_name(&heads->files.source), heads->width);
    }
    int32_t stored = 0, said = 1;
    for (; j >= 0 && stored < COP_STACKED_LIMIT; j = next_block(heads, 0, j + 1)) {
        stored++;
    }
    enum cop_status status =
        cop_checkpoint_bool(&heads->files, "grounded_heads", true, &hydra->sees_path, err);
    if (status == COP_OK) {
        status = cop_checkpoint_int(&heads->files, "hydra_num_layers", COP_STACKED_LIMIT, 1,
                                    &said, err);
    }
    hydra->n_blocks = cop_stacked_blocks(stored, repeatable(hydra), said);
    return status;
}

/* Blocks behind the second that are missing are the one before, once more (see Medusa's). */
static enum cop_status find_blocks(struct cop_stacked *hydra, int32_t i, struct cop_error *err)
{
    const struct cop_heads *heads = &hydra->heads;
    int32_t inputs = cop_stacked_inputs(hydra, i), at = 0;
    bool is_repeatable = !hydra->sees_path;
    enum cop_status status = COP_OK;
    for (int32_t j = 0; j < hydra->n_blocks && status == COP_OK; j++, inputs = heads->width) {
        struct cop_skip_tensors *block = &hydra->blocks[i][j];
        char stem[COP_HEADS_NAME_LIMIT];
        int32_t next = next_block(heads, i, at);
        *block = (struct cop_skip_tensors){0};
        if (next < 0 && j > 0 && is_repeatable) {
            continue;
        }
        at = next < 0 ? at : next;
        (void)snprintf(stem, sizeof stem, "hydra_mlp.%d.%d.linear", i, at);
        status = cop_heads_find_linear(heads, stem, heads->width, inputs, &block->linear,
                                       &block->bias, err);
        if (status == COP_OK && inputs != heads->width) {
            (void)snprintf(stem, sizeof stem, "hydra_mlp.%d.%d.res_connection", i, at);
            status = cop_heads_find_linear(heads, stem, heads->width, inputs, &block->skip,
                                           &block->skip_bias, err);
        }
        is_repeatable |= j > 0;
        at++;
    }
    return status;
}

/* "hydra_lm_head.{i}", or with the place in a list behind it. */
static const struct cop_tensor *look_output(const struct cop_heads *heads, int32_t i,
                                            char stem[COP_HEADS_NAME_LIMIT])
{
    (void)snprintf(stem, COP_HEADS_NAME_LIMIT, "hydra_lm_head.%d", i);
    const struct cop_tensor *found = cop_heads_look(heads, "%s.weight", stem);
    for (int32_t k = 0; !found && k < 2; k++) {
        (void)snprintf(stem, COP_HEADS_NAME_LIMIT, "hydra_lm_head.%d.%d", i, k);
        found = cop_heads_look(heads, "%s.weight", stem);
    }
    if (!found) {
        (void)snprintf(stem, COP_HEADS_NAME_LIMIT, "hydra_lm_head.%d", i);
    }
    return found;
}

static enum cop_status find_outputs(struct cop_stacked *hydra, struct cop_error *err)
{
    struct cop_heads *heads = &hydra->heads;
    char stem[COP_HEADS_NAME_LIMIT];
    bool is_shared = false;
    enum cop_status status =
        cop_checkpoint_bool(&heads->files, "share_lm_head", false, &is_shared, err);
    const struct cop_tensor *found = look_output(heads, 0, stem);
    if (status != COP_OK || (!found && is_shared)) {
        return status == COP_OK ? cop_heads_read_vocab(heads, err) : status;
    }
    heads->vocab = cop_heads_rows(found);
    for (int32_t i = 0; i < heads->n_heads && status == COP_OK; i++) {
        (void)look_output(heads, i, stem);
        status = cop_heads_find_linear(heads, stem, heads->vocab, heads->width,
                                       &heads->output[i], &heads->output_bias[i], err);
    }
    return status;
}

static enum cop_status prepare(void *state, struct cop_error *err)
{
    struct cop_stacked *hydra = state;
    enum cop_status status =
        cop_heads_open_files(&hydra->heads, "hydra_lm_head.safetensors", err);
    if (status != COP_OK) {
        return status;
    }
    status = check_kind(hydra, err);
    if (status == COP_OK) {
        status = count(hydra, err);
    }
    for (int32_t i = 0; i < hydra->heads.n_heads && status == COP_OK; i++) {
        status = find_blocks(hydra, i, err);
    }
    if (status == COP_OK) {
        status = find_outputs(hydra, err);
    }
    if (status == COP_OK) {
        static const char *const stems[] = {"hydra_mlp.", "hydra_lm_head.", NULL};
        status = cop_stacked_check(hydra, repeatable(hydra), stems, err);
    }
    if (status != COP_OK) {
        cop_heads_release(hydra);
        return status;
    }
    cop_checkpoint_compare(&hydra->heads.files, "hydra_num_layers", hydra->n_blocks, err);
    cop_checkpoint_compare(&hydra->heads.files, "hydra_num_heads", hydra->heads.n_heads, err);
    return COP_OK;
}

static enum cop_status open(const void *state, const struct cop_proposer_env *env,
                            void **session, struct cop_error *err)
{
    bool sees_path = ((const struct cop_stacked *)state)->sees_path;
    return cop_heads_open(sees_path ? &cop_stacked_tokens : &cop_stacked_plain, state, env,
                          session, err);
}

static const struct cop_option options[] = {COP_HEADS_OPTIONS(struct cop_stacked), {0}};

const struct cop_proposer_ops cop_propose_hydra = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "hydra",
             .help =
                 "heads on the target's last state and the tokens drafted so far: "
                 "output(skip x + silu(W x + b)), x = [h; E(t1); …]; Hydra++: h by one more "
                 "layer",
             .source = "Ankner, Parthasarathy et al. 2024, arXiv:2402.05109",
             .synonyms = "Hydra++, sequentially dependent heads",
             .state_size = sizeof(struct cop_stacked),
             .options = options,
             .prepare = prepare,
             .release = cop_heads_release},
    COP_HEADS_SLOTS,
    .open = open,
};
