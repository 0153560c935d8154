/* Matrices in Q8_0: steps and codes by hand, how far a number moves, what stays as it is. */
#include "core/model/quantise.h"
#include "tests/support/tiny_model.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32, ROWS = 3, COLS = 96, BLOCK_BYTES = 34 };

static struct cop_matrix f32_of(const float *numbers, int32_t rows, int32_t cols)
{
    return (struct cop_matrix){COP_FORMAT_F32, rows, cols, numbers};
}

/* Largest magnitude 254: step 2. An odd number lies between two codes, and goes to the even
 * one. */
Test(quantise, steps_and_codes_by_hand)
{
    static const float numbers[BLOCK] = {254, -254, 3, 5, -3, 0, 0.9F, 1.1F};
    static const int8_t codes[BLOCK] = {127, -127, 2, 2, -2, 0, 0, 1};
    const struct cop_matrix matrix = f32_of(numbers, 1, BLOCK);
    struct cop_matrix out;
    void *room;
    cr_assert(cop_quantise(&matrix, &out, &room));
    cr_expect(out.format == COP_FORMAT_Q8_0 && out.rows == 1 && out.cols == BLOCK &&
              out.data == room);
    uint16_t step;
    memcpy(&step, room, sizeof step);
    cr_expect_eq(cop_f16_to_f32(step), 2.0F);
    cr_expect_arr_eq((const int8_t *)room + 2, codes, BLOCK);
    free(room);
}

/* The step is the least f16 number that covers the block, and no number moves by more than
 * half of it (2^-16 more for the division); numbers far below the least step become 0. */
static void check_block(const float *numbers, const uint8_t *block, double scale)
{
    float back[BLOCK], largest = 0;
    uint16_t bits;
    memcpy(&bits, block, sizeof bits);
    for (int i = 0; i < BLOCK; i++) {
        largest = fmaxf(largest, fabsf(numbers[i]));
    }
    double step = (double)cop_f16_to_f32(bits);
    cr_expect_geq(127 * step, (double)largest, "scale %g", scale);
    cr_expect(bits == 0 || 127 * (double)cop_f16_to_f32((uint16_t)(bits - 1)) < (double)largest,
              "scale %g: a smaller step would do", scale);
    cop_format_info(COP_FORMAT_Q8_0)->widen(block, BLOCK, back);
    for (int i = 0; i < BLOCK; i++) {
        cr_expect_leq(fabs((double)back[i] - (double)numbers[i]), step * (0.5 + 0x1p-16),
                      "scale %g: %g became %g with steps of %g", scale, (double)numbers[i],
                      (double)back[i], step);
    }
}

Test(quantise, no_number_moves_by_more_than_half_a_step)
{
    static const double scales[] = {0, 1e-44, 1e-9, 1e-6, 0.02, 1, 3e4, 8e6};
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) {
        float numbers[ROWS * COLS];
        for (int32_t i = 0; i < ROWS * COLS; i++) {
            numbers[i] = (float)(scales[s] * (2 * tiny_uniform(s, (uint64_t)i) - 1));
        }
        const struct cop_matrix matrix = f32_of(numbers, ROWS, COLS);
        struct cop_matrix out;
        void *room;
        cr_assert(cop_quantise(&matrix, &out, &room));
        cr_assert_not_null(room, "scale %g", scales[s]);
        for (int32_t b = 0; b < ROWS * COLS / BLOCK; b++) {
            check_block(numbers + b * BLOCK, (const uint8_t *)room + b * BLOCK_BYTES,
                        scales[s]);
        }
        free(room);
    }
}

/* The codes are those of the numbers that a file's halves stand for. */
Test(quantise, halves_are_widened_first)
{
    static const enum cop_format formats[] = {COP_FORMAT_F16, COP_FORMAT_BF16};
    for (int f = 0; f < 2; f++) {
        uint16_t halves[ROWS * COLS];
        float numbers[ROWS * COLS];
        for (int32_t i = 0; i < ROWS * COLS; i++) {
            halves[i] = cop_f32_to_f16((float)(2 * tiny_uniform(9, (uint64_t)i) - 1));
        }
        cop_format_info(formats[f])->widen(halves, ROWS * COLS, numbers);
        const struct cop_matrix half = {formats[f], ROWS, COLS, halves};
        const struct cop_matrix wide = f32_of(numbers, ROWS, COLS);
        struct cop_matrix out;
        void *rooms[2];
        cr_assert(cop_quantise(&half, &out, &rooms[0]) && cop_quantise(&wide, &out, &rooms[1]));
        cr_assert(rooms[0] && rooms[1]);
        cr_expect_arr_eq(rooms[0], rooms[1], ROWS * COLS / BLOCK * BLOCK_BYTES);
        free(rooms[0]);
        free(rooms[1]);
    }
}

/* Block-quantised already; columns that are no whole blocks; a step that f16 lacks. */
Test(quantise, what_has_no_q8_0_stays_as_it_is)
{
    static float numbers[2 * 48] = {[40] = 127.1F * 65504};
    const struct cop_matrix kept[] = {
        {COP_FORMAT_Q8_0, 2, BLOCK, numbers},
        {COP_FORMAT_Q4_K, 1, 256, numbers},
        f32_of(numbers, 2, 48),
        f32_of(numbers, 1, 1),
        f32_of(numbers, 2, BLOCK),
    };
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        struct cop_matrix out;
        void *room;
        cr_assert(cop_quantise(&kept[i], &out, &room));
        cr_expect_null(room, "matrix %zu", i);
        cr_expect(out.format == kept[i].format && out.data == kept[i].data, "matrix %zu", i);
    }
}
