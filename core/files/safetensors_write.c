#include "core/files/safetensors_write.h"

#include "core/base/path.h"
#include "core/base/quote.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENTRY_SIZE 256 /* of the header, per tensor, at most */

/* The length in 8 bytes and the header, padded so that data begins at a multiple of 8. Caller
 * frees; NULL: no memory. */
static char *make_header(const struct cop_tensor_bytes *tensors, int32_t count, size_t *length)
{
    char *text = malloc(8 + (size_t)count * ENTRY_SIZE + 16), *at = text ? text + 8 : NULL;
    size_t begin = 0;
    if (!text) {
        return NULL;
    }
    *at++ = '{';
    for (int32_t i = 0; i < count; i++) {
        const struct cop_tensor_bytes *t = &tensors[i];
        char shape[48];
        int used = snprintf(shape, sizeof shape, "%lld", (long long)t->dims[0]);
        if (t->rank == 2) {
            (void)snprintf(shape + used, sizeof shape - (size_t)used, ",%lld",
                           (long long)t->dims[1]);
        }
        int n =
            snprintf(at, ENTRY_SIZE,
                     "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                     i ? "," : "", t->name, t->type, shape, begin, begin + t->bytes);
        at += n < ENTRY_SIZE ? n : 0; /* names are ours and short */
        begin += t->bytes;
    }
    *at++ = '}';
    while ((at - text) % 8 != 0) {
        *at++ = ' ';
    }
    uint64_t size = (uint64_t)(at - text) - 8;
    for (int i = 0; i < 8; i++) {
        text[i] = (char)(size >> 8 * i);
    }
    *length = (size_t)(at - text);
    return text;
}

static bool write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, bytes, length);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        bytes += n > 0 ? n : 0;
        length -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool write_file(const char *path, const char *header, size_t length,
                       const struct cop_tensor_bytes *tensors, int32_t count)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool is_written = fd >= 0 && write_all(fd, header, length);
    for (int32_t i = 0; i < count && is_written; i++) {
        is_written = write_all(fd, tensors[i].data, tensors[i].bytes);
    }
    is_written = is_written && fsync(fd) == 0;
    int reason = errno;
    if (fd >= 0 && close(fd) != 0 && is_written) {
        is_written = false;
        reason = errno;
    }
    errno = reason;
    return is_written;
}

enum cop_status cop_safetensors_write(const char *path, const struct cop_tensor_bytes *tensors,
                                      int32_t count, struct cop_error *err)
{
    char fresh[PATH_MAX], quoted[COP_QUOTE_SIZE];
    size_t length;
    int n = snprintf(fresh, sizeof fresh, "%s.new%ld", path, (long)getpid());
    char *header = make_header(tensors, count, &length);
    if (!header) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the header of a file");
    }
    errno = ENAMETOOLONG;
    bool is_whole = n > 0 && (size_t)n < sizeof fresh &&
                    write_file(fresh, header, length, tensors, count) &&
                    cop_path_replace(fresh, path);
    int reason = errno;
    free(header);
    if (is_whole) {
        return COP_OK;
    }
    (void)unlink(fresh);
    return cop_fail(err, COP_ERR_IO, "cannot write \"%s\": %s",
                    cop_quote(quoted, path, strlen(path)), strerror(reason));
}
