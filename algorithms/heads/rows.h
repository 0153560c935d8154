/* Rows of draft heads, handed out: a node's own, or one that all nodes of a level share because
 * it does not depend on what was drafted above them. */
#ifndef COP_ALGORITHMS_ROWS_H
#define COP_ALGORITHMS_ROWS_H

#include "algorithms/heads/pass.h"
#include "core/cycle/contract/proposer.h"

struct cop_row_maker {
    int32_t vocab;
    struct cop_sampling sampling;
    struct cop_row_arena *arena;
    const char *of;       /* "draft head": begins messages, the level behind it */
    const cop_token *ids; /* [n_ids] ascending, all others are at -inf; NULL: any may be drafted
                           */
    int32_t n_ids;
};

/* frontier->rows[i], normalised. What is wrong with it goes where the frontier says. */
enum cop_status cop_row_make(const struct cop_row_maker *maker, struct cop_frontier *frontier,
                             int32_t i, float *logits, struct cop_error *err);

/* One row for all nodes of the frontier. What a request does to logits depends on the path, so
 * then each node gets a copy: `spare` has room for cop_row_copies of them. */
enum cop_status cop_row_share(const struct cop_row_maker *maker, struct cop_frontier *frontier,
                              float *logits, float *spare, struct cop_error *err);
static inline int32_t cop_row_copies(const struct cop_frontier *frontier)
{
    return frontier->process ? frontier->count - 1 : 0;
}

/* Room for n_rows logits of the maker, as cop_subset_reserve keeps them. */
bool cop_row_reserve(const struct cop_row_maker *maker, struct cop_floats *level,
                     int32_t n_rows);

#endif
