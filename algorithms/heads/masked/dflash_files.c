/* What the files of a DFlash or DSpark drafter say: the original projects' folders, and those
 * of speculators, which count the target's layers by what enters them. */
#include "algorithms/heads/masked/dflash.h"
#include "core/base/quote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct reader {
    struct cop_dflash *dflash;
    struct cop_error *err;
    const struct cop_json_node *root,
        *layer,                     /* what the layers are like: the root, or a member */
        *more;                      /* "dflash_config", or NULL */
    bool is_speculators, is_dspark; /* whose folder it is */
};

static const struct cop_json_node *get(const struct reader *in,
                                       const struct cop_json_node *node, const char *key)
{
    const struct cop_json_node *member = cop_json_get(&in->dflash->files.tree, node, key);
    return member && member->kind != COP_JSON_NULL ? member : NULL;
}

/* A key of "dflash_config", or of the root. */
static const struct cop_json_node *get_any(const struct reader *in, const char *key)
{
    const struct cop_json_node *node = get(in, in->more, key);
    return node ? node : get(in, in->root, key);
}

static enum cop_status refuse(const struct reader *in, const char *key, const char *expected)
{
    return cop_fail(in->err, COP_ERR_FORMAT, "%s: \"%s\" is not %s", in->dflash->files.name,
                    key, expected);
}

/* fallback -1: it must be there. */
static enum cop_status read_int(const struct reader *in, const char *key, int64_t least,
                                int64_t most, int64_t fallback, int32_t *out)
{
    const struct cop_json_node *node = get_any(in, key);
    if (!node && fallback < 0) {
        return cop_fail(in->err, COP_ERR_FORMAT, "%s: \"%s\" is missing",
                        in->dflash->files.name, key);
    }
    *out = (int32_t)(node ? node->integer : fallback);
    if (node &&
        (node->kind != COP_JSON_INTEGER || node->integer < least || node->integer > most)) {
        char expected[64];
        (void)snprintf(expected, sizeof expected, "a number from %lld to %lld",
                       (long long)least, (long long)most);
        return refuse(in, key, expected);
    }
    return COP_OK;
}

static enum cop_status read_bool(const struct reader *in, const char *key, bool fallback,
                                 bool *out)
{
    const struct cop_json_node *node = get_any(in, key);
    *out = node ? node->kind == COP_JSON_TRUE : fallback;
    return !node || node->kind == COP_JSON_TRUE || node->kind == COP_JSON_FALSE
               ? COP_OK
               : refuse(in, key, "true or false");
}

/* ---- The configuration ------------------------------------------------------------------- */

/* Layer ids count outputs, -1 the embeddings; those of speculators inputs. */
static enum cop_status read_taps(const struct reader *in)
{
    struct cop_dflash *dflash = in->dflash;
    const char *key = in->is_speculators ? "aux_hidden_state_layer_ids" : "target_layer_ids";
    const struct cop_json_tree *tree = &dflash->files.tree;
    const struct cop_json_node *list = get_any(in, key);
    const struct cop_json_node *node =
        list && list->kind == COP_JSON_LIST ? cop_json_first(tree, list) : NULL;
    int64_t shift = in->is_speculators ? 0 : 1;
    for (; node; node = cop_json_after(tree, node)) {
        if (node->kind != COP_JSON_INTEGER || node->integer + shift < 0 ||
            node->integer > 1024 || dflash->n_taps == COP_DFLASH_TAPS) {
            dflash->n_taps = 0;
            break;
        }
        dflash->taps[dflash->n_taps++] = (int32_t)(node->integer + shift);
    }
    return dflash->n_taps > 0 ? COP_OK : refuse(in, key, "a list of 1 to 8 layers");
}

static enum cop_status read_chain(const struct reader *in)
{
    static const char *const names[] = {"vanilla", "gated", "rnn"};
    struct cop_dflash *dflash = in->dflash;
    const struct cop_json_node *kind = get_any(in, "markov_head_type");
    enum cop_status status = read_int(in, "markov_rank", 0, 1 << 16, 0, &dflash->rank);
    if (status == COP_OK) {
        status = read_bool(in, "confidence_head_with_markov", dflash->rank > 0,
                           &dflash->trusts_token);
    }
    if (status != COP_OK || dflash->rank == 0) {
        return status;
    }
    dflash->chain = COP_DFLASH_VANILLA;
    for (int i = 0; kind && i < 3; i++) {
        if (cop_json_is(kind, names[i])) {
            dflash->chain = (enum cop_dflash_chain)(COP_DFLASH_VANILLA + i);
            return COP_OK;
        }
    }
    return kind ? refuse(in, "markov_head_type", "vanilla, gated or rnn") : COP_OK;
}

static bool is_one(const struct cop_json_node *node)
{
    return (node->kind == COP_JSON_INTEGER || node->kind == COP_JSON_NUMBER) &&
           !(node->number < 1) && !(node->number > 1);
}

/* What would change the numbers and is not built. */
static enum cop_status check_plain(const struct reader *in)
{
    static const char *const keys[] = {"conv_kernel_size", "selector_rank",
                                       "input_embedding_scale", "output_multiplier"};
    const char *strange = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !strange; i++) {
        const struct cop_json_node *node = get_any(in, keys[i]);
        strange = node && (i < 2 || !is_one(node)) ? keys[i] : NULL;
    }
    if (!strange && cop_json_is(get_any(in, "projector_type"), "domino")) {
        strange = "projector_type";
    }
    return strange
               ? cop_fail(in->err, COP_ERR_UNSUPPORTED,
                          "%s: \"%s\" is of another kind of drafter (DFlash 2, Domino) than "
                          "the DFlash and DSpark that are read",
                          in->dflash->files.name, strange)
               : COP_OK;
}

static enum cop_status read_block(struct reader *in)
{
    struct cop_dflash *dflash = in->dflash;
    const struct cop_block_options options = {.name = dflash->files.name,
                                              .tree = &dflash->files.tree,
                                              .node = in->layer,
                                              .source = &dflash->files.source,
                                              .prefix = "layers.",
                                              .is_numbered = true,
                                              .has_context = true};
    enum cop_status status = cop_block_open(&dflash->block, &options, in->err);
    if (status == COP_OK) {
        const struct cop_model_info *info = cop_block_info(dflash->block);
        dflash->width = info->hidden_size;
        dflash->drafted.vocab = info->vocab_size;
    }
    return status;
}

/* Layers with a window look back only, whatever the rest do; both ways within a window is not
 * built. */
static enum cop_status read_sight(const struct reader *in)
{
    bool is_open_window = false;
    enum cop_status status = read_bool(in, "is_causal", false, &in->dflash->is_causal);
    if (status == COP_OK) {
        status = read_bool(in, "sliding_window_non_causal", false, &is_open_window);
    }
    const struct cop_json_node *causal = get_any(in, "is_causal");
    is_open_window = is_open_window || (causal && causal->kind == COP_JSON_FALSE);
    return status == COP_OK && is_open_window && cop_block_has_window(in->dflash->block)
               ? cop_fail(in->err, COP_ERR_UNSUPPORTED,
                          "%s: layers with a window that look both ways are not read",
                          in->dflash->files.name)
               : status;
}

static enum cop_status read_config(struct reader *in)
{
    struct cop_dflash *dflash = in->dflash;
    in->root = cop_json_root(&dflash->files.tree);
    in->more = get(in, in->root, "dflash_config");
    in->layer = get(in, in->root, "transformer_layer_config");
    in->layer = in->layer ? in->layer : in->root;
    const struct cop_json_node *kind = get(in, in->root, "speculators_model_type");
    in->is_speculators = kind != NULL;
    in->is_dspark = kind ? cop_json_is(kind, "dspark")
                         : get(in, in->root, "target_layer_ids") != NULL; /* DeepSpec's */
    enum cop_status status = check_plain(in);
    if (status == COP_OK) {
        status = read_block(in);
    }
    if (status == COP_OK) {
        status = read_sight(in);
    }
    if (status == COP_OK) {
        status = read_int(in, "block_size", 2, 256,
                          in->is_speculators ? 8
                          : in->is_dspark    ? -1
                                             : 16,
                          &dflash->block_size);
    }
    if (status == COP_OK) {
        status = read_int(in, "mask_token_id", 0, dflash->drafted.vocab - 1, -1,
                          &dflash->mask_token);
    }
    if (status == COP_OK) {
        status = read_int(in, "num_target_layers", 1, 1024, 0, &dflash->n_layers);
    }
    if (status == COP_OK) {
        status = read_bool(in, "sample_from_anchor", in->is_dspark, &dflash->from_anchor);
    }
    if (status == COP_OK) {
        status = read_taps(in);
    }
    return status == COP_OK ? read_chain(in) : status;
}

/* ---- Tensors ----------------------------------------------------------------------------- */

struct wish {
    const char *name;
    const struct cop_tensor **out;
    int32_t rows, cols;
    bool is_required;
};

static enum cop_status find_all(const struct cop_dflash *dflash, const struct wish *wishes,
                                size_t n, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    for (size_t i = 0; status == COP_OK && i < n; i++) {
        const struct cop_wanted wanted = {wishes[i].name, "a DFlash drafter", wishes[i].rows,
                                          wishes[i].cols, wishes[i].is_required};
        status = cop_source_find(&dflash->files.source, &wanted, wishes[i].out, err);
    }
    return status;
}

/* How many ids it drafts: as many as its own LM head has rows. */
static int32_t count_ids(const struct cop_dflash *dflash, const char *name)
{
    const struct cop_tensor *head = cop_source_tensor(&dflash->files.source, name);
    bool is_matrix = head && head->rank == 2 && head->dims[1] >= 1 && head->dims[1] <= 1 << 24;
    return is_matrix ? (int32_t)head->dims[1] : dflash->drafted.vocab;
}

static enum cop_status find_tensors(struct cop_dflash *dflash, struct cop_error *err)
{
    struct cop_dflash_tensors *t = &dflash->tensors;
    int32_t width = dflash->width, vocab = dflash->drafted.vocab, rank = dflash->rank;
    static const char *const names[2][9] = {
        {"fc.weight", "hidden_norm.weight", "norm.weight", "lm_head.weight",
         "embed_tokens.weight", "confidence_head.proj.weight", "confidence_head.proj.bias",
         "markov_head.markov_w1.weight", "markov_head.markov_w2.weight"},
        {"fc.weight", "enc.output_norm.weight", "output_norm.weight", "output.weight",
         "token_embd.weight", "conf_proj.weight", "conf_proj.bias", "markov_w1.weight",
         "markov_w2.weight"}};
    const char *const *name = names[dflash->files.source.gguf != NULL];
    dflash->drafted.n_ids = count_ids(dflash, name[3]);
    int32_t n_ids = dflash->drafted.n_ids;
    const struct wish all[] = {
        {name[0], &t->fc, width, dflash->n_taps * width, true},
        {name[1], &t->hidden_norm, 0, width, true},
        {name[2], &t->norm, 0, width, true},
        {name[3], &t->head, n_ids, width, false},
        {name[4], &t->embedding, vocab, width, false},
        {name[5], &t->trust, 1, width + (dflash->trusts_token ? rank : 0), false},
        {name[6], &t->trust_bias, 0, 1, false},
    };
    const struct wish chain[] = {
        {name[7], &t->w1, vocab, rank, true},
        {name[8], &t->w2, n_ids, rank, true},
    };
    const struct wish gated[] = {
        {"markov_head.gate_proj.weight", &t->gate, rank, width + rank, true},
        {"markov_head.gate_proj.bias", &t->gate_bias, 0, rank, true},
    };
    const struct wish recurrent[] = {
        {"markov_head.joint_proj.weight", &t->gate, 3 * rank, width + 2 * rank, true},
        {"markov_head.joint_proj.bias", &t->gate_bias, 0, 3 * rank, true},
    };
    enum cop_status status = find_all(dflash, all, sizeof all / sizeof *all, err);
    if (status == COP_OK && dflash->chain != COP_DFLASH_NO_CHAIN) {
        status = find_all(dflash, chain, 2, err);
    }
    if (status == COP_OK && dflash->chain == COP_DFLASH_GATED) {
        status = find_all(dflash, gated, 2, err);
    }
    return status == COP_OK && dflash->chain == COP_DFLASH_RECURRENT
               ? find_all(dflash, recurrent, 2, err)
               : status;
}

static bool owns(const void *context, const struct cop_tensor *tensor)
{
    const struct cop_dflash *dflash = context;
    const struct cop_dflash_tensors *t = &dflash->tensors;
    const struct cop_tensor *own[] = {t->fc,
                                      t->hidden_norm,
                                      t->norm,
                                      t->head,
                                      t->embedding,
                                      t->w1,
                                      t->w2,
                                      t->gate,
                                      t->trust,
                                      t->trust_bias,
                                      dflash->drafted.d2t,
                                      t->gate_bias,
                                      dflash->drafted.t2d};
    bool is_own = cop_block_owns(dflash->block, tensor);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        is_own |= own[i] == tensor;
    }
    return is_own;
}

/* ---- The whole --------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) != 0 || S_ISDIR(about.st_mode);
}

bool cop_dflash_is(const char *path)
{
    struct cop_checkpoint files;
    struct cop_error ignored;
    if (!is_folder(path)) {
        return true;
    }
    if (cop_checkpoint_open(&files, path, &ignored) != COP_OK) {
        return false;
    }
    const struct cop_json_node *root = cop_json_root(&files.tree);
    const struct cop_json_node *kind =
        cop_json_get(&files.tree, root, "speculators_model_type");
    bool is_one = cop_json_get(&files.tree, root, "dflash_config") ||
                  cop_json_get(&files.tree, root, "block_size") ||
                  cop_json_is(kind, "dflash") || cop_json_is(kind, "dspark");
    cop_checkpoint_close(&files);
    return is_one;
}

/* One warning: of several it is the last. */
static void compare(const struct reader *in)
{
    const struct cop_dflash *dflash = in->dflash;
    const struct cop_json_node *trusts = get_any(in, "enable_confidence_head");
    if (dflash->files.source.gguf) {
        return;
    }
    if (trusts && trusts->kind == (dflash->tensors.trust ? COP_JSON_FALSE : COP_JSON_TRUE)) {
        cop_warn(in->err,
                 "%s: \"enable_confidence_head\" is %s, and there is %s tensor "
                 "\"confidence_head.proj.weight\": the tensors are used",
                 dflash->files.name, dflash->tensors.trust ? "false" : "true",
                 dflash->tensors.trust ? "a" : "no");
    }
    cop_checkpoint_compare(&dflash->files, "draft_vocab_size", dflash->drafted.n_ids, in->err);
}

enum cop_status cop_dflash_open(struct cop_dflash *out, const char *path, struct cop_error *err)
{
    *out = (struct cop_dflash){0};
    struct reader in = {.dflash = out, .err = err};
    enum cop_status status;
    if (is_folder(path)) {
        status = cop_checkpoint_open(&out->files, path, err);
    } else {
        (void)snprintf(out->files.name, sizeof out->files.name, "%s", cop_path_tail(path, 160));
        status = cop_gguf_open(&out->files.source.gguf, path, err);
    }
    if (status == COP_OK) {
        status = out->files.source.gguf ? cop_dflash_read_keys(out, err) : read_config(&in);
    }
    if (status == COP_OK) {
        status = find_tensors(out, err);
    }
    if (status == COP_OK) {
        status = cop_reduced_read(&out->drafted, &out->files.source, err);
    }
    if (status == COP_OK) {
        status =
            cop_checkpoint_refuse_strangers(&out->files, "a DFlash drafter", owns, out, err);
    }
    if (status == COP_OK) {
        compare(&in);
    } else {
        cop_dflash_close(out);
    }
    return status;
}

void cop_dflash_close(struct cop_dflash *dflash)
{
    struct cop_weight *weights[] = {dflash->fc, dflash->head, dflash->w2, dflash->gate};
    float *vectors[] = {dflash->hidden_norm, dflash->norm, dflash->gate_bias, dflash->trust,
                        dflash->trust_bias};
    for (size_t i = 0; dflash->target && i < sizeof weights / sizeof *weights; i++) {
        cop_checkpoint_free_weight(dflash->target, weights[i]);
    }
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        free(vectors[i]);
    }
    cop_block_free(dflash->block);
    cop_checkpoint_close(&dflash->files);
    cop_reduced_release(&dflash->drafted);
    *dflash = (struct cop_dflash){0};
}
