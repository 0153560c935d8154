/* From a path to a tokenizer, whatever lies there. */
#include "core/base/quote.h"
#include "core/files/map.h"
#include "core/text/tokenizer.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static enum cop_status open_gguf(struct cop_tokenizer **out, const char *path,
                                 struct cop_error *err)
{
    struct cop_gguf *file;
    enum cop_status status = cop_gguf_open(&file, path, err);
    if (status != COP_OK) {
        return status;
    }
    status = cop_tokenizer_from_gguf(out, file, err);
    cop_gguf_close(file);
    return status;
}

enum cop_status cop_tokenizer_open(struct cop_tokenizer **out, const char *path,
                                   struct cop_error *err)
{
    *out = NULL;
    struct stat about;
    bool is_folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    size_t length = strlen(path);
    bool is_json = length >= 5 && strcmp(path + length - 5, ".json") == 0;
    enum cop_status status = is_folder || is_json ? cop_tokenizer_from_folder(out, path, err)
                                                  : open_gguf(out, path, err);
    if (status == COP_OK && !*out) {
        return cop_fail(err, COP_ERR_FORMAT, "%s: holds no tokenizer%s",
                        cop_path_tail(path, 300), is_folder ? " (tokenizer.json)" : "");
    }
    return status;
}
