/* What the keys of a GGUF file say of positions: rotary angles and windows. */
#include "core/base/quote.h"
#include "core/model/metadata.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Rotary positions -------------------------------------------------------------------- */

/* Keys of yarn; those of the borders are rarely written. */
static enum cop_status read_yarn(struct cop_metadata *in)
{
    static const double one = 1, fast = 32, slow = 1;
    struct cop_rope_scaling *scaling = &in->model->rope_scaling;
    const double positions = in->model->info.trained_context;
    enum cop_status status =
        cop_metadata_positive(in, "rope.scaling.original_context_length", &positions,
                              COP_MAX_CONTEXT, &scaling->original);
    if (status == COP_OK) {
        status = cop_metadata_positive(in, "rope.scaling.attn_factor", &one, COP_MAX_FACTOR,
                                       &scaling->attention);
    }
    if (status == COP_OK) {
        status = cop_metadata_positive(in, "rope.scaling.yarn_beta_fast", &fast, COP_MAX_FACTOR,
                                       &scaling->beta_fast);
    }
    if (status == COP_OK) {
        status = cop_metadata_positive(in, "rope.scaling.yarn_beta_slow", &slow, COP_MAX_FACTOR,
                                       &scaling->beta_slow);
    }
    if (scaling->factor > 1) { /* the key is a factor on top of the usual one */
        scaling->attention *= 1 + 0.1 * log(scaling->factor);
    }
    return status;
}

static bool is(struct cop_string string, const char *word)
{
    return string.length == strlen(word) && memcmp(string.bytes, word, string.length) == 0;
}

/* Known kinds of scaling; others are refused, never ignored. (Llama 3's comes as a tensor of
 * factors.) */
static enum cop_status read_rope_scaling(struct cop_metadata *in)
{
    struct cop_model *model = in->model;
    struct cop_rope_scaling *scaling = &model->rope_scaling;
    static const char older[] = "rope.scale_linear";
    static const double one = 1;
    struct cop_string kind = {"none", 4};
    if (cop_gguf_has(model->source.gguf, cop_metadata_key(in, "rope.scaling.type"))) {
        enum cop_status status = cop_gguf_string(model->source.gguf, in->key, &kind, in->err);
        if (status != COP_OK) {
            return status;
        }
    } else { /* a factor alone is a linear one */
        bool is_newer =
            cop_gguf_has(model->source.gguf, cop_metadata_key(in, "rope.scaling.factor"));
        scaling->kind = COP_ROPE_LINEAR;
        return cop_metadata_positive(in, is_newer ? "rope.scaling.factor" : older, &one,
                                     COP_MAX_FACTOR, &scaling->factor);
    }
    if (is(kind, "none")) {
        return COP_OK;
    }
    if (is(kind, "linear") || is(kind, "yarn")) {
        scaling->kind = is(kind, "yarn") ? COP_ROPE_YARN : COP_ROPE_LINEAR;
        enum cop_status status = cop_metadata_positive(in, "rope.scaling.factor", NULL,
                                                       COP_MAX_FACTOR, &scaling->factor);
        return status == COP_OK && scaling->kind == COP_ROPE_YARN ? read_yarn(in) : status;
    }
    char quoted[COP_QUOTE_SIZE];
    return cop_fail(
        in->err, COP_ERR_UNSUPPORTED,
        "%s: rotary scaling \"%s\" is not supported (known: none, linear, yarn, and "
        "the tensor rope_freqs.weight)",
        cop_metadata_file(in), cop_quote(quoted, kind.bytes, kind.length));
}

enum cop_status cop_metadata_rope(struct cop_metadata *in)
{
    struct cop_model *model = in->model;
    const double usual = model->architecture->defaults.rope_theta;
    const double theta = usual > 0 ? usual : 10000;
    enum cop_status status = cop_metadata_positive(in, "rope.freq_base", &theta, COP_MAX_THETA,
                                                   &model->info.rope_theta);
    if (status == COP_OK) {
        status = cop_metadata_int(in, "rope.dimension_count", COP_MAX_HEAD_DIM,
                                  model->info.head_dim, &model->rope.dim);
    }
    if (status != COP_OK) {
        return status;
    }
    if (model->rope.dim % 2 != 0 || model->rope.dim > model->info.head_dim) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: key \"%s\" is %d, expected an even number up to the %d entries of "
                        "a head",
                        cop_metadata_file(in), in->key, model->rope.dim, model->info.head_dim);
    }
    model->rope.is_interleaved = model->architecture->is_rope_interleaved;
    return read_rope_scaling(in);
}

/* ---- Windows ----------------------------------------------------------------------------- */

/* An array says for each layer whether it has the window; without one all have. */
static enum cop_status read_open_layers(struct cop_metadata *in)
{
    struct cop_model *model = in->model;
    const char *key = cop_metadata_key(in, "attention.sliding_window_pattern");
    int64_t *has_window = NULL;
    size_t count = 0;
    if (!cop_gguf_has(model->source.gguf, key)) {
        return COP_OK;
    }
    enum cop_status status =
        cop_gguf_ints(model->source.gguf, key, &has_window, &count, in->err);
    if (status == COP_OK && count != (size_t)model->info.layers) {
        status =
            cop_fail(in->err, COP_ERR_FORMAT, "%s: key \"%s\" has %zu entries for %d layers",
                     cop_metadata_file(in), in->key, count, model->info.layers);
    }
    for (int32_t i = 0; i < model->info.layers && status == COP_OK; i++) {
        model->windows[i] = has_window[i] ? model->windows[i] : 0;
    }
    free(has_window);
    return status;
}

enum cop_status cop_metadata_windows(struct cop_metadata *in)
{
    struct cop_model *model = in->model;
    const struct cop_architecture *architecture = model->architecture;
    static const double base = 10000;
    int32_t window = 0, pattern = 0;
    bool is_pattern = architecture->window_rule == COP_WINDOW_PATTERN;
    enum cop_status status = COP_OK;
    if (architecture->has_window) {
        status = cop_metadata_int(in, "attention.sliding_window", INT32_MAX,
                                  is_pattern ? -1 : 0, &window);
    }
    if (status == COP_OK) {
        status = cop_model_set_windows(model, window, in->err);
    }
    if (status == COP_OK && window > 0 && architecture->is_drafter) {
        status = read_open_layers(in);
    }
    if (status == COP_OK && is_pattern) {
        status = cop_metadata_int(in, "attention.sliding_window_pattern", COP_MAX_LAYERS,
                                  architecture->defaults.window_pattern, &pattern);
    }
    if (status == COP_OK && is_pattern) {
        status = cop_metadata_positive(in, "rope.freq_base_swa", &base, COP_MAX_THETA,
                                       &model->window_theta);
    }
    for (int32_t i = pattern - 1; status == COP_OK && is_pattern && i < model->info.layers;
         i += pattern) {
        model->windows[i] = 0;
    }
    return status;
}
