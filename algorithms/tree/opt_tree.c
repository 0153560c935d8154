/* OPT-Tree: the tree of a given size whose expected accepted tokens, as the draft sees them,
 * are greatest, grown for as long as a level adds more than `delta`.
 *
 * With E = sum of the `budget` greatest path probabilities seen so far, a level that raises E
 * by at most delta is the last one drafted (E = 0 before the first). delta stands for what a
 * draft pass costs in target passes. The authors draft `budget` nodes of every level; here
 * those that cannot be among the best any more are not drafted, which changes neither E nor
 * the tree. */
#include "algorithms/tree/best.h"

struct opt_tree {
    struct cop_best_size size;
    double delta;
};

static const struct cop_option options[] = {
    COP_BEST_SIZE_OPTIONS(50, 10),
    {.name = "delta",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct opt_tree, delta),
     .min = 0,
     .max = COP_TREE_LIMIT,
     .fallback = 0.2,
     .help = "expected tokens that a level must add for another one to be drafted"},
    {0}};

static enum cop_shape shape(const void *state)
{
    return cop_best_size_nodes(state) > 1 ? COP_SHAPE_TREE : COP_SHAPE_CHAIN;
}

static enum cop_status grow(const void *state, struct cop_grow *grow, struct cop_error *err)
{
    const struct opt_tree *s = state;
    if (grow->level > cop_best_size_depth(state)) {
        return COP_OK;
    }
    struct cop_best best;
    enum cop_status status = cop_best_init(&best, s->size.budget, err);
    if (status == COP_OK) {
        cop_best_offer_tree(&best, grow);
        double before = cop_best_sum(&best);
        cop_best_offer_level(&best, grow, s->size.budget, 1);
        bool is_last = !(cop_best_sum(&best) - before > s->delta);
        cop_best_add(&best, grow);
        cop_best_release(&best);
        grow->n_next = is_last ? 0 : grow->n_next;
    }
    return status;
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
    .depth = cop_best_size_depth,
    .nodes = cop_best_size_nodes,
    .grow = grow,
    .candidates = cop_best_size_candidates,
    .select = cop_best_size_select,
};
