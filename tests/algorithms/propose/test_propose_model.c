/* The draft model's own bookkeeping: a draft with the target's weights is right every time, a
 * draft with a shorter context or another width does no harm. */
#include "tests/algorithms/engine/engine_bench.h"

#include <float.h>

enum { PROMPT = 12 };

static struct cop_engine_options draft_options(struct cop_model *target,
                                               struct cop_model *draft, int32_t depth)
{
    return (struct cop_engine_options){
        .target = target, .proposer = new_draft(draft), .builder = new_chain(depth)};
}

static void free_options(struct cop_engine_options *options)
{
    cop_part_free(options->proposer);
    cop_part_free(options->builder);
    cop_part_free(options->rule);
    cop_part_free(options->length);
}

static struct trial *run_one(const struct cop_engine_options *options, struct trial *trial,
                             const cop_token *prompt, int32_t n, int32_t max_tokens)
{
    trial_init(trial, prompt, n, max_tokens);
    run_trials(options, trial, 1);
    return trial;
}

Test(propose_model, equal_weights_are_accepted_in_every_cycle)
{
    static const int32_t depths[] = {1, 2, 3, 4, 6};
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 3});
    struct cop_model *twin = open_tiny((struct tiny_model){.seed = 3});
    for (size_t i = 0; i < 5; i++) {
        struct cop_engine_options options = draft_options(target, twin, depths[i]);
        static struct trial trial;
        cop_token prompt[PROMPT];
        random_prompt(prompt, PROMPT, 61, i);
        run_one(&options, &trial, prompt, PROMPT, 300);
        cr_expect_eq(trial.result.n_tokens, 300);
        cr_expect_eq(trial.result.accepted, trial.result.drafted);
        for (int32_t c = 0; c < trial.n_cycles; c++) {
            int32_t left = 300 - c * (depths[i] + 1) - 1;
            int32_t expected = left < depths[i] ? left : depths[i];
            cr_expect_eq(trial.accepted[c], expected, "depth %d, cycle %d: %d", depths[i], c,
                         trial.accepted[c]);
        }
        trial_release(&trial);
        free_options(&options);
    }
    cop_model_free(target);
    cop_model_free(twin);
}

/* At temperature 1 too: equal rows are accepted with certainty by the token rule. */
Test(propose_model, equal_weights_are_accepted_when_sampling)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 3});
    struct cop_model *twin = open_tiny((struct tiny_model){.seed = 3});
    struct cop_engine_options options = draft_options(target, twin, 4);
    static struct trial trial;
    cop_token prompt[PROMPT];
    options.rule = new_rule("token");
    options.sampling.temperature = 1;
    random_prompt(prompt, PROMPT, 61, 5);
    run_one(&options, &trial, prompt, PROMPT, 200);
    cr_expect_eq(trial.result.accepted, trial.result.drafted);
    cr_expect_eq(trial.result.accepted, 160);
    trial_release(&trial);
    free_options(&options);
    cop_model_free(target);
    cop_model_free(twin);
}

/* A length policy that drafts nothing for a while leaves more to catch up than one token. */
static bool now_and_then(const void *state, const struct cop_length_in *in)
{
    (void)state;
    int32_t *countdown = in->sequence_state;
    if (in->level == 1) {
        (*countdown)++;
    }
    return *countdown % 100 == 0;
}
static const struct cop_length_ops rarely = {.plug = {.abi = COP_PLUG_ABI,
                                                      .kind = COP_PLUG_LENGTH,
                                                      .name = "rarely",
                                                      .help = "every hundredth cycle"},
                                             .sequence_state_size = sizeof(int32_t),
                                             .more = now_and_then};

Test(propose_model, catches_up_after_cycles_without_drafts)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 3});
    struct cop_engine_options options = draft_options(target, target, 3);
    static struct trial trial;
    cop_token prompt[PROMPT];
    options.length = ready(cop_part_new(&rarely.plug));
    random_prompt(prompt, PROMPT, 61, 6);
    run_one(&options, &trial, prompt, PROMPT, 400);
    cr_expect_eq(trial.drafted[98], 0);
    cr_expect_eq(trial.drafted[99], 3);
    cr_expect_gt(trial.result.drafted, 6);
    cr_expect_eq(trial.result.accepted, trial.result.drafted);
    trial_release(&trial);
    free_options(&options);
    cop_model_free(target);
}

Test(propose_model, shorter_draft_context_only_ends_the_drafting)
{
    static const int32_t prompts[] = {20, 31, 32, 33, 40};
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 3, .context = 64});
    struct cop_model *twin = open_tiny((struct tiny_model){.seed = 3, .context = 32});
    struct cop_engine_options options = draft_options(target, twin, 4);
    struct cop_engine_options plain = {.target = target};
    for (size_t i = 0; i < 5; i++) {
        static struct trial with, without;
        cop_token prompt[64];
        random_prompt(prompt, prompts[i], 61, 9);
        run_one(&options, &with, prompt, prompts[i], 100);
        run_one(&plain, &without, prompt, prompts[i], 100);
        expect_equal_tokens(&with.result, &without.result, "short draft");
        cr_expect_eq(with.result.n_tokens, 64 - prompts[i]);
        cr_expect_eq(with.result.finish, COP_FINISH_LENGTH);
        cr_expect_eq(with.result.accepted, with.result.drafted);
        /* a root of position p needs p < 32 in the draft; deeper ones follow from it */
        int32_t position = prompts[i] - 1;
        for (int32_t c = 0; c < with.n_cycles; c++) {
            int32_t room = 32 - position, left = 64 - 1 - position - 1;
            int32_t expected = room < 0 ? 0 : room < 4 ? room : 4;
            expected = left < expected ? left : expected;
            cr_expect_eq(with.drafted[c], expected, "prompt %d, cycle %d: %d, expected %d",
                         prompts[i], c, with.drafted[c], expected);
            position += with.progress[c];
        }
        trial_release(&with);
        trial_release(&without);
    }
    free_options(&options);
    cop_model_free(target);
    cop_model_free(twin);
}

/* Rows of another width: the same weights with 3 tokens more or less. As long as the answer has
 * none of the tokens that one of them lacks, the draft is always right. */
Test(propose_model, padding_of_the_vocabulary_is_fine)
{
    static const int32_t vocabs[] = {300, 303, 297}, widths[] = {2, 2, 1};
    struct cop_model *target =
        open_tiny((struct tiny_model){.seed = 3, .vocab = 300, .has_tokenizer = true});
    struct cop_engine_options plain = {.target = target};
    cop_token prompt[PROMPT];
    static struct trial without, with;
    random_prompt(prompt, PROMPT, 50, 9);
    run_one(&plain, &without, prompt, PROMPT, 60);
    for (int32_t i = 0; i < without.result.n_tokens; i++) {
        cr_assert_lt(without.result.tokens[i], 297, "choose another prompt");
    }
    for (size_t i = 0; i < 3; i++) {
        struct cop_model *draft = open_tiny(
            (struct tiny_model){.seed = 3, .vocab = vocabs[i], .has_tokenizer = true});
        struct cop_engine_options options = {
            .target = target, .proposer = new_draft(draft), .builder = new_widths(widths, 3)};
        run_one(&options, &with, prompt, PROMPT, 60);
        expect_equal_tokens(&with.result, &without.result, "padded");
        for (int32_t c = 0; c < with.n_cycles; c++) {
            cr_expect_eq(with.accepted[c], with.depth[c], "vocabulary %d, cycle %d", vocabs[i],
                         c);
        }
        trial_release(&with);
        free_options(&options);
        cop_model_free(draft);
    }
    trial_release(&without);
    cop_model_free(target);
}

/* An id of the target's padding in the prompt: the draft falls silent, the answer stays. */
Test(propose_model, id_that_the_draft_lacks_ends_drafting)
{
    struct cop_model *target =
        open_tiny((struct tiny_model){.seed = 3, .vocab = 300, .has_tokenizer = true});
    struct cop_model *draft =
        open_tiny((struct tiny_model){.seed = 3, .vocab = 280, .has_tokenizer = true});
    cop_token prompt[PROMPT];
    static struct trial without, with;
    random_prompt(prompt, PROMPT, 50, 9);
    prompt[PROMPT / 2] = 290;
    struct cop_engine_options plain = {.target = target};
    run_one(&plain, &without, prompt, PROMPT, 20);
    struct cop_engine_options options = draft_options(target, draft, 4);
    run_one(&options, &with, prompt, PROMPT, 20);
    expect_equal_tokens(&with.result, &without.result, "padding in the prompt");
    cr_expect_eq(with.result.drafted, 0);
    trial_release(&with);
    trial_release(&without);
    free_options(&options);
    cop_model_free(target);
    cop_model_free(draft);
}

Test(propose_model, another_vocabulary_is_refused)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 3, .vocab = 300});
    struct cop_model *draft = open_tiny((struct tiny_model){.seed = 3, .vocab = 200});
    struct cop_engine_options options = draft_options(target, draft, 4);
    struct cop_error err = {0};
    options.batch = 1;
    options.registry = registry();
    options.sampling = COP_SAMPLING_DEFAULT;
    cr_expect_eq(cop_engine_check(&options, NULL, &err), COP_ERR_ARGUMENT);
    cr_expect_neq(err.text[0], '\0');
    free_options(&options);
    cop_model_free(target);
    cop_model_free(draft);
}

Test(propose_model, draft_row_that_is_no_law_fails_that_request)
{
    /* The first entry of token 0's stream is as large as a number gets, and what attention adds
     * to it is too much; other tokens' entries stay finite. */
    struct tiny_edit edits[] = {
        {.fault = TINY_VALUE, .name = "token_embd.weight", .number = FLT_MAX},
        {.fault = TINY_VALUE, .name = "blk.0.attn_output.weight", .number = 1e38f}};
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 3, .has_output = true});
    struct cop_model *draft = open_tiny(
        (struct tiny_model){.seed = 3, .has_output = true, .edits = edits, .n_edits = 2});
    struct cop_engine_options options = draft_options(target, draft, 3);
    options.batch = 2;
    static struct trial trials[2];
    cop_token bad[] = {5, 6, 0}, good[] = {5, 6, 7}; /* after token 0 the draft has none */
    trial_init(&trials[0], bad, 3, 20);
    trial_init(&trials[1], good, 3, 4);
    struct cop_engine *engine = new_engine(&options);
    submit(engine, &trials[0]);
    submit(engine, &trials[1]);
    cr_assert_eq(cop_engine_run(engine, NULL), COP_OK);
    cr_expect_eq(trials[0].result.finish, COP_FINISH_ERROR);
    cr_expect_eq(trials[0].result.error.code, COP_ERR_NUMERIC);
    cr_expect(strstr(trials[0].result.error.text, "draft row at position 2"), "%s",
              trials[0].result.error.text);
    cr_expect_eq(trials[1].result.finish, COP_FINISH_LENGTH);
    cr_expect_eq(cop_engine_usage(engine).used, 0);
    cop_engine_free(engine);
    trial_release(&trials[0]);
    trial_release(&trials[1]);
    free_options(&options);
    cop_model_free(target);
    cop_model_free(draft);
}

Test(propose_model, proposes_once_with_probabilities)
{
    struct cop_model *draft = open_tiny((struct tiny_model){.seed = 3});
    struct cop_part *part = new_draft(draft);
    struct cop_proposer_env env = {.vocab_size = 61, .context = 512};
    int32_t widths[] = {2, 2};
    struct cop_part *tree_part = new_widths(widths, 2);
    struct cop_tree tree;
    double probabilities[8];
    cop_token context[] = {1, 2, 3};
    struct cop_error err = {0};
    cr_assert_eq(cop_tree_init(&tree, 8, NULL), COP_OK);
    cr_assert_eq(cop_propose_once(part, tree_part, COP_DRAW_DETERMINISTIC, &env, context, 3, 0,
                                  &tree, probabilities, NULL, NULL, &err),
                 COP_OK, "%s", err.text);
    cr_assert_eq(tree.size, 7);
    cr_expect_eq(cop_tree_check(&tree, &err), COP_OK, "%s", err.text);
    cr_expect_gt(probabilities[1], probabilities[2]); /* best first */
    cr_expect_gt(probabilities[3], probabilities[4]);
    cr_expect_lt(probabilities[1] + probabilities[2], 1.0000001);
    cop_tree_release(&tree);
    cop_part_free(part);
    cop_part_free(tree_part);
    cop_model_free(draft);
}
