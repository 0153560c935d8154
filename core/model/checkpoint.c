/* Files of a head to weights of a device. */
#include "core/model/checkpoint.h"
#include "core/base/quote.h"
#include "core/model/config.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- The folder -------------------------------------------------------------------------- */

static enum cop_status read_config(struct cop_checkpoint *checkpoint, const char *path,
                                   struct cop_error *err)
{
    struct cop_map map;
    enum cop_status status = cop_map_open(&map, path, err);
    if (status != COP_OK) {
        return status;
    }
    struct cop_error inner = {.text = ""};
    status = cop_json_tree_read(&checkpoint->tree, map.data ? (const char *)map.data : "",
                                map.size, &inner);
    cop_map_close(&map);
    if (status != COP_OK) {
        return cop_fail(err, status, "%s: %.300s", checkpoint->name, inner.text);
    }
    return cop_json_root(&checkpoint->tree)->kind == COP_JSON_OBJECT
               ? COP_OK
               : cop_fail(err, COP_ERR_FORMAT, "%s: is not an object", checkpoint->name);
}

static bool has_file(const char *folder, const char *file)
{
    char path[PATH_MAX];
    struct stat about;
    return snprintf(path, sizeof path, "%s/%s", folder, file) < (int)sizeof path &&
           stat(path, &about) == 0;
}

/* Where the tensors lie: `file` of the folder, else model.safetensors (or its shards), else the
 * PyTorch file that `file` has the stem of, else pytorch_model.bin. */
static enum cop_status open_tensors(struct cop_checkpoint *checkpoint, const char *folder,
                                    const char *file, struct cop_error *err)
{
    static const char *const endings[] = {".pt", ".bin"};
    char path[PATH_MAX], torch[80] = "pytorch_model.bin";
    int stem = file ? (int)strcspn(file, ".") : 0;
    if (file && has_file(folder, file)) {
        (void)snprintf(path, sizeof path, "%.3000s/%s", folder, file);
        return cop_safetensors_open(&checkpoint->source.folder, path, err);
    }
    if (has_file(folder, "model.safetensors") ||
        has_file(folder, "model.safetensors.index.json")) {
        return cop_safetensors_open(&checkpoint->source.folder, folder, err);
    }
    for (size_t i = 0; file && i < sizeof endings / sizeof *endings; i++) {
        char name[80];
        (void)snprintf(name, sizeof name, "%.*s%s", stem, file, endings[i]);
        if (has_file(folder, name)) {
            (void)snprintf(torch, sizeof torch, "%s", name);
            break;
        }
    }
    if (has_file(folder, torch)) {
        (void)snprintf(path, sizeof path, "%.3000s/%s", folder, torch);
        return cop_torch_open(&checkpoint->source.torch, path, err);
    }
    return cop_fail(
        err, COP_ERR_IO,
        "%s: this folder has neither %s%smodel.safetensors nor %.*s%spytorch_model.bin",
        cop_path_tail(folder, 160), file ? file : "", file ? " nor " : "", stem,
        file ? file : "", file ? ".pt nor " : "");
}

enum cop_status cop_checkpoint_open_file(struct cop_checkpoint *out, const char *folder,
                                         const char *file, struct cop_error *err)
{
    char path[PATH_MAX];
    *out = (struct cop_checkpoint){0};
    if (snprintf(path, sizeof path, "%s/config.json", folder) >= (int)sizeof path) {
        return cop_fail(err, COP_ERR_IO, "%s: the path is too long",
                        cop_path_tail(folder, 160));
    }
    (void)snprintf(out->name, sizeof out->name, "%s", cop_path_tail(path, 160));
    enum cop_status status = read_config(out, path, err);
    if (status == COP_OK) {
        status = open_tensors(out, folder, file, err);
    }
    if (status != COP_OK) {
        cop_checkpoint_close(out);
    }
    return status;
}

enum cop_status cop_checkpoint_open(struct cop_checkpoint *out, const char *folder,
                                    struct cop_error *err)
{
    return cop_checkpoint_open_file(out, folder, NULL, err);
}

void cop_checkpoint_close(struct cop_checkpoint *checkpoint)
{
    cop_source_close(&checkpoint->source);
    cop_json_tree_release(&checkpoint->tree);
}

static struct cop_config fields(const struct cop_checkpoint *checkpoint, struct cop_error *err)
{
    return (struct cop_config){.name = checkpoint->name,
                               .err = err,
                               .tree = checkpoint->tree,
                               .root = cop_json_root(&checkpoint->tree)};
}

enum cop_status cop_checkpoint_int(const struct cop_checkpoint *checkpoint, const char *key,
                                   int32_t max, int32_t fallback, int32_t *out,
                                   struct cop_error *err)
{
    const struct cop_config in = fields(checkpoint, err);
    return cop_config_int(&in, key, max, fallback, out);
}

enum cop_status cop_checkpoint_bool(const struct cop_checkpoint *checkpoint, const char *key,
                                    bool fallback, bool *out, struct cop_error *err)
{
    const struct cop_config in = fields(checkpoint, err);
    return cop_config_bool(&in, in.root, key, fallback, out);
}

enum cop_status cop_checkpoint_check_tokenizer(const struct cop_checkpoint *checkpoint,
                                               const struct cop_model *target,
                                               struct cop_error *err)
{
    char here[24];
    const struct cop_json_tree *tree = &checkpoint->tree;
    const struct cop_json_node *there =
        cop_json_get(tree, cop_json_root(tree), "target_tokenizer");
    const struct cop_tokenizer *tokenizer = cop_model_tokenizer(target);
    if (!there || !tokenizer) {
        return COP_OK;
    }
    (void)snprintf(here, sizeof here, "%016llx",
                   (unsigned long long)cop_tokenizer_fingerprint(tokenizer));
    return cop_json_is(there, here)
               ? COP_OK
               : cop_fail(err, COP_ERR_ARGUMENT,
                          "%s: it was trained for a tokenizer with other pieces than that of "
                          "\"%s\": give the target it was trained for (or remove "
                          "\"target_tokenizer\" there, where only unused pieces differ)",
                          checkpoint->name, cop_path_tail(cop_model_info(target)->path, 120));
}

void cop_checkpoint_compare(const struct cop_checkpoint *checkpoint, const char *key,
                            int32_t found, struct cop_error *err)
{
    const struct cop_json_tree *tree = &checkpoint->tree;
    const struct cop_json_node *node = cop_json_get(tree, cop_json_root(tree), key);
    if (node && node->kind == COP_JSON_INTEGER && node->integer != found) {
        cop_warn(err, "%s: \"%s\" is %lld, but by the tensors it is %d: the tensors are used",
                 checkpoint->name, key, (long long)node->integer, (int)found);
    }
}

enum cop_status cop_checkpoint_refuse_strangers(const struct cop_checkpoint *checkpoint,
                                                const char *of,
                                                bool (*owns)(const void *context,
                                                             const struct cop_tensor *tensor),
                                                const void *context, struct cop_error *err)
{
    for (size_t i = 0; i < cop_source_count(&checkpoint->source); i++) {
        const struct cop_tensor *tensor = cop_source_at(&checkpoint->source, i);
        if (!owns(context, tensor) && !cop_source_is_derived(tensor)) {
            char quoted[COP_QUOTE_SIZE];
            return cop_fail(err, COP_ERR_UNSUPPORTED, "%s: tensor \"%s\" has no place in %s",
                            cop_source_name(&checkpoint->source),
                            cop_quote(quoted, tensor->name.bytes, tensor->name.length), of);
        }
    }
    return COP_OK;
}

/* ---- Tensors ----------------------------------------------------------------------------- */

/* A vector is a matrix of one row to the check. */
enum cop_status cop_checkpoint_vector(const struct cop_checkpoint *checkpoint,
                                      const struct cop_tensor *tensor, float **out,
                                      struct cop_error *err)
{
    *out = NULL;
    enum cop_status status =
        cop_model_check_finite(cop_source_name(&checkpoint->source), tensor, err);
    if (status != COP_OK) {
        return status;
    }
    *out = malloc((size_t)tensor->dims[0] * sizeof **out);
    if (!*out) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the vectors of a head");
    }
    cop_format_info(tensor->format)->widen(tensor->data, tensor->dims[0], *out);
    return COP_OK;
}

enum cop_status cop_checkpoint_table(const struct cop_checkpoint *checkpoint,
                                     const struct cop_tensor *tensor, struct cop_matrix *out,
                                     struct cop_error *err)
{
    *out = (struct cop_matrix){.format = tensor->format,
                               .rows = (int32_t)tensor->dims[1],
                               .cols = (int32_t)tensor->dims[0],
                               .data = tensor->data};
    return cop_model_check_finite(cop_source_name(&checkpoint->source), tensor, err);
}

void cop_checkpoint_embed(const struct cop_matrix *table, const struct cop_model *target,
                          const cop_token *tokens, int32_t n, float *out)
{
    size_t cols = (size_t)table->cols;
    for (int32_t i = 0; i < n; i++) {
        int32_t first = i;
        while (i < n && tokens[i] >= 0 && tokens[i] < table->rows) {
            i++;
        }
        if (i > first) {
            target->ops->embed(target->device, table, tokens + first, i - first,
                               out + (size_t)first * cols);
        }
        if (i < n) {
            memset(out + (size_t)i * cols, 0, cols * sizeof *out);
        }
    }
}

static enum cop_product product_of(const struct cop_checkpoint *checkpoint)
{
    return checkpoint->weights == COP_HEAD_WEIGHTS_Q8_0 ? COP_PRODUCT_Q8_0 : COP_PRODUCT_F32;
}

enum cop_status cop_checkpoint_stack(const struct cop_checkpoint *checkpoint,
                                     const struct cop_tensor *const *tensors, int32_t n,
                                     const struct cop_model *target, struct cop_weight **out,
                                     struct cop_error *err)
{
    struct cop_matrix parts[COP_STACK_LIMIT];
    *out = NULL;
    for (int32_t i = 0; i < n; i++) {
        enum cop_status status = cop_checkpoint_table(checkpoint, tensors[i], &parts[i], err);
        if (status != COP_OK) {
            return status;
        }
    }
    *out = cop_model_stack(target, parts, n, product_of(checkpoint), NULL);
    if (!*out) {
        char quoted[COP_QUOTE_SIZE];
        return cop_fail(err, COP_ERR_MEMORY, "%s: no memory to repack tensor \"%s\" (%s)",
                        cop_source_name(&checkpoint->source),
                        cop_quote(quoted, tensors[0]->name.bytes, tensors[0]->name.length),
                        cop_format_info(tensors[0]->format)->name);
    }
    return COP_OK;
}

enum cop_status cop_checkpoint_weight(const struct cop_checkpoint *checkpoint,
                                      const struct cop_tensor *tensor,
                                      const struct cop_model *target, struct cop_weight **out,
                                      struct cop_error *err)
{
    return cop_checkpoint_stack(checkpoint, &tensor, 1, target, out, err);
}

enum cop_status cop_checkpoint_weight_rows(const struct cop_checkpoint *checkpoint,
                                           const struct cop_tensor *tensor, const int32_t *rows,
                                           int32_t n, const struct cop_model *target,
                                           struct cop_weight **out, struct cop_error *err)
{
    struct cop_matrix matrix;
    *out = NULL;
    enum cop_status status = cop_checkpoint_table(checkpoint, tensor, &matrix, err);
    return status == COP_OK ? cop_model_weight_rows(target, &matrix, rows, n,
                                                    product_of(checkpoint), out, err)
                            : status;
}

void cop_checkpoint_free_weight(const struct cop_model *target, struct cop_weight *weight)
{
    if (weight) {
        target->ops->weight_free(target->device, weight);
    }
}
