/* Greedy multi-path block verification: of K independent paths take the one that goes where the
 * target likes it best, then verify it as a block, knowing how it was selected.
 *
 * At every node tokens are ordered by target / draft, ties by id; the selected path is the
 * lexicographically largest of the K. Let `below` be the probability that one path is strictly
 * below the selected prefix and `at` that it has this prefix, F the cumulated draft in that
 * order. The next token of the selected path then has the law
 *
 *     selected(t) = ((below + at F(t))^K - (below + at (F(t) - draft(t)))^K) / (... of all
 * tokens)
 *
 * and block verification (block.c) with `selected` in place of the draft is lossless.
 * The order must be strict and the same in both places, which is why both call `precedes`.
 * Only the share below / (below + at) matters, so nothing underflows on long paths, and the
 * difference of powers is taken as (a - b) (a^(K-1) + ... + b^(K-1)), so nothing cancels.
 *
 * Selecting costs one pass a level. A tested prefix needs sums of (w target - selected)+: over
 * tokens that lie together in the order, selected adds up to a difference of powers at the two
 * ends, and both w target / draft and selected / draft rise in the order, so that most buckets
 * of ratio_order.h are known to be above or below as a whole; only the tokens of the others are
 * put in order. K = 1 is block verification. The draft may not end where the tokens of other
 * paths say so: what is selected would no longer have the law above. More paths are not always
 * better: selection draws a good drafter away from the target. */
#include "algorithms/accept/block.h"
#include "algorithms/accept/levels.h"
#include "algorithms/accept/ratio_order.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A node of the selected path and its rows. */
struct level {
    const struct cop_row *target, *draft;
    double below, at; /* shares of the paths below this node's prefix and through it */
    double total;     /* sum of the raw draft row (ratio_order.h) */
    double weight;    /* w of block verification */
};
struct selection {
    const struct cop_verify_in *in;
    int32_t n_paths;
    int32_t n;            /* nodes of the path, the root not counted */
    int32_t *nodes;       /* [n] */
    struct level *levels; /* [n + 1] */
    struct cop_ratio_order *order;
    double *rests; /* [COP_RATIO_BUCKETS] of the prefix tested last: sums of (w target -
                      selected)+ */
};

/* (a^k - b^k) / (a - b). */
static double power_slope(double a, double b, int32_t k)
{
    double sum = 1, power = 1;
    for (int32_t i = 1; i < k; i++) {
        power *= a;
        sum = sum * b + power;
    }
    return sum;
}

/* The share of all paths that go, at this node, by what precedes some place in the order. */
static double share_at(const struct level *level, double before)
{
    return level->below + level->at * (before / level->total);
}

/* selected(t) of a token, or of several that follow each other, with this raw draft; `before`:
 * the raw draft that precedes it. */
static double selected(const struct selection *s, const struct level *level, double before,
                       double draft)
{
    double low = share_at(level, before), high = share_at(level, before + draft);
    return draft / level->total * power_slope(high, low, s->n_paths) /
           power_slope(1, level->below, s->n_paths);
}

/* ---- Selecting the path
 * ------------------------------------------------------------------------ */

/* The largest child of a node, or -1; *paths: how many go on below it. */
static int32_t best_child(const struct selection *s, int32_t node, int32_t *paths)
{
    const struct cop_tree *tree = s->in->tree;
    const struct cop_row *target = cop_rows_at(&s->in->target, node);
    int32_t best = -1;
    struct cop_ratio_entry highest = {0};
    *paths = 0;
    for (int32_t child = node; (child = cop_level_next(tree, node, child)) > 0;) {
        const struct cop_row *draft = cop_rows_at(&s->in->draft, child);
        struct cop_ratio_entry entry = {.token = tree->token[child]};
        if (draft) {
            cop_ratio_order_set(s->order, target, draft);
            entry = cop_ratio_entry_of(s->order, tree->token[child]);
        }
        if (best < 0 || cop_ratio_precedes(&highest, &entry)) {
            best = child;
            highest = entry;
        }
        *paths += tree->multiplicity[child];
    }
    return best;
}

/* Adds `child`, below the last level, to the path. */
static void go_on(struct selection *s, int32_t child)
{
    struct level *level = &s->levels[s->n], *next = level + 1;
    cop_ratio_order_set(s->order, level->target, level->draft);
    struct cop_ratio_entry entry = cop_ratio_entry_of(s->order, s->in->tree->token[child]);
    double before = cop_ratio_draft_before(s->order, &entry, &level->total), q = entry.draft;
    double p = entry.target * s->order->target_scale;
    double law = q > 0 ? selected(s, level, before, q) : 0;
    double below = share_at(level, before), at = level->at * (q / level->total);
    *next = (struct level){.target = cop_rows_at(&s->in->target, child),
                           .below = at > 0 ? below / (below + at) : 0,
                           .at = at > 0 ? at / (below + at) : 1,
                           /* What has no law was not drawn from this row: rejected. */
                           .weight = law > 0 && p > 0 ? fmin(1, level->weight * (p / law)) : 0};
    s->nodes[s->n++] = child;
}

static enum cop_status select_path(struct selection *s, struct cop_error *err)
{
    int32_t node = 0, paths;
    s->levels[0] = (struct level){
        .target = cop_rows_at(&s->in->target, 0), .at = 1, .weight = 1, .total = 1};
    for (int32_t child; (child = best_child(s, node, &paths)) > 0; node = child) {
        s->levels[s->n].draft = cop_rows_at(&s->in->draft, child);
        if (!s->levels[s->n].draft) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "accept.multipath_block needs every draft row");
        }
        if (paths != s->in->tree->multiplicity[node]) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "accept.multipath_block needs whole independent paths: %d of %d go "
                            "on below node %d; use cop.tree.independent_paths",
                            (int)paths, (int)s->in->tree->multiplicity[node], (int)node);
        }
        go_on(s, child);
    }
    return COP_OK;
}

/* ---- Verifying it
 * ------------------------------------------------------------------------------ */

/* Sums of (w target - selected)+ and of (selected - w target)+. */
struct sides {
    double above, below;
};

static double weigh(struct sides *sides, double value)
{
    sides->above += value > 0 ? value : 0;
    sides->below -= value < 0 ? value : 0;
    return value > 0 ? value : 0;
}

/* w target - selected of a token, or of several; *before moves on. */
static double value_of(const struct selection *s, const struct level *level, double target,
                       double draft, double *before)
{
    double law = draft > 0 ? selected(s, level, *before, draft) : 0;
    *before += draft;
    return level->weight * (target * s->order->target_scale) - law;
}

/* (w target - selected)+ of the entries listed, in place of their target. */
static double weigh_entries(const struct selection *s, const struct level *level, int32_t n,
                            double before, struct sides *sides)
{
    double rest = 0;
    for (int32_t i = 0; i < n; i++) {
        struct cop_ratio_entry *e = &s->order->entries[i];
        e->target = weigh(sides, value_of(s, level, e->target, e->draft, &before));
        rest += e->target;
    }
    return rest;
}

/* Whether w target - selected has one sign in the bucket; `before` and `after`: K-th part of
 * the slope of selected / draft at its ends. */
static bool has_one_sign(const struct selection *s, const struct level *level, int32_t bucket,
                         double before, double after)
{
    double scale = level->weight * s->order->target_scale * level->total;
    return cop_ratio_edge(bucket) * scale >= after ||
           cop_ratio_edge(bucket + 1) * scale <= before || bucket == 0;
}

/* Fills s->rests. */
static struct sides weigh_buckets(const struct selection *s, const struct level *level)
{
    struct sides sides = {0};
    const double norm = power_slope(1, level->below, s->n_paths);
    double share = share_at(level, 0), slope = power_slope(share, share, s->n_paths) / norm;
    double before = 0;
    cop_ratio_order_set(s->order, level->target, level->draft);
    cop_ratio_order_fill(s->order);
    for (int32_t b = 0; b < COP_RATIO_BUCKETS; b++) {
        const double target = s->order->sums[b][0], draft = s->order->sums[b][1];
        double start = before, before_slope = slope;
        s->rests[b] = 0;
        if (!(target > 0 || draft > 0)) {
            continue;
        }
        double value = value_of(s, level, target, draft, &before);
        share = share_at(level, before);
        slope = power_slope(share, share, s->n_paths) / norm;
        s->rests[b] =
            has_one_sign(s, level, b, before_slope, slope)
                ? weigh(&sides, value)
                : weigh_entries(s, level, cop_ratio_order_list(s->order, b, b), start, &sides);
    }
    return sides;
}

/* ---- The last token
 * ---------------------------------------------------------------------------- */

/* Weights of the entries listed, their target. */
struct sparse {
    const struct cop_ratio_entry *entries;
    int32_t n;
};

static void fill_sparse(const void *context, int32_t first, int32_t count, double *out)
{
    const struct sparse *sparse = context;
    memset(out, 0, (size_t)count * sizeof *out);
    for (int32_t i = 0; i < sparse->n; i++) {
        cop_token at = sparse->entries[i].token - first;
        if (at >= 0 && at < count) {
            out[at] = sparse->entries[i].target;
        }
    }
}

static void fill_rests(const void *context, int32_t first, int32_t count, double *out)
{
    memcpy(out, (const double *)context + first, (size_t)count * sizeof *out);
}

/* Draws from (w target - selected)+: a token of a small vocabulary at once, else its bucket
 * first. */
static cop_token recover(const struct selection *s, const struct level *level, uint32_t key)
{
    const struct cop_draws *draws = s->in->draws;
    struct cop_ratio_order *order = s->order;
    int32_t vocab = level->target->vocab, first = 0, last = COP_RATIO_BUCKETS - 1;
    double before = 0, sums[COP_WEIGHT_BLOCKS] = {0};
    struct sides sides = {0};
    if (vocab > COP_SUM_BLOCK) {
        struct cop_weights buckets = {
            .vocab = COP_RATIO_BUCKETS, .fill = fill_rests, .context = s->rests};
        last = cop_pick(draws, cop_purpose("recover among ratios"), key, &buckets);
        first = last = last < 0 ? 0 : last;
        for (int32_t b = 0; b < first; b++) {
            before += order->sums[b][1];
        }
    }
    struct sparse sparse = {order->entries, cop_ratio_order_list(order, first, last)};
    (void)weigh_entries(s, level, sparse.n, before, &sides);
    struct cop_weights rest = {.vocab = vocab, .fill = fill_sparse, .context = &sparse};
    if (vocab > COP_SUM_BLOCK && vocab <= COP_WEIGHT_BLOCKS * COP_SUM_BLOCK) {
        for (int32_t i = 0; i < sparse.n; i++) {
            sums[order->entries[i].token / COP_SUM_BLOCK] += order->entries[i].target;
        }
        rest.block_sums = sums;
    }
    return cop_pick_else(draws, cop_purpose("recover"), key, &rest, level->target);
}

/* Whether the prefix of i tokens is kept. No prefix is kept with more than its weight w, as
 * what is above is at most w in all: over a large vocabulary a first coin is asked for that,
 * and only those that pass it are looked at, for the rest of the probability. */
static bool is_kept(const struct selection *s, int32_t i, uint32_t key, struct sides *sides)
{
    const struct cop_draws *draws = s->in->draws;
    const struct level *level = &s->levels[i];
    bool is_large = level->target->vocab > COP_SUM_BLOCK;
    double weight = level->weight, keep = weight;
    if (i > 0 && i < s->n && is_large &&
        !cop_flip(draws, cop_purpose("accept by weight"), key, weight)) {
        return false;
    }
    if (i < s->n && weight > 0) {
        *sides = weigh_buckets(s, level);
        keep = keep < 1 && sides->below > 0 ? fmin(1, sides->above / sides->below) : keep;
        keep = is_large ? fmin(1, keep / weight) : keep;
    }
    return i == 0 || cop_flip(draws, cop_purpose("accept"), key, keep);
}

/* Whether i tokens of the path are kept, for the longest i first; then draws the last token. */
static bool ends_after(const struct selection *s, int32_t i, struct cop_verdict *out)
{
    const struct level *level = &s->levels[i];
    uint32_t key = s->in->tree->key[i > 0 ? s->nodes[i - 1] : 0];
    struct sides sides = {0};
    if (!is_kept(s, i, key, &sides)) {
        return false;
    }
    struct cop_weights target = cop_row_weights(level->target);
    out->n_accepted = i;
    out->origin = i < s->n ? COP_ORIGIN_RECOVERED : COP_ORIGIN_BONUS;
    out->last =
        sides.above > 0
            ? recover(s, level, key)
            : cop_pick(s->in->draws, cop_purpose(i < s->n ? "recover" : "bonus"), key, &target);
    return true;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    (void)state;
    if (cop_rows_at(&in->target, 0)->kind == COP_ROW_ONE_HOT) { /* temperature 0 */
        return cop_accept_match.verify(NULL, in, out, err);
    }
    int32_t vocab = cop_rows_at(&in->target, 0)->vocab;
    struct cop_ratio_order order;
    bool has_room = cop_ratio_order_init(&order, vocab);
    struct selection s = {.in = in,
                          .n_paths = in->tree->multiplicity[0],
                          .nodes = out->accepted,
                          .order = &order,
                          .levels = malloc((size_t)in->tree->size * sizeof *s.levels),
                          .rests = malloc(COP_RATIO_BUCKETS * sizeof *s.rests)};
    enum cop_status status =
        has_room && s.levels && s.rests
            ? select_path(&s, err)
            : cop_fail(err, COP_ERR_MEMORY, "no memory to order a vocabulary of %d",
                       (int)vocab);
    for (int32_t i = s.n; status == COP_OK && !ends_after(&s, i, out); i--) {
    }
    cop_ratio_order_release(&order);
    free(s.levels);
    free(s.rests);
    return status;
}

static const struct cop_claim claims[] = {{COP_DRAW_INDEPENDENT, COP_SHAPE_PATHS, false},
                                          {.draw = COP_DRAW_AUTO}};

const struct cop_rule_ops cop_accept_multipath_block = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "multipath_block",
             .help =
                 "of K independent paths selects the largest in the order of target / draft "
                 "(ties by id), then block verification with the law of the selected path "
                 "in place of the draft: ((below + at F)^K - (below + at (F - draft))^K) "
                 "normalised, F the cumulated draft in that order",
             .source = "Thomas and Pal 2026, arXiv:2602.16961",
             .synonyms = "greedy multi-path block verification, GBV"},
    .lossless_for = claims,
    .needs_draft_rows = true,
    .verify = verify,
    .constant_length = true,
    .cost = "1 at each level of the selected path; 1 more at each tested one",
};
