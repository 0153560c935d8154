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

/* ---- Ratios of two rows
 * ----------------------------------------------------------------------- */

INLINE void below_eight(const float *target, const float *draft, double p, double q,
                        bool or_equal, cop_lanes_f64 *sums)
{
    const cop_lanes_f64 zero = {0.0};
    UNROLL
    for (int part = 0; part < PARTS; part++) {
        cop_lanes_f64 value = load_as_f64(draft + part * WIDE);
        cop_lanes_f64 left = load_as_f64(target + part * WIDE) * q, right = value * p;
        cop_lanes_i64 goes = (cop_lanes_i64)(left < right);
        if (or_equal) {
            goes = (cop_lanes_i64)(left <= right);
        }
        sums[part] += pick_f64(goes, value, zero);
    }
}

static double ratio_below(const float *target, const float *draft, double p, double q,
                          bool or_equal, int32_t count)
{
    cop_lanes_f64 sums[PARTS] = {{0.0}};
    float a[8], b[8];
    int32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        below_eight(target + i, draft + i, p, q, or_equal, sums);
    }
    if (i < count) { /* 0 of draft adds nothing */
        below_eight(padded(target + i, count - i, a), padded(draft + i, count - i, b), p, q,
                    or_equal, sums);
    }
    return fold(sums);
}

INLINE uint16_t ratio_bucket(float ratio)
{
    int32_t word;
    memcpy(&word, &ratio, sizeof word);
    int32_t bucket = (word >> COP_RATIO_SHIFT) - (COP_RATIO_LEAST - 1);
    bucket = bucket < 1 ? 1 : bucket < COP_RATIO_BUCKETS ? bucket : COP_RATIO_BUCKETS - 1;
    return (uint16_t)(word > 0 ? bucket : 0);
}

static void ratio_buckets(const float *target, const float *draft, int32_t count, uint16_t *out)
{
    typedef uint16_t shorts __attribute__((vector_size(2 * LANES)));
    const vi zero = {0}, least = zero + 1, most = zero + (COP_RATIO_BUCKETS - 1);
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        vi word = (vi)(vf_load(target + i) / vf_load(draft + i));
        vi bucket = (word >> COP_RATIO_SHIFT) - (COP_RATIO_LEAST - 1);
        vi low = bucket<least, high = bucket> most;
        bucket = (low & least) | (~low & bucket);
        bucket = ((high & most) | (~high & bucket)) & (word > zero);
#if defined(__AVX512F__)
        shorts shortened = (shorts)_mm512_cvtepi32_epi16((__m512i)bucket);
#else
        shorts shortened = __builtin_convertvector(bucket, shorts);
#endif
        memcpy(out + i, &shortened, sizeof shortened);
    }
    for (; i < count; i++) {
        out[i] = ratio_bucket(target[i] / draft[i]);
    }
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

/* 2^score to f32, 0 below 2^-126.5: the multiple k of 1 in double, the rest by a polynomial
 * that is within 9e-8 of it for |rest| <= 1/2. NaN stays NaN; from 2^128 on: infinite. */
INLINE vf power_of_two(const cop_lanes_f64 *score)
{
    const cop_lanes_f64 magic = (cop_lanes_f64){0.0} + 0x1.8p52;
    narrow rests[2];
    narrow_bits powers[2];
    UNROLL
    for (int half = 0; half < 2; half++) {
        cop_lanes_f64 x = limited(score[half], -127.0, 128.0), shifted = x + magic;
        rests[half] = narrowed(x - (shifted - magic));
        powers[half] = low_words((cop_lanes_u64)shifted);
    }
    vf r = joined(rests[0], rests[1]), r2 = r * r;
    vf s = (0x1.ebfbe0p-3f + r * 0x1.c6af6cp-5f) +
           r2 * (0x1.3b2a54p-7f + r * 0x1.5f0890p-10f + r2 * 0x1.44138ap-13f);
    s = 1.0f + (r * 0x1.62e430p-1f + r2 * s);
    vu power = (vu)joined((narrow)powers[0], (narrow)powers[1]);
    return s * (vf)((power + 127u) << 23);
}

enum { STEP = 16, HALVES = STEP / WIDE }; /* entries at a time at every level */

INLINE void contrast_entries(const float *target, double target_scale, const float *draft,
                             double draft_scale, double shift, float *out, cop_lanes_f64 *sums)
{
    UNROLL
    for (int half = 0; half < HALVES; half += 2) {
        cop_lanes_f64 score[2];
        UNROLL
        for (int i = 0; i < 2; i++) {
            score[i] = load_as_f64(target + (half + i) * WIDE) * target_scale -
                       load_as_f64(draft + (half + i) * WIDE) * draft_scale - shift;
        }
        vf value = power_of_two(score);
        sums[half % PARTS] += half_of(value, 0);
        sums[(half + 1) % PARTS] += half_of(value, 1);
        memcpy(out + half * WIDE, &value, sizeof value);
    }
}

static double contrast_row(const float *target, double target_scale, const float *draft,
                           double draft_scale, double shift, int32_t count, float *out)
{
    const double scale = 0x1.71547652b82fep0; /* 1 / ln2 */
    cop_lanes_f64 sums[PARTS] = {{0.0}};
    int32_t i = 0;
    target_scale *= scale;
    draft_scale *= scale;
    shift *= scale;
    for (; i + STEP <= count; i += STEP) {
        contrast_entries(target + i, target_scale, draft + i, draft_scale, shift, out + i,
                         sums);
    }
    if (i < count) {
        float a[STEP], b[STEP] = {0.0f}, values[STEP];
        for (int lane = 0; lane < STEP; lane++) {
            a[lane] = i + lane < count ? target[i + lane] : -INFINITY;
        }
        memcpy(b, draft + i, (size_t)(count - i) * sizeof *b);
        contrast_entries(a, target_scale, b, draft_scale, shift, values, sums);
        memcpy(out + i, values, (size_t)(count - i) * sizeof *out);
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
