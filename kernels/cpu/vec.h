/* Vectors of one instruction-set level: LANES floats or 32-bit integers, and what the kernels
 * do with them (private to level.c).
 *
 * Compiler vector types carry the arithmetic; intrinsics stand only where a level has an
 * instruction that C cannot name: fused multiply-add, half precision, dot products of bytes. A
 * panel has 16 rows (weights) or 16 keys (attention); a level with fewer lanes walks it in 16 /
 * LANES strips. */
#ifndef COP_CPU_VEC_H
#define COP_CPU_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels/ops.h"

#if defined(__AVX512F__) && defined(__AVX512BW__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif

#define PANEL  16
#define STRIPS (PANEL / LANES)

#define INLINE static inline __attribute__((always_inline))

/* Before a loop with a constant count that must become straight code, so that what it indexes
 * lives in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));

INLINE vf vf_load(const float *from)
{
    vf v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE void vf_store(float *to, vf v)
{
    memcpy(to, &v, sizeof v);
}

INLINE vi vi_load(const void *from)
{
    vi v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE vf vf_all(float x)
{
    return x - (vf){0.0f};
}

INLINE vi vi_all(int32_t x)
{
    return x - (vi){0};
}

INLINE vf vf_from_vi(vi v)
{
    return __builtin_convertvector(v, vf);
}

INLINE vf vf_pick(vi mask, vf yes, vf no)
{
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
}

/* a where a > b, else b: b where either is NaN. */
INLINE vf vf_max(vf a, vf b)
{
#if LANES == 16
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif LANES == 8
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return vf_pick((vi)(a > b), a, b);
#endif
}

INLINE int32_t word_at(const void *from)
{
    int32_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

/* The word at `from` in every lane, for one use: where a level's instructions can take a word
 * from memory, a compiler that sees the same word wanted again would keep it in a register that
 * is needed elsewhere. */
INLINE vi vi_all_once(const void *from)
{
#if LANES == 16
    vi all;
    __asm__("vpbroadcastd %1, %0" : "=v"(all) : "m"(*(const int32_t *)from));
    return all;
#else
    return vi_all(word_at(from));
#endif
}

/* Logical shift of every lane. */
INLINE vi vi_shr(vi v, int bits)
{
    return (vi)((vu)v >> bits);
}

INLINE vi vi_shl(vi v, int bits)
{
    return (vi)((vu)v << bits);
}

/* Lanes 2 i and 2 i + 1 exchanged. */
INLINE vf vf_swap_pairs(vf v)
{
#if LANES == 16
    return (vf)_mm512_permute_ps((__m512)v, 0xb1);
#elif LANES == 8
    return (vf)_mm256_permute_ps((__m256)v, 0xb1);
#else
    return (vf){v[1], v[0], v[3], v[2]};
#endif
}

INLINE vf vf_sqrt(vf v)
{
#if LANES == 16
    return (vf)_mm512_sqrt_ps((__m512)v);
#elif LANES == 8
    return (vf)_mm256_sqrt_ps((__m256)v);
#else
    for (int lane = 0; lane < LANES; lane++) {
        v[lane] = __builtin_sqrtf(v[lane]);
    }
    return v;
#endif
}

/* a * b + c: rounded once where the level has the instruction, else twice. */
INLINE vf vf_fma(vf a, vf b, vf c)
{
#if LANES == 16
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif LANES == 8
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

/* ---- Narrow storage
 * -------------------------------------------------------------------------- */

INLINE vf vf_from_f16(const uint16_t *from)
{
#if LANES == 16
    __m256i half;
    memcpy(&half, from, sizeof half);
    return (vf)_mm512_cvtph_ps(half);
#elif LANES == 8
    __m128i half;
    memcpy(&half, from, sizeof half);
    return (vf)_mm256_cvtph_ps(half);
#else
    vu half = {from[0], from[1], from[2], from[3]};
    vu sign = (half & 0x8000u) << 16, magnitude = (half & 0x7fffu) << 13;
    vf finite = (vf)magnitude * 0x1p112f; /* rebias the exponent: exact, subnormals too */
    vf special = (vf)(magnitude + 0x70000000u);
    return (vf)((vu)vf_pick((vi)(magnitude >= 0x0f800000u), special, finite) | sign);
#endif
}

INLINE vf vf_from_bf16(const uint16_t *from)
{
#if LANES == 16
    __m256i half;
    memcpy(&half, from, sizeof half);
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
#elif LANES == 8
    __m128i half;
    memcpy(&half, from, sizeof half);
    return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);
#else
    vu half = {from[0], from[1], from[2], from[3]};
    return (vf)(half << 16);
#endif
}

/* Rounds to nearest even. */
INLINE void vf_to_f16(uint16_t *to, vf v)
{
#if LANES == 16
    __m256i half = _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    memcpy(to, &half, sizeof half);
#elif LANES == 8
    __m128i half = _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    memcpy(to, &half, sizeof half);
#else
    for (int lane = 0; lane < LANES; lane++) {
        to[lane] = cop_f32_to_f16(v[lane]);
    }
#endif
}

/* LANES bytes, widened without and with sign. */
INLINE vi vi_from_u8(const uint8_t *from)
{
#if LANES == 16
    __m128i bytes;
    memcpy(&bytes, from, sizeof bytes);
    return (vi)_mm512_cvtepu8_epi32(bytes);
#elif LANES == 8
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)from));
#else
    return (vi){from[0], from[1], from[2], from[3]};
#endif
}

INLINE vi vi_from_s8(const uint8_t *from)
{
#if LANES == 16
    __m128i bytes;
    memcpy(&bytes, from, sizeof bytes);
    return (vi)_mm512_cvtepi8_epi32(bytes);
#elif LANES == 8
    return (vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)from));
#else
    return (vi){(int8_t)from[0], (int8_t)from[1], (int8_t)from[2], (int8_t)from[3]};
#endif
}

/* ---- Dot products of bytes ------------------------------------------------------------------
 * A quad is four consecutive k of a row: one 32-bit lane. dot_quads adds to dots[t], per lane,
 * the products of n quads of weight codes with the 4 n activation codes at x + t * stride, for
 * T tokens; all levels give the same integers. `bits` says how large codes are:
 *
 *   4, 5, 6  unsigned
 *   8        the row's signed bytes, offset by 128 (unsigned) where the level has VNNI
 *
 * Without VNNI the products of unsigned codes meet in 16-bit lanes, two at a time, and 2^15 /
 * (2 * 127 * largest code) such pairs may be added before widening: 8, 4 and 2 for 4, 5 and 6
 * bits. */

#if defined(__AVX512VNNI__)
#define WIDE_CODE_OFFSET 128 /* of 8-bit codes */
#else
#define WIDE_CODE_OFFSET 0
#endif

#if defined(__AVX512VNNI__)

/* The instruction by name: compilers load the four bytes and spread them first, which costs a
 * third of the speed. */
INLINE vi dot_quad(vi start, vi codes, const int8_t *x)
{
    struct quad {
        int8_t codes[4];
    };
    __asm__("vpdpbusd %2%{1to16%}, %1, %0"
            : "+v"(start)
            : "v"(codes), "m"(*(const struct quad *)x));
    return start;
}

/* One dot product is a chain in which every instruction waits for the one before; several side
 * by side keep the multipliers busy. */
INLINE void dot_quads(int T, vi dots[], const vi *codes, int n, const int8_t *x,
                      ptrdiff_t stride, int bits)
{
    (void)bits;
    UNROLL
    for (int j = 0; j < n; j++) {
        UNROLL
        for (int t = 0; t < T; t++) {
            dots[t] = dot_quad(dots[t], codes[j], x + t * stride + 4 * j);
        }
    }
}

#elif LANES > 4

#if LANES == 16
typedef __m512i bytes_t;
#define BYTES_MADDUBS _mm512_maddubs_epi16
#define BYTES_MADD    _mm512_madd_epi16
#define BYTES_ADD16   _mm512_add_epi16
#define BYTES_ONES    _mm512_set1_epi16(1)
#define BYTES_ALL     _mm512_set1_epi32
#define BYTES_ABS     _mm512_abs_epi8

INLINE bytes_t give_sign(bytes_t x, bytes_t sign)
{
    return _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(sign), _mm512_setzero_si512(), x);
}
#else
typedef __m256i bytes_t;
#define BYTES_MADDUBS _mm256_maddubs_epi16
#define BYTES_MADD    _mm256_madd_epi16
#define BYTES_ADD16   _mm256_add_epi16
#define BYTES_ONES    _mm256_set1_epi16(1)
#define BYTES_ALL     _mm256_set1_epi32
#define BYTES_ABS     _mm256_abs_epi8

INLINE bytes_t give_sign(bytes_t x, bytes_t sign)
{
    return _mm256_sign_epi8(x, sign);
}
#endif

/* Signed codes: |w| times x with w's sign; 2 * 128 * 127 fits in 16 bits. */
INLINE vi dot_of(vi start, const vi *codes, int n, const int8_t *x, int bits)
{
    const int run = bits == 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
    UNROLL
    for (int first = 0; first < n; first += run) {
        bytes_t sum = BYTES_ONES;
        UNROLL
        for (int i = 0; i < run; i++) {
            const int j = first + i;
            bytes_t w = (bytes_t)codes[j], four = BYTES_ALL(word_at(x + 4 * j));
            bytes_t pair = bits == 8 ? BYTES_MADDUBS(BYTES_ABS(w), give_sign(four, w))
                                     : BYTES_MADDUBS(w, four);
            sum = i == 0 ? pair : BYTES_ADD16(sum, pair);
        }
        start += (vi)BYTES_MADD(sum, BYTES_ONES);
    }
    return start;
}

#else

INLINE vi dot_of(vi start, const vi *codes, int n, const int8_t *x, int bits)
{
    for (int j = 0; j < n; j++) {
        for (int byte = 0; byte < 4; byte++) {
            vi code = bits == 8 ? vi_shl(codes[j], 24 - 8 * byte) >> 24
                                : vi_shr(codes[j], 8 * byte) & 0xff;
            start += code * (int32_t)x[4 * j + byte];
        }
    }
    return start;
}

#endif

#if !defined(__AVX512VNNI__)
INLINE void dot_quads(int T, vi dots[], const vi *codes, int n, const int8_t *x,
                      ptrdiff_t stride, int bits)
{
    UNROLL
    for (int t = 0; t < T; t++) {
        dots[t] = dot_of(dots[t], codes, n, x + t * stride, bits);
    }
}
#endif

#endif
