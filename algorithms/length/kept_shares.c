/* Classes, their counts, and what they say of a draft. */
#include "algorithms/length/kept_shares.h"

#include <math.h>

enum { MATCHES = 6 }; /* classes of matches: none, 1, 2, 3, less than 8, more */

static const double prior_weight = 2; /* trials that what is believed of a class counts for */
#define USUAL 0.5                     /* of drafts of which nothing is known */
static const double highest = 0.99;

static int32_t place_of(int32_t level)
{
    return level < COP_KEPT_PLACES ? level - 1 : COP_KEPT_PLACES - 1;
}

/* ---- Classes ----------------------------------------------------------------------------- */

/* A point's confidence in the whole path down to it, or to a row's first `most` (token < 0);
 * NaN: it has none. */
static double confidence(const struct cop_row *row, cop_token token, int32_t most)
{
    double sum = 0;
    int32_t n = token < 0 && most < row->count ? most : row->count;
    for (int32_t i = 0; row->weights && i < n; i++) {
        sum += token < 0 || row->ids[i] == token ? row->weights[i] : 0;
    }
    return row->weights ? sum : (double)NAN;
}

/* What the rows of a level add up to. */
struct sureness {
    double points, rows;
    bool has_points;
};

static void add(struct sureness *sum, const struct cop_row *row, cop_token token, int32_t most)
{
    if (!row || row->kind == COP_ROW_NONE) {
        return;
    }
    if (row->kind != COP_ROW_POINTS) {
        sum->rows += token < 0 ? 0 : cop_row_probability(row, token);
        return;
    }
    double own = confidence(row, token, most);
    sum->has_points |= !isnan(own);
    sum->points += isnan(own) ? 0 : own;
}

/* Probability that the level holds what comes, given the level above; NaN: nobody knows. */
static double sureness(const struct cop_length_in *in, double width, double *reach)
{
    struct sureness sum = {0};
    int32_t n_parents = 0, parent = -1;
    int32_t most = width > 1.5 * in->n_frontier ? (int32_t)(width / in->n_frontier + 0.5) : 1;
    for (int32_t i = 0; i < in->n_frontier; i++) {
        int32_t node = in->frontier[i];
        for (int32_t j = 0; in->offered && j < in->n_drafters; j++) {
            add(&sum, &in->offered[i * in->n_drafters + j], -1, most);
        }
        if (!in->offered) {
            add(&sum, cop_rows_at(&in->draft, node), in->tree->token[node], 0);
            n_parents += in->tree->parent[node] != parent;
            parent = in->tree->parent[node];
        }
    }
    double before = *reach;
    if (sum.has_points) {
        *reach = sum.points;
        return before > 0 ? sum.points / before : 0;
    }
    return sum.rows > 0 ? sum.rows / n_parents : (double)NAN;
}

int32_t cop_kept_class(const struct cop_length_in *in, double width, double *reach)
{
    double sure = sureness(in, width, reach);
    int32_t matched = in->n_matched < 4 ? in->n_matched : in->n_matched < 8 ? 4 : 5;
    int32_t step = isnan(sure) ? 0 : sure < 0.5 ? 1 : sure < 0.9 ? 2 : 3;
    return step * MATCHES + matched;
}

/* ---- Counts ------------------------------------------------------------------------------ */

static void count(struct cop_kept_classes *classes, double decay, int32_t class, bool passed)
{
    cop_kept_count(&classes->all, decay, passed);
    cop_kept_count(&classes->of[class], decay, passed);
}

void cop_kept_learn(struct cop_kept_shares *shares, double decay, int32_t depth,
                    int32_t n_accepted, const uint8_t *classes, int32_t n)
{
    for (int32_t d = 0; d < COP_KEPT_LEVELS && d < depth && d <= n_accepted; d++) {
        bool passed = n_accepted > d;
        cop_kept_count(&shares->levels[d], decay, passed);
        if (d < n) {
            count(&shares->own[place_of(d + 1)], decay, classes[d], passed);
        }
        if (d > 0 && d <= n) {
            count(&shares->next[place_of(d + 1)], decay, classes[d - 1], passed);
        }
    }
}

/* Before anything is known: what a proposer says of itself is worth something, and no more than
 * the shorter of its two accounts. */
static double class_prior(int32_t class)
{
    static const double by_step[] = {USUAL, 0.3, 0.5, 0.9};
    static const double by_match[MATCHES] = {USUAL, 0.3, 0.5, 0.65, 0.75, 0.9};
    int32_t step = class / MATCHES, match = class % MATCHES;
    if (match == 0) {
        return fmin(by_step[step], 0.65); /* a model's own opinion */
    }
    return step == 0 ? by_match[match] : fmin(by_step[step], by_match[match]);
}

static double moved(const struct cop_kept_classes *classes, int32_t class, double acceptance)
{
    double mean = cop_kept_share(&classes->all, USUAL, prior_weight);
    double own = cop_kept_share(&classes->of[class], class_prior(class), prior_weight);
    return fmin(acceptance * own / mean, fmax(acceptance, highest));
}

void cop_kept_move(const struct cop_kept_shares *shares, const uint8_t *classes, int32_t n,
                   double *acceptance, int32_t n_levels)
{
    for (int32_t d = 0; d < n_levels; d++) {
        acceptance[d] =
            d < n ? moved(&shares->own[place_of(d + 1)], classes[d], acceptance[d])
                  : moved(&shares->next[place_of(d + 1)], classes[n - 1], acceptance[d]);
    }
}
