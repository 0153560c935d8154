/* Steps that change logits: hand-made numbers in both formats, ranges, and transformers' chains
 * on the engine's f32 rows (cop.process_row compares the doubles, tests/lua/process.lua). */
#include "core/cycle/rows/arena.h"
#include "core/cycle/rows/process.h"
#include "tests/support/json_list.h"
#include <criterion/criterion.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 6 };
static struct cop_row_arena *arena;
static float f32[64];
static double f64[64];

static void start(void)
{
    arena = cop_row_arena_new();
}
static void stop(void)
{
    cop_row_arena_free(arena);
}
TestSuite(process, .init = start, .fini = stop);

/* prompt 0 1 1, answer 1 2 2 */
static const cop_token prefix[] = {0, 1, 1, 1, 2, 2};
static const double logits[VOCAB] = {2, -1, 0.5, 3, 0, -4};

static enum cop_status apply(const struct cop_processing *how, bool is_double,
                             struct cop_error *err)
{
    for (int i = 0; i < VOCAB; i++) {
        f64[i] = logits[i];
        f32[i] = (float)logits[i];
    }
    struct cop_process process = {.how = how,
                                  .prefix = prefix,
                                  .n_prefix = 6,
                                  .n_prompt = 3,
                                  .logits = {.vocab = VOCAB},
                                  .arena = arena};
    process.logits.f64 = is_double ? f64 : NULL;
    process.logits.f32 = is_double ? NULL : f32;
    return cop_process_apply(&process, err);
}

static void expect(const struct cop_processing *how, const double *expected)
{
    struct cop_error err;
    cr_assert_eq(cop_processing_check(how, VOCAB, &err), COP_OK, "%s", err.text);
    cr_assert_eq(apply(how, true, &err), COP_OK, "%s", err.text);
    cr_assert_eq(f32[1], (float)logits[1], "only one of the two formats is written");
    cr_assert_eq(apply(how, false, &err), COP_OK, "%s", err.text);
    cr_assert_eq(f64[1], logits[1]);
    for (int i = 0; i < VOCAB; i++) {
        cr_expect_eq(f32[i], (float)expected[i], "token %d: %.9g", i, (double)f32[i]);
    }
    cr_assert_eq(apply(how, true, &err), COP_OK);
    for (int i = 0; i < VOCAB; i++) {
        cr_expect_eq(f64[i], expected[i], "token %d: %.17g, not %.17g", i, f64[i], expected[i]);
    }
}

Test(process, repetition_counts_prompt_and_answer_once)
{
    expect(&(struct cop_processing){.repetition_penalty = 2},
           (const double[]){1, -2, 0.25, 3, 0, -4});
    expect(&(struct cop_processing){.repetition_penalty = 1}, logits);
    expect(&(struct cop_processing){0}, logits);
}

Test(process, presence_and_frequency_count_the_answer)
{
    expect(&(struct cop_processing){.presence_penalty = 0.5},
           (const double[]){2, -1.5, 0, 3, 0, -4});
    expect(&(struct cop_processing){.frequency_penalty = 0.25},
           (const double[]){2, -1.25, 0, 3, 0, -4});
    expect(&(struct cop_processing){.frequency_penalty = -1},
           (const double[]){2, 0, 2.5, 3, 0, -4});
}

Test(process, biases_and_bans)
{
    const struct cop_bias bias[] = {{3, -2}, {5, 8}, {0, -HUGE_VAL}};
    const cop_token banned[] = {4, 4, 3};
    expect(&(struct cop_processing){.bias = bias, .n_bias = 3},
           (const double[]){-HUGE_VAL, -1, 0.5, 1, 0, 4});
    expect(&(struct cop_processing){.banned = banned, .n_banned = 3},
           (const double[]){2, -1, 0.5, -HUGE_VAL, -HUGE_VAL, -4});
}

/* ((z r) - presence - frequency * count) + bias: any other order gives other numbers. */
Test(process, the_order_is_the_documented_one)
{
    const struct cop_bias bias[] = {{1, 4}, {2, 4}};
    const cop_token banned[] = {0};
    expect(&(struct cop_processing){.repetition_penalty = 2,
                                    .presence_penalty = 1,
                                    .frequency_penalty = 0.5,
                                    .bias = bias,
                                    .n_bias = 2,
                                    .banned = banned,
                                    .n_banned = 1},
           (const double[]){-HUGE_VAL, -2 - 1 - 0.5 + 4, 0.25 - 1 - 1 + 4, 3, 0, -4});
}

Test(process, counters_are_left_at_zero)
{
    struct cop_error err;
    const struct cop_processing how = {.repetition_penalty = 2, .frequency_penalty = 1};
    cr_assert_eq(apply(&how, false, &err), COP_OK);
    const int32_t *counts = cop_row_arena_counts(arena, VOCAB);
    for (int i = 0; i < VOCAB; i++) {
        cr_expect_eq(counts[i], 0);
    }
}

static enum cop_status double_last(void *user, const cop_token *ids, int32_t n, float *row,
                                   int32_t vocab, struct cop_error *err)
{
    int *calls = user;
    cr_expect(n == 6 && vocab == VOCAB && memcmp(ids, prefix, sizeof prefix) == 0);
    cr_expect_eq(row[4], -INFINITY, "bans come before the processor");
    row[ids[n - 1]] *= 2;
    return ++*calls == 2 ? cop_fail(err, COP_ERR_CALLBACK, "twice is enough") : COP_OK;
}

Test(process, the_processor_comes_last)
{
    int calls = 0;
    const cop_token banned[] = {4};
    const struct cop_processing how = {
        .banned = banned, .n_banned = 1, .process = double_last, .user = &calls};
    struct cop_error err;
    cr_assert_eq(apply(&how, false, &err), COP_OK);
    cr_expect_eq(f32[2], 1);
    cr_expect_eq(f32[3], 3);
    cr_expect_eq(apply(&how, false, &err), COP_ERR_CALLBACK);
    cr_expect_str_eq(err.text, "twice is enough");
}

Test(process, no_token_left_is_said_by_name)
{
    const cop_token all[] = {0, 1, 2, 3, 4, 5};
    struct cop_error err;
    const struct cop_processing how = {.banned = all, .n_banned = 6};
    cr_expect_eq(apply(&how, false, &err), COP_ERR_NUMERIC);
    cr_expect_not_null(strstr(err.text, "no token left"), "%s", err.text);
}

Test(process, f32_logits_stay_finite)
{
    struct cop_error err;
    float row[2] = {FLT_MAX, -FLT_MAX};
    const cop_token both[] = {0, 1};
    const struct cop_processing how = {.repetition_penalty = 1e-3};
    struct cop_process process = {.how = &how,
                                  .prefix = both,
                                  .n_prefix = 2,
                                  .logits = {.f32 = row, .vocab = 2},
                                  .arena = arena};
    cr_assert_eq(cop_process_apply(&process, &err), COP_OK);
    cr_expect_eq(row[0], FLT_MAX);
    cr_expect_eq(row[1], (float)(-(double)FLT_MAX * 1e-3));
}

static void expect_refused(struct cop_processing how, const char *text)
{
    struct cop_error err = {0};
    cr_expect_eq(cop_processing_check(&how, VOCAB, &err), COP_ERR_ARGUMENT);
    cr_expect_not_null(strstr(err.text, text), "%s", err.text);
}

Test(process, settings_out_of_range_are_refused)
{
    const struct cop_bias bad[] = {{1, (double)NAN}, {1, HUGE_VAL}, {-1, 0}, {VOCAB, 0}};
    const cop_token ids[] = {-1, VOCAB};
    expect_refused((struct cop_processing){.repetition_penalty = -1}, "repetition_penalty");
    expect_refused((struct cop_processing){.repetition_penalty = (double)NAN},
                   "repetition_penalty");
    expect_refused((struct cop_processing){.repetition_penalty = HUGE_VAL},
                   "repetition_penalty");
    expect_refused((struct cop_processing){.presence_penalty = (double)NAN},
                   "presence_penalty");
    expect_refused((struct cop_processing){.frequency_penalty = -HUGE_VAL},
                   "frequency_penalty");
    for (int i = 0; i < 4; i++) {
        expect_refused((struct cop_processing){.bias = bad + i, .n_bias = 1}, "logit_bias");
    }
    for (int i = 0; i < 2; i++) {
        expect_refused((struct cop_processing){.banned = ids + i, .n_banned = 1}, "banned");
    }
}

/* ---- transformers, on f32 rows ---------------------------------------------------------- */

/* Chains in the documented order; *how and *shaping from its steps. */
static bool read_chain(const cJSON *chain, struct cop_processing *how,
                       struct cop_sampling *shaping)
{
    *how = (struct cop_processing){0};
    *shaping = COP_SAMPLING_DEFAULT;
    shaping->temperature = 1;
    int last = -1;
    const cJSON *step;
    cJSON_ArrayForEach(step, chain)
    {
        const char *name = cJSON_GetArrayItem(step, 0)->valuestring;
        double value = cJSON_GetArrayItem(step, 1)->valuedouble;
        int which = 0;
        while (strcmp(cop_steps[which].name, name) != 0) {
            which++;
        }
        /* the three penalties of one chain stand in another order: sums, so it does not matter
         */
        if (which < last && which >= COP_STEP_FIRST_SHAPING) {
            return false;
        }
        last = which;
        double *places[COP_STEP_COUNT] = {
            [COP_STEP_REPETITION_PENALTY] = &how->repetition_penalty,
            [COP_STEP_PRESENCE_PENALTY] = &how->presence_penalty,
            [COP_STEP_FREQUENCY_PENALTY] = &how->frequency_penalty,
            [COP_STEP_TEMPERATURE] = &shaping->temperature,
            [COP_STEP_TOP_P] = &shaping->top_p,
            [COP_STEP_MIN_P] = &shaping->min_p};
        if (which == COP_STEP_TOP_K) {
            shaping->top_k = (int32_t)value;
        } else {
            *places[which] = value;
        }
    }
    return true;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The reference's tolerance for f32, on probabilities; doubled, because penalties round again.
 */
static void compare(const cJSON *row_json, const cJSON *one, int *n_compared)
{
    struct cop_processing how;
    struct cop_sampling shaping;
    const cJSON *margin = json_get(one, "margin"), *z = json_get(row_json, "logits");
    bool is_tied = cJSON_HasObjectItem(one, "tie_at_border");
    if (!read_chain(json_get(one, "chain"), &how, &shaping) ||
        (cJSON_IsNumber(margin) && margin->valuedouble < 1e-5)) {
        return;
    }
    int32_t vocab = 0, n_history = 0;
    vocab = cJSON_GetArraySize(z);
    int32_t *history = json_ints(json_get(row_json, "history"), &n_history);
    double largest = 1, ours[64], theirs[64];
    for (int32_t i = 0; i < vocab; i++) {
        const cJSON *logit = cJSON_GetArrayItem(z, i);
        f32[i] = cJSON_IsNumber(logit) ? (float)logit->valuedouble : -INFINITY;
        largest = isfinite(f32[i]) ? fmax(largest, fabs((double)f32[i])) : largest;
    }
    struct cop_process process = {.how = &how,
                                  .prefix = history,
                                  .n_prefix = n_history,
                                  .logits = {.f32 = f32, .vocab = vocab},
                                  .arena = arena};
    struct cop_row row;
    struct cop_error err;
    cr_assert_eq(cop_process_apply(&process, &err), COP_OK, "%s", err.text);
    cr_assert_eq(cop_row_from_logits(&row, f32, vocab, &shaping, arena, &err), COP_OK);
    cr_assert_eq(cop_row_normalise(&row, arena, &err), COP_OK);
    for (int32_t i = 0; i < vocab; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", i);
        const cJSON *p = cJSON_GetObjectItem(json_get(one, "probs"), id);
        ours[i] = cop_row_probability(&row, i);
        theirs[i] = p ? p->valuedouble : 0;
    }
    if (is_tied) {
        qsort(ours, (size_t)vocab, sizeof *ours, ascending);
        qsort(theirs, (size_t)vocab, sizeof *theirs, ascending);
    }
    for (int32_t i = 0; i < vocab; i++) {
        cr_expect_leq(fabs(ours[i] - theirs[i]), 2e-6 * largest * theirs[i] + 0x1p-149,
                      "%s, token %d: %.9g, not %.9g", json_get(row_json, "name")->valuestring,
                      i, ours[i], theirs[i]);
    }
    ++*n_compared;
    free(history);
}

Test(process, f32_rows_agree_with_transformers)
{
    cJSON *file = json_file("reference/sampling.json");
    const cJSON *row, *one;
    int n = 0;
    cJSON_ArrayForEach(row, json_get(file, "rows"))
    {
        cJSON_ArrayForEach(one, json_get(row, "cases"))
        {
            compare(row, one, &n);
        }
        cop_row_arena_reset(arena);
    }
    cr_expect_gt(n, 300, "%d cases compared", n);
    cJSON_Delete(file);
}
