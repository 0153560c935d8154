/* The session of heads that attend: private to carry.c and carry_level.c. */
#ifndef COP_ALGORITHMS_CARRY_STATE_H
#define COP_ALGORITHMS_CARRY_STATE_H

#include "algorithms/heads/carried/carry.h"
#include "algorithms/heads/rows.h"
#include "algorithms/heads/taps.h"

/* What a stage knows of one sequence's tree. */
struct carry_stage {
    int32_t *slot_of; /* [capacity + 1] node -> speculative slot (root: 0); -1: it has no row */
    float *y;         /* [y_capacity, width] of the root's row, then of each slot's */
    int32_t y_capacity;
};
struct carry_context {
    struct cop_taps taps; /* true states that were not fed yet; the last has the root */
    struct carry_stage stages[COP_CARRY_STAGES];
};
/* Committed tokens of one sequence that are being fed. */
struct carry_text {
    int32_t sequence, count;
    int32_t first, skipped;           /* in the pass at hand: its first row; tokens in front
                                         that have none */
    int32_t next_first, next_skipped; /* in the pass of the next stage */
};

struct carry_session {
    struct cop_carry carry;
    struct cop_model *target;
    struct cop_cache *caches[COP_CARRY_STAGES];
    struct cop_row_maker maker;
    int32_t positions, n_sequences, capacity;
    size_t states_width, width;
    struct carry_context *contexts; /* [n_sequences] */
    struct carry_text *texts;       /* [n_sequences] */
    struct cop_floats *levels;      /* [capacity + 1] rows live until observe */
    /* One pass. */
    struct cop_feed feed;
    struct cop_floats floats; /* the block of the following; n = feed.n */
    float *x;                 /* [n, width] */
    float *next;              /* [n, width] x of the stage behind */
    float *y;                 /* [n, width] those whose logits are wanted */
    float *states;            /* [n, states_width] */
};

/* carry.c */
enum cop_status carry_reserve(struct carry_session *session, int32_t n, struct cop_error *err);
enum cop_status carry_step(struct carry_session *session, int32_t stage, struct cop_error *err);
enum cop_status carry_reserve_y(struct carry_session *session, struct carry_stage *stage,
                                int32_t n, struct cop_error *err);
/* Feeds n texts, their first `count` states each, to all stages, which commit their rows.
 * session->y: what stage 0 makes of the last token of each. */
enum cop_status carry_feed_texts(struct carry_session *session, int32_t n,
                                 struct cop_error *err);

#endif
