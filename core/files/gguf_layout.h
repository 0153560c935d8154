/* What an opened GGUF file looks like in memory; private to core/files. */
#ifndef COP_FILES_GGUF_LAYOUT_H
#define COP_FILES_GGUF_LAYOUT_H

#include "core/files/gguf.h"

enum gguf_type { /* numbers of the container */
                 TYPE_U8,
                 TYPE_I8,
                 TYPE_U16,
                 TYPE_I16,
                 TYPE_U32,
                 TYPE_I32,
                 TYPE_F32,
                 TYPE_BOOL,
                 TYPE_STRING,
                 TYPE_ARRAY,
                 TYPE_U64,
                 TYPE_I64,
                 TYPE_F64,
                 TYPE_COUNT
};

/* One key with its checked value: `count` items of `item` at `at`; a scalar is one item.
 * Walking the items from `at` stays inside the file. */
struct gguf_value {
    struct cop_string key;
    const uint8_t *at;
    uint64_t count;
    enum gguf_type item;
    bool is_array;
};

struct gguf_entry { /* a tensor and where its data is said to be */
    struct cop_tensor tensor;
    uint64_t offset; /* from the start of the data area */
};

struct cop_gguf {
    char *path;
    struct cop_map map;
    bool owns_map; /* false: the bytes belong to the caller of cop_gguf_open_memory */
    uint64_t alignment;
    struct gguf_value *values; /* sorted by key */
    size_t n_values, values_capacity;
    struct gguf_entry *entries; /* in the order of the file */
    size_t n_entries, entries_capacity;
    const struct cop_tensor **by_name; /* sorted by name */
};

/* Fills values, entries and by_name from map; on failure what was made is still owned by file.
 */
enum cop_status cop_gguf_parse(struct cop_gguf *file, struct cop_error *err);

/* cop_fail with the file's name in front. */
enum cop_status cop_gguf_fail(const struct cop_gguf *file, struct cop_error *err,
                              enum cop_status code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

int cop_gguf_compare(struct cop_string a, struct cop_string b); /* order of bytes */
size_t cop_gguf_width(enum gguf_type type);                     /* 0: strings and arrays */
const char *cop_gguf_type_name(enum gguf_type type);

/* Little-endian numbers at any address. */
static inline uint32_t cop_gguf_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
           (uint32_t)at[3] << 24;
}

static inline uint64_t cop_gguf_u64(const uint8_t *at)
{
    return (uint64_t)cop_gguf_u32(at) | (uint64_t)cop_gguf_u32(at + 4) << 32;
}

#endif
