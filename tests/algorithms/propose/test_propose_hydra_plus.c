/* Hydra++: heads behind a decoder layer of their own, in double and in the engine. */
#include "tests/algorithms/heads/double_layers.h"
#include "tests/algorithms/heads/head_bench.h"

enum { VOCAB = 61, PROMPT = 12, HEADS = 3 };
static const char config[] = "{\"hydra_num_layers\":2,\"hydra_num_heads\":3,"
                             "\"hydra_head_arch\":\"prefix-mlp\",\"grounded_heads\":true}";
static const char layer[] = "prefix_embeding_layer.layers.0.";

static void fill(struct dl_tensors *tensors)
{
    enum { width = DL_WIDTH };
    tensors->n = 0;
    dl_add(tensors, 0, width, "prefix_embeding_layer.norm.weight");
    dl_add(tensors, VOCAB, 4, "prefix_embeding_layer.embed_tokens.weight"); /* of no account */
    dl_add_layer(tensors, layer, width, false);
    for (int32_t i = 0; i < HEADS; i++) {
        dl_add(tensors, width, (i + 2) * width, "hydra_mlp.%d.1.linear.weight", i);
        dl_add(tensors, 0, width, "hydra_mlp.%d.1.linear.bias", i);
        dl_add(tensors, width, (i + 2) * width, "hydra_mlp.%d.1.res_connection.weight", i);
        dl_add(tensors, 0, width, "hydra_mlp.%d.1.res_connection.bias", i);
        dl_add(tensors, width, width, "hydra_mlp.%d.3.linear.weight", i);
        dl_add(tensors, 0, width, "hydra_mlp.%d.3.linear.bias", i);
        dl_add(tensors, VOCAB, width, "hydra_lm_head.%d.1.weight", i);
        dl_add(tensors, 0, VOCAB, "hydra_lm_head.%d.1.bias", i);
    }
}

static struct head_folder *new_folder(struct dl_tensors *tensors, const char *text,
                                      const char *drop, const char *spoil)
{
    struct head_folder *folder = head_folder_new(text);
    fill(tensors);
    for (int32_t i = 0; spoil && i < tensors->n; i++) {
        if (strcmp(tensors->items[i].name, spoil) == 0) {
            tensors->items[i].data[1] = NAN;
        }
    }
    dl_put(tensors, folder, drop);
    (void)head_folder_save(folder, "hydra_lm_head.safetensors");
    return folder;
}

static struct cop_part *new_hydra(struct dl_tensors *tensors)
{
    struct head_folder *folder = new_folder(tensors, config, NULL, NULL);
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "hydra");
    (void)ready(set_string(part, "path", head_folder_path(folder)));
    head_folder_free(folder);
    return part;
}

/* The layer has the geometry of the target: epsilon 1e-5, feed-forward of 48. */
static struct cop_model *open_target(const char *architecture)
{
    struct tiny_model description = {.seed = 7,
                                     .architecture = architecture,
                                     .hidden = DL_WIDTH,
                                     .heads = DL_HEADS,
                                     .kv_heads = DL_KV,
                                     .ffn = DL_FFN,
                                     .vocab = VOCAB,
                                     .has_output = true};
    return open_model(tiny_model_new(&description), (struct cop_model_options){.kv_f32 = true});
}

/* ---- The formulas in double -------------------------------------------------------------- */

/* What heads read after the text. */
static void state_after(const struct dl_tensors *t, struct cop_model *target,
                        const cop_token *ids, int32_t n, double *out)
{
    static struct dl_keys keys;
    double *states = states_of(target, COP_HIDDEN_NORMED, ids, n - 1);
    for (int32_t i = 0; i < n - 1; i++) {
        double normed[DL_WIDTH], *x = states + i * DL_WIDTH;
        dl_norm(dl_data(t, layer, "input_layernorm.weight"), x, DL_WIDTH, normed);
        dl_remember(t, layer, normed, DL_WIDTH, i, &keys, i);
        dl_layer(t, layer, normed, DL_WIDTH, i, &keys, 0, i + 1, x);
        dl_norm(dl_data(t, "", "prefix_embeding_layer.norm.weight"), x, DL_WIDTH, out);
    }
    free(states);
}

static const float *head_data(const struct dl_tensors *t, const char *format, int32_t head)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%.*s%d%s", (int)(strchr(format, '#') - format), format,
                   head, strchr(format, '#') + 1);
    return dl_data(t, "", name);
}

static void law(const struct dl_tensors *t, struct cop_model *target, const double *state,
                const cop_token *tokens, int32_t head, double *out)
{
    double x[(HEADS + 1) * DL_WIDTH], y[DL_WIDTH], added[DL_WIDTH];
    int32_t inputs = (head + 2) * DL_WIDTH;
    memcpy(x, state, DL_WIDTH * sizeof *x);
    for (int32_t i = 0; i <= head; i++) {
        embed_in_double(target, tokens[i], x + (i + 1) * DL_WIDTH);
    }
    apply(head_data(t, "hydra_mlp.#.1.res_connection.weight", head),
          head_data(t, "hydra_mlp.#.1.res_connection.bias", head), x, DL_WIDTH, inputs, y);
    apply(head_data(t, "hydra_mlp.#.1.linear.weight", head),
          head_data(t, "hydra_mlp.#.1.linear.bias", head), x, DL_WIDTH, inputs, added);
    for (int32_t i = 0; i < DL_WIDTH; i++) {
        y[i] += silu_of(added[i]);
    }
    apply(head_data(t, "hydra_mlp.#.3.linear.weight", head),
          head_data(t, "hydra_mlp.#.3.linear.bias", head), y, DL_WIDTH, DL_WIDTH, added);
    for (int32_t i = 0; i < DL_WIDTH; i++) {
        y[i] += silu_of(added[i]);
    }
    apply(head_data(t, "hydra_lm_head.#.1.weight", head),
          head_data(t, "hydra_lm_head.#.1.bias", head), y, VOCAB, DL_WIDTH, out);
    soft_max(out, VOCAB, 1);
}

Test(propose_hydra_plus, rows_are_those_of_the_formulas)
{
    static const int32_t lengths[] = {PROMPT, 2};
    static struct dl_tensors tensors;
    struct cop_part *hydra = new_hydra(&tensors);
    struct cop_part *widths = new_widths((const int32_t[]){3, 2, 2, 1}, 4);
    for (int32_t i = 0; i < 2; i++) {
        static struct draft draft;
        cop_token prompt[PROMPT];
        double state[DL_WIDTH];
        struct cop_model *target = open_target("llama");
        int32_t n = lengths[i];
        random_prompt(prompt, n, VOCAB, 3);
        draft_once(&draft, hydra, widths, target, prompt, n, COP_DRAW_DETERMINISTIC, 0);
        cr_assert_eq(draft.tree.size, 1 + 3 + 6 + 12);
        state_after(&tensors, target, prompt, n, state);
        for (int32_t node = 1; node < draft.tree.size; node++) {
            int32_t path[HEADS], depth = cop_tree_path(&draft.tree, node, path);
            cop_token tokens[HEADS] = {prompt[n - 1]};
            double expected[VOCAB];
            for (int32_t d = 1; d < depth; d++) {
                tokens[d] = draft.tree.token[path[d - 1]];
            }
            law(&tensors, target, state, tokens, depth - 1, expected);
            double wanted = expected[draft.tree.token[node]];
            cr_expect_float_eq(draft.probabilities[node], wanted, 2e-5,
                               "prompt of %d, node %d: %.7f, expected %.7f", n, node,
                               draft.probabilities[node], wanted);
        }
        cop_tree_release(&draft.tree);
        cop_model_free(target);
    }
    cop_part_free(widths);
    cop_part_free(hydra);
    dl_free(&tensors);
}

/* ---- In the engine ----------------------------------------------------------------------- */

Test(propose_hydra_plus, live_rows_equal_rebuilt_rows)
{
    static struct dl_tensors tensors;
    struct cop_model *target = open_target("llama");
    struct cop_part *hydra = new_hydra(&tensors);
    dl_free(&tensors);
    struct cop_part *twin = new_hydra(&tensors);
    struct cop_part *builder = new_widths((const int32_t[]){30, 6, 1}, 3);
    expect_live_is_rebuilt(target, hydra, twin, builder);
    cop_part_free(hydra);
    cop_part_free(twin);
    cop_part_free(builder);
    cop_model_free(target);
    dl_free(&tensors);
}

Test(propose_hydra_plus, answers_are_those_of_plain_decoding)
{
    static struct dl_tensors tensors;
    struct cop_model *target = open_target("llama");
    struct cop_part *hydra = new_hydra(&tensors);
    struct cop_part *builders[] = {NULL, new_widths((const int32_t[]){20, 2, 2}, 3),
                                   ready(new_part(COP_PLUG_BUILDER, "expand_rerank")),
                                   ready(new_part(COP_PLUG_BUILDER, "best_first"))};
    expect_plain_answers(target, hydra, builders, 4);
    cop_part_free(hydra);
    cop_model_free(target);
    dl_free(&tensors);
}

Test(propose_hydra_plus, q8_0_drafts_nearly_the_same)
{
    static struct dl_tensors tensors;
    struct cop_model *target = open_target("llama");
    struct head_folder *folder = new_folder(&tensors, config, NULL, NULL);
    expect_q8_0(target, "hydra", head_folder_path(folder));
    head_folder_free(folder);
    cop_model_free(target);
    dl_free(&tensors);
}

Test(propose_hydra_plus, answers_have_the_law_of_the_target)
{
    static struct dl_tensors tensors;
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7,
                                                             .layers = 1,
                                                             .hidden = DL_WIDTH,
                                                             .heads = DL_HEADS,
                                                             .kv_heads = DL_KV,
                                                             .ffn = DL_FFN,
                                                             .vocab = VOCAB,
                                                             .context = 32,
                                                             .sharpness = 1.5,
                                                             .has_output = true});
    struct cop_part *hydra = new_hydra(&tensors);
    expect_target_law(target, hydra);
    cop_part_free(hydra);
    cop_model_free(target);
    dl_free(&tensors);
}

/* ---- Files that lie ---------------------------------------------------------------------- */

static void refuse(const char *text, const char *drop, const char *spoil,
                   struct cop_model *target, enum cop_status code, const char *expected)
{
    static struct dl_tensors tensors;
    struct head_folder *folder = new_folder(&tensors, text, drop, spoil);
    expect_refused("hydra", head_folder_path(folder), target, code, expected);
    head_folder_free(folder);
    dl_free(&tensors);
}

Test(propose_hydra_plus, refuses_what_is_missing_or_not_finite)
{
    struct cop_model *target = open_target("llama"), *other = open_target("qwen3");
    refuse(config, "prefix_embeding_layer.norm.weight", NULL, target, COP_ERR_FORMAT,
           "tensor \"prefix_embeding_layer.norm.weight\" is missing");
    refuse(config, "prefix_embeding_layer.layers.0.mlp.down_proj.weight", NULL, target,
           COP_ERR_FORMAT,
           "\"prefix_embeding_layer.layers.0.mlp.down_proj.weight\" is missing (architecture "
           "llama, expected shape [32, 48])");
    refuse(config, NULL, "prefix_embeding_layer.layers.0.self_attn.v_proj.weight", target,
           COP_ERR_FORMAT, "has value nan at row 0, column 1");
    refuse(config, NULL, "prefix_embeding_layer.norm.weight", target, COP_ERR_FORMAT,
           "has value nan");
    refuse(config, NULL, NULL, other, COP_ERR_FORMAT,
           "\"prefix_embeding_layer.layers.0.self_attn.q_norm.weight\" is missing");
    refuse("{\"hydra_head_arch\":\"eagle-attn\"}", NULL, NULL, target, COP_ERR_UNSUPPORTED,
           "\"eagle-attn\") are not read");
    cop_model_free(target);
    cop_model_free(other);
}

Test(propose_hydra_plus, the_tensors_say_whether_there_is_a_layer)
{
    static struct dl_tensors tensors;
    struct head_folder *folder = new_folder(
        &tensors, "{\"hydra_num_layers\":2,\"hydra_head_arch\":\"mlp\"}", NULL, NULL);
    struct cop_part *part =
        set_string(new_part(COP_PLUG_PROPOSER, "hydra"), "path", head_folder_path(folder));
    struct cop_error err = {0};
    cr_expect_eq(cop_part_prepare(part, &err), COP_OK);
    cr_expect_not_null(strstr(err.text, "\"hydra_head_arch\" is \"mlp\", but there are tensors "
                                        "prefix_embeding_layer.*: the tensors are used"),
                       "%s", err.text);
    cop_part_free(part);
    head_folder_free(folder);
    dl_free(&tensors);
}
