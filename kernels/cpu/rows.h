/* Operations on single rows: norm, gated activation, rotation, writing keys and values (private
 * to level.c). */
#ifndef COP_CPU_ROWS_H
#define COP_CPU_ROWS_H

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/level.h"

/* The first `count` < LANES floats, zeros behind them. */
INLINE vf load_some(const float *from, int32_t count)
{
    float lanes[LANES] = {0.0f};
    memcpy(lanes, from, (size_t)count * sizeof *lanes);
    return vf_load(lanes);
}

INLINE void store_some(float *to, vf v, int32_t count)
{
    float lanes[LANES];
    vf_store(lanes, v);
    memcpy(to, lanes, (size_t)count * sizeof *lanes);
}

/* Sum of squares in double: lane i % 8 in order, then lanes folded in pairs. */
static double sum_of_squares(const float *x, int32_t width)
{
    enum { WIDE = LANES / 2, PARTS = 8 / WIDE };
    typedef float narrow __attribute__((vector_size(4 * WIDE)));
    cop_lanes_f64 sums[PARTS] = {{0.0}};
    int32_t i = 0;
    for (; i + 8 <= width; i += 8) {
        UNROLL
        for (int part = 0; part < PARTS; part++) {
            narrow four;
            memcpy(&four, x + i + part * WIDE, sizeof four);
            cop_lanes_f64 v = __builtin_convertvector(four, cop_lanes_f64);
            sums[part] += v * v;
        }
    }
    double lanes[8];
    memcpy(lanes, sums, sizeof lanes);
    for (int lane = 0; i + lane < width; lane++) {
        lanes[lane] += (double)x[i + lane] * (double)x[i + lane];
    }
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
           ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

static void rms_norm(const float *x, const float *gain, float epsilon, int32_t width,
                     float *out)
{
    double mean = sum_of_squares(x, width) / width;
    float factor = (float)(1.0 / sqrt(mean + (double)epsilon));
    int32_t i = 0;
    for (; i + LANES <= width; i += LANES) {
        vf_store(out + i, vf_load(x + i) * factor * vf_load(gain + i));
    }
    for (; i < width; i++) {
        out[i] = x[i] * factor * gain[i];
    }
}

/* gate / (1 + e^-gate) * up */
INLINE vf gated(vf gate, vf up)
{
    return gate / (1.0f + cop_lanes_expf(-gate)) * up;
}

static void swiglu(const float *gate, const float *up, int32_t width, float *out)
{
    int32_t i = 0;
    for (; i + LANES <= width; i += LANES) {
        vf_store(out + i, gated(vf_load(gate + i), vf_load(up + i)));
    }
    if (i < width) {
        int32_t left = width - i;
        store_some(out + i, gated(load_some(gate + i, left), load_some(up + i, left)), left);
    }
}

/* Pairs (i, i + half). */
static void rotate_halves(float *heads, int32_t n_heads, int32_t head_dim, int32_t half,
                          const float *cosines, const float *sines)
{
    for (int32_t h = 0; h < n_heads; h++) {
        float *a = heads + (ptrdiff_t)h * head_dim, *b = a + half;
        int32_t i = 0;
        for (; i + LANES <= half; i += LANES) {
            vf x = vf_load(a + i), y = vf_load(b + i);
            vf c = vf_load(cosines + i), s = vf_load(sines + i);
            vf_store(a + i, x * c - y * s);
            vf_store(b + i, x * s + y * c);
        }
        for (; i < half; i++) {
            float x = a[i], y = b[i];
            a[i] = x * cosines[i] - y * sines[i];
            b[i] = x * sines[i] + y * cosines[i];
        }
    }
}

/* Pairs (2 i, 2 i + 1): every entry times its cosine plus its neighbour times ± its sine. */
static void rotate_neighbours(float *heads, int32_t n_heads, int32_t head_dim, int32_t half,
                              const float *cosines, const float *sines)
{
    int32_t i = 0;
    for (; i + LANES / 2 <= half; i += LANES / 2) {
        float c[LANES], s[LANES];
        for (int j = 0; j < LANES / 2; j++) {
            c[2 * j] = c[2 * j + 1] = cosines[i + j];
            s[2 * j] = -sines[i + j];
            s[2 * j + 1] = sines[i + j];
        }
        for (int32_t h = 0; h < n_heads; h++) {
            float *at = heads + (ptrdiff_t)h * head_dim + 2 * i;
            vf x = vf_load(at);
            vf_store(at, x * vf_load(c) + vf_swap_pairs(x) * vf_load(s));
        }
    }
    for (; i < half; i++) {
        for (int32_t h = 0; h < n_heads; h++) {
            float *at = heads + (ptrdiff_t)h * head_dim + 2 * i, x = at[0], y = at[1];
            at[0] = x * cosines[i] - y * sines[i];
            at[1] = x * sines[i] + y * cosines[i];
        }
    }
}

static void rotate(float *heads, int32_t n_heads, int32_t head_dim, const struct cop_rope *rope,
                   int32_t position)
{
    int32_t half = rope->dim / 2;
    const float *cosines = rope->cosines + (ptrdiff_t)position * half;
    const float *sines = rope->sines + (ptrdiff_t)position * half;
    if (rope->is_interleaved) {
        rotate_neighbours(heads, n_heads, head_dim, half, cosines, sines);
    } else {
        rotate_halves(heads, n_heads, head_dim, half, cosines, sines);
    }
}

static void store_key(bool is_f32, const float *key, int32_t head_dim, int32_t offset,
                      void *block)
{
    if (is_f32) {
        float *to = (float *)block + offset;
        for (int32_t d = 0; d < head_dim; d++) {
            to[(ptrdiff_t)d * PANEL] = key[d];
        }
        return;
    }
    uint16_t *to = (uint16_t *)block + offset;
    for (int32_t d = 0; d < head_dim; d += LANES) {
        int32_t count = head_dim - d < LANES ? head_dim - d : LANES;
        uint16_t halves[LANES];
        vf_to_f16(halves, count == LANES ? vf_load(key + d) : load_some(key + d, count));
        for (int32_t i = 0; i < count; i++) {
            to[(ptrdiff_t)(d + i) * PANEL] = halves[i];
        }
    }
}

/* Dimensions past head_dim in the last slice are written as zeros. */
static void store_value(bool is_f32, const float *value, int32_t head_dim, int32_t offset,
                        void *block)
{
    for (int32_t d = 0; d < head_dim; d += LANES) {
        int32_t count = head_dim - d < LANES ? head_dim - d : LANES;
        vf v = count == LANES ? vf_load(value + d) : load_some(value + d, count);
        ptrdiff_t at = ((ptrdiff_t)(d / PANEL) * COP_PAGE_SLOTS + offset) * PANEL + d % PANEL;
        if (is_f32) {
            vf_store((float *)block + at, v);
        } else {
            vf_to_f16((uint16_t *)block + at, v);
        }
    }
}

#endif
