/* Names in paths, and a new file in an old one's place. */
#ifndef COP_BASE_PATH_H
#define COP_BASE_PATH_H

#include <stdbool.h>

/* What stands behind the last '/', borrowed from `path`; all of it where nothing does. The
 * bytes in front of it are the folder, with its '/': none for "b.gguf", "/" for "/b.gguf". */
const char *cop_path_name(const char *path);

/* The file `fresh` becomes `path`, and what was there is gone. False, with errno, and both as
 * they were: where there is a device, a pipe or a socket (EEXIST), or as rename(2) fails. */
bool cop_path_replace(const char *fresh, const char *path);

#endif
