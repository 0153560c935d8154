/* Products of every format: whatever else is in the call, whoever computes it, stacked or not,
 * the bits are the same. */
#include "tests/kernels/invariance.h"

/* Random blocks of a format; only finite scales. */
static uint8_t *random_blocks(enum cop_format format, size_t n_blocks, uint64_t *state)
{
    const struct cop_format_info *info = cop_format_info(format);
    size_t bytes = (size_t)info->block_bytes;
    uint8_t *data = memory(n_blocks, bytes);
    for (size_t b = 0; b < n_blocks; b++) {
        for (size_t i = 0; i < bytes; i++) {
            data[b * bytes + i] = (uint8_t)(256.0 * test_uniform(state));
        }
        /* The upper bytes of f16 numbers: exponents around 2^-6. */
        if (format == COP_FORMAT_Q6_K) {
            data[b * bytes + 209] = 0x24;
        } else if (info->is_quantised) {
            data[b * bytes + 1] = 0x24;
            data[b * bytes + 3] = format == COP_FORMAT_Q4_0 || format == COP_FORMAT_Q5_0 ||
                                          format == COP_FORMAT_Q8_0
                                      ? data[b * bytes + 3]
                                      : 0xb0;
        } else {
            float value = (float)test_uniform(state) - 0.5f;
            uint16_t half = cop_f32_to_f16(value);
            uint32_t word;
            memcpy(&word, &value, sizeof word);
            word >>= format == COP_FORMAT_BF16 ? 16 : 0;
            memcpy(data + b * bytes, format == COP_FORMAT_F16 ? (void *)&half : (void *)&word,
                   bytes);
        }
    }
    return data;
}

struct shape {
    int32_t rows, cols;
};

/* Products of n tokens for many n, at several offsets into the token list, with 1 to 3 threads,
 * against each token alone on one thread. */
static void check_products(const char *level, enum cop_format format,
                           enum cop_precision precision, struct shape shape)
{
    enum { TOKENS = 110 };
    static const int32_t sizes[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                    12, 13, 14, 15, 16, 17, 31, 32, 33, 49, 100};
    uint64_t state = 5;
    const struct cop_format_info *info = cop_format_info(format);
    size_t n_blocks = (size_t)shape.rows * (size_t)(shape.cols / info->block_elements);
    uint8_t *blocks = random_blocks(format, n_blocks, &state);
    const struct cop_matrix matrix = {format, shape.rows, shape.cols, blocks};
    float *x = random_floats((size_t)TOKENS * (size_t)shape.cols, &state, 1.0f);
    size_t outputs = (size_t)TOKENS * (size_t)shape.rows;
    float *alone = memory(outputs, sizeof *alone), *together = memory(outputs, sizeof *alone);
    for (int32_t threads = 1; threads <= 3; threads++) {
        struct cop_device *device = ops->open(threads, level);
        struct cop_weight *weight = ops->weight_new(device, &matrix, 1, precision);
        cr_assert_not_null(weight);
        for (int32_t t = 0; threads == 1 && t < TOKENS; t++) {
            cr_assert(ops->matmul(device, weight, x + (ptrdiff_t)t * shape.cols, 1, NULL, false,
                                  alone + (ptrdiff_t)t * shape.rows));
        }
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            int32_t n = sizes[i], from = (int32_t)(i * 7) % (TOKENS - n + 1);
            cr_assert(ops->matmul(device, weight, x + (ptrdiff_t)from * shape.cols, n, NULL,
                                  false, together));
            cr_expect_arr_eq(together, alone + (ptrdiff_t)from * shape.rows,
                             (size_t)n * (size_t)shape.rows * sizeof *alone,
                             "%s %s precision %d, %d x %d, n = %d, %d threads", level,
                             info->name, (int)precision, shape.rows, shape.cols, n, threads);
        }
        ops->weight_free(device, weight);
        ops->close(device);
    }
    free(blocks);
    free(x);
    free(alone);
    free(together);
}

Test(invariance, products_do_not_depend_on_batch_or_threads)
{
    const struct cop_level *level;
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        for (int format = 0; format < COP_FORMAT_COUNT; format++) {
            enum cop_format f = (enum cop_format)format;
            check_products(level->name, f, COP_PRECISION_INT8, (struct shape){33, 256});
            check_products(level->name, f, COP_PRECISION_F32, (struct shape){33, 256});
        }
        check_products(level->name, COP_FORMAT_Q4_1, COP_PRECISION_INT8,
                       (struct shape){192, 576});
        check_products(level->name, COP_FORMAT_Q8_0, COP_PRECISION_INT8, (struct shape){1, 32});
        check_products(level->name, COP_FORMAT_F32, COP_PRECISION_F32, (struct shape){20, 36});
    }
}

/* Tables that are multiplied alone, among others, and by 1 to 3 threads. */
Test(invariance, tables_do_not_depend_on_company_or_threads)
{
    enum { ROWS = 37, N = 29, DEPTH = 70, COPIES = 5 };
    uint64_t state = 9;
    float *left = random_floats(ROWS * DEPTH, &state, 1.0f);
    float *right = random_floats(N * DEPTH, &state, 1.0f);
    static float alone[N * ROWS], out[COPIES][N * ROWS];
    const struct cop_level *level;
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        for (int32_t threads = 1; threads <= 3; threads++) {
            struct cop_device *device = ops->open(threads, level->name);
            struct cop_multiplication list[COPIES];
            for (int i = 0; i < COPIES; i++) {
                list[i] = (struct cop_multiplication){.left = {left, 1, ROWS},
                                                      .right = {right, DEPTH, 1},
                                                      .rows = ROWS,
                                                      .n = N,
                                                      .depth = DEPTH,
                                                      .out = out[i],
                                                      .out_stride = ROWS};
            }
            struct cop_multiplication first = list[0];
            first.out = threads == 1 ? alone : out[0];
            cr_assert(ops->multiply(device, &first, 1));
            cr_expect_arr_eq(first.out, alone, sizeof alone, "%s, %d threads", level->name,
                             threads);
            cr_assert(ops->multiply(device, list, COPIES));
            for (int i = 0; i < COPIES; i++) {
                cr_expect_arr_eq(out[i], alone, sizeof alone, "%s, %d threads, copy %d",
                                 level->name, threads, i);
            }
            ops->close(device);
        }
    }
    free(left);
    free(right);
}

/* Integer sums are exact and the rest is the same sequence of fused operations. */
Test(invariance, int8_products_agree_between_levels_that_fuse)
{
    enum { ROWS = 40, COLS = 512, N = 5 };
    const struct cop_level *first = cop_level_at(1), *level;
    if (!first) {
        cr_skip_test("this machine has the plain level only");
    }
    for (int format = COP_FORMAT_Q8_0; format < COP_FORMAT_COUNT; format++) {
        enum cop_format f = (enum cop_format)format;
        uint64_t state = 9;
        uint8_t *blocks =
            random_blocks(f, ROWS * COLS / (size_t)cop_format_info(f)->block_elements, &state);
        const struct cop_matrix matrix = {f, ROWS, COLS, blocks};
        float *x = random_floats(N * COLS, &state, 1.0f);
        float expected[N * ROWS], out[N * ROWS];
        for (int32_t at = 1; (level = cop_level_at(at)); at++) {
            struct cop_device *device = ops->open(1, level->name);
            struct cop_weight *weight = ops->weight_new(device, &matrix, 1, COP_PRECISION_INT8);
            ops->matmul(device, weight, x, N, NULL, false, level == first ? expected : out);
            if (level != first) {
                cr_expect_arr_eq(out, expected, sizeof out, "%s %s", level->name,
                                 cop_format_info(f)->name);
            }
            ops->weight_free(device, weight);
            ops->close(device);
        }
        free(blocks);
        free(x);
    }
}

Test(invariance, stacking_parts_changes_nothing)
{
    enum { COLS = 64, N = 3 };
    static const int32_t rows[3] = {20, 16, 5};
    uint64_t state = 11;
    struct cop_device *device = ops->open(2, NULL);
    struct cop_matrix parts[3];
    uint8_t *data[3];
    for (int i = 0; i < 3; i++) {
        enum cop_format format = i == 1   ? COP_FORMAT_Q8_0
                                 : i == 2 ? COP_FORMAT_F16
                                          : COP_FORMAT_Q4_1;
        size_t blocks =
            (size_t)rows[i] * (size_t)(COLS / cop_format_info(format)->block_elements);
        data[i] = random_blocks(format, blocks, &state);
        parts[i] = (struct cop_matrix){format, rows[i], COLS, data[i]};
    }
    float *x = random_floats(N * COLS, &state, 1.0f), *bias = random_floats(41, &state, 1.0f);
    float stacked[N * 41], alone[N * 41];
    struct cop_weight *weight = ops->weight_new(device, parts, 3, COP_PRECISION_INT8);
    ops->matmul(device, weight, x, N, bias, false, stacked);
    ops->weight_free(device, weight);
    for (int i = 0, first = 0; i < 3; first += rows[i++]) {
        weight = ops->weight_new(device, &parts[i], 1, COP_PRECISION_INT8);
        ops->matmul(device, weight, x, N, bias + first, false, alone);
        for (int t = 0; t < N; t++) {
            cr_expect_arr_eq(stacked + t * 41 + first, alone + t * rows[i],
                             (size_t)rows[i] * sizeof *alone, "part %d of token %d", i, t);
        }
        ops->weight_free(device, weight);
        free(data[i]);
    }
    ops->close(device);
    free(x);
    free(bias);
}

Test(invariance, a_token_that_is_not_finite_spoils_only_itself)
{
    enum { ROWS = 20, COLS = 64, N = 9 };
    uint64_t state = 13;
    uint8_t *blocks = random_blocks(COP_FORMAT_Q4_1, ROWS * COLS / 32, &state);
    const struct cop_matrix matrix = {COP_FORMAT_Q4_1, ROWS, COLS, blocks};
    float *x = random_floats(N * COLS, &state, 1.0f);
    const struct cop_level *level;
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        for (int precision = 0; precision < 2; precision++) {
            struct cop_device *device = ops->open(1, level->name);
            struct cop_weight *weight =
                ops->weight_new(device, &matrix, 1, (enum cop_precision)precision);
            float clean[N * ROWS], out[N * ROWS];
            ops->matmul(device, weight, x, N, NULL, false, clean);
            float kept = x[4 * COLS + 40];
            for (int kind = 0; kind < 2; kind++) {
                x[4 * COLS + 40] = kind ? NAN : INFINITY;
                ops->matmul(device, weight, x, N, NULL, false, out);
                for (int t = 0; t < N; t++) {
                    for (int r = 0; r < ROWS; r++) {
                        float got = out[t * ROWS + r];
                        cr_expect(t == 4 ? !isfinite(got) : got == clean[t * ROWS + r],
                                  "%s: token %d row %d is %g", level->name, t, r, (double)got);
                    }
                }
            }
            x[4 * COLS + 40] = kept;
            ops->weight_free(device, weight);
            ops->close(device);
        }
    }
    free(blocks);
    free(x);
}
