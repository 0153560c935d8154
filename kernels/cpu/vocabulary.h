/* The primitives that walk whole vocabulary rows, for one instruction-set level: the same
 * bits at every level (private to level.c). */
#ifndef COP_CPU_VOCABULARY_H
#define COP_CPU_VOCABULARY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cpu/lanes.h"

enum { WIDE = LANES / 2 }; /* doubles in a vector */

typedef float narrow __attribute__((vector_size(4 * WIDE)));
typedef uint32_t narrow_bits __attribute__((vector_size(4 * WIDE)));

/* Between the widths: one instruction each, where gcc would go by halves. */
#if defined(__AVX512F__)

INLINE cop_lanes_f64 widened(narrow v)
{
    return (cop_lanes_f64)_mm512_cvtps_pd((__m256)v);
}

INLINE narrow narrowed(cop_lanes_f64 v)
{
    return (narrow)_mm512_cvtpd_ps((__m512d)v);
}

INLINE narrow_bits low_words(cop_lanes_u64 v)
{
    return (narrow_bits)_mm512_cvtepi64_epi32((__m512i)v);
}

/* NaN stays NaN. */
INLINE cop_lanes_f64 limited(cop_lanes_f64 v, double least, double most)
{
    __m512d low = _mm512_max_pd(_mm512_set1_pd(least), (__m512d)v);
    return (cop_lanes_f64)_mm512_min_pd(_mm512_set1_pd(most), low);
}

INLINE vf joined(narrow first, narrow second)
{
    __m512 wide = _mm512_castps256_ps512((__m256)first);
    return (vf)_mm512_insertf32x8(wide, (__m256)second, 1);
}

INLINE cop_lanes_f64 half_of(vf v, int half)
{
    return (cop_lanes_f64)_mm512_cvtps_pd(half ? _mm512_extractf32x8_ps((__m512)v, 1)
                                               : _mm512_castps512_ps256((__m512)v));
}

#else

INLINE cop_lanes_f64 widened(narrow v)
{
    return __builtin_convertvector(v, cop_lanes_f64);
}

INLINE narrow narrowed(cop_lanes_f64 v)
{
    return __builtin_convertvector(v, narrow);
}

INLINE narrow_bits low_words(cop_lanes_u64 v)
{
    return __builtin_convertvector(v, narrow_bits);
}

INLINE cop_lanes_f64 limited(cop_lanes_f64 v, double least, double most)
{
    cop_lanes_f64 zero = {0.0};
    cop_lanes_i64 is_low = (cop_lanes_i64)(v < least);
    v = (cop_lanes_f64)((is_low & (cop_lanes_i64)(zero + least)) |
                        (~is_low & (cop_lanes_i64)v));
    return cop_lanes_cap_f64(v, most);
}

INLINE vf joined(narrow first, narrow second)
{
    narrow both[2] = {first, second};
    vf v;
    memcpy(&v, both, sizeof v);
    return v;
}

INLINE cop_lanes_f64 half_of(vf v, int half)
{
    narrow both[2];
    memcpy(both, &v, sizeof both);
    return widened(both[half]);
}

#endif

INLINE cop_lanes_f64 load_as_f64(const float *from)
{
    narrow v;
    memcpy(&v, from, sizeof v);
    return widened(v);
}

static void exp_block(const float *logits, int32_t count, double shift, double scale,
                      double *out)
{
    int32_t i = 0;
    for (; i + 2 * WIDE <= count; i += 2 * WIDE) { /* two chains of operations at once */
        cop_lanes_f64 a = cop_lanes_exp((load_as_f64(logits + i) - shift) * scale);
        cop_lanes_f64 b = cop_lanes_exp((load_as_f64(logits + i + WIDE) - shift) * scale);
        memcpy(out + i, &a, sizeof a);
        memcpy(out + i + WIDE, &b, sizeof b);
    }
    for (; i < count; i += WIDE) {
        int32_t left = count - i < WIDE ? count - i : WIDE;
        float rest[WIDE] = {0.0f};
        memcpy(rest, logits + i, (size_t)left * sizeof *rest);
        cop_lanes_f64 y = cop_lanes_exp((load_as_f64(rest) - shift) * scale);
        memcpy(out + i, &y, (size_t)left * sizeof *out);
    }
}

/* ---- Rows kept as f32: eight entries at a time, entry i in lane i % 8 as in cop_sum_block
 * ---- */

enum { PARTS = 8 / WIDE };
INLINE double fold(const cop_lanes_f64 *sums)
{
    double lanes[8];
    memcpy(lanes, sums, sizeof lanes);
    double a = lanes[0] + lanes[4], b = lanes[1] + lanes[5];
    double c = lanes[2] + lanes[6], d = lanes[3] + lanes[7];
    return (a + c) + (b + d);
}

static void widen(const float *values, int32_t count, double scale, double *out)
{
    int32_t i = 0;
    for (; i + WIDE <= count; i += WIDE) {
        cop_lanes_f64 v = load_as_f64(values + i) * scale;
        memcpy(out + i, &v, sizeof v);
    }
    for (; i < count; i++) {
        out[i] = (double)values[i] * scale;
    }
}

static double sum_block(const double *values, int32_t count)
{
    cop_lanes_f64 sums[PARTS] = {{0.0}};
    int32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        UNROLL
        for (int part = 0; part < PARTS; part++) {
            cop_lanes_f64 v;
            memcpy(&v, values + i + part * WIDE, sizeof v);
            sums[part] += v;
        }
    }
    double rest[8] = {0.0};
    memcpy(rest, values + i, (size_t)(count - i) * sizeof *rest);
    UNROLL
    for (int part = 0; part < PARTS; part++) {
        cop_lanes_f64 v;
        memcpy(&v, rest + part * WIDE, sizeof v);
        sums[part] += v;
    }
    return fold(sums);
}

INLINE void exp_eight(const float *logits, double shift, double scale, float *out,
                      cop_lanes_f64 *sums)
{
    UNROLL
    for (int part = 0; part < PARTS; part++) {
        cop_lanes_f64 y = cop_lanes_exp((load_as_f64(logits + part * WIDE) - shift) * scale);
        narrow rounded = narrowed(y);
        memcpy(out + part * WIDE, &rounded, sizeof rounded);
        sums[part] += widened(rounded);
    }
}

static double exp_row(const float *logits, int32_t count, double shift, double scale,
                      float *out)
{
    cop_lanes_f64 sums[PARTS] = {{0.0}};
    int32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        exp_eight(logits + i, shift, scale, out + i, sums);
    }
    if (i < count) {
        float rest[8], rounded[8];
        for (int lane = 0; lane < 8; lane++) {
            rest[lane] = i + lane < count ? logits[i + lane] : -INFINITY;
        }
        exp_eight(rest, shift, scale, rounded, sums);
        memcpy(out + i, rounded, (size_t)(count - i) * sizeof *out);
    }
    return fold(sums);
}

INLINE void residual_eight(const float *target, double target_scale, const float *draft,
                           double draft_scale, double *out, cop_lanes_f64 *sums)
{
    UNROLL
    for (int part = 0; part < PARTS; part++) {
        cop_lanes_f64 rest = load_as_f64(target + part * WIDE) * target_scale -
                             load_as_f64(draft + part * WIDE) * draft_scale;
        rest = (cop_lanes_f64)((cop_lanes_i64)(rest > 0.0) & (cop_lanes_i64)rest);
        sums[part] += rest;
        if (out) {
            memcpy(out + part * WIDE, &rest, sizeof rest);
        }
    }
}

static double residual_block(const float *target, double target_scale, const float *draft,
                             double draft_scale, int32_t count, double *out)
{
    cop_lanes_f64 sums[PARTS] = {{0.0}};
    int32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        residual_eight(target + i, target_scale, draft + i, draft_scale, out ? out + i : NULL,
                       sums);
    }
    if (i < count) {
        float a[8] = {0.0f}, b[8] = {0.0f};
        double rest[8];
        size_t left = (size_t)(count - i);
        memcpy(a, target + i, left * sizeof *a);
        memcpy(b, draft + i, left * sizeof *b);
        residual_eight(a, target_scale, b, draft_scale, rest, sums);
        if (out) {
            memcpy(out + i, rest, left * sizeof *rest);
        }
    }
    return fold(sums);
}

/* ---- Largest values and counts
 * --------------------------------------------------------------- */

INLINE float largest_of_lanes(vf v)
{
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)v);
#else
    float largest = v[0];
    for (int lane = 1; lane < LANES; lane++) {
        largest = v[lane] > largest ? v[lane] : largest;
    }
    return largest;
#endif
}

static float largest(const float *values, int32_t count)
{
    vf most[4];
    float rest = -INFINITY;
    int32_t i = 0;
    UNROLL
    for (int at = 0; at < 4; at++) {
        most[at] = vf_all(-INFINITY);
    }
    for (; i + 4 * LANES <= count; i += 4 * LANES) {
        UNROLL
        for (int at = 0; at < 4; at++) {
            most[at] = vf_max(vf_load(values + i + at * LANES), most[at]);
        }
    }
    for (; i < count; i++) {
        rest = values[i] > rest ? values[i] : rest;
    }
    float all = largest_of_lanes(vf_max(vf_max(most[0], most[1]), vf_max(most[2], most[3])));
    return rest > all ? rest : all;
}

static void maxima(const float *values, int32_t count, float *out)
{
    int32_t first = 0;
    for (; first + COP_MAXIMA_GROUP <= count; first += COP_MAXIMA_GROUP) {
        vf largest = vf_load(values + first);
        UNROLL
        for (int i = LANES; i < COP_MAXIMA_GROUP; i += LANES) {
            largest = vf_max(vf_load(values + first + i), largest);
        }
        *out++ = largest_of_lanes(largest);
    }
    if (first < count) {
        float largest = values[first];
        for (int32_t i = first + 1; i < count; i++) {
            largest = values[i] > largest ? values[i] : largest;
        }
        *out = largest;
    }
}

static int32_t count_above(const float *values, int32_t count, float bar)
{
    vi sums = {0};
    int32_t i = 0, n = 0;
    for (; i + LANES <= count; i += LANES) {
        sums -= (vi)(vf_load(values + i) > bar);
    }
    for (int lane = 0; lane < LANES; lane++) {
        n += sums[lane];
    }
    for (; i < count; i++) {
        n += values[i] > bar;
    }
    return n;
}

/* Whether some value is NaN or +inf. Read as integers, those two are the words above the finite
 * positives (signed) and above -inf (unsigned). */
#if defined(__AVX512F__)

struct oddities {
    __m512i most_signed, most_unsigned;
};

INLINE struct oddities no_oddities(void)
{
    const __m512i floor = _mm512_castps_si512(_mm512_set1_ps(-INFINITY));
    return (struct oddities){floor, floor};
}

INLINE void note_oddities(struct oddities *seen, vf v)
{
    __m512i bits = _mm512_castps_si512((__m512)v);
    seen->most_signed = _mm512_max_epi32(seen->most_signed, bits);
    seen->most_unsigned = _mm512_max_epu32(seen->most_unsigned, bits);
}

INLINE bool are_odd(const struct oddities *seen)
{
    return _mm512_reduce_max_epi32(seen->most_signed) >= 0x7f800000 ||
           _mm512_reduce_max_epu32(seen->most_unsigned) > 0xff800000u;
}

INLINE __mmask16 first_lanes(int32_t n)
{
    return (__mmask16)(n < 16 ? (1u << n) - 1u : 0xffffu);
}

static int32_t find_first(const float *values, int32_t count, float wanted)
{
    const __m512 target = _mm512_set1_ps(wanted);
    for (int32_t i = 0; i < count; i += 16) {
        __mmask16 lanes = first_lanes(count - i);
        __m512 v = _mm512_maskz_loadu_ps(lanes, values + i);
        uint32_t equal = _mm512_mask_cmp_ps_mask(lanes, v, target, _CMP_EQ_OQ);
        if (equal) {
            return i + __builtin_ctz(equal);
        }
    }
    return -1;
}

#else

struct oddities {
    vi found;
};

INLINE struct oddities no_oddities(void)
{
    return (struct oddities){{0}};
}

INLINE void note_oddities(struct oddities *seen, vf v)
{
    seen->found |= ~(vi)(v < INFINITY);
}

INLINE bool are_odd(const struct oddities *seen)
{
    int32_t any = 0;
    for (int lane = 0; lane < LANES; lane++) {
        any |= seen->found[lane];
    }
    return any != 0;
}

static int32_t find_first(const float *values, int32_t count, float wanted)
{
    for (int32_t i = 0; i < count; i++) {
        if (values[i] == wanted) {
            return i;
        }
    }
    return -1;
}

#endif

/* Up to a group of values, the last one perhaps short: their largest by lane. */
INLINE vf look_at_group(const float *values, int32_t count, struct oddities *seen)
{
    vf largest = vf_all(-INFINITY);
    for (int32_t i = 0; i < count; i += LANES) {
        vf v = vf_all(-INFINITY);
        memcpy(&v, values + i,
               (size_t)(count - i < LANES ? count - i : LANES) * sizeof *values);
        note_oddities(seen, v);
        largest = vf_max(v, largest);
    }
    return largest;
}

INLINE vf look_at_whole_group(const float *values, struct oddities *seen)
{
    vf largest = vf_load(values);
    note_oddities(seen, largest);
    UNROLL
    for (int i = LANES; i < COP_MAXIMA_GROUP; i += LANES) {
        vf v = vf_load(values + i);
        note_oddities(seen, v);
        largest = vf_max(v, largest);
    }
    return largest;
}

static int32_t argmax(const float *values, int32_t count)
{
    struct oddities seen = no_oddities();
    vf largest = vf_all(-INFINITY);
    int32_t first = 0;
    for (; first + COP_MAXIMA_GROUP <= count; first += COP_MAXIMA_GROUP) {
        largest = vf_max(look_at_whole_group(values + first, &seen), largest);
    }
    largest = vf_max(look_at_group(values + first, count - first, &seen), largest);
    float most = largest_of_lanes(largest);
    return are_odd(&seen) || most == -INFINITY ? -1 : find_first(values, count, most);
}

static int32_t argmax_groups(const float *values, int32_t count, float *groups)
{
    struct oddities seen = no_oddities();
    int32_t first = 0, n_groups = 0;
    for (; first + COP_MAXIMA_GROUP <= count; first += COP_MAXIMA_GROUP) {
        groups[n_groups++] = largest_of_lanes(look_at_whole_group(values + first, &seen));
    }
    if (first < count) {
        groups[n_groups++] =
            largest_of_lanes(look_at_group(values + first, count - first, &seen));
    }
    int32_t group = are_odd(&seen) ? -1 : argmax(groups, n_groups);
    if (group < 0) {
        return -1;
    }
    first = group * COP_MAXIMA_GROUP;
    return first + find_first(values + first, count - first, groups[group]);
}

#endif
