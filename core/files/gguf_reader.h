/* Walking the bytes of a GGUF header that may lie; private to core/files.
 *
 * A reader passes over the file once; `left` is what it may still touch. */
#ifndef COP_FILES_GGUF_READER_H
#define COP_FILES_GGUF_READER_H

#include "core/files/gguf_layout.h"

struct gguf_reader {
    struct cop_gguf *file;
    struct cop_error *err;
    const uint8_t *at;
    size_t left;
};

size_t cop_gguf_position(const struct gguf_reader *in);

/* The next `length` bytes, or NULL; the others return false and zero their result. */
const uint8_t *cop_gguf_take(struct gguf_reader *in, uint64_t length);
bool cop_gguf_take_u32(struct gguf_reader *in, uint32_t *value);
bool cop_gguf_take_u64(struct gguf_reader *in, uint64_t *value);
bool cop_gguf_take_string(struct gguf_reader *in, struct cop_string *string);

/* Makes room for one more item of a table that holds `count` of `capacity`. Tables grow as
 * entries are verified, so their size follows the file and not its claims. */
bool cop_gguf_grow(void **items, size_t count, size_t *capacity, size_t item_size);

enum cop_status cop_gguf_ends_early(const struct gguf_reader *in, const char *what);
enum cop_status cop_gguf_no_memory(const struct gguf_reader *in);

/* The tensor descriptions that follow the keys, their data placed and checked. */
enum cop_status cop_gguf_read_tensors(struct gguf_reader *in, uint64_t count);

#endif
