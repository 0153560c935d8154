/* The table of stored number formats: how each block of bytes becomes f32 values.
 *
 * Every quantised value is (short integer) x (f16 scale) plus at most one offset. The product
 * of an 11-bit scale, an integer sub-scale and an integer code fits in 24 bits, so it is exact,
 * and only the sum rounds: the order of operations and fused multiply-add make no difference to
 * the bits.
 *
 *   Q4_0  f16 d, 16 bytes            d (code - 8)     element l: low nibble of byte l,
 *   Q4_1  f16 d, f16 m, 16 bytes     d code + m       element l + 16: its high nibble
 *   Q5_0  f16 d, 32 bits, 16 bytes   d (code - 16)    bit l is the fifth bit of element l
 *   Q5_1  f16 d, f16 m, 32 bits, 16  d code + m
 *   Q8_0  f16 d, 32 int8             d code
 *   Q4_K  f16 d, f16 dmin, 12 bytes of eight 6-bit (scale, min) pairs, 128 bytes
 *   Q5_K  the same with 32 bytes of fifth bits before the nibbles
 *   Q6_K  128 low nibbles, 64 bytes of high pairs, 16 int8 scales, f16 d; d scale (code - 32)
 *
 * Bytes are little-endian, as in the files, and blocks have no alignment. */
#include <string.h>

#include "kernels/ops.h"

float cop_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t magnitude = bits & 0x7fffu;
    uint32_t word;
    float value;
    if (magnitude >= 0x7c00u) { /* infinity, NaN */
        word = sign | 0x7f800000u | (magnitude & 0x3ffu) << 13;
    } else if (magnitude >= 0x400u) {
        word = sign | ((magnitude << 13) + 0x38000000u);
    } else { /* subnormal: an integer times 2^-24, exact in f32 */
        value = (float)magnitude * 0x1p-24f;
        memcpy(&word, &value, sizeof word);
        word |= sign;
    }
    memcpy(&value, &word, sizeof value);
    return value;
}

uint16_t cop_f32_to_f16(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    uint32_t sign = (word >> 16) & 0x8000u;
    uint32_t magnitude = word & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu));
    }
    if (magnitude >= 0x477ff000u) { /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) { /* below 2^-14: let one f32 sum do the rounding */
        float shifted;
        memcpy(&shifted, &magnitude, sizeof shifted);
        shifted += 0.5f; /* ulp of [0.5, 1) is 2^-24, the unit of f16 subnormals */
        uint32_t sum;
        memcpy(&sum, &shifted, sizeof sum);
        return (uint16_t)(sign | (sum - 0x3f000000u));
    }
    uint32_t odd = magnitude >> 13 & 1u;
    return (uint16_t)(sign | (magnitude - 0x38000000u + 0xfffu + odd) >> 13);
}

float cop_bf16_to_f32(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static float read_f16(const uint8_t *bytes)
{
    return cop_f16_to_f32((uint16_t)(bytes[0] | bytes[1] << 8));
}

static uint32_t read_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static void widen_f32(const void *blocks, int64_t n, float *values)
{
    memcpy(values, blocks, (size_t)n * sizeof *values);
}

static void widen_f16(const void *blocks, int64_t n, float *values)
{
    const uint8_t *bytes = blocks;
    for (int64_t i = 0; i < n; i++) {
        values[i] = read_f16(bytes + 2 * i);
    }
}

static void widen_bf16(const void *blocks, int64_t n, float *values)
{
    const uint8_t *bytes = blocks;
    for (int64_t i = 0; i < n; i++) {
        values[i] = cop_bf16_to_f32((uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8));
    }
}

static void widen_q8_0(const void *blocks, int64_t n, float *values)
{
    const uint8_t *block = blocks;
    for (int64_t i = 0; i < n; i += 32, block += 34, values += 32) {
        float d = read_f16(block);
        for (int l = 0; l < 32; l++) {
            values[l] = d * (float)(int8_t)block[2 + l];
        }
    }
}

/* values = d (code - bias) + m for 32 codes of 4 bits and, in `high`, their fifth bits. */
static void widen_nibbles(const uint8_t *nibbles, uint32_t high, float d, int bias, float m,
                          float *values)
{
    for (int l = 0; l < 16; l++) {
        int low_code = (nibbles[l] & 15) | (int)(high >> l & 1u) << 4;
        int high_code = nibbles[l] >> 4 | (int)(high >> (l + 16) & 1u) << 4;
        values[l] = d * (float)(low_code - bias) + m;
        values[l + 16] = d * (float)(high_code - bias) + m;
    }
}

static void widen_q4_0(const void *blocks, int64_t n, float *values)
{
    const uint8_t *block = blocks;
    for (int64_t i = 0; i < n; i += 32, block += 18) {
        widen_nibbles(block + 2, 0, read_f16(block), 8, -0.0f, values + i);
    }
}

static void widen_q4_1(const void *blocks, int64_t n, float *values)
{
    const uint8_t *block = blocks;
    for (int64_t i = 0; i < n; i += 32, block += 20) {
        widen_nibbles(block + 4, 0, read_f16(block), 0, read_f16(block + 2), values + i);
    }
}

static void widen_q5_0(const void *blocks, int64_t n, float *values)
{
    const uint8_t *block = blocks;
    for (int64_t i = 0; i < n; i += 32, block += 22) {
        widen_nibbles(block + 6, read_u32(block + 2), read_f16(block), 16, -0.0f, values + i);
    }
}

static void widen_q5_1(const void *blocks, int64_t n, float *values)
{
    const uint8_t *block = blocks;
    for (int64_t i = 0; i < n; i += 32, block += 24) {
        widen_nibbles(block + 8, read_u32(block + 4), read_f16(block), 0, read_f16(block + 2),
                      values + i);
    }
}

/* The 6-bit scale and min of sub-block `sub` of a K-quant: the first four lie in the low six
 * bits of bytes 0-3 and 4-7; the last four have their low nibbles in bytes 8-11 and their upper
 * two bits on top of the first eight bytes. */
static void unpack_scale_min(const uint8_t *packed, int sub, int *scale, int *min)
{
    if (sub < 4) {
        *scale = packed[sub] & 63;
        *min = packed[sub + 4] & 63;
    } else {
        *scale = (packed[sub + 4] & 15) | packed[sub - 4] >> 6 << 4;
        *min = packed[sub + 4] >> 4 | packed[sub] >> 6 << 4;
    }
}

/* One 256-block of Q4_K (fifth == NULL) or Q5_K: byte l of the 32-byte group g holds an element
 * of sub-block 2g (low nibble) and one of sub-block 2g + 1; bit s of fifth[l] belongs to
 * sub-block s. */
static void widen_k_block(const uint8_t *block, const uint8_t *fifth, const uint8_t *nibbles,
                          float *values)
{
    float d = read_f16(block), d_min = read_f16(block + 2);
    for (int sub = 0; sub < 8; sub++) {
        int scale, min;
        unpack_scale_min(block + 4, sub, &scale, &min);
        float d_sub = d * (float)scale, m_sub = d_min * (float)min;
        const uint8_t *group = nibbles + sub / 2 * 32;
        for (int l = 0; l < 32; l++) {
            int code = sub % 2 ? group[l] >> 4 : group[l] & 15;
            if (fifth) {
                code |= (fifth[l] >> sub & 1) << 4;
            }
            values[sub * 32 + l] = d_sub * (float)code - m_sub;
        }
    }
}

static void widen_q4_k(const void *blocks, int64_t n, float *values)
{
    const uint8_t *block = blocks;
    for (int64_t i = 0; i < n; i += 256, block += 144) {
        widen_k_block(block, NULL, block + 16, values + i);
    }
}

static void widen_q5_k(const void *blocks, int64_t n, float *values)
{
    const uint8_t *block = blocks;
    for (int64_t i = 0; i < n; i += 256, block += 176) {
        widen_k_block(block, block + 16, block + 48, values + i);
    }
}

static void widen_q6_k(const void *blocks, int64_t n, float *values)
{
    const uint8_t *block = blocks;
    for (int64_t i = 0; i < n; i += 256, block += 210, values += 256) {
        float d = read_f16(block + 208);
        for (int e = 0; e < 256; e++) {
            int half = e / 128, quarter = e / 32 % 4, l = e % 32;
            int low = block[half * 64 + quarter % 2 * 32 + l] >> quarter / 2 * 4 & 15;
            int high = block[128 + half * 32 + l] >> 2 * quarter & 3;
            float d_sub = d * (float)(int8_t)block[192 + e / 16];
            values[e] = d_sub * (float)((low | high << 4) - 32);
        }
    }
}

static const struct cop_format_info formats[COP_FORMAT_COUNT] = {
    [COP_FORMAT_F32] = {"F32", 1, 4, false, widen_f32},
    [COP_FORMAT_F16] = {"F16", 1, 2, false, widen_f16},
    [COP_FORMAT_BF16] = {"BF16", 1, 2, false, widen_bf16},
    [COP_FORMAT_Q8_0] = {"Q8_0", 32, 34, true, widen_q8_0},
    [COP_FORMAT_Q4_0] = {"Q4_0", 32, 18, true, widen_q4_0},
    [COP_FORMAT_Q4_1] = {"Q4_1", 32, 20, true, widen_q4_1},
    [COP_FORMAT_Q5_0] = {"Q5_0", 32, 22, true, widen_q5_0},
    [COP_FORMAT_Q5_1] = {"Q5_1", 32, 24, true, widen_q5_1},
    [COP_FORMAT_Q4_K] = {"Q4_K", 256, 144, true, widen_q4_k},
    [COP_FORMAT_Q5_K] = {"Q5_K", 256, 176, true, widen_q5_k},
    [COP_FORMAT_Q6_K] = {"Q6_K", 256, 210, true, widen_q6_k},
};

const struct cop_format_info *cop_format_info(enum cop_format format)
{
    return &formats[format];
}
