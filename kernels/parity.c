/* The cases of parity.h: sizes that straddle 16, 32 and 256, random contents from fixed seeds.
 *
 * Tolerances are bounds, not fits. u = 2^-24 is the rounding unit of f32; a chain of m rounded
 * additions errs by at most m u times the sum of magnitudes; the twin, in double, counts as
 * exact. The unit of `worst` is that sum of magnitudes, so that no case can hide behind large
 * values. */
#include "kernels/parity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"
#include "kernels/quantize.h"

#define UNIT 0x1p-24

struct parity {
    const struct cop_ops *fast, *slow;
    struct cop_device *fast_device, *slow_device;
    cop_parity_report *report;
    void *ctx;
    uint64_t state;
    int n_failures;
    bool is_out_of_memory;
};

/* Uniform in [-1, 1). */
static float random_value(struct parity *parity)
{
    parity->state ^= parity->state << 13;
    parity->state ^= parity->state >> 7;
    parity->state ^= parity->state << 17;
    return (float)(int32_t)(parity->state >> 32) * 0x1p-31f;
}

static void *room(struct parity *parity, size_t count, size_t bytes)
{
    void *data = calloc(count ? count : 1, bytes);
    parity->is_out_of_memory |= !data;
    return data;
}

static float *random_values(struct parity *parity, size_t count, float scale)
{
    float *values = room(parity, count, sizeof *values);
    for (size_t i = 0; values && i < count; i++) {
        values[i] = random_value(parity) * scale;
    }
    return values;
}

static void say(struct parity *parity, const char *op, const char *shape, double worst,
                double tolerance)
{
    parity->n_failures += !(worst <= tolerance);
    if (parity->report) {
        parity->report(parity->ctx, op, shape, worst, tolerance);
    }
}

/* ---- Matrix products
 * -------------------------------------------------------------------------- */

/* Where a block has f16 numbers: a scale, and for some a min. */
static void set_scales(struct parity *parity, enum cop_format format, uint8_t *block)
{
    int scale_at = format == COP_FORMAT_Q6_K ? 208 : 0;
    bool has_min = format == COP_FORMAT_Q4_1 || format == COP_FORMAT_Q5_1;
    bool has_scale_min = format == COP_FORMAT_Q4_K || format == COP_FORMAT_Q5_K;
    float scale = (1.5f + random_value(parity)) * 0x1p-6f;
    uint16_t bits = cop_f32_to_f16(scale);
    memcpy(block + scale_at, &bits, sizeof bits);
    if (has_min || has_scale_min) {
        bits = cop_f32_to_f16(has_min ? -scale * 9.0f : scale * 3.0f);
        memcpy(block + 2, &bits, sizeof bits);
    }
}

/* Random blocks with sane scales; the caller frees data. */
static struct cop_matrix random_matrix(struct parity *parity, enum cop_format format,
                                       int32_t rows, int32_t cols)
{
    const struct cop_format_info *info = cop_format_info(format);
    size_t n_blocks = (size_t)rows * (size_t)(cols / info->block_elements);
    size_t block_bytes = (size_t)info->block_bytes;
    uint8_t *data = room(parity, n_blocks, block_bytes);
    for (size_t b = 0; data && b < n_blocks; b++) {
        uint8_t *block = data + b * block_bytes;
        if (!info->is_quantised) {
            float value = random_value(parity);
            uint16_t half = cop_f32_to_f16(value);
            uint32_t word;
            memcpy(&word, &value, sizeof word);
            word >>= format == COP_FORMAT_BF16 ? 16 : 0;
            memcpy(block, format == COP_FORMAT_F16 ? (const void *)&half : &word, block_bytes);
            continue;
        }
        for (size_t i = 0; i < block_bytes; i++) {
            block[i] = (uint8_t)(int)(random_value(parity) * 128.0f + 128.0f);
        }
        set_scales(parity, format, block);
    }
    return (struct cop_matrix){format, rows, cols, data};
}

/* The sum of magnitudes that the rounding of one output scales with. For an int8 product of a
 * format with offset or min, partial terms exceed the weights they add up to; four times the
 * largest weight of the 32 columns bounds scale * code + |min| for the blocks made above. */
static double magnitude_of(const float *row, const float *x, int32_t cols, bool is_int8)
{
    double sum = 0.0;
    for (int32_t k = 0; k < cols; k += 32) {
        double largest = 0.0, plain = 0.0, inputs = 0.0;
        for (int32_t i = k; i < cols && i < k + 32; i++) {
            largest = fmax(largest, fabs((double)row[i]));
            plain += fabs((double)row[i] * (double)x[i]);
            inputs += fabs((double)x[i]);
        }
        sum += is_int8 ? 4.0 * largest * inputs : plain;
    }
    return sum;
}

struct product_case {
    int32_t rows[2], cols, n; /* one or two stacked parts */
    bool has_bias, accumulate;
};

static double worst_of_product(struct parity *parity, const struct cop_matrix *parts,
                               int n_parts, const struct product_case *c, const float *x,
                               const float *fast, const float *slow, bool is_int8)
{
    double worst = 0.0;
    float *row = room(parity, (size_t)c->cols, sizeof *row);
    int32_t total = c->rows[0] + c->rows[1], at = 0;
    for (int part = 0; row && part < n_parts; part++) {
        const struct cop_format_info *info = cop_format_info(parts[part].format);
        size_t bytes = (size_t)(c->cols / info->block_elements) * (size_t)info->block_bytes;
        for (int32_t r = 0; r < parts[part].rows; r++, at++) {
            info->widen((const uint8_t *)parts[part].data + (size_t)r * bytes, c->cols, row);
            for (int32_t t = 0; t < c->n; t++) {
                size_t i = (size_t)t * (size_t)total + (size_t)at;
                double error = fabs((double)fast[i] - (double)slow[i]);
                double scale = magnitude_of(row, x + (size_t)t * (size_t)c->cols, c->cols,
                                            is_int8 && info->is_quantised);
                /* Bias and residual are of size 1. */
                error /= scale + 2.0;
                worst = isnan(error) ? (double)NAN : fmax(worst, error);
            }
        }
    }
    free(row);
    return worst;
}

static void check_product(struct parity *parity, enum cop_format format,
                          enum cop_precision precision, const struct product_case *c)
{
    bool is_int8 = precision == COP_PRECISION_INT8;
    int n_parts = c->rows[1] > 0 ? 2 : 1;
    int32_t total = c->rows[0] + c->rows[1];
    size_t outputs = (size_t)c->n * (size_t)total;
    /* The second part has another format: stacks of mixed formats are ordinary in K-quant
     * files. */
    struct cop_matrix parts[2] = {
        random_matrix(parity, format, c->rows[0], c->cols),
        random_matrix(parity, n_parts == 2 ? COP_FORMAT_F16 : format, c->rows[1], c->cols)};
    float *x = random_values(parity, (size_t)c->n * (size_t)c->cols, 1.0f);
    float *bias = random_values(parity, (size_t)total, 1.0f);
    float *fast = random_values(parity, outputs, 1.0f),
          *slow = room(parity, outputs, sizeof *slow);
    struct cop_weight *fast_weight =
        parity->fast->weight_new(parity->fast_device, parts, n_parts, precision);
    struct cop_weight *slow_weight =
        parity->slow->weight_new(parity->slow_device, parts, n_parts, precision);
    parity->is_out_of_memory |= !fast_weight || !slow_weight;
    if (!parity->is_out_of_memory) {
        memcpy(slow, fast, outputs * sizeof *slow);
        const float *add = c->has_bias ? bias : NULL;
        parity->fast->matmul(parity->fast_device, fast_weight, x, c->n, add, c->accumulate,
                             fast);
        parity->slow->matmul(parity->slow_device, slow_weight, x, c->n, add, c->accumulate,
                             slow);
        double worst = worst_of_product(parity, parts, n_parts, c, x, fast, slow, is_int8);
        char shape[96];
        snprintf(shape, sizeof shape, "%s %s %d%s x %d, n = %d", cop_format_info(format)->name,
                 is_int8 ? "int8" : "f32", total, n_parts == 2 ? " (two parts)" : "", c->cols,
                 c->n);
        /* f32: a chain of 32 (two roundings a step without fused multiply-add), then one
         * addition a block. int8: at most four roundings a block, and two inside x_sum. Bias,
         * residual, result. */
        double blocks = (c->cols + 31) / 32;
        double tolerance = (is_int8 ? 4.0 * blocks + 5.0 : 64.0 + blocks + 3.0) * UNIT;
        say(parity, "matmul", shape, worst,
            n_parts == 2 ? fmax(tolerance, 80.0 * UNIT) : tolerance);
    }
    parity->fast->weight_free(parity->fast_device, fast_weight);
    parity->slow->weight_free(parity->slow_device, slow_weight);
    for (int part = 0; part < 2; part++) {
        union {
            const void *borrowed;
            void *owned;
        } data = {parts[part].data};
        free(data.owned);
    }
    free(x);
    free(bias);
    free(fast);
    free(slow);
}

static void check_products(struct parity *parity)
{
    static const struct product_case cases[] = {
        {{1, 0}, 256, 1, false, false},   {{15, 0}, 256, 3, true, false},
        {{16, 0}, 512, 16, false, true},  {{17, 0}, 256, 17, true, true},
        {{192, 0}, 768, 8, false, false}, {{48, 33}, 256, 5, true, true},
        {{32, 0}, 1536, 18, false, false}};
    static const struct product_case small[] = {{{24, 0}, 32, 2, false, false},
                                                {{192, 0}, 576, 1, false, true},
                                                {{40, 8}, 64, 12, true, false},
                                                {{16, 0}, 96, 100, false, false}};
    static const struct product_case odd = {{17, 3}, 40, 7, true, false};
    for (int format = 0; format < COP_FORMAT_COUNT; format++) {
        const struct cop_format_info *info = cop_format_info((enum cop_format)format);
        for (int precision = COP_PRECISION_F32; precision <= COP_PRECISION_INT8; precision++) {
            for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
                check_product(parity, (enum cop_format)format, (enum cop_precision)precision,
                              &cases[i]);
            }
            for (size_t i = 0; info->block_elements <= 32 && i < sizeof small / sizeof small[0];
                 i++) {
                check_product(parity, (enum cop_format)format, (enum cop_precision)precision,
                              &small[i]);
            }
            if (info->block_elements == 1) {
                check_product(parity, (enum cop_format)format, (enum cop_precision)precision,
                              &odd);
            }
        }
    }
}

/* ---- Products of tables
 * ------------------------------------------------------------------------ */

struct table_case {
    int32_t rows, n, depth;
    bool left_is_turned, right_is_turned, accumulate;
};

static struct cop_factor factor_of(const float *data, int32_t lines, int32_t depth,
                                   bool is_turned)
{
    return (struct cop_factor){data, is_turned ? 1 : depth, is_turned ? lines : 1};
}

/* Rows of the result lie a little apart: what is between them stays as it is. */
static void check_tables(struct parity *parity, const struct table_case *c)
{
    enum { COPIES = 3, GAP = 5 };
    size_t outputs = (size_t)c->n * (size_t)(c->rows + GAP);
    float *left = random_values(parity, (size_t)c->rows * (size_t)c->depth, 1.0f);
    float *right = random_values(parity, (size_t)c->n * (size_t)c->depth, 1.0f);
    float *fast = random_values(parity, COPIES * outputs, 1.0f);
    float *slow = room(parity, COPIES * outputs, sizeof *slow);
    if (left && right && fast && slow) {
        struct cop_multiplication list[COPIES];
        memcpy(slow, fast, COPIES * outputs * sizeof *slow);
        for (int i = 0; i < COPIES; i++) {
            list[i] = (struct cop_multiplication){
                .left = factor_of(left, c->rows, c->depth, c->left_is_turned),
                .right = factor_of(right, c->n, c->depth, c->right_is_turned),
                .rows = c->rows,
                .n = c->n,
                .depth = c->depth,
                .accumulate = c->accumulate,
                .out = fast + (size_t)i * outputs,
                .out_stride = c->rows + GAP};
        }
        bool is_done = parity->fast->multiply(parity->fast_device, list, 1) &&
                       parity->fast->multiply(parity->fast_device, list + 1, COPIES - 1);
        for (int i = 0; i < COPIES; i++) {
            list[i].out = slow + (size_t)i * outputs;
        }
        is_done &= parity->slow->multiply(parity->slow_device, list, COPIES);
        parity->is_out_of_memory |= !is_done;
        double worst = 0.0;
        for (size_t i = 0; i < COPIES * outputs; i++) {
            double error = fabs((double)fast[i] - (double)slow[i]) / (c->depth + 1);
            worst = isnan(error) ? (double)NAN : fmax(worst, error);
        }
        char shape[64];
        snprintf(shape, sizeof shape, "%d x %d, n = %d%s%s", c->rows, c->depth, c->n,
                 c->left_is_turned ? ", left turned" : "",
                 c->right_is_turned ? ", right turned" : "");
        say(parity, "multiply", shape, worst, (64.0 + (c->depth + 31) / 32 + 3.0) * UNIT);
    }
    free(left);
    free(right);
    free(fast);
    free(slow);
}

static void check_all_tables(struct parity *parity)
{
    static const struct table_case cases[] = {
        {16, 16, 32, false, false, false}, {17, 5, 37, false, false, true},
        {64, 100, 9, true, false, false},  {40, 33, 70, true, true, true},
        {1, 1, 1, false, true, false},     {33, 18, 256, true, false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_tables(parity, &cases[i]);
    }
}

/* ---- Row by row
 * ------------------------------------------------------------------------------- */

static void check_embed(struct parity *parity, enum cop_format format)
{
    enum { COLS = 256, N = 5 };
    static const int32_t tokens[N] = {6, 0, 3, 3, 1};
    struct cop_matrix table = random_matrix(parity, format, 7, COLS);
    static float fast[N * COLS], slow[N * COLS];
    if (table.data) {
        parity->fast->embed(parity->fast_device, &table, tokens, N, fast);
        parity->slow->embed(parity->slow_device, &table, tokens, N, slow);
        say(parity, "embed", cop_format_info(format)->name,
            memcmp(fast, slow, sizeof fast) == 0 ? 0.0 : HUGE_VAL, 0.0);
    }
    union {
        const void *borrowed;
        void *owned;
    } data = {table.data};
    free(data.owned);
}

static double relative_worst(const float *fast, const float *slow, size_t count)
{
    double worst = 0.0;
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)fast[i] - (double)slow[i]);
        error = error == 0.0 ? 0.0 : error / fabs((double)slow[i]);
        worst = isnan(error) ? (double)NAN : fmax(worst, error);
    }
    return worst;
}

/* Three roundings of the result: the factor and two products; its double sum counts as exact.
 */
static void check_norm(struct parity *parity, int32_t n, int32_t width, int32_t stride)
{
    size_t count = (size_t)n * (size_t)stride;
    float *x = random_values(parity, count, 3.0f),
          *gain = random_values(parity, (size_t)width, 1.0f);
    float *fast = room(parity, count, sizeof *fast), *slow = room(parity, count, sizeof *slow);
    if (x && gain && fast && slow) {
        parity->fast->rms_norm(parity->fast_device, x, gain, 1e-5f, n, width, stride, fast);
        parity->slow->rms_norm(parity->slow_device, x, gain, 1e-5f, n, width, stride, slow);
        char shape[64];
        snprintf(shape, sizeof shape, "%d x %d, stride %d", n, width, stride);
        say(parity, "rms_norm", shape, relative_worst(fast, slow, count), 4.0 * UNIT);
    }
    free(x);
    free(gain);
    free(fast);
    free(slow);
}

/* The exponential errs by 2e-7; sum, quotient and product round once each, the result once. */
static void check_swiglu(struct parity *parity, int32_t n, int32_t width)
{
    size_t count = (size_t)n * (size_t)width;
    float *x = random_values(parity, 2 * count, 30.0f);
    float *fast = room(parity, count, sizeof *fast), *slow = room(parity, count, sizeof *slow);
    if (x && fast && slow) {
        parity->fast->swiglu(parity->fast_device, x, n, width, fast);
        parity->slow->swiglu(parity->slow_device, x, n, width, slow);
        char shape[64];
        snprintf(shape, sizeof shape, "%d x %d", n, width);
        say(parity, "swiglu", shape, relative_worst(fast, slow, count), 2e-7 + 4.0 * UNIT);
    }
    free(x);
    free(fast);
    free(slow);
}

/* As swiglu; besides, z carries seven roundings, each of which is an error of e^-z |z| times as
 * large; |z| is at most 26 for these inputs. */
static void check_geglu(struct parity *parity, int32_t n, int32_t width)
{
    size_t count = (size_t)n * (size_t)width;
    float *x = random_values(parity, 2 * count, 6.0f);
    float *fast = room(parity, count, sizeof *fast), *slow = room(parity, count, sizeof *slow);
    if (x && fast && slow) {
        parity->fast->geglu(parity->fast_device, x, n, width, fast);
        parity->slow->geglu(parity->slow_device, x, n, width, slow);
        char shape[64];
        snprintf(shape, sizeof shape, "%d x %d", n, width);
        say(parity, "geglu", shape, relative_worst(fast, slow, count),
            2e-7 + (4 + 7 * 26.0) * UNIT);
    }
    free(x);
    free(fast);
    free(slow);
}

/* ---- Keys, values, attention
 * ------------------------------------------------------------------ */

struct attention_case {
    const char *name;
    struct cop_kv_layout layout;
    int32_t heads, window;
    int32_t n_committed[2]; /* of two sequences */
    int32_t n_nodes[2];
    bool is_tree; /* else each sequence's nodes are a chain */
};

enum { MAX_PAGES = 40 };

struct pools {
    struct cop_kv_pool fast, slow;
    int32_t tables[2][MAX_PAGES]; /* shuffled pages */
    const int32_t *table_pointers[2];
};

static bool make_pools(struct parity *parity, const struct attention_case *c,
                       struct pools *pools)
{
    pools->fast = (struct cop_kv_pool){c->layout, 2 * MAX_PAGES, NULL};
    pools->slow = pools->fast;
    pools->fast.data = room(parity, 2 * MAX_PAGES, parity->fast->kv_page_bytes(&c->layout));
    pools->slow.data = room(parity, 2 * MAX_PAGES, parity->slow->kv_page_bytes(&c->layout));
    for (int32_t i = 0; i < 2 * MAX_PAGES; i++) {
        pools->tables[i % 2][i / 2] = (int32_t)((i * 37 + 11) % (2 * MAX_PAGES));
    }
    pools->table_pointers[0] = pools->tables[0];
    pools->table_pointers[1] = pools->tables[1];
    return pools->fast.data && pools->slow.data;
}

static int32_t pool_slot(const struct pools *pools, int32_t sequence, int32_t slot)
{
    return pools->tables[sequence][slot / COP_PAGE_SLOTS] * COP_PAGE_SLOTS +
           slot % COP_PAGE_SLOTS;
}

/* Stores one random token in both pools without rotating it, and for good measure compares what
 * kv_read gives back. */
static bool store_token(struct parity *parity, const struct attention_case *c,
                        struct pools *pools, int32_t slot)
{
    enum { MAX_WIDTH = 3 * 8 * 64 };
    static const float cosine = 1.0f, sine = 0.0f;
    const struct cop_rope rope = {&cosine, &sine, 0, false};
    const int32_t position = 0;
    float fast[MAX_WIDTH], slow[MAX_WIDTH];
    int32_t width = c->layout.kv_heads * c->layout.head_dim;
    for (int32_t layer = 0; layer < c->layout.layers; layer++) {
        for (int32_t i = 0; i < 2 * width; i++) {
            fast[i] = slow[i] = random_value(parity) * 2.0f;
        }
        parity->fast->rope_store(parity->fast_device, fast, 1, 0, &rope, &position,
                                 &pools->fast, layer, &slot);
        parity->slow->rope_store(parity->slow_device, slow, 1, 0, &rope, &position,
                                 &pools->slow, layer, &slot);
        parity->fast->kv_read(&pools->fast, layer, slot, fast, fast + width);
        parity->slow->kv_read(&pools->slow, layer, slot, slow, slow + width);
        if (memcmp(fast, slow, 2 * (size_t)width * sizeof *fast) != 0) {
            return false;
        }
    }
    return true;
}

enum { MAX_TOKENS = 80, MAX_PATHS = 4096 };

struct tree_tokens {
    struct cop_attention_token tokens[MAX_TOKENS];
    int32_t paths[MAX_PATHS];
    int32_t n;
};

/* Nodes of a sequence sit in the slots above its committed ones; in a tree, node i hangs below
 * (i - 1) / 2, in a chain below i - 1. */
static void make_tokens(const struct attention_case *c, struct tree_tokens *made)
{
    int32_t n_paths = 0;
    made->n = 0;
    for (int32_t sequence = 0; sequence < 2; sequence++) {
        for (int32_t node = 0; node < c->n_nodes[sequence]; node++) {
            int32_t path[MAX_TOKENS], length = 0;
            for (int32_t at = node; at >= 0; at = at == 0      ? -1
                                                  : c->is_tree ? (at - 1) / 2
                                                               : at - 1) {
                path[length++] = at;
            }
            made->tokens[made->n++] = (struct cop_attention_token){
                sequence, c->n_committed[sequence], n_paths, length};
            while (length > 0) {
                made->paths[n_paths++] = c->n_committed[sequence] + path[--length];
            }
        }
    }
}

static void check_attention(struct parity *parity, const struct attention_case *c)
{
    struct pools pools;
    struct tree_tokens *made = room(parity, 1, sizeof *made);
    if (!make_pools(parity, c, &pools) || !made) {
        return;
    }
    make_tokens(c, made);
    bool is_stored = true;
    for (int32_t sequence = 0; sequence < 2; sequence++) {
        for (int32_t i = 0; i < c->n_committed[sequence] + c->n_nodes[sequence]; i++) {
            is_stored &= store_token(parity, c, &pools, pool_slot(&pools, sequence, i));
        }
    }
    int32_t width = c->heads * c->layout.head_dim, stride = width + 8;
    float *q = random_values(parity, (size_t)made->n * (size_t)stride, 2.0f);
    float *fast = room(parity, (size_t)made->n * (size_t)width, sizeof *fast);
    float *slow = room(parity, (size_t)made->n * (size_t)width, sizeof *slow);
    struct cop_attention in = {
        .kv = &pools.fast,
        .layer = c->layout.layers - 1,
        .n = made->n,
        .heads = c->heads,
        .window = c->window,
        .scale = 1.0f / sqrtf((float)c->layout.head_dim),
        .q = q,
        .q_stride = stride,
        .tokens = made->tokens,
        .paths = made->paths,
        .page_tables = pools.table_pointers,
    };
    if (q && fast && slow && parity->fast->attention(parity->fast_device, &in, fast)) {
        in.kv = &pools.slow;
        parity->slow->attention(parity->slow_device, &in, slow);
        double worst = is_stored ? 0.0 : HUGE_VAL;
        for (int32_t i = 0; i < made->n * width; i++) {
            double error = fabs((double)fast[i] - (double)slow[i]);
            worst = isnan(error) ? (double)NAN : fmax(worst, error);
        }
        /* Queries and values are below 2, keys below 2: a score errs by head_dim u times their
         * products (two roundings a step without fused multiply-add), which shifts its weight
         * by as much; a weight errs by 2e-7 more; sums over keys by u a key, twice. Values
         * scale it. */
        double head_dim = c->layout.head_dim, keys = c->n_committed[0] + c->n_nodes[0];
        double score = (double)in.scale * head_dim * 4.0 * (2.0 * head_dim + 1.0) * UNIT;
        double tolerance = 2.0 * (2.0 * score + 4e-7 + 3.0 * (keys + 2.0) * UNIT);
        say(parity, "attention", c->name, worst, tolerance);
    }
    free(q);
    free(fast);
    free(slow);
    free(made);
    free(pools.fast.data);
    free(pools.slow.data);
}

static const struct attention_case attention_cases[] = {
    {"one token, 3 of 9 heads, f16", {false, 2, 3, 64}, 9, 0, {40, 0}, {1, 0}, false},
    {"first token", {false, 1, 3, 64}, 9, 0, {0, 0}, {1, 0}, false},
    {"chain of 8 at 500, f16", {false, 1, 3, 64}, 9, 0, {500, 0}, {8, 0}, false},
    {"tree of 64 and chain of 5, f32", {true, 1, 3, 64}, 9, 0, {100, 0}, {64, 0}, true},
    {"two ragged trees, f16", {false, 1, 2, 32}, 6, 0, {33, 250}, {13, 30}, true},
    {"two ragged trees, f32", {true, 2, 2, 24}, 2, 0, {16, 5}, {13, 31}, true},
    {"window 8 in a tree, f16", {false, 1, 1, 16}, 4, 8, {21, 40}, {31, 7}, true},
    {"window 20 in chains, f32", {true, 1, 2, 8}, 4, 20, {64, 15}, {40, 3}, false},
    {"window 2, head of 6", {true, 1, 1, 6}, 1, 2, {3, 30}, {15, 2}, true},
    {"37 heads on one, head of 8", {false, 1, 1, 8}, 37, 0, {70, 1}, {3, 2}, false},
    {"prefill of 70", {false, 1, 2, 64}, 4, 0, {10, 0}, {70, 0}, false},
};

static void check_rope(struct parity *parity, bool is_f32, bool is_interleaved,
                       int32_t head_dim, int32_t dim)
{
    enum { N = 3, HEADS = 4, KV_HEADS = 2, MAX_HEAD = 64 };
    struct attention_case c = {.layout = {is_f32, 1, KV_HEADS, head_dim}};
    static const int32_t positions[N] = {0, 7, 3}, slots[N] = {5, 37, 16};
    static float cosines[8 * MAX_HEAD], sines[8 * MAX_HEAD];
    static float from[N * (HEADS + 2 * KV_HEADS) * MAX_HEAD], fast[sizeof from / sizeof *from],
        slow[sizeof from / sizeof *from];
    for (int32_t i = 0; i < 8 * dim / 2; i++) {
        cosines[i] = random_value(parity);
        sines[i] = sqrtf(1.0f - cosines[i] * cosines[i]);
    }
    int32_t stride = (HEADS + 2 * KV_HEADS) * head_dim;
    for (int32_t i = 0; i < N * stride; i++) {
        fast[i] = slow[i] = from[i] = random_value(parity);
    }
    struct pools pools;
    const struct cop_rope rope = {cosines, sines, dim, is_interleaved};
    if (make_pools(parity, &c, &pools)) {
        parity->fast->rope_store(parity->fast_device, fast, N, HEADS, &rope, positions,
                                 &pools.fast, 0, slots);
        parity->slow->rope_store(parity->slow_device, slow, N, HEADS, &rope, positions,
                                 &pools.slow, 0, slots);
        double worst = 0.0, worst_key = 0.0;
        for (int32_t i = 0; i < N * stride; i++) {
            worst = fmax(worst, fabs((double)fast[i] - (double)slow[i]));
        }
        for (int32_t t = 0; t < N; t++) {
            float ours[2][KV_HEADS * MAX_HEAD];
            int32_t width = KV_HEADS * head_dim;
            parity->fast->kv_read(&pools.fast, 0, slots[t], ours[0], ours[1]);
            const float *key = slow + t * stride + HEADS * head_dim, *value = key + width;
            for (int32_t i = 0; i < width; i++) {
                worst_key = fmax(worst_key, fabs((double)ours[0][i] - (double)key[i]));
                float exact = is_f32 ? value[i] : cop_f16_to_f32(cop_f32_to_f16(value[i]));
                if (ours[1][i] != exact) {
                    worst = HUGE_VAL; /* values are stored, not computed */
                }
            }
        }
        /* Entries are below 1, rotated ones below sqrt(2): three roundings; f16 keys one of
         * 2^-11. */
        char shape[80];
        snprintf(shape, sizeof shape, "%s, %s, %d of %d", is_f32 ? "f32" : "f16",
                 is_interleaved ? "neighbours" : "halves", dim, head_dim);
        say(parity, "rope_store", shape, worst, 4.0 * UNIT);
        say(parity, "rope_store keys", shape, worst_key, (is_f32 ? 0.0 : 0x1p-11) + 4.0 * UNIT);
    }
    free(pools.fast.data);
    free(pools.slow.data);
}

static void check_all(struct parity *parity)
{
    check_products(parity);
    check_all_tables(parity);
    for (int format = 0; format < COP_FORMAT_COUNT; format++) {
        check_embed(parity, (enum cop_format)format);
    }
    check_norm(parity, 1, 576, 576);
    check_norm(parity, 33, 64, 72);
    check_norm(parity, 3, 19, 19);
    check_swiglu(parity, 1, 1536);
    check_swiglu(parity, 7, 37);
    check_geglu(parity, 1, 1536);
    check_geglu(parity, 7, 37);
    for (int kind = 0; kind < 4; kind++) {
        check_rope(parity, kind % 2, kind / 2, 64, 64);
        check_rope(parity, kind % 2, kind / 2, 24, 24);
        check_rope(parity, kind % 2, kind / 2, 48, 20);
    }
    for (size_t i = 0; i < sizeof attention_cases / sizeof attention_cases[0]; i++) {
        check_attention(parity, &attention_cases[i]);
    }
}

int cop_parity_run(const char *level, cop_parity_report *report, void *ctx)
{
    struct parity parity = {.fast = &cop_ops_cpu,
                            .slow = &cop_ops_reference,
                            .report = report,
                            .ctx = ctx,
                            .state = 88172645463325252u};
    parity.fast_device = parity.fast->open(2, level);
    parity.slow_device = parity.slow->open(1, NULL);
    if (parity.fast_device && parity.slow_device) {
        check_all(&parity);
    } else {
        parity.is_out_of_memory = true;
    }
    parity.fast->close(parity.fast_device);
    parity.slow->close(parity.slow_device);
    return parity.is_out_of_memory ? -1 : parity.n_failures;
}
