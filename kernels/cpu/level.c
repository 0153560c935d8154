/* One instruction-set level of the CPU kernels: compiled once per level, with
 * -DCOP_LEVEL=<level>. The kernels stand in the headers; this file makes the table of them. */
#include "kernels/cpu/level.h"

#include <math.h>

#include "kernels/cpu/attention/attention_tile.h"
#include "kernels/cpu/geglu.h"
#include "kernels/cpu/peak.h"
#include "kernels/cpu/product/activations.h"
#include "kernels/cpu/product/product_f32.h"
#include "kernels/cpu/product/product_int8.h"
#include "kernels/cpu/product/table.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/training.h"
#include "kernels/cpu/vocabulary.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)

#if defined(__AVX512VNNI__)
#define LEVEL_NAME "avx512-vnni"
#elif LANES == 16
#define LEVEL_NAME "avx512"
#elif LANES == 8
#define LEVEL_NAME "avx2"
#else
#define LEVEL_NAME "plain"
#endif

static cop_f32_tile *const f32_tiles[COP_TILE_MAX] = {FOR_EACH_TILE(F32_TILE_NAME, , )};
static cop_f32_tile *const table_tiles[] = {FOR_EACH_TABLE_TILE(TABLE_TILE_NAME, , )};

extern const struct cop_level PASTE(cop_level_, COP_LEVEL);
const struct cop_level PASTE(cop_level_, COP_LEVEL) = {
    .name = LEVEL_NAME,
    .int8_tile_tokens = INT8_TILE_TOKENS,
    .tile_tokens = TILE_TOKENS,
    .table_tokens = TABLE_TOKENS,
    .exp_block = exp_block,
    .exp_row = exp_row,
    .residual_block = residual_block,
    .gated_block = gated_block,
    .ratio_below = ratio_below,
    .ratio_buckets = ratio_buckets,
    .energy_block = energy_block,
    .surprise_block = surprise_block,
    .mixture_block = mixture_block,
    .contrast_row = contrast_row,
    .mixture_near = mixture_near,
    .widen_row = widen,
    .sum_block = sum_block,
    .maxima = maxima,
    .largest = largest,
    .count_above = count_above,
    .argmax = argmax,
    .argmax_groups = argmax_groups,
    .quantize = quantize,
    .interleave = interleave,
    .int8_tiles =
        {
            [COP_FORMAT_Q8_0] = int8_q8_0,
            [COP_FORMAT_Q4_0] = int8_q4_0,
            [COP_FORMAT_Q4_1] = int8_q4_1,
            [COP_FORMAT_Q5_0] = int8_q5_0,
            [COP_FORMAT_Q5_1] = int8_q5_1,
            [COP_FORMAT_Q4_K] = int8_q4_k,
            [COP_FORMAT_Q5_K] = int8_q5_k,
            [COP_FORMAT_Q6_K] = int8_q6_k,
        },
    .f32_tiles = f32_tiles,
    .table_tiles = table_tiles,
    .widen =
        {
            [COP_FORMAT_F16] = widen_panel_f16,
            [COP_FORMAT_BF16] = widen_panel_bf16,
            [COP_FORMAT_Q8_0] = widen_panel_q8_0,
            [COP_FORMAT_Q4_0] = widen_panel_q4_0,
            [COP_FORMAT_Q4_1] = widen_panel_q4_1,
            [COP_FORMAT_Q5_0] = widen_panel_q5_0,
            [COP_FORMAT_Q5_1] = widen_panel_q5_1,
            [COP_FORMAT_Q4_K] = widen_panel_q4_k,
            [COP_FORMAT_Q5_K] = widen_panel_q5_k,
            [COP_FORMAT_Q6_K] = widen_panel_q6_k,
        },
    .score_tiles = {score_f16, score_f32},
    .value_tiles = {value_f16, value_f32},
    .softmax = softmax,
    .add_values = add_values,
    .rms_norm = rms_norm,
    .swiglu = swiglu,
    .geglu = geglu,
    .sum_of_squares = sum_of_squares,
    .swiglu_back = swiglu_back,
    .adamw = adamw,
    .rotate = rotate,
    .store_key = store_key,
    .store_value = store_value,
    .int8_peak = int8_peak,
    .read = read_bytes,
};
