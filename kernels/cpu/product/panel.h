/* How weights lie in memory: panels of 16 rows, interleaved so that one SIMD lane is one row.
 *
 * A panel holds 16 rows of a part (missing ones are zero), block after block along cols. A
 * block is `subs` sub-blocks of 32 columns behind a common head. Sizes add up to those of the
 * file, but for the K-quants' scales, which take whole bytes (1 to 3 %), and for columns of
 * unquantised formats, which are padded with zeros to a multiple of 32.
 *
 *   format        head           sub-block of 32 columns
 *   F32 F16 BF16                 [32][16] values
 *   Q4_0                         d[16], nibbles
 *   Q4_1                         d[16], m[16], nibbles
 *   Q5_0                         d[16], fifth, nibbles
 *   Q5_1                         d[16], m[16], fifth, nibbles
 *   Q8_0                         d[16], [8][16] quads of signed bytes
 *   Q4_K          d[16], m[16], [8] of scale[16], min[16]        nibbles
 *   Q5_K          d[16], m[16], [8] of scale[16], min[16]        fifth, nibbles
 *   Q6_K          d[16], 0[16], [8] of scale[2][16]              sixes
 *
 * d and m are f16, the scales and mins of a head bytes (Q6_K: signed). A quad is four
 * consecutive columns of one row, one byte each.
 *
 *   nibbles  [4][16] words; byte b of word (i, row) holds column 4 i + b low and 16 + 4 i + b
 *            high, so that word i unpacks to the quads i and i + 4
 *   fifth    [16] words; bit 8 b + j is bit 4 of the code in column 4 j + b
 *   sixes    [6][16] words; byte b of word (i, row) holds column 4 i + b in its low six bits
 * and above them bits 2 (i % 3) and 2 (i % 3) + 1 of column 24 + 4 (i / 3) + b: word i unpacks
 * to quad i, three words together to quad 6 or 7 */
#ifndef COP_CPU_PANEL_H
#define COP_CPU_PANEL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/ops.h"

#define COP_PANEL_ROWS 16
#define COP_PANEL_COLS 32 /* of a sub-block */

struct cop_panel_format {
    int32_t subs; /* sub-blocks in a block */
    int32_t head_bytes, sub_bytes;
};

const struct cop_panel_format *cop_panel_format(enum cop_format format);

/* Sub-blocks along cols, and bytes of one panel. */
int32_t cop_panel_subs(int32_t cols);
size_t cop_panel_bytes(enum cop_format format, int32_t cols);

/* Writes the panel of 16 rows as they lie in the file. */
void cop_panel_pack(enum cop_format format, const uint8_t *const rows[COP_PANEL_ROWS],
                    int32_t cols, uint8_t *panel);

#endif
