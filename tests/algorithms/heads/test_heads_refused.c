/* Multi-draft heads whose files lie, and heads without a target. */
#include "tests/algorithms/heads/head_bench.h"

#include "tests/algorithms/heads/checkpoints.h"

TestSuite(heads, .init = open_target, .fini = close_target, .timeout = 60);

/* The folder goes with it. */
static void refuse(const char *name, struct head_folder *folder, enum cop_status code,
                   const char *expected)
{
    expect_refused(name, head_folder_path(folder), target, code, expected);
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
    refuse("medusa", folder, COP_ERR_ARGUMENT, "made for a vocabulary of 60 tokens");
    folder = head_folder_new("{}");
    head_folder_put(folder, "0.linear.weight", WIDTH, WIDTH, NULL);
    (void)head_folder_save(folder, "medusa_lm_head.safetensors");
    refuse("medusa", folder, COP_ERR_FORMAT, "no Medusa heads");
    folder = head_folder_new("{}");
    head_folder_add(folder, "medusa_lm_head.pt", "PK", 2);
    refuse("medusa", folder, COP_ERR_FORMAT, "medusa_lm_head.pt: its zip directory is missing");
    folder = head_folder_new("{}");
    refuse("medusa", folder, COP_ERR_IO, "neither medusa_lm_head.safetensors nor");
    folder = head_folder_new("{\"vocab_size\":61,\"truncated_vocab_size\":9}");
    head_folder_put(folder, "blocks.0.layers.0.weight", WIDTH, WIDTH, NULL);
    head_folder_put(folder, "lm_heads.0.weight", IDS, WIDTH, NULL);
    (void)head_folder_save(folder, "model.safetensors");
    refuse("medusa", folder, COP_ERR_FORMAT,
           "tensor \"token_map\" is missing: 9 of 61 tokens are drafted, and it says which");
    static const int64_t twice[IDS] = {1, 2, 3, 4, 5, 6, 7, 8, 2};
    refuse("medusa", new_reduced(ONE, true, twice), COP_ERR_FORMAT,
           "\"token_map\" has id 2 twice");
    refuse("medusa", new_reduced(ONE, true, (int64_t[IDS]){1, 2, 3, 4, 5, 6, 7, 8, -2}),
           COP_ERR_FORMAT, "\"token_map\" has id -2");
    refuse("medusa", new_reduced(ONE, true, (int64_t[IDS]){1, 2, 3, 4, 5, 6, 7, 8, 61}),
           COP_ERR_ARGUMENT, "made for a target that has token 61; this one has 61 tokens");
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
    struct cop_part *part = new_heads("medusa", new_medusa(SHARED));
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
