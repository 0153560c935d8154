/* The token tree: one block of memory, eight arrays, and what can be derived from the parents.
 *
 * Scout nodes keep their place in the arrays (they are scored), but the functions that a rule
 * walks with (child, children, find, shape) pass over them. */
#include "core/cycle/rows/tree.h"

#include <stdlib.h>
#include <string.h>

static const char *const draw_names[COP_DRAW_COUNT] = {
    "auto", "independent", "without_replacement", "deterministic", "greedy_draw", "hub_pair",
    "beam", "selected"};

const char *cop_draw_name(enum cop_draw draw)
{
    return (unsigned)draw < COP_DRAW_COUNT ? draw_names[draw] : "unknown";
}

enum cop_draw cop_draw_from_name(const char *name)
{
    for (int draw = 0; name && draw < COP_DRAW_COUNT; draw++) {
        if (strcmp(name, draw_names[draw]) == 0) {
            return (enum cop_draw)draw;
        }
    }
    return COP_DRAW_COUNT;
}

const char *cop_shape_name(enum cop_shape shape)
{
    switch (shape) {
    case COP_SHAPE_CHAIN: return "chain";
    case COP_SHAPE_PATHS: return "paths";
    case COP_SHAPE_TREE: return "tree";
    }
    return "unknown";
}

enum cop_status cop_tree_init(struct cop_tree *tree, int32_t capacity, struct cop_error *err)
{
    memset(tree, 0, sizeof *tree);
    if (capacity < 1 || capacity > COP_DRAFT_LIMIT + 1) {
        return cop_fail(err, COP_ERR_LIMIT, "a token tree holds 1 to %d nodes, not %d",
                        COP_DRAFT_LIMIT + 1, (int)capacity);
    }
    size_t n = (size_t)capacity;
    int32_t *block = calloc(n, 7 * sizeof(int32_t) + 1);
    if (!block) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a token tree of %d nodes",
                        (int)capacity);
    }
    tree->capacity = capacity;
    tree->token = block; /* owns the block */
    tree->parent = block + n;
    tree->rank = block + 2 * n;
    tree->draft_row = block + 3 * n;
    tree->multiplicity = block + 4 * n;
    tree->drafted = block + 5 * n;
    tree->key = (uint32_t *)(block + 6 * n);
    tree->flags = (uint8_t *)(block + 7 * n);
    cop_tree_reset(tree, 0);
    return COP_OK;
}

void cop_tree_release(struct cop_tree *tree)
{
    free(tree->token);
    memset(tree, 0, sizeof *tree);
}

void cop_tree_reset(struct cop_tree *tree, cop_token root)
{
    tree->size = 1;
    tree->token[0] = root;
    tree->parent[0] = -1;
    tree->rank[0] = 0;
    tree->draft_row[0] = -1;
    tree->multiplicity[0] = 1;
    tree->drafted[0] = 0;
    tree->key[0] = COP_TREE_ROOT_KEY;
    tree->flags[0] = 0;
}

/* The youngest child of a node, or -1. Levels are added in order, so it is near the end. */
static int32_t last_child(const struct cop_tree *tree, int32_t node, int32_t size)
{
    for (int32_t i = size - 1; i > node; i--) {
        if (tree->parent[i] == node) {
            return i;
        }
    }
    return -1;
}

int32_t cop_tree_add(struct cop_tree *tree, int32_t parent, cop_token token, int32_t draft_row)
{
    if (tree->size >= tree->capacity || parent < 0 || parent >= tree->size) {
        return -1;
    }
    int32_t node = tree->size;
    int32_t elder = last_child(tree, parent, node);
    tree->token[node] = token;
    tree->parent[node] = parent;
    tree->rank[node] = elder < 0 ? 0 : tree->rank[elder] + 1;
    tree->draft_row[node] = draft_row;
    tree->multiplicity[node] = 1;
    tree->drafted[node] = node;
    tree->key[node] = cop_tree_child_key(tree->key[parent], tree->rank[node]);
    tree->flags[node] = 0;
    tree->size++;
    return node;
}

int32_t cop_tree_scout(struct cop_tree *tree, int32_t parent, cop_token token)
{
    int32_t node = cop_tree_add(tree, parent, token, -1);
    if (node >= 0) {
        tree->flags[node] = COP_NODE_SCOUT;
    }
    return node;
}

/* The new index of an old node is found by its place in drafted[], which ascends. */
static int32_t index_of(const struct cop_tree *tree, int32_t drafted)
{
    int32_t low = 0, high = tree->size - 1;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (tree->drafted[middle] < drafted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void cop_tree_keep(struct cop_tree *tree, const uint8_t *keep)
{
    int32_t size = tree->size;
    tree->size = 1;
    for (int32_t old = 1; old < size; old++) {
        if (keep[old]) {
            int32_t multiplicity = tree->multiplicity[old];
            uint8_t flags = tree->flags[old];
            int32_t node = cop_tree_add(tree, index_of(tree, tree->parent[old]),
                                        tree->token[old], tree->draft_row[old]);
            tree->multiplicity[node] = multiplicity;
            tree->flags[node] = flags;
            tree->drafted[node] = old;
        }
    }
}

/* A bijection in each argument: siblings never collide, nor do two parents at one rank. */
uint32_t cop_tree_child_key(uint32_t key, int32_t rank)
{
    uint32_t x = key ^ ((uint32_t)rank + 1u) * 0x9e3779b1u;
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    return x ^ x >> 16;
}

int32_t cop_tree_depth(const struct cop_tree *tree, int32_t node)
{
    int32_t depth = 0;
    for (; node > 0; node = tree->parent[node]) {
        depth++;
    }
    return depth;
}

static bool is_scout(const struct cop_tree *tree, int32_t node)
{
    return (tree->flags[node] & COP_NODE_SCOUT) != 0;
}

int32_t cop_tree_child(const struct cop_tree *tree, int32_t node, int32_t rank)
{
    for (int32_t i = node + 1; i < tree->size; i++) {
        if (tree->parent[i] == node && tree->rank[i] == rank && !is_scout(tree, i)) {
            return i;
        }
    }
    return -1;
}

int32_t cop_tree_children(const struct cop_tree *tree, int32_t node)
{
    int32_t n = 0;
    for (int32_t i = node + 1; i < tree->size; i++) {
        n += tree->parent[i] == node && !is_scout(tree, i);
    }
    return n;
}

int32_t cop_tree_find(const struct cop_tree *tree, int32_t node, cop_token token)
{
    for (int32_t i = node + 1; i < tree->size; i++) {
        if (tree->parent[i] == node && tree->token[i] == token && !is_scout(tree, i)) {
            return i;
        }
    }
    return -1;
}

bool cop_tree_is_ancestor(const struct cop_tree *tree, int32_t ancestor, int32_t node)
{
    while (node > ancestor) {
        node = tree->parent[node];
    }
    return node == ancestor;
}

int32_t cop_tree_path(const struct cop_tree *tree, int32_t node, int32_t *path)
{
    int32_t depth = cop_tree_depth(tree, node);
    for (int32_t i = depth - 1; i >= 0; i--) {
        path[i] = node;
        node = tree->parent[node];
    }
    return depth;
}

enum cop_shape cop_tree_shape(const struct cop_tree *tree)
{
    for (int32_t node = 1; node < tree->size; node++) {
        if (tree->rank[node] > 0 && !is_scout(tree, node)) {
            return tree->is_merged ? COP_SHAPE_PATHS : COP_SHAPE_TREE;
        }
    }
    return COP_SHAPE_CHAIN;
}

/* Independent draws may be equal, and points may repeat. */
static bool draws_differ(enum cop_draw draw)
{
    return draw != COP_DRAW_AUTO && draw != COP_DRAW_INDEPENDENT &&
           draw != COP_DRAW_DETERMINISTIC;
}

static enum cop_status check_siblings(const struct cop_tree *tree, int32_t node,
                                      struct cop_error *err)
{
    int32_t parent = tree->parent[node];
    bool are_distinct = tree->is_merged || draws_differ(tree->draw);
    for (int32_t i = parent + 1; are_distinct && i < node; i++) {
        if (tree->parent[i] != parent || tree->token[i] != tree->token[node]) {
            continue;
        }
        return tree->is_merged
                   ? cop_fail(err, COP_ERR_ARGUMENT,
                              "nodes %d and %d are equal siblings in a merged tree", (int)i,
                              (int)node)
                   : cop_fail(err, COP_ERR_ARGUMENT,
                              "nodes %d and %d are equal siblings, which draw = \"%s\" never "
                              "gives; draw = \"independent\" does",
                              (int)i, (int)node, cop_draw_name(tree->draw));
    }
    return COP_OK;
}

static enum cop_status check_node(const struct cop_tree *tree, int32_t node,
                                  struct cop_error *err)
{
    int32_t parent = tree->parent[node];
    if (parent < 0 || parent >= node) {
        return cop_fail(err, COP_ERR_ARGUMENT, "node %d has parent %d: parents come first",
                        (int)node, (int)parent);
    }
    int32_t elder = last_child(tree, parent, node);
    int32_t rank = elder < 0 ? 0 : tree->rank[elder] + 1;
    if (tree->rank[node] != rank) {
        return cop_fail(err, COP_ERR_ARGUMENT, "node %d has rank %d among its siblings, not %d",
                        (int)node, (int)rank, (int)tree->rank[node]);
    }
    if (tree->key[node] != cop_tree_child_key(tree->key[parent], rank)) {
        return cop_fail(err, COP_ERR_ARGUMENT, "node %d has a key that is not its path's",
                        (int)node);
    }
    if (tree->token[node] < 0 || tree->draft_row[node] < -1) {
        return cop_fail(err, COP_ERR_ARGUMENT, "node %d has token %d, draft row %d", (int)node,
                        (int)tree->token[node], (int)tree->draft_row[node]);
    }
    if (tree->multiplicity[node] < 1 || tree->multiplicity[node] > tree->multiplicity[parent]) {
        return cop_fail(err, COP_ERR_ARGUMENT, "%d draws gave node %d, %d its parent",
                        (int)tree->multiplicity[node], (int)node,
                        (int)tree->multiplicity[parent]);
    }
    return is_scout(tree, node) ? COP_OK : check_siblings(tree, node, err);
}

enum cop_status cop_tree_check(const struct cop_tree *tree, struct cop_error *err)
{
    if (tree->size < 1 || tree->size > tree->capacity) {
        return cop_fail(err, COP_ERR_ARGUMENT, "a tree of %d nodes in room for %d",
                        (int)tree->size, (int)tree->capacity);
    }
    if (tree->parent[0] != -1 || tree->rank[0] != 0 || tree->key[0] != COP_TREE_ROOT_KEY) {
        return cop_fail(err, COP_ERR_ARGUMENT, "node 0 is not a root");
    }
    for (int32_t node = 1; node < tree->size; node++) {
        enum cop_status status = check_node(tree, node, err);
        if (status != COP_OK) {
            return status;
        }
    }
    return COP_OK;
}
