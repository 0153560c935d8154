/* Shared noise: every token's time is exponential and its own, and a race that passes by most
 * of them ends as one in which everybody ran. */
#include "core/cycle/draws/noise.h"
#include <criterion/criterion.h>

#include <math.h>

enum { VOCAB = 2500 };

static uint32_t mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* What a token's time is: the one in a race that it runs alone. */
static double time_of(const struct cop_noise *noise, cop_token token)
{
    const double weight = 1;
    const struct cop_row row = {
        .kind = COP_ROW_SPARSE, .vocab = VOCAB, .ids = &token, .weights = &weight, .count = 1};
    double time;
    cop_token winner;
    struct cop_podium podium = {.k = 1, .times = &time, .ids = &winner};
    cop_noise_race(noise, &row, &podium);
    cr_assert_eq(winner, token);
    return time;
}

Test(noise, a_race_ends_as_if_everybody_ran)
{
    static double p[VOCAB], alone[VOCAB];
    for (uint32_t position = 0; position < 100; position++) {
        struct cop_noise noise = {17, 3, position};
        int32_t vocab = position % 2 ? VOCAB : 700;
        for (int32_t i = 0; i < vocab; i++) { /* flat, steep, with zeros */
            uint32_t h = mix(position * 7919 + (uint32_t)i);
            alone[i] = time_of(&noise, i);
            p[i] = position % 3 ? pow(h % 997 / 997.0, position % 5 * 8.0) : h % 3;
        }
        struct cop_row row = {.kind = COP_ROW_DENSE, .vocab = vocab, .dense = p};
        double times[3];
        cop_token ids[3];
        struct cop_podium podium = {.k = 3, .times = times, .ids = ids};
        cop_noise_race(&noise, &row, &podium);
        cr_assert_eq(podium.n, 3);
        double before = 0;
        for (int j = 0; j < 3; j++) { /* each place: the earliest after the one before */
            cop_token best = -1;
            double earliest = HUGE_VAL;
            for (int32_t i = 0; i < vocab; i++) {
                double time = p[i] > 0 ? alone[i] / p[i] : HUGE_VAL;
                if (time > before && time < earliest) {
                    earliest = time;
                    best = i;
                }
            }
            cr_expect_eq(ids[j], best, "position %u, place %d", position, j);
            cr_expect_eq(times[j], earliest);
            before = earliest;
        }
    }
}

/* 200,000 times in 20 equally likely intervals, and neighbours (halves of one part) apart. */
Test(noise, times_are_exponential_and_independent)
{
    enum { N = 200000, BINS = 20, SIDE = 5 };
    int32_t counts[BINS] = {0}, pairs[SIDE][SIDE] = {{0}};
    struct cop_noise noise = {1, 2, 0};
    double last = 0;
    for (int32_t i = 0; i < N; i++) {
        noise.position = (uint32_t)i / VOCAB;
        double u = 1 - exp(-time_of(&noise, i % VOCAB));
        counts[(int)(u * BINS)]++;
        if (i % 2) {
            pairs[(int)(last * SIDE)][(int)(u * SIDE)]++;
        }
        last = u;
    }
    double alone = 0, together = 0;
    for (int b = 0; b < BINS; b++) {
        alone += pow(counts[b] - N / BINS, 2) / (N / BINS);
    }
    for (int b = 0; b < SIDE * SIDE; b++) {
        double expected = N / 2.0 / (SIDE * SIDE);
        together += pow(pairs[b / SIDE][b % SIDE] - expected, 2) / expected;
    }
    cr_expect_lt(alone, 63.2, "chi-square %g, 19 degrees of freedom, one in a million", alone);
    cr_expect_lt(together, 71.6, "chi-square %g, 24 degrees, one in a million", together);
}

/* Vocabularies of different size share the times of the tokens that they have in common. */
Test(noise, does_not_depend_on_the_vocabulary)
{
    static double p[VOCAB];
    for (int32_t i = 0; i < VOCAB; i++) {
        p[i] = i < 1100;
    }
    for (uint32_t position = 0; position < 50; position++) {
        struct cop_noise noise = {5, 0, position};
        cop_token first[2];
        for (int j = 0; j < 2; j++) {
            struct cop_row row = {.kind = COP_ROW_DENSE, .vocab = j ? VOCAB : 1100, .dense = p};
            double time;
            struct cop_podium podium = {.k = 1, .times = &time, .ids = &first[j]};
            cop_noise_race(&noise, &row, &podium);
        }
        cr_expect_eq(first[0], first[1]);
    }
}
