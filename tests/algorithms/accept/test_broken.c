/* Deliberately broken rules and drafts: an enumeration that cannot tell them from sound ones
 * proves nothing. Each has a known distance from the target, or a known complaint. */
#include "tests/algorithms/laws.h"

static struct fixed_row half = {2, {{.5, .5}}};

static struct cop_law_case drawn_toy(const struct cop_rule_ops *rule, struct cop_part *builder)
{
    struct cop_law_case what = toy(rule, builder);
    what.draw = COP_DRAW_INDEPENDENT;
    return what;
}

/* ---- Drafts that are not what they say
 * -------------------------------------------------------- */

/* A chain of one token that is thrown away when it is token 1. */
static enum cop_status grow_and_drop(const void *state, struct cop_grow *grow,
                                     struct cop_error *err)
{
    (void)state, (void)err;
    (void)cop_grow_draw(grow, 0, 1);
    if (grow->tree->token[1] == 1) {
        grow->tree->size--;
        grow->n_next--;
    }
    return COP_OK;
}
static enum cop_shape a_chain(const void *state)
{
    (void)state;
    return COP_SHAPE_CHAIN;
}
static int32_t one(const void *state)
{
    (void)state;
    return 1;
}
static const struct cop_builder_ops dropping = {
    .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_BUILDER, .name = "dropping"},
    .draws = COP_DRAW_BIT(COP_DRAW_INDEPENDENT),
    .shape = a_chain,
    .depth = one,
    .nodes = one,
    .grow = grow_and_drop};

Test(broken, a_drafted_token_dropped_for_its_own_value)
{
    struct cop_law_case what = drawn_toy(&cop_accept_token, part_of(&dropping.plug));
    what.target_context = what.draft_context = &half;
    struct cop_law law = law_of(what);
    NEAR(law.total_variation, 1.0 / 4);
    NEAR(law.position[0], 3.0 / 4);
    cop_law_release(&law);

    static struct fixed_row target = {2, {{.7, .3}}};
    what = drawn_toy(&cop_accept_token, part_of(&dropping.plug));
    what.target_context = &target;
    what.draft_context = &half;
    law = law_of(what);
    NEAR(law.position[0], .85);
    NEAR(law.total_variation, .15);
    cop_law_release(&law);

    /* The same draft is harmless to sample_match, which never looks at the draft row. */
    what = drawn_toy(&cop_accept_sample_match, part_of(&dropping.plug));
    law = law_of(what);
    cr_expect_lt(law.total_variation, 1e-14);
    cop_law_release(&law);
}

Test(broken, the_best_token_verified_as_if_it_were_drawn)
{
    static struct fixed_row draft = {2, {{.7, .3}}};
    struct cop_law_case what = drawn_toy(&cop_accept_token, chain_of(1));
    what.draw = COP_DRAW_DETERMINISTIC;
    what.relaxed = true;
    what.target_context = &half;
    what.draft_context = &draft;
    struct cop_law law = law_of(what);
    NEAR(law.position[0], 5.0 / 7);
    NEAR(law.total_variation, 3.0 / 14);
    cop_law_release(&law);
}

/* ---- Token verification with one fault each
 * ---------------------------------------------------- */

enum fault {
    SOUND,
    RECOVERS_FROM_TARGET, /* the residual is forgotten */
    BONUS_FROM_PARENT,    /* the row before the last accepted token */
    RATIO_UPSIDE_DOWN,
    ONE_COIN, /* the first decision stands for all */
    SAME_COIN_ASKED_AGAIN,
    RESIDUAL_REVERSED,
    KEEPS_IMPOSSIBLE, /* "u <= p / q": at its worst, u = 0, an impossible token is kept */
    LAST_TOKEN_IMPOSSIBLE,
    NOT_A_PATH,
    ASKS_OTHERWISE, /* depends on what is not among its inputs */
    ASKS_LESS,
    EMPTY_PICK,
};
static int32_t n_calls;

struct broken {
    int32_t fault;
};
static const struct cop_option broken_options[] = {
    {.name = "fault", .type = COP_OPTION_INT, .offset = offsetof(struct broken, fault)}, {0}};

static cop_token finish(const struct cop_verify_in *in, enum fault fault, int32_t node,
                        int32_t child)
{
    const struct cop_row *target = cop_rows_at(&in->target, node);
    struct cop_residual rest = {target, child > 0 ? cop_rows_at(&in->draft, child) : NULL, 1,
                                1};
    if (fault == RECOVERS_FROM_TARGET) {
        rest.draft = NULL;
    } else if (fault == RESIDUAL_REVERSED && child > 0) {
        rest = (struct cop_residual){rest.draft, target, 1, 1};
    } else if (fault == BONUS_FROM_PARENT && child < 0 && node > 0) {
        rest.target = cop_rows_at(&in->target, in->tree->parent[node]);
    } else if (fault == LAST_TOKEN_IMPOSSIBLE) {
        return 7;
    }
    struct cop_weights weights = cop_residual_weights(&rest);
    if (fault == EMPTY_PICK) {
        rest.target_scale = 0;
    }
    return cop_pick(in->draws, 2, in->tree->key[node], &weights);
}

static enum cop_status verify_badly(const void *state, const struct cop_verify_in *in,
                                    struct cop_verdict *out, struct cop_error *err)
{
    (void)err;
    enum fault fault = (enum fault)((const struct broken *)state)->fault;
    int32_t node = 0, child;
    bool decision = false;
    n_calls++;
    while ((child = cop_tree_child(in->tree, node, 0)) > 0) {
        double p = cop_row_probability(cop_rows_at(&in->target, node), in->tree->token[child]);
        double q = cop_row_probability(cop_rows_at(&in->draft, child), in->tree->token[child]);
        uint32_t key = in->tree->key[fault == SAME_COIN_ASKED_AGAIN ? 0 : child];
        double keep = fault == RATIO_UPSIDE_DOWN ? q / p : p / q;
        keep = fault == KEEPS_IMPOSSIBLE ? fmax(keep, 1e-9) : keep;
        keep = fault == ASKS_OTHERWISE && n_calls % 2 ? keep / 2 : keep;
        if (fault == ASKS_LESS && n_calls > 1) {
            break;
        }
        decision = fault == ONE_COIN && node > 0 ? decision
                                                 : cop_flip(in->draws, 1, key, fmin(1, keep));
        if (!decision) {
            break;
        }
        out->accepted[out->n_accepted++] = child;
        node = child;
    }
    out->last = finish(in, fault, node, child);
    if (fault == NOT_A_PATH && out->n_accepted == 2) {
        out->accepted[0] = out->accepted[1];
    }
    return COP_OK;
}

static const struct cop_claim everything[] = {{COP_DRAW_COUNT, COP_SHAPE_TREE, false},
                                              {.draw = COP_DRAW_AUTO}};
static const struct cop_rule_ops broken_rule = {.plug = {.abi = COP_PLUG_ABI,
                                                         .kind = COP_PLUG_RULE,
                                                         .name = "broken",
                                                         .state_size = sizeof(struct broken),
                                                         .options = broken_options},
                                                .lossless_for = everything,
                                                .verify = verify_badly};

static struct cop_law_case with_fault(enum fault fault, int32_t depth)
{
    struct cop_law_case what = drawn_toy(&broken_rule, chain_of(depth));
    ((struct broken *)what.rule->state)->fault = fault;
    n_calls = 0;
    return what;
}

/* Its distance on rows that depend on the context. */
static double distance_on_mixed_rows(enum fault fault, enum flavour flavour)
{
    struct mixed_row target = {3, flavour, 2, false}, draft = {3, flavour, 2, true};
    struct cop_law_case what = with_fault(fault, 2);
    what.vocab = 3;
    what.target = what.draft = mixed_rows;
    what.target_context = &target;
    what.draft_context = &draft;
    struct cop_law law = law_of(what);
    double distance = law.total_variation;
    cop_law_release(&law);
    return distance;
}

Test(broken, sound_twin_passes)
{
    for (int32_t depth = 1; depth <= 3; depth++) {
        struct cop_law law = law_of(with_fault(SOUND, depth));
        cr_expect_lt(law.total_variation, 1e-14);
        cop_law_release(&law);
    }
    cr_expect_lt(distance_on_mixed_rows(SOUND, PLAIN), 1e-14);
    cr_expect_lt(distance_on_mixed_rows(SOUND, ZEROS), 1e-14);
}

Test(broken, recovered_token_from_the_target_row)
{
    /* Kept: 1/3 each. Rejected 1/3, then 1/3 and 2/3 of it: 4/9 and 5/9 come out. */
    struct cop_law law = law_of(with_fault(RECOVERS_FROM_TARGET, 1));
    NEAR(law.position[0], 4.0 / 9);
    NEAR(law.total_variation, 1.0 / 9);
    cop_law_release(&law);
}

Test(broken, upside_down)
{
    /* Ratio q / p: 0 always kept (2/3), 1 kept with 1/2; the residual of 1/6 is token 1. */
    struct cop_law law = law_of(with_fault(RATIO_UPSIDE_DOWN, 1));
    NEAR(law.position[0], 2.0 / 3);
    NEAR(law.total_variation, 1.0 / 3);
    cop_law_release(&law);
    /* Residual q - p is token 0: kept 1/3 each, rejected 1/3. */
    law = law_of(with_fault(RESIDUAL_REVERSED, 1));
    NEAR(law.position[0], 2.0 / 3);
    NEAR(law.total_variation, 1.0 / 3);
    cop_law_release(&law);
}

Test(broken, bonus_from_the_wrong_row_shows_only_where_rows_depend_on_context)
{
    struct cop_law law = law_of(with_fault(BONUS_FROM_PARENT, 2));
    cr_expect_lt(law.total_variation, 1e-14, "context-free rows hide it");
    cop_law_release(&law);
    cr_expect_gt(distance_on_mixed_rows(BONUS_FROM_PARENT, PLAIN), 0.01);
}

Test(broken, one_coin_for_all_positions)
{
    cr_expect_gt(distance_on_mixed_rows(ONE_COIN, PLAIN), 0.01);
    /* On the toy: a first kept token keeps any second one. Second token after a kept first one
     * is a plain draft, 2/3 for token 0 where 1/3 is due; the first is kept with 2/3. */
    struct cop_law law = law_of(with_fault(ONE_COIN, 2));
    NEAR(law.position[2], 2.0 / 3 * 2 / 3 + 1.0 / 3 * 1 / 3);
    cop_law_release(&law);
}

static void expect_complaint(enum fault fault, enum cop_status code, const char *text)
{
    static struct fixed_row only_one = {2, {{0, 1}}};
    struct cop_law law;
    struct cop_error err = {0};
    struct cop_law_case what = with_fault(fault, 2);
    if (fault == KEEPS_IMPOSSIBLE) {
        what.target_context = &only_one;
        cr_expect_eq(cop_law_enumerate(&law, &what, &err), COP_OK, "%s", err.text);
        cr_expect_gt(law.total_variation, 1e-10);
        cop_law_release(&law);
    } else {
        cr_expect_eq(cop_law_enumerate(&law, &what, &err), code);
        cr_expect(strstr(err.text, text), "%s", err.text);
    }
    free_case(&what);
}

Test(broken, complaints)
{
    expect_complaint(SAME_COIN_ASKED_AGAIN, COP_ERR_ARGUMENT, "asked twice for the coin");
    expect_complaint(LAST_TOKEN_IMPOSSIBLE, COP_ERR_ARGUMENT,
                     "accept.broken: ended with token 7, to which the target gives no "
                     "probability");
    expect_complaint(NOT_A_PATH, COP_ERR_ARGUMENT,
                     "accept.broken: accepted node 2 after node 0, but its parent is node 1: "
                     "no path of the tree");
    expect_complaint(ASKS_OTHERWISE, COP_ERR_ARGUMENT, "not a function of its inputs");
    expect_complaint(ASKS_LESS, COP_ERR_ARGUMENT, "not a function of its inputs");
    expect_complaint(EMPTY_PICK, COP_ERR_ARGUMENT,
                     "accept.broken: a pick from weights that are all zero");
    expect_complaint(KEEPS_IMPOSSIBLE, COP_OK, "");
}

/* ---- One coin for all siblings, twins counted twice
 * ------------------------------------------- */

struct children {
    double weights[8];
};
static void fill_children(const void *context, int32_t first, int32_t count, double *out)
{
    memcpy(out, ((const struct children *)context)->weights + first,
           (size_t)count * sizeof *out);
}

static enum cop_status verify_by_walking(const void *state, const struct cop_verify_in *in,
                                         struct cop_verdict *out, struct cop_error *err)
{
    (void)state, (void)err;
    const struct cop_row *target = cop_rows_at(&in->target, 0);
    struct children children = {{0}};
    int32_t n = cop_tree_children(in->tree, 0);
    double left = 1;
    for (int32_t j = 0; j < n; j++) {
        int32_t child = cop_tree_child(in->tree, 0, j);
        children.weights[j] = fmin(left, cop_row_probability(target, in->tree->token[child]));
        left -= children.weights[j];
    }
    children.weights[n] = left;
    struct cop_weights weights = {.vocab = n + 1, .fill = fill_children, .context = &children};
    int32_t j = cop_pick(in->draws, 1, 0, &weights);
    if (j < n) {
        out->accepted[out->n_accepted++] = cop_tree_child(in->tree, 0, j);
    }
    struct cop_weights bonus =
        cop_row_weights(cop_rows_at(&in->target, j < n ? out->accepted[0] : 0));
    out->last = cop_pick(in->draws, 2, 0, &bonus);
    return COP_OK;
}
static const struct cop_rule_ops walking_rule = {
    .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_RULE, .name = "walking"},
    .lossless_for = everything,
    .verify = verify_by_walking};

Test(broken, twins_counted_twice)
{
    struct cop_tree tree;
    cr_assert_eq(cop_tree_init(&tree, 4, NULL), COP_OK);
    (void)cop_tree_add(&tree, 0, 0, -1);
    (void)cop_tree_add(&tree, 0, 0, -1);
    static struct fixed_row target = {3, {{.5, .3, .2}}};
    struct cop_law_case what = drawn_toy(&walking_rule, NULL);
    what.given = &tree;
    what.vocab = 3;
    what.target_context = what.draft_context = &target;
    struct cop_law law = law_of(what);
    NEAR(law.position[0], 1);
    NEAR(law.total_variation, .5);
    cop_law_release(&law);
    what = drawn_toy(&cop_accept_sample_match, NULL);
    what.given = &tree;
    what.vocab = 3;
    what.target_context = what.draft_context = &target;
    law = law_of(what);
    NEAR(law.expected_accepted, .5);
    cr_expect_lt(law.total_variation, 1e-14);
    cop_law_release(&law);
    cop_tree_release(&tree);
}
