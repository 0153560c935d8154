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
 * Three stages when units are few (decoding), each shared out by itself, so
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
    int32_t extra;              /* into plan.extra_blocks */
    const uint8_t *const *blocks; /* [logical page]: this layer's part of the page */
};

struct plan {
    const struct cop_attention *in;
    struct cop_device *device;
    float *out;
    int32_t group_heads; /* query heads per key head */
    int32_t n_chunks;    /* of those, each of a tile at most */
    int32_t n_groups, n_units, n_slices;
    struct token_view *views;     /* [n] */
    struct group *groups;         /* [n_groups] */
    const uint8_t **blocks;       /* of all sequences */
    const uint8_t **extra_blocks; /* tail pages of all groups */
    int32_t *extra_pages;         /* the same by logical number */
    int32_t *tail_at;             /* 16 * (page's index in its group) + slot in page */
    size_t unit_floats;           /* scores and inverse sums of the largest unit */
    size_t most_rows;             /* of a unit: values added one by one */
    size_t head_bytes, key_block_bytes, slice_bytes;
    int64_t n_scored; /* blocks of all units */
    atomic_int next_unit;
};

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

static int32_t min_of(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t max_of(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t blocks_for(int32_t positions)
{
    return (positions + SLOTS - 1) / SLOTS;
}

/* ---- Planning
 * --------------------------------------------------------------------------------- */

/* The run of a token, given the one before it: prefill chunks often share one path array, which
 * is then compared only once. */
static int32_t find_run_end(const struct plan *plan, int32_t t)
{
    const struct cop_attention *in = plan->in;
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

static struct token_view view_token(const struct plan *plan, int32_t t)
{
    const struct cop_attention *in = plan->in;
    const struct cop_attention_token *token = &in->tokens[t];
    int32_t end = token->base + token->path_length;
    assert(token->path_length >= 1);
    return (struct token_view){.start = in->window > 0 ? max_of(0, end - in->window) : 0,
                               .end = end,
                               .run_end = find_run_end(plan, t)};
}

/* What the plan's arrays must hold. */
struct needs {
    size_t tails;  /* tail entries */
    size_t blocks; /* logical pages named, over all sequences */
};

static int32_t first_of_next_sequence(const struct cop_attention *in, int32_t t)
{
    int32_t sequence = in->tokens[t].sequence;
    while (t < in->n && in->tokens[t].sequence == sequence) {
        t++;
    }
    return t;
}

/* Logical pages of the sequence's tokens [t, end), counted from 0. */
static int32_t pages_of(const struct plan *plan, int32_t t, int32_t end, size_t *tails)
{
    const struct cop_attention *in = plan->in;
    int32_t most = 0;
    for (; t < end; t++) {
        const struct token_view *view = &plan->views[t];
        const struct cop_attention_token *token = &in->tokens[t];
        most = max_of(most, blocks_for(view->run_end));
        for (int32_t at = max_of(view->start, view->run_end); at < view->end; at++) {
            int32_t slot = in->paths[token->path_offset + at - token->base];
            most = max_of(most, slot / SLOTS + 1);
            ++*tails;
        }
    }
    return most;
}

static struct needs view_tokens(struct plan *plan)
{
    const struct cop_attention *in = plan->in;
    struct needs needs = {0, 0};
    for (int32_t t = 0, end; t < in->n; t = end) {
        end = first_of_next_sequence(in, t);
        for (int32_t i = t; i < end; i++) {
            plan->views[i] = view_token(plan, i);
        }
        needs.blocks += (size_t)pages_of(plan, t, end, &needs.tails);
    }
    return needs;
}

/* The index of a logical page among the group's extra ones, added if new. Paths climb, so the
 * search goes on from the last hit. */
static int32_t extra_page(struct plan *plan, struct group *group, int32_t *hint, int32_t page)
{
    int32_t *pages = plan->extra_pages + group->extra;
    for (int32_t i = 0; i < group->n_extra; i++) {
        int32_t at = *hint + i < group->n_extra ? *hint + i : *hint + i - group->n_extra;
        if (pages[at] == page) {
            return *hint = at;
        }
    }
    pages[group->n_extra] = page;
    plan->extra_blocks[group->extra + group->n_extra] = group->blocks[page];
    return *hint = group->n_extra++;
}

/* Fills the group's tail, from entry `tail` of tail_at; returns the entry behind it. */
static int32_t plan_tail(struct plan *plan, struct group *group, int32_t tail)
{
    const struct cop_attention *in = plan->in;
    int32_t hint = 0;
    for (int32_t t = group->first; t < group->first + group->n; t++) {
        struct token_view *view = &plan->views[t];
        const struct cop_attention_token *token = &in->tokens[t];
        view->tail = tail;
        for (int32_t at = max_of(view->start, view->run_end); at < view->end; at++) {
            int32_t slot = in->paths[token->path_offset + at - token->base];
            int32_t page = extra_page(plan, group, &hint, slot / SLOTS);
            plan->tail_at[tail++] = page * SLOTS + slot % SLOTS;
        }
    }
    return tail;
}

static void plan_area(const struct plan *plan, struct group *group)
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
    group->n_run = max_of(0, blocks_for(most_run) - first);
    group->n_area = blocks_for(most_end) - first;
    group->common = blocks_for(most_start);
    group->common_end = max_of(group->common, least_run / SLOTS);
}

/* Cuts one sequence's tokens [t, end) into groups of nearly equal size. */
static void plan_groups(struct plan *plan, int32_t t, int32_t end, const uint8_t *const *blocks)
{
    int32_t largest = max_of(1, plan->device->level->tile_tokens / plan->group_heads);
    int32_t n = end - t, n_parts = (n + largest - 1) / largest;
    for (int32_t part = 0; part < n_parts; part++) {
        struct group *group = &plan->groups[plan->n_groups];
        int32_t first = t + (int32_t)((int64_t)n * part / n_parts);
        int32_t next = t + (int32_t)((int64_t)n * (part + 1) / n_parts);
        *group = (struct group){.first = first, .n = next - first, .blocks = blocks};
        int32_t tail = 0;
        if (plan->n_groups > 0) {
            const struct group *before = group - 1;
            const struct token_view *last = &plan->views[first - 1];
            group->extra = before->extra + before->n_extra;
            tail = last->tail + max_of(0, last->end - max_of(last->start, last->run_end));
        }
        plan_area(plan, group);
        plan_tail(plan, group, tail);
        plan->n_groups++;

        int32_t kv_heads = plan->in->kv->layout.kv_heads;
        size_t n_blocks = (size_t)(group->n_area + group->n_extra);
        size_t floats = (n_blocks * SLOTS + 1) * COP_TILE_MAX;
        plan->unit_floats = floats > plan->unit_floats ? floats : plan->unit_floats;
        size_t common = (size_t)(group->common_end - group->common);
        size_t rows = (size_t)group->n * ((size_t)group->n_area - common) * SLOTS;
        plan->most_rows = rows > plan->most_rows ? rows : plan->most_rows;
        plan->n_scored += (int64_t)(group->n_run + group->n_extra) * kv_heads * plan->n_chunks;
    }
}

static void plan_sequences(struct plan *plan)
{
    const struct cop_attention *in = plan->in;
    size_t page_bytes = cop_cpu_kv_page_bytes(&in->kv->layout), ignored = 0;
    const uint8_t *layer = cop_cpu_head_blocks(in->kv, 0, in->layer, 0);
    const uint8_t **blocks = plan->blocks;
    for (int32_t t = 0, end; t < in->n; t = end) {
        end = first_of_next_sequence(in, t);
        const int32_t *table = in->page_tables[in->tokens[t].sequence];
        int32_t n_pages = pages_of(plan, t, end, &ignored);
        for (int32_t page = 0; page < n_pages; page++) {
            blocks[page] = layer + (size_t)table[page] * page_bytes;
        }
        plan_groups(plan, t, end, blocks);
        blocks += n_pages;
    }
}

static void plan_geometry(struct plan *plan)
{
    const struct cop_kv_layout *layout = &plan->in->kv->layout;
    int32_t tile = plan->device->level->tile_tokens;
    assert(layout->kv_heads > 0 && plan->in->heads % layout->kv_heads == 0);
    plan->group_heads = plan->in->heads / layout->kv_heads;
    plan->n_chunks = (plan->group_heads + tile - 1) / tile;
    plan->n_slices = (layout->head_dim + SLICE - 1) / SLICE;
    plan->head_bytes = cop_cpu_head_bytes(layout);
    plan->key_block_bytes = cop_cpu_key_block_bytes(layout);
    plan->slice_bytes = SLICE * SLOTS * (layout->is_f32 ? sizeof(float) : sizeof(uint16_t));
}

/* false: no memory */
static bool make_plan(struct plan *plan)
{
    struct cop_buffer *views = &plan->device->views, *lists = &plan->device->lists;
    size_t n = (size_t)plan->in->n;
    plan_geometry(plan);
    if (!cop_buffer_grow(views, n * (sizeof *plan->groups + sizeof *plan->views))) {
        return false;
    }
    plan->groups = views->data;
    plan->views = (struct token_view *)(plan->groups + n);
    struct needs needs = view_tokens(plan);
    size_t bytes = (needs.blocks + needs.tails) * sizeof *plan->blocks +
                   2 * needs.tails * sizeof *plan->tail_at;
    if (!cop_buffer_grow(lists, bytes)) {
        return false;
    }
    plan->blocks = lists->data;
    plan->extra_blocks = plan->blocks + needs.blocks;
    plan->extra_pages = (int32_t *)(void *)(plan->extra_blocks + needs.tails);
    plan->tail_at = plan->extra_pages + needs.tails;
    plan_sequences(plan);
    plan->n_units = plan->n_groups * plan->in->kv->layout.kv_heads * plan->n_chunks;
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
                        .index = index,
                        .kv_head = index % per_group / plan->n_chunks,
                        .heads = end - first,
                        .inverse = floats,
                        .scores = floats + COP_TILE_MAX};
    unit.first_head = unit.kv_head * plan->group_heads + first;
    unit.queries = unit.group->n * unit.heads;
    return unit;
}

static void gather_queries(const struct plan *plan, const struct unit *unit, float *queries)
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
static void score_blocks(const struct plan *plan, const struct unit *unit, int32_t from,
                         int32_t end, const struct room *room)
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

/* Lists the value rows of positions [from, end) of a token behind the n that are there. */
static int32_t list_rows(const struct plan *plan, const struct unit *unit, int32_t t,
                         int32_t from, int32_t end, struct room *room, int32_t n)
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
static void list_unit_rows(const struct plan *plan, const struct unit *unit, struct room *room)
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

static void add_rows(const struct plan *plan, const struct unit *unit, int32_t slice, int which,
                     const struct room *room, float *sums)
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
                      struct room *room)
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

static size_t query_bytes(const struct plan *plan)
{
    return (size_t)plan->in->kv->layout.head_dim * COP_TILE_MAX * sizeof(float);
}

static size_t room_bytes(const struct plan *plan)
{
    size_t bytes = query_bytes(plan) + plan->most_rows * (sizeof(void *) + sizeof(int32_t));
    return (bytes + 63) / 64 * 64;
}

/* Rooms lie behind n_floats floats of scores. */
static struct room room_of(const struct plan *plan, int32_t rank, size_t n_floats)
{
    float *scores = plan->device->scores.data;
    uint8_t *at = (uint8_t *)(scores + n_floats) + (size_t)rank * room_bytes(plan);
    struct room room = {.queries = (float *)(void *)at, .rows_of = -1};
    room.rows = (const void **)(void *)(at + query_bytes(plan));
    room.at = (int32_t *)(void *)(room.rows + plan->most_rows);
    room.unit_floats = scores + (size_t)rank * plan->unit_floats;
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

static struct room shared_room(const struct plan *plan, int32_t rank)
{
    return room_of(plan, rank, (size_t)plan->n_units * plan->unit_floats);
}

/* The three stages of every unit, each a share of it. */

static void score_share(void *arg, int32_t rank, int32_t size)
{
    const struct plan *plan = arg;
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
    const struct plan *plan = arg;
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
    const struct plan *plan = arg;
    struct room room = shared_room(plan, rank);
    int64_t total = (int64_t)plan->n_units * plan->n_slices;
    for (int64_t at = total * rank / size; at < total * (rank + 1) / size; at++) {
        struct unit unit = shared_unit(plan, (int32_t)(at / plan->n_slices));
        add_slice(plan, &unit, (int32_t)(at % plan->n_slices), &room);
    }
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
    int64_t work = plan.n_scored * in->n * in->heads / plan.n_units;
    int32_t threads = work < SMALL_JOB ? 1 : device->threads;
    bool is_shared = threads > 1 && plan.n_units < 3 * threads;
    size_t floats = plan.unit_floats * (size_t)(is_shared ? plan.n_units : device->threads);
    size_t rooms = room_bytes(&plan) * (size_t)device->threads;
    if (!cop_buffer_grow(&device->scores, floats * sizeof(float) + rooms)) {
        return false;
    }
    atomic_init(&plan.next_unit, plan.n_units - 1);
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
