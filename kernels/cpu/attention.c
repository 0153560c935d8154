/* Attention of ragged token trees over paged keys and values.
 *
 * Neighbouring tokens of one sequence form a group, small enough that a group's queries that
 * use one key head fit in a tile of registers; a unit is (group, key head, chunk of its query
 * heads). Each key and value is thus loaded once per unit, not once per query. The arithmetic
 * of a query is stated in attention_tile.h; this file only decides where scores lie and who
 * computes them.
 *
 * A token's keys by position: the *run*, positions whose logical slot equals the position (all
 * committed ones, and as much of the path as continues them), then the *tail*, path slots
 * anywhere. The scores of a unit:
 *
 *      area: one block per 16 positions from `origin` up         extra: one block per tail page
 *      +--------+--------+--------+--------+                     +--------+--------+
 *      | run, scored densely      |tail    |  <--- gathered ---  | scored densely  |
 *      +--------+--------+--------+--------+                     +--------+--------+
 *       [block][query][16 positions]                              [page][query][16 slots]
 *
 * Three stages with a meeting of all threads between them when units are few (decoding), so
 * that the work can be cut along keys, then queries, then output dimensions; when units are
 * many (prefill), each thread takes whole units. */
#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/cpu/device.h"

#define SLOTS     COP_PAGE_SLOTS
#define SLICE     16 /* dimensions in a lane vector of values */
#define SMALL_JOB 96 /* query blocks below which other threads are not worth waking */

struct token_view {
    int32_t start, end; /* visible positions */
    int32_t run_end;    /* positions below it lie in the slot of the same number */
    int32_t tail;       /* into plan.tail_at: the place of max(start, run_end), and so on */
};

struct group {
    int32_t first, n;               /* tokens */
    int32_t origin;                 /* first position of the area, a multiple of 16 */
    int32_t n_run, n_area, n_extra; /* blocks: scored in the area; of the area; tail pages */
    int32_t common, common_end; /* blocks by absolute number, visible in whole to every token */
    int32_t extra;              /* into plan.pages */
};

struct plan {
    const struct cop_attention *in;
    struct cop_device *device;
    float *out;
    int32_t group_heads; /* query heads per key head */
    int32_t n_chunks;    /* of those, each of a tile at most */
    int32_t n_groups, n_units, n_slices;
    struct token_view *views; /* [n] */
    struct group *groups;     /* [n_groups] */
    int32_t *pages;           /* logical tail pages of all groups */
    int32_t *tail_at;         /* 16 * (page's index in its group) + slot in page */
    size_t unit_floats;       /* scores and inverse sums of the largest unit */
    size_t private_bytes;     /* of one thread */
    size_t key_block_bytes, slice_bytes;
    int64_t n_blocks; /* of all units */
    atomic_int next_unit;
};

struct unit {
    const struct group *group;
    int32_t kv_head, first_head, heads; /* query heads of this chunk */
    int32_t queries;                    /* group->n * heads, token-major */
    float *scores, *inverse;
};

/* One thread's room. */
struct room {
    float *queries;     /* [head_dim][queries] */
    const void **rows;  /* blocks, slices or value rows */
    int32_t *at;        /* where in the weights */
    float *unit_floats; /* when it takes whole units */
};

/* ---- Planning
 * --------------------------------------------------------------------------------- */

static int32_t min_of(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t max_of(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* The run of a token, given the token before it (or NULL): prefill chunks often share one path
 * array, which is then compared only once. */
static int32_t find_run_end(const struct cop_attention *in, int32_t t, const struct plan *plan)
{
    const struct cop_attention_token *token = &in->tokens[t];
    const int32_t *path = in->paths + token->path_offset;
    int32_t known = 0;
    if (t > 0) {
        const struct cop_attention_token *before = &in->tokens[t - 1];
        if (before->base == token->base && before->path_offset == token->path_offset) {
            known = min_of(plan->views[t - 1].run_end - token->base, token->path_length);
        }
    }
    while (known < token->path_length && path[known] == token->base + known) {
        known++;
    }
    return token->base + known;
}

/* The index of `page` among the group's tail pages, added if new. Paths climb, so the search
 * goes on from the last hit. */
static int32_t tail_page(int32_t *pages, int32_t *n_pages, int32_t *hint, int32_t page)
{
    for (int32_t i = 0; i < *n_pages; i++) {
        int32_t candidate = *hint + i < *n_pages ? *hint + i : *hint + i - *n_pages;
        if (pages[candidate] == page) {
            return *hint = candidate;
        }
    }
    pages[*n_pages] = page;
    return *hint = (*n_pages)++;
}

/* Fills the group's tail and returns how many entries of tail_at it took. */
static int32_t plan_tail(struct plan *plan, struct group *group, int32_t tail)
{
    const struct cop_attention *in = plan->in;
    int32_t taken = 0, hint = 0;
    for (int32_t t = group->first; t < group->first + group->n; t++) {
        struct token_view *view = &plan->views[t];
        const struct cop_attention_token *token = &in->tokens[t];
        view->tail = tail + taken;
        for (int32_t at = max_of(view->start, view->run_end); at < view->end; at++) {
            int32_t slot = in->paths[token->path_offset + at - token->base];
            int32_t page =
                tail_page(plan->pages + group->extra, &group->n_extra, &hint, slot / SLOTS);
            plan->tail_at[tail + taken++] = page * SLOTS + slot % SLOTS;
        }
    }
    return taken;
}

static void plan_area(struct plan *plan, struct group *group)
{
    int32_t least_start = INT32_MAX, most_start = 0, most_end = 0;
    int32_t least_run = INT32_MAX, most_run = 0;
    for (int32_t t = group->first; t < group->first + group->n; t++) {
        const struct token_view *view = &plan->views[t];
        least_start = min_of(least_start, view->start);
        most_start = max_of(most_start, view->start);
        least_run = min_of(least_run, view->run_end);
        most_run = max_of(most_run, view->run_end);
        most_end = max_of(most_end, view->end);
    }
    int32_t first = least_start / SLOTS;
    group->origin = first * SLOTS;
    group->n_run = max_of(0, (most_run + SLOTS - 1) / SLOTS - first);
    group->n_area = (most_end + SLOTS - 1) / SLOTS - first;
    group->common = (most_start + SLOTS - 1) / SLOTS;
    group->common_end = max_of(group->common, least_run / SLOTS);
}

static void plan_views(struct plan *plan)
{
    const struct cop_attention *in = plan->in;
    for (int32_t t = 0; t < in->n; t++) {
        const struct cop_attention_token *token = &in->tokens[t];
        assert(token->path_length >= 1);
        int32_t end = token->base + token->path_length;
        plan->views[t].end = end;
        plan->views[t].start = in->window > 0 ? max_of(0, end - in->window) : 0;
        plan->views[t].run_end = find_run_end(in, t, plan);
    }
}

/* Cuts each sequence's tokens into groups of nearly equal size. */
static void plan_groups(struct plan *plan)
{
    const struct cop_attention *in = plan->in;
    int32_t tile = plan->device->level->tile_tokens;
    int32_t largest = max_of(1, tile / plan->group_heads);
    int32_t pages = 0, tail = 0;
    for (int32_t t = 0, end; t < in->n; t = end) {
        for (end = t + 1; end < in->n && in->tokens[end].sequence == in->tokens[t].sequence;
             end++) {
        }
        int32_t n = end - t, n_parts = (n + largest - 1) / largest;
        for (int32_t part = 0; part < n_parts; part++) {
            struct group *group = &plan->groups[plan->n_groups++];
            int32_t first = (int32_t)((int64_t)n * part / n_parts);
            *group = (struct group){.first = t + first, .extra = pages};
            group->n = (int32_t)((int64_t)n * (part + 1) / n_parts) - first;
            plan_area(plan, group);
            tail += plan_tail(plan, group, tail);
            pages += group->n_extra;
        }
    }
}

/* Entries that tails may take, at most. */
static size_t count_tails(const struct plan *plan)
{
    size_t n = 0;
    for (int32_t t = 0; t < plan->in->n; t++) {
        const struct token_view *view = &plan->views[t];
        n += (size_t)max_of(0, view->end - max_of(view->start, view->run_end));
    }
    return n;
}

static void plan_sizes(struct plan *plan)
{
    const struct cop_kv_layout *layout = &plan->in->kv->layout;
    size_t most_blocks = 0, most_rows = 0;
    for (int32_t g = 0; g < plan->n_groups; g++) {
        const struct group *group = &plan->groups[g];
        size_t blocks = (size_t)(group->n_area + group->n_extra);
        size_t rows = (size_t)group->n_area * SLOTS;
        most_blocks = blocks > most_blocks ? blocks : most_blocks;
        most_rows = rows > most_rows ? rows : most_rows;
        plan->n_blocks += (group->n_run + group->n_extra) * layout->kv_heads * plan->n_chunks;
    }
    most_rows = most_blocks > most_rows ? most_blocks : most_rows;
    plan->n_units = plan->n_groups * layout->kv_heads * plan->n_chunks;
    plan->unit_floats = (most_blocks * SLOTS + 1) * COP_TILE_MAX;
    plan->private_bytes = (size_t)layout->head_dim * COP_TILE_MAX * sizeof(float) +
                          most_rows * (sizeof(void *) + sizeof(int32_t));
    plan->private_bytes = (plan->private_bytes + 63) / 64 * 64;
}

/* false: no memory */
static bool make_plan(struct plan *plan)
{
    const struct cop_attention *in = plan->in;
    const struct cop_kv_layout *layout = &in->kv->layout;
    struct cop_buffer *buffer = &plan->device->plan;
    size_t n = (size_t)in->n;
    assert(layout->kv_heads > 0 && in->heads % layout->kv_heads == 0);
    plan->group_heads = in->heads / layout->kv_heads;
    int32_t tile = plan->device->level->tile_tokens;
    plan->n_chunks = (plan->group_heads + tile - 1) / tile;
    plan->n_slices = (layout->head_dim + SLICE - 1) / SLICE;
    plan->key_block_bytes = cop_cpu_key_block_bytes(layout);
    plan->slice_bytes = SLICE * SLOTS * (layout->is_f32 ? sizeof(float) : sizeof(uint16_t));
    size_t fixed = n * (sizeof *plan->views + sizeof *plan->groups);
    if (!cop_buffer_grow(buffer, fixed)) {
        return false;
    }
    plan->views = buffer->data;
    plan_views(plan);
    size_t tails = count_tails(plan);
    if (buffer->bytes < fixed + 2 * tails * sizeof(int32_t)) {
        if (!cop_buffer_grow(buffer, fixed + 2 * tails * sizeof(int32_t))) {
            return false;
        }
        plan->views = buffer->data;
        plan_views(plan); /* growing forgets */
    }
    plan->groups = (struct group *)(plan->views + n);
    plan->pages = (int32_t *)(plan->groups + n);
    plan->tail_at = plan->pages + tails;
    plan_groups(plan);
    plan_sizes(plan);
    return true;
}

/* ---- Stages of one unit
 * ----------------------------------------------------------------------- */

static struct unit unit_at(const struct plan *plan, int32_t index, float *floats)
{
    int32_t per_group = plan->in->kv->layout.kv_heads * plan->n_chunks;
    int32_t chunk = index % per_group % plan->n_chunks;
    int32_t first = (int32_t)((int64_t)plan->group_heads * chunk / plan->n_chunks);
    int32_t end = (int32_t)((int64_t)plan->group_heads * (chunk + 1) / plan->n_chunks);
    struct unit unit = {.group = &plan->groups[index / per_group],
                        .kv_head = index % per_group / plan->n_chunks,
                        .heads = end - first,
                        .inverse = floats,
                        .scores = floats + COP_TILE_MAX};
    unit.first_head = unit.kv_head * plan->group_heads + first;
    unit.queries = unit.group->n * unit.heads;
    return unit;
}

static const uint8_t *blocks_of(const struct plan *plan, const struct unit *unit,
                                int32_t logical)
{
    const struct cop_attention *in = plan->in;
    int32_t sequence = in->tokens[unit->group->first].sequence;
    return cop_cpu_head_blocks(in->kv, in->page_tables[sequence][logical], in->layer,
                               unit->kv_head);
}

static void gather_queries(const struct plan *plan, const struct unit *unit, float *queries)
{
    const struct cop_attention *in = plan->in;
    int32_t head_dim = in->kv->layout.head_dim, query = 0;
    for (int32_t t = 0; t < unit->group->n; t++) {
        const float *from = in->q + (ptrdiff_t)(unit->group->first + t) * in->q_stride +
                            (ptrdiff_t)unit->first_head * head_dim;
        for (int32_t h = 0; h < unit->heads; h++, query++) {
            for (int32_t d = 0; d < head_dim; d++) {
                queries[(ptrdiff_t)d * unit->queries + query] = *from++;
            }
        }
    }
}

/* Scores blocks [from, end) of the unit: the run's, then the tail pages. */
static void score_blocks(const struct plan *plan, const struct unit *unit, int32_t from,
                         int32_t end, const struct room *room)
{
    const struct cop_attention *in = plan->in;
    const struct group *group = unit->group;
    cop_score_tile *score =
        plan->device->level->score_tiles[in->kv->layout.is_f32][unit->queries - 1];
    gather_queries(plan, unit, room->queries);
    int32_t run_end = min_of(end, group->n_run), at = from, n = 0;
    for (; at < run_end; at++) {
        room->rows[n++] = blocks_of(plan, unit, group->origin / SLOTS + at);
    }
    int32_t n_in_run = n;
    int32_t first_extra = max_of(from, group->n_run) - group->n_run;
    for (; at < end; at++) {
        room->rows[n++] = blocks_of(plan, unit, plan->pages[group->extra + at - group->n_run]);
    }
    ptrdiff_t block = (ptrdiff_t)unit->queries * SLOTS;
    score(room->rows, n_in_run, room->queries, in->kv->layout.head_dim, in->scale,
          unit->scores + from * block);
    score(room->rows + n_in_run, n - n_in_run, room->queries, in->kv->layout.head_dim,
          in->scale, unit->scores + (group->n_area + first_extra) * block);
}

static void soften(const struct plan *plan, const struct unit *unit, int32_t query)
{
    const struct group *group = unit->group;
    const struct token_view *view = &plan->views[group->first + query / unit->heads];
    int32_t stride = unit->queries * SLOTS;
    float *row = unit->scores + (ptrdiff_t)query * SLOTS;
    const int32_t *from = plan->tail_at + view->tail;
    for (int32_t at = max_of(view->start, view->run_end); at < view->end; at++, from++) {
        int32_t offset = at - group->origin;
        row[(ptrdiff_t)(offset / SLOTS) * stride + offset % SLOTS] =
            row[(ptrdiff_t)(group->n_area + *from / SLOTS) * stride + *from % SLOTS];
    }
    unit->inverse[query] =
        plan->device->level->softmax(row, stride, group->origin, view->start, view->end);
}

/* Adds the values at positions [from, end) of one token, one by one. */
static void add_positions(const struct plan *plan, const struct unit *unit, int32_t t,
                          int32_t from, int32_t end, int32_t slice, const struct room *room,
                          float *sums)
{
    const struct cop_attention *in = plan->in;
    const struct group *group = unit->group;
    const struct cop_attention_token *token = &in->tokens[group->first + t];
    size_t row_bytes = plan->slice_bytes / SLOTS;
    int32_t n = 0;
    for (int32_t at = from; at < end; at++, n++) {
        int32_t slot = at < token->base ? at : in->paths[token->path_offset + at - token->base];
        room->rows[n] = blocks_of(plan, unit, slot / SLOTS) + plan->key_block_bytes +
                        (size_t)(slot % SLOTS) * row_bytes;
        int32_t offset = at - group->origin;
        room->at[n] = offset / SLOTS * unit->queries * SLOTS + offset % SLOTS;
    }
    int32_t query = t * unit->heads;
    plan->device->level->add_values(
        in->kv->layout.is_f32, room->rows, room->at, n, slice * (int32_t)plan->slice_bytes,
        unit->heads, unit->scores + (ptrdiff_t)query * SLOTS, sums + (ptrdiff_t)query * SLICE);
}

static void write_slice(const struct plan *plan, const struct unit *unit, int32_t slice,
                        const float *sums)
{
    const struct cop_attention *in = plan->in;
    int32_t head_dim = in->kv->layout.head_dim;
    int32_t width = min_of(SLICE, head_dim - slice * SLICE);
    for (int32_t query = 0; query < unit->queries; query++) {
        ptrdiff_t token = unit->group->first + query / unit->heads;
        ptrdiff_t head = unit->first_head + query % unit->heads;
        float *to = plan->out + (token * in->heads + head) * head_dim + slice * SLICE;
        for (int32_t i = 0; i < width; i++) {
            to[i] = sums[query * SLICE + i] * unit->inverse[query];
        }
    }
}

static void add_slice(const struct plan *plan, const struct unit *unit, int32_t slice,
                      const struct room *room)
{
    const struct group *group = unit->group;
    const struct cop_level *level = plan->device->level;
    bool has_common = group->common < group->common_end;
    _Alignas(64) float sums[COP_TILE_MAX * SLICE];
    memset(sums, 0, (size_t)unit->queries * SLICE * sizeof *sums);
    if (has_common) {
        for (int32_t t = 0; t < group->n; t++) {
            int32_t start = plan->views[group->first + t].start;
            add_positions(plan, unit, t, start, group->common * SLOTS, slice, room, sums);
        }
        int32_t n = 0;
        for (int32_t block = group->common; block < group->common_end; block++) {
            room->rows[n++] = blocks_of(plan, unit, block) + plan->key_block_bytes +
                              (size_t)slice * plan->slice_bytes;
        }
        ptrdiff_t skipped = group->common - group->origin / SLOTS;
        level->value_tiles[plan->in->kv->layout.is_f32][unit->queries - 1](
            room->rows, n, unit->scores + skipped * unit->queries * SLOTS, sums);
    }
    for (int32_t t = 0; t < group->n; t++) {
        const struct token_view *view = &plan->views[group->first + t];
        int32_t from = has_common ? group->common_end * SLOTS : view->start;
        add_positions(plan, unit, t, from, view->end, slice, room, sums);
    }
    write_slice(plan, unit, slice, sums);
}

/* ---- Sharing out
 * ------------------------------------------------------------------------------ */

static struct room room_of(const struct plan *plan, int32_t rank, size_t shared_floats)
{
    const struct cop_kv_layout *layout = &plan->in->kv->layout;
    uint8_t *at = (uint8_t *)plan->device->scores.data + shared_floats * sizeof(float) +
                  (size_t)rank * plan->private_bytes;
    struct room room = {.queries = (float *)(void *)at};
    at += (size_t)layout->head_dim * COP_TILE_MAX * sizeof(float);
    size_t most_rows =
        (plan->private_bytes - (size_t)layout->head_dim * COP_TILE_MAX * sizeof(float)) /
        (sizeof(void *) + sizeof(int32_t));
    room.rows = (const void **)(void *)at;
    room.at = (int32_t *)(void *)(at + most_rows * sizeof(void *));
    room.unit_floats = (float *)plan->device->scores.data + (size_t)rank * plan->unit_floats;
    return room;
}

/* Takes whole units, the last (longest context) first. */
static void take_units(void *arg, int32_t rank, int32_t size)
{
    (void)size;
    struct plan *plan = arg;
    struct room room = room_of(plan, rank, (size_t)plan->device->threads * plan->unit_floats);
    int32_t index;
    while ((index = atomic_fetch_sub(&plan->next_unit, 1)) >= 0) {
        struct unit unit = unit_at(plan, index, room.unit_floats);
        score_blocks(plan, &unit, 0, unit.group->n_run + unit.group->n_extra, &room);
        for (int32_t query = 0; query < unit.queries; query++) {
            soften(plan, &unit, query);
        }
        for (int32_t slice = 0; slice < plan->n_slices; slice++) {
            add_slice(plan, &unit, slice, &room);
        }
    }
}

/* The part of [0, n) that lies in this thread's share of `total`, of which [0, n) starts at
 * `done`. */
static void share_of(int64_t total, int32_t rank, int32_t size, int64_t done, int32_t n,
                     int32_t *from, int32_t *end)
{
    int64_t low = total * rank / size - done, high = total * (rank + 1) / size - done;
    *from = (int32_t)(low < 0 ? 0 : low > n ? n : low);
    *end = (int32_t)(high < 0 ? 0 : high > n ? n : high);
}

static struct unit shared_unit(const struct plan *plan, int32_t index)
{
    float *floats = (float *)plan->device->scores.data + (size_t)index * plan->unit_floats;
    return unit_at(plan, index, floats);
}

static void score_share(const struct plan *plan, int32_t rank, int32_t size,
                        const struct room *room)
{
    int64_t done = 0;
    for (int32_t index = 0; index < plan->n_units; index++) {
        struct unit unit = shared_unit(plan, index);
        int32_t from, end, n = unit.group->n_run + unit.group->n_extra;
        share_of(plan->n_blocks, rank, size, done, n, &from, &end);
        if (from < end) {
            score_blocks(plan, &unit, from, end, room);
        }
        done += n;
    }
}

static void soften_share(const struct plan *plan, int32_t rank, int32_t size)
{
    int64_t total = (int64_t)plan->in->n * plan->in->heads, done = 0;
    for (int32_t index = 0; index < plan->n_units; index++) {
        struct unit unit = shared_unit(plan, index);
        int32_t from, end;
        share_of(total, rank, size, done, unit.queries, &from, &end);
        for (int32_t query = from; query < end; query++) {
            soften(plan, &unit, query);
        }
        done += unit.queries;
    }
}

static void add_share(const struct plan *plan, int32_t rank, int32_t size,
                      const struct room *room)
{
    int64_t total = (int64_t)plan->n_units * plan->n_slices;
    for (int64_t at = total * rank / size; at < total * (rank + 1) / size; at++) {
        struct unit unit = shared_unit(plan, (int32_t)(at / plan->n_slices));
        add_slice(plan, &unit, (int32_t)(at % plan->n_slices), room);
    }
}

/* Works on every unit together with the other threads. */
static void share_units(void *arg, int32_t rank, int32_t size)
{
    struct plan *plan = arg;
    struct room room = room_of(plan, rank, (size_t)plan->n_units * plan->unit_floats);
    score_share(plan, rank, size, &room);
    cop_pool_barrier(plan->device->pool);
    soften_share(plan, rank, size);
    cop_pool_barrier(plan->device->pool);
    add_share(plan, rank, size, &room);
}

bool cop_cpu_attention(struct cop_device *device, const struct cop_attention *in, float *out)
{
    struct plan plan = {.in = in, .device = device, .out = out};
    if (in->n == 0) {
        return true;
    }
    if (!make_plan(&plan)) {
        return false;
    }
    int64_t work = plan.n_blocks * in->n * in->heads / plan.n_units;
    int32_t threads = work < SMALL_JOB ? 1 : device->threads;
    bool is_shared = threads > 1 && plan.n_units < 3 * threads;
    size_t floats = plan.unit_floats * (size_t)(is_shared ? plan.n_units : device->threads);
    size_t private_bytes = plan.private_bytes * (size_t)device->threads;
    if (!cop_buffer_grow(&device->scores, floats * sizeof(float) + private_bytes)) {
        return false;
    }
    atomic_init(&plan.next_unit, plan.n_units - 1);
    if (threads == 1) {
        take_units(&plan, 0, 1);
    } else {
        cop_pool_run(device->pool, is_shared ? share_units : take_units, &plan);
    }
    return true;
}
