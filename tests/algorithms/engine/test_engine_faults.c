/* Parts that misbehave end their own request only. */
#include "tests/algorithms/engine/engine_mates.h"

TestSuite(engine_faults, .init = open_models, .fini = free_models, .timeout = 60);
static struct trial trials[MATES];

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

Test(engine_faults, an_always_wrong_draft_changes_nothing)
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

Test(engine_faults, a_failing_proposer_fails_its_requests)
{
    for (int32_t level = 0; level < 3; level++) {
        struct cop_engine_options options = with_script(5, level);
        run_script(&options, COP_FINISH_ERROR, "the proposer fell over");
    }
}

Test(engine_faults, a_drafted_id_outside_the_vocabulary_fails_its_request)
{
    struct cop_engine_options options = with_script(VOCAB, -1);
    run_script(&options, COP_FINISH_ERROR,
               "\"scripted\" drafted token 61, which is outside the vocabulary of 61");
}

Test(engine_faults, a_failing_observer_fails_its_request_only)
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
Test(engine_faults, a_target_row_that_is_no_law_fails_that_request_only)
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

Test(engine_faults, freeing_an_engine_ends_what_it_serves)
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
