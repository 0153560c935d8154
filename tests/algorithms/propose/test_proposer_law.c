/* The law of what comes out with proposers that are no plain draft model: three tokens of many
 * requests, each of its own seed, on a tiny model, against the model's own probabilities. */
#include "tests/algorithms/engine/engine_bench.h"
#include "tests/support/head_folder.h"

enum { VOCAB = 8, WIDTH = 32, PROMPT = 7, TOKENS = 3, CELLS = VOCAB * VOCAB * VOCAB };
#ifdef COP_DEBUG /* a tenth, for the sanitizers: they look at the code, not at the law */
enum { DRAWS = 400 };
#else
enum { DRAWS = 4000 };
#endif

static const cop_token prompt[PROMPT] = {3, 5, 1, 5, 3, 5, 1}; /* lookups find something */
static struct cop_model *target, *draft;
static double law[CELLS];

static struct cop_model *open_one(double noise)
{
    return open_tiny((struct tiny_model){.seed = 21,
                                         .layers = 4,
                                         .vocab = VOCAB,
                                         .sharpness = 1.5,
                                         .noise = noise,
                                         .noise_seed = 4,
                                         .has_output = true});
}

static void soft_max(const float *logits, double *out)
{
    double total = 0;
    for (int32_t i = 0; i < VOCAB; i++) {
        total += out[i] = exp((double)logits[i]);
    }
    for (int32_t i = 0; i < VOCAB; i++) {
        out[i] /= total;
    }
}

/* One pass over the prompt's last token, all tokens behind it, and all behind these. */
static void make_law(void)
{
    enum { NODES = 1 + VOCAB + VOCAB * VOCAB };
    static float logits[NODES * VOCAB];
    static double rows[NODES][VOCAB];
    cop_token tokens[NODES] = {prompt[PROMPT - 1]};
    int32_t parents[NODES] = {-1};
    struct cop_cache *cache = NULL;
    for (int32_t i = 1; i < NODES; i++) {
        tokens[i] = (i - 1) % VOCAB;
        parents[i] = (i - 1) / VOCAB;
    }
    cr_assert_eq(cop_model_cache_new(target, 1, NODES, &cache, NULL), COP_OK);
    cr_assert_eq(cop_model_prefill(target, cache, 0, prompt, PROMPT - 1, 0, NULL, NULL),
                 COP_OK);
    const struct cop_score pass = {
        .n = NODES, .tokens = tokens, .parents = parents, .logits = logits};
    cr_assert_eq(cop_model_score(target, cache, &pass, NULL), COP_OK);
    cop_cache_free(cache);
    for (int32_t i = 0; i < NODES; i++) {
        soft_max(logits + i * VOCAB, rows[i]);
    }
    for (int32_t c = 0; c < CELLS; c++) {
        int32_t a = c / VOCAB / VOCAB, b = c / VOCAB % VOCAB;
        law[c] = rows[0][a] * rows[1 + a][b] * rows[1 + VOCAB * (1 + a) + b][c % VOCAB];
    }
}

static void open_models(void)
{
    target = open_one(0);
    draft = open_one(0.3);
    make_law();
}
static void free_models(void)
{
    cop_model_free(target);
    cop_model_free(draft);
}
TestSuite(proposer_law, .init = open_models, .fini = free_models, .timeout = 120);

/* ---- Many requests ----------------------------------------------------------------------- */

struct histogram {
    int32_t counts[CELLS];
    int64_t drafted, accepted;
};

static void count_result(void *user, struct cop_result *result)
{
    struct histogram *histogram = user;
    cr_assert_eq(result->n_tokens, TOKENS, "%s", result->error.text);
    const cop_token *t = result->tokens;
    histogram->counts[(t[0] * VOCAB + t[1]) * VOCAB + t[2]]++;
    histogram->drafted += result->drafted;
    histogram->accepted += result->accepted;
    cop_result_release(result);
}

/* Pearson's statistic, cells with an expected count under 5 pooled; returns how many cells. */
static int32_t chi_square(const struct histogram *histogram, double *statistic)
{
    double expected = 0, counted = 0;
    int32_t cells = 0;
    *statistic = 0;
    for (int32_t c = 0; c < CELLS; c++) {
        if (DRAWS * law[c] < 5) {
            expected += DRAWS * law[c];
            counted += histogram->counts[c];
        } else {
            double difference = histogram->counts[c] - DRAWS * law[c];
            *statistic += difference * difference / (DRAWS * law[c]);
            cells++;
        }
    }
    *statistic += expected > 0 ? (counted - expected) * (counted - expected) / expected : 0;
    return cells;
}

/* What one in a million exceeds (Wilson and Hilferty's approximation). */
static double limit_of(int32_t dof)
{
    double h = 2.0 / (9.0 * dof), z = 4.7534;
    double root = 1 - h + z * sqrt(h);
    return dof * root * root * root;
}

static struct cop_part *lent[2]; /* to the proposer: freed after it */

/* Frees the parts. */
static void sample(struct cop_part *proposer, struct cop_part *builder, const char *rule,
                   enum cop_draw draw, struct histogram *histogram)
{
    struct cop_engine_options options = {.target = target,
                                         .proposer = proposer,
                                         .builder = builder,
                                         .rule = new_rule(rule),
                                         .draw = draw,
                                         .batch = 8};
    struct cop_error err = {0};
    options.sampling.temperature = 1;
    memset(histogram, 0, sizeof *histogram);
    struct cop_engine *engine = new_engine(&options);
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct cop_request request = {.prompt = prompt,
                                      .n_prompt = PROMPT,
                                      .seed = i / 100,
                                      .id = i % 100,
                                      .max_tokens = TOKENS,
                                      .logprobs = -1,
                                      .user = histogram};
        cr_assert_eq(cop_engine_submit(engine, &request, count_result, &err), COP_OK);
    }
    cr_assert_eq(cop_engine_run(engine, &err), COP_OK, "%s", err.text);
    cop_engine_free(engine);
    cop_part_free(options.proposer);
    cop_part_free(options.builder);
    cop_part_free(options.rule);
    for (int32_t i = 0; i < 2; i++) {
        cop_part_free(lent[i]);
        lent[i] = NULL;
    }
}

static void expect_law(struct cop_part *proposer, struct cop_part *builder, const char *rule,
                       const char *what)
{
    static struct histogram histogram;
    double statistic;
    sample(proposer, builder, rule, COP_DRAW_AUTO, &histogram);
    int32_t dof = chi_square(&histogram, &statistic);
    cr_expect_gt(dof, 15, "%d cells", dof);
    cr_expect_lt(statistic, limit_of(dof), "%s, %s: chi-square %.1f with %d degrees of freedom",
                 what, rule, statistic, dof);
    cr_expect_gt(histogram.accepted, 0, "%s, %s", what, rule);
    cr_expect_lt(histogram.accepted, histogram.drafted, "%s, %s", what, rule);
}

/* ---- Parts ------------------------------------------------------------------------------- */

static struct cop_part *with_object(struct cop_part *part, const char *name, void *object)
{
    struct cop_error err = {0};
    cr_assert_eq(cop_option_set_object(option(part, name), part->state, object, "test", &err),
                 COP_OK, "%s", err.text);
    return part;
}

static struct cop_part *new_two(const char *name, struct cop_part *first,
                                struct cop_part *second)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, name);
    with_object(with_object(part, "first", first), "second", second);
    if (strcmp(name, "cascade") == 0) {
        struct cop_error err = {0};
        cr_assert_eq(cop_option_set_ints(option(part, "depths"), part->state,
                                         (const int32_t[]){1, 2}, 2, "test", &err),
                     COP_OK);
    }
    lent[0] = first;
    lent[1] = second;
    return ready(part);
}

static struct cop_part *new_pairs(void)
{
    return new_widths((const int32_t[]){2, 2}, 2);
}

Test(proposer_law, mixture)
{
    expect_law(new_two("mixture", new_draft(draft), new_lookup(2, 3)), new_pairs(),
               "sample_match", "model and lookup");
    expect_law(new_two("mixture", new_draft(draft), new_lookup(2, 3)), new_pairs(), "recursive",
               "model and lookup");
    expect_law(new_two("mixture", new_lookup(2, 3), new_draft(draft)), new_chain(3), "token",
               "a lookup's match or a model's draft");
}

Test(proposer_law, staged)
{
    for (int32_t i = 0; i < 2; i++) {
        struct cop_part *lookup = new_lookup(2, 3);
        struct cop_part *part =
            with_object(with_object(new_part(COP_PLUG_PROPOSER, "staged"), "model", draft),
                        "proposer", lookup);
        expect_law(ready(part), i == 0 ? new_chain(3) : new_pairs(),
                   i == 0 ? "token" : "recursive", "staged");
        cop_part_free(lookup);
    }
}

Test(proposer_law, cascade)
{
    expect_law(new_two("cascade", new_draft(draft), new_draft(target)), new_chain(2), "block",
               "two models");
    expect_law(new_two("cascade", new_draft(draft), new_lookup(2, 3)), new_pairs(),
               "sample_match", "model and lookup");
}

Test(proposer_law, layer_skip)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "layer_skip");
    expect_law(ready(set_number(part, "exit", 2)), new_chain(3), "token", "early exit");
    part = set_number(new_part(COP_PLUG_PROPOSER, "layer_skip"), "search", 0.45);
    expect_law(ready(set_number(part, "search_window", 3)), new_pairs(), "recursive", "search");
}

Test(proposer_law, parallel)
{
    for (int32_t i = 0; i < 2; i++) {
        struct cop_part *part =
            with_object(new_part(COP_PLUG_PROPOSER, "parallel"), "model", draft);
        expect_law(ready(set_number(part, "mask_token", 0)),
                   i == 0 ? new_chain(3) : new_pairs(), i == 0 ? "token" : "traversal",
                   "masks");
    }
}

Test(proposer_law, lookahead_and_jacobi)
{
    struct cop_part *part = set_number(new_part(COP_PLUG_PROPOSER, "lookahead"), "window", 4);
    expect_law(ready(set_number(part, "ngram", 3)), NULL, "sample_match", "lookahead");
    expect_law(ready(new_part(COP_PLUG_PROPOSER, "jacobi")), NULL, "sample_match", "jacobi");
}

static struct head_folder *write_medusa(void)
{
    struct head_folder *folder = head_folder_new("{\"medusa_num_heads\": 2}");
    for (int32_t i = 0; i < 2; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%d.0.linear.weight", i);
        head_folder_put(folder, name, WIDTH, WIDTH, NULL);
        (void)snprintf(name, sizeof name, "%d.1.weight", i);
        head_folder_put(folder, name, VOCAB, WIDTH, NULL);
    }
    head_folder_save(folder, "medusa_lm_head.safetensors");
    return folder;
}

Test(proposer_law, heads)
{
    static const char *const rules[] = {"token", "recursive", "kseq"};
    struct head_folder *folder = write_medusa();
    for (int32_t i = 0; i < 3; i++) {
        struct cop_part *part =
            set_string(new_part(COP_PLUG_PROPOSER, "medusa"), "path", head_folder_path(folder));
        expect_law(ready(part), i == 0 ? new_chain(2) : new_pairs(), rules[i], "medusa");
    }
    head_folder_free(folder);
}

/* DSpark: rows that depend on the token before them. */
static struct head_folder *write_dspark(void)
{
    static const struct {
        const char *name;
        int32_t rows, cols;
    } tensors[] = {
        {"input_layernorm.weight", 0, WIDTH},   {"self_attn.q_proj.weight", 32, WIDTH},
        {"self_attn.k_proj.weight", 16, WIDTH}, {"self_attn.v_proj.weight", 16, WIDTH},
        {"self_attn.o_proj.weight", WIDTH, 32}, {"self_attn.q_norm.weight", 0, 8},
        {"self_attn.k_norm.weight", 0, 8},      {"post_attention_layernorm.weight", 0, WIDTH},
        {"mlp.gate_proj.weight", 48, WIDTH},    {"mlp.up_proj.weight", 48, WIDTH},
        {"mlp.down_proj.weight", WIDTH, 48}};
    struct head_folder *folder = head_folder_new(
        "{\"model_type\": \"qwen3\", \"hidden_size\": 32, \"intermediate_size\": 48, "
        "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8, "
        "\"vocab_size\": 8, \"num_hidden_layers\": 1, \"block_size\": 3, \"mask_token_id\": 7, "
        "\"target_layer_ids\": [0, 2], \"markov_rank\": 4, \"markov_head_type\": \"vanilla\"}");
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "layers.0.%s", tensors[i].name);
        head_folder_put(folder, name, tensors[i].rows, tensors[i].cols, NULL);
    }
    head_folder_put(folder, "fc.weight", WIDTH, 2 * WIDTH, NULL);
    head_folder_put(folder, "hidden_norm.weight", 0, WIDTH, NULL);
    head_folder_put(folder, "norm.weight", 0, WIDTH, NULL);
    head_folder_put(folder, "markov_head.markov_w1.weight", VOCAB, 4, NULL);
    head_folder_put(folder, "markov_head.markov_w2.weight", VOCAB, 4, NULL);
    head_folder_save(folder, "model.safetensors");
    return folder;
}

Test(proposer_law, dspark)
{
    struct head_folder *folder = write_dspark();
    for (int32_t i = 0; i < 2; i++) {
        struct cop_part *part = set_string(new_part(COP_PLUG_PROPOSER, "parallel"), "path",
                                           head_folder_path(folder));
        expect_law(ready(part), i == 0 ? new_chain(3) : new_pairs(),
                   i == 0 ? "token" : "recursive", "DSpark");
    }
    head_folder_free(folder);
}

/* The statistic sees a difference: the same samples against a law that is off by a twentieth.
 */
Test(proposer_law, another_law_would_show)
{
    static struct histogram histogram;
    double statistic;
    sample(new_draft(draft), new_chain(3), "token", COP_DRAW_AUTO, &histogram);
    int32_t dof = chi_square(&histogram, &statistic);
    cr_expect_lt(statistic, limit_of(dof));
    if (DRAWS < 4000) {
        return;
    }
    double first = 0;
    for (int32_t i = 0; i < VOCAB * VOCAB; i++) {
        first += law[i];
    }
    for (int32_t c = 0; c < CELLS; c++) {
        bool is_first = c < VOCAB * VOCAB;
        law[c] *= is_first ? (first + 0.05) / first : (1 - first - 0.05) / (1 - first);
    }
    dof = chi_square(&histogram, &statistic);
    cr_expect_gt(statistic, limit_of(dof), "%.1f with %d cells", statistic, dof);
}
