/* Solving Sequoia's programme, and reading the tree back from its tables: the choice that made
 * a maximum is the one whose sum is equal to it, computed in the same order. */
#include "algorithms/tree/sequoia_optimum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *level_of(const struct cop_sequoia *s, int32_t level)
{
    return s->best + (s->is_bounded ? (ptrdiff_t)level * (s->size + 1) : 0);
}

static double *table_of(const struct cop_sequoia *s, int32_t n_children)
{
    return s->table + (ptrdiff_t)n_children * (s->size + 1);
}

/* Max over m in [1, n - 1] of fewer[n - m] + p * below[m]. Four maxima at a time hide the
 * latency of one; what does not exist is -inf or, times 0, NaN, and never the greatest. */
static double best_split(const double *fewer, const double *below, double p, int32_t n)
{
    double most[4] = {-HUGE_VAL, -HUGE_VAL, -HUGE_VAL, -HUGE_VAL};
    int32_t m = 1;
    for (; m + 4 <= n; m += 4) {
        for (int32_t k = 0; k < 4; k++) {
            double value = fewer[n - m - k] + p * below[m + k];
            most[k] = value > most[k] ? value : most[k];
        }
    }
    for (; m < n; m++) {
        double value = fewer[n - m] + p * below[m];
        most[0] = value > most[0] ? value : most[0];
    }
    return fmax(fmax(most[0], most[1]), fmax(most[2], most[3]));
}

/* table and best of one level from the level below, which without a bound is the same. */
static void fill_level(const struct cop_sequoia *s, int32_t level)
{
    const double *below = level_of(s, level - 1);
    double *best = level_of(s, level);
    for (int32_t b = 0; b <= s->n_ranks; b++) {
        table_of(s, b)[0] = table_of(s, b)[1] = -HUGE_VAL;
    }
    table_of(s, 0)[1] = 1;
    best[0] = -HUGE_VAL;
    best[1] = 1;
    for (int32_t n = 2; n <= s->size; n++) {
        table_of(s, 0)[n] = -HUGE_VAL;
        best[n] = -HUGE_VAL;
        for (int32_t b = 1; b <= s->n_ranks; b++) {
            double value = b < n
                               ? best_split(table_of(s, b - 1), below, s->acceptance[b - 1], n)
                               : -HUGE_VAL;
            table_of(s, b)[n] = value;
            best[n] = fmax(best[n], value);
        }
    }
}

static bool is_same_level(const struct cop_sequoia *s, int32_t level)
{
    return memcmp(level_of(s, level), level_of(s, level - 1),
                  ((size_t)s->size + 1) * sizeof(double)) == 0;
}

/* From a lone root upwards, until more levels change nothing. */
static void fill_levels(struct cop_sequoia *s)
{
    double *root = level_of(s, 1);
    for (int32_t n = 0; n <= s->size; n++) {
        root[n] = n == 1 ? 1 : -HUGE_VAL;
    }
    for (int32_t level = 2; level <= s->n_levels; level++) {
        fill_level(s, level);
        if (is_same_level(s, level)) {
            s->n_levels = level - 1;
        }
    }
}

enum cop_status cop_sequoia_solve(struct cop_sequoia *s, const double *acceptance,
                                  int32_t n_ranks, int32_t n_nodes, int32_t depth,
                                  struct cop_error *err)
{
    *s = (struct cop_sequoia){.acceptance = acceptance,
                              .n_ranks = n_ranks < n_nodes ? n_ranks : n_nodes,
                              .size = n_nodes + 1,
                              .n_levels = depth < n_nodes ? depth + 1 : n_nodes + 1,
                              .is_bounded = depth <= n_nodes};
    size_t row = (size_t)s->size + 1;
    size_t levels = s->is_bounded ? (size_t)s->n_levels + 1 : 1;
    s->best = malloc(levels * row * sizeof *s->best);
    s->table = malloc(((size_t)s->n_ranks + 1) * row * sizeof *s->table);
    if (!s->best || !s->table) {
        cop_sequoia_release(s);
        return cop_fail(err, COP_ERR_MEMORY, "no memory to search for a tree of %d nodes",
                        (int)n_nodes);
    }
    if (s->is_bounded) {
        fill_levels(s);
    } else {
        fill_level(s, s->n_levels);
    }
    return COP_OK;
}

void cop_sequoia_release(struct cop_sequoia *s)
{
    free(s->best);
    free(s->table);
    *s = (struct cop_sequoia){0};
}

double cop_sequoia_value(const struct cop_sequoia *s, int32_t size, int32_t levels)
{
    return level_of(s, levels < s->n_levels ? levels : s->n_levels)[size];
}

/* ---- Reading the tree back --------------------------------------------------------------- */

struct reading {
    const struct cop_sequoia *s;
    struct cop_fixed_tree *tree;
    double *scores;
    int32_t *sizes; /* [n_nodes + 1] nodes at and below each */
};

/* Nodes of the last of `b` subtrees; the smallest that does. */
static int32_t last_subtree(const struct cop_sequoia *s, const double *below, int32_t b,
                            int32_t n)
{
    double value = table_of(s, b)[n], p = s->acceptance[b - 1];
    int32_t m = 1;
    while (m < n - 1 && !(table_of(s, b - 1)[n - m] + p * below[m] >= value)) {
        m++;
    }
    return m;
}

/* The children of one node, as the table of its level says. */
static void expand(struct reading *r, int32_t node, const double *below, const double *best)
{
    const struct cop_sequoia *s = r->s;
    struct cop_fixed_tree *tree = r->tree;
    int32_t n = r->sizes[node], b = 0;
    while (b < s->n_ranks && !(table_of(s, b)[n] >= best[n])) {
        b++;
    }
    int32_t first = tree->n_nodes + 1;
    tree->first_child[node] = first;
    tree->n_children[node] = b;
    tree->n_nodes += b;
    tree->is_chain = tree->is_chain && b < 2;
    for (; b > 0; b--) {
        int32_t child = first + b - 1;
        r->sizes[child] = last_subtree(s, below, b, n);
        n -= r->sizes[child];
        tree->parent[child] = node;
        tree->rank[child] = b - 1;
        r->scores[child] = r->scores[node] * s->acceptance[b - 1];
    }
}

static void read_levels(struct reading *r, int32_t levels)
{
    const struct cop_sequoia *s = r->s;
    int32_t node = 0;
    for (int32_t level = levels; node <= r->tree->n_nodes; level--) {
        const double *best = level_of(s, level), *below = level_of(s, level - 1);
        int32_t end = r->tree->n_nodes + 1;
        if (s->is_bounded && level > 1) {
            fill_level(s, level);
        }
        for (; node < end; node++) {
            if (r->sizes[node] > 1) {
                expand(r, node, below, best);
            }
        }
        r->tree->depth += r->tree->n_nodes >= end;
    }
}

enum cop_status cop_sequoia_tree(struct cop_sequoia *s, int32_t size, int32_t levels,
                                 struct cop_fixed_tree *tree, double **scores,
                                 struct cop_error *err)
{
    enum cop_status status = cop_fixed_tree_init(tree, size - 1, err);
    if (status != COP_OK) {
        return status;
    }
    struct reading reading = {.s = s,
                              .tree = tree,
                              .scores = malloc((size_t)size * sizeof *reading.scores),
                              .sizes = malloc((size_t)size * sizeof *reading.sizes)};
    if (!reading.scores || !reading.sizes) {
        free(reading.scores);
        free(reading.sizes);
        cop_fixed_tree_release(tree);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a tree of %d nodes", (int)size);
    }
    reading.scores[0] = 1;
    reading.sizes[0] = size;
    read_levels(&reading, levels < s->n_levels ? levels : s->n_levels);
    free(reading.sizes);
    *scores = reading.scores;
    return COP_OK;
}
