/* What opened safetensors files look like in memory; private to core/files. */
#ifndef COP_FILES_SAFETENSORS_LAYOUT_H
#define COP_FILES_SAFETENSORS_LAYOUT_H

#include "core/base/json_tree.h"
#include "core/files/safetensors.h"

struct safetensors_entry {
    struct cop_tensor tensor; /* first: a tensor of ours is an entry */
    const char *type;
    size_t begin, end; /* in the data area of its shard */
    int32_t shard;
};

struct safetensors_shard {
    char *path;
    struct cop_map map;
    bool owns_map;
    struct cop_json_tree header; /* holds the names of the tensors */
};

struct cop_safetensors {
    char *path; /* of the folder, or the name of what is in memory */
    struct safetensors_shard *shards;
    size_t n_shards, shards_capacity;
    struct safetensors_entry *entries; /* shard by shard, as in the files */
    size_t n_entries, entries_capacity;
    const struct safetensors_entry **by_name; /* sorted; of all entries */
};

/* Reads the header of the last shard and appends its tensors. */
enum cop_status cop_safetensors_read(struct cop_safetensors *files, struct cop_error *err);

/* Sorts by_name anew; two tensors of one name are refused. */
enum cop_status cop_safetensors_sort(struct cop_safetensors *files, struct cop_error *err);

/* Room for one more item of a table. */
bool cop_safetensors_grow(void **items, size_t count, size_t *capacity, size_t item_size);

#endif
