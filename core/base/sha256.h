/* SHA-256 (FIPS 180-4): names files in manifests, so that two runs can be told apart by the
 * bytes they read. */
#ifndef COP_BASE_SHA256_H
#define COP_BASE_SHA256_H

#include "core/base/error.h"
#include <stddef.h>
#include <stdint.h>

#define COP_SHA256_HEX 65 /* 64 hexadecimal digits and the end */

struct cop_sha256 {
    uint32_t state[8];
    uint64_t length;   /* bytes so far */
    uint8_t block[64]; /* the unfinished block: length % 64 bytes */
};
void cop_sha256_start(struct cop_sha256 *hash);
void cop_sha256_add(struct cop_sha256 *hash, const void *bytes, size_t length);
/* Ends the hash: it has to be started again afterwards. */
void cop_sha256_finish(struct cop_sha256 *hash, char hex[COP_SHA256_HEX]);

/* The hash of a file's bytes. COP_ERR_IO names the path and the reason. */
enum cop_status cop_sha256_file(const char *path, char hex[COP_SHA256_HEX],
                                struct cop_error *err);

#endif
