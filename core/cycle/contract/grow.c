/* Picking children from a draft row as the tree's draw says.
 *
 * What a rule must know to recompute the law of every child from the row and the draw order:
 *
 *     independent           each child: the row
 *     without_replacement   child j: the row without the children before it
 *     deterministic         the best of the row, in order
 *     greedy_draw           of n children: the n - 1 best, then a sample of the row without
 *                           them
 *     hub_pair              with a = the best: first a sample of the row; then a, or, where a
 *                           was the sample, a sample of the row without a. (x, a) has
 *                           probability row(x), (a, x) has row(a) row(x) / (1 - row(a)). A row
 *                           with one possible token gives that token alone
 *     beam                  child j: the row without the children before it; how many there are
 *                           depends on them and on the rest of the tree
 *     selected              nothing: they were drawn without replacement, and who is missing
 *                           was left out for what it is
 *
 * The recorded row is the draft row itself in every case. */
#include "core/cycle/contract/builder.h"

/* The row that child j of frontier[i] is drawn from, and its index among the cycle's rows.
 * Children beyond the last drafter that has something come from it too. */
static int32_t row_of(const struct cop_grow *grow, int32_t i, int32_t j)
{
    int32_t n = grow->n_drafters > 1 ? grow->n_drafters : 1;
    j = j < n ? j : n - 1;
    while (j > 0 && grow->rows[i * n + j].kind == COP_ROW_NONE) {
        j--;
    }
    return i * n + j;
}

static int32_t append_child(struct cop_grow *grow, int32_t i, cop_token token, int32_t row)
{
    if (grow->budget < 1 || token < 0) {
        return -1;
    }
    int32_t node = cop_tree_add(grow->tree, grow->frontier[i], token, grow->first_row + row);
    if (node >= 0) {
        grow->budget--;
        grow->next[grow->n_next++] = node;
    }
    return node;
}

static int32_t append_list(struct cop_grow *grow, int32_t i, const cop_token *ids, int32_t n)
{
    int32_t added = 0;
    while (added < n && append_child(grow, i, ids[added], row_of(grow, i, 0)) >= 0) {
        added++;
    }
    return added;
}

/* A sampled child that comes alone may be there because of its elder siblings. */
int32_t cop_grow_add(struct cop_grow *grow, int32_t i, cop_token token)
{
    struct cop_tree *tree = grow->tree;
    int32_t elders = grow->n_drafters > 1 ? cop_tree_children(tree, grow->frontier[i]) : 0;
    int32_t row = row_of(grow, i, elders);
    if (grow->rows[row].kind == COP_ROW_NONE) {
        return -1;
    }
    int32_t node = append_child(grow, i, token, row);
    bool is_sampled =
        tree->draw == COP_DRAW_INDEPENDENT || tree->draw == COP_DRAW_WITHOUT_REPLACEMENT;
    if (node >= 0 && tree->rank[node] > 0 && is_sampled) {
        tree->flags[node] |= COP_NODE_LATER;
    }
    return node;
}

static void refuse(const struct cop_grow *grow, const char *text)
{
    struct cop_error *error = grow->draws->error;
    if (error && error->code == COP_OK) {
        (void)cop_fail(error, COP_ERR_ARGUMENT, "%s", text);
    }
}

/* Whether the next child of `parent` is the only one on its level, drawn with the noise that
 * the rule's target tokens will be drawn with. */
static bool shares_noise(const struct cop_grow *grow, int32_t parent, int32_t k)
{
    return grow->shares_noise && grow->n_frontier == 1 && k == 1 &&
           cop_tree_children(grow->tree, parent) == 0;
}

static cop_token sample_shared(const struct cop_grow *grow, int32_t row)
{
    cop_token token = -1;
    uint32_t key = cop_shared_key(grow->position, grow->level);
    (void)cop_race(grow->draws, COP_PURPOSE_SHARED, key, &grow->rows[row], 1, &token);
    return token;
}

/* One sample of a row, as child number `rank` of `parent`: its coin is named by that number, so
 * that a wider request keeps the narrower one's coins. A point needs no coin. */
static cop_token sample(const struct cop_grow *grow, int32_t row, int32_t parent, int32_t rank)
{
    const struct cop_row *law = &grow->rows[row];
    if (law->kind == COP_ROW_POINTS) {
        return law->count > 0 ? law->ids[0] : -1;
    }
    struct cop_weights weights = cop_row_weights(law);
    uint32_t key = cop_tree_child_key(grow->tree->key[parent], rank);
    return weights.vocab < 1 ? -1 : cop_pick(grow->draws, COP_PURPOSE_DRAFT, key, &weights);
}

/* The same without some tokens; -1 where nothing is left. */
static cop_token sample_rest(const struct cop_grow *grow, const struct cop_rest *rest,
                             int32_t parent, int32_t rank)
{
    struct cop_weights weights = cop_rest_weights(rest);
    uint32_t key = cop_tree_child_key(grow->tree->key[parent], rank);
    return cop_weights_sum(&weights) > 0
               ? cop_pick(grow->draws, COP_PURPOSE_DRAFT, key, &weights)
               : -1;
}

/* A child of its own for each of k draws; in a merged tree an equal sibling takes one more. */
static int32_t draw_independent(struct cop_grow *grow, int32_t i, int32_t k)
{
    struct cop_tree *tree = grow->tree;
    int32_t parent = grow->frontier[i], added = 0;
    int32_t elders = tree->is_merged ? 0 : cop_tree_children(tree, parent);
    for (int32_t j = 0; j < k; j++) {
        int32_t row = row_of(grow, i, elders + j);
        cop_token token = shares_noise(grow, parent, k) ? sample_shared(grow, row)
                                                        : sample(grow, row, parent, elders + j);
        int32_t twin = tree->is_merged ? cop_tree_find(tree, parent, token) : -1;
        if (twin >= 0) {
            tree->multiplicity[twin]++;
        } else if (append_child(grow, i, token, row) < 0) {
            break;
        } else {
            tree->flags[tree->size - 1] |= j == 0 && elders > 0 ? COP_NODE_LATER : 0;
            added++;
        }
    }
    return added;
}

/* A race; where children are there already (a builder that looks at one before it asks for the
 * next) it goes on. */
static int32_t draw_without_replacement(struct cop_grow *grow, int32_t i, int32_t k)
{
    struct cop_tree *tree = grow->tree;
    int32_t row = row_of(grow, i, 0), parent = grow->frontier[i], first = tree->size;
    int32_t elders = cop_tree_children(tree, parent);
    cop_token ids[COP_TREE_LIMIT];
    for (int32_t j = 0; j < elders; j++) {
        ids[j] = tree->token[cop_tree_child(tree, parent, j)];
    }
    k = k < COP_TREE_LIMIT - elders ? k : COP_TREE_LIMIT - elders;
    int32_t n = cop_race_on(grow->draws, COP_PURPOSE_DRAFT, tree->key[parent], &grow->rows[row],
                            elders + k, ids, elders);
    int32_t added = append_list(grow, i, ids + elders, n - elders);
    if (added > 0 && elders > 0) {
        tree->flags[first] |= COP_NODE_LATER;
    }
    return added;
}

/* The best that are not there yet, or the points in their order. The paths of a merged tree are
 * shared out among the children. */
static int32_t draw_best(struct cop_grow *grow, int32_t i, int32_t k)
{
    struct cop_tree *tree = grow->tree;
    int32_t parent = grow->frontier[i], first = tree->size;
    int32_t elders = cop_tree_children(tree, parent), n = 0;
    cop_token ids[COP_TREE_LIMIT];
    int32_t wanted = k + elders < COP_TREE_LIMIT ? k + elders : COP_TREE_LIMIT;
    int32_t found = cop_row_top(&grow->rows[row_of(grow, i, 0)], wanted, ids);
    for (int32_t j = 0; j < found && n < k; j++) {
        bool is_there = elders > 0 && cop_tree_find(tree, parent, ids[j]) >= 0;
        for (int32_t other = 0; tree->is_merged && other < n; other++) { /* points may repeat */
            is_there |= ids[other] == ids[j];
        }
        if (!is_there) {
            ids[n++] = ids[j];
        }
    }
    int32_t added = append_list(grow, i, ids, n);
    for (int32_t j = 0; tree->is_merged && j < added; j++) {
        int32_t paths = tree->multiplicity[parent];
        tree->multiplicity[first + j] = paths / added + (j < paths % added);
    }
    return added;
}

int32_t cop_grow_pick(const struct cop_grow *grow, int32_t i, double floor, int32_t k,
                      cop_token *ids, int32_t n)
{
    const struct cop_row *row = &grow->rows[i];
    uint32_t key = grow->tree->key[grow->frontier[i]];
    k = k < COP_TREE_LIMIT ? k : COP_TREE_LIMIT;
    if (k <= n || row->kind == COP_ROW_NONE) {
        return n;
    }
    if (grow->tree->draw == COP_DRAW_DETERMINISTIC) {
        return cop_row_top_above(row, floor, k, ids);
    }
    return cop_race_on(grow->draws, COP_PURPOSE_DRAFT, key, row, k, ids, n);
}

/* Children that come one at a time, each with its own coin. */
static int32_t draw_one_by_one(struct cop_grow *grow, int32_t i, int32_t k)
{
    struct cop_tree *tree = grow->tree;
    int32_t row = row_of(grow, i, 0), parent = grow->frontier[i];
    int32_t elders = cop_tree_children(tree, parent), added = 0;
    cop_token ids[COP_TREE_LIMIT];
    struct cop_rest rest = {.row = &grow->rows[row], .gone = ids, .n_gone = elders};
    for (int32_t j = 0; j < elders; j++) {
        ids[j] = tree->token[cop_tree_child(tree, parent, j)];
    }
    for (; added < k && rest.n_gone < COP_TREE_LIMIT; added++) {
        cop_token token = rest.n_gone == 0 ? sample(grow, row, parent, 0)
                                           : sample_rest(grow, &rest, parent, rest.n_gone);
        if (append_child(grow, i, token, row) < 0) {
            break;
        }
        tree->flags[tree->size - 1] |= rest.n_gone > 0 ? COP_NODE_LATER : 0;
        ids[rest.n_gone++] = token;
    }
    return added;
}

static int32_t draw_selected(struct cop_grow *grow, int32_t i, int32_t k)
{
    cop_token ids[COP_TREE_LIMIT];
    int32_t n = cop_grow_pick(grow, i, 0, k, ids, 0);
    return append_list(grow, i, ids, n);
}

/* Several drafters, each with its own best that is not there yet. */
static int32_t draw_bests(struct cop_grow *grow, int32_t i, int32_t k)
{
    int32_t parent = grow->frontier[i], elders = cop_tree_children(grow->tree, parent);
    cop_token ids[COP_TREE_LIMIT];
    int32_t added = 0;
    for (int32_t j = elders; j < elders + k; j++) {
        int32_t row = row_of(grow, i, j), next = 0;
        int32_t wanted = j + 1 < COP_TREE_LIMIT ? j + 1 : COP_TREE_LIMIT;
        int32_t found = cop_row_top(&grow->rows[row], wanted, ids);
        while (next < found && cop_tree_find(grow->tree, parent, ids[next]) >= 0) {
            next++;
        }
        if (next < found ? append_child(grow, i, ids[next], row) < 0
                         : j >= grow->n_drafters) { /* its row is used up */
            break;
        }
        added += next < found;
    }
    return added;
}

static int32_t draw_greedy(struct cop_grow *grow, int32_t i, int32_t k)
{
    cop_token ids[COP_TREE_LIMIT];
    const struct cop_row *row = &grow->rows[row_of(grow, i, 0)];
    int32_t n = cop_row_top(row, k, ids);
    if (n < 1) {
        return 0;
    }
    struct cop_rest rest = {.row = row, .gone = ids, .n_gone = n - 1};
    ids[n - 1] = sample_rest(grow, &rest, grow->frontier[i], n - 1);
    return append_list(grow, i, ids, n);
}

static int32_t draw_hub_pair(struct cop_grow *grow, int32_t i)
{
    cop_token best[2], pair[2];
    int32_t row = row_of(grow, i, 0), parent = grow->frontier[i];
    int32_t n = cop_row_top(&grow->rows[row], 2, best);
    if (n < 2) {
        return append_list(grow, i, best, n);
    }
    pair[0] = sample(grow, row, parent, 0);
    pair[1] = best[0];
    if (pair[0] == best[0]) {
        struct cop_rest rest = {.row = &grow->rows[row], .gone = best, .n_gone = 1};
        pair[1] = sample_rest(grow, &rest, parent, 1);
    }
    return append_list(grow, i, pair, 2);
}

/* Draws whose children depend on one another's number come all at once. */
static int32_t draw_together(struct cop_grow *grow, int32_t i, int32_t k, int32_t wanted)
{
    bool is_pair = grow->tree->draw == COP_DRAW_HUB_PAIR;
    if (is_pair && wanted != 2) {
        refuse(grow, "draw = \"hub_pair\" draws two children of a node: every width must be 2");
        return 0;
    }
    if (cop_tree_children(grow->tree, grow->frontier[i]) > 0) {
        refuse(grow, is_pair ? "draw = \"hub_pair\" draws both children of a node at once"
                             : "draw = \"greedy_draw\" draws all children of a node at once");
        return 0;
    }
    if (is_pair) {
        return k == 2 ? draw_hub_pair(grow, i) : 0;
    }
    return draw_greedy(grow, i, k);
}

int32_t cop_grow_draw(struct cop_grow *grow, int32_t i, int32_t k)
{
    int32_t wanted = k < COP_TREE_LIMIT ? k : COP_TREE_LIMIT;
    k = wanted < grow->budget ? wanted : grow->budget;
    if (k < 1 || grow->rows[row_of(grow, i, 0)].kind == COP_ROW_NONE) {
        return 0;
    }
    switch (grow->tree->draw) {
    case COP_DRAW_INDEPENDENT: /* merged draws may outnumber the nodes that they need */
        return draw_independent(grow, i, grow->tree->is_merged ? wanted : k);
    case COP_DRAW_DETERMINISTIC:
        return grow->n_drafters > 1 ? draw_bests(grow, i, k) : draw_best(grow, i, k);
    case COP_DRAW_WITHOUT_REPLACEMENT: return draw_without_replacement(grow, i, k);
    case COP_DRAW_GREEDY:
    case COP_DRAW_HUB_PAIR: return draw_together(grow, i, k, wanted);
    case COP_DRAW_BEAM: return draw_one_by_one(grow, i, k);
    case COP_DRAW_SELECTED: return draw_selected(grow, i, k);
    case COP_DRAW_AUTO:
    case COP_DRAW_COUNT: break; /* refused by cop_pairing_check */
    }
    return 0;
}
