/* Tiny models of every architecture, format and kind of file against values that another system
 * computed in double precision: logits, hidden states, a tree, greedy tokens.
 *
 * f32 activations are within 1e-4 (K-quants 3e-4). Int8 activations round each block of 32 to 8
 * bits: logits of size 5 to 27 are then off by some tenths, as those of other engines. */
#include "tests/model/reference_pass.h"
#include "tests/model/tiny_files.h"

static struct cop_model *open_tiny(const char *name, enum cop_precision_choice precision,
                                   cJSON **json)
{
    char file[128];
    *json = json_file(tiny_numbers(file, name));
    return open_model(reference_path(tiny_path(file, name)), precision);
}

/* A pass in progress: the model, what it is compared with, and the largest difference. */
struct check {
    const char *name;
    cJSON *json;
    struct cop_model *model;
    struct cop_cache *cache;
    int32_t vocab;
    double tolerance, worst;
};

enum { TOKENS = 24, MOST_NODES = 16 };

static void expect_rows(struct check *check, const cJSON *lists, const float *logits,
                        int32_t count, const char *what)
{
    cr_assert_eq(cJSON_GetArraySize(lists), count);
    for (int32_t i = 0; i < count; i++) {
        int32_t n = 0;
        double *expected = json_numbers(cJSON_GetArrayItem(lists, i), &n);
        const float *row = logits + (size_t)i * (size_t)check->vocab;
        cr_assert_eq(n, check->vocab);
        for (int32_t k = 0; k < n; k++) {
            double difference = fabs((double)row[k] - expected[k]);
            check->worst = fmax(check->worst, difference);
            cr_assert(difference <= check->tolerance,
                      "%s, %s %d: logit of %d is %.7g, expected %.7g", check->name, what, i, k,
                      (double)row[k], expected[k]);
        }
        free(expected);
    }
}

/* Hidden states of the last token: the embedding, then each layer (the file's last entry is
 * behind the final norm, where we keep none). Relative to the norm. */
static void expect_layers(const struct check *check, const float *hidden, double tolerance)
{
    const struct cop_model_info *info = cop_model_info(check->model);
    const cJSON *layers = json_get(check->json, "layers");
    cr_assert(cJSON_GetArraySize(layers) > info->layers);
    for (int32_t i = 0; i <= info->layers; i++) {
        const cJSON *layer = cJSON_GetArrayItem(layers, i);
        const float *last =
            hidden + ((size_t)i * TOKENS + TOKENS - 1) * (size_t)info->hidden_size;
        double norm = json_number(layer, "l2_last"), sum = 0;
        int32_t n = 0;
        double *expected = json_numbers(json_get(layer, "first8_last"), &n);
        for (int32_t k = 0; k < info->hidden_size; k++) {
            sum += (double)last[k] * (double)last[k];
        }
        cr_expect(fabs(sqrt(sum) - norm) <= tolerance * norm, "%s: layer %d", check->name, i);
        for (int32_t k = 0; k < n; k++) {
            cr_expect(fabs((double)last[k] - expected[k]) <= tolerance * norm,
                      "%s: layer %d, entry %d", check->name, i, k);
        }
        free(expected);
    }
}

/* All 24 tokens as one chain, with logits and hidden states; commits them. */
static void check_chain(struct check *check, float *logits)
{
    const struct cop_model_info *info = cop_model_info(check->model);
    int32_t n = 0, n_layers = info->layers + 1, parents[TOKENS], layers[64];
    int32_t *ids = json_ints(json_get(check->json, "ids"), &n);
    float *hidden = calloc((size_t)(n_layers * TOKENS * info->hidden_size), sizeof *hidden);
    cr_assert(n == TOKENS && n_layers <= 64);
    for (int32_t i = 0; i < TOKENS; i++) {
        parents[i] = i - 1;
    }
    for (int32_t i = 0; i < n_layers; i++) {
        layers[i] = i;
    }
    const struct cop_score score = {.n = n,
                                    .tokens = ids,
                                    .parents = parents,
                                    .logits = logits,
                                    .hidden_layers = layers,
                                    .n_hidden = n_layers,
                                    .hidden = hidden};
    cr_assert_eq(cop_model_score(check->model, check->cache, &score, NULL), COP_OK);
    expect_rows(check, json_get(check->json, "logits"), logits, n, "row");
    expect_layers(check, hidden, check->tolerance < 1e-2 ? 2e-5 : 0.05);
    for (int32_t i = 0; i < TOKENS; i++) {
        parents[i] = i;
    }
    cop_cache_commit(check->cache, 0, parents, n);
    free(hidden);
    free(ids);
}

static void check_tree(struct check *check)
{
    const cJSON *tree = json_get(check->json, "tree");
    int32_t n = 0;
    int32_t *parents = json_ints(json_get(tree, "parents"), &n);
    int32_t *tokens = json_ints(json_get(tree, "tokens"), &n);
    float *logits = calloc((size_t)(MOST_NODES * check->vocab), sizeof *logits);
    cr_assert(n > 0 && n <= MOST_NODES);
    const struct cop_score score = {
        .n = n, .tokens = tokens, .parents = parents, .logits = logits};
    cr_assert_eq(cop_model_score(check->model, check->cache, &score, NULL), COP_OK);
    expect_rows(check, json_get(tree, "logits"), logits, n, "node");
    cop_cache_rollback(check->cache, 0);
    free(logits);
    free(parents);
    free(tokens);
}

static void check_tiny(const char *name, enum cop_precision_choice precision, double tolerance)
{
    struct check check = {.name = name, .tolerance = tolerance};
    check.model = open_tiny(name, precision, &check.json);
    check.cache = new_cache(check.model);
    check.vocab = cop_model_info(check.model)->vocab_size;
    float *logits = calloc((size_t)(TOKENS * check.vocab), sizeof *logits);
    check_chain(&check, logits);
    check_tree(&check);
    const cJSON *greedy = json_get(check.json, "greedy");
    float *last = calloc((size_t)check.vocab, sizeof *last);
    memcpy(last, logits + (TOKENS - 1) * (size_t)check.vocab,
           (size_t)check.vocab * sizeof *last);
    cr_expect_eq(cJSON_GetArraySize(json_get(greedy, "ids")), 8);
    int32_t equal = check_greedy(check.model, check.cache, greedy, tolerance, last);
    cr_expect(equal == 8 || precision == COP_PRECISION_CHOOSE_INT8, "%s: greedy tokens", name);
    (void)fprintf(stderr, "%-24s %s: largest difference %.3g\n", name,
                  precision == COP_PRECISION_CHOOSE_INT8 ? "int8" : "f32", check.worst);
    free(last);
    free(logits);
    cop_cache_free(check.cache);
    cop_model_free(check.model);
    cJSON_Delete(check.json);
}

Test(tiny_reference, f32)
{
    for (int32_t i = 0; i < N_TINY_FILES; i++) {
        check_tiny(tiny_files[i].name, COP_PRECISION_CHOOSE_F32, tiny_files[i].tolerance);
    }
}

Test(tiny_reference, int8)
{
    for (int32_t i = 0; i < N_TINY_FILES; i++) {
        if (tiny_files[i].int8 > 0) {
            check_tiny(tiny_files[i].name, COP_PRECISION_CHOOSE_INT8, tiny_files[i].int8);
        }
    }
}
