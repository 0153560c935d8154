/* The bound of a case. One level has a formula (optimum_subset.c). Otherwise the drafting is
 * enumerated: as a rule that accepts nothing and notes which paths were there, so that trees,
 * draws, drafters and length policies are the engine's own; then each depth is a flow problem,
 *
 *     source --Pr(S)--> set S --> each path in S --target(path)--> sink. */
#include "core/cycle/law/optimum.h"
#include "core/cycle/contract/proposer.h"
#include "core/cycle/law/enumerate.h"
#include "core/cycle/law/flow.h"
#include "core/cycle/law/prefixes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *cop_optimum_method_name(enum cop_optimum_method method)
{
    return method == COP_OPTIMUM_SUBSET ? "subset" : "max_flow";
}

/* ---- Noting the sets of one branch
 * ------------------------------------------------------------ */

struct path_set { /* the paths of one depth in one branch */
    int32_t depth, n;
    size_t first; /* into members, until sets are sorted */
    const int32_t *paths;
    double probability;
};

struct notes {
    struct cop_prefixes prefixes; /* every path met */
    double *target;               /* [target_capacity] probability of a path, by its number */
    int32_t target_capacity;
    int32_t *members; /* numbers of paths, set after set */
    size_t n_members, members_capacity;
    struct path_set *sets;
    int32_t n_sets, sets_capacity;
    int32_t place[COP_TREE_LIMIT + 1]; /* of each node of the tree at hand, -1: hidden */
};

/* Room for `wanted` items of `size` bytes; false: no memory. */
static bool grow_to(void **items, size_t *capacity, size_t wanted, size_t size)
{
    if (wanted > *capacity) {
        size_t bigger = wanted > 2 * *capacity ? wanted : 2 * *capacity;
        void *moved = realloc(*items, bigger * size);
        if (!moved) {
            return false;
        }
        *items = moved;
        *capacity = bigger;
    }
    return true;
}

static enum cop_status no_memory(struct cop_error *err)
{
    return cop_fail(err, COP_ERR_MEMORY, "no memory for an optimum");
}

static int by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Numbers the paths that end in each node, and their probability under the target. */
static enum cop_status place_nodes(struct notes *notes, const struct cop_verify_in *in,
                                   struct cop_error *err)
{
    const struct cop_tree *tree = in->tree;
    notes->place[0] = 0;
    for (int32_t node = 1; node < tree->size; node++) {
        int32_t parent = notes->place[tree->parent[node]];
        notes->place[node] = -1;
        if (parent < 0 || (tree->flags[node] & COP_NODE_SCOUT)) {
            continue;
        }
        int32_t path = cop_prefixes_child(&notes->prefixes, parent, tree->token[node], err);
        if (path < 0) {
            return err->code;
        }
        if (path >= notes->target_capacity) {
            size_t capacity = (size_t)notes->target_capacity;
            void *items = notes->target;
            if (!grow_to(&items, &capacity, (size_t)path + 1, sizeof *notes->target)) {
                return no_memory(err);
            }
            notes->target = items;
            notes->target_capacity = (int32_t)capacity;
        }
        notes->target[0] = 1;
        notes->target[path] = notes->target[parent] *
                              cop_row_probability(cop_rows_at(&in->target, tree->parent[node]),
                                                  tree->token[node]);
        notes->place[node] = path;
    }
    return COP_OK;
}

/* The different paths of one depth, ascending. */
static enum cop_status note_depth(struct notes *notes, const struct cop_tree *tree,
                                  int32_t depth, double probability, struct cop_error *err)
{
    void *members = notes->members, *sets = notes->sets;
    size_t capacity = (size_t)notes->sets_capacity;
    if (!grow_to(&members, &notes->members_capacity, notes->n_members + (size_t)tree->size,
                 sizeof *notes->members)) {
        return no_memory(err);
    }
    notes->members = members;
    if (!grow_to(&sets, &capacity, (size_t)notes->n_sets + 1, sizeof *notes->sets)) {
        return no_memory(err);
    }
    notes->sets = sets;
    notes->sets_capacity = (int32_t)capacity;
    int32_t *paths = notes->members + notes->n_members, n = 0, kept = 0;
    for (int32_t node = 1; node < tree->size; node++) {
        if (notes->place[node] >= 0 &&
            notes->prefixes.items[notes->place[node]].length == depth) {
            paths[n++] = notes->place[node];
        }
    }
    qsort(paths, (size_t)n, sizeof *paths, by_number);
    for (int32_t i = 0; i < n; i++) {
        if (kept == 0 || paths[i] != paths[kept - 1]) {
            paths[kept++] = paths[i];
        }
    }
    if (kept > 0) {
        notes->sets[notes->n_sets++] = (struct path_set){
            .depth = depth, .n = kept, .first = notes->n_members, .probability = probability};
        notes->n_members += (size_t)kept;
    }
    return COP_OK;
}

struct observer {
    struct notes *notes;
};

/* Accepts nothing and asks nothing: a branch of this rule is a branch of the drafting, and the
 * answers given so far have its probability. Only the enumeration calls it. */
static enum cop_status note_tree(const void *state, const struct cop_verify_in *in,
                                 struct cop_verdict *out, struct cop_error *err)
{
    struct notes *notes = ((const struct observer *)state)->notes;
    double probability = ((const struct cop_enumeration *)in->draws->state)->probability;
    enum cop_status status = place_nodes(notes, in, err);
    int32_t depth = 0;
    for (int32_t node = 1; node < in->tree->size && status == COP_OK; node++) {
        int32_t place = notes->place[node];
        int32_t d = place >= 0 ? notes->prefixes.items[place].length : 0;
        depth = d > depth ? d : depth;
    }
    for (int32_t d = 1; d <= depth && status == COP_OK; d++) {
        status = note_depth(notes, in->tree, d, probability, err);
    }
    (void)cop_row_top(cop_rows_at(&in->target, 0), 1, &out->last);
    out->origin = COP_ORIGIN_RECOVERED;
    return status;
}

static const struct cop_claim any_draw[] = {{COP_DRAW_COUNT, COP_SHAPE_TREE, false},
                                            {.draw = COP_DRAW_AUTO}};
static const struct cop_rule_ops note_taker = {
    .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_RULE, .name = "optimum"},
    .lossless_for = any_draw,
    .verify = note_tree,
    .several_rows = true,
};

/* ---- One depth as a flow
 * ---------------------------------------------------------------------- */

static int by_members(const void *a, const void *b)
{
    const struct path_set *x = a, *y = b;
    if (x->depth != y->depth || x->n != y->n) {
        return x->depth != y->depth ? x->depth - y->depth : x->n - y->n;
    }
    return memcmp(x->paths, y->paths, (size_t)x->n * sizeof *x->paths);
}

/* Equal sets become one. */
static void merge_sets(struct notes *notes)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < notes->n_sets; i++) {
        notes->sets[i].paths = notes->members + notes->sets[i].first;
    }
    if (notes->n_sets > 0) {
        qsort(notes->sets, (size_t)notes->n_sets, sizeof *notes->sets, by_members);
    }
    for (int32_t i = 0; i < notes->n_sets; i++) {
        if (kept > 0 && by_members(&notes->sets[kept - 1], &notes->sets[i]) == 0) {
            notes->sets[kept - 1].probability += notes->sets[i].probability;
        } else {
            notes->sets[kept++] = notes->sets[i];
        }
    }
    notes->n_sets = kept;
}

/* The paths on the source's side: what the flow could not carry away from there. */
static enum cop_status read_cut(struct notes *notes, const struct cop_flow *flow,
                                const int32_t *node_of, int32_t depth,
                                struct cop_optimum_cut *cut, struct cop_error *err)
{
    int32_t n = 0;
    for (int32_t path = 1; path < notes->prefixes.count; path++) {
        n += node_of[path] > 0 && cop_flow_is_cut(flow, node_of[path]);
    }
    cut->tokens = malloc(((size_t)n * (size_t)depth + 1) * sizeof *cut->tokens);
    if (!cut->tokens) {
        return no_memory(err);
    }
    for (int32_t path = 1; path < notes->prefixes.count; path++) {
        if (node_of[path] > 0 && cop_flow_is_cut(flow, node_of[path])) {
            const cop_token *tokens = cop_prefixes_tokens(&notes->prefixes, path, err);
            if (!tokens) {
                return err->code;
            }
            memcpy(cut->tokens + (ptrdiff_t)depth * cut->n_paths++, tokens,
                   (size_t)depth * sizeof *tokens);
        }
    }
    return COP_OK;
}

/* sets[0 .. n_sets) are of this depth. node_of: [number of paths] zeroed scratch. */
static enum cop_status solve_depth(struct notes *notes, const struct path_set *sets,
                                   int32_t n_sets, int32_t depth, int32_t *node_of,
                                   double *level, struct cop_optimum_cut *cut,
                                   struct cop_error *err)
{
    int64_t n_edges = n_sets;
    int32_t n_nodes = 2 + n_sets; /* source, sink, sets, paths */
    for (int32_t i = 0; i < n_sets; i++) {
        n_edges += sets[i].n;
        for (int32_t j = 0; j < sets[i].n; j++) {
            int32_t *node = &node_of[sets[i].paths[j]];
            *node = *node > 0 ? *node : n_nodes++;
        }
    }
    n_edges += n_nodes - 2 - n_sets;
    struct cop_flow flow;
    enum cop_status status =
        n_edges < INT32_MAX / 4 ? cop_flow_init(&flow, n_nodes, (int32_t)n_edges, err)
                                : cop_fail(err, COP_ERR_LIMIT, "too many paths for an optimum");
    if (status != COP_OK) {
        return status;
    }
    for (int32_t i = 0; i < n_sets; i++) {
        (void)cop_flow_add(&flow, 0, 2 + i, sets[i].probability);
        for (int32_t j = 0; j < sets[i].n; j++) {
            (void)cop_flow_add(&flow, 2 + i, node_of[sets[i].paths[j]], (double)INFINITY);
        }
    }
    for (int32_t path = 1; path < notes->prefixes.count; path++) {
        if (node_of[path] > 0) {
            (void)cop_flow_add(&flow, node_of[path], 1, notes->target[path]);
        }
    }
    *level = fmin(cop_flow_solve(&flow, 0, 1), 1);
    status = read_cut(notes, &flow, node_of, depth, cut, err);
    cop_flow_release(&flow);
    return status;
}

static enum cop_status solve_depths(struct notes *notes, struct cop_optimum *optimum,
                                    struct cop_error *err)
{
    enum cop_status status = COP_OK;
    size_t n_paths = (size_t)notes->prefixes.count;
    int32_t *node_of = malloc(n_paths * sizeof *node_of);
    if (!node_of) {
        return no_memory(err);
    }
    merge_sets(notes);
    for (int32_t i = 0; i < notes->n_sets && status == COP_OK;) {
        int32_t n = 0, depth = notes->sets[i].depth;
        while (i + n < notes->n_sets && notes->sets[i + n].depth == depth) {
            n++;
        }
        memset(node_of, 0, n_paths * sizeof *node_of);
        status = solve_depth(notes, notes->sets + i, n, depth, node_of,
                             &optimum->levels[depth - 1], &optimum->cuts[depth - 1], err);
        i += n;
    }
    free(node_of);
    return status;
}

/* ---- Cases
 * ------------------------------------------------------------------------------------ */

static enum cop_status reserve_levels(struct cop_optimum *optimum, int32_t depth,
                                      struct cop_error *err)
{
    optimum->depth = depth;
    optimum->levels = calloc((size_t)depth + 1, sizeof *optimum->levels);
    optimum->cuts = calloc((size_t)depth + 1, sizeof *optimum->cuts);
    return optimum->levels && optimum->cuts ? COP_OK : no_memory(err);
}

/* The children of one row, as many as the builder's shape says whatever the context. */
static int32_t one_level(const struct cop_law_case *what)
{
    if (!what->builder || what->length || what->n_drafters > 1) {
        return 0;
    }
    const struct cop_builder_ops *ops = (const struct cop_builder_ops *)what->builder->plug;
    bool is_fixed = ops->sketch || ops->shape(what->builder->state) == COP_SHAPE_PATHS;
    return is_fixed && ops->depth(what->builder->state) == 1 ? ops->nodes(what->builder->state)
                                                             : 0;
}

static enum cop_status by_formula(struct cop_optimum *optimum, struct notes *notes,
                                  const struct cop_law_case *what, int32_t n_children,
                                  struct cop_error *err)
{
    const double *target = cop_prefixes_target(&notes->prefixes, 0, err);
    const double *draft = target ? cop_prefixes_draft(&notes->prefixes, 0, err) : NULL;
    if (!draft) {
        return err->code;
    }
    enum cop_status status = reserve_levels(optimum, 1, err);
    bool *in_cut = calloc((size_t)what->vocab + 1, sizeof *in_cut);
    cop_token *tokens = malloc(((size_t)what->vocab + 1) * sizeof *tokens);
    if (status == COP_OK && (!in_cut || !tokens)) {
        status = no_memory(err);
    }
    if (status == COP_OK) {
        status = cop_optimum_subset(target, draft, what->vocab, optimum->draw, n_children,
                                    &optimum->levels[0], in_cut, err);
    }
    if (status != COP_OK) {
        free(in_cut);
        free(tokens);
        return status;
    }
    struct cop_optimum_cut *cut = &optimum->cuts[0];
    cut->tokens = tokens;
    for (int32_t i = 0; i < what->vocab; i++) {
        if (in_cut[i]) {
            tokens[cut->n_paths++] = i;
        }
    }
    free(in_cut);
    return COP_OK;
}

static enum cop_status by_flow(struct cop_optimum *optimum, struct notes *notes,
                               const struct cop_law_case *what, struct cop_error *err)
{
    struct cop_law law;
    enum cop_status status = cop_law_enumerate(&law, what, err);
    if (status != COP_OK) {
        return status;
    }
    optimum->method = COP_OPTIMUM_MAX_FLOW;
    optimum->branches = law.branches;
    optimum->draw = law.draw;
    status = reserve_levels(optimum, law.depth, err);
    cop_law_release(&law);
    return status == COP_OK ? solve_depths(notes, optimum, err) : status;
}

static enum cop_status find(struct cop_optimum *optimum, struct notes *notes,
                            const struct cop_law_case *what, struct cop_error *err)
{
    struct cop_pairing pairing = {.rule = what->rule,
                                  .builder = what->builder,
                                  .supply = COP_SUPPLY_DENSE,
                                  .draw = what->draw,
                                  .is_zero_temperature = what->is_zero_temperature};
    int32_t n_children = one_level(what);
    enum cop_status status = cop_prefixes_init(&notes->prefixes, what, err);
    if (status == COP_OK && n_children > 0) {
        status = cop_pairing_check(&pairing, &optimum->draw, NULL, err);
    }
    if (status != COP_OK) {
        return status;
    }
    bool has_formula = n_children > 0 && optimum->draw != COP_DRAW_BEAM &&
                       optimum->draw != COP_DRAW_SELECTED &&
                       (optimum->draw != COP_DRAW_HUB_PAIR || n_children == 2);
    return has_formula ? by_formula(optimum, notes, what, n_children, err)
                       : by_flow(optimum, notes, what, err);
}

enum cop_status cop_optimum_find(struct cop_optimum *optimum, const struct cop_law_case *what,
                                 struct cop_error *err)
{
    *optimum = (struct cop_optimum){.method = COP_OPTIMUM_SUBSET};
    struct cop_error scratch = {.code = COP_OK};
    err = err ? err : &scratch;
    struct notes *notes = calloc(1, sizeof *notes);
    if (!notes) {
        return no_memory(err);
    }
    struct observer state = {.notes = notes};
    struct cop_part rule = {.plug = &note_taker.plug, .state = &state, .is_prepared = true};
    struct cop_law_case drafting = *what;
    drafting.rule = &rule;
    drafting.relaxed = false;
    drafting.horizon = 1;
    enum cop_status status = find(optimum, notes, &drafting, err);
    cop_prefixes_release(&notes->prefixes);
    free(notes->target);
    free(notes->members);
    free(notes->sets);
    free(notes);
    for (int32_t d = 0; d < optimum->depth && status == COP_OK; d++) {
        optimum->value += optimum->levels[d];
    }
    optimum->is_attained = optimum->depth <= 1;
    if (status != COP_OK) {
        cop_optimum_release(optimum);
    }
    return status;
}

void cop_optimum_release(struct cop_optimum *optimum)
{
    for (int32_t d = 0; optimum->cuts && d < optimum->depth; d++) {
        free(optimum->cuts[d].tokens);
    }
    free(optimum->cuts);
    free(optimum->levels);
    *optimum = (struct cop_optimum){0};
}
