/* Coins: which Philox word answers what, the inverse CDF, races, and questions that are wrong.
 */
#include "core/base/philox.h"
#include "core/cycle/draws/coins.h"
#include "core/cycle/rows/tree.h"
#include "kernels/ops.h"
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct cop_coins coins;
static struct cop_error error;
static struct cop_draws draws;

static void start(void)
{
    error = (struct cop_error){.code = COP_OK};
    cop_coins_init(&coins, 0x123456789abcdef0u, 7, &error);
    cop_coins_cycle(&coins, 3);
    draws = cop_coins_draws(&coins);
}
static void stop(void)
{
    cop_coins_release(&coins);
}
TestSuite(coins, .init = start, .fini = stop);

static struct cop_row dense(const double *p, int32_t vocab)
{
    return (struct cop_row){.kind = COP_ROW_DENSE, .vocab = vocab, .dense = p};
}

static uint32_t any_key(uint32_t i)
{
    return cop_tree_child_key(COP_TREE_ROOT_KEY, (int32_t)i);
}

Test(coins, purposes_are_hashes_of_their_names)
{
    cr_expect_eq(cop_purpose(""), 0x811c9dc5u);
    cr_expect_eq(cop_purpose("a"), 0xe40c292cu); /* FNV-1a's published vectors */
    cr_expect_eq(cop_purpose("foobar"), 0xbf9cf968u);
    cr_expect_eq(cop_purpose("draft"), COP_PURPOSE_DRAFT);
}

Test(coins, uniform_is_the_documented_word)
{
    const uint32_t counter[4] = {55, 1000 + 2, 3, 7}, key[2] = {0x9abcdef0u, 0x12345678u};
    uint32_t words[4];
    cop_philox(counter, key, 10, words);
    cr_expect_eq(cop_coins_uniform(coins.seed, 7, 3, 1000, 55, 4),
                 cop_uniform(words[0], words[1]));
    cr_expect_eq(cop_coins_uniform(coins.seed, 7, 3, 1000, 55, 5),
                 cop_uniform(words[2], words[3]));
    /* Seed 0 and all counters 0: the zero vector of Philox. */
    cr_expect_eq(cop_coins_uniform(0, 0, 0, 0, 0, 0), cop_uniform(0x6627e8d5u, 0xe169c58du));
}

Test(coins, flip_is_strict)
{
    double u = cop_coins_uniform(coins.seed, 7, 3, 1, 55, 0);
    cr_expect_not(cop_flip(&draws, 1, 55, u));
    cop_coins_cycle(&coins, 3);
    cr_expect(cop_flip(&draws, 1, 55, nextafter(u, 1)));
    cr_expect_not(cop_flip(&draws, 2, 55, 0));
    cr_expect(cop_flip(&draws, 3, 55, 1));
    cr_expect(cop_flip(&draws, 4, 55, 1.5));
    cr_expect_eq(error.code, COP_OK);
    cr_expect_not(cop_flip(&draws, 5, 55, nan("")));
    cr_expect_eq(error.code, COP_ERR_ARGUMENT);
}

Test(coins, answers_depend_on_what_they_are_for_alone)
{
    double u[5];
    u[0] = cop_coins_uniform(1, 2, 3, 4, 5, 0);
    u[1] = cop_coins_uniform(2, 2, 3, 4, 5, 0);
    u[2] = cop_coins_uniform(1, 3, 3, 4, 5, 0);
    u[3] = cop_coins_uniform(1, 2, 4, 4, 5, 0);
    u[4] = cop_coins_uniform(1, 2, 3, 4, 6, 0);
    for (int i = 1; i < 5; i++) {
        cr_expect_neq(u[i], u[0]);
    }
    cr_expect_eq(cop_coins_uniform(1, 2, 3, 4, 5, 0), u[0]);
}

Test(coins, asking_twice_is_an_error_within_a_cycle)
{
    for (uint32_t i = 0; i < 1000; i++) { /* the set of questions grows */
        (void)cop_flip(&draws, 1, any_key(i), .5);
        (void)cop_flip(&draws, 2, any_key(i), .5);
    }
    (void)cop_flip(&draws, 0, 0, .5);
    cr_expect_eq(error.code, COP_OK);
    cr_expect_eq(coins.n_asked, 2001);
    cop_coins_cycle(&coins, 4);
    (void)cop_flip(&draws, 1, any_key(0), .5);
    cr_expect_eq(error.code, COP_OK, "another cycle");
    const double p[] = {1};
    struct cop_row row = dense(p, 1);
    struct cop_weights weights = cop_row_weights(&row);
    cr_expect_eq(cop_pick(&draws, 1, any_key(0), &weights), -1);
    cr_expect_eq(error.code, COP_ERR_ARGUMENT);
    cr_expect(strstr(error.text, "asked twice for the coin (purpose 00000001"), "%s",
              error.text);
}

/* ---- Picks
 * -------------------------------------------------------------------------------------- */

/* A vocabulary of three and a half blocks with mass at the borders only. */
static void border_row(double *p, int32_t vocab)
{
    memset(p, 0, (size_t)vocab * sizeof *p);
    p[0] = p[COP_SUM_BLOCK - 1] = p[COP_SUM_BLOCK] = p[3 * COP_SUM_BLOCK] = .25;
}

Test(coins, pick_inverts_the_cdf_across_blocks)
{
    enum { VOCAB = 3 * COP_SUM_BLOCK + 512, N = 4000 };
    double *p = malloc(VOCAB * sizeof *p);
    border_row(p, VOCAB);
    struct cop_row row = dense(p, VOCAB);
    struct cop_weights weights = cop_row_weights(&row);
    const cop_token at[4] = {0, COP_SUM_BLOCK - 1, COP_SUM_BLOCK, 3 * COP_SUM_BLOCK};
    int32_t counts[4] = {0};
    for (uint32_t i = 0; i < N; i++) {
        double u = cop_coins_uniform(coins.seed, 7, 3, 9, any_key(i), 0);
        cop_token token = cop_pick(&draws, 9, any_key(i), &weights);
        cr_assert_eq(token, at[(int)(4 * u)], "u = %g", u);
        counts[(int)(4 * u)]++;
    }
    /* 4 cells of 1000 +- 27: six sigma. */
    for (int i = 0; i < 4; i++) {
        cr_expect_lt(abs(counts[i] - 1000), 165);
    }
    cr_expect_eq(error.code, COP_OK);
    free(p);
}

Test(coins, pick_from_logits_equals_pick_from_its_probabilities)
{
    enum { VOCAB = 5000 };
    float *logits = malloc(VOCAB * sizeof *logits);
    double *p = malloc(VOCAB * sizeof *p);
    for (int32_t i = 0; i < VOCAB; i++) {
        logits[i] = (float)(i * 7919 % VOCAB) / 700;
    }
    struct cop_row_arena *arena = cop_row_arena_new();
    struct cop_sampling s = {.temperature = .8, .top_k = 900, .top_p = .97};
    struct cop_row row;
    cr_assert_eq(cop_row_from_logits(&row, logits, VOCAB, &s, arena, NULL), COP_OK);
    cr_assert_eq(cop_row_normalise(&row, arena, NULL), COP_OK);
    cop_row_fill(&row, 0, VOCAB, p);
    struct cop_row twin = dense(p, VOCAB);
    struct cop_weights a = cop_row_weights(&row), b = cop_row_weights(&twin);
    for (uint32_t i = 0; i < 500; i++) {
        cop_token token = cop_pick(&draws, 1, any_key(i), &a);
        cr_assert_gt(p[token], 0);
        cop_coins_cycle(&coins, 3); /* the same coin again */
        cr_expect_eq(cop_pick(&draws, 1, any_key(i), &b), token);
    }
    cop_row_arena_free(arena);
    free(logits);
    free(p);
}

Test(coins, pick_refuses_what_is_no_law)
{
    const double zero[] = {0, 0}, negative[] = {1, -.5}, infinite[] = {1, HUGE_VAL},
                 nan_row[] = {1, nan("")};
    const double *rows[] = {zero, negative, infinite, nan_row};
    for (uint32_t i = 0; i < 4; i++) {
        struct cop_row row = dense(rows[i], 2);
        struct cop_weights weights = cop_row_weights(&row);
        error.code = COP_OK;
        cr_expect_eq(cop_pick(&draws, 1, any_key(i), &weights), -1);
        cr_expect_eq(error.code, COP_ERR_ARGUMENT);
    }
}

/* ---- Residuals
 * ---------------------------------------------------------------------------------- */

Test(coins, residual_is_the_positive_part)
{
    const double p[] = {.5, .3, .2}, q[] = {.2, .3, .5};
    struct cop_row target = dense(p, 3), draft = dense(q, 3);
    struct cop_residual rest = {&target, &draft, 1, 1};
    struct cop_weights weights = cop_residual_weights(&rest);
    double out[3];
    weights.fill(weights.context, 0, 3, out);
    cr_expect_eq(out[0], .5 - .2);
    cr_expect_eq(out[1], 0);
    cr_expect_eq(out[2], 0);
    cr_expect_eq(cop_weights_sum(&weights), .5 - .2);
    rest.target_scale = .5;
    rest.draft_scale = 0;
    cr_expect_eq(cop_weights_sum(&weights), .25 + .15 + .1);
    rest.draft = NULL;
    rest.target_scale = 1;
    cr_expect_eq(cop_weights_sum(&weights), 1);
    rest = (struct cop_residual){&target, &draft, 1, 1};
    for (uint32_t i = 0; i < 50; i++) {
        cr_expect_eq(cop_pick_residual(&draws, 1, any_key(i), &rest), 0);
    }
    /* Nothing left: the target itself. */
    rest.draft = &target;
    int32_t counts[3] = {0};
    for (uint32_t i = 0; i < 2000; i++) {
        counts[cop_pick_residual(&draws, 2, any_key(i), &rest)]++;
    }
    cr_expect_lt(abs(counts[0] - 1000), 135);
    cr_expect_lt(abs(counts[2] - 400), 108);
}

/* ---- Races
 * -------------------------------------------------------------------------------------- */

/* Where u falls among what is left of p. */
static int falls_on(const double *p, int n, const bool *gone, double u)
{
    double left = 0, before = 0;
    for (int i = 0; i < n; i++) {
        left += gone[i] ? 0 : p[i];
    }
    for (int i = 0; i < n; i++) {
        before += gone[i] ? 0 : p[i];
        if (before > u * left) {
            return i;
        }
    }
    return -1;
}

Test(coins, race_is_one_draw_after_another)
{
    const double p[] = {.4, 0, .1, .3, .2};
    struct cop_row row = dense(p, 5);
    for (uint32_t i = 0; i < 300; i++) {
        bool gone[5] = {false};
        cop_token ids[5];
        cr_assert_eq(cop_race(&draws, 1, any_key(i), &row, 5, ids), 4, "no token without mass");
        for (uint32_t j = 0; j < 4; j++) {
            double u = cop_coins_uniform(coins.seed, 7, 3, 1, any_key(i), j);
            cr_assert_eq(ids[j], falls_on(p, 5, gone, u));
            gone[ids[j]] = true;
        }
        for (int k = 1; k < 4; k++) { /* a narrower race is the beginning of a wider one */
            cop_token fewer[5];
            cop_coins_cycle(&coins, 3);
            cr_assert_eq(cop_race(&draws, 1, any_key(i), &row, k, fewer), k);
            cr_assert_arr_eq(fewer, ids, (size_t)k * sizeof *ids);
        }
    }
    cop_token none[1];
    cr_expect_eq(cop_race(&draws, 2, 1, &row, 0, none), 0);
}

/* First and second place against draws without replacement. */
Test(coins, race_has_the_law_of_draws_without_replacement)
{
    enum { N = 20000 };
    const double p[] = {.5, .3, .2};
    struct cop_row row = dense(p, 3);
    double statistic = 0;
    int32_t counts[3][3] = {{0}};
    for (uint32_t i = 0; i < N; i++) {
        cop_token ids[2];
        cop_coins_cycle(&coins, i);
        cr_assert_eq(cop_race(&draws, 1, 1, &row, 2, ids), 2);
        counts[ids[0]][ids[1]]++;
    }
    for (int a = 0; a < 3; a++) {
        for (int b = 0; b < 3; b++) {
            double expected = a == b ? 0 : N * p[a] * p[b] / (1 - p[a]);
            double difference = counts[a][b] - expected;
            statistic += a == b ? 0 : difference * difference / expected;
            cr_expect(a != b || counts[a][b] == 0);
        }
    }
    cr_expect_lt(statistic, 35.9, "chi-square %g, 5 degrees of freedom, one in a million",
                 statistic);
}

/* Blocks and slices of them are only a way to find the place. */
Test(coins, race_over_a_large_row_falls_where_one_sum_does)
{
    enum { VOCAB = 3 * COP_SUM_BLOCK + 77, K = 40 };
    static double p[VOCAB];
    static bool gone[VOCAB];
    for (uint32_t i = 0; i < VOCAB; i++) {
        double u = cop_coins_uniform(1, 2, 3, 4, 5, i);
        p[i] = pow(u, 60); /* few tokens hold most */
    }
    struct cop_row row = dense(p, VOCAB);
    cop_token ids[K];
    cr_assert_eq(cop_race(&draws, 1, 1, &row, K, ids), K);
    for (uint32_t j = 0; j < K; j++) {
        double u = cop_coins_uniform(coins.seed, 7, 3, 1, 1, j);
        cr_assert_eq(ids[j], falls_on(p, VOCAB, gone, u), "draw %u", j);
        gone[ids[j]] = true;
    }
}

Test(coins, race_over_a_large_row_reads_every_block)
{
    enum { VOCAB = 3 * COP_SUM_BLOCK + 512 };
    double *p = malloc(VOCAB * sizeof *p);
    border_row(p, VOCAB);
    struct cop_row row = dense(p, VOCAB);
    cop_token ids[8];
    cr_assert_eq(cop_race(&draws, 1, 1, &row, 8, ids), 4);
    for (int j = 0; j < 4; j++) {
        cr_expect_eq(p[ids[j]], .25);
        for (int i = 0; i < j; i++) {
            cr_expect_neq(ids[i], ids[j]);
        }
    }
    free(p);
}

/* A race that goes on, in one step or in many, with another race in between or not. */
Test(coins, race_goes_on_where_it_was)
{
    enum { VOCAB = 3 * COP_SUM_BLOCK + 77, K = 40 };
    static double p[VOCAB], others[3] = {.5, .25, .25};
    for (uint32_t i = 0; i < VOCAB; i++) {
        p[i] = pow(cop_coins_uniform(1, 2, 3, 4, 5, i), 60);
    }
    struct cop_row row = dense(p, VOCAB), other = dense(others, 3);
    cop_token ids[K], more[K], two[2];
    cr_assert_eq(cop_race(&draws, 1, 1, &row, K, ids), K);
    for (int interrupted = 0; interrupted < 2; interrupted++) {
        cop_coins_cycle(&coins, 3);
        int32_t n = cop_race(&draws, 1, 1, &row, 3, more);
        for (int32_t k = 4; n < K; k = k * 5 / 4 + 1) {
            k = k < K ? k : K;
            if (interrupted) {
                (void)cop_race(&draws, 1, any_key((uint32_t)k), &other, 2, two);
            }
            cr_assert_eq(cop_race_on(&draws, 1, 1, &row, k, more, n), k);
            n = k;
        }
        cr_expect_arr_eq(more, ids, sizeof ids);
    }
    cr_expect_eq(cop_race_on(&draws, 1, 1, &row, 4, more, 4), 4, "nothing is asked for");
}

/* Whoever stands in the place of the first ones is not drawn again. */
Test(coins, race_goes_on_after_given_tokens)
{
    const double p[] = {.4, 0, .1, .3, .2};
    struct cop_row row = dense(p, 5);
    for (uint32_t i = 0; i < 300; i++) {
        bool gone[5] = {[3] = true, [2] = true};
        cop_token ids[5] = {3, 2};
        cr_assert_eq(cop_race_on(&draws, 1, any_key(i), &row, 5, ids, 2), 4);
        for (uint32_t j = 2; j < 4; j++) {
            double u = cop_coins_uniform(coins.seed, 7, 3, 1, any_key(i), j);
            cr_assert_eq(ids[j], falls_on(p, 5, gone, u));
            gone[ids[j]] = true;
        }
    }
}
