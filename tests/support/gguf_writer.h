/* Writes GGUF files for tests: tiny models, tokenizers, and files that lie.
 *
 *     struct gguf_writer *w = gguf_writer_new();
 *     gguf_put_string(w, "general.architecture", "llama");
 *     gguf_put_u32(w, "llama.block_count", 2);
 *     gguf_put_strings(w, "tokenizer.ggml.tokens", pieces, n_pieces);
 *     gguf_put_tensor(w, "token_embd.weight", GGML_F32, 2, (int64_t[]){cols, rows}, data,
 *                     bytes);
 *     const uint8_t *image = gguf_image(w, &size);   // for cop_gguf_open_memory, or
 *     const char *path = gguf_save(w);               // a temporary file
 *     gguf_writer_free(w);                           // removes the file, frees the image
 *
 * Keys and tensors appear in the order in which they are put. The writer checks nothing, so
 * that it can also write what a reader must refuse; it aborts when there is no memory. Tensor
 * data is copied, padded to the alignment, and laid out in order. */
#ifndef TESTS_SUPPORT_GGUF_WRITER_H
#define TESTS_SUPPORT_GGUF_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of the container, as they stand in files. */
enum gguf_value_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64
};
enum ggml_type {
    GGML_F32 = 0,
    GGML_F16 = 1,
    GGML_Q4_0 = 2,
    GGML_Q4_1 = 3,
    GGML_Q5_0 = 6,
    GGML_Q5_1 = 7,
    GGML_Q8_0 = 8,
    GGML_Q2_K = 10,
    GGML_Q4_K = 12,
    GGML_Q5_K = 13,
    GGML_Q6_K = 14,
    GGML_BF16 = 30
};

struct gguf_writer;

struct gguf_writer *gguf_writer_new(void);
void gguf_writer_free(struct gguf_writer *w); /* NULL is fine */

/* Settings, any time before the image is made. Version 3 and alignment 32 unless changed; an
 * alignment other than 32 does not write general.alignment: put that key too. */
void gguf_set_version(struct gguf_writer *w, uint32_t version);
void gguf_set_alignment(struct gguf_writer *w, uint64_t alignment);
/* Makes the header claim other counts than there are. */
void gguf_lie_about_counts(struct gguf_writer *w, uint64_t n_tensors, uint64_t n_keys);

/* Scalars. */
void gguf_put_u8(struct gguf_writer *w, const char *key, uint8_t value);
void gguf_put_i8(struct gguf_writer *w, const char *key, int8_t value);
void gguf_put_u16(struct gguf_writer *w, const char *key, uint16_t value);
void gguf_put_i16(struct gguf_writer *w, const char *key, int16_t value);
void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t value);
void gguf_put_i32(struct gguf_writer *w, const char *key, int32_t value);
void gguf_put_u64(struct gguf_writer *w, const char *key, uint64_t value);
void gguf_put_i64(struct gguf_writer *w, const char *key, int64_t value);
void gguf_put_f32(struct gguf_writer *w, const char *key, float value);
void gguf_put_f64(struct gguf_writer *w, const char *key, double value);
void gguf_put_bool(struct gguf_writer *w, const char *key, bool value);
void gguf_put_string(struct gguf_writer *w, const char *key, const char *value);
void gguf_put_bytes(struct gguf_writer *w, const char *key, const char *bytes, size_t length);

/* Arrays: of `count` items of `type` as they lie in memory (little-endian machine), of
 * terminated strings, and of strings with lengths. */
void gguf_put_array(struct gguf_writer *w, const char *key, enum gguf_value_type type,
                    const void *items, size_t count);
void gguf_put_strings(struct gguf_writer *w, const char *key, const char *const *items,
                      size_t count);
void gguf_put_string_array(struct gguf_writer *w, const char *key, const char *const *items,
                           const size_t *lengths, size_t count);

/* Any value: `type` and the bytes that follow it. */
void gguf_put_raw(struct gguf_writer *w, const char *key, uint32_t type, const void *bytes,
                  size_t length);

/* A tensor; dims[0] is the fastest index. `type` may be any number. The second form states an
 * offset of its own (relative to the data area) and adds no data unless `length` > 0. */
void gguf_put_tensor(struct gguf_writer *w, const char *name, uint32_t type, uint32_t rank,
                     const int64_t *dims, const void *data, size_t length);
void gguf_put_tensor_at(struct gguf_writer *w, const char *name, uint32_t type, uint32_t rank,
                        const int64_t *dims, uint64_t offset, const void *data, size_t length);

/* The file as bytes; owned by the writer, valid until the next put or free. */
const uint8_t *gguf_image(struct gguf_writer *w, size_t *size);
/* The same as a temporary file, removed by gguf_writer_free. */
const char *gguf_save(struct gguf_writer *w);

#endif
