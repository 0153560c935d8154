/* Sequoia: the static tree that is best for acceptance by rank (the programme is sequoia.c).
 *
 * Of the trees within the budget it takes the one of most expected tokens; given what a pass of
 * each size costs, the one of least cost per token,
 *
 *     (seconds(nodes) + draft_cost levels below the root) / expected tokens
 *
 * The authors' search counts the root's level as a draft pass too; a tree of d levels below the
 * root needs d of them. */
#include "algorithms/tree/sequoia_optimum.h"

#include <math.h>
#include <stdlib.h>

struct sequoia {
    int32_t budget, depth;
    struct cop_number_list acceptance, costs;
    struct cop_int_list sizes;
    double draft_cost;
    struct cop_fixed_tree tree; /* by prepare */
    double *scores;             /* [tree.n_nodes + 1] */
};

/* Acceptance of ranks 1 to 32 as the authors published it with their demonstration. */
static const double published[] = {
    0.634183, 0.107946, 0.056972, 0.022489, 0.019490, 0.014993, 0.004498, 0.002999,
    0.011994, 0.004498, 0.007496, 0.004498, 0.005997, 0.002999, 0.001499, 0.002999,
    0.001499, 0.002999, 0,        0.002999, 0.002999, 0.002999, 0,        0.001499,
    0,        0.001499, 0,        0,        0,        0.001499, 0.001499, 0.001499};

enum {
    N_PUBLISHED = sizeof published / sizeof *published,
    COSTED_LEVELS = 32 /* searched with costs where no depth is given */
};

static const struct cop_option options[] = {
    {.name = "budget",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct sequoia, budget),
     .min = 1,
     .max = COP_TREE_LIMIT,
     .fallback = 63,
     .help = "drafted nodes at most, root not counted"},
    {.name = "depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct sequoia, depth),
     .min = 1,
     .max = COP_TREE_LIMIT,
     .flags = COP_OPTION_ABSENT,
     .help = "levels below the root at most; absent: as many as pay"},
    {.name = "acceptance",
     .type = COP_OPTION_NUMBERS,
     .offset = offsetof(struct sequoia, acceptance),
     .min = 0,
     .max = 1,
     .flags = COP_OPTION_ABSENT,
     .help = "probability that the child of each rank is the accepted one, rank 1 first; "
             "absent: the 32 ranks that the authors published"},
    {.name = "costs",
     .type = COP_OPTION_NUMBERS,
     .offset = offsetof(struct sequoia, costs),
     .min = 0,
     .max = HUGE_VAL,
     .flags = COP_OPTION_ABSENT,
     .help = "seconds of a target pass over 1, 2, … nodes, root included: chooses the size of "
             "least cost per token"},
    {.name = "sizes",
     .type = COP_OPTION_INTS,
     .offset = offsetof(struct sequoia, sizes),
     .min = 1,
     .max = COP_TREE_LIMIT + 1,
     .flags = COP_OPTION_ABSENT | COP_OPTION_FILLED,
     .help = "nodes, root included, that each of the costs is for; absent: 1, 2, …"},
    {.name = "draft_cost",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct sequoia, draft_cost),
     .min = 0,
     .max = HUGE_VAL,
     .fallback = 0,
     .help = "seconds of drafting one level, with costs"},
    {0}};

/* Size and levels of the chosen tree, the root included. */
struct choice {
    int32_t size, levels;
};

/* Most expected tokens; the smallest tree that has them. */
static struct choice choose_best(const struct cop_sequoia *table)
{
    struct choice best = {2, table->n_levels};
    for (int32_t n = 3; n <= table->size; n++) {
        if (cop_sequoia_value(table, n, best.levels) >
            cop_sequoia_value(table, best.size, best.levels)) {
            best.size = n;
        }
    }
    return best;
}

static enum cop_status choose_cheapest(const struct sequoia *s, const struct cop_sequoia *table,
                                       struct choice *best, struct cop_error *err)
{
    double least = HUGE_VAL;
    *best = (struct choice){0};
    for (int32_t i = 0; i < s->costs.count; i++) {
        int32_t size = s->sizes.count > 0 ? s->sizes.items[i] : i + 1;
        for (int32_t levels = 2; size > 1 && size <= table->size && levels <= table->n_levels;
             levels++) {
            double seconds = s->costs.items[i] + s->draft_cost * (levels - 1);
            double tokens = cop_sequoia_value(table, size, levels); /* no such tree: below 0 */
            if (tokens > 0 && seconds / tokens < least) {
                least = seconds / tokens;
                *best = (struct choice){size, levels};
            }
        }
    }
    return best->size > 1
               ? COP_OK
               : cop_fail(err, COP_ERR_ARGUMENT,
                          "cop.tree.sequoia: none of the costs is for a tree of 2 to %d nodes, "
                          "root included",
                          (int)table->size);
}

static void release(void *state)
{
    struct sequoia *s = state;
    cop_fixed_tree_release(&s->tree);
    free(s->scores);
    s->scores = NULL;
}

static enum cop_status search(struct sequoia *s, struct cop_sequoia *table,
                              struct cop_error *err)
{
    struct choice choice;
    enum cop_status status = COP_OK;
    if (s->costs.count > 0) {
        status = choose_cheapest(s, table, &choice, err);
    } else {
        choice = choose_best(table);
    }
    return status == COP_OK
               ? cop_sequoia_tree(table, choice.size, choice.levels, &s->tree, &s->scores, err)
               : status;
}

/* Of a tree that a cost is for, all: nodes that are never accepted may fill it up. Else those
 * before the last that ever is. */
static int32_t count_ranks(const struct sequoia *s, const double *acceptance, int32_t n)
{
    while (s->costs.count == 0 && n > 1 && !(acceptance[n - 1] > 0)) {
        n--;
    }
    return n;
}

static enum cop_status prepare(void *state, struct cop_error *err)
{
    struct sequoia *s = state;
    if (s->sizes.count > 0 && s->sizes.count != s->costs.count) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.tree.sequoia: %d sizes for %d costs: there must be one for each",
                        (int)s->sizes.count, (int)s->costs.count);
    }
    bool is_given = s->acceptance.count > 0;
    const double *acceptance = is_given ? s->acceptance.items : published;
    int32_t n_ranks = count_ranks(s, acceptance, is_given ? s->acceptance.count : N_PUBLISHED);
    int32_t depth = s->depth > 0 ? s->depth : s->costs.count > 0 ? COSTED_LEVELS : s->budget;
    if (depth >= s->budget) { /* costs are of levels; without them one table does for all */
        depth = s->costs.count > 0 ? s->budget : s->budget + 1;
    }
    struct cop_sequoia table;
    enum cop_status status =
        cop_sequoia_solve(&table, acceptance, n_ranks, s->budget, depth, err);
    if (status == COP_OK) {
        status = search(s, &table, err);
        cop_sequoia_release(&table);
    }
    return status;
}

static enum cop_shape shape(const void *state)
{
    return ((const struct sequoia *)state)->tree.is_chain ? COP_SHAPE_CHAIN : COP_SHAPE_TREE;
}

static int32_t depth(const void *state)
{
    return ((const struct sequoia *)state)->tree.depth;
}

static int32_t nodes(const void *state)
{
    return ((const struct sequoia *)state)->tree.n_nodes;
}

static enum cop_status grow(const void *state, struct cop_grow *grow, struct cop_error *err)
{
    (void)err;
    const struct sequoia *s = state;
    int32_t first = grow->tree->size;
    cop_fixed_tree_grow(&s->tree, grow);
    for (int32_t node = first; node < grow->tree->size; node++) {
        grow->scores[node] = s->scores[cop_fixed_tree_find(&s->tree, grow->tree, node)];
    }
    return COP_OK;
}

static int32_t sketch(const void *state, int32_t *parents, int32_t *ranks, double *scores)
{
    const struct sequoia *s = state;
    for (int32_t node = 1; scores && node <= s->tree.n_nodes; node++) {
        scores[node] = s->scores[node];
    }
    return cop_fixed_tree_sketch(&s->tree, parents, ranks);
}

const struct cop_builder_ops cop_tree_sequoia = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_BUILDER,
             .name = "sequoia",
             .help = "the static tree of most expected tokens when the child of rank j is the "
                     "accepted one with probability acceptance[j]: the maximum of the sum over "
                     "nodes of the product of acceptances on the path",
             .source = "Chen et al. 2024, arXiv:2402.12374",
             .synonyms = "optimal static tree, growmap",
             .state_size = sizeof(struct sequoia),
             .options = options,
             .prepare = prepare,
             .release = release},
    .draws = COP_DRAW_BIT(COP_DRAW_INDEPENDENT) | COP_DRAW_BIT(COP_DRAW_WITHOUT_REPLACEMENT) |
             COP_DRAW_BIT(COP_DRAW_DETERMINISTIC) | COP_DRAW_BIT(COP_DRAW_GREEDY) |
             COP_DRAW_BIT(COP_DRAW_HUB_PAIR),
    .shape = shape,
    .depth = depth,
    .nodes = nodes,
    .grow = grow,
    .sketch = sketch,
};
