/* Penalties, biases, bans, minimum lengths and processors change what the target says, never
 * whether speculation shows: every setting alone and all together, over lookups and drafts,
 * chains and trees, equals plain decoding; above temperature 0 the law is the processed one. */
#include "tests/algorithms/engine/engine_bench.h"

enum { VOCAB = 263, EOS = 258, PROMPT = 12, ANSWER = 48, REQUESTS = 3 };
enum { LOOKUP, TWIN, KIN, STRANGER, PROPOSERS };
enum { CHAIN, WIDTHS, TREES };

static struct cop_model *models[PROPOSERS]; /* LOOKUP: the target */
static cop_token prompts[REQUESTS][PROMPT];

static void open_models(void)
{
    const struct tiny_model twin = {.seed = 5, .has_tokenizer = true, .vocab = VOCAB};
    struct tiny_model kin = twin, stranger = twin;
    kin.noise = 0.1;
    kin.noise_seed = 1;
    stranger.seed = 8;
    models[LOOKUP] = open_tiny(twin);
    models[TWIN] = open_tiny(twin);
    models[KIN] = open_tiny(kin);
    models[STRANGER] = open_tiny(stranger);
    for (int i = 0; i < REQUESTS; i++) {
        random_prompt(prompts[i], PROMPT, 250, (uint64_t)i + 3);
    }
}
static void free_models(void)
{
    for (int i = 0; i < PROPOSERS; i++) {
        cop_model_free(models[i]);
    }
}
TestSuite(engine_process, .init = open_models, .fini = free_models, .timeout = 120);

/* ---- Settings --------------------------------------------------------------------------- */

/* A function of the whole prefix: the token before the last one, and where it stands. */
static enum cop_status shuffle(void *user, const cop_token *prefix, int32_t n, float *logits,
                               int32_t vocab, struct cop_error *err)
{
    (void)err;
    (void)user;
    cr_assert_gt(n, PROMPT - REQUESTS);
    cr_assert_eq(vocab, VOCAB);
    logits[prefix[n - 1]] = -INFINITY;
    logits[(prefix[n - 2] + n) % vocab] += 1.5f;
    return COP_OK;
}

struct setting {
    const char *name;
    struct cop_processing how;
    int32_t min_tokens;
};

static const struct cop_bias bias[] = {{EOS, 6}, {7, -4}, {40, 2}, {90, -HUGE_VAL}};
static cop_token banned[] = {5, 17, 17, 200, 104}; /* the first two: of the usual answer */

static const struct setting settings[] = {
    {"repetition", {.repetition_penalty = 1.4}, 0},
    {"rewarded repetition", {.repetition_penalty = 0.7}, 0},
    {"presence", {.presence_penalty = 5}, 0},
    {"frequency", {.frequency_penalty = 0.8}, 0},
    {"rewarded frequency", {.frequency_penalty = -0.5}, 0},
    {"bias", {.bias = bias, .n_bias = 4}, 0},
    {"bans", {.banned = banned, .n_banned = 5}, 0},
    {"minimum length", {.bias = bias, .n_bias = 1}, 20},
    {"processor", {.process = shuffle}, 0},
    {"everything",
     {.repetition_penalty = 1.2,
      .presence_penalty = 0.3,
      .frequency_penalty = 0.1,
      .bias = bias,
      .n_bias = 4,
      .banned = banned,
      .n_banned = 5,
      .process = shuffle},
     30}};
enum { SETTINGS = sizeof settings / sizeof *settings };

static struct cop_part *new_proposer(int32_t proposer)
{
    return proposer == LOOKUP
               ? ready(set_number(set_number(set_number(new_part(COP_PLUG_PROPOSER, "lookup"),
                                                        "min_ngram", 1),
                                             "max_ngram", 2),
                                  "tokens", 4))
               : new_draft(models[proposer]);
}

static struct cop_part *new_tree(int32_t tree)
{
    static const int32_t widths[] = {3, 2, 1};
    return tree == CHAIN ? new_chain(5) : new_widths(widths, 3);
}

static void run(const struct setting *setting, struct cop_engine_options options,
                struct trial *trials)
{
    options.target = models[LOOKUP];
    options.processing = setting->how;
    for (int32_t i = 0; i < REQUESTS; i++) {
        trial_init(&trials[i], prompts[i], PROMPT - i, ANSWER - 4 * i);
        trials[i].request.id = (uint32_t)i;
        trials[i].request.logprobs = 2;
        trials[i].request.min_tokens = setting->min_tokens;
    }
    run_trials(&options, trials, REQUESTS);
    cop_part_free(options.proposer);
    cop_part_free(options.builder);
}

static void release(struct trial *trials)
{
    for (int32_t i = 0; i < REQUESTS; i++) {
        trial_release(&trials[i]);
    }
}

static void expect_equal_logprobs(const struct cop_result *a, const struct cop_result *b,
                                  const char *what)
{
    for (int32_t i = 0; i < a->n_tokens && i < b->n_tokens; i++) {
        cr_expect_eq(a->logprobs[i].logprob, b->logprobs[i].logprob, "%s: place %d: %g, %g",
                     what, i, a->logprobs[i].logprob, b->logprobs[i].logprob);
        cr_expect_eq(a->logprobs[i].top[1], b->logprobs[i].top[1], "%s: place %d", what, i);
    }
}

/* Bans that matter. */
static void ban_usual_tokens(void)
{
    static struct trial usual[REQUESTS];
    run(&(struct setting){.name = "nothing"}, (struct cop_engine_options){.batch = 1}, usual);
    banned[0] = usual[0].result.tokens[0];
    banned[1] = usual[1].result.tokens[6];
    release(usual);
}

Test(engine_process, greedy_answers_equal_plain_decoding)
{
    ban_usual_tokens();
    static struct trial plain[REQUESTS], with[REQUESTS];
    int64_t drafted[PROPOSERS][TREES] = {{0}}, accepted[PROPOSERS][TREES] = {{0}};
    for (int s = 0; s < SETTINGS; s++) {
        run(&settings[s], (struct cop_engine_options){.batch = 1}, plain);
        for (int arm = 0; arm < PROPOSERS * TREES; arm++) {
            int32_t proposer = arm / TREES, tree = arm % TREES;
            run(&settings[s],
                (struct cop_engine_options){.proposer = new_proposer(proposer),
                                            .builder = new_tree(tree),
                                            .batch = arm % REQUESTS + 1},
                with);
            for (int i = 0; i < REQUESTS; i++) {
                char what[96];
                snprintf(what, sizeof what, "%s, proposer %d, tree %d, request %d",
                         settings[s].name, proposer, tree, i);
                expect_equal_tokens(&with[i].result, &plain[i].result, what);
                expect_equal_logprobs(&with[i].result, &plain[i].result, what);
                drafted[proposer][tree] += with[i].result.drafted;
                accepted[proposer][tree] += with[i].result.accepted;
            }
            release(with);
        }
        release(plain);
    }
    for (int arm = 0; arm < PROPOSERS * TREES; arm++) {
        int32_t proposer = arm / TREES, tree = arm % TREES;
        cr_expect_gt(accepted[proposer][tree], 0, "proposer %d, tree %d", proposer, tree);
        cr_expect_lt(accepted[proposer][tree], drafted[proposer][tree]);
    }
}

/* A draft with the target's weights sees what the target sees, so every guess is kept; but for
 * a script's processor, which draft rows do not see. */
Test(engine_process, a_twin_draft_guesses_what_the_target_says)
{
    static struct trial trials[REQUESTS];
    for (int s = 0; s < SETTINGS; s++) {
        int64_t drafted = 0, accepted = 0;
        run(&settings[s],
            (struct cop_engine_options){
                .proposer = new_proposer(TWIN), .builder = new_tree(CHAIN), .batch = REQUESTS},
            trials);
        for (int i = 0; i < REQUESTS; i++) {
            drafted += trials[i].result.drafted;
            accepted += trials[i].result.accepted;
        }
        cr_expect_gt(drafted, 0);
        cr_expect(settings[s].how.process ? accepted < drafted : accepted == drafted,
                  "%s: %d of %d kept", settings[s].name, (int)accepted, (int)drafted);
        release(trials);
    }
}

static bool has_token(const struct cop_result *result, cop_token token)
{
    for (int32_t i = 0; i < result->n_tokens; i++) {
        if (result->tokens[i] == token) {
            return true;
        }
    }
    return false;
}

/* What the settings promise, seen from outside. */
Test(engine_process, settings_do_what_they_say)
{
    static struct trial usual[REQUESTS], trials[REQUESTS];
    const struct setting nothing = {.name = "nothing"};
    ban_usual_tokens();
    run(&nothing, (struct cop_engine_options){.batch = 1}, usual);
    for (int s = 0; s < SETTINGS; s++) {
        run(&settings[s],
            (struct cop_engine_options){.proposer = new_proposer(KIN),
                                        .builder = new_tree(CHAIN)},
            trials);
        int32_t n_changed = 0;
        for (int i = 0; i < REQUESTS; i++) {
            const struct cop_result *result = &trials[i].result, *before = &usual[i].result;
            n_changed += result->n_tokens != before->n_tokens ||
                         memcmp(result->tokens, before->tokens,
                                (size_t)before->n_tokens * sizeof *before->tokens) != 0;
            for (int b = 0; b < settings[s].how.n_banned; b++) {
                cr_expect_not(has_token(result, banned[b]), "%s", settings[s].name);
            }
            cr_expect(result->n_tokens >= settings[s].min_tokens, "%s: %d tokens",
                      settings[s].name, result->n_tokens);
        }
        cr_expect(n_changed > 0, "%s changed nothing", settings[s].name);
        release(trials);
    }
    release(usual);
}

/* With a presence penalty beyond all logits no token comes twice before all have come once: a
 * rejected guess is not held against a token, a kept one is held once. */
Test(engine_process, rejected_guesses_are_not_counted)
{
    static struct trial trials[REQUESTS];
    const struct setting strict = {"strict", {.presence_penalty = 1000}, 0};
    for (int proposer = LOOKUP; proposer < PROPOSERS; proposer++) {
        run(&strict,
            (struct cop_engine_options){.proposer = new_proposer(proposer),
                                        .builder = new_tree(WIDTHS)},
            trials);
        for (int i = 0; i < REQUESTS; i++) {
            const struct cop_result *result = &trials[i].result;
            for (int32_t k = 0; k < result->n_tokens; k++) {
                struct cop_result before = *result;
                before.n_tokens = k;
                cr_expect_not(has_token(&before, result->tokens[k]), "proposer %d, place %d",
                              proposer, k);
            }
        }
        release(trials);
    }
}

/* ---- Failures --------------------------------------------------------------------------- */

static enum cop_status fail_on_third(void *user, const cop_token *prefix, int32_t n,
                                     float *logits, int32_t vocab, struct cop_error *err)
{
    (void)user;
    (void)logits;
    (void)vocab;
    return prefix[0] == prompts[1][0] && n >= PROMPT + 1
               ? cop_fail(err, COP_ERR_CALLBACK, "enough of this")
               : COP_OK;
}

Test(engine_process, a_failing_processor_ends_its_request_only)
{
    static struct trial trials[REQUESTS], usual[REQUESTS];
    const struct setting nothing = {.name = "nothing"},
                         failing = {"failing", {.process = fail_on_third}, 0};
    run(&nothing, (struct cop_engine_options){.batch = 1}, usual);
    run(&failing,
        (struct cop_engine_options){
            .batch = 3, .proposer = new_proposer(KIN), .builder = new_tree(WIDTHS)},
        trials);
    cr_expect_eq(trials[1].result.finish, COP_FINISH_ERROR);
    cr_expect_eq(trials[1].result.error.code, COP_ERR_CALLBACK);
    cr_expect_str_eq(trials[1].result.error.text, "enough of this");
    expect_equal_tokens(&trials[0].result, &usual[0].result, "the first");
    expect_equal_tokens(&trials[2].result, &usual[2].result, "the last");
    release(trials);
    release(usual);
}

/* The row after the token of place 7 is no law: with NaN, with a failure, or wherever the
 * prefix leaves the plain answer. */
static struct trial usual_answers[REQUESTS];
enum { BAD_PLACE = 7 };

static enum cop_status spoil(void *user, const cop_token *prefix, int32_t n, float *logits,
                             int32_t vocab, struct cop_error *err)
{
    const char *how = user;
    int32_t request = 0;
    while (memcmp(prefix, prompts[request], 4 * sizeof *prefix) != 0) {
        request++;
    }
    int32_t place = n - (PROMPT - request) - 1;
    const struct cop_result *usual = &usual_answers[request].result;
    bool is_usual = true;
    for (int32_t i = 0; i <= place && i < usual->n_tokens; i++) {
        is_usual = is_usual && prefix[PROMPT - request + i] == usual->tokens[i];
    }
    if (*how == 'f' && place == BAD_PLACE) {
        return cop_fail(err, COP_ERR_CALLBACK, "enough of this");
    }
    if ((*how == 'n' && place == BAD_PLACE) || (*how == 'o' && !is_usual)) {
        logits[vocab / 2] = NAN;
    }
    return COP_OK;
}

/* Looks at every row of the tree before it decides, as rules that weigh paths do. */
static enum cop_status match_after_all(const void *state, const struct cop_verify_in *in,
                                       struct cop_verdict *out, struct cop_error *err)
{
    for (int32_t node = in->tree->size - 1; node >= 0; node--) {
        (void)cop_rows_at(&in->target, node);
    }
    const struct cop_rule_ops *match =
        (const void *)cop_registry_find(registry(), COP_PLUG_RULE, "match");
    return match->verify(state, in, out, err);
}

Test(engine_process, a_bad_row_costs_nothing_that_came_before_it)
{
    static struct trial plain[REQUESTS], with[REQUESTS];
    const struct cop_rule_ops looks_at_all = {
        .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_RULE, .name = "nosy", .help = "match"},
        .lossless_for = (const struct cop_claim[]){{COP_DRAW_COUNT, COP_SHAPE_TREE, true},
                                                   {.draw = COP_DRAW_AUTO}},
        .verify = match_after_all};
    const struct setting nothing = {.name = "nothing"};
    run(&nothing, (struct cop_engine_options){.batch = 1}, usual_answers);
    const char *const how[] = {"nan", "failure", "off the path"};
    for (int h = 0; h < 3; h++) {
        const struct setting setting = {
            how[h], {.process = spoil, .user = (void *)(uintptr_t)how[h]}, 0};
        run(&setting, (struct cop_engine_options){.batch = 1}, plain);
        cr_expect_eq(plain[0].result.n_tokens,
                     h == 2 ? usual_answers[0].result.n_tokens : BAD_PLACE + 1);
        for (int arm = 0; arm < 2 * PROPOSERS * TREES; arm++) {
            char what[96];
            struct cop_part *rule =
                arm % 2 ? ready(cop_part_new(&looks_at_all.plug)) : new_rule("match");
            run(&setting,
                (struct cop_engine_options){.proposer = new_proposer(arm / 2 % PROPOSERS),
                                            .builder = new_tree(arm / 2 / PROPOSERS),
                                            .rule = rule,
                                            .batch = REQUESTS},
                with);
            for (int i = 0; i < REQUESTS; i++) {
                snprintf(what, sizeof what, "%s, arm %d, request %d", how[h], arm, i);
                expect_equal_tokens(&with[i].result, &plain[i].result, what);
                cr_expect_str_eq(with[i].result.error.text, plain[i].result.error.text);
            }
            release(with);
            cop_part_free(rule);
        }
        release(plain);
    }
    release(usual_answers);
}

Test(engine_process, no_token_left)
{
    static struct trial trials[REQUESTS];
    cop_token all[VOCAB];
    for (int i = 0; i < VOCAB; i++) {
        all[i] = i;
    }
    const struct setting setting = {"all banned", {.banned = all, .n_banned = VOCAB}, 0};
    run(&setting, (struct cop_engine_options){.batch = 2}, trials);
    for (int i = 0; i < REQUESTS; i++) {
        cr_expect_eq(trials[i].result.finish, COP_FINISH_ERROR);
        cr_expect_eq(trials[i].result.n_tokens, 0);
        cr_expect_not_null(strstr(trials[i].result.error.text, "no token left"), "%s",
                           trials[i].result.error.text);
    }
    release(trials);
}

Test(engine_process, the_dry_run_refuses_settings_out_of_range)
{
    struct cop_engine_options options = {
        .target = models[LOOKUP],
        .batch = 1,
        .registry = registry(),
        .sampling = COP_SAMPLING_DEFAULT,
        .processing = {.banned = (const cop_token[]){VOCAB}, .n_banned = 1}};
    struct cop_error err = {0};
    cr_expect_eq(cop_engine_check(&options, NULL, &err), COP_ERR_ARGUMENT);
    cr_expect_str_eq(err.text, "banned: id 263 is outside the vocabulary of 263 (ids from 0)");
}

/* ---- The law at temperature 1 ----------------------------------------------------------- */

enum { SMALL = 8, TOKENS = 3 };
#ifdef COP_DEBUG /* the sanitizers look at the code, not at the law */
enum { DRAWS = 2000 };
#else
enum { DRAWS = 20000 };
#endif
static double table[SMALL * SMALL], draft_table[SMALL * SMALL];

static void fill_table(double *out, uint64_t seed)
{
    for (int i = 0; i < SMALL * SMALL; i++) {
        out[i] = 0.05 + tiny_uniform(seed, (uint64_t)i);
    }
    tiny_bigram_scale(SMALL, out);
}

/* The law after `tokens`, the first two of them the prompt: presence 0.9, frequency 0.6 on the
 * answer, id 6 banned. */
static void exact_law(const cop_token *tokens, int n, double *law)
{
    double sum = 0;
    for (int j = 0; j < SMALL; j++) {
        int count = 0;
        for (int i = 2; i < n; i++) {
            count += tokens[i] == j;
        }
        law[j] = table[tokens[n - 1] * SMALL + j] * exp(-0.9 * (count > 0) - 0.6 * count);
        law[j] = j == 6 ? 0 : law[j];
        sum += law[j];
    }
    for (int j = 0; j < SMALL; j++) {
        law[j] /= sum;
    }
}

struct tally {
    int32_t counts[SMALL][SMALL][SMALL], n;
    int64_t drafted, accepted;
};

static void count_result(void *user, struct cop_result *result)
{
    struct tally *tally = user;
    cr_assert_eq(result->n_tokens, TOKENS);
    tally->counts[result->tokens[0]][result->tokens[1]][result->tokens[2]]++;
    tally->n++;
    tally->drafted += result->drafted;
    tally->accepted += result->accepted;
}

static void sample(struct cop_engine_options *options, struct tally *tally)
{
    static const cop_token prompt[] = {3, 5};
    struct cop_error err = {0};
    struct cop_engine *engine = new_engine(options);
    memset(tally, 0, sizeof *tally);
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct cop_request request = {.prompt = prompt,
                                      .n_prompt = 2,
                                      .seed = i / 100,
                                      .id = i % 100,
                                      .max_tokens = TOKENS,
                                      .logprobs = -1,
                                      .user = tally};
        cr_assert_eq(cop_engine_submit(engine, &request, count_result, &err), COP_OK);
    }
    cr_assert_eq(cop_engine_run(engine, &err), COP_OK, "%s", err.text);
    cr_assert_eq(tally->n, DRAWS);
    cop_engine_free(engine);
}

/* Each of the 512 frequencies within 5.5 standard deviations and a little. */
static void expect_law(const struct tally *tally, const char *what)
{
    cop_token t[2 + TOKENS] = {3, 5};
    double first[SMALL], second[SMALL], third[SMALL];
    exact_law(t, 2, first);
    for (t[2] = 0; t[2] < SMALL; t[2]++) {
        exact_law(t, 3, second);
        for (t[3] = 0; t[3] < SMALL; t[3]++) {
            exact_law(t, 4, third);
            for (int k = 0; k < SMALL; k++) {
                double p = first[t[2]] * second[t[3]] * third[k];
                double expected = DRAWS * p, limit = 5.5 * sqrt(DRAWS * p * (1 - p)) + 3;
                double got = tally->counts[t[2]][t[3]][k];
                cr_expect_leq(fabs(got - expected), p > 0 ? limit : 0,
                              "%s: %d %d %d came %g times, expected %g", what, t[2], t[3], k,
                              got, expected);
            }
        }
    }
}

Test(engine_process, the_law_above_temperature_0_is_the_processed_one)
{
    static const cop_token six[] = {6};
    static const int32_t widths[] = {2, 2};
    static struct tally tally;
    fill_table(table, 11);
    fill_table(draft_table, 12);
    struct cop_model *target =
        open_model(tiny_bigram_new(SMALL, table), (struct cop_model_options){0});
    struct cop_model *draft =
        open_model(tiny_bigram_new(SMALL, draft_table), (struct cop_model_options){0});
    const char *const rules[] = {"sample_match", "sample_match", "token"};
    for (int arm = 0; arm < 3; arm++) {
        struct cop_engine_options options = {.target = target,
                                             .batch = 8,
                                             .sampling = {.temperature = 1, .top_p = 1},
                                             .processing = {.presence_penalty = 0.9,
                                                            .frequency_penalty = 0.6,
                                                            .banned = six,
                                                            .n_banned = 1},
                                             .proposer = arm ? new_draft(draft) : NULL,
                                             .builder = arm == 0   ? NULL
                                                        : arm == 1 ? new_widths(widths, 2)
                                                                   : new_chain(2),
                                             .rule = new_rule(rules[arm])};
        sample(&options, &tally);
        expect_law(&tally, arm == 0 ? "plain" : arm == 1 ? "tree" : "chain");
        cr_expect(arm == 0 || (tally.accepted > 0 && tally.accepted < tally.drafted));
        cop_part_free(options.proposer);
        cop_part_free(options.builder);
        cop_part_free(options.rule);
    }
    cop_model_free(target);
    cop_model_free(draft);
}
