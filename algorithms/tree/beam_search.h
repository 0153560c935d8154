/* Beam search as a part that other algorithms make: for proposers whose own shape it is. */
#ifndef ALGORITHMS_TREE_BEAM_SEARCH_H
#define ALGORITHMS_TREE_BEAM_SEARCH_H

#include "core/cycle/contract/builder.h"

/* cop.tree.beam_search, prepared; *out is NULL after failure. */
enum cop_status cop_tree_beam_search_new(int32_t width, int32_t depth, struct cop_part **out,
                                         struct cop_error *err);

#endif
