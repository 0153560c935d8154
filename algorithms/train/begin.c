/* Weights of a head that is there already, its own training or a published one, as where a
 * training begins. */
#include "algorithms/train/trainer_state.h"
#include "core/base/quote.h"
#include "core/files/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has_shape(const struct cop_tensor *tensor, int32_t rows, int32_t cols)
{
    return tensor->rank == (rows > 0 ? 2 : 1) && tensor->dims[0] == cols &&
           (rows == 0 || tensor->dims[1] == rows);
}

/* Row i of the tensor becomes row i, or row_of[i] where a map has one. */
static enum cop_status read_rows(const char *name, const struct cop_tensor *tensor,
                                 const int32_t *row_of, struct cop_parameter *p,
                                 struct cop_error *err)
{
    const struct cop_format_info *info = cop_format_info(tensor->format);
    int32_t rows = p->rows > 0 ? (int32_t)tensor->dims[1] : 1;
    size_t bytes = (size_t)p->cols * (size_t)info->block_bytes, cols = (size_t)p->cols;
    float *row = malloc(cols * sizeof *row);
    enum cop_status status = row ? COP_OK : cop_fail(err, COP_ERR_MEMORY, "no memory for rows");
    for (int32_t i = 0; i < rows && status == COP_OK; i++) {
        info->widen((const char *)tensor->data + (size_t)i * bytes, p->cols, row);
        int32_t at = row_of ? row_of[i] : i;
        for (size_t k = 0; k < cols && status == COP_OK; k++) {
            if (!isfinite(row[k])) {
                status = cop_fail(err, COP_ERR_NUMERIC, "%s: \"%s\" holds %g", name, p->name,
                                  (double)row[k]);
            } else if (at >= 0) {
                p->value[(size_t)at * cols + k] = row[k];
            }
        }
    }
    free(row);
    return status;
}

/* Where the rows of the file's LM head of a reduced vocabulary stand in ours, -1: not there.
 * *out is NULL where the file has no map. */
static enum cop_status read_map(const struct cop_trainer *trainer,
                                const struct cop_safetensors *files, const char *name,
                                int32_t **out, struct cop_error *err)
{
    const struct cop_tensor *map = cop_safetensors_tensor(files, "d2t");
    const struct cop_network_options *options = &trainer->options.network;
    *out = NULL;
    if (!map || !options->ids) {
        return COP_OK;
    }
    int64_t rows = map->dims[0];
    if (strcmp(cop_safetensors_type(files, map), "I64") != 0 || rows < 1 ||
        rows > trainer->target.vocab) {
        return cop_fail(err, COP_ERR_FORMAT, "%s: \"d2t\" is no map of 64-bit integers", name);
    }
    *out = malloc((size_t)rows * sizeof **out);
    if (!*out) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a map");
    }
    for (int64_t i = 0; i < rows; i++) {
        int64_t offset;
        memcpy(&offset, (const char *)map->data + (size_t)i * sizeof offset, sizeof offset);
        const cop_token id = (cop_token)(i + offset), *ids = options->ids;
        int32_t low = 0, high = options->n_ids;
        while (low < high) {
            int32_t middle = (low + high) / 2;
            low = ids[middle] < id ? middle + 1 : low;
            high = ids[middle] < id ? high : middle;
        }
        (*out)[i] = low < options->n_ids && ids[low] == id ? low : -1;
    }
    return COP_OK;
}

static enum cop_status read_parameter(const struct cop_trainer *trainer,
                                      const struct cop_safetensors *files, const char *name,
                                      struct cop_parameter *p, struct cop_error *err)
{
    const struct cop_tensor *tensor = cop_safetensors_tensor(files, p->name);
    if (!tensor || tensor->format == COP_FORMAT_COUNT) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: no tensor \"%s\" of numbers: not a \"%s\" head "
                        "with these options",
                        name, p->name, trainer->options.head);
    }
    int32_t *row_of = NULL, rows = p->rows;
    enum cop_status status = COP_OK;
    if (strcmp(p->name, "lm_head.weight") == 0) {
        status = read_map(trainer, files, name, &row_of, err);
        rows = row_of ? (int32_t)cop_safetensors_tensor(files, "d2t")->dims[0] : rows;
    }
    if (status == COP_OK && !has_shape(tensor, rows, p->cols)) {
        status =
            cop_fail(err, COP_ERR_FORMAT,
                     "%s: \"%s\" is [%lld, %lld], and these options and the target make it "
                     "[%d, %d]",
                     name, p->name, (long long)(tensor->rank > 1 ? tensor->dims[1] : 0),
                     (long long)tensor->dims[0], rows, p->cols);
    }
    if (status == COP_OK) {
        status = read_rows(name, tensor, row_of, p, err);
    }
    free(row_of);
    return status;
}

enum cop_status cop_trainer_begin(struct cop_trainer *trainer, const char *folder,
                                  struct cop_error *err)
{
    char path[4096];
    const char *name = cop_path_tail(folder, 200);
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, trainer->network.ops->file) >=
        sizeof path) {
        return cop_fail(err, COP_ERR_ARGUMENT, "the path of the weights is too long");
    }
    if (access(path, R_OK) != 0) {
        return cop_fail(
            err, COP_ERR_IO,
            "no \"%s\" in \"%s\" to begin from: give the folder of a \"%s\" head in "
            "safetensors",
            trainer->network.ops->file, name, trainer->options.head);
    }
    struct cop_safetensors *files;
    enum cop_status status = cop_safetensors_open(&files, path, err);
    struct cop_parameters *parameters = &trainer->network.parameters;
    for (int32_t i = 0; i < parameters->n && status == COP_OK; i++) {
        status = read_parameter(trainer, files, name, parameters->list[i], err);
    }
    cop_safetensors_close(files);
    return status;
}
