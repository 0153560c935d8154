/* The rules on rows of a model (f32 logits, truncation), which the enumeration of laws never
 * sees: their passes take other ways through the rows. */
#include "core/cycle/contract/builder.h"
#include "core/cycle/law/enumerate.h"
#include "core/cycle/rows/arena.h"
#include "tests/algorithms/level_laws.h"

extern const struct cop_rule_ops cop_accept_multipath_block;

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

/* ---- The selected path of a large vocabulary, against a sort of it ------------------------
 */

/* Answers as told, and what it was asked. */
struct told {
    double kept;    /* product of the flips that were passed */
    int32_t bucket; /* to pick */
    double of_bucket;
    double law[LARGE]; /* of the last token */
};

static bool told_flip(void *state, uint32_t purpose, uint32_t key, double probability)
{
    struct told *told = state;
    bool passes = key != 0 && told->kept >= 0; /* the leaf's is asked first and refused */
    (void)purpose;
    if (!passes) {
        told->kept = 1;
        return false;
    }
    told->kept *= probability;
    return true;
}

static cop_token told_pick(void *state, uint32_t purpose, uint32_t key,
                           const struct cop_weights *weights)
{
    static double values[3 * LARGE];
    struct told *told = state;
    double sum = 0;
    (void)purpose, (void)key;
    weights->fill(weights->context, 0, weights->vocab, values);
    for (int32_t i = 0; i < weights->vocab; i++) {
        sum += values[i];
    }
    if (weights->vocab != LARGE) { /* of buckets: the next that has weight */
        while (told->bucket < weights->vocab && !(values[told->bucket] > 0)) {
            told->bucket++;
        }
        told->of_bucket = told->bucket < weights->vocab ? values[told->bucket] / sum : 0;
        return told->bucket < weights->vocab ? told->bucket : -1;
    }
    for (int32_t i = 0; i < LARGE; i++) {
        told->law[i] += told->of_bucket * values[i] / sum;
    }
    return 0;
}

static const struct cop_draws_ops told_ops = {.flip = told_flip, .pick = told_pick};

static int by_told_ratio(const void *a, const void *b)
{
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    double x = (double)target.exponentials[i] / (double)draft.exponentials[i];
    double y = (double)target.exponentials[j] / (double)draft.exponentials[j];
    return x < y ? -1 : x > y ? 1 : (i > j) - (i < j);
}

static double power_of(double x, int32_t k)
{
    return k > 0 ? x * power_of(x, k - 1) : 1;
}

/* The law of the selected path's token where `below` and `at` are the shares of the paths below
 * and through the node; where[t]: the share below token t. */
static void select_by_sort(int32_t n_paths, double below, double at, double *law, double *where)
{
    static int32_t order[LARGE];
    double before = 0, norm = power_of(below + at, n_paths) - power_of(below, n_paths);
    for (int32_t i = 0; i < LARGE; i++) {
        order[i] = i;
    }
    qsort(order, LARGE, sizeof *order, by_told_ratio);
    for (int32_t i = 0; i < LARGE; i++) {
        double q = cop_row_probability(&draft, order[i]);
        double low = below + at * before, high = below + at * (before + q);
        where[order[i]] = low;
        law[order[i]] = (power_of(high, n_paths) - power_of(low, n_paths)) / norm;
        before += q;
    }
}

static void expect_selected(int32_t n_paths, cop_token first)
{
    static double law[LARGE], where[LARGE], second[LARGE];
    static struct told told;
    struct cop_error error = {.code = COP_OK}, err = {0};
    struct cop_draws draws = {.ops = &told_ops, .state = &told, .error = &error};
    struct cop_tree tree;
    int32_t kept[4];
    cr_assert_eq(cop_tree_init(&tree, 3, NULL), COP_OK);
    cop_tree_reset(&tree, 0);
    tree.draw = COP_DRAW_INDEPENDENT;
    tree.is_merged = true;
    cr_assert_eq(cop_tree_add(&tree, 0, first, 0), 1);
    cr_assert_eq(cop_tree_add(&tree, 1, 9, 0), 2);
    tree.multiplicity[0] = tree.multiplicity[1] = tree.multiplicity[2] = n_paths;
    struct cop_verify_in in = {
        .tree = &tree, .target = {target_at, NULL}, .draft = {draft_at, NULL}, .draws = &draws};
    memset(&told, 0, sizeof told);
    double mass = 0;
    do {
        struct cop_verdict verdict = {.accepted = kept, .last = -1};
        told.kept = -1;
        cr_assert_eq(cop_accept_multipath_block.verify(NULL, &in, &verdict, &err), COP_OK, "%s",
                     err.text);
        cr_assert_eq(verdict.n_accepted, 1);
        mass += told.of_bucket;
        told.bucket++;
    } while (mass < 1 - 1e-12 && told.of_bucket > 0);
    select_by_sort(n_paths, 0, 1, law, where);
    double weight = fmin(1, cop_row_probability(&target, first) / law[first]);
    select_by_sort(n_paths, where[first], cop_row_probability(&draft, first), law, second);
    double above = 0, below = 0, distance = 0;
    for (int32_t i = 0; i < LARGE; i++) {
        law[i] = weight * cop_row_probability(&target, i) - law[i];
        above += fmax(0, law[i]);
        below += fmax(0, -law[i]);
    }
    for (int32_t i = 0; i < LARGE; i++) {
        distance += fabs(fmax(0, law[i]) / above - told.law[i]);
    }
    cr_expect_lt(fabs(told.kept - above / below), 1e-10, "%d paths, token %d: %.15g, not %.15g",
                 n_paths, first, told.kept, above / below);
    /* The differences of powers of the sort are 1e-16 off, before they are divided by a share
     * of 1e-4 and by `above`. */
    cr_expect_lt(distance, 1e-8, "%d paths, token %d: %g", n_paths, first, distance);
    cop_tree_release(&tree);
}

Test(rows, the_selected_path_of_a_large_vocabulary)
{
    for (uint32_t salt = 1; salt < 4; salt++) {
        make_rows(LARGE, 0, salt);
        for (int32_t n_paths = 2; n_paths < 8; n_paths += 2) {
            double p, q;
            cop_token first = 0; /* refused now and then: weight below 1 */
            do {
                first++;
                p = cop_row_probability(&target, first);
                q = cop_row_probability(&draft, first);
            } while (!(p < q && p > 1e-4)); /* else the differences of powers are rounding */
            expect_selected(n_paths, first);
        }
    }
}

/* Rows that differ by a few units in the last place: thousands of ratios that are one f32. */
Test(rows, the_selected_path_of_nearly_equal_rows)
{
    make_rows(LARGE, 0, 0);
    for (int32_t i = 0; i < LARGE; i++) {
        uint32_t h = mix((uint32_t)i);
        logits[1][i] = logits[0][i] + (float)(h % 7) * 1e-6f;
    }
    struct cop_sampling sampling = {.temperature = 1, .top_p = 1};
    struct cop_error err = {0};
    cr_assert_eq(cop_row_from_logits(&draft, logits[1], LARGE, &sampling, arena, &err), COP_OK);
    cr_assert_eq(cop_row_normalise(&draft, arena, &err), COP_OK);
    cop_token first = 1;
    while (!(cop_row_probability(&target, first) < cop_row_probability(&draft, first) &&
             cop_row_probability(&target, first) > 1e-4)) {
        first++;
    }
    expect_selected(3, first);
}
