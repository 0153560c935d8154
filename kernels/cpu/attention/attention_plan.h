/* What attention over a ragged batch works on: groups of neighbouring tokens, where the keys of
 * each lie, and how their scores are laid out (the picture: attention.c). */
#ifndef COP_CPU_ATTENTION_PLAN_H
#define COP_CPU_ATTENTION_PLAN_H

#include "kernels/cpu/device.h"

#define SLOTS COP_PAGE_SLOTS
#define SLICE 16 /* dimensions in a lane vector of values */

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

struct cop_attention_plan {
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
};

/* Fills everything behind `in`, `device` and `out`, which are set; arrays lie in the device's
 * buffers until its next plan. false: no memory. */
bool cop_cpu_plan_attention(struct cop_attention_plan *plan);

static inline int32_t min_of(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static inline int32_t max_of(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static inline int32_t blocks_for(int32_t positions)
{
    return (positions + SLOTS - 1) / SLOTS;
}

#endif
