/* What the tests of drafters share: one draft, drafts of a live answer against
 * fresh ones, answers against plain decoding. */
#ifndef TESTS_ALGORITHMS_DRAFT_BENCH_H
#define TESTS_ALGORITHMS_DRAFT_BENCH_H

#include "tests/algorithms/propose/live_drafts.h"

enum { VOCAB = 61, PROMPT = 12 };

/* Soft-max of logits at a token. */
static UNUSED_FUNCTION double probability_of(const float *logits, cop_token token)
{
    double total = 0;
    for (int32_t i = 0; i < VOCAB; i++) {
        total += exp((double)logits[i] - (double)logits[token]);
    }
    return 1 / total;
}

/* ---- In the middle of an answer ---------------------------------------------------------- */

/* Three requests in a batch of two; frees both parts. */
static UNUSED_FUNCTION void expect_rebuilt(struct cop_model *target, struct cop_part *proposer,
                                           struct cop_part *twin, int32_t least_accepted)
{
    static const int32_t prompts[] = {12, 1, 300};
    static struct watched watched[3];
    struct cop_engine_options options = {.target = target,
                                         .batch = 2,
                                         .proposer = proposer,
                                         .builder = new_widths((const int32_t[]){24, 6, 1}, 3)};
    struct cop_engine *engine = new_engine(&options);
    struct cop_error err = {0};
    int32_t n_accepted = 0;
    for (int32_t i = 0; i < 3; i++) {
        watched[i] = (struct watched){
            .twin = twin, .builder = options.builder, .target = target, .n = prompts[i]};
        random_prompt(watched[i].text, prompts[i], VOCAB, 40 + (uint64_t)i);
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
    cr_expect_gt(n_accepted, least_accepted, "%d accepted", n_accepted);
    cop_engine_free(engine);
    cop_part_free(twin);
    cop_part_free(options.proposer);
    cop_part_free(options.builder);
}

/* ---- Answers ----------------------------------------------------------------------------- */

enum { N_SHAPES = 8, N_RULES = 3 };

static UNUSED_FUNCTION struct cop_part *new_shape(int32_t shape)
{
    static const int32_t ranks[] = {0, 0, 0, 0, 1, 1, 0, 0, 0}, lengths[] = {1, 2, 2, 1, 3};
    static const char *const names[] = {"best_first", "opt_tree", "sequoia", "threshold"};
    switch (shape) {
    case 0: return NULL;
    case 1: return new_chain(3);
    case 2: return new_widths((const int32_t[]){8, 2, 2}, 3);
    case 3: return new_paths(ranks, lengths, 5);
    default:
        return ready(set_number(
            set_number(new_part(COP_PLUG_BUILDER, names[shape - 4]), "budget", 9), "depth", 3));
    }
}

/* With this shape, and the rules in turn: three requests in a batch of two. Frees the part. */
static UNUSED_FUNCTION void expect_plain_answers(struct cop_model *target,
                                                 struct cop_part *proposer, int32_t shape)
{
    static const char *const rules[] = {"match", "sample_match", "recursive"};
    static struct trial with[3], without[3];
    static cop_token prompts[3][PROMPT];
    const struct cop_engine_options plain = {.target = target};
    struct cop_engine_options options = {.target = target,
                                         .batch = 2,
                                         .proposer = proposer,
                                         .builder = new_shape(shape),
                                         .rule = new_rule(rules[shape % N_RULES])};
    int64_t n_accepted = 0;
    for (int32_t i = 0; i < 3; i++) {
        random_prompt(prompts[i], PROMPT, VOCAB, 3 * (uint64_t)shape + (uint64_t)i);
        trial_init(&with[i], prompts[i], PROMPT - i, 60);
        trial_init(&without[i], prompts[i], PROMPT - i, 60);
    }
    run_trials(&options, with, 3);
    run_trials(&plain, without, 3);
    for (int32_t i = 0; i < 3; i++) {
        char what[64];
        snprintf(what, sizeof what, "shape %d, request %d", shape, i);
        expect_equal_tokens(&with[i].result, &without[i].result, what);
        cr_expect_gt(with[i].result.drafted, 0, "%s", what);
        n_accepted += with[i].result.accepted;
        trial_release(&with[i]);
        trial_release(&without[i]);
    }
    cr_expect_gt(n_accepted, 0, "shape %d", shape);
    cop_part_free(options.proposer);
    cop_part_free(options.builder);
    cop_part_free(options.rule);
}

/* With matrices in Q8_0: near rows, which depend on committed text alone, and the same answers.
 */
static UNUSED_FUNCTION void expect_q8_0(struct cop_model *target, const char *name,
                                        const char *path)
{
    expect_near_in_q8_0(target, name, path);
    expect_rebuilt(target, new_q8_0(name, path), new_q8_0(name, path), 10);
    expect_plain_answers(target, new_q8_0(name, path), 2);
}

/* Up to the end of the target's context the answer is that of plain decoding. */
static UNUSED_FUNCTION void expect_whole_context(struct cop_model *target,
                                                 struct cop_part *proposer, int32_t context)
{
    static struct trial with, without;
    cop_token prompt[PROMPT];
    const struct cop_engine_options plain = {.target = target};
    struct cop_engine_options options = {.target = target, .proposer = proposer};
    random_prompt(prompt, PROMPT, VOCAB, 2);
    trial_init(&with, prompt, PROMPT, 500);
    trial_init(&without, prompt, PROMPT, 500);
    run_trials(&options, &with, 1);
    run_trials(&plain, &without, 1);
    expect_equal_tokens(&with.result, &without.result, "whole context");
    cr_expect_eq(with.result.n_tokens, context - PROMPT);
    trial_release(&with);
    trial_release(&without);
}

#endif
