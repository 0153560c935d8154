/* Enumerating one law: run the drafting and the rule once per branch, let the probability of
 * each branch rest on the tokens that came out, and compare with the target. */
#include "core/cycle/law.h"
#include "core/cycle/drafting.h"
#include "core/cycle/enumerate.h"
#include "core/cycle/prefixes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BRANCH_LIMIT = 200000,
    VOCAB_LIMIT = 16,
    LENGTH_LIMIT = 8192 /* tokens of all cycles; bounds the recursion of the comparison */
};

/* All that one enumeration owns. */
struct run {
    const struct cop_law_case *what;
    struct cop_law *law;
    const struct cop_rule_ops *rule;
    const struct cop_builder_ops *builder; /* NULL: a given tree */
    struct cop_prefixes prefixes;
    struct cop_enumeration enumeration;
    struct cop_error asked; /* wrong questions */
    struct cop_drafting drafting;
    int32_t *place;          /* [tree capacity] prefix of each node */
    struct cop_row *targets; /* [tree capacity] */
    struct cop_row *given;   /* [tree capacity] draft rows of a given tree */
    int32_t *accepted;       /* [tree capacity] */
    double *acceptance;      /* [depth + 1] nothing known */
    char *sequence_state, *length_state;
    int32_t start, n_placed; /* prefix of this cycle's root; nodes placed so far */
    struct cop_error *err;
};

/* ---- One cycle
 * -------------------------------------------------------------------------------- */

/* Finds the prefix of every node that is new in the tree. */
static enum cop_status place_nodes(struct run *run)
{
    const struct cop_tree *tree = &run->drafting.tree;
    for (; run->n_placed < tree->size; run->n_placed++) {
        int32_t node = run->n_placed;
        run->place[node] =
            node == 0 ? run->start
                      : cop_prefixes_child(&run->prefixes, run->place[tree->parent[node]],
                                           tree->token[node], run->err);
        if (run->place[node] < 0) {
            return run->err->code;
        }
    }
    return COP_OK;
}

static struct cop_row dense(const struct run *run, const double *row)
{
    return (struct cop_row){.kind = COP_ROW_DENSE, .vocab = run->what->vocab, .dense = row};
}

static enum cop_status fill_frontier(struct run *run, struct cop_frontier *frontier)
{
    int32_t n = run->prefixes.n_drafters;
    for (int32_t i = 0; i < frontier->count; i++) {
        const double *rows =
            cop_prefixes_draft(&run->prefixes, run->place[frontier->nodes[i]], run->err);
        if (!rows) {
            return run->err->code;
        }
        for (int32_t j = 0; j < n; j++) {
            frontier->rows[i * n + j] = dense(run, rows + (ptrdiff_t)j * run->what->vocab);
        }
    }
    return COP_OK;
}

static enum cop_status draft_tree(struct run *run, const struct cop_draws *draws)
{
    struct cop_drafting *drafting = &run->drafting;
    cop_drafting_start(drafting, 0, run->law->depth);
    run->n_placed = 0;
    enum cop_status status = place_nodes(run);
    while (status == COP_OK && cop_drafting_goes_on(drafting, run->what->length,
                                                    run->length_state, run->acceptance)) {
        struct cop_frontier frontier;
        status = cop_drafting_ask(drafting, 0, &frontier, run->err);
        if (status == COP_OK) {
            status = fill_frontier(run, &frontier);
        }
        if (status == COP_OK) {
            status = cop_drafting_grow(drafting, run->what->builder, draws, run->err);
        }
        if (status == COP_OK) {
            status = place_nodes(run);
        }
    }
    return status;
}

/* A given tree stays as it is; its draft rows are those of the case at each node's parent. */
static enum cop_status copy_given(struct run *run)
{
    struct cop_tree *tree = &run->drafting.tree;
    const struct cop_tree *given = run->what->given;
    cop_tree_reset(tree, 0);
    for (int32_t node = 1; node < given->size; node++) {
        (void)cop_tree_add(tree, given->parent[node], given->token[node], node);
        tree->flags[node] = given->flags[node];
    }
    run->n_placed = 0;
    enum cop_status status = place_nodes(run);
    for (int32_t node = 1; node < tree->size && status == COP_OK; node++) {
        int32_t last = run->prefixes.n_drafters - 1;
        int32_t drafter = tree->rank[node] < last ? tree->rank[node] : last;
        const double *rows =
            cop_prefixes_draft(&run->prefixes, run->place[tree->parent[node]], run->err);
        if (!rows) {
            return run->err->code;
        }
        run->given[node] = dense(run, rows + (ptrdiff_t)drafter * run->what->vocab);
    }
    return status;
}

static const struct cop_row *given_at(void *context, int32_t node)
{
    return node > 0 ? &((struct cop_row *)context)[node] : NULL;
}

static const struct cop_row *target_at(void *context, int32_t node)
{
    return &((struct cop_row *)context)[node];
}

/* Rows of all nodes beforehand, so that a rule never meets one that could not be had. */
static enum cop_status fill_targets(struct run *run)
{
    for (int32_t node = 0; node < run->drafting.tree.size; node++) {
        const double *row = cop_prefixes_target(&run->prefixes, run->place[node], run->err);
        if (!row) {
            return run->err->code;
        }
        run->targets[node] = dense(run, row);
        if (run->what->is_zero_temperature) {
            cop_token best = 0;
            while (!(row[best] > 0)) {
                best++;
            }
            run->targets[node].kind = COP_ROW_ONE_HOT;
            run->targets[node].best = best;
        }
    }
    return COP_OK;
}

static enum cop_status verify_tree(struct run *run, const struct cop_draws *draws,
                                   struct cop_verdict *verdict)
{
    struct cop_verify_in in = {.tree = &run->drafting.tree,
                               .target = {target_at, run->targets},
                               .draft = run->builder ? cop_drafting_rows(&run->drafting)
                                                     : (struct cop_rows){given_at, run->given},
                               .draws = draws,
                               .sequence_state =
                                   run->rule->sequence_state_size ? run->sequence_state : NULL};
    *verdict = (struct cop_verdict){.accepted = run->accepted, .last = -1};
    enum cop_status status = run->rule->verify(run->what->rule->state, &in, verdict, run->err);
    if (status == COP_OK && run->asked.code != COP_OK) {
        status = cop_fail(run->err, run->asked.code, "accept.%s: %s", run->rule->plug.name,
                          run->asked.text);
    }
    return status == COP_OK ? cop_verdict_check(&in, verdict, run->err) : status;
}

/* One cycle from run->start; moves it past what was committed. */
static enum cop_status run_cycle(struct run *run, const struct cop_draws *draws,
                                 int32_t *n_accepted)
{
    enum cop_status status = run->builder ? draft_tree(run, draws) : copy_given(run);
    if (status == COP_OK && run->asked.code != COP_OK) {
        status = cop_fail(run->err, run->asked.code, "drafting: %s", run->asked.text);
    }
    if (status == COP_OK) {
        status = fill_targets(run);
    }
    struct cop_verdict verdict;
    if (status == COP_OK) {
        status = verify_tree(run, draws, &verdict);
    }
    if (status != COP_OK) {
        return status;
    }
    int32_t stop = verdict.n_accepted ? verdict.accepted[verdict.n_accepted - 1] : 0;
    run->start = cop_prefixes_child(&run->prefixes, run->place[stop], verdict.last, run->err);
    *n_accepted = verdict.n_accepted;
    return run->start < 0 ? run->err->code : COP_OK;
}

/* ---- All branches
 * ----------------------------------------------------------------------------- */

static void reset_states(struct run *run)
{
    if (run->sequence_state) {
        memset(run->sequence_state, 0, run->rule->sequence_state_size);
        if (run->rule->sequence_init) {
            run->rule->sequence_init(run->what->rule->state, run->sequence_state);
        }
    }
    if (run->length_state) {
        const struct cop_length_ops *ops =
            (const struct cop_length_ops *)run->what->length->plug;
        memset(run->length_state, 0, ops->sequence_state_size);
    }
}

static void observe_length(struct run *run, int32_t n_accepted)
{
    const struct cop_length_ops *ops =
        run->what->length ? (const struct cop_length_ops *)run->what->length->plug : NULL;
    if (ops && ops->observe) {
        const struct cop_tree *tree = &run->drafting.tree;
        ops->observe(run->what->length->state, run->length_state,
                     cop_tree_depth(tree, tree->size - 1), n_accepted);
    }
}

static enum cop_status run_branch(struct run *run)
{
    struct cop_draws draws = cop_enumeration_start(&run->enumeration);
    int32_t horizon = run->what->horizon > 1 ? run->what->horizon : 1;
    int32_t first = 0, first_accepted = 0;
    run->start = 0;
    reset_states(run);
    for (int32_t cycle = 0; cycle < horizon; cycle++) {
        int32_t n_accepted = 0;
        cop_enumeration_cycle(&run->enumeration);
        enum cop_status status = run_cycle(run, &draws, &n_accepted);
        if (status != COP_OK) {
            return status;
        }
        observe_length(run, n_accepted);
        if (cycle == 0) {
            first = run->start;
            first_accepted = n_accepted;
        }
    }
    double probability = run->enumeration.probability;
    run->prefixes.items[first].first += probability;
    run->prefixes.items[run->start].final += probability;
    run->law->accepted[first_accepted] += probability;
    run->law->expected_accepted += probability * first_accepted;
    return COP_OK;
}

static enum cop_status run_branches(struct run *run)
{
    int64_t limit = run->what->max_branches > 0 ? run->what->max_branches : BRANCH_LIMIT;
    do {
        if (run->law->branches++ >= limit) {
            return cop_fail(
                run->err, COP_ERR_LIMIT,
                "more than %lld branches; take a smaller vocabulary, depth or width",
                (long long)limit);
        }
        enum cop_status status = run_branch(run);
        if (status != COP_OK) {
            return status;
        }
    } while (cop_enumeration_next(&run->enumeration));
    if (run->asked.code != COP_OK) {
        return cop_fail(run->err, run->asked.code, "%s", run->asked.text);
    }
    double total = 0;
    for (int32_t d = 0; d <= run->law->depth; d++) {
        total += run->law->accepted[d];
    }
    return fabs(total - 1) < 1e-9
               ? COP_OK
               : cop_fail(run->err, COP_ERR_NUMERIC,
                          "the branches have probability %.12g together, not 1", total);
}

/* ---- Results
 * ---------------------------------------------------------------------------------- */

static enum cop_status add_outcome(struct run *run, int32_t prefix)
{
    const struct cop_prefix *item = &run->prefixes.items[prefix];
    const cop_token *tokens = cop_prefixes_tokens(&run->prefixes, prefix, run->err);
    cop_token *copy = tokens ? malloc((size_t)item->length * sizeof *copy) : NULL;
    if (!copy) {
        return cop_fail(run->err, COP_ERR_MEMORY, "no memory for the outcomes of a law");
    }
    memcpy(copy, tokens, (size_t)item->length * sizeof *copy);
    run->law->outcomes[run->law->n_outcomes++] = (struct cop_law_outcome){
        .tokens = copy, .n_accepted = item->length - 1, .probability = item->first};
    return COP_OK;
}

/* A walk in the order of tokens: a sequence comes before those that begin with it. */
static enum cop_status collect(struct run *run, int32_t prefix)
{
    enum cop_status status = COP_OK;
    if (run->prefixes.items[prefix].first > 0) {
        status = add_outcome(run, prefix);
    }
    int32_t child = run->prefixes.items[prefix].first_child;
    bool has_children = child > 0 && run->prefixes.items[prefix].length <= run->law->depth;
    for (int32_t y = 0; y < run->what->vocab && has_children && status == COP_OK; y++) {
        status = collect(run, child + y);
    }
    return status;
}

static enum cop_status collect_outcomes(struct run *run)
{
    size_t n = 0;
    for (int32_t i = 0; i < run->prefixes.count; i++) {
        n += run->prefixes.items[i].first > 0;
    }
    run->law->outcomes = calloc(n + 1, sizeof *run->law->outcomes);
    if (!run->law->outcomes) {
        return cop_fail(run->err, COP_ERR_MEMORY, "no memory for the outcomes of a law");
    }
    return collect(run, 0);
}

/* ---- Setting up
 * ------------------------------------------------------------------------------- */

static enum cop_status check_case(const struct cop_law_case *what, struct cop_error *err)
{
    if (what->vocab < 2 || what->vocab > VOCAB_LIMIT) {
        return cop_fail(err, COP_ERR_LIMIT,
                        "enumeration takes vocabularies of 2 to %d tokens, not %d", VOCAB_LIMIT,
                        (int)what->vocab);
    }
    if (!what->builder == !what->given) {
        return cop_fail(err, COP_ERR_ARGUMENT, "a law needs a tree builder or a given tree");
    }
    for (int32_t i = 1; what->given && i < what->given->size; i++) {
        if (what->given->token[i] < 0 || what->given->token[i] >= what->vocab) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "token %d of the given tree is outside the vocabulary of %d",
                            (int)what->given->token[i], (int)what->vocab);
        }
    }
    return COP_OK;
}

static enum cop_status resolve_draw(struct run *run)
{
    const struct cop_law_case *what = run->what;
    struct cop_pairing pairing = {.rule = what->rule,
                                  .builder = what->builder,
                                  .supply = COP_SUPPLY_DENSE,
                                  .draw = what->draw,
                                  .relaxed = what->relaxed,
                                  .is_zero_temperature = what->is_zero_temperature};
    if (what->given) {
        pairing.shape = cop_tree_shape(what->given);
        pairing.draw = what->draw == COP_DRAW_AUTO ? what->given->draw : what->draw;
    }
    enum cop_status status = cop_pairing_check(&pairing, &run->law->draw, NULL, run->err);
    run->law->shape = run->builder ? run->builder->shape(what->builder->state) : pairing.shape;
    if (status == COP_OK && what->n_drafters > 1 && what->builder &&
        run->law->draw != COP_DRAW_INDEPENDENT && run->law->draw != COP_DRAW_DETERMINISTIC) {
        return cop_fail(
            run->err, COP_ERR_ARGUMENT,
            "several drafters draw one child each: draw = \"independent\", not \"%s\"",
            cop_draw_name(run->law->draw));
    }
    return status;
}

static int32_t depth_of(const struct run *run)
{
    if (run->builder) {
        return run->builder->depth(run->what->builder->state);
    }
    int32_t depth = 0;
    for (int32_t node = 1; node < run->what->given->size; node++) {
        int32_t d = cop_tree_depth(run->what->given, node);
        depth = d > depth ? d : depth;
    }
    return depth;
}

static enum cop_status reserve(struct run *run)
{
    const struct cop_law_case *what = run->what;
    int32_t nodes =
        run->builder ? run->builder->nodes(what->builder->state) : what->given->size - 1;
    enum cop_status status = cop_drafting_init(&run->drafting, nodes, NULL, run->err);
    if (status != COP_OK) {
        return status;
    }
    run->drafting.n_drafters = run->prefixes.n_drafters;
    run->drafting.tree.draw = run->law->draw;
    run->drafting.tree.is_merged = what->given && what->given->is_merged;
    size_t n = (size_t)nodes + 1, levels = (size_t)run->law->depth + 1;
    size_t cells = levels * (size_t)what->vocab;
    const struct cop_length_ops *length =
        what->length ? (const struct cop_length_ops *)what->length->plug : NULL;
    run->place = calloc(n, sizeof *run->place);
    run->targets = calloc(n, sizeof *run->targets);
    run->given = calloc(n, sizeof *run->given);
    run->accepted = calloc(n, sizeof *run->accepted);
    run->acceptance = calloc(levels, sizeof *run->acceptance);
    run->sequence_state = calloc(1, run->rule->sequence_state_size + 1);
    run->length_state = calloc(1, (length ? length->sequence_state_size : 0) + 1);
    run->law->accepted = calloc(levels, sizeof *run->law->accepted);
    run->law->position = calloc(cells, sizeof *run->law->position);
    run->law->target_position = calloc(cells, sizeof *run->law->target_position);
    if (!run->place || !run->targets || !run->given || !run->accepted || !run->acceptance ||
        !run->sequence_state || !run->length_state || !run->law->accepted ||
        !run->law->position || !run->law->target_position) {
        return cop_fail(run->err, COP_ERR_MEMORY, "no memory for an enumeration");
    }
    for (size_t i = 0; i < levels; i++) {
        run->acceptance[i] = (double)NAN;
    }
    return COP_OK;
}

static void release(struct run *run)
{
    cop_prefixes_release(&run->prefixes);
    cop_enumeration_release(&run->enumeration);
    cop_drafting_release(&run->drafting);
    free(run->place);
    free(run->targets);
    free(run->given);
    free(run->accepted);
    free(run->acceptance);
    free(run->sequence_state);
    free(run->length_state);
}

static enum cop_status enumerate(struct run *run)
{
    enum cop_status status = resolve_draw(run);
    if (status != COP_OK) {
        return status;
    }
    run->law->depth = depth_of(run);
    int64_t horizon = run->what->horizon > 1 ? run->what->horizon : 1;
    int64_t length = horizon * (run->law->depth + 1);
    if (length > LENGTH_LIMIT) {
        return cop_fail(run->err, COP_ERR_LIMIT,
                        "enumeration reaches at most %d tokens, depth and horizon ask for %lld",
                        LENGTH_LIMIT, (long long)length);
    }
    status = reserve(run);
    if (status == COP_OK) {
        status = run_branches(run);
    }
    if (status == COP_OK) {
        status = collect_outcomes(run);
    }
    return status == COP_OK
               ? cop_prefixes_compare(&run->prefixes, (int32_t)length, run->law, run->err)
               : status;
}

enum cop_status cop_law_enumerate(struct cop_law *law, const struct cop_law_case *what,
                                  struct cop_error *err)
{
    *law = (struct cop_law){0};
    struct cop_error scratch = {.code = COP_OK};
    struct run run = {.what = what,
                      .law = law,
                      .rule = (const struct cop_rule_ops *)what->rule->plug,
                      .err = err ? err : &scratch};
    run.builder = what->builder ? (const struct cop_builder_ops *)what->builder->plug : NULL;
    enum cop_status status = check_case(what, run.err);
    if (status == COP_OK) {
        status = cop_prefixes_init(&run.prefixes, what, run.err);
    }
    if (status == COP_OK) {
        cop_enumeration_init(&run.enumeration, &run.asked);
        status = enumerate(&run);
    }
    release(&run);
    if (status != COP_OK) {
        cop_law_release(law);
    }
    return status;
}

void cop_law_release(struct cop_law *law)
{
    for (int64_t i = 0; i < law->n_outcomes; i++) {
        free(law->outcomes[i].tokens);
    }
    free(law->outcomes);
    free(law->accepted);
    free(law->position);
    free(law->target_position);
    *law = (struct cop_law){0};
}
