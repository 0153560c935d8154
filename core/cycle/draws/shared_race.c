/* The closed form of shared_race.h, by a sweep over the sorted ratios. */
#include "core/cycle/draws/shared_race.h"

#include <math.h>
#include <stdlib.h>

/* Runners by their ratio second / first, ascending, those that cannot win the first race last.
 */
struct sweep {
    const double *first, *second;
    int32_t n;
    int32_t *order;   /* [n] */
    double *integral; /* [n], by runner: of dr / M(r)^2 from 0 to its ratio */
};

static double ratio(const struct sweep *s, int32_t k)
{
    return s->first[k] > 0 ? s->second[k] / s->first[k] : (double)INFINITY;
}

static double total(const struct sweep *s, double r)
{
    double sum = 0;
    for (int32_t k = 0; k < s->n; k++) {
        sum += fmax(s->first[k] * r, s->second[k]);
    }
    return sum;
}

static void sort(struct sweep *s)
{
    for (int32_t k = 0; k < s->n; k++) {
        int32_t at = k;
        for (; at > 0 && ratio(s, s->order[at - 1]) > ratio(s, k); at--) {
            s->order[at] = s->order[at - 1];
        }
        s->order[at] = k;
    }
}

/* M(r) >= max(1, r) for laws, so no term passes 1 and the integral to infinity is at most 2. */
static void integrate(struct sweep *s)
{
    double below = 0, m_below = total(s, 0), mass = 0, sum = 0;
    for (int32_t k = 0; k < s->n; k++) {
        mass += s->first[k];
    }
    for (int32_t i = 0; i < s->n; i++) {
        double r = ratio(s, s->order[i]);
        if (isinf(r)) { /* past the last ratio M grows as mass * r */
            sum += isinf(below) ? 0 : 1 / (mass * m_below);
        } else if (r > below) {
            double m = total(s, r);
            sum += (r - below) / m / m_below;
            m_below = m;
        }
        below = r;
        s->integral[s->order[i]] = sum;
    }
}

bool cop_shared_race(const double *first, const double *second, int32_t n, int32_t winner,
                     double *out)
{
    size_t count = (size_t)n;
    struct sweep s = {.first = first,
                      .second = second,
                      .n = n,
                      .order = malloc(count * sizeof *s.order),
                      .integral = malloc(count * sizeof *s.integral)};
    bool has_room = s.order && s.integral;
    if (has_room) {
        sort(&s);
        integrate(&s);
        double own = ratio(&s, winner);
        for (int32_t j = 0; j < n; j++) {
            double rise = s.integral[j] - s.integral[winner];
            out[j] = rise > 0 ? second[j] * rise : 0;
        }
        out[winner] = second[winner] > 0 ? own / total(&s, own) : 0;
    }
    free(s.order);
    free(s.integral);
    return has_room;
}
