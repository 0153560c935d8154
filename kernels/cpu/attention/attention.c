/* Attention of ragged token trees over paged keys and values.
 *
 * Neighbouring tokens of one sequence form a group, small enough that a group's queries that
 * use one key head fit in a tile of registers; a unit is (group, key head, chunk of its query
 * heads). Each key and value is thus loaded once per unit, not once per query. The arithmetic
 * of a query is stated in attention_tile.h, which keys it has is found by attention_plan.c;
 * this file fills scores and decides who computes them.
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
 * Three stages when units are few (decoding), each shared out by itself, so that the work can
 * be cut along keys, then queries, then output dimensions; when units are many or fall evenly
 * to the threads, each thread takes whole units. */
#include <string.h>

#include "kernels/cpu/attention/attention_plan.h"

#define SMALL_JOB  96 /* query blocks below which other threads are not worth waking */
#define MANY_UNITS 3  /* per thread: enough to share out one by one */

struct unit {
    const struct group *group;
    int32_t index, kv_head;
    int32_t first_head, heads; /* query heads of this chunk */
    int32_t queries;           /* group->n * heads, token-major */
    float *scores, *inverse;
};

/* One thread's room. */
struct room {
    float *queries;    /* [head_dim][queries] */
    const void **rows; /* values that are added one by one, all tokens of a unit */
    int32_t *at;       /* where their weights lie */
    int32_t
        row_ends[2 * COP_TILE_MAX]; /* by token: rows before the common blocks, rows after */
    int32_t rows_of;                /* the unit whose rows these are; -1: none */
    float *unit_floats;             /* when it takes whole units */
};

/* ---- Stages of one unit
 * ----------------------------------------------------------------------- */

static struct unit unit_at(const struct cop_attention_plan *plan, int32_t index, float *floats)
{
    int32_t part = index / plan->n_groups, chunk = part % plan->n_chunks;
    int32_t first = (int32_t)((int64_t)plan->group_heads * chunk / plan->n_chunks);
    int32_t end = (int32_t)((int64_t)plan->group_heads * (chunk + 1) / plan->n_chunks);
    struct unit unit = {.group = &plan->groups[index % plan->n_groups],
                        .index = index,
                        .kv_head = part / plan->n_chunks,
                        .heads = end - first,
                        .inverse = floats,
                        .scores = floats + COP_TILE_MAX};
    unit.first_head = unit.kv_head * plan->group_heads + first;
    unit.queries = unit.group->n * unit.heads;
    return unit;
}

static void gather_queries(const struct cop_attention_plan *plan, const struct unit *unit,
                           float *queries)
{
    const struct cop_attention *in = plan->in;
    int32_t head_dim = in->kv->layout.head_dim, query = 0;
    for (int32_t t = 0; t < unit->group->n; t++) {
        const float *from = in->q + (ptrdiff_t)(unit->group->first + t) * in->q_stride +
                            (ptrdiff_t)unit->first_head * head_dim;
        for (int32_t h = 0; h < unit->heads; h++, query++) {
            float *to = queries + query;
            for (int32_t d = 0; d < head_dim; d++, to += unit->queries) {
                *to = *from++;
            }
        }
    }
}

/* Scores blocks [from, end) of the unit: the run's, then the tail pages. */
static void score_blocks(const struct cop_attention_plan *plan, const struct unit *unit,
                         int32_t from, int32_t end, const struct room *room)
{
    const struct cop_attention *in = plan->in;
    const struct group *group = unit->group;
    int32_t head_dim = in->kv->layout.head_dim, run_end = min_of(end, group->n_run);
    size_t offset = (size_t)unit->kv_head * plan->head_bytes;
    ptrdiff_t block = (ptrdiff_t)unit->queries * SLOTS;
    cop_score_tile *score =
        plan->device->level->score_tiles[in->kv->layout.is_f32][unit->queries - 1];
    gather_queries(plan, unit, room->queries);
    if (from < run_end) {
        score(group->blocks + group->origin / SLOTS + from, run_end - from, offset,
              room->queries, head_dim, in->scale, unit->scores + from * block);
    }
    int32_t extra = max_of(0, from - group->n_run), extra_end = end - group->n_run;
    if (extra < extra_end) {
        score(plan->extra_blocks + group->extra + extra, extra_end - extra, offset,
              room->queries, head_dim, in->scale,
              unit->scores + (group->n_area + extra) * block);
    }
}

static void soften(const struct cop_attention_plan *plan, const struct unit *unit,
                   int32_t query)
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

/* Lists the value rows of positions [from, end) of a token behind the n that are there. */
static int32_t list_rows(const struct cop_attention_plan *plan, const struct unit *unit,
                         int32_t t, int32_t from, int32_t end, struct room *room, int32_t n)
{
    const struct group *group = unit->group;
    const struct cop_attention_token *token = &plan->in->tokens[group->first + t];
    const int32_t *path = plan->in->paths + token->path_offset;
    size_t offset = (size_t)unit->kv_head * plan->head_bytes + plan->key_block_bytes;
    size_t row_bytes = plan->slice_bytes / SLOTS;
    for (int32_t at = from; at < end; at++, n++) {
        int32_t slot = at < token->base ? at : path[at - token->base];
        room->rows[n] =
            group->blocks[slot / SLOTS] + offset + (size_t)(slot % SLOTS) * row_bytes;
        int32_t place = at - group->origin;
        room->at[n] = place / SLOTS * unit->queries * SLOTS + place % SLOTS;
    }
    return n;
}

/* The values that are not in common blocks, token by token: those before, those after. */
static void list_unit_rows(const struct cop_attention_plan *plan, const struct unit *unit,
                           struct room *room)
{
    const struct group *group = unit->group;
    bool has_common = group->common < group->common_end;
    int32_t n = 0;
    if (room->rows_of == unit->index) {
        return;
    }
    for (int32_t t = 0; t < group->n; t++) {
        const struct token_view *view = &plan->views[group->first + t];
        int32_t start = view->start;
        if (has_common) {
            n = list_rows(plan, unit, t, start, group->common * SLOTS, room, n);
            start = group->common_end * SLOTS;
        }
        room->row_ends[2 * t] = n;
        n = list_rows(plan, unit, t, start, view->end, room, n);
        room->row_ends[2 * t + 1] = n;
    }
    room->rows_of = unit->index;
}

static void add_rows(const struct cop_attention_plan *plan, const struct unit *unit,
                     int32_t slice, int which, const struct room *room, float *sums)
{
    size_t offset = (size_t)slice * plan->slice_bytes;
    for (int32_t t = 0; t < unit->group->n; t++) {
        int32_t list = 2 * t + which, from = list > 0 ? room->row_ends[list - 1] : 0;
        int32_t n = room->row_ends[list] - from;
        ptrdiff_t query = (ptrdiff_t)t * unit->heads;
        if (n > 0) {
            plan->device->level->add_values(plan->in->kv->layout.is_f32, room->rows + from,
                                            room->at + from, n, offset, unit->heads,
                                            unit->scores + query * SLOTS, sums + query * SLICE);
        }
    }
}

static void write_slice(const struct cop_attention_plan *plan, const struct unit *unit,
                        int32_t slice, const float *sums)
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

static void add_slice(const struct cop_attention_plan *plan, const struct unit *unit,
                      int32_t slice, struct room *room)
{
    const struct group *group = unit->group;
    _Alignas(64) float sums[COP_TILE_MAX * SLICE];
    memset(sums, 0, (size_t)unit->queries * SLICE * sizeof *sums);
    list_unit_rows(plan, unit, room);
    add_rows(plan, unit, slice, 0, room, sums);
    if (group->common < group->common_end) {
        size_t offset = (size_t)unit->kv_head * plan->head_bytes + plan->key_block_bytes +
                        (size_t)slice * plan->slice_bytes;
        ptrdiff_t skipped = group->common - group->origin / SLOTS;
        plan->device->level->value_tiles[plan->in->kv->layout.is_f32][unit->queries - 1](
            group->blocks + group->common, group->common_end - group->common, offset,
            unit->scores + skipped * unit->queries * SLOTS, sums);
    }
    add_rows(plan, unit, slice, 1, room, sums);
    write_slice(plan, unit, slice, sums);
}

/* ---- Sharing out
 * ------------------------------------------------------------------------------ */

static size_t query_bytes(const struct cop_attention_plan *plan)
{
    return (size_t)plan->in->kv->layout.head_dim * COP_TILE_MAX * sizeof(float);
}

static size_t room_bytes(const struct cop_attention_plan *plan)
{
    size_t bytes = query_bytes(plan) + plan->most_rows * (sizeof(void *) + sizeof(int32_t));
    return (bytes + 63) / 64 * 64;
}

/* Rooms lie behind n_floats floats of scores. */
static struct room room_of(const struct cop_attention_plan *plan, int32_t rank, size_t n_floats)
{
    float *scores = plan->device->scores.data;
    uint8_t *at = (uint8_t *)(scores + n_floats) + (size_t)rank * room_bytes(plan);
    struct room room = {.queries = (float *)(void *)at, .rows_of = -1};
    room.rows = (const void **)(void *)(at + query_bytes(plan));
    room.at = (int32_t *)(void *)(room.rows + plan->most_rows);
    room.unit_floats = scores + (size_t)rank * plan->unit_floats;
    return room;
}

static void run_unit(const struct cop_attention_plan *plan, int32_t index, struct room *room)
{
    struct unit unit = unit_at(plan, index, room->unit_floats);
    score_blocks(plan, &unit, 0, unit.group->n_run + unit.group->n_extra, room);
    for (int32_t query = 0; query < unit.queries; query++) {
        soften(plan, &unit, query);
    }
    for (int32_t slice = 0; slice < plan->n_slices; slice++) {
        add_slice(plan, &unit, slice, room);
    }
}

/* Takes whole units. Those of one key head are neighbours: keys and values that one group has
 * read are in the thread's cache for the next. */
static void take_units(void *arg, int32_t rank, int32_t size)
{
    const struct cop_attention_plan *plan = arg;
    struct room room = room_of(plan, rank, (size_t)plan->device->threads * plan->unit_floats);
    int32_t index, end;
    while (cop_share_take(plan->device->shares, rank, size, 1, 1, &index, &end)) {
        run_unit(plan, index, &room);
    }
}

static void deal_units(const struct cop_attention_plan *plan, int32_t threads)
{
    for (int32_t rank = 0; rank < threads; rank++) {
        cop_share_deal(&plan->device->shares[rank],
                       (int32_t)((int64_t)plan->n_units * rank / threads),
                       (int32_t)((int64_t)plan->n_units * (rank + 1) / threads));
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

static struct unit shared_unit(const struct cop_attention_plan *plan, int32_t index)
{
    float *floats = (float *)plan->device->scores.data + (size_t)index * plan->unit_floats;
    return unit_at(plan, index, floats);
}

static struct room shared_room(const struct cop_attention_plan *plan, int32_t rank)
{
    return room_of(plan, rank, (size_t)plan->n_units * plan->unit_floats);
}

/* The three stages of every unit, each a share of it. */

static void score_share(void *arg, int32_t rank, int32_t size)
{
    const struct cop_attention_plan *plan = arg;
    struct room room = shared_room(plan, rank);
    int64_t done = 0;
    for (int32_t index = 0; index < plan->n_units; index++) {
        struct unit unit = shared_unit(plan, index);
        int32_t from, end, n = unit.group->n_run + unit.group->n_extra;
        share_of(plan->n_scored, rank, size, done, n, &from, &end);
        if (from < end) {
            score_blocks(plan, &unit, from, end, &room);
        }
        done += n;
    }
}

static void soften_share(void *arg, int32_t rank, int32_t size)
{
    const struct cop_attention_plan *plan = arg;
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

static void add_share(void *arg, int32_t rank, int32_t size)
{
    const struct cop_attention_plan *plan = arg;
    struct room room = shared_room(plan, rank);
    int64_t total = (int64_t)plan->n_units * plan->n_slices;
    for (int64_t at = total * rank / size; at < total * (rank + 1) / size; at++) {
        struct unit unit = shared_unit(plan, (int32_t)(at / plan->n_slices));
        add_slice(plan, &unit, (int32_t)(at % plan->n_slices), &room);
    }
}

/* Whether threads take whole units: there are many, or all threads get as many of a group. */
static bool are_whole(const struct cop_attention_plan *plan, int32_t threads)
{
    return plan->n_units >= MANY_UNITS * threads ||
           plan->in->kv->layout.kv_heads * plan->n_chunks % threads == 0;
}

bool cop_cpu_attention(struct cop_device *device, const struct cop_attention *in, float *out)
{
    struct cop_attention_plan plan = {.in = in, .device = device, .out = out};
    if (in->n == 0) {
        return true;
    }
    if (!cop_cpu_plan_attention(&plan)) {
        return false;
    }
    int64_t work = plan.n_scored * in->n * in->heads / plan.n_units;
    int32_t threads = work < SMALL_JOB ? 1 : device->threads;
    bool is_shared = threads > 1 && !are_whole(&plan, threads);
    size_t floats = plan.unit_floats * (size_t)(is_shared ? plan.n_units : device->threads);
    size_t rooms = room_bytes(&plan) * (size_t)device->threads;
    if (!cop_buffer_grow(&device->scores, floats * sizeof(float) + rooms)) {
        return false;
    }
    deal_units(&plan, threads);
    if (threads == 1) {
        take_units(&plan, 0, 1);
    } else if (is_shared) {
        cop_pool_run(device->pool, score_share, &plan);
        cop_pool_run(device->pool, soften_share, &plan);
        cop_pool_run(device->pool, add_share, &plan);
    } else {
        cop_pool_run(device->pool, take_units, &plan);
    }
    return true;
}
