/* Activation blocks in plain C, after the definition in quantize.h. */
#include "kernels/quantize.h"

#include <math.h>
#include <string.h>

/* Up to the next number with three bits behind the leading one. */
static float round_up_scale(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + COP_QUANT_DROPPED) & ~COP_QUANT_DROPPED;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float cop_quantize_block(const float *x, int8_t *codes)
{
    float largest = 0.0f;
    memset(codes, 0, COP_QUANT_BLOCK);
    for (int i = 0; i < COP_QUANT_BLOCK; i++) {
        if (!(fabsf(x[i]) < COP_QUANT_HUGE)) {
            return NAN;
        }
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    }
    if (largest < COP_QUANT_TINY) {
        return 0.0f;
    }
    float scale = round_up_scale(largest * COP_QUANT_INVERSE), inverse = 1.0f / scale;
    for (int i = 0; i < COP_QUANT_BLOCK; i++) {
        /* Adding 1.5 * 2^23 rounds to an integer under the default rounding mode. */
        codes[i] = (int8_t)((x[i] * inverse + 0x1.8p23f) - 0x1.8p23f);
    }
    return scale;
}

void cop_quantize_rest(const float *x, float scale, const int8_t *codes, float *rest)
{
    for (int i = 0; i < COP_QUANT_BLOCK; i++) {
        rest[i] = x[i] - scale * (float)codes[i];
    }
}
