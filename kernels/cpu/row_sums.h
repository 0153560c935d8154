/* Sums over one or two vocabulary rows that rules decide by, for one instruction-set level: the
 * same bits at every level, since entry i always goes to lane i % 8 (private to level.c). */
#ifndef COP_CPU_ROW_SUMS_H
#define COP_CPU_ROW_SUMS_H

#include "kernels/cpu/vocabulary.h"

INLINE cop_lanes_f64 pick_f64(cop_lanes_i64 mask, cop_lanes_f64 yes, cop_lanes_f64 no)
{
    return (cop_lanes_f64)((mask & (cop_lanes_i64)yes) | (~mask & (cop_lanes_i64)no));
}

/* The last entries of a row, padded with what adds nothing. */
INLINE const float *padded(const float *from, int32_t left, float *rest)
{
    if (left >= 8) {
        return from;
    }
    memset(rest, 0, 8 * sizeof *rest);
    memcpy(rest, from, (size_t)left * sizeof *rest);
    return rest;
}

/* ---- Linear forms by a gate
 * ------------------------------------------------------------------- */

INLINE void gated_eight(const struct cop_gate *g, const float *target, const float *draft,
                        const float *gate, double *out, cop_lanes_f64 *sums)
{
    const cop_lanes_f64 zero = {0.0};
    UNROLL
    for (int part = 0; part < PARTS; part++) {
        cop_lanes_i64 is_open =
            (cop_lanes_i64)(load_as_f64(gate + part * WIDE) * g->scale >= zero + g->bar);
        cop_lanes_f64 t = pick_f64(is_open, zero + g->open_target, zero + g->shut_target);
        cop_lanes_f64 d = pick_f64(is_open, zero + g->open_draft, zero + g->shut_draft);
        cop_lanes_f64 value =
            load_as_f64(target + part * WIDE) * t + load_as_f64(draft + part * WIDE) * d;
        value = (cop_lanes_f64)((cop_lanes_i64)(value > 0.0) & (cop_lanes_i64)value);
        sums[part] += value;
        if (out) {
            memcpy(out + part * WIDE, &value, sizeof value);
        }
    }
}

static double gated_block(const struct cop_gate *gate, const float *target, const float *draft,
                          const float *by, int32_t count, double *out)
{
    cop_lanes_f64 sums[PARTS] = {{0.0}};
    int32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        gated_eight(gate, target + i, draft + i, by + i, out ? out + i : NULL, sums);
    }
    if (i < count) {
        float a[8], b[8], c[8];
        double values[8];
        int32_t left = count - i;
        gated_eight(gate, padded(target + i, left, a), padded(draft + i, left, b),
                    padded(by + i, left, c), values, sums);
        if (out) {
            memcpy(out + i, values, (size_t)left * sizeof *out);
        }
    }
    return fold(sums);
}

/* ---- Means of logarithms
 * ---------------------------------------------------------------------- */

INLINE void energy_eight(const float *weights, const float *logits, double shift,
                         cop_lanes_f64 *sums)
{
    UNROLL
    for (int part = 0; part < PARTS; part++) {
        cop_lanes_f64 weight = load_as_f64(weights + part * WIDE);
        cop_lanes_f64 term = weight * (load_as_f64(logits + part * WIDE) - shift);
        sums[part] += (cop_lanes_f64)((cop_lanes_i64)(weight > 0.0) & (cop_lanes_i64)term);
    }
}

static double energy_block(const float *weights, const float *logits, double shift,
                           int32_t count)
{
    cop_lanes_f64 sums[PARTS] = {{0.0}};
    float a[8], b[8];
    for (int32_t i = 0; i < count; i += 8) {
        energy_eight(padded(weights + i, count - i, a), padded(logits + i, count - i, b), shift,
                     sums);
    }
    return fold(sums);
}

INLINE void contrast_eight(const float *target, double target_scale, const float *draft,
                           double draft_scale, double shift, double *out, cop_lanes_f64 *sums)
{
    UNROLL
    for (int part = 0; part < PARTS; part++) {
        cop_lanes_f64 score = load_as_f64(target + part * WIDE) * target_scale -
                              load_as_f64(draft + part * WIDE) * draft_scale;
        cop_lanes_f64 value = cop_lanes_exp(score - shift);
        sums[part] += value;
        if (out) {
            memcpy(out + part * WIDE, &value, sizeof value);
        }
    }
}

static double contrast_block(const float *target, double target_scale, const float *draft,
                             double draft_scale, double shift, int32_t count, double *out)
{
    cop_lanes_f64 sums[PARTS] = {{0.0}};
    int32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        contrast_eight(target + i, target_scale, draft + i, draft_scale, shift,
                       out ? out + i : NULL, sums);
    }
    if (i < count) {
        float a[8], b[8];
        double values[8];
        (void)padded(target + i, count - i, a);
        for (int32_t lane = count - i; lane < 8; lane++) {
            a[lane] = -INFINITY;
        }
        contrast_eight(a, target_scale, padded(draft + i, count - i, b), draft_scale, shift,
                       values, sums);
        if (out) {
            memcpy(out + i, values, (size_t)(count - i) * sizeof *out);
        }
    }
    return fold(sums);
}

/* cop_log of positive normal numbers, bit for bit: see there. */
INLINE cop_lanes_f64 log_lanes(cop_lanes_f64 x)
{
    const cop_lanes_u64 half_root = (cop_lanes_u64){0} + UINT64_C(0x3fe6a09e667f3bcd);
    const cop_lanes_u64 one = (cop_lanes_u64){0} + (UINT64_C(1023) << 52);
    const cop_lanes_u64 magic = (cop_lanes_u64){0} + UINT64_C(0x4338000000000000);
    cop_lanes_u64 power = ((cop_lanes_u64)x - half_root + one) >> 52; /* k + 1023 */
    cop_lanes_f64 k = (cop_lanes_f64)(power + magic) - (0x1.8p52 + 1023.0);
    cop_lanes_f64 m = (cop_lanes_f64)((cop_lanes_u64)x - (power << 52) + one);
    cop_lanes_f64 s = (m - 1.0) / (m + 1.0), z = s * s, sum = {0.0};
    UNROLL
    for (int odd = 21; odd >= 3; odd -= 2) {
        sum = (sum + 1.0 / odd) * z;
    }
    cop_lanes_f64 log_m = 2.0 * (s + s * sum);
    return k * 0x1.62e42fee00000p-1 + (log_m + k * 0x1.a39ef35793c76p-33);
}

INLINE void surprise_eight(const float *weights, double scale, double guard,
                           cop_lanes_f64 *sums)
{
    UNROLL
    for (int part = 0; part < PARTS; part++) {
        cop_lanes_f64 value = load_as_f64(weights + part * WIDE) * scale;
        sums[part] += value * log_lanes(value + guard);
    }
}

static double surprise_block(const float *weights, double scale, double guard, int32_t count)
{
    cop_lanes_f64 sums[PARTS] = {{0.0}};
    float rest[8];
    for (int32_t i = 0; i < count; i += 8) {
        surprise_eight(padded(weights + i, count - i, rest), scale, guard, sums);
    }
    return fold(sums);
}

/* The same for f32, to an error of 2e-6 for numbers from 1e-7 to 1; finite at 0. */
INLINE vf logf_lanes(vf x)
{
    const vu half_root = (vu){0} + 0x3f3504f3u, one = (vu){0} + (127u << 23);
    vu power = ((vu)x - half_root + one) >> 23; /* k + 127 */
    vf k = __builtin_convertvector((vi)power, vf) - 127.0f;
    vf m = (vf)((vu)x - (power << 23) + one);
    vf s = (m - 1.0f) / (m + 1.0f), z = s * s;
    vf sum = z * (1.0f / 9) + 1.0f / 7;
    sum = (sum * z + 1.0f / 5) * z + 1.0f / 3;
    return k * 0x1.62e430p-1f + 2.0f * (s + s * z * sum);
}

enum { NEAR = 16, NEAR_PARTS = NEAR / LANES }; /* entry i in lane i % 16 at every level */

INLINE void near_entries(const float *target, float target_scale, const float *draft,
                         float draft_scale, float guard, vf *sums)
{
    UNROLL
    for (int part = 0; part < NEAR_PARTS; part++) {
        vf value = vf_load(target + part * LANES) * target_scale +
                   vf_load(draft + part * LANES) * draft_scale;
        sums[part] += value * logf_lanes(value + guard);
    }
}

static double mixture_near(const float *target, double target_scale, const float *draft,
                           double draft_scale, double guard, int32_t count)
{
    const float t_scale = (float)target_scale, d_scale = (float)draft_scale;
    vf sums[NEAR_PARTS] = {{0.0f}};
    int32_t i = 0;
    for (; i + NEAR <= count; i += NEAR) {
        near_entries(target + i, t_scale, draft + i, d_scale, (float)guard, sums);
    }
    if (i < count) {
        float a[NEAR] = {0.0f}, b[NEAR] = {0.0f};
        memcpy(a, target + i, (size_t)(count - i) * sizeof *a);
        memcpy(b, draft + i, (size_t)(count - i) * sizeof *b);
        near_entries(a, t_scale, b, d_scale, (float)guard, sums);
    }
    float lanes[NEAR];
    memcpy(lanes, sums, sizeof lanes);
    double sum = 0;
    for (int lane = 0; lane < NEAR; lane++) {
        sum += (double)lanes[lane];
    }
    return sum;
}

INLINE void mixture_eight(const float *target, double target_scale, const float *draft,
                          double draft_scale, cop_lanes_f64 *sums)
{
    UNROLL
    for (int part = 0; part < PARTS; part++) {
        cop_lanes_f64 value = load_as_f64(target + part * WIDE) * target_scale +
                              load_as_f64(draft + part * WIDE) * draft_scale;
        cop_lanes_f64 term = value * log_lanes(value);
        sums[part] += (cop_lanes_f64)((cop_lanes_i64)(value > 0.0) & (cop_lanes_i64)term);
    }
}

static double mixture_block(const float *target, double target_scale, const float *draft,
                            double draft_scale, int32_t count)
{
    cop_lanes_f64 sums[PARTS] = {{0.0}};
    float a[8], b[8];
    for (int32_t i = 0; i < count; i += 8) {
        mixture_eight(padded(target + i, count - i, a), target_scale,
                      padded(draft + i, count - i, b), draft_scale, sums);
    }
    return fold(sums);
}

#endif
