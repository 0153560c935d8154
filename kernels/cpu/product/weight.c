/* Interleaves matrices into panels at load, all threads at work. */
#include "kernels/cpu/product/weight.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/device.h"

#define LINE 64

static size_t whole_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

struct packing {
    const struct cop_weight *weight;
    const struct cop_matrix *matrices;
    const uint8_t *zero_row; /* stands for the rows that a last panel lacks */
};

static size_t row_bytes(const struct cop_matrix *matrix)
{
    const struct cop_format_info *info = cop_format_info(matrix->format);
    return (size_t)(matrix->cols / info->block_elements) * (size_t)info->block_bytes;
}

static void pack_panel(const struct packing *packing, int32_t part_index, int32_t panel)
{
    const struct cop_matrix *matrix = &packing->matrices[part_index];
    const struct cop_part *part = &packing->weight->parts[part_index];
    const uint8_t *rows[COP_PANEL_ROWS];
    for (int32_t r = 0; r < COP_PANEL_ROWS; r++) {
        int32_t row = panel * COP_PANEL_ROWS + r;
        rows[r] = row < matrix->rows
                      ? (const uint8_t *)matrix->data + (size_t)row * row_bytes(matrix)
                      : packing->zero_row;
    }
    size_t offset = (size_t)(part->panels - packing->weight->data);
    cop_panel_pack(part->format, rows, matrix->cols,
                   packing->weight->data + offset + (size_t)panel * part->panel_bytes);
}

/* Each thread packs the same share of every part as it will later multiply. */
static void pack_share(void *arg, int32_t rank, int32_t size)
{
    const struct packing *packing = arg;
    for (int32_t i = 0; i < packing->weight->n_parts; i++) {
        int64_t n = packing->weight->parts[i].n_panels;
        for (int64_t panel = n * rank / size; panel < n * (rank + 1) / size; panel++) {
            pack_panel(packing, i, (int32_t)panel);
        }
    }
}

/* Fills the shape of a weight whose parts have room; false: a format without a product. */
static bool lay_out(const struct cop_device *device, const struct cop_matrix *matrices,
                    enum cop_precision precision, struct cop_weight *weight)
{
    for (int32_t i = 0; i < weight->n_parts; i++) {
        const struct cop_matrix *matrix = &matrices[i];
        const struct cop_format_info *info = cop_format_info(matrix->format);
        assert(matrix->cols == weight->cols && matrix->cols % info->block_elements == 0);
        struct cop_part *part = &weight->parts[i];
        *part = (struct cop_part){
            .format = matrix->format,
            .is_int8 = precision == COP_PRECISION_INT8 && info->is_quantised,
            .rows = matrix->rows,
            .first_row = weight->rows,
            .n_panels = (matrix->rows + COP_PANEL_ROWS - 1) / COP_PANEL_ROWS,
            .panel_bytes = cop_panel_bytes(matrix->format, matrix->cols),
        };
        if (part->is_int8 ? !device->level->int8_tiles[part->format] : !info->widen) {
            return false;
        }
        weight->needs_int8 |= part->is_int8;
        weight->needs_f32 |= !part->is_int8;
        weight->rows += matrix->rows;
        weight->bytes += whole_lines((size_t)part->n_panels * part->panel_bytes);
    }
    return true;
}

struct cop_weight *cop_cpu_weight_new(struct cop_device *device, const struct cop_matrix *parts,
                                      int32_t n_parts, enum cop_precision precision)
{
    assert(n_parts > 0);
    struct cop_weight *weight =
        calloc(1, sizeof *weight + (size_t)n_parts * sizeof weight->parts[0]);
    if (!weight) {
        return NULL;
    }
    weight->n_parts = n_parts;
    weight->cols = parts[0].cols;
    /* An F32 row is the longest that the columns may have. */
    uint8_t *zero_row = calloc((size_t)weight->cols, sizeof(float));
    if (!zero_row || !lay_out(device, parts, precision, weight) ||
        !(weight->data = cop_arena_take(&device->arena, weight->bytes, &weight->chunk))) {
        free(zero_row);
        free(weight);
        return NULL;
    }
    const uint8_t *end = weight->data;
    for (int32_t i = 0; i < n_parts; i++) {
        weight->parts[i].panels = end;
        end += whole_lines((size_t)weight->parts[i].n_panels * weight->parts[i].panel_bytes);
    }
    struct packing packing = {weight, parts, zero_row};
    cop_pool_run(device->pool, pack_share, &packing);
    free(zero_row);
    device->held += weight->bytes;
    return weight;
}

void cop_cpu_weight_free(struct cop_device *device, struct cop_weight *weight)
{
    if (weight) {
        device->held -= weight->bytes;
        cop_arena_give_back(&device->arena, weight->chunk);
        free(weight);
    }
}

size_t cop_cpu_weight_bytes(const struct cop_weight *weight)
{
    return weight->bytes;
}

size_t cop_cpu_held(const struct cop_device *device)
{
    return device->held;
}
