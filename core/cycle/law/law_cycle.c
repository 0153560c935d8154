/* One cycle of an enumeration: the engine's drafting and the rule's verify, on rows that come
 * from the case's functions. */
#include "core/cycle/law/law_run.h"

/* Finds the prefix of every node that is new in the tree. */
static enum cop_status place_nodes(struct cop_law_run *run)
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

static struct cop_row dense(const struct cop_law_run *run, const double *row)
{
    return (struct cop_row){.kind = COP_ROW_DENSE, .vocab = run->what->vocab, .dense = row};
}

static enum cop_status fill_frontier(struct cop_law_run *run, struct cop_frontier *frontier)
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

static enum cop_status draft_tree(struct cop_law_run *run, const struct cop_draws *draws)
{
    struct cop_drafting *drafting = &run->drafting;
    cop_drafting_start(drafting, 0, run->law->depth);
    drafting->position = run->prefixes.items[run->start].length;
    run->n_placed = 0;
    enum cop_status status = place_nodes(run);
    const struct cop_length_memory memory = {.state = run->length_state,
                                             .acceptance = run->acceptance};
    while (status == COP_OK && cop_drafting_goes_on(drafting, run->what->length, &memory)) {
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
    if (status == COP_OK && run->builder->select) {
        cop_drafting_finish(drafting, run->what->builder);
        run->n_placed = 0;
        status = place_nodes(run);
    }
    return status;
}

/* A given tree stays as it is; its draft rows are those of the case at each node's parent. */
static enum cop_status copy_given(struct cop_law_run *run)
{
    struct cop_tree *tree = &run->drafting.tree;
    const struct cop_tree *given = run->what->given;
    cop_tree_reset(tree, 0);
    tree->multiplicity[0] = given->multiplicity[0];
    for (int32_t node = 1; node < given->size; node++) {
        (void)cop_tree_add(tree, given->parent[node], given->token[node], node);
        tree->flags[node] = given->flags[node];
        tree->multiplicity[node] = given->multiplicity[node];
    }
    run->n_placed = 0;
    enum cop_status status = place_nodes(run);
    bool has_rows = !run->what->given_draft && run->what->draft;
    for (int32_t node = 1; node < tree->size && status == COP_OK && has_rows; node++) {
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
    const struct cop_row *row = &((struct cop_row *)context)[node];
    return node > 0 && row->kind != COP_ROW_NONE ? row : NULL;
}

static const struct cop_row *target_at(void *context, int32_t node)
{
    return &((struct cop_row *)context)[node];
}

/* Rows of all nodes beforehand, so that a rule never meets one that could not be had. */
static enum cop_status fill_targets(struct cop_law_run *run)
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
            run->targets[node].dense = row + run->what->vocab;
            run->targets[node].best = best;
        }
    }
    return COP_OK;
}

static enum cop_status verify_tree(struct cop_law_run *run, const struct cop_draws *draws,
                                   struct cop_verdict *verdict)
{
    struct cop_verify_in in = {.tree = &run->drafting.tree,
                               .position = run->drafting.position,
                               .target = {target_at, run->targets},
                               .draft = {given_at, run->given},
                               .draws = draws,
                               .sequence_state =
                                   run->rule->sequence_state_size ? run->sequence_state : NULL};
    if (run->builder) {
        in.draft = cop_drafting_rows(&run->drafting);
    } else {
        in.target = run->what->given_target ? *run->what->given_target : in.target;
        in.draft = run->what->given_draft ? *run->what->given_draft : in.draft;
    }
    *verdict = (struct cop_verdict){.accepted = run->accepted, .last = -1};
    enum cop_status status = run->rule->verify(run->what->rule->state, &in, verdict, run->err);
    return status == COP_OK ? cop_rule_check(run->rule, &in, verdict, &run->asked, run->err)
                            : status;
}

static enum cop_status check_siblings(const struct cop_law_run *run)
{
    const struct cop_tree *tree = &run->drafting.tree;
    int32_t n = run->what->n_drafters;
    for (int32_t node = 1; run->what->one_each && node < tree->size; node++) {
        if (tree->rank[node] >= n) {
            return cop_fail(
                run->err, COP_ERR_ARGUMENT,
                "option \"drafts\" has %d row%s, but node %d has more children; give "
                "one row for each sibling, or draft = the row that all come from",
                (int)n, n == 1 ? "" : "s", (int)tree->parent[node]);
        }
    }
    return COP_OK;
}

/* Where cycles must draft equally deep, all branches of the first one must, too: what they
 * draft is not to tell when to stop. */
static enum cop_status check_depth(struct cop_law_run *run)
{
    const struct cop_tree *tree = &run->drafting.tree;
    int32_t depth = cop_tree_depth(tree, tree->size - 1);
    bool may_vary = !run->rule->constant_length || !run->builder || run->what->relaxed ||
                    run->what->is_zero_temperature;
    if (may_vary || run->depth_before == 0 || run->depth_before == depth + 1) {
        run->depth_before = depth + 1;
        return COP_OK;
    }
    return cop_fail(
        run->err, COP_ERR_UNSOUND,
        "accept.%s is lossless only where every cycle drafts to the same depth, "
        "whatever it drafts, and the tree is %d deep here and %d there; take a tree "
        "of fixed depth, or say relaxed = true",
        run->rule->plug.name, (int)run->depth_before - 1, (int)depth);
}

enum cop_status cop_law_cycle(struct cop_law_run *run, const struct cop_draws *draws,
                              int32_t *n_accepted)
{
    enum cop_status status = run->builder ? draft_tree(run, draws) : copy_given(run);
    if (status == COP_OK) {
        status = check_siblings(run);
    }
    if (status == COP_OK) {
        status = check_depth(run);
    }
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
