/* The geometry of a model from the keys of its file, every number checked before it is used. */
#include "core/base/quote.h"
#include "core/model/state.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct cop_model *model;
    struct cop_error *err;
    char key[128];
};

static const char *key_of(struct reader *in, const char *suffix)
{
    (void)snprintf(in->key, sizeof in->key, "%s.%s", in->model->architecture->name, suffix);
    return in->key;
}

static const char *file_of(const struct reader *in)
{
    return cop_source_name(&in->model->source);
}

/* fallback -1: the key must be there. */
static enum cop_status read_int(struct reader *in, const char *suffix, int64_t max,
                                int64_t fallback, int32_t *out)
{
    int64_t value = 0;
    enum cop_status status =
        cop_gguf_int(in->model->source.gguf, key_of(in, suffix), fallback == 0 ? 0 : 1, max,
                     fallback < 0 ? NULL : &fallback, &value, in->err);
    *out = (int32_t)value;
    return status;
}

static enum cop_status read_positive(struct reader *in, const char *suffix,
                                     const double *fallback, double max, double *out)
{
    enum cop_status status =
        cop_gguf_number(in->model->source.gguf, key_of(in, suffix), fallback, out, in->err);
    if (status == COP_OK && !(*out > 0 && *out <= max)) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: key \"%s\" is %g, expected above 0 and at most %g", file_of(in),
                        in->key, *out, max);
    }
    return status;
}

/* Layers of multi-token prediction are counted as blocks; some files have lost their tensors.
 */
static enum cop_status drop_further(struct reader *in)
{
    struct cop_model *model = in->model;
    int32_t said = 0, first = model->info.layers;
    enum cop_status status = read_int(in, "nextn_predict_layers", COP_MAX_LAYERS, 0, &said);
    while (first > 1 && cop_model_is_further(model, first - 1)) {
        first--;
    }
    if (first == model->info.layers && said > 0 && said < first) {
        char name[COP_TENSOR_NAME_SIZE];
        (void)snprintf(name, sizeof name, "blk.%d.attn_norm.weight", first - said);
        first -= cop_gguf_tensor(model->source.gguf, name) ? 0 : said;
    }
    model->info.layers = first;
    return status;
}

static enum cop_status read_sizes(struct reader *in)
{
    struct cop_model_info *info = &in->model->info;
    const struct {
        const char *suffix;
        int64_t max;
        int32_t *out;
    } sizes[] = {
        {"block_count", COP_MAX_LAYERS, &info->layers},
        {"embedding_length", COP_MAX_WIDTH, &info->hidden_size},
        {"feed_forward_length", COP_MAX_FFN, &info->ffn_size},
        {"attention.head_count", COP_MAX_HEADS, &info->heads},
        {"context_length", COP_MAX_CONTEXT, &info->trained_context},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        enum cop_status status = read_int(in, sizes[i].suffix, sizes[i].max, -1, sizes[i].out);
        if (status != COP_OK) {
            return status;
        }
    }
    enum cop_status status = drop_further(in);
    if (status == COP_OK) {
        status = read_int(in, "attention.head_count_kv", COP_MAX_HEADS, info->heads,
                          &info->kv_heads);
    }
    return status == COP_OK ? cop_model_check_heads(in->model, file_of(in), in->err) : status;
}

static enum cop_status read_head_dim(struct reader *in)
{
    struct cop_model_info *info = &in->model->info;
    bool has_key = cop_gguf_has(in->model->source.gguf, key_of(in, "attention.key_length"));
    if (!has_key && info->hidden_size % info->heads != 0) {
        return cop_fail(
            in->err, COP_ERR_FORMAT,
            "%s: embedding length %d is not a multiple of %d heads, and there is no "
            "key \"%s\"",
            file_of(in), info->hidden_size, info->heads, in->key);
    }
    int32_t value_dim = 0;
    int32_t implied = has_key ? -1 : info->hidden_size / info->heads;
    enum cop_status status =
        read_int(in, "attention.key_length", COP_MAX_HEAD_DIM, implied, &info->head_dim);
    if (status == COP_OK) {
        status = read_int(in, "attention.value_length", COP_MAX_HEAD_DIM, info->head_dim,
                          &value_dim);
    }
    if (status != COP_OK) {
        return status;
    }
    status = cop_model_check_head_dim(in->model, file_of(in), in->err);
    if (status != COP_OK) {
        return status;
    }
    if (value_dim != info->head_dim) {
        return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                        "%s: values of %d entries beside keys of %d are not supported",
                        file_of(in), value_dim, info->head_dim);
    }
    return COP_OK;
}

/* Keys of yarn; those of the borders are rarely written. */
static enum cop_status read_yarn(struct reader *in)
{
    static const double one = 1, fast = 32, slow = 1;
    struct cop_rope_scaling *scaling = &in->model->rope_scaling;
    const double positions = in->model->info.trained_context;
    enum cop_status status = read_positive(in, "rope.scaling.original_context_length",
                                           &positions, COP_MAX_CONTEXT, &scaling->original);
    if (status == COP_OK) {
        status = read_positive(in, "rope.scaling.attn_factor", &one, COP_MAX_FACTOR,
                               &scaling->attention);
    }
    if (status == COP_OK) {
        status = read_positive(in, "rope.scaling.yarn_beta_fast", &fast, COP_MAX_FACTOR,
                               &scaling->beta_fast);
    }
    if (status == COP_OK) {
        status = read_positive(in, "rope.scaling.yarn_beta_slow", &slow, COP_MAX_FACTOR,
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
static enum cop_status read_rope_scaling(struct reader *in)
{
    struct cop_model *model = in->model;
    struct cop_rope_scaling *scaling = &model->rope_scaling;
    struct cop_string kind = {"none", 4};
    if (cop_gguf_has(model->source.gguf, key_of(in, "rope.scaling.type"))) {
        enum cop_status status = cop_gguf_string(model->source.gguf, in->key, &kind, in->err);
        if (status != COP_OK) {
            return status;
        }
    } else if (cop_gguf_has(model->source.gguf, key_of(in, "rope.scale_linear"))) {
        scaling->kind = COP_ROPE_LINEAR;
        return read_positive(in, "rope.scale_linear", NULL, COP_MAX_FACTOR, &scaling->factor);
    }
    if (is(kind, "none")) {
        return COP_OK;
    }
    if (is(kind, "linear") || is(kind, "yarn")) {
        scaling->kind = is(kind, "yarn") ? COP_ROPE_YARN : COP_ROPE_LINEAR;
        enum cop_status status =
            read_positive(in, "rope.scaling.factor", NULL, COP_MAX_FACTOR, &scaling->factor);
        return status == COP_OK && scaling->kind == COP_ROPE_YARN ? read_yarn(in) : status;
    }
    char quoted[COP_QUOTE_SIZE];
    return cop_fail(
        in->err, COP_ERR_UNSUPPORTED,
        "%s: rotary scaling \"%s\" is not supported (known: none, linear, yarn, and "
        "the tensor rope_freqs.weight)",
        file_of(in), cop_quote(quoted, kind.bytes, kind.length));
}

static enum cop_status read_rope(struct reader *in)
{
    struct cop_model *model = in->model;
    const double usual = model->architecture->defaults.rope_theta;
    const double theta = usual > 0 ? usual : 10000;
    enum cop_status status =
        read_positive(in, "rope.freq_base", &theta, COP_MAX_THETA, &model->info.rope_theta);
    if (status == COP_OK) {
        status = read_int(in, "rope.dimension_count", COP_MAX_HEAD_DIM, model->info.head_dim,
                          &model->rope.dim);
    }
    if (status != COP_OK) {
        return status;
    }
    if (model->rope.dim % 2 != 0 || model->rope.dim > model->info.head_dim) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: key \"%s\" is %d, expected an even number up to the %d entries of "
                        "a head",
                        file_of(in), in->key, model->rope.dim, model->info.head_dim);
    }
    model->rope.is_interleaved = model->architecture->is_rope_interleaved;
    return read_rope_scaling(in);
}

/* The rows of the embedding are the vocabulary; a key that says otherwise is a damaged file. */
static enum cop_status read_vocabulary(struct reader *in)
{
    struct cop_model *model = in->model;
    const struct cop_tensor *table = cop_gguf_tensor(model->source.gguf, "token_embd.weight");
    if (!table && model->architecture->is_drafter) { /* 0: as many as the target */
        table = cop_gguf_tensor(model->source.gguf, "markov_w1.weight");
        return read_int(in, "vocab_size", COP_MAX_VOCAB,
                        table && table->dims[1] <= COP_MAX_VOCAB ? table->dims[1] : 0,
                        &model->info.vocab_size);
    }
    if (!table) {
        return cop_fail(in->err, COP_ERR_FORMAT, "%s: tensor \"token_embd.weight\" is missing",
                        file_of(in));
    }
    int64_t rows = table->dims[1];
    if (rows < 1 || rows > COP_MAX_VOCAB) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: tensor \"token_embd.weight\" has %lld rows, expected 1 to %d",
                        file_of(in), (long long)rows, COP_MAX_VOCAB);
    }
    enum cop_status status =
        read_int(in, "vocab_size", COP_MAX_VOCAB, rows, &model->info.vocab_size);
    if (status == COP_OK && model->info.vocab_size != rows) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: key \"%s\" is %d, but tensor \"token_embd.weight\" has %lld rows",
                        file_of(in), in->key, model->info.vocab_size, (long long)rows);
    }
    return status;
}

/* An array says for each layer whether it has the window; without one all have. */
static enum cop_status read_open_layers(struct reader *in)
{
    struct cop_model *model = in->model;
    const char *key = key_of(in, "attention.sliding_window_pattern");
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
                     file_of(in), in->key, count, model->info.layers);
    }
    for (int32_t i = 0; i < model->info.layers && status == COP_OK; i++) {
        model->windows[i] = has_window[i] ? model->windows[i] : 0;
    }
    free(has_window);
    return status;
}

static enum cop_status read_windows(struct reader *in)
{
    struct cop_model *model = in->model;
    const struct cop_architecture *architecture = model->architecture;
    static const double base = 10000;
    int32_t window = 0, pattern = 0;
    bool is_pattern = architecture->window_rule == COP_WINDOW_PATTERN;
    enum cop_status status = COP_OK;
    if (architecture->has_window) {
        status =
            read_int(in, "attention.sliding_window", INT32_MAX, is_pattern ? -1 : 0, &window);
    }
    if (status == COP_OK) {
        status = cop_model_set_windows(model, window, in->err);
    }
    if (status == COP_OK && window > 0 && architecture->is_drafter) {
        status = read_open_layers(in);
    }
    if (status == COP_OK && is_pattern) {
        status = read_int(in, "attention.sliding_window_pattern", COP_MAX_LAYERS,
                          architecture->defaults.window_pattern, &pattern);
    }
    if (status == COP_OK && is_pattern) {
        status =
            read_positive(in, "rope.freq_base_swa", &base, COP_MAX_THETA, &model->window_theta);
    }
    for (int32_t i = pattern - 1; status == COP_OK && is_pattern && i < model->info.layers;
         i += pattern) {
        model->windows[i] = 0;
    }
    return status;
}

static enum cop_status read_rest(struct reader *in)
{
    struct cop_model *model = in->model;
    int32_t experts = 0;
    enum cop_status status = read_int(in, "expert_count", COP_MAX_HEADS, 0, &experts);
    if (status == COP_OK && experts > 0) {
        return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                        "%s: a mixture of %d experts is not supported", file_of(in), experts);
    }
    if (status == COP_OK) {
        status = read_windows(in);
    }
    if (status == COP_OK) {
        static const int64_t none = -1;
        int64_t mask = -1;
        status = cop_gguf_int(model->source.gguf, "tokenizer.ggml.mask_token_id", 0, INT32_MAX,
                              &none, &mask, in->err);
        bool is_open = model->info.vocab_size == 0; /* a drafter's */
        model->info.mask_token = is_open || mask < model->info.vocab_size ? (int32_t)mask : -1;
    }
    model->query_scalar = model->info.head_dim;
    if (model->architecture->defaults.query_scalar > 0 && model->info.layers == 62) {
        /* No key says so: of this family, the largest (27B) divides by another root. */
        model->query_scalar = (double)model->info.hidden_size / model->info.heads;
    }
    if (status == COP_OK) {
        status = read_positive(in, "attention.layer_norm_rms_epsilon", NULL, 1,
                               &model->info.norm_epsilon);
    }
    return status;
}

enum cop_status cop_model_read_metadata(struct cop_model *model, struct cop_error *err)
{
    struct reader in = {.model = model, .err = err};
    struct cop_string name;
    enum cop_status status =
        cop_gguf_string(model->source.gguf, "general.architecture", &name, err);
    if (status == COP_OK) {
        status = cop_architecture_find(&model->architecture, name, COP_NAMING_GGUF,
                                       file_of(&in), err);
    }
    model->naming = COP_NAMING_GGUF;
    enum cop_status (*const steps[])(struct reader *) = {read_sizes, read_head_dim, read_rope,
                                                         read_vocabulary, read_rest};
    for (size_t i = 0; status == COP_OK && i < sizeof steps / sizeof *steps; i++) {
        status = steps[i](&in);
    }
    return status;
}
