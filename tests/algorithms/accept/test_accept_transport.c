/* Rules that couple a node's children with the target as a whole: transport and canonical.
 * Lossless whatever the head holds, as good as the optimum where it holds all tokens. */
#include "algorithms/accept/coupling.h"
#include "core/cycle/law/optimum.h"
#include "tests/algorithms/laws.h"

extern const struct cop_rule_ops cop_accept_transport, cop_accept_canonical;

static struct fixed_row targets[] = {
    {2, {{1.0 / 3, 2.0 / 3}}}, {3, {{.5, .3, .2}}}, {4, {{.1, .2, .3, .4}}}};
static struct fixed_row drafts[] = {
    {2, {{2.0 / 3, 1.0 / 3}}}, {3, {{.2, .3, .5}}}, {4, {{.4, .3, .2, .1}}}};
enum { A, B, C };

static struct cop_part *rule_with(const struct cop_rule_ops *rule, int32_t vocabulary)
{
    struct cop_part *part = cop_part_new(&rule->plug);
    struct cop_error err;
    cr_assert_eq(
        cop_option_set_number(&part->plug->options[0], part->state, vocabulary, "t", &err),
        COP_OK);
    cr_assert_eq(cop_part_prepare(part, &err), COP_OK, "%s", err.text);
    return part;
}

static struct cop_law_case case_of(struct cop_part *rule, int rows, struct cop_part *builder,
                                   enum cop_draw draw)
{
    return (struct cop_law_case){.rule = rule,
                                 .builder = builder,
                                 .draw = draw,
                                 .vocab = targets[rows].vocab,
                                 .target = fixed_rows,
                                 .draft = fixed_rows,
                                 .target_context = &targets[rows],
                                 .draft_context = &drafts[rows]};
}

/* ---- Published values
 * ------------------------------------------------------------------------- */

static const struct {
    int rows, k;
    double independent, without; /* the optimum of the draw */
} table[] = {{A, 1, 2.0 / 3, 2.0 / 3},        {A, 2, 8.0 / 9, 1},
             {B, 1, 7.0 / 10, 7.0 / 10},      {B, 2, 43.0 / 50, 69.0 / 70},
             {B, 3, 247.0 / 250, 1},          {C, 1, 3.0 / 5, 3.0 / 5},
             {C, 2, 79.0 / 100, 701.0 / 840}, {C, 3, 871.0 / 1000, 1}};

static double accepted_by(const struct cop_rule_ops *rule, int rows, struct cop_part *builder,
                          enum cop_draw draw)
{
    struct cop_law law = law_of(case_of(part_of(&rule->plug), rows, builder, draw));
    double accepted = law.expected_accepted;
    cr_expect_lt(law.total_variation, 1e-14);
    cop_law_release(&law);
    return accepted;
}

Test(transport, one_level_as_published)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char digits[2] = {(char)('0' + table[i].k), 0};
        NEAR(accepted_by(&cop_accept_transport, table[i].rows, widths_of(digits),
                         COP_DRAW_INDEPENDENT),
             table[i].independent);
        NEAR(accepted_by(&cop_accept_transport, table[i].rows, widths_of(digits),
                         COP_DRAW_WITHOUT_REPLACEMENT),
             table[i].without);
        NEAR(accepted_by(&cop_accept_transport, table[i].rows,
                         independent_paths_of(table[i].k, 1), COP_DRAW_INDEPENDENT),
             table[i].independent);
        NEAR(accepted_by(&cop_accept_canonical, table[i].rows, widths_of(digits),
                         COP_DRAW_INDEPENDENT),
             table[i].independent);
        NEAR(accepted_by(&cop_accept_canonical, table[i].rows,
                         independent_paths_of(table[i].k, 1), COP_DRAW_INDEPENDENT),
             table[i].independent);
    }
}

Test(transport, the_first_claim_is_without_replacement)
{
    NEAR(accepted_by(&cop_accept_transport, B, widths_of("2"), COP_DRAW_AUTO), 69.0 / 70);
    /* Deterministic children are met where the target goes. */
    NEAR(accepted_by(&cop_accept_transport, B, widths_of("2"), COP_DRAW_DETERMINISTIC), .5);
}

/* ---- Lossless, and how much is accepted
 * ------------------------------------------------------- */

struct builder_case {
    const char *kind, *text;
    int32_t vocab_limit;
};
static const struct builder_case builders[] = {
    {"chain", "1", 5},   {"chain", "3", 3},   {"widths", "2", 5},   {"widths", "3", 4},
    {"widths", "21", 3}, {"widths", "22", 2}, {"widths", "111", 3}, {"paths", "0 00 1", 3},
    {"merged", "21", 5}, {"merged", "31", 4}, {"merged", "22", 3},  {"merged", "32", 2}};

static struct cop_part *build(const struct builder_case *b)
{
    return b->kind[0] == 'c'   ? chain_of(b->text[0] - '0')
           : b->kind[0] == 'w' ? widths_of(b->text)
           : b->kind[0] == 'm' ? independent_paths_of(b->text[0] - '0', b->text[1] - '0')
                               : paths_of(b->text);
}

static struct cop_law_case mixed_case(struct mixed_row *rows, enum flavour flavour,
                                      int32_t vocab, uint32_t salt, struct cop_part *rule,
                                      struct cop_part *builder, enum cop_draw draw)
{
    rows[0] = (struct mixed_row){vocab, flavour, salt, false};
    rows[1] = (struct mixed_row){vocab, flavour, salt, true};
    return (struct cop_law_case){.rule = rule,
                                 .builder = builder,
                                 .draw = draw,
                                 .vocab = vocab,
                                 .target = mixed_rows,
                                 .draft = mixed_rows,
                                 .target_context = &rows[0],
                                 .draft_context = &rows[1]};
}

static double optimum_of(const struct cop_law_case *what)
{
    struct cop_optimum optimum;
    struct cop_error err = {0};
    cr_assert_eq(cop_optimum_find(&optimum, what, &err), COP_OK, "%s", err.text);
    double value = optimum.value;
    cop_optimum_release(&optimum);
    return value;
}

/* Lossless for every head; with all tokens in the head optimal at one level (`reaches`), and
 * nowhere above the optimum. */
static void expect_coupling(const struct cop_rule_ops *rule, enum cop_draw draw,
                            const struct builder_case *b, enum flavour flavour, bool reaches)
{
    struct mixed_row rows[2];
    for (int32_t vocab = 2; vocab <= b->vocab_limit; vocab++) {
        for (int32_t head = vocab; head >= 1; head--) {
            struct cop_law_case what =
                mixed_case(rows, flavour, vocab, 5, rule_with(rule, head), build(b), draw);
            double optimum = optimum_of(&what);
            struct cop_law law = law_of(what);
            cr_expect_lt(law.total_variation, 1e-13, "%s, %s, %s %s, rows %d, %d of %d: %g",
                         rule->plug.name, cop_draw_name(draw), b->kind, b->text, flavour, head,
                         vocab, law.total_variation);
            cr_expect_leq(law.expected_accepted, optimum + 1e-13);
            if (reaches && law.depth == 1 && head == vocab) {
                NEAR(law.expected_accepted, optimum);
            }
            cop_law_release(&law);
        }
    }
}

static void expect_couplings(const struct cop_rule_ops *rule, enum cop_draw draw)
{
    for (size_t i = 0; i < sizeof builders / sizeof *builders; i++) {
        const struct builder_case *b = &builders[i];
        bool is_merged = b->kind[0] == 'm', is_three = b->text[0] == '3' && !b->text[1];
        if (is_merged && draw != COP_DRAW_INDEPENDENT) {
            continue;
        }
        /* The tournament is greedy from the third child on. */
        bool reaches = rule == &cop_accept_transport || !(is_three || is_merged);
        for (int flavour = 0; flavour < FLAVOURS; flavour++) {
            expect_coupling(rule, draw, b, flavour, reaches);
        }
    }
}

Test(transport, is_lossless_and_optimal_for_independent)
{
    expect_couplings(&cop_accept_transport, COP_DRAW_INDEPENDENT);
}

Test(transport, is_lossless_and_optimal_without_replacement)
{
    expect_couplings(&cop_accept_transport, COP_DRAW_WITHOUT_REPLACEMENT);
}

Test(transport, is_lossless_and_optimal_for_deterministic)
{
    expect_couplings(&cop_accept_transport, COP_DRAW_DETERMINISTIC);
}

Test(canonical, is_lossless_and_optimal_with_two_children)
{
    expect_couplings(&cop_accept_canonical, COP_DRAW_INDEPENDENT);
}

Test(transport, optimal_on_more_rows)
{
    struct mixed_row rows[2];
    for (uint32_t salt = 100; salt < 140; salt++) {
        for (int i = 0; i < 2; i++) {
            enum cop_draw draw = i ? COP_DRAW_INDEPENDENT : COP_DRAW_WITHOUT_REPLACEMENT;
            struct cop_law_case what = mixed_case(rows, salt % 2 ? ZEROS : PLAIN, 5, salt,
                                                  part_of(&cop_accept_transport.plug),
                                                  widths_of(&"2\0003"[salt / 2 % 2 * 2]), draw);
            double optimum = optimum_of(&what);
            struct cop_law law = law_of(what);
            NEAR(law.expected_accepted, optimum);
            cop_law_release(&law);
        }
    }
}

Test(canonical, optimal_with_two_children_on_more_rows)
{
    struct mixed_row rows[2];
    for (uint32_t salt = 100; salt < 160; salt++) {
        struct cop_law_case what =
            mixed_case(rows, salt % 2 ? ZEROS : PLAIN, 6, salt,
                       part_of(&cop_accept_canonical.plug), widths_of("2"), COP_DRAW_AUTO);
        double optimum = optimum_of(&what);
        struct cop_law law = law_of(what);
        cr_expect_lt(law.total_variation, 1e-13);
        NEAR(law.expected_accepted, optimum);
        cop_law_release(&law);
    }
}

/* ---- Identities
 * ------------------------------------------------------------------------------- */

/* One drafted token: the token rule's law, outcome by outcome, whatever the head holds. */
Test(transport, one_child_is_the_token_rule)
{
    static const struct cop_rule_ops *const rules[] = {&cop_accept_transport,
                                                       &cop_accept_canonical};
    struct mixed_row rows[2];
    for (int r = 0; r < 2; r++) {
        for (int flavour = 0; flavour < FLAVOURS; flavour++) {
            for (int32_t head = 1; head <= 4; head++) {
                struct cop_law law =
                    law_of(mixed_case(rows, flavour, 4, 3, rule_with(rules[r], head),
                                      chain_of(2), COP_DRAW_INDEPENDENT));
                struct cop_law token =
                    law_of(mixed_case(rows, flavour, 4, 3, part_of(&cop_accept_token.plug),
                                      chain_of(2), COP_DRAW_INDEPENDENT));
                cr_assert_eq(law.n_outcomes, token.n_outcomes, "%s, rows %d, head %d",
                             rules[r]->plug.name, flavour, head);
                for (int64_t i = 0; i < law.n_outcomes; i++) {
                    cr_expect_eq(law.outcomes[i].n_accepted, token.outcomes[i].n_accepted);
                    NEAR(law.outcomes[i].probability, token.outcomes[i].probability);
                }
                cop_law_release(&law);
                cop_law_release(&token);
            }
        }
    }
}

Test(transport, is_match_at_temperature_zero)
{
    static const struct cop_rule_ops *const rules[] = {&cop_accept_transport,
                                                       &cop_accept_canonical};
    struct mixed_row rows[2];
    for (int r = 0; r < 2; r++) {
        for (size_t i = 0; i < sizeof builders / sizeof *builders; i++) {
            for (int flavour = 0; flavour < FLAVOURS; flavour++) {
                struct cop_law laws[2];
                for (int m = 0; m < 2; m++) {
                    const struct cop_rule_ops *rule = m ? &cop_accept_match : rules[r];
                    struct cop_law_case what =
                        mixed_case(rows, flavour, builders[i].vocab_limit, 5,
                                   part_of(&rule->plug), build(&builders[i]), COP_DRAW_AUTO);
                    what.is_zero_temperature = true;
                    laws[m] = law_of(what);
                }
                NEAR(laws[0].total_variation, 0);
                NEAR(laws[0].expected_accepted, laws[1].expected_accepted);
                cop_law_release(&laws[0]);
                cop_law_release(&laws[1]);
            }
        }
    }
}

Test(transport, several_drafters)
{
    static struct fixed_row rows = {4, {{.4, .3, .2, .1}, {.1, .1, .4, .4}, {0, .5, .5, 0}}};
    static const struct cop_rule_ops *const rules[] = {&cop_accept_transport,
                                                       &cop_accept_canonical};
    for (int r = 0; r < 2; r++) {
        for (int32_t n = 2; n <= 3; n++) {
            for (int32_t head = 1; head <= 4; head++) {
                struct cop_law_case what =
                    case_of(rule_with(rules[r], head), C, widths_of(n == 2 ? "2" : "3"),
                            COP_DRAW_INDEPENDENT);
                what.n_drafters = n;
                what.draft_context = &rows;
                double optimum = optimum_of(&what);
                struct cop_law law = law_of(what);
                cr_expect_lt(law.total_variation, 1e-14, "%s, %d drafters, head %d: %g",
                             rules[r]->plug.name, n, head, law.total_variation);
                cr_expect_leq(law.expected_accepted, optimum + 1e-13);
                if (head == 4 && (r == 0 || n == 2)) {
                    NEAR(law.expected_accepted, optimum);
                }
                cop_law_release(&law);
            }
        }
    }
}

/* Nearly all mass on one token: what is left of it must not be one minus the rest. */
Test(transport, small_rests_are_exact)
{
    static struct fixed_row target = {4, {{.25, .25, .25, .25}}};
    static struct fixed_row draft = {4, {{1 - 4e-13, 1e-13, 2e-13, 1e-13}}};
    for (int32_t head = 1; head <= 4; head++) {
        struct cop_law_case what = case_of(rule_with(&cop_accept_transport, head), C,
                                           widths_of("2"), COP_DRAW_WITHOUT_REPLACEMENT);
        what.target_context = &target;
        what.draft_context = &draft;
        struct cop_law law = law_of(what);
        cr_expect_lt(law.total_variation, 1e-12, "head %d: %g", head, law.total_variation);
        cop_law_release(&law);
    }
}

/* ---- The plan
 * --------------------------------------------------------------------------------- */

/* A plan that anybody has tampered with is feasible again once settled: no state gives more
 * than its law, no token gets more than its target, and used is what is given. */
Test(transport, a_settled_plan_is_feasible)
{
    static const double p[] = {.1, .2, .3, .25, .15}, q[] = {.4, .3, .15, .1, .05};
    struct cop_row target = {.kind = COP_ROW_DENSE, .vocab = 5, .dense = p};
    struct cop_row draft = {.kind = COP_ROW_DENSE, .vocab = 5, .dense = q};
    const struct cop_row *rows[] = {&draft, &draft, &draft};
    int32_t children[] = {1, 2, 3};
    struct cop_siblings siblings = {
        .n = 3, .n_draws = 3, .children = children, .drafts = rows, .same_draft = true};
    for (uint32_t salt = 0; salt < 50; salt++) {
        struct cop_head head;
        struct cop_transport plan;
        cop_head_fill(&head, &siblings, &target, 1 + (int32_t)(salt % 5));
        cr_assert_eq(cop_transport_solve(&plan, &siblings, &head, salt % 2, NULL), COP_OK);
        int32_t n = plan.n + 1;
        double law = 0;
        for (int32_t s = 0; s < plan.n_states; s++) {
            law += plan.law[s];
            for (int32_t i = 0; i < n; i++) {
                plan.gives[s * n + i] *= mix(salt * 1000 + (uint32_t)(s * n + i)) % 5 / 2.0;
            }
        }
        NEAR(law, 1);
        cop_transport_settle(&plan, head.target);
        double used[COP_HEAD_ITEMS] = {0};
        for (int32_t s = 0; s < plan.n_states; s++) {
            double sum = 0;
            for (int32_t i = 0; i < n; i++) {
                sum += plan.gives[s * n + i];
                used[i] += plan.gives[s * n + i];
            }
            cr_expect_leq(sum, plan.law[s] + 1e-16);
        }
        for (int32_t i = 0; i < n; i++) {
            NEAR(used[i], plan.used[i]);
            cr_expect(i == plan.n || used[i] <= head.target[i] + 1e-16);
        }
        cop_transport_release(&plan);
    }
}

Test(transport, the_head_shrinks_with_the_number_of_draws)
{
    static const int32_t expected[][3] = {/* draws, of 16 tokens, of more */
                                          {1, 16, 16}, {2, 16, 15}, {3, 16, 8},  {4, 12, 7},
                                          {5, 11, 7},  {6, 10, 7},  {10, 10, 7}, {4096, 10, 7}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        for (int more = 0; more < 2; more++) {
            int32_t n = cop_transport_head(expected[i][0], COP_HEAD_LIMIT, 16 + more);
            cr_expect_eq(n, expected[i][1 + more], "%d draws, %d tokens: %d", expected[i][0],
                         16 + more, n);
        }
    }
    cr_expect_eq(cop_transport_head(64, 3, 16), 3);
}

/* ---- Broken on purpose
 * ------------------------------------------------------------------------ */

/* Takes independent children for ones without replacement, and the other way round. */
static enum cop_status mistaken(const void *state, const struct cop_verify_in *in,
                                struct cop_verdict *out, struct cop_error *err)
{
    struct cop_tree tree = *in->tree;
    struct cop_verify_in other = *in;
    tree.draw =
        tree.draw == COP_DRAW_INDEPENDENT ? COP_DRAW_WITHOUT_REPLACEMENT : COP_DRAW_INDEPENDENT;
    other.tree = &tree;
    return cop_accept_transport.verify(state, &other, out, err);
}

Test(transport, the_wrong_law_of_the_children_shows)
{
    for (int i = 0; i < 2; i++) {
        struct cop_rule_ops broken = cop_accept_transport;
        broken.verify = mistaken;
        struct cop_law law =
            law_of(case_of(part_of(&broken.plug), B, widths_of("2"),
                           i ? COP_DRAW_INDEPENDENT : COP_DRAW_WITHOUT_REPLACEMENT));
        cr_expect_gt(law.total_variation, 1e-3);
        cop_law_release(&law);
    }
}

/* ---- Widths that elder siblings decide
 * -------------------------------------------------------- */

/* Another request, and in it two children, after every child that is not token 1. */
static enum cop_status grow_by_requests(const void *state, struct cop_grow *grow,
                                        struct cop_error *err)
{
    (void)state, (void)err;
    struct cop_tree *tree = grow->tree;
    int32_t added = grow->level == 1;
    while (added > 0 && tree->size < 4 && tree->token[tree->size - 1] != 1) {
        added = cop_grow_draw(grow, 0, tree->size == 1 ? 1 : 2);
    }
    return COP_OK;
}
/* The builder's own race, of which it takes what it likes. */
static enum cop_status grow_by_race(const void *state, struct cop_grow *grow,
                                    struct cop_error *err)
{
    (void)state, (void)err;
    cop_token ids[3];
    int32_t n = grow->level > 1 ? 0
                                : cop_race(grow->draws, COP_PURPOSE_DRAFT, grow->tree->key[0],
                                           &grow->rows[0], 3, ids);
    for (int32_t j = 0; j < n && (j == 0 || ids[j - 1] != 1); j++) {
        (void)cop_grow_add(grow, 0, ids[j]);
    }
    return COP_OK;
}
static enum cop_shape a_tree(const void *state)
{
    (void)state;
    return COP_SHAPE_TREE;
}
static int32_t one(const void *state)
{
    (void)state;
    return 1;
}
static int32_t three(const void *state)
{
    (void)state;
    return 3;
}

Test(transport, later_children_are_tried_one_by_one)
{
    static const struct cop_rule_ops *const rules[] = {&cop_accept_transport,
                                                       &cop_accept_canonical};
    static struct cop_builder_ops builder = {
        .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_BUILDER, .name = "elders"},
        .draws =
            COP_DRAW_BIT(COP_DRAW_INDEPENDENT) | COP_DRAW_BIT(COP_DRAW_WITHOUT_REPLACEMENT),
        .shape = a_tree,
        .depth = one,
        .nodes = three};
    static const struct { /* rule, draw, grow */
        int rule;
        enum cop_draw draw;
        bool races;
    } cases[] = {{0, COP_DRAW_INDEPENDENT, false},
                 {0, COP_DRAW_WITHOUT_REPLACEMENT, false},
                 {0, COP_DRAW_WITHOUT_REPLACEMENT, true},
                 {1, COP_DRAW_INDEPENDENT, false}};
    struct mixed_row rows[2];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        builder.grow = cases[i].races ? grow_by_race : grow_by_requests;
        for (int flavour = 0; flavour < FLAVOURS; flavour++) {
            for (int32_t head = 1; head <= 5; head++) {
                struct cop_law_case what =
                    mixed_case(rows, flavour, 5, 11, rule_with(rules[cases[i].rule], head),
                               part_of(&builder.plug), cases[i].draw);
                double optimum = optimum_of(&what);
                struct cop_law law = law_of(what);
                cr_expect_lt(law.total_variation, 1e-14, "%s, case %zu, rows %d, head %d: %g",
                             rules[cases[i].rule]->plug.name, i, flavour, head,
                             law.total_variation);
                cr_expect_leq(law.expected_accepted, optimum + 1e-13);
                cop_law_release(&law);
            }
        }
    }
}

/* What a further request is hidden from is what makes it exact. */
static enum cop_status forgetful(const void *state, const struct cop_verify_in *in,
                                 struct cop_verdict *out, struct cop_error *err)
{
    for (int32_t node = 0; node < in->tree->size; node++) {
        in->tree->flags[node] &= (uint8_t)~COP_NODE_LATER;
    }
    return cop_accept_transport.verify(state, in, out, err);
}

Test(transport, a_plan_for_all_children_would_show)
{
    struct cop_builder_ops builder = {
        .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_BUILDER, .name = "elders"},
        .draws = COP_DRAW_BIT(COP_DRAW_INDEPENDENT),
        .shape = a_tree,
        .depth = one,
        .nodes = three,
        .grow = grow_by_requests};
    struct cop_rule_ops broken = cop_accept_transport;
    broken.verify = forgetful;
    struct cop_law law =
        law_of(case_of(part_of(&broken.plug), C, part_of(&builder.plug), COP_DRAW_INDEPENDENT));
    cr_expect_gt(law.total_variation, 1e-3);
    cop_law_release(&law);
}
