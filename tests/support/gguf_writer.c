/* The writer behind gguf_writer.h: three growing byte strings (keys, tensor descriptions, data)
 * that are joined behind a header. */
#include "tests/support/gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct buffer {
    uint8_t *bytes;
    size_t length, capacity;
};

struct gguf_writer {
    struct buffer keys, tensors, data, image;
    uint64_t n_keys, n_tensors;
    uint64_t alignment;
    uint32_t version;
    bool is_lying;
    uint64_t claimed_keys, claimed_tensors;
    char path[256]; /* empty: not saved */
};

static void append(struct buffer *buffer, const void *bytes, size_t length)
{
    if (buffer->length + length > buffer->capacity) {
        buffer->capacity = 2 * buffer->capacity + length + 64;
        buffer->bytes = realloc(buffer->bytes, buffer->capacity);
        if (!buffer->bytes) {
            abort();
        }
    }
    if (length > 0) {
        memcpy(buffer->bytes + buffer->length, bytes, length);
        buffer->length += length;
    }
}

static void append_u32(struct buffer *buffer, uint32_t value)
{
    append(buffer, &value, sizeof value);
}

static void append_u64(struct buffer *buffer, uint64_t value)
{
    append(buffer, &value, sizeof value);
}

static void append_string(struct buffer *buffer, const char *bytes, size_t length)
{
    append_u64(buffer, length);
    append(buffer, bytes, length);
}

static void pad(struct buffer *buffer, uint64_t alignment)
{
    while (alignment > 0 && buffer->length % alignment != 0) {
        append(buffer, "", 1);
    }
}

struct gguf_writer *gguf_writer_new(void)
{
    struct gguf_writer *w = calloc(1, sizeof *w);
    if (!w) {
        abort();
    }
    w->version = 3;
    w->alignment = 32;
    return w;
}

void gguf_writer_free(struct gguf_writer *w)
{
    if (!w) {
        return;
    }
    if (w->path[0]) {
        (void)unlink(w->path);
    }
    free(w->keys.bytes);
    free(w->tensors.bytes);
    free(w->data.bytes);
    free(w->image.bytes);
    free(w);
}

void gguf_set_version(struct gguf_writer *w, uint32_t version)
{
    w->version = version;
}

void gguf_set_alignment(struct gguf_writer *w, uint64_t alignment)
{
    w->alignment = alignment;
}

void gguf_lie_about_counts(struct gguf_writer *w, uint64_t n_tensors, uint64_t n_keys)
{
    w->is_lying = true;
    w->claimed_tensors = n_tensors;
    w->claimed_keys = n_keys;
}

/* ---- Keys ---- */

void gguf_put_raw(struct gguf_writer *w, const char *key, uint32_t type, const void *bytes,
                  size_t length)
{
    append_string(&w->keys, key, strlen(key));
    append_u32(&w->keys, type);
    append(&w->keys, bytes, length);
    w->n_keys++;
}

#define SCALAR(suffix, ctype, number)                                                          \
    void gguf_put_##suffix(struct gguf_writer *w, const char *key, ctype value)                \
    {                                                                                          \
        gguf_put_raw(w, key, number, &value, sizeof value);                                    \
    }
SCALAR(u8, uint8_t, GGUF_U8)
SCALAR(i8, int8_t, GGUF_I8)
SCALAR(u16, uint16_t, GGUF_U16)
SCALAR(i16, int16_t, GGUF_I16)
SCALAR(u32, uint32_t, GGUF_U32)
SCALAR(i32, int32_t, GGUF_I32)
SCALAR(u64, uint64_t, GGUF_U64)
SCALAR(i64, int64_t, GGUF_I64)
SCALAR(f32, float, GGUF_F32)
SCALAR(f64, double, GGUF_F64)

void gguf_put_bool(struct gguf_writer *w, const char *key, bool value)
{
    uint8_t byte = value ? 1 : 0;
    gguf_put_raw(w, key, GGUF_BOOL, &byte, 1);
}

void gguf_put_bytes(struct gguf_writer *w, const char *key, const char *bytes, size_t length)
{
    gguf_put_raw(w, key, GGUF_STRING, NULL, 0);
    append_string(&w->keys, bytes, length);
}

void gguf_put_string(struct gguf_writer *w, const char *key, const char *value)
{
    gguf_put_bytes(w, key, value, strlen(value));
}

static void open_array(struct gguf_writer *w, const char *key, enum gguf_value_type type,
                       size_t count)
{
    gguf_put_raw(w, key, GGUF_ARRAY, NULL, 0);
    append_u32(&w->keys, (uint32_t)type);
    append_u64(&w->keys, count);
}

static size_t width_of(enum gguf_value_type type)
{
    static const size_t widths[] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,
        [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
        [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};
    if (type > GGUF_F64 || widths[type] == 0) {
        abort();
    }
    return widths[type];
}

void gguf_put_array(struct gguf_writer *w, const char *key, enum gguf_value_type type,
                    const void *items, size_t count)
{
    open_array(w, key, type, count);
    append(&w->keys, items, count * width_of(type));
}

void gguf_put_strings(struct gguf_writer *w, const char *key, const char *const *items,
                      size_t count)
{
    gguf_put_string_array(w, key, items, NULL, count);
}

void gguf_put_string_array(struct gguf_writer *w, const char *key, const char *const *items,
                           const size_t *lengths, size_t count)
{
    open_array(w, key, GGUF_STRING, count);
    for (size_t i = 0; i < count; i++) {
        append_string(&w->keys, items[i], lengths ? lengths[i] : strlen(items[i]));
    }
}

/* ---- Tensors and the file ---- */

void gguf_put_tensor_at(struct gguf_writer *w, const char *name, uint32_t type, uint32_t rank,
                        const int64_t *dims, uint64_t offset, const void *data, size_t length)
{
    append_string(&w->tensors, name, strlen(name));
    append_u32(&w->tensors, rank);
    append(&w->tensors, dims, rank * sizeof *dims);
    append_u32(&w->tensors, type);
    append_u64(&w->tensors, offset);
    append(&w->data, data, length);
    w->n_tensors++;
}

void gguf_put_tensor(struct gguf_writer *w, const char *name, uint32_t type, uint32_t rank,
                     const int64_t *dims, const void *data, size_t length)
{
    pad(&w->data, w->alignment);
    gguf_put_tensor_at(w, name, type, rank, dims, w->data.length, data, length);
}

const uint8_t *gguf_image(struct gguf_writer *w, size_t *size)
{
    w->image.length = 0;
    append(&w->image, "GGUF", 4);
    append_u32(&w->image, w->version);
    append_u64(&w->image, w->is_lying ? w->claimed_tensors : w->n_tensors);
    append_u64(&w->image, w->is_lying ? w->claimed_keys : w->n_keys);
    append(&w->image, w->keys.bytes, w->keys.length);
    append(&w->image, w->tensors.bytes, w->tensors.length);
    if (w->data.length > 0) {
        pad(&w->image, w->alignment);
        append(&w->image, w->data.bytes, w->data.length);
    }
    *size = w->image.length;
    return w->image.bytes;
}

const char *gguf_save(struct gguf_writer *w)
{
    size_t size;
    const uint8_t *bytes = gguf_image(w, &size);
    const char *folder = getenv("TMPDIR");
    if (w->path[0]) {
        (void)unlink(w->path);
    }
    (void)snprintf(w->path, sizeof w->path, "%s/gguf-XXXXXX", folder ? folder : "/tmp");
    int descriptor = mkstemp(w->path);
    FILE *stream = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
    if (!stream || fwrite(bytes, 1, size, stream) != size || fclose(stream) != 0) {
        abort();
    }
    return w->path;
}
