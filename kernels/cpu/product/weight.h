/* A weight of the CPU backend: parts stacked by rows, each a run of panels (panel.h). */
#ifndef COP_CPU_WEIGHT_H
#define COP_CPU_WEIGHT_H

#include "kernels/cpu/arena.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/product/panel.h"

struct cop_part {
    enum cop_format format;
    bool is_int8;      /* else the f32 product */
    int32_t rows;      /* real ones */
    int32_t first_row; /* of the stacked result */
    int32_t n_panels;
    size_t panel_bytes;
    const uint8_t *panels;
};

struct cop_weight {
    int32_t rows, cols, n_parts;
    bool needs_int8, needs_f32; /* some part multiplies that way */
    uint8_t *data;              /* all panels, of `chunk` */
    struct cop_arena_chunk *chunk;
    size_t bytes;
    struct cop_part parts[];
};

#endif
