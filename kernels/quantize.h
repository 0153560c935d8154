/* How activations become int8: blocks of 32, one scale each. The definition; the fast kernels
 * must give the same scales and codes.
 *
 *   scale = the smallest number of the form (8 + j) / 8 * 2^e, j in 0..7, that is not below
 *           max |x| * (1 / 127)
 *   code  = x * (1 / scale), rounded to nearest, ties to even
 *
 * where 1 / 127 and 1 / scale are f32 numbers and both products round once. A scale of four
 * bits costs a twentieth of the precision of a code and makes every product with a weight's
 * scale exact, so that a kernel may multiply by j and e in different places
 * (kernels/cpu/product/product_int8.h) and still give the same bits.
 *
 * Outliers. A row in which one block stands out (its scale, the first of the largest, is at
 * least COP_QUANT_OUTLIER times the mean of all) is where most of the rounding error of a model
 * comes from: the massive channels of attention's input. What rounding left over of that block
 * is coded once more, as a block of its own, and its product with the same weights is added
 * after all others.
 *
 * A block whose largest magnitude is below COP_QUANT_TINY has scale 0 and codes 0. A block with
 * a NaN, an infinity or a magnitude of COP_QUANT_HUGE and above has scale NaN and codes 0, so
 * that every output that sees it is NaN. */
#ifndef COP_KERNELS_QUANTIZE_H
#define COP_KERNELS_QUANTIZE_H

#include <stdbool.h>
#include <stdint.h>

#define COP_QUANT_BLOCK 32
#define COP_QUANT_TINY  0x1p-100f
#define COP_QUANT_HUGE  0x1p100f

#define COP_QUANT_INVERSE 0x1.020408p-7f /* 1 / 127 */
#define COP_QUANT_DROPPED 0xfffffu /* the bits of an f32 behind the first three of a scale */

float cop_quantize_block(const float *x, int8_t *codes);

#define COP_QUANT_OUTLIER 6.0f

/* Whether a row's largest scale makes an outlier; `sum` adds its scales first to last. */
static inline bool cop_quantize_is_outlier(float largest, float sum, int32_t n_blocks)
{
    return largest > 0.0f && largest * (float)n_blocks >= COP_QUANT_OUTLIER * sum; /* NaN: no */
}

/* rest[i] = x[i] - scale * codes[i]: what is left to code. */
void cop_quantize_rest(const float *x, float scale, const int8_t *codes, float *rest);

#endif
