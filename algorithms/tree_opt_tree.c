/* OPT-Tree: the tree of a given size whose expected accepted tokens, as the draft sees them,
 * are greatest, grown for as long as a level adds more than `delta`.
 *
 * With E = sum of the `budget` greatest path probabilities seen so far, a level that raises E
 * by at most delta is the last one drafted (E = 0 before the first). delta stands for what a
 * draft pass costs in target passes. The authors draft `budget` nodes of every level; here
 * those that cannot be among the best any more are not drafted, which changes neither E nor
 * the tree. */
#include "algorithms/best.h"

struct opt_tree {
    int32_t budget, depth;
    double delta;
};

static const struct cop_option options[] = {
    {.name = "budget",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct opt_tree, budget),
     .min = 1,
     .max = COP_TREE_LIMIT,
     .fallback = 50,
     .help = "drafted nodes that stay, root not counted"},
    {.name = "depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct opt_tree, depth),
     .min = 1,
     .max = COP_TREE_LIMIT - 1,
     .fallback = 10,
     .help = "levels below the root at most"},
    {.name = "delta",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct opt_tree, delta),
     .min = 0,
     .max = COP_TREE_LIMIT,
     .fallback = 0.2,
     .help = "expected tokens that a level must add for another one to be drafted"},
    {0}};

static int32_t nodes(const void *state)
{
    return ((const struct opt_tree *)state)->budget;
}

static int32_t depth(const void *state)
{
    const struct opt_tree *s = state;
    return s->depth < s->budget ? s->depth : s->budget;
}

static int32_t candidates(const void *state)
{
    const struct opt_tree *s = state;
    return cop_best_candidates(s->budget, depth(state));
}

static enum cop_shape shape(const void *state)
{
    return nodes(state) > 1 ? COP_SHAPE_TREE : COP_SHAPE_CHAIN;
}

static enum cop_status grow(const void *state, struct cop_grow *grow, struct cop_error *err)
{
    const struct opt_tree *s = state;
    if (grow->level > depth(state)) {
        return COP_OK;
    }
    struct cop_best best;
    enum cop_status status = cop_best_init(&best, s->budget, err);
    if (status == COP_OK) {
        cop_best_offer_tree(&best, grow);
        double before = cop_best_sum(&best);
        cop_best_offer_level(&best, grow, s->budget, 1);
        bool is_last = !(cop_best_sum(&best) - before > s->delta);
        cop_best_add(&best, grow);
        cop_best_release(&best);
        grow->n_next = is_last ? 0 : grow->n_next;
    }
    return status;
}

static void choose(const void *state, const struct cop_tree *tree, const double *scores,
                   uint8_t *keep)
{
    cop_best_keep(scores, tree->size, nodes(state), keep);
}

const struct cop_builder_ops cop_tree_opt_tree = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_BUILDER,
             .name = "opt_tree",
             .help =
                 "the budget most probable paths of the draft; a level is the last one when "
                 "it adds at most delta to their sum, the expected accepted tokens",
             .source = "Wang et al. 2024, arXiv:2406.17276",
             .synonyms = "OPT-Tree",
             .state_size = sizeof(struct opt_tree),
             .options = options},
    .draws = COP_DRAW_BIT(COP_DRAW_DETERMINISTIC) | COP_DRAW_BIT(COP_DRAW_SELECTED),
    .shape = shape,
    .depth = depth,
    .nodes = nodes,
    .grow = grow,
    .candidates = candidates,
    .select = choose,
};
