/* Matrices in Q8_0: blocks of 32 columns, each a step and a code of one byte for every number.
 *
 *     step   the least f16 number that is not below the largest magnitude / 127
 *     code   number / step, rounded to nearest: off by half a step, and 2^-16 of one for the
 *            division
 *
 * Heads are stored in f16 and read once for every drafted token: half the bytes, and products
 * in int8, draft with other numbers, in less time. */
#ifndef COP_MODEL_QUANTISE_H
#define COP_MODEL_QUANTISE_H

#include "kernels/ops.h"

/* How the matrices of a head are held. */
enum cop_head_weights {
    COP_HEAD_WEIGHTS_FILE, /* as they are stored */
    COP_HEAD_WEIGHTS_Q8_0  /* Q8_0, where cop_quantise makes it */
};

/* The same matrix in Q8_0, at *out and in *room, which the caller frees. Where there is no such
 * matrix *out is the given one and *room NULL: it is block-quantised already, its columns are
 * no multiple of 32, or a step would be too large for f16. False: no memory. */
bool cop_quantise(const struct cop_matrix *matrix, struct cop_matrix *out, void **room);

#endif
