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
