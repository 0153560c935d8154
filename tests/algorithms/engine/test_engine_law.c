/* The law of what comes out, measured on bigram models whose rows are known numbers: tokens of
 * many requests, each of its own seed, against the exact probabilities. */
#include "tests/algorithms/engine/engine_bench.h"

enum { VOCAB = 8, TOKENS = 3 };
#ifdef COP_DEBUG /* a fifth, for the sanitizers: they look at the code, not at the law */
enum { DRAWS = 4000 };
#else
enum { DRAWS = 20000 };
#endif

/* Row i of each table: the law of the token after i. Rows depend on i, hold zeros and ties. */
static double target_table[VOCAB * VOCAB], draft_table[VOCAB * VOCAB];
static struct cop_model *target, *draft;

static void fill_table(double *table, uint64_t seed)
{
    for (int32_t i = 0; i < VOCAB * VOCAB; i++) {
        double weight = tiny_uniform(seed, (uint64_t)i);
        table[i] = weight < 0.25 ? 0 : weight * weight;
    }
    tiny_bigram_scale(VOCAB, table);
}

static void open_models(void)
{
    fill_table(target_table, 11);
    fill_table(draft_table, 12);
    target = open_model(tiny_bigram_new(VOCAB, target_table), (struct cop_model_options){0});
    draft = open_model(tiny_bigram_new(VOCAB, draft_table), (struct cop_model_options){0});
}
static void free_models(void)
{
    cop_model_free(target);
    cop_model_free(draft);
}
TestSuite(engine_law, .init = open_models, .fini = free_models, .timeout = 120);

/* How often each (first, second, third) token came. */
struct histogram {
    int32_t counts[VOCAB * VOCAB * VOCAB];
    int32_t n;
    int64_t drafted, accepted;
};

static void count_result(void *user, struct cop_result *result)
{
    struct histogram *histogram = user;
    cr_assert_eq(result->n_tokens, TOKENS);
    const cop_token *t = result->tokens;
    histogram->counts[(t[0] * VOCAB + t[1]) * VOCAB + t[2]]++;
    histogram->n++;
    histogram->drafted += result->drafted;
    histogram->accepted += result->accepted;
}

static void sample(struct cop_engine_options *options, struct histogram *histogram)
{
    static const cop_token prompt[] = {3, 5};
    memset(histogram, 0, sizeof *histogram);
    options->batch = 8;
    struct cop_engine *engine = new_engine(options);
    struct cop_error err = {0};
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct cop_request request = {.prompt = prompt,
                                      .n_prompt = 2,
                                      .seed = i / 100,
                                      .id = i % 100,
                                      .max_tokens = TOKENS,
                                      .logprobs = -1,
                                      .user = histogram};
        cr_assert_eq(cop_engine_submit(engine, &request, count_result, &err), COP_OK);
    }
    cr_assert_eq(cop_engine_run(engine, &err), COP_OK, "%s", err.text);
    cr_assert_eq(histogram->n, DRAWS);
    cop_engine_free(engine);
}

/* Pearson's statistic against the target's law of three tokens after 5, cells with an expected
 * count under 5 pooled; returns degrees of freedom. What is impossible must not come at all. */
static int32_t chi_square(const struct histogram *histogram, double *statistic)
{
    double pooled_expected = 0, pooled_count = 0;
    int32_t cells = 0;
    *statistic = 0;
    for (int32_t c = 0; c < VOCAB * VOCAB * VOCAB; c++) {
        int32_t a = c / VOCAB / VOCAB, b = c / VOCAB % VOCAB, d = c % VOCAB;
        double expected = DRAWS * target_table[5 * VOCAB + a] * target_table[a * VOCAB + b] *
                          target_table[b * VOCAB + d];
        cr_assert(expected > 0 || histogram->counts[c] == 0, "%d %d %d is impossible", a, b, d);
        if (expected < 5) {
            pooled_expected += expected;
            pooled_count += histogram->counts[c];
        } else {
            double difference = histogram->counts[c] - expected;
            *statistic += difference * difference / expected;
            cells++;
        }
    }
    double difference = pooled_count - pooled_expected;
    *statistic += pooled_expected > 0 ? difference * difference / pooled_expected : 0;
    return cells;
}

/* The quantile that one in a million exceeds (Wilson and Hilferty's approximation). */
static double limit_of(int32_t dof)
{
    double h = 2.0 / (9.0 * dof), z = 4.7534;
    double root = 1 - h + z * sqrt(h);
    return dof * root * root * root;
}

static void expect_target_law(struct cop_engine_options *options, const char *what)
{
    static struct histogram histogram;
    double statistic = 0;
    options->target = target;
    options->sampling.temperature = 1;
    sample(options, &histogram);
    int32_t dof = chi_square(&histogram, &statistic);
    cr_expect_gt(dof, 15);
    cr_expect_lt(statistic, limit_of(dof), "%s: chi-square %.1f with %d degrees of freedom",
                 what, statistic, dof);
    if (options->proposer) {
        cr_expect_gt(histogram.accepted, 0, "%s", what);
        cr_expect_lt(histogram.accepted, histogram.drafted, "%s", what);
    }
    cop_part_free(options->proposer);
    cop_part_free(options->builder);
    cop_part_free(options->rule);
}

Test(engine_law, plain_decoding)
{
    struct cop_engine_options options = {0};
    expect_target_law(&options, "plain");
}

Test(engine_law, chain_with_the_token_rule)
{
    struct cop_engine_options options = {
        .proposer = new_draft(draft), .builder = new_chain(3), .rule = new_rule("token")};
    expect_target_law(&options, "chain, token");
}

Test(engine_law, widths_with_sample_match)
{
    static const int32_t widths[] = {3, 2};
    static const enum cop_draw draws[] = {COP_DRAW_INDEPENDENT, COP_DRAW_WITHOUT_REPLACEMENT,
                                          COP_DRAW_DETERMINISTIC};
    for (int i = 0; i < 3; i++) {
        struct cop_engine_options options = {.proposer = new_draft(draft),
                                             .builder = new_widths(widths, 2),
                                             .rule = new_rule("sample_match"),
                                             .draw = draws[i]};
        expect_target_law(&options, cop_draw_name(draws[i]));
    }
}

Test(engine_law, merged_paths_and_drawn_pairs)
{
    static const int32_t widths[] = {2, 2};
    struct cop_engine_options options = {.proposer = new_draft(draft),
                                         .builder = new_independent_paths(3, 2),
                                         .rule = new_rule("sample_match")};
    expect_target_law(&options, "independent paths");
    for (enum cop_draw draw = COP_DRAW_GREEDY; draw <= COP_DRAW_HUB_PAIR; draw++) {
        options = (struct cop_engine_options){.proposer = new_draft(draft),
                                              .builder = new_widths(widths, 2),
                                              .rule = new_rule("sample_match"),
                                              .draw = draw};
        expect_target_law(&options, cop_draw_name(draw));
    }
}

/* greedy_block drafts on behind the third token, for what it owes the law there. */
Test(engine_law, prefixes_weighed_as_wholes)
{
    static const int32_t widths[] = {3, 2};
    static const char *const rules[] = {"block", "hierarchical", "greedy_block", "traversal"};
    for (int i = 0; i < 4; i++) {
        struct cop_engine_options options = {
            .proposer = new_draft(draft), .builder = new_chain(3), .rule = new_rule(rules[i])};
        expect_target_law(&options, rules[i]);
    }
    for (enum cop_draw draw = COP_DRAW_INDEPENDENT; draw <= COP_DRAW_WITHOUT_REPLACEMENT;
         draw++) {
        struct cop_engine_options options = {.proposer = new_draft(draft),
                                             .builder = new_widths(widths, 2),
                                             .rule = new_rule("traversal"),
                                             .draw = draw};
        expect_target_law(&options, cop_draw_name(draw));
    }
    for (int i = 0; i < 2; i++) {
        struct cop_engine_options options = {.proposer = new_draft(draft),
                                             .builder = new_independent_paths(3, 2),
                                             .rule =
                                                 new_rule(i ? "multipath_block" : "traversal")};
        expect_target_law(&options, "merged paths");
    }
}

Test(engine_law, draft_settings_of_its_own)
{
    struct cop_part *proposer = set_number(new_draft(draft), "temperature", 2.5);
    struct cop_engine_options options = {.proposer = set_number(proposer, "top_k", 3),
                                         .builder = new_chain(3),
                                         .rule = new_rule("token")};
    expect_target_law(&options, "own settings");
}

/* The statistic sees a difference: greedy drafts judged as if they had been sampled. */
Test(engine_law, an_unsound_pair_is_refused_and_would_show)
{
    struct cop_engine_options options = {.target = target,
                                         .proposer = new_draft(draft),
                                         .builder = new_chain(3),
                                         .rule = new_rule("token"),
                                         .draw = COP_DRAW_DETERMINISTIC,
                                         .batch = 1,
                                         .registry = registry(),
                                         .sampling = COP_SAMPLING_DEFAULT};
    struct cop_engine_facts facts;
    struct cop_error err = {0};
    static struct histogram histogram;
    double statistic = 0;
    options.sampling.temperature = 1;
    cr_expect_eq(cop_engine_check(&options, &facts, &err), COP_ERR_UNSOUND);
    options.relaxed = true;
    cr_assert_eq(cop_engine_check(&options, &facts, &err), COP_OK);
    cr_expect_not(facts.is_lossless);
    sample(&options, &histogram);
    for (int32_t a = 0; a < VOCAB; a++) { /* of the first token alone */
        int32_t count = 0;
        for (int32_t c = 0; c < VOCAB * VOCAB; c++) {
            count += histogram.counts[a * VOCAB * VOCAB + c];
        }
        double expected = DRAWS * target_table[5 * VOCAB + a];
        statistic += expected > 0 ? (count - expected) * (count - expected) / expected : 0;
    }
    cr_expect_gt(statistic, 10 * limit_of(VOCAB), "%.1f", statistic);
    cop_part_free(options.proposer);
    cop_part_free(options.builder);
    cop_part_free(options.rule);
}

/* None among the first min_tokens, whatever is drafted; sooner or later after them. */
Test(engine_law, end_tokens_wait_for_min_tokens)
{
    struct cop_model *tiny = open_tiny(
        (struct tiny_model){.seed = 5, .has_tokenizer = true, .eos = 4, .sharpness = 1});
    static const int32_t widths[] = {3, 2, 1};
    static struct trial trial;
    int32_t n_ended = 0;
    for (int32_t tree = 0; tree < 3; tree++) {
        struct cop_engine_options options = {.target = tiny};
        options.sampling.temperature = 1;
        options.proposer = tree ? new_draft(tiny) : NULL;
        options.builder = tree == 1 ? new_chain(5) : tree == 2 ? new_widths(widths, 3) : NULL;
        for (uint64_t seed = 0; seed < 20; seed++) {
            static const cop_token prompt[] = {65, 66};
            trial_init(&trial, prompt, 2, 60);
            trial.request.seed = seed;
            trial.request.min_tokens = 7;
            run_trials(&options, &trial, 1);
            for (int32_t i = 0; i < 7 && i < trial.result.n_tokens; i++) {
                cr_expect_neq(trial.result.tokens[i], 4, "tree %d, seed %d, token %d", tree,
                              (int)seed, i);
            }
            cr_expect_geq(trial.result.n_tokens, 8);
            n_ended += trial.result.finish == COP_FINISH_EOS;
            trial_release(&trial);
        }
        cop_part_free(options.proposer);
        cop_part_free(options.builder);
    }
    cr_expect_gt(n_ended, 0);
    cop_model_free(tiny);
}

/* ---- Seeds ------------------------------------------------------------------------------- */

enum { MATES = 6, LONG = 40 };

static void make_mates(struct trial *trials, cop_token (*prompts)[8])
{
    for (int32_t i = 0; i < MATES; i++) {
        random_prompt(prompts[i], 8, VOCAB, (uint64_t)i);
        trial_init(&trials[i], prompts[i], 3 + i % 5, LONG - 4 * i);
        trials[i].request.seed = 100 + (uint64_t)i / 2;
        trials[i].request.id = (uint32_t)i;
    }
}

Test(engine_law, a_request_does_not_notice_its_mates)
{
    static struct trial alone[MATES], together[MATES];
    static cop_token prompts[MATES][8];
    static const int32_t widths[] = {3, 2};
    for (int32_t kind = 0; kind < 3; kind++) {
        struct cop_engine_options options = {.target = target};
        options.sampling.temperature = 0.8;
        options.proposer = kind == 2 ? new_lookup(3, 4) : new_draft(draft);
        options.builder = kind == 1 ? new_widths(widths, 2) : new_chain(4);
        options.rule = kind == 0 ? new_rule("token") : NULL;
        make_mates(alone, prompts);
        for (int32_t i = 0; i < MATES; i++) {
            run_trials(&options, &alone[i], 1);
        }
        for (int32_t batch = 1; batch <= MATES; batch++) {
            options.batch = batch;
            make_mates(together, prompts);
            run_trials(&options, together, MATES);
            for (int32_t i = 0; i < MATES; i++) {
                char what[64];
                snprintf(what, sizeof what, "kind %d, batch %d, request %d", kind, batch, i);
                expect_equal_tokens(&together[i].result, &alone[i].result, what);
                cr_expect_eq(together[i].n_cycles, alone[i].n_cycles, "%s", what);
                cr_expect_arr_eq(together[i].accepted, alone[i].accepted,
                                 (size_t)alone[i].n_cycles * sizeof(int32_t), "%s", what);
                trial_release(&together[i]);
            }
        }
        for (int32_t i = 0; i < MATES; i++) {
            trial_release(&alone[i]);
        }
        cop_part_free(options.proposer);
        cop_part_free(options.builder);
        cop_part_free(options.rule);
    }
}

Test(engine_law, seeds_and_ids_matter)
{
    static struct trial trials[4];
    static const cop_token prompt[] = {3, 5};
    static const uint64_t seeds[] = {1, 1 + ((uint64_t)1 << 32), INT64_MAX, 1};
    struct cop_engine_options options = {.target = target, .proposer = new_draft(draft)};
    options.sampling.temperature = 1;
    for (int32_t i = 0; i < 4; i++) {
        trial_init(&trials[i], prompt, 2, LONG);
        trials[i].request.seed = seeds[i];
        trials[i].request.id = i == 3 ? 9 : 0;
        run_trials(&options, &trials[i], 1);
        for (int32_t j = 0; j < i; j++) {
            cr_expect_arr_neq(trials[i].result.tokens, trials[j].result.tokens,
                              LONG * sizeof(cop_token), "%d and %d", i, j);
        }
    }
    for (int32_t i = 0; i < 4; i++) {
        trial_release(&trials[i]);
    }
    cop_part_free(options.proposer);
}
