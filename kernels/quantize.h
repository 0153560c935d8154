/* How activations become int8: blocks of 32, one f32 scale each. The definition; the fast
 * kernels must give the same scale and codes.
 *
 *   scale = max |x| / 127       code = x * (127 / max |x|), rounded to nearest, ties to even
 *
 * Both quotients are single f32 divisions. A block whose largest magnitude is below
 * COP_QUANT_TINY has scale 0 and codes 0 (its inverse would overflow). A block with a NaN or an
 * infinity has scale NaN and codes 0, so that every output that sees it is NaN. */
#ifndef COP_KERNELS_QUANTIZE_H
#define COP_KERNELS_QUANTIZE_H

#include <stdint.h>

#define COP_QUANT_BLOCK 32
#define COP_QUANT_TINY  1e-30f

float cop_quantize_block(const float *x, int8_t *codes);

#endif
