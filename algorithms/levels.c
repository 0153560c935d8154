/* The walk of rules that decide level by level. */
#include "algorithms/levels.h"
#include "kernels/ops.h"

enum cop_status cop_levels_walk(cop_level_rule decide, const void *state,
                                const struct cop_verify_in *in, struct cop_verdict *out,
                                struct cop_error *err)
{
    int32_t node = 0;
    while (cop_level_next(in->tree, node, node) > 0) {
        struct cop_level_choice choice = {.child = -1, .token = -1};
        enum cop_status status = decide(state, in, node, &choice, err);
        if (status != COP_OK) {
            return status;
        }
        int32_t child = choice.child;
        if (child < 0 && choice.token >= 0) {
            child = cop_tree_find(in->tree, node, choice.token);
        }
        if (child < 0) {
            out->last = choice.token;
            out->origin = COP_ORIGIN_RECOVERED;
            return COP_OK;
        }
        out->accepted[out->n_accepted++] = child;
        node = child;
    }
    struct cop_weights target = cop_row_weights(cop_rows_at(&in->target, node));
    out->last = cop_pick(in->draws, cop_purpose("bonus"), in->tree->key[node], &target);
    out->origin = COP_ORIGIN_BONUS;
    return COP_OK;
}

int32_t cop_level_next(const struct cop_tree *tree, int32_t node, int32_t elder)
{
    for (int32_t i = elder + 1; i < tree->size; i++) {
        if (tree->parent[i] == node && !(tree->flags[i] & COP_NODE_SCOUT)) {
            return i;
        }
    }
    return -1;
}

/* Whether a child before `child` carries `token`. */
static bool is_drawn(const struct cop_tree *tree, int32_t node, int32_t child, cop_token token)
{
    int32_t twin = cop_tree_find(tree, node, token);
    return twin > 0 && (child < 0 || twin < child);
}

static double sum_left(const struct cop_tree *tree, int32_t node, int32_t child,
                       const struct cop_row *draft)
{
    double total = 0;
    for (int32_t first = 0; first < draft->vocab; first += COP_SUM_BLOCK) {
        double block[COP_SUM_BLOCK];
        int32_t n = draft->vocab - first < COP_SUM_BLOCK ? draft->vocab - first : COP_SUM_BLOCK;
        cop_row_fill(draft, first, n, block);
        for (int32_t i = cop_level_next(tree, node, node); i > 0 && i != child;
             i = cop_level_next(tree, node, i)) {
            int32_t at = tree->token[i] - first;
            if (at >= 0 && at < n) {
                block[at] = 0;
            }
        }
        total += cop_sum_block(block, n);
    }
    return total;
}

double cop_level_mass_left(const struct cop_tree *tree, int32_t node, int32_t child,
                           const struct cop_row *draft)
{
    double drawn = 0;
    for (int32_t i = cop_level_next(tree, node, node); i > 0 && i != child;
         i = cop_level_next(tree, node, i)) {
        drawn += is_drawn(tree, node, i, tree->token[i])
                     ? 0
                     : cop_row_probability(draft, tree->token[i]);
    }
    return drawn < 0.9 ? 1 - drawn : sum_left(tree, node, child, draft);
}
