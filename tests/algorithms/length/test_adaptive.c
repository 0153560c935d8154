/* A depth by what it yields: the published table, what is learnt in a request and in its
 * engine, and what tries may cost. */
#include "core/trace/pace.h"
#include "tests/algorithms/length/length_bench.h"

static struct cop_part *adaptive(double draft, double acceptance, int32_t rest)
{
    static const double flat[] = {1};
    struct cop_part *part = set_numbers(new_length("adaptive"), "costs", flat, 1);
    part = set_number(set_number(part, "draft", draft), "acceptance", acceptance);
    return ready(set_number(part, "rest", rest));
}

Test(adaptive, the_prior_alone_gives_the_table)
{
    static const struct {
        double draft, acceptance;
        int32_t depth;
    } table[] = {{.05, .5, 3}, {.1, .7, 4}, {.1, .9, 10}, {.2, .8, 4}, {.3, .6, 1}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct asked asked = ask_of(adaptive(table[i].draft, table[i].acceptance, 16));
        cr_expect_eq(depth_of(&asked, 30), table[i].depth);
        cr_expect_eq(depth_of(&asked, 2), table[i].depth < 2 ? table[i].depth : 2);
        done(&asked);
    }
}

Test(adaptive, gives_up_and_tries_again)
{
    struct asked asked = ask_of(adaptive(.3, .7, 3));
    cr_expect_eq(depth_of(&asked, 8), 2); /* c = .3, acceptance .7 */
    int32_t cycles = 0, depth;
    while ((depth = depth_of(&asked, 8)) > 0) {
        tell(&asked, (struct cop_length_cycle){.limit = 8, .depth = depth});
        cr_assert_lt(++cycles, 20);
    }
    /* (.7 * 4) / (4 + tested) falls below .3 when the decayed count passes 16 / 3: six cycles
     * of weight 1, .95, … make 5.298, seven make 6.03. */
    cr_expect_eq(cycles, 7);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            cr_expect_eq(depth_of(&asked, 8), 0);
            tell(&asked, (struct cop_length_cycle){.limit = 8});
        }
        cr_expect_eq(depth_of(&asked, 8), 1, "the depth that does least harm");
        tell(&asked, (struct cop_length_cycle){.limit = 8, .depth = 1, .n_accepted = 0});
    }
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(depth_of(&asked, 8), 0);
        tell(&asked, (struct cop_length_cycle){.limit = 8});
    }
    for (int i = 0; i < 80; i++) { /* the text became easy */
        depth = depth_of(&asked, 8);
        tell(&asked,
             (struct cop_length_cycle){.limit = 8, .depth = depth, .n_accepted = depth});
    }
    cr_expect_gt(depth_of(&asked, 8), 3);
    done(&asked);
}

/* V(n) = 10 + n, D = 1 a level, H = 2: milliseconds, in any unit. */
static struct cop_length_cycle timed(int32_t depth, int32_t accepted)
{
    return (struct cop_length_cycle){.limit = 12,
                                     .depth = depth,
                                     .n_accepted = accepted,
                                     .draft_seconds = 1e-3 * depth,
                                     .score_seconds = 1e-3 * (11 + depth),
                                     .host_seconds = 2e-3};
}

Test(adaptive, measures_when_no_costs_are_given)
{
    struct asked asked = ask_of(ready(new_length("adaptive")));
    cr_expect_eq(depth_of(&asked, 12), 8, "enough to be timed");
    tell(&asked, timed(12, 2));
    cr_expect_eq(depth_of(&asked, 12), 0, "nothing");
    tell(&asked, timed(0, 0));
    static const double score[] = {11, 12};
    /* The engine's share, (kept + 4 * prior) / 5, is the prior of the sequence's own, (kept + 8
     * * prior) / 9; that of a level is the share above, at least .7. */
    const double acceptance[] = {.7866667, .8482963, .6032329, .7};
    struct cop_pace pace = {.acceptance = acceptance,
                            .n_acceptance = 4,
                            .score = score,
                            .n_score = 2,
                            .draft = 1,
                            .host = 2};
    int32_t best = cop_pace_best(&pace, 0, 12);
    cr_expect_eq(best, 3); /* 2.454 tokens in 17 ms, 2.857 in 19, 3.138 in 21 */
    cr_expect_eq(depth_of(&asked, 12), best);
    done(&asked);

    asked = ask_of(ready(new_length("adaptive"))); /* no clock: all and nothing in turn */
    for (int i = 0; i < 6; i++) {
        int32_t depth = depth_of(&asked, 4);
        cr_expect_eq(depth, i % 2 ? 0 : 4);
        tell(&asked, (struct cop_length_cycle){.limit = 4,
                                               .depth = depth,
                                               .draft_seconds = (double)NAN,
                                               .score_seconds = (double)NAN,
                                               .host_seconds = (double)NAN});
    }
    done(&asked);
}

/* Drafts whose level takes .3 of a pass and is never kept. */
static int32_t draft_in_vain(struct asked *asked, int32_t n_cycles)
{
    int32_t drafted = 0;
    for (int32_t i = 0; i < n_cycles; i++) {
        int32_t depth = depth_of(asked, 4);
        drafted += depth > 0;
        tell(asked, (struct cop_length_cycle){.limit = 4,
                                              .depth = depth,
                                              .draft_seconds = .3 * depth,
                                              .score_seconds = 1 + .1 * depth});
    }
    return drafted;
}

/* Until the clock has run, and what the first tries cost until the prior of .7 * 4 is gone;
 * then one cycle of .4 lost for every forty plain ones. What 200 cycles put in may be owed at
 * the beginning, and be there at the end. */
Test(adaptive, what_was_learnt_stays_with_the_engine_and_tries_have_a_price)
{
    struct asked asked = ask_of(ready(new_length("adaptive")));
    int32_t first = draft_in_vain(&asked, 40);
    cr_expect_geq(first, 2, "%d", first);
    cr_expect_lt(first, 12, "%d", first);
    next_request(&asked);
    cr_expect_eq(depth_of(&asked, 4), 0, "known from the request before");
    int32_t later = draft_in_vain(&asked, 1200);
    cr_expect_geq(later, 20, "%d", later); /* 800 / 40 */
    cr_expect_leq(later, 30, "%d", later); /* 1200 / 40 */
    done(&asked);

    struct cop_part *part = set_number(new_length("adaptive"), "explore", 0);
    asked = ask_of(ready(part));
    (void)draft_in_vain(&asked, 40);
    cr_expect_eq(draft_in_vain(&asked, 400), 0, "never again");
    done(&asked);

    asked = ask_of(adaptive(.3, .7, 3)); /* given costs: each request for itself */
    int32_t depth = depth_of(&asked, 8);
    while (depth_of(&asked, 8) > 0) {
        tell(&asked, (struct cop_length_cycle){.limit = 8, .depth = depth_of(&asked, 8)});
    }
    next_request(&asked);
    cr_expect_eq(depth_of(&asked, 8), depth);
    done(&asked);
}

/* Eight nodes on the first level, V(9) = 2 V(1), kept in vain: a new request knows their cost
 * before its own first draft. */
Test(adaptive, knows_how_wide_a_level_is_from_other_requests)
{
    struct asked asked = ask_of(ready(new_length("adaptive")));
    int32_t drafted = 0;
    for (int32_t request = 0; request < 40; request++) {
        next_request(&asked);
        for (int32_t cycle = 0; cycle < 10; cycle++) {
            int32_t depth = depth_of(&asked, 1);
            drafted += request >= 10 && depth > 0;
            tell(&asked, (struct cop_length_cycle){.limit = 1,
                                                   .depth = depth,
                                                   .n_accepted = depth > 0 && cycle % 2 == 0,
                                                   .nodes = 1 + 8 * depth,
                                                   .score_seconds = 1 + depth});
        }
    }
    cr_expect_leq(drafted, 6, "%d of 300 cycles", drafted);
    done(&asked);
}

/* A draft that catches up with the text takes .005 for every plain cycle before it. Tries pay
 * for that as well, and what they lost beyond their promise is paid before the next one. */
Test(adaptive, tries_pay_what_they_took)
{
    struct asked asked = ask_of(ready(new_length("adaptive")));
    double plain = 0, lost = 0;
    int32_t waited = 0;
    for (int32_t i = 0; i < 2000; i++) {
        int32_t depth = depth_of(&asked, 1);
        struct cop_length_cycle cycle = {.limit = 1,
                                         .depth = depth,
                                         .draft_seconds = depth > 0 ? .3 + .005 * waited : 0,
                                         .score_seconds = 1 + .1 * depth};
        waited = depth > 0 ? 0 : waited + 1;
        plain += i >= 200 && depth == 0;
        lost += i >= 200 && depth > 0 ? cycle.draft_seconds + .1 : 0;
        tell(&asked, cycle);
    }
    cr_expect_gt(lost, 0);
    cr_expect_lt(lost, .02 * plain, "%g of %g", lost, plain);
    done(&asked);
}

/* A lookup that is right where it is sure, or where its match is long, and wrong elsewhere. */
Test(adaptive, drafts_what_is_sure)
{
    static const cop_token id = 3;
    static const double weights[] = {.3, 1};
    for (int by_match = 0; by_match < 2; by_match++) {
        struct asked asked = ask_of(ready(new_length("adaptive")));
        int32_t drafted[2] = {0};
        for (int i = 0; i < 400; i++) {
            int sure = i % 5 == 0;
            asked.offered =
                (struct cop_row){.kind = COP_ROW_POINTS, .vocab = 9, .ids = &id, .count = 1};
            asked.offered.weights = by_match ? NULL : &weights[sure];
            asked.n_matched = by_match ? 1 + 2 * sure : 1;
            int32_t depth = depth_of(&asked, 4);
            drafted[sure] += i >= 200 && depth > 0;
            tell(&asked, (struct cop_length_cycle){.limit = 4,
                                                   .depth = depth,
                                                   .n_accepted = sure ? depth : 0,
                                                   .draft_seconds = 1e-6,
                                                   .score_seconds = 1 + .25 * depth});
        }
        cr_expect_geq(drafted[1], 36, "%d of 40 sure ones", drafted[1]);
        cr_expect_leq(drafted[0], 16, "%d of 160 others", drafted[0]);
        done(&asked);
    }
}

/* A draft of a short match was wrong, and the next ones are let go: .498 * (.2 / .333) tokens
 * are not worth the .35 that a level takes. A long match that was never tried is believed. */
Test(adaptive, believes_what_vouches_for_itself)
{
    static const cop_token id = 3;
    static const double weights[] = {.3, 1};
    struct asked asked = ask_of(ready(new_length("adaptive")));
    for (int i = 0; i < 6; i++) {
        int sure = i == 5;
        asked.offered = (struct cop_row){.kind = COP_ROW_POINTS,
                                         .vocab = 9,
                                         .ids = &id,
                                         .weights = &weights[sure],
                                         .count = 1};
        asked.n_matched = sure ? 8 : 1;
        int32_t depth = depth_of(&asked, 4);
        cr_expect_eq(depth > 0, i == 0 || sure, "cycle %d: %d levels", i, depth);
        tell(&asked, (struct cop_length_cycle){.limit = 4,
                                               .depth = depth,
                                               .draft_seconds = 1e-6,
                                               .score_seconds = 1 + .35 * depth});
    }
    done(&asked);
}

/* A mixture: every fifth cycle something is looked up, else a model would draft at .3 of a pass
 * a level. One of the two is always right, the other never. */
Test(adaptive, knows_what_is_looked_up_from_what_is_made)
{
    static const cop_token id = 3;
    for (int right = 0; right < 2; right++) {
        struct asked asked = ask_of(ready(new_length("adaptive")));
        int32_t drafted[2] = {0};
        for (int i = 0; i < 400; i++) {
            int is_offered = i % 5 == 0;
            asked.offered = (struct cop_row){.kind = is_offered ? COP_ROW_POINTS : COP_ROW_NONE,
                                             .vocab = 9,
                                             .ids = &id,
                                             .count = 1};
            asked.n_matched = is_offered ? 2 : 0;
            int32_t depth = depth_of(&asked, 4);
            drafted[is_offered] += i >= 200 && depth > 0;
            tell(&asked,
                 (struct cop_length_cycle){.limit = 4,
                                           .depth = depth,
                                           .n_accepted = is_offered == right ? depth : 0,
                                           .draft_seconds = is_offered ? 0 : .3 * depth,
                                           .score_seconds = 1 + .25 * depth});
        }
        int32_t made = drafted[0], offered = drafted[1];
        cr_expect(right ? offered >= 36 : offered <= 10, "%d of 40 offered", offered);
        cr_expect(right ? made <= 10 : made >= 150, "%d of 160 made", made);
        done(&asked);
    }
}

/* Every fourth draft is forty continuations, right half of the time, in a pass that takes five;
 * others are one, and right. */
Test(adaptive, sees_how_wide_a_draft_would_be)
{
    enum { WIDE = 40 };
    cop_token ids[WIDE];
    for (int i = 0; i < WIDE; i++) {
        ids[i] = i;
    }
    struct asked asked = ask_of(ready(new_length("adaptive")));
    int32_t drafted[2] = {0};
    for (int i = 0; i < 400; i++) {
        int is_wide = i % 4 == 0;
        asked.offered = (struct cop_row){
            .kind = COP_ROW_POINTS, .vocab = 50, .ids = ids, .count = is_wide ? WIDE : 1};
        asked.n_matched = 2;
        int32_t depth = depth_of(&asked, 1), nodes = 1 + depth * asked.offered.count;
        drafted[is_wide] += i >= 200 && depth > 0;
        tell(&asked, (struct cop_length_cycle){.limit = 1,
                                               .depth = depth,
                                               .n_accepted = is_wide && i % 8 > 0 ? 0 : depth,
                                               .nodes = nodes,
                                               .score_seconds = .9 + .1 * nodes});
    }
    cr_expect_geq(drafted[0], 140, "%d of 150 narrow ones", drafted[0]);
    cr_expect_leq(drafted[1], 5, "%d of 50 wide ones", drafted[1]);
    done(&asked);
}
