/* The rules on rows of a model (f32 logits, truncation), which the enumeration of laws never
 * sees: their passes take other ways through the rows. */
#include "core/cycle/contract/builder.h"
#include "core/cycle/law/enumerate.h"
#include "core/cycle/rows/arena.h"
#include "tests/algorithms/level_laws.h"

enum { LARGE = 2500 }; /* several blocks of a sum */

static struct cop_row target, draft;
static struct cop_row_arena *arena;
static float logits[2][LARGE];

static void start(void)
{
    arena = cop_row_arena_new();
    cr_assert(arena);
}
static void stop(void)
{
    cop_row_arena_free(arena);
}
TestSuite(rows, .init = start, .fini = stop);

/* Rows over `vocab` tokens of which about `kept` have probability (0: all); the salt decides
 * how far the draft is from the target. */
static void make_rows(int32_t vocab, int32_t kept, uint32_t salt)
{
    struct cop_sampling sampling = {.temperature = 1, .top_k = kept, .top_p = 1};
    struct cop_error err = {0};
    cop_row_arena_reset(arena);
    for (int32_t i = 0; i < vocab; i++) {
        uint32_t h = mix(mix(salt) + (uint32_t)i);
        logits[0][i] = (float)(h % 1000) / 100;
        logits[1][i] = (float)(h % 1000 + (h >> 16) % (10 + 80 * (salt % 4))) / 100;
    }
    for (int j = 0; j < 2; j++) {
        struct cop_row *row = j ? &draft : &target;
        cr_assert_eq(cop_row_from_logits(row, logits[j], vocab, &sampling, arena, &err), COP_OK,
                     "%s", err.text);
        cr_assert_eq(cop_row_normalise(row, arena, &err), COP_OK);
    }
}

static const struct cop_row *target_at(void *context, int32_t node)
{
    (void)context, (void)node;
    return &target;
}
static const struct cop_row *draft_at(void *context, int32_t node)
{
    (void)context;
    return node > 0 ? &draft : NULL;
}

/* Total variation of the first token from the target, of one level of `width` children. */
static double first_token(const struct cop_rule_ops *rule, enum cop_draw draw, int32_t width,
                          double *accepted)
{
    static double law[LARGE];
    memset(law, 0, sizeof law);
    *accepted = 0;
    struct cop_part *part = part_of(&rule->plug);
    struct cop_error error = {.code = COP_OK}, err = {0};
    struct cop_enumeration e;
    struct cop_tree tree;
    cr_assert_eq(cop_tree_init(&tree, width + 1, NULL), COP_OK);
    tree.draw = draw;
    cop_enumeration_init(&e, &error);
    do {
        struct cop_draws draws = cop_enumeration_start(&e);
        int32_t frontier = 0, next[8], kept[8];
        cop_tree_reset(&tree, 0);
        struct cop_grow grow = {.tree = &tree,
                                .draws = &draws,
                                .level = 1,
                                .frontier = &frontier,
                                .rows = &draft,
                                .n_frontier = 1,
                                .budget = width,
                                .next = next,
                                .shares_noise = rule->shares_noise};
        (void)cop_grow_draw(&grow, 0, width);
        struct cop_verify_in in = {.tree = &tree,
                                   .target = {target_at, NULL},
                                   .draft = {draft_at, NULL},
                                   .draws = &draws};
        struct cop_verdict verdict = {.accepted = kept, .last = -1};
        cr_assert_eq(rule->verify(part->state, &in, &verdict, &err), COP_OK, "%s", err.text);
        cr_assert_eq(cop_verdict_check(&in, &verdict, &err), COP_OK, "%s", err.text);
        law[verdict.n_accepted ? tree.token[kept[0]] : verdict.last] += e.probability;
        *accepted += verdict.n_accepted * e.probability;
    } while (error.code == COP_OK && cop_enumeration_next(&e));
    cr_expect_eq(error.code, COP_OK, "%s", error.text);
    double distance = 0;
    for (int32_t i = 0; i < target.vocab; i++) {
        distance += fabs(law[i] - cop_row_probability(&target, i));
    }
    cop_enumeration_release(&e);
    cop_tree_release(&tree);
    cop_part_free(part);
    return distance / 2;
}

static const struct {
    const struct cop_rule_ops *rule;
    enum cop_draw draw;
    int32_t width;
} cases[] = {{&cop_accept_token, COP_DRAW_INDEPENDENT, 1},
             {&cop_accept_recursive, COP_DRAW_INDEPENDENT, 2},
             {&cop_accept_recursive, COP_DRAW_INDEPENDENT, 3},
             {&cop_accept_recursive, COP_DRAW_WITHOUT_REPLACEMENT, 3},
             {&cop_accept_kseq, COP_DRAW_INDEPENDENT, 2},
             {&cop_accept_kseq, COP_DRAW_INDEPENDENT, 3},
             {&cop_accept_greedy_draw, COP_DRAW_GREEDY, 2},
             {&cop_accept_greedy_draw, COP_DRAW_GREEDY, 3},
             {&cop_accept_spechub, COP_DRAW_HUB_PAIR, 2},
             {&cop_accept_coupled, COP_DRAW_INDEPENDENT, 1},
             {&cop_accept_coupled, COP_DRAW_INDEPENDENT, 2}};

Test(rows, of_small_vocabularies)
{
    for (uint32_t salt = 0; salt < 8; salt++) {
        make_rows(2 + (int32_t)(salt % 4), 0, salt);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            double accepted,
                distance = first_token(cases[i].rule, cases[i].draw, cases[i].width, &accepted);
            cr_expect_lt(distance, 1e-12, "%s, salt %u: %g", cases[i].rule->plug.name, salt,
                         distance);
            cr_expect_gt(accepted, 0);
        }
    }
}

/* Four tokens of 2,500 are possible; those of target and draft differ. */
Test(rows, of_large_vocabularies)
{
    for (uint32_t salt = 0; salt < 8; salt++) {
        make_rows(LARGE, 4, salt);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            double accepted,
                distance = first_token(cases[i].rule, cases[i].draw, cases[i].width, &accepted);
            cr_expect_lt(distance, 1e-12, "%s, salt %u: %g", cases[i].rule->plug.name, salt,
                         distance);
        }
    }
}
