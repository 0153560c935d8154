/* Finds the interpreter: a binary, since what version managers put into PATH is a script that
 * starts further programs, and no sandbox of ours lets it. */
#include "core/sandbox/sandbox.h"

#include "core/base/quote.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_binary(const char *path)
{
    char magic[4] = {0};
    FILE *file = access(path, X_OK) == 0 ? fopen(path, "rbe") : NULL;
    bool is_elf = file && fread(magic, 1, sizeof magic, file) == sizeof magic &&
                  memcmp(magic, "\177ELF", 4) == 0;
    if (file) {
        (void)fclose(file);
    }
    return is_elf;
}

/* The first of a list of folders, "a:b", that holds a binary of this name. */
static bool find_in(const char *folders, const char *name, char path[PATH_MAX])
{
    char wanted[PATH_MAX];
    while (folders && *folders) {
        int length = (int)strcspn(folders, ":");
        int n = snprintf(wanted, sizeof wanted, "%.*s/%s", length, folders, name);
        if (folders[0] == '/' && n > 0 && (size_t)n < sizeof wanted && realpath(wanted, path) &&
            is_binary(path)) {
            return true;
        }
        folders += length + (folders[length] == ':');
    }
    return false;
}

enum cop_status cop_sandbox_interpreter(const char *name, char path[PATH_MAX],
                                        struct cop_error *err)
{
    char quoted[COP_QUOTE_SIZE];
    (void)cop_quote(quoted, name, strlen(name));
    if (strchr(name, '/')) {
        if (!realpath(name, path)) {
            return cop_fail(err, COP_ERR_IO, "interpreter \"%s\": %s", quoted, strerror(errno));
        }
        return is_binary(path)
                   ? COP_OK
                   : cop_fail(err, COP_ERR_UNSUPPORTED,
                              "interpreter \"%s\" is no binary that can be executed", quoted);
    }
    if (find_in("/usr/bin:/usr/local/bin", name, path) || find_in(getenv("PATH"), name, path)) {
        return COP_OK;
    }
    return cop_fail(err, COP_ERR_UNSUPPORTED,
                    "no \"%s\" in /usr/bin, /usr/local/bin or PATH (scripts that start another "
                    "program do not count)",
                    quoted);
}
