/* A tree from a list of rank paths, as published trees come: {1}, {1, 1}, {2} is
 *
 *     root ─┬─ 1 (rank 1) ── 3 (rank 1 below it)
 *           └─ 2 (rank 2)
 *
 * The list must be closed: with a path, its beginning and its better siblings are there too.
 * Under deterministic draws rank r is the r-th best token of its row. */
#include "algorithms/tree/paths.h"

#include "algorithms/tree/fixed_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct paths {
    struct cop_path_list list;
    struct cop_fixed_tree tree; /* by prepare */
};

static const struct cop_option options[] = {
    {.name = "paths",
     .type = COP_OPTION_PATHS,
     .offset = offsetof(struct paths, list),
     .min = 0,
     .max = COP_TREE_LIMIT - 1,
     .flags = COP_OPTION_POSITIONAL | COP_OPTION_REQUIRED,
     .help = "rank paths: { {1}, {1, 1}, {2} }, or digit strings with ranks from 0"},
    {0}};

struct path { /* one line of the list */
    const int32_t *ranks;
    int32_t length;
};

/* Shorter ones first, then by ranks: breadth-first order. */
static int compare(const void *a, const void *b)
{
    const struct path *x = a, *y = b;
    if (x->length != y->length) {
        return x->length < y->length ? -1 : 1;
    }
    for (int32_t i = 0; i < x->length; i++) {
        if (x->ranks[i] != y->ranks[i]) {
            return x->ranks[i] < y->ranks[i] ? -1 : 1;
        }
    }
    return 0;
}

/* "{1, 2}", ranks from 1, the last one raised by `shift`. */
static const char *print_path(const struct path *path, int32_t length, int32_t shift,
                              char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "{");
    for (int32_t i = 0; i < length && used < size; i++) {
        int32_t rank = path->ranks[i] + 1 + (i == length - 1 ? shift : 0);
        int n = snprintf(text + used, size - used, i ? ", %d" : "%d", (int)rank);
        used += n > 0 ? (size_t)n : 0;
    }
    if (used < size) {
        (void)snprintf(text + used, size - used, "}");
    }
    return text;
}

static enum cop_status refuse_missing(const struct path *path, int32_t length, int32_t shift,
                                      struct cop_error *err)
{
    char have[96], need[96];
    return cop_fail(err, COP_ERR_ARGUMENT,
                    "cop.tree.paths: path %s needs %s in the list as well",
                    print_path(path, path->length, 0, have, sizeof have),
                    print_path(path, length, shift, need, sizeof need));
}

/* Appends the node of sorted path i; *parent walks along, as parents are in the same order. */
static enum cop_status add_path(struct cop_fixed_tree *s, const struct path *sorted, int32_t i,
                                int32_t *parent, struct cop_error *err)
{
    const struct path *path = &sorted[i];
    struct path prefix = {path->ranks, path->length - 1};
    while (*parent <= i && prefix.length > 0 &&
           (*parent == 0 || compare(&sorted[*parent - 1], &prefix) < 0)) {
        ++*parent;
    }
    int32_t p = prefix.length > 0 ? *parent : 0;
    if (prefix.length > 0 && (p > i || compare(&sorted[p - 1], &prefix) != 0)) {
        return refuse_missing(path, prefix.length, 0, err);
    }
    int32_t rank = path->ranks[path->length - 1], node = i + 1;
    if (rank < s->n_children[p]) {
        char text[96];
        return cop_fail(err, COP_ERR_ARGUMENT, "cop.tree.paths: path %s is listed twice",
                        print_path(path, path->length, 0, text, sizeof text));
    }
    if (rank > s->n_children[p]) {
        return refuse_missing(path, path->length, s->n_children[p] - rank, err);
    }
    s->first_child[p] = rank == 0 ? node : s->first_child[p];
    s->n_children[p]++;
    s->parent[node] = p;
    s->rank[node] = rank;
    s->is_chain = s->is_chain && rank == 0;
    s->depth = path->length;
    return COP_OK;
}

static void release(void *state)
{
    cop_fixed_tree_release(&((struct paths *)state)->tree);
}

static enum cop_status add_all(struct cop_fixed_tree *tree, struct path *sorted, int32_t n,
                               struct cop_error *err)
{
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    tree->n_nodes = n;
    int32_t parent = 0;
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < n && status == COP_OK; i++) {
        status = add_path(tree, sorted, i, &parent, err);
    }
    return status;
}

static enum cop_status prepare(void *state, struct cop_error *err)
{
    struct paths *s = state;
    int32_t n = s->list.count;
    if (n > COP_TREE_LIMIT) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.tree.paths: %d paths, a tree holds at most %d nodes", (int)n,
                        COP_TREE_LIMIT);
    }
    enum cop_status status = cop_fixed_tree_init(&s->tree, n, err);
    struct path *sorted = malloc(((size_t)n + 1) * sizeof *sorted);
    if (status == COP_OK && !sorted) {
        status = cop_fail(err, COP_ERR_MEMORY, "no memory for %d paths", (int)n);
    }
    for (int32_t i = 0; i < n && status == COP_OK; i++) {
        sorted[i] = (struct path){s->list.ranks + s->list.starts[i],
                                  s->list.starts[i + 1] - s->list.starts[i]};
    }
    if (status == COP_OK) {
        status = add_all(&s->tree, sorted, n, err);
    }
    free(sorted);
    if (status != COP_OK) {
        release(s);
    }
    return status;
}

static enum cop_shape shape(const void *state)
{
    return ((const struct paths *)state)->tree.is_chain ? COP_SHAPE_CHAIN : COP_SHAPE_TREE;
}

static int32_t depth(const void *state)
{
    return ((const struct paths *)state)->tree.depth;
}

static int32_t nodes(const void *state)
{
    return ((const struct paths *)state)->tree.n_nodes;
}

static enum cop_status grow(const void *state, struct cop_grow *grow, struct cop_error *err)
{
    (void)err;
    cop_fixed_tree_grow(&((const struct paths *)state)->tree, grow);
    return COP_OK;
}

static int32_t sketch(const void *state, int32_t *parents, int32_t *ranks, double *scores)
{
    (void)scores;
    return cop_fixed_tree_sketch(&((const struct paths *)state)->tree, parents, ranks);
}

const struct cop_builder_ops cop_tree_paths = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_BUILDER,
             .name = "paths",
             .help = "a fixed tree given as the list of its nodes' rank paths",
             .source = "Cai et al. 2024, arXiv:2401.10774",
             .synonyms = "static tree, medusa choices, tree choices",
             .state_size = sizeof(struct paths),
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

enum cop_status cop_tree_paths_new(const int32_t *ranks, const int32_t *lengths, int32_t count,
                                   struct cop_part **out, struct cop_error *err)
{
    struct cop_part *part = cop_part_new(&cop_tree_paths.plug);
    *out = NULL;
    if (!part) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d paths", (int)count);
    }
    enum cop_status status = cop_option_set_paths(options, part->state, ranks, lengths, count,
                                                  "cop.tree.paths", err);
    if (status == COP_OK) {
        status = cop_part_prepare(part, err);
    }
    if (status != COP_OK) {
        cop_part_free(part);
        return status;
    }
    *out = part;
    return COP_OK;
}
