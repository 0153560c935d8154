/* What the tests of heads with masks share: a target, its states in double, and the head's rows
 * against expected ones. */
#ifndef TESTS_ALGORITHMS_MASKED_BENCH_H
#define TESTS_ALGORITHMS_MASKED_BENCH_H

#include "tests/algorithms/heads/double_layers.h"
#include "tests/algorithms/propose/draft_bench.h"

enum { MASK = 7, TAPS = 3, POSITIONS = 4 };

static UNUSED_FUNCTION struct cop_model *open_target(int32_t context)
{
    struct tiny_model description = {
        .seed = 5, .layers = 3, .hidden = DL_WIDTH, .vocab = VOCAB, .context = context};
    return open_model(tiny_model_new(&description), (struct cop_model_options){.kv_f32 = true});
}

static UNUSED_FUNCTION struct cop_part *new_head(const char *folder, int32_t depth)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "parallel");
    return ready(set_number(set_string(part, "path", folder), "depth", depth));
}

/* The target's states after layers at positions [0, n), [n][TAPS * width]. */
static UNUSED_FUNCTION void read_states(struct cop_model *target, const int32_t *layers,
                                        const cop_token *ids, int32_t n,
                                        double (*out)[TAPS * DL_WIDTH])
{
    static float states[TAPS * PROMPT * DL_WIDTH];
    struct cop_cache *cache = NULL;
    struct cop_error err = {0};
    const struct cop_states want = {.layers = layers, .n_layers = TAPS, .out = states};
    cr_assert_leq(n, PROMPT);
    cr_assert_eq(cop_model_cache_new(target, 1, 64, &cache, &err), COP_OK);
    cr_assert_eq(cop_model_prefill_states(target, cache, 0, ids, n, &want, NULL, &err), COP_OK,
                 "%s", err.text);
    cop_cache_free(cache);
    for (int32_t j = 0; j < n; j++) {
        for (int32_t i = 0; i < TAPS * DL_WIDTH; i++) {
            out[j][i] = (double)states[(i / DL_WIDTH * n + j) * DL_WIDTH + i % DL_WIDTH];
        }
    }
}

/* The target's ends. */
static UNUSED_FUNCTION void embed(struct cop_model *target, cop_token token, double *out)
{
    float row[DL_WIDTH];
    cr_assert_eq(cop_model_embed(target, &token, 1, row, NULL), COP_OK);
    for (int32_t i = 0; i < DL_WIDTH; i++) {
        out[i] = (double)row[i];
    }
}

static UNUSED_FUNCTION void expect_rows(const struct draft *draft, double rows[][VOCAB],
                                        const char *what)
{
    for (int32_t node = 1; node < draft->tree.size; node++) {
        double expected = rows[cop_tree_depth(&draft->tree, node) - 1][draft->tree.token[node]];
        cr_expect_float_eq(draft->probabilities[node], expected, 2e-5,
                           "%s, node %d: %.7f, expected %.7f", what, node,
                           draft->probabilities[node], expected);
    }
}

/* Id i of a map of n: i * VOCAB / n; d2t holds the distance, in 64 bits. */
static UNUSED_FUNCTION void put_map(struct head_folder *folder, int32_t n)
{
    static int64_t d2t[VOCAB];
    for (int32_t i = 0; i < n; i++) {
        d2t[i] = i * VOCAB / n - i;
    }
    head_folder_put_typed(folder, "d2t", "I64", n, d2t, sizeof *d2t);
}

/* With `vocabulary` the law over these ids is the whole one, renormalised. */
static UNUSED_FUNCTION void expect_narrowed(struct cop_model *target, const char *folder,
                                            const cop_token *prompt)
{
    enum { KEPT = 4 };
    static const int32_t kept[KEPT] = {40, 3, 11, 20};
    static struct draft whole, narrow;
    struct cop_part *wide = new_widths((int32_t[]){VOCAB}, 1);
    struct cop_part *all = new_head(folder, POSITIONS);
    struct cop_part *some = set_string(new_part(COP_PLUG_PROPOSER, "parallel"), "path", folder);
    cr_assert_eq(cop_option_set_ints(cop_option_find(some->plug->options, "vocabulary"),
                                     some->state, kept, KEPT, "parallel", NULL),
                 COP_OK);
    draft_once(&whole, all, wide, target, prompt, PROMPT, COP_DRAW_DETERMINISTIC, 0);
    draft_once(&narrow, ready(some), wide, target, prompt, PROMPT, COP_DRAW_DETERMINISTIC, 0);
    double of[VOCAB] = {0}, sum = 0;
    for (int32_t node = 1; node < whole.tree.size; node++) {
        of[whole.tree.token[node]] = whole.probabilities[node];
    }
    for (int32_t i = 0; i < KEPT; i++) {
        sum += of[kept[i]];
    }
    cr_assert(narrow.tree.size > 1 && narrow.tree.size <= 1 + KEPT);
    for (int32_t node = 1; node < narrow.tree.size; node++) {
        cr_expect_float_eq(narrow.probabilities[node], of[narrow.tree.token[node]] / sum, 1e-6);
    }
    cop_tree_release(&whole.tree);
    cop_tree_release(&narrow.tree);
    cop_part_free(all);
    cop_part_free(some);
    cop_part_free(wide);
}

static UNUSED_FUNCTION void expect_bad_path(const char *plug, const char *path,
                                            enum cop_status code, const char *text)
{
    struct cop_error err = {0};
    struct cop_part *part = set_string(new_part(COP_PLUG_PROPOSER, plug), "path", path);
    cr_expect_eq(cop_part_prepare(part, &err), code, "%s: %s", text, err.text);
    cr_expect_not_null(strstr(err.text, text), "\"%s\" lacks \"%s\"", err.text, text);
    cop_part_free(part);
}

#endif
