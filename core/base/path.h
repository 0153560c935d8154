/* Names in paths. */
#ifndef COP_BASE_PATH_H
#define COP_BASE_PATH_H

/* What stands behind the last '/', borrowed from `path`; all of it where nothing does. The
 * bytes in front of it are the folder, with its '/': none for "b.gguf", "/" for "/b.gguf". */
const char *cop_path_name(const char *path);

#endif
