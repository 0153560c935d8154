/* Rows of heads that read a token beside states: [E(t); x], each half normed or not. */
#ifndef COP_ALGORITHMS_PAIR_H
#define COP_ALGORITHMS_PAIR_H

#include "core/model/model.h"

struct cop_pair_rows {
    int32_t n;
    const int32_t *sequences, *parents; /* [n] as in a forward pass */
    const cop_token *tokens;            /* [n] */
    float *x;                           /* [n, width] in; out: y */
};

struct cop_pair {
    const struct cop_model *target;
    struct cop_matrix embedding;          /* data NULL: the target's */
    const float *token_norm, *state_norm; /* [width] or NULL */
    double epsilon;
    int32_t width;
};

/* out [n, 2 width]; embedded [n, width] is scratch, and may not be a part of out. */
enum cop_status cop_pair_join(const struct cop_pair *pair, const struct cop_pair_rows *rows,
                              float *embedded, float *out, struct cop_error *err);

#endif
