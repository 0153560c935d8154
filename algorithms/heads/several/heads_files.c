/* Preparing heads: the folder, and tensors by name. */
#include "algorithms/heads/several/heads.h"

#include <stdarg.h>
#include <stdio.h>

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
    return cop_checkpoint_open_file(&heads->files, heads->path, file, err);
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

void cop_heads_release(void *state)
{
    struct cop_heads *heads = state;
    cop_token_map_release(&heads->map);
    cop_checkpoint_close(&heads->files);
}
