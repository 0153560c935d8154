/* Preparing heads: the folder, and tensors by name. */
#include "algorithms/heads/several/heads.h"
#include "core/base/quote.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum cop_status cop_heads_open_files(struct cop_heads *heads, const char *file,
                                     struct cop_error *err)
{
    heads->n_heads = 0;
    heads->vocab = 0;
    heads->prefix = NULL;
    heads->map = (struct cop_token_map){0};
    for (int32_t i = 0; i < COP_HEADS_LIMIT; i++) {
        heads->output[i] = heads->output_bias[i] = NULL;
    }
    enum cop_status status = cop_checkpoint_open_file(&heads->files, heads->path, file, err);
    heads->files.weights = (enum cop_head_weights)heads->weights;
    return status;
}

const struct cop_tensor *cop_heads_look(const struct cop_heads *heads, const char *format, ...)
{
    char name[COP_HEADS_NAME_LIMIT];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return cop_source_tensor(&heads->files.source, name);
}

int32_t cop_heads_rows(const struct cop_tensor *tensor)
{
    return tensor && tensor->rank == 2 && tensor->dims[1] <= INT32_MAX
               ? (int32_t)tensor->dims[1]
               : 0;
}

enum cop_status cop_heads_find(const struct cop_heads *heads, const char *name, int32_t rows,
                               int32_t cols, const struct cop_tensor **out,
                               struct cop_error *err)
{
    const struct cop_wanted wanted = {
        .name = name, .of = "heads", .rows = rows, .cols = cols, .is_required = true};
    enum cop_status status = cop_source_find(&heads->files.source, &wanted, out, err);
    struct cop_matrix unused; /* of interest is whether its values are numbers */
    return status == COP_OK ? cop_checkpoint_table(&heads->files, *out, &unused, err) : status;
}

enum cop_status cop_heads_find_linear(const struct cop_heads *heads, const char *stem,
                                      int32_t rows, int32_t cols,
                                      const struct cop_tensor **weight,
                                      const struct cop_tensor **bias, struct cop_error *err)
{
    char name[COP_HEADS_NAME_LIMIT];
    *bias = NULL;
    (void)snprintf(name, sizeof name, "%s.weight", stem);
    enum cop_status status = cop_heads_find(heads, name, rows, cols, weight, err);
    (void)snprintf(name, sizeof name, "%s.bias", stem);
    return status == COP_OK && cop_heads_look(heads, "%s", name)
               ? cop_heads_find(heads, name, 0, rows, bias, err)
               : status;
}

/* ---- What else is there -------------------------------------------------------------------
 */

static bool starts(const struct cop_tensor *tensor, const char *stem)
{
    size_t length = strlen(stem);
    return tensor->name.length >= length && memcmp(tensor->name.bytes, stem, length) == 0;
}

/* 1 + the number behind a stem; 0: no number and dot there. */
static int32_t number_behind(const struct cop_tensor *tensor, const char *stem)
{
    size_t at = strlen(stem), first = at;
    int32_t number = 0;
    while (at < tensor->name.length && at < first + 6 && tensor->name.bytes[at] >= '0' &&
           tensor->name.bytes[at] <= '9') {
        number = 10 * number + (tensor->name.bytes[at++] - '0');
    }
    bool is_numbered = at > first && at < tensor->name.length && tensor->name.bytes[at] == '.';
    return is_numbered ? number + 1 : 0;
}

int32_t cop_heads_count(const struct cop_heads *heads, const char *stem)
{
    int32_t n = 0;
    for (size_t i = 0; i < cop_source_count(&heads->files.source); i++) {
        const struct cop_tensor *tensor = cop_source_at(&heads->files.source, i);
        int32_t number = starts(tensor, stem) ? number_behind(tensor, stem) : 0;
        n = number > n ? number : n;
    }
    return n;
}

enum cop_status
cop_heads_refuse_strangers(const struct cop_heads *heads, const char *const *stems,
                           bool (*owns)(const void *context, const struct cop_tensor *tensor),
                           const void *context, struct cop_error *err)
{
    const struct cop_weights_source *source = &heads->files.source;
    for (size_t i = 0; i < cop_source_count(source); i++) {
        const struct cop_tensor *tensor = cop_source_at(source, i);
        bool is_asked = false;
        for (const char *const *stem = stems; *stem && !is_asked; stem++) {
            is_asked = starts(tensor, *stem);
        }
        if (is_asked && !owns(context, tensor) && !cop_source_is_derived(tensor)) {
            char quoted[COP_QUOTE_SIZE];
            return cop_fail(err, COP_ERR_FORMAT,
                            "%s: tensor \"%s\" has no place among the heads: others that it "
                            "goes with are missing, or the configuration is of other heads",
                            cop_source_name(source),
                            cop_quote(quoted, tensor->name.bytes, tensor->name.length));
        }
    }
    return COP_OK;
}

enum cop_status cop_heads_read_vocab(struct cop_heads *heads, struct cop_error *err)
{
    const struct cop_checkpoint *files = &heads->files;
    const struct cop_json_node *said =
        cop_json_get(&files->tree, cop_json_root(&files->tree), "vocab_size");
    return said && said->kind != COP_JSON_NULL
               ? cop_checkpoint_int(files, "vocab_size", 1 << 24, 0, &heads->vocab, err)
               : COP_OK;
}

void cop_heads_release(void *state)
{
    struct cop_heads *heads = state;
    cop_token_map_release(&heads->map);
    cop_checkpoint_close(&heads->files);
}
