/* Zip archives whose entries are stored as they are: what PyTorch's files are made of.
 *
 *     local header, name, data | … | central directory | zip64 end, locator | end
 *
 * The central directory counts; a local header only says where its data begin. Every offset and
 * size is checked against the file, no two entries share a byte, and what is compressed or
 * encrypted is refused by name. */
#ifndef COP_FILES_ZIP_H
#define COP_FILES_ZIP_H

#include "core/base/error.h"
#include "core/files/gguf.h"

struct cop_zip_entry {
    struct cop_string name; /* inside the file */
    const uint8_t *data;
    size_t size;
    size_t begin; /* of its local header */
};

struct cop_zip {
    struct cop_zip_entry *entries; /* sorted by name, each once */
    size_t n_entries;
};

/* `name` begins messages. Empty after failure. */
enum cop_status cop_zip_open(struct cop_zip *out, const char *name, const uint8_t *data,
                             size_t size, struct cop_error *err);
void cop_zip_close(struct cop_zip *zip); /* idempotent */

/* The entry <prefix><name>, up to 512 bytes; NULL: absent. */
const struct cop_zip_entry *cop_zip_find(const struct cop_zip *zip, struct cop_string prefix,
                                         struct cop_string name);

#endif
