/* Chunks that are counted down: see arena.h. */
#include "kernels/cpu/arena.h"
#include "kernels/large.h"

#include <stdlib.h>

#define CHUNK_BYTES ((size_t)1 << 25) /* what is not touched costs nothing */
#define LINE        64

struct cop_arena_chunk {
    unsigned char *data;
    size_t bytes, used;
    int n_blocks; /* taken and not yet given back */
};

static struct cop_arena_chunk *new_chunk(size_t bytes)
{
    struct cop_arena_chunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk) {
        return NULL;
    }
    chunk->bytes = bytes <= CHUNK_BYTES ? CHUNK_BYTES : bytes;
    chunk->data = cop_large_new(chunk->bytes);
    if (!chunk->data) {
        free(chunk);
        return NULL;
    }
    return chunk;
}

static void free_chunk(struct cop_arena_chunk *chunk)
{
    free(chunk->data);
    free(chunk);
}

void *cop_arena_take(struct cop_arena *arena, size_t bytes, struct cop_arena_chunk **chunk)
{
    size_t rounded = (bytes + LINE - 1) / LINE * LINE;
    struct cop_arena_chunk *open = arena->open;
    if (!open || open->bytes - open->used < rounded) {
        struct cop_arena_chunk *fresh = new_chunk(rounded);
        if (!fresh) {
            return NULL;
        }
        if (open && open->n_blocks == 0) {
            free_chunk(open);
        }
        arena->open = open = fresh;
    }
    void *block = open->data + open->used;
    open->used += rounded;
    open->n_blocks++;
    *chunk = open;
    return block;
}

void cop_arena_give_back(struct cop_arena *arena, struct cop_arena_chunk *chunk)
{
    if (--chunk->n_blocks > 0) {
        return;
    }
    if (arena->open == chunk) {
        arena->open = NULL;
    }
    free_chunk(chunk);
}
