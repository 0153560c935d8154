/* Models with mask tokens: their rows are those of a pass over masks, in the middle of an
 * answer as from a fresh start; answers are those of plain decoding. */
#include "tests/algorithms/propose/draft_bench.h"

enum { MASK = 7 };

static struct cop_part *new_pard(struct cop_model *draft, int32_t depth)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "parallel");
    struct cop_error err = {0};
    cr_assert_eq(cop_option_set_object(option(part, "model"), part->state, draft, "test", &err),
                 COP_OK, "%s", err.text);
    return ready(set_number(set_number(part, "mask_token", MASK), "depth", depth));
}

static struct cop_model *open_twice(bool is_reference)
{
    struct tiny_model description = {.seed = 7, .noise = 0.1, .noise_seed = 1};
    return open_model(tiny_model_new(&description),
                      (struct cop_model_options){.kv_f32 = true,
                                                 .device = is_reference ? "reference" : "cpu"});
}

Test(propose_parallel, rows_are_those_of_a_pass_over_masks)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    struct cop_model *draft = open_twice(false), *slow = open_twice(true);
    struct cop_part *pard = new_pard(draft, 4);
    struct cop_part *widths = new_widths((const int32_t[]){3, 2, 2, 1, 1}, 5);
    static struct draft drafted;
    static float logits[4 * VOCAB];
    cop_token text[PROMPT + 3];
    int32_t parents[PROMPT + 3];
    bool wanted[PROMPT + 3];
    random_prompt(text, PROMPT, VOCAB, 3);
    for (int32_t i = 0; i < PROMPT + 3; i++) {
        text[i] = i < PROMPT ? text[i] : MASK;
        parents[i] = i - 1;
        wanted[i] = i >= PROMPT - 1;
    }
    struct cop_cache *cache = NULL;
    struct cop_error err = {0};
    cr_assert_eq(cop_model_cache_new(slow, 1, 64, &cache, &err), COP_OK);
    const struct cop_score pass = {.n = PROMPT + 3,
                                   .tokens = text,
                                   .parents = parents,
                                   .wanted = wanted,
                                   .logits = logits};
    cr_assert_eq(cop_model_score(slow, cache, &pass, &err), COP_OK, "%s", err.text);
    draft_once(&drafted, pard, widths, target, text, PROMPT, COP_DRAW_DETERMINISTIC, 0);
    cr_assert_eq(drafted.tree.size, 1 + 3 + 6 + 12 + 12, "%d", drafted.tree.size);
    for (int32_t node = 1; node < drafted.tree.size; node++) {
        const float *row = logits + (cop_tree_depth(&drafted.tree, node) - 1) * VOCAB;
        double expected = probability_of(row, drafted.tree.token[node]);
        cr_expect_float_eq(drafted.probabilities[node], expected, 2e-5, "node %d: %g and %g",
                           node, drafted.probabilities[node], expected);
    }
    cop_tree_release(&drafted.tree);
    cop_cache_free(cache);
    cop_part_free(pard);
    cop_part_free(widths);
    cop_model_free(slow);
    cop_model_free(draft);
    cop_model_free(target);
}

Test(propose_parallel, live_rows_equal_rebuilt_rows)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    struct cop_model *draft = open_twice(false);
    expect_rebuilt(target, new_pard(draft, 3), new_pard(draft, 3), 12);
    cop_model_free(draft);
    cop_model_free(target);
}

Test(propose_parallel, answers_are_those_of_plain_decoding)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    for (int32_t i = 0; i < N_SHAPES; i++) {
        struct cop_model *draft = open_twice(false);
        expect_plain_answers(target, new_pard(draft, 5), i);
        cop_model_free(draft);
    }
    cop_model_free(target);
}

/* The draft's context ends before the target's: drafting stops, the answer does not. */
Test(propose_parallel, reaches_the_end_of_both_contexts)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7, .context = 64});
    const int32_t contexts[] = {64, 32, PROMPT - 1};
    for (int32_t i = 0; i < 3; i++) {
        struct cop_model *draft =
            open_tiny((struct tiny_model){.seed = 7, .context = contexts[i]});
        struct cop_part *pard = new_pard(draft, 9);
        expect_whole_context(target, pard, 64);
        cop_part_free(pard);
        cop_model_free(draft);
    }
    cop_model_free(target);
}

/* ---- What is refused --------------------------------------------------------------------- */

Test(propose_parallel, refuses_what_names_no_drafter)
{
    struct cop_error err = {0};
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "parallel");
    cr_expect_eq(cop_part_prepare(part, &err), COP_ERR_ARGUMENT);
    cr_expect_not_null(strstr(err.text, "drafts with nothing; write"), "%s", err.text);
    cop_part_free(part);
}

static void expect_unfit(struct cop_model *draft, int32_t mask, const char *text)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "parallel");
    struct cop_error err = {0};
    struct cop_engine *engine = NULL;
    (void)cop_option_set_object(option(part, "model"), part->state, draft, "test", &err);
    if (mask >= 0) {
        set_number(part, "mask_token", mask);
    }
    struct cop_engine_options options = {.target = target,
                                         .batch = 1,
                                         .registry = registry(),
                                         .sampling = COP_SAMPLING_DEFAULT,
                                         .proposer = ready(part)};
    cr_expect_eq(cop_engine_new(&engine, &options, &err), COP_ERR_ARGUMENT);
    cr_expect_not_null(strstr(err.text, text), "\"%s\" lacks \"%s\"", err.text, text);
    cop_part_free(part);
    cop_model_free(target);
}

Test(propose_parallel, refuses_models_that_do_not_fit)
{
    struct cop_model *draft = open_twice(false);
    expect_unfit(draft, -1, "does not say which token is its mask; write mask_token =");
    expect_unfit(draft, VOCAB, "mask_token = 61 is outside the draft's vocabulary of 61");
    cop_model_free(draft);
    draft = open_tiny((struct tiny_model){.seed = 7, .vocab = 400});
    expect_unfit(draft, 3, "another vocabulary than the target");
    cop_model_free(draft);
}
