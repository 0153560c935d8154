/* Writing folders of heads. */
#include "tests/support/head_folder.h"
#include "tests/support/tiny_model.h"
#include "tests/support/torch_writer.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADER = 1 << 15, FLOATS = 1 << 20, FILES = 8, TENSORS = 64 };

struct tensor {
    char name[96];
    int rows, cols;
    size_t first; /* of its floats */
};

struct head_folder {
    char path[64], files[FILES][80];
    int n_files;
    char header[HEADER];
    size_t n_header, n_data;
    struct tensor tensors[TENSORS];
    int n_tensors;
    float data[FLOATS];
};

void head_folder_add(struct head_folder *folder, const char *file, const void *bytes,
                     size_t size)
{
    char path[256];
    cr_assert_lt(folder->n_files, FILES);
    (void)snprintf(folder->files[folder->n_files++], sizeof folder->files[0], "%s", file);
    (void)snprintf(path, sizeof path, "%s/%s", folder->path, file);
    FILE *stream = fopen(path, "wb");
    cr_assert(stream && fwrite(bytes, 1, size, stream) == size && fclose(stream) == 0);
}

struct head_folder *head_folder_new(const char *config)
{
    struct head_folder *folder = calloc(1, sizeof *folder);
    cr_assert_not_null(folder);
    (void)snprintf(folder->path, sizeof folder->path, "%s/coppice-head-XXXXXX", P_tmpdir);
    cr_assert_not_null(mkdtemp(folder->path));
    head_folder_add(folder, "config.json", config, strlen(config));
    return folder;
}

static uint64_t seed_of(const char *name)
{
    uint64_t seed = 1;
    while (*name) {
        seed = tiny_bits(seed, (unsigned char)*name++);
    }
    return seed;
}

void head_folder_random(const char *name, int rows, int cols, float *out)
{
    double size = rows ? sqrt(3.0 / cols) : 0.17;
    uint64_t seed = seed_of(name);
    for (size_t i = 0; i < (size_t)(rows ? rows : 1) * (size_t)cols; i++) {
        out[i] = (float)(size * (2 * tiny_uniform(seed, i) - 1));
    }
}

const char *head_folder_path(const struct head_folder *folder)
{
    return folder->path;
}

void head_folder_put(struct head_folder *folder, const char *name, int rows, int cols,
                     const float *data)
{
    size_t count = (size_t)(rows ? rows : 1) * (size_t)cols, first = folder->n_data;
    char shape[32];
    cr_assert(first + count <= FLOATS && folder->n_header + 256 < HEADER);
    cr_assert_lt(folder->n_tensors, TENSORS);
    struct tensor *tensor = &folder->tensors[folder->n_tensors++];
    *tensor = (struct tensor){.rows = rows, .cols = cols, .first = first};
    (void)snprintf(tensor->name, sizeof tensor->name, "%s", name);
    (void)snprintf(shape, sizeof shape, rows ? "[%d,%d]" : "[%d]", rows ? rows : cols, cols);
    if (data) {
        memcpy(folder->data + first, data, count * sizeof *data);
    } else {
        head_folder_random(name, rows, cols, folder->data + first);
    }
    folder->n_data += count;
    folder->n_header += (size_t)snprintf(
        folder->header + folder->n_header, HEADER - folder->n_header,
        "%c\"%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
        folder->n_header ? ',' : '{', name, shape, 4 * first, 4 * folder->n_data);
}

/* Each tensor in a storage of its own. */
static void save_torch(struct head_folder *folder, const char *file)
{
    static struct zip_writer zip;
    struct bytes pickle = {.size = 0};
    zip.file.size = zip.directory.size = 0;
    zip.n_entries = 0;
    pickle_begin(&pickle);
    for (int i = 0; i < folder->n_tensors; i++) {
        const struct tensor *tensor = &folder->tensors[i];
        int64_t rows = tensor->rows ? tensor->rows : 1, cols = tensor->cols;
        const int64_t sizes[] = {rows, cols}, strides[] = {cols, 1};
        int vector = tensor->rows == 0;
        char key[16];
        (void)snprintf(key, sizeof key, "%d", i);
        pickle_tensor(&pickle, tensor->name, "FloatStorage", key, rows * cols, 0, 2 - vector,
                      sizes + vector, strides + vector);
    }
    pickle_end(&pickle);
    zip_add(&zip, "archive/data.pkl", pickle.data, pickle.size);
    for (int i = 0; i < folder->n_tensors; i++) {
        const struct tensor *tensor = &folder->tensors[i];
        size_t count = (size_t)(tensor->rows ? tensor->rows : 1) * (size_t)tensor->cols;
        char name[32];
        (void)snprintf(name, sizeof name, "archive/data/%d", i);
        zip_add(&zip, name, folder->data + tensor->first, count * sizeof(float));
    }
    zip_finish(&zip);
    head_folder_add(folder, file, zip.file.data, zip.file.size);
}

/* Data stays in steps of four bytes. */
void head_folder_put_typed(struct head_folder *folder, const char *name, const char *type,
                           int n, const void *data, size_t size)
{
    size_t first = folder->n_data, bytes = (size_t)n * size;
    cr_assert(first + bytes / 4 + 1 <= FLOATS && folder->n_header + 256 < HEADER);
    memcpy(folder->data + first, data, bytes);
    cr_assert_eq(bytes % 4, 0);
    folder->n_data += bytes / 4;
    folder->n_header += (size_t)snprintf(
        folder->header + folder->n_header, HEADER - folder->n_header,
        "%c\"%s\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[%zu,%zu]}",
        folder->n_header ? ',' : '{', name, type, n, 4 * first, 4 * folder->n_data);
}

const char *head_folder_save(struct head_folder *folder, const char *file)
{
    if (!strstr(file, ".safetensors")) {
        save_torch(folder, file);
        return folder->path;
    }
    folder->header[folder->n_header++] = '}';
    uint64_t n_header = folder->n_header;
    size_t n_data = folder->n_data * sizeof(float);
    char *bytes = malloc(sizeof n_header + n_header + n_data);
    cr_assert_not_null(bytes);
    memcpy(bytes, &n_header, sizeof n_header);
    memcpy(bytes + sizeof n_header, folder->header, n_header);
    memcpy(bytes + sizeof n_header + n_header, folder->data, n_data);
    head_folder_add(folder, file, bytes, sizeof n_header + n_header + n_data);
    free(bytes);
    return folder->path;
}

void head_folder_free(struct head_folder *folder)
{
    char path[256];
    for (int i = 0; i < folder->n_files; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder->path, folder->files[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder->path);
    free(folder);
}
