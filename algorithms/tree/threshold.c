/* DySpec's tree: as many siblings and levels as their values are worth.
 *
 * A slot is a place for one more node, with a value that is fixed before its token is drawn:
 *
 *     first child of a node       the node's own value x = product of draft probabilities on
 *                                 its path
 *     next sibling                the slot's value less the x of the child that filled it
 *
 * so that value times the probability of the token in what is left of the row is again the x
 * of the node. Slots of value >= threshold are filled, level by level, and of all slots the
 * `budget` most valuable stay. That is the tree of a queue ordered by value: a slot that falls
 * out is outdone by slots that do not depend on its token, since nothing below it or after it
 * among its siblings is worth more. Hence samples stay samples without replacement.
 *
 * Under a length policy that reads what was drawn, a sample that falls out of a deeper tree and
 * stays in a shallower one would owe its place to its own token. There samples never fall out:
 * a level has what those above it left of the budget. */
#include "algorithms/tree/best.h"

#include <math.h>
#include <stdlib.h>

struct threshold {
    int32_t budget, depth;
    double threshold;
};

static const struct cop_option options[] = {
    {.name = "budget",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct threshold, budget),
     .min = 1,
     .max = COP_TREE_LIMIT,
     .fallback = 64,
     .help = "drafted nodes at most, root not counted"},
    {.name = "threshold",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct threshold, threshold),
     .min = 0,
     .max = 1,
     .flags = COP_OPTION_ABSENT,
     .help = "least value of a slot that is filled; absent: 1 / budget"},
    {.name = "depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct threshold, depth),
     .min = 1,
     .max = COP_TREE_LIMIT - 1,
     .flags = COP_OPTION_ABSENT,
     .help = "levels below the root at most; absent: as the budget allows"},
    {0}};

static int32_t nodes(const void *state)
{
    return ((const struct threshold *)state)->budget;
}

static int32_t depth(const void *state)
{
    const struct threshold *s = state;
    int32_t most = s->budget < COP_TREE_LIMIT ? s->budget : COP_TREE_LIMIT - 1;
    return s->depth > 0 && s->depth < most ? s->depth : most;
}

static int32_t candidates(const void *state)
{
    return cop_best_candidates(nodes(state), depth(state));
}

static enum cop_shape shape(const void *state)
{
    return nodes(state) > 1 ? COP_SHAPE_TREE : COP_SHAPE_CHAIN;
}

/* The last bits of a value are rounding, and must not keep an exact one out. */
static double least_value(const struct threshold *s)
{
    return (isnan(s->threshold) ? 1.0 / s->budget : s->threshold) * (1 - 1e-12);
}

/* ---- Slots ------------------------------------------------------------------------------- */

/* By node: the value of the slot that it filled, and of the one for its next child, which is
 * never greater, whatever was lost by rounding. */
struct slots {
    double *filled, *next; /* [size]; filled owns the block */
};

static bool fill_slots(const struct cop_tree *tree, const double *scores, struct slots *slots)
{
    size_t size = (size_t)tree->size;
    slots->filled = malloc(2 * size * sizeof *slots->filled);
    if (!slots->filled) {
        return false;
    }
    slots->next = slots->filled + size;
    slots->filled[0] = slots->next[0] = 1;
    for (int32_t node = 1; node < tree->size; node++) {
        int32_t parent = tree->parent[node];
        slots->filled[node] = slots->next[parent];
        slots->next[node] = fmin(scores[node], slots->filled[node]);
        slots->next[parent] -= scores[node];
    }
    return true;
}

/* ---- Growing ----------------------------------------------------------------------------- */

/* Children to ask for when n are used up, of `budget` that can stay: a race goes on from where
 * it was, the best are found anew. */
static int32_t next_pick(const struct cop_grow *grow, int32_t n, int32_t budget)
{
    int32_t k = grow->tree->draw == COP_DRAW_DETERMINISTIC ? 4 * n + 16 : n + 1;
    return k < budget ? k : budget;
}

/* Fills the slots below one node, the first of this value, while they are worth it. */
static void offer_children(struct cop_best *best, const struct cop_grow *grow, int32_t i,
                           double value, double least)
{
    cop_token ids[COP_TREE_LIMIT];
    double node_value = cop_best_score(grow, grow->frontier[i]);
    int32_t n = 0;
    for (int32_t j = 0; j < best->k && value >= least && value > cop_best_bar(best); j++) {
        if (j == n) {
            n = cop_grow_pick(grow, i, 0, next_pick(grow, n, best->k), ids, n);
        }
        if (j == n) {
            return;
        }
        double score = cop_best_child(node_value, &grow->rows[i], ids[j]);
        cop_best_offer(best, value, score, i, ids[j]);
        value -= score;
    }
}

/* Nodes that no deeper one may push out: all of them, or none. */
static int32_t n_staying(const struct cop_grow *grow)
{
    bool is_sampled = grow->tree->draw != COP_DRAW_DETERMINISTIC;
    return is_sampled && grow->may_stop ? grow->tree->size - 1 : 0;
}

/* Only nodes whose first child would have a slot, and room, need a row. */
static void narrow(const struct threshold *s, struct cop_grow *grow)
{
    int32_t kept = 0;
    bool is_full = n_staying(grow) == s->budget;
    for (int32_t i = 0; i < grow->n_next && !is_full; i++) {
        if (grow->scores[grow->next[i]] >= least_value(s)) {
            grow->next[kept++] = grow->next[i];
        }
    }
    grow->n_next = kept;
}

static enum cop_status grow(const void *state, struct cop_grow *grow, struct cop_error *err)
{
    const struct threshold *s = state;
    if (grow->level > depth(state)) {
        return COP_OK;
    }
    struct slots slots;
    struct cop_best best;
    if (!fill_slots(grow->tree, grow->scores, &slots)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to grow a tree");
    }
    int32_t n_stay = n_staying(grow);
    enum cop_status status = cop_best_init(&best, s->budget - n_stay, err);
    if (status == COP_OK) {
        for (int32_t node = 1 + n_stay; node < grow->tree->size; node++) {
            cop_best_offer(&best, slots.filled[node], grow->scores[node], -1, 0);
        }
        for (int32_t i = 0; i < grow->n_frontier; i++) {
            offer_children(&best, grow, i, slots.next[grow->frontier[i]], least_value(s));
        }
        cop_best_add(&best, grow);
        cop_best_release(&best);
        narrow(s, grow);
    }
    free(slots.filled);
    return status;
}

static void choose(const void *state, const struct cop_tree *tree, const double *scores,
                   uint8_t *keep)
{
    struct slots slots;
    bool is_whole = fill_slots(tree, scores, &slots);
    cop_best_keep(is_whole ? slots.filled : scores, tree->size, nodes(state), keep);
    if (is_whole) {
        free(slots.filled);
    }
}

const struct cop_builder_ops cop_tree_threshold = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_BUILDER,
             .name = "threshold",
             .help = "fills slots of value >= threshold: a first child's is the probability of "
                     "the path to its parent, a next sibling's what the children before it "
                     "left of that; the value is known before the token is drawn, and under a "
                     "length policy that may stop, deeper slots push out no sample",
             .source = "Xiong et al. 2024, arXiv:2410.11744 (DySpec, threshold version)",
             .synonyms = "DySpec",
             .state_size = sizeof(struct threshold),
             .options = options},
    .draws = COP_DRAW_BIT(COP_DRAW_WITHOUT_REPLACEMENT) | COP_DRAW_BIT(COP_DRAW_DETERMINISTIC),
    .shape = shape,
    .depth = depth,
    .nodes = nodes,
    .grow = grow,
    .candidates = candidates,
    .select = choose,
};
