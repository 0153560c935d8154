/* The reader: every step checked against what is left. */
#include "core/files/gguf_reader.h"

#include <stdlib.h>

size_t cop_gguf_position(const struct gguf_reader *in)
{
    return in->file->map.size - in->left;
}

enum cop_status cop_gguf_ends_early(const struct gguf_reader *in, const char *what)
{
    return cop_gguf_fail(in->file, in->err, COP_ERR_FORMAT,
                         "the file ends inside %s (at byte %zu of %zu)", what,
                         cop_gguf_position(in), in->file->map.size);
}

const uint8_t *cop_gguf_take(struct gguf_reader *in, uint64_t length)
{
    if (length > in->left) {
        return NULL;
    }
    const uint8_t *bytes = in->at;
    in->at += length;
    in->left -= (size_t)length;
    return bytes;
}

bool cop_gguf_take_u32(struct gguf_reader *in, uint32_t *value)
{
    const uint8_t *bytes = cop_gguf_take(in, 4);
    *value = bytes ? cop_gguf_u32(bytes) : 0;
    return bytes != NULL;
}

bool cop_gguf_take_u64(struct gguf_reader *in, uint64_t *value)
{
    const uint8_t *bytes = cop_gguf_take(in, 8);
    *value = bytes ? cop_gguf_u64(bytes) : 0;
    return bytes != NULL;
}

bool cop_gguf_take_string(struct gguf_reader *in, struct cop_string *string)
{
    uint64_t length;
    if (!cop_gguf_take_u64(in, &length)) {
        return false;
    }
    const uint8_t *bytes = cop_gguf_take(in, length);
    string->bytes = (const char *)bytes;
    string->length = bytes ? (size_t)length : 0;
    return bytes != NULL;
}

bool cop_gguf_grow(void **items, size_t count, size_t *capacity, size_t item_size)
{
    if (count < *capacity) {
        return true;
    }
    size_t larger = *capacity ? *capacity * 2 : 64;
    void *moved = realloc(*items, larger * item_size);
    if (moved) {
        *items = moved;
        *capacity = larger;
    }
    return moved != NULL;
}

enum cop_status cop_gguf_no_memory(const struct gguf_reader *in)
{
    return cop_gguf_fail(in->file, in->err, COP_ERR_MEMORY, "no memory for the header");
}
