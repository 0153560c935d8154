/* The supplied heads of SmolLM2 against what PyTorch drafted with them. */
#include "tests/algorithms/engine/engine_bench.h"
#include "tests/support/reference.h"

/* Stored to five digits; sums of another order differ in the last of them. */
#define TOLERANCE 1e-4

static const struct {
    const char *proposer, *folder;
} parts[] = {{"medusa", "medusa-smollm2"},
             {"hydra", "hydra-smollm2"},
             {"mlp", "mlp-speculator-smollm2"}};

static int32_t read_ids(const cJSON *object, const char *key, cop_token *out)
{
    int32_t n = 0;
    for (const cJSON *id = cJSON_GetObjectItem(object, key)->child; id && n < 1024;
         id = id->next) {
        out[n++] = (cop_token)id->valuedouble;
    }
    return n;
}

static void compare(struct cop_part *part, struct cop_model *target, const cJSON *prompt,
                    const char *name)
{
    static cop_token context[2048], greedy[1024], drafts[1024];
    double probabilities[16];
    struct cop_tree tree;
    struct cop_error err = {0};
    struct cop_proposer_env env = {.target = target,
                                   .vocab_size = cop_model_info(target)->vocab_size,
                                   .context = cop_model_info(target)->context,
                                   .n_sequences = 1,
                                   .sampling = {.temperature = 1, .top_p = 1}};
    int32_t n = read_ids(prompt, "prompt_ids", context);
    (void)read_ids(prompt, "target_greedy_ids", greedy);
    context[n++] = greedy[0];
    int32_t n_drafts = read_ids(prompt, "draft_ids", drafts);
    cr_assert_eq(cop_tree_init(&tree, 16, &err), COP_OK);
    cr_assert_eq(cop_propose_once(part, NULL, COP_DRAW_DETERMINISTIC, &env, context, n, 0,
                                  &tree, probabilities, NULL, NULL, &err),
                 COP_OK, "%s", err.text);
    cr_expect_eq(tree.size, n_drafts + 1, "%s: %d drafts", name, tree.size - 1);
    const cJSON *logprob = cJSON_GetObjectItem(prompt, "draft_logprob")->child;
    for (int32_t i = 0; i < n_drafts && i + 1 < tree.size; i++, logprob = logprob->next) {
        cr_expect_eq(tree.token[i + 1], drafts[i], "%s: draft %d", name, i);
        cr_expect_float_eq(log(probabilities[i + 1]), logprob->valuedouble, TOLERANCE,
                           "%s: draft %d: %.6f, not %.6f", name, i, log(probabilities[i + 1]),
                           logprob->valuedouble);
    }
    cop_tree_release(&tree);
}

Test(heads_reference, drafts_are_those_of_pytorch, .timeout = 120)
{
    struct cop_model_options options = {
        .path = reference_model("models/SmolLM2-135M-Instruct.Q4_1.gguf"),
        .precision = COP_PRECISION_CHOOSE_F32,
        .kv_f32 = true,
        .threads = 2};
    struct cop_model *target = NULL;
    struct cop_error err = {0};
    char folder[256], file[320];
    (void)reference_path("models");
    cr_assert_eq(cop_model_open(&target, &options, &err), COP_OK, "%s", err.text);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        (void)snprintf(file, sizeof file, "models/%s", parts[i].folder);
        (void)snprintf(folder, sizeof folder, "%s", reference_path(file));
        (void)snprintf(file, sizeof file, "%s/reference.json", folder);
        size_t length;
        char *text = reference_read(file, &length);
        cJSON *reference = cJSON_Parse(text);
        struct cop_part *part = new_part(COP_PLUG_PROPOSER, parts[i].proposer);
        (void)ready(set_string(part, "path", folder));
        int32_t n = 0;
        for (const cJSON *prompt = cJSON_GetObjectItem(reference, "prompts")->child; prompt;
             prompt = prompt->next, n++) {
            compare(part, target, prompt, parts[i].proposer);
        }
        cr_expect_geq(n, 2);
        cop_part_free(part);
        cJSON_Delete(reference);
        free(text);
    }
    cop_model_free(target);
}
