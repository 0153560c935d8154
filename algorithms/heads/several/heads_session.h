/* What a session of multi-draft heads holds; private to heads*.c. */
#ifndef COP_ALGORITHMS_HEADS_SESSION_H
#define COP_ALGORITHMS_HEADS_SESSION_H

#include "algorithms/heads/reduced.h"
#include "algorithms/heads/rows.h"
#include "algorithms/heads/several/heads.h"

/* Rows of all heads, computed on the first level of a cycle. */
struct heads_ahead {
    bool is_used;
    int32_t n_heads;         /* that a tree of the engine's capacity can reach */
    int32_t n;               /* sequences of this cycle */
    int32_t *row_of;         /* [n_sequences] of the n; -1: no state */
    struct cop_floats level; /* logits [n_heads, n, vocab] */
};

struct heads_session {
    const struct cop_heads *heads;
    const struct cop_heads_family *family;
    struct cop_model *target;
    void *run; /* of the family */
    struct cop_weight *output[COP_HEADS_LIMIT];
    float *output_bias[COP_HEADS_LIMIT];
    struct cop_row_maker maker;
    int32_t n_sequences;
    float *states;              /* [n_sequences, width] at the position before the root */
    bool *has_state;            /* [n_sequences] */
    struct cop_prefix *prefix;  /* makes the states of those of the target; NULL: they are */
    int32_t *waiting;           /* [n_sequences] scratch */
    struct cop_reduced drafted; /* by the files and the target, and of that by the script */
    struct cop_floats levels[COP_HEADS_LIMIT];
    struct heads_ahead ahead;
    /* One product; grown by need, for node_capacity nodes. */
    struct cop_heads_node *nodes;
    float *inner; /* [nodes, heads->inner] */
    float *own;   /* [nodes, drafted.n_ids] where these are not all */
    int32_t node_capacity;
};

/* heads_output.c: which ids are drafted; output layers, those of equal tensors once; whether
 * all heads can be multiplied at once; logits [n, vocab] of n rows of session->inner by the
 * output layer of a head. */
enum cop_status cop_heads_choose_ids(struct heads_session *session,
                                     const struct cop_proposer_env *env, struct cop_error *err);
enum cop_status cop_heads_load_outputs(struct heads_session *session, struct cop_error *err);
bool cop_heads_can_look_ahead(const struct heads_session *session);
enum cop_status cop_heads_multiply(struct heads_session *session, int32_t head, int32_t n,
                                   float *logits, struct cop_error *err);

#endif
