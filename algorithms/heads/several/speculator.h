/* Speculators: a vector per node that begins as the target's last state and takes in a drafted
 * token at each head. Two kinds of cell (the formulas: algorithms/propose/mlp.c). */
#ifndef COP_ALGORITHMS_SPECULATOR_H
#define COP_ALGORITHMS_SPECULATOR_H

#include "algorithms/heads/several/heads.h"

enum { COP_SPECULATOR_GATES = 4 }; /* forget, input, output, candidate */

struct cop_speculator { /* a part's state */
    struct cop_heads heads;
    bool is_tied, is_scaled, is_lstm;
    /* Plain cell, of each head; equal pointers where tied. */
    const struct cop_tensor *emb[COP_HEADS_LIMIT], *proj[COP_HEADS_LIMIT];
    const struct cop_tensor *gain[COP_HEADS_LIMIT], *shift[COP_HEADS_LIMIT];
    /* LSTM cell, of all heads. Gates may share an embedding (equal pointers), and be stored one
     * behind another (the first, the others NULL). [0]: of the root, [1]: of drafted tokens */
    const struct cop_tensor *gate_emb[COP_SPECULATOR_GATES];
    const struct cop_tensor *gate_proj[2][COP_SPECULATOR_GATES];
    const struct cop_tensor *cell_gain, *cell_shift, *state_gain, *state_shift;
};

extern const struct cop_heads_family cop_speculator_plain, cop_speculator_lstm;

/* ---- What both cells do ---- */

/* w_e / w_s */
float cop_speculator_weight(const struct cop_speculator *speculator);
/* [heads.width] of 1 / sqrt 2. NULL: no memory. */
float *cop_speculator_root_gain(const struct cop_speculator *speculator);
/* out = what projections read: h before the roots, or what the parents left, the first `inner`
 * of it. */
void cop_speculator_inputs(const struct cop_speculator *speculator,
                           const struct cop_model *target, const float *root_gain,
                           const struct cop_heads_kept *kept, int32_t depth,
                           const struct cop_heads_node *nodes, int32_t n, float *out);
/* x [n, inner] ← gelu(norm x): the norm has a scale and a shift, and no mean. */
void cop_speculator_norm(const struct cop_speculator *speculator,
                         const struct cop_model *target, const float *gain, const float *shift,
                         int32_t n, float *x);

#endif
