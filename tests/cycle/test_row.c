/* Rows: every kind answers every question; temperature and truncation against transformers. */
#include "core/cycle/draws/draws.h"
#include "core/cycle/rows/arena.h"
#include "kernels/ops.h"
#include "tests/support/json_list.h"
#include <criterion/criterion.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cop_row_arena *arena;
static void start(void)
{
    arena = cop_row_arena_new();
}
static void stop(void)
{
    cop_row_arena_free(arena);
}
TestSuite(row, .init = start, .fini = stop);

static struct cop_row shaped(const float *logits, int32_t vocab, struct cop_sampling sampling)
{
    struct cop_row row;
    struct cop_error err;
    cr_assert_eq(cop_row_from_logits(&row, logits, vocab, &sampling, arena, &err), COP_OK, "%s",
                 err.text);
    cr_assert_eq(cop_row_normalise(&row, arena, &err), COP_OK);
    return row;
}

static struct cop_sampling sampling(double temperature, int32_t top_k, double top_p,
                                    double min_p)
{
    return (struct cop_sampling){temperature, top_k, top_p, min_p};
}
#define NEAR(a, b)                                                                             \
    cr_expect_lt(fabs((a) - (b)), 1e-14, "%.17g, not %.17g", (double)(a), (double)(b))

/* Logits ln 4, ln 2, ln 1, ln 1 (rounded to f32): probabilities 1/2, 1/4, 1/8, 1/8. */
static const float quarters[] = {0.6931471805599453f, 1.3862943611198906f, 0, 0};

/* ---- Kinds
 * -------------------------------------------------------------------------------------- */

Test(row, logits_are_a_soft_max)
{
    struct cop_row row = shaped(quarters, 4, sampling(1, 0, 1, 0));
    const double expected[] = {.25, .5, .125, .125};
    double filled[6];
    cop_row_fill(&row, 0, 6, filled);
    for (int i = 0; i < 4; i++) {
        cr_expect_lt(fabs(cop_row_probability(&row, i) - expected[i]), 1e-7); /* f32 logits */
        cr_expect_eq(filled[i], cop_row_probability(&row, i));
    }
    cr_expect_eq(filled[4] + filled[5], 0);
    cr_expect_eq(cop_row_probability(&row, -1), 0);
    cr_expect_eq(cop_row_probability(&row, 4), 0);
    cr_expect_eq(row.best, 1);
    cr_expect_lt(fabs(cop_row_logsumexp(&row) - log(8)), 1e-7);
    double sum = cop_row_probability(&row, 0) + cop_row_probability(&row, 1) +
                 cop_row_probability(&row, 2) + cop_row_probability(&row, 3);
    NEAR(sum, 1);
}

Test(row, temperature_zero_is_one_hot_at_the_first_best)
{
    const float tied[] = {-1, 3, 3, -INFINITY};
    struct cop_row row = shaped(tied, 4, sampling(0, 2, 1, 0));
    cr_expect_eq(row.kind, COP_ROW_ONE_HOT);
    cr_expect_eq(row.best, 1);
    cr_expect_eq(cop_row_probability(&row, 1), 1);
    cr_expect_eq(cop_row_probability(&row, 2), 0);
    cop_token ids[4];
    cr_expect_eq(cop_row_top(&row, 4, ids), 1);
    cr_expect_eq(ids[0], 1);
    double filled[4];
    cop_row_fill(&row, 0, 4, filled);
    cr_expect_eq(filled[1], 1);
    cr_expect_eq(filled[0] + filled[2] + filled[3], 0);
    NEAR(cop_row_logsumexp(&row), log(2 * exp(3) + exp(-1)));
}

Test(row, tiny_temperatures_do_not_overflow)
{
    const float logits[] = {1, 2, 2, -3e38f};
    const double temperatures[] = {1e-3, 1e-30, 1e-300, DBL_MIN, 4.9e-324};
    for (int i = 0; i < 5; i++) {
        struct cop_row row = shaped(logits, 4, sampling(temperatures[i], 0, 1, 0));
        cr_expect_eq(cop_row_probability(&row, 1), .5);
        cr_expect_eq(cop_row_probability(&row, 2), .5);
        cr_expect_eq(cop_row_probability(&row, 0), 0);
        cr_expect_eq(cop_row_probability(&row, 3), 0);
    }
}

Test(row, refuses_what_is_not_finite)
{
    const float nan_row[] = {0, NAN}, infinite[] = {0, INFINITY},
                nothing[] = {-INFINITY, -INFINITY};
    struct cop_row row;
    struct cop_error err;
    struct cop_sampling one = sampling(1, 0, 1, 0);
    cr_expect_eq(cop_row_from_logits(&row, nan_row, 2, &one, arena, &err), COP_ERR_NUMERIC);
    cr_expect_eq(cop_row_from_logits(&row, infinite, 2, &one, arena, &err), COP_ERR_NUMERIC);
    cr_expect_eq(cop_row_from_logits(&row, nothing, 2, &one, arena, &err), COP_ERR_NUMERIC);
    cr_expect_eq(cop_row_from_logits(&row, nothing, 0, &one, arena, &err), COP_ERR_NUMERIC);
    struct cop_sampling wrong = sampling(-1, 0, 1, 0);
    cr_expect_eq(cop_row_from_logits(&row, quarters, 4, &wrong, arena, &err), COP_ERR_ARGUMENT);
}

Test(row, sparse_rows)
{
    const cop_token ids[] = {3, 7, 1030};
    const double weights[] = {.25, .5, .25};
    struct cop_row row = {
        .kind = COP_ROW_SPARSE, .vocab = 2000, .ids = ids, .weights = weights, .count = 3};
    cr_expect_eq(cop_row_probability(&row, 7), .5);
    cr_expect_eq(cop_row_probability(&row, 8), 0);
    cop_token top[4];
    cr_expect_eq(cop_row_top(&row, 4, top), 3);
    cr_expect_eq(top[0], 7);
    cr_expect_eq(top[1], 3, "ties to the lowest id");
    cr_expect_eq(top[2], 1030);
    double filled[4];
    cop_row_fill(&row, 1028, 4, filled);
    cr_expect_eq(filled[2], .25);
    cr_expect_eq(filled[0] + filled[1] + filled[3], 0);
    struct cop_weights all = cop_row_weights(&row);
    cr_expect_eq(cop_weights_sum(&all), 1);
}

/* ---- Listed ids -------------------------------------------------------------------------- */

enum {
    LISTED_VOCAB = 3000,
    LISTED_GROUPS = (LISTED_VOCAB + COP_MAXIMA_GROUP - 1) / COP_MAXIMA_GROUP
};

static const struct id_list {
    const char *name;
    struct {
        int32_t first, end, stride;
    } parts[2];
} id_lists[] = {
    {"two blocks of three", {{1, 1024, 3}, {2051, 3000, 7}}},
    {"the first, as a reduced vocabulary has them", {{0, 1500, 1}, {2999, 3000, 1}}},
    {"the last block, which is short", {{2100, 3000, 1}}},
    {"few", {{5, 6, 1}, {1023, 1025, 1}}},
    {"all", {{0, 3000, 1}}},
};

static int32_t list_ids(const struct id_list *list, cop_token *ids)
{
    int32_t n = 0;
    for (int part = 0; part < 2; part++) {
        for (int32_t i = list->parts[part].first; i < list->parts[part].end;
             i += list->parts[part].stride) {
            ids[n++] = i;
        }
    }
    return n;
}

static void expect_equal_rows(const struct cop_row *listed, const struct cop_row *all,
                              const char *name)
{
    cr_expect_eq(listed->best, all->best, "%s", name);
    cr_expect_eq(listed->max_logit, all->max_logit, "%s", name);
    cr_expect_eq(listed->mask == NULL, all->mask == NULL, "%s", name);
    cr_expect_eq(listed->normaliser, all->normaliser, "%s", name);
    cr_expect_eq(memcmp(listed->maxima, all->maxima, LISTED_GROUPS * sizeof(float)), 0, "%s",
                 name);
    cr_expect_eq(memcmp(listed->exponentials, all->exponentials, LISTED_VOCAB * sizeof(float)),
                 0, "%s", name);
    cr_expect_eq(memcmp(listed->block_sums, all->block_sums, 3 * sizeof(double)), 0, "%s",
                 name);
    cop_token top[2][60];
    int32_t n = cop_row_top(listed, 60, top[0]);
    cr_assert_eq(n, cop_row_top(all, 60, top[1]), "%s", name);
    cr_expect_eq(memcmp(top[0], top[1], (size_t)n * sizeof **top), 0, "%s", name);
}

/* A row whose ids are listed is the row that looks everywhere, to the last bit; also in the
 * memory of other rows, and of another list. */
Test(row, listed_ids_change_nothing)
{
    static float logits[LISTED_VOCAB];
    static cop_token ids[sizeof id_lists / sizeof *id_lists][LISTED_VOCAB];
    const struct cop_sampling settings[] = {sampling(1, 0, 1, 0),   sampling(0.6, 40, 1, 0),
                                            sampling(1, 2, 1, 0),   sampling(1, 2999, 1, 0),
                                            sampling(2, 0, 0.8, 0), sampling(0.5, 0, 1, 0.2)};
    enum { N_LISTS = sizeof id_lists / sizeof *id_lists };
    for (size_t turn = 0; turn < 2 * N_LISTS; turn++) {
        const struct id_list *list = &id_lists[turn % N_LISTS];
        int32_t n = list_ids(list, ids[turn % N_LISTS]);
        const struct cop_row_tokens tokens = {LISTED_VOCAB, ids[turn % N_LISTS], n};
        cop_row_arena_reset(arena);
        for (size_t s = 0; s < 2 * sizeof settings / sizeof *settings; s++) {
            const struct cop_sampling *how = &settings[s / 2];
            struct cop_row listed;
            struct cop_error err;
            for (int32_t i = 0; i < LISTED_VOCAB; i++) {
                logits[i] = -INFINITY;
            }
            for (int32_t i = 0; i < n; i++) {
                logits[tokens.ids[i]] =
                    (float)((i * 37 + (int32_t)s + (int32_t)turn) % 101) / 9.0f;
            }
            struct cop_row all = shaped(logits, LISTED_VOCAB, *how);
            cr_assert_eq(cop_row_from_listed(&listed, logits, &tokens, how, arena, &err),
                         COP_OK);
            cr_assert_eq(cop_row_normalise(&listed, arena, &err), COP_OK);
            cr_expect_eq(listed.ids, tokens.ids);
            cr_expect_eq(listed.count, n);
            expect_equal_rows(&listed, &all, list->name);
            if (s % 2) { /* every other time the memory is taken again */
                cop_row_arena_reset(arena);
            }
        }
    }
}

/* Blocks whose ids are all at -inf, as bans leave them, are no fault; rows without a law are.
 */
Test(row, listed_ids_at_minus_infinity)
{
    static float logits[LISTED_VOCAB];
    const cop_token ids[] = {3, 4, 1500, 2999};
    const struct cop_row_tokens tokens = {LISTED_VOCAB, ids, 4};
    const struct cop_sampling one = sampling(1, 0, 1, 0);
    const struct cop_row_tokens nothing = {LISTED_VOCAB, ids, 0};
    struct cop_row listed;
    struct cop_error err;
    for (int32_t i = 0; i < LISTED_VOCAB; i++) {
        logits[i] = -INFINITY;
    }
    cr_expect_eq(cop_row_from_listed(&listed, logits, &tokens, &one, arena, &err),
                 COP_ERR_NUMERIC);
    cr_expect_eq(cop_row_from_listed(&listed, logits, &nothing, &one, arena, &err),
                 COP_ERR_NUMERIC);
    logits[1500] = logits[2999] = 2;
    struct cop_row all = shaped(logits, LISTED_VOCAB, one);
    cr_assert_eq(cop_row_from_listed(&listed, logits, &tokens, &one, arena, &err), COP_OK);
    cr_assert_eq(cop_row_normalise(&listed, arena, &err), COP_OK);
    cr_expect_eq(listed.best, 1500); /* ties to the lowest id, across blocks too */
    cr_expect_eq(cop_row_probability(&listed, 2999), .5);
    expect_equal_rows(&listed, &all, "two of four");
    logits[4] = NAN;
    cr_expect_eq(cop_row_from_listed(&listed, logits, &tokens, &one, arena, &err),
                 COP_ERR_NUMERIC);
}

Test(row, points_and_none)
{
    const cop_token ids[] = {5, 2};
    struct cop_row points = {.kind = COP_ROW_POINTS, .vocab = 9, .ids = ids, .count = 2};
    cop_token top[4];
    cr_expect_eq(cop_row_top(&points, 4, top), 2);
    cr_expect_eq(top[0], 5, "in their own order");
    cr_expect_eq(top[1], 2);
    cr_expect_eq(cop_row_probability(&points, 5), 1);
    cr_expect_eq(cop_row_probability(&points, 2), 0);
    struct cop_row none = {.kind = COP_ROW_NONE};
    cr_expect_eq(cop_row_top(&none, 4, top), 0);
    cr_expect_eq(cop_row_probability(&none, 0), 0);
}

/* ---- The best k
 * --------------------------------------------------------------------------------- */

static uint32_t noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static const float *sorted_logits;
static int by_logit(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    float lx = sorted_logits[x], ly = sorted_logits[y];
    return lx > ly ? -1 : lx < ly ? 1 : (x > y) - (x < y);
}

/* Coarse values, so that there are many ties; sizes around the vector stride. */
Test(row, top_agrees_with_a_sort)
{
    const int32_t vocabs[] = {1, 5, 31, 32, 33, 64, 100, 1023, 5000};
    const int32_t ks[] = {1, 2, 3, 8, 40, 64, 1000, 5000};
    uint32_t seed = 3;
    for (int v = 0; v < 9; v++) {
        int32_t vocab = vocabs[v];
        float *logits = malloc((size_t)vocab * sizeof *logits);
        int32_t *order = malloc((size_t)vocab * sizeof *order);
        cop_token *top = malloc(5000 * sizeof *top);
        for (int32_t i = 0; i < vocab; i++) {
            logits[i] = (float)(noise(&seed) % 50) / 8;
            logits[i] = noise(&seed) % 10 == 0 ? -INFINITY : logits[i];
            order[i] = i;
        }
        logits[vocab / 2] = 1;
        sorted_logits = logits;
        qsort(order, (size_t)vocab, sizeof *order, by_logit);
        struct cop_row row = shaped(logits, vocab, sampling(.5, 0, 1, 0));
        for (int k = 0; k < 8; k++) {
            int32_t n = cop_row_top(&row, ks[k], top);
            cr_expect_leq(n, ks[k]);
            for (int32_t i = 0; i < n; i++) {
                cr_assert_eq(top[i], order[i], "vocab %d, k %d, place %d", vocab, ks[k], i);
            }
            cr_expect(n == ks[k] || n == vocab || logits[order[n]] == -INFINITY);
            /* Above the probability of some token: all that are better, and no equal one. */
            double floor = cop_row_probability(&row, order[vocab / 3]);
            int32_t all = 0;
            while (all < vocab && cop_row_probability(&row, order[all]) > floor) {
                all++;
            }
            n = cop_row_top_above(&row, floor, ks[k], top);
            cr_expect_eq(n, ks[k] < all ? ks[k] : all, "vocab %d, k %d", vocab, ks[k]);
            for (int32_t i = 0; i < n; i++) {
                cr_assert_eq(top[i], order[i], "vocab %d, k %d, place %d", vocab, ks[k], i);
            }
        }
        free(logits);
        free(order);
        free(top);
    }
}

Test(row, top_of_a_truncated_row)
{
    const float logits[] = {1, 5, 4, 4, 2, 4};
    struct cop_row row = shaped(logits, 6, sampling(1, 3, 1, 0));
    cop_token top[6];
    cr_expect_eq(cop_row_top(&row, 6, top), 4, "ties with the third stay");
    const cop_token expected[] = {1, 2, 3, 5};
    cr_expect_arr_eq(top, expected, sizeof expected);
}

/* ---- Truncation
 * --------------------------------------------------------------------------------- */

static int32_t kept(const struct cop_row *row)
{
    int32_t n = 0;
    for (int32_t i = 0; i < row->vocab; i++) {
        n += cop_row_probability(row, i) > 0;
    }
    return n;
}

Test(row, top_p_takes_the_smallest_set_that_reaches_p)
{
    /* Two equal best tokens and two equal others: 3/8, 3/8, 1/8, 1/8 with exact exponentials?
     * ln 3 is not exact, so stay clear of the borders, and use equal logits where they matter.
     */
    const float two[] = {0, 0, -1.0986123f, -1.0986123f};
    const struct {
        double top_p;
        int32_t kept;
    } cases[] = {{.01, 1}, {.37, 1}, {.38, 2}, {.74, 2},
                 {.76, 3}, {.87, 3}, {.88, 4}, {.999, 4}};
    for (int i = 0; i < 8; i++) {
        struct cop_row row = shaped(two, 4, sampling(1, 0, cases[i].top_p, 0));
        cr_expect_eq(kept(&row), cases[i].kept, "p = %g", cases[i].top_p);
        cr_expect_gt(cop_row_probability(&row, 0), 0, "ties stay from the lowest id on");
    }
    const float equal[] = {2, 2, 2, 2};
    struct cop_row row = shaped(equal, 4, sampling(1, 0, .5, 0));
    cr_expect_eq(kept(&row), 2, "exactly half is reached by two of four");
    cr_expect_eq(cop_row_probability(&row, 1), .5);
    cr_expect_eq(cop_row_probability(&row, 2), 0);
}

Test(row, off_values)
{
    struct cop_row row = shaped(quarters, 4, sampling(1, 0, nan(""), nan("")));
    cr_expect_null(row.mask);
    row = shaped(quarters, 4, sampling(1, 4, 1, 0));
    cr_expect_null(row.mask);
    row = shaped(quarters, 4, sampling(1, 0, 1, 5));
    cr_expect_eq(kept(&row), 1, "the best token always stays");
}

/* A slow twin: sort everything, cut from the end. */
static void cut_slowly(const float *logits, int32_t vocab, struct cop_sampling s, bool *keep)
{
    int32_t *order = malloc((size_t)vocab * sizeof *order);
    for (int32_t i = 0; i < vocab; i++) {
        order[i] = i;
    }
    sorted_logits = logits;
    qsort(order, (size_t)vocab, sizeof *order, by_logit);
    double best = (double)logits[order[0]];
    int32_t n = vocab;
    if (s.top_k > 0 && s.top_k < vocab) {
        for (n = s.top_k; n < vocab && logits[order[n]] >= logits[order[s.top_k - 1]];) {
            n++;
        }
    }
    double total = 0, mass = 0;
    for (int32_t i = 0; i < n; i++) {
        total += exp(((double)logits[order[i]] - best) / s.temperature);
    }
    int32_t m = 0;
    while (m < n && (m == 0 || mass < s.top_p * total)) {
        mass += exp(((double)logits[order[m++]] - best) / s.temperature);
    }
    n = s.top_p > 0 && s.top_p < 1 ? m : n;
    memset(keep, 0, (size_t)vocab);
    for (int32_t i = 0; i < n; i++) {
        keep[order[i]] = exp(((double)logits[order[i]] - best) / s.temperature) >= s.min_p;
    }
    free(order);
}

/* Large rows with a realistic spread; ties only by chance, so no case sits on a border. */
Test(row, truncation_agrees_with_a_sort_on_large_rows)
{
    enum { VOCAB = 20001 };
    float *logits = malloc(VOCAB * sizeof *logits);
    bool *keep = malloc(VOCAB);
    uint32_t seed = 11;
    const struct cop_sampling cases[] = {{1, 1, 1, 0},     {1, 50, 1, 0},     {1, 20000, 1, 0},
                                         {1, 0, .1, 0},    {1, 0, .9, 0},     {1, 0, .9999, 0},
                                         {1, 0, 1, .05},   {.3, 40, .8, .01}, {5, 1000, .95, 0},
                                         {.01, 0, .99, 0}, {100, 0, .5, 0}};
    for (int round = 0; round < 3; round++) {
        float spread = round == 0 ? 2 : round == 1 ? 8 : 300;
        for (int32_t i = 0; i < VOCAB; i++) {
            double sum = 0;
            for (int j = 0; j < 4; j++) {
                sum += (double)noise(&seed) / (1 << 24) - .5;
            }
            logits[i] = i % 17 == 0 ? -INFINITY : spread * (float)sum;
        }
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            struct cop_row row = shaped(logits, VOCAB, cases[c]);
            cut_slowly(logits, VOCAB, cases[c], keep);
            double total = 0;
            int32_t n_wrong = 0;
            for (int32_t i = 0; i < VOCAB; i++) {
                double p = cop_row_probability(&row, i);
                bool is_positive = /* rounded to f32, exponentials end at about -104 */
                    keep[i] &&
                    (float)exp(((double)logits[i] - row.max_logit) / cases[c].temperature) > 0;
                n_wrong += (p > 0) != is_positive;
                total += p;
            }
            cr_expect_eq(n_wrong, 0, "round %d, case %zu: %d tokens differ", round, c, n_wrong);
            cr_expect_lt(fabs(total - 1), 1e-12);
        }
        cop_row_arena_reset(arena);
    }
    free(logits);
    free(keep);
}

/* ---- transformers' processors
 * --------------------------------------------------------------------- */

/* Our order is temperature, top-k, top-p, min-p; a chain of the file is ours if its steps are
 * among these, in this order. */
static bool read_chain(const cJSON *chain, struct cop_sampling *out)
{
    static const char *const names[] = {"temperature", "top_k", "top_p", "min_p"};
    *out = sampling(1, 0, 1, 0);
    int last = -1;
    const cJSON *step;
    cJSON_ArrayForEach(step, chain)
    {
        const char *name = cJSON_GetArrayItem(step, 0)->valuestring;
        double value = cJSON_GetArrayItem(step, 1)->valuedouble;
        int which = 0;
        while (which < 4 && strcmp(names[which], name) != 0) {
            which++;
        }
        if (which == 4 || which <= last) {
            return false;
        }
        last = which;
        out->temperature = which == 0 ? value : out->temperature;
        out->top_k = which == 1 ? (int32_t)value : out->top_k;
        out->top_p = which == 2 ? value : out->top_p;
        out->min_p = which == 3 ? value : out->min_p;
    }
    return true;
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x > y ? -1 : x < y;
}

/* Exponentials are rounded to f32: half a unit each, in the token's own and in the sum; and the
 * smallest step far below the best. */
static const double KEPT_AS_F32 = 0x1.01p-23;

/* The file's logits are decimal doubles, ours are f32. So two comparisons: with the file,
 * within what rounding the logits does to a probability; and with a soft-max in double of
 * the rounded logits over the tokens that the file keeps, within the rounding of a kept row. */
static double rounding(const cJSON *logits, double temperature)
{
    double worst = 0;
    const cJSON *one;
    cJSON_ArrayForEach(one, logits)
    {
        double z = cJSON_IsNumber(one) ? one->valuedouble : 0;
        worst = fmax(worst, fabs(z - (double)(float)z));
    }
    return KEPT_AS_F32 + 3 * worst / temperature;
}

static void soft_max(const float *logits, int32_t vocab, double temperature, const double *kept,
                     double *out)
{
    double total = 0, best = -HUGE_VAL;
    for (int32_t i = 0; i < vocab; i++) {
        best = kept[i] > 0 ? fmax(best, (double)logits[i]) : best;
    }
    for (int32_t i = 0; i < vocab; i++) {
        total += kept[i] > 0 ? exp(((double)logits[i] - best) / temperature) : 0;
    }
    for (int32_t i = 0; i < vocab; i++) {
        out[i] = kept[i] > 0 ? (exp(((double)logits[i] - best) / temperature) / total) : 0;
    }
}

static void expect_close(const char *name, int32_t vocab, const double *ours,
                         const double *theirs, double limit)
{
    for (int32_t i = 0; i < vocab; i++) {
        cr_expect_leq(fabs(ours[i] - theirs[i]), limit * theirs[i] + 0x1p-149,
                      "%s, token %d: %.17g, not %.17g", name, i, ours[i], theirs[i]);
    }
}

static void compare_case(const cJSON *logits_json, const cJSON *one, const char *name,
                         int *n_compared)
{
    struct cop_sampling s;
    const cJSON *margin = json_get(one, "margin");
    if (!read_chain(json_get(one, "chain"), &s) ||
        (cJSON_IsNumber(margin) && margin->valuedouble < 1e-5 &&
         !(margin->valuedouble == 0 && s.top_p >= 1))) {
        return;
    }
    float logits[64];
    int32_t vocab = cJSON_GetArraySize(logits_json);
    for (int32_t i = 0; i < vocab; i++) {
        const cJSON *z = cJSON_GetArrayItem(logits_json, i);
        logits[i] = cJSON_IsNumber(z) ? (float)z->valuedouble : -INFINITY;
    }
    struct cop_row row = shaped(logits, vocab, s);
    const cJSON *probs = json_get(one, "probs");
    double ours[64], theirs[64], exact[64];
    bool is_tied = cJSON_HasObjectItem(one, "tie_at_border");
    for (int32_t i = 0; i < vocab; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", i);
        const cJSON *p = cJSON_GetObjectItem(probs, id);
        ours[i] = cop_row_probability(&row, i);
        theirs[i] = p ? p->valuedouble : 0;
    }
    if (is_tied) { /* which of the tied ones stay is an accident there */
        qsort(ours, (size_t)vocab, sizeof *ours, descending);
        qsort(theirs, (size_t)vocab, sizeof *theirs, descending);
    }
    expect_close(name, vocab, ours, theirs, rounding(logits_json, s.temperature));
    if (!is_tied) {
        soft_max(logits, vocab, s.temperature, theirs, exact);
        expect_close(name, vocab, ours, exact, KEPT_AS_F32);
    }
    ++*n_compared;
}

Test(row, sampling_agrees_with_transformers)
{
    cJSON *file = json_file("reference/sampling.json");
    const cJSON *row, *one;
    int n = 0;
    cJSON_ArrayForEach(row, json_get(file, "rows"))
    {
        cJSON_ArrayForEach(one, json_get(row, "cases"))
        {
            compare_case(json_get(row, "logits"), one, json_get(row, "name")->valuestring, &n);
        }
        cop_row_arena_reset(arena);
    }
    cr_expect_gt(n, 200, "%d cases compared", n);
    cJSON_Delete(file);
}
