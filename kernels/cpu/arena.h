/* Memory for weights: large chunks that ask for huge pages.
 *
 * Weights are read from end to end for every token, more bytes than any cache holds; with pages
 * of 4 KiB a good part of that time goes into finding pages. Blocks are cut from a chunk one
 * after the other, a chunk is given back when all its blocks are. Not for several threads at
 * once. */
#ifndef COP_CPU_ARENA_H
#define COP_CPU_ARENA_H

#include <stddef.h>

struct cop_arena_chunk;

struct cop_arena {
    struct cop_arena_chunk *open; /* where the next block is cut; NULL: none */
};

/* A block of `bytes` bytes, aligned to 64, contents undefined. NULL: no memory. *chunk is what
 * cop_arena_give_back wants. */
void *cop_arena_take(struct cop_arena *arena, size_t bytes, struct cop_arena_chunk **chunk);
void cop_arena_give_back(struct cop_arena *arena, struct cop_arena_chunk *chunk);

#endif
