/* The tensor descriptions of a GGUF file: shapes, formats, and where the data lies. */
#include "core/base/quote.h"
#include "core/files/gguf_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The tensor types that we read, by their number in the file. */
static const struct {
    uint32_t number;
    enum cop_format format;
} tensor_types[] = {
    {0, COP_FORMAT_F32},   {1, COP_FORMAT_F16},   {30, COP_FORMAT_BF16}, {8, COP_FORMAT_Q8_0},
    {2, COP_FORMAT_Q4_0},  {3, COP_FORMAT_Q4_1},  {6, COP_FORMAT_Q5_0},  {7, COP_FORMAT_Q5_1},
    {12, COP_FORMAT_Q4_K}, {13, COP_FORMAT_Q5_K}, {14, COP_FORMAT_Q6_K},
};
#define N_TENSOR_TYPES (sizeof tensor_types / sizeof tensor_types[0])

static enum cop_status bad_tensor(const struct gguf_reader *in, const struct cop_tensor *tensor,
                                  enum cop_status code, const char *what, uint64_t number)
{
    char name[COP_QUOTE_SIZE];
    return cop_gguf_fail(in->file, in->err, code, "tensor \"%s\": %s %" PRIu64,
                         cop_quote(name, tensor->name.bytes, tensor->name.length), what,
                         number);
}

static enum cop_status unknown_type(const struct gguf_reader *in,
                                    const struct cop_tensor *tensor, uint32_t number)
{
    char known[160] = "";
    for (size_t i = 0; i < N_TENSOR_TYPES; i++) {
        strcat(known, i > 0 ? ", " : "");
        strcat(known, cop_format_info(tensor_types[i].format)->name);
    }
    char name[COP_QUOTE_SIZE];
    return cop_gguf_fail(in->file, in->err, COP_ERR_UNSUPPORTED,
                         "tensor \"%s\": type number %" PRIu32 " is not read; known are %s",
                         cop_quote(name, tensor->name.bytes, tensor->name.length), number,
                         known);
}

static enum cop_status read_dims(struct gguf_reader *in, struct cop_tensor *tensor,
                                 int64_t *n_elements)
{
    uint32_t rank;
    *n_elements = 1;
    if (!cop_gguf_take_u32(in, &rank)) {
        return cop_gguf_ends_early(in, "the description of a tensor");
    }
    if (rank < 1 || rank > 4) {
        return bad_tensor(in, tensor, COP_ERR_FORMAT, "rank must be 1 to 4, but is", rank);
    }
    tensor->rank = (int32_t)rank;
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t dim = 1;
        if (i < rank && !cop_gguf_take_u64(in, &dim)) {
            return cop_gguf_ends_early(in, "the description of a tensor");
        }
        if (dim == 0 || dim > INT64_MAX ||
            __builtin_mul_overflow(*n_elements, (int64_t)dim, n_elements)) {
            return bad_tensor(in, tensor, COP_ERR_FORMAT, "impossible dimension", dim);
        }
        tensor->dims[i] = (int64_t)dim;
    }
    return COP_OK;
}

/* Tables of ids: no operation of ours reads them. */
#define I64_NUMBER 27

static enum cop_status count_integers(const struct gguf_reader *in, struct cop_tensor *tensor,
                                      int64_t n_elements)
{
    tensor->format = COP_FORMAT_COUNT;
    return __builtin_mul_overflow((size_t)n_elements, sizeof(int64_t), &tensor->bytes)
               ? bad_tensor(in, tensor, COP_ERR_FORMAT,
                            "too many elements:", (uint64_t)n_elements)
               : COP_OK;
}

const char *cop_gguf_type(const struct cop_tensor *tensor)
{
    return tensor->format == COP_FORMAT_COUNT ? "I64" : cop_format_info(tensor->format)->name;
}

static enum cop_status read_format(struct gguf_reader *in, struct cop_tensor *tensor,
                                   int64_t n_elements)
{
    uint32_t number;
    if (!cop_gguf_take_u32(in, &number)) {
        return cop_gguf_ends_early(in, "the description of a tensor");
    }
    if (number == I64_NUMBER) {
        return count_integers(in, tensor, n_elements);
    }
    size_t row = 0;
    while (row < N_TENSOR_TYPES && tensor_types[row].number != number) {
        row++;
    }
    if (row == N_TENSOR_TYPES) {
        return unknown_type(in, tensor, number);
    }
    tensor->format = tensor_types[row].format;
    const struct cop_format_info *info = cop_format_info(tensor->format);
    if (tensor->dims[0] % info->block_elements != 0) {
        char what[96];
        (void)snprintf(what, sizeof what,
                       "rows of %s must be whole blocks, but their length is", info->name);
        return bad_tensor(in, tensor, COP_ERR_FORMAT, what, (uint64_t)tensor->dims[0]);
    }
    size_t n_blocks = (size_t)(n_elements / info->block_elements);
    if (__builtin_mul_overflow(n_blocks, (size_t)info->block_bytes, &tensor->bytes)) {
        return bad_tensor(in, tensor, COP_ERR_FORMAT,
                          "too many elements:", (uint64_t)n_elements);
    }
    return COP_OK;
}

static enum cop_status read_tensor(struct gguf_reader *in, struct gguf_entry *entry)
{
    struct cop_tensor *tensor = &entry->tensor;
    int64_t n_elements;
    if (!cop_gguf_take_string(in, &tensor->name)) {
        return cop_gguf_ends_early(in, "the name of a tensor");
    }
    enum cop_status status = read_dims(in, tensor, &n_elements);
    if (status == COP_OK) {
        status = read_format(in, tensor, n_elements);
    }
    if (status != COP_OK) {
        return status;
    }
    if (!cop_gguf_take_u64(in, &entry->offset)) {
        return cop_gguf_ends_early(in, "the description of a tensor");
    }
    if (entry->offset % in->file->alignment != 0) {
        return bad_tensor(in, tensor, COP_ERR_FORMAT,
                          "the offset is not a multiple of the alignment:", entry->offset);
    }
    return COP_OK;
}

static enum cop_status read_entries(struct gguf_reader *in, uint64_t count)
{
    struct cop_gguf *file = in->file;
    for (uint64_t i = 0; i < count; i++) {
        struct gguf_entry entry = {0};
        enum cop_status status = read_tensor(in, &entry);
        if (status != COP_OK) {
            return status;
        }
        void *items = file->entries;
        if (!cop_gguf_grow(&items, file->n_entries, &file->entries_capacity, sizeof entry)) {
            return cop_gguf_no_memory(in);
        }
        file->entries = items;
        file->entries[file->n_entries++] = entry;
    }
    return COP_OK;
}

/* Where each tensor's bytes are, once the end of the header is known. */
static enum cop_status place_tensors(struct gguf_reader *in)
{
    struct cop_gguf *file = in->file;
    uint64_t mask = file->alignment - 1;
    uint64_t start = ((uint64_t)cop_gguf_position(in) + mask) & ~mask;
    for (size_t i = 0; i < file->n_entries; i++) {
        struct gguf_entry *entry = &file->entries[i];
        uint64_t end;
        if (__builtin_add_overflow(start, entry->offset, &end) ||
            __builtin_add_overflow(end, (uint64_t)entry->tensor.bytes, &end)) {
            return bad_tensor(in, &entry->tensor, COP_ERR_FORMAT,
                              "the data lies past any file, at offset", entry->offset);
        }
        if (end > file->map.size) {
            char name[COP_QUOTE_SIZE];
            struct cop_string of = entry->tensor.name;
            return cop_gguf_fail(file, in->err, COP_ERR_FORMAT,
                                 "tensor \"%s\": data ends at byte %" PRIu64
                                 ", but the file has %zu bytes",
                                 cop_quote(name, of.bytes, of.length), end, file->map.size);
        }
        entry->tensor.data = file->map.data + start + entry->offset;
    }
    return COP_OK;
}

static int by_tensor_name(const void *a, const void *b)
{
    const struct cop_tensor *const *left = a;
    const struct cop_tensor *const *right = b;
    return cop_gguf_compare((*left)->name, (*right)->name);
}

static int by_data(const void *a, const void *b)
{
    const struct cop_tensor *const *left = a;
    const struct cop_tensor *const *right = b;
    uintptr_t x = (uintptr_t)(*left)->data;
    uintptr_t y = (uintptr_t)(*right)->data;
    return (x > y) - (x < y);
}

/* Tensors lie one behind the other, with no more between them than the alignment asks for: a
 * hole shows that a shape or a type is not what the data was written with. */
static enum cop_status check_neighbours(struct gguf_reader *in, const struct cop_tensor *first,
                                        const struct cop_tensor *second)
{
    char name[COP_QUOTE_SIZE];
    char other[COP_QUOTE_SIZE];
    int64_t between =
        (const uint8_t *)second->data - ((const uint8_t *)first->data + first->bytes);
    (void)cop_quote(name, first->name.bytes, first->name.length);
    (void)cop_quote(other, second->name.bytes, second->name.length);
    if (between < 0) {
        return cop_gguf_fail(in->file, in->err, COP_ERR_FORMAT,
                             "tensors \"%s\" and \"%s\" overlap", name, other);
    }
    if ((uint64_t)between >= in->file->alignment) {
        return cop_gguf_fail(in->file, in->err, COP_ERR_FORMAT,
                             "tensors \"%s\" and \"%s\" have a hole of %" PRId64
                             " bytes between them",
                             name, other, between);
    }
    return COP_OK;
}

/* No overlap, no name twice; leaves by_name sorted by name. */
static enum cop_status compare_tensors(struct gguf_reader *in)
{
    struct cop_gguf *file = in->file;
    size_t count = file->n_entries;
    if (count == 0) {
        return COP_OK;
    }
    file->by_name = malloc(count * sizeof *file->by_name);
    if (!file->by_name) {
        return cop_gguf_no_memory(in);
    }
    const struct cop_tensor **sorted = file->by_name;
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &file->entries[i].tensor;
    }
    char name[COP_QUOTE_SIZE];
    qsort(sorted, count, sizeof *sorted, by_data);
    for (size_t i = 1; i < count; i++) {
        enum cop_status status = check_neighbours(in, sorted[i - 1], sorted[i]);
        if (status != COP_OK) {
            return status;
        }
    }
    qsort(sorted, count, sizeof *sorted, by_tensor_name);
    for (size_t i = 1; i < count; i++) {
        struct cop_string of = sorted[i]->name;
        if (cop_gguf_compare(sorted[i - 1]->name, of) == 0) {
            return cop_gguf_fail(file, in->err, COP_ERR_FORMAT, "tensor \"%s\" occurs twice",
                                 cop_quote(name, of.bytes, of.length));
        }
    }
    return COP_OK;
}

enum cop_status cop_gguf_read_tensors(struct gguf_reader *in, uint64_t count)
{
    enum cop_status status = read_entries(in, count);
    if (status == COP_OK) {
        status = place_tensors(in);
    }
    if (status == COP_OK) {
        status = compare_tensors(in);
    }
    return status;
}
