/* A file mapped into memory, read-only: how weights and tokenizers reach us without being read.
 */
#ifndef COP_FILES_MAP_H
#define COP_FILES_MAP_H

#include "core/base/error.h"
#include <stddef.h>
#include <stdint.h>

struct cop_map {
    const uint8_t *data;
    size_t size;
};

/* Maps a regular file. An empty file gives size 0 and data NULL. Fails with COP_ERR_IO naming
 * the path and the reason; *map is then zeroed. */
enum cop_status cop_map_open(struct cop_map *map, const char *path, struct cop_error *err);

/* Tells the kernel that the pages will not be read again soon (after repacking). */
void cop_map_forget(const struct cop_map *map);

void cop_map_close(struct cop_map *map); /* idempotent */

#endif
