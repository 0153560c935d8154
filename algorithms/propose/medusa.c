/* Medusa: heads on the target's last state, each of which guesses its own position whatever the
 * others said, so that a row is the same for all nodes of a level.
 *
 * Two layouts of one thing:
 *
 *     original     {i}.{j}.linear.weight, .bias     {i}.{blocks}.weight
 *     vLLM's       blocks.{i}.layers.{j}.weight     lm_heads.{i}.weight, or lm_head.weight
 *
 * and in the latter a "token_map" of the ids that are drafted, where not all are;
 * each behind an optional "medusa_head." or "medusa_heads.". How many heads and blocks there
 * are is counted in the files: configurations that were published say another number. Without
 * output layers in the files `share_lm_head` or `original_lm_head` must say that the target's
 * LM head is meant. */
#include "algorithms/heads/several/stacked.h"

#include <stdio.h>

struct layout {
    const char *prefix;
    bool is_converted;
};

static const char *block_stem(char stem[COP_HEADS_NAME_LIMIT], const struct layout *layout,
                              int32_t i, int32_t j)
{
    if (layout->is_converted) {
        (void)snprintf(stem, COP_HEADS_NAME_LIMIT, "%sblocks.%d.layers.%d", layout->prefix, i,
                       j);
    } else {
        (void)snprintf(stem, COP_HEADS_NAME_LIMIT, "%s%d.%d.linear", layout->prefix, i, j);
    }
    return stem;
}

static const struct cop_tensor *look_block(const struct cop_heads *heads,
                                           const struct layout *layout, int32_t i, int32_t j)
{
    char stem[COP_HEADS_NAME_LIMIT];
    return cop_heads_look(heads, "%s.weight", block_stem(stem, layout, i, j));
}

/* The original counts an output layer behind the blocks, whether all of these are stored or
 * not.
 */
static const char *output_name(char name[COP_HEADS_NAME_LIMIT],
                               const struct cop_stacked *medusa, const struct layout *layout,
                               int32_t i)
{
    if (layout->is_converted) {
        (void)snprintf(name, COP_HEADS_NAME_LIMIT, "%slm_heads.%d.weight", layout->prefix, i);
    } else {
        (void)snprintf(name, COP_HEADS_NAME_LIMIT, "%s%d.%d.weight", layout->prefix, i,
                       medusa->n_blocks);
    }
    return name;
}

static enum cop_status find_layout(const struct cop_heads *heads, struct layout *layout,
                                   struct cop_error *err)
{
    static const char *const prefixes[] = {"", "medusa_head.", "medusa_heads."};
    for (size_t i = 0; i < 2 * sizeof prefixes / sizeof *prefixes; i++) {
        *layout = (struct layout){.prefix = prefixes[i / 2], .is_converted = i % 2 > 0};
        if (look_block(heads, layout, 0, 0)) {
            return COP_OK;
        }
    }
    return cop_fail(err, COP_ERR_FORMAT,
                    "%s: no Medusa heads: neither \"0.0.linear.weight\" nor "
                    "\"blocks.0.layers.0.weight\" is there",
                    cop_source_name(&heads->files.source));
}

/* Blocks behind the first that are missing are the one before, once more: lists that were made
 * by repeating one block are stored like that. So where the files name no output layer, the
 * configuration's number of blocks counts. */
static enum cop_status count(struct cop_stacked *medusa, const struct layout *layout,
                             struct cop_error *err)
{
    struct cop_heads *heads = &medusa->heads;
    char stem[COP_HEADS_NAME_LIMIT];
    (void)snprintf(stem, sizeof stem, "%s%s", layout->prefix,
                   layout->is_converted ? "blocks." : "");
    heads->n_heads = cop_heads_count(heads, stem);
    if (heads->n_heads > COP_HEADS_LIMIT) {
        return cop_fail(err, COP_ERR_LIMIT, "%s: more than %d heads",
                        cop_source_name(&heads->files.source), COP_HEADS_LIMIT);
    }
    int32_t stored = 1, said = 1;
    while (stored < COP_STACKED_LIMIT && look_block(heads, layout, 0, stored)) {
        stored++;
    }
    enum cop_status status = cop_checkpoint_int(
        &heads->files, layout->is_converted ? "num_hidden_layers" : "medusa_num_layers",
        COP_STACKED_LIMIT, 1, &said, err);
    medusa->n_blocks = cop_stacked_blocks(stored, 1, said);
    for (int32_t j = 1; j <= COP_STACKED_LIMIT && !layout->is_converted; j++) {
        if (cop_heads_look(heads, "%s0.%d.weight", layout->prefix, j)) {
            medusa->n_blocks = j;
        }
    }
    return status;
}

static enum cop_status find_blocks(struct cop_stacked *medusa, const struct layout *layout,
                                   int32_t i, struct cop_error *err)
{
    const struct cop_heads *heads = &medusa->heads;
    enum cop_status status = COP_OK;
    for (int32_t j = 0; j < medusa->n_blocks && status == COP_OK; j++) {
        struct cop_skip_tensors *block = &medusa->blocks[i][j];
        char stem[COP_HEADS_NAME_LIMIT];
        *block = (struct cop_skip_tensors){0};
        if (j == 0 || look_block(heads, layout, i, j)) {
            status = cop_heads_find_linear(heads, block_stem(stem, layout, i, j), heads->width,
                                           heads->width, &block->linear, &block->bias, err);
        }
    }
    return status;
}

/* One layer for all heads, in the converted layout: of its own name, or that of the first. */
static const char *shared_output(const struct cop_heads *heads, const struct layout *layout,
                                 char name[COP_HEADS_NAME_LIMIT])
{
    (void)snprintf(name, COP_HEADS_NAME_LIMIT, "%slm_head.weight", layout->prefix);
    if (layout->is_converted && cop_heads_look(heads, "%s", name)) {
        return name;
    }
    bool is_only = layout->is_converted && heads->n_heads > 1 &&
                   cop_heads_look(heads, "%slm_heads.0.weight", layout->prefix) &&
                   !cop_heads_look(heads, "%slm_heads.1.weight", layout->prefix);
    (void)snprintf(name, COP_HEADS_NAME_LIMIT, "%slm_heads.0.weight", layout->prefix);
    return is_only ? name : NULL;
}

static enum cop_status find_outputs(struct cop_stacked *medusa, const struct layout *layout,
                                    struct cop_error *err)
{
    struct cop_heads *heads = &medusa->heads;
    char first[COP_HEADS_NAME_LIMIT], name[COP_HEADS_NAME_LIMIT];
    bool is_shared = false, is_original = false;
    enum cop_status status =
        cop_checkpoint_bool(&heads->files, "share_lm_head", false, &is_shared, err);
    if (status == COP_OK) {
        status =
            cop_checkpoint_bool(&heads->files, "original_lm_head", false, &is_original, err);
    }
    const char *one = shared_output(heads, layout, first);
    const char *any = one ? one : output_name(first, medusa, layout, 0);
    const struct cop_tensor *found = cop_heads_look(heads, "%s", any);
    if (status != COP_OK || (!found && (is_shared || is_original))) {
        return status == COP_OK ? cop_heads_read_vocab(heads, err) : status;
    }
    heads->vocab = cop_heads_rows(found);
    for (int32_t i = 0; i < heads->n_heads && status == COP_OK; i++) {
        status = cop_heads_find(heads, one ? one : output_name(name, medusa, layout, i),
                                heads->vocab, heads->width, &heads->output[i], err);
    }
    return status;
}

/* Output layers of fewer tokens, where the configuration says that they are, need a map. */
static enum cop_status check_mapless(const struct cop_heads *heads, struct cop_error *err)
{
    int32_t rows = heads->vocab, vocab = rows, kept = rows;
    enum cop_status status =
        rows > 0 ? cop_checkpoint_int(&heads->files, "vocab_size", 1 << 24, rows, &vocab, err)
                 : COP_OK;
    if (status == COP_OK && rows < vocab) {
        status = cop_checkpoint_int(&heads->files, "truncated_vocab_size", 1 << 24, vocab,
                                    &kept, err);
    }
    return status == COP_OK && rows < vocab && kept == rows
               ? cop_fail(err, COP_ERR_FORMAT,
                          "%s: tensor \"token_map\" is missing: %d of %d tokens are drafted, "
                          "and it says which (expected shape [%d])",
                          cop_source_name(&heads->files.source), rows, vocab, rows)
               : status;
}

/* Output layers have a row for each token of the map, or for every token: then the others are
 * not drafted. */
static enum cop_status read_map(struct cop_heads *heads, const struct layout *layout,
                                struct cop_error *err)
{
    const struct cop_tensor *tensor = cop_heads_look(heads, "%stoken_map", layout->prefix);
    if (!layout->is_converted || !tensor) {
        return layout->is_converted ? check_mapless(heads, err) : COP_OK;
    }
    int32_t rows = heads->output[0] ? heads->vocab : 0, vocab = rows;
    enum cop_status status = cop_token_map_read(&heads->map, &heads->files, tensor, err);
    if (status == COP_OK) {
        status = cop_checkpoint_int(&heads->files, "vocab_size", 1 << 24,
                                    rows > 0 ? rows : 1 << 24, &vocab, err);
    }
    if (status != COP_OK || rows == 0) {
        return status;
    }
    int32_t last = heads->map.ids[heads->map.n - 1];
    if (rows == heads->map.n) {
        heads->vocab = vocab != rows ? vocab : 0;
    } else if (last >= rows) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: \"token_map\" has %d ids up to %d, and output layers %d rows: "
                        "expected as many, or one for each token",
                        cop_source_name(&heads->files.source), heads->map.n, last, rows);
    }
    return COP_OK;
}

/* One warning: of several it is the last. */
static void compare(const struct cop_stacked *medusa, const struct layout *layout,
                    struct cop_error *err)
{
    const struct cop_heads *heads = &medusa->heads;
    bool is_new = layout->is_converted;
    int32_t n_drafted = heads->map.ids ? heads->map.n : heads->vocab;
    cop_checkpoint_compare(&heads->files, "hidden_size", heads->width, err);
    if (n_drafted > 0) {
        cop_checkpoint_compare(&heads->files, "truncated_vocab_size", n_drafted, err);
    }
    cop_checkpoint_compare(&heads->files, is_new ? "num_hidden_layers" : "medusa_num_layers",
                           medusa->n_blocks, err);
    cop_checkpoint_compare(&heads->files, is_new ? "num_heads" : "medusa_num_heads",
                           heads->n_heads, err);
}

static enum cop_status find_all(struct cop_stacked *medusa, struct cop_error *err)
{
    struct cop_heads *heads = &medusa->heads;
    struct layout layout;
    enum cop_status status = find_layout(heads, &layout, err);
    if (status == COP_OK) {
        status = count(medusa, &layout, err);
    }
    if (status == COP_OK) {
        const struct cop_tensor *first = look_block(heads, &layout, 0, 0);
        heads->width = heads->inner = (int32_t)first->dims[0];
    }
    for (int32_t i = 0; i < heads->n_heads && status == COP_OK; i++) {
        status = find_blocks(medusa, &layout, i, err);
    }
    if (status == COP_OK) {
        status = find_outputs(medusa, &layout, err);
    }
    if (status == COP_OK) {
        status = read_map(heads, &layout, err);
    }
    if (status == COP_OK) {
        status = cop_stacked_check(medusa, 1, (const char *const[]){layout.prefix, NULL}, err);
    }
    if (status == COP_OK) {
        compare(medusa, &layout, err);
    }
    return status;
}

static enum cop_status prepare(void *state, struct cop_error *err)
{
    struct cop_stacked *medusa = state;
    enum cop_status status =
        cop_heads_open_files(&medusa->heads, "medusa_lm_head.safetensors", err);
    if (status != COP_OK) {
        return status;
    }
    status = find_all(medusa, err);
    if (status != COP_OK) {
        cop_heads_release(medusa);
    }
    return status;
}

static enum cop_status open(const void *state, const struct cop_proposer_env *env,
                            void **session, struct cop_error *err)
{
    return cop_heads_open(&cop_stacked_plain, state, env, session, err);
}

static const struct cop_option options[] = {COP_HEADS_OPTIONS(struct cop_stacked), {0}};

const struct cop_proposer_ops cop_propose_medusa = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "medusa",
             .help =
                 "heads on the target's last state guess the next positions, each apart from "
                 "the others: output(h + silu(W h + b))",
             .source = "Cai, Li, Geng et al. 2024, arXiv:2401.10774",
             .synonyms = "Medusa-1, Medusa-2, Medusa heads",
             .state_size = sizeof(struct cop_stacked),
             .options = options,
             .prepare = prepare,
             .release = cop_heads_release},
    COP_HEADS_SLOTS,
    .open = open,
};
