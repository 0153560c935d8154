/* Files of heads that are not whole, or that their configuration does not describe: a tensor
 * that is missing is named and nothing is left out in silence; where tensors and configuration
 * disagree the tensors are right, and one warning says so. */
#include "tests/algorithms/engine/engine_bench.h"
#include "tests/support/head_folder.h"

enum { VOCAB = 61, W = 32, INNER = 12, MOST = 40 };

struct tensor {
    const char *name;
    int32_t rows, cols; /* rows 0: a vector */
};
struct files {
    const char *proposer, *file;
    struct tensor tensors[MOST];
};

static const struct files medusa = {"medusa",
                                    "medusa_lm_head.safetensors",
                                    {{"0.0.linear.weight", W, W},
                                     {"0.0.linear.bias", 0, W},
                                     {"0.1.linear.weight", W, W},
                                     {"0.1.linear.bias", 0, W},
                                     {"0.2.weight", VOCAB, W},
                                     {"1.0.linear.weight", W, W},
                                     {"1.0.linear.bias", 0, W},
                                     {"1.1.linear.weight", W, W},
                                     {"1.1.linear.bias", 0, W},
                                     {"1.2.weight", VOCAB, W}}};
static const struct files shared = {"medusa",
                                    "medusa_lm_head.safetensors",
                                    {{"0.0.linear.weight", W, W}, {"0.0.linear.bias", 0, W}}};
static const struct files hydra = {"hydra",
                                   "hydra_lm_head.safetensors",
                                   {{"hydra_mlp.0.0.linear.weight", W, 2 * W},
                                    {"hydra_mlp.0.0.linear.bias", 0, W},
                                    {"hydra_mlp.0.0.res_connection.weight", W, 2 * W},
                                    {"hydra_mlp.0.0.res_connection.bias", 0, W},
                                    {"hydra_mlp.0.1.linear.weight", W, W},
                                    {"hydra_mlp.0.1.linear.bias", 0, W},
                                    {"hydra_mlp.0.2.linear.weight", W, W},
                                    {"hydra_mlp.0.2.linear.bias", 0, W},
                                    {"hydra_lm_head.0.weight", VOCAB, W},
                                    {"hydra_lm_head.0.bias", 0, VOCAB},
                                    {"hydra_mlp.1.0.linear.weight", W, 3 * W},
                                    {"hydra_mlp.1.0.linear.bias", 0, W},
                                    {"hydra_mlp.1.0.res_connection.weight", W, 3 * W},
                                    {"hydra_mlp.1.0.res_connection.bias", 0, W},
                                    {"hydra_mlp.1.1.linear.weight", W, W},
                                    {"hydra_mlp.1.1.linear.bias", 0, W},
                                    {"hydra_mlp.1.2.linear.weight", W, W},
                                    {"hydra_mlp.1.2.linear.bias", 0, W},
                                    {"hydra_lm_head.1.weight", VOCAB, W},
                                    {"hydra_lm_head.1.bias", 0, VOCAB}}};
static const struct files untied = {"mlp",
                                    "model.safetensors",
                                    {{"speculator.emb.0.weight", VOCAB, INNER},
                                     {"speculator.emb.1.weight", VOCAB, INNER},
                                     {"speculator.proj.0.weight", INNER, W},
                                     {"speculator.proj.1.weight", INNER, INNER},
                                     {"speculator.ln.0.weight", 0, INNER},
                                     {"speculator.ln.0.bias", 0, INNER},
                                     {"speculator.ln.1.weight", 0, INNER},
                                     {"speculator.ln.1.bias", 0, INNER},
                                     {"speculator.head.0.weight", VOCAB, INNER},
                                     {"speculator.head.1.weight", VOCAB, INNER}}};
static const struct files tied = {"mlp",
                                  "model.safetensors",
                                  {{"speculator.emb.0.weight", VOCAB, INNER},
                                   {"speculator.proj.0.weight", INNER, W},
                                   {"speculator.proj.1.weight", INNER, INNER},
                                   {"speculator.ln.0.weight", 0, INNER},
                                   {"speculator.ln.0.bias", 0, INNER},
                                   {"speculator.head.0.weight", VOCAB, INNER}}};
static const struct files lstm = {"mlp",
                                  "model.safetensors",
                                  {{"proj.0.weight", 4 * INNER, W},
                                   {"proj.1.weight", 4 * INNER, INNER},
                                   {"forget_emb.0.weight", VOCAB, INNER},
                                   {"input_emb.0.weight", VOCAB, INNER},
                                   {"output_emb.0.weight", VOCAB, INNER},
                                   {"cell_emb.0.weight", VOCAB, INNER},
                                   {"cell_ln.0.weight", 0, INNER},
                                   {"cell_ln.0.bias", 0, INNER},
                                   {"state_ln.0.weight", 0, INNER},
                                   {"state_ln.0.bias", 0, INNER},
                                   {"head.0.weight", VOCAB, INNER},
                                   {"head.1.weight", VOCAB, INNER},
                                   {"head.2.weight", VOCAB, INNER}}};
static const struct files redrafter = {"redrafter",
                                       "model.safetensors",
                                       {{"rnn_u.weight", W, W},
                                        {"rnn_u.bias", 0, W},
                                        {"rnn_w.weight", W, W},
                                        {"lm_head.0.linear.weight", 2 * W, 2 * W},
                                        {"lm_head.0.linear.bias", 0, 2 * W},
                                        {"lm_head.1.linear.weight", 2 * W, 2 * W},
                                        {"lm_head.1.linear.bias", 0, 2 * W},
                                        {"lm_head.2.weight", VOCAB, 2 * W}}};

static struct head_folder *write(const struct files *files, const char *config,
                                 const char *drop, const char *also)
{
    struct head_folder *folder = head_folder_new(config);
    for (const struct tensor *t = files->tensors; t->name; t++) {
        if (!(drop && strcmp(drop, t->name) == 0) && !(also && strcmp(also, t->name) == 0)) {
            head_folder_put(folder, t->name, t->rows, t->cols, NULL);
        }
    }
    (void)head_folder_save(folder, files->file);
    return folder;
}

static struct cop_part *prepare(const struct files *files, const struct head_folder *folder,
                                enum cop_status *status, struct cop_error *err)
{
    struct cop_part *part = set_string(new_part(COP_PLUG_PROPOSER, files->proposer), "path",
                                       head_folder_path(folder));
    *err = (struct cop_error){0};
    *status = cop_part_prepare(part, err);
    return part;
}

static const char layers2[] = "{\"medusa_num_layers\":2}";
static const char layers3[] = "{\"hydra_num_layers\":3}";
static const char predict3[] = "{\"n_predict\":3,\"method\":\"sum_lstm\"}";

/* Whatever is missing, nothing but the whole is loaded. */
Test(head_files, a_missing_tensor_is_no_other_head, .timeout = 60)
{
    static const struct {
        const struct files *files;
        const char *config, *drop, *also, *expected;
    } cases[] = {
        {&medusa, layers2, "1.0.linear.weight", NULL, "\"1.0.linear.weight\" is missing"},
        {&medusa, layers2, "1.0.linear.bias", NULL, "in head 1 or head 0 has none"},
        {&medusa, layers2, "0.0.linear.bias", NULL, "in head 0 or head 0 has none"},
        {&medusa, layers2, "0.1.linear.weight", NULL,
         "head 1 has tensors of 2 blocks and head 0 of 1: expected 2 of each"},
        {&medusa, layers2, "0.1.linear.weight", "1.1.linear.weight",
         "tensor \"0.1.linear.bias\" has no place among the heads"},
        {&medusa, layers2, "1.1.linear.weight", "1.1.linear.bias",
         "head 1 has tensors of 1 blocks and head 0 of 2"},
        {&hydra, layers3, "hydra_mlp.1.0.linear.weight", NULL, "expected [32, 96]"},
        {&hydra, layers3, "hydra_mlp.0.0.res_connection.bias", NULL, "has none"},
        {&hydra, layers3, "hydra_mlp.0.1.linear.weight", "hydra_mlp.0.1.linear.bias",
         "head 1 has tensors of 3 blocks and head 0 of 2"},
        {&hydra, layers3, "hydra_mlp.1.1.linear.weight", NULL,
         "head 1 has tensors of 2 blocks and head 0 of 3"},
        {&hydra, layers3, "hydra_lm_head.1.bias", NULL, "in head 1 or head 0 has none"},
        {&untied, "{\"n_predict\":2}", "speculator.emb.1.weight", NULL,
         "tensor \"speculator.ln.1.weight\" has no place among the heads"},
        {&untied, "{\"n_predict\":2}", "speculator.ln.1.bias", NULL,
         "\"speculator.ln.1.bias\" is missing"},
        {&tied, "{\"n_predict\":3}", "speculator.proj.1.weight", NULL,
         "\"speculator.proj.1.weight\" is missing"},
        {&tied, "{}", NULL, NULL, "\"n_predict\" is missing"},
        {&lstm, predict3, "input_emb.0.weight", NULL, "\"input_emb.0.weight\" is missing"},
        {&lstm, predict3, "head.1.weight", NULL, "\"head.1.weight\" is missing"},
        {&redrafter, "{}", "lm_head.0.linear.bias", NULL,
         "of \"lm_head.0.linear.bias\" and \"lm_head.1.linear.bias\" one is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cop_error err;
        enum cop_status status;
        struct head_folder *folder =
            write(cases[i].files, cases[i].config, cases[i].drop, cases[i].also);
        struct cop_part *part = prepare(cases[i].files, folder, &status, &err);
        cr_expect_eq(status, COP_ERR_FORMAT, "%zu: %s", i, cases[i].expected);
        cr_expect_not_null(strstr(err.text, cases[i].expected), "%zu: \"%s\" in: %s", i,
                           cases[i].expected, err.text);
        cop_part_free(part);
        head_folder_free(folder);
    }
}

/* With the configuration that is right, then with one that is not: the same draft. */
static void draft(struct cop_model *target, struct cop_part *part, cop_token *tokens,
                  double *probabilities)
{
    static const cop_token context[] = {5, 6, 7, 8, 9, 10, 11};
    struct cop_proposer_env env = {.target = target,
                                   .vocab_size = VOCAB,
                                   .context = 64,
                                   .n_sequences = 1,
                                   .sampling = {.temperature = 1, .top_p = 1}};
    struct cop_tree tree;
    struct cop_error err = {0};
    double found[8] = {0};
    struct cop_part *chain = new_widths((const int32_t[]){1, 1}, 2);
    cr_assert_eq(cop_tree_init(&tree, 8, &err), COP_OK);
    cr_assert_eq(cop_propose_once(part, chain, COP_DRAW_DETERMINISTIC, &env, context, 7, 0,
                                  &tree, found, NULL, NULL, &err),
                 COP_OK, "%s", err.text);
    for (int32_t node = 1; node <= 2; node++) {
        tokens[node - 1] = node < tree.size ? tree.token[node] : -1;
        probabilities[node - 1] = node < tree.size ? found[node] : 0;
    }
    cop_tree_release(&tree);
    cop_part_free(chain);
}

Test(head_files, tensors_are_right_where_the_configuration_is_not, .timeout = 60)
{
    static const struct {
        const struct files *files;
        const char *right, *wrong, *warning;
    } cases[] = {
        {&medusa, "{\"medusa_num_heads\":2,\"medusa_num_layers\":2}",
         "{\"medusa_num_heads\":5,\"medusa_num_layers\":2}",
         "\"medusa_num_heads\" is 5, but by the tensors it is 2"},
        {&medusa, layers2, "{\"medusa_num_layers\":1}",
         "\"medusa_num_layers\" is 1, but by the tensors it is 2"},
        {&medusa, layers2, "{\"hidden_size\":64,\"medusa_num_layers\":2}",
         "\"hidden_size\" is 64, but by the tensors it is 32"},
        {&hydra, layers3, "{\"hydra_num_layers\":1}",
         "\"hydra_num_layers\" is 1, but by the tensors it is 3"},
        {&untied, "{\"n_predict\":2,\"tie_weights\":false}", "{\"n_predict\":4}",
         "\"n_predict\" is 4, but by the tensors it is 2"},
        {&untied, "{\"n_predict\":2}", "{\"n_predict\":2,\"inner_dim\":24}",
         "\"inner_dim\" is 24, but by the tensors it is 12"},
        {&untied, "{\"n_predict\":2,\"inner_dim\":12}", "{\"n_predict\":2,\"vocab_size\":60}",
         "\"vocab_size\" is 60, but by the tensors it is 61"},
        {&tied, "{\"n_predict\":3,\"tie_weights\":true}",
         "{\"n_predict\":3,\"tie_weights\":false}", "\"tie_weights\" is false, but"},
        {&tied, "{\"n_predict\":3,\"emb_dim\":32}", "{\"n_predict\":3,\"emb_dim\":16}",
         "\"emb_dim\" is 16, but by the tensors it is 32"},
        {&lstm, predict3, "{\"n_predict\":3,\"method\":\"sum_lstm\",\"tie_lstm_embs\":true}",
         "\"tie_lstm_embs\" is true, but there are embeddings of all gates"},
        {&lstm, predict3, "{\"n_predict\":2,\"method\":\"sum_lstm\"}",
         "\"n_predict\" is 2, but by the tensors it is 3"},
    };
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7, .has_output = true});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cop_token tokens[2][2];
        double probabilities[2][2];
        for (int32_t k = 0; k < 2; k++) {
            struct cop_error err;
            enum cop_status status;
            struct head_folder *folder =
                write(cases[i].files, k ? cases[i].wrong : cases[i].right, NULL, NULL);
            struct cop_part *part = prepare(cases[i].files, folder, &status, &err);
            cr_assert_eq(status, COP_OK, "%zu: %s", i, err.text);
            cr_expect(k ? strstr(err.text, cases[i].warning) != NULL : err.text[0] == '\0',
                      "%zu, %d: \"%s\"", i, k, err.text);
            draft(target, part, tokens[k], probabilities[k]);
            cop_part_free(part);
            head_folder_free(folder);
        }
        for (int32_t d = 0; d < 2; d++) {
            cr_expect_neq(tokens[0][d], -1, "%zu", i);
            cr_expect_eq(tokens[0][d], tokens[1][d], "%zu, draft %d", i, d);
            cr_expect_eq(probabilities[0][d], probabilities[1][d], "%zu, draft %d", i, d);
        }
    }
    cop_model_free(target);
}

/* Heads that lend the LM head of a target are of one vocabulary all the same. */
Test(head_files, the_vocabulary_of_a_lent_lm_head_counts)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    static const char *const configs[] = {"{\"share_lm_head\":true,\"vocab_size\":60}",
                                          "{\"share_lm_head\":true,\"vocab_size\":61}",
                                          "{\"share_lm_head\":true}"};
    for (int32_t i = 0; i < 3; i++) {
        struct cop_error err;
        enum cop_status status;
        struct head_folder *folder = write(&shared, configs[i], NULL, NULL);
        struct cop_part *part = prepare(&shared, folder, &status, &err);
        cr_assert_eq(status, COP_OK, "%s", err.text);
        struct cop_engine_options options = {.target = target,
                                             .proposer = part,
                                             .batch = 1,
                                             .registry = registry(),
                                             .sampling = COP_SAMPLING_DEFAULT};
        status = cop_engine_check(&options, NULL, &err);
        cr_expect_eq(status, i == 0 ? COP_ERR_ARGUMENT : COP_OK, "%d: %s", i, err.text);
        cr_expect(i > 0 || strstr(err.text, "made for a vocabulary of 60 tokens; the target "
                                            "has 61"),
                  "%s", err.text);
        cop_part_free(part);
        head_folder_free(folder);
    }
    cop_model_free(target);
}
