/* EAGLE heads: what they draft is what the formulas say in double, what published parts drafted
 * elsewhere, and the same in the middle of an answer as from a fresh start. */
#include "tests/algorithms/propose/eagle_bench.h"
#include "tests/support/reference.h"

/* ---- The formulas in double -------------------------------------------------------------- */

enum { ROWS = PROMPT + DEPTH };

struct formulas {
    const struct tiny_head *head;
    const struct head_files *files;
    struct cop_model *target;
    double keys[ROWS][TH_KV * TH_DIM], values[ROWS][TH_KV * TH_DIM];
};

static const float *part_of(const struct formulas *in, const char *name)
{
    char whole[64];
    (void)snprintf(
        whole, sizeof whole, "%s.%s",
        in->head->version == 3 && !in->head->is_speculators ? "midlayer" : "layers.0", name);
    return head_data(in->files, whole);
}

static void apply(const float *weight, const double *x, int32_t rows, int32_t cols, double *out)
{
    for (int32_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int32_t c = 0; c < cols; c++) {
            sum += (double)weight[r * cols + c] * x[c];
        }
        out[r] = sum;
    }
}

static void rms(const float *gain, const double *x, int32_t n, double *out)
{
    double squares = 0;
    for (int32_t i = 0; i < n; i++) {
        squares += x[i] * x[i];
    }
    double scale = 1 / sqrt(squares / n + 1e-5);
    for (int32_t i = 0; i < n; i++) {
        out[i] = x[i] * scale * (double)gain[i];
    }
}

/* Pairs (i, i + dim / 2), base 10000. */
static void rotate(double *of, int32_t n_heads, int32_t position)
{
    for (int32_t h = 0; h < n_heads; h++) {
        for (int32_t i = 0; i < TH_DIM / 2; i++) {
            double angle = position * pow(10000, -2.0 * i / TH_DIM);
            double *a = &of[h * TH_DIM + i], *b = a + TH_DIM / 2, old = *a;
            *a = old * cos(angle) - *b * sin(angle);
            *b = *b * cos(angle) + old * sin(angle);
        }
    }
}

/* One row at `position`; its keys and those before it are in place. */
static void attend(struct formulas *in, const double *input, int32_t n_input, int32_t position,
                   double *out)
{
    double q[TH_HEADS * TH_DIM], mixed[TH_HEADS * TH_DIM] = {0};
    apply(part_of(in, "self_attn.q_proj.weight"), input, TH_HEADS * TH_DIM, n_input, q);
    apply(part_of(in, "self_attn.k_proj.weight"), input, TH_KV * TH_DIM, n_input,
          in->keys[position]);
    apply(part_of(in, "self_attn.v_proj.weight"), input, TH_KV * TH_DIM, n_input,
          in->values[position]);
    rotate(q, TH_HEADS, position);
    rotate(in->keys[position], TH_KV, position);
    for (int32_t h = 0; h < TH_HEADS; h++) {
        int32_t from = h / (TH_HEADS / TH_KV) * TH_DIM;
        double weights[ROWS], total = 0;
        for (int32_t t = 0; t <= position; t++) {
            double score = 0;
            for (int32_t i = 0; i < TH_DIM; i++) {
                score += q[h * TH_DIM + i] * in->keys[t][from + i];
            }
            total += weights[t] = exp(score / sqrt(TH_DIM));
        }
        for (int32_t t = 0; t <= position; t++) {
            for (int32_t i = 0; i < TH_DIM; i++) {
                mixed[h * TH_DIM + i] += weights[t] / total * in->values[t][from + i];
            }
        }
    }
    apply(part_of(in, "self_attn.o_proj.weight"), mixed, TH_WIDTH, TH_HEADS * TH_DIM, out);
}

/* stream += attention; stream += feed-forward of its norm. */
static void layer(struct formulas *in, const double *input, int32_t n_input, int32_t position,
                  double *stream)
{
    double added[TH_WIDTH], normed[TH_WIDTH], gate[TH_FFN], up[TH_FFN];
    attend(in, input, n_input, position, added);
    for (int32_t i = 0; i < TH_WIDTH; i++) {
        stream[i] += added[i];
    }
    rms(part_of(in, "post_attention_layernorm.weight"), stream, TH_WIDTH, normed);
    apply(part_of(in, "mlp.gate_proj.weight"), normed, TH_FFN, TH_WIDTH, gate);
    apply(part_of(in, "mlp.up_proj.weight"), normed, TH_FFN, TH_WIDTH, up);
    for (int32_t i = 0; i < TH_FFN; i++) {
        gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
    }
    apply(part_of(in, "mlp.down_proj.weight"), gate, TH_WIDTH, TH_FFN, added);
    for (int32_t i = 0; i < TH_WIDTH; i++) {
        stream[i] += added[i];
    }
}

static void embed(const struct formulas *in, cop_token token, double *out)
{
    const float *own = head_data(in->files, "embed_tokens.weight");
    float row[TH_WIDTH];
    struct cop_error err;
    if (!own) {
        cr_assert_eq(cop_model_embed(in->target, &token, 1, row, &err), COP_OK);
    }
    for (int32_t i = 0; i < TH_WIDTH; i++) {
        out[i] = (double)(own ? own[token * TH_WIDTH + i] : row[i]);
    }
}

static void add_bias(const struct formulas *in, double *x)
{
    const float *bias = head_data(in->files, "fc.bias");
    for (int32_t i = 0; bias && i < TH_WIDTH; i++) {
        x[i] += (double)bias[i];
    }
}

/* x of the target's states [taps * width]. */
static void fuse(const struct formulas *in, const double *states, double *x)
{
    double normed[TH_TAPS * TH_WIDTH];
    if (in->head->version == 1) {
        memcpy(x, states, TH_WIDTH * sizeof *x);
        return;
    }
    memcpy(normed, states, sizeof normed);
    for (int32_t i = 0; in->head->has_tap_norms && i < TH_TAPS; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "fc_norm.%d.weight", i);
        rms(head_data(in->files, name), normed + i * TH_WIDTH, TH_WIDTH, normed + i * TH_WIDTH);
    }
    if (in->head->has_tap_norm) {
        rms(head_data(in->files, "input_norm.weight"), normed, TH_TAPS * TH_WIDTH, normed);
    }
    apply(head_data(in->files, "fc.weight"), normed, TH_WIDTH, TH_TAPS * TH_WIDTH, x);
    add_bias(in, x);
}

/* x becomes y. */
static void step(struct formulas *in, cop_token token, int32_t position, double *x)
{
    double joined[2 * TH_WIDTH], embedded[TH_WIDTH];
    embed(in, token, embedded);
    if (in->head->version == 1) {
        memcpy(joined, embedded, sizeof embedded);
        memcpy(joined + TH_WIDTH, x, sizeof embedded);
        apply(head_data(in->files, "fc.weight"), joined, TH_WIDTH, 2 * TH_WIDTH, x);
        add_bias(in, x);
        memcpy(joined, x, sizeof embedded);
        layer(in, joined, TH_WIDTH, position, x);
        return;
    }
    rms(part_of(in, "input_layernorm.weight"), embedded, TH_WIDTH, joined);
    rms(part_of(in, "hidden_norm.weight"), x, TH_WIDTH, joined + TH_WIDTH);
    if (in->head->norm_before_residual) {
        memcpy(x, joined + TH_WIDTH, sizeof embedded);
    }
    layer(in, joined, 2 * TH_WIDTH, position, x);
}

/* Soft-max of y's logits by token of the target; y becomes the next x. */
static void law(const struct formulas *in, double *y, double *probabilities)
{
    double normed[TH_WIDTH], own[VOCAB], total = 0, most = -HUGE_VAL;
    int32_t n_ids = in->head->n_ids > 0 ? in->head->n_ids : VOCAB;
    const float *head =
        head_data(in->files, in->head->is_tied ? "embed_tokens.weight" : "lm_head.weight");
    if (in->head->version == 1 && head) {
        apply(head, y, n_ids, TH_WIDTH, own);
    } else if (in->head->version == 1) {
        float states[TH_WIDTH], logits[VOCAB];
        struct cop_error err;
        for (int32_t i = 0; i < TH_WIDTH; i++) {
            states[i] = (float)y[i];
        }
        cr_assert_eq(cop_model_head(in->target, states, 1, logits, &err), COP_OK);
        for (int32_t i = 0; i < VOCAB; i++) {
            own[i] = (double)logits[i];
        }
    } else {
        rms(head_data(in->files, "norm.weight"), y, TH_WIDTH, normed);
        apply(head, normed, n_ids, TH_WIDTH, own);
        if (in->head->norm_output) {
            memcpy(y, normed, sizeof normed);
        }
    }
    for (int32_t i = 0; i < n_ids; i++) {
        most = own[i] > most ? own[i] : most;
    }
    for (int32_t i = 0; i < n_ids; i++) {
        total += exp(own[i] - most);
    }
    memset(probabilities, 0, VOCAB * sizeof *probabilities);
    for (int32_t i = 0; i < n_ids; i++) {
        probabilities[in->files->ids[i]] = exp(own[i] - most) / total;
    }
}

/* The target's states at positions [0, n), [taps, n, width]. */
static float *states_of(struct cop_model *target, const struct tiny_head *head,
                        const cop_token *ids, int32_t n)
{
    static const int32_t normed[] = {COP_HIDDEN_NORMED}, three[] = {0, 1, 2};
    struct cop_cache *cache = NULL;
    struct cop_error err = {0};
    struct cop_states states = {.layers = head->version == 1 ? normed : three,
                                .n_layers = head_taps(head)};
    states.out =
        malloc((size_t)(head_taps(head) * n * head_target_width(head)) * sizeof(float));
    cr_assert_eq(cop_model_cache_new(target, 1, 64, &cache, &err), COP_OK);
    cr_assert_eq(cop_model_prefill_states(target, cache, 0, ids, n, &states, NULL, &err),
                 COP_OK, "%s", err.text);
    cop_cache_free(cache);
    return states.out;
}

/* Every node of the tree against the formulas along its own path. */
static void compare(struct formulas *in, const struct draft *draft, const cop_token *ids)
{
    int32_t n_taps = head_taps(in->head), width = head_target_width(in->head), n = PROMPT - 1;
    float *states = states_of(in->target, in->head, ids, n);
    double x[TH_WIDTH], root[TH_WIDTH] = {0};
    for (int32_t j = 0; j < n; j++) {
        double taps[TH_TAPS * TH_WIDTH];
        for (int32_t i = 0; i < n_taps * width; i++) {
            taps[i] = (double)states[(i / width * n + j) * width + i % width];
        }
        fuse(in, taps, root);
        step(in, ids[j + 1], j, root);
    }
    free(states);
    for (int32_t node = 1; node < draft->tree.size; node++) {
        int32_t path[DEPTH];
        int32_t depth = cop_tree_path(&draft->tree, node, path);
        double probabilities[VOCAB];
        memcpy(x, root, sizeof x);
        for (int32_t d = 0; d < depth; d++) {
            law(in, x, probabilities);
            if (d < depth - 1) {
                step(in, draft->tree.token[path[d]], n + d, x);
            }
        }
        cr_expect_float_eq(draft->probabilities[node], probabilities[draft->tree.token[node]],
                           2e-5, "node %d: %.7f, expected %.7f", node,
                           draft->probabilities[node], probabilities[draft->tree.token[node]]);
    }
}

Test(propose_eagle, rows_are_those_of_the_formulas)
{
    struct cop_part *widths = new_widths((const int32_t[]){3, 2, 2, 1}, DEPTH);
    for (int32_t i = 0; i < N_HEADS; i++) {
        static struct head_files files;
        static struct draft draft;
        static struct formulas in;
        struct cop_model *target = open_target_of(&heads[i], 3);
        cop_token prompt[PROMPT];
        head_write(&files, &heads[i]);
        random_prompt(prompt, PROMPT, VOCAB, (uint64_t)i);
        struct cop_part *eagle = new_eagle(files.folder, DEPTH);
        draft_once(&draft, eagle, widths, target, prompt, PROMPT, COP_DRAW_DETERMINISTIC, 0);
        cr_assert_eq(draft.tree.size, 1 + 3 + 6 + 12 + 12);
        in = (struct formulas){.head = &heads[i], .files = &files, .target = target};
        compare(&in, &draft, prompt);
        cop_tree_release(&draft.tree);
        cop_part_free(eagle);
        cop_model_free(target);
        head_remove(&files);
    }
    cop_part_free(widths);
}

/* ---- Answers ----------------------------------------------------------------------------- */

Test(propose_eagle, live_rows_equal_rebuilt_rows)
{
    static const int32_t chosen[] = {0, 4, 10};
    for (int32_t h = 0; h < 3; h++) {
        static struct head_files files;
        struct cop_model *target = open_target_of(&heads[chosen[h]], 5);
        head_write(&files, &heads[chosen[h]]);
        expect_rebuilt(target, new_eagle(files.folder, DEPTH), new_eagle(files.folder, DEPTH),
                       15);
        cop_model_free(target);
        head_remove(&files);
    }
}

Test(propose_eagle, answers_are_those_of_plain_decoding)
{
    struct cop_part *builders[] = {NULL, new_widths((const int32_t[]){8, 2, 2}, 3),
                                   ready(new_part(COP_PLUG_BUILDER, "expand_rerank"))};
    for (int32_t h = 0; h < N_HEADS; h++) {
        static struct head_files files;
        struct cop_model *target = open_target_of(&heads[h], 6);
        const struct cop_engine_options plain = {.target = target};
        head_write(&files, &heads[h]);
        for (size_t b = 0; b < 3; b++) {
            static struct trial with, without;
            cop_token prompt[PROMPT];
            struct cop_engine_options options = {.target = target,
                                                 .proposer = new_eagle(files.folder, DEPTH),
                                                 .builder = builders[b]};
            random_prompt(prompt, PROMPT, VOCAB, (uint64_t)h);
            trial_init(&with, prompt, PROMPT, 60);
            trial_init(&without, prompt, PROMPT, 60);
            run_trials(&options, &with, 1);
            run_trials(&plain, &without, 1);
            expect_equal_tokens(&with.result, &without.result, "eagle");
            cr_expect_gt(with.result.drafted, 0);
            trial_release(&with);
            trial_release(&without);
            cop_part_free(options.proposer);
        }
        cop_model_free(target);
        head_remove(&files);
    }
    for (size_t b = 1; b < 3; b++) {
        cop_part_free(builders[b]);
    }
}

/* What a request does to logits lifts nothing from -inf: ids that the head does not draft stay
 * out of its rows, which are written where its ids are and nowhere else. */
enum { UNDRAFTED = 1, BANNED = 3 };
static enum cop_status refuse_undrafted(void *user, const struct cop_cycle *cycle,
                                        struct cop_error *err)
{
    int32_t *n_drafted = user;
    (void)err;
    for (int32_t node = 1; node < cycle->tree->size; node++) {
        cop_token token = cycle->tree->token[node];
        cr_expect(token != UNDRAFTED && token != BANNED, "cycle %d drafts %d", cycle->cycle,
                  token);
        ++*n_drafted;
    }
    return COP_OK;
}

Test(propose_eagle, rows_keep_to_its_ids_whatever_a_request_asks)
{
    static struct head_files files;
    const struct cop_bias bias = {UNDRAFTED, 50};
    const cop_token banned = BANNED;
    cop_token prompt[PROMPT];
    int32_t n_drafted = 0;
    struct cop_error err = {0};
    struct cop_model *target = open_target(6);
    head_write(&files, &heads[2]);
    struct cop_engine_options options = {.target = target,
                                         .proposer = new_eagle(files.folder, DEPTH),
                                         .processing = {.repetition_penalty = 1.3,
                                                        .presence_penalty = 2,
                                                        .bias = &bias,
                                                        .n_bias = 1,
                                                        .banned = &banned,
                                                        .n_banned = 1}};
    random_prompt(prompt, PROMPT, VOCAB, 1);
    const struct cop_request request = {.prompt = prompt,
                                        .n_prompt = PROMPT,
                                        .max_tokens = 60,
                                        .logprobs = -1,
                                        .user = &n_drafted,
                                        .on_cycle = refuse_undrafted};
    struct cop_engine *engine = new_engine(&options);
    cr_assert_eq(cop_engine_submit(engine, &request, ignore_result, &err), COP_OK);
    cr_assert_eq(cop_engine_run(engine, &err), COP_OK, "%s", err.text);
    cr_expect_gt(n_drafted, 60);
    cop_engine_free(engine);
    cop_part_free(options.proposer);
    head_remove(&files);
    cop_model_free(target);
}

/* Of both versions; columns of the last product are no whole blocks. */
Test(propose_eagle, q8_0_drafts_nearly_the_same)
{
    static const int32_t chosen[] = {0, 4};
    struct cop_model *target = open_target(5);
    for (int32_t h = 0; h < 2; h++) {
        static struct head_files files;
        head_write(&files, &heads[chosen[h]]);
        expect_q8_0(target, "eagle", files.folder);
        head_remove(&files);
    }
    cop_model_free(target);
}

/* The end of the context: drafting stops, the answer does not. */
Test(propose_eagle, reaches_the_end_of_the_context)
{
    struct tiny_model description = {
        .seed = 3, .hidden = TH_WIDTH, .vocab = VOCAB, .context = 64};
    struct cop_model *target = open_tiny(description);
    static struct head_files files;
    head_write(&files, &heads[2]);
    struct cop_part *eagle = new_eagle(files.folder, 9);
    expect_whole_context(target, eagle, 64);
    cop_part_free(eagle);
    head_remove(&files);
    cop_model_free(target);
}

/* ---- Published parts --------------------------------------------------------------------- */

static int32_t read_ids(const cJSON *object, const char *key, cop_token *ids)
{
    const cJSON *item, *list = cJSON_GetObjectItem(object, key);
    int32_t n = 0;
    cJSON_ArrayForEach(item, list)
    {
        ids[n++] = item->valueint;
    }
    return n;
}

static void check_part(const char *name)
{
    char file[128], folder[512];
    size_t length;
    (void)snprintf(file, sizeof file, "models/%s/reference.json", name);
    char *text = reference_read(reference_path(file), &length);
    cJSON *all = cJSON_ParseWithLength(text, length);
    struct cop_model_options how = {
        .path = reference_model("models/SmolLM2-135M-Instruct.Q4_1.gguf"),
        .precision = COP_PRECISION_CHOOSE_F32,
        .kv_f32 = true,
        .threads = 1};
    struct cop_model *target = NULL;
    struct cop_error err = {0};
    cr_assert_eq(cop_model_open(&target, &how, &err), COP_OK, "%s", err.text);
    (void)snprintf(file, sizeof file, "models/%s", name);
    (void)snprintf(folder, sizeof folder, "%s", reference_path(file));
    const cJSON *prompt;
    cJSON_ArrayForEach(prompt, cJSON_GetObjectItem(all, "prompts"))
    {
        static cop_token ids[1024], greedy[64], drafts[64];
        static struct draft draft;
        int32_t n = read_ids(prompt, "prompt_ids", ids);
        int32_t depth = read_ids(prompt, "draft_ids", drafts);
        (void)read_ids(prompt, "target_greedy_ids", greedy);
        ids[n++] = greedy[0];
        struct cop_part *eagle = new_eagle(folder, depth);
        draft_once(&draft, eagle, NULL, target, ids, n, COP_DRAW_DETERMINISTIC, 0);
        cr_assert_eq(draft.tree.size, depth + 1);
        for (int32_t i = 0; i < depth; i++) {
            const cJSON *logprob =
                cJSON_GetArrayItem(cJSON_GetObjectItem(prompt, "draft_logprob"), i);
            cr_expect_eq(draft.tree.token[i + 1], drafts[i]);
            cr_expect_float_eq(log(draft.probabilities[i + 1]), logprob->valuedouble, 1e-4);
        }
        cop_tree_release(&draft.tree);
        cop_part_free(eagle);
    }
    cop_model_free(target);
    cJSON_Delete(all);
    free(text);
}

Test(propose_eagle, drafts_what_version_1_drafted_elsewhere)
{
    check_part("eagle1-smollm2");
}

Test(propose_eagle, drafts_what_version_3_drafted_elsewhere)
{
    check_part("eagle3-smollm2");
}
