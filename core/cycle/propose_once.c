/* The tree that a proposer would draft for one context, without a target to score it. */
#include "core/cycle/drafting.h"
#include "core/cycle/draws/coins.h"
#include "core/cycle/engine.h"
#include "core/cycle/prefill.h"

/* Everything that one call holds. */
struct once {
    const struct cop_proposer_ops *ops;
    struct cop_part *builder;    /* given, or the proposer's own; NULL: a chain */
    struct cop_proposer_env env; /* lent to the session */
    int32_t layers[COP_HIDDEN_LIMIT], n_layers;
    void *session;
    bool has_begun;
    struct cop_drafting drafting;
    struct cop_row_arena *arena;
    struct cop_coins coins;
    struct cop_error draw_error;
};

static enum cop_status grow(struct once *once, struct cop_error *err)
{
    struct cop_draws draws = cop_coins_draws(&once->coins);
    enum cop_status status = COP_OK;
    while (status == COP_OK && cop_drafting_goes_on(&once->drafting, NULL, NULL)) {
        struct cop_frontier frontier;
        status = cop_drafting_ask(&once->drafting, 0, &frontier, err);
        frontier.n_places = cop_builder_places(once->builder, once->drafting.depth + 1);
        if (status == COP_OK) {
            status = once->ops->expand(once->session, &frontier, 1, err);
        }
        if (status == COP_OK) {
            status = cop_drafting_grow(&once->drafting, once->builder, &draws, err);
        }
    }
    cop_drafting_finish(&once->drafting, once->builder);
    return status;
}

static enum cop_status copy_out(const struct cop_drafting *drafting, struct cop_tree *tree,
                                double *probabilities, double *scores, struct cop_error *err)
{
    const struct cop_tree *from = &drafting->tree;
    tree->draw = from->draw;
    tree->is_merged = from->is_merged;
    cop_tree_reset(tree, from->token[0]);
    for (int32_t node = 0; node < from->size; node++) {
        if (node > 0 && cop_tree_add(tree, from->parent[node], from->token[node],
                                     from->draft_row[node]) != node) {
            return cop_fail(err, COP_ERR_LIMIT, "the tree has room for %d nodes, not %d",
                            tree->capacity, from->size);
        }
        tree->flags[node] = from->flags[node];
        tree->multiplicity[node] = from->multiplicity[node];
        if (probabilities) {
            probabilities[node] = cop_drafting_probability(drafting, node);
        }
        if (scores) {
            scores[node] = drafting->scores[node];
        }
    }
    return COP_OK;
}

static enum cop_status prepare(struct once *once, const struct cop_part *proposer,
                               struct cop_part *builder, enum cop_draw draw,
                               const struct cop_proposer_env *env, cop_token root,
                               struct cop_error *err)
{
    int32_t depth = once->ops->own_depth(proposer->state), n_nodes = depth;
    once->builder = cop_part_share(builder);
    enum cop_status status =
        builder ? COP_OK : cop_proposer_own_tree(proposer, &once->builder, err);
    if (status != COP_OK) {
        return status;
    }
    if (once->builder) {
        const struct cop_part *part = once->builder;
        const struct cop_builder_ops *shape = (const struct cop_builder_ops *)part->plug;
        depth = shape->depth(part->state);
        n_nodes = cop_builder_candidates(part);
    }
    once->arena = cop_row_arena_new();
    if (!once->arena) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for rows");
    }
    status = cop_drafting_init(&once->drafting, n_nodes, once->arena, err);
    if (status != COP_OK) {
        return status;
    }
    once->drafting.n_drafters = cop_proposer_facts(proposer).n_drafters;
    once->drafting.tree.draw = draw == COP_DRAW_AUTO ? COP_DRAW_DETERMINISTIC : draw;
    cop_drafting_start(&once->drafting, root, depth);
    status = cop_proposer_layers(once->ops, proposer->state, env->target, once->layers,
                                 &once->n_layers, err);
    if (status != COP_OK) {
        return status;
    }
    once->env = *env;
    once->env.n_sequences = 1;
    once->env.capacity = n_nodes;
    return once->ops->open ? once->ops->open(proposer->state, &once->env, &once->session, err)
                           : COP_OK;
}

/* Only who drafts from hidden states needs the target to have read the context. */
static enum cop_status read_context(struct once *once, const cop_token *context, int32_t n,
                                    struct cop_error *err)
{
    once->has_begun = true;
    enum cop_status status = once->ops->begin(once->session, 0, context, n, err);
    if (status != COP_OK || once->n_layers == 0) {
        return status;
    }
    struct cop_cache *cache = NULL;
    status = cop_model_cache_new(once->env.target, 1, COP_PREFILL_CHUNK, &cache, err);
    if (status == COP_OK) {
        const struct cop_prefill in = {.target = once->env.target,
                                       .cache = cache,
                                       .ids = context,
                                       .n = n,
                                       .ops = once->ops,
                                       .session = once->session,
                                       .layers = once->layers,
                                       .n_layers = once->n_layers,
                                       .cancel = once->env.cancel,
                                       .between = once->env.cancel};
        status = cop_prefill(&in, err);
    }
    cop_cache_free(cache);
    return status;
}

static void release(struct once *once)
{
    if (once->has_begun) {
        once->ops->end(once->session, 0);
    }
    if (once->ops->close) {
        once->ops->close(once->session);
    }
    cop_coins_release(&once->coins);
    cop_drafting_release(&once->drafting);
    cop_row_arena_free(once->arena);
    cop_part_free(once->builder);
}

enum cop_status cop_propose_once(struct cop_part *proposer, struct cop_part *builder,
                                 enum cop_draw draw, const struct cop_proposer_env *env,
                                 const cop_token *context, int32_t n_context, uint64_t seed,
                                 struct cop_tree *tree, double *probabilities, double *scores,
                                 int32_t *matched, struct cop_error *err)
{
    if (n_context < 1) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "the context is empty: a proposal needs at least one token");
    }
    struct once once = {.ops = (const struct cop_proposer_ops *)proposer->plug};
    enum cop_status status =
        prepare(&once, proposer, builder, draw, env, context[n_context - 1], err);
    if (status == COP_OK) {
        cop_coins_init(&once.coins, seed, 0, &once.draw_error);
        cop_coins_cycle(&once.coins, 0);
        status = read_context(&once, context, n_context, err);
    }
    if (status == COP_OK) {
        status = grow(&once, err);
    }
    if (status == COP_OK) {
        status = copy_out(&once.drafting, tree, probabilities, scores, err);
    }
    if (status == COP_OK && matched) {
        *matched = once.ops->matched ? once.ops->matched(once.session, 0) : -1;
    }
    release(&once);
    return status;
}
