/* Multi-draft heads on a tiny target: every layout of a checkpoint is the same head, drafts
 * depend on committed tokens alone, and no answer changes. */
#include "tests/algorithms/engine/engine_bench.h"
#include "tests/support/head_folder.h"

enum { VOCAB = 61, WIDTH = 32, INNER = 12, HEADS = 3, PROMPT = 9, ANSWER = 40, MATES = 3 };

static struct cop_model *target;
static float lm_head[VOCAB * WIDTH]; /* of the target */

/* The LM head's columns are its logits of unit vectors. */
static void open_target(void)
{
    static float unit[WIDTH * WIDTH], logits[WIDTH * VOCAB];
    target = open_tiny((struct tiny_model){.seed = 7, .has_output = true});
    for (int32_t i = 0; i < WIDTH; i++) {
        unit[i * WIDTH + i] = 1;
    }
    cr_assert_eq(cop_model_head(target, unit, WIDTH, logits, NULL), COP_OK);
    for (int32_t v = 0; v < VOCAB; v++) {
        for (int32_t i = 0; i < WIDTH; i++) {
            lm_head[v * WIDTH + i] = logits[i * VOCAB + v];
        }
    }
}
static void close_target(void)
{
    cop_model_free(target);
}
TestSuite(heads, .init = open_target, .fini = close_target, .timeout = 60);

/* ---- Checkpoints --------------------------------------------------------------------------
 */

/* '#' in the name is the head's number. */
static const char *name_of(char name[96], const char *pattern, int32_t i)
{
    (void)snprintf(name, 96, "%s", pattern);
    *strchr(name, '#') = (char)('0' + i);
    return name;
}

static void put(struct head_folder *folder, int32_t rows, int32_t cols, const float *data,
                const char *pattern, int32_t i)
{
    char name[96];
    head_folder_put(folder, name_of(name, pattern, i), rows, cols, data);
}

enum outputs { SHARED, COPIES, ONE };

static struct head_folder *new_medusa_in(enum outputs outputs, const char *file)
{
    struct head_folder *folder = head_folder_new(
        outputs == SHARED ? "{\"medusa_num_heads\":2,\"share_lm_head\":true}" : "{}");
    for (int32_t i = 0; i < HEADS; i++) {
        put(folder, WIDTH, WIDTH, NULL, "#.0.linear.weight", i);
        put(folder, 0, WIDTH, NULL, "#.0.linear.bias", i);
        if (outputs == COPIES) {
            put(folder, VOCAB, WIDTH, lm_head, "#.1.weight", i);
        }
    }
    (void)head_folder_save(folder, file);
    return folder;
}

static struct head_folder *new_medusa(enum outputs outputs)
{
    return new_medusa_in(outputs, "medusa_lm_head.safetensors");
}

/* The numbers of new_medusa in the other layout. */
static struct head_folder *new_converted(enum outputs outputs)
{
    static float numbers[WIDTH * WIDTH], bias[WIDTH];
    struct head_folder *folder =
        head_folder_new(outputs == SHARED ? "{\"num_heads\":3,\"original_lm_head\":true}"
                                          : "{\"num_heads\":3}");
    for (int32_t i = 0; i < HEADS; i++) {
        char name[96];
        head_folder_random(name_of(name, "#.0.linear.weight", i), WIDTH, WIDTH, numbers);
        head_folder_random(name_of(name, "#.0.linear.bias", i), 0, WIDTH, bias);
        put(folder, WIDTH, WIDTH, numbers, "blocks.#.layers.0.weight", i);
        put(folder, 0, WIDTH, bias, "blocks.#.layers.0.bias", i);
        if (outputs == COPIES) {
            put(folder, VOCAB, WIDTH, lm_head, "lm_heads.#.weight", i);
        }
    }
    if (outputs == ONE) {
        head_folder_put(folder, "lm_head.weight", VOCAB, WIDTH, lm_head);
    }
    (void)head_folder_save(folder, "model.safetensors");
    return folder;
}

static struct head_folder *new_hydra(enum outputs outputs)
{
    struct head_folder *folder = head_folder_new(
        outputs == SHARED
            ? "{\"hydra_num_layers\":2,\"hydra_head_arch\":\"mlp\",\"share_lm_head\":true}"
            : "{\"hydra_num_layers\":2,\"grounded_heads\":true,\"hidden_state_offset\":0}");
    for (int32_t i = 0; i < HEADS; i++) {
        int32_t inputs = (i + 2) * WIDTH;
        put(folder, WIDTH, inputs, NULL, "hydra_mlp.#.0.linear.weight", i);
        put(folder, 0, WIDTH, NULL, "hydra_mlp.#.0.linear.bias", i);
        put(folder, WIDTH, inputs, NULL, "hydra_mlp.#.0.res_connection.weight", i);
        put(folder, 0, WIDTH, NULL, "hydra_mlp.#.0.res_connection.bias", i);
        put(folder, WIDTH, WIDTH, NULL, "hydra_mlp.#.1.linear.weight", i);
        put(folder, 0, WIDTH, NULL, "hydra_mlp.#.1.linear.bias", i);
        if (outputs == COPIES) {
            put(folder, VOCAB, WIDTH, lm_head, "hydra_lm_head.#.1.weight", i);
        }
    }
    (void)head_folder_save(folder, "hydra_lm_head.safetensors");
    return folder;
}

/* COPIES: each head's tensors stored, equal to those that tying would share. */
static struct head_folder *new_mlp(bool is_tied, bool is_scaled)
{
    static float table[VOCAB * INNER], head[VOCAB * INNER], proj[INNER * INNER], ones[INNER];
    char config[256];
    (void)snprintf(config, sizeof config,
                   "{\"vocab_size\":%d,\"emb_dim\":%d,\"inner_dim\":%d,\"n_predict\":%d,"
                   "\"tie_weights\":%s,\"scale_input\":%s}",
                   VOCAB, WIDTH, INNER, HEADS, is_tied ? "true" : "false",
                   is_scaled ? "true" : "false");
    struct head_folder *folder = head_folder_new(config);
    head_folder_random("table", VOCAB, INNER, table);
    head_folder_random("head", VOCAB, INNER, head);
    head_folder_random("proj", INNER, INNER, proj);
    for (int32_t i = 0; i < INNER; i++) {
        ones[i] = 1.5F;
    }
    for (int32_t i = 0; i < HEADS; i++) {
        if (i == 0 || !is_tied) {
            put(folder, VOCAB, INNER, table, "speculator.emb.#.weight", i);
            put(folder, VOCAB, INNER, head, "speculator.head.#.weight", i);
            put(folder, 0, INNER, ones, "speculator.ln.#.weight", i);
            put(folder, 0, INNER, proj, "speculator.ln.#.bias", i);
        }
        if (i == 0) {
            put(folder, INNER, WIDTH, NULL, "speculator.proj.#.weight", i);
        } else if (i == 1 || !is_tied) {
            put(folder, INNER, INNER, proj, "speculator.proj.#.weight", i);
        }
    }
    (void)head_folder_save(folder, "model.safetensors");
    return folder;
}

static struct cop_part *new_heads(const char *name, struct head_folder *folder)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, name);
    (void)ready(set_string(part, "path", head_folder_path(folder)));
    head_folder_free(folder);
    return part;
}

/* ---- Drafts -------------------------------------------------------------------------------
 */

struct drafts {
    int32_t n;
    cop_token tokens[96];
    double probabilities[96];
};

static struct drafts draft(struct cop_part *proposer, struct cop_part *builder,
                           const cop_token *context, int32_t n)
{
    struct drafts out = {0};
    struct cop_tree tree;
    struct cop_error err = {0};
    double probabilities[96];
    struct cop_proposer_env env = {.target = target,
                                   .vocab_size = VOCAB,
                                   .context = 512,
                                   .n_sequences = 1,
                                   .sampling = {.temperature = 0, .top_p = 1}};
    cr_assert_eq(cop_tree_init(&tree, 96, &err), COP_OK);
    cr_assert_eq(cop_propose_once(proposer, builder, COP_DRAW_DETERMINISTIC, &env, context, n,
                                  0, &tree, probabilities, NULL, NULL, &err),
                 COP_OK, "%s", err.text);
    for (int32_t node = 1; node < tree.size; node++) {
        out.tokens[out.n] = tree.token[node];
        out.probabilities[out.n++] = probabilities[node];
    }
    cop_tree_release(&tree);
    return out;
}

static void expect_same(const struct drafts *a, const struct drafts *b, const char *what)
{
    cr_expect_eq(a->n, b->n, "%s: %d and %d drafts", what, a->n, b->n);
    for (int32_t i = 0; i < a->n; i++) {
        cr_expect_eq(a->tokens[i], b->tokens[i], "%s: draft %d", what, i);
        cr_expect_float_eq(a->probabilities[i], b->probabilities[i], 1e-6, "%s: draft %d", what,
                           i);
    }
}

/* Drafts of a tree of 2, 2, 1 children, so that rows of paths differ. */
static struct drafts draft_tree(const char *name, struct head_folder *folder)
{
    cop_token context[PROMPT];
    random_prompt(context, PROMPT, VOCAB, 3);
    struct cop_part *part = new_heads(name, folder);
    struct cop_part *tree = new_widths((int32_t[]){2, 2, 1}, 3);
    struct drafts drafts = draft(part, tree, context, PROMPT);
    cr_expect_eq(drafts.n, 10);
    cop_part_free(tree);
    cop_part_free(part);
    return drafts;
}

Test(heads, medusa_layouts_are_one_head)
{
    struct drafts shared = draft_tree("medusa", new_medusa(SHARED));
    struct drafts own = draft_tree("medusa", new_medusa(COPIES));
    struct drafts converted = draft_tree("medusa", new_converted(SHARED));
    struct drafts converted_own = draft_tree("medusa", new_converted(COPIES));
    struct drafts one = draft_tree("medusa", new_converted(ONE));
    struct drafts torch = draft_tree("medusa", new_medusa_in(COPIES, "medusa_lm_head.pt"));
    struct drafts bin = draft_tree("medusa", new_medusa_in(SHARED, "pytorch_model.bin"));
    expect_same(&shared, &torch, "a PyTorch file");
    expect_same(&shared, &bin, "a PyTorch file of the usual name");
    expect_same(&shared, &own, "own output layers");
    expect_same(&shared, &converted, "converted");
    expect_same(&shared, &converted_own, "converted, own output layers");
    expect_same(&shared, &one, "converted, one output layer");
    cr_expect_eq(shared.tokens[2], shared.tokens[4], "rows of a level are one row");
    cr_expect_eq(shared.tokens[3], shared.tokens[5]);
}

/* ---- A reduced vocabulary ---- */

enum { IDS = 9 };
static const int64_t map[IDS] = {50, 3, 7, 20, 60, 0, 33, 12, 41};

/* Rows of the output layers: one for each id of the map, as it lists them (COPIES: all). */
static struct head_folder *new_reduced(enum outputs outputs, bool has_size, const int64_t *ids)
{
    static float rows[IDS * WIDTH], numbers[WIDTH * WIDTH];
    char config[128];
    (void)snprintf(config, sizeof config, "{\"num_heads\":3%s,\"truncated_vocab_size\":9%s}",
                   has_size ? ",\"vocab_size\":61" : "",
                   outputs == SHARED ? ",\"original_lm_head\":true" : "");
    struct head_folder *folder = head_folder_new(config);
    for (int32_t i = 0; i < IDS; i++) {
        memcpy(rows + i * WIDTH, lm_head + map[i] * WIDTH, WIDTH * sizeof *rows);
    }
    for (int32_t i = 0; i < HEADS; i++) {
        char name[96];
        head_folder_random(name_of(name, "#.0.linear.weight", i), WIDTH, WIDTH, numbers);
        put(folder, WIDTH, WIDTH, numbers, "blocks.#.layers.0.weight", i);
        if (outputs == COPIES) {
            put(folder, VOCAB, WIDTH, lm_head, "lm_heads.#.weight", i);
        } else if (outputs == ONE) {
            put(folder, IDS, WIDTH, rows, "lm_heads.#.weight", i);
        }
    }
    head_folder_put_typed(folder, "token_map", "I64", IDS, ids, sizeof *ids);
    (void)head_folder_save(folder, "model.safetensors");
    return folder;
}

/* The probabilities of the map's tokens are those of all, scaled: every ratio stays. */
Test(heads, medusa_drafts_the_tokens_of_its_map)
{
    static const cop_token context[] = {5, 6, 7, 8, 9, 10, 11};
    struct drafts drafts[3];
    for (int32_t i = 0; i < 3; i++) {
        static const enum outputs outputs[] = {SHARED, COPIES, ONE};
        struct cop_part *part = new_heads("medusa", new_reduced(outputs[i], i != 0, map));
        struct cop_part *builder = new_widths((const int32_t[]){IDS, 2}, 2);
        drafts[i] = draft(part, builder, context, 7);
        cop_part_free(builder);
        cop_part_free(part);
    }
    expect_same(&drafts[0], &drafts[1], "all rows");
    expect_same(&drafts[0], &drafts[2], "rows of the map");
    cr_assert_eq(drafts[0].n, 3 * IDS);
    struct head_folder *folder = head_folder_new("{\"num_heads\":3,\"original_lm_head\":true}");
    static float numbers[WIDTH * WIDTH];
    char name[96];
    head_folder_random(name_of(name, "#.0.linear.weight", 0), WIDTH, WIDTH, numbers);
    put(folder, WIDTH, WIDTH, numbers, "blocks.#.layers.0.weight", 0);
    (void)head_folder_save(folder, "model.safetensors");
    struct cop_part *part = new_heads("medusa", folder);
    struct cop_part *builder = new_widths((const int32_t[]){VOCAB}, 1);
    struct drafts all = draft(part, builder, context, 7);
    double mass = 0, of_all[VOCAB] = {0};
    for (int32_t i = 0; i < all.n; i++) {
        of_all[all.tokens[i]] = all.probabilities[i];
    }
    for (int32_t i = 0; i < IDS; i++) {
        mass += of_all[map[i]];
    }
    for (int32_t i = 0; i < IDS; i++) {
        cr_expect_float_eq(drafts[0].probabilities[i], of_all[drafts[0].tokens[i]] / mass, 1e-6,
                           "token %d", drafts[0].tokens[i]);
        cr_expect_gt(of_all[drafts[0].tokens[i]], 0);
    }
    cop_part_free(builder);
    cop_part_free(part);
}

Test(heads, hydra_layouts_are_one_head)
{
    struct drafts shared = draft_tree("hydra", new_hydra(SHARED));
    struct drafts own = draft_tree("hydra", new_hydra(COPIES));
    expect_same(&shared, &own, "own output layers");
    cr_expect_float_neq(shared.probabilities[2], shared.probabilities[4], 1e-4,
                        "rows see their path");
}

Test(heads, mlp_layouts_are_one_head)
{
    struct drafts tied = draft_tree("mlp", new_mlp(true, true));
    struct drafts untied = draft_tree("mlp", new_mlp(false, true));
    struct drafts plain = draft_tree("mlp", new_mlp(true, false));
    expect_same(&tied, &untied, "untied");
    cr_expect_float_neq(tied.probabilities[0], plain.probabilities[0], 1e-4, "scaled input");
    cr_expect_float_neq(tied.probabilities[2], tied.probabilities[4], 1e-4,
                        "rows see their path");
}

/* ---- By hand ------------------------------------------------------------------------------
 */

/* A state of two numbers cannot be had, but a head may ignore it: without a bridge from h, the
 * vector is what was taken in. Inner width 2, one head: w_s² = 1/2, so w_e / w_s = 1; the
 * token's row (3, 4) has rms sqrt(12.5), and the gain 1 and shift (0, 1) make
 * (0.848528, 2.131371); gelu of both is (0.680459, 2.096141), the logits of tokens 0 and 1. */
Test(heads, mlp_numbers_by_hand)
{
    static float table[VOCAB * 2], head[VOCAB * 2], proj[2 * WIDTH];
    const cop_token context[] = {5, 6};
    table[12] = 3;
    table[13] = 4;
    head[0] = head[3] = 1;
    for (int32_t v = 2; v < VOCAB; v++) {
        head[2 * v] = -100; /* logits of -68: no mass */
    }
    struct head_folder *folder =
        head_folder_new("{\"vocab_size\":61,\"emb_dim\":32,\"inner_dim\":2,\"n_predict\":1}");
    head_folder_put(folder, "speculator.emb.0.weight", VOCAB, 2, table);
    head_folder_put(folder, "speculator.head.0.weight", VOCAB, 2, head);
    head_folder_put(folder, "speculator.proj.0.weight", 2, WIDTH, proj);
    head_folder_put(folder, "speculator.ln.0.weight", 0, 2, (float[]){1, 1});
    head_folder_put(folder, "speculator.ln.0.bias", 0, 2, (float[]){0, 1});
    (void)head_folder_save(folder, "model.safetensors");
    struct cop_part *part = new_heads("mlp", folder);
    struct drafts drafts = draft(part, NULL, context, 2);
    cr_assert_eq(drafts.n, 1);
    cr_expect_eq(drafts.tokens[0], 1);
    cr_expect_float_eq(drafts.probabilities[0], 1 / (1 + exp(0.680459 - 2.096141)), 1e-5);
    cop_part_free(part);
}

/* ---- In the engine ------------------------------------------------------------------------
 */

struct watch {
    struct cop_part *proposer;
    cop_token committed[PROMPT + ANSWER + 8];
    int32_t n, n_drafted, n_compared;
};

/* Whatever was drafted and rejected before: a cycle's drafts are those of a fresh context. */
static enum cop_status compare_with_fresh(void *user, const struct cop_cycle *cycle,
                                          struct cop_error *err)
{
    struct watch *watch = user;
    struct drafts fresh = draft(watch->proposer, NULL, watch->committed, watch->n);
    (void)err;
    /* Near the end of an answer the engine drafts less deep. */
    cr_expect_leq(cycle->tree->size - 1, fresh.n);
    for (int32_t i = 0; i < cycle->tree->size - 1; i++) {
        cr_expect_eq(cycle->tree->token[i + 1], fresh.tokens[i], "cycle %d, draft %d",
                     cycle->cycle, i);
        cr_expect_float_eq(cycle->draft_logprob[i + 1], log(fresh.probabilities[i]), 1e-12);
        watch->n_compared++;
    }
    for (int32_t i = 0; i < cycle->n_accepted; i++) {
        watch->committed[watch->n++] = cycle->tree->token[cycle->accepted[i]];
    }
    watch->committed[watch->n++] = cycle->last;
    watch->n_drafted += cycle->tree->size - 1;
    return COP_OK;
}

static void free_result(void *user, struct cop_result *result)
{
    (void)user;
    cr_expect_eq(result->error.code, COP_OK, "%s", result->error.text);
    cop_result_release(result);
}

static struct cop_part *make(int32_t kind)
{
    return kind == 0   ? new_heads("medusa", new_medusa(SHARED))
           : kind == 1 ? new_heads("hydra", new_hydra(SHARED))
           : kind == 2 ? new_heads("mlp", new_mlp(true, true))
                       : new_heads("medusa", new_reduced(ONE, true, map));
}

Test(heads, drafts_depend_on_committed_tokens_alone)
{
    for (int32_t kind = 0; kind < 3; kind++) {
        static struct watch watches[MATES];
        struct cop_part *proposer = make(kind);
        struct cop_engine_options options = {
            .target = target, .proposer = proposer, .batch = 2};
        struct cop_engine *engine = new_engine(&options);
        struct cop_error err = {0};
        for (int32_t i = 0; i < MATES; i++) {
            watches[i] = (struct watch){.proposer = proposer, .n = i == 0 ? 1 : PROMPT - i};
            random_prompt(watches[i].committed, watches[i].n, VOCAB, 20 + (uint64_t)i);
            struct cop_request request = {.prompt = watches[i].committed,
                                          .n_prompt = watches[i].n,
                                          .max_tokens = ANSWER,
                                          .logprobs = -1,
                                          .user = &watches[i],
                                          .on_cycle = compare_with_fresh};
            cr_assert_eq(cop_engine_submit(engine, &request, free_result, &err), COP_OK);
        }
        cr_assert_eq(cop_engine_run(engine, &err), COP_OK, "%s", err.text);
        for (int32_t i = 0; i < MATES; i++) {
            cr_expect_geq(watches[i].n_compared, 30, "kind %d, request %d: %d", kind, i,
                          watches[i].n_compared);
        }
        cop_engine_free(engine);
        cop_part_free(proposer);
    }
}

static int32_t n_tokens_accepted;

static void run_arm(struct cop_part *proposer, struct cop_part *builder, int32_t batch,
                    double penalty, const struct trial *plain, const char *what)
{
    struct cop_engine_options options = {
        .target = target, .proposer = proposer, .builder = builder, .batch = batch};
    static struct trial trials[MATES];
    options.processing.repetition_penalty = penalty;
    for (int32_t i = 0; i < MATES; i++) {
        trial_init(&trials[i], plain[i].request.prompt, plain[i].request.n_prompt, ANSWER);
    }
    run_trials(&options, trials, MATES);
    for (int32_t i = 0; i < MATES; i++) {
        expect_equal_tokens(&plain[i].result, &trials[i].result, what);
        n_tokens_accepted += (int32_t)trials[i].result.accepted;
        trial_release(&trials[i]);
    }
}

/* Each family with its own chain and two trees, alone and in a batch, with and without a
 * penalty that changes rows by their paths. */
Test(heads, greedy_answers_are_those_of_plain_decoding)
{
    static cop_token prompts[MATES][PROMPT];
    static struct trial plain[2][MATES];
    static const char *const names[] = {"medusa", "hydra", "mlp", "medusa with a map"};
    for (int32_t p = 0; p < 2; p++) {
        struct cop_engine_options options = {.target = target};
        options.processing.repetition_penalty = p ? 1.3 : 0;
        for (int32_t i = 0; i < MATES; i++) {
            random_prompt(prompts[i], PROMPT, VOCAB, 40 + (uint64_t)i);
            trial_init(&plain[p][i], prompts[i], i == 0 ? 1 : PROMPT, ANSWER);
        }
        run_trials(&options, plain[p], MATES);
    }
    for (int32_t kind = 0; kind < 4; kind++) {
        struct cop_part *proposer = make(kind);
        struct cop_part *builders[] = {
            NULL, new_widths((int32_t[]){3, 2, 2, 1}, 4),
            new_paths((int32_t[]){0, 0, 0, 1, 1, 0}, (int32_t[]){1, 2, 1, 2}, 4)};
        n_tokens_accepted = 0;
        for (int32_t b = 0; b < 3; b++) {
            for (int32_t p = 0; p < 2; p++) {
                run_arm(proposer, builders[b], 1 + (b + p) % MATES, p ? 1.3 : 0, plain[p],
                        names[kind]);
            }
            cop_part_free(builders[b]);
        }
        cr_expect_gt(n_tokens_accepted, 0, "%s: nothing was ever accepted", names[kind]);
        cop_part_free(proposer);
    }
    for (int32_t i = 0; i < 2 * MATES; i++) {
        trial_release(&plain[i / MATES][i % MATES]);
    }
}

/* ---- Files that lie -----------------------------------------------------------------------
 */

/* Preparing, or opening an engine, is refused with words that hold `expected`. */
static void refuse(const char *name, struct head_folder *folder, enum cop_status code,
                   const char *expected)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, name);
    struct cop_error err = {0};
    (void)set_string(part, "path", head_folder_path(folder));
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
    head_folder_free(folder);
}

static struct head_folder *one_medusa(const char *config, int32_t rows, int32_t cols,
                                      const float *data)
{
    struct head_folder *folder = head_folder_new(config);
    head_folder_put(folder, "0.0.linear.weight", rows, cols, data);
    (void)head_folder_save(folder, "medusa_lm_head.safetensors");
    return folder;
}

Test(heads, medusa_files_that_lie_are_refused)
{
    static float numbers[WIDTH * WIDTH];
    const char *shared = "{\"share_lm_head\":true}";
    refuse("medusa", one_medusa("{}", WIDTH, WIDTH, NULL), COP_ERR_FORMAT,
           "\"0.1.weight\" is missing (heads, expected shape [");
    refuse("medusa", one_medusa(shared, WIDTH - 1, WIDTH, NULL), COP_ERR_FORMAT,
           "\"0.0.linear.weight\" has shape [31, 32], expected [32, 32]");
    refuse("medusa", one_medusa(shared, 0, WIDTH, NULL), COP_ERR_FORMAT,
           "has shape [32], expected [32, 32]");
    refuse("medusa", one_medusa(shared, 16, 16, NULL), COP_ERR_ARGUMENT,
           "they read states of 16 numbers");
    refuse("medusa", one_medusa("[]", WIDTH, WIDTH, NULL), COP_ERR_FORMAT, "is not an object");
    refuse("medusa", one_medusa("{\"share_lm_head\":1}", WIDTH, WIDTH, NULL), COP_ERR_FORMAT,
           "\"share_lm_head\" is 1, expected true or false");
    numbers[WIDTH] = NAN;
    refuse("medusa", one_medusa(shared, WIDTH, WIDTH, numbers), COP_ERR_FORMAT,
           "\"0.0.linear.weight\" has value nan at row 1, column 0");
    struct head_folder *folder = head_folder_new(shared);
    head_folder_put(folder, "0.0.linear.weight", WIDTH, WIDTH, numbers);
    (void)head_folder_save(folder, "medusa_lm_head.pt");
    refuse("medusa", folder, COP_ERR_FORMAT,
           "medusa_lm_head.pt: tensor \"0.0.linear.weight\" has value nan at row 1, column 0");
    folder = head_folder_new("{}");
    head_folder_put(folder, "0.0.linear.weight", WIDTH, WIDTH, NULL);
    head_folder_put(folder, "0.1.weight", VOCAB - 1, WIDTH, NULL);
    (void)head_folder_save(folder, "medusa_lm_head.safetensors");
    refuse("medusa", folder, COP_ERR_ARGUMENT, "vocabulary has 60 tokens");
    folder = head_folder_new("{}");
    head_folder_put(folder, "0.linear.weight", WIDTH, WIDTH, NULL);
    (void)head_folder_save(folder, "medusa_lm_head.safetensors");
    refuse("medusa", folder, COP_ERR_FORMAT, "no Medusa heads");
    folder = head_folder_new("{}");
    head_folder_add(folder, "medusa_lm_head.pt", "PK", 2);
    refuse("medusa", folder, COP_ERR_FORMAT, "medusa_lm_head.pt: its zip directory is missing");
    folder = head_folder_new("{}");
    refuse("medusa", folder, COP_ERR_IO, "neither medusa_lm_head.safetensors nor");
    static const int64_t twice[IDS] = {1, 2, 3, 4, 5, 6, 7, 8, 2};
    refuse("medusa", new_reduced(ONE, true, twice), COP_ERR_FORMAT,
           "\"token_map\" has id 2 twice");
    refuse("medusa", new_reduced(ONE, true, (int64_t[IDS]){1, 2, 3, 4, 5, 6, 7, 8, -2}),
           COP_ERR_FORMAT, "\"token_map\" has id -2");
    refuse("medusa", new_reduced(ONE, true, (int64_t[IDS]){1, 2, 3, 4, 5, 6, 7, 8, 61}),
           COP_ERR_ARGUMENT, "they draft token 61");
    refuse("medusa", new_reduced(COPIES, true, (int64_t[IDS]){1, 2, 3, 4, 5, 6, 7, 8, 61}),
           COP_ERR_FORMAT, "\"token_map\" has 9 ids up to 61, and output layers 61 rows");
    folder = head_folder_new("{}");
    head_folder_add(folder, "medusa_lm_head.safetensors", "\7\0\0\0\0\0\0\0{}", 10);
    refuse("medusa", folder, COP_ERR_FORMAT, "medusa_lm_head.safetensors");
}

Test(heads, hydra_files_that_lie_are_refused)
{
    struct head_folder *folder = head_folder_new("{\"hydra_head_arch\":\"cross-attn\"}");
    (void)head_folder_put(folder, "x", 0, 1, NULL);
    (void)head_folder_save(folder, "hydra_lm_head.safetensors");
    refuse("hydra", folder, COP_ERR_UNSUPPORTED, "cross-attn");
    folder = head_folder_new("{}");
    head_folder_put(folder, "hydra_mlp.0.0.linear.weight", WIDTH, WIDTH, NULL);
    (void)head_folder_save(folder, "hydra_lm_head.safetensors");
    refuse("hydra", folder, COP_ERR_FORMAT, "has shape [32, 32], expected [32, 64]");
    folder = head_folder_new("{}");
    head_folder_put(folder, "hydra_mlp.0.0.linear.weight", WIDTH, 2 * WIDTH, NULL);
    (void)head_folder_save(folder, "hydra_lm_head.safetensors");
    refuse(
        "hydra", folder, COP_ERR_FORMAT,
        "\"hydra_mlp.0.0.res_connection.weight\" is missing (heads, expected shape [32, 64])");
}

Test(heads, mlp_files_that_lie_are_refused)
{
    struct head_folder *folder = head_folder_new("{\"n_predict\":1}");
    head_folder_put(folder, "speculator.emb.0.weight", VOCAB, 4, NULL);
    (void)head_folder_save(folder, "model.safetensors");
    refuse("mlp", folder, COP_ERR_FORMAT, "\"speculator.proj.0.weight\" is missing");
    folder = head_folder_new("{\"n_predict\":1}");
    head_folder_put(folder, "speculator.emb.0.weight", VOCAB, 4, NULL);
    head_folder_put(folder, "speculator.proj.0.weight", 5, WIDTH, NULL);
    (void)head_folder_save(folder, "model.safetensors");
    refuse("mlp", folder, COP_ERR_FORMAT, "has shape [5, 32], expected [4, 32]");
    folder = head_folder_new("{\"n_predict\":99}");
    head_folder_put(folder, "speculator.emb.0.weight", VOCAB, 4, NULL);
    head_folder_put(folder, "speculator.proj.0.weight", 4, WIDTH, NULL);
    (void)head_folder_save(folder, "model.safetensors");
    refuse("mlp", folder, COP_ERR_FORMAT,
           "\"n_predict\" is 99, expected an integer from 1 to 32");
}

/* Without a target there is no state to draft from. */
Test(heads, a_target_is_needed)
{
    struct cop_part *part = make(0);
    struct cop_tree tree;
    struct cop_error err = {0};
    const cop_token context[] = {1, 2};
    struct cop_proposer_env env = {
        .vocab_size = VOCAB, .context = 64, .n_sequences = 1, .sampling = {.top_p = 1}};
    cr_assert_eq(cop_tree_init(&tree, 8, &err), COP_OK);
    cr_expect_eq(cop_propose_once(part, NULL, COP_DRAW_DETERMINISTIC, &env, context, 2, 0,
                                  &tree, NULL, NULL, NULL, &err),
                 COP_ERR_ARGUMENT);
    cr_expect_not_null(strstr(err.text, "\"medusa\" drafts from hidden states of the target"),
                       "%s", err.text);
    cop_tree_release(&tree);
    cop_part_free(part);
}
