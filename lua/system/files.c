/* Files as our scripts need them: folders with their parents, hashes, and writing so that a
 * reader sees the old file or the new one, never a part. */
#include "core/base/path.h"
#include "core/base/quote.h"
#include "core/base/sha256.h"
#include "lua/home.h"
#include "lua/system/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int push_true(lua_State *L)
{
    lua_pushboolean(L, 1);
    return 1;
}

static int fail_with(lua_State *L, const char *what, const char *path)
{
    char quoted[COP_QUOTE_SIZE];
    struct cop_error err = {0};
    (void)cop_fail(&err, COP_ERR_IO, "%s \"%s\": %s", what,
                   cop_quote(quoted, path, strlen(path)),
                   errno == ENOSPC ? "the disk is full" : strerror(errno));
    return cop_lua_fail(L, &err);
}

/* folder(path) → true | nil, message, code: makes the folder and its parents */
static int make_folder(lua_State *L)
{
    char copy[PATH_MAX];
    size_t length;
    const char *path = luaL_checklstring(L, 1, &length);
    if (length == 0 || length >= sizeof copy) {
        errno = length ? ENAMETOOLONG : ENOENT;
        return fail_with(L, "cannot make the folder", path);
    }
    memcpy(copy, path, length + 1);
    for (char *at = copy + 1;; at++) {
        if (*at != '/' && *at != 0) {
            continue;
        }
        char kept = *at;
        *at = 0;
        if (mkdir(copy, 0777) != 0 && errno != EEXIST) {
            return fail_with(L, "cannot make the folder", copy);
        }
        *at = kept;
        if (!kept) {
            break;
        }
    }
    struct stat facts;
    if (stat(path, &facts) != 0 || !S_ISDIR(facts.st_mode)) {
        errno = ENOTDIR;
        return fail_with(L, "cannot make the folder", path);
    }
    return push_true(L);
}

/* kind(path) → "file", "folder", "other", or nil when there is none */
static int kind_of(lua_State *L)
{
    struct stat facts;
    if (stat(luaL_checkstring(L, 1), &facts) != 0) {
        lua_pushnil(L);
        return 1;
    }
    lua_pushstring(L, S_ISREG(facts.st_mode)   ? "file"
                      : S_ISDIR(facts.st_mode) ? "folder"
                                               : "other");
    return 1;
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

/* Makes the new name last: without this a power cut may bring the old file back. */
static void sync_folder_of(const char *path)
{
    char folder[PATH_MAX];
    size_t length = (size_t)(cop_path_name(path) - path);
    memcpy(folder, length ? path : ".", length ? length : 1);
    folder[length ? length : 1] = 0;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        (void)close(fd);
    }
}

/* write(path, text) → true | nil, message, code */
static int write_file(lua_State *L)
{
    char fresh[PATH_MAX];
    size_t length;
    const char *path = luaL_checkstring(L, 1);
    const char *bytes = luaL_checklstring(L, 2, &length);
    int n = snprintf(fresh, sizeof fresh, "%s.new%ld", path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof fresh) {
        errno = ENAMETOOLONG;
        return fail_with(L, "cannot write", path);
    }
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        return fail_with(L, "cannot write", path);
    }
    bool is_written = write_all(fd, bytes, length) && fsync(fd) == 0;
    int reason = errno;
    is_written = close(fd) == 0 && is_written;
    if (!is_written || !cop_path_replace(fresh, path)) {
        reason = is_written ? errno : reason;
        (void)unlink(fresh);
        errno = reason;
        return fail_with(L, "cannot write", path);
    }
    sync_folder_of(path);
    return push_true(L);
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* A folder's hash is that of its files' hashes and names, a line each, in order of the names'
 * bytes; folders inside it and hidden files do not count. */
static enum cop_status hash_folder(const char *path, char hex[COP_SHA256_HEX],
                                   struct cop_error *err)
{
    struct dirent **entries = NULL;
    struct cop_sha256 hash;
    int count = scandir(path, &entries, is_shown, by_bytes);
    enum cop_status status = COP_OK;
    if (count < 0) {
        return cop_fail(err, COP_ERR_IO, "%s: %s", cop_path_tail(path, 300), strerror(errno));
    }
    cop_sha256_start(&hash);
    for (int i = 0; i < count; i++) {
        char file[PATH_MAX];
        struct stat about;
        (void)snprintf(file, sizeof file, "%.3000s/%s", path, entries[i]->d_name);
        if (status == COP_OK && stat(file, &about) == 0 && S_ISREG(about.st_mode)) {
            status = cop_sha256_file(file, hex, err);
            cop_sha256_add(&hash, hex, COP_SHA256_HEX - 1);
            cop_sha256_add(&hash, " ", 1);
            cop_sha256_add(&hash, entries[i]->d_name, strlen(entries[i]->d_name));
            cop_sha256_add(&hash, "\n", 1);
        }
        free(entries[i]);
    }
    free(entries);
    cop_sha256_finish(&hash, hex);
    return status;
}

/* hash_file(path) → SHA-256 in hexadecimal, of a file or a folder | nil, message, code */
static int hash_file(lua_State *L)
{
    char hex[COP_SHA256_HEX];
    const char *path = luaL_checkstring(L, 1);
    struct stat about;
    struct cop_error err = {0};
    bool is_folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    if ((is_folder ? hash_folder(path, hex, &err) : cop_sha256_file(path, hex, &err)) !=
        COP_OK) {
        return cop_lua_fail(L, &err);
    }
    lua_pushstring(L, hex);
    return 1;
}

/* list(folder) → sorted names of what is in it, hidden ones left out | nil, message, code */
static int list_folder(lua_State *L)
{
    struct dirent **entries = NULL;
    const char *path = luaL_checkstring(L, 1);
    int count = scandir(path, &entries, is_shown, by_bytes);
    if (count < 0) {
        return fail_with(L, "cannot read the folder", path);
    }
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        lua_pushstring(L, entries[i]->d_name);
        lua_rawseti(L, -2, i + 1);
        free(entries[i]);
    }
    free(entries);
    return 1;
}

/* Whether a name is "….newPID" of a process that does not live any more. Who writes into a
 * run's folder is on this machine, as its database asks for. */
static bool is_leftover(const char *name)
{
    const char *mark = NULL;
    for (const char *at = strstr(name, ".new"); at; at = strstr(at + 1, ".new")) {
        mark = at;
    }
    const char *digits = mark ? mark + 4 : "";
    char *end = NULL;
    long pid = *digits >= '1' && *digits <= '9' ? strtol(digits, &end, 10) : 0;
    if (pid <= 0 || pid > INT_MAX || *end != 0) {
        return false;
    }
    return pid == (long)getpid() || (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
}

/* sweep(folder): removes what writers that were killed in the middle have left in it */
static int sweep_folder(lua_State *L)
{
    struct dirent **entries = NULL;
    const char *path = luaL_checkstring(L, 1);
    int count = scandir(path, &entries, is_shown, by_bytes);
    for (int i = 0; i < count; i++) {
        char file[PATH_MAX];
        int n = snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        if (is_leftover(entries[i]->d_name) && n > 0 && (size_t)n < sizeof file) {
            (void)unlink(file);
        }
        free(entries[i]);
    }
    free(entries);
    return 0;
}

struct lock {
    int fd; /* of the folder */
    bool is_open;
};

static void release_lock(void *block)
{
    struct lock *lock = block;
    if (lock->is_open) {
        (void)close(lock->fd);
    }
}

/* lock(folder) → what holds it until it is closed or its process ends | nil: somebody holds it
 * | nil, message, code. Nothing is written. A file system without locks has none that are held.
 */
static int lock_folder(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    struct lock *lock = cop_lua_guard(L, sizeof *lock, release_lock);
    lock->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    lock->is_open = lock->fd >= 0;
    if (!lock->is_open) {
        return fail_with(L, "cannot open the folder", path);
    }
    if (flock(lock->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        cop_lua_guard_close(L, -1);
        lua_pushnil(L);
    }
    return 1;
}

/* hash(text) → SHA-256 in hexadecimal */
static int hash_text(lua_State *L)
{
    char hex[COP_SHA256_HEX];
    size_t length;
    struct cop_sha256 hash;
    const char *text = luaL_checklstring(L, 1, &length);
    cop_sha256_start(&hash);
    cop_sha256_add(&hash, text, length);
    cop_sha256_finish(&hash, hex);
    lua_pushstring(L, hex);
    return 1;
}

void cop_lua_open_files(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"folder", make_folder}, {"kind", kind_of},        {"write", write_file},
        {"hash", hash_text},     {"hash_file", hash_file}, {"list", list_folder},
        {"sweep", sweep_folder}, {"lock", lock_folder},    {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
