/* How many tokens (or queries) a tile keeps in registers at this level, and the list of tile
 * sizes for which a kernel is compiled (private to level.c).
 *
 * A kernel is one inline function with the tile size as a constant argument; FOR_EACH_TILE(M,
 * a, b) makes M(a, b, 1) M(a, b, 2) … of it. An int8 tile also holds the eight quads of a
 * sub-block, so that levels with 16 registers take smaller ones; a tile of table.h holds two
 * vectors of rows for each token. */
#ifndef COP_CPU_TILES_H
#define COP_CPU_TILES_H

#include "kernels/cpu/vec.h"

#define TILES_TO_4(M, a, b)  M(a, b, 1) M(a, b, 2) M(a, b, 3) M(a, b, 4)
#define TILES_TO_6(M, a, b)  TILES_TO_4(M, a, b) M(a, b, 5) M(a, b, 6)
#define TILES_TO_8(M, a, b)  TILES_TO_6(M, a, b) M(a, b, 7) M(a, b, 8)
#define TILES_TO_12(M, a, b) TILES_TO_8(M, a, b) M(a, b, 9) M(a, b, 10) M(a, b, 11) M(a, b, 12)
#define TILES_TO_16(M, a, b)                                                                   \
    TILES_TO_12(M, a, b) M(a, b, 13) M(a, b, 14) M(a, b, 15) M(a, b, 16)

#if LANES == 16
#define INT8_TILE_TOKENS    16
#define FOR_EACH_INT8_TILE  TILES_TO_16
#define TILE_TOKENS         16
#define FOR_EACH_TILE       TILES_TO_16
#define TABLE_TOKENS        12
#define FOR_EACH_TABLE_TILE TILES_TO_12
#elif LANES == 8
#define INT8_TILE_TOKENS    4
#define FOR_EACH_INT8_TILE  TILES_TO_4
#define TILE_TOKENS         12
#define FOR_EACH_TILE       TILES_TO_12
#define TABLE_TOKENS        6
#define FOR_EACH_TABLE_TILE TILES_TO_6
#else
#define INT8_TILE_TOKENS    4
#define FOR_EACH_INT8_TILE  TILES_TO_4
#define TILE_TOKENS         8
#define FOR_EACH_TILE       TILES_TO_8
#define TABLE_TOKENS        6
#define FOR_EACH_TABLE_TILE TILES_TO_6
#endif

#endif
