/* Logits of a level to rows of its nodes. */
#include "algorithms/heads/rows.h"
#include "algorithms/propose/subset.h"

#include <string.h>

bool cop_row_reserve(const struct cop_row_maker *maker, struct cop_floats *level,
                     int32_t n_rows)
{
    return cop_subset_reserve(maker->ids, level, (size_t)n_rows * (size_t)maker->vocab);
}

enum cop_status cop_row_make(const struct cop_row_maker *maker, struct cop_frontier *frontier,
                             int32_t i, float *logits, struct cop_error *err)
{
    const struct cop_row_tokens tokens = {maker->vocab, maker->ids, maker->n_ids};
    struct cop_error failure = {0};
    struct cop_row *row = &frontier->rows[i];
    enum cop_status status = cop_frontier_row(frontier, i, logits, &tokens, &maker->sampling,
                                              maker->arena, &failure);
    if (status == COP_OK && row->kind == COP_ROW_LOGITS) {
        status = cop_row_normalise(row, maker->arena, &failure);
    }
    if (status != COP_OK) {
        *row = (struct cop_row){.kind = COP_ROW_NONE};
        (void)cop_fail(frontier->error ? frontier->error : err, status, "row of %s %d: %s",
                       maker->of, cop_tree_depth(frontier->tree, frontier->nodes[i]),
                       failure.text);
    }
    return frontier->error ? COP_OK : status;
}

enum cop_status cop_row_share(const struct cop_row_maker *maker, struct cop_frontier *frontier,
                              float *logits, float *spare, struct cop_error *err)
{
    size_t vocab = (size_t)maker->vocab;
    int32_t n_copies = cop_row_copies(frontier);
    enum cop_status status = COP_OK;
    for (int32_t i = 1; i <= n_copies && status == COP_OK; i++, spare += vocab) {
        memcpy(spare, logits, vocab * sizeof *spare);
        status = cop_row_make(maker, frontier, i, spare, err);
    }
    if (status == COP_OK) {
        status = cop_row_make(maker, frontier, 0, logits, err);
    }
    for (int32_t i = 1; n_copies == 0 && i < frontier->count; i++) {
        frontier->rows[i] = frontier->rows[0];
    }
    return status;
}
