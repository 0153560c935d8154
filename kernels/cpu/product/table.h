/* The f32 product of a stretch of a block of 32 rows with a tile of tokens, where both change
 * with every use (multiply.c; private to level.c).
 *
 * A block is [k][32] floats, a tile of T tokens [k][T]. Two vectors of rows meet each token, so
 * that what is read of it serves two multiply-adds: one vector would keep the units that load
 * as busy as those that multiply. The arithmetic of one (row, token) is that of product_f32.h.
 */
#ifndef COP_CPU_PRODUCT_TABLE_H
#define COP_CPU_PRODUCT_TABLE_H

#include "kernels/cpu/level.h"
#include "kernels/cpu/product/panel.h"
#include "kernels/cpu/tiles.h"

/* totals[t * COP_BLOCK_ROWS + row] += the stretch's parts. */
INLINE void table_tile(int T, const float *block, int32_t n_subs, const float *tile,
                       float *totals)
{
    for (int first = 0; first < COP_BLOCK_ROWS; first += 2 * LANES) {
        const float *w = block + first, *x = tile;
        for (int32_t sub = 0; sub < n_subs; sub++) {
            vf low[TABLE_TOKENS], high[TABLE_TOKENS];
            UNROLL
            for (int t = 0; t < T; t++) {
                low[t] = high[t] = (vf){0.0f};
            }
            for (int k = 0; k < COP_PANEL_COLS; k++, w += COP_BLOCK_ROWS, x += T) {
                vf above = vf_load(w), below = vf_load(w + LANES);
                UNROLL
                for (int t = 0; t < T; t++) {
                    vf at = vf_all(x[t]);
                    low[t] = vf_fma(above, at, low[t]);
                    high[t] = vf_fma(below, at, high[t]);
                }
            }
            UNROLL
            for (int t = 0; t < T; t++) {
                float *total = totals + t * COP_BLOCK_ROWS + first;
                vf_store(total, vf_load(total) + low[t]);
                vf_store(total + LANES, vf_load(total + LANES) + high[t]);
            }
            __asm__ volatile(
                "" ::
                    : "memory"); /* totals stay where they are between sub-blocks */
        }
    }
}

#define TABLE_TILE(a, b, T)                                                                    \
    static void table_tile_##T(const float *block, int32_t n_subs, const float *tile,          \
                               float *totals)                                                  \
    {                                                                                          \
        table_tile(T, block, n_subs, tile, totals);                                            \
    }
#define TABLE_TILE_NAME(a, b, T) [T - 1] = table_tile_##T,

FOR_EACH_TABLE_TILE(TABLE_TILE, , )

#endif
