/* Rules that keep what lies in a set, wherever it was drafted: the longest kept path wins. */
#include "algorithms/accept/relaxed/relaxed.h"

#include <math.h>

/* A node's place in the search; nodes come after their parents. */
struct place {
    int32_t depth; /* of a kept node; -1: not kept */
    double log_prob;
};

static bool is_better(const struct place *a, const struct place *b)
{
    return a->depth > b->depth || (a->depth == b->depth && a->log_prob > b->log_prob);
}

bool cop_longest_path(cop_keeps keeps, void *context, const struct cop_tree *tree,
                      struct cop_verdict *out)
{
    struct place places[COP_TREE_LIMIT + 1];
    int32_t best = 0;
    places[0] = (struct place){0};
    for (int32_t i = 1; i < tree->size; i++) {
        places[i].depth = -1;
    }
    for (int32_t node = 0; node < tree->size; node++) {
        if (places[node].depth < 0) {
            continue;
        }
        for (int32_t child = node; (child = cop_next_child(tree, node, child)) > 0;) {
            double log_prob = 0;
            int is_kept = keeps(context, child, &log_prob);
            if (is_kept < 0) {
                return false;
            }
            if (is_kept) {
                places[child] =
                    (struct place){places[node].depth + 1, places[node].log_prob + log_prob};
                best = is_better(&places[child], &places[best]) ? child : best;
            }
        }
    }
    out->n_accepted = cop_tree_path(tree, best, out->accepted);
    return true;
}

int32_t cop_stop_of(const struct cop_verify_in *in, struct cop_verdict *out)
{
    int32_t node = out->n_accepted > 0 ? out->accepted[out->n_accepted - 1] : 0;
    out->origin =
        cop_next_child(in->tree, node, node) > 0 ? COP_ORIGIN_RECOVERED : COP_ORIGIN_BONUS;
    return node;
}

struct search {
    const struct cop_set_rule *set;
    const void *state;
    const struct cop_verify_in *in;
    int32_t node; /* that `look` is about; -1: none yet */
    struct cop_look look;
};

static void look_at(struct search *search, int32_t node)
{
    const struct cop_row *target = cop_rows_at(&search->in->target, node);
    search->node = node;
    search->look = (struct cop_look){
        .target = target,
        .reading = search->set->reads_as_is ? cop_read_as_is(target) : cop_read_plain(target)};
    search->look.best = cop_reading_best(&search->look.reading);
    if (search->set->look) {
        search->set->look(search->state, &search->look);
    }
}

/* A token that a ban or truncation took away is in no set; at temperature 0 the shaped row
 * cannot tell. */
static bool is_possible(const struct cop_look *look, cop_token token)
{
    bool is_zero = look->target->kind == COP_ROW_ONE_HOT;
    return is_zero ? cop_reading_probability(&look->reading, token) > 0
                   : cop_row_probability(look->target, token) > 0;
}

static int keeps(void *context, int32_t child, double *log_prob)
{
    struct search *search = context;
    const struct cop_tree *tree = search->in->tree;
    if (search->node != tree->parent[child]) {
        look_at(search, tree->parent[child]);
    }
    cop_token token = tree->token[child];
    if (!is_possible(&search->look, token) ||
        !search->set->keeps(search->state, &search->look, token)) {
        return 0;
    }
    *log_prob = cop_reading_log(&search->look.reading, token);
    return 1;
}

enum cop_status cop_set_walk(const struct cop_set_rule *set, const void *state,
                             const struct cop_verify_in *in, struct cop_verdict *out,
                             struct cop_error *err)
{
    (void)err;
    struct search search = {.set = set, .state = state, .in = in, .node = -1};
    (void)cop_longest_path(keeps, &search, in->tree, out);
    int32_t node = cop_stop_of(in, out);
    bool is_best =
        out->origin == COP_ORIGIN_BONUS ? set->ends_with_best : set->corrects_with_best;
    cop_end_with_target(in, node, is_best, out);
    return COP_OK;
}
