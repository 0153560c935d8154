/* Files of DFlash and DSpark that lack something, or belong to another target. */
#include "tests/algorithms/propose/flash_files.h"

/* A drafter is no model, and a model no drafter. */
Test(dflash_files, gguf_files_of_the_other_kind_are_refused)
{
    static struct dl_tensors t;
    struct cop_error err = {0};
    struct cop_model *model = NULL;
    head_folder_free(write_flash(&t, &flashes[0], NULL));
    struct gguf_writer *file = write_flash_gguf(&t, &flashes[0]);
    struct cop_model_options options = {.path = gguf_save(file), .threads = 1};
    cr_expect_eq(cop_model_open(&model, &options, &err), COP_ERR_UNSUPPORTED);
    cr_expect_not_null(strstr(err.text, "a drafter of architecture \"dflash\""), "%s",
                       err.text);
    gguf_writer_free(file);
    dl_free(&t);
    file = tiny_model_new(&(struct tiny_model){.seed = 1});
    struct cop_part *part =
        set_string(new_part(COP_PLUG_PROPOSER, "parallel"), "path", gguf_save(file));
    cr_expect_eq(cop_part_prepare(part, &err), COP_ERR_FORMAT);
    cr_expect_not_null(strstr(err.text, "no drafter: key \"dflash.block_size\" is missing"),
                       "%s", err.text);
    cop_part_free(part);
    gguf_writer_free(file);
}

Test(dflash_files, files_that_lack_something)
{
    static struct dl_tensors t;
    static const struct {
        int32_t kind;
        const char *drop, *text;
    } faults[] = {
        {0, "fc.weight",
         "tensor \"fc.weight\" is missing (a DFlash drafter, expected shape "
         "[32, 96])"},
        {0, "layers.1.self_attn.k_norm.weight",
         "\"layers.1.self_attn.k_norm.weight\" is missing"},
        {4, "markov_head.markov_w2.weight", "\"markov_head.markov_w2.weight\" is missing"},
        {6, "markov_head.joint_proj.bias", "\"markov_head.joint_proj.bias\" is missing"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct head_folder *folder = write_flash(&t, &flashes[faults[i].kind], faults[i].drop);
        expect_bad_path("parallel", head_folder_path(folder), COP_ERR_FORMAT, faults[i].text);
        head_folder_free(folder);
        dl_free(&t);
    }
    struct cop_error err = {0};
    struct head_folder *folder = write_flash(&t, &flashes[0], NULL);
    const char *const options[] = {"depth", "confidence", "mask_token"};
    const char *const texts[] = {
        "depth = 5 is more than the 4 positions that its blocks of 5 were trained for",
        "there is no confidence head; leave confidence out",
        "the files of a head say which token is its mask; leave mask_token out"};
    for (int32_t i = 0; i < 3; i++) {
        struct cop_part *part = set_string(new_part(COP_PLUG_PROPOSER, "parallel"), "path",
                                           head_folder_path(folder));
        set_number(part, options[i], i == 1 ? 0.5 : 5);
        cr_expect_eq(cop_part_prepare(part, &err), COP_ERR_ARGUMENT);
        cr_expect_not_null(strstr(err.text, texts[i]), "\"%s\" lacks \"%s\"", err.text,
                           texts[i]);
        cop_part_free(part);
    }
    head_folder_free(folder);
    dl_free(&t);
}

static void expect_bad_config(const char *config, enum cop_status code, const char *text)
{
    char whole[1024];
    (void)snprintf(
        whole, sizeof whole,
        "{\"model_type\": \"qwen3\", \"hidden_size\": 32, \"intermediate_size\": 48, "
        "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8, "
        "\"vocab_size\": 61, \"num_hidden_layers\": 1, \"block_size\": 5, %s}",
        config);
    static struct dl_tensors t;
    struct head_folder *folder = head_folder_new(whole);
    dl_add_layer(&t, "layers.0.", DL_WIDTH, true);
    dl_put(&t, folder, NULL);
    head_folder_save(folder, "model.safetensors");
    expect_bad_path("parallel", head_folder_path(folder), code, text);
    head_folder_free(folder);
    dl_free(&t);
}

Test(dflash_files, refuses_configurations)
{
    expect_bad_config("\"dflash_config\": {}", COP_ERR_FORMAT, "\"mask_token_id\" is missing");
    expect_bad_config("\"mask_token_id\": 61", COP_ERR_FORMAT,
                      "\"mask_token_id\" is not a number from 0 to 60");
    expect_bad_config("\"mask_token_id\": 7", COP_ERR_FORMAT,
                      "\"target_layer_ids\" is not a list of 1 to 8 layers");
    expect_bad_config("\"mask_token_id\": 7, \"target_layer_ids\": [-2]", COP_ERR_FORMAT,
                      "\"target_layer_ids\" is not a list of 1 to 8 layers");
    expect_bad_config("\"mask_token_id\": 7, \"target_layer_ids\": [1], \"markov_rank\": 4, "
                      "\"markov_head_type\": \"lstm\"",
                      COP_ERR_FORMAT, "\"markov_head_type\" is not vanilla, gated or rnn");
    expect_bad_config("\"dflash_config\": {\"selector_rank\": 8}", COP_ERR_UNSUPPORTED,
                      "\"selector_rank\" is of another kind of drafter");
    expect_bad_config("\"use_sliding_window\": true, \"sliding_window\": 8, \"layer_types\": "
                      "[\"sliding_attention\"], \"is_causal\": false",
                      COP_ERR_UNSUPPORTED, "layers with a window that look both ways");
}

/* What only shows beside a target. */
Test(dflash_files, refuses_another_target)
{
    static struct dl_tensors t;
    static const struct {
        int32_t hidden, layers;
        const char *text;
    } targets[] = {
        {64, 3, "made for a target of hidden size 32; this one has 64"},
        {32, 4, "made for a target of 3 layers; this one has 4"},
    };
    struct head_folder *folder = write_flash(&t, &flashes[0], NULL);
    struct cop_part *head = new_head(head_folder_path(folder), POSITIONS);
    for (int32_t i = 0; i < 2; i++) {
        struct cop_error err = {0};
        struct cop_engine *engine = NULL;
        struct cop_model *target = open_tiny((struct tiny_model){.seed = 1,
                                                                 .hidden = targets[i].hidden,
                                                                 .layers = targets[i].layers,
                                                                 .vocab = VOCAB});
        struct cop_engine_options options = {.target = target,
                                             .batch = 1,
                                             .registry = registry(),
                                             .sampling = COP_SAMPLING_DEFAULT,
                                             .proposer = head};
        cr_expect_eq(cop_engine_new(&engine, &options, &err), COP_ERR_ARGUMENT);
        cr_expect_not_null(strstr(err.text, targets[i].text), "%s", err.text);
        cop_model_free(target);
    }
    cop_part_free(head);
    head_folder_free(folder);
    dl_free(&t);
}
