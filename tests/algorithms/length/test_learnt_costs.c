/* Costs of a pass and of a level, from the cycles that were timed. */
#include "algorithms/length/learnt_costs.h"
#include "core/trace/pace.h"
#include <criterion/criterion.h>

#include <math.h>

/* V(n) = 10 + n: the line is exact, also when the pass of one token is timed last; then the
 * machine halves its speed, and a single cycle takes a hundred times as long. */
Test(learnt_costs, a_line_that_follows_the_machine)
{
    struct cop_learnt_costs costs = {0};
    struct cop_pace pace = {0};
    double score[COP_LEARNT_SIZES];
    cop_learnt_costs_take(
        &costs,
        &(struct cop_length_cycle){
            .depth = 4, .nodes = 5, .draft_seconds = 8, .score_seconds = 15, .host_seconds = 1},
        0, 0);
    cr_expect_not(cop_learnt_costs_pace(&costs, 0, score, COP_LEARNT_SIZES, &pace));
    cop_learnt_costs_take(
        &costs, &(struct cop_length_cycle){.nodes = 1, .score_seconds = 11, .host_seconds = 1},
        0, 0);
    cr_expect(cop_learnt_costs_pace(&costs, 0, score, COP_LEARNT_SIZES, &pace));
    for (int32_t n = 1; n <= COP_LEARNT_SIZES; n++) {
        cr_expect_lt(fabs(cop_pace_score(pace.score, pace.n_score, n) - (10 + n)), 1e-9, "%d",
                     n);
    }
    cr_expect_lt(fabs(pace.draft - 2) + fabs(pace.start) + fabs(pace.host - 1), 1e-12);
    cop_learnt_costs_take(&costs,
                          &(struct cop_length_cycle){
                              .depth = 1, .nodes = 2, .draft_seconds = 5, .score_seconds = 12},
                          0, 0);
    cr_expect(cop_learnt_costs_pace(&costs, 0, score, COP_LEARNT_SIZES,
                                    &pace)); /* 5 = start + level, 8 = 4 levels */
    cr_expect_lt(fabs(pace.draft - 1) + fabs(pace.start - 4), 1e-9, "%g %g", pace.draft,
                 pace.start);
    for (int i = 0; i < 100; i++) {
        cop_learnt_costs_take(
            &costs, &(struct cop_length_cycle){.nodes = 1, .score_seconds = 22}, 0, 0);
    }
    cr_expect(cop_learnt_costs_pace(&costs, 0, score, COP_LEARNT_SIZES, &pace));
    cr_expect_lt(fabs(score[0] - 22), .01);
    cr_expect_lt(fabs(score[4] - 30), .01, "%g", score[4]);
    cop_learnt_costs_take(&costs, &(struct cop_length_cycle){.nodes = 1, .score_seconds = 2200},
                          0, 0);
    cr_expect(cop_learnt_costs_pace(&costs, 0, score, COP_LEARNT_SIZES, &pace));
    cr_expect_lt(score[0], 27);
}

/* V(1) = 11, V(5) = 15, V(33) = 110: a pass of nine is far below the line that 33 lies on. */
Test(learnt_costs, sizes_lie_between_those_that_were_timed)
{
    static const struct cop_length_cycle cycles[] = {{.nodes = 1, .score_seconds = 11},
                                                     {.nodes = 5, .score_seconds = 15},
                                                     {.nodes = 33, .score_seconds = 110}};
    struct cop_learnt_costs costs = {0};
    struct cop_pace pace = {0};
    double score[COP_LEARNT_SIZES];
    for (int i = 0; i < 300; i++) {
        cop_learnt_costs_take(&costs, &cycles[i % 3], 0, 0);
    }
    cr_expect(cop_learnt_costs_pace(&costs, 0, score, COP_LEARNT_SIZES, &pace));
    cr_expect_lt(fabs(score[8] - (15 + 95. * 4 / 28)), 2, "%g", score[8]);
    cr_expect_lt(fabs(score[18] - (15 + 95. * 14 / 28)), 2, "%g", score[18]);
    cr_expect_gt(score[39], 110);
}

/* V(1) = 10, but the first such pass took 20; V(3) = 13. Every 33rd pass is of one token: those
 * of three tokens alone would leave the ratio of .65 as it is. One bad pass of eleven is 10
 * / 11. */
Test(learnt_costs, a_bad_first_pass_of_one_token_is_put_right)
{
    struct cop_learnt_costs costs = {0};
    struct cop_pace pace = {0};
    double score[COP_LEARNT_SIZES];
    const struct cop_length_cycle plain = {.nodes = 1, .score_seconds = 10},
                                  bad = {.nodes = 1, .score_seconds = 20},
                                  three = {.nodes = 3, .score_seconds = 13};
    cop_learnt_costs_take(&costs, &bad, 0, 0);
    for (int i = 0; i < 330; i++) {
        cop_learnt_costs_take(&costs, i % 33 == 32 ? &plain : &three, 0, 0);
    }
    cr_expect(cop_learnt_costs_pace(&costs, 0, score, COP_LEARNT_SIZES, &pace));
    cr_expect_lt(fabs(score[0] - 10), 1, "%g", score[0]);
    cr_expect_lt(fabs(score[2] - 13), .2, "%g", score[2]);
}

Test(learnt_costs, asks_for_passes_of_one_token)
{
    struct cop_learnt_costs costs = {0};
    const struct cop_length_cycle plain = {.nodes = 1, .score_seconds = 10},
                                  two = {.nodes = 2, .score_seconds = 12};
    static const int32_t waits[] = {4, 8, 12, 16, 20, 24, 28, 32, 32, 32};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        int32_t waited = 0;
        cop_learnt_costs_take(&costs, &plain, 0, 0);
        for (; !cop_learnt_costs_want_plain(&costs); waited++) {
            cop_learnt_costs_take(&costs, &two, 0, 0);
        }
        cr_expect_eq(waited, waits[i], "%d: %d", (int)i, waited);
    }
}

/* V(3) = 13, 2 a level, host 1; a draft after ten cycles without one took 5 longer. Drafts of
 * the other kind are not known to take anything. */
Test(learnt_costs, drafts_of_two_kinds_and_after_a_pause)
{
    struct cop_learnt_costs costs = {0};
    const struct cop_length_cycle plain = {.nodes = 1, .score_seconds = 10, .host_seconds = 1},
                                  two = {.depth = 2,
                                         .nodes = 3,
                                         .draft_seconds = 4,
                                         .score_seconds = 13,
                                         .host_seconds = 1},
                                  late = {.depth = 2,
                                          .nodes = 3,
                                          .draft_seconds = 9,
                                          .score_seconds = 13,
                                          .host_seconds = 1};
    cop_learnt_costs_take(&costs, &plain, 0, 0);
    for (int i = 0; i < 5; i++) {
        cop_learnt_costs_take(&costs, &two, 0, 0);
    }
    cop_learnt_costs_take(&costs, &late, 0, 10);
    cr_expect_lt(fabs(cop_learnt_costs_plain(&costs) - 11), 1e-9);
    cr_expect_lt(fabs(cop_learnt_costs_wake(&costs, 0, 4) - 2), 1e-9);
    cr_expect_lt(fabs(cop_learnt_costs_usual(&costs, &plain, 0, 4) - 11), 1e-9);
    cr_expect_lt(fabs(cop_learnt_costs_usual(&costs, &two, 0, 0) - 18), 1e-9);
    cr_expect_lt(fabs(cop_learnt_costs_usual(&costs, &late, 0, 4) - 20), 1e-9);
    cr_expect_lt(fabs(cop_learnt_costs_usual(&costs, &two, 1, 0) - 14), 1e-9);
}
