/* The three stages of attention for a tile of queries that share keys (private to level.c).
 *
 * Keys of a page, one layer and one head: [head_dim][16], so that a lane is a key. Values:
 * slices of 16 dimensions, each [16 slots][16], so that a lane is a dimension. Elements are f16
 * or f32. Queries of a tile of T: [head_dim][T]. Scores, later weights: [block][T][16].
 *
 * The arithmetic of one query, whatever the tile and wherever its slots lie:
 *   score    = (chain over d in order: acc = fma(key[d], query[d], acc)) * scale
 *   weight   = cop_expf(score - largest score)
 *   sum      = each lane (position % 16) over blocks in order, then lanes folded by halves
 *   out[d]   = (chain over positions in order: acc = fma(value[d], weight, acc)) * (1 / sum) */
#ifndef COP_CPU_ATTENTION_TILE_H
#define COP_CPU_ATTENTION_TILE_H

#include <math.h>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/tiles.h"

#define PREFETCH_BLOCKS 2 /* how many blocks ahead keys and values are fetched */

INLINE vf load_element(bool is_f32, const void *base, ptrdiff_t index)
{
    return is_f32 ? vf_load((const float *)base + index)
                  : vf_from_f16((const uint16_t *)base + index);
}

/* Fetches row `row` of a block of rows of 16 elements; every other call for f16 would fetch the
 * same line, and does nothing. */
INLINE void prefetch_row(bool is_f32, const uint8_t *block, int32_t row)
{
    if (is_f32 || row % 2 == 0) {
        __builtin_prefetch(block + (ptrdiff_t)row * PANEL * (is_f32 ? 4 : 2));
    }
}

INLINE void score_tile(bool is_f32, int T, const uint8_t *const *blocks, int32_t n_blocks,
                       size_t offset, const float *queries, int32_t head_dim, float scale,
                       float *scores)
{
    for (int32_t block = 0; block < n_blocks; block++) {
        int32_t ahead = block + PREFETCH_BLOCKS < n_blocks ? block + PREFETCH_BLOCKS : block;
        const uint8_t *keys = blocks[block] + offset, *next = blocks[ahead] + offset;
        for (int strip = 0; strip < STRIPS; strip++) {
            vf acc[COP_TILE_MAX];
            UNROLL
            for (int t = 0; t < T; t++) {
                acc[t] = (vf){0.0f};
            }
            const float *query = queries;
            for (int32_t d = 0; d < head_dim; d++, query += T) {
                vf key = load_element(is_f32, keys, (ptrdiff_t)d * PANEL + strip * LANES);
                prefetch_row(is_f32, next, d);
                UNROLL
                for (int t = 0; t < T; t++) {
                    acc[t] = vf_fma(key, vf_all(query[t]), acc[t]);
                }
            }
            UNROLL
            for (int t = 0; t < T; t++) {
                vf_store(scores + t * PANEL + strip * LANES, acc[t] * scale);
            }
        }
        scores += T * PANEL;
    }
}

INLINE void value_tile(bool is_f32, int T, const uint8_t *const *blocks, int32_t n_blocks,
                       size_t offset, const float *weights, float *sums)
{
    for (int strip = 0; strip < STRIPS; strip++) {
        vf acc[COP_TILE_MAX];
        UNROLL
        for (int t = 0; t < T; t++) {
            acc[t] = vf_load(sums + t * PANEL + strip * LANES);
        }
        const float *weight = weights;
        for (int32_t block = 0; block < n_blocks; block++, weight += T * PANEL) {
            int32_t ahead =
                block + 2 * PREFETCH_BLOCKS < n_blocks ? block + 2 * PREFETCH_BLOCKS : block;
            const uint8_t *values = blocks[block] + offset, *next = blocks[ahead] + offset;
            for (int key = 0; key < COP_PAGE_SLOTS; key++) {
                vf value = load_element(is_f32, values, key * PANEL + strip * LANES);
                prefetch_row(is_f32, next, key);
                UNROLL
                for (int t = 0; t < T; t++) {
                    acc[t] = vf_fma(value, vf_all(weight[t * PANEL + key]), acc[t]);
                }
            }
        }
        UNROLL
        for (int t = 0; t < T; t++) {
            vf_store(sums + t * PANEL + strip * LANES, acc[t]);
        }
    }
}

/* add_values for G queries, G constant. */
INLINE void add_rows(bool is_f32, int G, const void *const *rows, const int32_t *at,
                     int32_t n_rows, size_t offset, const float *weights, float *sums)
{
    for (int strip = 0; strip < STRIPS; strip++) {
        vf acc[4];
        UNROLL
        for (int g = 0; g < G; g++) {
            acc[g] = vf_load(sums + g * PANEL + strip * LANES);
        }
        for (int32_t i = 0; i < n_rows; i++) {
            vf value = load_element(is_f32, (const uint8_t *)rows[i] + offset, strip * LANES);
            UNROLL
            for (int g = 0; g < G; g++) {
                acc[g] = vf_fma(value, vf_all(weights[at[i] + g * PANEL]), acc[g]);
            }
        }
        UNROLL
        for (int g = 0; g < G; g++) {
            vf_store(sums + g * PANEL + strip * LANES, acc[g]);
        }
    }
}

INLINE void add_rows_by_four(bool is_f32, const void *const *rows, const int32_t *at,
                             int32_t n_rows, size_t offset, int32_t n_queries,
                             const float *weights, float *sums)
{
    for (int32_t g = 0; g < n_queries; g += 4, weights += 4 * PANEL, sums += 4 * PANEL) {
        switch (n_queries - g) {
        case 1: add_rows(is_f32, 1, rows, at, n_rows, offset, weights, sums); break;
        case 2: add_rows(is_f32, 2, rows, at, n_rows, offset, weights, sums); break;
        case 3: add_rows(is_f32, 3, rows, at, n_rows, offset, weights, sums); break;
        default: add_rows(is_f32, 4, rows, at, n_rows, offset, weights, sums); break;
        }
    }
}

static void add_values(bool is_f32, const void *const *rows, const int32_t *at, int32_t n_rows,
                       size_t offset, int32_t n_queries, const float *weights, float *sums)
{
    if (is_f32) {
        add_rows_by_four(true, rows, at, n_rows, offset, n_queries, weights, sums);
    } else {
        add_rows_by_four(false, rows, at, n_rows, offset, n_queries, weights, sums);
    }
}

/* Sum of 16 lanes, folded by halves. */
INLINE float fold_lanes(const float *lanes)
{
    float eight[8];
    for (int i = 0; i < 8; i++) {
        eight[i] = lanes[i] + lanes[i + 8];
    }
    return ((eight[0] + eight[4]) + (eight[2] + eight[6])) +
           ((eight[1] + eight[5]) + (eight[3] + eight[7]));
}

static float softmax(float *row, int32_t stride, int32_t origin, int32_t start, int32_t end)
{
    float *first = row + (ptrdiff_t)(start / PANEL - origin / PANEL) * stride;
    int32_t n_blocks = (end - 1) / PANEL - start / PANEL + 1;
    for (int32_t lane = 0; lane < start % PANEL; lane++) {
        first[lane] = -INFINITY;
    }
    float *last = first + (ptrdiff_t)(n_blocks - 1) * stride;
    for (int32_t lane = (end - 1) % PANEL + 1; lane < PANEL; lane++) {
        last[lane] = -INFINITY;
    }
    vf most = vf_all(-INFINITY);
    for (int32_t b = 0; b < n_blocks; b++) {
        for (int strip = 0; strip < STRIPS; strip++) {
            vf v = vf_load(first + (ptrdiff_t)b * stride + strip * LANES);
            most = vf_max(v, most);
        }
    }
    float largest = -INFINITY;
    for (int lane = 0; lane < LANES; lane++) {
        largest = most[lane] > largest ? most[lane] : largest;
    }
    float lanes[PANEL];
    for (int strip = 0; strip < STRIPS; strip++) {
        vf sum = {0.0f};
        for (int32_t b = 0; b < n_blocks; b++) {
            float *at = first + (ptrdiff_t)b * stride + strip * LANES;
            vf weight = cop_lanes_expf_low(vf_load(at) - largest);
            vf_store(at, weight);
            sum += weight;
        }
        vf_store(lanes + strip * LANES, sum);
    }
    return 1.0f / fold_lanes(lanes);
}

#define ATTENTION_TILE(kind, is_f32, T)                                                        \
    static void score_##kind##_##T(const uint8_t *const *blocks, int32_t n_blocks,             \
                                   size_t offset, const float *queries, int32_t head_dim,      \
                                   float scale, float *scores)                                 \
    {                                                                                          \
        score_tile(is_f32, T, blocks, n_blocks, offset, queries, head_dim, scale, scores);     \
    }                                                                                          \
    static void value_##kind##_##T(const uint8_t *const *blocks, int32_t n_blocks,             \
                                   size_t offset, const float *weights, float *sums)           \
    {                                                                                          \
        value_tile(is_f32, T, blocks, n_blocks, offset, weights, sums);                        \
    }
#define SCORE_TILE_NAME(kind, b, T) [T - 1] = score_##kind##_##T,
#define VALUE_TILE_NAME(kind, b, T) [T - 1] = value_##kind##_##T,

FOR_EACH_TILE(ATTENTION_TILE, f16, false)
FOR_EACH_TILE(ATTENTION_TILE, f32, true)

static cop_score_tile *const score_f16[COP_TILE_MAX] = {FOR_EACH_TILE(SCORE_TILE_NAME, f16, )};
static cop_score_tile *const score_f32[COP_TILE_MAX] = {FOR_EACH_TILE(SCORE_TILE_NAME, f32, )};
static cop_value_tile *const value_f16[COP_TILE_MAX] = {FOR_EACH_TILE(VALUE_TILE_NAME, f16, )};
static cop_value_tile *const value_f32[COP_TILE_MAX] = {FOR_EACH_TILE(VALUE_TILE_NAME, f32, )};

#endif
