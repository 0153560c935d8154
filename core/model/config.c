/* The geometry of a model from the config.json of its folder, in the words of older and newer
 * checkpoints, every number checked before it is used.
 *
 * A key that is missing means what the architecture's table says (and `null` mostly the same);
 * what would change the model's function and is not built is refused, never ignored. */
#include "core/base/json_tree.h"
#include "core/base/quote.h"
#include "core/model/state.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct config {
    struct cop_model *model;
    const char *name; /* of the file, for messages */
    struct cop_error *err;
    struct cop_json_tree tree;
    const struct cop_json_node *root;
};

/* ---- Fields ------------------------------------------------------------------------------ */

static const struct cop_json_node *get(const struct config *in, const struct cop_json_node *of,
                                       const char *key)
{
    const struct cop_json_node *node = cop_json_get(&in->tree, of, key);
    return node && node->kind != COP_JSON_NULL ? node : NULL;
}

/* What stands there, in words for a message. */
static const char *value_text(char buffer[COP_QUOTE_SIZE], const struct cop_json_node *node)
{
    static const char *const words[] = {[COP_JSON_TRUE] = "true",
                                        [COP_JSON_FALSE] = "false",
                                        [COP_JSON_LIST] = "a list",
                                        [COP_JSON_OBJECT] = "an object"};
    if (node->kind == COP_JSON_INTEGER || node->kind == COP_JSON_NUMBER) {
        (void)snprintf(buffer, COP_QUOTE_SIZE, "%.17g", node->number);
        return buffer;
    }
    if (node->kind == COP_JSON_STRING) {
        return cop_quote(buffer, node->text, node->length);
    }
    return words[node->kind];
}

static enum cop_status bad_value(const struct config *in, const char *key,
                                 const struct cop_json_node *node, const char *expected)
{
    char text[COP_QUOTE_SIZE];
    return cop_fail(in->err, COP_ERR_FORMAT, "%s: \"%s\" is %s, expected %s", in->name, key,
                    value_text(text, node), expected);
}

static enum cop_status missing(const struct config *in, const char *key)
{
    return cop_fail(in->err, COP_ERR_FORMAT, "%s: \"%s\" is missing", in->name, key);
}

/* fallback 0: the key must be there. */
static enum cop_status read_int(const struct config *in, const char *key, int32_t max,
                                int32_t fallback, int32_t *out)
{
    const struct cop_json_node *node = get(in, in->root, key);
    *out = fallback;
    if (!node) {
        return fallback > 0 ? COP_OK : missing(in, key);
    }
    bool is_number = node->kind == COP_JSON_INTEGER || node->kind == COP_JSON_NUMBER;
    if (!is_number || !(node->number >= 1 && node->number <= max) ||
        node->number != floor(node->number)) {
        char expected[64];
        (void)snprintf(expected, sizeof expected, "an integer from 1 to %d", max);
        return bad_value(in, key, node, expected);
    }
    *out = (int32_t)node->number;
    return COP_OK;
}

/* A number above 0; fallback 0: the key must be there. */
static enum cop_status read_positive(const struct config *in, const struct cop_json_node *of,
                                     const char *key, double max, double fallback, double *out)
{
    const struct cop_json_node *node = get(in, of, key);
    *out = fallback;
    if (!node) {
        return fallback > 0 ? COP_OK : missing(in, key);
    }
    bool is_number = node->kind == COP_JSON_INTEGER || node->kind == COP_JSON_NUMBER;
    if (!is_number || !(node->number > 0 && node->number <= max)) {
        char expected[64];
        (void)snprintf(expected, sizeof expected, "a number above 0 and at most %g", max);
        return bad_value(in, key, node, expected);
    }
    *out = node->number;
    return COP_OK;
}

static enum cop_status read_bool(const struct config *in, const struct cop_json_node *of,
                                 const char *key, bool fallback, bool *out)
{
    const struct cop_json_node *node = get(in, of, key);
    *out = node ? node->kind == COP_JSON_TRUE : fallback;
    if (node && node->kind != COP_JSON_TRUE && node->kind != COP_JSON_FALSE) {
        return bad_value(in, key, node, "true or false");
    }
    return COP_OK;
}

/* ---- What kind of model ------------------------------------------------------------------ */

static enum cop_status check_class(const struct config *in)
{
    const struct cop_architecture *architecture = in->model->architecture;
    const struct cop_json_node *list = get(in, in->root, "architectures");
    const struct cop_json_node *node = cop_json_first(&in->tree, list);
    if (!node) {
        return COP_OK;
    }
    if (node->kind == COP_JSON_STRING && node->length == strlen(architecture->class_name) &&
        strncasecmp(node->text, architecture->class_name, node->length) == 0) {
        return COP_OK;
    }
    char text[COP_QUOTE_SIZE];
    return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                    "%s: \"architectures\" says %s; of model type %s, %s is known", in->name,
                    node->kind == COP_JSON_NULL ? "null" : value_text(text, node),
                    architecture->name, architecture->class_name);
}

static enum cop_status read_kind(struct config *in)
{
    const struct cop_json_node *kind = get(in, in->root, "model_type");
    if (!kind || kind->kind != COP_JSON_STRING) {
        return kind ? bad_value(in, "model_type", kind, "a string") : missing(in, "model_type");
    }
    enum cop_status status = cop_architecture_find(
        &in->model->architecture, (struct cop_string){kind->text, kind->length},
        COP_NAMING_FOLDER, in->name, in->err);
    if (status == COP_OK) {
        status = check_class(in);
    }
    if (status == COP_OK && get(in, in->root, "quantization_config")) {
        return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                        "%s: \"quantization_config\" is there: quantised checkpoints are not "
                        "read, only F32, F16 and BF16",
                        in->name);
    }
    return status;
}

/* ---- Sizes ------------------------------------------------------------------------------- */

static enum cop_status read_sizes(struct config *in)
{
    struct cop_model_info *info = &in->model->info;
    const struct cop_config_defaults *defaults = &in->model->architecture->defaults;
    const struct {
        const char *key;
        int32_t max, fallback, *out;
    } sizes[] = {
        {"num_hidden_layers", COP_MAX_LAYERS, 0, &info->layers},
        {"hidden_size", COP_MAX_WIDTH, 0, &info->hidden_size},
        {"intermediate_size", COP_MAX_FFN, 0, &info->ffn_size},
        {"num_attention_heads", COP_MAX_HEADS, 0, &info->heads},
        {"vocab_size", COP_MAX_VOCAB, 0, &info->vocab_size},
        {"max_position_embeddings", COP_MAX_CONTEXT, defaults->positions,
         &info->trained_context},
    };
    enum cop_status status = COP_OK;
    for (size_t i = 0; status == COP_OK && i < sizeof sizes / sizeof *sizes; i++) {
        status = read_int(in, sizes[i].key, sizes[i].max, sizes[i].fallback, sizes[i].out);
    }
    return status;
}

static enum cop_status read_heads(struct config *in)
{
    struct cop_model_info *info = &in->model->info;
    const struct cop_config_defaults *defaults = &in->model->architecture->defaults;
    static const char kv_heads[] = "num_key_value_heads", head_dim[] = "head_dim";
    bool is_null = cop_json_get(&in->tree, in->root, kv_heads) != NULL;
    int32_t fallback = !is_null && defaults->kv_heads > 0 ? defaults->kv_heads : info->heads;
    enum cop_status status = read_int(in, kv_heads, COP_MAX_HEADS, fallback, &info->kv_heads);
    if (status == COP_OK) {
        status = cop_model_check_heads(in->model, in->name, in->err);
    }
    if (status != COP_OK) {
        return status;
    }
    is_null = cop_json_get(&in->tree, in->root, head_dim) != NULL;
    fallback = !is_null && defaults->head_dim > 0 ? defaults->head_dim
                                                  : info->hidden_size / info->heads;
    if (!get(in, in->root, head_dim) && fallback * info->heads != info->hidden_size &&
        fallback == info->hidden_size / info->heads) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: \"hidden_size\" %d is not a multiple of %d heads, and there is no "
                        "\"head_dim\"",
                        in->name, info->hidden_size, info->heads);
    }
    status = read_int(in, head_dim, COP_MAX_HEAD_DIM, fallback, &info->head_dim);
    return status == COP_OK ? cop_model_check_head_dim(in->model, in->name, in->err) : status;
}

/* ---- What the layers are made of --------------------------------------------------------- */

static enum cop_status check_activation(const struct config *in)
{
    static const char *const keys[] = {"hidden_act", "hidden_activation"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct cop_json_node *node = get(in, in->root, keys[i]);
        if (node && !cop_json_is(node, "silu") && !cop_json_is(node, "swish")) {
            char text[COP_QUOTE_SIZE];
            return cop_fail(in->err, COP_ERR_UNSUPPORTED, "%s: \"%s\" is %s; known is silu",
                            in->name, keys[i], value_text(text, node));
        }
    }
    return COP_OK;
}

static enum cop_status read_parts(struct config *in)
{
    enum cop_presence *presence = in->model->presence;
    const struct {
        const char *key;
        enum cop_condition condition;
        enum cop_presence if_true, if_false;
    } switches[] = {
        {"attention_bias", COP_IF_ATTENTION_BIAS, COP_PRESENCE_REQUIRED, COP_PRESENCE_REFUSED},
        {"mlp_bias", COP_IF_MLP_BIAS, COP_PRESENCE_REQUIRED, COP_PRESENCE_REFUSED},
        {"tie_word_embeddings", COP_IF_UNTIED, COP_PRESENCE_OPTIONAL, COP_PRESENCE_REQUIRED},
    };
    enum cop_status status = check_activation(in);
    for (size_t i = 0; status == COP_OK && i < sizeof switches / sizeof *switches; i++) {
        bool value;
        status = read_bool(in, in->root, switches[i].key, false, &value);
        presence[switches[i].condition] = value ? switches[i].if_true : switches[i].if_false;
    }
    if (status == COP_OK) {
        status =
            read_positive(in, in->root, "rms_norm_eps", 1, 1e-6, &in->model->info.norm_epsilon);
    }
    return status;
}

/* ---- Windows ----------------------------------------------------------------------------- */

/* "layer_types": one word for each layer. */
static enum cop_status read_layer_types(const struct config *in,
                                        const struct cop_json_node *list, int32_t window)
{
    struct cop_model *model = in->model;
    if (list->kind != COP_JSON_LIST) {
        return bad_value(in, "layer_types", list, "a list");
    }
    const struct cop_json_node *node = cop_json_first(&in->tree, list);
    int32_t count = 0;
    for (; node; node = cop_json_after(&in->tree, node), count++) {
        bool slides = cop_json_is(node, "sliding_attention");
        if (!slides && !cop_json_is(node, "full_attention")) {
            char text[COP_QUOTE_SIZE];
            return cop_fail(
                in->err, COP_ERR_UNSUPPORTED,
                "%s: \"layer_types\" has %s at %d; known: full_attention, "
                "sliding_attention",
                in->name, node->kind == COP_JSON_NULL ? "null" : value_text(text, node), count);
        }
        if (count < model->info.layers) {
            model->windows[count] = slides ? window : 0;
        }
    }
    if (count != model->info.layers) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: \"layer_types\" has %d entries, expected one for each of %d "
                        "layers",
                        in->name, count, model->info.layers);
    }
    return COP_OK;
}

static enum cop_status read_windows(struct config *in)
{
    struct cop_model *model = in->model;
    const struct cop_architecture *architecture = model->architecture;
    const struct cop_config_defaults *defaults = &architecture->defaults;
    bool is_used = architecture->window_rule == COP_WINDOW_STATED;
    enum cop_status status = cop_model_set_windows(model, 0, in->err);
    if (status == COP_OK && architecture->window_rule == COP_WINDOW_SWITCHED) {
        status = read_bool(in, in->root, "use_sliding_window", false, &is_used);
    }
    bool is_null = cop_json_get(&in->tree, in->root, "sliding_window") != NULL &&
                   !get(in, in->root, "sliding_window");
    if (status != COP_OK || !is_used || is_null) {
        return status;
    }
    int32_t window, first = defaults->first_window_layer;
    status = read_int(in, "sliding_window", INT32_MAX, defaults->window, &window);
    if (status != COP_OK) {
        return status;
    }
    const struct cop_json_node *types = get(in, in->root, "layer_types");
    if (types) {
        return read_layer_types(in, types, window);
    }
    const struct cop_json_node *node = get(in, in->root, "max_window_layers");
    if (node) {
        if (node->kind != COP_JSON_INTEGER || node->integer < 0) {
            return bad_value(in, "max_window_layers", node, "a count of layers");
        }
        first =
            node->integer < model->info.layers ? (int32_t)node->integer : model->info.layers;
    }
    for (int32_t i = first; i < model->info.layers; i++) {
        model->windows[i] = window;
    }
    return COP_OK;
}

/* ---- Rotary positions -------------------------------------------------------------------- */

/* How queries and keys grow where the file does not say: 0.1 m ln(factor) + 1. */
static double yarn_growth(double factor, double m)
{
    return factor <= 1 ? 1 : 0.1 * m * log(factor) + 1;
}

static enum cop_status read_yarn(const struct config *in, const struct cop_json_node *of)
{
    struct cop_rope_scaling *scaling = &in->model->rope_scaling;
    int32_t *positions = &in->model->info.trained_context;
    double mscale = 0, mscale_all = 0, growth;
    bool is_rounded = true;
    enum cop_status status = read_positive(in, of, "original_max_position_embeddings",
                                           COP_MAX_CONTEXT, *positions, &scaling->original);
    const struct {
        const char *key;
        double fallback, *out;
    } numbers[] = {
        {"factor", *positions / scaling->original, &scaling->factor},
        {"beta_fast", 32, &scaling->beta_fast},
        {"beta_slow", 1, &scaling->beta_slow},
        {"mscale", 1, &mscale},
        {"mscale_all_dim", 1, &mscale_all},
    };
    for (size_t i = 0; status == COP_OK && i < sizeof numbers / sizeof *numbers; i++) {
        status = read_positive(in, of, numbers[i].key, COP_MAX_FACTOR, numbers[i].fallback,
                               numbers[i].out);
    }
    if (status == COP_OK) {
        status = read_bool(in, of, "truncate", true, &is_rounded);
    }
    growth = yarn_growth(scaling->factor, 1);
    if (get(in, of, "mscale") && get(in, of, "mscale_all_dim")) {
        growth =
            yarn_growth(scaling->factor, mscale) / yarn_growth(scaling->factor, mscale_all);
    }
    if (status == COP_OK) {
        status = read_positive(in, of, "attention_factor", COP_MAX_FACTOR, growth,
                               &scaling->attention);
    }
    scaling->is_unrounded = !is_rounded;
    double stretched = scaling->factor * scaling->original;
    if (status == COP_OK && stretched > *positions && stretched <= COP_MAX_CONTEXT) {
        *positions = (int32_t)stretched;
    }
    return status;
}

static enum cop_status read_llama3(const struct config *in, const struct cop_json_node *of)
{
    struct cop_rope_scaling *scaling = &in->model->rope_scaling;
    const struct {
        const char *key;
        double max, *out;
    } numbers[] = {
        {"factor", COP_MAX_FACTOR, &scaling->factor},
        {"low_freq_factor", COP_MAX_FACTOR, &scaling->low},
        {"high_freq_factor", COP_MAX_FACTOR, &scaling->high},
        {"original_max_position_embeddings", COP_MAX_CONTEXT, &scaling->original},
    };
    enum cop_status status = COP_OK;
    for (size_t i = 0; status == COP_OK && i < sizeof numbers / sizeof *numbers; i++) {
        status = read_positive(in, of, numbers[i].key, numbers[i].max, 0, numbers[i].out);
    }
    if (status == COP_OK && scaling->high <= scaling->low) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: \"high_freq_factor\" %g is not above \"low_freq_factor\" %g",
                        in->name, scaling->high, scaling->low);
    }
    return status;
}

/* Newer files write rope_type, older ones type. */
static enum cop_status read_scaling(const struct config *in, const struct cop_json_node *of)
{
    struct cop_rope_scaling *scaling = &in->model->rope_scaling;
    const struct cop_json_node *kind = get(in, of, "rope_type");
    kind = kind ? kind : get(in, of, "type");
    if (!kind || cop_json_is(kind, "default")) {
        return COP_OK;
    }
    if (cop_json_is(kind, "linear")) {
        scaling->kind = COP_ROPE_LINEAR;
        return read_positive(in, of, "factor", COP_MAX_FACTOR, 0, &scaling->factor);
    }
    if (cop_json_is(kind, "llama3")) {
        scaling->kind = COP_ROPE_LLAMA3;
        return read_llama3(in, of);
    }
    if (cop_json_is(kind, "yarn")) {
        scaling->kind = COP_ROPE_YARN;
        return read_yarn(in, of);
    }
    char text[COP_QUOTE_SIZE];
    return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                    "%s: rotary scaling \"%s\" is not supported (known: default, linear, "
                    "llama3, yarn)",
                    in->name, value_text(text, kind));
}

/* Newer files hold all of it in rope_parameters; older ones rope_theta, and the rest in
 * rope_scaling. */
static enum cop_status read_rope(struct config *in)
{
    struct cop_model *model = in->model;
    const struct cop_json_node *newer = get(in, in->root, "rope_parameters");
    const struct cop_json_node *of = newer ? newer : get(in, in->root, "rope_scaling");
    double theta, share;
    model->rope.dim = model->info.head_dim;
    model->rope.is_interleaved = false;
    if (of && of->kind != COP_JSON_OBJECT) {
        return bad_value(in, newer ? "rope_parameters" : "rope_scaling", of, "an object");
    }
    const struct cop_json_node *child = cop_json_first(&in->tree, of);
    for (; child; child = cop_json_after(&in->tree, child)) {
        if (child->kind == COP_JSON_OBJECT) {
            char text[COP_QUOTE_SIZE];
            return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                            "%s: rotary parameters of their own for \"%s\" are not supported",
                            in->name, cop_quote(text, child->key, child->key_length));
        }
    }
    enum cop_status status =
        read_positive(in, in->root, "rope_theta", COP_MAX_THETA, 10000, &theta);
    if (status == COP_OK) {
        status =
            read_positive(in, of, "rope_theta", COP_MAX_THETA, theta, &model->info.rope_theta);
    }
    if (status == COP_OK) {
        status = read_positive(in, get(in, of, "partial_rotary_factor") ? of : in->root,
                               "partial_rotary_factor", 1, 1, &share);
    }
    if (status == COP_OK && share < 1) {
        return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                        "%s: \"partial_rotary_factor\" is %g; known is 1", in->name, share);
    }
    return status == COP_OK ? read_scaling(in, of) : status;
}

/* ---- The whole --------------------------------------------------------------------------- */

enum cop_status cop_model_read_config(struct cop_model *model, const char *name,
                                      const char *text, size_t length, struct cop_error *err)
{
    static enum cop_status (*const steps[])(struct config *) = {
        read_kind, read_sizes, read_heads, read_parts, read_windows, read_rope};
    struct config in = {.model = model, .name = name, .err = err};
    struct cop_error inner = {.text = ""};
    enum cop_status status = cop_json_tree_read(&in.tree, text, length, &inner);
    if (status != COP_OK) {
        return cop_fail(err, status, "%s: %.300s", name, inner.text);
    }
    in.root = cop_json_root(&in.tree);
    if (in.root->kind != COP_JSON_OBJECT) {
        status = cop_fail(err, COP_ERR_FORMAT, "%s: is not an object", name);
    }
    model->naming = COP_NAMING_FOLDER;
    for (size_t i = 0; status == COP_OK && i < sizeof steps / sizeof *steps; i++) {
        status = steps[i](&in);
    }
    cop_json_tree_release(&in.tree);
    return status;
}
