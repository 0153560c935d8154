/* Files of EAGLE heads: llama.cpp's form, and what is refused in both. */
#include "tests/algorithms/propose/eagle_bench.h"

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
Test(eagle_files, gguf_files_are_the_same_heads)
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
        draft_once(&folder, one, widths, target, prompt, PROMPT, COP_DRAW_DETERMINISTIC, 0);
        draft_once(&gguf, other, widths, target, prompt, PROMPT, COP_DRAW_DETERMINISTIC, 0);
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

Test(eagle_files, gguf_files_that_lie_are_refused)
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
Test(eagle_files, gguf_rotary_factors_count)
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
        draft_once(&drafts[i], eagle, NULL, target, prompt, PROMPT, COP_DRAW_DETERMINISTIC, 0);
        cop_part_free(eagle);
        gguf_writer_free(w);
    }
    cr_expect_float_neq(drafts[0].probabilities[1], drafts[1].probabilities[1], 1e-6);
    cop_tree_release(&drafts[0].tree);
    cop_tree_release(&drafts[1].tree);
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

Test(eagle_files, refuses_what_is_missing_or_misshapen)
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
    head.drop = "lm_head.weight";
    expect_refused(head, COP_ERR_FORMAT,
                   "tensor \"lm_head.weight\" is missing (an EAGLE-3 head, expected shape [20, "
                   "32])");
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

Test(eagle_files, refuses_configurations)
{
    struct tiny_head head = heads[2];
    head.config = "[1]";
    expect_refused(head, COP_ERR_FORMAT, "config.json: is not an object");
    head.config = "{\"model_type\": \"llama\"}";
    expect_refused(head, COP_ERR_FORMAT, "\"num_hidden_layers\" is missing");
    head.config = "{\"speculators_model_type\": \"dflash\"}";
    expect_refused(head, COP_ERR_UNSUPPORTED,
                   "\"speculators_model_type\" is \"dflash\"; known are eagle3 and peagle");
    head.config = "{\"eagle_config\": \"x\"}";
    expect_refused(head, COP_ERR_FORMAT, "\"eagle_config\" is not an object");
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

Test(eagle_files, refuses_another_target)
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
    other.vocab = 60; /* no tokenizer says that the last ids are padding */
    expect_unfit(&heads[0], other, COP_ERR_ARGUMENT,
                 "made for a vocabulary of 61 tokens; the target has 60");
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

/* A head of another width than its target's can borrow nothing. */
Test(eagle_files, names_what_a_narrow_head_lacks)
{
    struct tiny_model wide = {.seed = 1, .hidden = 48, .vocab = VOCAB};
    struct tiny_head head = heads[N_HEADS - 1];
    head.has_embedding = false;
    expect_unfit(&head, wide, COP_ERR_FORMAT,
                 "tensor \"embed_tokens.weight\" is missing: the head is 32 wide, and the "
                 "target's are 48");
    head = heads[N_HEADS - 1];
    head.n_ids = 0;
    head.drop = "lm_head.weight";
    expect_unfit(&head, wide, COP_ERR_FORMAT, "tensor \"lm_head.weight\" is missing: the head");
}

static void expect_read(const struct tiny_head *head, const char *of)
{
    static struct head_files files;
    struct cop_error err = {0};
    head_write(&files, head);
    struct cop_part *part =
        set_string(new_part(COP_PLUG_PROPOSER, "eagle"), "path", files.folder);
    cr_expect_eq(cop_part_prepare(part, &err), COP_OK, "%s: %s", of, err.text);
    cop_part_free(part);
    head_remove(&files);
}

/* The names of tensors say which version a head is, and what follows from the configuration may
 * stand in the files. */
Test(eagle_files, reads_what_other_programs_write)
{
    static char config[2048];
    struct tiny_head head = heads[5];
    head_config(config, sizeof config, &heads[0]);
    head.config = config;
    expect_read(&head, "version 3 that only its tensors show");
    for (int32_t i = 0; i < 3; i += 2) {
        head = heads[i];
        head.extra = i == 0 ? "layers.0.self_attn.rotary_emb.inv_freq"
                            : "midlayer.self_attn.rotary_emb.inv_freq";
        expect_read(&head, head.extra);
    }
}

/* The configuration of a head with `to` in the place of `from`. */
static const char *changed(const struct tiny_head *head, const char *from, const char *to)
{
    static char text[2048], config[2048];
    head_config(text, sizeof text, head);
    const char *at = strstr(text, from);
    cr_assert_not_null(at);
    (void)snprintf(config, sizeof config, "%.*s%s%s", (int)(at - text), text, to,
                   at + strlen(from));
    return config;
}

/* Switches that other programs know are not ignored. */
Test(eagle_files, refuses_another_function_of_the_same_tensors)
{
    static const struct {
        const char *from, *to, *expected;
    } cases[] = {
        {"\"llama\"", "\"gemma3_text\"", "\"model_type\" is \"gemma3_text\""},
        {"\"silu\"", "\"gelu\"", "\"hidden_act\" is gelu; known is silu"},
        {"\"vocab_size\"", "\"logit_scale\": 0.5, \"vocab_size\"",
         "\"logit_scale\" is there and not 1"},
        {"\"vocab_size\"", "\"final_logit_softcapping\": 30, \"vocab_size\"",
         "\"final_logit_softcapping\" is 30; known is none"},
        {"\"vocab_size\"", "\"partial_rotary_factor\": 0.5, \"vocab_size\"",
         "\"partial_rotary_factor\" is 0.5; known is 1"},
        {"\"vocab_size\"", "\"rope_scaling\": {\"type\": \"dynamic\"}, \"vocab_size\"",
         "rotary scaling \"dynamic\" is not supported"},
        {"\"vocab_size\"", "\"use_aux_hidden_state\": false, \"vocab_size\"",
         "\"use_aux_hidden_state\" is false; known is true"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tiny_head head = heads[2];
        head.config = changed(&heads[2], cases[i].from, cases[i].to);
        expect_refused(head, COP_ERR_UNSUPPORTED, cases[i].expected);
    }
}

/* What a configuration leaves open of rotary angles is as in the target. */
Test(eagle_files, borrows_the_targets_rotary_base)
{
    static const struct {
        const char *said;
        bool is_targets;
    } cases[] = {{"\"vocab_size\"", true},
                 {"\"rope_theta\": null, \"vocab_size\"", true},
                 {"\"rope_theta\": 500, \"vocab_size\"", true},
                 {"\"rope_theta\": 10000, \"vocab_size\"", false}};
    const struct tiny_edit base = {TINY_KEY_F32, "llama.rope.freq_base", 0, 0, 500, NULL};
    struct cop_model *target = open_tiny((struct tiny_model){
        .seed = 3, .hidden = TH_WIDTH, .vocab = VOCAB, .edits = &base, .n_edits = 1});
    double first = 0;
    cop_token prompt[PROMPT];
    random_prompt(prompt, PROMPT, VOCAB, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static struct head_files files;
        static struct draft draft;
        struct tiny_head head = heads[3];
        head.config = changed(&heads[3], "\"vocab_size\"", cases[i].said);
        head_write(&files, &head);
        struct cop_part *eagle = new_eagle(files.folder, 1);
        draft_once(&draft, eagle, NULL, target, prompt, PROMPT, COP_DRAW_DETERMINISTIC, 0);
        first = i == 0 ? draft.probabilities[1] : first;
        cr_expect_eq(draft.probabilities[1] == first, cases[i].is_targets, "%s", cases[i].said);
        cop_tree_release(&draft.tree);
        cop_part_free(eagle);
        head_remove(&files);
    }
    cop_model_free(target);
}

/* Tensors are right; one warning. */
Test(eagle_files, warns_of_configurations_that_are_wrong)
{
    static const struct {
        int32_t head;
        const char *from, *to, *warning;
    } cases[] = {
        {0, "\"vocab_size\"", "\"bias\": false, \"vocab_size\"", ""},
        {0, "\"vocab_size\"", "\"bias\": true, \"vocab_size\"",
         "\"bias\" is true, and there is no tensor \"fc.bias\": the tensors are used"},
        {0, "\"vocab_size\"", "\"vocab_size\"", "\"bias\" is missing (true), and there is no"},
        {1, "\"vocab_size\"", "\"bias\": false, \"vocab_size\"",
         "\"bias\" is false, and there is a tensor \"fc.bias\""},
        {1, "\"vocab_size\"", "\"vocab_size\"", ""},
        {2, "\"draft_vocab_size\": 20", "\"draft_vocab_size\": 32",
         "\"draft_vocab_size\" is 32, but by the tensors it is 20: the tensors are used"},
        {2, "\"draft_vocab_size\": 20", "\"draft_vocab_size\": 20", ""},
        {0, "\"intermediate_size\": 48", "\"bias\": false, \"intermediate_size\": 64",
         "\"intermediate_size\" is 64, but by the tensors it is 48: the tensors are used"},
        {1, "\"vocab_size\": 61", "\"vocab_size\": 64",
         "\"vocab_size\" is 64, but by the tensors it is 61"},
        {2, "\"vocab_size\": 61", "\"vocab_size\": 64",
         "\"vocab_size\" is 64, but by the tensors it is 61"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static struct head_files files;
        struct tiny_head head = heads[cases[i].head];
        head.config = changed(&heads[cases[i].head], cases[i].from, cases[i].to);
        head_write(&files, &head);
        struct cop_error err = {0};
        struct cop_part *part =
            set_string(new_part(COP_PLUG_PROPOSER, "eagle"), "path", files.folder);
        cr_expect_eq(cop_part_prepare(part, &err), COP_OK, "%s", err.text);
        cr_expect_not_null(strstr(err.text, cases[i].warning), "%zu: %s", i, err.text);
        cr_expect_eq(err.text[0] == '\0', cases[i].warning[0] == '\0', "%zu: %s", i, err.text);
        cop_part_free(part);
        head_remove(&files);
    }
}
