/* Products of two tables of floats that change with every use: both are packed for the tiles of
 * table.h first, the left one as blocks of 32 rows, the right one as tiles of tokens, which is
 * the same order, [k][32] and [k][tokens], from either side.
 *
 * One product alone is shared out by its blocks, which a thread packs just before it multiplies
 * them; of several, each thread takes whole ones. No sum depends on which. */
#include <stdatomic.h>
#include <string.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/product/panel.h"

#define LINE         64
#define TILES_TAKEN  4  /* to pack, by a thread at a time */
#define STRETCH_SUBS 4  /* sub-blocks of a block that stay in the first cache */
#define AHEAD        64 /* floats of a line, from which packing asks for memory */
#define TILES_AHEAD  2  /* of a block's, whose place in the result is asked for */
#define LINES_AHEAD  20 /* likewise, where it goes from line to line */

struct room {
    float *tiles;          /* of one product */
    float *block, *totals; /* of a thread */
};

struct job {
    struct cop_device *device;
    const struct cop_multiplication *list;
    int32_t n;
    size_t block_bytes, tile_bytes, totals_bytes; /* the most that one of them needs */
    atomic_int next;
};

static size_t whole_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static size_t depth_of(const struct cop_multiplication *m)
{
    return (size_t)cop_panel_subs(m->depth) * COP_PANEL_COLS;
}

static int32_t blocks_of(const struct cop_multiplication *m)
{
    return (m->rows + COP_BLOCK_ROWS - 1) / COP_BLOCK_ROWS;
}

static int32_t tiles_of(const struct job *job, const struct cop_multiplication *m)
{
    int32_t largest = job->device->level->table_tokens;
    return (m->n + largest - 1) / largest;
}

/* ---- Packing -------------------------------------------------------------------------------
 */

typedef float four __attribute__((vector_size(16)));

static inline four load(const float *from)
{
    four v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline void store(float *to, four v)
{
    memcpy(to, &v, sizeof v);
}

/* Four entries of four lines. */
static inline void turn(const float *from, ptrdiff_t stride, int32_t lanes, float *out)
{
    four a = load(from), b = load(from + stride);
    four c = load(from + 2 * stride), d = load(from + 3 * stride);
    four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    four cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    four ab_behind = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    four cd_behind = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store(out, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
    store(out + lanes, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
    store(out + 2 * lanes, __builtin_shufflevector(ab_behind, cd_behind, 0, 1, 4, 5));
    store(out + 3 * lanes, __builtin_shufflevector(ab_behind, cd_behind, 2, 3, 6, 7));
}

/* Lines whose entries are neighbours: by fours, a cache line of each at a time. */
static void pack_lines(const struct cop_factor *factor, int32_t first, int32_t count,
                       int32_t lanes, int32_t depth, float *out)
{
    enum { AT_ONCE = LINE / (int)sizeof(float) };
    const float *from = factor->data + first * factor->line_stride;
    const int32_t even = count - count % 4, even_depth = depth - depth % 4;
    for (int32_t start = 0; start < even_depth; start += AT_ONCE) {
        int32_t end = smaller(start + AT_ONCE, even_depth);
        for (int32_t i = 0; i < even; i += 4) {
            for (int32_t line = i; line < i + 4; line++) {
                __builtin_prefetch(from + line * factor->line_stride + start + AHEAD);
            }
            for (int32_t k = start; k < end; k += 4) {
                turn(from + i * factor->line_stride + k, factor->line_stride, lanes,
                     out + (ptrdiff_t)k * lanes + i);
            }
        }
    }
    for (int32_t i = 0; i < count; i++) {
        for (int32_t k = i < even ? even_depth : 0; k < depth; k++) {
            out[(ptrdiff_t)k * lanes + i] = from[i * factor->line_stride + k];
        }
    }
}

/* Neighbours are the entries of one place. */
static void pack_entries(const struct cop_factor *factor, int32_t first, int32_t count,
                         int32_t lanes, int32_t depth, float *out)
{
    const float *from = factor->data + first;
    for (int32_t k = 0; k < depth; k++, from += factor->entry_stride, out += lanes) {
        int32_t i = 0;
        __builtin_prefetch(from + LINES_AHEAD * factor->entry_stride);
        __builtin_prefetch(from + LINES_AHEAD * factor->entry_stride + count - 1);
        for (; i + 4 <= count; i += 4) {
            store(out + i, load(from + i));
        }
        for (; i < count; i++) {
            out[i] = from[i];
        }
    }
}

/* Lines [first, first + count) of a factor as [depth][lanes], padded with zeros. */
static void pack(const struct cop_factor *factor, int32_t first, int32_t count, int32_t lanes,
                 int32_t depth, float *out)
{
    int32_t padded = cop_panel_subs(depth) * COP_PANEL_COLS;
    if (factor->entry_stride == 1) {
        pack_lines(factor, first, count, lanes, depth, out);
    } else {
        pack_entries(factor, first, count, lanes, depth, out);
    }
    for (int32_t k = 0; count < lanes && k < depth; k++) {
        memset(out + (ptrdiff_t)k * lanes + count, 0, (size_t)(lanes - count) * sizeof *out);
    }
    memset(out + (ptrdiff_t)depth * lanes, 0,
           (size_t)(padded - depth) * (size_t)lanes * sizeof *out);
}

static void pack_block(const struct cop_multiplication *m, const struct room *room,
                       int32_t block)
{
    int32_t first = block * COP_BLOCK_ROWS;
    pack(&m->left, first, smaller(m->rows - first, COP_BLOCK_ROWS), COP_BLOCK_ROWS, m->depth,
         room->block);
}

static void pack_tile(const struct job *job, const struct cop_multiplication *m,
                      const struct room *room, int32_t tile)
{
    int32_t largest = job->device->level->table_tokens, first = tile * largest;
    int32_t count = smaller(m->n - first, largest);
    pack(&m->right, first, count, count, m->depth, room->tiles + (size_t)first * depth_of(m));
}

/* ---- Multiplying ---------------------------------------------------------------------------
 */

/* The part of the result that a block and a tile make. */
struct patch {
    float *out;
    int32_t rows, tokens;
};

static struct patch patch_of(const struct job *job, const struct cop_multiplication *m,
                             int32_t block, int32_t tile)
{
    int32_t largest = job->device->level->table_tokens;
    int32_t row = block * COP_BLOCK_ROWS, token = tile * largest;
    return (struct patch){m->out + token * m->out_stride + row,
                          smaller(m->rows - row, COP_BLOCK_ROWS),
                          smaller(m->n - token, largest)};
}

/* Its lines are asked for while other tiles are multiplied. */
static void fetch(const struct job *job, const struct cop_multiplication *m, int32_t block,
                  int32_t tile)
{
    const struct patch patch = patch_of(job, m, block, tile);
    for (int32_t t = 0; t < patch.tokens; t++) {
        const float *out = patch.out + t * m->out_stride;
        __builtin_prefetch(out, 1);
        __builtin_prefetch(out + patch.rows - 1, 1);
    }
}

typedef float whole __attribute__((vector_size(4 * COP_BLOCK_ROWS)));

static void write_patch(const struct cop_multiplication *m, const struct patch *patch,
                        const float *totals)
{
    for (int32_t t = 0; t < patch->tokens; t++, totals += COP_BLOCK_ROWS) {
        float *out = patch->out + t * m->out_stride;
        if (patch->rows < COP_BLOCK_ROWS) {
            for (int32_t r = 0; r < patch->rows; r++) {
                out[r] = m->accumulate ? out[r] + totals[r] : totals[r];
            }
        } else if (m->accumulate) {
            whole sum, more;
            memcpy(&sum, out, sizeof sum);
            memcpy(&more, totals, sizeof more);
            sum += more;
            memcpy(out, &sum, sizeof sum);
        } else {
            memcpy(out, totals, sizeof(whole));
        }
    }
}

static void run_block(const struct job *job, const struct cop_multiplication *m,
                      const struct room *room, int32_t block)
{
    int32_t n_subs = cop_panel_subs(m->depth), n_tiles = tiles_of(job, m);
    int32_t largest = job->device->level->table_tokens;
    int32_t n_stretches = (n_subs + STRETCH_SUBS - 1) / STRETCH_SUBS;
    pack_block(m, room, block);
    memset(room->totals, 0, (size_t)m->n * COP_BLOCK_ROWS * sizeof(float));
    for (int32_t stretch = 0; stretch < n_stretches; stretch++) {
        int32_t sub = n_subs * stretch / n_stretches;
        int32_t count = n_subs * (stretch + 1) / n_stretches - sub;
        bool is_last = stretch + 1 == n_stretches;
        ptrdiff_t k = (ptrdiff_t)sub * COP_PANEL_COLS;
        for (int32_t tile = 0; tile < n_tiles; tile++) {
            const struct patch patch = patch_of(job, m, block, tile);
            size_t token = (size_t)tile * (size_t)largest;
            float *totals = room->totals + token * COP_BLOCK_ROWS;
            if (is_last && tile + TILES_AHEAD < n_tiles) {
                fetch(job, m, block, tile + TILES_AHEAD);
            }
            job->device->level->table_tiles[patch.tokens - 1](
                room->block + k * COP_BLOCK_ROWS, count,
                room->tiles + token * depth_of(m) + k * patch.tokens, totals);
            if (is_last) {
                write_patch(m, &patch, totals);
            }
        }
    }
}

/* tiles_rank: of the tiles, which the threads share where there is one product. */
static struct room room_of(const struct job *job, int32_t rank, int32_t tiles_rank)
{
    char *own = (char *)job->device->totals.data +
                (size_t)rank * (job->block_bytes + job->totals_bytes);
    char *tiles = (char *)job->device->activations.data + (size_t)tiles_rank * job->tile_bytes;
    return (struct room){.tiles = (float *)(void *)tiles,
                         .block = (float *)(void *)own,
                         .totals = (float *)(void *)(own + job->block_bytes)};
}

static void pack_tiles(void *arg, int32_t rank, int32_t size)
{
    struct job *job = arg;
    (void)size;
    const struct room room = room_of(job, rank, 0);
    int32_t all = tiles_of(job, job->list);
    for (int32_t i; (i = atomic_fetch_add(&job->next, TILES_TAKEN)) < all;) {
        for (int32_t k = i; k < all && k < i + TILES_TAKEN; k++) {
            pack_tile(job, job->list, &room, k);
        }
    }
}

static void run_blocks(void *arg, int32_t rank, int32_t size)
{
    struct job *job = arg;
    (void)size;
    const struct room room = room_of(job, rank, 0);
    int32_t all = blocks_of(job->list);
    for (int32_t i; (i = atomic_fetch_add(&job->next, 1)) < all;) {
        run_block(job, job->list, &room, i);
    }
}

static void run_whole(void *arg, int32_t rank, int32_t size)
{
    struct job *job = arg;
    (void)size;
    const struct room room = room_of(job, rank, rank);
    for (int32_t i; (i = atomic_fetch_add(&job->next, 1)) < job->n;) {
        const struct cop_multiplication *m = &job->list[i];
        int32_t n_blocks = blocks_of(m), n_tiles = tiles_of(job, m);
        for (int32_t k = 0; k < n_tiles; k++) {
            pack_tile(job, m, &room, k);
        }
        for (int32_t k = 0; k < n_blocks; k++) {
            run_block(job, m, &room, k);
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
        size_t line = depth_of(&list[i]) * sizeof(float), tokens = (size_t)list[i].n;
        job.block_bytes = larger(job.block_bytes, COP_BLOCK_ROWS * line);
        job.tile_bytes = larger(job.tile_bytes, whole_lines(tokens * line));
        job.totals_bytes = larger(job.totals_bytes, tokens * COP_BLOCK_ROWS * sizeof(float));
    }
    size_t threads = (size_t)device->threads;
    if (!cop_buffer_grow(&device->activations, (n > 1 ? threads : 1) * job.tile_bytes) ||
        !cop_buffer_grow(&device->totals, threads * (job.block_bytes + job.totals_bytes))) {
        return false;
    }
    if (n > 1) {
        cop_pool_run(device->pool, run_whole, &job);
    } else if (n == 1) {
        cop_pool_run(device->pool, pack_tiles, &job);
        atomic_store(&job.next, 0);
        cop_pool_run(device->pool, run_blocks, &job);
    }
    return true;
}
