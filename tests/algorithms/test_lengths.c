/* Length policies: published controls by hand, exact laws with every one of them, and engines
 * whose tokens do not notice. */
#include "algorithms/length/learnt_costs.h"
#include "algorithms/register.h"
#include "core/trace/pace.h"
#include "tests/algorithms/engine/engine_bench.h"
#include "tests/algorithms/laws.h"

static struct cop_part *new_length(const char *name)
{
    return new_part(COP_PLUG_LENGTH, name);
}

static struct cop_part *set_numbers(struct cop_part *part, const char *name,
                                    const double *items, int32_t count)
{
    struct cop_error err = {0};
    cr_assert_eq(
        cop_option_set_numbers(option(part, name), part->state, items, count, "test", &err),
        COP_OK, "%s", err.text);
    return part;
}

/* A policy that is asked by hand. */
struct asked {
    struct cop_part *part;
    const struct cop_length_ops *ops;
    void *memory, *shared;
    struct cop_row
        offered; /* below every node; COP_ROW_NONE: the proposer is not asked first */
    int32_t n_matched;
    struct cop_tree tree;
};

static struct asked ask_of(struct cop_part *part)
{
    struct asked asked = {.part = part, .ops = (const struct cop_length_ops *)part->plug};
    asked.memory = calloc(1, asked.ops->sequence_state_size + 1);
    asked.shared = calloc(1, asked.ops->shared_state_size + 1);
    cr_assert_eq(cop_tree_init(&asked.tree, 64, NULL), COP_OK);
    cop_tree_reset(&asked.tree, 0);
    return asked;
}

static void done(struct asked *asked)
{
    cop_tree_release(&asked->tree);
    free(asked->memory);
    free(asked->shared);
    cop_part_free(asked->part);
}

static void next_request(struct asked *asked)
{
    memset(asked->memory, 0, asked->ops->sequence_state_size);
}

static const struct cop_row *no_row(void *context, int32_t node)
{
    (void)context;
    (void)node;
    return NULL;
}

/* Grows a chain while the policy wants more; the depth that it reaches. */
static int32_t depth_of(struct asked *asked, int32_t limit)
{
    cop_tree_reset(&asked->tree, 0);
    int32_t depth = 0;
    while (depth < limit) {
        struct cop_length_in in = {.level = depth + 1,
                                   .limit = limit,
                                   .tree = &asked->tree,
                                   .frontier = &depth,
                                   .n_frontier = 1,
                                   .draft = {no_row, NULL},
                                   .sequence_state = asked->memory,
                                   .shared_state = asked->shared,
                                   .n_drafters = 1,
                                   .n_matched = asked->n_matched};
        in.offered = asked->offered.kind != COP_ROW_NONE ? &asked->offered : NULL;
        if (!asked->ops->more(asked->part->state, &in)) {
            break;
        }
        (void)cop_tree_add(&asked->tree, depth, 0, -1);
        depth++;
    }
    return depth;
}

static void tell(struct asked *asked, struct cop_length_cycle cycle)
{
    cycle.nodes = cycle.nodes ? cycle.nodes : cycle.depth + 1;
    cycle.shared_state = asked->shared;
    asked->ops->observe(asked->part->state, asked->memory, &cycle);
}

/* ---- entropy ------------------------------------------------------------------------------
 */

static const struct cop_row *the_row(void *context, int32_t node)
{
    (void)node;
    return context;
}

static bool goes_on(double scale, double threshold, struct cop_row *row)
{
    struct cop_part *part = new_length("entropy");
    part = ready(set_number(set_number(part, "scale", scale), "threshold", threshold));
    struct asked asked = ask_of(part);
    static const int32_t node = 1;
    struct cop_length_in in = {.level = 2,
                               .limit = 8,
                               .tree = &asked.tree,
                               .frontier = &node,
                               .n_frontier = 1,
                               .draft = {the_row, row},
                               .sequence_state = asked.memory};
    bool more = asked.ops->more(asked.part->state, &in);
    done(&asked);
    return more;
}

/* A fair coin has ln 2 nats; the scale makes the entropies of the page of it. */
Test(entropy, bounds)
{
    static const double half[] = {.5, .5, 0};
    struct cop_row row = {.kind = COP_ROW_DENSE, .vocab = 3, .dense = half};
    static const double table[][2] = {{.1, .8586}, {.25, .7764}, {.5, .6838},
                                      {1, .5528},  {2, .3675},   {5, 0}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        double scale = .2 * table[i][0] / log(2);
        cr_expect(goes_on(scale, table[i][1] - 6e-5, &row), "H = %g", table[i][0]);
        cr_expect_not(goes_on(scale, table[i][1] + 6e-5, &row), "H = %g", table[i][0]);
    }
    static const double sure[] = {0, 1, 0};
    row.dense = sure;
    cr_expect(goes_on(.2, 1, &row), "H = 0");
    static const cop_token ids[] = {2, 1};
    row = (struct cop_row){.kind = COP_ROW_POINTS, .vocab = 3, .ids = ids, .count = 2};
    cr_expect(goes_on(.2, 1, &row), "points");
}

Test(entropy, control)
{
    struct asked asked = ask_of(ready(new_length("entropy")));
    static const int32_t drafted[] = {5, 6, 8, 4}, accepted[] = {5, 3, 8, 1};
    static const double rates[] = {.95, .725, .8625, .55625};
    static const double thresholds[] = {.699, .700, .701, .702};
    for (int i = 0; i < 4; i++) {
        tell(&asked, (struct cop_length_cycle){
                         .limit = 8, .depth = drafted[i], .n_accepted = accepted[i]});
        const double *control = asked.memory; /* rate, threshold */
        cr_expect_lt(fabs(control[0] - rates[i]), 1e-15);
        cr_expect_lt(fabs(control[1] - thresholds[i]), 1e-15, "%.17g", control[1]);
        tell(&asked,
             (struct cop_length_cycle){.limit = 8}); /* nothing drafted, nothing learnt */
    }
    done(&asked);
}

/* ---- schedule -----------------------------------------------------------------------------
 */

Test(schedule, up_by_two_down_by_one)
{
    struct asked asked = ask_of(ready(new_length("schedule")));
    static const struct {
        int32_t accepted, next;
    } cycles[] = {{5, 7}, {7, 9}, {8, 8}, {0, 7}, {0, 6}, {0, 5}, {0, 4},
                  {0, 3}, {0, 2}, {0, 1}, {0, 1}, {1, 3}, {3, 5}};
    int32_t depth = depth_of(&asked, 20);
    cr_expect_eq(depth, 5);
    for (size_t i = 0; i < sizeof cycles / sizeof *cycles; i++) {
        tell(&asked, (struct cop_length_cycle){
                         .limit = 20, .depth = depth, .n_accepted = cycles[i].accepted});
        depth = depth_of(&asked, 20);
        cr_expect_eq(depth, cycles[i].next, "cycle %d", (int)i);
    }
    tell(&asked, (struct cop_length_cycle){.limit = 20}); /* a lookup that found nothing */
    cr_expect_eq(depth_of(&asked, 20), 5);
    for (int i = 0; i < 20; i++) { /* never past the tree, so that the way down is not long */
        tell(&asked, (struct cop_length_cycle){.limit = 8, .depth = 8, .n_accepted = 8});
    }
    cr_expect_eq(depth_of(&asked, 20), 8);
    done(&asked);
}

Test(schedule, constant)
{
    struct cop_part *part = set_number(new_length("schedule"), "start", 20);
    part = ready(set_string(part, "kind", "constant"));
    struct asked asked = ask_of(part);
    tell(&asked, (struct cop_length_cycle){.limit = 30, .depth = 20, .n_accepted = 20});
    cr_expect_eq(depth_of(&asked, 30), 20);
    tell(&asked, (struct cop_length_cycle){.limit = 30, .depth = 20, .n_accepted = 2});
    cr_expect_eq(depth_of(&asked, 30), 20);
    done(&asked);
}

/* ---- adaptive -----------------------------------------------------------------------------
 */

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
    /* The engine's share, (kept + 2 * prior) / 3, is the prior of the sequence's own, (kept + 4
     * * prior) / 5; that of a level is the share above, at least .7. */
    const double acceptance[] = {.84, .9146667, .4878222, .7};
    struct cop_pace pace = {.acceptance = acceptance,
                            .n_acceptance = 4,
                            .score = score,
                            .n_score = 2,
                            .draft = 1,
                            .host = 2};
    int32_t best = cop_pace_best(&pace, 0, 12);
    cr_expect_eq(best, 3); /* 2.608 tokens in 17 ms, 2.983 in 19, 3.245 in 21 */
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
 * then one cycle of .4 - a lost, a being what is still expected of it, for every hundredth of a
 * plain one. */
Test(adaptive, what_was_learnt_stays_with_the_engine_and_tries_have_a_price)
{
    struct asked asked = ask_of(ready(new_length("adaptive")));
    int32_t first = draft_in_vain(&asked, 40);
    cr_expect_geq(first, 2, "%d", first);
    cr_expect_lt(first, 12, "%d", first);
    next_request(&asked);
    cr_expect_eq(depth_of(&asked, 4), 0, "known from the request before");
    int32_t later = draft_in_vain(&asked, 400);
    cr_expect_geq(later, 8, "%d", later);  /* 400 / 40 */
    cr_expect_leq(later, 21, "%d", later); /* and what 200 more put in, owed */
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

/* A draft of a short match was wrong, and the next ones are let go; a long match that was never
 * tried is believed. */
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
                                               .score_seconds = 1 + .25 * depth});
    }
    done(&asked);
}

/* V(n) = 10 + n: the line is exact, also when the pass of one token is timed last; then the
 * machine halves its speed, and a single cycle takes a hundred times as long. */
Test(adaptive, learns_costs)
{
    struct cop_learnt_costs costs = {0};
    struct cop_pace pace = {0};
    double score[COP_LEARNT_SIZES];
    cop_learnt_costs_take(
        &costs,
        &(struct cop_length_cycle){
            .depth = 4, .nodes = 5, .draft_seconds = 8, .score_seconds = 15, .host_seconds = 1},
        0);
    cr_expect_not(cop_learnt_costs_pace(&costs, score, COP_LEARNT_SIZES, &pace));
    cop_learnt_costs_take(
        &costs, &(struct cop_length_cycle){.nodes = 1, .score_seconds = 11, .host_seconds = 1},
        0);
    cr_expect(cop_learnt_costs_pace(&costs, score, COP_LEARNT_SIZES, &pace));
    for (int32_t n = 1; n <= COP_LEARNT_SIZES; n++) {
        cr_expect_lt(fabs(cop_pace_score(pace.score, pace.n_score, n) - (10 + n)), 1e-9, "%d",
                     n);
    }
    cr_expect_lt(fabs(pace.draft - 2) + fabs(pace.start) + fabs(pace.host - 1), 1e-12);
    cop_learnt_costs_take(&costs,
                          &(struct cop_length_cycle){
                              .depth = 1, .nodes = 2, .draft_seconds = 5, .score_seconds = 12},
                          0);
    cr_expect(cop_learnt_costs_pace(&costs, score, COP_LEARNT_SIZES,
                                    &pace)); /* 5 = start + level, 8 = 4 levels */
    cr_expect_lt(fabs(pace.draft - 1) + fabs(pace.start - 4), 1e-9, "%g %g", pace.draft,
                 pace.start);
    for (int i = 0; i < 100; i++) {
        cop_learnt_costs_take(&costs,
                              &(struct cop_length_cycle){.nodes = 1, .score_seconds = 22}, 0);
    }
    cr_expect(cop_learnt_costs_pace(&costs, score, COP_LEARNT_SIZES, &pace));
    cr_expect_lt(fabs(score[0] - 22), .01);
    cr_expect_lt(fabs(score[4] - 30), .01, "%g", score[4]);
    cop_learnt_costs_take(&costs, &(struct cop_length_cycle){.nodes = 1, .score_seconds = 2200},
                          0);
    cr_expect(cop_learnt_costs_pace(&costs, score, COP_LEARNT_SIZES, &pace));
    cr_expect_lt(score[0], 27);
}

/* V(1) = 11, V(5) = 15, V(33) = 110: a pass of nine is far below the line that 33 lies on. */
Test(adaptive, sizes_lie_between_those_that_were_timed)
{
    static const struct cop_length_cycle cycles[] = {{.nodes = 1, .score_seconds = 11},
                                                     {.nodes = 5, .score_seconds = 15},
                                                     {.nodes = 33, .score_seconds = 110}};
    struct cop_learnt_costs costs = {0};
    struct cop_pace pace = {0};
    double score[COP_LEARNT_SIZES];
    for (int i = 0; i < 300; i++) {
        cop_learnt_costs_take(&costs, &cycles[i % 3], 0);
    }
    cr_expect(cop_learnt_costs_pace(&costs, score, COP_LEARNT_SIZES, &pace));
    cr_expect_lt(fabs(score[8] - (15 + 95. * 4 / 28)), 2, "%g", score[8]);
    cr_expect_lt(fabs(score[18] - (15 + 95. * 14 / 28)), 2, "%g", score[18]);
    cr_expect_gt(score[39], 110);
}

/* ---- Laws ---------------------------------------------------------------------------------
 */

enum { ENTROPY, SCHEDULE, GIVEN, MEASURED, CONFIDENCE, POLICIES };

static struct cop_part *policy_of(int policy)
{
    static const double costs[] = {1, 1.2, 1.4};
    switch (policy) {
    case ENTROPY: return ready(set_number(new_length("entropy"), "threshold", .57));
    case SCHEDULE: return ready(set_number(new_length("schedule"), "start", 1));
    case GIVEN:
        return ready(
            set_number(set_numbers(new_length("adaptive"), "costs", costs, 3), "rest", 1));
    case MEASURED: return ready(new_length("adaptive"));
    default: return ready(new_length("confidence"));
    }
}

/* Two cycles, so that what the first one taught shapes the second. */
Test(lengths, exact_laws, .timeout = 60)
{
    static const char *const rules[] = {"token", "block", "hierarchical"};
    for (int policy = 0; policy < POLICIES; policy++) {
        double shortest = 9;
        for (int i = 0; i < 3 * FLAVOURS; i++) {
            int flavour = i % FLAVOURS;
            struct mixed_row target = {3, flavour, 5, false}, draft = {3, flavour, 5, true};
            struct cop_law_case what = {.rule = new_rule(rules[i / FLAVOURS]),
                                        .builder = chain_of(2),
                                        .length = policy_of(policy),
                                        .draw = COP_DRAW_INDEPENDENT,
                                        .vocab = 3,
                                        .horizon = 2,
                                        .target = mixed_rows,
                                        .draft = mixed_rows,
                                        .target_context = &target,
                                        .draft_context = &draft};
            struct cop_law law = law_of(what);
            cr_expect_lt(law.total_variation, 1e-13, "policy %d, %s, flavour %d: %g", policy,
                         rules[i / FLAVOURS], flavour, law.total_variation);
            if (flavour == EQUAL && law.expected_accepted < shortest) {
                shortest = law.expected_accepted;
            }
            cop_law_release(&law);
        }
        /* Where the draft is the target, all of it is kept: fewer than 2 is the policy's doing.
         */
        cr_expect(policy == MEASURED || policy == GIVEN ? shortest > 1.999 : shortest < 1.999,
                  "policy %d: %g", policy, shortest);
    }
}

/* ---- Engines ------------------------------------------------------------------------------
 */

enum { REQUESTS = 3, PROMPT = 24, ANSWER = 60 };
static cop_token prompts[REQUESTS][PROMPT];

static void make_trials(struct trial *trials)
{
    for (int32_t i = 0; i < REQUESTS; i++) {
        random_prompt(prompts[i], PROMPT, 61, (uint64_t)i);
        trial_init(&trials[i], prompts[i], PROMPT - 4 * i, ANSWER - 3 * i);
        trials[i].request.id = (uint32_t)i;
    }
}

Test(lengths, tokens_equal_plain_decoding, .timeout = 60)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    struct cop_model *kin =
        open_tiny((struct tiny_model){.seed = 7, .noise = 0.1, .noise_seed = 1});
    static struct trial plain[REQUESTS], trials[REQUESTS];
    static const int32_t widths[] = {3, 2, 1};
    struct cop_engine_options options = {.target = target};
    make_trials(plain);
    run_trials(&options, plain, REQUESTS);
    for (int arm = 0; arm < 2 * POLICIES; arm++) {
        options = (struct cop_engine_options){
            .target = target,
            .proposer = arm % 2 ? new_draft(kin) : new_lookup(3, 5),
            .builder = arm % 2 ? new_widths(widths, 3) : new_chain(5),
            .length = policy_of(arm / 2),
            .batch = 2};
        make_trials(trials);
        run_trials(&options, trials, REQUESTS);
        int64_t drafted = 0, accepted = 0;
        for (int32_t i = 0; i < REQUESTS; i++) {
            char what[64];
            snprintf(what, sizeof what, "arm %d, request %d", arm, i);
            expect_equal_tokens(&trials[i].result, &plain[i].result, what);
            drafted += trials[i].result.drafted;
            accepted += trials[i].result.accepted;
            trial_release(&trials[i]);
        }
        cr_expect_gt(drafted, 0, "arm %d", arm);
        cr_expect_gt(accepted, 0, "arm %d", arm);
        cop_part_free(options.proposer);
        cop_part_free(options.builder);
        cop_part_free(options.length);
    }
    for (int32_t i = 0; i < REQUESTS; i++) {
        trial_release(&plain[i]);
    }
    cop_model_free(target);
    cop_model_free(kin);
}

/* What a policy is shown before level 1. */
static struct {
    int32_t n_asked, n_offered, least_match;
} shown;

static bool watch(const void *state, const struct cop_length_in *in)
{
    (void)state;
    if (in->level == 1) {
        bool has_row = in->offered && in->n_drafters == 1 && in->n_frontier == 1 &&
                       in->offered[0].kind == COP_ROW_POINTS && in->offered[0].count > 0;
        shown.n_asked++;
        shown.n_offered += has_row;
        shown.least_match =
            in->n_matched < shown.least_match ? in->n_matched : shown.least_match;
    }
    return in->level < 3 && shown.n_asked % 2 == 0;
}
static const struct cop_length_ops watching = {.plug = {.abi = COP_PLUG_ABI,
                                                        .kind = COP_PLUG_LENGTH,
                                                        .name = "watching",
                                                        .help = "two levels, every other time"},
                                               .more = watch};

/* A lookup is asked first: the policy sees its row and its match, and may still draft nothing;
 * it is not asked where nothing was found. A model is asked last. */
Test(lengths, a_lookup_offers_before_the_policy_decides, .timeout = 60)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    for (int arm = 0; arm < 2; arm++) {
        static struct trial trial;
        struct cop_engine_options options = {.target = target,
                                             .proposer =
                                                 arm ? new_draft(target) : new_lookup(3, 5),
                                             .builder = new_chain(5),
                                             .length = ready(cop_part_new(&watching.plug))};
        memset(&shown, 0, sizeof shown);
        shown.least_match = 9;
        random_prompt(prompts[0], PROMPT, 61, 0);
        trial_init(&trial, prompts[0], PROMPT, ANSWER);
        run_trials(&options, &trial, 1);
        int32_t n_drafting = 0;
        for (int32_t c = 0; c < trial.n_cycles; c++) {
            n_drafting += trial.drafted[c] > 0;
            cr_expect_leq(trial.drafted[c], 2);
        }
        cr_expect_gt(n_drafting, 3);
        cr_expect_eq(n_drafting, shown.n_asked / 2);
        cr_expect_eq(shown.n_offered, arm ? 0 : shown.n_asked, "arm %d", arm);
        cr_expect_eq(shown.least_match, arm ? 0 : 1, "arm %d", arm);
        cr_expect(arm || shown.n_asked < trial.n_cycles, "where nothing was found");
        trial_release(&trial);
        cop_part_free(options.proposer);
        cop_part_free(options.builder);
        cop_part_free(options.length);
    }
    cop_model_free(target);
}

static int32_t n_shared;

static void count_cycle(const void *state, void *sequence_state,
                        const struct cop_length_cycle *cycle)
{
    (void)state;
    (void)sequence_state;
    n_shared = ++*(int32_t *)cycle->shared_state;
}
static bool always(const void *state, const struct cop_length_in *in)
{
    (void)state;
    return *(const int32_t *)in->shared_state == n_shared;
}
static const struct cop_length_ops counting = {.plug = {.abi = COP_PLUG_ABI,
                                                        .kind = COP_PLUG_LENGTH,
                                                        .name = "counting",
                                                        .help = "the engine's cycles"},
                                               .more = always,
                                               .observe = count_cycle,
                                               .shared_state_size = sizeof(int32_t)};

Test(lengths, what_is_shared_lives_as_long_as_the_engine, .timeout = 60)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    static struct trial trials[REQUESTS];
    for (int run = 0; run < 2; run++) { /* the second engine begins anew */
        struct cop_engine_options options = {.target = target,
                                             .proposer = new_lookup(3, 5),
                                             .length = ready(cop_part_new(&counting.plug))};
        n_shared = 0;
        make_trials(trials);
        run_trials(&options, trials, REQUESTS);
        int32_t n_cycles = 0;
        for (int32_t i = 0; i < REQUESTS; i++) {
            n_cycles += trials[i].n_cycles;
            cr_expect_gt(trials[i].result.drafted, 0);
            trial_release(&trials[i]);
        }
        cr_expect_eq(n_shared, n_cycles);
        cop_part_free(options.proposer);
        cop_part_free(options.length);
    }
    cop_model_free(target);
}

/* With given costs a seed gives the same tokens and the same trees, whatever the clock does. */
Test(lengths, given_costs_are_deterministic, .timeout = 60)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    struct cop_model *kin =
        open_tiny((struct tiny_model){.seed = 7, .noise = 0.1, .noise_seed = 1});
    static struct trial runs[2][REQUESTS];
    for (int run = 0; run < 2; run++) {
        struct cop_engine_options options = {.target = target,
                                             .proposer = new_draft(kin),
                                             .builder = new_chain(4),
                                             .rule = new_rule("token"),
                                             .length = policy_of(GIVEN),
                                             .sampling = {.temperature = 1},
                                             .batch = run ? 3 : 1};
        make_trials(runs[run]);
        run_trials(&options, runs[run], REQUESTS);
        cop_part_free(options.proposer);
        cop_part_free(options.builder);
        cop_part_free(options.rule);
        cop_part_free(options.length);
    }
    for (int32_t i = 0; i < REQUESTS; i++) {
        expect_equal_tokens(&runs[0][i].result, &runs[1][i].result, "seed");
        cr_expect_eq(runs[0][i].n_cycles, runs[1][i].n_cycles);
        cr_expect_gt(runs[0][i].result.drafted, 0);
        cr_expect_eq(memcmp(runs[0][i].depth, runs[1][i].depth, sizeof(int32_t) * MOST_CYCLES),
                     0);
        trial_release(&runs[0][i]);
        trial_release(&runs[1][i]);
    }
    cop_model_free(target);
    cop_model_free(kin);
}
