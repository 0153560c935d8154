/* ReDrafter's weights and its recurrence (the formulas: algorithms/propose/redrafter.c). */
#ifndef COP_ALGORITHMS_REDRAFTER_H
#define COP_ALGORITHMS_REDRAFTER_H

#include "algorithms/heads/several/heads.h"
#include "algorithms/heads/several/skip_block.h"

enum { COP_REDRAFTER_BLOCKS = 8 };

struct cop_redrafter { /* a part's state */
    struct cop_heads heads;
    int32_t width, depth; /* of its beams */
    int32_t n_blocks;
    struct cop_skip_tensors w, u, project; /* without skip; linear NULL: there is none */
    struct cop_skip_tensors blocks[COP_REDRAFTER_BLOCKS];
};

extern const struct cop_heads_family cop_redrafter_family;

#endif
