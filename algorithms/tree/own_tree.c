/* Takes what the proposer lists. Not registered: proposers make it, scripts never name it. */
#include "algorithms/tree/own_tree.h"

struct own {
    enum cop_shape shape;
    int32_t depth, nodes;
};

static enum cop_shape shape_of(const void *state)
{
    return ((const struct own *)state)->shape;
}

static int32_t depth_of(const void *state)
{
    return ((const struct own *)state)->depth;
}

static int32_t nodes_of(const void *state)
{
    return ((const struct own *)state)->nodes;
}

static enum cop_status grow(const void *state, struct cop_grow *grow, struct cop_error *err)
{
    (void)err;
    if (grow->level > depth_of(state)) {
        return COP_OK;
    }
    for (int32_t i = 0; i < grow->n_frontier; i++) {
        const struct cop_row *row = &grow->rows[i];
        if (row->kind != COP_ROW_POINTS) {
            continue;
        }
        int32_t first = grow->tree->size;
        int32_t added = cop_grow_draw(grow, i, row->count);
        for (int32_t j = 0; row->weights && j < added; j++) {
            grow->scores[first + j] = row->weights[j];
        }
    }
    return COP_OK;
}

static const struct cop_builder_ops own_tree = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_BUILDER,
             .name = "own",
             .help = "the proposer's own shape",
             .source = "Coppice",
             .state_size = sizeof(struct own)},
    .draws = COP_DRAW_BIT(COP_DRAW_DETERMINISTIC),
    .shape = shape_of,
    .depth = depth_of,
    .nodes = nodes_of,
    .grow = grow,
};

enum cop_status cop_own_tree_new(enum cop_shape shape, int32_t depth, int32_t nodes,
                                 struct cop_part **out, struct cop_error *err)
{
    *out = cop_part_new(&own_tree.plug);
    if (!*out) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a tree's shape");
    }
    *(struct own *)(*out)->state = (struct own){shape, depth, nodes};
    enum cop_status status = cop_part_prepare(*out, err);
    if (status != COP_OK) {
        cop_part_free(*out);
        *out = NULL;
    }
    return status;
}
