/* Heads made of residual blocks, as Medusa and Hydra have them:
 *
 *     x = [state; E(root); E(token 1); …; E(token d)]     Hydra's head d; Medusa's: the state
 *     block 1:   x ← skip x + silu(linear x)              skip: the identity where x keeps its
 *     block 2 …: x ← x + silu(linear x)                   width
 *     logits = output x
 */
#ifndef COP_ALGORITHMS_STACKED_H
#define COP_ALGORITHMS_STACKED_H

#include "algorithms/heads/several/heads.h"
#include "algorithms/heads/several/skip_block.h"

enum { COP_STACKED_LIMIT = 8 /* blocks of a head */ };

struct cop_stacked { /* a part's state */
    struct cop_heads heads;
    bool sees_path; /* the tokens below the state are inputs */
    int32_t n_blocks;
    /* Without linear a block is the one before it, once more. */
    struct cop_skip_tensors blocks[COP_HEADS_LIMIT][COP_STACKED_LIMIT];
};

extern const struct cop_heads_family cop_stacked_plain;  /* !sees_path */
extern const struct cop_heads_family cop_stacked_tokens; /* sees_path */

/* How many blocks a head has, by what is stored of the first one: all of them, or `base` that
 * stand for as many as the configuration says. */
int32_t cop_stacked_blocks(int32_t stored, int32_t base, int32_t said);
/* Whether all heads are stored alike, and nothing is left over behind the stems (the last is
 * NULL). */
enum cop_status cop_stacked_check(const struct cop_stacked *stacked, int32_t base,
                                  const char *const *stems, struct cop_error *err);

/* Numbers that a head's first block reads. */
int32_t cop_stacked_inputs(const struct cop_stacked *stacked, int32_t head);

#endif
