/* The f32 product of a stretch of one panel with a tile of tokens (private to level.c).
 *
 * Weights are first widened to f32 (exactly what the format's `widen` gives), a stretch of up
 * to COP_STRETCH_SUBS sub-blocks at a time, and the stretch meets all tiles while it is in the
 * first cache. The arithmetic of one (row, token), whatever the tile:
 *
 *   total = 0;  for each sub-block of 32 columns in order:
 *      part = 0;  for k in 0..31:  part = fma(weight[k], x[k], part)
 *      total = total + part
 *
 * A tile of T tokens is [k][T] floats, k padded with zeros to a multiple of 32. */
#ifndef COP_CPU_PRODUCT_F32_H
#define COP_CPU_PRODUCT_F32_H

#include "kernels/cpu/level.h"
#include "kernels/cpu/product/unpack.h"
#include "kernels/cpu/tiles.h"

/* totals[t * PANEL + row] += the stretch's parts. */
INLINE void f32_tile(int T, const float *weights, int32_t n_subs, const float *tile,
                     float *totals)
{
    for (int strip = 0; strip < STRIPS; strip++) {
        const float *w = weights + strip * LANES, *x = tile;
        for (int32_t sub = 0; sub < n_subs; sub++) {
            vf part[COP_TILE_MAX];
            UNROLL
            for (int t = 0; t < T; t++) {
                part[t] = (vf){0.0f};
            }
            for (int k = 0; k < COP_PANEL_COLS; k++, w += PANEL, x += T) {
                vf weight = vf_load(w);
                UNROLL
                for (int t = 0; t < T; t++) {
                    part[t] = vf_fma(weight, vf_all(x[t]), part[t]);
                }
            }
            UNROLL
            for (int t = 0; t < T; t++) {
                float *total = totals + t * PANEL + strip * LANES;
                vf_store(total, vf_load(total) + part[t]);
            }
        }
    }
}

INLINE void widen_sub(enum cop_format format, const uint8_t *head, int i, const uint8_t *sub,
                      int strip, float *out)
{
    vi codes[8];
    struct scales s = unpack_scales(format, head, i, sub, strip);
    unpack_codes(format, sub, strip, codes);
    UNROLL
    for (int j = 0; j < 8; j++) {
        vf scale = has_half_scales(format) && j >= 4 ? s.scale_high : s.scale;
        UNROLL
        for (int byte = 0; byte < 4; byte++) {
            vi code = code_bits(format) == 8 && !WIDE_CODE_OFFSET
                          ? vi_shl(codes[j], 24 - 8 * byte) >> 24
                          : vi_shr(codes[j], 8 * byte) & 0xff;
            if (offset_bits(format) >= 0) {
                code -= vi_all(1 << offset_bits(format));
            }
            vf value = scale * vf_from_vi(code);
            vf_store(out + (4 * j + byte) * PANEL + strip * LANES,
                     has_min(format) ? value + s.min : value);
        }
    }
}

/* Sub-blocks [first, first + count) of a panel as [32 * count][PANEL] floats; first is a
 * multiple of COP_STRETCH_SUBS, which is a multiple of the format's subs. */
INLINE void widen_subs(enum cop_format format, const uint8_t *panel, int32_t first,
                       int32_t count, float *out)
{
    const int subs = subs_of(format), sub_bytes = sub_bytes_of(format);
    const uint8_t *at =
        panel + (ptrdiff_t)(first / subs) * (head_bytes_of(format) + subs * sub_bytes);
    for (int32_t block = 0; block < count; block += subs) {
        const uint8_t *head = at;
        at += head_bytes_of(format);
        for (int sub = 0; sub < subs; sub++, at += sub_bytes, out += COP_PANEL_COLS * PANEL) {
            for (int strip = 0; strip < STRIPS; strip++) {
                widen_sub(format, head, sub, at, strip, out);
            }
        }
    }
}

INLINE void widen_halves(bool is_bf16, const uint8_t *panel, int32_t first, int32_t count,
                         float *out)
{
    const uint16_t *from = (const uint16_t *)(const void *)panel;
    from += (ptrdiff_t)first * COP_PANEL_COLS * PANEL;
    for (int32_t i = 0; i < count * COP_PANEL_COLS * PANEL; i += LANES) {
        vf_store(out + i, is_bf16 ? vf_from_bf16(from + i) : vf_from_f16(from + i));
    }
}

static void widen_panel_f16(const uint8_t *panel, int32_t first, int32_t count, float *out)
{
    widen_halves(false, panel, first, count, out);
}

static void widen_panel_bf16(const uint8_t *panel, int32_t first, int32_t count, float *out)
{
    widen_halves(true, panel, first, count, out);
}

#define WIDEN_PANEL(name, format)                                                              \
    static void widen_panel_##name(const uint8_t *panel, int32_t first, int32_t count,         \
                                   float *out)                                                 \
    {                                                                                          \
        widen_subs(format, panel, first, count, out);                                          \
    }

WIDEN_PANEL(q8_0, COP_FORMAT_Q8_0)
WIDEN_PANEL(q4_0, COP_FORMAT_Q4_0)
WIDEN_PANEL(q4_1, COP_FORMAT_Q4_1)
WIDEN_PANEL(q5_0, COP_FORMAT_Q5_0)
WIDEN_PANEL(q5_1, COP_FORMAT_Q5_1)
WIDEN_PANEL(q4_k, COP_FORMAT_Q4_K)
WIDEN_PANEL(q5_k, COP_FORMAT_Q5_K)
WIDEN_PANEL(q6_k, COP_FORMAT_Q6_K)

#define F32_TILE(a, b, T)                                                                      \
    static void f32_tile_##T(const float *weights, int32_t n_subs, const float *tile,          \
                             float *totals)                                                    \
    {                                                                                          \
        f32_tile(T, weights, n_subs, tile, totals);                                            \
    }
#define F32_TILE_NAME(a, b, T) [T - 1] = f32_tile_##T,

FOR_EACH_TILE(F32_TILE, , )

#endif
