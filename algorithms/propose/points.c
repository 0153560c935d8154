/* A draft of points, and where a growing tree stands on it. */
#include "algorithms/propose/points.h"

#include <stdlib.h>
#include <string.h>

enum cop_status cop_points_init(struct cop_points *points, int32_t capacity, int32_t n_tree,
                                struct cop_error *err)
{
    size_t n = (size_t)capacity + 2, n_at = (size_t)n_tree + 1;
    *points = (struct cop_points){.capacity = capacity, .n_at = n_tree};
    points->weight = malloc(2 * n * sizeof *points->weight);
    points->token = malloc(2 * n * sizeof *points->token);
    points->parent = malloc((3 * n + n_at) * sizeof *points->parent);
    if (!points->weight || !points->token || !points->parent) {
        cop_points_release(points);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a draft of %d tokens", capacity);
    }
    points->weights = points->weight + n;
    points->ids = points->token + n;
    points->first = points->parent + n;
    points->child = points->parent + 2 * n;
    points->at = points->parent + 3 * n;
    cop_points_start(points, false);
    cop_points_seal(points);
    return COP_OK;
}

void cop_points_release(struct cop_points *points)
{
    free(points->weight);
    free(points->token);
    free(points->parent);
    *points = (struct cop_points){0};
}

void cop_points_start(struct cop_points *points, bool has_weights)
{
    points->count = 0;
    points->has_weights = has_weights;
    points->token[0] = -1;
    points->parent[0] = -1;
}

int32_t cop_points_add(struct cop_points *points, int32_t parent, cop_token token,
                       double weight)
{
    if (points->count == points->capacity) {
        return -1;
    }
    int32_t node = ++points->count;
    points->token[node] = token;
    points->parent[node] = parent;
    points->weight[node] = weight;
    return node;
}

void cop_points_seal(struct cop_points *points)
{
    int32_t n = points->count;
    int32_t *first = points->first;
    memset(first, 0, ((size_t)n + 2) * sizeof *first);
    for (int32_t node = 1; node <= n; node++) {
        first[points->parent[node] + 1]++;
    }
    for (int32_t node = 1; node <= n + 1; node++) {
        first[node] += first[node - 1];
    }
    for (int32_t node = 1; node <= n; node++) { /* first[i] runs over its children … */
        int32_t place = first[points->parent[node]]++;
        points->child[place] = node;
        points->ids[place] = points->token[node];
        points->weights[place] = points->weight[node];
    }
    for (int32_t node = n + 1; node > 0; node--) { /* … and ends where the next one's begin */
        first[node] = first[node - 1];
    }
    first[0] = 0;
}

static int32_t find_child(const struct cop_points *points, int32_t node, cop_token token)
{
    for (int32_t i = points->first[node]; i < points->first[node + 1]; i++) {
        if (points->ids[i] == token) {
            return points->child[i];
        }
    }
    return -1;
}

/* A node's parent was expanded before it, so its place is known. */
static int32_t place_of(struct cop_points *points, const struct cop_tree *tree, int32_t node)
{
    if (node > points->n_at) {
        return -1;
    }
    int32_t at = node == 0 ? 0 : points->at[tree->parent[node]];
    points->at[node] = node > 0 && at >= 0 ? find_child(points, at, tree->token[node]) : at;
    return points->at[node];
}

void cop_points_answer(struct cop_points *points, const struct cop_frontier *frontier,
                       int32_t vocab)
{
    for (int32_t i = 0; i < frontier->count; i++) {
        int32_t at = place_of(points, frontier->tree, frontier->nodes[i]);
        int32_t first = at < 0 ? 0 : points->first[at];
        int32_t count = at < 0 ? 0 : points->first[at + 1] - first;
        if (count > 0) {
            frontier->rows[i] = (struct cop_row){
                .kind = COP_ROW_POINTS,
                .vocab = vocab,
                .ids = points->ids + first,
                .weights = points->has_weights ? points->weights + first : NULL,
                .count = count};
        }
    }
}

void cop_points_chain(struct cop_points *points, const cop_token *ids, int32_t n)
{
    cop_points_start(points, false);
    for (int32_t i = 0; i < n && cop_points_add(points, i, ids[i], 0) >= 0; i++) {
    }
    cop_points_seal(points);
}

enum cop_status cop_points_check_lists(const struct cop_path_list *lists, int32_t vocab,
                                       const char *what, struct cop_error *err)
{
    for (int32_t l = 0; l < lists->count; l++) {
        for (int32_t i = lists->starts[l]; i < lists->starts[l + 1]; i++) {
            if (lists->ranks[i] < 0 || lists->ranks[i] >= vocab) {
                return cop_fail(err, COP_ERR_ARGUMENT,
                                "%s: token %d of list %d is id %d, which is outside the "
                                "vocabulary of %d",
                                what, i - lists->starts[l] + 1, l + 1, lists->ranks[i], vocab);
            }
        }
    }
    return COP_OK;
}
