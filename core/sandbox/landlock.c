/* Landlock: a process gives up all files but those under the paths that it names. Needs no
 * privilege. It does not cover looking a file up (stat, chdir) nor its name, mode and owner:
 * the latter are calls that the filter forbids. */
#include "core/sandbox/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define READ_FILE LANDLOCK_ACCESS_FS_READ_FILE
#define READ_TREE (READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE)

/* All rights that a version knows: 13 in the first, then one more each for REFER, TRUNCATE and,
 * in the fifth, IOCTL_DEV. */
static uint64_t all_rights(long version)
{
    return version >= 5 ? 0xffff : version >= 3 ? 0x7fff : version == 2 ? 0x3fff : 0x1fff;
}

static bool allow_path(int ruleset, const char *path, uint64_t rights)
{
    struct stat facts;
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT; /* what is not there needs no rule */
    }
    if (fstat(fd, &facts) == 0 && !S_ISDIR(facts.st_mode)) {
        rights &= (uint64_t)~LANDLOCK_ACCESS_FS_READ_DIR;
    }
    struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
    bool is_added =
        syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
    (void)close(fd);
    return is_added;
}

bool cop_sandbox_restrict_files(struct cop_sandbox_child *child)
{
    long version =
        syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1) {
        return cop_sandbox_refuse(child, "Landlock");
    }
    struct landlock_ruleset_attr attr = {.handled_access_fs = all_rights(version)};
    int ruleset =
        (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr.handled_access_fs, 0);
    bool is_whole = ruleset >= 0;
    for (size_t i = 0; is_whole && child->readable[i]; i++) {
        is_whole = allow_path(ruleset, child->readable[i], READ_TREE);
    }
    is_whole = is_whole && allow_path(ruleset, "/dev/urandom", READ_FILE) &&
               allow_path(ruleset, "/dev/null", READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE);
    return (is_whole && syscall(SYS_landlock_restrict_self, ruleset, 0) == 0) ||
           cop_sandbox_refuse(child, "Landlock's rules");
}
