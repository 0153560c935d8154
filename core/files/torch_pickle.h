/* The pickle inside a PyTorch file, as far as it says where tensors lie; private to core/files.
 *
 * A pickle is a program for a small stack machine, and Python's machine calls what the program
 * names. Ours calls nothing: it knows some thirty opcodes, and of names only those with which
 * tensors are rebuilt (the table in torch_call.c), which it answers with values of its own.
 * Any other opcode or name ends the reading and is told. Nothing recurses, and a value costs at
 * least one byte of the file. */
#ifndef COP_FILES_TORCH_PICKLE_H
#define COP_FILES_TORCH_PICKLE_H

#include "core/base/error.h"
#include "core/files/gguf.h"

enum torch_kind {
    TORCH_NONE,
    TORCH_BOOL,
    TORCH_INT,
    TORCH_NUMBER, /* a float: nobody asks which */
    TORCH_STRING,
    TORCH_TUPLE,
    TORCH_LIST,
    TORCH_DICT,    /* items: key, value, key, value … */
    TORCH_GLOBAL,  /* integer: its row in the table of names */
    TORCH_STORAGE, /* items: the tuple that describes it */
    TORCH_TENSOR   /* items: the arguments of _rebuild_tensor_v2 */
};

enum { TORCH_NOTHING = -1 }; /* as an index */

struct torch_value {
    enum torch_kind kind;
    int32_t first, last, count; /* items: a list of cells */
    union {
        int64_t integer;
        struct cop_string string; /* inside the file */
    } of;
};

struct torch_cell {
    int32_t value, next; /* next: TORCH_NOTHING at the end */
};

struct torch_pickle {
    struct torch_value *values;
    struct torch_cell *cells;
    int32_t root;
    int32_t n_values, n_cells, values_capacity, cells_capacity;
};

/* The types of storages: "F32" and how many bytes a number takes. */
struct torch_type {
    const char *name;
    size_t bytes;
    enum cop_format format;
};

enum cop_status cop_torch_pickle_read(struct torch_pickle *out, const char *name,
                                      const uint8_t *data, size_t size, struct cop_error *err);
void cop_torch_pickle_release(struct torch_pickle *pickle); /* idempotent */

/* The i-th item of a container, or NULL. */
const struct torch_value *cop_torch_item(const struct torch_pickle *pickle,
                                         const struct torch_value *value, int32_t i);
/* The type that a global stands for; NULL: it is none. */
const struct torch_type *cop_torch_type(const struct torch_value *global);

#endif
