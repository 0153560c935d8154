/* EAGLE heads: what they draft is what the formulas say in double, what published parts drafted
 * elsewhere, and the same in the middle of an answer as from a fresh start. */
#include "tests/algorithms/engine/engine_bench.h"
#include "tests/algorithms/heads/tiny_head.h"
#include "tests/support/reference.h"

enum { VOCAB = 61, PROMPT = 12, DEPTH = 4 };

static struct cop_part *new_eagle(const char *folder, int32_t depth)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "eagle");
    return ready(set_number(set_string(part, "path", folder), "depth", depth));
}

struct draft {
    struct cop_tree tree;
    double probabilities[COP_TREE_LIMIT + 1];
};

/* What the head drafts after ids[0..n). */
static void draft_once(struct draft *draft, struct cop_part *eagle, struct cop_part *builder,
                       struct cop_model *target, const cop_token *ids, int32_t n)
{
    struct cop_error err = {0};
    const struct cop_proposer_env env = {.target = target,
                                         .vocab_size = cop_model_info(target)->vocab_size,
                                         .context = cop_model_info(target)->context,
                                         .sampling = COP_SAMPLING_DEFAULT};
    cr_assert_eq(cop_tree_init(&draft->tree, COP_TREE_LIMIT + 1, &err), COP_OK);
    cr_assert_eq(cop_propose_once(eagle, builder, COP_DRAW_DETERMINISTIC, &env, ids, n, 1,
                                  &draft->tree, draft->probabilities, NULL, NULL, &err),
                 COP_OK, "%s", err.text);
}

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
static void rotate(double *heads, int32_t n_heads, int32_t position)
{
    for (int32_t h = 0; h < n_heads; h++) {
        for (int32_t i = 0; i < TH_DIM / 2; i++) {
            double angle = position * pow(10000, -2.0 * i / TH_DIM);
            double *a = &heads[h * TH_DIM + i], *b = a + TH_DIM / 2, old = *a;
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
    cr_assert_eq(cop_model_embed(in->target, &token, 1, row, &err), COP_OK);
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
    if (in->head->version == 1) {
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
        apply(head_data(in->files, "lm_head.weight"), normed, n_ids, TH_WIDTH, own);
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
static float *states_of(struct cop_model *target, int32_t version, const cop_token *ids,
                        int32_t n)
{
    static const int32_t normed[] = {COP_HIDDEN_NORMED}, three[] = {0, 1, 2};
    struct cop_cache *cache = NULL;
    struct cop_error err = {0};
    struct cop_states states = {.layers = version == 1 ? normed : three,
                                .n_layers = version == 1 ? 1 : TH_TAPS};
    states.out = malloc((size_t)states.n_layers * (size_t)n * TH_WIDTH * sizeof(float));
    cr_assert_eq(cop_model_cache_new(target, 1, 64, &cache, &err), COP_OK);
    cr_assert_eq(cop_model_prefill_states(target, cache, 0, ids, n, &states, NULL, &err),
                 COP_OK, "%s", err.text);
    cop_cache_free(cache);
    return states.out;
}

/* Every node of the tree against the formulas along its own path. */
static void compare(struct formulas *in, const struct draft *draft, const cop_token *ids)
{
    int32_t n_taps = in->head->version == 1 ? 1 : TH_TAPS, n = PROMPT - 1;
    float *states = states_of(in->target, in->head->version, ids, n);
    double x[TH_WIDTH], root[TH_WIDTH] = {0};
    for (int32_t j = 0; j < n; j++) {
        double taps[TH_TAPS * TH_WIDTH];
        for (int32_t i = 0; i < n_taps * TH_WIDTH; i++) {
            taps[i] = (double)states[(i / TH_WIDTH * n + j) * TH_WIDTH + i % TH_WIDTH];
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

static struct cop_model *open_target(uint64_t seed)
{
    struct tiny_model description = {.seed = seed, .hidden = TH_WIDTH, .vocab = VOCAB};
    return open_model(tiny_model_new(&description), (struct cop_model_options){.kv_f32 = true});
}

static const struct tiny_head heads[] = {
    {.version = 1, .seed = 1, .vocab = VOCAB},
    {.version = 1, .seed = 2, .vocab = VOCAB, .has_bias = true, .has_embedding = true},
    {.version = 3, .seed = 3, .vocab = VOCAB, .n_ids = 20},
    {.version = 3, .seed = 4, .vocab = VOCAB},
    {.version = 3, .seed = 5, .vocab = VOCAB, .n_ids = 40, .norm_before_residual = true},
    {.version = 3,
     .seed = 6,
     .vocab = VOCAB,
     .n_ids = 40,
     .norm_output = true,
     .is_speculators = true},
    {.version = 3, .seed = 7, .vocab = VOCAB, .n_ids = 40, .has_tap_norm = true},
    {.version = 3,
     .seed = 8,
     .vocab = VOCAB,
     .has_tap_norms = true,
     .has_embedding = true,
     .has_bias = true},
};
enum { N_HEADS = sizeof heads / sizeof *heads };

Test(propose_eagle, rows_are_those_of_the_formulas)
{
    struct cop_model *target = open_target(3);
    struct cop_part *widths = new_widths((const int32_t[]){3, 2, 2, 1}, DEPTH);
    for (int32_t i = 0; i < N_HEADS; i++) {
        static struct head_files files;
        static struct draft draft;
        static struct formulas in;
        cop_token prompt[PROMPT];
        head_write(&files, &heads[i]);
        random_prompt(prompt, PROMPT, VOCAB, (uint64_t)i);
        struct cop_part *eagle = new_eagle(files.folder, DEPTH);
        draft_once(&draft, eagle, widths, target, prompt, PROMPT);
        cr_assert_eq(draft.tree.size, 1 + 3 + 6 + 12 + 12);
        in = (struct formulas){.head = &heads[i], .files = &files, .target = target};
        compare(&in, &draft, prompt);
        cop_tree_release(&draft.tree);
        cop_part_free(eagle);
        head_remove(&files);
    }
    cop_part_free(widths);
    cop_model_free(target);
}

/* ---- llama.cpp's files ------------------------------------------------------------------- */

struct gguf_fault {
    const char *drop;    /* key or tensor left out */
    int64_t id;          /* added to d2t[1] */
    const char *kind;    /* general.architecture */
    const char *scaling; /* eagle3.rope.scaling.type */
    bool has_factors, spoils;
};

static const struct {
    const char *name, *own;
} gguf_names[] = {
    {"fc.weight", "fc.weight"},
    {"norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"embed_tokens.weight", "token_embd.weight"},
    {"midlayer.input_layernorm.weight", "blk.0.attn_norm.weight"},
    {"midlayer.hidden_norm.weight", "blk.0.attn_norm_2.weight"},
    {"midlayer.self_attn.q_proj.weight", "blk.0.attn_q.weight"},
    {"midlayer.self_attn.k_proj.weight", "blk.0.attn_k.weight"},
    {"midlayer.self_attn.v_proj.weight", "blk.0.attn_v.weight"},
    {"midlayer.self_attn.o_proj.weight", "blk.0.attn_output.weight"},
    {"midlayer.post_attention_layernorm.weight", "blk.0.ffn_norm.weight"},
    {"midlayer.mlp.gate_proj.weight", "blk.0.ffn_gate.weight"},
    {"midlayer.mlp.up_proj.weight", "blk.0.ffn_up.weight"},
    {"midlayer.mlp.down_proj.weight", "blk.0.ffn_down.weight"},
};

static bool is_kept(const struct gguf_fault *fault, const char *name)
{
    return !fault->drop || strcmp(fault->drop, name) != 0;
}

/* Rows of q and k so that a pair that is rotated together stands side by side. */
static void pair_rows(const struct head_tensor *tensor, float *out)
{
    for (int32_t row = 0; row < tensor->rows; row++) {
        int32_t head = row / TH_DIM, at = row % TH_DIM;
        int32_t from = head * TH_DIM + at / 2 + (at % 2) * TH_DIM / 2;
        memcpy(out + (size_t)row * (size_t)tensor->cols,
               tensor->data + (size_t)from * (size_t)tensor->cols,
               (size_t)tensor->cols * sizeof *out);
    }
}

static void put_gguf_tensor(struct gguf_writer *w, const struct head_tensor *tensor,
                            const char *name, const struct gguf_fault *fault)
{
    static float data[VOCAB * 3 * TH_WIDTH];
    size_t count = (size_t)(tensor->rows > 0 ? tensor->rows : 1) * (size_t)tensor->cols;
    bool is_rotated = strstr(name, "attn_q.") || strstr(name, "attn_k.");
    cr_assert_leq(count, sizeof data / sizeof *data);
    memcpy(data, tensor->data, count * sizeof *data);
    if (is_rotated) {
        pair_rows(tensor, data);
    }
    if (fault->spoils && strstr(name, "ffn_up")) {
        data[count - 1] = NAN;
    }
    gguf_put_tensor(w, name, GGML_F32, tensor->rows > 0 ? 2 : 1,
                    (int64_t[]){tensor->cols, tensor->rows}, data, count * sizeof *data);
}

static struct gguf_writer *as_gguf(const struct head_files *files, const struct tiny_head *head,
                                   const struct gguf_fault *fault)
{
    static const struct {
        const char *key;
        uint32_t value;
    } keys[] = {{"eagle3.block_count", 1},
                {"eagle3.embedding_length", TH_WIDTH},
                {"eagle3.feed_forward_length", TH_FFN},
                {"eagle3.attention.head_count", TH_HEADS},
                {"eagle3.attention.head_count_kv", TH_KV},
                {"eagle3.attention.key_length", TH_DIM},
                {"eagle3.target_hidden_size", TH_WIDTH},
                {"eagle3.vocab_size", VOCAB}};
    struct gguf_writer *w = gguf_writer_new();
    gguf_put_string(w, "general.architecture", fault->kind ? fault->kind : "eagle3");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (is_kept(fault, keys[i].key)) {
            gguf_put_u32(w, keys[i].key, keys[i].value);
        }
    }
    gguf_put_f32(w, "eagle3.attention.layer_norm_rms_epsilon", 1e-5F);
    if (is_kept(fault, "eagle3.extract_layers")) {
        gguf_put_array(w, "eagle3.extract_layers", GGUF_I32, (int32_t[]){0, 1, 2}, 3);
    }
    gguf_put_bool(w, "eagle3.norm_before_residual", head->norm_before_residual);
    if (fault->scaling) {
        gguf_put_string(w, "eagle3.rope.scaling.type", fault->scaling);
    }
    for (int32_t i = 0; i < files->n; i++) {
        for (size_t j = 0; j < sizeof gguf_names / sizeof *gguf_names; j++) {
            if (strcmp(files->tensors[i].name, gguf_names[j].name) == 0 &&
                is_kept(fault, gguf_names[j].own)) {
                put_gguf_tensor(w, &files->tensors[i], gguf_names[j].own, fault);
            }
        }
    }
    if (fault->has_factors) {
        gguf_put_tensor(w, "rope_freqs.weight", GGML_F32, 1, (int64_t[]){TH_DIM / 2},
                        (float[]){1, 2, 4, 8}, TH_DIM / 2 * sizeof(float));
    }
    int64_t ids[512];
    for (int32_t i = 0; i < head->n_ids; i++) {
        ids[i] = files->ids[i] + (i == 1 ? fault->id : 0);
    }
    if (head->n_ids > 0 && is_kept(fault, "d2t")) {
        gguf_put_tensor(w, "d2t", 27, 1, (int64_t[]){head->n_ids}, ids,
                        (size_t)head->n_ids * sizeof *ids);
    }
    return w;
}

/* The same numbers in a folder and in a GGUF file draft the same. */
Test(propose_eagle, gguf_files_are_the_same_heads)
{
    static const struct tiny_head forms[] = {
        {.version = 3, .seed = 3, .vocab = VOCAB, .n_ids = 20},
        {.version = 3, .seed = 4, .vocab = VOCAB},
        {.version = 3, .seed = 5, .vocab = VOCAB, .n_ids = 40, .norm_before_residual = true},
        {.version = 3, .seed = 8, .vocab = VOCAB, .has_embedding = true}};
    struct cop_model *target = open_target(3);
    struct cop_part *widths = new_widths((const int32_t[]){3, 2, 2, 1}, DEPTH);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        static struct head_files files;
        static struct draft folder, gguf;
        cop_token prompt[PROMPT];
        head_write(&files, &forms[i]);
        random_prompt(prompt, PROMPT, VOCAB, (uint64_t)i);
        struct gguf_writer *w = as_gguf(&files, &forms[i], &(struct gguf_fault){.id = 0});
        struct cop_part *one = new_eagle(files.folder, DEPTH);
        struct cop_part *other = new_eagle(gguf_save(w), DEPTH);
        draft_once(&folder, one, widths, target, prompt, PROMPT);
        draft_once(&gguf, other, widths, target, prompt, PROMPT);
        cr_assert_eq(gguf.tree.size, 1 + 3 + 6 + 12 + 12);
        for (int32_t node = 1; node < folder.tree.size; node++) {
            cr_expect_eq(gguf.tree.token[node], folder.tree.token[node], "%zu: %d", i, node);
            cr_expect_float_eq(gguf.probabilities[node], folder.probabilities[node], 1e-6);
        }
        cop_tree_release(&folder.tree);
        cop_tree_release(&gguf.tree);
        cop_part_free(one);
        cop_part_free(other);
        gguf_writer_free(w);
        head_remove(&files);
    }
    cop_part_free(widths);
    cop_model_free(target);
}

static void refuse_gguf(struct gguf_fault fault, const char *text)
{
    static const struct tiny_head form = {.version = 3, .seed = 3, .vocab = VOCAB, .n_ids = 20};
    static struct head_files files;
    struct cop_error err = {.text = ""};
    struct cop_model *target = open_target(3);
    head_write(&files, &form);
    struct gguf_writer *w = as_gguf(&files, &form, &fault);
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "eagle");
    const struct cop_proposer_env env = {.target = target,
                                         .vocab_size = VOCAB,
                                         .context = 512,
                                         .n_sequences = 1,
                                         .capacity = 8,
                                         .sampling = COP_SAMPLING_DEFAULT};
    void *session = NULL;
    enum cop_status status = cop_part_prepare(set_string(part, "path", gguf_save(w)), &err);
    if (status == COP_OK) {
        status = ((const struct cop_proposer_ops *)part->plug)
                     ->open(part->state, &env, &session, &err);
    }
    cr_expect_neq(status, COP_OK);
    cr_expect_not_null(strstr(err.text, text), "\"%s\" lacks \"%s\"", err.text, text);
    cop_part_free(part);
    gguf_writer_free(w);
    head_remove(&files);
    cop_model_free(target);
}

Test(propose_eagle, gguf_files_that_lie_are_refused)
{
    refuse_gguf((struct gguf_fault){.kind = "llama"},
                "\"general.architecture\" is \"llama\"; a head of EAGLE says eagle3");
    refuse_gguf((struct gguf_fault){.drop = "eagle3.extract_layers"},
                "has no key \"eagle3.extract_layers\"");
    refuse_gguf((struct gguf_fault){.drop = "eagle3.embedding_length"},
                "has no key \"eagle3.embedding_length\"");
    refuse_gguf((struct gguf_fault){.drop = "eagle3.vocab_size"},
                "has no key \"eagle3.vocab_size\"");
    refuse_gguf((struct gguf_fault){.drop = "blk.0.attn_q.weight"},
                "tensor \"blk.0.attn_q.weight\" is missing");
    refuse_gguf((struct gguf_fault){.drop = "blk.0.attn_norm_2.weight"},
                "tensor \"blk.0.attn_norm_2.weight\" is missing");
    refuse_gguf((struct gguf_fault){.drop = "d2t"}, "tensor \"d2t\" is missing");
    refuse_gguf((struct gguf_fault){.id = 60}, "\"d2t\" has id 63 at 1: ids must rise");
    refuse_gguf((struct gguf_fault){.scaling = "yarn"},
                "\"eagle3.rope.scaling.type\" is \"yarn\"");
    refuse_gguf((struct gguf_fault){.spoils = true}, "\"blk.0.ffn_up.weight\" has value nan");
}

/* Rotary factors of the file's own change what is drafted. */
Test(propose_eagle, gguf_rotary_factors_count)
{
    static const struct tiny_head form = {.version = 3, .seed = 3, .vocab = VOCAB, .n_ids = 20};
    static struct head_files files;
    static struct draft drafts[2];
    cop_token prompt[PROMPT];
    struct cop_model *target = open_target(3);
    head_write(&files, &form);
    random_prompt(prompt, PROMPT, VOCAB, 1);
    for (int32_t i = 0; i < 2; i++) {
        struct gguf_writer *w =
            as_gguf(&files, &form, &(struct gguf_fault){.has_factors = i > 0});
        struct cop_part *eagle = new_eagle(gguf_save(w), 1);
        draft_once(&drafts[i], eagle, NULL, target, prompt, PROMPT);
        cop_part_free(eagle);
        gguf_writer_free(w);
    }
    cr_expect_float_neq(drafts[0].probabilities[1], drafts[1].probabilities[1], 1e-6);
    cop_tree_release(&drafts[0].tree);
    cop_tree_release(&drafts[1].tree);
    head_remove(&files);
    cop_model_free(target);
}

/* ---- In the middle of an answer ---------------------------------------------------------- */

struct watched {
    struct cop_part *eagle, *builder;
    struct cop_model *target;
    cop_token text[800];
    int32_t n, n_accepted, n_compared;
};

/* What the live head drafted is what a head would that has just read the committed text. */
static enum cop_status rebuild(void *user, const struct cop_cycle *cycle, struct cop_error *err)
{
    static struct draft fresh;
    struct watched *watched = user;
    (void)err;
    draft_once(&fresh, watched->eagle, watched->builder, watched->target, watched->text,
               watched->n);
    for (int32_t node = 1; node < cycle->tree->size; node++) {
        cr_assert_eq(cycle->tree->token[node], fresh.tree.token[node]);
        cr_assert_eq(cycle->draft_logprob[node], cop_log(fresh.probabilities[node]),
                     "cycle %d, node %d", cycle->cycle, node);
        watched->n_compared++;
    }
    cop_tree_release(&fresh.tree);
    for (int32_t i = 0; i < cycle->n_accepted; i++) {
        watched->text[watched->n++] = cycle->tree->token[cycle->accepted[i]];
    }
    watched->text[watched->n++] = cycle->last;
    watched->n_accepted += cycle->n_accepted;
    return COP_OK;
}

static void ignore_result(void *user, struct cop_result *result)
{
    (void)user;
    cr_assert_eq(result->error.code, COP_OK, "%s", result->error.text);
    cop_result_release(result);
}

Test(propose_eagle, live_rows_equal_rebuilt_rows)
{
    static const int32_t prompts[] = {12, 1, 300}, chosen[] = {0, 4};
    struct cop_model *target = open_target(5);
    for (int32_t h = 0; h < 2; h++) {
        static struct head_files files;
        static struct watched watched[3];
        head_write(&files, &heads[chosen[h]]);
        struct cop_engine_options options = {.target = target,
                                             .batch = 2,
                                             .proposer = new_eagle(files.folder, DEPTH),
                                             .builder =
                                                 new_widths((const int32_t[]){24, 6, 1}, 3)};
        struct cop_part *twin = new_eagle(files.folder, DEPTH);
        struct cop_engine *engine = new_engine(&options);
        struct cop_error err = {0};
        int32_t n_accepted = 0;
        for (int32_t i = 0; i < 3; i++) {
            watched[i] = (struct watched){
                .eagle = twin, .builder = options.builder, .target = target, .n = prompts[i]};
            random_prompt(watched[i].text, prompts[i], VOCAB, 40 + (uint64_t)i);
            struct cop_request request = {.prompt = watched[i].text,
                                          .n_prompt = prompts[i],
                                          .max_tokens = 40,
                                          .logprobs = -1,
                                          .user = &watched[i],
                                          .on_cycle = rebuild};
            cr_assert_eq(cop_engine_submit(engine, &request, ignore_result, &err), COP_OK);
        }
        cr_assert_eq(cop_engine_run(engine, &err), COP_OK, "%s", err.text);
        for (int32_t i = 0; i < 3; i++) {
            cr_expect_gt(watched[i].n_compared, 100);
            n_accepted += watched[i].n_accepted;
        }
        cr_expect_gt(n_accepted, 20);
        cop_engine_free(engine);
        cop_part_free(twin);
        cop_part_free(options.proposer);
        cop_part_free(options.builder);
        head_remove(&files);
    }
    cop_model_free(target);
}

Test(propose_eagle, answers_are_those_of_plain_decoding)
{
    struct cop_model *target = open_target(6);
    const struct cop_engine_options plain = {.target = target};
    struct cop_part *builders[] = {NULL, new_widths((const int32_t[]){8, 2, 2}, 3),
                                   ready(new_part(COP_PLUG_BUILDER, "expand_rerank"))};
    for (int32_t h = 0; h < N_HEADS; h++) {
        static struct head_files files;
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
        head_remove(&files);
    }
    for (size_t b = 1; b < 3; b++) {
        cop_part_free(builders[b]);
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
    static struct trial with, without;
    cop_token prompt[PROMPT];
    head_write(&files, &heads[2]);
    const struct cop_engine_options plain = {.target = target};
    struct cop_engine_options options = {.target = target,
                                         .proposer = new_eagle(files.folder, 9)};
    random_prompt(prompt, PROMPT, VOCAB, 2);
    trial_init(&with, prompt, PROMPT, 500);
    trial_init(&without, prompt, PROMPT, 500);
    run_trials(&options, &with, 1);
    run_trials(&plain, &without, 1);
    expect_equal_tokens(&with.result, &without.result, "eagle");
    cr_expect_eq(with.result.n_tokens, 64 - PROMPT);
    trial_release(&with);
    trial_release(&without);
    cop_part_free(options.proposer);
    head_remove(&files);
    cop_model_free(target);
}

/* ---- Bad files --------------------------------------------------------------------------- */

static void expect_refused(struct tiny_head head, enum cop_status code, const char *text)
{
    static struct head_files files;
    struct cop_error err = {0};
    head_write(&files, &head);
    struct cop_part *part =
        set_string(new_part(COP_PLUG_PROPOSER, "eagle"), "path", files.folder);
    cr_expect_eq(cop_part_prepare(part, &err), code, "%s", text);
    cr_expect_not_null(strstr(err.text, text), "\"%s\" lacks \"%s\"", err.text, text);
    cop_part_free(part);
    head_remove(&files);
}

Test(propose_eagle, refuses_what_is_missing_or_misshapen)
{
    struct tiny_head head = heads[2];
    head.drop = "fc.weight";
    expect_refused(
        head, COP_ERR_FORMAT,
        "tensor \"fc.weight\" is missing (an EAGLE-3 head, expected shape [32, 96])");
    head.drop = "midlayer.self_attn.k_proj.weight";
    expect_refused(head, COP_ERR_FORMAT,
                   "\"midlayer.self_attn.k_proj.weight\" is missing (architecture llama, "
                   "expected shape [16, 64])");
    head.drop = "midlayer.hidden_norm.weight";
    expect_refused(head, COP_ERR_FORMAT, "\"midlayer.hidden_norm.weight\" is missing");
    head.drop = "d2t";
    expect_refused(head, COP_ERR_FORMAT, "tensor \"d2t\" is missing: 20 of 61 ids");
    head.drop = NULL;
    head.bend = "midlayer.self_attn.q_proj.weight";
    expect_refused(head, COP_ERR_FORMAT, "has shape [31, 64], expected [32, 64]");
    head.bend = "norm.weight";
    expect_refused(head, COP_ERR_FORMAT,
                   "tensor \"norm.weight\" has shape [31], expected [32]");
    head.bend = "lm_head.weight";
    expect_refused(head, COP_ERR_FORMAT,
                   "tensor \"d2t\" has shape [20] and type I64, expected [19] and I64");
    head.bend = NULL;
    head.extra = "layers.1.weight";
    expect_refused(head, COP_ERR_UNSUPPORTED,
                   "tensor \"layers.1.weight\" has no place in an EAGLE-3 head");
    head.extra = NULL;
    head.offset = -3;
    expect_refused(head, COP_ERR_FORMAT, "\"d2t\" has offset -1 at 1: ids must rise");
    head.offset = 1;
    expect_refused(head, COP_ERR_FORMAT, "\"t2d\" and \"d2t\" disagree about id 3");
    head.offset = INT64_MAX - 10;
    expect_refused(head, COP_ERR_FORMAT, "at 1: ids must rise and stay below 61");
    head = heads[0];
    head.drop = "layers.0.post_attention_layernorm.weight";
    expect_refused(head, COP_ERR_FORMAT, "post_attention_layernorm.weight\" is missing");
    head.drop = NULL;
    head.extra = "layers.0.input_layernorm.weight";
    expect_refused(head, COP_ERR_UNSUPPORTED, "has no place in an EAGLE-1 head");
}

Test(propose_eagle, refuses_configurations)
{
    struct tiny_head head = heads[2];
    head.config = "[1]";
    expect_refused(head, COP_ERR_FORMAT, "config.json: is not an object");
    head.config = "{\"model_type\": \"llama\"}";
    expect_refused(head, COP_ERR_FORMAT, "\"num_hidden_layers\" is missing");
    head.config = "{\"speculators_model_type\": \"dflash\"}";
    expect_refused(head, COP_ERR_UNSUPPORTED,
                   "\"speculators_model_type\" is \"dflash\"; known are eagle3 and peagle");
    struct cop_error err = {0};
    struct cop_part *part =
        set_string(new_part(COP_PLUG_PROPOSER, "eagle"), "path", "/nowhere/at/all");
    cr_expect_eq(cop_part_prepare(part, &err), COP_ERR_IO);
    cop_part_free(part);
}

/* What only shows beside a target. */
static void expect_unfit(const struct tiny_head *head, struct tiny_model target,
                         enum cop_status code, const char *text)
{
    static struct head_files files;
    struct cop_error err = {0};
    struct cop_engine *engine = NULL;
    head_write(&files, head);
    struct cop_model *model = open_tiny(target);
    struct cop_engine_options options = {.target = model,
                                         .batch = 1,
                                         .registry = registry(),
                                         .sampling = COP_SAMPLING_DEFAULT,
                                         .proposer = new_eagle(files.folder, 2)};
    cr_expect_eq(cop_engine_new(&engine, &options, &err), code);
    cr_expect_not_null(strstr(err.text, text), "\"%s\" lacks \"%s\"", err.text, text);
    cr_expect_null(engine);
    cop_part_free(options.proposer);
    cop_model_free(model);
    head_remove(&files);
}

Test(propose_eagle, refuses_another_target)
{
    struct tiny_model fitting = {.seed = 1, .hidden = TH_WIDTH, .vocab = VOCAB},
                      other = fitting;
    other.hidden = 64;
    expect_unfit(&heads[0], other, COP_ERR_ARGUMENT,
                 "made for a target of hidden size 32; this one has 64");
    expect_unfit(&heads[2], other, COP_ERR_ARGUMENT, "hidden size 32; this one has 64");
    other = fitting;
    other.vocab = 62;
    expect_unfit(&heads[2], other, COP_ERR_ARGUMENT,
                 "made for a vocabulary of 61 tokens; the target has 62");
    other = fitting;
    other.layers = 1;
    expect_unfit(&heads[2], other, COP_ERR_ARGUMENT,
                 "\"eagle\" needs the output of layer 2; the target has 1 layers");
    struct tiny_head spoiled = heads[2];
    spoiled.spoil = "lm_head.weight";
    expect_unfit(&spoiled, fitting, COP_ERR_FORMAT,
                 "tensor \"lm_head.weight\" has value nan at row 19, column 31");
    spoiled.spoil = "midlayer.hidden_norm.weight";
    expect_unfit(&spoiled, fitting, COP_ERR_FORMAT,
                 "\"midlayer.hidden_norm.weight\" has value");
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
        draft_once(&draft, eagle, NULL, target, ids, n);
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
