/* What tests of heads share: drafts of one context, the target's states, sums in double, and
 * what must hold of every head in the engine. */
#ifndef TESTS_ALGORITHMS_HEAD_BENCH_H
#define TESTS_ALGORITHMS_HEAD_BENCH_H

#include "core/proof/runs.h"
#include "tests/algorithms/propose/live_drafts.h"
#include "tests/support/head_folder.h"

/* ---- In double --------------------------------------------------------------------------- */

/* out = weight x + bias; bias NULL: none. */
static UNUSED_FUNCTION void apply(const float *weight, const float *bias, const double *x,
                                  int32_t rows, int32_t cols, double *out)
{
    for (int32_t r = 0; r < rows; r++) {
        double sum = bias ? (double)bias[r] : 0;
        for (int32_t c = 0; c < cols; c++) {
            sum += (double)weight[r * cols + c] * x[c];
        }
        out[r] = sum;
    }
}

static UNUSED_FUNCTION double silu_of(double x)
{
    return x / (1 + exp(-x));
}

static UNUSED_FUNCTION void rms(const float *gain, double epsilon, const double *x, int32_t n,
                                double *out)
{
    double squares = 0;
    for (int32_t i = 0; i < n; i++) {
        squares += x[i] * x[i];
    }
    double scale = 1 / sqrt(squares / n + epsilon);
    for (int32_t i = 0; i < n; i++) {
        out[i] = x[i] * scale * (double)gain[i];
    }
}

static UNUSED_FUNCTION void soft_max(double *logits, int32_t n, double temperature)
{
    double most = -HUGE_VAL, total = 0;
    for (int32_t i = 0; i < n; i++) {
        most = fmax(most, logits[i]);
    }
    for (int32_t i = 0; i < n; i++) {
        total += logits[i] = exp((logits[i] - most) / temperature);
    }
    for (int32_t i = 0; i < n; i++) {
        logits[i] /= total;
    }
}

static UNUSED_FUNCTION void embed_in_double(const struct cop_model *target, cop_token token,
                                            double *out)
{
    float row[256];
    struct cop_error err;
    cr_assert_eq(cop_model_embed(target, &token, 1, row, &err), COP_OK);
    for (int32_t i = 0; i < cop_model_info(target)->hidden_size; i++) {
        out[i] = (double)row[i];
    }
}

/* States of a layer at positions [0, n), [n, width]; freed by the caller. */
static UNUSED_FUNCTION double *states_of(struct cop_model *target, int32_t layer,
                                         const cop_token *ids, int32_t n)
{
    size_t count = (size_t)n * (size_t)cop_model_info(target)->hidden_size;
    float *narrow = malloc(count * sizeof *narrow);
    double *wide = malloc(count * sizeof *wide);
    struct cop_states states = {.layers = &layer, .n_layers = 1, .out = narrow};
    struct cop_cache *cache = NULL;
    struct cop_error err = {0};
    cr_assert_eq(cop_model_cache_new(target, 1, 64, &cache, &err), COP_OK);
    cr_assert_eq(cop_model_prefill_states(target, cache, 0, ids, n, &states, NULL, &err),
                 COP_OK, "%s", err.text);
    for (size_t i = 0; i < count; i++) {
        wide[i] = (double)narrow[i];
    }
    cop_cache_free(cache);
    free(narrow);
    return wide;
}

/* ---- In the engine ----------------------------------------------------------------------- */

/* What the live head drafts is, bit for bit, what one would draft that has just read the
 * committed text: prompts of one chunk, of one token and of several chunks, two at a time. */
static UNUSED_FUNCTION void expect_live_is_rebuilt(struct cop_model *target,
                                                   struct cop_part *proposer,
                                                   struct cop_part *twin,
                                                   struct cop_part *builder)
{
    static const int32_t prompts[] = {12, 1, 300};
    static struct watched watched[3];
    struct cop_engine_options options = {
        .target = target, .batch = 2, .proposer = proposer, .builder = builder};
    struct cop_engine *engine = new_engine(&options);
    struct cop_error err = {0};
    int32_t n_accepted = 0;
    for (int32_t i = 0; i < 3; i++) {
        watched[i] = (struct watched){
            .twin = twin, .builder = builder, .target = target, .n = prompts[i]};
        random_prompt(watched[i].text, prompts[i], cop_model_info(target)->vocab_size,
                      40 + (uint64_t)i);
        struct cop_request request = {.prompt = watched[i].text,
                                      .n_prompt = prompts[i],
                                      .max_tokens = 40,
                                      .logprobs = -1,
                                      .user = &watched[i],
                                      .on_cycle = rebuild};
        cr_assert_eq(cop_engine_submit(engine, &request, ignore_result, &err), COP_OK);
    }
    cr_assert_eq(cop_engine_run(engine, &err), COP_OK, "%s", err.text);
    for (int32_t i = 0; i < 3; i++) {
        cr_expect_gt(watched[i].n_compared, 100);
        n_accepted += watched[i].n_accepted;
    }
    cr_expect_gt(n_accepted, 20, "%d", n_accepted);
    cop_engine_free(engine);
}

/* Temperature 0: the tokens of plain decoding; drafted and accepted tokens over all builders
 * (NULL: the proposer's own shape) are above 0. Frees the builders. */
static UNUSED_FUNCTION void expect_plain_answers(struct cop_model *target,
                                                 struct cop_part *proposer,
                                                 struct cop_part **builders, int32_t n_builders)
{
    enum { N = 12, ANSWER = 60 };
    const struct cop_engine_options plain = {.target = target};
    int64_t n_accepted = 0;
    for (int32_t b = 0; b < n_builders; b++) {
        static struct trial with, without;
        cop_token prompt[N];
        struct cop_engine_options options = {
            .target = target, .proposer = proposer, .builder = builders[b]};
        random_prompt(prompt, N, cop_model_info(target)->vocab_size, (uint64_t)b);
        trial_init(&with, prompt, N, ANSWER);
        trial_init(&without, prompt, N, ANSWER);
        run_trials(&options, &with, 1);
        run_trials(&plain, &without, 1);
        expect_equal_tokens(&with.result, &without.result, proposer->plug->name);
        cr_expect_gt(with.result.drafted, 0);
        n_accepted += with.result.accepted;
        trial_release(&with);
        trial_release(&without);
        cop_part_free(builders[b]);
    }
    cr_expect_gt(n_accepted, 0);
}

/* A target whose three next tokens have an exact law that is soon found. */
static UNUSED_FUNCTION struct cop_model *open_law_target(int32_t layers, int32_t hidden,
                                                         int32_t vocab)
{
    return open_tiny((struct tiny_model){.seed = 7,
                                         .layers = layers,
                                         .hidden = hidden,
                                         .heads = 2,
                                         .kv_heads = 1,
                                         .ffn = 32,
                                         .vocab = vocab,
                                         .context = 32,
                                         .sharpness = 1.5,
                                         .has_output = true});
}

/* Above temperature 0: many short answers have the target's law, whatever draws are paired. */
static UNUSED_FUNCTION void expect_target_law(struct cop_model *target,
                                              struct cop_part *proposer)
{
    static const cop_token prompt[] = {3, 17, 40};
    static const int32_t two[] = {2, 2};
    static const struct {
        const char *rule;
        enum cop_draw draw;
        bool is_tree;
    } pairs[] = {{"token", COP_DRAW_INDEPENDENT, false},
                 {"recursive", COP_DRAW_WITHOUT_REPLACEMENT, true},
                 {"traversal", COP_DRAW_INDEPENDENT, true},
                 {"sample_match", COP_DRAW_AUTO, false}};
    struct cop_sampling sampling = {.temperature = 0.8, .top_p = 1};
    struct cop_runs_law law;
    struct cop_error err = {0};
    cr_assert_eq(cop_runs_law_find(&law, target, prompt, 3, &sampling, &err), COP_OK, "%s",
                 err.text);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct cop_engine_options options = {.target = target,
                                             .proposer = proposer,
                                             .builder = pairs[i].is_tree ? new_widths(two, 2)
                                                        : pairs[i].draw  ? new_chain(2)
                                                                         : NULL,
                                             .rule = new_rule(pairs[i].rule),
                                             .draw = pairs[i].draw,
                                             .sampling = sampling,
                                             .batch = 32,
                                             .registry = registry()};
        const struct cop_runs runs = {
            .engine = &options, .prompt = prompt, .n_prompt = 3, .n_runs = 4000, .seed = 5};
        struct cop_runs_result result;
        cr_assert_eq(cop_runs_test(&result, &runs, &law, &err), COP_OK, "%s", err.text);
        cr_expect_gt(result.p, 1e-4, "%s: p = %g", pairs[i].rule, result.p);
        cr_expect_gt(result.accepted, 20, "%s: %d accepted", pairs[i].rule,
                     (int)result.accepted);
        cop_part_free(options.builder);
        cop_part_free(options.rule);
    }
    cop_runs_law_release(&law);
}

/* With matrices in Q8_0: near rows, which depend on committed text alone, and the same answers.
 */
static UNUSED_FUNCTION void expect_q8_0(struct cop_model *target, const char *name,
                                        const char *path)
{
    struct cop_part *part = new_q8_0(name, path), *twin = new_q8_0(name, path);
    struct cop_part *builder = new_widths((const int32_t[]){24, 6, 1}, 3);
    struct cop_part *builders[] = {NULL, new_widths((const int32_t[]){20, 2, 2}, 3)};
    expect_near_in_q8_0(target, name, path);
    expect_live_is_rebuilt(target, part, twin, builder);
    expect_plain_answers(target, part, builders, 2);
    cop_part_free(part);
    cop_part_free(twin);
    cop_part_free(builder);
}

/* ---- Refusals ---------------------------------------------------------------------------- */

/* Preparing, or opening an engine, is refused with words that hold `expected`. */
static UNUSED_FUNCTION void expect_refused(const char *name, const char *path,
                                           struct cop_model *target, enum cop_status code,
                                           const char *expected)
{
    struct cop_part *part = set_string(new_part(COP_PLUG_PROPOSER, name), "path", path);
    struct cop_error err = {0};
    enum cop_status status = cop_part_prepare(part, &err);
    if (status == COP_OK) {
        struct cop_engine_options options = {.target = target,
                                             .proposer = part,
                                             .batch = 1,
                                             .registry = registry(),
                                             .sampling = COP_SAMPLING_DEFAULT};
        status = cop_engine_check(&options, NULL, &err);
    }
    cr_expect_eq(status, code, "%s: %d: %s", expected, status, err.text);
    cr_expect_not_null(strstr(err.text, expected), "\"%s\" in: %s", expected, err.text);
    cop_part_free(part);
}

/* ---- Reduced vocabularies ---------------------------------------------------------------- */

/* With `vocabulary` the law over these ids is the whole one, renormalised, at every level. */
static UNUSED_FUNCTION void expect_narrowed(struct cop_model *target, const char *name,
                                            const char *path)
{
    enum { KEPT = 5 };
    static const int32_t kept[KEPT] = {40, 3, 11, 7, 5};
    static const cop_token prompt[] = {3, 17, 40, 9, 22};
    static struct draft whole, narrow;
    int32_t vocab = cop_model_info(target)->vocab_size;
    struct cop_part *all = ready(set_string(new_part(COP_PLUG_PROPOSER, name), "path", path));
    struct cop_part *some = set_string(new_part(COP_PLUG_PROPOSER, name), "path", path);
    struct cop_part *wide = new_widths(&vocab, 1), *slim = new_widths((int32_t[]){KEPT}, 1);
    cr_assert_eq(cop_option_set_ints(cop_option_find(some->plug->options, "vocabulary"),
                                     some->state, kept, KEPT, name, NULL),
                 COP_OK);
    draft_once(&whole, all, wide, target, prompt, 5, COP_DRAW_DETERMINISTIC, 0);
    draft_once(&narrow, ready(some), slim, target, prompt, 5, COP_DRAW_DETERMINISTIC, 0);
    double of[512] = {0}, sum = 0;
    for (int32_t node = 1; node < whole.tree.size; node++) {
        of[whole.tree.token[node]] = whole.probabilities[node];
    }
    for (int32_t i = 0; i < KEPT; i++) {
        sum += of[kept[i]];
    }
    cr_assert_eq(narrow.tree.size, 1 + KEPT);
    for (int32_t node = 1; node < narrow.tree.size; node++) {
        cr_expect_float_eq(narrow.probabilities[node], of[narrow.tree.token[node]] / sum, 1e-6,
                           "%s: node %d", name, node);
    }
    cop_tree_release(&whole.tree);
    cop_tree_release(&narrow.tree);
    cop_part_free(all);
    cop_part_free(some);
    cop_part_free(wide);
    cop_part_free(slim);
}

#endif
