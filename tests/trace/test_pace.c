/* Speed by depth: the closed forms of a chain with equal acceptance, and the steps of a
 * measured curve. */
#include "core/trace/pace.h"
#include <criterion/criterion.h>

#include <math.h>

static struct cop_pace chain(const double *acceptance, const double *score, double draft)
{
    return (struct cop_pace){.acceptance = acceptance,
                             .n_acceptance = 1,
                             .score = score,
                             .n_score = 1,
                             .draft = draft};
}

static const double one = 1;

Test(pace, tokens_of_a_chain)
{
    static const struct {
        double acceptance, tokens[5];
    } table[] = {{.5, {1.5, 1.75, 1.875, 1.9375, 1.9688}},
                 {.6, {1.6, 1.96, 2.176, 2.3056, 2.3834}},
                 {.7, {1.7, 2.19, 2.533, 2.7731, 2.9412}},
                 {.8, {1.8, 2.44, 2.952, 3.3616, 3.6893}},
                 {.9, {1.9, 2.71, 3.439, 4.0951, 4.6856}}};
    for (int i = 0; i < 5; i++) {
        struct cop_pace pace = chain(&table[i].acceptance, &one, 0);
        cr_expect_eq(cop_pace_tokens(&pace, 0), 1);
        for (int depth = 1; depth <= 5; depth++) {
            cr_expect_lt(fabs(cop_pace_tokens(&pace, depth) - table[i].tokens[depth - 1]),
                         5.001e-5, "%g, %d", table[i].acceptance, depth);
        }
    }
}

/* At c = .2 and acceptance .5, depths 1 and 2 are equally fast: the shallower one. */
Test(pace, best_depth_of_a_chain)
{
    static const double acceptance[] = {.5, .6, .7, .8, .9};
    static const struct {
        double draft;
        int32_t depth[5];
        double speed[5];
    } table[] = {{.01, {5, 7, 9, 14, 24}, {1.875, 2.297, 2.972, 4.232, 7.486}},
                 {.02, {4, 6, 8, 11, 19}, {1.794, 2.170, 2.758, 3.817, 6.365}},
                 {.05, {3, 4, 6, 8, 13}, {1.630, 1.921, 2.353, 3.092, 4.674}},
                 {.1, {2, 3, 4, 6, 10}, {1.458, 1.674, 1.981, 2.470, 3.431}},
                 {.2, {1, 2, 3, 4, 7}, {1.250, 1.400, 1.583, 1.868, 2.373}},
                 {.3, {1, 1, 2, 3, 5}, {1.154, 1.231, 1.369, 1.554, 1.874}}};
    for (size_t row = 0; row < sizeof table / sizeof *table; row++) {
        for (int i = 0; i < 5; i++) {
            struct cop_pace pace = chain(&acceptance[i], &one, table[row].draft);
            int32_t best = cop_pace_best(&pace, 0, 64);
            cr_expect_eq(best, table[row].depth[i], "c %g, acceptance %g: %d", table[row].draft,
                         acceptance[i], best);
            double speed = cop_pace_tokens(&pace, best) / cop_pace_seconds(&pace, best);
            cr_expect_lt(fabs(speed - table[row].speed[i]), 5.001e-4);
        }
    }
    struct cop_pace slow = chain(&acceptance[0], &one, .5); /* it pays only above c */
    cr_expect_eq(cop_pace_best(&slow, 0, 64), 0);
    cr_expect_eq(cop_pace_best(&slow, 1, 64), 1);
}

Test(pace, curves_with_steps_and_widths)
{
    static const double score[] = {1, 1.5, 3, 3.5};
    cr_expect_eq(cop_pace_score(score, 4, 1), 1);
    cr_expect_eq(cop_pace_score(score, 4, 2.5), 2.25);
    cr_expect_eq(cop_pace_score(score, 4, 6), 4.5);
    cr_expect_eq(cop_pace_score(score, 1, 9), 1);
    static const double falling[] = {1, 2, 1.5};
    cr_expect_eq(cop_pace_score(falling, 3, 9), 1.5);

    static const double acceptance[] = {.9, .5}, widths[] = {2, 1};
    struct cop_pace pace = {.acceptance = acceptance,
                            .n_acceptance = 2,
                            .score = score,
                            .n_score = 4,
                            .widths = widths,
                            .n_widths = 2,
                            .draft = .25,
                            .host = .5};
    cr_expect_lt(fabs(cop_pace_tokens(&pace, 3) - (1 + .9 + .45 + .225)), 1e-15);
    cr_expect_eq(cop_pace_seconds(&pace, 0), 1.5);
    cr_expect_eq(cop_pace_seconds(&pace, 1), 3 + .25 + .5);
    cr_expect_eq(cop_pace_seconds(&pace, 3), 4 + .75 + .5);
    /* 1 / 1.5, 1.9 / 3.75, 2.35 / 4.5, 2.575 / 5.25: nothing pays here. */
    cr_expect_eq(cop_pace_best(&pace, 0, 3), 0);
    cr_expect_eq(cop_pace_best(&pace, 1, 3), 2);
}

/* What it takes to draft at all is paid once. With 3.2 nothing pays: the best depth, 10,
 * has 4.57 tokens in 5.2. */
Test(pace, drafting_has_a_start)
{
    static const double acceptance = .8;
    struct cop_pace pace = chain(&acceptance, &one, .1);
    pace.start = .4;
    cr_expect_lt(fabs(cop_pace_seconds(&pace, 0) - 1), 1e-12);
    cr_expect_lt(fabs(cop_pace_seconds(&pace, 1) - 1.5), 1e-12);
    cr_expect_lt(fabs(cop_pace_seconds(&pace, 3) - 1.7), 1e-12);
    pace.start = 3.2;
    cr_expect_lt(fabs(cop_pace_seconds(&pace, 10) - 5.2), 1e-12);
    cr_expect_eq(cop_pace_best(&pace, 0, 64), 0);
}
