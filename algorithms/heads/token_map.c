/* Reading a map. */
#include "algorithms/heads/token_map.h"
#include "core/base/quote.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 24 };

struct entry {
    int64_t id;
    int32_t column;
};

static int compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static enum cop_status check_tensor(const struct cop_checkpoint *files,
                                    const struct cop_tensor *tensor, struct cop_error *err)
{
    const char *type = cop_source_type(&files->source, tensor);
    char quoted[COP_QUOTE_SIZE], shape[COP_SHAPE_SIZE];
    return tensor->rank == 1 && tensor->dims[0] >= 1 && tensor->dims[0] <= MOST &&
                   strcmp(type, "I64") == 0
               ? COP_OK
               : cop_fail(
                     err, COP_ERR_FORMAT,
                     "%s: tensor \"%s\" has shape %s and type %s, expected a vector of I64",
                     cop_source_name(&files->source),
                     cop_quote(quoted, tensor->name.bytes, tensor->name.length),
                     cop_source_shape(shape, tensor), type);
}

static enum cop_status fill(struct cop_token_map *map, const struct cop_checkpoint *files,
                            const struct entry *entries, struct cop_error *err)
{
    for (int32_t i = 0; i < map->n; i++) {
        int64_t id = entries[i].id;
        bool is_twice = i > 0 && id == entries[i - 1].id;
        if (is_twice || id < 0 || id >= MOST) {
            return cop_fail(err, COP_ERR_FORMAT, "%s: \"token_map\" has id %lld%s",
                            cop_source_name(&files->source), (long long)id,
                            is_twice ? " twice" : "");
        }
        map->ids[i] = (cop_token)id;
        map->columns[i] = entries[i].column;
    }
    return COP_OK;
}

enum cop_status cop_token_map_read(struct cop_token_map *map,
                                   const struct cop_checkpoint *files,
                                   const struct cop_tensor *tensor, struct cop_error *err)
{
    *map = (struct cop_token_map){0};
    enum cop_status status = check_tensor(files, tensor, err);
    if (status != COP_OK) {
        return status;
    }
    size_t n = (size_t)tensor->dims[0];
    struct entry *entries = malloc(n * sizeof *entries);
    map->n = (int32_t)n;
    map->tensor = tensor;
    map->ids = malloc(n * sizeof *map->ids);
    map->columns = malloc(n * sizeof *map->columns);
    status = entries && map->ids && map->columns
                 ? COP_OK
                 : cop_fail(err, COP_ERR_MEMORY, "no memory for a map of %zu ids", n);
    for (size_t i = 0; status == COP_OK && i < n; i++) {
        memcpy(&entries[i].id, (const uint8_t *)tensor->data + i * sizeof entries[i].id,
               sizeof entries[i].id);
        entries[i].column = (int32_t)i;
    }
    if (status == COP_OK) {
        qsort(entries, n, sizeof *entries, compare);
        status = fill(map, files, entries, err);
    }
    free(entries);
    if (status != COP_OK) {
        cop_token_map_release(map);
    }
    return status;
}

void cop_token_map_release(struct cop_token_map *map)
{
    free(map->ids);
    free(map->columns);
    *map = (struct cop_token_map){0};
}
