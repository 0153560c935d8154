/* Several drafters feed one tree: sibling j of a node is drawn from the row of drafter j.
 *
 *     node                rows                              children
 *     root                lookup: point   model: dense      1 of the lookup, 2 of the model
 *     node 1              lookup: point   model: dense      …
 *     node 2              none            model: dense      1 of the model
 *
 * A drafter that has nothing below a node leaves its place to the next one, which is decided by
 * the context and never by a token still to be drawn; children beyond the last drafter come
 * from it too. Every drafter sees the whole tree, so each may go on from another one's node.
 * Rules that weigh siblings by one row are refused unless they take several (cop_pairing).
 *
 * Where the tree takes fewer children, later drafters are asked for what earlier ones left:
 *
 *     chain of lookup, model    the lookup's whole match, or else the model's whole draft
 *
 * A drafter that was left out above a node stays out below it, in this cycle: it would have to
 * read the path first. Drafters before the first that costs something are asked first, so that
 * the length policy sees what they found before it pays for the others (offer). */
#include "algorithms/propose/drafters.h"
#include "core/cycle/contract/builder.h"

#include <stdlib.h>

enum { OWN_LEVELS = 64 };

static const struct cop_option options[] = {COP_DRAFTERS_OPTIONS, {0}};

static enum cop_status prepare(void *state, struct cop_error *err)
{
    return cop_drafters_check(state, "cop.propose.mixture", err);
}

static void facts(const void *state, struct cop_proposer_facts *facts)
{
    const struct cop_drafters_parts *parts = state;
    cop_drafters_facts(parts, facts);
    facts->rows_by_prefix = false; /* who is asked depends on where the root is */
    facts->n_drafters = cop_drafters_count(parts);
    facts->supply = COP_SUPPLY_POINTS;
    for (int32_t i = 0; i < facts->n_drafters; i++) {
        bool is_points = cop_proposer_facts(parts->parts[i]).supply == COP_SUPPLY_POINTS;
        facts->supply = is_points ? facts->supply : COP_SUPPLY_DENSE;
    }
}

static int32_t own_depth(const void *state)
{
    const struct cop_drafters_parts *parts = state;
    int32_t depth = 1;
    for (int32_t i = 0; i < cop_drafters_count(parts); i++) {
        int32_t own = cop_drafters_ops(parts, i)->own_depth(cop_drafters_part(parts, i)->state);
        depth = own > depth ? own : depth;
    }
    return depth;
}

/* One child of each drafter below the root, a chain below each. */
extern const struct cop_builder_ops cop_tree_widths;

static enum cop_status own_tree(const void *state, struct cop_part **builder,
                                struct cop_error *err)
{
    int32_t n = cop_drafters_count(state), depth = own_depth(state);
    depth = depth < OWN_LEVELS ? depth : OWN_LEVELS;
    *builder = cop_part_new(&cop_tree_widths.plug);
    int32_t *widths = malloc((size_t)depth * sizeof *widths);
    enum cop_status status =
        *builder && widths ? COP_OK : cop_fail(err, COP_ERR_MEMORY, "no memory for a tree");
    for (int32_t i = 0; status == COP_OK && i < depth; i++) {
        widths[i] = i == 0 ? n : 1;
    }
    if (status == COP_OK) {
        status = cop_option_set_ints(cop_option_find(cop_tree_widths.plug.options, "widths"),
                                     (*builder)->state, widths, depth, "cop.tree.widths", err);
    }
    if (status == COP_OK) {
        status = cop_part_prepare(*builder, err);
    }
    free(widths);
    if (status != COP_OK) {
        cop_part_free(*builder);
        *builder = NULL;
    }
    return status;
}

static enum cop_status expand(void *opened, struct cop_frontier *frontiers, int32_t n_frontiers,
                              struct cop_error *err)
{
    struct cop_drafters *drafters = opened;
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < drafters->count && status == COP_OK; i++) {
        status = cop_drafters_fill(drafters, i, frontiers, n_frontiers, err);
    }
    return status;
}

static enum cop_status offer(void *opened, struct cop_frontier *frontiers, int32_t n_frontiers,
                             struct cop_error *err)
{
    struct cop_drafters *drafters = opened;
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < drafters->count && status == COP_OK &&
                        cop_proposer_facts(drafters->drafters[i].part).is_cheap;
         i++) {
        status = cop_drafters_fill(drafters, i, frontiers, n_frontiers, err);
    }
    return status;
}

const struct cop_proposer_ops cop_propose_mixture = {
    .plug =
        {.abi = COP_PLUG_ABI,
         .kind = COP_PLUG_PROPOSER,
         .name = "mixture",
         .help =
             "several proposers feed one tree: child j of a node is drawn from drafter j, "
             "one that has nothing leaves its place to the next. Without a tree, one "
             "chain from each of them. Rules take it that take siblings with different "
             "rows, as cop.accept.sample_match {} and cop.accept.recursive {}; on a "
             "chain it is the first drafter that has something, and later ones are not asked",
         .source = "Coppice; siblings from several drafters as in Miao et al. 2023 "
                   "(SpecInfer), arXiv:2305.09781",
         .synonyms = "collective drafting, multi-drafter speculation",
         .state_size = sizeof(struct cop_drafters_parts),
         .options = options,
         .prepare = prepare},
    .supply = COP_SUPPLY_DENSE,
    .hidden_layers = cop_drafters_hidden_layers,
    .own_depth = own_depth,
    .own_tree = own_tree,
    .open = cop_drafters_open,
    .close = cop_drafters_close,
    .begin = cop_drafters_begin,
    .expand = expand,
    .observe = cop_drafters_observe,
    .end = cop_drafters_end,
    .matched = cop_drafters_matched,
    .is_over = cop_drafters_is_over,
    .prefilled = cop_drafters_prefilled,
    .vocab = cop_drafters_vocab,
    .scout = cop_drafters_scout,
    .facts = facts,
    .offer = offer,
};
