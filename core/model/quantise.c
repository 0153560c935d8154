/* Numbers to Q8_0, a row at a time. */
#include "core/model/quantise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32, LARGEST_CODE = 127, STEP_BYTES = 2 };

/* As f16 bits. 127 times a step is exact in f32. */
static uint16_t step_of(const float *numbers)
{
    float largest = 0;
    for (int i = 0; i < BLOCK; i++) {
        float magnitude = fabsf(numbers[i]);
        largest = magnitude > largest ? magnitude : largest;
    }
    uint16_t step = cop_f32_to_f16(largest / LARGEST_CODE);
    return cop_f16_to_f32(step) * LARGEST_CODE < largest ? (uint16_t)(step + 1) : step;
}

/* False: the step is too large. */
static bool write_block(const float *numbers, uint8_t *block)
{
    uint16_t bits = step_of(numbers);
    float step = cop_f16_to_f32(bits), inverse = step > 0 ? 1 / step : 0;
    int8_t codes[BLOCK];
    for (int i = 0; i < BLOCK; i++) {
        /* Adding 1.5 * 2^23 rounds to an integer under the default rounding mode. */
        codes[i] = (int8_t)((numbers[i] * inverse + 0x1.8p23f) - 0x1.8p23f);
    }
    memcpy(block, &bits, STEP_BYTES);
    memcpy(block + STEP_BYTES, codes, BLOCK);
    return isfinite(step);
}

static bool write_rows(const struct cop_matrix *matrix, float *row, uint8_t *to)
{
    const struct cop_format_info *from = cop_format_info(matrix->format);
    const uint8_t *data = matrix->data;
    size_t row_bytes = (size_t)matrix->cols * (size_t)from->block_bytes;
    bool has_room = true;
    for (int32_t r = 0; r < matrix->rows && has_room; r++, data += row_bytes) {
        from->widen(data, matrix->cols, row);
        for (int32_t k = 0; k < matrix->cols && has_room; k += BLOCK) {
            has_room = write_block(row + k, to);
            to += STEP_BYTES + BLOCK;
        }
    }
    return has_room;
}

bool cop_quantise(const struct cop_matrix *matrix, struct cop_matrix *out, void **room)
{
    *out = *matrix;
    *room = NULL;
    if (cop_format_info(matrix->format)->is_quantised || matrix->cols % BLOCK != 0) {
        return true;
    }
    size_t blocks = (size_t)matrix->rows * (size_t)(matrix->cols / BLOCK);
    float *row = malloc((size_t)matrix->cols * sizeof *row);
    uint8_t *data = malloc(blocks * (STEP_BYTES + BLOCK));
    bool has_memory = row && data;
    if (has_memory && write_rows(matrix, row, data)) {
        out->format = COP_FORMAT_Q8_0;
        out->data = *room = data;
    } else {
        free(data);
    }
    free(row);
    return has_memory;
}
