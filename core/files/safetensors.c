/* The handle of a checkpoint: its files, its index, and looking tensors up. */
#include "core/files/safetensors.h"
#include "core/base/quote.h"
#include "core/files/gguf_layout.h"
#include "core/files/safetensors_layout.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_SHARDS 4096

static const char one_file[] = "model.safetensors";
static const char index_file[] = "model.safetensors.index.json";

bool cop_safetensors_grow(void **items, size_t count, size_t *capacity, size_t item_size)
{
    if (count < *capacity) {
        return true;
    }
    size_t wanted = *capacity ? 2 * *capacity : 16;
    void *grown = realloc(*items, wanted * item_size);
    if (!grown) {
        return false;
    }
    *items = grown;
    *capacity = wanted;
    return true;
}

static enum cop_status no_memory(const struct cop_safetensors *files, struct cop_error *err)
{
    return cop_fail(err, COP_ERR_MEMORY, "%s: no memory for its description",
                    files->path ? cop_path_tail(files->path, 160) : "safetensors");
}

/* ---- Names ------------------------------------------------------------------------------- */

static int compare_names(const void *left, const void *right)
{
    const struct safetensors_entry *a = *(const struct safetensors_entry *const *)left;
    const struct safetensors_entry *b = *(const struct safetensors_entry *const *)right;
    return cop_gguf_compare(a->tensor.name, b->tensor.name);
}

enum cop_status cop_safetensors_sort(struct cop_safetensors *files, struct cop_error *err)
{
    free(files->by_name);
    files->by_name = malloc((files->n_entries + 1) * sizeof *files->by_name);
    if (!files->by_name) {
        return no_memory(files, err);
    }
    for (size_t i = 0; i < files->n_entries; i++) {
        files->by_name[i] = &files->entries[i];
    }
    qsort(files->by_name, files->n_entries, sizeof *files->by_name, compare_names);
    for (size_t i = 1; i < files->n_entries; i++) {
        const struct safetensors_entry *a = files->by_name[i - 1], *b = files->by_name[i];
        if (compare_names(&a, &b) == 0) {
            char quoted[COP_QUOTE_SIZE];
            return cop_fail(
                err, COP_ERR_FORMAT, "%s: tensor \"%s\" is there twice%s%s",
                cop_path_tail(files->shards[b->shard].path, 160),
                cop_quote(quoted, a->tensor.name.bytes, a->tensor.name.length),
                a->shard == b->shard ? "" : ", also in ",
                a->shard == b->shard ? "" : cop_path_tail(files->shards[a->shard].path, 100));
        }
    }
    return COP_OK;
}

static const struct safetensors_entry *find(const struct cop_safetensors *files,
                                            struct cop_string name)
{
    const struct safetensors_entry wanted = {.tensor = {.name = name}};
    const struct safetensors_entry *key = &wanted;
    const struct safetensors_entry *const *found =
        files->n_entries == 0 ? NULL
                              : bsearch(&key, files->by_name, files->n_entries,
                                        sizeof *files->by_name, compare_names);
    return found ? *found : NULL;
}

const struct cop_tensor *cop_safetensors_tensor(const struct cop_safetensors *files,
                                                const char *name)
{
    const struct safetensors_entry *entry =
        find(files, (struct cop_string){name, strlen(name)});
    return entry ? &entry->tensor : NULL;
}

size_t cop_safetensors_count(const struct cop_safetensors *files)
{
    return files->n_entries;
}

const struct cop_tensor *cop_safetensors_at(const struct cop_safetensors *files, size_t index)
{
    return &files->entries[index].tensor;
}

const char *cop_safetensors_type(const struct cop_safetensors *files,
                                 const struct cop_tensor *tensor)
{
    const struct safetensors_entry *entry = find(files, tensor->name);
    return entry ? entry->type : "";
}

const char *cop_safetensors_path(const struct cop_safetensors *files)
{
    return files->path;
}

size_t cop_safetensors_bytes(const struct cop_safetensors *files)
{
    size_t total = 0;
    for (size_t i = 0; i < files->n_shards; i++) {
        total += files->shards[i].map.size;
    }
    return total;
}

/* ---- Files ------------------------------------------------------------------------------- */

static enum cop_status add_shard(struct cop_safetensors *files, const char *path,
                                 const struct cop_map *memory, struct cop_error *err)
{
    if (!cop_safetensors_grow((void **)&files->shards, files->n_shards, &files->shards_capacity,
                              sizeof *files->shards)) {
        return no_memory(files, err);
    }
    struct safetensors_shard *shard = &files->shards[files->n_shards];
    *shard = (struct safetensors_shard){.path = strdup(path), .owns_map = !memory};
    if (!shard->path) {
        return no_memory(files, err);
    }
    files->n_shards++;
    enum cop_status status = COP_OK;
    if (memory) {
        shard->map = *memory;
    } else {
        status = cop_map_open(&shard->map, path, err);
    }
    return status == COP_OK ? cop_safetensors_read(files, err) : status;
}

/* folder + "/" + name, cut where it is longer than any path can be. */
static const char *path_in(char path[PATH_MAX], const struct cop_safetensors *files,
                           const char *name, size_t length)
{
    (void)snprintf(path, PATH_MAX, "%.3000s/%.*s", files->path, (int)length, name);
    return path;
}

/* ---- The index --------------------------------------------------------------------------- */

struct index {
    struct cop_safetensors *files;
    struct cop_error *err;
    const char *name; /* for messages */
    struct cop_json_tree tree;
};

/* A shard is a file of this folder and no other: its name is no path. */
static bool is_plain_name(const struct cop_json_node *node)
{
    return node->kind == COP_JSON_STRING && node->length > 0 && node->length < 256 &&
           node->text[0] != '.' && !memchr(node->text, '/', node->length) &&
           !memchr(node->text, '\0', node->length);
}

/* The shard that a node names, opened where it was not yet. */
static enum cop_status find_shard(struct index *index, const struct cop_json_node *node,
                                  int32_t *shard)
{
    struct cop_safetensors *files = index->files;
    char path[PATH_MAX], quoted[COP_QUOTE_SIZE];
    if (!is_plain_name(node)) {
        return cop_fail(index->err, COP_ERR_FORMAT,
                        "%s: tensor \"%s\" is not given the name of a file of this folder",
                        index->name, cop_quote(quoted, node->key, node->key_length));
    }
    (void)path_in(path, files, node->text, node->length);
    for (size_t i = files->n_shards; i-- > 0;) {
        if (strcmp(files->shards[i].path, path) == 0) {
            *shard = (int32_t)i;
            return COP_OK;
        }
    }
    if (files->n_shards == MOST_SHARDS) {
        return cop_fail(index->err, COP_ERR_LIMIT, "%s: names more than %d files", index->name,
                        MOST_SHARDS);
    }
    *shard = (int32_t)files->n_shards;
    return add_shard(files, path, NULL, index->err);
}

static enum cop_status check_place(const struct index *index, const struct cop_json_node *node,
                                   int32_t shard)
{
    const struct safetensors_entry *entry =
        find(index->files, (struct cop_string){node->key, node->key_length});
    if (entry && entry->shard == shard) {
        return COP_OK;
    }
    char quoted[COP_QUOTE_SIZE], file[COP_QUOTE_SIZE];
    return cop_fail(index->err, COP_ERR_FORMAT,
                    "%s: tensor \"%s\" is said to be in \"%s\", which does not hold it",
                    index->name, cop_quote(quoted, node->key, node->key_length),
                    cop_quote(file, node->text, node->length));
}

static enum cop_status follow(struct index *index)
{
    const struct cop_json_tree *tree = &index->tree;
    const struct cop_json_node *map = cop_json_get(tree, cop_json_root(tree), "weight_map");
    if (!map || map->kind != COP_JSON_OBJECT) {
        return cop_fail(index->err, COP_ERR_FORMAT, "%s: \"weight_map\" is not an object",
                        index->name);
    }
    enum cop_status status = COP_OK;
    const struct cop_json_node *node = cop_json_first(tree, map);
    for (; status == COP_OK && node; node = cop_json_after(tree, node)) {
        int32_t shard = -1;
        status = find_shard(index, node, &shard);
        if (status == COP_OK) {
            status = check_place(index, node, shard);
        }
    }
    return status;
}

static enum cop_status open_index(struct cop_safetensors *files, const char *path,
                                  struct cop_error *err)
{
    struct index index = {
        .files = files, .err = err, .name = cop_path_tail(path, 160), .tree = {0}};
    struct cop_map map;
    enum cop_status status = cop_map_open(&map, path, err);
    if (status != COP_OK) {
        return status;
    }
    struct cop_error inner = {.text = ""};
    status = cop_json_tree_read(&index.tree, map.data ? (const char *)map.data : "", map.size,
                                &inner);
    if (status == COP_OK) {
        status = follow(&index);
    } else {
        (void)cop_fail(err, status, "%s: %.300s", index.name, inner.text);
    }
    cop_json_tree_release(&index.tree);
    cop_map_close(&map);
    return status;
}

/* ---- Opening and closing ----------------------------------------------------------------- */

static enum cop_status open_folder(struct cop_safetensors *files, struct cop_error *err)
{
    char path[PATH_MAX];
    struct stat about;
    if (stat(files->path, &about) == 0 && S_ISREG(about.st_mode)) {
        return add_shard(files, files->path, NULL, err);
    }
    if (stat(path_in(path, files, one_file, sizeof one_file - 1), &about) == 0 ||
        errno != ENOENT) {
        return add_shard(files, path, NULL, err);
    }
    if (stat(path_in(path, files, index_file, sizeof index_file - 1), &about) == 0 ||
        errno != ENOENT) {
        return open_index(files, path, err);
    }
    return cop_fail(err, COP_ERR_IO,
                    "%s: this folder has neither %s nor %s (other kinds of weights are not "
                    "read)",
                    cop_path_tail(files->path, 160), one_file, index_file);
}

static enum cop_status open_any(struct cop_safetensors **out, const char *path,
                                const struct cop_map *memory, struct cop_error *err)
{
    *out = NULL;
    struct cop_safetensors *files = calloc(1, sizeof *files);
    if (!files || !(files->path = strdup(path))) {
        free(files);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a model's files");
    }
    enum cop_status status =
        memory ? add_shard(files, path, memory, err) : open_folder(files, err);
    if (status != COP_OK) {
        cop_safetensors_close(files);
        return status;
    }
    *out = files;
    return COP_OK;
}

enum cop_status cop_safetensors_open(struct cop_safetensors **out, const char *path,
                                     struct cop_error *err)
{
    return open_any(out, path, NULL, err);
}

enum cop_status cop_safetensors_open_memory(struct cop_safetensors **out, const char *name,
                                            const void *data, size_t size,
                                            struct cop_error *err)
{
    const struct cop_map memory = {.data = data, .size = size};
    return open_any(out, name, &memory, err);
}

void cop_safetensors_close(struct cop_safetensors *files)
{
    if (!files) {
        return;
    }
    for (size_t i = 0; i < files->n_shards; i++) {
        struct safetensors_shard *shard = &files->shards[i];
        cop_json_tree_release(&shard->header);
        if (shard->owns_map) {
            cop_map_close(&shard->map);
        }
        free(shard->path);
    }
    free(files->shards);
    free(files->entries);
    free(files->by_name);
    free(files->path);
    free(files);
}
