/* Names in paths. */
#include "core/base/path.h"

#include <string.h>

const char *cop_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}
