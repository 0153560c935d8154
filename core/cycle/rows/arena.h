/* Memory of one cycle: handed out piece by piece, taken back all at once. Also lends the
 * scratch that shaping a row needs. Private to core/cycle. */
#ifndef COP_CYCLE_ARENA_H
#define COP_CYCLE_ARENA_H

#include "core/cycle/rows/row.h"
#include <stddef.h>

/* `bytes` of memory aligned for doubles, not zeroed, valid until the next reset; NULL: no
 * memory. */
void *cop_row_arena_take(struct cop_row_arena *arena, size_t bytes);

/* Scratch of at least `bytes`, valid until the next call; NULL: no memory. */
void *cop_row_arena_scratch(struct cop_row_arena *arena, size_t bytes);

/* A row of `vocab` numbers, valid until the next reset, all 0 but at ids, which hold anything:
 * whoever gets it writes these and no others, so that it need not be zeroed. The list is known
 * by its address and outlives the arena. NULL: no memory. */
float *cop_row_arena_listed(struct cop_row_arena *arena, const cop_token *ids, int32_t vocab);

/* Counters by token, all 0, [vocab]: whoever borrows them leaves them at 0; NULL: no memory. */
int32_t *cop_row_arena_counts(struct cop_row_arena *arena, int32_t vocab);

/* Truncates a LOGITS row to what top-k, top-p and min-p keep: sets row->mask where a token fell
 * (shape_row.c). */
enum cop_status cop_row_truncate(struct cop_row *row, const struct cop_sampling *sampling,
                                 struct cop_row_arena *arena, struct cop_error *err);

#endif
