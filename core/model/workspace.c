/* The buffers of the forward pass. */
#include "core/model/state.h"
#include <stdlib.h>

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* Aligned to a cache line. */
static void *take(int32_t count, size_t size)
{
    size_t bytes = ((size_t)count * size + 63) / 64 * 64;
    return aligned_alloc(64, bytes);
}

bool cop_workspace_reserve(struct cop_model *model, int32_t n)
{
    struct cop_workspace *work = &model->work;
    if (n <= work->tokens) {
        return true;
    }
    const struct cop_model_info *info = &model->info;
    int32_t query = cop_model_query_rows(model), key = cop_model_key_rows(model);
    size_t inner = (size_t)larger(larger(info->hidden_size, model->input_width),
                                  larger(query, info->ffn_size));
    size_t wide =
        (size_t)larger(info->hidden_size, larger(query + 2 * key, 2 * info->ffn_size));
    cop_workspace_release(work);
    work->stream = take(n, (size_t)info->hidden_size * sizeof(float));
    work->inner = take(n, inner * sizeof(float));
    work->wide = take(n, wide * sizeof(float));
    work->positions = take(n, sizeof *work->positions);
    work->slots = take(n, sizeof *work->slots);
    work->attention = take(n, sizeof *work->attention);
    work->seen = take(n, sizeof *work->seen);
    work->page_tables = take(n, sizeof *work->page_tables);
    work->groups = take(n, sizeof *work->groups);
    if (!work->stream || !work->inner || !work->wide || !work->positions || !work->slots ||
        !work->attention || !work->seen || !work->page_tables || !work->groups) {
        cop_workspace_release(work);
        return false;
    }
    work->tokens = n;
    return true;
}

bool cop_workspace_reserve_paths(struct cop_workspace *work, size_t n_paths)
{
    if (n_paths > work->paths_capacity) {
        size_t capacity = n_paths + n_paths / 2;
        int32_t *paths = realloc(work->paths, capacity * sizeof *paths);
        if (!paths) {
            return false;
        }
        work->paths = paths;
        work->paths_capacity = capacity;
    }
    return true;
}

void cop_workspace_release(struct cop_workspace *work)
{
    free(work->stream);
    free(work->inner);
    free(work->wide);
    free(work->positions);
    free(work->slots);
    free(work->attention);
    free(work->seen);
    free(work->page_tables);
    free(work->groups);
    free(work->paths);
    *work = (struct cop_workspace){0};
}
