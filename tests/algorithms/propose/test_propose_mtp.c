/* Modules of multi-token prediction: what they draft is what the formulas say in double, in
 * every layout of a checkpoint, and the same in the middle of an answer as from a fresh start.
 */
#include "tests/algorithms/heads/double_layers.h"
#include "tests/algorithms/heads/head_bench.h"
#include "tests/support/gguf_writer.h"

enum { VOCAB = 61, PROMPT = 12, DEPTH = 5, LAYERS = 2, MODULES = 3 };
enum layout { DEEPSEEK, SPECULATORS, QWEN, GGUF };

struct kind {
    enum layout layout;
    int32_t n_modules;
    bool has_ends; /* an embedding and a head of its own */
    bool is_raw;   /* reads states before the final norm */
    int32_t said;  /* num_nextn_predict_layers; 0: as many as there are */
};
static const struct kind kinds[] = {
    {DEEPSEEK, 1, false, false, 0},   {DEEPSEEK, 1, true, true, 0},
    {DEEPSEEK, 2, false, false, 0},   {DEEPSEEK, 3, true, false, 0},
    {SPECULATORS, 1, true, false, 0}, {QWEN, 1, false, false, 0},
    {GGUF, 1, false, false, 0},       {GGUF, 2, true, true, 0},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- Names ------------------------------------------------------------------------------- */

/* Tensors are made under DeepSeek's names; what the other layouts call them. */
static const char *const ends[] = {
    "enorm", "hnorm", "eh_proj", "shared_head.norm", "embed_tokens", "shared_head.head"};
static const char *const ends_of[][6] = {
    [SPECULATORS] = {"mtp_layers.0.token_layernorm", "mtp_layers.0.hidden_layernorm",
                     "mtp_layers.0.input_proj", "mtp_layers.0.final_layernorm", "embed_tokens",
                     "lm_head"},
    [QWEN] = {"mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.fc", "mtp.norm",
              "mtp.embed_tokens", "mtp.lm_head"},
    [GGUF] = {"nextn.enorm", "nextn.hnorm", "nextn.eh_proj", "nextn.shared_head_norm",
              "nextn.embed_tokens", "nextn.shared_head_head"},
};
static const char *const parts[][2] = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

/* "model.layers.2.enorm.weight" in another layout. */
static void rename_tensor(char *out, size_t size, enum layout layout, const char *name)
{
    char stem[64];
    int32_t layer = atoi(name + strlen("model.layers."));
    (void)snprintf(stem, sizeof stem, "%s", strchr(name + strlen("model.layers."), '.') + 1);
    *strstr(stem, ".weight") = '\0';
    (void)snprintf(out, size, "%s", name);
    for (size_t i = 0; layout != DEEPSEEK && i < sizeof ends / sizeof *ends; i++) {
        if (strcmp(stem, ends[i]) == 0) {
            if (layout == GGUF) {
                (void)snprintf(out, size, "blk.%d.%s.weight", layer, ends_of[layout][i]);
            } else {
                (void)snprintf(out, size, "%s.weight", ends_of[layout][i]);
            }
            return;
        }
    }
    if (layout == SPECULATORS) {
        (void)snprintf(out, size, "mtp_layers.0.%s.weight", stem);
    } else if (layout == QWEN) {
        (void)snprintf(out, size, "mtp.layers.0.%s.weight", stem);
    }
    for (size_t i = 0; layout == GGUF && i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(stem, parts[i][0]) == 0) {
            (void)snprintf(out, size, "blk.%d.%s.weight", layer, parts[i][1]);
        }
    }
}

/* ---- Checkpoints ------------------------------------------------------------------------- */

static void fill(struct dl_tensors *tensors, const struct kind *kind)
{
    for (int32_t k = 0; k < kind->n_modules; k++) {
        char prefix[32];
        (void)snprintf(prefix, sizeof prefix, "model.layers.%d.", LAYERS + k);
        dl_add(tensors, 0, DL_WIDTH, "%senorm.weight", prefix);
        dl_add(tensors, 0, DL_WIDTH, "%shnorm.weight", prefix);
        dl_add(tensors, DL_WIDTH, 2 * DL_WIDTH, "%seh_proj.weight", prefix);
        dl_add(tensors, 0, DL_WIDTH, "%sshared_head.norm.weight", prefix);
        if (kind->has_ends) {
            dl_add(tensors, VOCAB, DL_WIDTH, "%sembed_tokens.weight", prefix);
            dl_add(tensors, VOCAB, DL_WIDTH, "%sshared_head.head.weight", prefix);
        }
        dl_add_layer(tensors, prefix, DL_WIDTH, kind->layout == GGUF);
    }
}

/* Faults of a folder; names as they are in the layout. */
struct fault {
    const char *drop, *bend, *spoil, *extra, *config;
};

static bool is_name(const char *fault, const char *name)
{
    return fault && strcmp(fault, name) == 0;
}

static void put_folder(struct head_folder *folder, const struct dl_tensors *tensors,
                       const struct kind *kind, const struct fault *fault)
{
    for (int32_t i = 0; i < tensors->n; i++) {
        const struct dl_tensor *tensor = &tensors->items[i];
        char name[96];
        rename_tensor(name, sizeof name, kind->layout, tensor->name);
        int32_t less = is_name(fault->bend, name), rows = tensor->rows;
        if (is_name(fault->spoil, name)) {
            tensor->data[1] = NAN;
        }
        if (!is_name(fault->drop, name)) {
            head_folder_put(folder, name, rows ? rows - less : 0,
                            rows ? tensor->cols : tensor->cols - less, tensor->data);
        }
    }
    if (fault->extra) {
        head_folder_put(folder, fault->extra, 0, 4, NULL);
    }
    (void)head_folder_save(folder, "model.safetensors");
}

static void config_of(char *text, size_t size, const struct kind *kind)
{
    char layer[512], count[64] = "";
    (void)snprintf(layer, sizeof layer,
                   "\"model_type\": \"llama\", \"hidden_size\": %d, \"intermediate_size\": %d, "
                   "\"num_hidden_layers\": %d, \"num_attention_heads\": %d, "
                   "\"num_key_value_heads\": %d, \"head_dim\": %d, \"vocab_size\": %d, "
                   "\"rms_norm_eps\": 1e-5, \"architectures\": [\"LlamaForCausalLM\"]",
                   DL_WIDTH, DL_FFN, LAYERS, DL_HEADS, DL_KV, DL_DIM, VOCAB);
    (void)snprintf(count, sizeof count, ", \"num_nextn_predict_layers\": %d",
                   kind->said ? kind->said : kind->n_modules);
    (void)snprintf(text, size,
                   kind->layout == SPECULATORS
                       ? "{\"speculators_model_type\": \"mtp\", \"transformer_layer_config\": "
                         "{%s}}"
                       : "{%s%s}",
                   layer, kind->layout == DEEPSEEK ? count : "");
}

static struct head_folder *new_folder(struct dl_tensors *tensors, const struct kind *kind,
                                      struct fault fault)
{
    char config[1024];
    config_of(config, sizeof config, kind);
    tensors->n = 0;
    fill(tensors, kind);
    struct head_folder *folder = head_folder_new(fault.config ? fault.config : config);
    put_folder(folder, tensors, kind, &fault);
    return folder;
}

/* A whole model with its modules behind it, as GGUF files hold them. */
static struct gguf_writer *new_gguf(struct dl_tensors *tensors, const struct kind *kind,
                                    const char *drop)
{
    const struct tiny_edit blocks[] = {{.fault = TINY_KEY_U32,
                                        .name = "qwen3.block_count",
                                        .integer = (uint32_t)(LAYERS + kind->n_modules)},
                                       {.fault = TINY_KEY_U32,
                                        .name = "qwen3.nextn_predict_layers",
                                        .integer = (uint32_t)kind->n_modules}};
    const struct tiny_model description = {.seed = 7,
                                           .architecture = "qwen3",
                                           .layers = LAYERS,
                                           .hidden = DL_WIDTH,
                                           .heads = DL_HEADS,
                                           .kv_heads = DL_KV,
                                           .ffn = DL_FFN,
                                           .vocab = VOCAB,
                                           .has_output = true,
                                           .edits = blocks,
                                           .n_edits = 2};
    struct gguf_writer *file = tiny_model_new(&description);
    tensors->n = 0;
    fill(tensors, kind);
    for (int32_t i = 0; i < tensors->n; i++) {
        const struct dl_tensor *tensor = &tensors->items[i];
        char name[96];
        int64_t dims[2] = {tensor->cols, tensor->rows};
        rename_tensor(name, sizeof name, GGUF, tensor->name);
        if (!is_name(drop, name)) {
            gguf_put_tensor(file, name, GGML_F32, tensor->rows ? 2 : 1, dims, tensor->data,
                            sizeof(float) * (size_t)(tensor->rows ? tensor->rows : 1) *
                                (size_t)tensor->cols);
        }
    }
    return file;
}

static struct cop_part *new_mtp(const char *path, bool is_raw)
{
    struct cop_part *part = set_string(new_part(COP_PLUG_PROPOSER, "mtp"), "path", path);
    (void)set_string(part, "hidden", is_raw ? "raw" : "normed");
    return ready(set_number(part, "depth", DEPTH));
}

/* A target with proposers from files that stay until the end; tensors to compare with. */
struct bench {
    const struct kind *kind;
    struct cop_model *target;
    struct cop_part *mtp, *twin;
    struct dl_tensors tensors;
    struct head_folder *folder;
    struct gguf_writer *file;
};

static void open_bench(struct bench *bench, const struct kind *kind)
{
    struct cop_model_options options = {.kv_f32 = true, .threads = 1};
    struct cop_error err = {0};
    const char *path;
    *bench = (struct bench){.kind = kind};
    if (kind->layout == GGUF) {
        bench->file = new_gguf(&bench->tensors, kind, NULL);
        options.path = path = gguf_save(bench->file);
        cr_assert_eq(cop_model_open(&bench->target, &options, &err), COP_OK, "%s", err.text);
    } else {
        struct tiny_model description = {
            .seed = 7, .hidden = DL_WIDTH, .vocab = VOCAB, .has_output = true};
        bench->target = open_model(tiny_model_new(&description), options);
        bench->folder = new_folder(&bench->tensors, kind, (struct fault){0});
        path = head_folder_path(bench->folder);
    }
    cr_assert_eq(cop_model_info(bench->target)->layers, LAYERS);
    bench->mtp = new_mtp(path, kind->is_raw);
    bench->twin = new_mtp(path, kind->is_raw);
}

static void close_bench(struct bench *bench)
{
    cop_part_free(bench->mtp);
    cop_part_free(bench->twin);
    cop_model_free(bench->target);
    dl_free(&bench->tensors);
    if (bench->folder) {
        head_folder_free(bench->folder);
    }
    gguf_writer_free(bench->file);
}

/* ---- The formulas in double -------------------------------------------------------------- */

static const float *data_of(const struct bench *bench, int32_t k, const char *name)
{
    char prefix[32];
    (void)snprintf(prefix, sizeof prefix, "model.layers.%d.", LAYERS + k);
    return dl_data(&bench->tensors, prefix, name);
}

/* x becomes y of module k's row at `position` with this token. */
static void step(const struct bench *bench, int32_t k, cop_token token, int32_t position,
                 struct dl_keys *keys, double *x)
{
    double embedded[DL_WIDTH], joined[2 * DL_WIDTH], normed[DL_WIDTH];
    char prefix[32];
    const float *table = data_of(bench, k, "embed_tokens.weight");
    (void)snprintf(prefix, sizeof prefix, "model.layers.%d.", LAYERS + k);
    embed_in_double(bench->target, token, embedded);
    for (int32_t i = 0; table && i < DL_WIDTH; i++) {
        embedded[i] = (double)table[token * DL_WIDTH + i];
    }
    dl_norm(data_of(bench, k, "enorm.weight"), embedded, DL_WIDTH, joined);
    dl_norm(data_of(bench, k, "hnorm.weight"), x, DL_WIDTH, joined + DL_WIDTH);
    dl_apply(data_of(bench, k, "eh_proj.weight"), joined, DL_WIDTH, 2 * DL_WIDTH, x);
    dl_norm(data_of(bench, k, "input_layernorm.weight"), x, DL_WIDTH, normed);
    dl_remember(&bench->tensors, prefix, normed, DL_WIDTH, position, keys, position);
    dl_layer(&bench->tensors, prefix, normed, DL_WIDTH, position, keys, 0, position + 1, x);
}

static void law(const struct bench *bench, int32_t k, const double *y, double temperature,
                double *out)
{
    double normed[DL_WIDTH];
    const float *head = data_of(bench, k, "shared_head.head.weight");
    dl_norm(data_of(bench, k, "shared_head.norm.weight"), y, DL_WIDTH, normed);
    if (head) {
        dl_apply(head, normed, VOCAB, DL_WIDTH, out);
    } else {
        float states[DL_WIDTH], logits[VOCAB];
        for (int32_t i = 0; i < DL_WIDTH; i++) {
            states[i] = (float)normed[i];
        }
        cr_assert_eq(cop_model_head(bench->target, states, 1, logits, NULL), COP_OK);
        for (int32_t i = 0; i < VOCAB; i++) {
            out[i] = (double)logits[i];
        }
    }
    soft_max(out, VOCAB, temperature);
}

/* The law of what follows text[0..n + depth), of which the last `depth` tokens are drafted: the
 * module of that depth over the whole text, and the last one alone beyond. */
static void law_after(const struct bench *bench, const cop_token *text, int32_t n,
                      int32_t depth, double temperature, double *out)
{
    static double h[PROMPT][DL_WIDTH];
    static struct dl_keys keys;
    int32_t last = bench->kind->n_modules - 1, k = depth < last ? depth : last;
    double *states =
        states_of(bench->target, bench->kind->is_raw ? LAYERS : COP_HIDDEN_NORMED, text, n - 1);
    double x[DL_WIDTH];
    memcpy(h, states, (size_t)(n - 1) * sizeof h[0]);
    free(states);
    for (int32_t m = 0; m <= k; m++) {
        for (int32_t i = 0; i < n - 1; i++) {
            step(bench, m, text[i + m + 1], i, &keys, h[i]);
        }
    }
    memcpy(x, h[n - 2], sizeof x);
    for (int32_t i = n - 1; i + k + 1 < n + depth; i++) {
        step(bench, k, text[i + k + 1], i, &keys, x);
    }
    law(bench, k, x, temperature, out);
}

Test(propose_mtp, rows_are_those_of_the_formulas, .timeout = 60)
{
    static const int32_t lengths[] = {PROMPT, 2, 3};
    struct cop_part *widths = new_widths((const int32_t[]){3, 2, 1, 2, 1}, DEPTH);
    for (int32_t i = 0; i < 3 * KINDS; i++) {
        static struct draft draft;
        static struct bench bench;
        cop_token text[PROMPT + DEPTH];
        int32_t n = lengths[i % 3];
        double temperature = i % 2 ? 0.7 : 1;
        open_bench(&bench, &kinds[i / 3]);
        random_prompt(text, n, VOCAB, (uint64_t)i);
        draft_once(&draft, bench.mtp, widths, bench.target, text, n,
                   i % 2 ? COP_DRAW_INDEPENDENT : COP_DRAW_DETERMINISTIC, temperature);
        cr_assert_eq(draft.tree.size, 1 + 3 + 6 + 6 + 12 + 12);
        for (int32_t node = 1; node < draft.tree.size; node++) {
            int32_t path[DEPTH], depth = cop_tree_path(&draft.tree, node, path);
            double expected[VOCAB];
            for (int32_t d = 0; d < depth; d++) {
                text[n + d] = draft.tree.token[path[d]];
            }
            law_after(&bench, text, n, depth - 1, temperature, expected);
            double wanted = expected[draft.tree.token[node]];
            cr_expect_float_eq(draft.probabilities[node], wanted, 2e-5,
                               "kind %d, prompt of %d, node %d of depth %d: %.7f, expected "
                               "%.7f",
                               i / 3, n, node, depth, draft.probabilities[node], wanted);
        }
        cop_tree_release(&draft.tree);
        close_bench(&bench);
    }
    cop_part_free(widths);
}

/* ---- In the engine ----------------------------------------------------------------------- */

Test(propose_mtp, reduced_vocabularies_narrow_the_law)
{
    for (int32_t i = 0; i < KINDS; i++) {
        static struct bench bench;
        open_bench(&bench, &kinds[i]);
        if (bench.folder) {
            expect_narrowed(bench.target, "mtp", head_folder_path(bench.folder));
        }
        close_bench(&bench);
    }
}

Test(propose_mtp, live_rows_equal_rebuilt_rows, .timeout = 60)
{
    static const int32_t chosen[] = {0, 3, 7};
    for (int32_t i = 0; i < 3; i++) {
        static struct bench bench;
        open_bench(&bench, &kinds[chosen[i]]);
        struct cop_part *builder = new_widths((const int32_t[]){30, 6, 1, 1}, 4);
        expect_live_is_rebuilt(bench.target, bench.mtp, bench.twin, builder);
        cop_part_free(builder);
        close_bench(&bench);
    }
}

Test(propose_mtp, answers_are_those_of_plain_decoding, .timeout = 60)
{
    for (int32_t i = 0; i < KINDS; i++) {
        static struct bench bench;
        open_bench(&bench, &kinds[i]);
        struct cop_part *builders[] = {
            NULL, new_widths((const int32_t[]){16, 2, 2}, 3),
            ready(new_part(COP_PLUG_BUILDER, "expand_rerank")),
            ready(set_number(new_part(COP_PLUG_BUILDER, "best_first"), "budget", 40)),
            ready(new_part(COP_PLUG_BUILDER, "beam_search"))};
        expect_plain_answers(bench.target, bench.mtp, builders, 5);
        close_bench(&bench);
    }
}

Test(propose_mtp, q8_0_drafts_nearly_the_same, .timeout = 60)
{
    for (int32_t i = 0; i < KINDS; i++) {
        static struct bench bench;
        open_bench(&bench, &kinds[i]);
        if (bench.folder) {
            expect_q8_0(bench.target, "mtp", head_folder_path(bench.folder));
        }
        close_bench(&bench);
    }
}

Test(propose_mtp, answers_have_the_law_of_the_target, .timeout = 60)
{
    static struct bench bench;
    struct cop_model *target = open_law_target(LAYERS, DL_WIDTH, VOCAB);
    open_bench(&bench, &kinds[3]);
    expect_target_law(target, bench.mtp);
    cop_model_free(target);
    close_bench(&bench);
}

/* Own depth: a token for each module, or as many as are asked for. */
Test(propose_mtp, drafts_a_token_for_each_module)
{
    for (int32_t i = 0; i < 4; i++) {
        static struct draft draft;
        static struct bench bench;
        cop_token prompt[PROMPT];
        open_bench(&bench, &kinds[i]);
        random_prompt(prompt, PROMPT, VOCAB, 5);
        draft_once(&draft, bench.mtp, NULL, bench.target, prompt, PROMPT,
                   COP_DRAW_DETERMINISTIC, 0);
        cr_expect_eq(draft.tree.size, DEPTH + 1);
        cop_tree_release(&draft.tree);
        struct cop_part *part = ready(set_string(new_part(COP_PLUG_PROPOSER, "mtp"), "path",
                                                 head_folder_path(bench.folder)));
        draft_once(&draft, part, NULL, bench.target, prompt, PROMPT, COP_DRAW_DETERMINISTIC, 0);
        cr_expect_eq(draft.tree.size, kinds[i].n_modules + 1);
        cop_tree_release(&draft.tree);
        cop_part_free(part);
        close_bench(&bench);
    }
}

/* ---- Files that lie ---------------------------------------------------------------------- */

static void refuse(struct kind kind, struct fault fault, enum cop_status code,
                   const char *expected)
{
    static struct dl_tensors tensors;
    struct cop_model *target =
        open_tiny((struct tiny_model){.seed = 7, .hidden = DL_WIDTH, .vocab = VOCAB});
    struct head_folder *folder = new_folder(&tensors, &kind, fault);
    expect_refused("mtp", head_folder_path(folder), target, code, expected);
    head_folder_free(folder);
    dl_free(&tensors);
    cop_model_free(target);
}

Test(propose_mtp, refuses_what_is_missing_or_misshapen)
{
    const struct kind one = kinds[0], own = kinds[1], two = kinds[2];
    refuse(one, (struct fault){.drop = "model.layers.2.eh_proj.weight"}, COP_ERR_FORMAT,
           "tensor \"model.layers.2.eh_proj.weight\" is missing");
    refuse(two, (struct fault){.drop = "model.layers.2.eh_proj.weight"}, COP_ERR_FORMAT,
           "tensor \"model.layers.2.eh_proj.weight\" is missing");
    refuse(two, (struct fault){.drop = "model.layers.3.eh_proj.weight"}, COP_ERR_FORMAT,
           "tensor \"model.layers.3.eh_proj.weight\" is missing");
    refuse(one, (struct fault){.drop = "model.layers.2.hnorm.weight"}, COP_ERR_FORMAT,
           "tensor \"model.layers.2.hnorm.weight\" is missing (an MTP module, expected shape "
           "[32])");
    refuse(two, (struct fault){.drop = "model.layers.3.shared_head.norm.weight"},
           COP_ERR_FORMAT, "tensor \"model.layers.3.shared_head.norm.weight\" is missing");
    refuse(one, (struct fault){.drop = "model.layers.2.self_attn.k_proj.weight"},
           COP_ERR_FORMAT, "tensor \"model.layers.2.self_attn.k_proj.weight\" is missing");
    refuse(one, (struct fault){.bend = "model.layers.2.eh_proj.weight"}, COP_ERR_FORMAT,
           "\"model.layers.2.eh_proj.weight\" has shape [31, 64], expected [32, 64]");
    refuse(own, (struct fault){.bend = "model.layers.2.shared_head.head.weight"},
           COP_ERR_FORMAT, "has shape [60, 32], expected [61, 32]");
    refuse(one, (struct fault){.spoil = "model.layers.2.mlp.up_proj.weight"}, COP_ERR_FORMAT,
           "\"model.layers.2.mlp.up_proj.weight\" has value nan at row 0, column 1");
    refuse(one, (struct fault){.spoil = "model.layers.2.enorm.weight"}, COP_ERR_FORMAT,
           "\"model.layers.2.enorm.weight\" has value nan");
    refuse(own, (struct fault){.spoil = "model.layers.2.embed_tokens.weight"}, COP_ERR_FORMAT,
           "\"model.layers.2.embed_tokens.weight\" has value nan");
    refuse(one, (struct fault){.extra = "model.layers.2.mlp.gate.weight"}, COP_ERR_UNSUPPORTED,
           "tensor \"model.layers.2.mlp.gate.weight\" has no place in an MTP module");
    refuse(kinds[5], (struct fault){.extra = "mtp.layers.1.mlp.up_proj.weight"},
           COP_ERR_UNSUPPORTED, "has no place in an MTP module");
    refuse(one, (struct fault){.config = "{\"model_type\": \"deepseek_v3\"}"},
           COP_ERR_UNSUPPORTED, "no architecture \"deepseek_v3\" here");
    refuse(one, (struct fault){.config = "[]"}, COP_ERR_FORMAT, "is not an object");
    /* The rest of a model is no stranger. */
    static struct dl_tensors tensors;
    struct head_folder *folder =
        new_folder(&tensors, &one, (struct fault){.extra = "model.layers.0.anything"});
    cop_part_free(new_mtp(head_folder_path(folder), false));
    head_folder_free(folder);
    dl_free(&tensors);
}

Test(propose_mtp, refuses_another_target)
{
    static struct dl_tensors tensors;
    struct head_folder *folder = new_folder(&tensors, &kinds[0], (struct fault){0});
    struct cop_model *wide =
        open_tiny((struct tiny_model){.seed = 7, .hidden = 64, .vocab = VOCAB});
    struct cop_model *other =
        open_tiny((struct tiny_model){.seed = 7, .hidden = DL_WIDTH, .vocab = 62});
    struct cop_model *deep = open_tiny((struct tiny_model){
        .seed = 7, .hidden = DL_WIDTH, .vocab = VOCAB, .layers = LAYERS + 1});
    const char *path = head_folder_path(folder);
    expect_refused("mtp", path, wide, COP_ERR_ARGUMENT,
                   "the modules were made for a target of hidden size 32; this one has 64");
    expect_refused("mtp", path, other, COP_ERR_ARGUMENT,
                   "made for a vocabulary of 61 tokens; the target has 62");
    expect_refused("mtp", path, deep, COP_ERR_ARGUMENT,
                   "the modules stand behind 2 layers of a target; this one has 3");
    cop_model_free(deep);
    head_folder_free(folder);
    dl_free(&tensors);
    cop_model_free(wide);
    cop_model_free(other);
}

Test(propose_mtp, warns_of_another_number_of_modules)
{
    static struct dl_tensors tensors;
    struct kind kind = kinds[2];
    kind.said = 1;
    struct head_folder *folder = new_folder(&tensors, &kind, (struct fault){0});
    struct cop_part *part =
        set_string(new_part(COP_PLUG_PROPOSER, "mtp"), "path", head_folder_path(folder));
    struct cop_error err = {0};
    cr_expect_eq(cop_part_prepare(part, &err), COP_OK, "%s", err.text);
    cr_expect_not_null(strstr(err.text, "\"num_nextn_predict_layers\" is 1, but by the tensors "
                                        "it is 2: the tensors are used"),
                       "%s", err.text);
    cop_part_free(part);
    head_folder_free(folder);
    dl_free(&tensors);
}

/* ---- Targets that have modules ----------------------------------------------------------- */

/* One folder as target and as proposer. */
Test(propose_mtp, a_folder_is_both)
{
    static struct bench bench;
    char config[1024], prefix[32];
    struct cop_error err = {0};
    struct cop_model_options options = {.threads = 1};
    bench = (struct bench){.kind = &kinds[2]};
    config_of(config, sizeof config, bench.kind);
    fill(&bench.tensors, bench.kind);
    dl_add(&bench.tensors, VOCAB, DL_WIDTH, "model.embed_tokens.weight");
    dl_add(&bench.tensors, VOCAB, DL_WIDTH, "lm_head.weight");
    dl_add(&bench.tensors, 0, DL_WIDTH, "model.norm.weight");
    for (int32_t i = 0; i < LAYERS; i++) {
        (void)snprintf(prefix, sizeof prefix, "model.layers.%d.", i);
        dl_add_layer(&bench.tensors, prefix, DL_WIDTH, false);
    }
    bench.folder = head_folder_new(config);
    dl_put(&bench.tensors, bench.folder, NULL);
    options.path = head_folder_save(bench.folder, "model.safetensors");
    cr_assert_eq(cop_model_open(&bench.target, &options, &err), COP_OK, "%s", err.text);
    bench.mtp = new_mtp(options.path, false);
    expect_plain_answers(bench.target, bench.mtp,
                         (struct cop_part *[]){new_widths((const int32_t[]){30, 4}, 2)}, 1);
    close_bench(&bench);
}

/* A file whose modules were taken out but are still counted is a model all the same. */
Test(propose_mtp, a_target_is_its_own_layers)
{
    static struct dl_tensors tensors;
    struct kind kind = kinds[6];
    struct gguf_writer *whole = new_gguf(&tensors, &kind, NULL);
    struct cop_model_options options = {.path = gguf_save(whole), .threads = 1};
    struct cop_model *model = NULL;
    struct cop_error err = {0};
    cr_assert_eq(cop_model_open(&model, &options, &err), COP_OK, "%s", err.text);
    cr_expect_eq(cop_model_info(model)->layers, LAYERS);
    cop_model_free(model);
    gguf_writer_free(whole);
    kind.n_modules = 0; /* the keys still say so */
    const struct tiny_edit edits[] = {
        {.fault = TINY_KEY_U32, .name = "llama.block_count", .integer = LAYERS + 1},
        {.fault = TINY_KEY_U32, .name = "llama.nextn_predict_layers", .integer = 1}};
    model = open_tiny(
        (struct tiny_model){.seed = 7, .layers = LAYERS, .edits = edits, .n_edits = 2});
    cr_expect_eq(cop_model_info(model)->layers, LAYERS);
    cop_model_free(model);
    dl_free(&tensors);
    /* Nor may a GGUF file lack a part of a module. */
    whole = new_gguf(&tensors, &kinds[6], "blk.2.nextn.shared_head_norm.weight");
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    expect_refused("mtp", gguf_save(whole), target, COP_ERR_FORMAT,
                   "tensor \"blk.2.nextn.shared_head_norm.weight\" is missing");
    gguf_writer_free(whole);
    dl_free(&tensors);
    whole = tiny_model_new(&(struct tiny_model){.seed = 7});
    expect_refused("mtp", gguf_save(whole), target, COP_ERR_FORMAT,
                   "none of the tensors \"blk.N.nextn.eh_proj.weight\"");
    gguf_writer_free(whole);
    cop_model_free(target);
}
