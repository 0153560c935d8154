/* The contract of a length policy: whether to draft one more level. Decisions may use what was
 * drawn on earlier levels and the rows, never the tokens still to come, and never drop a token
 * that was drawn (exact_rules.md: non-anticipation). The depth of a path is then a stopping
 * time, and rules that are lossless for it stay so.
 *
 * A policy that reads measured seconds changes where cycles end from run to run: never the
 * tokens at temperature 0, never their law above it, but which tokens a seed gives. */
#ifndef COP_CYCLE_LENGTH_H
#define COP_CYCLE_LENGTH_H

#include "core/cycle/contract/plug.h"
#include "core/cycle/rows/row.h"
#include "core/cycle/rows/tree.h"

/* What one cycle came to. Seconds are this sequence's share of its batch's, and NaN where no
 * clock runs (enumeration). */
struct cop_length_cycle {
    int32_t limit; /* levels that could have been drafted */
    int32_t depth; /* that were */
    int32_t n_accepted;
    int32_t nodes;    /* scored, root and scouts included */
    int32_t n_scouts; /* of these */
    double draft_seconds, score_seconds, host_seconds;
    void *shared_state; /* lent; NULL: there is none */
};

/* What a sequence remembers from cycle to cycle. */
struct cop_length_memory {
    void *state;       /* the policy's own: sequence_state_size bytes */
    void *shared;      /* see struct cop_length_in; NULL: none */
    int32_t n_matched; /* the same */
    bool is_offered;   /* the rows that the proposer was asked for last are the next level's */
    const double *acceptance;            /* [depth of the tree] see struct cop_length_in */
    const struct cop_length_cycle *last; /* NULL: none yet */
};

struct cop_length_in {
    int32_t level; /* about to be drafted, from 1 */
    int32_t limit; /* levels that this cycle can have at most */
    const struct cop_tree *tree;
    const int32_t *frontier; /* [n_frontier] nodes that would be expanded */
    int32_t n_frontier;
    struct cop_rows draft;    /* at(node): the row that node's own token was drawn from */
    const double *acceptance; /* [level] measured so far: share of cycles that accepted depth d
                                 + 1 given depth d; NaN: unknown */
    const struct cop_length_cycle *last; /* the cycle before; NULL: none */
    void *sequence_state;
    void *shared_state; /* of the engine, over all its requests; NULL: none (enumeration) */
    /* Of proposers that draft for next to nothing (is_cheap, or some of several: offer), which
     * are asked first: the rows below the frontier, and how many tokens at the end of the text
     * were found earlier for them (0: none, or it does not look up). They are functions of the
     * text. */
    const struct cop_row *offered; /* [n_frontier, n_drafters]; NULL: none are made yet */
    int32_t n_drafters;
    int32_t n_matched;
};

struct cop_length_ops {
    struct cop_plug plug;
    size_t sequence_state_size; /* plain memory; zero at the start of a sequence */
    bool is_constant;           /* the depth is the same in every cycle, whatever is drafted */
    bool (*more)(const void *state, const struct cop_length_in *in); /* required */
    void (*observe)(const void *state, void *sequence_state,
                    const struct cop_length_cycle *cycle); /* optional: after each cycle */
    size_t shared_state_size; /* plain memory, one an engine; zero when it is new. What is read
                                 from it makes the tokens of a seed above temperature 0 depend
                                 on the requests before */
};

/* Whether what has been drawn may decide how deep a draft is. length NULL: never. */
static inline bool cop_length_varies(const struct cop_part *length)
{
    return length && !((const struct cop_length_ops *)length->plug)->is_constant;
}

#endif
