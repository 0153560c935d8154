/* Activation blocks in plain C, after the definition in quantize.h. */
#include <math.h>

#include "kernels/quantize.h"

float cop_quantize_block(const float *x, int8_t *codes)
{
    float largest = 0.0f;
    for (int i = 0; i < COP_QUANT_BLOCK; i++) {
        codes[i] = 0;
        if (!isfinite(x[i])) {
            return NAN;
        }
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    }
    if (largest < COP_QUANT_TINY) {
        return 0.0f;
    }
    float inverse = 127.0f / largest;
    for (int i = 0; i < COP_QUANT_BLOCK; i++) {
        float scaled = x[i] * inverse;
        /* Adding 1.5 * 2^23 rounds to an integer under the default rounding mode. */
        codes[i] = (int8_t)((scaled + 0x1.8p23f) - 0x1.8p23f);
    }
    return largest / 127.0f;
}
