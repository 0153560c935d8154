/* Beginnings and endings: admission, the queue, cancellation; pages always come back, and times
 * add up. */
#include "tests/algorithms/engine/engine_mates.h"

TestSuite(engine_life, .init = open_models, .fini = free_models, .timeout = 60);
static struct trial trials[MATES];

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

/* The proposer's session is a new one; requests before and after it are alike. */
Test(engine_life, forgets_between_requests)
{
    struct cop_engine_options options = speculative(1);
    run_alone(&options);
    struct cop_engine *engine = new_engine(&options);
    make_mates(trials);
    for (int32_t i = 0; i < MATES; i++) {
        struct cop_error err = {0};
        submit(engine, &trials[i]);
        cr_expect_eq(cop_engine_forget(engine, &err), COP_ERR_ARGUMENT);
        cr_expect_str_eq(err.text, "the engine has requests to serve");
        cr_assert_eq(cop_engine_run(engine, NULL), COP_OK);
        cr_assert_eq(cop_engine_forget(engine, NULL), COP_OK);
        expect_equal_tokens(&trials[i].result, &alone[i].result, "forgot");
        cr_expect_eq(trials[i].result.accepted, alone[i].result.accepted);
    }
    cop_engine_free(engine);
    release_all(trials);
    release_all(alone);
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
