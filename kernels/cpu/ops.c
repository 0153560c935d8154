/* The table of the CPU backend: device, elementwise operations, and the rest by name. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/device.h"
#include "kernels/large.h"

#define LINE       64
/* Elements of an elementwise operation below which one thread does it alone. */
#define SMALL_ROWS 6000

bool cop_buffer_grow(struct cop_buffer *buffer, size_t bytes)
{
    if (bytes > buffer->bytes) {
        size_t rounded = bytes + bytes / 4;
        void *larger = cop_large_new(rounded);
        if (!larger) {
            return false;
        }
        free(buffer->data);
        buffer->data = larger;
        buffer->bytes = rounded;
    }
    return true;
}

void cop_buffer_free(struct cop_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct cop_buffer){0};
}

static void cpu_close(struct cop_device *device)
{
    if (device) {
        cop_pool_free(device->pool);
        cop_buffer_free(&device->activations);
        cop_buffer_free(&device->totals);
        cop_buffer_free(&device->views);
        cop_buffer_free(&device->lists);
        cop_buffer_free(&device->scores);
        free(device->shares);
        free(device);
    }
}

static struct cop_device *cpu_open(int32_t threads, const char *level_name)
{
    const struct cop_level *level = level_name ? cop_level_find(level_name) : cop_level_best();
    if (!level || threads < 1) {
        return NULL;
    }
    struct cop_device *device = calloc(1, sizeof *device);
    if (!device) {
        return NULL;
    }
    device->level = level;
    device->threads = threads;
    device->pool = cop_pool_new(threads);
    device->shares = aligned_alloc(LINE, (size_t)threads * sizeof *device->shares);
    if (!device->pool || !device->shares) {
        cpu_close(device);
        return NULL;
    }
    return device;
}

static const char *cpu_level(const struct cop_device *device)
{
    return device->level->name;
}

static void cpu_together(struct cop_device *device,
                         void (*work)(void *arg, int32_t rank, int32_t size), void *arg)
{
    cop_pool_run(device->pool, work, arg);
}

static void cpu_embed(struct cop_device *device, const struct cop_matrix *table,
                      const int32_t *tokens, int32_t n, float *out)
{
    (void)device;
    const struct cop_format_info *info = cop_format_info(table->format);
    size_t row_bytes = (size_t)(table->cols / info->block_elements) * (size_t)info->block_bytes;
    for (int32_t t = 0; t < n; t++) {
        assert(tokens[t] >= 0 && tokens[t] < table->rows);
        info->widen((const uint8_t *)table->data + (size_t)tokens[t] * row_bytes, table->cols,
                    out + (ptrdiff_t)t * table->cols);
    }
}

/* ---- Row by row: one call of the level's function per row, rows shared out when there are
 * many --- */

struct rows_job {
    const struct cop_level *level;
    int32_t n;
    void (*run)(const struct rows_job *job, int32_t row);
    const float *x, *gain;
    float epsilon, *out;
    int32_t width, stride, heads, layer;
    void (*gated)(const float *gate, const float *up, int32_t width, float *out);
    const struct cop_rope *rope;
    const int32_t *positions, *slots;
    const struct cop_kv_pool *kv;
};

static void run_rows(void *arg, int32_t rank, int32_t size)
{
    const struct rows_job *job = arg;
    int32_t end = (int32_t)((int64_t)job->n * (rank + 1) / size);
    for (int32_t row = (int32_t)((int64_t)job->n * rank / size); row < end; row++) {
        job->run(job, row);
    }
}

static void share_rows(struct cop_device *device, struct rows_job *job, int64_t elements)
{
    if (elements < SMALL_ROWS) {
        run_rows(job, 0, 1);
    } else {
        cop_pool_run(device->pool, run_rows, job);
    }
}

static void norm_row(const struct rows_job *job, int32_t row)
{
    ptrdiff_t at = (ptrdiff_t)row * job->stride;
    job->level->rms_norm(job->x + at, job->gain, job->epsilon, job->width, job->out + at);
}

static void cpu_rms_norm(struct cop_device *device, const float *x, const float *gain,
                         float epsilon, int32_t n, int32_t width, int32_t stride, float *out)
{
    struct rows_job job = {.level = device->level,
                           .n = n,
                           .run = norm_row,
                           .x = x,
                           .gain = gain,
                           .epsilon = epsilon,
                           .width = width,
                           .stride = stride,
                           .out = out};
    share_rows(device, &job, (int64_t)n * width);
}

/* A row of `stride` entries is cut into columns so that one token's work can be shared out too.
 */
#define SWIGLU_COLUMNS 512

static void swiglu_piece(const struct rows_job *job, int32_t piece)
{
    int32_t per_row = (job->width + SWIGLU_COLUMNS - 1) / SWIGLU_COLUMNS;
    ptrdiff_t row = piece / per_row, from = (ptrdiff_t)(piece % per_row) * SWIGLU_COLUMNS;
    ptrdiff_t left = job->width - from;
    const float *gate = job->x + row * 2 * job->width + from;
    job->gated(gate, gate + job->width,
               (int32_t)(left < SWIGLU_COLUMNS ? left : SWIGLU_COLUMNS),
               job->out + row * job->width + from);
}

static void run_gated(struct cop_device *device,
                      void (*gated)(const float *, const float *, int32_t, float *),
                      const float *gate_up, int32_t n, int32_t width, float *out)
{
    struct rows_job job = {.gated = gated,
                           .n = n * ((width + SWIGLU_COLUMNS - 1) / SWIGLU_COLUMNS),
                           .run = swiglu_piece,
                           .x = gate_up,
                           .width = width,
                           .out = out};
    share_rows(device, &job, (int64_t)n * width * 4); /* an exponential and a division each */
}

static void cpu_swiglu(struct cop_device *device, const float *gate_up, int32_t n,
                       int32_t width, float *out)
{
    run_gated(device, device->level->swiglu, gate_up, n, width, out);
}

static void cpu_geglu(struct cop_device *device, const float *gate_up, int32_t n, int32_t width,
                      float *out)
{
    run_gated(device, device->level->geglu, gate_up, n, width, out);
}

static void rope_store_row(const struct rows_job *job, int32_t row)
{
    const struct cop_kv_layout *layout = &job->kv->layout;
    int32_t head_dim = layout->head_dim, kv_heads = layout->kv_heads;
    float *token = job->out + (ptrdiff_t)row * (job->heads + 2 * kv_heads) * head_dim;
    const float *keys = token + (ptrdiff_t)job->heads * head_dim;
    const float *values = keys + (ptrdiff_t)kv_heads * head_dim;
    int32_t page = job->slots[row] / COP_PAGE_SLOTS, offset = job->slots[row] % COP_PAGE_SLOTS;
    job->level->rotate(token, job->heads + kv_heads, head_dim, job->rope, job->positions[row]);
    for (int32_t head = 0; head < kv_heads; head++) {
        uint8_t *block = cop_cpu_head_blocks(job->kv, page, job->layer, head);
        job->level->store_key(layout->is_f32, keys + (ptrdiff_t)head * head_dim, head_dim,
                              offset, block);
        job->level->store_value(layout->is_f32, values + (ptrdiff_t)head * head_dim, head_dim,
                                offset, block + cop_cpu_key_block_bytes(layout));
    }
}

static void cpu_rope_store(struct cop_device *device, float *qkv, int32_t n, int32_t heads,
                           const struct cop_rope *rope, const int32_t *positions,
                           const struct cop_kv_pool *kv, int32_t layer, const int32_t *slots)
{
    struct rows_job job = {.level = device->level,
                           .n = n,
                           .run = rope_store_row,
                           .out = qkv,
                           .heads = heads,
                           .layer = layer,
                           .rope = rope,
                           .positions = positions,
                           .slots = slots,
                           .kv = kv};
    int64_t width = (int64_t)(heads + 2 * kv->layout.kv_heads) * kv->layout.head_dim;
    share_rows(device, &job, n * width);
}

const struct cop_ops cop_ops_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .level = cpu_level,
    .weight_new = cop_cpu_weight_new,
    .weight_free = cop_cpu_weight_free,
    .weight_bytes = cop_cpu_weight_bytes,
    .held = cop_cpu_held,
    .matmul = cop_cpu_matmul,
    .multiply = cop_cpu_multiply,
    .together = cpu_together,
    .embed = cpu_embed,
    .rms_norm = cpu_rms_norm,
    .rope_store = cpu_rope_store,
    .attention = cop_cpu_attention,
    .swiglu = cpu_swiglu,
    .geglu = cpu_geglu,
    .kv_page_bytes = cop_cpu_kv_page_bytes,
    .kv_copy = cop_cpu_kv_copy,
    .kv_read = cop_cpu_kv_read,
    .kv_slot_bytes = cop_cpu_kv_slot_bytes,
};
