/* Traversal verification: published numbers, losslessness on every draw and shape it claims,
 * and what it is equal to. */
#include "tests/algorithms/prefix_laws.h"

static struct fixed_row three_target = {3, {{.3, .4, .3}}}, three_draft = {3, {{.6, .3, .1}}};
static struct fixed_row half = {2, {{.5, .5}}};

static struct cop_law_case on(struct cop_law_case what, enum cop_draw draw)
{
    what.draw = draw;
    return what;
}

Test(traversal, numbers_of_the_page)
{
    const struct cop_rule_ops *rule = &cop_accept_traversal;
    const enum cop_draw without = COP_DRAW_WITHOUT_REPLACEMENT;
    const double chain[] = {2.0 / 3, 11.0 / 9, 5.0 / 3, 166.0 / 81};
    for (int32_t depth = 1; depth <= 4; depth++) {
        NEAR(accepted_by(toy(rule, chain_of(depth))), chain[depth - 1]);
    }
    NEAR(accepted_by(toy(rule, independent_paths_of(1, 2))), 11.0 / 9);
    NEAR(accepted_by(toy(rule, independent_paths_of(2, 2))), 115.0 / 81);
    NEAR(accepted_by(on(toy(rule, widths_of("21")), without)), 16.0 / 9);
    const struct {
        const char *widths;
        double expected;
    } three[] = {{"2", 7.0 / 8}, {"12", 27.0 / 20}, {"3", 1}};
    for (int i = 0; i < 3; i++) {
        struct cop_law_case what =
            fixed_case(rule, widths_of(three[i].widths), &three_target, &three_draft);
        NEAR(accepted_by(on(what, without)), three[i].expected);
    }
    /* Equal rows: everything is kept, whatever the number of paths. */
    for (int32_t k = 1; k <= 2; k++) {
        NEAR(accepted_by(fixed_case(rule, independent_paths_of(k, 2), &half, &half)), 2);
    }
}

Test(traversal, the_tree_of_the_paper)
{
    /* root -> {a, c}, a -> {b, c}, c -> {a}: given, so its own law is not the target's. */
    struct cop_tree tree;
    cr_assert_eq(cop_tree_init(&tree, 8, NULL), COP_OK);
    (void)cop_tree_add(&tree, 0, 0, -1);
    (void)cop_tree_add(&tree, 0, 2, -1);
    (void)cop_tree_add(&tree, 1, 1, -1);
    (void)cop_tree_add(&tree, 1, 2, -1);
    (void)cop_tree_add(&tree, 2, 0, -1);
    tree.draw = COP_DRAW_WITHOUT_REPLACEMENT;
    struct cop_law_case what =
        fixed_case(&cop_accept_traversal, NULL, &three_target, &three_draft);
    what.given = &tree;
    struct cop_law law = law_of(what);
    NEAR(law.expected_accepted, 64.0 / 33);
    cop_law_release(&law);
    cop_tree_release(&tree);
}

static struct cop_part *shapes(int32_t i)
{
    static const char *const widths[] = {"1", "2", "3", "12", "21", "22", "111", "211"};
    return i < 8 ? widths_of(widths[i]) : paths_of(i == 8 ? "0 00 1 10 11" : "0 1 2 00 000");
}

Test(traversal, lossless_without_replacement)
{
    struct sweep sweep = {&cop_accept_traversal,
                          COP_DRAW_WITHOUT_REPLACEMENT,
                          shapes,
                          {5, 5, 4, 3, 3, 2, 3, 2, 2, 3},
                          .salts = 2};
    cr_expect_gt(expect_lossless(&sweep), 300);
}

Test(traversal, lossless_for_independent_children)
{
    struct sweep sweep = {&cop_accept_traversal,
                          COP_DRAW_INDEPENDENT,
                          shapes,
                          {5, 5, 4, 3, 3, 2, 3, 2, 2, 3},
                          .salts = 2};
    cr_expect_gt(expect_lossless(&sweep), 300);
}

static struct cop_part *merged(int32_t i)
{
    static const int32_t sizes[][2] = {{1, 2}, {2, 1}, {2, 2}, {3, 1}, {3, 2}, {2, 3}};
    return independent_paths_of(sizes[i][0], sizes[i][1]);
}

Test(traversal, lossless_for_merged_paths)
{
    struct sweep sweep = {
        &cop_accept_traversal, COP_DRAW_INDEPENDENT, merged, {4, 4, 3, 4, 2, 2}, .salts = 2};
    cr_expect_gt(expect_lossless(&sweep), 150);
}

Test(traversal, lossless_for_several_drafters)
{
    struct sweep sweep = {&cop_accept_traversal, COP_DRAW_INDEPENDENT, shapes,
                          {4, 4, 3, 2, 2},       .n_drafters = 2,      .salts = 2};
    cr_expect_gt(expect_lossless(&sweep), 100);
    sweep.n_drafters = 3;
    (void)expect_lossless(&sweep);
}

Test(traversal, lossless_where_the_draft_ends_early)
{
    struct sweep sweep = {&cop_accept_traversal,
                          COP_DRAW_WITHOUT_REPLACEMENT,
                          shapes,
                          {4, 4, 3, 3, 3, 2, 3},
                          .salts = 2,
                          .has_length = true};
    (void)expect_lossless(&sweep);
    sweep.draw = COP_DRAW_INDEPENDENT;
    (void)expect_lossless(&sweep);
}

static struct cop_part *chains(int32_t i)
{
    return chain_of(i + 1);
}

Test(traversal, a_chain_is_block_verification)
{
    expect_same_laws(&cop_accept_traversal, &cop_accept_block, chains, 3);
}

/* Token-identical trees of K independent children: acceptance by the formula of recursive
 * rejection without replacement, for two children drawn so. */
Test(traversal, one_level_is_recursive_rejection_without_replacement)
{
    static struct fixed_row b_target = {3, {{.5, .3, .2}}}, b_draft = {3, {{.2, .3, .5}}};
    static struct fixed_row c_target = {4, {{.1, .2, .3, .4}}},
                            c_draft = {4, {{.4, .3, .2, .1}}};
    const struct {
        struct fixed_row *target, *draft;
        const char *widths;
        double expected;
    } cases[] = {{&toy_target, &toy_draft, "2", 1},
                 {&b_target, &b_draft, "2", 41.0 / 50},
                 {&b_target, &b_draft, "3", 1},
                 {&c_target, &c_draft, "2", 107.0 / 140},
                 {&c_target, &c_draft, "3", 14117.0 / 16800}};
    for (int i = 0; i < 5; i++) {
        struct cop_law_case what = fixed_case(&cop_accept_traversal, widths_of(cases[i].widths),
                                              cases[i].target, cases[i].draft);
        NEAR(accepted_by(on(what, COP_DRAW_WITHOUT_REPLACEMENT)), cases[i].expected);
    }
}

Test(traversal, match_at_temperature_zero)
{
    expect_match_at_zero(&cop_accept_traversal, shapes, 10, COP_DRAW_INDEPENDENT);
    expect_match_at_zero(&cop_accept_traversal, shapes, 10, COP_DRAW_DETERMINISTIC);
    expect_match_at_zero(&cop_accept_traversal, merged, 6, COP_DRAW_INDEPENDENT);
}

/* ---- The running example, test by test
 * -------------------------------------------------------- */

static const struct cop_row *same_at(void *context, int32_t node)
{
    (void)node;
    return context;
}

struct notes {
    double asked[8]; /* probabilities of the accept tests, all answered no but the `last` */
    int n, last;
};
static bool note_flip(void *state, uint32_t purpose, uint32_t key, double probability)
{
    (void)purpose, (void)key;
    struct notes *notes = state;
    notes->asked[notes->n++] = probability;
    return notes->n == notes->last;
}
static cop_token note_pick(void *state, uint32_t purpose, uint32_t key,
                           const struct cop_weights *weights)
{
    (void)purpose, (void)key, (void)state;
    double row[3];
    weights->fill(weights->context, 0, 3, row);
    return row[0] > row[1] ? row[0] > row[2] ? 0 : 2 : row[1] > row[2] ? 1 : 2;
}

Test(traversal, weights_of_the_paper)
{
    static const struct cop_draws_ops ops = {.flip = note_flip, .pick = note_pick};
    struct cop_row target = {.kind = COP_ROW_DENSE, .vocab = 3, .dense = three_target.row[0]};
    struct cop_row draft = {.kind = COP_ROW_DENSE, .vocab = 3, .dense = three_draft.row[0]};
    struct cop_tree tree;
    cr_assert_eq(cop_tree_init(&tree, 8, NULL), COP_OK);
    (void)cop_tree_add(&tree, 0, 0, 0);
    (void)cop_tree_add(&tree, 0, 2, 0);
    (void)cop_tree_add(&tree, 1, 1, 0);
    (void)cop_tree_add(&tree, 1, 2, 0);
    (void)cop_tree_add(&tree, 2, 0, 0);
    /* ab, ac, a without children, ca, c without children (P = (0, 1/3, 2/3), so w(c) = 1). */
    const double expected[] = {2.0 / 3, 7.0 / 11, 0, .5, 1};
    const int32_t accepted[][2] = {{1, 3}, {1, 4}, {1}, {2, 5}, {2}};
    for (int last = 1; last <= 6; last++) {
        int32_t nodes[8];
        struct notes notes = {.last = last};
        struct cop_error error = {0};
        struct cop_draws draws = {.ops = &ops, .state = &notes, .error = &error};
        struct cop_verify_in in = {.tree = &tree,
                                   .target = {same_at, &target},
                                   .draft = {same_at, &draft},
                                   .draws = &draws};
        struct cop_verdict verdict = {.accepted = nodes};
        cr_assert_eq(cop_accept_traversal.verify(NULL, &in, &verdict, &error), COP_OK);
        cr_assert_eq(notes.n, last < 6 ? last : 5);
        for (int i = 0; i < notes.n; i++) {
            NEAR(notes.asked[i], expected[i]);
        }
        int32_t n = last == 6 ? 0 : last == 3 || last == 5 ? 1 : 2;
        cr_expect_eq(verdict.n_accepted, n);
        for (int32_t i = 0; i < n; i++) {
            cr_expect_eq(verdict.accepted[i], accepted[last - 1][i]);
        }
    }
    cop_tree_release(&tree);
}

/* ---- Written out with rows of its own for every node, and a public fault
 * ------------------------ */

enum fault { SOUND, WEIGHT_MIN_1, SIBLINGS_KEEP_Q, WITHOUT_WEIGHT };
static enum fault fault;

struct node_law {
    double w, p[5], q[5];
};
static const struct cop_verify_in *in_of;

static void load(struct node_law *law, int32_t node, double w, int32_t child)
{
    int32_t vocab = cop_rows_at(&in_of->target, node)->vocab;
    law->w = w;
    cop_row_fill(cop_rows_at(&in_of->target, node), 0, vocab, law->p);
    if (child > 0) {
        cop_row_fill(cop_rows_at(&in_of->draft, child), 0, vocab, law->q);
    }
}

/* The law of `node` once the child that carries x has failed. */
static void fail(struct node_law *law, cop_token x, int32_t vocab, bool is_root)
{
    double above = 0, left = 0;
    for (int32_t t = 0; t < vocab; t++) {
        double w = fault == WITHOUT_WEIGHT ? 1 : law->w;
        law->p[t] = fmax(0, w * law->p[t] - law->q[t]);
        above += law->p[t];
        law->q[t] = t == x && fault != SIBLINGS_KEEP_Q ? 0 : law->q[t];
        left += law->q[t];
    }
    for (int32_t t = 0; t < vocab; t++) {
        law->p[t] = above > 0 ? law->p[t] / above : 0;
        law->q[t] = left > 0 ? law->q[t] / left : 0;
    }
    double w = above > 0 ? above / (above + 1 - law->w) : law->w < 1 ? 0 : 1;
    law->w = is_root ? 1 : fault == WEIGHT_MIN_1 ? fmin(1, above) : w;
}

static bool try_node(int32_t node, double w, struct cop_verdict *out, int32_t depth)
{
    const struct cop_tree *tree = in_of->tree;
    int32_t vocab = cop_rows_at(&in_of->target, node)->vocab;
    struct node_law law;
    load(&law, node, w, cop_tree_child(tree, node, 0));
    if (node > 0) {
        out->accepted[depth - 1] = node;
    }
    for (int32_t j = 0, child; (child = cop_tree_child(tree, node, j)) > 0; j++) {
        cop_token x = tree->token[child];
        double q = law.q[x];
        if (try_node(child, q > 0 ? fmin(1, law.w * law.p[x] / q) : 0, out, depth + 1)) {
            return true;
        }
        fail(&law, x, vocab, node == 0);
    }
    if (node > 0 && !cop_flip(in_of->draws, 1, tree->key[node], law.w)) {
        return false;
    }
    struct cop_row row = {.kind = COP_ROW_DENSE, .vocab = vocab, .dense = law.p};
    struct cop_weights weights = cop_row_weights(&row);
    if (!(cop_weights_sum(&weights) > 0)) { /* rounding */
        weights = cop_row_weights(cop_rows_at(&in_of->target, node));
    }
    out->n_accepted = depth;
    out->last = cop_pick(in_of->draws, 2, 0, &weights);
    return true;
}

static enum cop_status verify_written_out(const void *state, const struct cop_verify_in *in,
                                          struct cop_verdict *out, struct cop_error *err)
{
    (void)state, (void)err;
    in_of = in;
    (void)try_node(0, 1, out, 0);
    return COP_OK;
}
static const struct cop_claim any_tree[] = {
    {COP_DRAW_WITHOUT_REPLACEMENT, COP_SHAPE_TREE, false}, {.draw = COP_DRAW_AUTO}};
static const struct cop_rule_ops written_out = {
    .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_RULE, .name = "written_out"},
    .lossless_for = any_tree,
    .verify = verify_written_out};

Test(traversal, is_what_the_paper_writes)
{
    fault = SOUND;
    expect_same_laws(&cop_accept_traversal, &written_out, shapes, 9);
}

Test(traversal, broken_variants_are_seen)
{
    for (fault = WEIGHT_MIN_1; fault <= WITHOUT_WEIGHT; fault++) {
        struct cop_law law =
            law_of(fixed_case(&written_out, widths_of("22"), &three_target, &three_draft));
        cr_expect_gt(law.total_variation, .01, "fault %d: %g", fault, law.total_variation);
        cop_law_release(&law);
    }
}
