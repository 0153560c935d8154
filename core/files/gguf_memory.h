/* A GGUF image that is in memory already: for tests and fuzzers, which then need no files. */
#ifndef COP_FILES_GGUF_MEMORY_H
#define COP_FILES_GGUF_MEMORY_H

#include "core/files/gguf.h"

/* Like cop_gguf_open; `name` stands for the path in messages. The bytes are borrowed until
 * cop_gguf_close. */
enum cop_status cop_gguf_open_memory(struct cop_gguf **out, const char *name, const void *data,
                                     size_t size, struct cop_error *err);

#endif
