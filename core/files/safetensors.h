/* Safetensors, the container of Hugging Face checkpoints: one file, or several with an index.
 *
 *     length of the header (8 bytes) | {"name": {"dtype", "shape", "data_offsets"}, …} | data
 *
 * The data has no holes and no overlaps, and each tensor's bytes are what its shape and type
 * need; all of it is checked before anything is used. Tensors are described as those of GGUF
 * files are (core/files/gguf.h): the fastest index first. Data may lie at any address. */
#ifndef COP_FILES_SAFETENSORS_H
#define COP_FILES_SAFETENSORS_H

#include "core/base/error.h"
#include "core/files/gguf.h"
#include <stdbool.h>
#include <stddef.h>

struct cop_safetensors;

/* Opens a folder's model.safetensors, or the shards that its model.safetensors.index.json
 * names; or one file by its own path. Messages name file, tensor and value. *out is NULL after
 * failure. */
enum cop_status cop_safetensors_open(struct cop_safetensors **out, const char *path,
                                     struct cop_error *err);
/* One file that is in memory already, borrowed; `name` stands for the path in messages. */
enum cop_status cop_safetensors_open_memory(struct cop_safetensors **out, const char *name,
                                            const void *data, size_t size,
                                            struct cop_error *err);
void cop_safetensors_close(struct cop_safetensors *files); /* NULL is fine */

const char *cop_safetensors_path(const struct cop_safetensors *files);
size_t cop_safetensors_bytes(const struct cop_safetensors *files); /* of all files */

/* By name (NULL if absent) or by number. The format of a type that no operation of ours reads
 * is COP_FORMAT_COUNT; rank 0 is a scalar, and a side may be 0. */
const struct cop_tensor *cop_safetensors_tensor(const struct cop_safetensors *files,
                                                const char *name);
size_t cop_safetensors_count(const struct cop_safetensors *files);
const struct cop_tensor *cop_safetensors_at(const struct cop_safetensors *files, size_t index);
/* "BF16": the type as the file calls it. */
const char *cop_safetensors_type(const struct cop_safetensors *files,
                                 const struct cop_tensor *tensor);

#endif
