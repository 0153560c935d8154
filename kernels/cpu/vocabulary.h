/* The two primitives that walk whole vocabulary rows, for one instruction-set level: the same
 * bits at every level (private to level.c). */
#ifndef COP_CPU_VOCABULARY_H
#define COP_CPU_VOCABULARY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cpu/lanes.h"

enum { WIDE = LANES / 2 }; /* doubles in a vector */

INLINE cop_lanes_f64 load_as_f64(const float *from)
{
    typedef float narrow __attribute__((vector_size(4 * WIDE)));
    narrow v;
    memcpy(&v, from, sizeof v);
    return __builtin_convertvector(v, cop_lanes_f64);
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

/* The largest value, and in *is_bad whether some value is NaN or +inf. Read as integers, those
 * two are the words above the finite positives (signed) and above -inf (unsigned). */
#if defined(__AVX512F__)

INLINE __mmask16 first_lanes(int32_t n)
{
    return (__mmask16)(n < 16 ? (1u << n) - 1u : 0xffffu);
}

static float largest_of(const float *values, int32_t count, bool *is_bad)
{
    const __m512 floor = _mm512_set1_ps(-INFINITY);
    __m512 largest = floor;
    __m512i most_signed = _mm512_castps_si512(floor), most_unsigned = most_signed;
    for (int32_t i = 0; i < count; i += 16) {
        __mmask16 lanes = first_lanes(count - i);
        __m512 v = _mm512_mask_loadu_ps(floor, lanes, values + i);
        largest = _mm512_max_ps(largest, v);
        most_signed = _mm512_max_epi32(most_signed, _mm512_castps_si512(v));
        most_unsigned = _mm512_max_epu32(most_unsigned, _mm512_castps_si512(v));
    }
    *is_bad = _mm512_reduce_max_epi32(most_signed) >= 0x7f800000 ||
              _mm512_reduce_max_epu32(most_unsigned) > 0xff800000u;
    return _mm512_reduce_max_ps(largest);
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

static float largest_of(const float *values, int32_t count, bool *is_bad)
{
    vf largest = vf_all(-INFINITY);
    vi bad = {0};
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        vf v = vf_load(values + i);
        largest = vf_pick((vi)(v > largest), v, largest);
        bad |= ~(vi)(v < INFINITY);
    }
    int32_t any_bad = 0;
    float most = -INFINITY;
    for (int lane = 0; lane < LANES; lane++) {
        any_bad |= bad[lane];
        most = largest[lane] > most ? largest[lane] : most;
    }
    for (; i < count; i++) {
        any_bad |= !(values[i] < INFINITY);
        most = values[i] > most ? values[i] : most;
    }
    *is_bad = any_bad != 0;
    return most;
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

static int32_t argmax(const float *values, int32_t count)
{
    bool is_bad;
    float largest = largest_of(values, count, &is_bad);
    if (is_bad || largest == -INFINITY) {
        return -1;
    }
    return find_first(values, count, largest);
}

#endif
