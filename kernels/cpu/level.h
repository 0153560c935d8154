/* What is compiled once per instruction-set level: one constant table of functions each.
 *
 * kernels/cpu/level.c is the only source behind it; the Makefile compiles it for every level
 * with that level's compiler flags. Everything else in kernels/ is portable C and calls through
 * the table. */
#ifndef COP_CPU_LEVEL_H
#define COP_CPU_LEVEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/ops.h"

#define COP_TILE_MAX     16 /* tokens or queries that a tile may have at any level */
#define COP_RECORD_BYTES 64 /* a block of 32 int8 activations: product_int8.h */
#define COP_STRETCH_SUBS 8  /* sub-blocks widened at a time by an f32 product */
#define COP_BLOCK_ROWS   32 /* of a table's block: table.h */

/* Where a tile's results go: token t, row r to out[t * stride + r], after bias[r] (if not NULL)
 * and, if `accumulate`, what is there already. */
struct cop_rows_out {
    float *out;
    ptrdiff_t stride;
    const float *bias; /* [16] */
    bool accumulate;
};

/* Layouts of panels: panel.h; of tiles and arithmetic: product_int8.h, product_f32.h. */
typedef void cop_int8_tile(const uint8_t *panel, int32_t n_subs, const void *tile,
                           const struct cop_rows_out *to);
typedef void cop_f32_tile(const float *weights, int32_t n_subs, const float *tile,
                          float *totals);
typedef void cop_widen_panel(const uint8_t *panel, int32_t first, int32_t count, float *out);

/* Layouts of keys, values, queries and scores: attention_tile.h. */
typedef void cop_score_tile(const uint8_t *const *blocks, int32_t n_blocks, size_t offset,
                            const float *queries, int32_t head_dim, float scale, float *scores);
typedef void cop_value_tile(const uint8_t *const *blocks, int32_t n_blocks, size_t offset,
                            const float *weights, float *sums);

struct cop_level {
    const char *name;         /* as scripts say it: "avx512-vnni" */
    int32_t int8_tile_tokens; /* largest tile of int8 products */
    int32_t tile_tokens;  /* largest tile of f32 products, and queries of an attention tile */
    int32_t table_tokens; /* largest tile of products of tables */

    /* Primitives of ops.h. */
    void (*exp_block)(const float *logits, int32_t count, double shift, double scale,
                      double *out);
    double (*exp_row)(const float *logits, int32_t count, double shift, double scale,
                      float *out);
    double (*residual_block)(const float *target, double target_scale, const float *draft,
                             double draft_scale, int32_t count, double *out);
    double (*gated_block)(const struct cop_gate *gate, const float *target, const float *draft,
                          const float *by, int32_t count, double *out);
    double (*ratio_below)(const float *target, const float *draft, double p, double q,
                          bool or_equal, int32_t count);
    void (*ratio_buckets)(const float *target, const float *draft, int32_t count,
                          uint16_t *out);
    double (*energy_block)(const float *weights, const float *logits, double shift,
                           int32_t count);
    double (*surprise_block)(const float *weights, double scale, double guard, int32_t count);
    double (*mixture_block)(const float *target, double target_scale, const float *draft,
                            double draft_scale, int32_t count);
    double (*contrast_row)(const float *target, double target_scale, const float *draft,
                           double draft_scale, double shift, int32_t count, float *out);
    double (*mixture_near)(const float *target, double target_scale, const float *draft,
                           double draft_scale, double guard, int32_t count);
    void (*widen_row)(const float *values, int32_t count, double scale, double *out);
    double (*sum_block)(const double *values, int32_t count);
    void (*maxima)(const float *values, int32_t count, float *out);
    float (*largest)(const float *values, int32_t count);
    int32_t (*count_above)(const float *values, int32_t count, float bar);
    int32_t (*argmax)(const float *values, int32_t count);
    int32_t (*argmax_groups)(const float *values, int32_t count, float *groups);

    /* One row of activations into place `token` of a tile of `tokens`: all its records. */
    void (*quantize)(const float *x, int32_t n_subs, int32_t tokens, int32_t token, void *tile);
    /* `tokens` rows of activations that lie `stride` apart into a tile of floats. */
    void (*interleave)(const float *x, int32_t stride, int32_t tokens, int32_t cols,
                       float *tile);

    /* By format, then by tokens - 1. NULL: no int8 product; F32 panels need no widening. */
    cop_int8_tile *const *int8_tiles[COP_FORMAT_COUNT];
    cop_f32_tile *const *f32_tiles;
    cop_f32_tile *const *table_tiles; /* blocks of 32 rows in place of panels */
    cop_widen_panel *widen[COP_FORMAT_COUNT];

    /* By is_f32, then by queries - 1. */
    cop_score_tile *const *score_tiles[2];
    cop_value_tile *const *value_tiles[2];
    /* Scores of positions [start, end) into weights e^(score - largest), 0 outside of them, and
     * returns 1 / their sum. row[0] belongs to position `origin`, a multiple of 16; groups of
     * 16 positions lie `stride` floats apart. */
    float (*softmax)(float *row, int32_t stride, int32_t origin, int32_t start, int32_t end);
    /* sums[g][16] += over i in order: weights[g][at[i]] * the 16 values `offset` bytes behind
     * rows[i], for n_queries rows of weights, each 16 floats after the one before. */
    void (*add_values)(bool is_f32, const void *const *rows, const int32_t *at, int32_t n_rows,
                       size_t offset, int32_t n_queries, const float *weights, float *sums);

    /* One row each. */
    void (*rms_norm)(const float *x, const float *gain, float epsilon, int32_t width,
                     float *out);
    void (*swiglu)(const float *gate, const float *up, int32_t width, float *out);
    void (*geglu)(const float *gate, const float *up, int32_t width, float *out);
    double (*sum_of_squares)(const float *x, int32_t width);
    void (*swiglu_back)(const float *gate, const float *up, const float *d_out, int32_t count,
                        float *d_gate, float *d_up);
    void (*adamw)(const struct cop_adamw_rates *rates, const float *gradient, int32_t count,
                  float *value, float *first, float *second);
    /* Rotates n_heads heads in place by the angles of one position. */
    void (*rotate)(float *heads, int32_t n_heads, int32_t head_dim, const struct cop_rope *rope,
                   int32_t position);
    /* Writes a head's key and value into place `offset` of a page's blocks. */
    void (*store_key)(bool is_f32, const float *key, int32_t head_dim, int32_t offset,
                      void *block);
    void (*store_value)(bool is_f32, const float *value, int32_t head_dim, int32_t offset,
                        void *block);

    /* n rounds of int8 dot products from registers; returns multiply-adds done. */
    int64_t (*int8_peak)(int64_t n, int32_t *sink);
    /* Reads every byte of [from, from + bytes), bytes a multiple of 1024. */
    uint64_t (*read)(const void *from, size_t bytes);
};

/* The best level that this machine runs. */
const struct cop_level *cop_level_best(void);

/* The level of that name; NULL when this machine or this build lacks it. */
const struct cop_level *cop_level_find(const char *name);

/* The levels that this machine runs, from "plain" upwards; NULL past the end. */
const struct cop_level *cop_level_at(int32_t index);

#endif
