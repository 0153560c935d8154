/* The scripts of lua/scripts, and those of experiments/recipes under "recipes/NAME", as bytes
 * in the binary.
 *
 * The Makefile makes the table behind this from the files that are there. Their chunks are
 * named COP_EMBEDDED_CHUNK plus the file's name, which is how errors find the line of the
 * script that called, not of ours. */
#ifndef COP_LUA_EMBED_H
#define COP_LUA_EMBED_H

#include <stdbool.h>
#include <stddef.h>

#define COP_EMBEDDED_CHUNK "=coppice/"

struct cop_embedded {
    const char *name; /* "generate"; NULL ends the table */
    const char *bytes;
    size_t length;
};
extern const struct cop_embedded cop_embedded_scripts[];

/* false: no script of that name. */
bool cop_embedded(const char *name, const char **bytes, size_t *length);

#endif
