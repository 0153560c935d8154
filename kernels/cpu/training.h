/* What training does entry by entry, over rows of floats (private to level.c). No sum is
 * reordered or rounded otherwise for wider vectors: every level gives the same bits. */
#ifndef COP_CPU_TRAINING_H
#define COP_CPU_TRAINING_H

#include "kernels/cpu/rows.h"

/* With s = 1 / (1 + e^-g), of out = g s up:  d_up = d g s,  d_gate = d up s (1 + g (1 - s)). */
INLINE void swiglu_slopes(vf gate, vf up, vf d_out, vf *d_gate, vf *d_up)
{
    vf s = 1.0f / (1.0f + cop_lanes_expf(-gate));
    *d_gate = d_out * up * (s * (1.0f + gate * (1.0f - s)));
    *d_up = d_out * gate * s;
}

static void swiglu_back(const float *gate, const float *up, const float *d_out, int32_t count,
                        float *d_gate, float *d_up)
{
    vf by_gate, by_up;
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        swiglu_slopes(vf_load(gate + i), vf_load(up + i), vf_load(d_out + i), &by_gate, &by_up);
        vf_store(d_gate + i, by_gate);
        vf_store(d_up + i, by_up);
    }
    if (i < count) {
        int32_t left = count - i;
        swiglu_slopes(load_some(gate + i, left), load_some(up + i, left),
                      load_some(d_out + i, left), &by_gate, &by_up);
        store_some(d_gate + i, by_gate, left);
        store_some(d_up + i, by_up, left);
    }
}

struct moments {
    vf value, first, second;
};

INLINE struct moments adamw_step(const struct cop_adamw_rates *r, struct moments at,
                                 vf gradient)
{
    vf g = gradient * r->scale;
    at.first = r->beta1 * at.first + (1.0f - r->beta1) * g;
    at.second = r->beta2 * at.second + (1.0f - r->beta2) * g * g;
    vf size = vf_sqrt(at.second) * r->root + r->epsilon;
    at.value -= r->rate * at.first / size + r->decay * at.value;
    return at;
}

static void adamw(const struct cop_adamw_rates *rates, const float *gradient, int32_t count,
                  float *value, float *first, float *second)
{
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        struct moments at = {vf_load(value + i), vf_load(first + i), vf_load(second + i)};
        at = adamw_step(rates, at, vf_load(gradient + i));
        vf_store(value + i, at.value);
        vf_store(first + i, at.first);
        vf_store(second + i, at.second);
    }
    if (i < count) {
        int32_t left = count - i;
        struct moments at = {load_some(value + i, left), load_some(first + i, left),
                             load_some(second + i, left)};
        at = adamw_step(rates, at, load_some(gradient + i, left));
        store_some(value + i, at.value, left);
        store_some(first + i, at.first, left);
        store_some(second + i, at.second, left);
    }
}

#endif
