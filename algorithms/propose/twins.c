/* Two trees of one text. */
#include "algorithms/propose/twins.h"

#include <stdlib.h>
#include <string.h>

enum cop_status cop_twins_init(struct cop_twins *twins, int32_t n_nodes, int32_t capacity,
                               struct cop_error *err)
{
    size_t outer = (size_t)n_nodes, own = (size_t)capacity;
    *twins = (struct cop_twins){.n_nodes = n_nodes};
    twins->twin = malloc(outer * sizeof *twins->twin);
    twins->accepted = malloc(outer * sizeof *twins->accepted);
    twins->is_taken = calloc(own, sizeof *twins->is_taken);
    twins->outer = malloc(own * sizeof *twins->outer);
    twins->keep = malloc(own);
    if (!twins->twin || !twins->accepted || !twins->is_taken || !twins->outer || !twins->keep) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a tree beside the engine's");
    }
    return cop_tree_init(&twins->tree, capacity, err);
}

void cop_twins_release(struct cop_twins *twins)
{
    cop_tree_release(&twins->tree);
    free(twins->twin);
    free(twins->accepted);
    free(twins->is_taken);
    free(twins->outer);
    free(twins->keep);
}

void cop_twins_start(struct cop_twins *twins, cop_token root)
{
    memset(twins->twin, -1, (size_t)twins->n_nodes * sizeof *twins->twin);
    cop_tree_reset(&twins->tree, root);
    twins->twin[0] = 0;
    twins->is_taken[0] = true;
}

int32_t cop_twins_add(struct cop_twins *twins, int32_t parent, cop_token token)
{
    int32_t node = cop_tree_add(&twins->tree, parent, token, -1);
    if (node >= 0) {
        twins->is_taken[node] = false;
    }
    return node;
}

int32_t cop_twins_find(struct cop_twins *twins, const struct cop_tree *tree, int32_t node,
                       bool *is_new)
{
    int32_t *twin = &twins->twin[tree->drafted[node]];
    *is_new = false;
    if (*twin >= 0) {
        return *twin;
    }
    const struct cop_tree *own = &twins->tree;
    int32_t parent = twins->twin[tree->drafted[tree->parent[node]]];
    for (int32_t i = parent + 1; i < own->size && *twin < 0; i++) {
        if (own->parent[i] == parent && own->token[i] == tree->token[node] &&
            !twins->is_taken[i]) {
            *twin = i;
        }
    }
    *is_new = *twin < 0;
    *twin = *is_new ? cop_twins_add(twins, parent, tree->token[node]) : *twin;
    twins->is_taken[*twin] = true;
    return *twin;
}

int32_t cop_twins_drafted(const struct cop_tree *tree)
{
    int32_t n = tree->size;
    while (n > 1 && (tree->flags[n - 1] & COP_NODE_SCOUT)) {
        n--;
    }
    return n;
}

static const struct cop_row *row_at(void *context, int32_t node)
{
    const struct cop_twins *twins = context;
    return cop_rows_at(&twins->target, twins->outer[twins->tree.drafted[node]]);
}

struct cop_observed cop_twins_observed(struct cop_twins *twins,
                                       const struct cop_observed *observed)
{
    struct cop_tree *own = &twins->tree;
    memset(twins->keep, 0, (size_t)own->size);
    for (int32_t node = 0; node < cop_twins_drafted(observed->tree); node++) {
        int32_t twin = twins->twin[observed->tree->drafted[node]];
        twins->keep[twin] = 1;
        twins->outer[twin] = node;
    }
    cop_tree_keep(own, twins->keep);
    int32_t node = 0;
    for (int32_t i = 0; i < observed->n_accepted; i++) {
        do {
            node++; /* kept nodes keep their order, and an accepted one follows its parent */
        } while (twins->outer[own->drafted[node]] != observed->accepted[i]);
        twins->accepted[i] = node;
    }
    twins->target = observed->target;
    struct cop_observed told = *observed;
    told.tree = own;
    told.accepted = twins->accepted;
    told.target = (struct cop_rows){.at = row_at, .context = twins};
    told.hidden = NULL;
    told.n_hidden = 0;
    return told;
}
