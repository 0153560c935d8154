/* The head and the keys of a GGUF file.
 *
 * Names are checked for duplicates by sorting, which no choice of names can slow down. */
#include "core/base/quote.h"
#include "core/files/gguf_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The least bytes that a key and a tensor description take, for a first check of the counts. */
#define LEAST_KEY    (8 + 4 + 1)
#define LEAST_TENSOR (8 + 4 + 8 + 4 + 8)

/* ---- Keys ------------------------------------------------------------------------------- */

static enum cop_status bad_key(const struct gguf_reader *in, struct cop_string key,
                               enum cop_status code, const char *what, uint64_t number)
{
    char name[COP_QUOTE_SIZE];
    return cop_gguf_fail(in->file, in->err, code, "key \"%s\": %s %" PRIu64,
                         cop_quote(name, key.bytes, key.length), what, number);
}

static enum cop_status key_ends_early(const struct gguf_reader *in, struct cop_string key)
{
    char name[COP_QUOTE_SIZE];
    char what[COP_QUOTE_SIZE + 32];
    (void)snprintf(what, sizeof what, "the value of key \"%s\"",
                   cop_quote(name, key.bytes, key.length));
    return cop_gguf_ends_early(in, what);
}

/* The items of a value whose type and count are known. */
static enum cop_status read_items(struct gguf_reader *in, struct gguf_value *value)
{
    value->at = in->at;
    size_t width = cop_gguf_width(value->item);
    if (value->item == TYPE_STRING) {
        if (value->count > in->left / 8) {
            return key_ends_early(in, value->key);
        }
        for (uint64_t i = 0; i < value->count; i++) {
            struct cop_string item;
            if (!cop_gguf_take_string(in, &item)) {
                return key_ends_early(in, value->key);
            }
        }
        return COP_OK;
    }
    if (value->count > in->left / width || !cop_gguf_take(in, value->count * width)) {
        return key_ends_early(in, value->key);
    }
    for (uint64_t i = 0; value->item == TYPE_BOOL && i < value->count; i++) {
        if (value->at[i] > 1) {
            return bad_key(in, value->key, COP_ERR_FORMAT, "a bool is", value->at[i]);
        }
    }
    return COP_OK;
}

static enum cop_status read_value(struct gguf_reader *in, struct gguf_value *value)
{
    uint32_t type;
    if (!cop_gguf_take_u32(in, &type)) {
        return key_ends_early(in, value->key);
    }
    value->count = 1;
    value->is_array = type == TYPE_ARRAY;
    if (value->is_array) {
        if (!cop_gguf_take_u32(in, &type) || !cop_gguf_take_u64(in, &value->count)) {
            return key_ends_early(in, value->key);
        }
        if (type == TYPE_ARRAY) {
            return bad_key(in, value->key, COP_ERR_UNSUPPORTED,
                           "an array of arrays, which is not read; outer count", value->count);
        }
    }
    if (type >= TYPE_COUNT) {
        return bad_key(in, value->key, COP_ERR_FORMAT, "unknown value type", type);
    }
    value->item = (enum gguf_type)type;
    return read_items(in, value);
}

static int by_key(const void *a, const void *b)
{
    const struct gguf_value *left = a;
    const struct gguf_value *right = b;
    return cop_gguf_compare(left->key, right->key);
}

static enum cop_status read_keys(struct gguf_reader *in, uint64_t count)
{
    struct cop_gguf *file = in->file;
    for (uint64_t i = 0; i < count; i++) {
        struct gguf_value value = {0};
        if (!cop_gguf_take_string(in, &value.key)) {
            return cop_gguf_ends_early(in, "the name of a key");
        }
        enum cop_status status = read_value(in, &value);
        if (status != COP_OK) {
            return status;
        }
        void *items = file->values;
        if (!cop_gguf_grow(&items, file->n_values, &file->values_capacity, sizeof value)) {
            return cop_gguf_no_memory(in);
        }
        file->values = items;
        file->values[file->n_values++] = value;
    }
    if (file->n_values > 0) {
        qsort(file->values, file->n_values, sizeof *file->values, by_key);
    }
    for (size_t i = 1; i < file->n_values; i++) {
        struct cop_string key = file->values[i].key;
        if (cop_gguf_compare(file->values[i - 1].key, key) == 0) {
            char name[COP_QUOTE_SIZE];
            return cop_gguf_fail(file, in->err, COP_ERR_FORMAT, "key \"%s\" occurs twice",
                                 cop_quote(name, key.bytes, key.length));
        }
    }
    return COP_OK;
}

static enum cop_status read_alignment(struct gguf_reader *in)
{
    int64_t fallback = 32;
    int64_t alignment;
    enum cop_status status = cop_gguf_int(in->file, "general.alignment", 8, INT32_MAX,
                                          &fallback, &alignment, in->err);
    if (status == COP_OK && (alignment & (alignment - 1)) != 0) {
        status = cop_gguf_fail(
            in->file, in->err, COP_ERR_FORMAT,
            "key \"general.alignment\" is %" PRId64 ", which is not a power of two", alignment);
    }
    in->file->alignment = (uint64_t)alignment;
    return status;
}

/* ---- The whole -------------------------------------------------------------------------- */

static enum cop_status read_head(struct gguf_reader *in, uint64_t *n_tensors, uint64_t *n_keys)
{
    const uint8_t *magic = cop_gguf_take(in, 4);
    if (!magic || memcmp(magic, "GGUF", 4) != 0) {
        return cop_gguf_fail(in->file, in->err, COP_ERR_FORMAT,
                             "is not a GGUF file (its first four bytes are not \"GGUF\")");
    }
    uint32_t version;
    if (!cop_gguf_take_u32(in, &version)) {
        return cop_gguf_ends_early(in, "the header");
    }
    if (version != 2 && version != 3) {
        bool is_swapped = version == 0x02000000 || version == 0x03000000;
        return cop_gguf_fail(in->file, in->err, COP_ERR_UNSUPPORTED,
                             is_swapped ? "is a big-endian GGUF file (version field %" PRIu32
                                          "); only little-endian ones are read"
                                        : "is GGUF version %" PRIu32 "; known are 2 and 3",
                             version);
    }
    if (!cop_gguf_take_u64(in, n_tensors) || !cop_gguf_take_u64(in, n_keys)) {
        return cop_gguf_ends_early(in, "the header");
    }
    if (*n_keys > in->left / LEAST_KEY) {
        return cop_gguf_fail(in->file, in->err, COP_ERR_FORMAT,
                             "claims %" PRIu64 " keys, more than its %zu bytes can hold",
                             *n_keys, in->file->map.size);
    }
    if (*n_tensors > in->left / LEAST_TENSOR) {
        return cop_gguf_fail(in->file, in->err, COP_ERR_FORMAT,
                             "claims %" PRIu64 " tensors, more than its %zu bytes can hold",
                             *n_tensors, in->file->map.size);
    }
    return COP_OK;
}

enum cop_status cop_gguf_parse(struct cop_gguf *file, struct cop_error *err)
{
    struct gguf_reader in = {file, err, file->map.data, file->map.size};
    uint64_t n_tensors;
    uint64_t n_keys;
    enum cop_status status = read_head(&in, &n_tensors, &n_keys);
    if (status == COP_OK) {
        status = read_keys(&in, n_keys);
    }
    if (status == COP_OK) {
        status = read_alignment(&in);
    }
    if (status == COP_OK) {
        status = cop_gguf_read_tensors(&in, n_tensors);
    }
    return status;
}
