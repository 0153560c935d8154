/* Activations into the tiles that products read (private to level.c). Layouts: product_int8.h,
 * product_f32.h; the arithmetic of quantisation: kernels/quantize.h. */
#ifndef COP_CPU_ACTIVATIONS_H
#define COP_CPU_ACTIVATIONS_H

#include <math.h>

#include "kernels/cpu/level.h"
#include "kernels/cpu/product/product_int8.h"
#include "kernels/quantize.h"

struct block_sums {
    int32_t low, high; /* of the first and the last 16 codes */
};

#if LANES >= 8

#define ABS_BITS 0x7fffffff

/* Sum of 16 signed bytes: psadbw adds unsigned ones, hence the detour. */
INLINE int32_t sum_of_bytes(__m128i bytes)
{
    __m128i raised = _mm_xor_si128(bytes, _mm_set1_epi8((char)0x80));
    __m128i sums = _mm_sad_epu8(raised, _mm_setzero_si128());
    return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 16 * 128;
}

INLINE uint32_t largest_lane(__m256i v)
{
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

#if LANES == 16

/* The bits of max |x|: as integers, magnitudes are ordered, infinity and NaN above all. */
INLINE uint32_t largest_magnitude(const float *x)
{
    const __m512i mask = _mm512_set1_epi32(ABS_BITS);
    __m512i a = _mm512_and_si512(_mm512_castps_si512(_mm512_loadu_ps(x)), mask);
    __m512i b = _mm512_and_si512(_mm512_castps_si512(_mm512_loadu_ps(x + 16)), mask);
    a = _mm512_max_epu32(a, b);
    return largest_lane(
        _mm256_max_epu32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1)));
}

INLINE struct block_sums write_codes(const float *x, float inverse, int8_t *codes)
{
    const __m512 factor = _mm512_set1_ps(inverse);
    __m512i a = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), factor));
    __m512i b = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16), factor));
    __m128i low = _mm512_cvtepi32_epi8(a), high = _mm512_cvtepi32_epi8(b);
    memcpy(codes, &low, sizeof low);
    memcpy(codes + 16, &high, sizeof high);
    return (struct block_sums){sum_of_bytes(low), sum_of_bytes(high)};
}

#else

INLINE uint32_t largest_magnitude(const float *x)
{
    const __m256i mask = _mm256_set1_epi32(ABS_BITS);
    __m256i m = _mm256_setzero_si256();
    for (int i = 0; i < COP_QUANT_BLOCK; i += 8) {
        __m256i v = _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + i)), mask);
        m = _mm256_max_epu32(m, v);
    }
    return largest_lane(m);
}

INLINE struct block_sums write_codes(const float *x, float inverse, int8_t *codes)
{
    const __m256 factor = _mm256_set1_ps(inverse);
    __m256i q[4];
    for (int i = 0; i < 4; i++) {
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), factor));
    }
    __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    /* Packing works within halves: words come out as 0 2 4 6 1 3 5 7. */
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    memcpy(codes, &bytes, sizeof bytes);
    return (struct block_sums){sum_of_bytes(_mm256_castsi256_si128(bytes)),
                               sum_of_bytes(_mm256_extracti128_si256(bytes, 1))};
}

#endif

INLINE float quantize_block(const float *x, int8_t *codes, struct block_sums *sums)
{
    uint32_t bits = largest_magnitude(x);
    float largest, scale;
    memcpy(&largest, &bits, sizeof largest);
    if (!(largest < COP_QUANT_HUGE) || largest < COP_QUANT_TINY) {
        memset(codes, 0, COP_QUANT_BLOCK);
        *sums = (struct block_sums){0, 0};
        return largest < COP_QUANT_TINY ? 0.0f : NAN;
    }
    scale = largest * COP_QUANT_INVERSE;
    memcpy(&bits, &scale, sizeof bits);
    bits = (bits + COP_QUANT_DROPPED) & ~COP_QUANT_DROPPED;
    memcpy(&scale, &bits, sizeof scale);
    *sums = write_codes(x, 1.0f / scale, codes);
    return scale;
}

#else

INLINE float quantize_block(const float *x, int8_t *codes, struct block_sums *sums)
{
    float scale = cop_quantize_block(x, codes);
    *sums = (struct block_sums){0, 0};
    for (int i = 0; i < COP_QUANT_BLOCK / 2; i++) {
        sums->low += codes[i];
        sums->high += codes[COP_QUANT_BLOCK / 2 + i];
    }
    return scale;
}

#endif

/* 1.5 * 2^(23 + e) for a scale of (8 + j) / 8 * 2^e; NaN for NaN; for 0 any will do: its codes
 * are 0. */
INLINE uint32_t magic_of(uint32_t scale_bits)
{
    uint32_t exponent = scale_bits & 0x7f800000u;
    return exponent == 0x7f800000u ? 0x7fc00000u : exponent + (23u << 23 | 1u << 22);
}

INLINE float fill_record(struct record *record, const float *x)
{
    struct block_sums sums;
    float scale = quantize_block(x, record->codes, &sums);
    int32_t sum = sums.low + sums.high;
    uint32_t bits, magic;
    memcpy(&bits, &scale, sizeof bits);
    magic = magic_of(bits);
    record->scale = scale;
    record->sum = scale * (float)sum;
    record->minus = -sum;
    memcpy(&record->magic, &magic, sizeof magic);
    record->wide_start = (int32_t)magic - 128 * sum;
    record->low_start = (int32_t)magic - COP_HALF_CODE_OFFSET * sums.low;
    record->high_start = (int32_t)magic - COP_HALF_CODE_OFFSET * sums.high;
    record->place = (int32_t)(bits >> 20 & 7u) * (int32_t)sizeof(vf);
    return scale;
}

static void quantize(const float *x, int32_t n_subs, int32_t tokens, int32_t token, void *tile)
{
    struct record *record = (struct record *)tile + token, *last = record + n_subs * tokens;
    float largest = 0.0f, sum = 0.0f;
    int32_t outlier = -1;
    for (int32_t block = 0; block < n_subs; block++, record += tokens) {
        float scale = fill_record(record, x + (ptrdiff_t)block * COP_QUANT_BLOCK);
        sum += scale;
        if (scale > largest) {
            largest = scale;
            outlier = block;
        }
    }
    last->place = -1;
    if (cop_quantize_is_outlier(largest, sum, n_subs)) {
        float rest[COP_QUANT_BLOCK];
        const struct record *first = (const struct record *)tile + token + outlier * tokens;
        cop_quantize_rest(x + (ptrdiff_t)outlier * COP_QUANT_BLOCK, largest, first->codes,
                          rest);
        fill_record(last, rest);
        last->place = outlier;
    }
}

static void interleave(const float *x, int32_t stride, int32_t tokens, int32_t cols,
                       float *tile)
{
    int32_t padded = (cols + COP_PANEL_COLS - 1) / COP_PANEL_COLS * COP_PANEL_COLS;
    if (tokens == 1) {
        memcpy(tile, x, (size_t)cols * sizeof *tile);
    } else {
        for (int32_t k = 0; k < cols; k++) {
            for (int32_t t = 0; t < tokens; t++) {
                tile[(ptrdiff_t)k * tokens + t] = x[(ptrdiff_t)t * stride + k];
            }
        }
    }
    memset(tile + (ptrdiff_t)cols * tokens, 0,
           (size_t)(padded - cols) * (size_t)tokens * sizeof *tile);
}

#endif
