/* From a sub-block of a panel to codes and scales in registers, for every quantised format
 * (private to level.c). Layouts: panel.h. The format is a constant wherever these are used, so
 * that each switch folds; a new format is a row in each of them.
 *
 *   value of a column = scale * (code - code_offset) [+ min] */
#ifndef COP_CPU_UNPACK_H
#define COP_CPU_UNPACK_H

#include "kernels/cpu/product/panel.h"
#include "kernels/cpu/vec.h"

/* Size of a code, as dot_quads wants it. */
INLINE int code_bits(enum cop_format format)
{
    switch (format) {
    case COP_FORMAT_Q4_0:
    case COP_FORMAT_Q4_1:
    case COP_FORMAT_Q4_K: return 4;
    case COP_FORMAT_Q5_0:
    case COP_FORMAT_Q5_1:
    case COP_FORMAT_Q5_K: return 5;
    case COP_FORMAT_Q6_K: return 6;
    case COP_FORMAT_Q8_0: return 8;
    case COP_FORMAT_F32:
    case COP_FORMAT_F16:
    case COP_FORMAT_BF16:
    case COP_FORMAT_COUNT: break;
    }
    return 0;
}

/* The logarithm of code_offset, -1 where there is none. */
INLINE int offset_bits(enum cop_format format)
{
    switch (format) {
    case COP_FORMAT_Q4_0: return 3;
    case COP_FORMAT_Q5_0: return 4;
    case COP_FORMAT_Q6_K: return 5;
    case COP_FORMAT_Q8_0: return WIDE_CODE_OFFSET ? 7 : -1;
    case COP_FORMAT_Q4_1:
    case COP_FORMAT_Q5_1:
    case COP_FORMAT_Q4_K:
    case COP_FORMAT_Q5_K:
    case COP_FORMAT_F32:
    case COP_FORMAT_F16:
    case COP_FORMAT_BF16:
    case COP_FORMAT_COUNT: break;
    }
    return -1;
}

INLINE bool has_min(enum cop_format format)
{
    return format == COP_FORMAT_Q4_1 || format == COP_FORMAT_Q5_1 ||
           format == COP_FORMAT_Q4_K || format == COP_FORMAT_Q5_K;
}

/* Two scales in a sub-block, one for each 16 columns. */
INLINE bool has_half_scales(enum cop_format format)
{
    return format == COP_FORMAT_Q6_K;
}

/* The code offset of such formats. */
enum { COP_HALF_CODE_OFFSET = 32 };

INLINE bool is_k_quant(enum cop_format format)
{
    return format == COP_FORMAT_Q4_K || format == COP_FORMAT_Q5_K || format == COP_FORMAT_Q6_K;
}

INLINE int subs_of(enum cop_format format)
{
    return is_k_quant(format) ? 8 : 1;
}

/* f16 numbers of each row, then the scales (and mins, or second scales) of the sub-blocks, a
 * byte each: the codes after them are whole cache lines. */
enum { HEAD_NUMBERS = 64, HEAD_SCALES = 32 };

INLINE int head_bytes_of(enum cop_format format)
{
    return is_k_quant(format) ? HEAD_NUMBERS + 8 * HEAD_SCALES : 0;
}

/* Bytes of scales and mins in front of the codes of a sub-block. */
INLINE int scale_bytes_of(enum cop_format format)
{
    return is_k_quant(format)                                       ? 0
           : format == COP_FORMAT_Q4_1 || format == COP_FORMAT_Q5_1 ? 64
                                                                    : 32;
}

INLINE int sub_bytes_of(enum cop_format format)
{
    int code_bytes = code_bits(format) == 4   ? 256
                     : code_bits(format) == 5 ? 64 + 256
                     : code_bits(format) == 6 ? 384
                                              : 512;
    return scale_bytes_of(format) + code_bytes;
}

struct scales {
    vf scale;      /* of columns 0 to 31, or 0 to 15 */
    vf scale_high; /* of columns 16 to 31 where has_half_scales */
    vf min;        /* where has_min */
};

INLINE vf f16_at(const uint8_t *bytes, int strip)
{
    return vf_from_f16((const uint16_t *)(const void *)bytes + strip * LANES);
}

/* Of sub-block i behind its head. */
INLINE struct scales unpack_scales(enum cop_format format, const uint8_t *head, int i,
                                   const uint8_t *sub, int strip)
{
    struct scales s = {0};
    if (is_k_quant(format)) {
        const uint8_t *first = head + HEAD_NUMBERS + HEAD_SCALES * i + strip * LANES;
        vf d = f16_at(head, strip);
        if (format == COP_FORMAT_Q6_K) {
            s.scale = d * vf_from_vi(vi_from_s8(first));
            s.scale_high = d * vf_from_vi(vi_from_s8(first + 16));
        } else {
            s.scale = d * vf_from_vi(vi_from_u8(first));
            s.min = -f16_at(head + 32, strip) * vf_from_vi(vi_from_u8(first + 16));
        }
    } else {
        s.scale = f16_at(sub, strip);
        if (has_min(format)) {
            s.min = f16_at(sub + 32, strip);
        }
    }
    return s;
}

/* codes[j] = quad j: columns 4 j to 4 j + 3 of each row. */
INLINE void unpack_codes(enum cop_format format, const uint8_t *sub, int strip, vi codes[8])
{
    const uint8_t *at = sub + scale_bytes_of(format) + 4 * LANES * strip;
    int bits = code_bits(format);
    if (bits == 8) {
        UNROLL
        for (int j = 0; j < 8; j++) {
            codes[j] = vi_load(at + 64 * j);
            if (WIDE_CODE_OFFSET) {
                codes[j] ^= (int32_t)0x80808080u;
            }
        }
        return;
    }
    if (bits == 6) {
        vi words[6];
        UNROLL
        for (int i = 0; i < 6; i++) {
            words[i] = vi_load(at + 64 * i);
            codes[i] = words[i] & 0x3f3f3f3f;
        }
        UNROLL
        for (int i = 0; i < 2; i++) {
            codes[6 + i] = (vi_shr(words[3 * i], 6) & 0x03030303) |
                           (vi_shr(words[3 * i + 1], 4) & 0x0c0c0c0c) |
                           (vi_shr(words[3 * i + 2], 2) & 0x30303030);
        }
        return;
    }
    const uint8_t *nibbles = at + (bits == 5 ? 64 : 0);
    UNROLL
    for (int i = 0; i < 4; i++) {
        vi packed = vi_load(nibbles + 64 * i);
        codes[i] = packed & 0x0f0f0f0f;
        codes[i + 4] = vi_shr(packed, 4) & 0x0f0f0f0f;
    }
    if (bits == 5) {
        vi fifth = vi_load(at);
        UNROLL
        for (int j = 0; j < 8; j++) {
            vi moved = j < 4 ? vi_shl(fifth, 4 - j) : vi_shr(fifth, j - 4);
            codes[j] |= moved & 0x10101010;
        }
    }
}

#endif
