/* Asking a GGUF file for the values of its keys. */
#include "core/files/gguf_layout.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows by the numbers of the container. */
static const struct {
    const char *name;
    size_t width; /* bytes of an item; 0: it varies */
} types[TYPE_COUNT] = {
    [TYPE_U8] = {"an integer", 1},   [TYPE_I8] = {"an integer", 1},
    [TYPE_U16] = {"an integer", 2},  [TYPE_I16] = {"an integer", 2},
    [TYPE_U32] = {"an integer", 4},  [TYPE_I32] = {"an integer", 4},
    [TYPE_F32] = {"a number", 4},    [TYPE_BOOL] = {"a bool", 1},
    [TYPE_STRING] = {"a string", 0}, [TYPE_ARRAY] = {"an array", 0},
    [TYPE_U64] = {"an integer", 8},  [TYPE_I64] = {"an integer", 8},
    [TYPE_F64] = {"a number", 8},
};

size_t cop_gguf_width(enum gguf_type type)
{
    return types[type].width;
}

const char *cop_gguf_type_name(enum gguf_type type)
{
    return types[type].name;
}

/* ---- Finding keys ----------------------------------------------------------------------- */

static int compare_key(const void *key, const void *value)
{
    return cop_gguf_compare(*(const struct cop_string *)key,
                            ((const struct gguf_value *)value)->key);
}

static const struct gguf_value *find(const struct cop_gguf *file, const char *key)
{
    struct cop_string wanted = {key, strlen(key)};
    return file->n_values == 0 ? NULL
                               : bsearch(&wanted, file->values, file->n_values,
                                         sizeof *file->values, compare_key);
}

bool cop_gguf_has(const struct cop_gguf *file, const char *key)
{
    return find(file, key) != NULL;
}

/* Finds a key that must be there, and be an array or not. */
static enum cop_status need(const struct cop_gguf *file, const char *key, bool is_array,
                            const char *wanted, const struct gguf_value **value,
                            struct cop_error *err)
{
    *value = find(file, key);
    if (!*value) {
        return cop_gguf_fail(file, err, COP_ERR_FORMAT, "has no key \"%s\"", key);
    }
    if ((*value)->is_array != is_array) {
        return cop_gguf_fail(file, err, COP_ERR_FORMAT, "key \"%s\" is %s, not %s", key,
                             cop_gguf_type_name(is_array ? (*value)->item : TYPE_ARRAY),
                             wanted);
    }
    return COP_OK;
}

static enum cop_status wrong_type(const struct cop_gguf *file, const char *key,
                                  const struct gguf_value *value, const char *wanted,
                                  struct cop_error *err)
{
    return cop_gguf_fail(file, err, COP_ERR_FORMAT, "key \"%s\" is %s%s, not %s", key,
                         value->is_array ? "an array whose item is " : "",
                         cop_gguf_type_name(value->item), wanted);
}

/* ---- Single items ----------------------------------------------------------------------- */

static bool is_integer(enum gguf_type type)
{
    return type != TYPE_STRING && type != TYPE_ARRAY && type != TYPE_F32 && type != TYPE_F64;
}

/* False: the number is above INT64_MAX. */
static bool read_integer(enum gguf_type type, const uint8_t *at, int64_t *value)
{
    switch (type) {
    case TYPE_U8:
    case TYPE_BOOL: *value = at[0]; return true;
    case TYPE_I8: *value = (int8_t)at[0]; return true;
    case TYPE_U16: *value = at[0] | at[1] << 8; return true;
    case TYPE_I16: *value = (int16_t)(at[0] | at[1] << 8); return true;
    case TYPE_U32: *value = cop_gguf_u32(at); return true;
    case TYPE_I32: *value = (int32_t)cop_gguf_u32(at); return true;
    case TYPE_U64:
    case TYPE_I64: *value = (int64_t)cop_gguf_u64(at); break;
    case TYPE_F32:
    case TYPE_F64:
    case TYPE_STRING:
    case TYPE_ARRAY:
    case TYPE_COUNT: *value = 0; return false;
    }
    return type == TYPE_I64 || *value >= 0;
}

/* Any integer or float as a double; false: not a number of any kind, or not finite. */
static bool read_number(enum gguf_type type, const uint8_t *at, double *value)
{
    if (type == TYPE_F32) {
        float narrow;
        uint32_t bits = cop_gguf_u32(at);
        memcpy(&narrow, &bits, sizeof narrow);
        *value = (double)narrow;
    } else if (type == TYPE_F64) {
        uint64_t bits = cop_gguf_u64(at);
        memcpy(value, &bits, sizeof *value);
    } else if (type == TYPE_U64) {
        *value = (double)cop_gguf_u64(at);
    } else {
        int64_t integer;
        bool is_read = read_integer(type, at, &integer);
        *value = (double)integer;
        return is_read;
    }
    return isfinite(*value);
}

enum cop_status cop_gguf_int(const struct cop_gguf *file, const char *key, int64_t min,
                             int64_t max, const int64_t *fallback, int64_t *value,
                             struct cop_error *err)
{
    if (fallback && !cop_gguf_has(file, key)) {
        *value = *fallback;
        return COP_OK;
    }
    const struct gguf_value *found;
    *value = 0;
    enum cop_status status = need(file, key, false, "an integer", &found, err);
    if (status != COP_OK) {
        return status;
    }
    if (!is_integer(found->item)) {
        return wrong_type(file, key, found, "an integer", err);
    }
    if (!read_integer(found->item, found->at, value)) {
        return cop_gguf_fail(file, err, COP_ERR_FORMAT,
                             "key \"%s\" is %" PRIu64 ", outside [%" PRId64 ", %" PRId64 "]",
                             key, cop_gguf_u64(found->at), min, max);
    }
    if (*value < min || *value > max) {
        return cop_gguf_fail(file, err, COP_ERR_FORMAT,
                             "key \"%s\" is %" PRId64 ", outside [%" PRId64 ", %" PRId64 "]",
                             key, *value, min, max);
    }
    return COP_OK;
}

enum cop_status cop_gguf_number(const struct cop_gguf *file, const char *key,
                                const double *fallback, double *value, struct cop_error *err)
{
    if (fallback && !cop_gguf_has(file, key)) {
        *value = *fallback;
        return COP_OK;
    }
    const struct gguf_value *found;
    *value = 0;
    enum cop_status status = need(file, key, false, "a number", &found, err);
    if (status != COP_OK) {
        return status;
    }
    if (found->item == TYPE_STRING) {
        return wrong_type(file, key, found, "a number", err);
    }
    if (!read_number(found->item, found->at, value)) {
        return cop_gguf_fail(file, err, COP_ERR_FORMAT, "key \"%s\" is not finite", key);
    }
    return COP_OK;
}

enum cop_status cop_gguf_string(const struct cop_gguf *file, const char *key,
                                struct cop_string *value, struct cop_error *err)
{
    const struct gguf_value *found;
    *value = (struct cop_string){NULL, 0};
    enum cop_status status = need(file, key, false, "a string", &found, err);
    if (status != COP_OK) {
        return status;
    }
    if (found->item != TYPE_STRING) {
        return wrong_type(file, key, found, "a string", err);
    }
    value->length = (size_t)cop_gguf_u64(found->at);
    value->bytes = (const char *)found->at + 8;
    return COP_OK;
}

/* ---- Arrays ----------------------------------------------------------------------------- */

/* Finds an array and makes room for its items; *items is never NULL on success. */
static enum cop_status open_array(const struct cop_gguf *file, const char *key,
                                  const char *wanted, size_t item_size,
                                  const struct gguf_value **found, void **items, size_t *count,
                                  struct cop_error *err)
{
    *items = NULL;
    *count = 0;
    enum cop_status status = need(file, key, true, wanted, found, err);
    if (status != COP_OK) {
        return status;
    }
    size_t n_items = (size_t)(*found)->count;
    *items = calloc(n_items ? n_items : 1, item_size);
    if (!*items) {
        return cop_gguf_fail(file, err, COP_ERR_MEMORY, "no memory for the %zu items of \"%s\"",
                             n_items, key);
    }
    *count = n_items;
    return COP_OK;
}

enum cop_status cop_gguf_strings(const struct cop_gguf *file, const char *key,
                                 struct cop_string **items, size_t *count,
                                 struct cop_error *err)
{
    const struct gguf_value *found;
    void *room;
    enum cop_status status =
        open_array(file, key, "an array of strings", sizeof **items, &found, &room, count, err);
    *items = room;
    if (status != COP_OK) {
        return status;
    }
    if (found->item != TYPE_STRING) {
        free(room);
        *items = NULL;
        *count = 0;
        return wrong_type(file, key, found, "a string", err);
    }
    const uint8_t *at = found->at;
    for (size_t i = 0; i < *count; i++) {
        (*items)[i].length = (size_t)cop_gguf_u64(at);
        (*items)[i].bytes = (const char *)at + 8;
        at += 8 + (*items)[i].length;
    }
    return COP_OK;
}

enum cop_status cop_gguf_ints(const struct cop_gguf *file, const char *key, int64_t **items,
                              size_t *count, struct cop_error *err)
{
    const struct gguf_value *found;
    void *room;
    enum cop_status status = open_array(file, key, "an array of integers", sizeof **items,
                                        &found, &room, count, err);
    *items = room;
    for (size_t i = 0; status == COP_OK && i < *count; i++) {
        const uint8_t *at = found->at + i * cop_gguf_width(found->item);
        if (!is_integer(found->item)) {
            status = wrong_type(file, key, found, "an integer", err);
        } else if (!read_integer(found->item, at, &(*items)[i])) {
            status = cop_gguf_fail(file, err, COP_ERR_FORMAT,
                                   "key \"%s\": item %zu is too large", key, i);
        }
    }
    if (status != COP_OK) {
        free(room);
        *items = NULL;
        *count = 0;
    }
    return status;
}

enum cop_status cop_gguf_numbers(const struct cop_gguf *file, const char *key, double **items,
                                 size_t *count, struct cop_error *err)
{
    const struct gguf_value *found;
    void *room;
    enum cop_status status =
        open_array(file, key, "an array of numbers", sizeof **items, &found, &room, count, err);
    *items = room;
    for (size_t i = 0; status == COP_OK && i < *count; i++) {
        const uint8_t *at = found->at + i * cop_gguf_width(found->item);
        if (found->item == TYPE_STRING) {
            status = wrong_type(file, key, found, "a number", err);
        } else if (!read_number(found->item, at, &(*items)[i])) {
            status = cop_gguf_fail(file, err, COP_ERR_FORMAT,
                                   "key \"%s\": item %zu is not finite", key, i);
        }
    }
    if (status != COP_OK) {
        free(room);
        *items = NULL;
        *count = 0;
    }
    return status;
}
