/* Products of two tables of floats that change with every use: both are packed for the f32
 * tiles of product_f32.h first, the left one as panels of 16 rows, the right one as tiles of
 * tokens, which is the same order, [k][16] and [k][tokens], from either side.
 *
 * One product alone is shared out by its panels; of several, each thread takes whole ones. No
 * sum depends on which. */
#include <stdatomic.h>
#include <string.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/product/panel.h"

#define LINE         64
#define PANELS_TAKEN 2 /* of one product, by a thread at a time */

struct room { /* of one product */
    float *panels, *tiles, *totals;
};

struct job {
    struct cop_device *device;
    const struct cop_multiplication *list;
    int32_t n;
    size_t panel_bytes, tile_bytes, totals_bytes; /* the most that one of them needs */
    atomic_int next;
};

static size_t whole_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static size_t depth_of(const struct cop_multiplication *m)
{
    return (size_t)cop_panel_subs(m->depth) * COP_PANEL_COLS;
}

static int32_t panels_of(const struct cop_multiplication *m)
{
    return (m->rows + COP_PANEL_ROWS - 1) / COP_PANEL_ROWS;
}

static int32_t tiles_of(const struct job *job, const struct cop_multiplication *m)
{
    int32_t largest = job->device->level->tile_tokens;
    return (m->n + largest - 1) / largest;
}

static int32_t tile_start(const struct job *job, const struct cop_multiplication *m,
                          int32_t tile)
{
    return (int32_t)((int64_t)m->n * tile / tiles_of(job, m));
}

/* ---- Packing -------------------------------------------------------------------------------
 */

/* Lines [first, first + count) of a factor as [depth][lanes], padded with zeros. */
static void pack(const struct cop_level *level, const struct cop_factor *factor, int32_t first,
                 int32_t count, int32_t lanes, int32_t depth, float *out)
{
    const float *from = factor->data + first * factor->line_stride;
    int32_t padded = cop_panel_subs(depth) * COP_PANEL_COLS;
    if (count == lanes && factor->entry_stride == 1) {
        level->interleave(from, (int32_t)factor->line_stride, count, depth, out);
        return;
    }
    for (int32_t k = 0; k < depth; k++, out += lanes) {
        const float *entry = from + k * factor->entry_stride;
        if (count == COP_PANEL_ROWS && factor->line_stride == 1) {
            memcpy(out, entry, COP_PANEL_ROWS * sizeof *out); /* one vector */
            continue;
        }
        for (int32_t i = 0; i < lanes; i++) {
            out[i] = i < count ? entry[i * factor->line_stride] : 0;
        }
    }
    memset(out, 0, (size_t)(padded - depth) * (size_t)lanes * sizeof *out);
}

static void pack_panel(const struct job *job, const struct cop_multiplication *m,
                       const struct room *room, int32_t panel)
{
    int32_t first = panel * COP_PANEL_ROWS, left = m->rows - first;
    pack(job->device->level, &m->left, first, left < COP_PANEL_ROWS ? left : COP_PANEL_ROWS,
         COP_PANEL_ROWS, m->depth, room->panels + (size_t)first * depth_of(m));
}

static void pack_tile(const struct job *job, const struct cop_multiplication *m,
                      const struct room *room, int32_t tile)
{
    int32_t first = tile_start(job, m, tile), count = tile_start(job, m, tile + 1) - first;
    pack(job->device->level, &m->right, first, count, count, m->depth,
         room->tiles + (size_t)first * depth_of(m));
}

/* ---- Multiplying ---------------------------------------------------------------------------
 */

static void write_panel(const struct cop_multiplication *m, int32_t panel, const float *totals)
{
    int32_t first = panel * COP_PANEL_ROWS, left = m->rows - first;
    int32_t rows = left < COP_PANEL_ROWS ? left : COP_PANEL_ROWS;
    for (int32_t t = 0; t < m->n; t++, totals += COP_PANEL_ROWS) {
        float *out = m->out + t * m->out_stride + first;
        if (m->accumulate && rows == COP_PANEL_ROWS) {
            float sums[COP_PANEL_ROWS];
            memcpy(sums, out, sizeof sums);
            for (int32_t r = 0; r < COP_PANEL_ROWS; r++) {
                sums[r] += totals[r];
            }
            memcpy(out, sums, sizeof sums);
        } else if (m->accumulate) {
            for (int32_t r = 0; r < rows; r++) {
                out[r] += totals[r];
            }
        } else if (rows == COP_PANEL_ROWS) {
            memcpy(out, totals, COP_PANEL_ROWS * sizeof *out);
        } else {
            memcpy(out, totals, (size_t)rows * sizeof *out);
        }
    }
}

static void run_panel(const struct job *job, const struct cop_multiplication *m,
                      const struct room *room, int32_t panel)
{
    int32_t n_subs = cop_panel_subs(m->depth), n_tiles = tiles_of(job, m);
    const float *weights = room->panels + (size_t)panel * COP_PANEL_ROWS * depth_of(m);
    memset(room->totals, 0, (size_t)m->n * COP_PANEL_ROWS * sizeof(float));
    for (int32_t sub = 0; sub < n_subs; sub += COP_STRETCH_SUBS) {
        int32_t left = n_subs - sub, count = left < COP_STRETCH_SUBS ? left : COP_STRETCH_SUBS;
        ptrdiff_t k = (ptrdiff_t)sub * COP_PANEL_COLS;
        for (int32_t tile = 0; tile < n_tiles; tile++) {
            int32_t first = tile_start(job, m, tile);
            int32_t tokens = tile_start(job, m, tile + 1) - first;
            const float *x = room->tiles + (size_t)first * depth_of(m) + k * tokens;
            job->device->level->f32_tiles[tokens - 1](weights + k * COP_PANEL_ROWS, count, x,
                                                      room->totals +
                                                          (ptrdiff_t)first * COP_PANEL_ROWS);
        }
    }
    write_panel(m, panel, room->totals);
}

static struct room room_of(const struct job *job, int32_t rank, int32_t totals_rank)
{
    struct cop_device *device = job->device;
    size_t stride = job->panel_bytes + job->tile_bytes;
    char *at = (char *)device->activations.data + (size_t)rank * stride;
    return (struct room){.panels = (float *)(void *)at,
                         .tiles = (float *)(void *)(at + job->panel_bytes),
                         .totals = (float *)(void *)((char *)device->totals.data +
                                                     (size_t)totals_rank * job->totals_bytes)};
}

static void pack_one(void *arg, int32_t rank, int32_t size)
{
    struct job *job = arg;
    (void)rank, (void)size;
    const struct room room = room_of(job, 0, 0);
    int32_t n_panels = panels_of(job->list), all = n_panels + tiles_of(job, job->list);
    for (int32_t i; (i = atomic_fetch_add(&job->next, PANELS_TAKEN)) < all;) {
        for (int32_t k = i; k < all && k < i + PANELS_TAKEN; k++) {
            if (k < n_panels) {
                pack_panel(job, job->list, &room, k);
            } else {
                pack_tile(job, job->list, &room, k - n_panels);
            }
        }
    }
}

static void run_one(void *arg, int32_t rank, int32_t size)
{
    struct job *job = arg;
    (void)size;
    const struct room room = room_of(job, 0, rank);
    int32_t all = panels_of(job->list);
    for (int32_t i; (i = atomic_fetch_add(&job->next, PANELS_TAKEN)) < all;) {
        for (int32_t k = i; k < all && k < i + PANELS_TAKEN; k++) {
            run_panel(job, job->list, &room, k);
        }
    }
}

static void run_whole(void *arg, int32_t rank, int32_t size)
{
    struct job *job = arg;
    (void)size;
    const struct room room = room_of(job, rank, rank);
    for (int32_t i; (i = atomic_fetch_add(&job->next, 1)) < job->n;) {
        const struct cop_multiplication *m = &job->list[i];
        int32_t n_panels = panels_of(m), n_tiles = tiles_of(job, m);
        for (int32_t k = 0; k < n_tiles; k++) {
            pack_tile(job, m, &room, k);
        }
        for (int32_t k = 0; k < n_panels; k++) {
            pack_panel(job, m, &room, k);
            run_panel(job, m, &room, k);
        }
    }
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

bool cop_cpu_multiply(struct cop_device *device, const struct cop_multiplication *list,
                      int32_t n)
{
    struct job job = {.device = device, .list = list, .n = n};
    for (int32_t i = 0; i < n; i++) {
        size_t line = depth_of(&list[i]) * sizeof(float);
        size_t rows = (size_t)panels_of(&list[i]) * COP_PANEL_ROWS;
        job.panel_bytes = larger(job.panel_bytes, whole_lines(rows * line));
        job.tile_bytes = larger(job.tile_bytes, whole_lines((size_t)list[i].n * line));
        job.totals_bytes =
            larger(job.totals_bytes, (size_t)list[i].n * COP_PANEL_ROWS * sizeof(float));
    }
    size_t threads = (size_t)device->threads, rooms = n > 1 ? threads : 1;
    if (!cop_buffer_grow(&device->activations, rooms * (job.panel_bytes + job.tile_bytes)) ||
        !cop_buffer_grow(&device->totals, threads * job.totals_bytes)) {
        return false;
    }
    if (n > 1) {
        cop_pool_run(device->pool, run_whole, &job);
    } else if (n == 1) {
        cop_pool_run(device->pool, pack_one, &job);
        atomic_store(&job.next, 0);
        cop_pool_run(device->pool, run_one, &job);
    }
    return true;
}
