/* Whether the weights of a matrix are numbers, without widening them: a value that is stored as
 * it is shows by its exponent, and a block of quants is finite when its scales are (a product
 * of two halves and a small integer stays far below f32's largest). */
#include "core/base/quote.h"
#include "core/model/state.h"
#include <math.h>
#include <string.h>

/* Where in a block the halves lie that scale it. */
static const struct {
    int32_t offset, count;
} scales[COP_FORMAT_COUNT] = {
    [COP_FORMAT_Q8_0] = {0, 1}, [COP_FORMAT_Q4_0] = {0, 1},   [COP_FORMAT_Q4_1] = {0, 2},
    [COP_FORMAT_Q5_0] = {0, 1}, [COP_FORMAT_Q5_1] = {0, 2},   [COP_FORMAT_Q4_K] = {0, 2},
    [COP_FORMAT_Q5_K] = {0, 2}, [COP_FORMAT_Q6_K] = {208, 1},
};

/* Units of 2 or 4 bytes whose exponent is all ones are infinite or no number. */
static bool has_bad_word(const uint8_t *data, size_t count, uint32_t exponent)
{
    bool is_bad = false;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, data + 4 * i, sizeof bits);
        is_bad |= (bits & exponent) == exponent;
    }
    return is_bad;
}

static bool has_bad_half(const uint8_t *data, size_t count, uint16_t exponent)
{
    bool is_bad = false;
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, data + 2 * i, sizeof bits);
        is_bad |= (bits & exponent) == exponent;
    }
    return is_bad;
}

static bool has_bad_scale(enum cop_format format, const uint8_t *data, size_t n_blocks)
{
    size_t block_bytes = (size_t)cop_format_info(format)->block_bytes;
    bool is_bad = false;
    for (size_t i = 0; i < n_blocks; i++) {
        is_bad |= has_bad_half(data + i * block_bytes + scales[format].offset,
                               (size_t)scales[format].count, 0x7c00);
    }
    return is_bad;
}

static bool has_bad(enum cop_format format, const uint8_t *data, size_t n_blocks)
{
    return format == COP_FORMAT_F32    ? has_bad_word(data, n_blocks, 0x7f800000)
           : format == COP_FORMAT_F16  ? has_bad_half(data, n_blocks, 0x7c00)
           : format == COP_FORMAT_BF16 ? has_bad_half(data, n_blocks, 0x7f80)
                                       : has_bad_scale(format, data, n_blocks);
}

/* The first value of the row that is no number: its place, and the value. */
static int64_t find_bad(const struct cop_format_info *info, const uint8_t *row, int64_t cols,
                        float *value)
{
    float values[256];
    for (int64_t at = 0; at < cols; at += info->block_elements) {
        info->widen(row, info->block_elements, values);
        for (int32_t i = 0; i < info->block_elements; i++) {
            if (!isfinite(values[i])) {
                *value = isnan(values[i]) ? NAN : values[i]; /* without its sign */
                return at + i;
            }
        }
        row += info->block_bytes;
    }
    return -1;
}

enum cop_status cop_model_check_finite(const char *file, const struct cop_tensor *tensor,
                                       struct cop_error *err)
{
    const struct cop_format_info *info = cop_format_info(tensor->format);
    size_t per_row = (size_t)(tensor->dims[0] / info->block_elements);
    size_t row_bytes = per_row * (size_t)info->block_bytes;
    for (int64_t row = 0; row < tensor->dims[1]; row++) {
        const uint8_t *data = (const uint8_t *)tensor->data + (size_t)row * row_bytes;
        float value = 0;
        if (!has_bad(tensor->format, data, per_row)) {
            continue;
        }
        int64_t col = find_bad(info, data, tensor->dims[0], &value);
        if (col >= 0) { /* a bad scale of quants that are all 0 has no value */
            char quoted[COP_QUOTE_SIZE];
            return cop_fail(err, COP_ERR_FORMAT,
                            "%s: tensor \"%s\" has value %g at row %lld, column %lld", file,
                            cop_quote(quoted, tensor->name.bytes, tensor->name.length),
                            (double)value, (long long)row, (long long)col);
        }
    }
    return COP_OK;
}
