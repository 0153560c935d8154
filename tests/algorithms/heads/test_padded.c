/* Vocabularies that are padded, the head's or the target's: in every family surplus rows are
 * never drafted, and the others are what a head without surplus drafts; another vocabulary is
 * refused. */
#include "tests/algorithms/heads/head_bench.h"

enum { WIDTH = 32, FFN = 48, INNER = 12, RANK = 6, GATES = 4, V = -1 /* rows: a vocabulary */ };
enum {
    REAL = 264,
    TARGET = 270,
    MORE = 300,
    MOST = 400
}; /* ids of the tokenizer, the target,
     heads */

struct shape {
    const char *name;
    int32_t rows, cols; /* rows 0: a vector */
};
#define LAYER(prefix, inputs)                                                                  \
    {prefix "self_attn.q_proj.weight", WIDTH, inputs},                                         \
        {prefix "self_attn.k_proj.weight", WIDTH / 2, inputs},                                 \
        {prefix "self_attn.v_proj.weight", WIDTH / 2, inputs},                                 \
        {prefix "self_attn.o_proj.weight", WIDTH, WIDTH},                                      \
        {prefix "mlp.gate_proj.weight", FFN, WIDTH},                                           \
        {prefix "mlp.up_proj.weight", FFN, WIDTH},                                             \
        {prefix "mlp.down_proj.weight", WIDTH, FFN},                                           \
    {                                                                                          \
        prefix "post_attention_layernorm.weight", 0, WIDTH                                     \
    }
#define HYDRA(i, inputs)                                                                       \
    {"hydra_mlp." i ".0.linear.weight", WIDTH, inputs},                                        \
        {"hydra_mlp." i ".0.res_connection.weight", WIDTH, inputs},                            \
        {"hydra_mlp." i ".1.linear.weight", WIDTH, WIDTH},                                     \
        {"hydra_lm_head." i ".weight", V, WIDTH},                                              \
    {                                                                                          \
        "hydra_lm_head." i ".bias", 0, V                                                       \
    }
#define CELL(gate)                                                                             \
    {gate "_proj.0.weight", INNER, WIDTH}, {gate "_proj.1.weight", INNER, INNER},              \
    {                                                                                          \
        gate "_emb.0.weight", V, INNER                                                         \
    }
#define GEOMETRY                                                                               \
    "\"model_type\":\"llama\",\"hidden_size\":32,\"intermediate_size\":48,"                    \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":8,\"vocab_size\":%d,"    \
    "\"rms_norm_eps\":1e-5"

static const struct family {
    const char *proposer, *config; /* with a %d for the vocabulary */
    struct shape tensors[32];
} families[] = {
    {"medusa",
     "{}",
     {{"0.0.linear.weight", WIDTH, WIDTH},
      {"0.1.weight", V, WIDTH},
      {"1.0.linear.weight", WIDTH, WIDTH},
      {"1.1.weight", V, WIDTH}}},
    {"hydra", "{\"hydra_num_layers\":2}", {HYDRA("0", 2 * WIDTH), HYDRA("1", 3 * WIDTH)}},
    {"hydra",
     "{\"hydra_num_layers\":2,\"hydra_head_arch\":\"prefix-mlp\"}",
     {HYDRA("0", 2 * WIDTH),
      HYDRA("1", 3 * WIDTH),
      LAYER("prefix_embeding_layer.layers.0.", WIDTH),
      {"prefix_embeding_layer.layers.0.input_layernorm.weight", 0, WIDTH},
      {"prefix_embeding_layer.norm.weight", 0, WIDTH}}},
    {"mlp",
     "{\"vocab_size\":%d,\"emb_dim\":32,\"inner_dim\":12,\"n_predict\":2}",
     {{"speculator.emb.0.weight", V, INNER},
      {"speculator.emb.1.weight", V, INNER},
      {"speculator.head.0.weight", V, INNER},
      {"speculator.head.1.weight", V, INNER},
      {"speculator.ln.0.weight", 0, INNER},
      {"speculator.ln.1.weight", 0, INNER},
      {"speculator.ln.0.bias", 0, INNER},
      {"speculator.ln.1.bias", 0, INNER},
      {"speculator.proj.0.weight", INNER, WIDTH},
      {"speculator.proj.1.weight", INNER, INNER}}},
    {"mlp",
     "{\"method\":\"sum_lstm\",\"vocab_size\":%d,\"input_hidden_dim\":32,\"proj_dim\":\"12\","
     "\"emb_dim\":\"12\",\"inner_dim\":\"12\",\"n_predict\":2,\"tie_weights\":true}",
     {CELL("forget"),
      CELL("input"),
      CELL("output"),
      CELL("cell"),
      {"cell_ln.0.weight", 0, INNER},
      {"cell_ln.0.bias", 0, INNER},
      {"state_ln.0.weight", 0, INNER},
      {"state_ln.0.bias", 0, INNER},
      {"head.0.weight", V, INNER}}},
    {"redrafter",
     "{\"vocab_size\":%d}",
     {{"rnn_u.weight", WIDTH, WIDTH},
      {"rnn_w.weight", WIDTH, WIDTH},
      {"lm_head.0.linear.weight", 2 * WIDTH, 2 * WIDTH},
      {"lm_head.1.weight", V, 2 * WIDTH}}},
    {"eagle",
     "{" GEOMETRY ",\"num_hidden_layers\":1}",
     {{"fc.weight", WIDTH, 2 * WIDTH},
      LAYER("layers.0.", WIDTH),
      {"embed_tokens.weight", V, WIDTH},
      {"lm_head.weight", V, WIDTH}}},
    {"eagle",
     "{" GEOMETRY ",\"num_hidden_layers\":1,\"eagle_aux_hidden_state_layer_ids\":[0,1,2]}",
     {{"fc.weight", WIDTH, 3 * WIDTH},
      LAYER("midlayer.", 2 * WIDTH),
      {"midlayer.input_layernorm.weight", 0, WIDTH},
      {"midlayer.hidden_norm.weight", 0, WIDTH},
      {"norm.weight", 0, WIDTH},
      {"lm_head.weight", V, WIDTH}}},
    {"mtp",
     "{" GEOMETRY ",\"num_hidden_layers\":3,\"num_nextn_predict_layers\":2}",
     {{"model.layers.3.enorm.weight", 0, WIDTH}, /* the first with ends of its own */
      {"model.layers.3.hnorm.weight", 0, WIDTH},
      {"model.layers.3.eh_proj.weight", WIDTH, 2 * WIDTH},
      {"model.layers.3.shared_head.norm.weight", 0, WIDTH},
      {"model.layers.3.shared_head.head.weight", V, WIDTH},
      {"model.layers.3.embed_tokens.weight", V, WIDTH},
      LAYER("model.layers.3.", WIDTH),
      {"model.layers.3.input_layernorm.weight", 0, WIDTH},
      {"model.layers.4.enorm.weight", 0, WIDTH}, /* the second with the target's */
      {"model.layers.4.hnorm.weight", 0, WIDTH},
      {"model.layers.4.eh_proj.weight", WIDTH, 2 * WIDTH},
      {"model.layers.4.shared_head.norm.weight", 0, WIDTH},
      LAYER("model.layers.4.", WIDTH),
      {"model.layers.4.input_layernorm.weight", 0, WIDTH}}},
    {"parallel",
     "{" GEOMETRY ",\"num_hidden_layers\":1,\"block_size\":4,\"mask_token_id\":7,"
     "\"target_layer_ids\":[-1,0,1],\"num_anchors\":512,\"markov_rank\":6,"
     "\"markov_head_type\":\"vanilla\",\"enable_confidence_head\":false}",
     {{"fc.weight", WIDTH, 3 * WIDTH},
      LAYER("layers.0.", WIDTH),
      {"layers.0.input_layernorm.weight", 0, WIDTH},
      {"hidden_norm.weight", 0, WIDTH},
      {"norm.weight", 0, WIDTH},
      {"markov_head.markov_w1.weight", V, RANK},
      {"markov_head.markov_w2.weight", V, RANK}}},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* Surplus rows are eight times as long as others, so that they would be drafted; gains are
 * about 1. */
static void put(struct head_folder *folder, const struct shape *shape, int32_t vocab)
{
    static float numbers[MOST * 2 * WIDTH];
    int32_t rows = shape->rows == V ? vocab : shape->rows;
    int32_t cols = shape->cols == V ? vocab : shape->cols;
    bool is_table = shape->rows == V, is_gain = rows == 0 && strstr(shape->name, "weight");
    head_folder_random(shape->name, rows, cols, numbers);
    for (int32_t i = 0; i < (rows ? rows : 1) * cols; i++) {
        numbers[i] = is_gain                        ? 1 + numbers[i]
                     : is_table && i / cols >= REAL ? 8 * numbers[i]
                                                    : numbers[i];
    }
    head_folder_put(folder, shape->name, rows, cols, numbers);
}

static struct head_folder *new_folder(const struct family *family, int32_t vocab)
{
    char config[1024];
    const char *at = strstr(family->config, "%d");
    (void)snprintf(config, sizeof config, "%s", family->config);
    if (at) {
        size_t before = (size_t)(at - family->config);
        (void)snprintf(config + before, sizeof config - before, "%d%s", vocab, at + 2);
    }
    struct head_folder *folder = head_folder_new(config);
    for (const struct shape *shape = family->tensors; shape->name; shape++) {
        put(folder, shape, vocab);
    }
    (void)head_folder_save(folder, "model.safetensors");
    return folder;
}

static struct cop_part *new_head(const struct family *family, struct head_folder *folder)
{
    return set_string(new_part(COP_PLUG_PROPOSER, family->proposer), "path",
                      head_folder_path(folder));
}

static struct cop_model *open_target(int32_t vocab)
{
    struct tiny_model description = {.seed = 7,
                                     .layers = 3,
                                     .hidden = WIDTH,
                                     .ffn = FFN,
                                     .vocab = vocab,
                                     .has_tokenizer = true,
                                     .has_output = true};
    return open_tiny(description);
}

/* What a head of `vocab` ids drafts for the target; n_kept above 0: of its first ids alone. */
static void draft_of(struct draft *draft, const struct family *family, int32_t vocab,
                     int32_t n_kept, struct cop_model *target)
{
    static const cop_token prompt[] = {3, 17, 40, 9, 22};
    static int32_t ids[MORE];
    struct head_folder *folder = new_folder(family, vocab);
    struct cop_part *part = new_head(family, folder);
    struct cop_part *builder = new_widths((int32_t[]){40, 2}, 2);
    for (int32_t id = 0; id < n_kept; id++) {
        ids[id] = id;
    }
    if (n_kept > 0) {
        cr_assert_eq(cop_option_set_ints(cop_option_find(part->plug->options, "vocabulary"),
                                         part->state, ids, n_kept, "test", NULL),
                     COP_OK);
    }
    draft_once(draft, ready(part), builder, target, prompt, 5, COP_DRAW_DETERMINISTIC, 0);
    cop_part_free(part);
    cop_part_free(builder);
    head_folder_free(folder);
}

static void expect_equal_drafts(const struct draft *a, const struct draft *b, int32_t limit,
                                const char *what, size_t family)
{
    cr_assert_eq(a->tree.size, 1 + 40 + 80, "%s, family %zu: %d nodes", what, family,
                 a->tree.size);
    cr_assert_eq(a->tree.size, b->tree.size, "%s, family %zu", what, family);
    for (int32_t node = 1; node < a->tree.size; node++) {
        cr_expect_lt(a->tree.token[node], limit, "%s, family %zu", what, family);
        cr_expect_eq(a->tree.token[node], b->tree.token[node], "%s, family %zu, node %d", what,
                     family, node);
        cr_expect_eq(a->probabilities[node], b->probabilities[node], "%s, family %zu, node %d",
                     what, family, node);
    }
}

/* A head of more rows than the target, and one of fewer: as one of equally many, and as that
 * one with the rows that the other lacks left out. */
Test(padded, surplus_rows_are_never_drafted)
{
    static struct draft equal, more, kept, fewer;
    struct cop_model *target = open_target(TARGET);
    for (size_t i = 0; i < N_FAMILIES; i++) {
        draft_of(&equal, &families[i], TARGET, 0, target);
        draft_of(&more, &families[i], MORE, 0, target);
        draft_of(&kept, &families[i], TARGET, REAL, target);
        draft_of(&fewer, &families[i], REAL, 0, target);
        expect_equal_drafts(&more, &equal, TARGET, "more rows", i);
        expect_equal_drafts(&fewer, &kept, REAL, "fewer rows", i);
        cop_tree_release(&equal.tree);
        cop_tree_release(&more.tree);
        cop_tree_release(&kept.tree);
        cop_tree_release(&fewer.tree);
    }
    cop_model_free(target);
}

/* Also behind prompts with ids of the target's padding, which a head of fewer rows lacks. */
Test(padded, answers_are_those_of_plain_decoding)
{
    static const int32_t vocabs[] = {REAL, MORE};
    struct cop_model *target = open_target(TARGET);
    for (size_t i = 0; i < 2 * N_FAMILIES; i++) {
        const struct family *family = &families[i / 2];
        struct head_folder *folder = new_folder(family, vocabs[i % 2]);
        struct cop_part *part = ready(new_head(family, folder));
        for (int32_t last = 0; last < 2; last++) {
            static struct trial with, without;
            cop_token prompt[] = {3, REAL + 1, 40, 9, last ? TARGET - 1 : 22};
            struct cop_engine_options plain = {.target = target};
            struct cop_engine_options options = {.target = target,
                                                 .proposer = part,
                                                 .builder =
                                                     new_widths((const int32_t[]){20, 2}, 2)};
            trial_init(&with, prompt, 5, 20);
            trial_init(&without, prompt, 5, 20);
            run_trials(&options, &with, 1);
            run_trials(&plain, &without, 1);
            expect_equal_tokens(&with.result, &without.result, family->proposer);
            cr_expect_gt(with.result.drafted, 0, "family %zu", i / 2);
            trial_release(&with);
            trial_release(&without);
            cop_part_free(options.builder);
        }
        cop_part_free(part);
        head_folder_free(folder);
    }
    cop_model_free(target);
}

/* Fewer ids than the tokenizer has, more padding than there is, and a target without a
 * tokenizer, of which nothing is known. */
Test(padded, another_vocabulary_is_refused)
{
    struct cop_model *target = open_target(TARGET);
    struct cop_model *mute =
        open_tiny((struct tiny_model){.seed = 7, .layers = 3, .ffn = FFN, .vocab = TARGET});
    for (size_t i = 0; i < N_FAMILIES; i++) {
        static const int32_t vocabs[] = {REAL - 1, TARGET + 129, MORE};
        for (int32_t k = 0; k < 3; k++) {
            char message[128];
            struct head_folder *folder = new_folder(&families[i], vocabs[k]);
            (void)snprintf(message, sizeof message,
                           "made for a vocabulary of %d tokens; the target has %d, and what "
                           "differs is not known to be padding",
                           vocabs[k], TARGET);
            expect_refused(families[i].proposer, head_folder_path(folder),
                           k < 2 ? target : mute, COP_ERR_ARGUMENT, message);
            head_folder_free(folder);
        }
    }
    cop_model_free(target);
    cop_model_free(mute);
}
