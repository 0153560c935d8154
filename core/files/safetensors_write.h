/* Writing a safetensors file whole: it appears under its name when all of it is on the disk,
 * and after failure what was there before is there still. */
#ifndef COP_FILES_SAFETENSORS_WRITE_H
#define COP_FILES_SAFETENSORS_WRITE_H

#include "core/base/error.h"
#include <stddef.h>
#include <stdint.h>

struct cop_tensor_bytes {
    const char *name, *type; /* "F16", "I32", …; names need no escapes */
    int32_t rank;            /* 1 or 2 */
    int64_t dims[2];         /* the slowest first, as the file has them */
    const void *data;
    size_t bytes;
};

enum cop_status cop_safetensors_write(const char *path, const struct cop_tensor_bytes *tensors,
                                      int32_t count, struct cop_error *err);

#endif
