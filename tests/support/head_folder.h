/* Checkpoints of heads for tests: a folder with a config.json and a safetensors file of F32
 * tensors, written as they are put, so that it can also hold what a loader must refuse.
 *
 *     struct head_folder *folder = head_folder_new("{\"medusa_num_heads\": 2}");
 *     head_folder_put(folder, "0.0.linear.weight", 32, 32, NULL);
 *     const char *path = head_folder_save(folder, "medusa_lm_head.safetensors");
 *     head_folder_free(folder);   // removes the folder; an open part keeps its mapping
 */
#ifndef TESTS_SUPPORT_HEAD_FOLDER_H
#define TESTS_SUPPORT_HEAD_FOLDER_H

#include <stddef.h>

struct head_folder;
struct head_folder *head_folder_new(const char *config);
/* rows 0: a vector. data NULL: random numbers of about 1 / sqrt(cols), a function of the name
 * and the place alone (the same rows in a longer tensor); of a vector: about 0.1. */
void head_folder_put(struct head_folder *folder, const char *name, int rows, int cols,
                     const float *data);
/* A vector of another type, "I64" or "BOOL", of n items of `size` bytes. */
void head_folder_put_typed(struct head_folder *folder, const char *name, const char *type,
                           int n, const void *data, size_t size);
/* The numbers that such a tensor of this name has. */
void head_folder_random(const char *name, int rows, int cols, float *out);
/* Writes the tensors into a file of the folder (once), in PyTorch's form where its name does
 * not end in .safetensors (up to 64 kB then); the folder's path. */
const char *head_folder_save(struct head_folder *folder, const char *file);
const char *head_folder_path(const struct head_folder *folder);
/* Another file of the folder, with these bytes. */
void head_folder_add(struct head_folder *folder, const char *file, const void *bytes,
                     size_t size);
void head_folder_free(struct head_folder *folder);

#endif
