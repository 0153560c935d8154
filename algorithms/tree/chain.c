/* The chain: one child per node, `depth` levels. */
#include "core/cycle/contract/builder.h"

struct chain {
    int32_t depth;
};

static const struct cop_option options[] = {{.name = "depth",
                                             .type = COP_OPTION_INT,
                                             .offset = offsetof(struct chain, depth),
                                             .min = 1,
                                             .max = COP_TREE_LIMIT - 1,
                                             .fallback = 5,
                                             .flags = COP_OPTION_POSITIONAL,
                                             .help = "tokens drafted one after another"},
                                            {0}};

static enum cop_shape shape(const void *state)
{
    (void)state;
    return COP_SHAPE_CHAIN;
}

static int32_t depth(const void *state)
{
    return ((const struct chain *)state)->depth;
}

static enum cop_status grow(const void *state, struct cop_grow *grow, struct cop_error *err)
{
    (void)err;
    if (grow->level > depth(state)) {
        return COP_OK;
    }
    for (int32_t i = 0; i < grow->n_frontier; i++) {
        (void)cop_grow_draw(grow, i, 1);
    }
    return COP_OK;
}

static int32_t sketch(const void *state, int32_t *parents, int32_t *ranks, double *scores)
{
    (void)scores;
    for (int32_t node = 1; node <= depth(state); node++) {
        parents[node] = node - 1;
        ranks[node] = 0;
    }
    return depth(state) + 1;
}

static int32_t width(const void *state, int32_t level)
{
    (void)state;
    (void)level;
    return 1;
}

const struct cop_builder_ops cop_tree_chain = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_BUILDER,
             .name = "chain",
             .help = "one drafted token after another",
             .source = "Leviathan, Kalman, Matias 2023, arXiv:2211.17192",
             .synonyms = "linear draft, draft length gamma",
             .state_size = sizeof(struct chain),
             .options = options},
    .draws = COP_DRAW_BIT(COP_DRAW_INDEPENDENT) | COP_DRAW_BIT(COP_DRAW_WITHOUT_REPLACEMENT) |
             COP_DRAW_BIT(COP_DRAW_DETERMINISTIC) | COP_DRAW_BIT(COP_DRAW_GREEDY),
    .shape = shape,
    .depth = depth,
    .nodes = depth,
    .grow = grow,
    .sketch = sketch,
    .width = width,
};
