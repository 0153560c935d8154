/* What an EAGLE checkpoint says of itself: the original projects' folders and those of
 * speculators, which differ in the names of keys and of the layer. Where a configuration and
 * the tensors disagree about what is there, the tensors are right. */
#include "algorithms/heads/carried/eagle.h"
#include "core/base/quote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

struct reader {
    struct cop_eagle *eagle;
    struct cop_error *err;
    const struct cop_json_node *root,
        *layer;                       /* what the layer is like: the root, or a member */
    const struct cop_json_node *more; /* "eagle_config", or NULL */
    const char *prefix;               /* of the layer's tensors */
    const char *of;                   /* "an EAGLE-3 head" */
    bool is_parallel;                 /* P-EAGLE */
};

static const struct cop_json_node *get(const struct reader *in,
                                       const struct cop_json_node *node, const char *key)
{
    const struct cop_json_node *member = cop_json_get(&in->eagle->files.tree, node, key);
    return member && member->kind != COP_JSON_NULL ? member : NULL;
}

/* A key of the root, or of its "eagle_config". */
static const struct cop_json_node *get_any(const struct reader *in, const char *key)
{
    const struct cop_json_node *node = get(in, in->root, key);
    return node ? node : get(in, in->more, key);
}

static enum cop_status refuse(const struct reader *in, const char *key, const char *expected)
{
    return cop_fail(in->err, COP_ERR_FORMAT, "%s: \"%s\" is not %s", in->eagle->files.name, key,
                    expected);
}

/* ---- The configuration ------------------------------------------------------------------- */

static bool says_third(const struct reader *in)
{
    const struct cop_json_node *list = get(in, in->root, "architectures");
    const struct cop_json_node *name = cop_json_first(&in->eagle->files.tree, list);
    bool is_named = false;
    for (size_t i = 0;
         name && name->kind == COP_JSON_STRING && !is_named && i + 6 <= name->length; i++) {
        is_named = strncasecmp(name->text + i, "eagle3", 6) == 0;
    }
    return is_named || cop_json_is(get(in, in->root, "speculators_model_type"), "eagle3") ||
           get_any(in, "draft_vocab_size") || in->more || in->is_parallel;
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

static enum cop_status read_width(const struct reader *in, const char *key, int32_t fallback,
                                  int32_t *out)
{
    const struct cop_json_node *node = get_any(in, key);
    *out = node && node->kind == COP_JSON_INTEGER ? (int32_t)node->integer : fallback;
    return !node || (node->kind == COP_JSON_INTEGER && node->integer >= 1 &&
                     node->integer <= 1 << 20)
               ? COP_OK
               : refuse(in, key, "a width");
}

static enum cop_status read_taps(const struct reader *in)
{
    static const char key[] = "eagle_aux_hidden_state_layer_ids";
    struct cop_eagle *eagle = in->eagle;
    const struct cop_json_tree *tree = &eagle->files.tree;
    const struct cop_json_node *list = get_any(in, key);
    if (list && list->kind != COP_JSON_LIST) {
        return refuse(in, key, "a list of layers");
    }
    const struct cop_json_node *node = cop_json_first(tree, list);
    for (; node; node = cop_json_after(tree, node)) {
        if (node->kind != COP_JSON_INTEGER || node->integer < 0 || node->integer > 1024 ||
            eagle->n_taps == COP_EAGLE_TAPS) {
            return refuse(in, key, "a list of at most 8 layers, counted from 0");
        }
        eagle->taps[eagle->n_taps++] = (int32_t)node->integer;
    }
    return COP_OK;
}

static const char mask_states[] = "mask_hidden";

/* The mask's id has had several names; so has the number of positions. */
static enum cop_status read_parallel(struct reader *in)
{
    static const char *const keys[] = {"mask_token_id", "ptd_token_id", "pard_token"};
    struct cop_eagle *eagle = in->eagle;
    const struct cop_json_node *node = NULL;
    size_t i = 0;
    while (!node && i < sizeof keys / sizeof *keys) {
        node = get_any(in, keys[i++]);
    }
    if (!node) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: \"mask_token_id\" is missing, and a P-EAGLE head drafts with it",
                        eagle->files.name);
    }
    if (node->kind != COP_JSON_INTEGER || node->integer < 0 ||
        node->integer >= eagle->drafted.vocab) {
        return refuse(in, keys[i - 1], "an id of the vocabulary");
    }
    eagle->mask_token = (cop_token)node->integer;
    const struct cop_json_tree *tree = &eagle->files.tree;
    const struct cop_json_node *methods =
        get(in, get(in, in->root, "speculators_config"), "proposal_methods");
    const struct cop_json_node *said =
        methods ? get(in, cop_json_first(tree, methods), "speculative_tokens") : NULL;
    said = said ? said : get_any(in, "para_depths");
    if (said && (said->kind != COP_JSON_INTEGER || said->integer < 1 || said->integer > 256)) {
        return refuse(in, "speculative_tokens", "a number of positions from 1 to 256");
    }
    eagle->n_positions = said ? (int32_t)said->integer : 7;
    return COP_OK;
}

static enum cop_status read_third(struct reader *in)
{
    struct cop_eagle *eagle = in->eagle;
    bool is_tapped;
    enum cop_status status = read_bool(in, "use_aux_hidden_state", true, &is_tapped);
    if (status == COP_OK && !is_tapped) {
        status =
            cop_fail(in->err, COP_ERR_UNSUPPORTED,
                     "%s: \"use_aux_hidden_state\" is false; known is true", eagle->files.name);
    }
    if (status == COP_OK) {
        status = read_bool(in, "norm_before_residual", false, &eagle->norm_before_residual);
    }
    if (status == COP_OK) {
        status = read_bool(in, "norm_output", false, &eagle->norm_output);
    }
    if (status == COP_OK) {
        status = read_taps(in);
    }
    if (status == COP_OK) {
        status = read_width(in, "target_hidden_size", eagle->width, &eagle->target_width);
    }
    return status == COP_OK && in->is_parallel ? read_parallel(in) : status;
}

static enum cop_status choose_version(struct reader *in)
{
    static const char key[] = "speculators_model_type";
    struct cop_eagle *eagle = in->eagle;
    const struct cop_json_node *kind = get(in, in->root, key);
    in->is_parallel = cop_json_is(kind, "peagle") ||
                      cop_source_tensor(&eagle->files.source, mask_states) != NULL;
    if (kind && !cop_json_is(kind, "eagle3") && !in->is_parallel) {
        char quoted[COP_QUOTE_SIZE] = "no string";
        return cop_fail(
            in->err, COP_ERR_UNSUPPORTED, "%s: \"%s\" is \"%s\"; known are eagle3 and peagle",
            eagle->files.name, key,
            kind->kind == COP_JSON_STRING ? cop_quote(quoted, kind->text, kind->length)
                                          : quoted);
    }
    const struct cop_weights_source *source = &eagle->files.source;
    bool has_midlayer =
        source->gguf || cop_source_tensor(source, "midlayer.self_attn.q_proj.weight") != NULL;
    bool is_third =
        has_midlayer || cop_source_tensor(source, "layers.0.hidden_norm.weight") != NULL;
    eagle->version = is_third || says_third(in) ? 3 : 1;
    in->prefix = has_midlayer ? "midlayer." : "layers.0.";
    in->of = in->is_parallel       ? "a P-EAGLE head"
             : eagle->version == 3 ? "an EAGLE-3 head"
                                   : "an EAGLE-1 head";
    return COP_OK;
}

/* As many tokens as its embedding has rows, or its map of the target marks; without both, as
 * the configuration says. */
static int32_t count_tokens(const struct reader *in, int32_t said)
{
    static const char *const names[] = {"t2d", "embed_tokens.weight"};
    int64_t found = said;
    for (int32_t i = 0; i < 2; i++) {
        const struct cop_tensor *tensor = cop_source_tensor(&in->eagle->files.source, names[i]);
        found = tensor && tensor->rank == i + 1 ? tensor->dims[i] : found;
    }
    if (found < 1 || found > 1 << 24 || found == said) {
        return said;
    }
    cop_warn(in->err,
             "%s: \"vocab_size\" is %d, but by the tensors it is %lld: the tensors are used",
             in->eagle->files.name, (int)said, (long long)found);
    return (int32_t)found;
}

/* What would make another function of the same tensors. */
static enum cop_status check_plain(const struct reader *in)
{
    const struct cop_json_node *scale = get_any(in, "logit_scale");
    if (cop_json_is(get(in, in->layer, "model_type"), "gemma3_text")) {
        return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                        "%s: \"model_type\" is \"gemma3_text\", whose norms add 1 to their "
                        "weights: heads of such layers are not read",
                        in->eagle->files.name);
    }
    bool is_one =
        !scale || ((scale->kind == COP_JSON_INTEGER || scale->kind == COP_JSON_NUMBER) &&
                   scale->number == 1);
    return is_one ? COP_OK
                  : cop_fail(in->err, COP_ERR_UNSUPPORTED,
                             "%s: \"logit_scale\" is there and not 1; known is 1",
                             in->eagle->files.name);
}

static enum cop_status read_config(struct reader *in)
{
    struct cop_eagle *eagle = in->eagle;
    in->root = cop_json_root(&eagle->files.tree);
    in->more = get(in, in->root, "eagle_config");
    if (in->more && in->more->kind != COP_JSON_OBJECT) {
        return refuse(in, "eagle_config", "an object");
    }
    in->layer = get(in, in->root, "transformer_layer_config");
    in->layer = in->layer ? in->layer : in->root;
    enum cop_status status = choose_version(in);
    if (status == COP_OK) {
        status = check_plain(in);
    }
    if (status != COP_OK) {
        return status;
    }
    bool is_numbered = strcmp(in->prefix, "layers.0.") == 0;
    const struct cop_weights_source *source = &eagle->files.source;
    eagle->tensors.rope_factors =
        source->gguf ? cop_source_tensor(source, "rope_freqs.weight") : NULL;
    const struct cop_block_options options = {.name = eagle->files.name,
                                              .tree = &eagle->files.tree,
                                              .node = in->layer,
                                              .source = &eagle->files.source,
                                              .prefix = is_numbered ? "layers." : in->prefix,
                                              .is_numbered = is_numbered,
                                              .is_interleaved = source->gguf != NULL,
                                              .rope_factors = eagle->tensors.rope_factors,
                                              .inputs = eagle->version == 3 ? 2 : 1};
    status = cop_block_open(&eagle->block, &options, in->err);
    if (status != COP_OK) {
        return status;
    }
    eagle->drafted.vocab = count_tokens(in, cop_block_info(eagle->block)->vocab_size);
    eagle->width = eagle->target_width = cop_block_info(eagle->block)->hidden_size;
    return eagle->version == 3 ? read_third(in) : COP_OK;
}

/* ---- Tensors ----------------------------------------------------------------------------- */

struct wish {
    const char *name;
    const struct cop_tensor **out;
    int32_t rows, cols;
    bool is_required;
};

static enum cop_status find_all(const struct reader *in, const struct wish *wishes, size_t n)
{
    enum cop_status status = COP_OK;
    for (size_t i = 0; status == COP_OK && i < n; i++) {
        const struct cop_wanted wanted = {wishes[i].name, in->of, wishes[i].rows,
                                          wishes[i].cols, wishes[i].is_required};
        status = cop_source_find(&in->eagle->files.source, &wanted, wishes[i].out, in->err);
    }
    return status;
}

/* How many ids the head drafts: as many as its own LM head has rows, or its map entries. */
static int32_t count_ids(const struct reader *in)
{
    static const char *const names[] = {"d2t", "lm_head.weight"};
    int32_t n = in->eagle->drafted.vocab;
    for (int32_t i = 0; i < 2; i++) {
        const struct cop_tensor *tensor = cop_source_tensor(&in->eagle->files.source, names[i]);
        bool counts = tensor && tensor->rank == i + 1 && tensor->dims[i] >= 1 &&
                      tensor->dims[i] <= 1 << 24;
        n = counts ? (int32_t)tensor->dims[i] : n;
    }
    return n;
}

static enum cop_status find_tap_norms(const struct reader *in, int32_t n_taps, bool is_said)
{
    struct cop_eagle *eagle = in->eagle;
    enum cop_status status = COP_OK;
    for (int32_t i = 0; status == COP_OK && i < n_taps; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "fc_norm.%d.weight", i);
        bool is_required = is_said || (i > 0 && eagle->tensors.tap_norms[0]);
        const struct wish wish = {name, &eagle->tensors.tap_norms[i], 0, eagle->target_width,
                                  is_required};
        status = find_all(in, &wish, 1);
    }
    return status;
}

/* [1, 1, taps]; any number of ones in front will do. */
static enum cop_status find_mask_states(const struct reader *in, int32_t tapped)
{
    struct cop_eagle *eagle = in->eagle;
    const struct cop_tensor *tensor = cop_source_tensor(&eagle->files.source, mask_states);
    bool is_row = tensor && tensor->rank >= 1 && tensor->dims[0] == tapped;
    for (int32_t i = 1; is_row && i < tensor->rank; i++) {
        is_row = tensor->dims[i] == 1;
    }
    if (!is_row || tensor->format == COP_FORMAT_COUNT ||
        cop_format_info(tensor->format)->block_elements > 1) {
        char shape[COP_SHAPE_SIZE];
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: tensor \"%s\" %s%s, expected [1, 1, %d] numbers",
                        cop_source_name(&eagle->files.source), mask_states,
                        tensor ? "has shape " : "is missing",
                        tensor ? cop_source_shape(shape, tensor) : "", tapped);
    }
    eagle->tensors.mask_states = tensor;
    return COP_OK;
}

static enum cop_status find_third(struct reader *in)
{
    struct cop_eagle *eagle = in->eagle;
    struct cop_eagle_tensors *t = &eagle->tensors;
    int32_t width = eagle->width, n_taps = eagle->n_taps > 0 ? eagle->n_taps : 3;
    int32_t tapped = n_taps * eagle->target_width;
    char input_norm[64], hidden_norm[64];
    bool has_tap_norm, has_tap_norms;
    (void)snprintf(input_norm, sizeof input_norm, "%sinput_layernorm.weight", in->prefix);
    (void)snprintf(hidden_norm, sizeof hidden_norm, "%shidden_norm.weight", in->prefix);
    enum cop_status status = read_bool(in, "norm_before_fc", false, &has_tap_norm);
    if (status == COP_OK) {
        status = read_bool(in, "fc_norm", false, &has_tap_norms);
    }
    if (status != COP_OK) {
        return status;
    }
    eagle->drafted.n_ids = count_ids(in);
    const struct wish wishes[] = {
        {"fc.weight", &t->fc, width, tapped, true},
        {"fc.bias", &t->fc_bias, 0, width, false},
        {"input_norm.weight", &t->tap_norm, 0, tapped, has_tap_norm},
        {input_norm, &t->input_norm, 0, width, true},
        {hidden_norm, &t->hidden_norm, 0, width, true},
        {"norm.weight", &t->norm, 0, width, true},
        {"lm_head.weight", &t->head, eagle->drafted.n_ids, width,
         eagle->drafted.n_ids != eagle->drafted.vocab},
        {"embed_tokens.weight", &t->embedding, eagle->drafted.vocab, width, false},
    };
    bool is_tied;
    status = find_all(in, wishes, sizeof wishes / sizeof *wishes);
    if (status == COP_OK) {
        status = read_bool(in, "tie_word_embeddings", false, &is_tied);
    }
    if (status == COP_OK && !t->head && is_tied) {
        t->head = t->embedding; /* NULL: the target's LM head */
    }
    if (status == COP_OK && in->is_parallel) {
        status = find_mask_states(in, tapped);
    }
    return status == COP_OK ? find_tap_norms(in, n_taps, has_tap_norms) : status;
}

static enum cop_status find_first(struct reader *in)
{
    struct cop_eagle *eagle = in->eagle;
    struct cop_eagle_tensors *t = &eagle->tensors;
    int32_t width = eagle->width;
    eagle->drafted.n_ids = eagle->drafted.vocab;
    const struct wish wishes[] = {
        {"fc.weight", &t->fc, width, 2 * width, true},
        {"fc.bias", &t->fc_bias, 0, width, false},
        {"lm_head.weight", &t->head, eagle->drafted.vocab, width, false},
        {"embed_tokens.weight", &t->embedding, eagle->drafted.vocab, width, false},
    };
    return find_all(in, wishes, sizeof wishes / sizeof *wishes);
}

/* ---- The whole --------------------------------------------------------------------------- */

static bool owns(const void *context, const struct cop_tensor *tensor)
{
    const struct cop_eagle *eagle = context;
    const struct cop_eagle_tensors *t = &eagle->tensors;
    const struct cop_tensor *own[] = {
        t->fc,          t->fc_bias,     t->embedding, t->input_norm,      t->hidden_norm,
        t->tap_norm,    t->norm,        t->head,      eagle->drafted.d2t, eagle->drafted.t2d,
        t->mask_states, t->rope_factors};
    bool is_own = cop_block_owns(eagle->block, tensor);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        is_own |= own[i] == tensor;
    }
    for (size_t i = 0; i < COP_EAGLE_TAPS; i++) {
        is_own |= t->tap_norms[i] == tensor;
    }
    return is_own;
}

/* One warning: of several it is the last. The authors' fc of version 1 has a bias unless the
 * configuration says that it has none. */
static void compare(const struct reader *in)
{
    const struct cop_eagle *eagle = in->eagle;
    const struct cop_json_node *bias = get(in, in->root, "bias");
    bool is_said = !bias || bias->kind == COP_JSON_TRUE;
    if (eagle->version == 1 && is_said != (eagle->tensors.fc_bias != NULL)) {
        cop_warn(in->err,
                 "%s: \"bias\" is %s, and there is %s tensor \"fc.bias\": the tensors are used",
                 eagle->files.name,
                 !bias     ? "missing (true)"
                 : is_said ? "true"
                           : "false",
                 is_said ? "no" : "a");
    }
    if (eagle->version == 3) {
        cop_checkpoint_compare(&eagle->files, "draft_vocab_size", eagle->drafted.n_ids,
                               in->err);
    }
}

enum cop_status cop_eagle_open(struct cop_eagle *out, const char *folder, struct cop_error *err)
{
    *out = (struct cop_eagle){.mask_token = -1};
    struct reader in = {.eagle = out, .err = err};
    struct stat about;
    bool is_file = stat(folder, &about) == 0 && S_ISREG(about.st_mode);
    enum cop_status status = is_file ? cop_eagle_open_gguf(&out->files, folder, err)
                                     : cop_checkpoint_open(&out->files, folder, err);
    if (status == COP_OK) {
        status = read_config(&in);
    }
    if (status == COP_OK) {
        status = out->version == 3 ? find_third(&in) : find_first(&in);
    }
    if (status == COP_OK) {
        status = out->version == 3 ? cop_reduced_read(&out->drafted, &out->files.source, err)
                                   : COP_OK;
    }
    if (status == COP_OK) {
        status = cop_checkpoint_refuse_strangers(&out->files, in.of, owns, out, err);
    }
    if (status == COP_OK) {
        compare(&in);
    } else {
        cop_eagle_close(out);
    }
    return status;
}

int32_t cop_eagle_taps(const struct cop_eagle *eagle, const struct cop_model_info *target,
                       int32_t *layers)
{
    if (eagle->version == 1) {
        layers[0] = COP_HIDDEN_NORMED;
        return 1;
    }
    if (eagle->n_taps > 0) {
        memcpy(layers, eagle->taps, (size_t)eagle->n_taps * sizeof *layers);
        return eagle->n_taps;
    }
    const int32_t usual[] = {2, target->layers / 2, target->layers - 3};
    for (int32_t i = 0; i < 3; i++) {
        layers[i] = usual[i] > 0 ? usual[i] : 0;
    }
    return 3;
}
