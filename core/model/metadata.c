/* The geometry of a model from the keys of its file, every number checked before it is used. */
#include "core/model/metadata.h"
#include "core/base/quote.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *cop_metadata_key(struct cop_metadata *in, const char *suffix)
{
    (void)snprintf(in->key, sizeof in->key, "%s.%s", in->model->architecture->name, suffix);
    return in->key;
}

const char *cop_metadata_file(const struct cop_metadata *in)
{
    return cop_source_name(&in->model->source);
}

enum cop_status cop_metadata_int(struct cop_metadata *in, const char *suffix, int64_t max,
                                 int64_t fallback, int32_t *out)
{
    int64_t value = 0;
    enum cop_status status = cop_gguf_int(in->model->source.gguf, cop_metadata_key(in, suffix),
                                          fallback == 0 ? 0 : 1, max,
                                          fallback < 0 ? NULL : &fallback, &value, in->err);
    *out = (int32_t)value;
    return status;
}

enum cop_status cop_metadata_positive(struct cop_metadata *in, const char *suffix,
                                      const double *fallback, double max, double *out)
{
    enum cop_status status = cop_gguf_number(
        in->model->source.gguf, cop_metadata_key(in, suffix), fallback, out, in->err);
    if (status == COP_OK && !(*out > 0 && *out <= max)) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: key \"%s\" is %g, expected above 0 and at most %g",
                        cop_metadata_file(in), in->key, *out, max);
    }
    return status;
}

/* Layers of multi-token prediction are counted as blocks; some files have lost their tensors.
 */
static enum cop_status drop_further(struct cop_metadata *in)
{
    struct cop_model *model = in->model;
    int32_t said = 0, first = model->info.layers;
    enum cop_status status =
        cop_metadata_int(in, "nextn_predict_layers", COP_MAX_LAYERS, 0, &said);
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

static enum cop_status read_sizes(struct cop_metadata *in)
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
        enum cop_status status =
            cop_metadata_int(in, sizes[i].suffix, sizes[i].max, -1, sizes[i].out);
        if (status != COP_OK) {
            return status;
        }
    }
    enum cop_status status = drop_further(in);
    if (status == COP_OK) {
        status = cop_metadata_int(in, "attention.head_count_kv", COP_MAX_HEADS, info->heads,
                                  &info->kv_heads);
    }
    return status == COP_OK ? cop_model_check_heads(in->model, cop_metadata_file(in), in->err)
                            : status;
}

static enum cop_status read_head_dim(struct cop_metadata *in)
{
    struct cop_model_info *info = &in->model->info;
    bool has_key =
        cop_gguf_has(in->model->source.gguf, cop_metadata_key(in, "attention.key_length"));
    if (!has_key && info->hidden_size % info->heads != 0) {
        return cop_fail(
            in->err, COP_ERR_FORMAT,
            "%s: embedding length %d is not a multiple of %d heads, and there is no "
            "key \"%s\"",
            cop_metadata_file(in), info->hidden_size, info->heads, in->key);
    }
    int32_t value_dim = 0;
    int32_t implied = has_key ? -1 : info->hidden_size / info->heads;
    enum cop_status status = cop_metadata_int(in, "attention.key_length", COP_MAX_HEAD_DIM,
                                              implied, &info->head_dim);
    if (status == COP_OK) {
        status = cop_metadata_int(in, "attention.value_length", COP_MAX_HEAD_DIM,
                                  info->head_dim, &value_dim);
    }
    if (status != COP_OK) {
        return status;
    }
    status = cop_model_check_head_dim(in->model, cop_metadata_file(in), in->err);
    if (status != COP_OK) {
        return status;
    }
    if (value_dim != info->head_dim) {
        return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                        "%s: values of %d entries beside keys of %d are not supported",
                        cop_metadata_file(in), value_dim, info->head_dim);
    }
    return COP_OK;
}

/* The rows of the embedding are the vocabulary; a key that says otherwise is a damaged file. */
static enum cop_status read_vocabulary(struct cop_metadata *in)
{
    struct cop_model *model = in->model;
    const struct cop_tensor *table = cop_gguf_tensor(model->source.gguf, "token_embd.weight");
    if (!table && model->architecture->is_drafter) { /* 0: as many as the target */
        table = cop_gguf_tensor(model->source.gguf, "markov_w1.weight");
        return cop_metadata_int(in, "vocab_size", COP_MAX_VOCAB,
                                table && table->dims[1] <= COP_MAX_VOCAB ? table->dims[1] : 0,
                                &model->info.vocab_size);
    }
    if (!table) {
        return cop_fail(in->err, COP_ERR_FORMAT, "%s: tensor \"token_embd.weight\" is missing",
                        cop_metadata_file(in));
    }
    int64_t rows = table->dims[1];
    if (rows < 1 || rows > COP_MAX_VOCAB) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: tensor \"token_embd.weight\" has %lld rows, expected 1 to %d",
                        cop_metadata_file(in), (long long)rows, COP_MAX_VOCAB);
    }
    enum cop_status status =
        cop_metadata_int(in, "vocab_size", COP_MAX_VOCAB, rows, &model->info.vocab_size);
    if (status == COP_OK && model->info.vocab_size != rows) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: key \"%s\" is %d, but tensor \"token_embd.weight\" has %lld rows",
                        cop_metadata_file(in), in->key, model->info.vocab_size,
                        (long long)rows);
    }
    return status;
}

/* Keys of parts that are not built, and the numbers by which they say that the model lacks the
 * part: any other is refused, never ignored. */
static enum cop_status check_absent(struct cop_metadata *in)
{
    static const struct {
        const char *suffix;
        double without, also;
    } rows[] = {
        {"attention.causal", 1, 1},
        {"attention.clamp_kqv", 0, 0},
        {"attention.max_alibi_bias", 0, 0},
        {"attention.scale", 0, 0},
        {"attn_logit_softcapping", 0, 0},
        {"final_logit_softcapping", 0, 0},
        {"embedding_scale", 1, 0},
        {"residual_scale", 1, 0},
        {"logit_scale", 1, 0},
        {"rope.scaling.yarn_ext_factor", 1, -1},
        {"rope.scaling.yarn_attn_factor", 1, -1},
        {"rope.scaling.yarn_log_multiplier", 0, 0},
    };
    enum cop_status status = COP_OK;
    for (size_t i = in->model->architecture->is_drafter ? 1 : 0;
         status == COP_OK && i < sizeof rows / sizeof *rows; i++) {
        double value;
        status = cop_gguf_number(in->model->source.gguf, cop_metadata_key(in, rows[i].suffix),
                                 &rows[i].without, &value, in->err);
        bool is_without =
            !(fabs(value - rows[i].without) > 0) || !(fabs(value - rows[i].also) > 0);
        if (status == COP_OK && !is_without) {
            status = cop_fail(in->err, COP_ERR_UNSUPPORTED,
                              "%s: key \"%s\" is %g, which is not built; known is %g",
                              cop_metadata_file(in), in->key, value, rows[i].without);
        }
    }
    return status;
}

static enum cop_status read_rest(struct cop_metadata *in)
{
    struct cop_model *model = in->model;
    int32_t experts = 0;
    enum cop_status status = check_absent(in);
    if (status == COP_OK) {
        status = cop_metadata_int(in, "expert_count", COP_MAX_HEADS, 0, &experts);
    }
    if (status == COP_OK && experts > 0) {
        return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                        "%s: a mixture of %d experts is not supported", cop_metadata_file(in),
                        experts);
    }
    if (status == COP_OK) {
        status = cop_metadata_windows(in);
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
        status = cop_metadata_positive(in, "attention.layer_norm_rms_epsilon", NULL, 1,
                                       &model->info.norm_epsilon);
    }
    return status;
}

/* A model may lie in several files, of which the first has the keys. */
static enum cop_status check_whole(const struct cop_metadata *in)
{
    static const int64_t one = 1, first = 0;
    const struct cop_gguf *file = in->model->source.gguf;
    int64_t count = 1, number = 0;
    enum cop_status status =
        cop_gguf_int(file, "split.count", 0, INT32_MAX, &one, &count, in->err);
    if (status == COP_OK) {
        status = cop_gguf_int(file, "split.no", 0, INT32_MAX, &first, &number, in->err);
    }
    return status == COP_OK && count > 1
               ? cop_fail(
                     in->err, COP_ERR_UNSUPPORTED,
                     "%s: is part %lld of %lld (key \"split.count\"); merge the parts into "
                     "one file first, as `llama-gguf-split --merge` does",
                     cop_metadata_file(in), (long long)number + 1, (long long)count)
               : status;
}

enum cop_status cop_model_read_metadata(struct cop_model *model, struct cop_error *err)
{
    struct cop_metadata in = {.model = model, .err = err};
    struct cop_string name;
    enum cop_status status = check_whole(&in);
    if (status == COP_OK) {
        status = cop_gguf_string(model->source.gguf, "general.architecture", &name, err);
    }
    if (status == COP_OK) {
        status = cop_architecture_find(&model->architecture, name, COP_NAMING_GGUF,
                                       cop_metadata_file(&in), err);
    }
    model->naming = COP_NAMING_GGUF;
    enum cop_status (*const steps[])(struct cop_metadata *) = {
        read_sizes, read_head_dim, cop_metadata_rope, read_vocabulary, read_rest};
    for (size_t i = 0; status == COP_OK && i < sizeof steps / sizeof *steps; i++) {
        status = steps[i](&in);
    }
    return status;
}
