/* Keeping track of what is left, and trying children one by one. */
#include "algorithms/accept/left.h"
#include "algorithms/accept/levels.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdlib.h>

enum cop_status cop_left_init(struct cop_left *left, const struct cop_tree *tree, int32_t n,
                              struct cop_error *err)
{
    size_t room = (size_t)tree->size + (size_t)n;
    *left = (struct cop_left){.ids = malloc(room * sizeof *left->ids),
                              .values = malloc(room * sizeof *left->values),
                              .drafts = malloc(room * sizeof *left->drafts),
                              .scales = malloc(room * sizeof *left->scales)};
    if (!left->ids || !left->values || !left->drafts || !left->scales) {
        cop_left_release(left);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for what is left of a row");
    }
    return COP_OK;
}

void cop_left_release(struct cop_left *left)
{
    free(left->ids);
    free(left->values);
    free(left->drafts);
    free(left->scales);
    *left = (struct cop_left){0};
}

void cop_left_reset(struct cop_left *left, const struct cop_row *target)
{
    left->target = target;
    left->n = 0;
    left->n_drafts = 0;
}

static int32_t find(const struct cop_left *left, cop_token token)
{
    int32_t i = 0;
    while (i < left->n && left->ids[i] != token) {
        i++;
    }
    return i;
}

void cop_left_set(struct cop_left *left, cop_token token, double value)
{
    int32_t i = find(left, token);
    left->n = i < left->n ? left->n : i + 1;
    left->ids[i] = token;
    left->values[i] = value > 0 ? value : 0;
}

void cop_left_take(struct cop_left *left, const struct cop_row *draft, double scale)
{
    if (left->n_drafts > 0 && left->drafts[left->n_drafts - 1] == draft) {
        left->scales[left->n_drafts - 1] += scale;
    } else if (scale > 0) {
        left->drafts[left->n_drafts] = draft;
        left->scales[left->n_drafts++] = scale;
    }
}

double cop_left_at(const struct cop_left *left, cop_token token)
{
    int32_t i = find(left, token);
    if (i < left->n) {
        return left->values[i];
    }
    double value = cop_row_probability(left->target, token);
    for (int32_t j = 0; j < left->n_drafts; j++) {
        value -= left->scales[j] * cop_row_probability(left->drafts[j], token);
    }
    return value > 0 ? value : 0;
}

/* ---- As weights
 * ------------------------------------------------------------------------------- */

/* Of tokens without a value of their own, with at most one draft row taken: the fast case. */
static struct cop_residual residual_of(const struct cop_left *left)
{
    bool has_draft = left->n_drafts > 0;
    return (struct cop_residual){.target = left->target,
                                 .draft = has_draft ? left->drafts[0] : NULL,
                                 .target_scale = 1,
                                 .draft_scale = has_draft ? left->scales[0] : 0};
}

static void fill_others(const struct cop_left *left, int32_t first, int32_t count, double *out)
{
    double draft[COP_SUM_BLOCK];
    cop_row_fill(left->target, first, count, out);
    for (int32_t j = 0; j < left->n_drafts; j++) {
        cop_row_fill(left->drafts[j], first, count, draft);
        for (int32_t i = 0; i < count; i++) {
            out[i] -= left->scales[j] * draft[i];
        }
    }
    for (int32_t i = 0; i < count; i++) {
        out[i] = out[i] > 0 ? out[i] : 0.0;
    }
}

static void fill_block(const struct cop_left *left, int32_t first, int32_t count, double *out)
{
    if (left->n_drafts <= 1) {
        struct cop_residual residual = residual_of(left);
        struct cop_weights weights = cop_residual_weights(&residual);
        weights.fill(weights.context, first, count, out);
    } else {
        fill_others(left, first, count, out);
    }
    for (int32_t i = 0; i < left->n; i++) {
        int32_t at = left->ids[i] - first;
        if (at >= 0 && at < count) {
            out[at] = left->values[i];
        }
    }
}

static void fill_left(const void *context, int32_t first, int32_t count, double *out)
{
    for (int32_t n; count > 0; first += n, count -= n, out += n) {
        n = count < COP_SUM_BLOCK ? count : COP_SUM_BLOCK;
        fill_block(context, first, n, out);
    }
}

static bool has_own(const struct cop_left *left, int32_t block)
{
    int32_t i = 0;
    while (i < left->n && left->ids[i] / COP_SUM_BLOCK != block) {
        i++;
    }
    return i < left->n;
}

/* The weights of it with their block sums, in sums[COP_WEIGHT_BLOCKS]. */
static struct cop_weights weights_of(const struct cop_left *left, double *sums)
{
    struct cop_residual residual = residual_of(left);
    struct cop_weights plain = cop_residual_weights(&residual);
    struct cop_weights own = {.vocab = left->target->vocab, .fill = fill_left, .context = left};
    int32_t n_blocks = (own.vocab + COP_SUM_BLOCK - 1) / COP_SUM_BLOCK;
    if (n_blocks <= COP_WEIGHT_BLOCKS) {
        for (int32_t block = 0; block < n_blocks; block++) {
            bool is_plain = left->n_drafts <= 1 && !has_own(left, block);
            sums[block] = cop_weights_block_sum(is_plain ? &plain : &own, block);
        }
        own.block_sums = sums;
    }
    return own;
}

cop_token cop_left_pick(const struct cop_left *left, const struct cop_draws *draws,
                        uint32_t purpose, uint32_t key)
{
    double sums[COP_WEIGHT_BLOCKS];
    struct cop_weights weights = weights_of(left, sums);
    return cop_pick_else(draws, purpose, key, &weights, left->target);
}

/* ---- One by one
 * ------------------------------------------------------------------------------- */

/* Without replacement: the tokens of the children before `child`, which keep what is left of
 * them from now on. Returns their number. */
static int32_t list_gone(struct cop_left *left, const struct cop_tree *tree, int32_t node,
                         int32_t child, cop_token *gone)
{
    int32_t n = 0;
    for (int32_t i = cop_level_next(tree, node, node); i > 0 && i != child;
         i = cop_level_next(tree, node, i)) {
        gone[n++] = tree->token[i];
        cop_left_set(left, tree->token[i], cop_left_at(left, tree->token[i]));
    }
    return n;
}

static bool is_among(cop_token token, const cop_token *tokens, int32_t n)
{
    int32_t i = 0;
    while (i < n && tokens[i] != token) {
        i++;
    }
    return i < n;
}

/* A child drawn from scale * draft was not kept: takes what it had a claim to. */
static void reject(struct cop_left *left, const struct cop_row *draft, double scale,
                   const cop_token *gone, int32_t n_gone)
{
    for (int32_t i = 0; i < left->n; i++) {
        if (!is_among(left->ids[i], gone, n_gone)) {
            double value = left->values[i] - scale * cop_row_probability(draft, left->ids[i]);
            left->values[i] = value > 0 ? value : 0;
        }
    }
    cop_left_take(left, draft, scale);
}

int32_t cop_left_try(struct cop_left *left, const struct cop_verify_in *in, int32_t node,
                     int32_t elder)
{
    const struct cop_tree *tree = in->tree;
    for (int32_t child = cop_level_next(tree, node, elder); child > 0;
         child = cop_level_next(tree, node, child)) {
        cop_token gone[COP_TREE_LIMIT], token = tree->token[child];
        const struct cop_row *draft = cop_rows_at(&in->draft, child);
        int32_t n_gone = tree->draw == COP_DRAW_WITHOUT_REPLACEMENT
                             ? list_gone(left, tree, node, child, gone)
                             : 0;
        double sums[COP_WEIGHT_BLOCKS];
        struct cop_weights weights = weights_of(left, sums);
        double possible = n_gone > 0 ? cop_level_mass_without(draft, gone, n_gone) : 1;
        double scale = possible > 0 ? cop_weights_sum(&weights) / possible : 0;
        double claim =
            is_among(token, gone, n_gone) ? 0 : scale * cop_row_probability(draft, token);
        double keep = claim > 0 ? fmin(1, cop_left_at(left, token) / claim) : 0;
        if (cop_flip(in->draws, cop_purpose("accept"), tree->key[child], keep)) {
            return child;
        }
        reject(left, draft, scale, gone, n_gone);
    }
    return -1;
}
