/* The int8 product of one panel with a tile of tokens (private to level.c).
 *
 * Each sub-block is unpacked once and meets all tokens of the tile; their sums stay in
 * registers. The arithmetic of one (row, token):
 *
 *   acc = 0;  for each sub-block in order:
 *      dot = sum of (code - offset) * activation code        exact, in integers
 *      acc = fma(scale * x_scale, (float)dot, acc)           twice where a half has its own
 * scale acc = fma(min, x_sum, acc)                            where the format has a min
 *
 * It does not depend on the tile, so neither do its bits; and levels with fused multiply-add
 * agree among themselves.
 *
 * A tile of T tokens is an array of records, one per sub-block, each (arrays over the T
 * tokens): int8 codes[T][32]   float x_scale[T]   float x_sum[T] = x_scale * (float)sum of
 * codes int32 minus_sum[T]  int32 minus_low[T]  int32 minus_high[T]: of all, the first, the
 * last 16 codes */
#ifndef COP_CPU_PRODUCT_INT8_H
#define COP_CPU_PRODUCT_INT8_H

#include "kernels/cpu/level.h"
#include "kernels/cpu/tiles.h"
#include "kernels/cpu/unpack.h"

/* Where a block of arrays lies in a record of T tokens, in bytes. */
#define X_SCALE(T)      (32 * (T))
#define X_SUM(T)        (36 * (T))
#define X_MINUS(T)      (40 * (T))
#define X_MINUS_LOW(T)  (44 * (T))
#define X_MINUS_HIGH(T) (48 * (T))

INLINE vf all_f32(const uint8_t *from)
{
    float x;
    memcpy(&x, from, sizeof x);
    return vf_all(x);
}

/* Where a dot product starts: at what the code offset takes away. */
INLINE vi start_of(enum cop_format format, const uint8_t *minus)
{
    if (offset_bits(format) < 0) {
        return (vi){0};
    }
    return vi_all((int32_t)((uint32_t)word_at(minus) << offset_bits(format)));
}

INLINE vf add_sub_block(enum cop_format format, int T, const vi codes[8],
                        const struct scales *s, const uint8_t *x, int t, vf acc)
{
    const int8_t *x_codes = (const int8_t *)x + 32 * t;
    vf x_scale = all_f32(x + X_SCALE(T) + 4 * t);
    if (has_half_scales(format)) {
        vi low = start_of(format, x + X_MINUS_LOW(T) + 4 * t);
        vi high = start_of(format, x + X_MINUS_HIGH(T) + 4 * t);
        low = dot_quads(low, codes, 4, x_codes, code_bits(format));
        high = dot_quads(high, codes + 4, 4, x_codes + 16, code_bits(format));
        acc = vf_fma(s->scale * x_scale, vf_from_vi(low), acc);
        return vf_fma(s->scale_high * x_scale, vf_from_vi(high), acc);
    }
    vi dot = start_of(format, x + X_MINUS(T) + 4 * t);
    dot = dot_quads(dot, codes, 8, x_codes, code_bits(format));
    acc = vf_fma(s->scale * x_scale, vf_from_vi(dot), acc);
    return has_min(format) ? vf_fma(s->min, all_f32(x + X_SUM(T) + 4 * t), acc) : acc;
}

#ifndef AHEAD
#define AHEAD 2048
#endif
INLINE void prefetch_ahead(const uint8_t *at, int bytes)
{
    UNROLL
    for (int line = 0; line < (bytes + 63) / 64; line++) {
        __builtin_prefetch(at + AHEAD + 64 * line);
    }
}

/* All 16 rows for T tokens; n_subs is a multiple of the format's subs. */
INLINE void int8_tile(enum cop_format format, int T, const uint8_t *panel, int32_t n_subs,
                      const uint8_t *tile, const struct cop_rows_out *to)
{
    for (int strip = 0; strip < STRIPS; strip++) {
        vf acc[COP_TILE_MAX];
        UNROLL
        for (int t = 0; t < T; t++) {
            acc[t] = (vf){0.0f};
        }
        const uint8_t *at = panel, *x = tile;
        for (int32_t block = 0; block < n_subs; block += subs_of(format)) {
            const uint8_t *head = at;
            at += head_bytes_of(format);
            for (int sub = 0; sub < subs_of(format); sub++) {
                vi codes[8];
                prefetch_ahead(at, sub_bytes_of(format));
                struct scales s = unpack_scales(format, head, at, strip);
                unpack_codes(format, at, strip, codes);
                UNROLL
                for (int t = 0; t < T; t++) {
                    acc[t] = add_sub_block(format, T, codes, &s, x, t, acc[t]);
                }
                at += sub_bytes_of(format);
                x += COP_RECORD_BYTES * T;
            }
        }
        float *out = to->out + strip * LANES;
        UNROLL
        for (int t = 0; t < T; t++, out += to->stride) {
            vf sum = to->bias ? acc[t] + vf_load(to->bias + strip * LANES) : acc[t];
            vf_store(out, to->accumulate ? sum + vf_load(out) : sum);
        }
    }
}

#define INT8_TILE(name, format, T)                                                             \
    static void int8_##name##_##T(const uint8_t *panel, int32_t n_subs, const uint8_t *tile,   \
                                  const struct cop_rows_out *to)                               \
    {                                                                                          \
        int8_tile(format, T, panel, n_subs, tile, to);                                         \
    }
#define INT8_TILES(name, format)                                                               \
    FOR_EACH_INT8_TILE(INT8_TILE, name, format)                                                \
    static cop_int8_tile *const int8_##name[COP_TILE_MAX] = {                                  \
        FOR_EACH_INT8_TILE(INT8_TILE_NAME, name, format)};
#define INT8_TILE_NAME(name, format, T) [T - 1] = int8_##name##_##T,

INT8_TILES(q8_0, COP_FORMAT_Q8_0)
INT8_TILES(q4_0, COP_FORMAT_Q4_0)
INT8_TILES(q4_1, COP_FORMAT_Q4_1)
INT8_TILES(q5_0, COP_FORMAT_Q5_0)
INT8_TILES(q5_1, COP_FORMAT_Q5_1)
INT8_TILES(q4_k, COP_FORMAT_Q4_K)
INT8_TILES(q5_k, COP_FORMAT_Q5_K)
INT8_TILES(q6_k, COP_FORMAT_Q6_K)

#endif
