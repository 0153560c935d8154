/* EAGLE-2's tree: expand k nodes a level, k children each, then keep the best of all.
 *
 *     level 1           the k best tokens after the root
 *     `depth` times     of the last level the k nodes of most probable paths get k children
 *     then              of all k + depth k k candidates the `budget` most probable stay
 *
 * A node's value is the product of draft probabilities on its path, never above its parent's:
 * what stays is a tree. Of equal values the shallower node stays. */
#include "algorithms/tree/best.h"

struct expand_rerank {
    int32_t top_k, depth, budget;
};

static const struct cop_option options[] = {
    {.name = "top_k",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct expand_rerank, top_k),
     .min = 1,
     .max = 255,
     .fallback = 10,
     .help = "nodes expanded on each level, and children of each"},
    {.name = "depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct expand_rerank, depth),
     .min = 1,
     .max = COP_TREE_LIMIT - 1,
     .fallback = 5,
     .help = "expansions after the first level: the tree is one level deeper"},
    {.name = "budget",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct expand_rerank, budget),
     .min = 1,
     .max = COP_TREE_LIMIT,
     .fallback = 59,
     .help = "drafted nodes that stay, root not counted (the authors' 60 counts it)"},
    {0}};

static int64_t count_candidates(const struct expand_rerank *s)
{
    return s->top_k + (int64_t)s->depth * s->top_k * s->top_k;
}

static enum cop_status prepare(void *state, struct cop_error *err)
{
    const struct expand_rerank *s = state;
    int64_t n = count_candidates(s);
    return n <= COP_DRAFT_LIMIT
               ? COP_OK
               : cop_fail(err, COP_ERR_ARGUMENT,
                          "cop.tree.expand_rerank: top_k = %d and depth = %d draft %lld nodes; "
                          "at most %d can be drafted",
                          (int)s->top_k, (int)s->depth, (long long)n, COP_DRAFT_LIMIT);
}

static enum cop_shape shape(const void *state)
{
    const struct expand_rerank *s = state;
    return s->top_k > 1 && s->budget > 1 ? COP_SHAPE_TREE : COP_SHAPE_CHAIN;
}

static int32_t depth(const void *state)
{
    return ((const struct expand_rerank *)state)->depth + 1;
}

static int32_t candidates(const void *state)
{
    return (int32_t)count_candidates(state);
}

static int32_t nodes(const void *state)
{
    const struct expand_rerank *s = state;
    int64_t n = count_candidates(s);
    return n < s->budget ? (int32_t)n : s->budget;
}

static enum cop_status grow(const void *state, struct cop_grow *grow, struct cop_error *err)
{
    const struct expand_rerank *s = state;
    if (grow->level > depth(state)) {
        return COP_OK;
    }
    for (int32_t i = 0; i < grow->n_frontier; i++) {
        int32_t first = grow->tree->size, parent = grow->frontier[i];
        double value = cop_best_score(grow, parent);
        (void)cop_grow_draw(grow, i, s->top_k);
        for (int32_t node = first; node < grow->tree->size; node++) {
            grow->scores[node] = cop_best_child(value, &grow->rows[i], grow->tree->token[node]);
        }
    }
    return cop_best_narrow(grow, s->top_k, err);
}

static void choose(const void *state, const struct cop_tree *tree, const double *scores,
                   uint8_t *keep)
{
    cop_best_keep(scores, tree->size, nodes(state), keep);
}

const struct cop_builder_ops cop_tree_expand_rerank = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_BUILDER,
             .name = "expand_rerank",
             .help = "top_k children for the top_k most probable paths of each level, then the "
                     "budget most probable of all: value = product of draft probabilities",
             .source = "Li et al. 2024, arXiv:2406.16858 (EAGLE-2)",
             .synonyms = "EAGLE-2 dynamic draft tree, expand and rerank",
             .state_size = sizeof(struct expand_rerank),
             .options = options,
             .prepare = prepare},
    .draws = COP_DRAW_BIT(COP_DRAW_DETERMINISTIC) | COP_DRAW_BIT(COP_DRAW_SELECTED),
    .shape = shape,
    .depth = depth,
    .nodes = nodes,
    .grow = grow,
    .candidates = candidates,
    .select = choose,
};
