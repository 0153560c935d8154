/* Gemma's gated activation on single rows (private to level.c): out = gelu(gate) * up.
 *
 * gelu in its tanh form, g / 2 * (1 + tanh(sqrt(2 / pi) * (g + 0.044715 g^3))), is written as
 * g / (1 + e^-z), z = 2 sqrt(2 / pi) * (g + 0.044715 g^3): the same function without the
 * cancellation in 1 + tanh. */
#ifndef COP_CPU_GEGLU_H
#define COP_CPU_GEGLU_H

#include "kernels/cpu/rows.h"

INLINE vf gelu_gated(vf gate, vf up)
{
    vf z = (gate * -0x1.988454p0f) * (1.0f + (gate * gate) * 0x1.6e4e26p-5f);
    return gate / (1.0f + cop_lanes_expf(z)) * up;
}

static void geglu(const float *gate, const float *up, int32_t width, float *out)
{
    int32_t i = 0;
    for (; i + LANES <= width; i += LANES) {
        vf_store(out + i, gelu_gated(vf_load(gate + i), vf_load(up + i)));
    }
    if (i < width) {
        int32_t left = width - i;
        store_some(out + i, gelu_gated(load_some(gate + i, left), load_some(up + i, left)),
                   left);
    }
}

#endif
