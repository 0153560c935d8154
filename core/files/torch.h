/* Files of torch.save (.pt, .bin): a dictionary of tensors, read without running anything.
 *
 *     zip: <archive>/data.pkl    what is where (core/files/torch_pickle.h)
 *          <archive>/data/0 …    the numbers of one storage each, little-endian
 *
 * A tensor is a view of a storage: its offset and extent are checked against the numbers that
 * the storage holds, and these against the bytes of the entry. Several tensors may share one
 * storage. Tensors are described as those of GGUF files are, and lie in the mapping. */
#ifndef COP_FILES_TORCH_H
#define COP_FILES_TORCH_H

#include "core/base/error.h"
#include "core/files/gguf.h"

struct cop_torch;

/* Files of PyTorch before 1.6 (no zip) are refused with what to do. *out is NULL after failure.
 */
enum cop_status cop_torch_open(struct cop_torch **out, const char *path, struct cop_error *err);
/* A file that is in memory already, borrowed; `name` stands for the path in messages. */
enum cop_status cop_torch_open_memory(struct cop_torch **out, const char *name,
                                      const void *data, size_t size, struct cop_error *err);
void cop_torch_close(struct cop_torch *file); /* NULL is fine */

const char *cop_torch_path(const struct cop_torch *file);
size_t cop_torch_bytes(const struct cop_torch *file);

/* As of safetensors: by name (NULL if absent) or by number; COP_FORMAT_COUNT: a type that no
 * operation of ours reads. A file that holds one tensor and no dictionary: its name is "". */
const struct cop_tensor *cop_torch_tensor(const struct cop_torch *file, const char *name);
size_t cop_torch_count(const struct cop_torch *file);
const struct cop_tensor *cop_torch_at(const struct cop_torch *file, size_t index);
const char *cop_torch_type_name(const struct cop_torch *file, const struct cop_tensor *tensor);

/* The integers of a file that holds a list of them (or one tensor of them) and nothing else,
 * [*count], freed by the caller: ids of a reduced vocabulary. */
enum cop_status cop_torch_integers(const struct cop_torch *file, int64_t **out, size_t *count,
                                   struct cop_error *err);

#endif
