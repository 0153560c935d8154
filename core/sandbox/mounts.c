/* A root for the namespaces: an empty file system in memory with the readable paths bound into
 * it and three devices, all read-only in the end. There is no /proc and no /sys. The old root
 * is unmounted, not hidden. */
#include "core/sandbox/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* <sys/mount.h> and <linux/mount.h> do not go together in every C library. */
#define BIND      4096UL
#define RECURSIVE 16384UL
#define PRIVATE   (1UL << 18)
#define NOSUID    2UL
#define NODEV     4UL
#define DETACH    2
int mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data);
int umount2(const char *target, int flags);

static const char base[] = "/tmp";

/* Makes the folders above the last name of an absolute path. */
static bool make_parents(const char *path)
{
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof part) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (size_t i = 1; i < length; i++) {
        if (path[i] == '/') {
            memcpy(part, path, i);
            part[i] = 0;
            if (mkdir(part, 0755) != 0 && errno != EEXIST) {
                return false;
            }
        }
    }
    return true;
}

static bool bind_one(const char *from, const char *path, mode_t mode)
{
    int fd = -1;
    bool is_there = S_ISDIR(mode)
                        ? mkdir(path, 0755) == 0 || errno == EEXIST
                        : (fd = open(path, O_CREAT | O_RDONLY | O_CLOEXEC, 0644)) >= 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return is_there && mount(from, path, NULL, BIND | RECURSIVE, NULL) == 0;
}

/* What lies at `path` under the old root appears there; links stay links. */
static bool show(const char *path)
{
    char from[PATH_MAX], link[PATH_MAX];
    struct stat facts;
    if (strlen(path) + sizeof "/old" > sizeof from) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(from, "/old", 4);
    memcpy(from + 4, path, strlen(path) + 1);
    if (lstat(from, &facts) != 0) {
        return errno == ENOENT;
    }
    if (!make_parents(path)) {
        return false;
    }
    if (S_ISLNK(facts.st_mode)) {
        ssize_t length = readlink(from, link, sizeof link - 1);
        link[length > 0 ? length : 0] = 0;
        return length > 0 && symlink(link, path) == 0;
    }
    return bind_one(from, path, facts.st_mode);
}

static bool enter(void)
{
    return mount("none", "/", NULL, RECURSIVE | PRIVATE, NULL) == 0 &&
           mount("tmpfs", base, "tmpfs", NOSUID | NODEV, "size=1m,nr_inodes=512,mode=755") ==
               0 &&
           chdir(base) == 0 && mkdir("old", 0755) == 0 &&
           syscall(SYS_pivot_root, ".", "old") == 0 && chdir("/") == 0;
}

static bool leave_old(void)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID};
    return umount2("/old", DETACH) == 0 && rmdir("/old") == 0 &&
           syscall(SYS_mount_setattr, -1, "/", 0x8000 /* AT_RECURSIVE */, &attr, sizeof attr) ==
               0;
}

bool cop_sandbox_mount_root(struct cop_sandbox_child *child)
{
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/urandom", NULL};
    if (!enter()) {
        return cop_sandbox_refuse(child, "a file system of its own");
    }
    for (size_t i = 0; child->readable[i]; i++) {
        if (!show(child->readable[i])) {
            return cop_sandbox_refuse(child, child->readable[i]);
        }
    }
    for (size_t i = 0; devices[i]; i++) {
        if (!show(devices[i])) {
            return cop_sandbox_refuse(child, devices[i]);
        }
    }
    return leave_old() || cop_sandbox_refuse(child, "a read-only file system");
}
