/* SpecHub: a transport plan for two children of which one is the hub, the best token a of the
 * draft row.
 *
 * The ordered pair is (x, a) with probability draft(x), or (a, x) with draft(a) draft(x) / (1 -
 * draft(a)), for x other than a. The target's mass is handed out in this order, each time as
 * much as pair and target have left:
 *
 *     1  x from (x, a)     first(x) = draft(x)
 *     2  x from (a, x)     second(x) = draft(a) draft(x) / (1 - draft(a))
 *     3  a from (a, x)     of the mass M2 that step 2 left of those pairs
 *     4  a from (x, a)     of the mass M1 that step 1 left of those
 *     5  everything else   norm of what is left of the target
 *
 * With r = first + second = draft / (1 - draft(a)) the steps 1 and 2 give x min(target, r), so
 * outside a M1 = sum of (draft - target)+, and M1 + M2 = sum of (r - target)+. As r sums to 1,
 * that is target(a) + sum of (target - r)+: enough for steps 3 and 4 to give all of a, and step
 * 5 draws from (target - r)+, whose block sums are kept from here. */
#include "algorithms/accept/levels.h"
#include "kernels/ops.h"

#include <math.h>

struct pair {
    const struct cop_row *target, *draft;
    cop_token hub;
    double spread; /* 1 / (1 - draft(hub)): makes r of the draft row; 0 where there is nothing
                      beside the hub */
    struct cop_residual rest; /* target - r */
    double sums[COP_WEIGHT_BLOCKS];
};

static void fill_beside_hub(const struct pair *pair, const struct cop_residual *residual,
                            int32_t first, int32_t count, double *out)
{
    struct cop_weights weights = cop_residual_weights(residual);
    weights.fill(weights.context, first, count, out);
    if (pair->hub >= first && pair->hub - first < count) {
        out[pair->hub - first] = 0;
    }
}

/* Sums of a residual by blocks, the hub left out of its own, and of them all. */
static double sum_beside_hub(const struct pair *pair, const struct cop_residual *residual,
                             double *sums)
{
    struct cop_weights weights = cop_residual_weights(residual);
    (void)cop_weights_blocks(&weights, sums);
    int32_t first = pair->hub / COP_SUM_BLOCK * COP_SUM_BLOCK, left = weights.vocab - first;
    double block[COP_SUM_BLOCK], total = 0;
    int32_t count = left < COP_SUM_BLOCK ? left : COP_SUM_BLOCK;
    fill_beside_hub(pair, residual, first, count, block);
    sums[pair->hub / COP_SUM_BLOCK] = cop_sum_block(block, count);
    for (int32_t b = 0; b * COP_SUM_BLOCK < weights.vocab; b++) {
        total += sums[b];
    }
    return total;
}

/* Steps 3 and 4: the probability that the hub is kept once the other token was not. */
static double hub_share(struct pair *pair, bool is_first)
{
    double wanted = cop_row_probability(pair->target, pair->hub);
    struct cop_residual over = {pair->draft, pair->target, 1, 1};
    double m1 = sum_beside_hub(pair, &over, pair->sums);
    double m2 = fmax(0, wanted + sum_beside_hub(pair, &pair->rest, pair->sums) - m1);
    double third = fmin(wanted, m2);
    if (is_first) {
        return m2 > 0 ? third / m2 : 0;
    }
    return m1 > 0 ? (wanted - third) / m1 : 0;
}

/* Steps 1 and 2: the probability that the other token is kept. */
static double other_share(const struct pair *pair, cop_token other, bool hub_is_first)
{
    double p = cop_row_probability(pair->target, other);
    double first = cop_row_probability(pair->draft, other);
    if (!hub_is_first) {
        return first > 0 ? p / first : 0;
    }
    double second = cop_row_probability(pair->draft, pair->hub) * first * pair->spread;
    return second > 0 ? fmax(0, p - first) / second : 0;
}

/* Step 5. */
static void fill_rest(const void *context, int32_t first, int32_t count, double *out)
{
    const struct pair *pair = context;
    fill_beside_hub(pair, &pair->rest, first, count, out);
}

static bool keeps(const struct cop_verify_in *in, int32_t child, double share)
{
    return cop_flip(in->draws, cop_purpose("accept"), in->tree->key[child], share);
}

/* One child: a sample of the row, with nothing beside it. */
static void decide_one(const struct cop_verify_in *in, int32_t node, int32_t child,
                       const struct pair *pair, struct cop_level_choice *choice)
{
    if (keeps(in, child, other_share(pair, in->tree->token[child], false))) {
        choice->child = child;
        return;
    }
    struct cop_residual rest = {pair->target, pair->draft, 1, 1};
    choice->token =
        cop_pick_residual(in->draws, cop_purpose("recover"), in->tree->key[node], &rest);
}

static void decide_two(const struct cop_verify_in *in, int32_t node, int32_t first,
                       int32_t second, struct pair *pair, struct cop_level_choice *choice)
{
    const struct cop_tree *tree = in->tree;
    double at_first = cop_row_probability(pair->draft, tree->token[first]);
    double at_second = cop_row_probability(pair->draft, tree->token[second]);
    bool hub_is_first = at_first > at_second ||
                        (!(at_first < at_second) && tree->token[first] < tree->token[second]);
    int32_t hub = hub_is_first ? first : second, other = hub_is_first ? second : first;
    pair->hub = tree->token[hub];
    double left = cop_level_mass_without(pair->draft, &pair->hub, 1);
    pair->spread = left > 0 ? 1 / left : 0;
    pair->rest = (struct cop_residual){pair->target, pair->draft, 1, pair->spread};
    if (keeps(in, other, other_share(pair, tree->token[other], hub_is_first))) {
        choice->child = other;
    } else if (keeps(in, hub, hub_share(pair, hub_is_first))) {
        choice->child = hub;
    } else {
        struct cop_weights rest = {.vocab = pair->target->vocab,
                                   .fill = fill_rest,
                                   .context = pair,
                                   .block_sums = pair->sums};
        choice->token = cop_pick_else(in->draws, cop_purpose("recover"), tree->key[node], &rest,
                                      pair->target);
    }
}

static enum cop_status decide(const void *state, const struct cop_verify_in *in, int32_t node,
                              struct cop_level_choice *choice, struct cop_error *err)
{
    (void)state;
    int32_t first = cop_level_next(in->tree, node, node);
    int32_t second = cop_level_next(in->tree, node, first);
    struct pair pair;
    pair.target = cop_rows_at(&in->target, node);
    pair.draft = cop_rows_at(&in->draft, first);
    if (!pair.draft) {
        return cop_fail(err, COP_ERR_ARGUMENT, "accept.spechub needs every draft row");
    }
    if (pair.target->vocab > COP_WEIGHT_BLOCKS * COP_SUM_BLOCK) {
        return cop_fail(err, COP_ERR_LIMIT, "accept.spechub takes vocabularies of at most %d",
                        COP_WEIGHT_BLOCKS * COP_SUM_BLOCK);
    }
    if (second < 0) {
        decide_one(in, node, first, &pair, choice);
    } else {
        decide_two(in, node, first, second, &pair, choice);
    }
    return COP_OK;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    return cop_levels_walk(decide, state, in, out, err);
}

/* A chain has no hub, only a sample. */
static const struct cop_claim claims[] = {{COP_DRAW_HUB_PAIR, COP_SHAPE_TREE, false},
                                          {COP_DRAW_INDEPENDENT, COP_SHAPE_CHAIN, false},
                                          {.draw = COP_DRAW_AUTO}};

const struct cop_rule_ops cop_accept_spechub = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "spechub",
             .help =
                 "for the ordered pair of the draft's best token a and another x: the "
                 "target's mass goes to x of (x, a), x of (a, x), a of (a, x), a of (x, a), "
                 "in this order, and the rest is drawn from norm((target - draft / (1 - "
                 "draft(a)))+); accepts target(a) + sum of min(target, draft / (1 - "
                 "draft(a)))",
             .source = "Sun, Zhou, Chen, Sun 2024, arXiv:2411.05289",
             .synonyms = "SpecHub, hub transport"},
    .lossless_for = claims,
    .needs_draft_rows = true,
    .verify = verify,
    .follows_luck = true,
    .cost = "2 at a node where the first token of the plan was rejected",
};
