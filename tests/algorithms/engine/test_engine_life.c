/* Beginnings and endings: admission, cancellation, failures; and that pages always come back.
 */
#include "tests/algorithms/engine/engine_bench.h"

enum { VOCAB = 61, PROMPT = 20, ANSWER = 40, MATES = 4 };

static struct cop_model *target, *kin;
static cop_token prompts[MATES][PROMPT];

static void open_models(void)
{
    target = open_tiny((struct tiny_model){.seed = 7});
    kin = open_tiny((struct tiny_model){.seed = 7, .noise = 0.1, .noise_seed = 1});
    for (int32_t i = 0; i < MATES; i++) {
        random_prompt(prompts[i], PROMPT, VOCAB, 20 + (uint64_t)i);
    }
}
static void free_models(void)
{
    cop_model_free(target);
    cop_model_free(kin);
}
TestSuite(engine_life, .init = open_models, .fini = free_models, .timeout = 60);

static struct cop_engine_options speculative(int32_t batch)
{
    static const int32_t widths[] = {3, 2, 1};
    return (struct cop_engine_options){.target = target,
                                       .proposer = new_draft(kin),
                                       .builder = new_widths(widths, 3),
                                       .batch = batch};
}

static void free_options(struct cop_engine_options *options)
{
    cop_part_free(options->proposer);
    cop_part_free(options->builder);
    cop_part_free(options->rule);
    cop_part_free(options->length);
}

static void make_mates(struct trial *trials)
{
    for (int32_t i = 0; i < MATES; i++) {
        trial_init(&trials[i], prompts[i], PROMPT - 3 * i, ANSWER);
        trials[i].request.id = (uint32_t)i;
    }
}

static void release_all(struct trial *trials)
{
    for (int32_t i = 0; i < MATES; i++) {
        trial_release(&trials[i]);
    }
}

static struct trial alone[MATES], trials[MATES];

static void run_alone(struct cop_engine_options *options)
{
    int32_t batch = options->batch;
    options->batch = 1;
    make_mates(alone);
    for (int32_t i = 0; i < MATES; i++) {
        run_trials(options, &alone[i], 1);
    }
    options->batch = batch;
}

/* ---- Cancellation ------------------------------------------------------------------------ */

static bool is_prefix(const struct cop_result *part, const struct cop_result *whole)
{
    return part->n_tokens <= whole->n_tokens &&
           memcmp(part->tokens, whole->tokens, (size_t)part->n_tokens * sizeof(cop_token)) == 0;
}

Test(engine_life, cancelled_at_any_cycle_pages_return_and_mates_go_on)
{
    for (int32_t batch = 1; batch <= MATES; batch += 3) {
        struct cop_engine_options options = speculative(batch);
        run_alone(&options);
        for (int32_t at = 0; at < alone[1].n_cycles - 1; at++) {
            make_mates(trials);
            trials[1].cancel_at = at;
            run_trials(&options, trials, MATES);
            cr_expect_eq(trials[1].result.finish, COP_FINISH_CANCELLED);
            cr_expect_eq(trials[1].n_cycles, at + 1); /* within one cycle */
            cr_expect_gt(trials[1].result.n_tokens, at);
            cr_expect(is_prefix(&trials[1].result, &alone[1].result));
            for (int32_t i = 0; i < MATES; i += i ? 1 : 2) {
                expect_equal_tokens(&trials[i].result, &alone[i].result, "mate");
            }
            release_all(trials);
        }
        release_all(alone);
        free_options(&options);
    }
}

Test(engine_life, cancelled_in_the_queue_never_runs)
{
    struct cop_engine_options options = speculative(1);
    make_mates(trials);
    struct cop_engine *engine = new_engine(&options);
    for (int32_t i = 0; i < MATES; i++) {
        submit(engine, &trials[i]);
    }
    int32_t active = 0;
    cr_assert_eq(cop_engine_step(engine, &active, NULL), COP_OK);
    cr_expect_eq(active, MATES);
    atomic_store(&trials[2].cancel, true);
    cr_assert_eq(cop_engine_step(engine, &active, NULL), COP_OK);
    cr_expect(trials[2].is_done);
    cr_expect_eq(trials[2].result.finish, COP_FINISH_CANCELLED);
    cr_expect_eq(trials[2].n_cycles, 0);
    cr_expect_eq(active, MATES - 1);
    cr_assert_eq(cop_engine_run(engine, NULL), COP_OK);
    cr_expect_eq(trials[3].result.finish, COP_FINISH_LENGTH);
    cr_expect_eq(cop_engine_usage(engine).used, 0);
    cop_engine_free(engine);
    release_all(trials);
    free_options(&options);
}

static atomic_bool everything;
static enum cop_status stop_everything(void *user, const struct cop_cycle *cycle,
                                       struct cop_error *err)
{
    atomic_store(&everything, atomic_load(&everything) || cycle->cycle == 3);
    return note_cycle(user, cycle, err);
}

Test(engine_life, the_engines_flag_ends_all_and_is_no_failure)
{
    struct cop_engine_options options = speculative(2);
    options.cancel = &everything;
    make_mates(trials);
    struct cop_engine *engine = new_engine(&options);
    for (int32_t i = 0; i < MATES; i++) {
        submit(engine, &trials[i]);
        trials[i].request.on_cycle = stop_everything;
    }
    struct trial last;
    trial_init(&last, prompts[0], PROMPT, ANSWER);
    last.request.user = &last;
    last.request.on_cycle = stop_everything;
    cr_assert_eq(cop_engine_submit(engine, &last.request, take_result, NULL), COP_OK);
    int32_t active = 1;
    for (int32_t step = 0; step < 5; step++) {
        cr_assert_eq(cop_engine_step(engine, &active, NULL), COP_OK);
        atomic_store(&everything, step >= 3);
    }
    cr_expect_eq(active, 0);
    for (int32_t i = 0; i < MATES; i++) {
        cr_assert(trials[i].is_done);
        cr_expect_eq(trials[i].result.finish, COP_FINISH_CANCELLED);
    }
    cr_expect_eq(trials[0].n_cycles, 4);
    cr_expect_eq(trials[3].n_cycles, 0);
    cr_expect_eq(cop_engine_usage(engine).used, 0);
    /* The flag cleared, the engine serves again. */
    atomic_store(&everything, false);
    struct trial again;
    trial_init(&again, prompts[0], PROMPT, 3);
    submit(engine, &again);
    cr_assert_eq(cop_engine_run(engine, NULL), COP_OK);
    cr_expect_eq(again.result.n_tokens, 3);
    cop_engine_free(engine);
    release_all(trials);
    trial_release(&again);
    trial_release(&last);
    free_options(&options);
}

/* Set before the first step: neither prefill nor a cycle runs to its end. */
Test(engine_life, cancelled_before_the_prefill)
{
    struct cop_engine_options options = speculative(2);
    make_mates(trials);
    struct cop_engine *engine = new_engine(&options);
    submit(engine, &trials[0]);
    atomic_store(&trials[0].cancel, true);
    cr_assert_eq(cop_engine_run(engine, NULL), COP_OK);
    cr_expect_eq(trials[0].result.finish, COP_FINISH_CANCELLED);
    cr_expect_eq(trials[0].result.n_tokens, 0);
    cop_engine_free(engine);
    trial_release(&trials[0]);
    free_options(&options);
}

/* ---- Proposers and observers that misbehave ---------------------------------------------- */

static int32_t n_begun, n_ended, n_observed;
static cop_token scripted_token;
static int32_t failing_level; /* depth of the frontier at which expand fails; -1: never */

static int32_t scripted_depth(const void *state)
{
    (void)state;
    return 3;
}
static enum cop_status scripted_begin(void *session, int32_t sequence, const cop_token *ids,
                                      int32_t n, struct cop_error *err)
{
    (void)session, (void)sequence, (void)ids, (void)n, (void)err;
    n_begun++;
    return COP_OK;
}
static enum cop_status scripted_expand(void *session, struct cop_frontier *frontiers,
                                       int32_t n_frontiers, struct cop_error *err)
{
    (void)session;
    int32_t depth = cop_tree_depth(frontiers[0].tree, frontiers[0].nodes[0]);
    if (depth == failing_level) {
        return cop_fail(err, COP_ERR_CALLBACK, "the proposer fell over");
    }
    for (int32_t f = 0; f < n_frontiers; f++) {
        for (int32_t i = 0; i < frontiers[f].count; i++) {
            frontiers[f].rows[i] = (struct cop_row){
                .kind = COP_ROW_POINTS, .vocab = VOCAB, .ids = &scripted_token, .count = 1};
        }
    }
    return COP_OK;
}
static enum cop_status scripted_observe(void *session, const struct cop_observed *observed,
                                        struct cop_error *err)
{
    (void)session, (void)err;
    cr_assert_eq(observed->committed[observed->n_accepted], observed->last);
    n_observed++;
    return COP_OK;
}
static void scripted_end(void *session, int32_t sequence)
{
    (void)session, (void)sequence;
    n_ended++;
}
static const struct cop_proposer_ops scripted = {.plug = {.abi = COP_PLUG_ABI,
                                                          .kind = COP_PLUG_PROPOSER,
                                                          .name = "scripted",
                                                          .help = "always the same token"},
                                                 .supply = COP_SUPPLY_POINTS,
                                                 .own_depth = scripted_depth,
                                                 .begin = scripted_begin,
                                                 .expand = scripted_expand,
                                                 .observe = scripted_observe,
                                                 .end = scripted_end};

static struct cop_engine_options with_script(cop_token token, int32_t fails_at)
{
    scripted_token = token;
    failing_level = fails_at;
    n_begun = n_ended = n_observed = 0;
    return (struct cop_engine_options){
        .target = target, .proposer = ready(cop_part_new(&scripted.plug)), .batch = MATES};
}

static void run_script(struct cop_engine_options *options, enum cop_finish finish,
                       const char *message)
{
    make_mates(trials);
    struct cop_engine *engine = new_engine(options);
    for (int32_t i = 0; i < MATES; i++) {
        submit(engine, &trials[i]);
    }
    cr_assert_eq(cop_engine_run(engine, NULL), COP_OK);
    for (int32_t i = 0; i < MATES; i++) {
        cr_expect_eq(trials[i].result.finish, finish);
        cr_expect_str_eq(trials[i].result.error.text, message);
    }
    cr_expect_eq(n_begun, MATES);
    cr_expect_eq(n_ended, MATES);
    cr_expect_eq(cop_engine_usage(engine).used, 0);
    cop_engine_free(engine);
    release_all(trials);
    free_options(options);
}

Test(engine_life, an_always_wrong_draft_changes_nothing)
{
    struct cop_engine_options plain = {.target = target};
    run_alone(&plain);
    cop_token wrong = 0;
    for (int32_t i = 0; i < MATES; i++) { /* a token that no answer has */
        for (int32_t k = 0; k < alone[i].result.n_tokens; k++) {
            if (alone[i].result.tokens[k] == wrong) {
                wrong++;
                i = k = -1;
                break;
            }
        }
        i = i < 0 ? -1 : i;
    }
    struct cop_engine_options options = with_script(wrong, -1);
    make_mates(trials);
    run_trials(&options, trials, MATES);
    for (int32_t i = 0; i < MATES; i++) {
        expect_equal_tokens(&trials[i].result, &alone[i].result, "always wrong");
        cr_expect_eq(trials[i].result.accepted, 0);
        cr_expect_gt(trials[i].result.drafted, 100);
        cr_expect_eq(trials[i].n_cycles, ANSWER);
    }
    cr_expect_eq(n_observed, MATES * ANSWER); /* once a cycle, also when nothing is drafted */
    release_all(trials);
    release_all(alone);
    free_options(&options);
}

Test(engine_life, a_failing_proposer_fails_its_requests)
{
    for (int32_t level = 0; level < 3; level++) {
        struct cop_engine_options options = with_script(5, level);
        run_script(&options, COP_FINISH_ERROR, "the proposer fell over");
    }
}

Test(engine_life, a_drafted_id_outside_the_vocabulary_fails_its_request)
{
    struct cop_engine_options options = with_script(VOCAB, -1);
    run_script(&options, COP_FINISH_ERROR,
               "\"scripted\" drafted token 61, which is outside the vocabulary of 61");
}

Test(engine_life, a_failing_observer_fails_its_request_only)
{
    struct cop_engine_options options = speculative(MATES);
    run_alone(&options);
    make_mates(trials);
    trials[2].fail_at = 4;
    run_trials(&options, trials, MATES);
    cr_expect_eq(trials[2].result.finish, COP_FINISH_ERROR);
    cr_expect_eq(trials[2].result.error.code, COP_ERR_CALLBACK);
    cr_expect_str_eq(trials[2].result.error.text, "the observer fell over");
    cr_expect_eq(trials[2].n_cycles, 5);
    cr_expect(is_prefix(&trials[2].result, &alone[2].result)); /* what was committed stays */
    cr_expect_gt(trials[2].result.n_tokens, 4);
    for (int32_t i = 0; i < MATES; i += 1 + (i == 1)) {
        expect_equal_tokens(&trials[i].result, &alone[i].result, "mate");
    }
    release_all(trials);
    release_all(alone);
    free_options(&options);
}

static enum cop_status spoil(void *user, const cop_token *prefix, int32_t n, float *logits,
                             int32_t vocab, struct cop_error *err)
{
    (void)err;
    logits[vocab - 1] = prefix[n - 1] == 0 ? *(const float *)user : logits[vocab - 1];
    return COP_OK;
}

/* Whoever reads a row that is not finite fails, at its position; its neighbour does not. */
Test(engine_life, a_target_row_that_is_no_law_fails_that_request_only)
{
    static float bad[] = {NAN, INFINITY};
    for (int32_t i = 0; i < 4; i++) {
        struct cop_engine_options options = {.target = target, .batch = 2};
        cop_token ill[] = {5, 6, 7, 0}, well[] = {5, 6, 7, 8};
        options.sampling.temperature = i % 2;
        options.processing = (struct cop_processing){.process = spoil, .user = &bad[i / 2]};
        trial_init(&trials[0], ill, 4, 8);
        trial_init(&trials[1], well, 4, 1);
        struct cop_engine *engine = new_engine(&options);
        submit(engine, &trials[0]);
        submit(engine, &trials[1]);
        cr_assert_eq(cop_engine_run(engine, NULL), COP_OK);
        cr_expect_eq(trials[0].result.finish, COP_FINISH_ERROR);
        cr_expect_eq(trials[0].result.error.code, COP_ERR_NUMERIC);
        cr_expect(strstr(trials[0].result.error.text, "target row at position 3: "), "%s",
                  trials[0].result.error.text);
        cr_expect_eq(trials[0].result.n_tokens, 0);
        cr_expect_eq(trials[1].result.finish, COP_FINISH_LENGTH);
        cr_expect_eq(cop_engine_usage(engine).used, 0);
        cop_engine_free(engine);
        trial_release(&trials[0]);
        trial_release(&trials[1]);
    }
}

/* ---- Pages and the queue ----------------------------------------------------------------- */

Test(engine_life, requests_wait_for_pages)
{
    struct tiny_model description = {.seed = 7};
    /* 20 + 40 tokens and a tree of 16 nodes: 5 pages of 16; 12 pages serve two at once */
    struct cop_model *small =
        open_model(tiny_model_new(&description), (struct cop_model_options){.pages = 12});
    struct cop_engine_options options = speculative(MATES);
    run_alone(&options);
    options.target = small;
    make_mates(trials);
    struct cop_engine *engine = new_engine(&options);
    for (int32_t i = 0; i < MATES; i++) {
        submit(engine, &trials[i]);
    }
    int32_t active = 0;
    cr_assert_eq(cop_engine_step(engine, &active, NULL), COP_OK);
    cr_expect_eq(trials[0].n_cycles + trials[1].n_cycles + trials[2].n_cycles, 2);
    cr_assert_eq(cop_engine_run(engine, NULL), COP_OK);
    for (int32_t i = 0; i < MATES; i++) {
        expect_equal_tokens(&trials[i].result, &alone[i].result, "waited");
        cr_expect_leq(trials[i].result.peak_pages, 5);
        cr_expect_geq(trials[i].result.peak_pages, 3);
    }
    struct cop_error err = {0};
    struct trial big;
    trial_init(&big, prompts[0], PROMPT, 400);
    cr_expect_eq(cop_engine_submit(engine, &big.request, take_result, &err), COP_ERR_LIMIT);
    cr_expect_str_eq(err.text,
                     "the request may need 28 cache pages (prompt 20, answer 400 and tree 16 "
                     "tokens, 16 a page), the pool has 12; raise the model's `pages` or lower "
                     "max_tokens");
    cr_expect_eq(cop_engine_usage(engine).used, 0);
    cr_expect_leq(cop_engine_usage(engine).peak, 12);
    cop_engine_free(engine);
    release_all(trials);
    release_all(alone);
    free_options(&options);
    cop_model_free(small);
}

Test(engine_life, one_slot_serves_many_requests_alike)
{
    struct cop_engine_options options = speculative(1);
    run_alone(&options);
    struct cop_engine *engine = new_engine(&options);
    for (int32_t round = 0; round < 5; round++) { /* nothing of a request survives it */
        make_mates(trials);
        for (int32_t i = 0; i < MATES; i++) {
            submit(engine, &trials[i]);
        }
        cr_assert_eq(cop_engine_run(engine, NULL), COP_OK);
        for (int32_t i = 0; i < MATES; i++) {
            expect_equal_tokens(&trials[i].result, &alone[i].result, "again");
            cr_expect_eq(trials[i].result.accepted, alone[i].result.accepted);
        }
        cr_expect_eq(cop_engine_usage(engine).used, 0);
        release_all(trials);
    }
    cop_engine_free(engine);
    release_all(alone);
    free_options(&options);
}

Test(engine_life, freeing_an_engine_ends_what_it_serves)
{
    struct cop_engine_options options = with_script(5, -1);
    options.batch = 2;
    make_mates(trials);
    struct cop_engine *engine = new_engine(&options);
    for (int32_t i = 0; i < MATES; i++) {
        submit(engine, &trials[i]);
    }
    int32_t active = 0;
    cr_assert_eq(cop_engine_step(engine, &active, NULL), COP_OK);
    cop_engine_free(engine);
    cr_expect_eq(n_begun, 2);
    cr_expect_eq(n_ended, 2);
    cr_expect_not(trials[0].is_done);
    release_all(trials);
    free_options(&options);
}

/* Budgets of 1, 2 and 9 in one batch: rows without drafts are plain decoding in the same pass.
 */
Test(engine_life, mates_of_different_budgets)
{
    static const int32_t budgets[3][3] = {{1, 2, 9}, {1, 1, 1}, {9, 1, 5}};
    struct cop_engine_options plain = {.target = target}, options = speculative(3);
    run_alone(&plain);
    for (int32_t k = 0; k < 3; k++) {
        make_mates(trials);
        for (int32_t i = 0; i < 3; i++) {
            trials[i].request.max_tokens = budgets[k][i];
        }
        run_trials(&options, trials, 3);
        for (int32_t i = 0; i < 3; i++) {
            cr_expect_eq(trials[i].result.n_tokens, budgets[k][i]);
            cr_expect(is_prefix(&trials[i].result, &alone[i].result));
            cr_expect_eq(trials[i].drafted[0] > 0, budgets[k][i] > 1);
            trial_release(&trials[i]);
        }
    }
    release_all(alone);
    free_options(&options);
}

/* ---- Times ------------------------------------------------------------------------------- */

static double script_us; /* spent in a script's functions */
static double lua_us[MOST_CYCLES], cycle_us[MOST_CYCLES];

static enum cop_status slow_observer(void *user, const struct cop_cycle *cycle,
                                     struct cop_error *err)
{
    cr_assert_geq(cycle->draft_us, 0);
    cr_assert_gt(cycle->score_us, 0);
    cr_assert_gt(cycle->verify_us, 0);
    cr_assert_gt(cycle->commit_us, 0);
    cr_assert_gt(cycle->other_us, 0);
    lua_us[cycle->cycle] = cycle->lua_us;
    cycle_us[cycle->cycle] = cycle->draft_us + cycle->score_us + cycle->verify_us +
                             cycle->commit_us + cycle->other_us;
    script_us += 7;
    return note_cycle(user, cycle, err);
}

Test(engine_life, times_add_up)
{
    struct cop_engine_options options = speculative(1);
    options.foreign_us = &script_us;
    script_us = 1000; /* before the engine: nobody's */
    make_mates(trials);
    struct cop_engine *engine = new_engine(&options);
    trials[1].request.user = &trials[1];
    trials[1].request.on_cycle = slow_observer;
    cr_assert_eq(cop_engine_submit(engine, &trials[1].request, take_result, NULL), COP_OK);
    cr_assert_eq(cop_engine_run(engine, NULL), COP_OK);
    const struct cop_result *result = &trials[1].result;
    double sum = 0;
    for (int32_t c = 0; c < trials[1].n_cycles; c++) {
        cr_expect_eq(lua_us[c], 0); /* what an observer takes lies between cycles */
        sum += cycle_us[c] * 1e-6;
    }
    cr_expect_float_eq(result->seconds, sum, 1e-9);
    cr_expect_float_eq(result->seconds,
                       result->draft_seconds + result->score_seconds + result->host_seconds,
                       1e-9);
    cr_expect_gt(result->draft_seconds, 0);
    cr_expect_gt(result->prefill_seconds, 0);
    cop_engine_free(engine);
    release_all(trials);
    free_options(&options);
}

/* ---- What is refused --------------------------------------------------------------------- */

static void expect_refusal(struct cop_request request, enum cop_status code, const char *text)
{
    struct cop_engine_options options = {.target = target};
    struct cop_engine *engine = new_engine(&options);
    struct cop_error err = {0};
    cr_expect_eq(cop_engine_submit(engine, &request, NULL, &err), code, "%s", text);
    cr_expect_str_eq(err.text, text);
    cop_engine_free(engine);
}

Test(engine_life, requests_are_checked_when_submitted)
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

Test(engine_life, options_are_checked_before_anything_runs)
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

Test(engine_life, facts_tell_what_the_engine_made_of_its_options)
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
