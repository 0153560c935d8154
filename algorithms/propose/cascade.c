/* A horizontal cascade: the first levels of a draft come from the first drafter, later ones,
 * which are accepted less often, from cheaper ones.
 *
 *     depths = { 2, 3, 4 }     levels 1 and 2: first; 3 to 5: second; from 6 on: third
 *
 * The row recorded is that of the drafter whose level it is, or of the next one that has
 * something. Later drafters are asked on every level, because they must have seen a node to go
 * on from it. With a draft model as the first drafter and cop.propose.staged around it this is
 * the whole of the published scheme. */
#include "algorithms/propose/drafters.h"

#include <stddef.h>

struct cascade {
    struct cop_drafters_parts drafters; /* first: shared slots read it */
    struct cop_int_list depths;
};

static const struct cop_option options[] = {
    COP_DRAFTERS_OPTIONS,
    {.name = "depths",
     .type = COP_OPTION_INTS,
     .offset = offsetof(struct cascade, depths),
     .min = 1,
     .max = COP_TREE_LIMIT - 1,
     .flags = COP_OPTION_REQUIRED | COP_OPTION_FILLED,
     .help = "levels that each drafter drafts; the last goes on where a tree is deeper"},
    {0}};

static enum cop_status prepare(void *state, struct cop_error *err)
{
    const struct cascade *cascade = state;
    int32_t n = cop_drafters_count(&cascade->drafters), sum = 0;
    if (cascade->depths.count != n) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.propose.cascade: depths has %d entries for %d drafters",
                        cascade->depths.count, n);
    }
    for (int32_t i = 0; i < n; i++) {
        sum += cascade->depths.items[i];
    }
    if (sum >= COP_TREE_LIMIT) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.propose.cascade: depths add up to %d levels, at most %d", sum,
                        COP_TREE_LIMIT - 1);
    }
    return cop_drafters_check(&cascade->drafters, "cop.propose.cascade", err);
}

/* Points among the rows have no probabilities: then all count as points. */
static void facts(const void *state, struct cop_proposer_facts *facts)
{
    const struct cascade *cascade = state;
    cop_drafters_facts(&cascade->drafters, facts);
    facts->rows_by_prefix = false; /* the same prefix is another level of another cycle */
    for (int32_t i = 0; i < cop_drafters_count(&cascade->drafters); i++) {
        struct cop_proposer_facts one = cop_proposer_facts(cascade->drafters.parts[i]);
        facts->supply = one.supply == COP_SUPPLY_POINTS ? one.supply : facts->supply;
    }
}

static int32_t own_depth(const void *state)
{
    const struct cascade *cascade = state;
    int32_t sum = 0;
    for (int32_t i = 0; i < cascade->depths.count; i++) {
        sum += cascade->depths.items[i];
    }
    return sum;
}

/* Whose rows a node of this depth gets children from. */
static int32_t drafter_at(const struct cascade *cascade, int32_t depth)
{
    int32_t i = 0;
    while (i < cascade->depths.count - 1 && depth >= cascade->depths.items[i]) {
        depth -= cascade->depths.items[i++];
    }
    return i;
}

static void fill_gaps(struct cop_frontier *frontier, const struct cop_row *rows)
{
    for (int32_t i = 0; i < frontier->count; i++) {
        if (frontier->rows[i].kind == COP_ROW_NONE) {
            frontier->rows[i] = rows[i];
        }
    }
}

static enum cop_status expand(void *opened, struct cop_frontier *frontiers, int32_t n_frontiers,
                              struct cop_error *err)
{
    struct cop_drafters *drafters = opened;
    int32_t depth = cop_tree_depth(frontiers[0].tree, frontiers[0].nodes[0]);
    enum cop_status status = COP_OK;
    for (int32_t i = drafter_at(drafters->state, depth);
         i < drafters->count && status == COP_OK; i++) {
        status = cop_drafters_expand(drafters, i, frontiers, n_frontiers, err);
        for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
            fill_gaps(&frontiers[f], drafters->frontiers[f].rows);
        }
    }
    return status;
}

const struct cop_proposer_ops cop_propose_cascade = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "cascade",
             .help =
                 "the first levels of a draft from one drafter, later ones from cheaper ones; "
                 "the row recorded is that of the drafter whose level it is",
             .source = "Chen et al. 2023 (horizontal cascade), arXiv:2312.11462; the vertical "
                       "one is cop.propose.staged",
             .synonyms = "cascade speculative drafting, CS drafting",
             .state_size = sizeof(struct cascade),
             .options = options,
             .prepare = prepare},
    .supply = COP_SUPPLY_DENSE,
    .hidden_layers = cop_drafters_hidden_layers,
    .own_depth = own_depth,
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
};
