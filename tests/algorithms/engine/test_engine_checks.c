/* What is refused before anything runs: requests when they are submitted, options when an
 * engine is made. */
#include "tests/algorithms/engine/engine_mates.h"

TestSuite(engine_checks, .init = open_models, .fini = free_models, .timeout = 60);

static void expect_refusal(struct cop_request request, enum cop_status code, const char *text)
{
    struct cop_engine_options options = {.target = target};
    struct cop_engine *engine = new_engine(&options);
    struct cop_error err = {0};
    cr_expect_eq(cop_engine_submit(engine, &request, NULL, &err), code, "%s", text);
    cr_expect_str_eq(err.text, text);
    cop_engine_free(engine);
}

Test(engine_checks, requests_are_checked_when_submitted)
{
    static const cop_token prompt[] = {1, 2, 61};
    static const char *const stops[] = {"x"};
    struct cop_request good = {
        .prompt = prompt, .n_prompt = 2, .max_tokens = 4, .logprobs = -1};
    struct cop_request bad = good;
    bad.n_prompt = 0;
    expect_refusal(bad, COP_ERR_ARGUMENT,
                   "the prompt is empty: an answer needs at least one token to follow");
    bad = good;
    bad.n_prompt = 3;
    expect_refusal(bad, COP_ERR_ARGUMENT,
                   "prompt token 3 is id 61, which is outside the vocabulary of 61");
    bad = good;
    bad.max_tokens = 0;
    expect_refusal(bad, COP_ERR_ARGUMENT, "max_tokens = 0: must be 1 or more");
    bad = good;
    bad.min_tokens = -1;
    expect_refusal(bad, COP_ERR_ARGUMENT, "min_tokens = -1: must be 0 or more");
    bad = good;
    bad.logprobs = 62;
    expect_refusal(bad, COP_ERR_ARGUMENT,
                   "logprobs = 62: must be 0 to 61, the vocabulary, or -1 for none");
    bad = good;
    bad.stop = stops;
    bad.n_stop = 1;
    expect_refusal(bad, COP_ERR_ARGUMENT,
                   "stop strings need text, and the model has no tokenizer; use stop_tokens");
    bad = good;
    bad.stop_tokens = &prompt[2];
    bad.n_stop_tokens = 1;
    expect_refusal(bad, COP_ERR_ARGUMENT,
                   "stop token 1 is id 61, which is outside the vocabulary of 61");
}

static void expect_options(struct cop_engine_options options, enum cop_status code,
                           const char *text)
{
    struct cop_engine *engine = NULL;
    struct cop_error err = {0};
    cr_expect_eq(cop_engine_check(&options, NULL, &err), code, "%s", text);
    cr_expect_str_eq(err.text, text);
    cr_expect_eq(cop_engine_new(&engine, &options, &err), code);
    cr_expect_null(engine);
}

Test(engine_checks, options_are_checked_before_anything_runs)
{
    struct cop_engine_options good = {
        .target = target, .batch = 1, .registry = registry(), .sampling = {.top_p = 1}};
    struct cop_engine_options bad = good;
    bad.target = NULL;
    expect_options(bad, COP_ERR_ARGUMENT, "no target model is given");
    bad = good;
    bad.batch = 257;
    expect_options(bad, COP_ERR_ARGUMENT, "batch = 257: must be 1 to 256");
    bad = good;
    bad.sampling.temperature = -1;
    expect_options(bad, COP_ERR_ARGUMENT,
                   "temperature = -1: must be a number from 0 (the best token) up");
    bad = good;
    bad.sampling.top_p = 1.5;
    expect_options(bad, COP_ERR_ARGUMENT, "top_p = 1.5: must be above 0 and at most 1 (off)");
    bad = good;
    bad.sampling.min_p = -0.1;
    expect_options(bad, COP_ERR_ARGUMENT, "min_p = -0.1: must be 0 (off) to 1");
    bad = good;
    bad.sampling.top_k = -2;
    expect_options(bad, COP_ERR_ARGUMENT, "top_k = -2: must be 1 or more, or 0 for off");
    bad = good;
    bad.rule = new_chain(3);
    expect_options(bad, COP_ERR_ARGUMENT, "\"chain\" is of kind tree where accept is expected");
    cop_part_free(bad.rule);
    bad = good;
    bad.registry = NULL;
    expect_options(bad, COP_ERR_ARGUMENT,
                   "no accept is given and the default \"match\" is not registered");
}

Test(engine_checks, facts_tell_what_the_engine_made_of_its_options)
{
    struct cop_engine_options options = {.target = target,
                                         .batch = 1,
                                         .registry = registry(),
                                         .sampling = {.top_p = 1},
                                         .proposer = new_lookup(3, 8)};
    struct cop_engine_facts facts;
    cr_assert_eq(cop_engine_check(&options, &facts, NULL), COP_OK);
    cr_expect_str_eq(facts.rule, "match");
    cr_expect_str_eq(facts.builder, "chain");
    cr_expect_str_eq(facts.proposer, "lookup");
    cr_expect_null(facts.length);
    cr_expect_eq(facts.draw, COP_DRAW_DETERMINISTIC);
    cr_expect_eq(facts.shape, COP_SHAPE_CHAIN);
    cr_expect_eq(facts.depth, 8);
    cr_expect_eq(facts.nodes, 8);
    cr_expect(facts.is_lossless);
    options.sampling.temperature = 0.5;
    cr_assert_eq(cop_engine_check(&options, &facts, NULL), COP_OK);
    cr_expect_str_eq(facts.rule, "sample_match");
    cop_part_free(options.proposer);
}
