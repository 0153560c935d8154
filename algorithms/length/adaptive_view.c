/* From what was kept and what passes took to the pace of drafts of each depth. */
#include "algorithms/length/adaptive_view.h"

#include <math.h>

/* A share of so many trials, some standard deviations above what is known of it. */
static double hopeful(double share, double trials, double deviations)
{
    double deviation = trials > 0 ? sqrt(share * (1 - share) / trials) : 0;
    return fmin(share + deviations * deviation, 1);
}

/* What the engine knows counts twice as much as the option's prior, for a sequence that is like
 * the ones before it. */
static void expect_acceptance(const struct adaptive *s, const struct memory *m,
                              const struct shared *shared, double hope, struct view *view,
                              int32_t n)
{
    const struct cop_kept *kept = m->habits[m->kind].kept;
    double prior = s->acceptance, weight = shared ? 2 * s->weight : s->weight;
    for (int32_t d = 0; d < n; d++) {
        double before =
            shared ? cop_kept_share(&shared->kept[m->kind].levels[d], prior, s->weight) : prior;
        double share = cop_kept_share(&kept[d], before, weight);
        view->acceptance[d] = hopeful(share, kept[d].tested + weight, hope);
        prior = fmax(s->acceptance, share);
    }
    if (shared && m->n_classes > 0) {
        cop_kept_move(&shared->kept[m->kind], m->classes, m->n_classes, view->acceptance, n);
    }
}

/* How much wider than usual a level is by what is offered for it; else as the one above. */
static double wider(const struct memory *m, const struct shared *shared, int32_t d,
                    double before)
{
    return shared && m->offered[d] > 0 && shared->offered[d] > 0
               ? m->offered[d] / shared->offered[d]
               : before;
}

/* Returns the nodes of all n levels, the root included. */
static double expect_widths(const struct memory *m, const struct shared *shared,
                            struct view *view, int32_t n)
{
    const double *widths = shared ? shared->widths : m->widths;
    double width = 1, scale = 1, nodes = 1;
    for (int32_t d = 0; d < n; d++) {
        width = widths[d] > 0 ? widths[d] : width;
        scale = wider(m, shared, d, scale);
        view->widths[d] = fmax(scale * width, 1);
        nodes += view->widths[d];
    }
    return nodes;
}

bool cop_adaptive_look(const struct adaptive *s, const struct memory *m,
                       const struct shared *shared, int32_t limit, double hope,
                       struct view *view)
{
    int32_t n = limit < 1 ? 1 : limit < LEVELS ? limit : LEVELS;
    expect_acceptance(s, m, shared, hope, view, n);
    double nodes = ceil(expect_widths(m, shared, view, n));
    int32_t n_score = nodes < COP_LEARNT_SIZES ? (int32_t)nodes : COP_LEARNT_SIZES;
    view->pace = (struct cop_pace){.acceptance = view->acceptance,
                                   .n_acceptance = n,
                                   .widths = view->widths,
                                   .n_widths = n,
                                   .score = s->costs.items,
                                   .n_score = s->costs.count};
    bool is_known = s->costs.count > 0 ||
                    (shared && cop_learnt_costs_pace(&shared->costs, m->kind, view->score,
                                                     n_score, &view->pace));
    if (!isnan(s->draft)) {
        view->pace.start = 0;
        view->pace.draft = s->draft;
    }
    view->pace.host = isnan(s->host) ? view->pace.host : s->host;
    return is_known;
}
