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
 * A tile of T tokens is an array of records, one per sub-block and one more for the rests of
 * outliers (in which place[T] is the sub-block that a rest belongs to, -1: none), each (arrays
 * over the T tokens): int8  codes[T][32] f32   x_scale[T]   = (8 + j) / 8 * 2^e: quantize.h f32
 * x_sum[T] = x_scale * (float)sum of codes int32 minus_sum[T], minus_low[T], minus_high[T]: of
 * all codes, the first, the last 16 f32   magic[T]     = 1.5 * 2^(23 + e): adding an integer
 * below 2^22 to its bits adds that integer times 2^e to its value int32 wide_start[T] = bits of
 * magic
 * - 128 * sum of codes int32 place[T]     = j * sizeof(vector)
 *
 * Where a dot product takes one instruction per quad (VNNI), the multipliers are what limits a
 * large tile, and the product scale * x_scale is taken off them: the sums start from magic
 * instead of zero, subtracting it as a float leaves dot * 2^e, and scale * (8 + j) / 8 comes
 * from a table of eight vectors per sub-block that is made by additions. All of these steps are
 * exact. */
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
#define X_MAGIC(T)      (52 * (T))
#define X_WIDE_START(T) (56 * (T))
#define X_PLACE(T)      (60 * (T))

#if defined(__AVX512VNNI__)
#ifndef TABLE_TILE
#define TABLE_TILE 4 /* smallest tile for which the table pays */
#endif
#else
#define TABLE_TILE (COP_TILE_MAX + 1)
#endif

#ifndef AHEAD
#define AHEAD 4096
#endif

INLINE vf all_f32(const uint8_t *from)
{
    float x;
    memcpy(&x, from, sizeof x);
    return vf_all(x);
}

struct scale_table {
    vf of_j[8];
};

INLINE void fill_table(struct scale_table *table, vf scale)
{
    vf eighth = scale * 0.125f, quarter = eighth + eighth, half = quarter + quarter;
    table->of_j[0] = scale;
    table->of_j[1] = scale + eighth;
    table->of_j[2] = scale + quarter;
    table->of_j[3] = table->of_j[1] + quarter;
    UNROLL
    for (int j = 4; j < 8; j++) {
        table->of_j[j] = table->of_j[j - 4] + half;
    }
}

/* What codes minus offset add up to starts at minus offset times the sum of activation codes.
 */
INLINE vi start_of(enum cop_format format, const uint8_t *minus)
{
    if (offset_bits(format) < 0) {
        return (vi){0};
    }
    return vi_shl(vi_all(word_at(minus)), offset_bits(format));
}

/* acc + scale * x_scale * dot over n quads; x points at the token's entry of each array. */
INLINE vf add_dot(enum cop_format format, int T, const vi *codes, int n, const int8_t *x_codes,
                  vf scale, const struct scale_table *table, const uint8_t *x, int minus_at,
                  vf acc)
{
    if (!table) {
        vi dot = start_of(format, x + minus_at);
        dot = dot_quads(dot, codes, n, x_codes, code_bits(format));
        return vf_fma(scale * all_f32(x + X_SCALE(T)), vf_from_vi(dot), acc);
    }
    vi start = vi_all(word_at(x + (code_bits(format) == 8 ? X_WIDE_START(T) : X_MAGIC(T))));
    if (code_bits(format) != 8) {
        start += start_of(format, x + minus_at);
    }
    vi dot = dot_quads(start, codes, n, x_codes, code_bits(format));
    vf by_j;
    memcpy(&by_j, (const uint8_t *)table + word_at(x + X_PLACE(T)), sizeof by_j);
    return vf_fma(by_j, (vf)dot - all_f32(x + X_MAGIC(T)), acc);
}

INLINE vf add_sub_block(enum cop_format format, int T, const vi codes[8],
                        const struct scales *s, const struct scale_table *tables,
                        const uint8_t *record, int t, vf acc)
{
    const int8_t *x_codes = (const int8_t *)record + 32 * t;
    const uint8_t *x = record + 4 * t;
    if (has_half_scales(format)) {
        acc = add_dot(format, T, codes, 4, x_codes, s->scale, tables, x, X_MINUS_LOW(T), acc);
        return add_dot(format, T, codes + 4, 4, x_codes + 16, s->scale_high,
                       tables ? tables + 1 : NULL, x, X_MINUS_HIGH(T), acc);
    }
    acc = add_dot(format, T, codes, 8, x_codes, s->scale, tables, x, X_MINUS(T), acc);
    return has_min(format) ? vf_fma(s->min, all_f32(x + X_SUM(T)), acc) : acc;
}

INLINE void prefetch_ahead(const uint8_t *at, int bytes)
{
    UNROLL
    for (int line = 0; line < (bytes + 63) / 64; line++) {
        __builtin_prefetch(at + AHEAD + 64 * line);
    }
}

/* The rests of outliers (quantize.h), in the last record: each meets the sub-block that it came
 * from. The same arithmetic, without the table: those steps are exact. */
INLINE void add_rests(enum cop_format format, int T, const uint8_t *panel, int strip,
                      const uint8_t *record, vf sums[])
{
    for (int t = 0; t < T; t++) {
        int32_t block = word_at(record + X_PLACE(T) + 4 * t);
        if (block < 0) {
            continue;
        }
        const int subs = subs_of(format), bytes = sub_bytes_of(format);
        const uint8_t *head =
            panel + (ptrdiff_t)(block / subs) * (head_bytes_of(format) + subs * bytes);
        const uint8_t *at = head + head_bytes_of(format) + block % subs * bytes;
        vi codes[8];
        struct scales s = unpack_scales(format, head, at, strip);
        unpack_codes(format, at, strip, codes);
        sums[t] = add_sub_block(format, T, codes, &s, NULL, record, t, sums[t]);
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
                struct scale_table tables[2];
                if (strip == 0) {
                    prefetch_ahead(at, sub_bytes_of(format));
                }
                struct scales s = unpack_scales(format, head, at, strip);
                unpack_codes(format, at, strip, codes);
                if (T >= TABLE_TILE) {
                    fill_table(&tables[0], s.scale);
                    if (has_half_scales(format)) {
                        fill_table(&tables[1], s.scale_high);
                    }
                }
                UNROLL
                for (int t = 0; t < T; t++) {
                    acc[t] = add_sub_block(format, T, codes, &s,
                                           T >= TABLE_TILE ? tables : NULL, x, t, acc[t]);
                }
                at += sub_bytes_of(format);
                x += COP_RECORD_BYTES * T;
            }
        }
        vf sums[COP_TILE_MAX]; /* in memory, so that acc need not be */
        UNROLL
        for (int t = 0; t < T; t++) {
            sums[t] = acc[t];
        }
        add_rests(format, T, panel, strip, x, sums);
        float *out = to->out + strip * LANES;
        for (int t = 0; t < T; t++, out += to->stride) {
            vf sum = to->bias ? sums[t] + vf_load(to->bias + strip * LANES) : sums[t];
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
