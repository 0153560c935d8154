/* The walk of rules that decide level by level. */
#include "algorithms/accept/levels.h"

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

/* Whether one of the tokens lies in the block that begins at `first`. */
static bool is_in_block(const cop_token *tokens, int32_t n, int32_t first)
{
    for (int32_t i = 0; i < n; i++) {
        if (tokens[i] >= first && tokens[i] - first < COP_SUM_BLOCK) {
            return true;
        }
    }
    return false;
}

/* A normalised row knows the sums of its blocks: only those of the tokens are added up. */
static double sum_without(const struct cop_row *row, const cop_token *tokens, int32_t n)
{
    struct cop_rest rest = {.row = row, .gone = tokens, .n_gone = n};
    struct cop_weights left = cop_rest_weights(&rest);
    if (row->kind != COP_ROW_LOGITS || !row->block_sums) {
        return cop_weights_sum(&left);
    }
    double total = 0;
    for (int32_t first = 0; first < row->vocab; first += COP_SUM_BLOCK) {
        double block[COP_SUM_BLOCK];
        double sum = row->block_sums[first / COP_SUM_BLOCK] * row->inverse_normaliser;
        if (is_in_block(tokens, n, first)) {
            int32_t rest_of_row = row->vocab - first;
            int32_t count = rest_of_row < COP_SUM_BLOCK ? rest_of_row : COP_SUM_BLOCK;
            left.fill(left.context, first, count, block);
            sum = cop_sum_block(block, count);
        }
        total += sum;
    }
    return total;
}

double cop_level_mass_without(const struct cop_row *row, const cop_token *tokens, int32_t n)
{
    double gone = 0;
    for (int32_t i = 0; i < n; i++) {
        gone += cop_row_probability(row, tokens[i]);
    }
    return gone < 0.9 ? 1 - gone : sum_without(row, tokens, n);
}
