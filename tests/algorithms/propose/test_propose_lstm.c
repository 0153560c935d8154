/* The LSTM form of the MLP speculator: rows are those of its formulas in double, however its
 * tensors are stored, and no answer changes. */
#include "tests/algorithms/heads/head_bench.h"

enum { WIDTH = 32, VOCAB = 61, INNER = 12, HEADS = 3, PROMPT = 12, GATES = 4 };
static const char *const gates[GATES] = {"forget", "input", "output", "cell"};

struct kind {
    const char *prefix;
    bool is_packed, is_tied, is_scaled, has_heads; /* a head's own output layer each */
};
static const struct kind kinds[] = {
    {"", false, true, true, false},
    {"speculator.", false, false, false, true},
    {"", true, true, false, false},
    {"", true, false, true, false},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct fault {
    const char *drop, *bend, *spoil, *config;
};

/* A tensor's numbers, by its name without a prefix; matrices of about 1.5 / sqrt(cols). */
static void numbers_of(const char *name, int32_t rows, int32_t cols, float *out)
{
    bool is_gain = strstr(name, "_ln.0.weight") != NULL;
    head_folder_random(name, rows, cols, out);
    for (int32_t i = 0; i < (rows ? rows : 1) * cols; i++) {
        out[i] = is_gain ? 1 + 2 * out[i] : 1.5F * out[i];
    }
}

static void put(struct head_folder *folder, const struct kind *kind, const struct fault *fault,
                const char *name, int32_t rows, int32_t cols, const float *data)
{
    static float numbers[VOCAB * WIDTH * GATES];
    char whole[96];
    (void)snprintf(whole, sizeof whole, "%s%s", kind->prefix, name);
    int32_t less = fault->bend && strcmp(fault->bend, name) == 0;
    if (fault->drop && strcmp(fault->drop, name) == 0) {
        return;
    }
    if (data) {
        memcpy(numbers, data, (size_t)rows * (size_t)cols * sizeof *data);
    } else {
        numbers_of(name, rows, cols, numbers);
    }
    if (fault->spoil && strcmp(fault->spoil, name) == 0) {
        numbers[1] = NAN;
    }
    head_folder_put(folder, whole, rows ? rows - less : 0, rows ? cols : cols - less, numbers);
}

static struct head_folder *new_folder(const struct kind *kind, int32_t width, int32_t vocab,
                                      struct fault fault)
{
    static float packed[GATES * INNER * WIDTH];
    char config[512], name[64];
    (void)snprintf(config, sizeof config,
                   "{\"method\":\"sum_lstm\",\"vocab_size\":%d,\"input_hidden_dim\":%d,"
                   "\"proj_dim\":\"%d\",\"emb_dim\":\"%d\",\"inner_dim\":\"%d\","
                   "\"n_predict\":%d,\"tie_weights\":true,\"tie_lstm_embs\":%s,"
                   "\"scale_input\":%s}",
                   vocab, width, INNER, INNER, INNER, HEADS, kind->is_tied ? "true" : "false",
                   kind->is_scaled ? "true" : "false");
    struct head_folder *folder = head_folder_new(fault.config ? fault.config : config);
    for (int32_t i = 0; i < 2; i++) {
        int32_t cols = i ? INNER : width;
        for (int32_t g = 0; g < GATES; g++) {
            (void)snprintf(name, sizeof name, "%s_proj.%d.weight", gates[g], i);
            numbers_of(name, INNER, cols, packed + g * INNER * cols);
            if (!kind->is_packed) {
                put(folder, kind, &fault, name, INNER, cols, NULL);
            }
        }
        (void)snprintf(name, sizeof name, "proj.%d.weight", i);
        if (kind->is_packed) {
            put(folder, kind, &fault, name, GATES * INNER, cols, packed);
        }
    }
    for (int32_t g = 0; g < (kind->is_tied ? 1 : GATES); g++) {
        (void)snprintf(name, sizeof name, "%s_emb.0.weight", gates[g]);
        put(folder, kind, &fault, name, vocab, INNER, NULL);
    }
    static const char *const norms[] = {"cell_ln", "state_ln"};
    for (int32_t i = 0; i < 2; i++) {
        (void)snprintf(name, sizeof name, "%s.0.weight", norms[i]);
        put(folder, kind, &fault, name, 0, INNER, NULL);
        (void)snprintf(name, sizeof name, "%s.0.bias", norms[i]);
        put(folder, kind, &fault, name, 0, INNER, NULL);
    }
    for (int32_t i = 0; i < (kind->has_heads ? HEADS : 1); i++) {
        (void)snprintf(name, sizeof name, "head.%d.weight", i);
        put(folder, kind, &fault, name, vocab, INNER, NULL);
    }
    (void)head_folder_save(folder, "model.safetensors");
    return folder;
}

static struct cop_part *new_lstm(const struct kind *kind, int32_t width, int32_t vocab)
{
    struct head_folder *folder = new_folder(kind, width, vocab, (struct fault){0});
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "mlp");
    (void)ready(set_string(part, "path", head_folder_path(folder)));
    head_folder_free(folder);
    return part;
}

static struct cop_model *open_target(void)
{
    struct tiny_model description = {.seed = 7, .has_output = true};
    return open_model(tiny_model_new(&description), (struct cop_model_options){.kv_f32 = true});
}

/* ---- The formulas in double -------------------------------------------------------------- */

struct state {
    int32_t n; /* what s holds */
    double s[WIDTH], cell[INNER];
};

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void gelu_of_norm(const char *stem, const double *x, double *out)
{
    float gain[INNER], shift[INNER];
    char name[64];
    (void)snprintf(name, sizeof name, "%s.0.weight", stem);
    numbers_of(name, 0, INNER, gain);
    (void)snprintf(name, sizeof name, "%s.0.bias", stem);
    numbers_of(name, 0, INNER, shift);
    rms(gain, 1e-6, x, INNER, out);
    for (int32_t i = 0; i < INNER; i++) {
        double y = out[i] + (double)shift[i];
        out[i] = y * 0.5 * (1 + erf(y / sqrt(2)));
    }
}

static void start(const struct kind *kind, struct cop_model *target, const cop_token *ids,
                  int32_t n, struct state *state)
{
    double *states = states_of(target, COP_HIDDEN_NORMED, ids, n - 1), squares = 0;
    *state = (struct state){.n = WIDTH};
    memcpy(state->s, states + (n - 2) * WIDTH, sizeof state->s);
    free(states);
    for (int32_t i = 0; i < WIDTH; i++) {
        squares += state->s[i] * state->s[i];
    }
    for (int32_t i = 0; kind->is_scaled && i < WIDTH; i++) {
        state->s[i] /= sqrt(squares / WIDTH + 1e-6) * sqrt(2);
    }
}

static void take(const struct kind *kind, cop_token token, struct state *state)
{
    static float proj[INNER * WIDTH], emb[VOCAB * INNER];
    double gate[GATES][INNER], candidate[INNER], normed[INNER];
    double w = pow(0.5, 0.5 / HEADS), c = sqrt((1 - w * w) * INNER / 2) / w;
    char name[64];
    for (int32_t g = 0; g < GATES; g++) {
        (void)snprintf(name, sizeof name, "%s_proj.%d.weight", gates[g], state->n == INNER);
        numbers_of(name, INNER, state->n, proj);
        (void)snprintf(name, sizeof name, "%s_emb.0.weight", gates[kind->is_tied ? 0 : g]);
        numbers_of(name, VOCAB, INNER, emb);
        apply(proj, NULL, state->s, INNER, state->n, gate[g]);
        for (int32_t i = 0; i < INNER; i++) {
            gate[g][i] += c * (double)emb[token * INNER + i];
        }
    }
    gelu_of_norm("cell_ln", gate[3], candidate);
    for (int32_t i = 0; i < INNER; i++) {
        state->cell[i] =
            sigmoid(gate[0][i]) * state->cell[i] + sigmoid(gate[1][i]) * candidate[i];
    }
    gelu_of_norm("state_ln", state->cell, normed);
    for (int32_t i = 0; i < INNER; i++) {
        state->s[i] = sigmoid(gate[2][i]) * normed[i];
    }
    state->n = INNER;
}

Test(propose_lstm, rows_are_those_of_the_formulas)
{
    static float head[VOCAB * INNER];
    struct cop_model *target = open_target();
    struct cop_part *widths = new_widths((const int32_t[]){3, 2, 2, 1}, 4);
    for (int32_t k = 0; k < 2 * KINDS; k++) {
        static struct draft draft;
        const struct kind *kind = &kinds[k / 2];
        double temperature = k % 2 ? 0.7 : 1;
        cop_token prompt[PROMPT];
        struct cop_part *part = new_lstm(kind, WIDTH, VOCAB);
        random_prompt(prompt, PROMPT, VOCAB, (uint64_t)k);
        draft_once(&draft, part, widths, target, prompt, PROMPT,
                   k % 2 ? COP_DRAW_INDEPENDENT : COP_DRAW_DETERMINISTIC, temperature);
        cr_assert_eq(draft.tree.size, 1 + 3 + 6 + 12);
        for (int32_t node = 1; node < draft.tree.size; node++) {
            int32_t path[HEADS], depth = cop_tree_path(&draft.tree, node, path);
            struct state state;
            double expected[VOCAB];
            char name[64];
            start(kind, target, prompt, PROMPT, &state);
            take(kind, prompt[PROMPT - 1], &state);
            for (int32_t d = 0; d < depth - 1; d++) {
                take(kind, draft.tree.token[path[d]], &state);
            }
            (void)snprintf(name, sizeof name, "head.%d.weight",
                           kind->has_heads ? depth - 1 : 0);
            numbers_of(name, VOCAB, INNER, head);
            apply(head, NULL, state.s, VOCAB, INNER, expected);
            soft_max(expected, VOCAB, temperature);
            double wanted = expected[draft.tree.token[node]];
            cr_expect_float_eq(draft.probabilities[node], wanted, 1e-5,
                               "kind %d, node %d: %.7f, expected %.7f", k / 2, node,
                               draft.probabilities[node], wanted);
        }
        cop_tree_release(&draft.tree);
        cop_part_free(part);
    }
    cop_part_free(widths);
    cop_model_free(target);
}

/* ---- In the engine ----------------------------------------------------------------------- */

Test(propose_lstm, live_rows_equal_rebuilt_rows)
{
    struct cop_model *target = open_target();
    struct cop_part *part = new_lstm(&kinds[1], WIDTH, VOCAB);
    struct cop_part *twin = new_lstm(&kinds[1], WIDTH, VOCAB);
    struct cop_part *builder = new_widths((const int32_t[]){30, 6, 1}, 3);
    expect_live_is_rebuilt(target, part, twin, builder);
    cop_part_free(part);
    cop_part_free(twin);
    cop_part_free(builder);
    cop_model_free(target);
}

Test(propose_lstm, answers_are_those_of_plain_decoding)
{
    struct cop_model *target = open_target();
    for (int32_t k = 0; k < KINDS; k++) {
        struct cop_part *part = new_lstm(&kinds[k], WIDTH, VOCAB);
        struct cop_part *builders[] = {NULL, new_widths((const int32_t[]){20, 2, 2}, 3),
                                       ready(new_part(COP_PLUG_BUILDER, "expand_rerank")),
                                       ready(new_part(COP_PLUG_BUILDER, "best_first"))};
        expect_plain_answers(target, part, builders, 4);
        cop_part_free(part);
    }
    cop_model_free(target);
}

Test(propose_lstm, q8_0_drafts_nearly_the_same)
{
    struct cop_model *target = open_target();
    for (int32_t k = 0; k < KINDS; k++) {
        struct head_folder *folder = new_folder(&kinds[k], WIDTH, VOCAB, (struct fault){0});
        expect_q8_0(target, "mlp", head_folder_path(folder));
        head_folder_free(folder);
    }
    cop_model_free(target);
}

Test(propose_lstm, answers_have_the_law_of_the_target)
{
    struct cop_model *target = open_law_target(1, 16, 64);
    struct cop_part *part = new_lstm(&kinds[0], 16, 64);
    expect_target_law(target, part);
    cop_part_free(part);
    cop_model_free(target);
}

/* ---- Files that lie ---------------------------------------------------------------------- */

static void refuse(int32_t kind, int32_t width, int32_t vocab, struct fault fault,
                   enum cop_status code, const char *expected)
{
    struct cop_model *target = open_target();
    struct head_folder *folder = new_folder(&kinds[kind], width, vocab, fault);
    expect_refused("mlp", head_folder_path(folder), target, code, expected);
    head_folder_free(folder);
    cop_model_free(target);
}

Test(propose_lstm, refuses_what_is_missing_or_misshapen)
{
    refuse(0, WIDTH, VOCAB, (struct fault){.drop = "forget_emb.0.weight"}, COP_ERR_FORMAT,
           "no LSTM speculator: \"forget_emb.0.weight\"");
    refuse(1, WIDTH, VOCAB, (struct fault){.drop = "output_proj.1.weight"}, COP_ERR_FORMAT,
           "\"speculator.output_proj.1.weight\" is missing (heads, expected shape [12, 12])");
    refuse(2, WIDTH, VOCAB, (struct fault){.bend = "proj.1.weight"}, COP_ERR_FORMAT,
           "\"proj.1.weight\" has shape [47, 12], expected [48, 12]");
    refuse(0, WIDTH, VOCAB, (struct fault){.drop = "state_ln.0.bias"}, COP_ERR_FORMAT,
           "\"state_ln.0.bias\" is missing");
    refuse(0, WIDTH, VOCAB, (struct fault){.drop = "head.0.weight"}, COP_ERR_FORMAT,
           "\"head.0.weight\" is missing");
    refuse(0, WIDTH, VOCAB, (struct fault){.spoil = "cell_proj.0.weight"}, COP_ERR_FORMAT,
           "\"cell_proj.0.weight\" has value nan at row 0, column 1");
    refuse(0, WIDTH, VOCAB, (struct fault){.config = "{\"method\":\"sum_lstm\"}"},
           COP_ERR_FORMAT, "\"n_predict\" is missing");
    refuse(0, WIDTH, VOCAB, (struct fault){.config = "{\"method\":\"sum_gru\"}"},
           COP_ERR_UNSUPPORTED, "\"method\" is neither \"sum_rnn\" nor \"sum_lstm\"");
    refuse(0, 16, VOCAB, (struct fault){0}, COP_ERR_ARGUMENT, "they read states of 16 numbers");
    refuse(0, WIDTH, 60, (struct fault){0}, COP_ERR_ARGUMENT,
           "made for a vocabulary of 60 tokens");
}
