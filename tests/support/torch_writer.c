/* Writing zip archives and pickles. */
#include "tests/support/torch_writer.h"

#include <criterion/criterion.h>
#include <string.h>

void bytes_put(struct bytes *out, const void *data, size_t size)
{
    cr_assert_leq(out->size + size, BYTES_ROOM);
    memcpy(out->data + out->size, data, size);
    out->size += size;
}

void bytes_number(struct bytes *out, uint64_t value, size_t width)
{
    for (size_t i = 0; i < width; i++) {
        const uint8_t byte = (uint8_t)(value >> 8 * i);
        bytes_put(out, &byte, 1);
    }
}

/* ---- Zip --------------------------------------------------------------------------------- */

enum { ALIGNMENT = 64, DESCRIBED_LATER = 0x0808 };

/* The local header says neither size nor sum: a descriptor behind the data does. Padding stands
 * in an extra field "FB". */
static void add(struct zip_writer *zip, const char *name, const void *data, size_t size,
                int method)
{
    struct bytes *file = &zip->file, *directory = &zip->directory;
    size_t begin = file->size, n_name = strlen(name), header = begin + 30 + n_name + 4;
    size_t padding = (ALIGNMENT - header % ALIGNMENT) % ALIGNMENT;
    static const uint8_t zeros[ALIGNMENT] = {0};
    bytes_number(file, 0x04034b50, 4);
    bytes_number(file, 0, 2);
    bytes_number(file, DESCRIBED_LATER, 2);
    bytes_number(file, (uint64_t)method, 2);
    bytes_number(file, 0, 8); /* time, sum */
    bytes_number(file, 0, 8); /* sizes */
    bytes_number(file, n_name, 2);
    bytes_number(file, 4 + padding, 2);
    bytes_put(file, name, n_name);
    bytes_put(file, "FB", 2);
    bytes_number(file, padding, 2);
    bytes_put(file, zeros, padding);
    bytes_put(file, data, size);
    bytes_number(file, 0x08074b50, 4);
    bytes_number(file, 0, 4);
    bytes_number(file, size, 8);
    bytes_number(file, size, 8);

    bytes_number(directory, 0x02014b50, 4);
    bytes_number(directory, 0, 4);
    bytes_number(directory, DESCRIBED_LATER, 2);
    bytes_number(directory, (uint64_t)method, 2);
    bytes_number(directory, 0, 8); /* time, sum */
    bytes_number(directory, 0xFFFFFFFF, 4);
    bytes_number(directory, 0xFFFFFFFF, 4);
    bytes_number(directory, n_name, 2);
    bytes_number(directory, 28, 2);
    bytes_number(directory, 0, 6); /* comment, disk, attributes */
    bytes_number(directory, 0, 4);
    bytes_number(directory, 0xFFFFFFFF, 4);
    bytes_put(directory, name, n_name);
    bytes_number(directory, 1, 2);
    bytes_number(directory, 24, 2);
    bytes_number(directory, size, 8);
    bytes_number(directory, size, 8);
    bytes_number(directory, begin, 8);
    zip->n_entries++;
}

void zip_add(struct zip_writer *zip, const char *name, const void *data, size_t size)
{
    add(zip, name, data, size, 0);
}

void zip_add_deflated(struct zip_writer *zip, const char *name, const void *data, size_t size)
{
    add(zip, name, data, size, 8);
}

void zip_finish(struct zip_writer *zip)
{
    struct bytes *file = &zip->file;
    size_t begin = file->size;
    bytes_put(file, zip->directory.data, zip->directory.size);
    size_t end = file->size;
    bytes_number(file, 0x06064b50, 4);
    bytes_number(file, 44, 8);
    bytes_number(file, 45, 2);
    bytes_number(file, 45, 2);
    bytes_number(file, 0, 8);
    bytes_number(file, (uint64_t)zip->n_entries, 8);
    bytes_number(file, (uint64_t)zip->n_entries, 8);
    bytes_number(file, zip->directory.size, 8);
    bytes_number(file, begin, 8);
    bytes_number(file, 0x07064b50, 4);
    bytes_number(file, 0, 4);
    bytes_number(file, end, 8);
    bytes_number(file, 1, 4);
    bytes_number(file, 0x06054b50, 4);
    bytes_number(file, 0, 4);
    bytes_number(file, 0xFFFF, 2);
    bytes_number(file, 0xFFFF, 2);
    bytes_number(file, 0xFFFFFFFF, 4);
    bytes_number(file, 0xFFFFFFFF, 4);
    bytes_number(file, 0, 2);
}

/* ---- Pickle ------------------------------------------------------------------------------ */

void pickle_string(struct bytes *out, const char *text)
{
    bytes_put(out, "X", 1);
    bytes_number(out, strlen(text), 4);
    bytes_put(out, text, strlen(text));
}

void pickle_integer(struct bytes *out, int64_t value)
{
    bool is_short = value >= 0 && value < 256, is_int = value == (int32_t)value;
    bytes_put(out, is_short ? "K" : is_int ? "J" : "\x8a\x08", is_short || is_int ? 1 : 2);
    bytes_number(out, (uint64_t)value, is_short ? 1 : is_int ? 4 : 8);
}

void pickle_global(struct bytes *out, const char *module, const char *name)
{
    bytes_put(out, "c", 1);
    bytes_put(out, module, strlen(module));
    bytes_put(out, "\n", 1);
    bytes_put(out, name, strlen(name));
    bytes_put(out, "\n", 1);
}

void pickle_begin(struct bytes *out)
{
    bytes_put(out, "\x80\x02", 2);
    pickle_global(out, "collections", "OrderedDict");
    bytes_put(out, "q\0)Rq\1(", 7);
}

void pickle_end(struct bytes *out)
{
    bytes_put(out, "u}", 2);
    pickle_string(out, "_metadata");
    bytes_put(out, "h\0)Rsb.", 7);
}

static void put_tuple(struct bytes *out, int count, const int64_t *items)
{
    bytes_put(out, "(", 1);
    for (int i = 0; i < count; i++) {
        pickle_integer(out, items[i]);
    }
    bytes_put(out, "t", 1);
}

void pickle_view(struct bytes *out, const char *type, const char *key, int64_t numbers,
                 int64_t offset, int rank, const int64_t *sizes, const int64_t *strides)
{
    pickle_global(out, "torch._utils", "_rebuild_tensor_v2");
    bytes_put(out, "((", 2);
    pickle_string(out, "storage");
    pickle_global(out, "torch", type);
    pickle_string(out, key);
    pickle_string(out, "cpu");
    pickle_integer(out, numbers);
    bytes_put(out, "tQ", 2);
    pickle_integer(out, offset);
    put_tuple(out, rank, sizes);
    put_tuple(out, rank, strides);
    bytes_put(out, "\x89h\0)RtR", 7);
}

void pickle_tensor(struct bytes *out, const char *name, const char *type, const char *key,
                   int64_t numbers, int64_t offset, int rank, const int64_t *sizes,
                   const int64_t *strides)
{
    pickle_string(out, name);
    pickle_view(out, type, key, numbers, offset, rank, sizes, strides);
}
