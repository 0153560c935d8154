/* Cutting a ragged batch into groups, and finding where each token's keys lie. */
#include "kernels/cpu/attention/attention_plan.h"

#include <assert.h>

/* The run of a token, given the one before it: prefill chunks often share one path array, which
 * is then compared only once. */
static int32_t find_run_end(const struct cop_attention_plan *plan, int32_t t)
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

static struct token_view view_token(const struct cop_attention_plan *plan, int32_t t)
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
static int32_t pages_of(const struct cop_attention_plan *plan, int32_t t, int32_t end,
                        size_t *tails)
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

static struct needs view_tokens(struct cop_attention_plan *plan)
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
static int32_t extra_page(struct cop_attention_plan *plan, struct group *group, int32_t *hint,
                          int32_t page)
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
static int32_t plan_tail(struct cop_attention_plan *plan, struct group *group, int32_t tail)
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

static void plan_area(const struct cop_attention_plan *plan, struct group *group)
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
static void plan_groups(struct cop_attention_plan *plan, int32_t t, int32_t end,
                        const uint8_t *const *blocks)
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

static void plan_sequences(struct cop_attention_plan *plan)
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

static void plan_geometry(struct cop_attention_plan *plan)
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

bool cop_cpu_plan_attention(struct cop_attention_plan *plan)
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
