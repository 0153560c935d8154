/* Matrix products: tiles of tokens against panels of rows, panels shared out among the threads.
 *
 * First the activations go into tiles (int8 records or interleaved floats), then every thread
 * takes panels from its stretch of the weight (share.h) and runs each over all tiles, so that a
 * weight leaves memory once. A panel's rows are one lane each; nothing is summed
 * across lanes or threads, so neither the tiles nor the threads touch the bits of a result. */
#include <assert.h>
#include <string.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/product/weight.h"

#define CACHED_BYTES ((size_t)192 << 10) /* of weights, while several tiles pass */
#define FEW_PANELS   4                   /* below which tiles pass too often */

struct product {
    struct cop_device *device;
    const struct cop_weight *weight;
    const float *x;
    const float *bias;
    float *out;
    int32_t n, n_subs;
    bool accumulate;
    uint8_t *int8_tiles; /* tile after tile */
    float *f32_tiles;
};

/* ---- Tiles
 * ------------------------------------------------------------------------------------ n tokens
 * as the fewest tiles of at most `largest`, sizes as equal as can be: tile i covers tokens [i n
 * / n_tiles, (i + 1) n / n_tiles). */

static int32_t count_tiles(int32_t n, int32_t largest)
{
    return (n + largest - 1) / largest;
}

static int32_t tile_start(int32_t n, int32_t n_tiles, int32_t tile)
{
    return (int32_t)((int64_t)n * tile / n_tiles);
}

static uint8_t *int8_tile_at(const struct product *p, int32_t token)
{
    return p->int8_tiles + (size_t)token * (size_t)(p->n_subs + 1) * COP_RECORD_BYTES;
}

static float *f32_tile_at(const struct product *p, int32_t token)
{
    return p->f32_tiles + (size_t)token * (size_t)p->n_subs * COP_PANEL_COLS;
}

/* This thread's share of the tokens. */
static void fill_int8_tiles(const struct product *p, int32_t rank, int32_t size)
{
    const struct cop_level *level = p->device->level;
    int32_t n_tiles = count_tiles(p->n, level->int8_tile_tokens);
    int32_t token = tile_start(p->n, size, rank), end = tile_start(p->n, size, rank + 1);
    for (int32_t tile = 0; token < end; tile++) {
        int32_t from = tile_start(p->n, n_tiles, tile);
        int32_t next = tile_start(p->n, n_tiles, tile + 1);
        for (; token < next && token < end; token++) {
            level->quantize(p->x + (ptrdiff_t)token * p->weight->cols, p->n_subs, next - from,
                            token - from, int8_tile_at(p, from));
        }
    }
}

static void fill_f32_tiles(const struct product *p, int32_t rank, int32_t size)
{
    const struct cop_level *level = p->device->level;
    int32_t n_tiles = count_tiles(p->n, level->tile_tokens), cols = p->weight->cols;
    for (int32_t tile = rank; tile < n_tiles; tile += size) {
        int32_t from = tile_start(p->n, n_tiles, tile);
        level->interleave(p->x + (ptrdiff_t)from * cols, cols,
                          tile_start(p->n, n_tiles, tile + 1) - from, cols,
                          f32_tile_at(p, from));
    }
}

static void fill_tiles(void *arg, int32_t rank, int32_t size)
{
    const struct product *p = arg;
    if (p->weight->needs_int8) {
        fill_int8_tiles(p, rank, size);
    }
    if (p->weight->needs_f32) {
        fill_f32_tiles(p, rank, size);
    }
}

/* ---- Panels
 * ----------------------------------------------------------------------------------- */

/* Adds bias and residual and writes the panel's rows of `tokens` tokens from values[t][16]. */
static void write_rows(const struct product *p, const struct cop_part *part, int32_t panel,
                       int32_t token, int32_t tokens, const float *values)
{
    int32_t left = part->rows - panel * COP_PANEL_ROWS;
    int32_t rows = left < COP_PANEL_ROWS ? left : COP_PANEL_ROWS;
    int32_t row = part->first_row + panel * COP_PANEL_ROWS;
    for (int32_t t = 0; t < tokens; t++, values += COP_PANEL_ROWS) {
        float *to = p->out + (ptrdiff_t)(token + t) * p->weight->rows + row;
        float sums[COP_PANEL_ROWS];
        memcpy(sums, values, sizeof sums);
        if (p->bias) {
            for (int32_t r = 0; r < rows; r++) {
                sums[r] += p->bias[row + r];
            }
        }
        if (p->accumulate) {
            for (int32_t r = 0; r < rows; r++) {
                sums[r] += to[r];
            }
        }
        if (rows == COP_PANEL_ROWS) {
            memcpy(to, sums, sizeof sums);
        } else {
            memcpy(to, sums, (size_t)rows * sizeof *sums);
        }
    }
}

static void run_int8_tile(const struct product *p, const struct cop_part *part, int32_t panel,
                          int32_t token, int32_t tokens)
{
    const uint8_t *data = part->panels + (size_t)panel * part->panel_bytes;
    int32_t row = part->first_row + panel * COP_PANEL_ROWS;
    bool is_whole = (panel + 1) * COP_PANEL_ROWS <= part->rows;
    float values[COP_TILE_MAX * COP_PANEL_ROWS];
    struct cop_rows_out to = {values, COP_PANEL_ROWS, NULL, false};
    if (is_whole) {
        to.out = p->out + (ptrdiff_t)token * p->weight->rows + row;
        to.stride = p->weight->rows;
        to.bias = p->bias ? p->bias + row : NULL;
        to.accumulate = p->accumulate;
    }
    p->device->level->int8_tiles[part->format][tokens - 1](data, p->n_subs,
                                                           int8_tile_at(p, token), &to);
    if (!is_whole) {
        write_rows(p, part, panel, token, tokens, values);
    }
}

/* Panels that stay in the second cache while all tiles pass, a tile in the first meanwhile. */
static void run_int8_panels(const struct product *p, const struct cop_part *part, int32_t first,
                            int32_t end)
{
    int32_t n_tiles = count_tiles(p->n, p->device->level->int8_tile_tokens);
    for (int32_t tile = 0; tile < n_tiles; tile++) {
        int32_t token = tile_start(p->n, n_tiles, tile);
        int32_t tokens = tile_start(p->n, n_tiles, tile + 1) - token;
        for (int32_t panel = first; panel < end; panel++) {
            run_int8_tile(p, part, panel, token, tokens);
        }
    }
}

/* Sub-blocks [first, first + count) of a panel as floats: in `room`, or where they lie. */
static const float *widen(const struct product *p, const struct cop_part *part, int32_t panel,
                          int32_t first, int32_t count, float *room)
{
    const uint8_t *data = part->panels + (size_t)panel * part->panel_bytes;
    if (part->format == COP_FORMAT_F32) {
        return (const float *)(const void *)data +
               (ptrdiff_t)first * COP_PANEL_COLS * COP_PANEL_ROWS;
    }
    p->device->level->widen[part->format](data, first, count, room);
    return room;
}

static void run_f32_panel(const struct product *p, const struct cop_part *part, int32_t panel,
                          float *totals)
{
    _Alignas(64) float room[COP_STRETCH_SUBS * COP_PANEL_COLS * COP_PANEL_ROWS];
    const struct cop_level *level = p->device->level;
    int32_t n_tiles = count_tiles(p->n, level->tile_tokens);
    memset(totals, 0, (size_t)p->n * COP_PANEL_ROWS * sizeof *totals);
    for (int32_t first = 0; first < p->n_subs; first += COP_STRETCH_SUBS) {
        int32_t left = p->n_subs - first;
        int32_t count = left < COP_STRETCH_SUBS ? left : COP_STRETCH_SUBS;
        const float *weights = widen(p, part, panel, first, count, room);
        for (int32_t tile = 0; tile < n_tiles; tile++) {
            int32_t from = tile_start(p->n, n_tiles, tile);
            int32_t tokens = tile_start(p->n, n_tiles, tile + 1) - from;
            const float *x = f32_tile_at(p, from) + (ptrdiff_t)first * COP_PANEL_COLS * tokens;
            level->f32_tiles[tokens - 1](weights, count, x,
                                         totals + (ptrdiff_t)from * COP_PANEL_ROWS);
        }
    }
    write_rows(p, part, panel, 0, p->n, totals);
}

/* Panels are numbered through all parts. The one in which byte `at` of all of them laid end to
 * end lies. */
static int32_t panel_at(const struct cop_weight *weight, size_t at)
{
    int32_t number = 0;
    for (int32_t i = 0; i < weight->n_parts; i++) {
        const struct cop_part *part = &weight->parts[i];
        size_t bytes = (size_t)part->n_panels * part->panel_bytes;
        if (at < bytes) {
            return number + (int32_t)(at / part->panel_bytes);
        }
        at -= bytes;
        number += part->n_panels;
    }
    return number;
}

/* Every rank gets about as many bytes. */
static void deal_panels(const struct product *p)
{
    const struct cop_weight *weight = p->weight;
    int32_t size = p->device->threads, first = 0;
    size_t total = 0;
    for (int32_t i = 0; i < weight->n_parts; i++) {
        total += (size_t)weight->parts[i].n_panels * weight->parts[i].panel_bytes;
    }
    for (int32_t rank = 0; rank < size; rank++) {
        int32_t end = panel_at(weight, total * (size_t)(rank + 1) / (size_t)size);
        cop_share_deal(&p->device->shares[rank], first, end);
        first = end;
    }
}

/* Panels [first, end) of those numbered through all parts. */
static void run_stretch(const struct product *p, int32_t first, int32_t end, float *totals)
{
    for (int32_t i = 0; i < p->weight->n_parts; i++) {
        const struct cop_part *part = &p->weight->parts[i];
        int32_t panel = first > 0 ? first : 0;
        int32_t stop = end < part->n_panels ? end : part->n_panels;
        if (part->is_int8) {
            run_int8_panels(p, part, panel, stop);
        } else {
            for (; panel < stop; panel++) {
                run_f32_panel(p, part, panel, totals);
            }
        }
        first -= part->n_panels;
        end -= part->n_panels;
    }
}

static int32_t most_panels(const struct cop_weight *weight)
{
    size_t largest = 1;
    for (int32_t i = 0; i < weight->n_parts; i++) {
        size_t bytes = weight->parts[i].panel_bytes;
        largest = bytes > largest ? bytes : largest;
    }
    size_t most = CACHED_BYTES / largest;
    return most < FEW_PANELS ? FEW_PANELS : (int32_t)most;
}

static void run_panels(void *arg, int32_t rank, int32_t size)
{
    const struct product *p = arg;
    struct cop_device *device = p->device;
    int32_t least = p->n > device->level->int8_tile_tokens ? FEW_PANELS : 1;
    int32_t most = most_panels(p->weight), first, end;
    float *totals =
        (float *)((uint8_t *)device->totals.data + (size_t)rank * device->totals_stride);
    while (cop_share_take(device->shares, rank, size, least, most, &first, &end)) {
        run_stretch(p, first, end, totals);
    }
}

/* ---- The product
 * ------------------------------------------------------------------------------ */

static bool make_room(struct cop_device *device, struct product *p)
{
    size_t units = (size_t)p->n * (size_t)p->n_subs;
    size_t records = units + (size_t)p->n; /* and the rest of an outlier */
    size_t int8_bytes = p->weight->needs_int8 ? (records * COP_RECORD_BYTES + 63) / 64 * 64 : 0;
    size_t f32_bytes = p->weight->needs_f32 ? units * COP_PANEL_COLS * sizeof(float) : 0;
    if (!cop_buffer_grow(&device->activations, int8_bytes + f32_bytes)) {
        return false;
    }
    p->int8_tiles = device->activations.data;
    p->f32_tiles = (float *)(void *)(p->int8_tiles + int8_bytes);
    if (p->weight->needs_f32) {
        device->totals_stride = (size_t)p->n * COP_PANEL_ROWS * sizeof(float);
        return cop_buffer_grow(&device->totals,
                               device->totals_stride * (size_t)device->threads);
    }
    return true;
}

bool cop_cpu_matmul(struct cop_device *device, const struct cop_weight *weight, const float *x,
                    int32_t n, const float *bias, bool accumulate, float *out)
{
    struct product p = {.device = device,
                        .weight = weight,
                        .x = x,
                        .bias = bias,
                        .out = out,
                        .n = n,
                        .n_subs = cop_panel_subs(weight->cols),
                        .accumulate = accumulate};
    assert(n >= 0);
    if (n == 0 || weight->rows == 0) {
        return true;
    }
    if (!make_room(device, &p)) {
        return false;
    }
    if (n == 1) { /* too little to share out */
        fill_tiles(&p, 0, 1);
    } else {
        cop_pool_run(device->pool, fill_tiles, &p);
    }
    deal_panels(&p);
    cop_pool_run(device->pool, run_panels, &p);
    return true;
}
