/* What a case may ask for beside a rule and a builder: shared noise, a given tree, several
 * drafters, a length policy, more cycles, state; and what is refused. */
#include "tests/algorithms/laws.h"

/* ---- Shared noise ------------------------------------------------------------------------ */

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
        struct cop_law_case what = fixed_case(&rule, chain_of(2), &target, &draft);
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

/* ---- Given trees, several drafters, lengths, horizons ------------------------------------ */

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
    struct cop_law_case what = fixed_case(&cop_accept_sample_match, NULL, &target, &draft);
    what.given = &tree;
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
    what = fixed_case(&cop_accept_token, NULL, &target, &draft);
    what.given = &tree;
    what.relaxed = true;
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
    struct cop_law_case what =
        fixed_case(&cop_accept_sample_match, widths_of("2"), &target, &drafts);
    what.n_drafters = 2;
    what.draw = COP_DRAW_INDEPENDENT;
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
        struct cop_law_case what = fixed_case(&tiring, chain_of(1), &target, &draft);
        what.horizon = horizon;
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
    struct cop_law_case what = fixed_case(&tiring, chain_of(1), &target, &draft);
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

/* ---- What is refused --------------------------------------------------------------------- */

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
