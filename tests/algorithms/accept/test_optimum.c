/* The optimum: published values, formula against flow, and that the certificate proves the
 * number. */
#include "core/cycle/law/optimum.h"
#include "tests/algorithms/laws.h"

static struct fixed_row targets[] = {{2, {{1.0 / 3, 2.0 / 3}}},
                                     {3, {{.5, .3, .2}}},
                                     {4, {{.1, .2, .3, .4}}},
                                     {3, {{.3, .4, .3}}}};
static struct fixed_row drafts[] = {{2, {{2.0 / 3, 1.0 / 3}}},
                                    {3, {{.2, .3, .5}}},
                                    {4, {{.4, .3, .2, .1}}},
                                    {3, {{.6, .3, .1}}}};
enum { A, B, C, RUNNING }; /* the cases' names on the page; traversal's running example */

static struct cop_law_case case_of(int rows, struct cop_part *builder, enum cop_draw draw)
{
    return (struct cop_law_case){.builder = builder,
                                 .draw = draw,
                                 .vocab = targets[rows].vocab,
                                 .target = fixed_rows,
                                 .draft = fixed_rows,
                                 .target_context = &targets[rows],
                                 .draft_context = &drafts[rows]};
}

/* The optimum of a case, which must exist; frees its parts. */
static struct cop_optimum optimum_of(struct cop_law_case what)
{
    struct cop_optimum optimum;
    struct cop_error err = {0};
    cr_assert_eq(cop_optimum_find(&optimum, &what, &err), COP_OK, "%s", err.text);
    free_case(&what);
    return optimum;
}

static double value_of(struct cop_law_case what)
{
    struct cop_optimum optimum = optimum_of(what);
    double value = optimum.value;
    cop_optimum_release(&optimum);
    return value;
}

/* Every level is drafted: makes the flow of a case that has a formula. */
static struct cop_law_case by_flow(struct cop_law_case what)
{
    what.length = part_of(&cop_length_fixed.plug);
    return what;
}

/* ---- One level
 * -------------------------------------------------------------------------------- */

static const struct {
    int rows, k;
    enum cop_draw draw;
    double value;
} table[] = {{A, 1, COP_DRAW_INDEPENDENT, 2.0 / 3},
             {B, 1, COP_DRAW_INDEPENDENT, 7.0 / 10},
             {C, 1, COP_DRAW_INDEPENDENT, 3.0 / 5},
             {A, 2, COP_DRAW_INDEPENDENT, 8.0 / 9},
             {B, 2, COP_DRAW_INDEPENDENT, 43.0 / 50},
             {B, 3, COP_DRAW_INDEPENDENT, 247.0 / 250},
             {C, 2, COP_DRAW_INDEPENDENT, 79.0 / 100},
             {C, 3, COP_DRAW_INDEPENDENT, 871.0 / 1000},
             {A, 1, COP_DRAW_WITHOUT_REPLACEMENT, 2.0 / 3},
             {A, 2, COP_DRAW_WITHOUT_REPLACEMENT, 1},
             {B, 2, COP_DRAW_WITHOUT_REPLACEMENT, 69.0 / 70},
             {B, 3, COP_DRAW_WITHOUT_REPLACEMENT, 1},
             {C, 2, COP_DRAW_WITHOUT_REPLACEMENT, 701.0 / 840},
             {C, 3, COP_DRAW_WITHOUT_REPLACEMENT, 1},
             {A, 2, COP_DRAW_GREEDY, 1},
             {B, 2, COP_DRAW_GREEDY, 9.0 / 10},
             {B, 3, COP_DRAW_GREEDY, 1},
             {C, 2, COP_DRAW_GREEDY, 23.0 / 30},
             {C, 3, COP_DRAW_GREEDY, 14.0 / 15},
             {A, 2, COP_DRAW_HUB_PAIR, 1},
             {B, 2, COP_DRAW_HUB_PAIR, 9.0 / 10},
             {C, 2, COP_DRAW_HUB_PAIR, 23.0 / 30},
             {B, 1, COP_DRAW_DETERMINISTIC, .2},
             {B, 2, COP_DRAW_DETERMINISTIC, .5},
             {C, 2, COP_DRAW_DETERMINISTIC, .3}};

Test(optimum, one_level_as_published)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char digits[2] = {(char)('0' + table[i].k), 0};
        struct cop_optimum optimum =
            optimum_of(case_of(table[i].rows, widths_of(digits), table[i].draw));
        NEAR(optimum.value, table[i].value);
        NEAR(optimum.levels[0], table[i].value);
        cr_expect_eq(optimum.method, COP_OPTIMUM_SUBSET);
        cr_expect(optimum.is_attained);
        cr_expect_eq(optimum.depth, 1);
        cr_expect_eq(optimum.draw, table[i].draw);
        cop_optimum_release(&optimum);
        optimum = optimum_of(by_flow(case_of(table[i].rows, widths_of(digits), table[i].draw)));
        NEAR(optimum.value, table[i].value);
        cr_expect_eq(optimum.method, COP_OPTIMUM_MAX_FLOW);
        cr_expect(optimum.is_attained, "one level is one level");
        cop_optimum_release(&optimum);
    }
}

Test(optimum, paths_of_one_token_are_independent_children)
{
    struct cop_optimum optimum =
        optimum_of(case_of(B, independent_paths_of(2, 1), COP_DRAW_AUTO));
    NEAR(optimum.value, 43.0 / 50);
    cr_expect_eq(optimum.method, COP_OPTIMUM_SUBSET);
    cop_optimum_release(&optimum);
}

static const enum cop_draw sampled[] = {COP_DRAW_INDEPENDENT, COP_DRAW_WITHOUT_REPLACEMENT,
                                        COP_DRAW_GREEDY, COP_DRAW_DETERMINISTIC};

static struct cop_law_case mixed_case(struct mixed_row *rows, enum flavour flavour,
                                      int32_t vocab, uint32_t salt, struct cop_part *builder,
                                      enum cop_draw draw)
{
    rows[0] = (struct mixed_row){vocab, flavour, salt, false};
    rows[1] = (struct mixed_row){vocab, flavour, salt, true};
    return (struct cop_law_case){.builder = builder,
                                 .draw = draw,
                                 .vocab = vocab,
                                 .target = mixed_rows,
                                 .draft = mixed_rows,
                                 .target_context = &rows[0],
                                 .draft_context = &rows[1]};
}

Test(optimum, formula_equals_flow)
{
    struct mixed_row rows[2];
    for (int flavour = 0; flavour < FLAVOURS; flavour++) {
        for (uint32_t salt = 0; salt < 12; salt++) {
            for (size_t d = 0; d < sizeof sampled / sizeof *sampled; d++) {
                const char *digits = &"1\0002\0003"[2 * (salt % 3)];
                int32_t vocab = 2 + (int32_t)(salt % 6);
                double formula = value_of(
                    mixed_case(rows, flavour, vocab, salt, widths_of(digits), sampled[d]));
                double flow = value_of(by_flow(
                    mixed_case(rows, flavour, vocab, salt, widths_of(digits), sampled[d])));
                cr_expect_lt(fabs(formula - flow), 1e-14, "%s, %s of %d, rows %d, salt %u",
                             cop_draw_name(sampled[d]), digits, vocab, flavour, salt);
                if (flavour == DISJOINT) {
                    NEAR(formula, 0);
                }
            }
        }
    }
}

/* More tokens than subsets are looked at: prefixes and the race. */
Test(optimum, the_race_equals_the_flow)
{
    struct mixed_row rows[2];
    for (uint32_t salt = 0; salt < 6; salt++) {
        const char *digits = salt < 3 ? "2" : "3";
        double formula = value_of(
            mixed_case(rows, PLAIN, 16, salt, widths_of(digits), COP_DRAW_WITHOUT_REPLACEMENT));
        double flow = value_of(by_flow(mixed_case(rows, PLAIN, 16, salt, widths_of(digits),
                                                  COP_DRAW_WITHOUT_REPLACEMENT)));
        cr_expect_lt(fabs(formula - flow), 1e-13, "salt %u: %.17g, %.17g", salt, formula, flow);
    }
}

/* Two children: Pr(S inside H) = sum over i in H of q_i (q(H) - q_i) / (1 - q_i). */
Test(optimum, many_tokens_without_replacement)
{
    enum { N = 400 };
    static double p[N], q[N];
    static bool in_cut[N];
    for (int sharp = 1; sharp <= 4; sharp++) {
        double sum_p = 0, sum_q = 0, value;
        for (uint32_t i = 0; i < N; i++) {
            sum_p += p[i] = pow((double)(1 + mix(i) % 1000), sharp);
            sum_q += q[i] = pow((double)(1 + mix(i + 7777) % 1000), sharp);
        }
        for (int i = 0; i < N; i++) {
            p[i] /= sum_p;
            q[i] /= sum_q;
        }
        cr_assert_eq(
            cop_optimum_subset(p, q, N, COP_DRAW_WITHOUT_REPLACEMENT, 2, &value, in_cut, NULL),
            COP_OK);
        double mass = 0, draft = 0, pair = 0;
        for (int i = 0; i < N; i++) {
            mass += in_cut[i] ? p[i] : 0;
            draft += in_cut[i] ? q[i] : 0;
        }
        for (int i = 0; i < N; i++) {
            pair += in_cut[i] ? q[i] * (draft - q[i]) / (1 - q[i]) : 0;
        }
        cr_expect_lt(fabs(value - (mass + 1 - pair)), 1e-13, "the certificate: %.17g, %.17g",
                     value, mass + 1 - pair);
        cr_expect_lt(value, 1);
    }
}

Test(optimum, edges_of_one_level)
{
    static const double one_hot[] = {0, 1, 0}, even[] = {.25, .5, .25}, none[] = {.5, 0, .5};
    bool in_cut[3];
    double value;
    for (size_t d = 0; d < sizeof sampled / sizeof *sampled; d++) {
        for (int32_t k = 1; k <= 5; k++) {
            cr_assert_eq(
                cop_optimum_subset(even, one_hot, 3, sampled[d], k, &value, in_cut, NULL),
                COP_OK);
            NEAR(value, .5); /* only token 1 is ever drafted */
            cr_expect(in_cut[1] && !in_cut[0] && !in_cut[2]);
            cr_assert_eq(
                cop_optimum_subset(none, one_hot, 3, sampled[d], k, &value, in_cut, NULL),
                COP_OK);
            NEAR(value, 0);
            cr_assert_eq(
                cop_optimum_subset(one_hot, one_hot, 3, sampled[d], k, &value, in_cut, NULL),
                COP_OK);
            NEAR(value, 1);
        }
    }
    struct cop_error err;
    cr_expect_eq(cop_optimum_subset(even, even, 3, COP_DRAW_BEAM, 2, &value, in_cut, &err),
                 COP_ERR_ARGUMENT);
    cr_expect_eq(cop_optimum_subset(even, even, 3, COP_DRAW_HUB_PAIR, 3, &value, in_cut, &err),
                 COP_ERR_ARGUMENT);
    cr_expect_eq(
        cop_optimum_subset(even, even, 3, COP_DRAW_INDEPENDENT, 0, &value, in_cut, &err),
        COP_ERR_ARGUMENT);
}

Test(optimum, temperature_zero_asks_whether_the_best_is_there)
{
    /* The target's best, token 0, is the draft's last of three. */
    for (int32_t k = 1; k <= 3; k++) {
        char digits[2] = {(char)('0' + k), 0};
        struct cop_law_case what = case_of(B, widths_of(digits), COP_DRAW_AUTO);
        what.is_zero_temperature = true;
        NEAR(value_of(what), k == 3);
    }
}

/* ---- Several levels
 * --------------------------------------------------------------------------- */

Test(optimum, of_a_chain_is_the_ideal)
{
    static const struct {
        int rows;
        double ideal[4];
    } chains[] = {{A, {2.0 / 3, 12.0 / 9, 50.0 / 27, 64.0 / 27}},
                  {RUNNING, {.7, 1.31, 1.86, 2.3605}}};
    for (int i = 0; i < 2; i++) {
        for (int32_t depth = 1; depth <= 4; depth++) {
            struct cop_optimum optimum =
                optimum_of(case_of(chains[i].rows, chain_of(depth), COP_DRAW_INDEPENDENT));
            NEAR(optimum.value, chains[i].ideal[depth - 1]);
            cr_expect_eq(optimum.is_attained, depth == 1);
            cr_expect_eq(optimum.depth, depth);
            cop_optimum_release(&optimum);
        }
    }
}

/* Level 1: both tokens are there. Level 2, paths 00 01 10 11: one continuation of each token.
 * With H = {00, 10}: target 1/3, S inside H with (2/3)^2. */
Test(optimum, of_a_tree_adds_up_the_levels)
{
    struct cop_optimum optimum =
        optimum_of(case_of(A, widths_of("21"), COP_DRAW_WITHOUT_REPLACEMENT));
    NEAR(optimum.levels[0], 1);
    NEAR(optimum.levels[1], 1.0 / 3 + 1 - 4.0 / 9);
    NEAR(optimum.value, 17.0 / 9);
    cr_expect_not(optimum.is_attained);
    cr_assert_eq(optimum.cuts[1].n_paths, 2);
    static const cop_token cut[] = {0, 0, 1, 0};
    cr_expect_eq(memcmp(optimum.cuts[1].tokens, cut, sizeof cut), 0);
    cop_optimum_release(&optimum);
}

/* The cut of a chain proves its level: target(H) + 1 - draft(H). */
Test(optimum, cuts_prove_the_levels_of_a_chain)
{
    struct mixed_row rows[2];
    for (uint32_t salt = 0; salt < 20; salt++) {
        struct cop_law_case what =
            mixed_case(rows, salt % 2 ? ZEROS : PLAIN, 3, salt, chain_of(3), COP_DRAW_AUTO);
        struct cop_optimum optimum = optimum_of(what);
        for (int32_t d = 1; d <= 3; d++) {
            double sums[2] = {0, 0};
            for (int32_t i = 0; i < optimum.cuts[d - 1].n_paths; i++) {
                const cop_token *path = optimum.cuts[d - 1].tokens + i * d;
                for (int side = 0; side < 2; side++) {
                    double probability = 1, row[3];
                    for (int32_t at = 0; at < d; at++) {
                        (void)mixed_rows(&rows[side], path, at, 0, row, NULL);
                        probability *= row[path[at]];
                    }
                    sums[side] += probability;
                }
            }
            NEAR(optimum.levels[d - 1], sums[0] + 1 - sums[1]);
        }
        cop_optimum_release(&optimum);
    }
}

Test(optimum, of_given_tokens_is_the_target_of_their_paths)
{
    struct cop_tree tree;
    cr_assert_eq(cop_tree_init(&tree, 8, NULL), COP_OK);
    (void)cop_tree_add(&tree, 0, 0, -1);
    (void)cop_tree_add(&tree, 0, 2, -1);
    (void)cop_tree_add(&tree, 2, 1, -1);
    int32_t scout = cop_tree_add(&tree, 0, 1, -1);
    tree.flags[scout] = COP_NODE_SCOUT;
    (void)cop_tree_add(&tree, scout, 0, -1);
    tree.draw = COP_DRAW_DETERMINISTIC;
    struct cop_law_case what = case_of(B, NULL, COP_DRAW_AUTO);
    what.given = &tree;
    struct cop_optimum optimum = optimum_of(what);
    NEAR(optimum.value, .5 + .2 + .2 * .3);
    cop_optimum_release(&optimum);
    cop_tree_release(&tree);
}

Test(optimum, several_drafters)
{
    static struct fixed_row rows = {3, {{1, 0, 0}, {0, .5, .5}}};
    struct cop_law_case what = case_of(B, widths_of("2"), COP_DRAW_INDEPENDENT);
    what.n_drafters = 2;
    what.draft_context = &rows;
    /* {0, 1} or {0, 2}, one half each: token 2 has target .2 only, token 1 .3. */
    NEAR(value_of(what), 1);
    static struct fixed_row sure = {3, {{1, 0, 0}, {0, .9, .1}}};
    what = case_of(B, widths_of("2"), COP_DRAW_INDEPENDENT);
    what.n_drafters = 2;
    what.draft_context = &sure;
    NEAR(value_of(what), .5 + .3 + .1);
}

Test(optimum, refusals)
{
    struct cop_optimum optimum;
    struct cop_error err = {0};
    struct cop_law_case what = case_of(A, chain_of(20), COP_DRAW_INDEPENDENT);
    cr_expect_eq(cop_optimum_find(&optimum, &what, &err), COP_ERR_LIMIT);
    free_case(&what);
    what = case_of(A, independent_paths_of(2, 1), COP_DRAW_WITHOUT_REPLACEMENT);
    cr_expect_eq(cop_optimum_find(&optimum, &what, &err), COP_ERR_ARGUMENT);
    free_case(&what);
    static struct fixed_row wrong = {2, {{.5, .6}}};
    what = case_of(A, widths_of("2"), COP_DRAW_INDEPENDENT);
    what.draft_context = &wrong;
    cr_expect_eq(cop_optimum_find(&optimum, &what, &err), COP_ERR_ARGUMENT);
    cr_expect(strstr(err.text, "draft row") != NULL, "%s", err.text);
    free_case(&what);
    cr_expect_eq(optimum.levels, NULL);
}
