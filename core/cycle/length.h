/* The contract of a length policy: whether to draft one more level. Decisions may use what was
 * drawn on earlier levels and the rows, never the tokens still to come, and never drop a token
 * that was drawn (exact_rules.md: non-anticipation). */
#ifndef COP_CYCLE_LENGTH_H
#define COP_CYCLE_LENGTH_H

#include "core/cycle/plug.h"
#include "core/cycle/row.h"
#include "core/cycle/tree.h"

struct cop_length_in {
    int32_t level; /* about to be drafted, from 1 */
    const struct cop_tree *tree;
    const int32_t *frontier; /* [n_frontier] nodes that would be expanded */
    int32_t n_frontier;
    struct cop_rows draft;    /* at(node): the row that node's own token was drawn from */
    const double *acceptance; /* [level] measured so far: share of cycles that accepted depth d
                                 + 1 given depth d; NaN: unknown */
    void *sequence_state;
};

struct cop_length_ops {
    struct cop_plug plug;
    size_t sequence_state_size; /* plain memory; zero at the start of a sequence */
    bool is_constant;           /* the depth is the same in every cycle, whatever is drafted */
    bool (*more)(const void *state, const struct cop_length_in *in); /* required */
    /* optional: after each cycle: how many levels were drafted and accepted */
    void (*observe)(const void *state, void *sequence_state, int32_t drafted_depth,
                    int32_t n_accepted);
};

#endif
