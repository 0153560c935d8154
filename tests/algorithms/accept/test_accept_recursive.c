/* Recursive rejection: published numbers, everything that is claimed, and the ways in which it
 * is known to go wrong. */
#include "tests/algorithms/level_laws.h"

Test(recursive, one_level)
{
    static const struct {
        int rows;
        const char *widths;
        double with, without;
    } cases[] = {{ROW_A, "2", 7.0 / 9, 1},
                 {ROW_B, "2", 19.0 / 25, 41.0 / 50},
                 {ROW_B, "3", 101.0 / 125, 1},
                 {ROW_C, "2", 18.0 / 25, 107.0 / 140},
                 {ROW_C, "3", 96.0 / 125, 14117.0 / 16800},
                 {ROW_TRAVERSAL, "2", 0, 7.0 / 8},
                 {ROW_TRAVERSAL, "3", 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].with > 0) {
            NEAR(accepted_of(on_rows(&cop_accept_recursive, COP_DRAW_INDEPENDENT,
                                     widths_of(cases[i].widths), cases[i].rows)),
                 cases[i].with);
        }
        NEAR(accepted_of(on_rows(&cop_accept_recursive, COP_DRAW_WITHOUT_REPLACEMENT,
                                 widths_of(cases[i].widths), cases[i].rows)),
             cases[i].without);
    }
}

Test(recursive, trees)
{
    enum cop_draw without = COP_DRAW_WITHOUT_REPLACEMENT, with = COP_DRAW_INDEPENDENT;
    const struct cop_rule_ops *rule = &cop_accept_recursive;
    NEAR(accepted_of(on_rows(rule, without, widths_of("12"), ROW_TRAVERSAL)), 21.0 / 16);
    NEAR(accepted_of(on_rows(rule, without, widths_of("21"), ROW_A)), 5.0 / 3);
    NEAR(accepted_of(on_rows(rule, with, independent_paths_of(1, 2), ROW_A)), 10.0 / 9);
    NEAR(accepted_of(on_rows(rule, with, independent_paths_of(2, 2), ROW_A)), 4.0 / 3);
}

Test(recursive, default_draw)
{
    struct cop_law law =
        law_of(on_rows(&cop_accept_recursive, COP_DRAW_AUTO, widths_of("2"), ROW_B));
    cr_expect_eq(law.draw, COP_DRAW_WITHOUT_REPLACEMENT, "it accepts more");
    cop_law_release(&law);
}

/* The tree that traversal verification is explained with: {a, c}, below a {b, c}, below c {a}.
 * For these given tokens recursive rejection accepts 7/4. */
Test(recursive, given_tree)
{
    struct cop_tree tree;
    cr_assert_eq(cop_tree_init(&tree, 8, NULL), COP_OK);
    tree.draw = COP_DRAW_WITHOUT_REPLACEMENT;
    (void)cop_tree_add(&tree, 0, 0, -1);
    (void)cop_tree_add(&tree, 0, 2, -1);
    (void)cop_tree_add(&tree, 1, 1, -1);
    (void)cop_tree_add(&tree, 1, 2, -1);
    (void)cop_tree_add(&tree, 2, 0, -1);
    struct cop_law_case what =
        on_rows(&cop_accept_recursive, COP_DRAW_AUTO, NULL, ROW_TRAVERSAL);
    what.given = &tree;
    struct cop_law law = law_of(what);
    NEAR(law.expected_accepted, 7.0 / 4);
    NEAR(law.accepted[0], 0); /* c is kept with 1 where a was not */
    cop_law_release(&law);
    cop_tree_release(&tree);
}

Test(recursive, lossless)
{
    const struct cop_rule_ops *rule = &cop_accept_recursive;
    cr_expect_eq(sweep(rule, COP_DRAW_INDEPENDENT, false, use_lossless), SHAPE_CASES);
    cr_expect_eq(sweep(rule, COP_DRAW_WITHOUT_REPLACEMENT, false, use_lossless),
                 SHAPE_CASES - 5, "all but the independent paths");
}

Test(recursive, lossless_with_several_drafters)
{
    static const struct shape_case shapes[] = {{'w', "2", 4}, {'w', "3", 3}, {'w', "21", 2}};
    for (int i = 0; i < 3; i++) {
        sweep_rows(&cop_accept_recursive, COP_DRAW_INDEPENDENT, &shapes[i], 2, use_lossless);
        sweep_rows(&cop_accept_recursive, COP_DRAW_INDEPENDENT, &shapes[i], 3, use_lossless);
    }
}

Test(recursive, is_match_at_temperature_zero)
{
    cr_expect_eq(sweep(&cop_accept_recursive, COP_DRAW_INDEPENDENT, true, use_match),
                 SHAPE_CASES);
    static const struct shape_case pair = {'w', "22", 3};
    sweep_rows(&cop_accept_recursive, COP_DRAW_INDEPENDENT, &pair, 2, use_match);
}

static const struct cop_row *at_node(void *context, int32_t node)
{
    (void)node;
    return context;
}

Test(recursive, the_first_of_equal_siblings)
{
    static const double p[] = {.1, .1, .8};
    struct cop_row draft = {.kind = COP_ROW_DENSE, .vocab = 3, .dense = p};
    struct cop_row target = {.kind = COP_ROW_ONE_HOT, .vocab = 3, .best = 2};
    const struct cop_rule_ops *rules[] = {&cop_accept_recursive, &cop_accept_kseq,
                                          &cop_accept_coupled};
    for (int i = 0; i < 3; i++) {
        struct cop_tree tree;
        struct cop_error error = {.code = COP_OK}, err;
        cr_assert_eq(cop_tree_init(&tree, 4, NULL), COP_OK);
        tree.draw = COP_DRAW_DETERMINISTIC;
        (void)cop_tree_add(&tree, 0, 1, -1);
        (void)cop_tree_add(&tree, 0, 2, -1);
        (void)cop_tree_add(&tree, 0, 2, -1);
        static const double coins[] = {.99999, .99999, .99999, .99999, .99999};
        struct cop_coin_list list = {.coins = coins, .count = 5};
        struct cop_draws draws = cop_coin_list_draws(&list, &error);
        int32_t accepted[4];
        struct cop_verify_in in = {.tree = &tree,
                                   .target = {at_node, &target},
                                   .draft = {at_node, &draft},
                                   .draws = &draws};
        struct cop_verdict verdict = {.accepted = accepted, .last = -1};
        struct cop_part *part = part_of(&rules[i]->plug);
        cr_expect_eq(rules[i]->verify(part->state, &in, &verdict, &err), COP_OK);
        cr_expect_eq(verdict.n_accepted, 1, "rule %d", i);
        cr_expect_eq(accepted[0], 2, "rule %d", i);
        cr_expect_eq(verdict.last, 2);
        cr_expect_eq(verdict.origin, COP_ORIGIN_BONUS);
        cop_part_free(part);
        cop_tree_release(&tree);
    }
}

/* ---- Identities and orders
 * --------------------------------------------------------------------------- */

static double accepted_on(const struct cop_rule_ops *rule, enum cop_draw draw,
                          struct cop_part *builder, uint32_t salt)
{
    struct mixed_row target = {4, salt % 2 ? PLAIN : ZEROS, salt, false};
    struct mixed_row draft = {4, salt % 2 ? PLAIN : ZEROS, salt, true};
    struct cop_law_case what = {.rule = part_of(&rule->plug),
                                .builder = builder,
                                .draw = draw,
                                .vocab = 4,
                                .target = mixed_rows,
                                .draft = mixed_rows,
                                .target_context = &target,
                                .draft_context = &draft};
    struct cop_law law = law_of(what);
    cr_expect_lt(law.total_variation, 1e-12);
    double expected = law.expected_accepted;
    cop_law_release(&law);
    return expected;
}

Test(recursive, one_child_is_the_token_rule)
{
    for (uint32_t salt = 0; salt < 6; salt++) {
        double token = accepted_on(&cop_accept_token, COP_DRAW_INDEPENDENT, chain_of(2), salt);
        const struct {
            const struct cop_rule_ops *rule;
            enum cop_draw draw;
        } same[] = {{&cop_accept_recursive, COP_DRAW_INDEPENDENT},
                    {&cop_accept_recursive, COP_DRAW_WITHOUT_REPLACEMENT},
                    {&cop_accept_kseq, COP_DRAW_INDEPENDENT},
                    {&cop_accept_greedy_draw, COP_DRAW_INDEPENDENT},
                    {&cop_accept_greedy_draw, COP_DRAW_GREEDY},
                    {&cop_accept_spechub, COP_DRAW_INDEPENDENT}};
        for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
            NEAR(accepted_on(same[i].rule, same[i].draw, chain_of(2), salt), token);
        }
    }
}

Test(recursive, orders_of_acceptance)
{
    enum cop_draw with = COP_DRAW_INDEPENDENT, without = COP_DRAW_WITHOUT_REPLACEMENT;
    for (uint32_t salt = 0; salt < 40; salt++) {
        const char *widths = salt % 3 ? "2" : "3";
        double lookup = accepted_on(&cop_accept_sample_match, with, widths_of(widths), salt);
        double rrs = accepted_on(&cop_accept_recursive, with, widths_of(widths), salt);
        double kseq = accepted_on(&cop_accept_kseq, with, widths_of(widths), salt);
        double rrsw = accepted_on(&cop_accept_recursive, without, widths_of(widths), salt);
        cr_expect_leq(lookup, rrs + 1e-13, "salt %u", salt);
        cr_expect_leq(rrs, kseq + 1e-13, "salt %u", salt);
        cr_expect_leq(rrs, rrsw + 1e-13, "salt %u", salt);
    }
}

/* ---- What goes wrong
 * ------------------------------------------------------------------------------------ */

/* The sound rule on a tree that is not told the truth about. */
enum lie { SKIPS_TWINS, SORTS_SIBLINGS, SAYS_WITH, SAYS_WITHOUT };

/* Ranks siblings by draft probability, best first, by moving tokens: one level only. */
static void sort_level(struct cop_tree *tree, const struct cop_verify_in *in, int32_t *from)
{
    for (int32_t i = 1; i < tree->size; i++) {
        for (int32_t j = i; j > 1; j--) {
            const struct cop_row *row = cop_rows_at(&in->draft, 1);
            if (cop_row_probability(row, tree->token[j]) <=
                cop_row_probability(row, tree->token[j - 1])) {
                break;
            }
            cop_token token = tree->token[j];
            int32_t node = from[j];
            tree->token[j] = tree->token[j - 1];
            from[j] = from[j - 1];
            tree->token[j - 1] = token;
            from[j - 1] = node;
        }
    }
}

static enum cop_status lying(enum lie lie, const struct cop_verify_in *in,
                             struct cop_verdict *out, struct cop_error *err)
{
    struct cop_tree copy;
    enum cop_status status = cop_tree_init(&copy, in->tree->size, err);
    int32_t from[64];
    copy.draw = lie == SAYS_WITHOUT ? COP_DRAW_WITHOUT_REPLACEMENT
                : lie == SAYS_WITH  ? COP_DRAW_INDEPENDENT
                                    : in->tree->draw;
    for (int32_t i = 1; status == COP_OK && i < in->tree->size; i++) {
        int32_t twin = cop_tree_find(&copy, in->tree->parent[i], in->tree->token[i]);
        (void)cop_tree_add(&copy, in->tree->parent[i], in->tree->token[i],
                           in->tree->draft_row[i]);
        copy.flags[i] = lie == SKIPS_TWINS && twin >= 0 ? COP_NODE_SCOUT : 0;
        from[i] = i;
    }
    if (lie == SORTS_SIBLINGS) {
        sort_level(&copy, in, from);
    }
    struct cop_verify_in told = *in;
    told.tree = &copy;
    status = cop_accept_recursive.verify(NULL, &told, out, err);
    for (int32_t i = 0; i < out->n_accepted; i++) {
        out->accepted[i] = from[out->accepted[i]];
    }
    cop_tree_release(&copy);
    return status;
}

#define LIAR(liar, lie)                                                                        \
    static enum cop_status verify_##liar(const void *state, const struct cop_verify_in *in,    \
                                         struct cop_verdict *out, struct cop_error *err)       \
    {                                                                                          \
        (void)state;                                                                           \
        return lying(lie, in, out, err);                                                       \
    }                                                                                          \
    static const struct cop_claim claims_##liar[] = {{COP_DRAW_COUNT, COP_SHAPE_TREE, false},  \
                                                     {.draw = COP_DRAW_AUTO}};                 \
    static const struct cop_rule_ops liar = {                                                  \
        .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_RULE, .name = #liar},                   \
        .lossless_for = claims_##liar,                                                         \
        .verify = verify_##liar}
LIAR(skips_twins, SKIPS_TWINS);
LIAR(sorts_siblings, SORTS_SIBLINGS);
LIAR(says_with, SAYS_WITH);
LIAR(says_without, SAYS_WITHOUT);

static double distance(const struct cop_rule_ops *rule, enum cop_draw draw,
                       struct cop_part *builder, int32_t vocab, uint32_t salt)
{
    struct mixed_row target = {vocab, PLAIN, salt, false}, draft = {vocab, PLAIN, salt, true};
    struct cop_law_case what = {.rule = part_of(&rule->plug),
                                .builder = builder,
                                .draw = draw,
                                .vocab = vocab,
                                .target = mixed_rows,
                                .draft = mixed_rows,
                                .target_context = &target,
                                .draft_context = &draft};
    struct cop_law law = law_of(what);
    double distance = law.total_variation;
    cop_law_release(&law);
    return distance;
}

Test(recursive, lies_are_seen)
{
    enum cop_draw with = COP_DRAW_INDEPENDENT, without = COP_DRAW_WITHOUT_REPLACEMENT;
    double worst[4] = {0};
    for (uint32_t salt = 0; salt < 8; salt++) {
        const double seen[] = {distance(&skips_twins, with, widths_of("22"), 3, salt),
                               distance(&sorts_siblings, without, widths_of("2"), 4, salt),
                               distance(&says_with, without, widths_of("2"), 4, salt),
                               distance(&says_without, with, widths_of("2"), 4, salt)};
        for (int i = 0; i < 4; i++) {
            worst[i] = fmax(worst[i], seen[i]);
        }
        cr_expect_lt(distance(&skips_twins, with, widths_of("2"), 2, salt), 1e-12,
                     "two tokens hide it");
    }
    cr_expect_gt(worst[0], 1e-3, "twins skipped: %g", worst[0]);
    cr_expect_gt(worst[1], .05, "sorted: %g", worst[1]);
    cr_expect_gt(worst[2], .01, "%g", worst[2]);
    /* Twins skipped and the update without replacement: what a merged tree does, and sound. */
    cr_expect_lt(worst[3], 1e-12, "%g", worst[3]);
}

Test(recursive, a_best_token_is_no_sample)
{
    static struct fixed_row half = {2, {{.5, .5}}}, draft = {2, {{.7, .3}}};
    struct cop_law_case what =
        on_rows(&cop_accept_recursive, COP_DRAW_DETERMINISTIC, chain_of(1), ROW_A);
    what.target_context = &half;
    what.draft_context = &draft;
    struct cop_law law;
    struct cop_error err = {0};
    cr_expect_eq(cop_law_enumerate(&law, &what, &err), COP_ERR_UNSOUND);
    what.relaxed = true;
    law = law_of(what);
    NEAR(law.total_variation, 3.0 / 14);
    cop_law_release(&law);
}
