/* The tail by the incomplete gamma function: its series below the mean, its continued fraction
 * above. */
#include "core/proof/chi_square.h"

#include <math.h>
#include <stdbool.h>

enum { STEPS = 10000 };
static const double tiny = 1e-300, precision = 1e-15;

/* Lower part: x^a e^-x / Gamma(a) * sum of x^k / (a (a + 1) … (a + k)). */
static double lower(double a, double x)
{
    double term = 1 / a, sum = term;
    for (int k = 1; k < STEPS && fabs(term) > precision * sum; k++) {
        term *= x / (a + k);
        sum += term;
    }
    return sum * exp(a * log(x) - x - lgamma(a));
}

/* Upper part, by Lentz's method. */
static double upper(double a, double x)
{
    double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
    for (int k = 1; k < STEPS; k++) {
        double an = -k * (k - a);
        b += 2;
        d = an * d + b;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = b + an / c;
        c = fabs(c) < tiny ? tiny : c;
        h *= c * d;
        if (fabs(c * d - 1) < precision) {
            break;
        }
    }
    return h * exp(a * log(x) - x - lgamma(a));
}

double cop_chi_square_tail(double statistic, int32_t dof)
{
    double a = dof / 2.0, x = statistic / 2;
    if (dof < 1 || !(x > 0)) {
        return isnan(statistic) ? 0 : 1;
    }
    if (isinf(x)) {
        return 0;
    }
    return x < a + 1 ? 1 - lower(a, x) : upper(a, x);
}

/* The likeliest outcome below `mass`, and after `last` among equal ones; -1: none. */
static int32_t next_likeliest(const double *law, int32_t n, double mass, int32_t last)
{
    int32_t best = -1;
    for (int32_t i = 0; i < n; i++) {
        bool is_left = law[i] < mass || (law[i] == mass && i > last);
        if (is_left && (best < 0 || law[i] > law[best])) {
            best = i;
        }
    }
    return best;
}

struct cop_chi_square cop_chi_square_test(const int64_t *counts, int64_t total,
                                          const double *law, int32_t n)
{
    struct cop_chi_square result = {.dof = 0};
    double rest_expected = (double)total, rest_count = (double)total;
    double mass = (double)INFINITY;
    for (int32_t bin = 0, i = -1; bin < COP_CHI_SQUARE_BINS; bin++) {
        i = next_likeliest(law, n, mass, i);
        double expected = i < 0 ? 0 : (double)total * law[i];
        if (expected < 5) {
            break;
        }
        double difference = (double)counts[i] - expected;
        result.statistic += difference * difference / expected;
        result.dof++;
        rest_expected -= expected;
        rest_count -= (double)counts[i];
        mass = law[i];
    }
    if (rest_expected >= 1) {
        double difference = rest_count - rest_expected;
        result.statistic += difference * difference / rest_expected;
    } else {
        result.dof--;
    }
    result.p = cop_chi_square_tail(result.statistic, result.dof);
    for (int32_t i = 0; i < n; i++) {
        if (!(law[i] > 0) && counts[i] > 0) {
            result.p = 0;
        }
    }
    return result;
}
