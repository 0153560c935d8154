/* ReDrafter: rows are those of its formulas in double, its own shape is the beam search that
 * they give, and no answer changes. */
#include "tests/algorithms/heads/head_bench.h"

enum { WIDTH = 32, VOCAB = 61, PROMPT = 12, DEPTH = 4, EXIT = 40 };

struct kind {
    const char *config;
    bool is_recurrent;
    int32_t exit, n_blocks;
};
static const struct kind kinds[] = {
    {"{\"model_type\":\"recurrent_drafting_drafter\",\"vocab_size\":61,\"hidden_size\":32,"
     "\"exit_dim\":64,\"num_draft_layers\":2,\"rnn\":true}",
     true, 2 * WIDTH, 2},
    {"{\"vocab_size\":61,\"hidden_size\":32,\"exit_dim\":40,\"num_draft_layers\":1,"
     "\"rnn\":true}",
     true, EXIT, 1},
    {"{\"exit_dim\":64,\"num_draft_layers\":1}", false, 2 * WIDTH, 1},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Faults of a folder. */
struct fault {
    const char *drop, *bend, *spoil, *extra;
};

static void put(struct head_folder *folder, const struct fault *fault, const char *name,
                int32_t rows, int32_t cols)
{
    static float numbers[1 << 14];
    bool is_bent = fault->bend && strcmp(fault->bend, name) == 0;
    if (fault->drop && strcmp(fault->drop, name) == 0) {
        return;
    }
    head_folder_random(name, rows, cols, numbers);
    for (int32_t i = 0; i < (rows ? rows : 1) * cols; i++) {
        numbers[i] *= 1.5F;
    }
    if (fault->spoil && strcmp(fault->spoil, name) == 0) {
        numbers[1] = NAN;
    }
    head_folder_put(folder, name, rows ? rows - is_bent : 0, rows ? cols : cols - is_bent,
                    numbers);
}

static struct head_folder *new_folder(const struct kind *kind, int32_t width, int32_t vocab,
                                      struct fault fault)
{
    struct head_folder *folder = head_folder_new(kind->config);
    char name[64];
    int32_t exit = kind->exit == 2 * WIDTH ? 2 * width : kind->exit;
    if (kind->is_recurrent) {
        put(folder, &fault, "rnn_u.weight", width, width);
        put(folder, &fault, "rnn_u.bias", 0, width);
        put(folder, &fault, "rnn_w.weight", width, width);
    }
    if (exit != 2 * width) {
        put(folder, &fault, "input_proj.weight", exit, 2 * width);
        put(folder, &fault, "input_proj.bias", 0, exit);
    }
    for (int32_t i = 0; i < kind->n_blocks; i++) {
        (void)snprintf(name, sizeof name, "lm_head.%d.linear.weight", i);
        put(folder, &fault, name, exit, exit);
        (void)snprintf(name, sizeof name, "lm_head.%d.linear.bias", i);
        put(folder, &fault, name, 0, exit);
    }
    (void)snprintf(name, sizeof name, "lm_head.%d.weight", kind->n_blocks);
    put(folder, &fault, name, vocab, exit);
    if (fault.extra) {
        put(folder, &fault, fault.extra, 0, 4);
    }
    (void)head_folder_save(folder, "model.safetensors");
    return folder;
}

static struct cop_part *part_of(struct head_folder *folder)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "redrafter");
    (void)ready(set_string(part, "path", head_folder_path(folder)));
    head_folder_free(folder);
    return part;
}

static struct cop_part *new_redrafter(const struct kind *kind)
{
    return part_of(new_folder(kind, WIDTH, VOCAB, (struct fault){0}));
}

static struct cop_model *open_target(void)
{
    struct tiny_model description = {.seed = 7, .has_output = true};
    return open_model(tiny_model_new(&description), (struct cop_model_options){.kv_f32 = true});
}

/* ---- The formulas in double -------------------------------------------------------------- */

struct formulas {
    const struct kind *kind;
    struct cop_model *target;
    double h[WIDTH];
};

/* The numbers that put() writes. */
static const float *numbers_of(const char *name, int32_t rows, int32_t cols)
{
    static float numbers[4][1 << 14];
    static int next;
    float *out = numbers[next = (next + 1) % 4];
    head_folder_random(name, rows, cols, out);
    for (int32_t i = 0; i < (rows ? rows : 1) * cols; i++) {
        out[i] *= 1.5F;
    }
    return out;
}

static void start(struct formulas *in, const struct kind *kind, struct cop_model *target,
                  const cop_token *ids, int32_t n)
{
    double *states = states_of(target, COP_HIDDEN_NORMED, ids, n - 1);
    *in = (struct formulas){.kind = kind, .target = target};
    memcpy(in->h, states + (n - 2) * WIDTH, sizeof in->h);
    free(states);
}

/* s becomes the state behind `token`. */
static void recur(const struct formulas *in, cop_token token, double *s)
{
    double e[WIDTH], w[WIDTH], u[WIDTH];
    embed_in_double(in->target, token, e);
    if (!in->kind->is_recurrent) {
        for (int32_t i = 0; i < WIDTH; i++) {
            s[i] += e[i];
        }
        return;
    }
    apply(numbers_of("rnn_w.weight", WIDTH, WIDTH), NULL, e, WIDTH, WIDTH, w);
    apply(numbers_of("rnn_u.weight", WIDTH, WIDTH), numbers_of("rnn_u.bias", 0, WIDTH), s,
          WIDTH, WIDTH, u);
    for (int32_t i = 0; i < WIDTH; i++) {
        s[i] = silu_of(w[i] + u[i]);
    }
}

static void law(const struct formulas *in, const double *s, double temperature, double *out)
{
    double joined[2 * WIDTH], x[2 * WIDTH], added[2 * WIDTH];
    int32_t exit = in->kind->exit;
    char name[64];
    memcpy(joined, in->h, sizeof in->h);
    memcpy(joined + WIDTH, s, sizeof in->h);
    memcpy(x, joined, sizeof joined);
    if (exit != 2 * WIDTH) {
        apply(numbers_of("input_proj.weight", exit, 2 * WIDTH),
              numbers_of("input_proj.bias", 0, exit), joined, exit, 2 * WIDTH, x);
    }
    for (int32_t i = 0; i < in->kind->n_blocks; i++) {
        (void)snprintf(name, sizeof name, "lm_head.%d.linear.weight", i);
        const float *weight = numbers_of(name, exit, exit);
        (void)snprintf(name, sizeof name, "lm_head.%d.linear.bias", i);
        apply(weight, numbers_of(name, 0, exit), x, exit, exit, added);
        for (int32_t j = 0; j < exit; j++) {
            x[j] += silu_of(added[j]);
        }
    }
    (void)snprintf(name, sizeof name, "lm_head.%d.weight", in->kind->n_blocks);
    apply(numbers_of(name, VOCAB, exit), NULL, x, VOCAB, exit, out);
    soft_max(out, VOCAB, temperature);
}

Test(propose_redrafter, rows_are_those_of_the_formulas)
{
    static const double temperatures[] = {1, 0.7};
    struct cop_model *target = open_target();
    struct cop_part *widths = new_widths((const int32_t[]){3, 2, 2, 1}, DEPTH);
    for (int32_t k = 0; k < 2 * KINDS; k++) {
        static struct draft draft;
        struct formulas in;
        cop_token prompt[PROMPT];
        struct cop_part *part = new_redrafter(&kinds[k / 2]);
        random_prompt(prompt, PROMPT, VOCAB, (uint64_t)k);
        draft_once(&draft, part, widths, target, prompt, PROMPT,
                   k % 2 ? COP_DRAW_INDEPENDENT : COP_DRAW_DETERMINISTIC, temperatures[k % 2]);
        cr_assert_eq(draft.tree.size, 1 + 3 + 6 + 12 + 12);
        start(&in, &kinds[k / 2], target, prompt, PROMPT);
        for (int32_t node = 1; node < draft.tree.size; node++) {
            int32_t path[DEPTH], depth = cop_tree_path(&draft.tree, node, path);
            double s[WIDTH] = {0}, expected[VOCAB];
            recur(&in, prompt[PROMPT - 1], s);
            for (int32_t d = 0; d < depth - 1; d++) {
                recur(&in, draft.tree.token[path[d]], s);
            }
            law(&in, s, temperatures[k % 2], expected);
            double wanted = expected[draft.tree.token[node]];
            cr_expect_float_eq(draft.probabilities[node], wanted, 2e-5,
                               "kind %d, node %d: %.7f, expected %.7f", k / 2, node,
                               draft.probabilities[node], wanted);
        }
        cop_tree_release(&draft.tree);
        cop_part_free(part);
    }
    cop_part_free(widths);
    cop_model_free(target);
}

/* ---- Beams ------------------------------------------------------------------------------- */

enum { BEAMS = 5 };
struct beam {
    cop_token tokens[DEPTH];
    double s[WIDTH], value;
};

/* The best BEAMS continuations of all beams. */
static void search_level(const struct formulas *in, struct beam *beams, int32_t *n,
                         int32_t level)
{
    static struct beam next[BEAMS];
    static double laws[BEAMS][VOCAB];
    for (int32_t b = 0; b < *n; b++) {
        law(in, beams[b].s, 1, laws[b]);
    }
    int32_t n_next = 0;
    for (; n_next < BEAMS; n_next++) {
        int32_t best = 0, token = 0;
        for (int32_t b = 0; b < *n; b++) {
            for (int32_t v = 0; v < VOCAB; v++) {
                if (beams[b].value * laws[b][v] > beams[best].value * laws[best][token]) {
                    best = b;
                    token = v;
                }
            }
        }
        next[n_next] = beams[best];
        next[n_next].tokens[level] = token;
        next[n_next].value *= laws[best][token];
        recur(in, token, next[n_next].s);
        laws[best][token] = 0;
    }
    memcpy(beams, next, sizeof next);
    *n = n_next;
}

/* Finds the path in the tree; counts each of its nodes as used. */
static bool is_there(const struct draft *draft, const struct beam *beam, bool *used)
{
    int32_t node = 0;
    for (int32_t d = 0; d < DEPTH; d++) {
        node = cop_tree_find(&draft->tree, node, beam->tokens[d]);
        if (node < 0) {
            return false;
        }
        used[node] = true;
    }
    cr_expect_float_eq(draft->scores[node], beam->value, 1e-5);
    return true;
}

Test(propose_redrafter, own_shape_is_its_beams_with_equal_prefixes_merged)
{
    struct cop_model *target = open_target();
    int32_t n_merged = 0;
    for (int32_t k = 0; k < KINDS; k++) {
        static struct draft draft;
        struct beam beams[BEAMS] = {{.value = 1}};
        struct formulas in;
        cop_token prompt[PROMPT];
        bool used[BEAMS * DEPTH + 1] = {true};
        int32_t n = 1;
        struct head_folder *folder = new_folder(&kinds[k], WIDTH, VOCAB, (struct fault){0});
        struct cop_part *part = set_string(new_part(COP_PLUG_PROPOSER, "redrafter"), "path",
                                           head_folder_path(folder));
        (void)ready(set_number(part, "width", BEAMS));
        head_folder_free(folder);
        random_prompt(prompt, PROMPT, VOCAB, 70 + (uint64_t)k);
        draft_once(&draft, part, NULL, target, prompt, PROMPT, COP_DRAW_DETERMINISTIC, 0);
        start(&in, &kinds[k], target, prompt, PROMPT);
        recur(&in, prompt[PROMPT - 1], beams[0].s);
        for (int32_t level = 0; level < DEPTH; level++) {
            search_level(&in, beams, &n, level);
        }
        cr_assert_leq(draft.tree.size, BEAMS * DEPTH + 1);
        for (int32_t b = 0; b < n; b++) {
            cr_expect(is_there(&draft, &beams[b], used), "kind %d, beam %d", k, b);
        }
        for (int32_t node = 0; node < draft.tree.size; node++) {
            cr_expect(used[node], "kind %d: node %d belongs to no beam", k, node);
        }
        n_merged += BEAMS * DEPTH + 1 - draft.tree.size;
        cop_tree_release(&draft.tree);
        cop_part_free(part);
    }
    cr_expect_gt(n_merged, 0);
    cop_model_free(target);
}

/* ---- In the engine ----------------------------------------------------------------------- */

Test(propose_redrafter, live_rows_equal_rebuilt_rows)
{
    struct cop_model *target = open_target();
    for (int32_t k = 0; k < KINDS; k++) {
        struct cop_part *part = new_redrafter(&kinds[k]), *twin = new_redrafter(&kinds[k]);
        struct cop_part *builder = new_widths((const int32_t[]){24, 6, 1}, 3);
        expect_live_is_rebuilt(target, part, twin, builder);
        cop_part_free(part);
        cop_part_free(twin);
        cop_part_free(builder);
    }
    cop_model_free(target);
}

Test(propose_redrafter, answers_are_those_of_plain_decoding)
{
    struct cop_model *target = open_target();
    for (int32_t k = 0; k < KINDS; k++) {
        struct cop_part *part = new_redrafter(&kinds[k]);
        struct cop_part *builders[] = {NULL, new_widths((const int32_t[]){12, 2, 2}, 3),
                                       ready(new_part(COP_PLUG_BUILDER, "expand_rerank")),
                                       ready(new_part(COP_PLUG_BUILDER, "best_first")),
                                       new_chain(40)};
        expect_plain_answers(target, part, builders, 5);
        cop_part_free(part);
    }
    cop_model_free(target);
}

Test(propose_redrafter, q8_0_drafts_nearly_the_same)
{
    struct cop_model *target = open_target();
    for (int32_t k = 0; k < KINDS; k++) {
        struct head_folder *folder = new_folder(&kinds[k], WIDTH, VOCAB, (struct fault){0});
        expect_q8_0(target, "redrafter", head_folder_path(folder));
        head_folder_free(folder);
    }
    cop_model_free(target);
}

Test(propose_redrafter, answers_have_the_law_of_the_target)
{
    struct cop_model *target = open_law_target(1, 16, 64);
    struct cop_part *part = part_of(new_folder(&kinds[0], 16, 64, (struct fault){0}));
    expect_target_law(target, part);
    cop_part_free(part);
    cop_model_free(target);
}

/* ---- Files that lie ---------------------------------------------------------------------- */

static void refuse(struct kind kind, int32_t width, int32_t vocab, struct fault fault,
                   enum cop_status code, const char *expected)
{
    struct cop_model *target = open_target();
    struct head_folder *folder = new_folder(&kind, width, vocab, fault);
    expect_refused("redrafter", head_folder_path(folder), target, code, expected);
    head_folder_free(folder);
    cop_model_free(target);
}

Test(propose_redrafter, refuses_what_is_missing_or_misshapen)
{
    const struct kind plain = kinds[0];
    refuse(plain, WIDTH, VOCAB, (struct fault){.drop = "rnn_w.weight"}, COP_ERR_FORMAT,
           "tensor \"rnn_w.weight\" is missing (heads, expected shape [32, 32])");
    refuse(plain, WIDTH, VOCAB, (struct fault){.drop = "lm_head.2.weight"}, COP_ERR_FORMAT,
           "tensor \"lm_head.2.weight\" is missing or no matrix");
    refuse(kinds[1], WIDTH, VOCAB, (struct fault){.drop = "input_proj.weight"}, COP_ERR_FORMAT,
           "tensor \"input_proj.weight\" is missing (heads, expected shape [40, 64])");
    refuse(plain, WIDTH, VOCAB, (struct fault){.bend = "lm_head.1.linear.weight"},
           COP_ERR_FORMAT, "\"lm_head.1.linear.weight\" has shape [63, 64], expected [64, 64]");
    refuse(plain, WIDTH, VOCAB, (struct fault){.bend = "rnn_u.bias"}, COP_ERR_FORMAT,
           "\"rnn_u.bias\" has shape [31], expected [32]");
    refuse(plain, WIDTH, VOCAB, (struct fault){.spoil = "lm_head.0.linear.bias"},
           COP_ERR_FORMAT, "\"lm_head.0.linear.bias\" has value nan");
    refuse(plain, WIDTH, VOCAB, (struct fault){.spoil = "lm_head.2.weight"}, COP_ERR_FORMAT,
           "\"lm_head.2.weight\" has value nan at row 0, column 1");
    refuse(plain, WIDTH, VOCAB, (struct fault){.extra = "rnn_v.weight"}, COP_ERR_UNSUPPORTED,
           "tensor \"rnn_v.weight\" has no place in a ReDrafter");
    refuse(plain, 16, VOCAB, (struct fault){0}, COP_ERR_ARGUMENT,
           "heads of another target: they read states of 16 numbers");
    refuse(plain, WIDTH, 60, (struct fault){0}, COP_ERR_ARGUMENT,
           "made for a vocabulary of 60 tokens; the target has 61");
    refuse((struct kind){"{\"model_type\":\"llama\"}", true, 2 * WIDTH, 1}, WIDTH, VOCAB,
           (struct fault){0}, COP_ERR_UNSUPPORTED, "\"model_type\" is not");
}

Test(propose_redrafter, tensors_are_right_where_the_configuration_is_not)
{
    static const struct {
        struct kind kind;
        const char *warning;
    } cases[] = {
        {{"{\"num_draft_layers\":4,\"rnn\":true}", true, 2 * WIDTH, 2},
         "\"num_draft_layers\" is 4, but by the tensors it is 2: the tensors are used"},
        {{"{\"exit_dim\":48}", true, 2 * WIDTH, 2},
         "\"exit_dim\" is 48, but by the tensors it is 64"},
        {{"{\"rnn\":false}", true, 2 * WIDTH, 2},
         "\"rnn\" is false, but there are tensors of a recurrence"},
        {{"{\"rnn\":true}", false, 2 * WIDTH, 2},
         "\"rnn\" is true, but there are no tensors of a recurrence"},
        {{"{\"exit_dim\":64}", true, 2 * WIDTH, 2}, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct head_folder *folder =
            new_folder(&cases[i].kind, WIDTH, VOCAB, (struct fault){0});
        struct cop_part *part = set_string(new_part(COP_PLUG_PROPOSER, "redrafter"), "path",
                                           head_folder_path(folder));
        struct cop_error err = {0};
        cr_expect_eq(cop_part_prepare(part, &err), COP_OK, "%s", err.text);
        cr_expect_not_null(strstr(err.text, cases[i].warning), "%s", err.text);
        cr_expect_eq(err.text[0] == '\0', cases[i].warning[0] == '\0', "%s", err.text);
        cop_part_free(part);
        head_folder_free(folder);
    }
}
