/* The shared numerical primitives against libm, and their edge cases by hand. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/level.h"
#include "kernels/ops.h"
#include "tests/kernels/numbers.h"

static double relative_error(double ours, double exact)
{
    return exact == 0.0 ? fabs(ours) : fabs(ours - exact) / fabs(exact);
}

Test(primitive, exp_is_within_1e_15_of_libm)
{
    /* glibc's exp is within one unit (2.3e-16) of the truth. */
    double worst = 0.0;
    uint64_t state = 1;
    for (int i = 0; i < 400000; i++) {
        double range = i % 4 == 0 ? 700.0 : i % 4 == 1 ? 20.0 : i % 4 == 2 ? 1.0 : 1e-3;
        double x = range * (2.0 * test_uniform(&state) - 1.0);
        worst = fmax(worst, relative_error(cop_exp(x), exp(x)));
    }
    cr_expect_lt(worst, 1e-15 - 2.3e-16, "worst %g", worst);
}

Test(primitive, exp_at_the_edges)
{
    cr_expect_eq(cop_exp(0.0), 1.0);
    cr_expect_eq(cop_exp(-0.0), 1.0);
    cr_expect_eq(cop_exp(-708.5), 0.0);
    cr_expect_eq(cop_exp(-HUGE_VAL), 0.0);
    cr_expect_eq(cop_exp(-1e300), 0.0);
    cr_expect_eq(cop_exp(1e300), HUGE_VAL);
    cr_expect_eq(cop_exp(HUGE_VAL), HUGE_VAL);
    cr_expect(isnan(cop_exp(nan(""))));
    cr_expect_lt(relative_error(cop_exp(709.0), exp(709.0)), 1e-15);
    cr_expect_lt(relative_error(cop_exp(-708.0), exp(-708.0)), 1e-15);
}

Test(primitive, expf_is_within_2e_7_everywhere)
{
    /* Every 97th float of [-87, 88]; the yardstick is the double exponential. */
    double worst = 0.0;
    for (uint32_t bits = 0; bits < 0x42b00000u; bits += 97) {
        float x;
        memcpy(&x, &bits, sizeof x);
        worst = fmax(worst, relative_error((double)cop_expf(x), cop_exp((double)x)));
        if (x <= 87.0f) {
            worst = fmax(worst, relative_error((double)cop_expf(-x), cop_exp(-(double)x)));
        }
    }
    cr_expect_lt(worst, 2e-7, "worst %g", worst);
    cr_expect_eq(cop_expf(0.0f), 1.0f);
    cr_expect_eq(cop_expf(-87.5f), 0.0f);
    cr_expect_eq(cop_expf(-INFINITY), 0.0f);
    cr_expect_eq(cop_expf(INFINITY), INFINITY);
    cr_expect(isnan(cop_expf(NAN)));
}

Test(primitive, log_is_within_1e_15_of_libm)
{
    double worst = 0.0;
    uint64_t state = 2;
    for (int i = 0; i < 400000; i++) {
        double x = i % 4 == 0   ? exp(700.0 * (2.0 * test_uniform(&state) - 1.0))
                   : i % 4 == 1 ? test_uniform(&state)
                   : i % 4 == 2 ? 1.0 + 1e-3 * (test_uniform(&state) - 0.5)
                                : 0.5 + 2.0 * test_uniform(&state);
        worst = fmax(worst, relative_error(cop_log(x), log(x)));
    }
    cr_expect_lt(worst, 1e-15 - 2.3e-16, "worst %g", worst);
    cr_expect_eq(cop_log(1.0), 0.0);
    cr_expect_eq(cop_log(0.0), -HUGE_VAL);
    cr_expect_eq(cop_log(HUGE_VAL), HUGE_VAL);
    cr_expect(isnan(cop_log(-1.0)));
    cr_expect(isnan(cop_log(nan(""))));
    cr_expect_lt(relative_error(cop_log(0x1p-1074), log(0x1p-1074)), 1e-15);
    cr_expect_lt(relative_error(cop_log(1.0 - 0x1p-53), log(1.0 - 0x1p-53)), 1e-15);
}

Test(primitive, exp_block_gives_the_bits_of_exp_at_every_level)
{
    enum { N = 1003 };
    static float logits[N];
    static double out[N];
    uint64_t state = 3;
    for (int i = 0; i < N; i++) {
        logits[i] = (float)(60.0 * test_uniform(&state) - 40.0);
    }
    logits[5] = -INFINITY;
    logits[1001] = NAN;
    const struct cop_level *level;
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        for (int32_t count = 0; count < 20; count++) {
            level->exp_block(logits, count, 20.0, 0.7, out);
        }
        level->exp_block(logits, N, 20.0, 0.7, out);
        for (int i = 0; i < N; i++) {
            double exact = cop_exp(((double)logits[i] - 20.0) * 0.7);
            cr_expect(memcmp(&exact, &out[i], sizeof exact) == 0 ||
                          (isnan(exact) && isnan(out[i])),
                      "%s: entry %d", level->name, i);
        }
    }
}

/* Each entry and the order of the sum, at every level and for every length of the rest. */
Test(primitive, kept_rows_are_rounded_exponentials_and_their_sum)
{
    enum { N = 1003 };
    static float logits[N], out[N];
    static double wide[N];
    uint64_t state = 5;
    for (int i = 0; i < N; i++) {
        logits[i] = (float)(120.0 * test_uniform(&state) - 110.0);
    }
    logits[9] = -INFINITY;
    const struct cop_level *level;
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        for (int32_t count = N; count >= 0; count = count > 20 ? 20 : count - 1) {
            double sum = level->exp_row(logits, count, 10.0, 0.9, out);
            for (int i = 0; i < count; i++) {
                float exact = (float)cop_exp(((double)logits[i] - 10.0) * 0.9);
                cr_expect(memcmp(&exact, &out[i], sizeof exact) == 0, "%s: entry %d",
                          level->name, i);
                wide[i] = (double)exact;
            }
            cr_expect_eq(sum, cop_sum_block(wide, count), "%s: %d", level->name, count);
        }
    }
}

Test(primitive, residual_block_is_the_positive_part_and_its_sum)
{
    enum { N = 1003 };
    static float target[N], draft[N];
    static double out[N], wide[N];
    uint64_t state = 6;
    for (int i = 0; i < N; i++) {
        target[i] = (float)test_uniform(&state);
        draft[i] = i % 7 ? (float)test_uniform(&state) : target[i];
    }
    const struct cop_level *level;
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        for (int32_t count = N; count >= 0; count = count > 20 ? 20 : count - 1) {
            double sum = level->residual_block(target, 0.3, draft, 0.7, count, out);
            for (int i = 0; i < count; i++) {
                double rest = (double)target[i] * 0.3 - (double)draft[i] * 0.7;
                wide[i] = rest > 0 ? rest : 0.0;
                cr_expect_eq(out[i], wide[i], "%s: entry %d", level->name, i);
            }
            cr_expect_eq(sum, cop_sum_block(wide, count), "%s: %d", level->name, count);
            cr_expect_eq(sum, level->residual_block(target, 0.3, draft, 0.7, count, NULL));
        }
    }
}

/* ---- Sums over two rows, entry by entry in double
 * -------------------------------------------- */

enum { PAIR = 1003 };
static float pair_target[PAIR], pair_draft[PAIR];

static void make_pair(void)
{
    uint64_t state = 11;
    for (int i = 0; i < PAIR; i++) {
        pair_target[i] = i % 9 ? (float)test_uniform(&state) : 0.0f;
        pair_draft[i] = i % 7 ? (float)test_uniform(&state) : pair_target[i];
    }
}

/* All counts up to 20, and all of it. */
static int32_t next_count(int32_t count)
{
    return count > 20 ? 20 : count - 1;
}

Test(primitive, gated_block_chooses_the_form_by_entry)
{
    static double out[PAIR], wide[PAIR];
    const struct cop_gate gate = {0.5, 0.25 * 0.5, 0.3, 0.6, 1.1, -0.7};
    make_pair();
    pair_draft[3] = 0.25f; /* at the bar: open */
    const struct cop_level *level;
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        for (int32_t count = PAIR; count >= 0; count = next_count(count)) {
            double sum =
                level->gated_block(&gate, pair_target, pair_draft, pair_draft, count, out);
            for (int i = 0; i < count; i++) {
                bool is_open = (double)pair_draft[i] >= 0.25;
                double value = (double)pair_target[i] * (is_open ? 0.3 : 1.1) +
                               (double)pair_draft[i] * (is_open ? 0.6 : -0.7);
                wide[i] = value > 0 ? value : 0.0;
                cr_expect_eq(out[i], wide[i], "%s: entry %d", level->name, i);
            }
            cr_expect_eq(sum, cop_sum_block(wide, count), "%s: %d", level->name, count);
            cr_expect_eq(sum, level->gated_block(&gate, pair_target, pair_draft, pair_draft,
                                                 count, NULL));
        }
    }
}

Test(primitive, ratios_below_and_by_buckets)
{
    static double wide[PAIR];
    static uint16_t buckets[PAIR];
    make_pair();
    const struct cop_level *level;
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        for (int32_t count = PAIR; count >= 0; count = next_count(count)) {
            for (int or_equal = 0; or_equal < 2; or_equal++) {
                double p = (double)pair_target[7], q = (double)pair_draft[7]; /* equal */
                for (int i = 0; i < count; i++) {
                    double left = (double)pair_target[i] * q, right = p * (double)pair_draft[i];
                    wide[i] =
                        left < right || (or_equal && left <= right) ? (double)pair_draft[i] : 0;
                }
                cr_expect_eq(level->ratio_below(pair_target, pair_draft, p, q, or_equal, count),
                             cop_sum_block(wide, count), "%s: %d", level->name, count);
            }
            level->ratio_buckets(pair_target, pair_draft, count, buckets);
            for (int i = 0; i < count; i++) {
                double ratio = (double)(pair_target[i] / pair_draft[i]);
                double place = 1 + 128 * (12 + floor(log2(ratio)));
                place += floor(128 * (ratio / exp2(floor(log2(ratio))) - 1));
                cr_expect_eq(buckets[i], pair_target[i] > 0 ? place : 0, "%s: entry %d",
                             level->name, i);
            }
        }
        const float target[6] = {1, 1, 1e-30f, 4096, 2047, 0},
                    draft[6] = {0, 1e-45f, 1, 1, 1, 1};
        level->ratio_buckets(target, draft, 6, buckets);
        const uint16_t ends[6] = {COP_RATIO_BUCKETS - 1, COP_RATIO_BUCKETS - 1,       1,
                                  COP_RATIO_BUCKETS - 1, COP_RATIO_BUCKETS - 1 - 128, 0};
        for (int i = 0; i < 6; i++) {
            cr_expect_eq(buckets[i], ends[i], "%s: end %d: %d", level->name, i, buckets[i]);
        }
    }
}

/* What each sum adds for one entry, from the scalar primitives. */
static double term_of(int which, int i)
{
    double t = (double)pair_target[i], d = (double)pair_draft[i], v = 0.25 * t + 0.5 * d;
    switch (which) {
    case 0: return t > 0 ? t * (d - 0.125) : 0;
    case 1: return 0.5 * t * cop_log(0.5 * t + 1e-5);
    default: return v > 0 ? v * cop_log(v) : 0;
    }
}

static double sum_of(const struct cop_level *level, int which, int32_t count)
{
    switch (which) {
    case 0: return level->energy_block(pair_target, pair_draft, 0.125, count);
    case 1: return level->surprise_block(pair_target, 0.5, 1e-5, count);
    default: return level->mixture_block(pair_target, 0.25, pair_draft, 0.5, count);
    }
}

Test(primitive, sums_of_logarithms_are_those_of_their_entries)
{
    static double wide[PAIR];
    make_pair();
    const struct cop_level *level;
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        for (int which = 0; which < 3; which++) {
            for (int32_t count = PAIR; count >= 0; count = next_count(count)) {
                for (int i = 0; i < count; i++) {
                    wide[i] = term_of(which, i);
                }
                cr_expect_eq(sum_of(level, which, count), cop_sum_block(wide, count),
                             "%s: sum %d of %d", level->name, which, count);
            }
        }
    }
}

Test(primitive, contrast_row_is_near_its_exponentials_with_the_same_bits_at_every_level)
{
    static float out[PAIR], first[PAIR];
    static double wide[PAIR];
    make_pair();
    pair_target[4] = -INFINITY;
    const struct cop_level *level;
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        for (int32_t count = PAIR; count >= 0; count = next_count(count)) {
            double sum = level->contrast_row(pair_target, 15, pair_draft, 5, 2, count, out);
            for (int i = 0; i < count; i++) {
                double exact = exp(15 * (double)pair_target[i] - 5 * (double)pair_draft[i] - 2);
                cr_expect_leq(fabs((double)out[i] - exact), 1e-7 * exact, "%s: entry %d",
                              level->name, i);
                first[i] = at == 0 ? out[i] : first[i];
                cr_expect_eq(out[i], first[i], "%s: entry %d", level->name, i);
                wide[i] = (double)out[i];
            }
            cr_expect_eq(sum, cop_sum_block(wide, count), "%s: %d", level->name, count);
        }
    }
}

Test(primitive, contrast_row_at_its_ends)
{
    const float target[5] = {-87, -88, 0, 200, 1}, draft[5] = {0, 0, -INFINITY, 0, NAN};
    const struct cop_level *level;
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        float out[5];
        (void)level->contrast_row(target, 1, draft, 1, 0, 5, out);
        cr_expect(out[0] > 0 && out[0] < 2e-38f, "%s", level->name);
        cr_expect_eq(out[1], 0.0f, "%s", level->name);
        cr_expect(isinf(out[2]) && isinf(out[3]) && isnan(out[4]), "%s", level->name);
    }
}

/* A token that is excluded has weight 0, whatever its logit; one that only the other row
 * excludes makes the energy infinite. */
Test(primitive, energy_of_excluded_tokens)
{
    const float weights[3] = {0.5f, 0, 0.5f}, logits[3] = {1, -INFINITY, 3};
    const float other[3] = {1, 2, -INFINITY};
    const struct cop_level *level;
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        cr_expect_eq(level->energy_block(weights, logits, 2, 3), 0.0);
        cr_expect_eq(level->energy_block(weights, other, 2, 3), -HUGE_VAL);
    }
}

Test(primitive, the_estimate_keeps_its_bound_and_its_bits)
{
    static double wide[PAIR];
    double sizes[] = {1, 1e-3, 1e-6, 1e-9};
    make_pair();
    for (size_t s = 0; s < 4; s++) {
        for (int32_t count = PAIR; count >= 0; count = next_count(count)) {
            double scale = sizes[s], mass = 0;
            for (int i = 0; i < count; i++) {
                wide[i] = scale * ((double)pair_target[i] + (double)pair_draft[i]) / 2;
                mass += wide[i];
                wide[i] *= cop_log(wide[i] + 1e-5);
            }
            double exact = cop_sum_block(wide, count), first = 0;
            const struct cop_level *level;
            for (int32_t at = 0; (level = cop_level_at(at)); at++) {
                double near = level->mixture_near(pair_target, scale / 2, pair_draft, scale / 2,
                                                  1e-5, count);
                cr_expect_leq(fabs(near - exact), 1e-5 * (mass + fabs(exact)), "%s: %g, %d",
                              level->name, scale, count);
                first = at == 0 ? near : first;
                cr_expect_eq(near, first, "%s: %g, %d", level->name, scale, count);
            }
        }
    }
}

Test(primitive, maxima_and_counts)
{
    make_pair();
    const struct cop_level *level;
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        for (int32_t count = PAIR; count > 0; count = next_count(count)) {
            float most[PAIR / COP_MAXIMA_GROUP + 1];
            int32_t n = 0;
            level->maxima(pair_target, count, most);
            float largest = most[0];
            for (int32_t g = 1; g <= (count - 1) / COP_MAXIMA_GROUP; g++) {
                largest = most[g] > largest ? most[g] : largest;
            }
            cr_expect_eq(level->largest(pair_target, count), largest, "%s", level->name);
            for (int32_t i = 0; i < count; i++) {
                cr_expect_leq(pair_target[i], most[i / COP_MAXIMA_GROUP]);
                n += pair_target[i] > 0.5f;
            }
            for (int32_t g = 0; g * COP_MAXIMA_GROUP < count; g++) {
                bool is_there = false;
                for (int32_t i = g * COP_MAXIMA_GROUP; i < count; i++) {
                    is_there = is_there || pair_target[i] == most[g];
                }
                cr_expect(is_there, "%s: group %d", level->name, g);
            }
            cr_expect_eq(level->count_above(pair_target, count, 0.5f), n);
        }
        const float edge[3] = {-INFINITY, 1, -INFINITY};
        cr_expect_eq(level->count_above(edge, 3, -INFINITY), 1);
    }
}

Test(primitive, sum_block_has_one_order)
{
    double values[COP_SUM_BLOCK];
    for (int i = 0; i < COP_SUM_BLOCK; i++) {
        values[i] = 1.0;
    }
    cr_expect_eq(cop_sum_block(values, 0), 0.0);
    cr_expect_eq(cop_sum_block(values, 1), 1.0);
    cr_expect_eq(cop_sum_block(values, 13), 13.0);
    cr_expect_eq(cop_sum_block(values, COP_SUM_BLOCK), 1024.0);
    /* Lanes of eight: 1e16 and -1e16 meet in lane 0 before the ones of lane 1 are added, so
     * that nothing is lost; a left-to-right sum would give 1. */
    double order[10] = {1e16, 1.0, 0, 0, 0, 0, 0, 0, -1e16, 1.0};
    cr_expect_eq(cop_sum_block(order, 10), 2.0);
}

Test(primitive, widened_rows_and_their_sums_are_the_same_at_every_level)
{
    make_pair();
    const struct cop_level *level;
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        for (int32_t count = PAIR; count > 0; count = next_count(count)) {
            double wide[PAIR], lanes[8] = {0};
            level->widen_row(pair_target, count, 0.3, wide);
            for (int32_t i = 0; i < count; i++) {
                cr_assert_eq(wide[i], (double)pair_target[i] * 0.3, "%s: %d", level->name, i);
                lanes[i % 8] += wide[i];
            }
            double a = lanes[0] + lanes[4], b = lanes[1] + lanes[5];
            double c = lanes[2] + lanes[6], d = lanes[3] + lanes[7];
            cr_expect_eq(level->sum_block(wide, count), (a + c) + (b + d), "%s: %d",
                         level->name, count);
        }
    }
}

Test(primitive, argmax_takes_the_lowest_of_equals)
{
    static float row[1000];
    const struct cop_level *level;
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        for (int32_t count = 1; count < 70; count++) {
            for (int32_t best = 0; best < count; best++) {
                for (int i = 0; i < count; i++) {
                    row[i] = i >= best && i % 3 == best % 3 ? -1.5f : -2.0f - (float)(i % 5);
                }
                cr_assert_eq(level->argmax(row, count), best, "%s %d of %d", level->name, best,
                             count);
            }
        }
    }
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        for (int32_t count = 1; count <= 1000; count = count * 3 / 2 + 1) {
            float groups[16], most[16];
            for (int i = 0; i < count; i++) {
                row[i] = (float)((i * 37 + count) % 101);
            }
            size_t n_groups = ((size_t)count + COP_MAXIMA_GROUP - 1) / COP_MAXIMA_GROUP;
            cr_expect_eq(level->argmax_groups(row, count, groups), level->argmax(row, count),
                         "%s of %d", level->name, count);
            level->maxima(row, count, most);
            cr_expect_arr_eq(groups, most, n_groups * sizeof *most);
            row[count / 2] = NAN;
            cr_expect_eq(level->argmax_groups(row, count, groups), -1);
        }
    }
    const float zeros[3] = {-1.0f, -0.0f, 0.0f};
    cr_expect_eq(cop_argmax(zeros, 3), 1);
}

Test(primitive, argmax_refuses_rows_that_are_not_numbers)
{
    static float row[100];
    const struct cop_level *level;
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        for (int32_t bad = 0; bad < 100; bad++) {
            for (int i = 0; i < 100; i++) {
                row[i] = -INFINITY;
            }
            cr_expect_eq(level->argmax(row, 100), -1);
            row[bad] = -3e38f;
            cr_expect_eq(level->argmax(row, 100), bad);
            row[bad] = NAN;
            cr_expect_eq(level->argmax(row, 100), -1);
            row[(bad + 7) % 100] = 5.0f;
            cr_expect_eq(level->argmax(row, 100), -1);
            row[bad] = -NAN;
            cr_expect_eq(level->argmax(row, 100), -1);
            row[bad] = INFINITY;
            cr_expect_eq(level->argmax(row, 100), -1);
        }
        cr_expect_eq(level->argmax(row, 0), -1);
    }
}

Test(primitive, pick_block_walks_the_cumulative_sum)
{
    const double weights[5] = {0.0, 0.25, 0.0, 0.5, 0.0};
    double before = -1.0;
    cr_expect_eq(cop_pick_block(weights, 5, 0.0, &before), 1);
    cr_expect_eq(before, 0.0);
    cr_expect_eq(cop_pick_block(weights, 5, 0.2499, NULL), 1);
    cr_expect_eq(cop_pick_block(weights, 5, 0.25, &before), 3);
    cr_expect_eq(before, 0.25);
    cr_expect_eq(cop_pick_block(weights, 5, 0.75, &before), 3, "mass beyond the end");
    cr_expect_eq(before, 0.25);
    cr_expect_eq(cop_pick_block(weights, 5, 9.0, NULL), 3);
    cr_expect_eq(cop_pick_block(weights, 1, 0.0, &before), -1, "nothing but zeros");
    cr_expect_eq(before, 0.25, "left alone");
    cr_expect_eq(cop_pick_block(weights, 0, 0.0, NULL), -1);
}

/* What training does by rows, of every length up to 40, and each level's bits. */
enum { TRAINED = 40 };

static float *random_floats(size_t count, uint64_t *state, float scale)
{
    float *values = malloc(count * sizeof *values);
    cr_assert(values != NULL);
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(2.0 * test_uniform(state) - 1.0) * scale;
    }
    return values;
}

Test(primitive, squares_are_summed_in_eight_lanes_at_every_level)
{
    uint64_t state = 31;
    float *x = random_floats(TRAINED, &state, 2.0f);
    const struct cop_level *level;
    for (int32_t n = 0; n <= TRAINED; n++) {
        double lanes[8] = {0};
        for (int32_t i = 0; i < n; i++) {
            lanes[i % 8] += (double)x[i] * (double)x[i];
        }
        double sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
                     ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
        cr_expect_eq(cop_squares(x, n), sum);
        for (int32_t at = 0; (level = cop_level_at(at)); at++) {
            cr_expect_eq(level->sum_of_squares(x, n), sum, "%s, %d", level->name, n);
        }
    }
    free(x);
}

Test(primitive, slopes_of_a_gate_are_those_of_the_formula_with_the_same_bits_at_every_level)
{
    uint64_t state = 32;
    float *gate = random_floats(TRAINED, &state, 6.0f), *up = random_floats(TRAINED, &state, 1);
    float *d_out = random_floats(TRAINED, &state, 1), out[TRAINED];
    float d_gate[TRAINED], d_up[TRAINED], bits[2][TRAINED];
    const struct cop_level *level;
    gate[0] = -200.0f; /* e^200 is infinite: the slopes are 0 */
    gate[1] = 200.0f;
    cop_swiglu_row(gate, up, TRAINED, out);
    cop_swiglu_back_row(gate, up, d_out, TRAINED, d_gate, d_up);
    for (int32_t i = 0; i < TRAINED; i++) {
        double g = (double)gate[i], s = 1 / (1 + exp(-g)), d = (double)d_out[i];
        cr_expect_float_eq((double)out[i], g * s * (double)up[i], 2e-6 * (1 + fabs(g)));
        cr_expect_float_eq((double)d_up[i], d * g * s, 2e-6 * (1 + fabs(g)));
        cr_expect_float_eq((double)d_gate[i], d * (double)up[i] * s * (1 + g * (1 - s)), 4e-6);
    }
    for (int32_t n = 1; n <= TRAINED; n++) {
        for (int32_t at = 0; (level = cop_level_at(at)); at++) {
            level->swiglu_back(gate, up, d_out, n, bits[0], bits[1]);
            size_t bytes = (size_t)n * sizeof(float);
            cr_expect_arr_eq(bits[0], d_gate, bytes, "%s, %d", level->name, n);
            cr_expect_arr_eq(bits[1], d_up, bytes, "%s, %d", level->name, n);
        }
        memcpy(bits[0], d_out, sizeof bits[0]); /* in place */
        cop_swiglu_back_row(gate, up, bits[0], n, bits[1], bits[0]);
        cr_expect_arr_eq(bits[0], d_up, (size_t)n * sizeof(float));
    }
    free(gate);
    free(up);
    free(d_out);
}

Test(primitive, adamw_is_its_formula_with_the_same_bits_at_every_level)
{
    const struct cop_adamw_rates rates = {.scale = 0.5f,
                                          .beta1 = 0.9f,
                                          .beta2 = 0.95f,
                                          .rate = 0.01f,
                                          .root = 2.0f,
                                          .epsilon = 1e-3f,
                                          .decay = 0.25f};
    uint64_t state = 33;
    float *g = random_floats(TRAINED, &state, 1),
          *start = random_floats(3 * TRAINED, &state, 1);
    float all[3][TRAINED], some[3][TRAINED];
    const struct cop_level *level;
    for (int32_t i = 0; i < TRAINED; i++) {
        start[2 * TRAINED + i] = fabsf(start[2 * TRAINED + i]);
    }
    memcpy(all, start, sizeof all);
    cop_adamw_row(&rates, g, TRAINED, all[0], all[1], all[2]);
    for (int32_t i = 0; i < TRAINED; i++) { /* a few roundings of numbers below 2 */
        double by = 0.5 * (double)g[i], value = (double)start[i];
        double first = 0.9 * (double)start[TRAINED + i] + 0.1 * by;
        double second = 0.95 * (double)start[2 * TRAINED + i] + 0.05 * by * by;
        cr_expect_float_eq((double)all[1][i], first, 1e-6);
        cr_expect_float_eq((double)all[2][i], second, 1e-6);
        value -= 0.01 * first / (2 * sqrt(second) + 1e-3) + 0.25 * value;
        cr_expect_float_eq((double)all[0][i], value, 2e-6);
    }
    for (int32_t n = 1; n <= TRAINED; n++) {
        for (int32_t at = 0; (level = cop_level_at(at)); at++) {
            memcpy(some, start, sizeof some);
            level->adamw(&rates, g, n, some[0], some[1], some[2]);
            for (int row = 0; row < 3; row++) {
                const float *rest = start + row * TRAINED + n;
                cr_expect_arr_eq(some[row], all[row], (size_t)n * sizeof(float), "%s, %d",
                                 level->name, n);
                cr_expect_arr_eq(some[row] + n, rest, (size_t)(TRAINED - n) * sizeof(float));
            }
        }
    }
    free(g);
    free(start);
}
