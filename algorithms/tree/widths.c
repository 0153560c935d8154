/* A tree by levels: every node of level d - 1 gets widths[d - 1] children.
 *
 *     { 2, 1 }      root ─┬─ 1 ── 3
 *                         └─ 2 ── 4 */
#include "core/cycle/contract/builder.h"

struct widths {
    struct cop_int_list widths;
    int32_t nodes; /* by prepare */
};

enum { LEVELS = 64 };

static const struct cop_option options[] = {
    {.name = "widths",
     .type = COP_OPTION_INTS,
     .offset = offsetof(struct widths, widths),
     .min = 1,
     .max = COP_TREE_LIMIT,
     .flags = COP_OPTION_POSITIONAL | COP_OPTION_REQUIRED | COP_OPTION_FILLED,
     .help = "children per node at each level"},
    {0}};

static enum cop_status prepare(void *state, struct cop_error *err)
{
    struct widths *s = state;
    if (s->widths.count > LEVELS) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.tree.widths: %d levels, at most %d; cop.tree.chain goes deeper",
                        (int)s->widths.count, LEVELS);
    }
    int64_t level = 1, total = 0;
    for (int32_t i = 0; i < s->widths.count; i++) {
        level *= s->widths.items[i];
        total += level;
        if (total > COP_TREE_LIMIT) {
            return cop_fail(
                err, COP_ERR_ARGUMENT,
                "cop.tree.widths: %lld nodes down to level %d, a tree holds at most %d",
                (long long)total, (int)i + 1, COP_TREE_LIMIT);
        }
    }
    s->nodes = (int32_t)total;
    return COP_OK;
}

static enum cop_shape shape(const void *state)
{
    const struct widths *s = state;
    for (int32_t i = 0; i < s->widths.count; i++) {
        if (s->widths.items[i] > 1) {
            return COP_SHAPE_TREE;
        }
    }
    return COP_SHAPE_CHAIN;
}

static int32_t depth(const void *state)
{
    return ((const struct widths *)state)->widths.count;
}

static int32_t nodes(const void *state)
{
    return ((const struct widths *)state)->nodes;
}

static enum cop_status grow(const void *state, struct cop_grow *grow, struct cop_error *err)
{
    (void)err;
    const struct widths *s = state;
    if (grow->level > s->widths.count) {
        return COP_OK;
    }
    for (int32_t i = 0; i < grow->n_frontier; i++) {
        (void)cop_grow_draw(grow, i, s->widths.items[grow->level - 1]);
    }
    return COP_OK;
}

static int32_t sketch(const void *state, int32_t *parents, int32_t *ranks, double *scores)
{
    (void)scores;
    const struct widths *s = state;
    int32_t first = 0, end = 1; /* the level above */
    for (int32_t d = 0; d < s->widths.count; d++) {
        int32_t node = end;
        for (int32_t parent = first; parent < end; parent++) {
            for (int32_t rank = 0; rank < s->widths.items[d]; rank++, node++) {
                parents[node] = parent;
                ranks[node] = rank;
            }
        }
        first = end;
        end = node;
    }
    return end;
}

static int32_t width(const void *state, int32_t level)
{
    const struct widths *s = state;
    return level <= s->widths.count ? s->widths.items[level - 1] : 0;
}

const struct cop_builder_ops cop_tree_widths = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_BUILDER,
             .name = "widths",
             .help = "a fixed number of children per node at each level",
             .source = "Miao et al. 2023, arXiv:2305.09781",
             .synonyms = "expansion configuration, branching factors",
             .state_size = sizeof(struct widths),
             .options = options,
             .prepare = prepare},
    .draws = COP_DRAW_BIT(COP_DRAW_INDEPENDENT) | COP_DRAW_BIT(COP_DRAW_WITHOUT_REPLACEMENT) |
             COP_DRAW_BIT(COP_DRAW_DETERMINISTIC) | COP_DRAW_BIT(COP_DRAW_GREEDY) |
             COP_DRAW_BIT(COP_DRAW_HUB_PAIR),
    .shape = shape,
    .depth = depth,
    .nodes = nodes,
    .grow = grow,
    .sketch = sketch,
    .width = width,
};
