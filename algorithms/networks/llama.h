/* A decoder layer of Llama's kind, forward and back, over the windows of a batch:
 *
 *     a = attention(q, k, v of input)        r = x + o a
 *     y = r + down(silu(gate n) * up n),     n = norm(r)
 *
 * It may be unrolled on its own output, as EAGLE's training-time test has it, from some row of
 * each window on (cop_train_rows). At step s, row r stands for position r + s; it sees the keys
 * of step 0 up to row r, and of every later step its own row's alone:
 *
 *     step 2, row 3:  k0[0] k0[1] k0[2] k0[3]  k1[3]  k2[3]
 */
#ifndef COP_NETWORKS_LLAMA_H
#define COP_NETWORKS_LLAMA_H

#include "algorithms/networks/network.h"

struct cop_llama {
    int32_t width, inputs; /* of x and y; of what q, k and v read */
    int32_t heads, kv_heads, head_dim, ffn;
    double epsilon, theta;
    struct cop_parameter *q, *k, *v, *o, *gate, *up, *down, *norm;
    /* Shared by passes; for n rows in windows of `longest` at most. */
    int32_t longest, capacity;
    cop_real *cosines, *sines;   /* [longest + steps, head_dim / 2] */
    cop_real *wide, *wide2;      /* [n, ffn] */
    cop_real *d_mixed, *d_q;     /* [n, heads * head_dim] */
    cop_real *d_row;             /* [n, width] */
    cop_real *scores, *d_scores; /* [heads, length, length] of each window */
    cop_real *extra, *d_extra;   /* [steps, heads, n] */
};

/* What a step keeps for the way back. */
struct cop_llama_pass {
    cop_real *input;             /* [n, inputs], filled by the caller */
    cop_real *q, *k, *v;         /* rotated */
    cop_real *mixed;             /* [n, heads * head_dim] */
    cop_real *residual, *normed; /* [n, width] */
    cop_real *gate, *up;         /* [n, ffn] */
    cop_real *d_k, *d_v;         /* [n, kv_heads * head_dim] */
};

/* Adds the parameters as "<prefix>self_attn.q_proj.weight", …; outputs begin small. */
bool cop_llama_add(struct cop_llama *decoder, struct cop_parameters *parameters,
                   const char *prefix, uint64_t seed);
bool cop_llama_reserve(struct cop_llama *decoder, int32_t n, int32_t longest, int32_t steps);
void cop_llama_release(struct cop_llama *decoder);
bool cop_llama_pass_new(struct cop_llama_pass *pass, const struct cop_llama *decoder,
                        int32_t n);
void cop_llama_pass_release(struct cop_llama_pass *pass);

/* y [n, width]; x is not y. */
void cop_llama_forward(struct cop_llama *decoder, struct cop_products *products,
                       const struct cop_train_batch *batch, struct cop_llama_pass *passes,
                       int32_t step, const cop_real *x, cop_real *y);
/* Steps from the last to the first. d_input and d_x are overwritten. */
void cop_llama_backward(struct cop_llama *decoder, struct cop_products *products,
                        const struct cop_train_batch *batch, struct cop_llama_pass *passes,
                        int32_t step, const cop_real *d_y, cop_real *d_input, cop_real *d_x);

#endif
