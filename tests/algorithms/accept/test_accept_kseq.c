/* K-SEQ: the least rho, any rho beyond it, and what is refused. */
#include "tests/algorithms/level_laws.h"

static struct cop_part *kseq_of(double rho)
{
    struct cop_part *part = cop_part_new(&cop_accept_kseq.plug);
    struct cop_error err;
    cr_assert_eq(cop_option_set_number(&part->plug->options[0], part->state, rho, "t", &err),
                 COP_OK);
    cr_assert_eq(cop_part_prepare(part, &err), COP_OK, "%s", err.text);
    return part;
}

static struct cop_law_case with_rho(double rho, struct cop_part *builder, int rows)
{
    struct cop_law_case what = on_rows(&cop_accept_kseq, COP_DRAW_INDEPENDENT, builder, rows);
    cop_part_free((struct cop_part *)(uintptr_t)what.rule);
    what.rule = kseq_of(rho);
    return what;
}

static const struct {
    int rows;
    const char *widths;
    double accepted, rho, optimum; /* six digits are published */
} table[] = {{ROW_A, "2", 0.811420, 1.434259, 8.0 / 9},
             {ROW_B, "2", 0.791355, 1.456776, 43.0 / 50},
             {ROW_B, "3", 0.858519, 1.792593, 247.0 / 250},
             {ROW_C, "2", 0.75, 1.5, 79.0 / 100},
             {ROW_C, "3", 0.793950, 1.9395, 871.0 / 1000}};
enum { TABLE = sizeof table / sizeof *table };

Test(kseq, one_level)
{
    for (int i = 0; i < TABLE; i++) {
        double accepted = accepted_of(on_rows(&cop_accept_kseq, COP_DRAW_INDEPENDENT,
                                              widths_of(table[i].widths), table[i].rows));
        CLOSE(accepted, table[i].accepted, 5.1e-7);
        cr_expect_lt(accepted, table[i].optimum);
        cr_expect_gt(accepted, (1 - exp(-1)) * table[i].optimum, "SpecTr's guarantee");
    }
}

/* The message names the least valid rho. */
Test(kseq, too_small_a_rho_is_refused)
{
    for (int i = 0; i < TABLE; i++) {
        struct cop_law law;
        struct cop_error err = {0};
        struct cop_law_case what =
            with_rho(table[i].rho - 2e-6, widths_of(table[i].widths), table[i].rows);
        cr_expect_eq(cop_law_enumerate(&law, &what, &err), COP_ERR_ARGUMENT);
        free_case(&what);
        const char *least = strstr(err.text, "must be from ");
        cr_assert(least, "%s", err.text);
        CLOSE(strtod(least + 13, NULL), table[i].rho, 5.1e-7);
    }
}

/* Fewer children are kept, but the missing mass then holds drafted tokens, which luck finds. */
Test(kseq, a_larger_rho_is_lossless_too)
{
    for (int i = 0; i < TABLE; i++) {
        for (double rho = table[i].rho + 1e-6; rho < 5; rho += .7) {
            double accepted =
                accepted_of(with_rho(rho, widths_of(table[i].widths), table[i].rows));
            cr_expect_lt(accepted, table[i].optimum, "rho %g", rho);
        }
    }
    /* Row A, rho 2: token 0 is kept with 1/4, token 1 with 1, so a child with 1/2. Missing are
     * (1/12, 1/6) of the target, and where no child was kept both are token 0: 3/4 + 1/4 1/3.
     */
    NEAR(accepted_of(with_rho(2, widths_of("2"), ROW_A)), 5.0 / 6);
    struct cop_law law = law_of(with_rho(2, widths_of("22"), ROW_A));
    cr_expect_lt(law.total_variation, 1e-14, "two levels");
    cop_law_release(&law);
}

Test(kseq, counted_paths_are_as_good_as_ordered_ones)
{
    /* One level of K merged paths is one level of K siblings. */
    for (int i = 0; i < TABLE; i++) {
        double accepted = accepted_of(on_rows(&cop_accept_kseq, COP_DRAW_INDEPENDENT,
                                              independent_paths_of(table[i].widths[0] - '0', 1),
                                              table[i].rows));
        CLOSE(accepted, table[i].accepted, 5.1e-7);
    }
}

Test(kseq, equal_and_disjoint_rows_take_any_rho)
{
    struct cop_law_case what = with_rho(1, widths_of("3"), ROW_B);
    what.draft_context = &row_target[ROW_B];
    NEAR(accepted_of(what), 1);
    static struct fixed_row left = {3, {{1, 0, 0}}}, right = {3, {{0, .5, .5}}};
    what = with_rho(1, widths_of("3"), ROW_B);
    what.target_context = &left;
    what.draft_context = &right;
    NEAR(accepted_of(what), 0);
}

Test(kseq, lossless)
{
    cr_expect_eq(sweep(&cop_accept_kseq, COP_DRAW_INDEPENDENT, false, use_lossless),
                 SHAPE_CASES);
}

Test(kseq, lossless_with_several_drafters)
{
    static const struct shape_case shapes[] = {{'w', "2", 4}, {'w', "3", 3}, {'w', "21", 2}};
    for (int i = 0; i < 3; i++) {
        sweep_rows(&cop_accept_kseq, COP_DRAW_INDEPENDENT, &shapes[i], 2, use_lossless);
        sweep_rows(&cop_accept_kseq, COP_DRAW_INDEPENDENT, &shapes[i], 3, use_lossless);
    }
}

Test(kseq, is_match_at_temperature_zero)
{
    cr_expect_eq(sweep(&cop_accept_kseq, COP_DRAW_INDEPENDENT, true, use_match), SHAPE_CASES);
}

/* A second child is asked for when the first has an even token. */
static enum cop_status grow_by_token(const void *state, struct cop_grow *grow,
                                     struct cop_error *err)
{
    (void)state, (void)err;
    for (int32_t i = 0; grow->level <= 2 && i < grow->n_frontier; i++) {
        int32_t first = grow->tree->size;
        if (cop_grow_draw(grow, i, 1) == 1 && grow->tree->token[first] % 2 == 0) {
            (void)cop_grow_draw(grow, i, 2);
            cr_expect_eq(grow->tree->flags[first], 0);
            cr_expect_eq(grow->tree->flags[first + 1], COP_NODE_LATER);
            cr_expect_eq(grow->tree->flags[first + 2], 0);
        }
    }
    return COP_OK;
}
static enum cop_shape a_tree(const void *state)
{
    (void)state;
    return COP_SHAPE_TREE;
}
static int32_t two(const void *state)
{
    (void)state;
    return 2;
}
static int32_t twelve(const void *state)
{
    (void)state;
    return 12;
}
static const struct cop_builder_ops by_token = {
    .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_BUILDER, .name = "by_token"},
    .draws = COP_DRAW_BIT(COP_DRAW_INDEPENDENT),
    .shape = a_tree,
    .depth = two,
    .nodes = twelve,
    .grow = grow_by_token};

Test(kseq, width_may_depend_on_elder_siblings)
{
    const struct cop_rule_ops *rules[] = {&cop_accept_kseq, &cop_accept_recursive};
    for (int i = 0; i < 2 * FLAVOURS; i++) {
        struct mixed_row target = {2, (enum flavour)(i / 2), 4, false},
                         draft = {2, (enum flavour)(i / 2), 4, true};
        struct cop_law_case what =
            on_rows(rules[i % 2], COP_DRAW_INDEPENDENT, part_of(&by_token.plug), ROW_B);
        what.vocab = 2;
        what.target = what.draft = mixed_rows;
        what.target_context = &target;
        what.draft_context = &draft;
        use_lossless(what, rules[i % 2]->plug.name);
    }
}

Test(kseq, siblings_without_replacement_are_refused)
{
    struct cop_law_case what =
        on_rows(&cop_accept_kseq, COP_DRAW_WITHOUT_REPLACEMENT, widths_of("2"), ROW_B);
    struct cop_law law;
    struct cop_error err = {0};
    cr_expect_eq(cop_law_enumerate(&law, &what, &err), COP_ERR_UNSOUND);
    what.relaxed = true;
    law = law_of(what);
    cr_expect_gt(law.total_variation, .01, "and rightly: %g", law.total_variation);
    cop_law_release(&law);
}
