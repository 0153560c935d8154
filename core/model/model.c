/* The handle of a model: opening in steps, sharing, closing. */
#include "core/model/model.h"
#include "core/base/quote.h"
#include "core/model/state.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define DEFAULT_CONTEXT 4096
#define MAX_THREADS     1024
#define PADDING         128 /* ids by which vocabularies may differ without two tokenizers */

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- Opening ----------------------------------------------------------------------------- */

static const struct cop_ops *find_device(const char *name)
{
    return strcmp(name, cop_ops_cpu.name) == 0         ? &cop_ops_cpu
           : strcmp(name, cop_ops_reference.name) == 0 ? &cop_ops_reference
                                                       : NULL;
}

static const char *device_name(const struct cop_model_options *options)
{
    return options->device ? options->device : "cpu";
}

/* Names that a script may write on any machine: whether the device is here is the world's. */
static bool is_device_name(const char *name)
{
    const char *number = strncmp(name, "cuda:", 5) == 0 ? name + 5 : NULL;
    return find_device(name) || strcmp(name, "cuda") == 0 ||
           (number && *number && strspn(number, "0123456789") == strlen(number));
}

enum cop_status cop_model_check_options(const struct cop_model_options *options,
                                        struct cop_error *err)
{
    if (!options->path) {
        return cop_fail(err, COP_ERR_ARGUMENT, "a model needs a path");
    }
    if (options->context < 0 || options->pages < 0) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "context = %d and pages = %d must not be negative", options->context,
                        options->pages);
    }
    if (!is_device_name(device_name(options))) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "no device is called \"%.40s\" (known: %s, %s, cuda, cuda:1)",
                        device_name(options), cop_ops_cpu.name, cop_ops_reference.name);
    }
    if (options->threads < 1 || options->threads > MAX_THREADS) {
        return cop_fail(err, COP_ERR_ARGUMENT, "threads = %d is out of range (1 to %d)",
                        options->threads, MAX_THREADS);
    }
    return COP_OK;
}

static enum cop_status open_device(struct cop_model *model,
                                   const struct cop_model_options *options,
                                   struct cop_error *err)
{
    const char *name = device_name(options);
    model->ops = find_device(name);
    if (!model->ops) {
        return cop_fail(err, COP_ERR_UNSUPPORTED,
                        "no device \"%.40s\" in this build; it has %s and %s", name,
                        cop_ops_cpu.name, cop_ops_reference.name);
    }
    model->device = model->ops->open(options->threads, options->level);
    if (!model->device && options->level) {
        return cop_fail(err, COP_ERR_UNSUPPORTED,
                        "device %s cannot open level \"%.40s\" with %d threads on this machine",
                        name, options->level, options->threads);
    }
    if (!model->device) {
        return cop_fail(err, COP_ERR_MEMORY, "device %s cannot start %d threads", name,
                        options->threads);
    }
    model->info.device = model->ops->name;
    model->info.level = model->ops->level(model->device);
    model->info.threads = options->threads;
    return COP_OK;
}

static enum cop_status open_gguf(struct cop_model *model, struct cop_error *err)
{
    enum cop_status status = cop_gguf_open(&model->source.gguf, model->path, err);
    if (status == COP_OK) {
        status = cop_model_read_metadata(model, err);
    }
    return status == COP_OK && model->architecture->is_drafter
               ? cop_fail(err, COP_ERR_UNSUPPORTED,
                          "%s: a drafter of architecture \"%s\" borrows the ends of its target "
                          "and is no model of its own; write cop.propose.parallel { path }",
                          cop_path_tail(model->path, 160), model->architecture->name)
               : status;
}

static enum cop_status open_folder(struct cop_model *model, struct cop_error *err)
{
    char path[PATH_MAX];
    struct cop_map map;
    if (snprintf(path, sizeof path, "%s/config.json", model->path) >= (int)sizeof path) {
        return cop_fail(err, COP_ERR_IO, "%s: the path is too long",
                        cop_path_tail(model->path, 160));
    }
    enum cop_status status = cop_map_open(&map, path, err);
    if (status == COP_OK) {
        status = cop_model_read_config(model, cop_path_tail(path, 160),
                                       map.data ? (const char *)map.data : "", map.size, err);
        cop_map_close(&map);
    }
    return status == COP_OK ? cop_safetensors_open(&model->source.folder, model->path, err)
                            : status;
}

static enum cop_status open_file(struct cop_model *model,
                                 const struct cop_model_options *options, struct cop_error *err)
{
    model->path = strdup(options->path);
    if (!model->path) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a path");
    }
    for (size_t n = strlen(model->path); n > 1 && model->path[n - 1] == '/'; n--) {
        model->path[n - 1] = '\0'; /* "folder/" is "folder" */
    }
    struct stat about;
    bool is_folder = stat(model->path, &about) == 0 && S_ISDIR(about.st_mode);
    enum cop_status status = is_folder ? open_folder(model, err) : open_gguf(model, err);
    if (status == COP_OK) {
        model->info.path = model->path;
        model->info.architecture = model->architecture->name;
        model->info.file_bytes = cop_source_bytes(&model->source);
    }
    return status;
}

static enum cop_status choose_context(struct cop_model *model,
                                      const struct cop_model_options *options,
                                      struct cop_error *err)
{
    struct cop_model_info *info = &model->info;
    if (options->context > info->trained_context) {
        return cop_fail(
            err, COP_ERR_LIMIT,
            "context = %d is more than the %d positions that \"%s\" was trained for",
            options->context, info->trained_context, cop_path_tail(model->path, 160));
    }
    info->context = options->context;
    if (info->context == 0) {
        info->context =
            info->trained_context < DEFAULT_CONTEXT ? info->trained_context : DEFAULT_CONTEXT;
    }
    info->pages = options->pages;
    info->kv_f32 = options->kv_f32;
    return COP_OK;
}

static enum cop_status open_tokenizer(struct cop_model *model, struct cop_error *err)
{
    enum cop_status status =
        model->source.gguf ? cop_tokenizer_from_gguf(&model->tokenizer, model->source.gguf, err)
                           : cop_tokenizer_from_folder(&model->tokenizer, model->path, err);
    if (status == COP_OK && model->tokenizer &&
        cop_tokenizer_size(model->tokenizer) > model->info.vocab_size) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: the tokenizer has %d tokens, but the vocabulary of the model has "
                        "%d",
                        cop_path_tail(model->path, 160), cop_tokenizer_size(model->tokenizer),
                        model->info.vocab_size);
    }
    return status;
}

static enum cop_status open_steps(struct cop_model *model,
                                  const struct cop_model_options *options,
                                  struct cop_error *err)
{
    enum cop_status status = cop_model_check_options(options, err);
    if (status == COP_OK) {
        status = open_file(model, options, err);
    }
    if (status == COP_OK) {
        status = choose_context(model, options, err);
    }
    if (status == COP_OK) {
        status = open_device(model, options, err);
    }
    if (status == COP_OK) {
        status = open_tokenizer(model, err);
    }
    if (status == COP_OK) {
        status = cop_model_load_tensors(model, options->precision, err);
    }
    if (status == COP_OK) {
        status = cop_model_make_rope(model, err);
    }
    return status;
}

enum cop_status cop_model_open(struct cop_model **out, const struct cop_model_options *options,
                               struct cop_error *err)
{
    double start = now();
    *out = NULL;
    struct cop_model *model = calloc(1, sizeof *model);
    if (!model) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a model");
    }
    atomic_init(&model->references, 1);
    enum cop_status status = open_steps(model, options, err);
    if (status != COP_OK) {
        cop_model_free(model);
        return status;
    }
    model->info.load_seconds = now() - start;
    *out = model;
    return COP_OK;
}

struct cop_model *cop_model_share(struct cop_model *model)
{
    (void)atomic_fetch_add_explicit(&model->references, 1, memory_order_relaxed);
    return model;
}

void cop_model_free(struct cop_model *model)
{
    if (!model || atomic_fetch_sub_explicit(&model->references, 1, memory_order_acq_rel) > 1) {
        return;
    }
    cop_model_release_tensors(model);
    cop_workspace_release(&model->work);
    if (model->device) {
        model->ops->close(model->device);
    }
    cop_tokenizer_free(model->tokenizer);
    cop_source_close(&model->source);
    free(model->windows);
    free(model->rope_table);
    free(model->window_table);
    free(model->path);
    free(model);
}

/* ---- Looking ----------------------------------------------------------------------------- */

const struct cop_model_info *cop_model_info(const struct cop_model *model)
{
    return &model->info;
}

struct cop_tokenizer *cop_model_tokenizer(const struct cop_model *model)
{
    return model->tokenizer;
}

const struct cop_ops *cop_model_ops(const struct cop_model *model)
{
    return model->ops;
}

struct cop_device *cop_model_device(const struct cop_model *model)
{
    return model->device;
}

enum cop_status cop_model_cache_new(const struct cop_model *model, int32_t n_sequences,
                                    int32_t speculative, struct cop_cache **out,
                                    struct cop_error *err)
{
    const struct cop_model_info *info = &model->info;
    const struct cop_kv_layout layout = {.is_f32 = info->kv_f32,
                                         .layers = info->layers,
                                         .kv_heads = info->kv_heads,
                                         .head_dim = info->head_dim};
    return cop_cache_new(out, model->ops, &layout, info->context, n_sequences, speculative,
                         info->pages, err);
}

/* ---- Draft and target -------------------------------------------------------------------- */

/* Ids below it may stand in a text. */
static int32_t count_real(const struct cop_tokenizer *tokenizer)
{
    int32_t size = cop_tokenizer_size(tokenizer);
    while (size > 0 && cop_tokenizer_is_padding(tokenizer, size - 1)) {
        size--;
    }
    return size;
}

static enum cop_status other_size(const struct cop_model *target, const struct cop_model *draft,
                                  struct cop_error *err)
{
    return cop_fail(err, COP_ERR_ARGUMENT,
                    "the draft has another vocabulary than the target: %d tokens, the target "
                    "%d, and what differs is not known to be padding",
                    draft->info.vocab_size, target->info.vocab_size);
}

/* An id that one of them uses must be the same piece for the other; the rest is padding. */
static enum cop_status match_pieces(const struct cop_tokenizer *target,
                                    const struct cop_tokenizer *draft, struct cop_error *err)
{
    int32_t n_target = count_real(target), n_draft = count_real(draft);
    for (cop_token id = 0; id < n_target || id < n_draft; id++) {
        bool is_void = cop_tokenizer_is_padding(target, id);
        if (is_void && cop_tokenizer_is_padding(draft, id)) {
            continue;
        }
        struct cop_string a = cop_tokenizer_piece(target, id);
        struct cop_string b = cop_tokenizer_piece(draft, id);
        if (is_void != cop_tokenizer_is_padding(draft, id) || a.length != b.length ||
            memcmp(a.bytes, b.bytes, a.length) != 0) {
            char quoted_a[COP_QUOTE_SIZE], quoted_b[COP_QUOTE_SIZE];
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "the draft has another vocabulary than the target: token %d is "
                            "\"%s\" for the draft, \"%s\" for the target",
                            id, cop_quote(quoted_b, b.bytes, b.length),
                            cop_quote(quoted_a, a.bytes, a.length));
        }
    }
    return COP_OK;
}

static bool is_padded(const struct cop_tokenizer *known, int32_t a, int32_t b)
{
    return a == b || (known && abs(a - b) <= PADDING && count_real(known) <= (a < b ? a : b));
}

bool cop_model_fits_vocab(const struct cop_model *model, int32_t size)
{
    return is_padded(model->tokenizer, model->info.vocab_size, size);
}

/* Without two tokenizers only sizes can be compared. A larger target is padded when its own
 * tokenizer ends below the draft's size; a larger draft when the known tokenizer ends below the
 * target's. */
static enum cop_status match_sizes(const struct cop_model *target,
                                   const struct cop_model *draft, struct cop_error *err)
{
    int32_t n_target = target->info.vocab_size, n_draft = draft->info.vocab_size;
    const struct cop_tokenizer *known = target->tokenizer    ? target->tokenizer
                                        : n_draft > n_target ? draft->tokenizer
                                                             : NULL;
    return is_padded(known, n_target, n_draft) ? COP_OK : other_size(target, draft, err);
}

enum cop_status cop_model_match(const struct cop_model *target, const struct cop_model *draft,
                                struct cop_error *err)
{
    if (target->tokenizer && draft->tokenizer) {
        return match_pieces(target->tokenizer, draft->tokenizer, err);
    }
    return match_sizes(target, draft, err);
}
