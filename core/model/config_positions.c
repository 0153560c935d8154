/* What a config.json says of positions: windows and rotary angles. */
#include "core/model/config.h"
#include <math.h>
#include <stdio.h>

/* ---- Windows ----------------------------------------------------------------------------- */

/* "layer_types": one word for each layer. */
static enum cop_status read_layer_types(const struct cop_config *in,
                                        const struct cop_json_node *list, int32_t window)
{
    struct cop_model *model = in->model;
    if (list->kind != COP_JSON_LIST) {
        return cop_config_refuse(in, "layer_types", list, "a list");
    }
    const struct cop_json_node *node = cop_json_first(&in->tree, list);
    int32_t count = 0;
    for (; node; node = cop_json_after(&in->tree, node), count++) {
        bool slides = cop_json_is(node, "sliding_attention");
        if (!slides && !cop_json_is(node, "full_attention")) {
            char text[COP_QUOTE_SIZE];
            return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                            "%s: \"layer_types\" has %s at %d; known: full_attention, "
                            "sliding_attention",
                            in->name,
                            node->kind == COP_JSON_NULL ? "null" : cop_config_text(text, node),
                            count);
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

/* All layers but every n-th have one. */
static enum cop_status read_pattern(const struct cop_config *in, int32_t window)
{
    struct cop_model *model = in->model;
    int32_t pattern = model->architecture->defaults.window_pattern;
    static const char *const keys[] = {"_sliding_window_pattern", "sliding_window_pattern"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        enum cop_status status = cop_config_int(in, keys[i], COP_MAX_LAYERS, pattern, &pattern);
        if (status != COP_OK) {
            return status;
        }
    }
    for (int32_t i = 0; i < model->info.layers; i++) {
        model->windows[i] = (i + 1) % pattern != 0 ? window : 0;
    }
    return COP_OK;
}

enum cop_status cop_config_windows(struct cop_config *in)
{
    struct cop_model *model = in->model;
    const struct cop_architecture *architecture = model->architecture;
    const struct cop_config_defaults *defaults = &architecture->defaults;
    bool is_used = architecture->window_rule == COP_WINDOW_STATED ||
                   architecture->window_rule == COP_WINDOW_PATTERN;
    enum cop_status status = cop_model_set_windows(model, 0, in->err);
    if (status == COP_OK && architecture->window_rule == COP_WINDOW_SWITCHED) {
        status = cop_config_bool(in, in->root, "use_sliding_window", false, &is_used);
    }
    bool is_null = cop_json_get(&in->tree, in->root, "sliding_window") != NULL &&
                   !cop_config_get(in, in->root, "sliding_window");
    if (status == COP_OK && is_null && architecture->window_rule == COP_WINDOW_PATTERN) {
        return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                        "%s: \"sliding_window\" is null; known is an integer", in->name);
    }
    if (status != COP_OK || !is_used || is_null) {
        return status;
    }
    int32_t window, first = defaults->first_window_layer;
    status = cop_config_int(in, "sliding_window", INT32_MAX, defaults->window, &window);
    if (status != COP_OK) {
        return status;
    }
    const struct cop_json_node *types = cop_config_get(in, in->root, "layer_types");
    if (types) {
        return read_layer_types(in, types, window);
    }
    if (architecture->window_rule == COP_WINDOW_PATTERN) {
        return read_pattern(in, window);
    }
    const struct cop_json_node *node = cop_config_get(in, in->root, "max_window_layers");
    if (node) {
        if (node->kind != COP_JSON_INTEGER || node->integer < 0) {
            return cop_config_refuse(in, "max_window_layers", node, "a count of layers");
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

static enum cop_status read_yarn(const struct cop_config *in, const struct cop_json_node *of)
{
    struct cop_rope_scaling *scaling = &in->model->rope_scaling;
    int32_t *positions = &in->model->info.trained_context;
    double mscale = 0, mscale_all = 0, growth;
    bool is_rounded = true;
    enum cop_status status =
        cop_config_positive(in, of, "original_max_position_embeddings", COP_MAX_CONTEXT,
                            *positions, &scaling->original);
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
        status = cop_config_positive(in, of, numbers[i].key, COP_MAX_FACTOR,
                                     numbers[i].fallback, numbers[i].out);
    }
    if (status == COP_OK) {
        status = cop_config_bool(in, of, "truncate", true, &is_rounded);
    }
    growth = yarn_growth(scaling->factor, 1);
    if (cop_config_get(in, of, "mscale") && cop_config_get(in, of, "mscale_all_dim")) {
        growth =
            yarn_growth(scaling->factor, mscale) / yarn_growth(scaling->factor, mscale_all);
    }
    if (status == COP_OK) {
        status = cop_config_positive(in, of, "attention_factor", COP_MAX_FACTOR, growth,
                                     &scaling->attention);
    }
    scaling->is_unrounded = !is_rounded;
    double stretched = scaling->factor * scaling->original;
    if (status == COP_OK && stretched > *positions && stretched <= COP_MAX_CONTEXT) {
        *positions = (int32_t)stretched;
    }
    return status;
}

static enum cop_status read_llama3(const struct cop_config *in, const struct cop_json_node *of)
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
        status = cop_config_positive(in, of, numbers[i].key, numbers[i].max, 0, numbers[i].out);
    }
    if (status == COP_OK && scaling->high <= scaling->low) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: \"high_freq_factor\" %g is not above \"low_freq_factor\" %g",
                        in->name, scaling->high, scaling->low);
    }
    return status;
}

/* Newer files write rope_type, older ones type. */
static enum cop_status read_scaling(const struct cop_config *in, const struct cop_json_node *of)
{
    struct cop_rope_scaling *scaling = &in->model->rope_scaling;
    const struct cop_json_node *kind = cop_config_get(in, of, "rope_type");
    kind = kind ? kind : cop_config_get(in, of, "type");
    if (!kind || cop_json_is(kind, "default")) {
        return COP_OK;
    }
    if (cop_json_is(kind, "linear")) {
        scaling->kind = COP_ROPE_LINEAR;
        return cop_config_positive(in, of, "factor", COP_MAX_FACTOR, 0, &scaling->factor);
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
                    in->name, cop_config_text(text, kind));
}

/* No layer but those of a family with two bases may have parameters of its own. */
static enum cop_status check_shared(const struct cop_config *in, const struct cop_json_node *of)
{
    const struct cop_json_node *child = cop_json_first(&in->tree, of);
    for (; child; child = cop_json_after(&in->tree, child)) {
        if (child->kind == COP_JSON_OBJECT) {
            char text[COP_QUOTE_SIZE];
            return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                            "%s: rotary parameters of their own for \"%s\" are not supported",
                            in->name, cop_quote(text, child->key, child->key_length));
        }
    }
    return COP_OK;
}

/* The base of the layers with a window: beside rope_theta, or in an object of its own. */
static enum cop_status read_window_base(const struct cop_config *in,
                                        const struct cop_json_node *of)
{
    double *base = &in->model->window_theta;
    enum cop_status status =
        cop_config_positive(in, in->root, "rope_local_base_freq", COP_MAX_THETA, 10000, base);
    if (status != COP_OK || !of) {
        return status;
    }
    const struct cop_json_node *kind = cop_config_get(in, of, "rope_type");
    if (kind && !cop_json_is(kind, "default")) {
        return cop_config_refuse(in, "rope_type", kind, "\"default\" for sliding_attention");
    }
    return cop_config_positive(in, of, "rope_theta", COP_MAX_THETA, *base, base);
}

/* Newer files hold all of it in rope_parameters, for a family with two bases an object for
 * each; older ones rope_theta, and the rest in rope_scaling. */
enum cop_status cop_config_rope(struct cop_config *in)
{
    struct cop_model *model = in->model;
    const struct cop_config_defaults *defaults = &model->architecture->defaults;
    const struct cop_json_node *newer = cop_config_get(in, in->root, "rope_parameters");
    const struct cop_json_node *of =
        newer ? newer : cop_config_get(in, in->root, "rope_scaling");
    double theta, share;
    enum cop_status status = COP_OK;
    model->rope.dim = model->info.head_dim;
    model->rope.is_interleaved = false;
    if (of && of->kind != COP_JSON_OBJECT) {
        return cop_config_refuse(in, newer ? "rope_parameters" : "rope_scaling", of,
                                 "an object");
    }
    if (model->architecture->window_rule == COP_WINDOW_PATTERN) {
        status = read_window_base(in, cop_config_get(in, newer, "sliding_attention"));
        of = cop_config_get(in, newer, "full_attention")
                 ? cop_config_get(in, newer, "full_attention")
                 : of;
    }
    if (status == COP_OK) {
        status = check_shared(in, of);
    }
    if (status == COP_OK) {
        status = cop_config_positive(in, in->root, "rope_theta", COP_MAX_THETA,
                                     defaults->rope_theta > 0 ? defaults->rope_theta : 10000,
                                     &theta);
    }
    if (status == COP_OK) {
        status = cop_config_positive(in, of, "rope_theta", COP_MAX_THETA, theta,
                                     &model->info.rope_theta);
    }
    if (status == COP_OK) {
        status = cop_config_positive(
            in, cop_config_get(in, of, "partial_rotary_factor") ? of : in->root,
            "partial_rotary_factor", 1, 1, &share);
    }
    if (status == COP_OK && share < 1) {
        return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                        "%s: \"partial_rotary_factor\" is %g; known is 1", in->name, share);
    }
    return status == COP_OK ? read_scaling(in, of) : status;
}
