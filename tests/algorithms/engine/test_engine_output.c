/* What a reader gets is the same with and without speculation: stops, ends, budgets, minimum
 * lengths, log-probabilities, streamed text. The model is random with a byte-level tokenizer.
 */
#include "tests/algorithms/engine/engine_bench.h"

enum { PROMPT = 10, ANSWER = 48, EOS = 258, TREES = 5 };

static struct cop_model *target, *kin;
static struct trial plain, with;
static cop_token prompt[PROMPT];

static void open_models(void)
{
    target = open_tiny((struct tiny_model){.seed = 5, .has_tokenizer = true});
    kin = open_tiny(
        (struct tiny_model){.seed = 5, .has_tokenizer = true, .noise = 0.1, .noise_seed = 1});
    random_prompt(prompt, PROMPT, 250, 3);
}
static void free_models(void)
{
    cop_model_free(target);
    cop_model_free(kin);
}
TestSuite(engine_output, .init = open_models, .fini = free_models);

/* 0: plain; 1 .. 4: chains and a tree of a draft that is always or mostly right. */
static struct cop_engine_options make_options(int32_t tree)
{
    static const int32_t widths[] = {3, 2, 1};
    struct cop_engine_options options = {.target = target};
    if (tree > 0) {
        options.proposer = new_draft(tree < 3 ? target : kin);
        options.builder = tree == 1   ? new_chain(12)
                          : tree == 2 ? new_chain(3)
                          : tree == 3 ? new_widths(widths, 3)
                                      : new_chain(7);
    }
    return options;
}

static void free_options(struct cop_engine_options *options)
{
    cop_part_free(options->proposer);
    cop_part_free(options->builder);
    cop_part_free(options->rule);
}

/* Runs `request` (prompt filled in) with a tree of make_options. */
static void run(struct trial *trial, int32_t tree, struct cop_request request,
                double temperature)
{
    struct cop_engine_options options = make_options(tree);
    options.sampling.temperature = temperature;
    trial_init(trial, prompt, PROMPT, request.max_tokens);
    request.prompt = prompt;
    request.n_prompt = PROMPT;
    trial->request = request;
    run_trials(&options, trial, 1);
    free_options(&options);
}

static const struct cop_request usual = {.max_tokens = ANSWER, .logprobs = -1, .seed = 1};

static void expect_equal_answers(const char *what)
{
    const struct cop_result *a = &with.result, *b = &plain.result;
    expect_equal_tokens(a, b, what);
    cr_expect_eq(a->text.length, b->text.length, "%s: text of %zu and %zu bytes", what,
                 a->text.length, b->text.length);
    cr_expect(a->text.length == 0 || memcmp(a->text.bytes, b->text.bytes, b->text.length) == 0,
              "%s: text", what);
}

/* Every request below, plain and with each tree. */
static void compare_all(struct cop_request request, enum cop_finish finish, const char *what)
{
    run(&plain, 0, request, 0);
    cr_expect_eq(plain.result.finish, finish, "%s: %s", what,
                 cop_finish_name(plain.result.finish));
    for (int32_t tree = 1; tree < TREES; tree++) {
        char name[96];
        snprintf(name, sizeof name, "%s, tree %d", what, tree);
        run(&with, tree, request, 0);
        expect_equal_answers(name);
        trial_release(&with);
    }
    trial_release(&plain);
}

/* The tokens of plain decoding, copied. */
static void plain_tokens(cop_token *tokens)
{
    run(&plain, 0, usual, 0);
    cr_assert_eq(plain.result.n_tokens, ANSWER);
    memcpy(tokens, plain.result.tokens, ANSWER * sizeof *tokens);
    trial_release(&plain);
}

/* The first place from `from` on whose token has not occurred before. */
static int32_t fresh_place(const cop_token *tokens, int32_t from)
{
    for (int32_t i = from; i < ANSWER; i++) {
        int32_t j = 0;
        while (tokens[j] != tokens[i]) {
            j++;
        }
        if (j == i) {
            return i;
        }
    }
    cr_assert_fail("the answer repeats itself");
    return 0;
}

Test(engine_output, random_text_is_streamed_alike)
{
    compare_all(usual, COP_FINISH_LENGTH, "usual");
}

Test(engine_output, stop_token_inside_an_accepted_run)
{
    cop_token tokens[ANSWER];
    plain_tokens(tokens);
    for (int32_t from = 0; from < 20; from += 3) {
        struct cop_request request = usual;
        int32_t place = fresh_place(tokens, from);
        request.stop_tokens = &tokens[place];
        request.n_stop_tokens = 1;
        run(&with, 1, request, 0);
        cr_expect_eq(with.result.n_tokens, place);
        cr_expect_eq(with.result.finish, COP_FINISH_STOP);
        trial_release(&with);
        compare_all(request, COP_FINISH_STOP, "stop token");
        request.min_tokens = place + 1; /* too early to stop there */
        run(&with, 1, request, 0);
        cr_expect_gt(with.result.n_tokens, place);
        trial_release(&with);
    }
}

/* Answers end at the model's own end token wherever in a run it falls. */
Test(engine_output, end_token_inside_an_accepted_run)
{
    cop_token tokens[ANSWER];
    plain_tokens(tokens);
    for (int32_t from = 0; from < 18; from += 5) {
        int32_t place = fresh_place(tokens, from);
        struct tiny_model description = {
            .seed = 5, .has_tokenizer = true, .eos = tokens[place]};
        cop_model_free(target);
        cop_model_free(kin);
        target = open_tiny(description);
        description.noise = 0.1;
        description.noise_seed = 1;
        kin = open_tiny(description);
        run(&with, 1, usual, 0);
        cr_expect_eq(with.result.n_tokens, place + 1);
        cr_expect_eq(with.result.tokens[place], tokens[place]);
        cr_expect_eq(with.result.finish, COP_FINISH_EOS);
        cr_expect_lt(with.kept[with.n_cycles - 1], with.progress[with.n_cycles - 1]);
        trial_release(&with);
        compare_all(usual, COP_FINISH_EOS, "end token");
        struct cop_request deaf = usual;
        deaf.ignore_eos = true;
        run(&with, 1, deaf, 0);
        cr_expect_eq(with.result.n_tokens, ANSWER);
        trial_release(&with);
        struct cop_request longer = usual;
        longer.min_tokens = place + 3; /* the end token cannot be drawn before */
        run(&plain, 0, longer, 0);
        cr_expect_geq(plain.result.n_tokens, place + 3);
        cr_expect_neq(plain.result.tokens[place], tokens[place]);
        enum cop_finish finish = plain.result.finish;
        trial_release(&plain);
        compare_all(longer, finish, "minimum");
    }
}

/* At every place its own prefix counts: the list of possible tokens lacks both end tokens up
 * to min_tokens, and no longer. */
Test(engine_output, end_token_is_impossible_exactly_before_min_tokens)
{
    struct cop_request request = usual;
    request.logprobs = 264;
    request.min_tokens = 7;
    for (int32_t temperature = 0; temperature < 2; temperature++) {
        for (int32_t tree = 0; tree < TREES; tree++) {
            run(&with, tree, request, temperature);
            cr_assert_gt(with.result.n_tokens, 7);
            for (int32_t i = 0; i < with.result.n_tokens; i++) {
                cr_expect_eq(with.result.logprobs[i].n_top, i < 7 ? 262 : 264,
                             "tree %d, token %d: %d are possible", tree, i,
                             with.result.logprobs[i].n_top);
            }
            trial_release(&with);
        }
    }
}

Test(engine_output, stop_string_over_several_tokens)
{
    run(&plain, 0, usual, 0);
    static char text[ANSWER * 8];
    size_t length = plain.result.text.length;
    memcpy(text, plain.result.text.bytes, length);
    trial_release(&plain);
    int32_t n_tried = 0;
    for (size_t at = 4; at + 3 < length && n_tried < 6; at += 5) {
        char stop[4] = {text[at], text[at + 1], text[at + 2], 0};
        const char *stops[] = {stop, "never there"};
        struct cop_request request = usual;
        if (((uint8_t)stop[0] | (uint8_t)stop[1] | (uint8_t)stop[2]) & 0x80 || !stop[0] ||
            !stop[1] || !stop[2]) {
            continue; /* part of a character */
        }
        n_tried++;
        request.stop = stops;
        request.n_stop = 2;
        compare_all(request, COP_FINISH_STOP, "stop string");
        run(&with, 1, request, 0);
        cr_expect_leq(with.result.text.length, at);
        cr_expect_null(
            memmem(with.result.text.bytes, with.result.text.length, stop, strlen(stop)));
        trial_release(&with);
    }
    cr_expect_gt(n_tried, 0);
}

Test(engine_output, never_more_than_max_tokens)
{
    for (int32_t max_tokens = 1; max_tokens <= 20; max_tokens++) {
        struct cop_request request = usual;
        request.max_tokens = max_tokens;
        for (int32_t tree = 1; tree < TREES; tree++) {
            run(&with, tree, request, 0);
            int32_t remaining = max_tokens;
            cr_expect_eq(with.result.n_tokens, max_tokens);
            cr_expect_eq(with.result.finish, COP_FINISH_LENGTH);
            cr_expect_eq(with.result.progress, max_tokens); /* nothing to trim */
            for (int32_t c = 0; c < with.n_cycles; c++) {
                cr_expect_leq(with.depth[c], remaining - 1, "tree %d, %d left: depth %d", tree,
                              remaining, with.depth[c]);
                remaining -= with.progress[c];
            }
            trial_release(&with);
        }
        compare_all(request, COP_FINISH_LENGTH, "max_tokens");
    }
}

Test(engine_output, one_token_prompts)
{
    for (cop_token token = 0; token < 256; token += 17) {
        prompt[PROMPT - 1] = token;
        struct cop_request request = {
            .prompt = &prompt[PROMPT - 1], .n_prompt = 1, .max_tokens = 12, .logprobs = -1};
        for (int32_t tree = 0; tree < TREES; tree++) {
            struct cop_engine_options options = make_options(tree);
            struct trial *trial = tree == 0 ? &plain : &with;
            trial_init(trial, NULL, 0, 0);
            trial->request = request;
            run_trials(&options, trial, 1);
            free_options(&options);
            if (tree > 0) {
                expect_equal_answers("one token");
                trial_release(&with);
            }
        }
        trial_release(&plain);
    }
}

Test(engine_output, logprobs_equal_plain_ones_bit_for_bit)
{
    struct cop_request request = usual;
    request.logprobs = 5;
    run(&plain, 0, request, 0);
    for (int32_t tree = 1; tree < TREES; tree++) {
        run(&with, tree, request, 0);
        cr_assert_eq(with.result.n_tokens, ANSWER);
        for (int32_t i = 0; i < ANSWER; i++) {
            const struct cop_logprob *a = &with.result.logprobs[i];
            const struct cop_logprob *b = &plain.result.logprobs[i];
            cr_expect_eq(a->id, with.result.tokens[i]);
            cr_expect_eq(memcmp(&a->logprob, &b->logprob, sizeof a->logprob), 0, "%d", i);
            cr_assert_eq(a->n_top, 5);
            cr_expect_arr_eq(a->top, b->top, 5 * sizeof *a->top, "%d", i);
            cr_expect_arr_eq(a->top_logprobs, b->top_logprobs, 5 * sizeof(double), "%d", i);
            cr_expect_eq(a->top[0], a->id); /* greedy */
            cr_expect_leq(a->logprob, 0);
        }
        trial_release(&with);
    }
    trial_release(&plain);
}

/* Under sampling too they are the target's own, of the raw row. */
Test(engine_output, logprobs_of_sampled_tokens_are_the_targets)
{
    struct cop_request request = usual;
    struct cop_cache *cache = NULL;
    static float logits[264];
    request.logprobs = 0;
    run(&with, 4, request, 0.7);
    cr_assert_eq(cop_model_cache_new(target, 1, 1, &cache, NULL), COP_OK);
    cr_assert_eq(cop_model_prefill(target, cache, 0, prompt, PROMPT - 1, 0, NULL, NULL),
                 COP_OK);
    cop_token token = prompt[PROMPT - 1];
    for (int32_t i = 0; i < with.result.n_tokens; i++) {
        int32_t parent = -1, path = 0;
        struct cop_score score = {
            .n = 1, .tokens = &token, .parents = &parent, .logits = logits};
        cr_assert_eq(cop_model_score(target, cache, &score, NULL), COP_OK);
        cop_cache_commit(cache, 0, &path, 1);
        double total = 0;
        for (int32_t v = 0; v < 264; v++) {
            total += exp((double)logits[v]);
        }
        token = with.result.tokens[i];
        cr_expect_float_eq(with.result.logprobs[i].logprob, (double)logits[token] - log(total),
                           1e-9, "%d", i);
    }
    cop_cache_free(cache);
    trial_release(&with);
}

Test(engine_output, prompt_and_answer_fill_the_context_and_no_more)
{
    struct cop_model *small =
        open_tiny((struct tiny_model){.seed = 5, .context = 32, .vocab = 61});
    static const int32_t widths[] = {8, 4, 1, 1, 1, 1, 1, 1};
    cop_token long_prompt[33];
    random_prompt(long_prompt, 33, 61, 1);
    for (int32_t tree = 0; tree < 5; tree++) {
        struct cop_engine_options options = {.target = small};
        if (tree > 0) {
            options.proposer = new_draft(small);
            options.builder = tree == 4 ? new_widths(widths, 8) : new_chain(1 << tree);
        }
        for (int32_t n = 1; n < 32; n++) {
            trial_init(&with, long_prompt, n, 100);
            run_trials(&options, &with, 1);
            cr_expect_eq(with.result.n_tokens, 32 - n, "tree %d, prompt %d: %d", tree, n,
                         with.result.n_tokens);
            cr_expect_eq(with.result.finish, COP_FINISH_LENGTH);
            trial_release(&with);
        }
        struct cop_engine *engine = new_engine(&options);
        struct cop_error err = {0};
        trial_init(&with, long_prompt, 32, 100);
        cr_expect_eq(cop_engine_submit(engine, &with.request, NULL, &err), COP_ERR_LIMIT);
        cr_expect_str_eq(err.text,
                         "a prompt of 32 tokens leaves no room in the context of 32; raise "
                         "the model's `context` or shorten it");
        cop_engine_free(engine);
        free_options(&options);
    }
    cop_model_free(small);
}
