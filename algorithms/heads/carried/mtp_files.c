/* What a checkpoint holds of multi-token prediction: how many modules, and where. */
#include "algorithms/heads/carried/mtp.h"
#include "core/base/quote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LAYERS = 1024, NAME = 96 };

/* Names of a layout; '#' is the number of the layer. */
struct layout {
    const char *prefix, *layer; /* of a module's tensors, of its decoder layer's */
    const char *token_norm, *state_norm, *project, *norm;
    const char *embedding, *head; /* behind the prefix, or whole where `is_apart` */
    bool is_apart;
};
static const struct layout layouts[] = {
    {"model.layers.#.", "model.layers.#.", "enorm.weight", "hnorm.weight", "eh_proj.weight",
     "shared_head.norm.weight", "embed_tokens.weight", "shared_head.head.weight", false},
    {"blk.#.nextn.", "blk.#.", "enorm.weight", "hnorm.weight", "eh_proj.weight",
     "shared_head_norm.weight", "embed_tokens.weight", "shared_head_head.weight", false},
    {"mtp_layers.0.", "mtp_layers.0.", "token_layernorm.weight", "hidden_layernorm.weight",
     "input_proj.weight", "final_layernorm.weight", "embed_tokens.weight", "lm_head.weight",
     true},
    {"mtp.", "mtp.layers.0.", "pre_fc_norm_embedding.weight", "pre_fc_norm_hidden.weight",
     "fc.weight", "norm.weight", "mtp.embed_tokens.weight", "mtp.lm_head.weight", true},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

struct reader {
    struct cop_mtp *mtp;
    struct cop_error *err;
    const struct layout *layout;
    const struct cop_json_node *layer; /* of the configuration; NULL: a GGUF file */
    int32_t first;                     /* number of the first module's layer */
};

/* "<prefix>name" with the number of a layer. */
static const char *name_of(char name[NAME], const char *prefix, int32_t layer, const char *rest)
{
    const char *number = strchr(prefix, '#');
    if (number) {
        (void)snprintf(name, NAME, "%.*s%d%s%s", (int)(number - prefix), prefix, layer,
                       number + 1, rest);
    } else {
        (void)snprintf(name, NAME, "%s%s", prefix, rest);
    }
    return name;
}

/* Whether there is a tensor that no other layer has. */
static bool has_module(const struct reader *in, const struct layout *layout, int32_t layer)
{
    const char *const rests[] = {layout->project, layout->token_norm, layout->state_norm};
    bool has_one = false;
    for (int32_t i = 0; i < 3 && !has_one; i++) {
        char name[NAME];
        has_one = cop_source_tensor(&in->mtp->files.source,
                                    name_of(name, layout->prefix, layer, rests[i])) != NULL;
    }
    return has_one;
}

/* ---- Files ------------------------------------------------------------------------------- */

static enum cop_status open_files(struct cop_mtp *mtp, const char *path, struct cop_error *err)
{
    struct stat about;
    if (stat(path, &about) != 0 || S_ISDIR(about.st_mode)) {
        return cop_checkpoint_open(&mtp->files, path, err);
    }
    (void)snprintf(mtp->files.name, sizeof mtp->files.name, "%s", cop_path_tail(path, 160));
    return cop_gguf_open(&mtp->files.source.gguf, path, err);
}

/* The first module of the first layout that has one. */
static enum cop_status find_layout(struct reader *in)
{
    for (int32_t i = 0; i < LAYOUTS; i++) {
        in->layout = &layouts[i];
        bool is_numbered = strchr(in->layout->prefix, '#') != NULL;
        for (in->first = 0; in->first < (is_numbered ? LAYERS : 1); in->first++) {
            if (has_module(in, in->layout, in->first)) {
                return COP_OK;
            }
        }
    }
    return cop_fail(in->err, COP_ERR_FORMAT,
                    "%s: no modules of multi-token prediction: none of the tensors %s, "
                    "\"mtp.fc.weight\", \"mtp_layers.0.input_proj.weight\" is there",
                    cop_source_name(&in->mtp->files.source),
                    in->mtp->files.source.gguf ? "\"blk.N.nextn.eh_proj.weight\""
                                               : "\"model.layers.N.eh_proj.weight\"");
}

static enum cop_status count(struct reader *in)
{
    struct cop_mtp *mtp = in->mtp;
    bool is_numbered = strchr(in->layout->prefix, '#') != NULL;
    mtp->n_modules = 1;
    mtp->n_layers = is_numbered ? in->first : 0;
    for (int32_t k = 1; is_numbered && k <= COP_CARRY_STAGES; k++) { /* a gap is no end */
        mtp->n_modules = has_module(in, in->layout, in->first + k) ? k + 1 : mtp->n_modules;
    }
    return mtp->n_modules <= COP_CARRY_STAGES
               ? COP_OK
               : cop_fail(in->err, COP_ERR_LIMIT, "%s: %d modules, at most %d are read",
                          cop_source_name(&mtp->files.source), mtp->n_modules,
                          COP_CARRY_STAGES);
}

/* ---- Tensors ----------------------------------------------------------------------------- */

static enum cop_status find(const struct reader *in, const char *prefix, int32_t layer,
                            const char *rest, int32_t rows, int32_t cols, bool is_required,
                            const struct cop_tensor **out)
{
    char name[NAME];
    const struct cop_wanted wanted = {.name = name_of(name, prefix, layer, rest),
                                      .of = "an MTP module",
                                      .rows = rows,
                                      .cols = cols,
                                      .is_required = is_required};
    return cop_source_find(&in->mtp->files.source, &wanted, out, in->err);
}

static enum cop_status open_block(const struct reader *in, int32_t layer,
                                  struct cop_block **block)
{
    struct cop_checkpoint *files = &in->mtp->files;
    char prefix[NAME];
    const struct cop_block_options options = {.name = files->name,
                                              .tree = in->layer ? &files->tree : NULL,
                                              .node = in->layer,
                                              .source = &files->source,
                                              .prefix =
                                                  name_of(prefix, in->layout->layer, layer, ""),
                                              .is_further = true};
    return cop_block_open(block, &options, in->err);
}

static enum cop_status find_module(const struct reader *in, int32_t k)
{
    const struct layout *at = in->layout;
    struct cop_mtp *mtp = in->mtp;
    struct cop_mtp_module *module = &mtp->modules[k];
    int32_t layer = in->first + k;
    enum cop_status status = open_block(in, layer, &module->block);
    if (status != COP_OK) {
        return status;
    }
    const struct cop_model_info *info = cop_block_info(module->block);
    int32_t width = mtp->width = info->hidden_size;
    mtp->vocab = info->vocab_size;
    const char *apart = at->is_apart ? "" : at->prefix;
    const struct {
        const char *prefix, *name;
        int32_t rows, cols;
        bool is_required;
        const struct cop_tensor **out;
    } wishes[] = {
        {at->prefix, at->token_norm, 0, width, true, &module->token_norm},
        {at->prefix, at->state_norm, 0, width, true, &module->state_norm},
        {at->prefix, at->project, width, 2 * width, true, &module->project},
        {at->prefix, at->norm, 0, width, true, &module->norm},
        {apart, at->embedding, mtp->vocab, width, false, &module->embedding},
        {apart, at->head, mtp->vocab, width, false, &module->head},
    };
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes && status == COP_OK; i++) {
        status = find(in, wishes[i].prefix, layer, wishes[i].name, wishes[i].rows,
                      wishes[i].cols, wishes[i].is_required, wishes[i].out);
    }
    return status;
}

/* ---- Strangers --------------------------------------------------------------------------- */

static bool starts(const struct cop_tensor *tensor, const char *prefix)
{
    size_t length = strlen(prefix);
    return tensor->name.length >= length && memcmp(tensor->name.bytes, prefix, length) == 0;
}

static bool is_of_module(const struct reader *in, int32_t k, const struct cop_tensor *tensor)
{
    char prefix[NAME];
    const struct cop_mtp_module *module = &in->mtp->modules[k];
    const struct cop_tensor *own[] = {module->token_norm, module->state_norm, module->project,
                                      module->norm,       module->embedding,  module->head};
    bool is_own = !starts(tensor, name_of(prefix, in->layout->layer, in->first + k, "")) &&
                  !starts(tensor, name_of(prefix, in->layout->prefix, in->first + k, ""));
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        is_own |= own[i] == tensor;
    }
    return is_own || cop_block_owns(module->block, tensor);
}

/* Of the rest of a model nothing is asked. */
static bool owns(const void *context, const struct cop_tensor *tensor)
{
    const struct reader *in = context;
    bool is_own = true;
    for (int32_t k = 0; k < in->mtp->n_modules; k++) {
        is_own &= is_of_module(in, k, tensor);
    }
    return is_own;
}

/* ---- The whole --------------------------------------------------------------------------- */

static enum cop_status read_all(struct reader *in)
{
    struct cop_checkpoint *files = &in->mtp->files;
    if (!files->source.gguf) {
        const struct cop_json_node *root = cop_json_root(&files->tree);
        in->layer = cop_json_get(&files->tree, root, "transformer_layer_config");
        in->layer = in->layer ? in->layer : root;
    }
    enum cop_status status = find_layout(in);
    if (status == COP_OK) {
        status = count(in);
    }
    for (int32_t k = 0; k < in->mtp->n_modules && status == COP_OK; k++) {
        status = find_module(in, k);
    }
    if (status == COP_OK) {
        status = cop_checkpoint_refuse_strangers(files, "an MTP module", owns, in, in->err);
    }
    if (status == COP_OK && in->layer) {
        cop_checkpoint_compare(files, "num_nextn_predict_layers", in->mtp->n_modules, in->err);
    }
    return status;
}

enum cop_status cop_mtp_open(struct cop_mtp *out, const char *path, struct cop_error *err)
{
    *out = (struct cop_mtp){0};
    struct reader in = {.mtp = out, .err = err};
    enum cop_status status = open_files(out, path, err);
    if (status == COP_OK) {
        status = read_all(&in);
    }
    if (status != COP_OK) {
        cop_mtp_close(out);
    }
    return status;
}
