/* The fixed tree as a part that other algorithms make: for published trees that come with a
 * proposer. */
#ifndef ALGORITHMS_TREE_PATHS_H
#define ALGORITHMS_TREE_PATHS_H

#include "core/cycle/contract/builder.h"

/* cop.tree.paths from rank paths, ranks from 0, lengths[i] of them for path i, one after
 * another. Prepared; *out is NULL after failure. */
enum cop_status cop_tree_paths_new(const int32_t *ranks, const int32_t *lengths, int32_t count,
                                   struct cop_part **out, struct cop_error *err);

#endif
