/* Beams: of every level the `width` best paths, or a sample of them without replacement.
 *
 * Stochastic beam search gives every path a Gumbel score and keeps the greatest on each level.
 * The same joint law without any scores: let whole sequences be sampled from the draft, one
 * after another, for ever; the beam of level d is the first `width` different prefixes of d
 * tokens that come up, in the order in which they do. (Scores are the times of a Poisson
 * process of such sequences.) Level d + 1 follows from level d alone: of the sequences that
 * bring something new, the next one
 *
 *     begins with node i, seen before,        with weight value(i) (1 - mass of its children)
 *     begins with the next node of the beam   with weight 1 - values of those seen so far
 *
 * and its next token is drawn from the row of that node without the children that are there. So
 * a child's token is drawn when it is settled that there is one, and its siblings stand in the
 * order of their scores. */
#include "algorithms/accept/levels.h"
#include "algorithms/tree/best.h"

#include <math.h>
#include <stdlib.h>

struct beam {
    int32_t width, depth;
};

static const struct cop_option options[] = {{.name = "width",
                                             .type = COP_OPTION_INT,
                                             .offset = offsetof(struct beam, width),
                                             .min = 1,
                                             .max = COP_TREE_LIMIT,
                                             .fallback = 4,
                                             .help = "nodes of each level"},
                                            {.name = "depth",
                                             .type = COP_OPTION_INT,
                                             .offset = offsetof(struct beam, depth),
                                             .min = 1,
                                             .max = COP_TREE_LIMIT - 1,
                                             .fallback = 5,
                                             .help = "levels below the root"},
                                            {0}};

static int32_t nodes(const void *state)
{
    const struct beam *s = state;
    return s->width * s->depth;
}

static enum cop_status prepare(void *state, struct cop_error *err)
{
    const struct beam *s = state;
    int64_t n = (int64_t)s->width * s->depth;
    return n <= COP_TREE_LIMIT
               ? COP_OK
               : cop_fail(err, COP_ERR_ARGUMENT,
                          "cop.tree.beam: %d levels of %d nodes, a tree holds at most %d nodes",
                          (int)s->depth, (int)s->width, COP_TREE_LIMIT);
}

static enum cop_shape shape(const void *state)
{
    return ((const struct beam *)state)->width > 1 ? COP_SHAPE_TREE : COP_SHAPE_CHAIN;
}

static int32_t depth(const void *state)
{
    return ((const struct beam *)state)->depth;
}

/* What can bring something new on this level. */
struct level {
    struct cop_grow *grow;
    double *weights; /* [n_frontier + 1] of the nodes seen, then of the next one */
    double *left;    /* [n_frontier] mass of each row outside the node's children */
    double seen;     /* values of the nodes seen so far */
    int32_t n_seen;
};

static void fill_weights(const void *context, int32_t first, int32_t count, double *out)
{
    const struct level *level = context;
    for (int32_t i = 0; i < count; i++) {
        out[i] = level->weights[first + i];
    }
}

/* The place in the frontier of the node that gets the next child; -1: nothing is left. */
static int32_t choose_parent(struct level *level, int32_t step)
{
    const struct cop_grow *grow = level->grow;
    int32_t n = level->n_seen;
    double sum = 0;
    for (int32_t i = 0; i < n; i++) {
        level->weights[i] = cop_best_score(grow, grow->frontier[i]) * level->left[i];
        sum += level->weights[i];
    }
    if (n < grow->n_frontier) {
        double value = cop_best_score(grow, grow->frontier[n]);
        level->weights[n] = fmax(value, 1 - level->seen);
        sum += level->weights[n++];
    }
    if (!(sum > 0)) {
        return -1;
    }
    struct cop_weights weights = {.vocab = n, .fill = fill_weights, .context = level};
    uint32_t key = cop_tree_child_key(cop_tree_child_key(COP_TREE_ROOT_KEY, grow->level), step);
    return n == 1 ? 0 : cop_pick(grow->draws, cop_purpose("beam"), key, &weights);
}

/* What the children of a node have left of its row, to the last digit where it is little. */
static double mass_left(const struct cop_grow *grow, int32_t i)
{
    const struct cop_tree *tree = grow->tree;
    cop_token ids[COP_TREE_LIMIT];
    int32_t n = 0;
    for (int32_t child = grow->frontier[i];
         (child = cop_level_next(tree, grow->frontier[i], child)) > 0;) {
        ids[n++] = tree->token[child];
    }
    return cop_level_mass_without(&grow->rows[i], ids, n);
}

static void add_child(struct level *level, int32_t i)
{
    struct cop_grow *grow = level->grow;
    double value = cop_best_score(grow, grow->frontier[i]);
    if (i == level->n_seen) {
        level->n_seen++;
        level->seen += value;
    }
    level->left[i] = 0;
    if (cop_grow_draw(grow, i, 1) > 0) {
        int32_t node = grow->tree->size - 1;
        grow->scores[node] = cop_best_child(value, &grow->rows[i], grow->tree->token[node]);
        level->left[i] = mass_left(grow, i);
    }
}

static enum cop_status sample_level(const struct beam *s, struct cop_grow *grow,
                                    struct cop_error *err)
{
    size_t n = (size_t)grow->n_frontier;
    struct level level = {.grow = grow,
                          .weights = malloc((n + 1) * sizeof *level.weights),
                          .left = malloc(n * sizeof *level.left)};
    enum cop_status status = level.weights && level.left
                                 ? COP_OK
                                 : cop_fail(err, COP_ERR_MEMORY, "no memory to grow a tree");
    int32_t parent = 0;
    for (int32_t step = 0; status == COP_OK && parent >= 0 && grow->n_next < s->width; step++) {
        parent = choose_parent(&level, step);
        if (parent >= 0) {
            add_child(&level, parent);
        }
    }
    free(level.weights);
    free(level.left);
    return status;
}

static enum cop_status grow(const void *state, struct cop_grow *grow, struct cop_error *err)
{
    const struct beam *s = state;
    if (grow->level > s->depth) {
        return COP_OK;
    }
    return grow->tree->draw == COP_DRAW_BEAM ? sample_level(s, grow, err)
                                             : cop_best_level(grow, s->width, err);
}

const struct cop_builder_ops cop_tree_beam = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_BUILDER,
             .name = "beam",
             .help = "of each level width nodes: sampled paths without replacement (stochastic "
                     "beam search), or the most probable ones",
             .source = "Jeon et al. 2024, arXiv:2402.14160 (RSD-S); Kool et al. 2019, "
                       "arXiv:1903.06059",
             .synonyms = "RSD-S, stochastic beam search, SBS",
             .state_size = sizeof(struct beam),
             .options = options,
             .prepare = prepare},
    .draws = COP_DRAW_BIT(COP_DRAW_DETERMINISTIC) | COP_DRAW_BIT(COP_DRAW_BEAM),
    .shape = shape,
    .depth = depth,
    .nodes = nodes,
    .grow = grow,
};
