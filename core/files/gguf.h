/* GGUF v2 and v3, the container of quantised models (ggml-org/ggml: docs/gguf.md).
 *
 *     "GGUF" version n_tensors n_keys | key, type, value … | name, rank, dims, type, offset …
 *     | pad | data
 *
 * Everything here comes from a stranger: each count, size and offset is checked against the
 * file before it is used, and nothing is allocated in proportion to a number that the file
 * merely claims. Values are views into the mapping and live as long as the cop_gguf. */
#ifndef COP_FILES_GGUF_H
#define COP_FILES_GGUF_H

#include "core/base/error.h"
#include "core/files/map.h"
#include "kernels/ops.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cop_gguf;

struct cop_string {
    const char *bytes; /* not terminated; may hold zero bytes */
    size_t length;
};

/* A tensor as the file describes it. dims[0] is the fastest index (GGUF order): a matrix
 * [rows, cols] has dims {cols, rows}. */
struct cop_tensor {
    struct cop_string name;
    enum cop_format format; /* COP_FORMAT_COUNT: none that an operation reads (here I64) */
    int32_t rank;           /* 1 to 4 */
    int64_t dims[4];        /* unused ones are 1 */
    const void *data;       /* inside the mapping, `bytes` long, checked */
    size_t bytes;
};

/* Opens and checks the whole header: magic, version, counts, types, unique names, alignment,
 * and that every tensor's data lies inside the file without overlap. Messages name the file,
 * the field and the value. *out is NULL after failure. */
enum cop_status cop_gguf_open(struct cop_gguf **out, const char *path, struct cop_error *err);
void cop_gguf_close(struct cop_gguf *file); /* NULL is fine */

const char *cop_gguf_path(const struct cop_gguf *file);
const struct cop_map *cop_gguf_map(const struct cop_gguf *file);
bool cop_gguf_has(const struct cop_gguf *file, const char *key);

/* Scalars. The integer getter takes any integer type of the file (and bool) and checks [min,
 * max]; the number getter any integer or float type and rejects what is not finite. A missing
 * key gives COP_ERR_FORMAT naming file and key, unless `fallback` is not NULL: then *value =
 * *fallback. */
enum cop_status cop_gguf_int(const struct cop_gguf *file, const char *key, int64_t min,
                             int64_t max, const int64_t *fallback, int64_t *value,
                             struct cop_error *err);
enum cop_status cop_gguf_number(const struct cop_gguf *file, const char *key,
                                const double *fallback, double *value, struct cop_error *err);
enum cop_status cop_gguf_string(const struct cop_gguf *file, const char *key,
                                struct cop_string *value, struct cop_error *err);

/* Arrays. count is checked against the file; strings are walked once into *items, which the
 * caller frees (the bytes stay in the mapping). Integers and numbers likewise. A missing key
 * gives COP_ERR_FORMAT; use cop_gguf_has first where it is optional. */
enum cop_status cop_gguf_strings(const struct cop_gguf *file, const char *key,
                                 struct cop_string **items, size_t *count,
                                 struct cop_error *err);
enum cop_status cop_gguf_ints(const struct cop_gguf *file, const char *key, int64_t **items,
                              size_t *count, struct cop_error *err);
enum cop_status cop_gguf_numbers(const struct cop_gguf *file, const char *key, double **items,
                                 size_t *count, struct cop_error *err);

/* "Q4_1": the type as the file calls it. */
const char *cop_gguf_type(const struct cop_tensor *tensor);

/* Tensors: by name (NULL if absent), or by number for listings. */
const struct cop_tensor *cop_gguf_tensor(const struct cop_gguf *file, const char *name);
size_t cop_gguf_tensor_count(const struct cop_gguf *file);
const struct cop_tensor *cop_gguf_tensor_at(const struct cop_gguf *file, size_t index);

#endif
