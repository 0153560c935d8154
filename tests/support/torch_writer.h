/* PyTorch files for tests, byte by byte: pickles of hand-written opcodes in a zip archive with
 * zip64 records, padded entries and data descriptors, as torch.save writes them.
 *
 *     struct bytes pickle = {0};
 *     pickle_begin(&pickle);
 *     pickle_tensor(&pickle, "w", "FloatStorage", "0", 6, 0, 2, (int[]){2, 3}, (int[]){3, 1});
 *     pickle_end(&pickle);
 *     struct zip_writer zip = {0};
 *     zip_add(&zip, "m/data.pkl", pickle.data, pickle.size);
 *     zip_add(&zip, "m/data/0", numbers, 24);
 *     zip_finish(&zip);                       // zip.file: the archive
 */
#ifndef TESTS_SUPPORT_TORCH_WRITER_H
#define TESTS_SUPPORT_TORCH_WRITER_H

#include <stddef.h>
#include <stdint.h>

enum { BYTES_ROOM = 1 << 16 };

struct bytes {
    uint8_t data[BYTES_ROOM];
    size_t size;
};
void bytes_put(struct bytes *out, const void *data, size_t size);
/* Little-endian. */
void bytes_number(struct bytes *out, uint64_t value, size_t width);

struct zip_writer {
    struct bytes file, directory;
    int n_entries;
};
void zip_add(struct zip_writer *zip, const char *name, const void *data, size_t size);
/* With method 8 (and the bytes as they are), for what must be refused. */
void zip_add_deflated(struct zip_writer *zip, const char *name, const void *data, size_t size);
void zip_finish(struct zip_writer *zip);

/* A state_dict: protocol 2, an OrderedDict, its items and its attributes. */
void pickle_begin(struct bytes *out);
void pickle_end(struct bytes *out);
void pickle_string(struct bytes *out, const char *text);
void pickle_integer(struct bytes *out, int64_t value);
void pickle_global(struct bytes *out, const char *module, const char *name);
/* The name, then the tensor. Rank at most 8. */
void pickle_tensor(struct bytes *out, const char *name, const char *type, const char *key,
                   int64_t numbers, int64_t offset, int rank, const int64_t *sizes,
                   const int64_t *strides);
/* The tensor alone. */
void pickle_view(struct bytes *out, const char *type, const char *key, int64_t numbers,
                 int64_t offset, int rank, const int64_t *sizes, const int64_t *strides);

#endif
