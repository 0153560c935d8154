/* Block verification and hierarchical speculative decoding: published numbers, losslessness,
 * identities, decisions by hand, and the broken variants that circulate. */
#include "tests/algorithms/prefix_laws.h"

static struct fixed_row three_target = {3, {{.3, .4, .3}}}, three_draft = {3, {{.6, .3, .1}}};

static const struct cop_rule_ops *const twins[] = {&cop_accept_block, &cop_accept_hierarchical};

Test(block, numbers_of_the_page)
{
    const double on_toy[] = {2.0 / 3, 11.0 / 9, 5.0 / 3, 166.0 / 81};
    const double on_three[] = {.7, 1.25, 213.0 / 125, 2.0887};
    for (int32_t depth = 1; depth <= 4; depth++) {
        for (int i = 0; i < 2; i++) {
            NEAR(accepted_by(toy(twins[i], chain_of(depth))), on_toy[depth - 1]);
            NEAR(
                accepted_by(fixed_case(twins[i], chain_of(depth), &three_target, &three_draft)),
                on_three[depth - 1]);
        }
    }
}

Test(block, equal_rows_keep_everything)
{
    for (int32_t depth = 1; depth <= 3; depth++) {
        NEAR(accepted_by(
                 fixed_case(&cop_accept_block, chain_of(depth), &three_target, &three_target)),
             depth);
    }
}

static struct cop_part *chains(int32_t i)
{
    return chain_of(i + 1);
}

Test(block, lossless)
{
    for (int i = 0; i < 2; i++) {
        struct sweep sweep = {twins[i], COP_DRAW_INDEPENDENT, chains, {5, 5, 4}, .salts = 4};
        cr_expect_eq(expect_lossless(&sweep), 2 * FLAVOURS * 4 * 11);
    }
}

Test(block, lossless_where_the_draft_ends_early)
{
    struct sweep sweep = {&cop_accept_block, COP_DRAW_INDEPENDENT, chains,
                          {4, 4, 4},         .salts = 3,           .has_length = true};
    (void)expect_lossless(&sweep);
}

Test(block, one_token_is_the_token_rule)
{
    expect_same_laws(&cop_accept_block, &cop_accept_token, chains, 1);
}

Test(block, hierarchical_is_the_same_law)
{
    expect_same_laws(&cop_accept_block, &cop_accept_hierarchical, chains, 3);
}

Test(block, accepts_no_less_than_the_token_rule)
{
    for (uint32_t salt = 0; salt < 60; salt++) {
        for (int32_t i = 1; i < 3; i++) {
            double block = accepted_on(&cop_accept_block, COP_DRAW_AUTO, chains, i, salt);
            double token = accepted_on(&cop_accept_token, COP_DRAW_AUTO, chains, i, salt);
            cr_expect_gt(block, token - 1e-13);
        }
    }
}

Test(block, match_at_temperature_zero)
{
    expect_match_at_zero(&cop_accept_block, chains, 3, COP_DRAW_INDEPENDENT);
    expect_match_at_zero(&cop_accept_block, chains, 3, COP_DRAW_DETERMINISTIC);
    expect_match_at_zero(&cop_accept_hierarchical, chains, 3, COP_DRAW_INDEPENDENT);
    expect_match_at_zero(&cop_accept_hierarchical, chains, 3, COP_DRAW_DETERMINISTIC);
}

/* ---- By hand
 * ------------------------------------------------------------------------------------ */

static const double tail[] = {.1, .8, .1};
static struct cop_row rows_of_target[3], rows_of_draft[3];
static const struct cop_row *at(void *context, int32_t node)
{
    return (const struct cop_row *)context + node;
}

static void expect_verdict(const struct cop_tree *tree, const double *coins, int32_t n_coins,
                           int32_t n_accepted, cop_token last, enum cop_origin origin)
{
    int32_t accepted[4];
    struct cop_error error = {0}, err = {0};
    struct cop_coin_list list = {.coins = coins, .count = n_coins};
    struct cop_draws draws = cop_coin_list_draws(&list, &error);
    struct cop_verify_in in = {.tree = tree,
                               .target = {at, rows_of_target},
                               .draft = {at, rows_of_draft},
                               .draws = &draws};
    struct cop_verdict verdict = {.accepted = accepted};
    cr_assert_eq(cop_accept_block.verify(NULL, &in, &verdict, &err), COP_OK, "%s", err.text);
    cr_assert_eq(error.code, COP_OK, "%s", error.text);
    cr_expect_eq(list.used, n_coins, "%d of %d coins", list.used, n_coins);
    cr_expect_eq(verdict.n_accepted, n_accepted, "%d tokens", verdict.n_accepted);
    cr_expect_eq(verdict.last, last, "token %d", verdict.last);
    cr_expect_eq(verdict.origin, origin);
    cr_expect_eq(cop_verdict_check(&in, &verdict, &err), COP_OK, "%s", err.text);
}

/* Draft 0 then 1 under (.6 .3 .1), target (.3 .4 .3): w_1 = 1/2, w_2 = min(1, 1/2 * 4/3) = 2/3,
 * h_1 = .05 / .55: (.15 - .6, .2 - .3, .15 - .1) with its sign. */
Test(block, decisions_by_hand)
{
    struct cop_tree tree;
    cr_assert_eq(cop_tree_init(&tree, 4, NULL), COP_OK);
    for (int i = 0; i < 3; i++) {
        const double *p = i == 2 ? tail : three_target.row[0];
        rows_of_target[i] = (struct cop_row){.kind = COP_ROW_DENSE, .vocab = 3, .dense = p};
        rows_of_draft[i] =
            (struct cop_row){.kind = COP_ROW_DENSE, .vocab = 3, .dense = three_draft.row[0]};
    }
    const double lone[] = {.95}, all[] = {.666, .05}, one[] = {.667, .0909, .99},
                 none[] = {.667, .091, .34}, late[] = {.667, .999, .32};
    expect_verdict(&tree, lone, 1, 0, 2, COP_ORIGIN_BONUS);
    (void)cop_tree_add(&tree, 0, 0, 0);
    (void)cop_tree_add(&tree, 1, 1, 1);
    expect_verdict(&tree, all, 2, 2, 0, COP_ORIGIN_BONUS); /* the last row is .1 .8 .1 */
    expect_verdict(&tree, one, 3, 1, 2, COP_ORIGIN_RECOVERED);
    expect_verdict(&tree, none, 3, 0, 2, COP_ORIGIN_RECOVERED); /* residual (0, 1/3, 2/3) */
    expect_verdict(&tree, late, 3, 0, 1, COP_ORIGIN_RECOVERED);
    tree.flags[2] |= COP_NODE_SCOUT; /* then node 1 is the last: w_1 = 1/2 */
    const double kept[] = {.49, .1};
    expect_verdict(&tree, kept, 2, 1, 0, COP_ORIGIN_BONUS);
    cop_tree_release(&tree);
}

/* ---- Variants that are wrong
 * ------------------------------------------------------------------ */

enum fault { SOUND, LAST_BY_JOINT_RATIO, STOPS_AT_FAILURE, TOKEN_TESTS, UNSCALED_REST };
static enum fault fault;

static double row(const struct cop_rows *rows, int32_t node, cop_token token)
{
    return cop_row_probability(cop_rows_at(rows, node), token);
}

/* sum (scale target - draft)+ after a node, and the other way round. */
static double excess(const struct cop_verify_in *in, int32_t node, double scale, int sign)
{
    double sum = 0;
    for (cop_token t = 0; t < cop_rows_at(&in->target, node)->vocab; t++) {
        sum +=
            fmax(0, sign * (scale * row(&in->target, node, t) - row(&in->draft, node + 1, t)));
    }
    return sum;
}

/* Node i of the chain has index i. */
static enum cop_status verify_badly(const void *state, const struct cop_verify_in *in,
                                    struct cop_verdict *out, struct cop_error *err)
{
    (void)state, (void)err;
    int32_t n = in->tree->size - 1, kept = 0;
    double w[5] = {1}, joint[5] = {1};
    for (int32_t i = 1; i <= n; i++) {
        double ratio = row(&in->target, i - 1, in->tree->token[i]) /
                       row(&in->draft, i, in->tree->token[i]);
        w[i] = fmin(1, w[i - 1] * ratio);
        joint[i] = joint[i - 1] * ratio;
        w[i] = fault == TOKEN_TESTS ? fmin(1, ratio) : w[i];
        double h = fault == LAST_BY_JOINT_RATIO ? fmin(1, joint[i]) : w[i];
        if (i < n) {
            double above = excess(in, i, w[i], 1), below = excess(in, i, w[i], -1);
            h = w[i] < 1 ? above / below : 1;
        }
        h = fault == TOKEN_TESTS ? fmin(1, ratio) : h;
        bool success = cop_flip(in->draws, 1, in->tree->key[i], h);
        if (!success && (fault == STOPS_AT_FAILURE || fault == TOKEN_TESTS)) {
            break;
        }
        kept = success ? i : kept;
    }
    for (int32_t i = 1; i <= kept; i++) {
        out->accepted[out->n_accepted++] = i;
    }
    struct cop_residual rest = {
        cop_rows_at(&in->target, kept), kept < n ? cop_rows_at(&in->draft, kept + 1) : NULL,
        .target_scale = fault == UNSCALED_REST ? 1 : w[kept], .draft_scale = 1};
    if (kept == n) {
        struct cop_weights target = cop_row_weights(rest.target);
        out->last = cop_pick(in->draws, 2, 0, &target);
    } else {
        out->last = cop_pick_residual(in->draws, 2, 0, &rest);
    }
    return COP_OK;
}

static const struct cop_claim any_chain[] = {{COP_DRAW_INDEPENDENT, COP_SHAPE_CHAIN, false},
                                             {.draw = COP_DRAW_AUTO}};
static const struct cop_rule_ops broken = {
    .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_RULE, .name = "broken_block"},
    .lossless_for = any_chain,
    .verify = verify_badly};

static struct cop_law law_with(enum fault which, int32_t depth)
{
    fault = which;
    return law_of(toy(&broken, chain_of(depth)));
}

static void expect_fault(enum fault which, int32_t depth, double accepted, double distance)
{
    struct cop_law law = law_with(which, depth);
    NEAR(law.expected_accepted, accepted);
    NEAR(law.total_variation, distance);
    cop_law_release(&law);
}

Test(block, broken_variants_are_seen)
{
    expect_fault(SOUND, 2, 11.0 / 9, 0);
    expect_fault(SOUND, 3, 5.0 / 3, 0);
    expect_fault(LAST_BY_JOINT_RATIO, 1, 2.0 / 3, 0);
    expect_fault(LAST_BY_JOINT_RATIO, 2, 4.0 / 3, 1.0 / 9);
    expect_fault(LAST_BY_JOINT_RATIO, 3, 16.0 / 9, 5.0 / 81);
    const enum fault others[] = {STOPS_AT_FAILURE, UNSCALED_REST, TOKEN_TESTS};
    for (int i = 0; i < 3; i++) {
        fault = others[i];
        struct cop_law law =
            law_of(fixed_case(&broken, chain_of(2), &three_target, &three_draft));
        cr_expect_gt(law.total_variation, .01, "fault %d: %g", others[i], law.total_variation);
        cr_expect(others[i] != STOPS_AT_FAILURE || law.expected_accepted < 1.25 - .01);
        cop_law_release(&law);
    }
}
