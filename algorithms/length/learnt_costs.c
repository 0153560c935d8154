/* Decayed sums, and the lines through them. */
#include "algorithms/length/learnt_costs.h"

#include <math.h>

/* How fast the past fades: of a size that was timed again, of all sizes in FADE_EVERY passes,
 * and of the lines. `pass` takes in RATE of what a cycle says. */
enum { FADE_EVERY = 64, PLAIN_EVERY = 4, PLAIN_STEPS = 8, MOST_WAITED = 64 };
static const double own_decay = 0.95, fading = 0.94, line_decay = 0.99, rate = 0.1;
static const double longest = 1.5;   /* that a pass counts for, of what was expected */
static const double guess = 0.1;     /* of a further token, before any size has been timed */
static const double line_weight = 2; /* passes that the line counts for */

static double on_line(const struct cop_learnt_costs *c, double n)
{
    double slope = c->more_squares > 0 ? (c->more_ratios - c->more) / c->more_squares : guess;
    return 1 + (slope > 0 ? slope : 0) * (n - 1);
}

/* Of a size that was timed, leaning on the line. */
static double timed_ratio(const struct cop_learnt_costs *c, int32_t n)
{
    double line = on_line(c, n);
    return n == 1 ? 1
                  : (c->ratios[n - 1] + line_weight * line) / (c->weights[n - 1] + line_weight);
}

/* The next size from n on that was timed, in steps of `step`; 0: there is none. */
static int32_t next_timed(const struct cop_learnt_costs *c, int32_t n, int32_t step)
{
    while (n > 1 && n <= COP_LEARNT_SIZES && c->weights[n - 1] < 0.5) {
        n += step;
    }
    return n <= COP_LEARNT_SIZES ? n : 0;
}

/* Between the sizes that were timed on both sides; beyond the largest as steep as the line. */
static double ratio_of(const struct cop_learnt_costs *c, int32_t n)
{
    int32_t left = next_timed(c, n < COP_LEARNT_SIZES ? n : COP_LEARNT_SIZES, -1);
    int32_t right = n <= COP_LEARNT_SIZES ? next_timed(c, n, 1) : 0;
    double low = timed_ratio(c, left);
    if (right == 0) {
        return low + on_line(c, n) - on_line(c, left);
    }
    double share = right > left ? (double)(n - left) / (right - left) : 0;
    return low + share * fmax(timed_ratio(c, right) - low, 0);
}

static void scale_ratios(struct cop_learnt_costs *c, double scale)
{
    for (int32_t i = 0; i < COP_LEARNT_SIZES; i++) {
        c->ratios[i] *= scale;
    }
    c->more_ratios *= scale;
}

/* A pass of one token; by the first one, what was measured in guesses is measured in it. As far
 * as `pass` came from other passes, these have not become slower or faster: it is their ratios
 * that were wrong. */
static void take_plain(struct cop_learnt_costs *c, double seconds)
{
    c->n_plain += c->n_plain < 1 / rate;
    c->since_plain = 0;
    double before = c->pass, gain = 1. / c->n_plain;
    c->pass += gain * ((c->is_pinned ? fmin(seconds, longest * before) : seconds) - before);
    if (before > 0) {
        scale_ratios(c, 1 + c->lean * (before / c->pass - 1));
    }
    c->lean *= 1 - gain;
    c->is_pinned = true;
}

static void take_ratio(struct cop_learnt_costs *c, int32_t n, double ratio)
{
    double more = n - 1;
    c->more = line_decay * c->more + more;
    c->more_squares = line_decay * c->more_squares + more * more;
    c->more_ratios = line_decay * c->more_ratios + more * ratio;
    if (n <= COP_LEARNT_SIZES) {
        c->ratios[n - 1] = own_decay * c->ratios[n - 1] + ratio;
        c->weights[n - 1] = own_decay * c->weights[n - 1] + 1;
    }
}

/* Not in every cycle, in which little of this would be in the processor's cache. */
static void fade(struct cop_learnt_costs *c)
{
    if (++c->passes < FADE_EVERY) {
        return;
    }
    c->passes = 0;
    for (int32_t i = 0; i < COP_LEARNT_SIZES; i++) {
        c->ratios[i] *= fading;
        c->weights[i] *= fading;
    }
}

static void take_pass(struct cop_learnt_costs *c, int32_t n, double seconds)
{
    fade(c);
    if (n == 1) {
        take_plain(c, seconds);
        return;
    }
    double expected = ratio_of(c, n);
    if (c->pass == 0) {
        c->pass = seconds / expected;
        c->lean = 1;
    }
    seconds = fmin(seconds, longest * expected * c->pass);
    double known = n <= COP_LEARNT_SIZES ? c->weights[n - 1] : 0;
    double share = rate * known / (known + 2 * line_weight);
    take_ratio(c, n, seconds / c->pass);
    c->pass += share * (seconds / expected - c->pass);
    c->lean += share * (1 - c->lean);
    c->since_plain++;
}

bool cop_learnt_costs_want_plain(const struct cop_learnt_costs *costs)
{
    int32_t steps = costs->n_plain < PLAIN_STEPS ? costs->n_plain : PLAIN_STEPS;
    return costs->since_plain >= PLAIN_EVERY * steps;
}

static void draft_line(const struct cop_learnt_drafts *d, double *start, double *level)
{
    double spread = d->drafts * d->level_squares - d->levels * d->levels;
    *start = 0;
    *level = d->level_squares > 0 ? d->products / d->level_squares : 0;
    if (spread > 1e-9 * d->drafts * d->level_squares) {
        double slope = (d->drafts * d->products - d->levels * d->seconds) / spread;
        double left = (d->seconds - slope * d->levels) / d->drafts;
        if (slope > 0 && left > 0) {
            *start = left;
            *level = slope;
        } else if (slope <= 0) {
            *start = d->seconds / d->drafts;
            *level = 0;
        }
    }
}

double cop_learnt_costs_wake(const struct cop_learnt_costs *costs, int32_t kind, int32_t waited)
{
    const struct cop_learnt_drafts *d = &costs->drafts[kind];
    return d->waited > 0 ? fmin(waited, MOST_WAITED) * d->wake_seconds / d->waited : 0;
}

static void take_draft(struct cop_learnt_drafts *d, int32_t depth, double seconds,
                       int32_t waited)
{
    double start, level;
    draft_line(d, &start, &level);
    double expected = start + level * depth;
    if (d->drafts > 1 && waited > 0 && seconds > expected) {
        d->waited = line_decay * d->waited + waited;
        d->wake_seconds = line_decay * d->wake_seconds + seconds - expected;
        return;
    }
    if (d->drafts > 1) {
        seconds = fmin(seconds, 3 * expected);
    }
    d->drafts = line_decay * d->drafts + 1;
    d->levels = line_decay * d->levels + depth;
    d->level_squares = line_decay * d->level_squares + (double)depth * depth;
    d->seconds = line_decay * d->seconds + seconds;
    d->products = line_decay * d->products + depth * seconds;
}

void cop_learnt_costs_take(struct cop_learnt_costs *costs, const struct cop_length_cycle *cycle,
                           int32_t kind, int32_t waited)
{
    if (isnan(cycle->score_seconds)) {
        return;
    }
    take_pass(costs, cycle->nodes, cycle->score_seconds);
    if (cycle->depth > 0) {
        take_draft(&costs->drafts[kind], cycle->depth, cycle->draft_seconds, waited);
    }
    costs->cycles = line_decay * costs->cycles + 1;
    costs->host = line_decay * costs->host + cycle->host_seconds;
}

static double host_of(const struct cop_learnt_costs *costs)
{
    return costs->cycles > 0 ? costs->host / costs->cycles : 0;
}

bool cop_learnt_costs_pace(const struct cop_learnt_costs *costs, int32_t kind, double *score,
                           int32_t n_score, struct cop_pace *pace)
{
    for (int32_t n = 1; n <= n_score; n++) {
        score[n - 1] = costs->pass * ratio_of(costs, n);
    }
    pace->score = score;
    pace->n_score = n_score;
    draft_line(&costs->drafts[kind], &pace->start, &pace->draft);
    pace->host = host_of(costs);
    return costs->is_pinned && costs->more_squares > 0;
}

double cop_learnt_costs_plain(const struct cop_learnt_costs *costs)
{
    return costs->pass + host_of(costs);
}

double cop_learnt_costs_usual(const struct cop_learnt_costs *costs,
                              const struct cop_length_cycle *cycle, int32_t kind,
                              int32_t waited)
{
    double start = 0, level = 0;
    if (cycle->depth > 0) {
        draft_line(&costs->drafts[kind], &start, &level);
        start += cop_learnt_costs_wake(costs, kind, waited);
    }
    return costs->pass * ratio_of(costs, cycle->nodes) + start + cycle->depth * level +
           host_of(costs);
}
