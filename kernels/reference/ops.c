/* The slow twins: every operation of the table in plain loops, in double, nothing rearranged.
 *
 * They say what the fast kernels must compute. Values are rounded only where the contract
 * rounds: activations of an int8 product go to blocks of 32 as kernels/quantize.h says, K and V
 * to the pool's format, results to f32. A page is [layer][slot][K | V], each [kv_heads *
 * head_dim]. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"
#include "kernels/quantize.h"

struct cop_device {
    double *scores; /* [scores_capacity], grown by attention */
    size_t scores_capacity;
    double *activations; /* [activations_capacity], grown by matmul */
    size_t activations_capacity;
    size_t held; /* bytes of weights that live */
};

struct cop_weight {
    enum cop_precision precision;
    int32_t n_parts, rows, cols;
    struct cop_matrix *parts; /* [n_parts], their data in `bytes` */
    uint8_t *bytes;
    size_t n_bytes;
    float *row; /* [cols], one widened row */
};

static struct cop_device *reference_open(int32_t threads, const char *level)
{
    if (threads < 1 || (level && strcmp(level, "plain") != 0)) {
        return NULL;
    }
    return calloc(1, sizeof(struct cop_device));
}

static void reference_close(struct cop_device *device)
{
    if (device) {
        free(device->scores);
        free(device->activations);
        free(device);
    }
}

static const char *reference_level(const struct cop_device *device)
{
    (void)device;
    return "plain";
}

/* *buffer holds at least `count` doubles afterwards; false: no memory, and it holds what it
 * held. */
static bool grow(double **buffer, size_t *capacity, size_t count)
{
    if (count > *capacity) {
        double *larger = malloc(count * sizeof *larger);
        if (!larger) {
            return false;
        }
        free(*buffer);
        *buffer = larger;
        *capacity = count;
    }
    return true;
}

/* ---- Matrix products
 * ------------------------------------------------------------------------- */

static size_t row_bytes(const struct cop_matrix *matrix)
{
    const struct cop_format_info *info = cop_format_info(matrix->format);
    return (size_t)(matrix->cols / info->block_elements) * (size_t)info->block_bytes;
}

static void reference_weight_free(struct cop_device *device, struct cop_weight *weight)
{
    if (weight) {
        device->held -= weight->n_bytes;
        free(weight->parts);
        free(weight->bytes);
        free(weight->row);
        free(weight);
    }
}

static struct cop_weight *reference_weight_new(struct cop_device *device,
                                               const struct cop_matrix *parts, int32_t n_parts,
                                               enum cop_precision precision)
{
    assert(n_parts > 0);
    struct cop_weight *weight = calloc(1, sizeof *weight);
    if (!weight) {
        return NULL;
    }
    *weight =
        (struct cop_weight){.precision = precision, .n_parts = n_parts, .cols = parts[0].cols};
    for (int32_t i = 0; i < n_parts; i++) {
        assert(parts[i].cols == weight->cols);
        weight->rows += parts[i].rows;
        weight->n_bytes += (size_t)parts[i].rows * row_bytes(&parts[i]);
    }
    device->held += weight->n_bytes;
    weight->parts = malloc((size_t)n_parts * sizeof *weight->parts);
    weight->bytes = malloc(weight->n_bytes + 1);
    weight->row = malloc((size_t)weight->cols * sizeof *weight->row);
    if (!weight->parts || !weight->bytes || !weight->row) {
        reference_weight_free(device, weight);
        return NULL;
    }
    uint8_t *end = weight->bytes;
    for (int32_t i = 0; i < n_parts; i++) {
        size_t bytes = (size_t)parts[i].rows * row_bytes(&parts[i]);
        weight->parts[i] = parts[i];
        weight->parts[i].data = memcpy(end, parts[i].data, bytes);
        end += bytes;
    }
    return weight;
}

static size_t reference_weight_bytes(const struct cop_weight *weight)
{
    return weight->n_bytes;
}

static size_t reference_held(const struct cop_device *device)
{
    return device->held;
}

/* values = what an int8 product sees of x: each block of 32 as its scale times its codes, an
 * outlier with its rest. */
static void through_int8(const float *x, int32_t cols, double *values)
{
    int32_t n_blocks = cols / COP_QUANT_BLOCK, outlier = -1;
    int8_t codes[COP_QUANT_BLOCK];
    float largest = 0.0f, sum = 0.0f;
    for (int32_t block = 0; block < n_blocks; block++) {
        float scale = cop_quantize_block(x + block * COP_QUANT_BLOCK, codes);
        for (int i = 0; i < COP_QUANT_BLOCK; i++) {
            values[block * COP_QUANT_BLOCK + i] = (double)scale * codes[i];
        }
        sum += scale;
        if (scale > largest) {
            largest = scale;
            outlier = block;
        }
    }
    if (cop_quantize_is_outlier(largest, sum, n_blocks)) {
        float rest[COP_QUANT_BLOCK];
        const float *from = x + outlier * COP_QUANT_BLOCK;
        cop_quantize_block(from, codes);
        cop_quantize_rest(from, largest, codes, rest);
        float scale = cop_quantize_block(rest, codes);
        for (int i = 0; i < COP_QUANT_BLOCK; i++) {
            values[outlier * COP_QUANT_BLOCK + i] += (double)scale * codes[i];
        }
    }
}

static double dot(const float *row, const double *x, int32_t cols)
{
    double sum = 0.0;
    for (int32_t k = 0; k < cols; k++) {
        sum += (double)row[k] * x[k];
    }
    return sum;
}

/* Rows [first, first + part rows) of the result for all n tokens. */
static void multiply_part(const struct cop_weight *weight, const struct cop_matrix *part,
                          int32_t first, const double *activations, int32_t n,
                          const float *bias, bool accumulate, float *out)
{
    const struct cop_format_info *info = cop_format_info(part->format);
    for (int32_t r = 0; r < part->rows; r++) {
        const uint8_t *bytes = part->data;
        info->widen(bytes + (size_t)r * row_bytes(part), part->cols, weight->row);
        for (int32_t t = 0; t < n; t++) {
            double sum =
                dot(weight->row, activations + (size_t)t * (size_t)part->cols, part->cols);
            float *to = out + (size_t)t * (size_t)weight->rows + first + r;
            sum += bias ? (double)bias[first + r] : 0.0;
            *to = (float)(accumulate ? sum + (double)*to : sum);
        }
    }
}

static bool reference_matmul(struct cop_device *device, const struct cop_weight *weight,
                             const float *x, int32_t n, const float *bias, bool accumulate,
                             float *out)
{
    size_t cols = (size_t)weight->cols;
    if (!grow(&device->activations, &device->activations_capacity, (size_t)n * cols)) {
        return false;
    }
    int32_t first = 0;
    for (int32_t i = 0; i < weight->n_parts; i++) {
        const struct cop_matrix *part = &weight->parts[i];
        bool is_int8 = weight->precision == COP_PRECISION_INT8 &&
                       cop_format_info(part->format)->is_quantised;
        for (size_t t = 0; t < (size_t)n; t++) {
            double *values = device->activations + t * cols;
            if (is_int8) {
                through_int8(x + t * cols, weight->cols, values);
                continue;
            }
            for (size_t k = 0; k < cols; k++) {
                values[k] = (double)x[t * cols + k];
            }
        }
        multiply_part(weight, part, first, device->activations, n, bias, accumulate, out);
        first += part->rows;
    }
    return true;
}

static bool reference_multiply(struct cop_device *device, const struct cop_multiplication *list,
                               int32_t n)
{
    (void)device;
    for (const struct cop_multiplication *m = list; m < list + n; m++) {
        for (int32_t t = 0; t < m->n; t++) {
            for (int32_t r = 0; r < m->rows; r++) {
                const float *left = m->left.data + r * m->left.line_stride;
                const float *right = m->right.data + t * m->right.line_stride;
                float *to = m->out + t * m->out_stride + r;
                double sum = m->accumulate ? (double)*to : 0.0;
                for (int32_t k = 0; k < m->depth; k++) {
                    sum += (double)left[k * m->left.entry_stride] *
                           (double)right[k * m->right.entry_stride];
                }
                *to = (float)sum;
            }
        }
    }
    return true;
}

static void reference_together(struct cop_device *device,
                               void (*work)(void *arg, int32_t rank, int32_t size), void *arg)
{
    (void)device;
    work(arg, 0, 1);
}

/* ---- Row by row
 * ------------------------------------------------------------------------------ */

static void reference_embed(struct cop_device *device, const struct cop_matrix *table,
                            const int32_t *tokens, int32_t n, float *out)
{
    (void)device;
    const struct cop_format_info *info = cop_format_info(table->format);
    const uint8_t *bytes = table->data;
    for (int32_t t = 0; t < n; t++) {
        assert(tokens[t] >= 0 && tokens[t] < table->rows);
        info->widen(bytes + (size_t)tokens[t] * row_bytes(table), table->cols,
                    out + (size_t)t * (size_t)table->cols);
    }
}

static void reference_rms_norm(struct cop_device *device, const float *x, const float *gain,
                               float epsilon, int32_t n, int32_t width, int32_t stride,
                               float *out)
{
    (void)device;
    for (int32_t t = 0; t < n; t++) {
        const float *from = x + (ptrdiff_t)t * stride;
        float *to = out + (ptrdiff_t)t * stride;
        double sum = 0.0;
        for (int32_t i = 0; i < width; i++) {
            sum += (double)from[i] * (double)from[i];
        }
        double factor = 1.0 / sqrt(sum / width + (double)epsilon);
        for (int32_t i = 0; i < width; i++) {
            to[i] = (float)((double)from[i] * factor * (double)gain[i]);
        }
    }
}

static void reference_swiglu(struct cop_device *device, const float *gate_up, int32_t n,
                             int32_t width, float *out)
{
    (void)device;
    for (int32_t t = 0; t < n; t++) {
        const float *gate = gate_up + (ptrdiff_t)t * 2 * width, *up = gate + width;
        for (int32_t i = 0; i < width; i++) {
            double silu = (double)gate[i] / (1.0 + cop_exp(-(double)gate[i]));
            out[(ptrdiff_t)t * width + i] = (float)(silu * (double)up[i]);
        }
    }
}

static void reference_geglu(struct cop_device *device, const float *gate_up, int32_t n,
                            int32_t width, float *out)
{
    (void)device;
    for (int32_t t = 0; t < n; t++) {
        const float *gate = gate_up + (ptrdiff_t)t * 2 * width, *up = gate + width;
        for (int32_t i = 0; i < width; i++) {
            double g = (double)gate[i], z = sqrt(8 / M_PI) * (g + 0.044715 * g * g * g);
            out[(ptrdiff_t)t * width + i] = (float)(g / (1.0 + cop_exp(-z)) * (double)up[i]);
        }
    }
}

/* ---- Keys and values
 * ------------------------------------------------------------------------- */

static size_t token_elements(const struct cop_kv_layout *layout)
{
    return 2 * (size_t)layout->kv_heads * (size_t)layout->head_dim;
}

static size_t element_bytes(const struct cop_kv_layout *layout)
{
    return layout->is_f32 ? sizeof(float) : sizeof(uint16_t);
}

static size_t reference_kv_slot_bytes(const struct cop_kv_layout *layout)
{
    return (size_t)layout->layers * token_elements(layout) * element_bytes(layout);
}

static size_t reference_kv_page_bytes(const struct cop_kv_layout *layout)
{
    return COP_PAGE_SLOTS * reference_kv_slot_bytes(layout);
}

/* K and V of one slot and layer: token_elements values. */
static void *slot_data(const struct cop_kv_pool *kv, int32_t layer, int32_t slot)
{
    const struct cop_kv_layout *layout = &kv->layout;
    assert(slot >= 0 && slot / COP_PAGE_SLOTS < kv->n_pages && layer < layout->layers);
    size_t page = (size_t)(slot / COP_PAGE_SLOTS), offset = (size_t)(slot % COP_PAGE_SLOTS);
    size_t bytes = token_elements(layout) * element_bytes(layout);
    return (uint8_t *)kv->data + page * reference_kv_page_bytes(layout) +
           ((size_t)layer * COP_PAGE_SLOTS + offset) * bytes;
}

static double load_element(const struct cop_kv_pool *kv, const void *data, size_t i)
{
    if (kv->layout.is_f32) {
        return (double)((const float *)data)[i];
    }
    return (double)cop_f16_to_f32(((const uint16_t *)data)[i]);
}

static void store_element(const struct cop_kv_pool *kv, void *data, size_t i, float value)
{
    if (kv->layout.is_f32) {
        ((float *)data)[i] = value;
    } else {
        ((uint16_t *)data)[i] = cop_f32_to_f16(value);
    }
}

static void reference_kv_copy(const struct cop_kv_pool *kv, int32_t from_slot, int32_t to_slot)
{
    size_t bytes = token_elements(&kv->layout) * element_bytes(&kv->layout);
    for (int32_t layer = 0; layer < kv->layout.layers; layer++) {
        memmove(slot_data(kv, layer, to_slot), slot_data(kv, layer, from_slot), bytes);
    }
}

static void reference_kv_read(const struct cop_kv_pool *kv, int32_t layer, int32_t slot,
                              float *key, float *value)
{
    size_t half = token_elements(&kv->layout) / 2;
    const void *data = slot_data(kv, layer, slot);
    for (size_t i = 0; i < half; i++) {
        key[i] = (float)load_element(kv, data, i);
        value[i] = (float)load_element(kv, data, half + i);
    }
}

static void rotate(float *head, const struct cop_rope *rope, int32_t position)
{
    int32_t half = rope->dim / 2;
    for (int32_t i = 0; i < half; i++) {
        double c = (double)rope->cosines[(ptrdiff_t)position * half + i];
        double s = (double)rope->sines[(ptrdiff_t)position * half + i];
        float *a = head + (rope->is_interleaved ? 2 * i : i);
        float *b = rope->is_interleaved ? a + 1 : a + half;
        double x = (double)*a, y = (double)*b;
        *a = (float)(x * c - y * s);
        *b = (float)(x * s + y * c);
    }
}

static void reference_rope_store(struct cop_device *device, float *qkv, int32_t n,
                                 int32_t heads, const struct cop_rope *rope,
                                 const int32_t *positions, const struct cop_kv_pool *kv,
                                 int32_t layer, const int32_t *slots)
{
    (void)device;
    int32_t kv_heads = kv->layout.kv_heads, head_dim = kv->layout.head_dim;
    for (int32_t t = 0; t < n; t++) {
        float *token = qkv + (ptrdiff_t)t * (heads + 2 * kv_heads) * head_dim;
        for (int32_t h = 0; h < heads + kv_heads; h++) {
            rotate(token + (ptrdiff_t)h * head_dim, rope, positions[t]);
        }
        const float *key = token + (ptrdiff_t)heads * head_dim;
        void *data = slot_data(kv, layer, slots[t]);
        for (size_t i = 0; i < token_elements(&kv->layout); i++) {
            store_element(kv, data, i, key[i]); /* V lies behind K in both */
        }
    }
}

/* ---- Attention
 * ------------------------------------------------------------------------------- */

/* The pool slot that holds an absolute position, seen from one token. */
static int32_t slot_of(const struct cop_attention *in, const struct cop_attention_token *token,
                       int32_t position)
{
    int32_t logical = position < token->base
                          ? position
                          : in->paths[token->path_offset + position - token->base];
    int32_t page = in->page_tables[token->sequence][logical / COP_PAGE_SLOTS];
    return page * COP_PAGE_SLOTS + logical % COP_PAGE_SLOTS;
}

static void attend(const struct cop_attention *in, int32_t t, int32_t head, double *scores,
                   float *out)
{
    const struct cop_attention_token *token = &in->tokens[t];
    int32_t head_dim = in->kv->layout.head_dim, kv_heads = in->kv->layout.kv_heads;
    size_t kv_head = (size_t)(head / (in->heads / kv_heads));
    size_t key_at = kv_head * (size_t)head_dim;
    size_t value_at = key_at + (size_t)kv_heads * (size_t)head_dim;
    const float *q = in->q + (ptrdiff_t)t * in->q_stride + (ptrdiff_t)head * head_dim;
    int32_t end = token->base + token->path_length;
    int32_t start = in->window > 0 && end > in->window ? end - in->window : 0;
    double best = -HUGE_VAL, total = 0.0;
    for (int32_t at = start; at < end; at++) {
        const void *data = slot_data(in->kv, in->layer, slot_of(in, token, at));
        double sum = 0.0;
        for (int32_t i = 0; i < head_dim; i++) {
            sum += (double)q[i] * load_element(in->kv, data, key_at + (size_t)i);
        }
        scores[at - start] = sum * (double)in->scale;
        best = fmax(best, scores[at - start]);
    }
    for (int32_t at = start; at < end; at++) {
        scores[at - start] = cop_exp(scores[at - start] - best);
        total += scores[at - start];
    }
    for (int32_t i = 0; i < head_dim; i++) {
        double sum = 0.0;
        for (int32_t at = start; at < end; at++) {
            const void *data = slot_data(in->kv, in->layer, slot_of(in, token, at));
            sum += scores[at - start] * load_element(in->kv, data, value_at + (size_t)i);
        }
        out[i] = (float)(sum / total);
    }
}

static bool reference_attention(struct cop_device *device, const struct cop_attention *in,
                                float *out)
{
    for (int32_t t = 0; t < in->n; t++) {
        size_t keys = (size_t)(in->tokens[t].base + in->tokens[t].path_length);
        if (!grow(&device->scores, &device->scores_capacity, keys)) {
            return false;
        }
        for (int32_t head = 0; head < in->heads; head++) {
            ptrdiff_t at = ((ptrdiff_t)t * in->heads + head) * in->kv->layout.head_dim;
            attend(in, t, head, device->scores, out + at);
        }
    }
    return true;
}

const struct cop_ops cop_ops_reference = {
    .name = "reference",
    .open = reference_open,
    .close = reference_close,
    .level = reference_level,
    .weight_new = reference_weight_new,
    .weight_free = reference_weight_free,
    .weight_bytes = reference_weight_bytes,
    .held = reference_held,
    .matmul = reference_matmul,
    .multiply = reference_multiply,
    .together = reference_together,
    .embed = reference_embed,
    .rms_norm = reference_rms_norm,
    .rope_store = reference_rope_store,
    .attention = reference_attention,
    .swiglu = reference_swiglu,
    .geglu = reference_geglu,
    .kv_page_bytes = reference_kv_page_bytes,
    .kv_copy = reference_kv_copy,
    .kv_read = reference_kv_read,
    .kv_slot_bytes = reference_kv_slot_bytes,
};
