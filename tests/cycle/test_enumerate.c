/* Enumeration: every branch once, probabilities that sum to 1, and impure code found out. */
#include "core/cycle/law/enumerate.h"
#include "core/cycle/law/law.h"
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

static const double thirds[] = {1.0 / 2, 0, 1.0 / 3, 1.0 / 6};
static struct cop_row row = {.kind = COP_ROW_DENSE, .vocab = 4, .dense = thirds};

#define NEAR(a, b)                                                                             \
    cr_expect_lt(fabs((a) - (b)), 1e-15, "%.17g, not %.17g", (double)(a), (double)(b))

Test(enumerate, nothing_asked_is_one_branch)
{
    struct cop_error error = {.code = COP_OK};
    struct cop_enumeration e;
    cop_enumeration_init(&e, &error);
    (void)cop_enumeration_start(&e);
    cr_expect_eq(e.probability, 1);
    cr_expect_not(cop_enumeration_next(&e));
    cop_enumeration_release(&e);
}

Test(enumerate, flips_and_picks)
{
    struct cop_error error = {.code = COP_OK};
    struct cop_enumeration e;
    cop_enumeration_init(&e, &error);
    double law[5] = {0}, total = 0; /* token picked, or 4: not flipped */
    int n = 0;
    do {
        struct cop_draws draws = cop_enumeration_start(&e);
        struct cop_weights weights = cop_row_weights(&row);
        int outcome = 4;
        if (cop_flip(&draws, 1, 1, .25)) {
            outcome = cop_pick(&draws, 2, 1, &weights);
            cr_expect(cop_flip(&draws, 3, 1, 2), "certain: no second branch");
            cr_expect_not(cop_flip(&draws, 4, 1, -1));
        }
        law[outcome] += e.probability;
        total += e.probability;
        n++;
    } while (cop_enumeration_next(&e));
    cr_expect_eq(error.code, COP_OK);
    cr_expect_eq(n, 4, "three tokens of positive probability, and the failed flip");
    NEAR(total, 1);
    NEAR(law[4], .75);
    NEAR(law[0], .125);
    NEAR(law[2], .25 / 3);
    cr_expect_eq(law[1], 0);
    cop_enumeration_release(&e);
}

Test(enumerate, endless_questions_end)
{
    struct cop_error error = {.code = COP_OK};
    struct cop_enumeration e;
    cop_enumeration_init(&e, &error);
    struct cop_draws draws = cop_enumeration_start(&e);
    uint32_t n = 0;
    while (error.code == COP_OK && n < 100000) {
        (void)cop_flip(&draws, 1, n++, .5);
    }
    cr_expect_eq(n, 16385);
    cr_expect_eq(error.code, COP_ERR_LIMIT);
    cr_expect_str_eq(error.text, "more than 16384 questions in one cycle");
    cop_enumeration_release(&e);
}

Test(enumerate, race_is_draws_without_replacement)
{
    struct cop_error error = {.code = COP_OK};
    struct cop_enumeration e;
    cop_enumeration_init(&e, &error);
    double law[4][4] = {{0}};
    do {
        struct cop_draws draws = cop_enumeration_start(&e);
        cop_token ids[2];
        cr_assert_eq(cop_race(&draws, 1, 1, &row, 2, ids), 2);
        law[ids[0]][ids[1]] += e.probability;
    } while (cop_enumeration_next(&e));
    NEAR(law[0][2], .5 * 2 / 3);
    NEAR(law[2][0], 1.0 / 3 * .5 / (2.0 / 3));
    NEAR(law[3][2], 1.0 / 6 * (1.0 / 3) / (5.0 / 6));
    cr_expect_eq(law[0][1] + law[1][0] + law[0][0], 0);
    struct cop_draws draws = cop_enumeration_start(&e);
    cop_token ids[8];
    cr_expect_eq(cop_race(&draws, 1, 1, &row, 8, ids), 3, "only three can run");
    cr_expect_eq(error.code, COP_OK);
    cop_enumeration_release(&e);
}

Test(enumerate, race_goes_on_as_one_race)
{
    struct cop_error error = {.code = COP_OK};
    struct cop_enumeration e;
    cop_enumeration_init(&e, &error);
    double law[4][4] = {{0}};
    do {
        struct cop_draws draws = cop_enumeration_start(&e);
        cop_token ids[2];
        cr_assert_eq(cop_race(&draws, 1, 1, &row, 1, ids), 1);
        cr_assert_eq(cop_race_on(&draws, 1, 1, &row, 2, ids, 1), 2);
        law[ids[0]][ids[1]] += e.probability;
    } while (cop_enumeration_next(&e));
    NEAR(law[0][2], .5 * 2 / 3);
    NEAR(law[2][0], 1.0 / 3 * .5 / (2.0 / 3));
    struct cop_draws draws = cop_enumeration_start(&e);
    cop_token ids[2] = {0};
    cr_expect_eq(cop_race_on(&draws, 1, 1, &row, 2, ids, 1), 2);
    cr_expect_eq(cop_race_on(&draws, 1, 1, &row, 2, ids, 1), 1, "asked twice");
    cr_expect_eq(error.code, COP_ERR_ARGUMENT);
    cop_enumeration_release(&e);
}

Test(enumerate, repeats_are_errors_until_the_next_run)
{
    struct cop_error error = {.code = COP_OK};
    struct cop_enumeration e;
    cop_enumeration_init(&e, &error);
    struct cop_draws draws = cop_enumeration_start(&e);
    (void)cop_flip(&draws, 1, 1, .5);
    (void)cop_flip(&draws, 1, 2, .5);
    cr_expect_eq(e.probability, .25);
    draws = cop_enumeration_start(&e);
    (void)cop_flip(&draws, 1, 1, .5);
    cr_expect_eq(error.code, COP_OK);
    cr_expect_eq(e.probability, .5);
    (void)cop_flip(&draws, 1, 1, .5);
    cr_expect_eq(error.code, COP_ERR_ARGUMENT);
    struct cop_weights weights = cop_row_weights(&row);
    cr_expect_eq(cop_pick(&draws, 2, 2, &weights), -1, "after an error nothing is answered");
    cop_enumeration_release(&e);
}

static void two_runs(uint32_t purpose, double probability, bool asks, const char *complaint)
{
    struct cop_error error = {.code = COP_OK};
    struct cop_enumeration e;
    cop_enumeration_init(&e, &error);
    struct cop_draws draws = cop_enumeration_start(&e);
    (void)cop_flip(&draws, 1, 1, .5);
    (void)cop_flip(&draws, 1, 2, .5);
    cr_assert(cop_enumeration_next(&e));
    draws = cop_enumeration_start(&e);
    if (asks) {
        (void)cop_flip(&draws, purpose, 1, probability);
        (void)cop_flip(&draws, 1, 2, .5);
    }
    (void)cop_enumeration_next(&e);
    cr_expect_eq(error.code, complaint ? COP_ERR_ARGUMENT : COP_OK);
    cr_expect(!complaint || strstr(error.text, complaint), "%s", error.text);
    cop_enumeration_release(&e);
}

Test(enumerate, a_replay_must_ask_the_same)
{
    two_runs(1, .5, true, NULL);
    two_runs(2, .5, true, "not a function of its inputs");
    two_runs(1, .25, true, "not a function of its inputs");
    two_runs(1, .5, false, "not a function of its inputs");
}

/* ---- Coins from a list
 * ------------------------------------------------------------------------- */

Test(coin_list, coins_go_in_the_order_of_questions)
{
    const double given[] = {0, .5, .9, .2, .0};
    struct cop_error error = {.code = COP_OK};
    struct cop_coin_list list = {.coins = given, .count = 5};
    struct cop_draws draws = cop_coin_list_draws(&list, &error);
    struct cop_weights weights = cop_row_weights(&row);
    cr_expect_not(cop_flip(&draws, 1, 1, 0), "u < p is strict, also at u = 0");
    cr_expect_not(cop_flip(&draws, 1, 1, .5));
    cr_expect_eq(cop_pick(&draws, 1, 1, &weights), 3);
    cop_token ids[2];
    cr_expect_eq(cop_race(&draws, 1, 1, &row, 2, ids), 2);
    cr_expect_eq(ids[0], 0);
    cr_expect_eq(ids[1], 2);
    cr_expect_eq(list.used, 5);
    cr_expect_eq(error.code, COP_OK);
    cr_expect_not(cop_flip(&draws, 1, 1, 1));
    cr_expect_str_eq(error.text, "the rule asks for more coins than the 5 given");
}

Test(coin_list, picks_of_the_heaviest_take_no_coin)
{
    const double bad[] = {1};
    struct cop_error error = {.code = COP_OK};
    struct cop_coin_list list = {.coins = bad, .count = 1, .pick_best = true};
    struct cop_draws draws = cop_coin_list_draws(&list, &error);
    struct cop_weights weights = cop_row_weights(&row);
    cr_expect_eq(cop_pick(&draws, 1, 1, &weights), 0);
    cr_expect_eq(list.used, 0);
    cr_expect_not(cop_flip(&draws, 1, 1, 1));
    cr_expect_str_eq(error.text, "a coin outside [0, 1)");
}
