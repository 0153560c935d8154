/* Independent paths of one depth, merged: equal beginnings are one node, in the order in which
 * the paths first reach them.
 *
 *     paths 7 3, 7 5, 2 3      root ×3 ─┬─ 7 ×2 ─┬─ 3 ×1
 *                                       │        └─ 5 ×1
 *                                       └─ 2 ×1 ── 3 ×1
 *
 * A node draws as many tokens as paths come through it (its multiplicity); the j-th of them has
 * the coin of the j-th child. Paths that are added come last at every node, so a wider count
 * keeps the tree of a narrower one and its coins. Deterministic draws (temperature 0) would
 * make one path of all: there the paths part at the best tokens, one each as long as there are
 * any. */
#include "core/cycle/contract/builder.h"

struct independent_paths {
    int32_t count, depth;
};

static const struct cop_option options[] = {
    {.name = "count",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct independent_paths, count),
     .min = 1,
     .max = COP_TREE_LIMIT,
     .fallback = 2,
     .help = "paths"},
    {.name = "depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct independent_paths, depth),
     .min = 1,
     .max = COP_TREE_LIMIT - 1,
     .fallback = 5,
     .help = "tokens of each path"},
    {0}};

static int32_t nodes(const void *state)
{
    const struct independent_paths *s = state;
    return s->count * s->depth;
}

static enum cop_status prepare(void *state, struct cop_error *err)
{
    const struct independent_paths *s = state;
    return (int64_t)s->count * s->depth <= COP_TREE_LIMIT
               ? COP_OK
               : cop_fail(err, COP_ERR_ARGUMENT,
                          "cop.tree.independent_paths: %d paths of %d tokens, a tree holds at "
                          "most %d nodes",
                          (int)s->count, (int)s->depth, COP_TREE_LIMIT);
}

static enum cop_shape shape(const void *state)
{
    return ((const struct independent_paths *)state)->count > 1 ? COP_SHAPE_PATHS
                                                                : COP_SHAPE_CHAIN;
}

static int32_t depth(const void *state)
{
    return ((const struct independent_paths *)state)->depth;
}

static enum cop_status grow(const void *state, struct cop_grow *grow, struct cop_error *err)
{
    (void)err;
    const struct independent_paths *s = state;
    if (grow->level == 1) {
        grow->tree->is_merged = true;
        grow->tree->multiplicity[0] = s->count;
    }
    for (int32_t i = 0; grow->level <= s->depth && i < grow->n_frontier; i++) {
        (void)cop_grow_draw(grow, i, grow->tree->multiplicity[grow->frontier[i]]);
    }
    return COP_OK;
}

const struct cop_builder_ops cop_tree_independent_paths = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_BUILDER,
             .name = "independent_paths",
             .help = "paths drawn independently of one another, merged into a trie",
             .source = "Sun et al. 2023, arXiv:2310.15141; Miao et al. 2023, arXiv:2305.09781",
             .synonyms = "i.i.d. drafts, multi-path, draft sequences",
             .state_size = sizeof(struct independent_paths),
             .options = options,
             .prepare = prepare},
    .draws = COP_DRAW_BIT(COP_DRAW_INDEPENDENT),
    .shape = shape,
    .depth = depth,
    .nodes = nodes,
    .grow = grow,
};
