/* The session of a staged drafter: private to staged.c and staged_level.c. */
#ifndef COP_ALGORITHMS_STAGED_SESSION_H
#define COP_ALGORITHMS_STAGED_SESSION_H

#include "algorithms/propose/drafter.h"
#include "algorithms/propose/twins.h"

struct staged_context {
    struct cop_twins twins; /* the inner proposer's tree */
    bool *is_asked;         /* [tree capacity] the inner proposer was asked for its children */
    float **row;            /* [tree capacity] the model's logits after it; NULL: not scored */
    int32_t n_ahead;        /* nodes drafted ahead in this cycle */
    bool has_begun;         /* the inner proposer knows the sequence */
    bool has_root;          /* it was asked in this cycle: a mixture may leave it out */
};
struct staged_fed { /* a row to come */
    int32_t sequence, node;
};
struct staged_session {
    struct cop_drafter drafter;
    struct cop_part *part;
    const struct cop_proposer_ops *inner;
    void *inner_session;
    struct cop_row_arena *arena, *inner_arena;
    struct cop_sampling sampling;
    int32_t ahead, most_ahead;
    int32_t capacity; /* nodes of the engine's tree */
    struct staged_context *contexts;
    struct cop_floats *passes; /* [capacity + 1] of this cycle */
    int32_t n_passes;
    struct staged_fed *fed; /* [fed_capacity] of one pass */
    int32_t n_fed, fed_capacity;
    int32_t *nodes; /* [capacity + 1] scratch */
};

/* staged_level.c */
void staged_start_cycle(struct staged_context *context, cop_token root);
int32_t staged_find_twin(struct staged_context *context, const struct cop_tree *tree,
                         int32_t node);
enum cop_status staged_expand(void *session, struct cop_frontier *frontiers,
                              int32_t n_frontiers, struct cop_error *err);

#endif
