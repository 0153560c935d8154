/* Beam search: the most probable paths of the deepest level, equal prefixes as one node.
 *
 *     beams       a b c     a b d     a e c     f g a
 *     the tree    a ─ b ─ c         f ─ g ─ a
 *                 │   └── d
 *                 └ e ─ c
 *
 * On each level the `width` most probable continuations of the level above stay. A path that
 * dies out on the way is no candidate, so its nodes are dropped at the end: of the tree above
 * that tree.beam leaves, this is the part below which a beam of the last level ends. */
#include "algorithms/tree/beam_search.h"
#include "algorithms/tree/best.h"

#include <string.h>

struct beam_search {
    int32_t width, depth;
};

static const struct cop_option options[] = {{.name = "width",
                                             .type = COP_OPTION_INT,
                                             .offset = offsetof(struct beam_search, width),
                                             .min = 1,
                                             .max = COP_TREE_LIMIT,
                                             .fallback = 10,
                                             .help = "beams"},
                                            {.name = "depth",
                                             .type = COP_OPTION_INT,
                                             .offset = offsetof(struct beam_search, depth),
                                             .min = 1,
                                             .max = COP_TREE_LIMIT - 1,
                                             .fallback = 4,
                                             .help = "tokens of a beam, the root not counted"},
                                            {0}};

static int32_t nodes(const void *state)
{
    const struct beam_search *s = state;
    return s->width * s->depth;
}

static enum cop_status prepare(void *state, struct cop_error *err)
{
    const struct beam_search *s = state;
    int64_t n = (int64_t)s->width * s->depth;
    return n <= COP_TREE_LIMIT ? COP_OK
                               : cop_fail(err, COP_ERR_ARGUMENT,
                                          "cop.tree.beam_search: %d levels of %d nodes, a tree "
                                          "holds at most %d nodes",
                                          (int)s->depth, (int)s->width, COP_TREE_LIMIT);
}

static enum cop_shape shape(const void *state)
{
    return ((const struct beam_search *)state)->width > 1 ? COP_SHAPE_TREE : COP_SHAPE_CHAIN;
}

static int32_t depth(const void *state)
{
    return ((const struct beam_search *)state)->depth;
}

static enum cop_status grow(const void *state, struct cop_grow *grow, struct cop_error *err)
{
    const struct beam_search *s = state;
    return grow->level > s->depth ? COP_OK : cop_best_level(grow, s->width, err);
}

/* Nodes stand level by level: those of the last level come last, and keep their ancestors. */
static void choose(const void *state, const struct cop_tree *tree, const double *scores,
                   uint8_t *keep)
{
    int32_t last = tree->size - 1, deepest = cop_tree_depth(tree, last);
    (void)state, (void)scores;
    memset(keep + 1, 0, (size_t)last);
    for (int32_t node = last; node > 0; node--) {
        keep[node] |= cop_tree_depth(tree, node) == deepest;
        if (keep[node] && tree->parent[node] > 0) {
            keep[tree->parent[node]] = 1;
        }
    }
}

const struct cop_builder_ops cop_tree_beam_search = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_BUILDER,
             .name = "beam_search",
             .help = "the width most probable paths of depth tokens that beam search finds, "
                     "equal prefixes merged; paths that die out on the way are dropped",
             .source = "Cheng et al. 2024, arXiv:2403.09919 (ReDrafter)",
             .synonyms = "ReDrafter's beams, dynamic tree attention",
             .state_size = sizeof(struct beam_search),
             .options = options,
             .prepare = prepare},
    .draws = COP_DRAW_BIT(COP_DRAW_DETERMINISTIC) | COP_DRAW_BIT(COP_DRAW_SELECTED),
    .shape = shape,
    .depth = depth,
    .nodes = nodes,
    .grow = grow,
    .select = choose,
};

enum cop_status cop_tree_beam_search_new(int32_t width, int32_t n_levels, struct cop_part **out,
                                         struct cop_error *err)
{
    *out = cop_part_new(&cop_tree_beam_search.plug);
    if (!*out) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a tree's shape");
    }
    *(struct beam_search *)(*out)->state = (struct beam_search){width, n_levels};
    enum cop_status status = cop_part_prepare(*out, err);
    if (status != COP_OK) {
        cop_part_free(*out);
        *out = NULL;
    }
    return status;
}
