/* Two races with one noise: the closed form against its marginals, published numbers, coins. */
#include "core/cycle/draws/coins.h"
#include "core/cycle/draws/shared_race.h"
#include "core/cycle/law/enumerate.h"
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

enum { LIMIT = 6 };

static double match_of(const double *first, const double *second, int32_t n)
{
    double sum = 0, out[LIMIT];
    for (int32_t i = 0; i < n; i++) {
        if (first[i] > 0) {
            cr_assert(cop_shared_race(first, second, n, i, out));
            sum += first[i] * out[i];
        }
    }
    return sum;
}

/* Both winners have their own laws, whichever race is asked first. */
static void expect_marginals(const double *first, const double *second, int32_t n)
{
    double joint[LIMIT][LIMIT] = {{0}}, swapped[LIMIT];
    for (int32_t i = 0; i < n; i++) {
        double total = 0;
        if (!(first[i] > 0)) {
            continue;
        }
        cr_assert(cop_shared_race(first, second, n, i, joint[i]));
        for (int32_t j = 0; j < n; j++) {
            cr_expect_geq(joint[i][j], 0);
            total += joint[i][j];
            joint[i][j] *= first[i];
        }
        cr_expect_lt(fabs(total - 1), 1e-14, "given %d: %.17g", i, total);
    }
    for (int32_t j = 0; j < n; j++) {
        double total = 0;
        for (int32_t i = 0; i < n; i++) {
            total += joint[i][j];
        }
        cr_expect_lt(fabs(total - second[j]), 1e-14, "%d: %.17g, not %g", j, total, second[j]);
        if (second[j] > 0) {
            cr_assert(cop_shared_race(second, first, n, j, swapped));
            for (int32_t i = 0; i < n; i++) {
                cr_expect_lt(fabs(swapped[i] * second[j] - joint[i][j]), 1e-14);
            }
        }
    }
}

Test(shared_race, published_matches)
{
    static const double p[] = {.5, .3, .2}, q[] = {.2, .3, .5};
    static const double toy_p[] = {1.0 / 3, 2.0 / 3}, toy_q[] = {2.0 / 3, 1.0 / 3};
    cr_expect_lt(fabs(match_of(q, p, 3) - 41.0 / 65), 1e-15);
    cr_expect_lt(fabs(match_of(p, q, 3) - 41.0 / 65), 1e-15);
    cr_expect_lt(fabs(match_of(toy_q, toy_p, 2) - 2.0 / 3), 1e-15);
}

Test(shared_race, marginals)
{
    static const double rows[][LIMIT] = {{.5, .3, .2},
                                         {.2, .3, .5},
                                         {1, 0, 0},
                                         {0, 0, 1},
                                         {.5, .5, 0},
                                         {0, .5, .5},
                                         {1 / 3., 1 / 3., 1 / 3.},
                                         {.25, 0, .75},
                                         {1e-300, 1 - 1e-16, 1e-16},
                                         {1e-9, 1e-9, 1 - 2e-9}};
    enum { N = sizeof rows / sizeof *rows };
    for (int a = 0; a < N; a++) {
        for (int b = 0; b < N; b++) {
            expect_marginals(rows[a], rows[b], 3);
        }
    }
    for (int i = 0; i < 300; i++) { /* rows of small integers, some of them zero */
        double row[2][LIMIT], sum[2] = {0, 0};
        for (int side = 0; side < 2; side++) {
            for (int k = 0; k < LIMIT; k++) {
                double u = cop_coins_uniform(5, 0, (uint32_t)i, (uint32_t)side, (uint32_t)k, 0);
                row[side][k] = floor(6 * u);
                sum[side] += row[side][k];
            }
            for (int k = 0; k < LIMIT; k++) {
                row[side][k] /= sum[side];
            }
        }
        expect_marginals(row[0], row[1], LIMIT);
    }
}

Test(shared_race, equal_rows_have_equal_winners)
{
    static const double p[] = {.5, .3, .2, 0};
    cr_expect_lt(fabs(match_of(p, p, 4) - 1), 1e-15);
}

/* ---- Coins ------------------------------------------------------------------------------ */

static const double p[] = {.5, .3, .2}, q[] = {.2, .3, .5};
static const struct cop_row target = {.kind = COP_ROW_DENSE, .vocab = 3, .dense = p};
static const struct cop_row draft = {.kind = COP_ROW_DENSE, .vocab = 3, .dense = q};

static cop_token race(const struct cop_draws *draws, uint32_t key, const struct cop_row *row)
{
    cop_token id = -1;
    (void)cop_race(draws, COP_PURPOSE_SHARED, key, row, 1, &id);
    return id;
}

Test(shared_race, coins_follow_the_closed_form)
{
    enum { N = 20000 };
    struct cop_coins coins;
    struct cop_error error = {.code = COP_OK};
    int32_t counts[3][3] = {{0}};
    cop_coins_init(&coins, 9, 4, &error);
    struct cop_draws draws = cop_coins_draws(&coins);
    for (uint32_t key = 0; key < N; key++) {
        cop_token drafted = race(&draws, key, &draft), own = race(&draws, key, &target);
        counts[drafted][own]++;
    }
    cr_expect_eq(error.code, COP_OK, "%s", error.text);
    for (int32_t i = 0; i < 3; i++) {
        double given[3];
        cr_assert(cop_shared_race(q, p, 3, i, given));
        for (int32_t j = 0; j < 3; j++) {
            double share = q[i] * given[j];
            cr_expect_lt(fabs(counts[i][j] - N * share), 5 * sqrt(N * share) + 1e-9,
                         "%d, %d: %d of %g", i, j, counts[i][j], N * share);
        }
    }
    cop_coins_release(&coins);
}

Test(shared_race, coins_do_not_know_the_cycle)
{
    struct cop_coins coins;
    struct cop_error error = {.code = COP_OK};
    cop_coins_init(&coins, 9, 4, &error);
    struct cop_draws draws = cop_coins_draws(&coins);
    cop_token first[50];
    for (uint32_t key = 0; key < 50; key++) {
        first[key] = race(&draws, key, &target);
    }
    cop_coins_cycle(&coins, 7);
    int32_t n_zero = 0;
    for (uint32_t key = 0; key < 50; key++) {
        cr_expect_eq(race(&draws, key, &target), first[key]);
        n_zero += first[key] == 0;
    }
    cr_expect(n_zero > 10 && n_zero < 40);
    (void)race(&draws, 3, &draft);
    cr_expect_eq(error.code, COP_OK);
    cr_expect_eq(race(&draws, 3, &draft), -1, "a third time");
    cr_expect_eq(error.code, COP_ERR_ARGUMENT);
    cop_coins_release(&coins);
}

/* ---- Enumeration ------------------------------------------------------------------------ */

Test(shared_race, enumeration)
{
    struct cop_enumeration e;
    struct cop_error error = {.code = COP_OK};
    double same = 0, apart = 0, total = 0;
    cop_enumeration_init(&e, &error);
    do {
        struct cop_draws draws = cop_enumeration_start(&e);
        cop_token drafted = race(&draws, 3, &draft), own = race(&draws, 3, &target);
        cop_token other = race(&draws, 4, &target);
        total += e.probability;
        same += drafted == own ? e.probability : 0;
        apart += drafted == other ? e.probability : 0;
    } while (error.code == COP_OK && cop_enumeration_next(&e));
    cr_expect_eq(error.code, COP_OK, "%s", error.text);
    cr_expect_lt(fabs(total - 1), 1e-14);
    cr_expect_lt(fabs(same - 41.0 / 65), 1e-14);
    cr_expect_lt(fabs(apart - .29), 1e-14, "another position has noise of its own");
    cop_enumeration_release(&e);
}

static void expect_wrong(int32_t k1, int32_t k2, bool asks_again, const char *text)
{
    struct cop_enumeration e;
    struct cop_error error = {.code = COP_OK};
    cop_token ids[3];
    cop_enumeration_init(&e, &error);
    struct cop_draws draws = cop_enumeration_start(&e);
    (void)cop_race(&draws, COP_PURPOSE_SHARED, 3, &draft, k1, ids);
    (void)cop_race(&draws, COP_PURPOSE_SHARED, 3, &target, k2, ids);
    if (asks_again) {
        (void)cop_race(&draws, COP_PURPOSE_SHARED, 3, &target, 1, ids);
    }
    cr_expect_eq(error.code, COP_ERR_ARGUMENT);
    cr_expect(strstr(error.text, text), "%s", error.text);
    cop_enumeration_release(&e);
}

Test(shared_race, wrong_questions)
{
    expect_wrong(1, 1, true, "asked a third time for shared noise");
    expect_wrong(2, 1, false, "two races with shared noise are enumerated for one token each");
    expect_wrong(1, 2, false, "two races with shared noise are enumerated for one token each");
}
