/* What the tests against reference values share: opening a model, feeding tokens, following a
 * recorded greedy continuation. */
#ifndef TESTS_MODEL_REFERENCE_PASS_H
#define TESTS_MODEL_REFERENCE_PASS_H

#include "core/model/model.h"
#include "tests/support/json_list.h"
#include "tests/support/reference.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline struct cop_model *open_model(const char *path,
                                           enum cop_precision_choice precision)
{
    struct cop_model *model = NULL;
    struct cop_error err = {0};
    const struct cop_model_options options = {
        .path = path, .precision = precision, .kv_f32 = true, .threads = 2};
    cr_assert_eq(cop_model_open(&model, &options, &err), COP_OK, "%s", err.text);
    return model;
}

static inline struct cop_cache *new_cache(const struct cop_model *model)
{
    struct cop_cache *cache = NULL;
    cr_assert_eq(cop_model_cache_new(model, 1, 64, &cache, NULL), COP_OK);
    return cache;
}

/* Scores `tokens` as a chain after what is committed and commits them. logits of the last
 * n_wanted tokens, one row after another. */
static inline void feed(struct cop_model *model, struct cop_cache *cache, const int32_t *tokens,
                        int32_t n, int32_t n_wanted, float *logits)
{
    struct cop_error err = {0};
    int32_t *parents = calloc((size_t)n + 1, sizeof *parents);
    bool *wanted = calloc((size_t)n + 1, sizeof *wanted);
    for (int32_t i = 0; i <= n; i++) {
        parents[i] = i - 1;
        wanted[i] = i >= n - n_wanted;
    }
    const struct cop_score score = {
        .n = n, .tokens = tokens, .parents = parents, .wanted = wanted, .logits = logits};
    cr_assert_eq(cop_model_score(model, cache, &score, &err), COP_OK, "%s", err.text);
    cop_cache_commit(cache, 0, parents + 1, n);
    free(parents);
    free(wanted);
}

/* Follows the recorded continuation; where the gap of the two best logits is above the
 * tolerance the best token must be the recorded one. Returns how many of them are. */
static inline int32_t check_greedy(struct cop_model *model, struct cop_cache *cache,
                                   const cJSON *greedy, double tolerance, float *logits)
{
    int32_t n = 0, n_gaps = 0, equal = 0;
    int32_t *ids = json_ints(json_get(greedy, "ids"), &n);
    double *gaps = json_numbers(json_get(greedy, "gaps"), &n_gaps);
    int32_t vocab = cop_model_info(model)->vocab_size;
    cr_assert_eq(n, n_gaps);
    for (int32_t i = 0; i < n; i++) {
        int32_t best = cop_argmax(logits, vocab);
        equal += best == ids[i];
        if (gaps[i] > tolerance) {
            cr_expect_eq(best, ids[i], "greedy token %d: %d, expected %d (gap %g)", i, best,
                         ids[i], gaps[i]);
        }
        feed(model, cache, &ids[i], 1, 1, logits);
    }
    free(ids);
    free(gaps);
    return equal;
}

#endif
