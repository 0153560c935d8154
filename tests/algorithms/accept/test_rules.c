/* Acceptance rules decision by decision, with coins by hand. */
#include "tests/algorithms/laws.h"

static const double target_rows[][3] = {{.5, .3, .2}, {.2, .2, .6}, {0, 1, 0}, {.1, .8, .1}};
static const double draft_row[] = {.2, .3, .5};

struct rows {
    struct cop_row items[8];
    int32_t n;
};
static const struct cop_row *row_at(void *context, int32_t node)
{
    struct rows *rows = context;
    return node < rows->n ? &rows->items[node] : NULL;
}

static struct cop_row dense(const double *p)
{
    return (struct cop_row){.kind = COP_ROW_DENSE, .vocab = 3, .dense = p};
}

static struct cop_tree tree;
static struct rows target, draft;
static int32_t accepted[8];
static struct cop_verdict verdict;
static struct cop_error error, err;
static struct cop_coin_list list;

/* Node i's row is target_rows[i]; every token was drawn from draft_row. */
static void start(void)
{
    cr_assert_eq(cop_tree_init(&tree, 8, NULL), COP_OK);
    target.n = draft.n = 8;
    for (int i = 0; i < 8; i++) {
        target.items[i] = dense(target_rows[i % 4]);
        draft.items[i] = dense(draft_row);
    }
}
static void stop(void)
{
    cop_tree_release(&tree);
}
TestSuite(rules, .init = start, .fini = stop);

static enum cop_status verify(const struct cop_rule_ops *rule, const double *coins, int32_t n)
{
    error = (struct cop_error){.code = COP_OK};
    list = (struct cop_coin_list){.coins = coins, .count = n};
    struct cop_draws draws = cop_coin_list_draws(&list, &error);
    struct cop_verify_in in = {
        .tree = &tree, .target = {row_at, &target}, .draft = {row_at, &draft}, .draws = &draws};
    verdict = (struct cop_verdict){.accepted = accepted};
    enum cop_status status = rule->verify(NULL, &in, &verdict, &err);
    cr_expect_eq(error.code, COP_OK, "%s", error.text);
    cr_expect_eq(list.used, n, "%d of %d coins used", list.used, n);
    return status == COP_OK ? cop_verdict_check(&in, &verdict, &err) : status;
}

static void grow_chain(const cop_token *tokens, int32_t n)
{
    cop_tree_reset(&tree, 0);
    for (int32_t i = 0; i < n; i++) {
        (void)cop_tree_add(&tree, i, tokens[i], i);
    }
}

#define EXPECT(n, token, from)                                                                 \
    do {                                                                                       \
        cr_expect_eq(verdict.n_accepted, n);                                                   \
        cr_expect_eq(verdict.last, token, "last token %d", verdict.last);                      \
        cr_expect_eq(verdict.origin, from);                                                    \
    } while (0)

Test(rules, token)
{
    const cop_token tokens[] = {2, 1};
    grow_chain(tokens, 2);
    /* Node 1: .2 / .5 = .4; node 2 after it: .2 / .3. */
    const double rejects[] = {.4, .0}, keeps_one[] = {.39, .67, .5},
                 keeps_both[] = {.0, .66, .99};
    cr_expect_eq(verify(&cop_accept_token, rejects, 2), COP_OK);
    EXPECT(0, 0, COP_ORIGIN_RECOVERED); /* residual (.3, 0, 0) */
    cr_expect_eq(verify(&cop_accept_token, keeps_one, 3), COP_OK);
    EXPECT(1, 2, COP_ORIGIN_RECOVERED); /* residual (0, 0, .1) */
    cr_expect_eq(verify(&cop_accept_token, keeps_both, 3), COP_OK);
    EXPECT(2, 1, COP_ORIGIN_BONUS); /* row 2 is all token 1 */
    cr_expect_eq(accepted[0], 1);
    cr_expect_eq(accepted[1], 2);
}

Test(rules, token_edges)
{
    static const double zero_target[] = {0, .5, .5}, zero_draft[] = {0, .5, .5},
                        twin[] = {.5, .3, .2};
    const cop_token tokens[] = {0};
    const double lucky[] = {0, .3}, late[] = {.999999, .9};
    grow_chain(tokens, 1);
    /* A token that the target excludes is never kept, u = 0 included. */
    target.items[0] = dense(zero_target);
    cr_expect_eq(verify(&cop_accept_token, lucky, 2), COP_OK);
    EXPECT(0, 1, COP_ORIGIN_RECOVERED);
    /* A token that the draft row excludes was not drawn from it: rejected. */
    target.items[0] = dense(twin);
    draft.items[1] = dense(zero_draft);
    cr_expect_eq(verify(&cop_accept_token, lucky, 2), COP_OK);
    EXPECT(0, 0, COP_ORIGIN_RECOVERED); /* residual (.5, 0, 0) */
    /* Equal rows keep everything. */
    draft.items[1] = dense(twin);
    cr_expect_eq(verify(&cop_accept_token, late, 2), COP_OK);
    EXPECT(1, 2, COP_ORIGIN_BONUS);
    /* A lone root: the bonus token of plain decoding. */
    cop_tree_reset(&tree, 0);
    cr_expect_eq(verify(&cop_accept_token, lucky, 1), COP_OK);
    EXPECT(0, 0, COP_ORIGIN_BONUS);
    grow_chain(tokens, 1);
    draft.n = 1;
    cr_expect_eq(verify(&cop_accept_token, late, 0), COP_ERR_ARGUMENT);
    cr_expect_str_eq(err.text, "accept.token needs every draft row");
}

Test(rules, token_takes_points_as_point_masses)
{
    static const cop_token point[] = {2};
    const cop_token tokens[] = {2};
    grow_chain(tokens, 1);
    draft.items[1] =
        (struct cop_row){.kind = COP_ROW_POINTS, .vocab = 3, .ids = point, .count = 1};
    const double keeps[] = {.19, .5}, rejects[] = {.2, .63};
    cr_expect_eq(verify(&cop_accept_token, keeps, 2), COP_OK);
    EXPECT(1, 2, COP_ORIGIN_BONUS);
    cr_expect_eq(verify(&cop_accept_token, rejects, 2), COP_OK);
    EXPECT(0, 1, COP_ORIGIN_RECOVERED); /* .5 and .3 remain: .63 of .8 is past .5 */
}

/* Children 1 and 2 of the root carry 2 and 0; 3 and 4 below node 2 carry 1 and 1. */
static void grow_tree(void)
{
    cop_tree_reset(&tree, 0);
    (void)cop_tree_add(&tree, 0, 2, 0);
    (void)cop_tree_add(&tree, 0, 0, 0);
    (void)cop_tree_add(&tree, 2, 1, 1);
    (void)cop_tree_add(&tree, 2, 1, 1);
}

Test(rules, match)
{
    grow_tree();
    cr_expect_eq(verify(&cop_accept_match, NULL, 0), COP_OK);
    EXPECT(2, 1, COP_ORIGIN_BONUS); /* 0 best at the root, 1 after node 2, 1 after node 3 */
    cr_expect_eq(accepted[0], 2);
    cr_expect_eq(accepted[1], 3, "the first of equal siblings");
    static const double tied[] = {.2, .4, .4};
    target.items[0] = dense(tied);
    cr_expect_eq(verify(&cop_accept_match, NULL, 0), COP_OK);
    EXPECT(0, 1, COP_ORIGIN_RECOVERED);
    cop_tree_reset(&tree, 0);
    cr_expect_eq(verify(&cop_accept_match, NULL, 0), COP_OK);
    EXPECT(0, 1, COP_ORIGIN_BONUS);
}

Test(rules, sample_match)
{
    grow_tree();
    const double leaf[] = {.81, .3}, outside[] = {.6}, deep[] = {.49, .7, .95};
    cr_expect_eq(verify(&cop_accept_sample_match, leaf, 2), COP_OK);
    EXPECT(1, 1, COP_ORIGIN_BONUS); /* 2 drawn: node 1, a leaf; then .3 of row 1 is token 1 */
    cr_expect_eq(accepted[0], 1);
    cr_expect_eq(verify(&cop_accept_sample_match, outside, 1), COP_OK);
    EXPECT(0, 1, COP_ORIGIN_RECOVERED);
    cr_expect_eq(verify(&cop_accept_sample_match, deep, 3), COP_OK);
    EXPECT(2, 2, COP_ORIGIN_BONUS);
    cr_expect_eq(accepted[1], 3);
}

/* ---- Lengths
 * -------------------------------------------------------------------------------------- */

Test(rules, confidence_looks_at_the_frontier)
{
    grow_tree(); /* draft probabilities: node 1 .5, node 2 .2, nodes 3 and 4 .3 */
    static const int32_t nodes[] = {1, 2, 3};
    struct cop_part *part = part_of(&cop_length_confidence.plug);
    struct cop_length_in in = {.level = 2,
                               .tree = &tree,
                               .frontier = nodes,
                               .n_frontier = 2,
                               .draft = {row_at, &draft}};
    cr_expect(cop_length_confidence.more(part->state, &in), ".5 reaches .4");
    in.frontier = nodes + 1;
    cr_expect_not(cop_length_confidence.more(part->state, &in), ".2 and .3 do not");
    in.level = 1;
    cr_expect(cop_length_confidence.more(part->state, &in),
              "the first level is always drafted");
    in.level = 2;
    static const cop_token ids[] = {2, 0};
    draft.items[2] =
        (struct cop_row){.kind = COP_ROW_POINTS, .vocab = 3, .ids = ids, .count = 2};
    cr_expect(cop_length_confidence.more(part->state, &in), "points are sure, also the second");
    draft.n = 0;
    cr_expect(cop_length_confidence.more(part->state, &in), "so is what has no row");
    cop_part_free(part);
}

Test(rules, fixed_length)
{
    struct cop_part *part = part_of(&cop_length_fixed.plug);
    struct cop_length_in in = {.level = 4096};
    cr_expect(cop_length_fixed.more(part->state, &in), "everything by default");
    struct cop_error e;
    cr_assert_eq(cop_option_set_number(&part->plug->options[0], part->state, 2, "t", &e),
                 COP_OK);
    in.level = 2;
    cr_expect(cop_length_fixed.more(part->state, &in));
    in.level = 3;
    cr_expect_not(cop_length_fixed.more(part->state, &in));
    cop_part_free(part);
}
