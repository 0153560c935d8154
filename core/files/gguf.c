/* Opening and closing GGUF files, and their tensors by name. */
#include "core/files/gguf.h"

#include "core/base/quote.h"
#include "core/files/gguf_layout.h"
#include "core/files/gguf_memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cop_gguf_compare(struct cop_string a, struct cop_string b)
{
    size_t common = a.length < b.length ? a.length : b.length;
    int order = common == 0 ? 0 : memcmp(a.bytes, b.bytes, common);
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

enum cop_status cop_gguf_fail(const struct cop_gguf *file, struct cop_error *err,
                              enum cop_status code, const char *format, ...)
{
    char text[320];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return cop_fail(err, code, "%s: %s", cop_path_tail(file->path, 150), text);
}

/* ---- Opening ---------------------------------------------------------------------------- */

static struct cop_gguf *new_file(const char *path)
{
    struct cop_gguf *file = calloc(1, sizeof *file);
    if (file) {
        file->path = strdup(path);
    }
    if (file && !file->path) {
        free(file);
        file = NULL;
    }
    return file;
}

/* Parses what is mapped; hands the file over or frees it. */
static enum cop_status finish(struct cop_gguf *file, struct cop_gguf **out,
                              struct cop_error *err)
{
    enum cop_status status = cop_gguf_parse(file, err);
    if (status != COP_OK) {
        cop_gguf_close(file);
        return status;
    }
    *out = file;
    return COP_OK;
}

enum cop_status cop_gguf_open(struct cop_gguf **out, const char *path, struct cop_error *err)
{
    *out = NULL;
    struct cop_gguf *file = new_file(path);
    if (!file) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to open a file");
    }
    enum cop_status status = cop_map_open(&file->map, path, err);
    if (status != COP_OK) {
        cop_gguf_close(file);
        return status;
    }
    file->owns_map = true;
    return finish(file, out, err);
}

enum cop_status cop_gguf_open_memory(struct cop_gguf **out, const char *name, const void *data,
                                     size_t size, struct cop_error *err)
{
    *out = NULL;
    struct cop_gguf *file = new_file(name);
    if (!file) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to open a file");
    }
    file->map.data = data;
    file->map.size = size;
    return finish(file, out, err);
}

void cop_gguf_close(struct cop_gguf *file)
{
    if (!file) {
        return;
    }
    if (file->owns_map) {
        cop_map_close(&file->map);
    }
    free(file->by_name);
    free(file->entries);
    free(file->values);
    free(file->path);
    free(file);
}

const char *cop_gguf_path(const struct cop_gguf *file)
{
    return file->path;
}

const struct cop_map *cop_gguf_map(const struct cop_gguf *file)
{
    return &file->map;
}

/* ---- Tensors ---------------------------------------------------------------------------- */

static int compare_tensor_name(const void *key, const void *tensor)
{
    return cop_gguf_compare(*(const struct cop_string *)key,
                            (*(const struct cop_tensor *const *)tensor)->name);
}

const struct cop_tensor *cop_gguf_tensor(const struct cop_gguf *file, const char *name)
{
    struct cop_string wanted = {name, strlen(name)};
    if (file->n_entries == 0) {
        return NULL;
    }
    const struct cop_tensor **found = bsearch(&wanted, file->by_name, file->n_entries,
                                              sizeof *file->by_name, compare_tensor_name);
    return found ? *found : NULL;
}

size_t cop_gguf_tensor_count(const struct cop_gguf *file)
{
    return file->n_entries;
}

const struct cop_tensor *cop_gguf_tensor_at(const struct cop_gguf *file, size_t index)
{
    return &file->entries[index].tensor;
}
