/* Greedy multi-path block verification: of K independent paths take the one that goes where the
 * target likes it best, then verify it as a block, knowing how it was selected.
 *
 * At every node tokens are ordered by target / draft, ties by id; the selected path is the
 * lexicographically largest of the K. Let `below` be the probability that one path is strictly
 * below the selected prefix and `at` that it has this prefix, F the cumulated draft in that
 * order. The next token of the selected path then has the law
 *
 *     selected(t) = ((below + at F(t))^K - (below + at (F(t) - draft(t)))^K) / norm
 *     norm        = the sum of the same over all tokens
 *
 * and block verification (block.c) with `selected` in place of the draft is lossless.
 * The order must be strict and the same in both places, which is why both call `precedes`.
 * Only the share below / (below + at) matters, so nothing underflows on long paths, and the
 * difference of powers is taken as (a - b) (a^(K-1) + ... + b^(K-1)), so nothing cancels.
 *
 * Selecting costs one pass a level; a tested prefix needs F of every token, a sort. K = 1 is
 * block verification. The draft may not end where the tokens of other paths say so: what is
 * selected would no longer have the law above. More paths are not always better: selection
 * draws a good drafter away from the target. */
#include "algorithms/accept/block.h"
#include "algorithms/accept/levels.h"

#include "kernels/ops.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A token's place in the order of a node. */
struct place {
    double ratio; /* target / draft */
    double draft;
    cop_token token;
};

static struct place place_of(cop_token token, double target, double draft)
{
    double ratio = draft > 0 ? target / draft : target > 0 ? (double)INFINITY : 0;
    return (struct place){ratio, draft, token};
}

static bool precedes(const struct place *a, const struct place *b)
{
    return a->ratio < b->ratio || (a->ratio <= b->ratio && a->token < b->token);
}

/* A node of the selected path and its rows. */
struct level {
    const struct cop_row *target, *draft;
    double below, at; /* shares of the paths below this node's prefix and through it */
    double total;     /* sum of the draft row: 1 up to rounding */
    double weight;    /* w of block verification */
};
struct selection {
    const struct cop_verify_in *in;
    int32_t n_paths;
    int32_t n;            /* nodes of the path, the root not counted */
    int32_t *nodes;       /* [n] */
    struct level *levels; /* [n + 1] */
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

/* selected(t) of a token with this draft probability; `before`: the draft mass that precedes
 * it. */
static double selected(const struct selection *s, const struct level *level, double before,
                       double draft)
{
    double low = level->below + level->at * (before / level->total);
    double high = level->below + level->at * ((before + draft) / level->total);
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
    struct place highest = {0};
    *paths = 0;
    for (int32_t child = node; (child = cop_level_next(tree, node, child)) > 0;) {
        cop_token token = tree->token[child];
        const struct cop_row *draft = cop_rows_at(&s->in->draft, child);
        struct place place = place_of(token, cop_row_probability(target, token),
                                      draft ? cop_row_probability(draft, token) : 0);
        if (best < 0 || precedes(&highest, &place)) {
            best = child;
            highest = place;
        }
        *paths += tree->multiplicity[child];
    }
    return best;
}

/* The draft mass that precedes `place`; fills level->total. One pass. What has no draft adds
 * nothing, whatever its ratio. */
static double mass_before(struct level *level, const struct place *place)
{
    double before = 0;
    level->total = 0;
    for (int32_t first = 0; first < level->target->vocab; first += COP_SUM_BLOCK) {
        double target[COP_SUM_BLOCK], draft[COP_SUM_BLOCK];
        int32_t left = level->target->vocab - first;
        int32_t count = left < COP_SUM_BLOCK ? left : COP_SUM_BLOCK;
        cop_row_fill(level->target, first, count, target);
        cop_row_fill(level->draft, first, count, draft);
        level->total += cop_sum_block(draft, count);
        for (int32_t i = 0; i < count; i++) {
            double ratio = target[i] / draft[i];
            bool precedes =
                ratio < place->ratio || (ratio <= place->ratio && first + i < place->token);
            draft[i] = precedes && first + i != place->token ? draft[i] : 0.0;
        }
        before += cop_sum_block(draft, count);
    }
    return before;
}

/* Adds `child`, below the last level, to the path. */
static void go_on(struct selection *s, int32_t child)
{
    struct level *level = &s->levels[s->n], *next = level + 1;
    cop_token token = s->in->tree->token[child];
    double p = cop_row_probability(level->target, token);
    double q = cop_row_probability(level->draft, token);
    struct place place = place_of(token, p, q);
    double before = mass_before(level, &place);
    double law = q > 0 ? selected(s, level, before, q) : 0;
    double below = level->below + level->at * (before / level->total);
    double at = level->at * (q / level->total);
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

struct entry { /* of a sort: the bits of a ratio, which are ordered as the ratios */
    uint64_t bits;
    cop_token token;
};
/* Memory for one level, all [vocab], entries twice that. */
struct scratch {
    struct entry *entries;
    double *draft, *rest;
};

enum { DIGIT = 11, DIGITS = 6 }; /* 66 bits */

/* Where the entries of each digit begin; false if all have the same one. */
static bool count_digits(const struct entry *entries, int32_t n, uint32_t shift, int32_t *begin)
{
    memset(begin, 0, sizeof *begin << DIGIT);
    for (int32_t i = 0; i < n; i++) {
        begin[entries[i].bits >> shift & ((1u << DIGIT) - 1)]++;
    }
    int32_t at = 0;
    bool differ = true;
    for (int32_t d = 0; d < 1 << DIGIT; d++) {
        int32_t count = begin[d];
        differ = differ && count < n;
        begin[d] = at;
        at += count;
    }
    return differ;
}

/* entries[0..n), ids ascending, in the order of `precedes`: a stable sort digit by digit. Both
 * halves of the array are used; returns the one with the result. */
static const struct entry *sort_entries(struct entry *entries, int32_t n)
{
    struct entry *from = entries, *to = entries + n;
    for (uint32_t shift = 0; shift < DIGIT * DIGITS; shift += DIGIT) {
        int32_t begin[1 << DIGIT];
        if (!count_digits(from, n, shift, begin)) {
            continue;
        }
        for (int32_t i = 0; i < n; i++) {
            to[begin[from[i].bits >> shift & ((1u << DIGIT) - 1)]++] = from[i];
        }
        struct entry *sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}

/* The rows of a level, to rest and draft; lists what was possibly drawn. Returns how many. */
static int32_t list_entries(const struct level *level, const struct scratch *scratch)
{
    int32_t n = 0, vocab = level->target->vocab;
    for (int32_t first = 0; first < vocab; first += COP_SUM_BLOCK) {
        int32_t count = vocab - first < COP_SUM_BLOCK ? vocab - first : COP_SUM_BLOCK;
        cop_row_fill(level->target, first, count, scratch->rest + first);
        cop_row_fill(level->draft, first, count, scratch->draft + first);
        for (int32_t token = first; token < first + count; token++) {
            if (scratch->draft[token] > 0) {
                double ratio =
                    place_of(token, scratch->rest[token], scratch->draft[token]).ratio;
                scratch->entries[n].token = token;
                memcpy(&scratch->entries[n++].bits, &ratio, sizeof ratio);
            }
        }
    }
    return n;
}

/* (weight target - selected)+ into scratch->rest, and the sums of what is above and below. */
static void fill_rest(const struct selection *s, const struct level *level,
                      const struct scratch *scratch, double *above, double *below)
{
    int32_t n = list_entries(level, scratch), vocab = level->target->vocab;
    const struct entry *sorted = sort_entries(scratch->entries, n);
    double *rest = scratch->rest, before = 0;
    for (int32_t i = 0; i < vocab; i++) {
        rest[i] *= level->weight;
    }
    for (int32_t i = 0; i < n; i++) {
        double draft = scratch->draft[sorted[i].token];
        rest[sorted[i].token] -= selected(s, level, before, draft);
        before += draft;
    }
    *above = *below = 0;
    for (int32_t i = 0; i < vocab; i++) {
        *above += rest[i] > 0 ? rest[i] : 0;
        *below -= rest[i] < 0 ? rest[i] : 0;
        rest[i] = rest[i] > 0 ? rest[i] : 0;
    }
}

static void fill_dense(const void *context, int32_t first, int32_t count, double *out)
{
    memcpy(out, (const double *)context + first, (size_t)count * sizeof *out);
}

/* Whether i tokens of the path are kept, for the longest i first; then draws the last token. */
static bool ends_after(const struct selection *s, int32_t i, const struct scratch *scratch,
                       struct cop_verdict *out)
{
    const struct cop_draws *draws = s->in->draws;
    const struct level *level = &s->levels[i];
    uint32_t key = s->in->tree->key[i > 0 ? s->nodes[i - 1] : 0];
    struct cop_weights weights = cop_row_weights(level->target);
    double keep = level->weight;
    if (i < s->n && keep > 0) {
        double above, below;
        fill_rest(s, level, scratch, &above, &below);
        keep = keep < 1 && below > 0 ? fmin(1, above / below) : keep;
        if (above > 0) {
            weights = (struct cop_weights){
                .vocab = level->target->vocab, .fill = fill_dense, .context = scratch->rest};
        }
    }
    if (i > 0 && !cop_flip(draws, cop_purpose("accept"), key, keep)) {
        return false;
    }
    out->n_accepted = i;
    out->last = cop_pick(draws, cop_purpose(i < s->n ? "recover" : "bonus"), key, &weights);
    out->origin = i < s->n ? COP_ORIGIN_RECOVERED : COP_ORIGIN_BONUS;
    return true;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    (void)state;
    if (cop_rows_at(&in->target, 0)->kind == COP_ROW_ONE_HOT) { /* temperature 0 */
        return cop_accept_match.verify(NULL, in, out, err);
    }
    size_t vocab = (size_t)cop_rows_at(&in->target, 0)->vocab;
    struct selection s = {.in = in,
                          .n_paths = in->tree->multiplicity[0],
                          .nodes = out->accepted,
                          .levels = malloc((size_t)in->tree->size * sizeof *s.levels)};
    struct scratch scratch = {.entries = malloc(2 * vocab * sizeof *scratch.entries),
                              .draft = malloc(vocab * sizeof *scratch.draft),
                              .rest = malloc(vocab * sizeof *scratch.rest)};
    enum cop_status status =
        s.levels && scratch.entries && scratch.draft && scratch.rest
            ? select_path(&s, err)
            : cop_fail(err, COP_ERR_MEMORY, "no memory to sort a vocabulary of %zu", vocab);
    for (int32_t i = s.n; status == COP_OK && !ends_after(&s, i, &scratch, out); i--) {
    }
    free(s.levels);
    free(scratch.entries);
    free(scratch.draft);
    free(scratch.rest);
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
    .cost = "1 at each level of the selected path; at each tested one 1 more and a sort",
};
