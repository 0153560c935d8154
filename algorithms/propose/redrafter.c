/* ReDrafter: a recurrence over the drafted tokens beside the target's last state.
 *
 *     s before the root = 0
 *     at each token:   s ← silu(W E(token) + U s + b)        or s ← s + E(token) ("rnn": false)
 *     x = [h; s], or input_proj [h; s]; then for each block x ← x + silu(linear x)
 *     logits = output x
 *
 * h: the target's state before the root, for all nodes alike; E: the target's embedding. One
 * set of weights serves every depth, so a row belongs to a path of any length, and each node
 * keeps its s for its children. Its own shape is a beam search whose equal prefixes are merged.
 *
 *     rnn_w.weight, rnn_u.weight, .bias     W and U; without them s is the sum
 *     input_proj.weight, .bias              only where [h; s] is not as wide as the blocks
 *     lm_head.{i}.linear.weight, .bias      block i
 *     lm_head.{n}.weight                    the output, behind n blocks
 *
 * Sizes are those of the tensors; where config.json says others, they are wrong. */
#include "algorithms/heads/several/redrafter.h"
#include "algorithms/tree/beam_search.h"

#include <stdio.h>

/* ---- Files --------------------------------------------------------------------------------
 */

static const struct cop_tensor *look_block(const struct cop_heads *heads, int32_t i)
{
    return cop_heads_look(heads, "lm_head.%d.linear.weight", i);
}

static enum cop_status check_kind(const struct cop_redrafter *drafter, struct cop_error *err)
{
    const struct cop_checkpoint *files = &drafter->heads.files;
    const struct cop_json_node *kind =
        cop_json_get(&files->tree, cop_json_root(&files->tree), "model_type");
    return !kind || cop_json_is(kind, "recurrent_drafting_drafter")
               ? COP_OK
               : cop_fail(err, COP_ERR_UNSUPPORTED,
                          "%s: \"model_type\" is not \"recurrent_drafting_drafter\": this is "
                          "no ReDrafter",
                          files->name);
}

/* The output layer says how wide the blocks are, and a square of the recurrence or what the
 * projection reads how wide a state is. */
static enum cop_status count(struct cop_redrafter *drafter, struct cop_error *err)
{
    struct cop_heads *heads = &drafter->heads;
    drafter->n_blocks = 0;
    drafter->w = drafter->u = drafter->project = (struct cop_skip_tensors){0};
    while (drafter->n_blocks < COP_REDRAFTER_BLOCKS && look_block(heads, drafter->n_blocks)) {
        drafter->n_blocks++;
    }
    if (look_block(heads, COP_REDRAFTER_BLOCKS)) {
        return cop_fail(err, COP_ERR_LIMIT, "%s: more than %d blocks",
                        cop_source_name(&heads->files.source), COP_REDRAFTER_BLOCKS);
    }
    const struct cop_tensor *output =
        cop_heads_look(heads, "lm_head.%d.weight", drafter->n_blocks);
    const struct cop_tensor *u = cop_heads_look(heads, "rnn_u.weight");
    const struct cop_tensor *project = cop_heads_look(heads, "input_proj.weight");
    heads->vocab = cop_heads_rows(output);
    if (heads->vocab == 0 || output->dims[0] > 1 << 24) {
        return cop_fail(
            err, COP_ERR_FORMAT,
            "%s: no ReDrafter: tensor \"lm_head.%d.weight\" is missing or no matrix",
            cop_source_name(&heads->files.source), drafter->n_blocks);
    }
    heads->inner = (int32_t)output->dims[0];
    heads->width = u         ? cop_heads_rows(u)
                   : project ? (int32_t)(project->dims[0] / 2)
                             : heads->inner / 2;
    return heads->width > 0 && heads->width <= 1 << 20
               ? COP_OK
               : cop_fail(err, COP_ERR_FORMAT, "%s: states of %d numbers",
                          cop_source_name(&heads->files.source), heads->width);
}

static enum cop_status find(const struct cop_redrafter *drafter, const char *stem, int32_t rows,
                            int32_t cols, struct cop_skip_tensors *out, struct cop_error *err)
{
    return cop_heads_find_linear(&drafter->heads, stem, rows, cols, &out->linear, &out->bias,
                                 err);
}

static enum cop_status find_recurrence(struct cop_redrafter *drafter, struct cop_error *err)
{
    int32_t width = drafter->heads.width;
    bool is_recurrent = cop_heads_look(&drafter->heads, "rnn_u.weight") ||
                        cop_heads_look(&drafter->heads, "rnn_w.weight");
    enum cop_status status = COP_OK;
    if (is_recurrent) {
        status = find(drafter, "rnn_u", width, width, &drafter->u, err);
    }
    return status == COP_OK && is_recurrent
               ? find(drafter, "rnn_w", width, width, &drafter->w, err)
               : status;
}

static enum cop_status find_stack(struct cop_redrafter *drafter, struct cop_error *err)
{
    struct cop_heads *heads = &drafter->heads;
    int32_t inner = heads->inner;
    enum cop_status status = COP_OK;
    if (inner != 2 * heads->width || cop_heads_look(heads, "input_proj.weight")) {
        status = find(drafter, "input_proj", inner, 2 * heads->width, &drafter->project, err);
    }
    for (int32_t i = 0; i < drafter->n_blocks && status == COP_OK; i++) {
        char stem[COP_HEADS_NAME_LIMIT];
        (void)snprintf(stem, sizeof stem, "lm_head.%d.linear", i);
        status = find(drafter, stem, inner, inner, &drafter->blocks[i], err);
        if (status == COP_OK && !drafter->blocks[i].bias != !drafter->blocks[0].bias) {
            return cop_fail(err, COP_ERR_FORMAT,
                            "%s: of \"lm_head.0.linear.bias\" and \"%s.bias\" one is missing",
                            cop_source_name(&heads->files.source), stem);
        }
    }
    char name[COP_HEADS_NAME_LIMIT];
    (void)snprintf(name, sizeof name, "lm_head.%d.weight", drafter->n_blocks);
    if (status == COP_OK) {
        status = cop_heads_find(heads, name, heads->vocab, inner, &heads->output[0], err);
    }
    heads->n_heads = COP_HEADS_LIMIT;
    for (int32_t i = 1; i < heads->n_heads; i++) {
        heads->output[i] = heads->output[0];
    }
    return status;
}

static bool owns(const void *context, const struct cop_tensor *tensor)
{
    const struct cop_redrafter *drafter = context;
    const struct cop_skip_tensors *linears[COP_REDRAFTER_BLOCKS + 3] = {
        &drafter->w, &drafter->u, &drafter->project};
    bool is_own = tensor == drafter->heads.output[0];
    for (int32_t i = 0; i < COP_REDRAFTER_BLOCKS; i++) {
        linears[i + 3] = &drafter->blocks[i];
    }
    for (int32_t i = 0; i < COP_REDRAFTER_BLOCKS + 3; i++) {
        is_own |= tensor == linears[i]->linear || tensor == linears[i]->bias;
    }
    return is_own;
}

static void compare(const struct cop_redrafter *drafter, struct cop_error *err)
{
    const struct cop_heads *heads = &drafter->heads;
    const struct cop_checkpoint *files = &heads->files;
    const struct cop_json_node *rnn =
        cop_json_get(&files->tree, cop_json_root(&files->tree), "rnn");
    bool is_recurrent = drafter->w.linear != NULL;
    cop_checkpoint_compare(&heads->files, "vocab_size", heads->vocab, err);
    cop_checkpoint_compare(&heads->files, "hidden_size", heads->width, err);
    cop_checkpoint_compare(&heads->files, "exit_dim", heads->inner, err);
    cop_checkpoint_compare(&heads->files, "num_draft_layers", drafter->n_blocks, err);
    if (rnn && rnn->kind == (is_recurrent ? COP_JSON_FALSE : COP_JSON_TRUE)) {
        cop_warn(err,
                 "%s: \"rnn\" is %s, but there %s tensors of a recurrence: the tensors "
                 "are used",
                 files->name, is_recurrent ? "false" : "true", is_recurrent ? "are" : "are no");
    }
}

static enum cop_status find_all(struct cop_redrafter *drafter, struct cop_error *err)
{
    enum cop_status status = check_kind(drafter, err);
    if (status == COP_OK) {
        status = count(drafter, err);
    }
    if (status == COP_OK) {
        status = find_recurrence(drafter, err);
    }
    if (status == COP_OK) {
        status = find_stack(drafter, err);
    }
    if (status == COP_OK) {
        status = cop_checkpoint_refuse_strangers(&drafter->heads.files, "a ReDrafter", owns,
                                                 drafter, err);
    }
    if (status == COP_OK) {
        compare(drafter, err);
    }
    return status;
}

/* ---- The part -----------------------------------------------------------------------------
 */

static enum cop_status prepare(void *state, struct cop_error *err)
{
    struct cop_redrafter *drafter = state;
    enum cop_status status = cop_heads_open_files(&drafter->heads, NULL, err);
    if (status != COP_OK) {
        return status;
    }
    status = find_all(drafter, err);
    if (status != COP_OK) {
        cop_heads_release(drafter);
    }
    return status;
}

static enum cop_status open(const void *state, const struct cop_proposer_env *env,
                            void **session, struct cop_error *err)
{
    return cop_heads_open(&cop_redrafter_family, state, env, session, err);
}

static int32_t own_depth(const void *state)
{
    return ((const struct cop_redrafter *)state)->depth;
}

static enum cop_status own_tree(const void *state, struct cop_part **builder,
                                struct cop_error *err)
{
    const struct cop_redrafter *drafter = state;
    return cop_tree_beam_search_new(drafter->width, drafter->depth, builder, err);
}

static const struct cop_option options[] = {
    COP_HEADS_OPTIONS(struct cop_redrafter),
    {.name = "width",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct cop_redrafter, width),
     .min = 1,
     .max = COP_TREE_LIMIT / COP_HEADS_LIMIT,
     .fallback = 10,
     .help = "beams when no tree is given"},
    {.name = "depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct cop_redrafter, depth),
     .min = 1,
     .max = COP_HEADS_LIMIT,
     .fallback = 4,
     .help = "tokens of a beam, the root not counted (the authors' length counts it)"},
    {0}};

const struct cop_proposer_ops cop_propose_redrafter = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "redrafter",
             .help = "a recurrence over drafted tokens beside the target's last state, drafted "
                     "by beam search: s ← silu(W E(token) + U s + b), output(blocks([h; s])); "
                     "the authors' rows have top_k = 50",
             .source = "Cheng, Zhang, Zhang, Wang, Wang 2024, arXiv:2403.09919",
             .synonyms = "ReDrafter, recurrent drafter",
             .state_size = sizeof(struct cop_redrafter),
             .options = options,
             .prepare = prepare,
             .release = cop_heads_release},
    .supply = COP_SUPPLY_DENSE,
    .hidden_layers = cop_heads_layers,
    .own_depth = own_depth,
    .open = open,
    .close = cop_heads_close,
    .begin = cop_heads_begin,
    .expand = cop_heads_expand,
    .observe = cop_heads_observe,
    .end = cop_heads_end,
    .prefilled = cop_heads_prefilled,
    .own_tree = own_tree,
};
