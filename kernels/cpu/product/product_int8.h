/* The int8 product of one panel with a tile of tokens (private to level.c).
 *
 * Each sub-block is unpacked once and meets all tokens of the tile; their sums stay in
 * registers. The arithmetic of one (row, token):
 *
 *   acc = 0;  for each sub-block in order:
 *      dot = sum of (code - offset) * activation code      exact, in integers
 *      acc = fma(scale * x_scale, (float)dot, acc)         twice if halves have own scales
 *      acc = fma(min, x_sum, acc)                          if the format has a min
 *   then the same once more for the rest of an outlier (quantize.h), if the token has one
 *
 * It does not depend on the tile, so neither do its bits; and levels with fused multiply-add
 * agree among themselves.
 *
 * A tile of T tokens is an array of records, [n_subs + 1][T], the last sub-block being for the
 * rests of outliers. A record is one cache line:
 *
 *   int8  codes[32]
 *   f32   scale       (8 + j) / 8 * 2^e: quantize.h
 *   f32   sum         scale * (float)sum of codes
 *   int32 minus       minus the sum of all codes
 *   f32   magic       1.5 * 2^(23 + e)
 *   int32 wide_start  bits of magic - 128 * sum of codes
 *   int32 low_start   bits of magic - 32 * sum of the first 16 (formats with half scales)
 *   int32 high_start  the same of the last 16
 *   int32 place       j * sizeof(vector); of a rest: the sub-block it belongs to, -1 for none
 *
 * Where a dot product takes one instruction per quad (VNNI), multipliers are what limits a
 * large tile, and the product scale * x_scale is taken off them: adding an integer below 2^22
 * to the bits of magic adds that integer times 2^e to its value, so dot products start from
 * magic instead of zero, and subtracting it as a float leaves dot * 2^e. The factor scale * (8
 * + j) / 8 comes from a table of eight vectors per sub-block that is made by additions. All of
 * these steps are exact. */
#ifndef COP_CPU_PRODUCT_INT8_H
#define COP_CPU_PRODUCT_INT8_H

#include "kernels/cpu/level.h"
#include "kernels/cpu/product/unpack.h"
#include "kernels/cpu/tiles.h"

struct record {
    int8_t codes[32];
    float scale, sum;
    int32_t minus;
    float magic;
    int32_t wide_start, low_start, high_start, place;
};

_Static_assert(sizeof(struct record) == COP_RECORD_BYTES, "records are laid out by hand");

/* Whether a tile is large enough for the table to pay; two of them never do. */
INLINE bool has_table(enum cop_format format, int T)
{
#if defined(__AVX512VNNI__)
    return T >= (has_min(format) || has_half_scales(format) ? 6 : 4);
#else
    (void)format;
    (void)T;
    return false;
#endif
}

struct scale_table {
    vf of_j[8];
};

struct scale_tables {
    struct scale_table low, high; /* high: of half scales */
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

/* Tokens that are multiplied side by side: dot_quads. */
#if defined(__AVX512VNNI__)
enum { GROUP = 4 };
#else
enum { GROUP = 1 };
#endif

/* What the dot product of quads from `quad` on starts at: with the bits of magic, or less them.
 */
INLINE vi start_of(enum cop_format format, const struct record *x, int quad, bool with_magic)
{
    if (has_half_scales(format)) {
        const int32_t *start = quad == 0 ? &x->low_start : &x->high_start;
        return with_magic ? vi_all_once(start) : vi_all(*start - word_at(&x->magic));
    }
    if (code_bits(format) == 8 && with_magic) {
        return vi_all(x->wide_start);
    }
    vi minus =
        offset_bits(format) < 0 ? vi_all(0) : vi_shl(vi_all(x->minus), offset_bits(format));
    return with_magic ? vi_all_once(&x->magic) + minus : minus;
}

/* acc[t] + scale * x_scale * dot over all quads, for T <= GROUP tokens. */
INLINE void add_scaled(int T, const vi dots[], vf scale, const struct scale_table *table,
                       const struct record *x, vf acc[])
{
    UNROLL
    for (int t = 0; t < T; t++) {
        if (table) {
            vf by_j;
            memcpy(&by_j, (const uint8_t *)table + x[t].place, sizeof by_j);
            acc[t] = vf_fma(by_j, (vf)dots[t] - vf_all(x[t].magic), acc[t]);
        } else {
            acc[t] = vf_fma(scale * vf_all(x[t].scale), vf_from_vi(dots[t]), acc[t]);
        }
    }
}

/* A sub-block in registers. */
struct sub_block {
    vi codes[8];
    struct scales scales;
};

INLINE void add_sub_block(enum cop_format format, int T, const struct sub_block *sub,
                          const struct scale_tables *tables, const struct record *x, vf acc[])
{
    const vi *codes = sub->codes;
    const struct scales *s = &sub->scales;
    const bool halves = has_half_scales(format);
    vi low[GROUP], high[GROUP];
    UNROLL
    for (int t = 0; t < T; t++) {
        low[t] = start_of(format, &x[t], 0, tables != NULL);
        if (halves) {
            high[t] = start_of(format, &x[t], 4, tables != NULL);
        }
    }
    dot_quads(T, low, codes, halves ? 4 : 8, x->codes, sizeof *x, code_bits(format));
    if (halves) {
        dot_quads(T, high, codes + 4, 4, x->codes + 16, sizeof *x, code_bits(format));
    }
    add_scaled(T, low, s->scale, tables ? &tables->low : NULL, x, acc);
    if (halves) {
        add_scaled(T, high, s->scale_high, tables ? &tables->high : NULL, x, acc);
    }
    if (has_min(format)) {
        UNROLL
        for (int t = 0; t < T; t++) {
            acc[t] = vf_fma(s->min, vf_all(x[t].sum), acc[t]);
        }
    }
}

/* Group by group; the last may be smaller. */
INLINE void add_tile(enum cop_format format, int T, const struct sub_block *sub,
                     const struct scale_tables *tables, const struct record *x, vf acc[])
{
    const int rest = T % GROUP;
    UNROLL
    for (int t = 0; t < T - rest; t += GROUP) {
        add_sub_block(format, GROUP, sub, tables, x + t, acc + t);
    }
    if (rest > 0) {
        add_sub_block(format, rest, sub, tables, x + T - rest, acc + T - rest);
    }
}

/* Weights come from memory, and hardware alone does not fetch them early enough. A small tile
 * waits for memory anyway and does best with lines brought all the way in; a large one uses
 * them slowly and does best with many on their way to the second cache, because the first can
 * wait for a few dozen only. Distances and the border (bytes of weights per token) are
 * measured. */
INLINE void prefetch_ahead(const uint8_t *at, int bytes, int T)
{
    enum { NEAR = 8 << 10, FAR = 16 << 10, BORDER = 165 };
    UNROLL
    for (int line = 0; line < (bytes + 63) / 64; line++) {
        if (bytes > BORDER * T) {
            __builtin_prefetch(at + NEAR + 64 * line, 0, 3);
        } else {
            __builtin_prefetch(at + FAR + 64 * line, 0, 2);
        }
    }
}

/* The rests of outliers: each meets the sub-block that it came from, usually one for all
 * tokens. The same arithmetic without the table, whose steps are exact. */
INLINE void add_rests(enum cop_format format, int T, const uint8_t *panel, int strip,
                      const struct record *rests, vf sums[])
{
    for (int t = 0; t < T;) {
        const int32_t block = rests[t].place;
        if (block < 0) {
            t++;
            continue;
        }
        const int subs = subs_of(format), bytes = sub_bytes_of(format);
        const uint8_t *head =
            panel + (ptrdiff_t)(block / subs) * (head_bytes_of(format) + subs * bytes);
        const uint8_t *at = head + head_bytes_of(format) + block % subs * bytes;
        struct sub_block sub = {.scales = unpack_scales(format, head, block % subs, at, strip)};
        unpack_codes(format, at, strip, sub.codes);
        for (; t < T && rests[t].place == block; t++) {
            add_sub_block(format, 1, &sub, NULL, &rests[t], &sums[t]);
        }
    }
}

INLINE void write_sums(int T, int strip, const vf sums[], const struct cop_rows_out *to)
{
    float *out = to->out + strip * LANES;
    for (int t = 0; t < T; t++, out += to->stride) {
        vf sum = to->bias ? sums[t] + vf_load(to->bias + strip * LANES) : sums[t];
        vf_store(out, to->accumulate ? sum + vf_load(out) : sum);
    }
}

/* All 16 rows for T tokens; n_subs is a multiple of the format's subs. */
INLINE void int8_tile(enum cop_format format, int T, const uint8_t *panel, int32_t n_subs,
                      const void *tile, const struct cop_rows_out *to)
{
    for (int strip = 0; strip < STRIPS; strip++) {
        vf acc[COP_TILE_MAX], sums[COP_TILE_MAX]; /* registers; memory, for what follows */
        UNROLL
        for (int t = 0; t < T; t++) {
            acc[t] = (vf){0.0f};
        }
        const uint8_t *at = panel;
        const struct record *x = tile;
        for (int32_t block = 0; block < n_subs; block += subs_of(format)) {
            const uint8_t *head = at;
            if (strip == 0) {
                prefetch_ahead(head, head_bytes_of(format), T);
            }
            at += head_bytes_of(format);
            for (int i = 0; i < subs_of(format); i++) {
                struct sub_block sub;
                struct scale_tables tables;
                if (strip == 0) {
                    prefetch_ahead(at, sub_bytes_of(format), T);
                }
                sub.scales = unpack_scales(format, head, i, at, strip);
                unpack_codes(format, at, strip, sub.codes);
                if (has_table(format, T)) {
                    fill_table(&tables.low, sub.scales.scale);
                    if (has_half_scales(format)) {
                        fill_table(&tables.high, sub.scales.scale_high);
                    }
                }
                add_tile(format, T, &sub, has_table(format, T) ? &tables : NULL, x, acc);
                at += sub_bytes_of(format);
                x += T;
            }
        }
        UNROLL
        for (int t = 0; t < T; t++) {
            sums[t] = acc[t];
        }
        add_rests(format, T, panel, strip, x, sums);
        write_sums(T, strip, sums, to);
    }
}

#define INT8_TILE(name, format, T)                                                             \
    static void int8_##name##_##T(const uint8_t *panel, int32_t n_subs, const void *tile,      \
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
