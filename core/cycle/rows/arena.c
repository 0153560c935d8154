/* The arena of rows: a list of blocks that a reset keeps, so that after the first cycles
 * nothing is allocated any more. */
#include "core/cycle/rows/arena.h"

#include <stdint.h>
#include <stdlib.h>

enum { FIRST_BLOCK = 64 * 1024 };

struct block {
    struct block *next;
    size_t size, used;
    double bytes[];
};

struct listed {
    struct listed *next;
    const cop_token *ids; /* where values may be something else than 0 */
    int32_t vocab;
    float values[];
};

struct cop_row_arena {
    struct block *first, *current;
    struct listed *listed, **next_listed; /* the place of the first that is not taken */
    void *scratch;
    size_t scratch_size;
    int32_t *counts;
    int32_t n_counts;
};

struct cop_row_arena *cop_row_arena_new(void)
{
    struct cop_row_arena *arena = calloc(1, sizeof *arena);
    if (arena) {
        arena->next_listed = &arena->listed;
    }
    return arena;
}

void cop_row_arena_reset(struct cop_row_arena *arena)
{
    for (struct block *b = arena->first; b; b = b->next) {
        b->used = 0;
    }
    arena->current = arena->first;
    arena->next_listed = &arena->listed;
}

void cop_row_arena_free(struct cop_row_arena *arena)
{
    if (!arena) {
        return;
    }
    for (struct block *b = arena->first; b;) {
        struct block *next = b->next;
        free(b);
        b = next;
    }
    for (struct listed *row = arena->listed; row;) {
        struct listed *next = row->next;
        free(row);
        row = next;
    }
    free(arena->scratch);
    free(arena->counts);
    free(arena);
}

void *cop_row_arena_take(struct cop_row_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 4) {
        return NULL;
    }
    bytes = (bytes + sizeof(double) - 1) & ~(sizeof(double) - 1);
    struct block *b = arena->current;
    while (b && b->size - b->used < bytes) {
        b = b->next;
    }
    if (!b) {
        size_t size = arena->first ? arena->current->size * 2 : FIRST_BLOCK;
        size = size < bytes ? bytes : size;
        b = malloc(sizeof *b + size);
        if (!b) {
            return NULL;
        }
        *b = (struct block){.size = size};
        struct block **tail = &arena->first;
        while (*tail) {
            tail = &(*tail)->next;
        }
        *tail = b;
    }
    arena->current = b;
    void *taken = (char *)b->bytes + b->used;
    b->used += bytes;
    return taken;
}

void *cop_row_arena_scratch(struct cop_row_arena *arena, size_t bytes)
{
    if (bytes > arena->scratch_size) {
        void *bigger = malloc(bytes);
        if (!bigger) {
            return NULL;
        }
        free(arena->scratch);
        arena->scratch = bigger;
        arena->scratch_size = bytes;
    }
    return arena->scratch;
}

float *cop_row_arena_listed(struct cop_row_arena *arena, const cop_token *ids, int32_t vocab)
{
    struct listed **place = arena->next_listed, *row = *place;
    if (!row || row->ids != ids || row->vocab != vocab) { /* a row of another list goes */
        struct listed *fresh = calloc(1, sizeof *fresh + (size_t)vocab * sizeof *fresh->values);
        if (!fresh) {
            return NULL;
        }
        fresh->next = row ? row->next : NULL;
        fresh->ids = ids;
        fresh->vocab = vocab;
        free(row);
        row = *place = fresh;
    }
    arena->next_listed = &row->next;
    return row->values;
}

int32_t *cop_row_arena_counts(struct cop_row_arena *arena, int32_t vocab)
{
    if (vocab > arena->n_counts) {
        int32_t *bigger = calloc((size_t)vocab, sizeof *bigger);
        if (!bigger) {
            return NULL;
        }
        free(arena->counts);
        arena->counts = bigger;
        arena->n_counts = vocab;
    }
    return arena->counts;
}
