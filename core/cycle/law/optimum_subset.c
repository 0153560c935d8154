/* The optimum of one level by formula: min over H of target(H) + 1 - Pr(S inside H).
 *
 * p is the target's row, q the draft's. For drawn children the minimum lies at a prefix of the
 * tokens sorted by p / q (ascending); without replacement and with few tokens all subsets are
 * looked at instead. H holds only tokens that can be drafted: another one adds p and nothing
 * else. */
#include "core/cycle/law/optimum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUBSET_LIMIT = 12 /* tokens of which all subsets are looked at */
};

struct subset {
    const double *p, *q; /* [vocab] */
    int32_t k;           /* children */
    int32_t *order;      /* [n] tokens that can be drafted, by p / q */
    int32_t n;
    double value;
    bool *in_cut; /* [vocab] */
};

/* ---- Prefixes of the order
 * -------------------------------------------------------------------- */

struct ranked {
    double p, q;
    int32_t token;
};

static int by_ratio(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    double left = x->p * y->q, right = y->p * x->q;
    return left < right ? -1 : left > right ? 1 : (x->token > y->token) - (x->token < y->token);
}

static enum cop_status sort_tokens(struct subset *s, int32_t vocab, struct cop_error *err)
{
    struct ranked *ranked = malloc((size_t)vocab * sizeof *ranked);
    s->order = malloc((size_t)vocab * sizeof *s->order);
    if (!ranked || !s->order) {
        free(ranked);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for an optimum over %d tokens",
                        (int)vocab);
    }
    for (int32_t i = 0; i < vocab; i++) {
        if (s->q[i] > 0) {
            ranked[s->n++] = (struct ranked){.p = s->p[i], .q = s->q[i], .token = i};
        }
    }
    qsort(ranked, (size_t)s->n, sizeof *ranked, by_ratio);
    for (int32_t i = 0; i < s->n; i++) {
        s->order[i] = ranked[i].token;
    }
    free(ranked);
    return COP_OK;
}

/* inside[m]: Pr(S inside the first m of the order), m = 0 … n. */
static void best_prefix(struct subset *s, const double *inside)
{
    double mass = 0;
    int32_t best = 0;
    s->value = 1;
    for (int32_t m = 1; m <= s->n; m++) {
        mass += s->p[s->order[m - 1]];
        if (mass + 1 - inside[m] < s->value) {
            s->value = mass + 1 - inside[m];
            best = m;
        }
    }
    for (int32_t m = 0; m < best; m++) {
        s->in_cut[s->order[m]] = true;
    }
}

static void fill_independent(const struct subset *s, double *inside)
{
    double total = 0, mass = 0;
    for (int32_t m = 0; m < s->n; m++) {
        total += s->q[s->order[m]];
    }
    for (int32_t m = 0; m < s->n; m++) {
        mass += s->q[s->order[m]];
        inside[m + 1] = pow(mass / total, s->k);
    }
}

/* ---- Without replacement, many tokens
 * --------------------------------------------------------- */

/* One time of the race: token i has finished with probability 1 - exp(-q_i time). Adds to
 * inside[m] the weight of this time in the law of the first finish outside the first m, times
 * the probability that k of those have finished. */
static void add_time(const struct subset *s, const double *outside, double time, double step,
                     double *finished, double *inside)
{
    memset(finished, 0, (size_t)s->k * sizeof *finished);
    finished[0] = 1;
    double enough = 0;
    for (int32_t m = 1; m <= s->n; m++) {
        double f = -expm1(-s->q[s->order[m - 1]] * time);
        enough += finished[s->k - 1] * f;
        for (int32_t j = s->k - 1; j > 0; j--) {
            finished[j] += (finished[j - 1] - finished[j]) * f;
        }
        finished[0] *= 1 - f;
        double rate = outside[m] * time;
        if (m >= s->k && rate < 700) {
            inside[m] += enough * rate * exp(-rate) * step;
        }
    }
}

/* S inside H: k tokens of H finish an exponential race before the first of the rest, whose time
 * has the density c exp(-c t), c = 1 - q(H). The trapezoid rule over log t converges like
 * exp(-pi^2 / step), as the integrand is analytic for |Im log t| < pi / 2 and dies at both
 * ends. */
static enum cop_status fill_race(const struct subset *s, double *inside, struct cop_error *err)
{
    const double step = 1.0 / 4;
    double *outside = malloc(((size_t)s->n + 1) * sizeof *outside);
    double *finished = malloc(((size_t)s->k + 1) * sizeof *finished);
    if (!outside || !finished) {
        free(outside);
        free(finished);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for an optimum over %d tokens",
                        (int)s->n);
    }
    outside[s->n] = 0;
    for (int32_t m = s->n; m > 0; m--) {
        outside[m - 1] = outside[m] + s->q[s->order[m - 1]];
    }
    memset(inside, 0, ((size_t)s->n + 1) * sizeof *inside);
    double least = outside[s->n - 1]; /* the slowest of all rests */
    for (double x = -20; x < log(40 / least); x += step) {
        add_time(s, outside, exp(x), step, finished, inside);
    }
    inside[s->n] = 1;
    free(outside);
    free(finished);
    return COP_OK;
}

/* ---- Without replacement, few tokens
 * ---------------------------------------------------------- */

/* law[set]: probability that the first k draws are this set; masks over the order. */
static void draw_sets(const struct subset *s, const double *rest, double *law, double *next)
{
    uint32_t n_sets = 1u << s->n;
    memset(law, 0, n_sets * sizeof *law);
    law[0] = 1;
    for (int32_t j = 0; j < s->k; j++) {
        memset(next, 0, n_sets * sizeof *next);
        for (uint32_t set = 0; set < n_sets - 1; set++) {
            for (int32_t i = 0; law[set] > 0 && i < s->n; i++) {
                if (!(set >> i & 1)) {
                    next[set | 1u << i] += law[set] * s->q[s->order[i]] / rest[set];
                }
            }
        }
        memcpy(law, next, n_sets * sizeof *law);
    }
}

static enum cop_status all_subsets(struct subset *s, struct cop_error *err)
{
    uint32_t n_sets = 1u << s->n, best = 0;
    double *memory = calloc(4 * (size_t)n_sets, sizeof *memory);
    if (!memory) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the subsets of %d tokens",
                        (int)s->n);
    }
    double *rest = memory, *law = memory + n_sets, *next = law + n_sets, *mass = next + n_sets;
    for (uint32_t set = 1; set < n_sets; set++) {
        int32_t i = 0;
        while (!(set >> i & 1)) {
            i++;
        }
        mass[set] = mass[set & (set - 1)] + s->p[s->order[i]];
        rest[n_sets - 1 - set] = rest[n_sets - 1 - (set & (set - 1))] + s->q[s->order[i]];
    }
    /* rest[set] is now the sum over the tokens outside of it. */
    draw_sets(s, rest, law, next);
    for (int32_t i = 0; i < s->n; i++) { /* sums over subsets */
        for (uint32_t set = 0; set < n_sets; set++) {
            law[set] += set >> i & 1 ? law[set ^ 1u << i] : 0;
        }
    }
    s->value = 1;
    for (uint32_t set = 1; set < n_sets; set++) {
        if (mass[set] + 1 - law[set] < s->value) {
            s->value = mass[set] + 1 - law[set];
            best = set;
        }
    }
    for (int32_t i = 0; i < s->n; i++) {
        s->in_cut[s->order[i]] = best >> i & 1;
    }
    free(memory);
    return COP_OK;
}

/* ---- Sets that are known but for one token
 * ---------------------------------------------------- */

/* Marks the k best of the draft in H; returns the mass of the rest. */
static enum cop_status mark_best(struct subset *s, int32_t vocab, int32_t k, double *rest,
                                 struct cop_error *err)
{
    const struct cop_row row = {.kind = COP_ROW_DENSE, .vocab = vocab, .dense = s->q};
    cop_token *best = malloc(((size_t)k + 1) * sizeof *best);
    if (!best) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the best tokens");
    }
    int32_t n = cop_row_top(&row, k, best);
    for (int32_t i = 0; i < n; i++) {
        s->in_cut[best[i]] = true;
    }
    free(best);
    *rest = 0;
    for (int32_t i = 0; i < vocab; i++) {
        *rest += s->in_cut[i] ? 0 : s->q[i];
    }
    return COP_OK;
}

/* All of the best, and of the rest one token by the draft: S is inside H when H has the best
 * and that token, so the others join H where p is below q / rest. */
static void best_and_sample(struct subset *s, int32_t vocab, double rest)
{
    s->value = 0;
    for (int32_t i = 0; i < vocab; i++) {
        double q = rest > 0 && !s->in_cut[i] ? s->q[i] / rest : 0;
        s->in_cut[i] = s->in_cut[i] || (q > 0 && s->p[i] < q);
        s->value += s->in_cut[i] ? s->p[i] : q;
    }
}

static enum cop_status drawn_sets(struct subset *s, int32_t vocab, bool is_replaced,
                                  struct cop_error *err)
{
    enum cop_status status = sort_tokens(s, vocab, err);
    if (status != COP_OK) {
        return status;
    }
    s->k = is_replaced || s->k < s->n ? s->k : s->n;
    if (!is_replaced && s->n <= SUBSET_LIMIT) {
        return all_subsets(s, err);
    }
    double *inside = malloc(((size_t)s->n + 1) * sizeof *inside);
    if (!inside) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for an optimum over %d tokens",
                        (int)vocab);
    }
    if (is_replaced || s->k == 1) {
        fill_independent(s, inside);
    } else {
        status = fill_race(s, inside, err);
    }
    if (status == COP_OK) {
        best_prefix(s, inside);
    }
    free(inside);
    return status;
}

static enum cop_status solve(struct subset *s, int32_t vocab, enum cop_draw draw,
                             struct cop_error *err)
{
    switch (draw) {
    case COP_DRAW_INDEPENDENT: return drawn_sets(s, vocab, true, err);
    case COP_DRAW_WITHOUT_REPLACEMENT: return drawn_sets(s, vocab, false, err);
    case COP_DRAW_DETERMINISTIC:
    case COP_DRAW_GREEDY:
    case COP_DRAW_HUB_PAIR: {
        double rest = 0;
        bool has_sample = draw != COP_DRAW_DETERMINISTIC;
        enum cop_status status = mark_best(s, vocab, s->k - has_sample, &rest, err);
        if (status == COP_OK) {
            best_and_sample(s, vocab, has_sample ? rest : 0);
        }
        return status;
    }
    case COP_DRAW_AUTO:
    case COP_DRAW_BEAM:
    case COP_DRAW_SELECTED:
    case COP_DRAW_COUNT: break;
    }
    return cop_fail(err, COP_ERR_ARGUMENT, "no formula for the optimum of draw = \"%s\"",
                    cop_draw_name(draw));
}

enum cop_status cop_optimum_subset(const double *target, const double *draft, int32_t vocab,
                                   enum cop_draw draw, int32_t n_children, double *value,
                                   bool *in_cut, struct cop_error *err)
{
    struct subset s = {.p = target, .q = draft, .k = n_children, .in_cut = in_cut};
    memset(in_cut, 0, (size_t)vocab * sizeof *in_cut);
    if (n_children < 1 || (draw == COP_DRAW_HUB_PAIR && n_children != 2)) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        draw == COP_DRAW_HUB_PAIR ? "a hub pair is two children, not %d"
                                                  : "a level has at least one child, not %d",
                        (int)n_children);
    }
    enum cop_status status = solve(&s, vocab, draw, err);
    free(s.order);
    *value = fmin(s.value, 1);
    return status;
}
