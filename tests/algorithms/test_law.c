/* Laws of the built-in rules: published numbers, and total variation 0 for everything claimed.
 */
#include "tests/algorithms/laws.h"

/* The toy of block verification: target (1/3, 2/3), draft (2/3, 1/3), everywhere. */
static struct fixed_row toy_target = {2, {{1.0 / 3, 2.0 / 3}}};
static struct fixed_row toy_draft = {2, {{2.0 / 3, 1.0 / 3}}};

static struct cop_law_case toy(const struct cop_rule_ops *rule, struct cop_part *builder)
{
    return (struct cop_law_case){.rule = part_of(&rule->plug),
                                 .builder = builder,
                                 .vocab = 2,
                                 .target = fixed_rows,
                                 .draft = fixed_rows,
                                 .target_context = &toy_target,
                                 .draft_context = &toy_draft};
}

#define NEAR(a, b)                                                                             \
    cr_expect_lt(fabs((a) - (b)), 1e-13, "%.17g, not %.17g", (double)(a), (double)(b))

Test(law, token_on_the_toy)
{
    const double expected[] = {2.0 / 3, 10.0 / 9, 38.0 / 27, 130.0 / 81};
    for (int32_t depth = 1; depth <= 4; depth++) {
        struct cop_law law = law_of(toy(&cop_accept_token, chain_of(depth)));
        NEAR(law.expected_accepted, expected[depth - 1]);
        cr_expect_lt(law.total_variation, 1e-14);
        cr_expect_eq(law.draw, COP_DRAW_INDEPENDENT);
        cr_expect_eq(law.shape, COP_SHAPE_CHAIN);
        cr_expect_eq(law.depth, depth);
        cop_law_release(&law);
    }
}

Test(law, token_on_three_tokens)
{
    struct fixed_row target = {3, {{.3, .4, .3}}}, draft = {3, {{.6, .3, .1}}};
    const double expected[] = {.7, 1.19, 1.533, 1.77310};
    for (int32_t depth = 1; depth <= 4; depth++) {
        struct cop_law_case what = toy(&cop_accept_token, chain_of(depth));
        what.vocab = 3;
        what.target_context = &target;
        what.draft_context = &draft;
        struct cop_law law = law_of(what);
        NEAR(law.expected_accepted, expected[depth - 1]);
        cr_expect_lt(law.total_variation, 1e-14);
        cop_law_release(&law);
    }
}

Test(law, outcomes_of_one_step)
{
    /* Token 0 drafted with 2/3 and kept with 1/2, token 1 drafted with 1/3 and always kept; the
     * residual is token 1; a kept token is followed by the target. */
    struct cop_law law = law_of(toy(&cop_accept_token, chain_of(1)));
    const struct {
        cop_token tokens[2];
        int32_t n_accepted;
        double probability;
    } expected[] = {{{0, 0}, 1, 1.0 / 9},
                    {{0, 1}, 1, 2.0 / 9},
                    {{1}, 0, 1.0 / 3},
                    {{1, 0}, 1, 1.0 / 9},
                    {{1, 1}, 1, 2.0 / 9}};
    cr_assert_eq(law.n_outcomes, 5);
    for (int i = 0; i < 5; i++) {
        cr_expect_eq(law.outcomes[i].n_accepted, expected[i].n_accepted);
        for (int32_t j = 0; j <= expected[i].n_accepted; j++) {
            cr_expect_eq(law.outcomes[i].tokens[j], expected[i].tokens[j]);
        }
        NEAR(law.outcomes[i].probability, expected[i].probability);
    }
    NEAR(law.accepted[0], 1.0 / 3);
    NEAR(law.accepted[1], 2.0 / 3);
    NEAR(law.position[0], 1.0 / 3); /* first token 0 */
    NEAR(law.position[2], 1.0 / 3); /* second token 0 */
    NEAR(law.target_position[3], 2.0 / 3);
    /* Drafts 2 x (kept: 2 bonuses), and the one possible rejection with its only residual. */
    cr_expect_eq(law.branches, 5);
    cop_law_release(&law);
}

Test(law, sample_match_with_independent_siblings)
{
    static struct fixed_row targets[] = {
        {2, {{1.0 / 3, 2.0 / 3}}}, {3, {{.5, .3, .2}}}, {4, {{.1, .2, .3, .4}}}};
    static struct fixed_row drafts[] = {
        {2, {{2.0 / 3, 1.0 / 3}}}, {3, {{.2, .3, .5}}}, {4, {{.4, .3, .2, .1}}}};
    static const struct {
        int row;
        const char *widths;
        double expected;
    } cases[] = {{0, "2", 2.0 / 3},
                 {1, "2", 483.0 / 1000},
                 {1, "3", 6161.0 / 10000},
                 {2, "2", 7.0 / 20},
                 {2, "3", 2323.0 / 5000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cop_law_case what = toy(&cop_accept_sample_match, widths_of(cases[i].widths));
        what.draw = COP_DRAW_INDEPENDENT;
        what.vocab = targets[cases[i].row].vocab;
        what.target_context = &targets[cases[i].row];
        what.draft_context = &drafts[cases[i].row];
        struct cop_law law = law_of(what);
        NEAR(law.expected_accepted, cases[i].expected);
        cr_expect_lt(law.total_variation, 1e-14);
        cop_law_release(&law);
    }
}

/* Merging changes nothing that sample_match meets; the draw is the builder's own. */
Test(law, sample_match_with_merged_paths)
{
    static struct fixed_row target = {3, {{.5, .3, .2}}}, draft = {3, {{.2, .3, .5}}};
    const double expected[] = {.29, 483.0 / 1000, 6161.0 / 10000};
    for (int32_t k = 1; k <= 3; k++) {
        struct cop_law_case what = toy(&cop_accept_sample_match, independent_paths_of(k, 1));
        what.vocab = 3;
        what.draw = COP_DRAW_INDEPENDENT;
        what.target_context = &target;
        what.draft_context = &draft;
        struct cop_law law = law_of(what);
        NEAR(law.expected_accepted, expected[k - 1]);
        cr_expect_eq(law.shape, k == 1 ? COP_SHAPE_CHAIN : COP_SHAPE_PATHS);
        cop_law_release(&law);
    }
    for (int flavour = 0; flavour < FLAVOURS; flavour++) {
        for (int is_zero = 0; is_zero < 2; is_zero++) {
            struct mixed_row p = {3, flavour, 5, false}, q = {3, flavour, 5, true};
            struct cop_law_case what =
                toy(&cop_accept_sample_match, independent_paths_of(2, 3));
            what.vocab = 3;
            what.is_zero_temperature = is_zero;
            what.target = what.draft = mixed_rows;
            what.target_context = &p;
            what.draft_context = &q;
            struct cop_law law = law_of(what);
            cr_expect_lt(law.total_variation, 1e-13);
            cr_expect_eq(law.draw, is_zero ? COP_DRAW_DETERMINISTIC : COP_DRAW_INDEPENDENT);
            cop_law_release(&law);
        }
    }
}

Test(law, sample_match_prefers_the_best_tokens)
{
    /* Three tokens, two best of the draft (.2 .3 .5): the target meets {2, 1} with .2 + .3. */
    static struct fixed_row target = {3, {{.5, .3, .2}}}, draft = {3, {{.2, .3, .5}}};
    struct cop_law_case what = toy(&cop_accept_sample_match, widths_of("2"));
    what.vocab = 3;
    what.target_context = &target;
    what.draft_context = &draft;
    struct cop_law law = law_of(what);
    cr_expect_eq(law.draw, COP_DRAW_DETERMINISTIC, "the default draw of sample_match");
    NEAR(law.expected_accepted, .5);
    cop_law_release(&law);
}

/* ---- Everything that is claimed, over context-dependent rows
 * --------------------------------- */

struct builder_case {
    const char *kind, *text;
    int32_t vocab_limit; /* keeps the branches below the limit */
};
static const struct builder_case builders[] = {
    {"chain", "1", 5},      {"chain", "2", 5},        {"chain", "3", 3},
    {"widths", "2", 5},     {"widths", "3", 4},       {"widths", "21", 3},
    {"widths", "12", 3},    {"widths", "22", 2},      {"widths", "111", 3},
    {"paths", "0 00 1", 3}, {"paths", "0 1 2 00", 3}, {"paths", "0 00 000", 3}};

static bool is_pairs(const struct builder_case *b)
{
    return strcmp(b->text, "2") == 0 || strcmp(b->text, "22") == 0;
}

static struct cop_part *build(const struct builder_case *b)
{
    return b->kind[0] == 'c'   ? chain_of(b->text[0] - '0')
           : b->kind[0] == 'w' ? widths_of(b->text)
                               : paths_of(b->text);
}

static void expect_lossless(const struct cop_rule_ops *rule, enum cop_draw draw,
                            const struct builder_case *b, enum flavour flavour, int32_t vocab,
                            bool is_zero)
{
    struct mixed_row target = {vocab, flavour, 5, false}, draft = {vocab, flavour, 5, true};
    struct cop_law_case what = {.rule = part_of(&rule->plug),
                                .builder = build(b),
                                .draw = draw,
                                .is_zero_temperature = is_zero,
                                .vocab = vocab,
                                .target = mixed_rows,
                                .draft = mixed_rows,
                                .target_context = &target,
                                .draft_context = &draft};
    struct cop_law law = law_of(what);
    cr_expect_lt(law.total_variation, 1e-12, "%s, %s, %s %s, rows %d, %d tokens: %g",
                 rule->plug.name, cop_draw_name(draw), b->kind, b->text, flavour, vocab,
                 law.total_variation);
    double total = 0;
    for (int32_t i = 0; i < vocab; i++) {
        total += law.position[law.depth * vocab + i];
    }
    cr_expect_lt(fabs(total - 1), 1e-12);
    if (flavour == EQUAL && rule == &cop_accept_token) {
        NEAR(law.expected_accepted, law.depth);
    }
    if (flavour == DISJOINT) {
        cr_expect_lt(law.expected_accepted, 1e-14);
    }
    cop_law_release(&law);
}

static void expect_all_lossless(const struct cop_rule_ops *rule, enum cop_draw draw,
                                bool only_chains, bool is_zero)
{
    int n = 0;
    for (size_t i = 0; i < sizeof builders / sizeof *builders; i++) {
        struct cop_part *builder = build(&builders[i]);
        enum cop_shape shape =
            ((const struct cop_builder_ops *)builder->plug)->shape(builder->state);
        cop_part_free(builder);
        for (int flavour = 0; flavour < FLAVOURS; flavour++) {
            for (int32_t vocab = 2; vocab <= builders[i].vocab_limit; vocab++) {
                if ((!only_chains || shape == COP_SHAPE_CHAIN) &&
                    (draw != COP_DRAW_HUB_PAIR ||
                     (builders[i].kind[0] == 'w' && is_pairs(&builders[i])))) {
                    expect_lossless(rule, draw, &builders[i], flavour, vocab, is_zero);
                    n++;
                }
            }
        }
    }
    cr_expect_gt(n, draw == COP_DRAW_HUB_PAIR ? 20 : 50);
}

Test(law, token_is_lossless_on_chains)
{
    expect_all_lossless(&cop_accept_token, COP_DRAW_INDEPENDENT, true, false);
}

Test(law, sample_match_is_lossless_for_independent)
{
    expect_all_lossless(&cop_accept_sample_match, COP_DRAW_INDEPENDENT, false, false);
}

Test(law, sample_match_is_lossless_without_replacement)
{
    expect_all_lossless(&cop_accept_sample_match, COP_DRAW_WITHOUT_REPLACEMENT, false, false);
}

Test(law, sample_match_is_lossless_for_deterministic)
{
    expect_all_lossless(&cop_accept_sample_match, COP_DRAW_DETERMINISTIC, false, false);
}

Test(law, sample_match_is_lossless_for_greedy_draw_and_hub_pair)
{
    expect_all_lossless(&cop_accept_sample_match, COP_DRAW_GREEDY, false, false);
    expect_all_lossless(&cop_accept_sample_match, COP_DRAW_HUB_PAIR, false, false);
}

Test(law, every_rule_is_match_at_temperature_zero)
{
    expect_all_lossless(&cop_accept_match, COP_DRAW_AUTO, false, true);
    expect_all_lossless(&cop_accept_sample_match, COP_DRAW_AUTO, false, true);
    expect_all_lossless(&cop_accept_token, COP_DRAW_AUTO, true, true);
}

Test(law, token_accepts_no_less_than_sample_match)
{
    for (uint32_t salt = 0; salt < 20; salt++) {
        struct mixed_row target = {3, PLAIN, salt, false}, draft = {3, PLAIN, salt, true};
        double expected[2];
        for (int i = 0; i < 2; i++) {
            struct cop_law_case what =
                toy(i ? &cop_accept_token : &cop_accept_sample_match, chain_of(2));
            what.draw = COP_DRAW_INDEPENDENT;
            what.vocab = 3;
            what.target = what.draft = mixed_rows;
            what.target_context = &target;
            what.draft_context = &draft;
            struct cop_law law = law_of(what);
            cr_expect_lt(law.total_variation, 1e-13);
            expected[i] = law.expected_accepted;
            cop_law_release(&law);
        }
        cr_expect_gt(expected[1], expected[0]);
    }
}

/* ---- Shared noise
 * ------------------------------------------------------------------------------ */

/* The coupled rule in its barest form: the target's own race, looked up in the chain. */
static enum cop_status verify_coupled(const void *state, const struct cop_verify_in *in,
                                      struct cop_verdict *out, struct cop_error *err)
{
    (void)state, (void)err;
    for (int32_t node = 0;;) {
        uint32_t key = cop_shared_key(in->position, cop_tree_depth(in->tree, node) + 1);
        if (cop_race(in->draws, COP_PURPOSE_SHARED, key, cop_rows_at(&in->target, node), 1,
                     &out->last) < 1) {
            return COP_OK; /* reported by the draws */
        }
        node = cop_tree_find(in->tree, node, out->last);
        if (node < 0) {
            return COP_OK;
        }
        out->accepted[out->n_accepted++] = node;
    }
}
static const struct cop_claim coupled_claims[] = {
    {COP_DRAW_INDEPENDENT, COP_SHAPE_CHAIN, false}, {.draw = COP_DRAW_AUTO}};
static const struct cop_rule_ops coupled = {
    .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_RULE, .name = "bare_coupled"},
    .lossless_for = coupled_claims,
    .shares_noise = true,
    .verify = verify_coupled};

Test(law, shared_noise_meets_more_often)
{
    static struct fixed_row target = {3, {{.5, .3, .2}}}, draft = {3, {{.2, .3, .5}}};
    struct cop_law law = law_of(toy(&coupled, chain_of(1)));
    NEAR(law.expected_accepted, 2.0 / 3);
    cop_law_release(&law);
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        struct cop_rule_ops rule = coupled;
        rule.shares_noise = is_shared;
        struct cop_law_case what = toy(&rule, chain_of(2));
        what.vocab = 3;
        what.target_context = &target;
        what.draft_context = &draft;
        law = law_of(what);
        double match = is_shared ? 41.0 / 65 : .29; /* noise apart: sum of target * draft */
        NEAR(law.accepted[0], 1 - match);
        NEAR(law.expected_accepted, match + match * match);
        cr_expect_lt(law.total_variation, 1e-14);
        cop_law_release(&law);
    }
}

Test(law, shared_noise_is_lossless)
{
    for (int flavour = 0; flavour < FLAVOURS; flavour++) {
        for (int32_t vocab = 2; vocab <= 4; vocab++) {
            for (int32_t horizon = 1; horizon <= 2; horizon++) {
                struct mixed_row p = {vocab, flavour, 9, false}, q = {vocab, flavour, 9, true};
                struct cop_law_case what = toy(&coupled, chain_of(vocab > 3 ? 1 : 2));
                what.vocab = vocab;
                what.horizon = horizon;
                what.target = what.draft = mixed_rows;
                what.target_context = &p;
                what.draft_context = &q;
                struct cop_law law = law_of(what);
                cr_expect_lt(law.total_variation, 1e-13);
                if (flavour == EQUAL) {
                    NEAR(law.expected_accepted, law.depth);
                }
                cop_law_release(&law);
            }
        }
    }
}

/* ---- Given trees, several drafters, lengths, horizons
 * ---------------------------------------- */

Test(law, given_tree_is_met_where_the_target_goes)
{
    /* Children 0 and 2 of the root, 1 below 2: sum of the target's path probabilities. */
    struct cop_tree tree;
    cr_assert_eq(cop_tree_init(&tree, 8, NULL), COP_OK);
    (void)cop_tree_add(&tree, 0, 0, -1);
    (void)cop_tree_add(&tree, 0, 2, -1);
    (void)cop_tree_add(&tree, 2, 1, -1);
    tree.draw = COP_DRAW_DETERMINISTIC;
    static struct fixed_row target = {3, {{.5, .3, .2}}}, draft = {3, {{.2, .3, .5}}};
    struct cop_law_case what = toy(&cop_accept_sample_match, NULL);
    what.vocab = 3;
    what.given = &tree;
    what.target_context = &target;
    what.draft_context = &draft;
    struct cop_law law = law_of(what);
    NEAR(law.expected_accepted, .5 + .2 + .2 * .3);
    NEAR(law.accepted[2], .2 * .3);
    cr_expect_lt(law.total_variation, 1e-14);
    cr_expect_eq(law.draw, COP_DRAW_DETERMINISTIC);
    cr_expect_eq(law.shape, COP_SHAPE_TREE);
    cop_law_release(&law);

    /* Token verification of given tokens sees them through the draft row of their parent: 0 is
     * kept with 1, then 1 with 1. */
    cop_tree_reset(&tree, 0);
    (void)cop_tree_add(&tree, 0, 0, -1);
    (void)cop_tree_add(&tree, 1, 2, -1);
    what = toy(&cop_accept_token, NULL);
    what.vocab = 3;
    what.given = &tree;
    what.relaxed = true;
    what.target_context = &target;
    what.draft_context = &draft;
    law = law_of(what);
    NEAR(law.accepted[0], 0);      /* .5 / .2 */
    NEAR(law.accepted[1], 1 - .4); /* .2 / .5 */
    NEAR(law.expected_accepted, 1.4);
    cop_law_release(&law);
    cop_tree_release(&tree);
}

Test(law, several_drafters_draw_one_child_each)
{
    static struct fixed_row target = {3, {{.5, .3, .2}}};
    static struct fixed_row drafts = {3, {{1, 0, 0}, {0, .5, .5}}};
    struct cop_law_case what = toy(&cop_accept_sample_match, widths_of("2"));
    what.vocab = 3;
    what.n_drafters = 2;
    what.draw = COP_DRAW_INDEPENDENT;
    what.target_context = &target;
    what.draft_context = &drafts;
    struct cop_law law = law_of(what);
    NEAR(law.expected_accepted, .5 + .5 * .3 + .5 * .2);
    cr_expect_lt(law.total_variation, 1e-14);
    cop_law_release(&law);

    struct cop_error err;
    what = toy(&cop_accept_sample_match, widths_of("2"));
    what.n_drafters = 2;
    what.draw = COP_DRAW_WITHOUT_REPLACEMENT;
    cr_expect_eq(cop_law_enumerate(&law, &what, &err), COP_ERR_ARGUMENT);
    free_case(&what);
}

Test(law, confidence_keeps_the_token_that_stopped_it)
{
    static struct fixed_row half = {2, {{.5, .5}}};
    for (int i = 0; i < 2; i++) {
        struct cop_law_case what = toy(&cop_accept_token, chain_of(3));
        struct cop_part *length = cop_part_new(&cop_length_confidence.plug);
        struct cop_error err;
        cr_assert_eq(cop_option_set_number(&length->plug->options[0], length->state,
                                           i ? .6 : .5, "t", &err),
                     COP_OK);
        what.length = length;
        what.target_context = what.draft_context = &half;
        struct cop_law law = law_of(what);
        cr_expect_lt(law.total_variation, 1e-14);
        NEAR(law.expected_accepted, i ? 1 : 3); /* target = draft: everything is kept */
        cop_law_release(&law);
    }
    for (int flavour = 0; flavour < FLAVOURS; flavour++) {
        struct mixed_row target = {3, flavour, 9, false}, draft = {3, flavour, 9, true};
        struct cop_law_case what = toy(&cop_accept_token, chain_of(3));
        what.length = part_of(&cop_length_confidence.plug);
        what.vocab = 3;
        what.target = what.draft = mixed_rows;
        what.target_context = &target;
        what.draft_context = &draft;
        struct cop_law law = law_of(what);
        cr_expect_lt(law.total_variation, 1e-13);
        cop_law_release(&law);
    }
}

Test(law, fixed_length_cuts_the_tree)
{
    struct cop_law_case what = toy(&cop_accept_token, chain_of(4));
    struct cop_part *length = cop_part_new(&cop_length_fixed.plug);
    struct cop_error err;
    cr_assert_eq(cop_option_set_number(&length->plug->options[0], length->state, 2, "t", &err),
                 COP_OK);
    what.length = length;
    struct cop_law law = law_of(what);
    NEAR(law.expected_accepted, 10.0 / 9);
    cop_law_release(&law);
}

Test(law, a_horizon_of_cycles)
{
    struct mixed_row target = {2, PLAIN, 3, false}, draft = {2, PLAIN, 3, true};
    struct cop_law_case what = toy(&cop_accept_token, chain_of(2));
    what.horizon = 2;
    what.target = what.draft = mixed_rows;
    what.target_context = &target;
    what.draft_context = &draft;
    struct cop_law law = law_of(what);
    cr_expect_lt(law.total_variation, 1e-13);
    cop_law_release(&law);
}

/* Draws from the target in the first cycle of a sequence, and says token 0 ever after. */
static enum cop_status verify_tiring(const void *state, const struct cop_verify_in *in,
                                     struct cop_verdict *out, struct cop_error *err)
{
    int32_t *n_cycles = in->sequence_state;
    if ((*n_cycles)++ == 0) {
        return cop_accept_sample_match.verify(state, in, out, err);
    }
    out->last = 0;
    return COP_OK;
}
static const struct cop_claim any_claims[] = {{COP_DRAW_COUNT, COP_SHAPE_TREE, false},
                                              {.draw = COP_DRAW_AUTO}};
static const struct cop_rule_ops tiring = {
    .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_RULE, .name = "tiring"},
    .lossless_for = any_claims,
    .sequence_state_size = sizeof(int32_t),
    .verify = verify_tiring};

/* Rules with state are followed until every branch has its tokens. Target (1/4, 3/4), the draft
 * always 1: the first cycle gives 10 with 3/16, 11 with 9/16 and 0 alone with 1/4, which a
 * second cycle makes 00; the target has 00 with 1/16 and 01 with 3/16. */
Test(law, state_is_followed_over_tokens)
{
    static struct fixed_row target = {2, {{.25, .75}}}, draft = {2, {{0, 1}}};
    for (int horizon = 1; horizon <= 3; horizon++) {
        struct cop_law_case what = toy(&tiring, chain_of(1));
        what.horizon = horizon;
        what.target_context = &target;
        what.draft_context = &draft;
        struct cop_law law = law_of(what);
        cr_expect_eq(law.length, horizon < 3 ? 2 : 3);
        /* Three tokens: 0 follows whatever the first cycle gave. */
        NEAR(law.total_variation, horizon < 3 ? 3.0 / 16 : 3.0 / 16 + 13.0 / 16 * .75);
        NEAR(law.expected_accepted, .75);
        NEAR(law.accepted[0], .25);
        cr_expect_eq(law.n_outcomes, 3, "of the first cycle");
        NEAR(law.position[0], .25);
        NEAR(law.position[2], 1.0 / 4 + 3.0 / 16);
        cop_law_release(&law);
    }
    struct cop_law_case what = toy(&tiring, chain_of(1));
    what.target_context = &target;
    what.draft_context = &draft;
    what.max_branches = 3; /* no room for a second cycle: one token, which is lossless */
    struct cop_law law = law_of(what);
    cr_expect_eq(law.length, 1);
    cr_expect_eq(law.branches, 3);
    cr_expect_lt(law.total_variation, 1e-15);
    cop_law_release(&law);
}

/* Branches that meet are run on together, so many cycles cost what there are places. */
Test(law, cycles_go_on_once_from_each_place)
{
    struct mixed_row target = {2, PLAIN, 3, false}, draft = {2, PLAIN, 3, true};
    int64_t branches[3];
    for (int horizon = 1; horizon <= 3; horizon++) {
        struct cop_law_case what = toy(&cop_accept_token, chain_of(2));
        what.horizon = horizon;
        what.target = what.draft = mixed_rows;
        what.target_context = &target;
        what.draft_context = &draft;
        struct cop_law law = law_of(what);
        cr_expect_lt(law.total_variation, 1e-13);
        branches[horizon - 1] = law.branches;
        cop_law_release(&law);
    }
    cr_expect_lt(branches[1], branches[0] * 16, "2 + 4 + 8 places after one cycle");
    cr_expect_lt(branches[2], branches[0] * 140, "and 4 + 8 + 16 + 32 + 64 after two");
}

/* ---- What is refused
 * -------------------------------------------------------------------------- */

static void expect_refusal(struct cop_law_case what, enum cop_status code, const char *text)
{
    struct cop_law law;
    struct cop_error err = {0};
    cr_expect_eq(cop_law_enumerate(&law, &what, &err), code);
    cr_expect(strstr(err.text, text), "%s", err.text);
    cr_expect_null(law.outcomes);
    free_case(&what);
}

Test(law, limits_and_rows_that_are_no_laws)
{
    static struct fixed_row short_row = {2, {{.5, .4}}}, negative = {2, {{1.5, -.5}}};
    struct cop_law_case what = toy(&cop_accept_token, chain_of(2));
    what.target_context = &short_row;
    expect_refusal(what, COP_ERR_ARGUMENT, "target row after {} sums to 0.9");
    what = toy(&cop_accept_token, chain_of(2));
    what.draft_context = &negative;
    expect_refusal(what, COP_ERR_ARGUMENT, "draft row after {} has an entry that is negative");
    what = toy(&cop_accept_token, chain_of(2));
    what.vocab = 17;
    expect_refusal(what, COP_ERR_LIMIT, "2 to 16 tokens, not 17");
    what = toy(&cop_accept_token, chain_of(4));
    what.max_branches = 20;
    expect_refusal(what, COP_ERR_LIMIT, "more than 20 branches");
    expect_refusal(toy(&cop_accept_token, chain_of(20)), COP_ERR_LIMIT,
                   "more than 200000 branches");
    expect_refusal(toy(&cop_accept_token, widths_of("2")), COP_ERR_UNSOUND, "accept.token");
    expect_refusal(toy(&cop_accept_match, widths_of("2")), COP_ERR_UNSOUND,
                   "accept.match is lossless at temperature 0 only");
    expect_refusal(toy(&cop_accept_token, NULL), COP_ERR_ARGUMENT, "builder or a given tree");
}
