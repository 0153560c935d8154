/* The tiny models keep the promises of their header, which other tests build on. */
#include "core/model/model.h"
#include "tests/support/tiny_model.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct cop_model *open_file(struct gguf_writer *file)
{
    struct cop_model *model = NULL;
    struct cop_error err = {0};
    const struct cop_model_options options = {.path = gguf_save(file), .threads = 1};
    cr_assert_eq(cop_model_open(&model, &options, &err), COP_OK, "%s", err.text);
    gguf_writer_free(file);
    return model;
}

static struct cop_model *open_tiny(struct tiny_model description)
{
    return open_file(tiny_model_new(&description));
}

/* The best token after each of `tokens`, fed one by one. */
static void best_tokens(struct cop_model *model, const int32_t *tokens, int32_t n,
                        int32_t *best)
{
    struct cop_cache *cache = NULL;
    int32_t vocab = cop_model_info(model)->vocab_size;
    float *logits = malloc((size_t)vocab * sizeof *logits);
    cr_assert_eq(cop_model_cache_new(model, 1, 1, &cache, NULL), COP_OK);
    for (int32_t i = 0; i < n; i++) {
        const struct cop_score score = {
            .n = 1, .tokens = tokens + i, .parents = (int32_t[]){-1}, .logits = logits};
        cr_assert_eq(cop_model_score(model, cache, &score, NULL), COP_OK);
        cop_cache_commit(cache, 0, (int32_t[]){0}, 1);
        best[i] = cop_argmax(logits, vocab);
    }
    free(logits);
    cop_cache_free(cache);
}

enum { PROMPTS = 16, PROMPT = 4, ANSWER = 40 };

/* Share of the target's 40 greedy tokens that are also the draft's best, over 16 prompts. */
static double agreement(struct tiny_model target_spec, struct tiny_model draft_spec)
{
    struct cop_model *target = open_tiny(target_spec), *draft = open_tiny(draft_spec);
    int32_t equal = 0;
    for (uint64_t prompt = 0; prompt < PROMPTS; prompt++) {
        int32_t tokens[PROMPT + ANSWER], theirs[PROMPT + ANSWER], ours[PROMPT + ANSWER];
        for (uint64_t i = 0; i < PROMPT; i++) {
            tokens[i] = (int32_t)(tiny_bits(prompt, i) % 61);
        }
        for (int32_t n = PROMPT; n < PROMPT + ANSWER; n++) {
            best_tokens(target, tokens, n, theirs);
            tokens[n] = theirs[n - 1];
        }
        best_tokens(draft, tokens, PROMPT + ANSWER - 1, ours);
        for (int32_t i = PROMPT; i < PROMPT + ANSWER; i++) {
            equal += ours[i - 1] == tokens[i];
        }
    }
    cop_model_free(target);
    cop_model_free(draft);
    return (double)equal / (PROMPTS * ANSWER);
}

Test(tiny, drafts_agree_as_promised)
{
    for (uint64_t seed = 7; seed < 10; seed++) {
        for (int32_t untied = 0; untied < 2; untied++) {
            const struct tiny_model target = {.seed = seed, .has_output = untied};
            struct tiny_model same = target, near = target, far = target, low = target,
                              stranger = target;
            near.noise = 0.1;
            far.noise = 0.3;
            low.layers = 1;
            stranger.seed = seed + 1000;
            double shares[5] = {agreement(target, same), agreement(target, near),
                                agreement(target, far), agreement(target, low),
                                agreement(target, stranger)};
            (void)fprintf(stderr,
                          "seed %d%s: same %.2f, noise 0.1 %.2f, noise 0.3 %.2f, one layer "
                          "less %.2f, stranger %.2f\n",
                          (int)seed, untied ? " untied" : "", shares[0], shares[1], shares[2],
                          shares[3], shares[4]);
            cr_expect(shares[0] == 1);
            cr_expect(shares[1] > (untied ? 0.4 : 0.6));
            cr_expect(shares[2] > 0.1);
            cr_expect(shares[3] > 0.2);
            cr_expect(shares[4] < 0.2);
        }
    }
}

/* Answers must not be one token for ever, or tests on them would see little. */
Test(tiny, answers_vary)
{
    int32_t different = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct cop_model *model = open_tiny((struct tiny_model){.seed = seed});
        int32_t tokens[PROMPT + ANSWER] = {1, 2, 3, 4}, best[PROMPT + ANSWER];
        bool seen[61] = {false};
        int32_t kinds = 0;
        for (int32_t n = PROMPT; n < PROMPT + ANSWER; n++) {
            best_tokens(model, tokens, n, best);
            tokens[n] = best[n - 1];
            kinds += !seen[tokens[n]];
            seen[tokens[n]] = true;
        }
        (void)fprintf(stderr, "seed %d: %d kinds of tokens in %d\n", (int)seed, kinds, ANSWER);
        different += kinds;
        cop_model_free(model);
    }
    cr_expect(different >= 8 * 5);
}

/* Rows of a hand-made table come out as probabilities, whatever came before. */
Test(tiny, bigram_rows_are_the_table)
{
    enum { V = 8 };
    double table[V * V] = {0};
    for (int32_t i = 0; i < V; i++) {
        table[i * V + (i + 1) % V] = 0.5;
        table[i * V + (i + 2) % V] = 0.3;
        table[i * V + (i + 5) % V] = 0.2;
    }
    struct cop_model *model = open_file(tiny_bigram_new(V, table));
    struct cop_cache *cache = NULL;
    cr_assert_eq(cop_model_cache_new(model, 1, 16, &cache, NULL), COP_OK);
    const int32_t tokens[9] = {0, 3, 3, 7, 1, 2, 6, 5, 4};
    const int32_t parents[9] = {-1, 0, 1, 2, 3, 0, 5, 1, 1};
    float logits[9 * V];
    const struct cop_score score = {
        .n = 9, .tokens = tokens, .parents = parents, .logits = logits};
    cr_assert_eq(cop_model_score(model, cache, &score, NULL), COP_OK);
    for (int32_t i = 0; i < 9; i++) {
        double sum = 0;
        for (int32_t j = 0; j < V; j++) {
            double expected = table[tokens[i] * V + j];
            double found = exp((double)logits[i * V + j]);
            cr_expect(fabs(found - expected) < 1e-4, "node %d, token %d: %g, not %g", i, j,
                      found, expected);
            sum += found;
        }
        cr_expect(fabs(sum - 1) < 1e-4);
    }
    cop_cache_free(cache);
    cop_model_free(model);
}
