/* P-EAGLE heads: what they draft is what the formulas say in double, the same in the middle of
 * an answer as from a fresh start, and answers are those of plain decoding. */
#include "tests/algorithms/propose/masked_bench.h"

struct eagle_kind {
    int32_t layers, n_ids; /* n_ids 0: all, without a map */
    bool norm_before_residual, is_speculators;
};
static const struct eagle_kind eagles[] = {
    {.layers = 1},
    {.layers = 3, .is_speculators = true},
    {.layers = 2, .n_ids = 20, .norm_before_residual = true, .is_speculators = true}};
enum { N_EAGLES = sizeof eagles / sizeof *eagles };

static struct head_folder *write_eagle(struct dl_tensors *t, const struct eagle_kind *kind,
                                       const char *drop)
{
    static const char layer[] =
        "\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 48, "
        "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8, "
        "\"vocab_size\": 61, \"rms_norm_eps\": 1e-5, \"num_hidden_layers\": ";
    static const char rest[] =
        "\"eagle_aux_hidden_state_layer_ids\": [0, 1, 2], \"norm_before_residual\": ";
    char config[2048], number[32];
    t->n = 0;
    for (int32_t i = 0; i < kind->layers; i++) {
        (void)snprintf(number, sizeof number, "layers.%d.", i);
        dl_add_layer(t, number, i == 0 ? 2 * DL_WIDTH : DL_WIDTH, false);
    }
    int32_t n_ids = kind->n_ids > 0 ? kind->n_ids : VOCAB;
    dl_add(t, 0, DL_WIDTH, "layers.0.hidden_norm.weight");
    dl_add(t, DL_WIDTH, TAPS * DL_WIDTH, "fc.weight");
    dl_add(t, 0, DL_WIDTH, "norm.weight");
    dl_add(t, 1, TAPS * DL_WIDTH, "mask_hidden");
    dl_add(t, n_ids, DL_WIDTH, "lm_head.weight");
    dl_add(t, VOCAB, DL_WIDTH, "embed_tokens.weight");
    const char *norms = kind->norm_before_residual ? "true" : "false";
    if (kind->is_speculators) {
        (void)snprintf(config, sizeof config,
                       "{\"speculators_model_type\": \"peagle\", \"mask_token_id\": 7, "
                       "\"draft_vocab_size\": %d, \"transformer_layer_config\": {%s%d}, %s%s, "
                       "\"speculators_config\": {\"proposal_methods\": [{\"proposal_type\": "
                       "\"greedy\", \"speculative_tokens\": 4}]}}",
                       n_ids, layer, kind->layers, rest, norms);
    } else {
        (void)snprintf(config, sizeof config,
                       "{%s%d, \"ptd_token_id\": 7, \"para_depths\": 4, %s%s}", layer,
                       kind->layers, rest, norms);
    }
    struct head_folder *folder = head_folder_new(config);
    dl_put(t, folder, drop);
    if (kind->n_ids > 0) {
        put_map(folder, n_ids);
    }
    head_folder_save(folder, "model.safetensors");
    return folder;
}

/* One row of the head: x becomes y. */
static void eagle_row(const struct dl_tensors *t, const struct eagle_kind *kind,
                      cop_token token, int32_t row, struct dl_keys *keys, double *x)
{
    double joined[2 * DL_WIDTH], embedded[DL_WIDTH], normed[DL_WIDTH];
    char prefix[32] = "layers.0.";
    const float *table = dl_data(t, "", "embed_tokens.weight");
    for (int32_t i = 0; i < DL_WIDTH; i++) {
        embedded[i] = (double)table[token * DL_WIDTH + i];
    }
    dl_norm(dl_data(t, prefix, "input_layernorm.weight"), embedded, DL_WIDTH, joined);
    dl_norm(dl_data(t, prefix, "hidden_norm.weight"), x, DL_WIDTH, joined + DL_WIDTH);
    if (kind->norm_before_residual) {
        memcpy(x, joined + DL_WIDTH, DL_WIDTH * sizeof *x);
    }
    dl_remember(t, prefix, joined, 2 * DL_WIDTH, row, &keys[0], row);
    dl_layer(t, prefix, joined, 2 * DL_WIDTH, row, &keys[0], 0, row + 1, x);
    for (int32_t l = 1; l < kind->layers; l++) {
        (void)snprintf(prefix, sizeof prefix, "layers.%d.", l);
        dl_norm(dl_data(t, prefix, "input_layernorm.weight"), x, DL_WIDTH, normed);
        dl_remember(t, prefix, normed, DL_WIDTH, row, &keys[l], row);
        dl_layer(t, prefix, normed, DL_WIDTH, row, &keys[l], 0, row + 1, x);
    }
}

static void eagle_law(const struct dl_tensors *t, const struct eagle_kind *kind,
                      const double *y, double *law)
{
    double normed[DL_WIDTH], logits[VOCAB], own[VOCAB];
    int32_t n = kind->n_ids > 0 ? kind->n_ids : VOCAB;
    dl_norm(dl_data(t, "", "norm.weight"), y, DL_WIDTH, normed);
    dl_apply(dl_data(t, "", "lm_head.weight"), normed, n, DL_WIDTH, logits);
    dl_softmax(logits, n, own);
    memset(law, 0, VOCAB * sizeof *law);
    for (int32_t i = 0; i < n; i++) {
        law[kind->n_ids > 0 ? i * VOCAB / n : i] = own[i];
    }
}

Test(propose_peagle, rows_are_those_of_the_formulas)
{
    static const int32_t layers[] = {0, 1, 2};
    struct cop_model *target = open_target(0);
    struct cop_part *widths = new_widths((const int32_t[]){3, 2, 2, 1, 1}, 5);
    for (int32_t k = 0; k < N_EAGLES; k++) {
        static struct dl_tensors t;
        static struct dl_keys keys[DL_LAYERS];
        static struct draft draft;
        static double states[PROMPT][TAPS * DL_WIDTH], rows[POSITIONS][VOCAB];
        double x[DL_WIDTH], mask[TAPS * DL_WIDTH];
        cop_token prompt[PROMPT];
        struct head_folder *folder = write_eagle(&t, &eagles[k], NULL);
        random_prompt(prompt, PROMPT, VOCAB, (uint64_t)k);
        struct cop_part *head = new_head(head_folder_path(folder), POSITIONS);
        draft_once(&draft, head, widths, target, prompt, PROMPT, COP_DRAW_DETERMINISTIC, 0);
        cr_assert_eq(draft.tree.size, 1 + 3 + 6 + 12 + 12);
        read_states(target, layers, prompt, PROMPT - 1, states);
        for (int32_t i = 0; i < TAPS * DL_WIDTH; i++) {
            mask[i] = (double)dl_data(&t, "", "mask_hidden")[i];
        }
        for (int32_t row = 0; row < PROMPT - 2 + POSITIONS; row++) {
            bool is_known = row < PROMPT - 1;
            dl_apply(dl_data(&t, "", "fc.weight"), is_known ? states[row] : mask, DL_WIDTH,
                     TAPS * DL_WIDTH, x);
            eagle_row(&t, &eagles[k], is_known ? prompt[row + 1] : MASK, row, keys, x);
            if (row >= PROMPT - 2) {
                eagle_law(&t, &eagles[k], x, rows[row - PROMPT + 2]);
            }
        }
        expect_rows(&draft, rows, "P-EAGLE");
        cop_tree_release(&draft.tree);
        cop_part_free(head);
        head_folder_free(folder);
        dl_free(&t);
    }
    cop_part_free(widths);
    cop_model_free(target);
}

Test(propose_peagle, answers_are_those_of_plain_decoding)
{
    struct cop_model *target = open_target(0);
    for (int32_t shape = 0; shape < N_SHAPES; shape++) {
        static struct dl_tensors t;
        struct head_folder *folder = write_eagle(&t, &eagles[shape % N_EAGLES], NULL);
        expect_plain_answers(target, new_head(head_folder_path(folder), POSITIONS), shape);
        head_folder_free(folder);
        dl_free(&t);
    }
    cop_model_free(target);
}

Test(propose_peagle, live_rows_equal_rebuilt_rows)
{
    static struct dl_tensors t;
    struct cop_model *target = open_target(0);
    struct head_folder *folder = write_eagle(&t, &eagles[2], NULL);
    const char *path = head_folder_path(folder);
    expect_rebuilt(target, new_head(path, 3), new_head(path, 3), 10);
    head_folder_free(folder);
    dl_free(&t);
    cop_model_free(target);
}

Test(propose_peagle, reaches_the_end_of_the_context)
{
    static struct dl_tensors t;
    struct cop_model *target = open_target(64);
    struct head_folder *folder = write_eagle(&t, &eagles[1], NULL);
    struct cop_part *head = new_head(head_folder_path(folder), 9);
    expect_whole_context(target, head, 64);
    cop_part_free(head);
    head_folder_free(folder);
    dl_free(&t);
    cop_model_free(target);
}

Test(propose_peagle, with_a_reduced_vocabulary_narrows_the_law)
{
    struct cop_model *target = open_target(0);
    cop_token prompt[PROMPT];
    static struct dl_tensors t;
    struct head_folder *folder = write_eagle(&t, &eagles[0], NULL);
    random_prompt(prompt, PROMPT, VOCAB, 5);
    expect_narrowed(target, head_folder_path(folder), prompt);
    head_folder_free(folder);
    dl_free(&t);
    cop_model_free(target);
}

Test(propose_peagle, q8_0_drafts_nearly_the_same)
{
    static struct dl_tensors t;
    struct cop_model *target = open_target(0);
    struct head_folder *folder = write_eagle(&t, &eagles[2], NULL);
    expect_q8_0(target, "parallel", head_folder_path(folder));
    head_folder_free(folder);
    dl_free(&t);
    cop_model_free(target);
}

Test(propose_peagle, files_that_lack_something)
{
    static struct dl_tensors t;
    struct head_folder *folder = write_eagle(&t, &eagles[1], NULL);
    expect_bad_path(
        "eagle", head_folder_path(folder), COP_ERR_ARGUMENT,
        "a P-EAGLE head drafts all positions in one pass; write cop.propose.parallel");
    head_folder_free(folder);
    dl_free(&t);
    folder = write_eagle(&t, &eagles[1], "mask_hidden");
    expect_bad_path("parallel", head_folder_path(folder), COP_ERR_FORMAT,
                    "tensor \"mask_hidden\" is missing, expected [1, 1, 96] numbers");
    head_folder_free(folder);
    dl_free(&t);
    folder = write_eagle(&t, &eagles[1], "layers.2.input_layernorm.weight");
    expect_bad_path("parallel", head_folder_path(folder), COP_ERR_FORMAT,
                    "\"layers.2.input_layernorm.weight\" is missing");
    head_folder_free(folder);
    dl_free(&t);
}
