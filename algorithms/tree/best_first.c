/* The most probable prefixes: DDTree's and SpecExec's tree.
 *
 * The `budget` nodes of greatest value, value = product of decay and draft probability along
 * the path, ties to the node that comes first level by level. It grows a level at a time: of
 * all nodes seen so far the best `budget` go on, and those among them that are new are
 * expanded. That is exact, because a node is never worth more than its parent; nodes that fell
 * out on the way are dropped at the end. Of one expanded node only children that can still get
 * in are looked for. */
#include "algorithms/tree/best.h"

struct best_first {
    struct cop_best_size size;
    int32_t top_k;
    double decay;
};

static const struct cop_option options[] = {
    COP_BEST_SIZE_OPTIONS(64, 8),
    {.name = "top_k",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct best_first, top_k),
     .min = 1,
     .max = COP_TREE_LIMIT,
     .flags = COP_OPTION_ABSENT,
     .help = "children of a node at most; absent: budget"},
    {.name = "decay",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct best_first, decay),
     .min = 0,
     .max = 1,
     .fallback = 1,
     .help = "factor per level (SpecExec: 0.95)"},
    {0}};

static int32_t children(const struct best_first *s)
{
    return s->top_k > 0 && s->top_k < s->size.budget ? s->top_k : s->size.budget;
}

static enum cop_shape shape(const void *state)
{
    return children(state) > 1 ? COP_SHAPE_TREE : COP_SHAPE_CHAIN;
}

static enum cop_status grow(const void *state, struct cop_grow *grow, struct cop_error *err)
{
    const struct best_first *s = state;
    if (grow->level > cop_best_size_depth(state)) {
        return COP_OK;
    }
    struct cop_best best;
    enum cop_status status = cop_best_init(&best, s->size.budget, err);
    if (status == COP_OK) {
        cop_best_offer_tree(&best, grow);
        cop_best_offer_level(&best, grow, children(s), s->decay);
        cop_best_add(&best, grow);
        cop_best_release(&best);
    }
    return status;
}

const struct cop_builder_ops cop_tree_best_first = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_BUILDER,
             .name = "best_first",
             .help = "the budget most probable prefixes: value = product of decay and draft "
                     "probability along the path",
             .source = "Ringel, Romano 2026, arXiv:2604.12989 (DDTree); Svirschevski et al. "
                       "2024, arXiv:2406.02532 (SpecExec)",
             .synonyms = "DDTree, SpecExec, most probable prefixes",
             .state_size = sizeof(struct best_first),
             .options = options},
    .draws = COP_DRAW_BIT(COP_DRAW_DETERMINISTIC) | COP_DRAW_BIT(COP_DRAW_SELECTED),
    .shape = shape,
    .depth = cop_best_size_depth,
    .nodes = cop_best_size_nodes,
    .grow = grow,
    .candidates = cop_best_size_candidates,
    .select = cop_best_size_select,
};
