/* The exact rule against a truncated target: lossless for another sampler, and the honest
 * baseline of every rule that keeps what lies in a set. */
#include "algorithms/accept/relaxed/relaxed.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdlib.h>

struct truncated {
    int32_t top_k;
    double top_p, min_p, epsilon, delta;
};

static const struct cop_option options[] = {
    COP_AN_INT(truncated, top_k, 0, INT32_MAX, 0,
               "keeps the k most probable tokens and ties with the last; 0: off"),
    COP_A_NUMBER(truncated, top_p, 0, 1, 1,
                 "keeps the fewest tokens, of what top_k left, that carry this share; 1: off"),
    COP_A_NUMBER(truncated, min_p, 0, 1, 0, "keeps tokens of this share of the best; 0: off"),
    {.name = "epsilon",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct truncated, epsilon),
     .max = 1,
     .flags = COP_OPTION_ABSENT,
     .help = "typical truncation, as cop.accept.typical: target > min(epsilon, delta exp(-H)); "
             "0.09 when only delta is given"},
    {.name = "delta",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct truncated, delta),
     .max = 1000,
     .flags = COP_OPTION_ABSENT,
     .help = "see epsilon; 0.3 when only epsilon is given"},
    {0}};

static enum cop_status prepare(void *state, struct cop_error *err)
{
    struct truncated *s = state;
    (void)err;
    if (!isnan(s->epsilon) || !isnan(s->delta)) {
        s->epsilon = isnan(s->epsilon) ? 0.09 : s->epsilon;
        s->delta = isnan(s->delta) ? 0.3 : s->delta;
    }
    return COP_OK;
}

/* ---- The border -----------------------------------------------------------------------------
 * A cut keeps the tokens above a value, and of those with just that value the ids up to a last
 * one. */

struct entry {
    double value;
    int32_t id;
};

static int best_first(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->value > y->value || x->value < y->value) {
        return x->value > y->value ? -1 : 1;
    }
    return (x->id > y->id) - (x->id < y->id);
}

/* The tokens of at least `floor`, best first; all: the mass of the whole row. */
struct listed {
    struct entry *items;
    int32_t n;
    double floor, all;
};

static bool grow(struct listed *list, int32_t count, int32_t *room)
{
    if (list->n + count > *room) {
        *room = 2 * (list->n + count);
        struct entry *larger = realloc(list->items, (size_t)*room * sizeof *larger);
        if (!larger) {
            return false;
        }
        list->items = larger;
    }
    return true;
}

/* false: no memory */
static bool list_from(const struct cop_reading *target, double floor, struct listed *list)
{
    double values[COP_SUM_BLOCK];
    int32_t vocab = target->row.vocab, room = 0;
    *list = (struct listed){.floor = floor};
    for (int32_t first = 0; first < vocab; first += COP_SUM_BLOCK) {
        int32_t count = vocab - first < COP_SUM_BLOCK ? vocab - first : COP_SUM_BLOCK;
        cop_reading_fill(target, first, count, values);
        if (!grow(list, count, &room)) {
            return false;
        }
        list->all += cop_sum_block(values, count);
        for (int32_t i = 0; i < count; i++) {
            list->items[list->n] = (struct entry){values[i], first + i};
            list->n += values[i] >= floor;
        }
    }
    qsort(list->items, (size_t)list->n, sizeof *list->items, best_first);
    return true;
}

/* What top_k leaves of a list: n of it, which have this mass; is_known: no token that is not
 * listed could be among them, or change the mass. */
struct best_k {
    int32_t n;
    double mass;
    bool is_known;
};

static struct best_k keep_top_k(const struct truncated *s, const struct listed *list)
{
    if (s->top_k <= 0) {
        return (struct best_k){list->n, list->all, true};
    }
    struct best_k best = {s->top_k < list->n ? s->top_k : list->n, 0, false};
    while (best.n < list->n && !(list->items[best.n].value < list->items[best.n - 1].value)) {
        best.n++; /* ties with the k-th */
    }
    best.is_known = best.n < list->n || !(list->floor > 0);
    for (int32_t i = 0; i < best.n; i++) {
        best.mass += list->items[i].value;
    }
    return best;
}

/* How many of the listed tokens stay, at least one; 0: it takes a longer list to tell. */
static int32_t count_kept(const struct truncated *s, const struct listed *list)
{
    const struct entry *items = list->items;
    const struct best_k best = keep_top_k(s, list);
    double mass = 0;
    int32_t kept = 0;
    if (!best.is_known && s->top_p < 1) {
        return 0;
    }
    while (kept < best.n && items[kept].value > 0 &&
           (kept == 0 || ((s->top_p >= 1 || mass < s->top_p * best.mass) &&
                          items[kept].value >= s->min_p * items[0].value))) {
        mass += items[kept++].value;
    }
    bool is_all = !(list->floor > 0), is_cut = kept < best.n || (best.is_known && s->top_k > 0),
         ends_by_top_p = s->top_p < 1 && !(mass < s->top_p * best.mass),
         ends_by_min_p = list->floor <= s->min_p * items[0].value;
    return is_all || is_cut || ends_by_top_p || ends_by_min_p ? (kept > 0 ? kept : 1) : 0;
}

/* The last token that stays. Most rows are cut far above their tail, so what is listed first
 * are tokens of at least 1/64 of the best, then of 1/64 of that. false: no memory */
static bool find_border(const struct truncated *s, const struct cop_reading *target,
                        struct entry *border)
{
    double best = cop_reading_probability(target, cop_reading_best(target)), share = 0x1p-6;
    struct listed list;
    int32_t kept;
    for (;; share = share > 0x1p-30 ? share * 0x1p-6 : 0) {
        double least = s->top_p < 1 ? share : fmax(share, s->min_p);
        if (!list_from(target, best * least, &list)) {
            free(list.items);
            return false;
        }
        kept = count_kept(s, &list);
        if (kept > 0) {
            break;
        }
        free(list.items);
    }
    *border = list.items[kept - 1];
    free(list.items);
    return true;
}

/* ---- The law
 * ---------------------------------------------------------------------------------- */

/* swap->a: values above it stay; last: and ids up to it with just that value; b: their mass. */
static void fill(const struct cop_swap *swap, int32_t first, int32_t count, double *out)
{
    cop_reading_fill(&swap->target, first, count, out);
    for (int32_t i = 0; i < count; i++) {
        bool is_kept = out[i] > swap->a || (out[i] >= swap->a && first + i <= swap->last);
        out[i] = is_kept ? out[i] / swap->b : 0;
    }
}

static void raise_to_typical(const struct truncated *s, struct cop_swap *swap)
{
    double limit = fmin(
        s->epsilon, s->delta * cop_exp(-cop_reading_entropy(&swap->target, COP_TYPICAL_GUARD)));
    cop_token best = cop_reading_best(&swap->target);
    double most = cop_reading_probability(&swap->target, best);
    if (limit >= most) { /* none is above: the best alone */
        swap->a = most;
        swap->last = best;
    } else if (limit > swap->a || (limit >= swap->a && swap->last >= 0)) {
        swap->a = limit;
        swap->last = -1;
    }
}

static enum cop_status prepare_pi(const void *state, struct cop_swap *swap,
                                  struct cop_error *err)
{
    const struct truncated *s = state;
    swap->a = 0;
    swap->last = -1;
    if ((s->top_k > 0 && s->top_k < swap->vocab) || s->top_p < 1 || s->min_p > 0) {
        struct entry border;
        if (!find_border(s, &swap->target, &border)) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory to sort a row of %d tokens",
                            (int)swap->vocab);
        }
        swap->a = border.value;
        swap->last = border.id;
    }
    if (!isnan(s->epsilon)) {
        raise_to_typical(s, swap);
    }
    swap->b = 1;
    swap->fill = fill;
    swap->gate.open_target = 1;
    if (swap->last < 0 && !(swap->a > 0)) { /* nothing is cut */
        swap->gate.shut_target = 1;
        cop_swap_set_gate(swap, &swap->target, 0);
        return COP_OK;
    }
    if (swap->last < 0) {
        cop_swap_set_gate(swap, &swap->target, nextafter(swap->a, HUGE_VAL));
    }
    swap->b = cop_swap_sum(swap);
    swap->gate.open_target = 1 / swap->b;
    return COP_OK;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    static const struct cop_substitution cut = {.prepare = prepare_pi, .is_own_law = true};
    return cop_swap_walk(&cut, state, "truncated", in, out, err);
}

const struct cop_rule_ops cop_accept_truncated = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "truncated",
             .help =
                 "the exact rule against pi = the target truncated by top_k, top_p, min_p "
                 "and typical truncation, in this order: keeps with probability min(1, pi / "
                 "draft), else draws from norm((pi - draft)+); siblings as in recursive "
                 "rejection; the bonus token is pi's too. At temperature 0: the target's "
                 "best token",
             .source = "as a baseline in arXiv:2607.26627",
             .synonyms = "strict against truncated target, truncated sampling",
             .state_size = sizeof(struct truncated),
             .options = options,
             .prepare = prepare},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_sampled_tree,
    .needs_draft_rows = true,
    .verify = verify,
    .cost = "1 (a sort with top_k, top_p, min_p) at each visited node, and 1 per refused "
            "sibling",
    .promise =
        "L1, the output law is the truncated target, bonus tokens included: lossless for "
        "that sampler",
};
