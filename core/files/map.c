/* Mapping a file read-only. */
#include "core/files/map.h"

#include "core/base/quote.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum cop_status fail(struct cop_error *err, const char *path, const char *what)
{
    return cop_fail(err, COP_ERR_IO, "%s: %s", cop_path_tail(path, 300), what);
}

static enum cop_status map_descriptor(struct cop_map *map, int descriptor, const char *path,
                                      struct cop_error *err)
{
    struct stat info;
    if (fstat(descriptor, &info) != 0) {
        return fail(err, path, strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        return fail(err, path, S_ISDIR(info.st_mode) ? "is a folder" : "is not a regular file");
    }
    if (info.st_size == 0) {
        return COP_OK;
    }
    size_t size = (size_t)info.st_size;
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) {
        return fail(err, path, strerror(errno));
    }
    map->data = data;
    map->size = size;
    return COP_OK;
}

enum cop_status cop_map_open(struct cop_map *map, const char *path, struct cop_error *err)
{
    map->data = NULL;
    map->size = 0;
    /* Opening a pipe that nobody writes to would wait for ever without O_NONBLOCK. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        return fail(err, path, strerror(errno));
    }
    enum cop_status status = map_descriptor(map, descriptor, path, err);
    (void)close(descriptor);
    return status;
}

/* mmap's interface takes no pointer to const, though the pages are only read. */
static void *pages(const struct cop_map *map)
{
    return (void *)(uintptr_t)map->data;
}

void cop_map_forget(const struct cop_map *map)
{
    if (map->data) {
        (void)madvise(pages(map), map->size, MADV_DONTNEED);
    }
}

void cop_map_close(struct cop_map *map)
{
    if (map->data) {
        (void)munmap(pages(map), map->size);
    }
    map->data = NULL;
    map->size = 0;
}
