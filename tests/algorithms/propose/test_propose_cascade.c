/* A horizontal cascade: which drafter's row a level comes from, and answers that stay. */
#include "tests/algorithms/engine/engine_bench.h"

enum { PROMPT = 24, REQUESTS = 3 };

static struct cop_part *new_cascade(struct cop_part *first, struct cop_part *second,
                                    const int32_t *depths, int32_t n)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "cascade");
    struct cop_error err = {0};
    (void)cop_option_set_object(option(part, "first"), part->state, first, "t", &err);
    (void)cop_option_set_object(option(part, "second"), part->state, second, "t", &err);
    cr_assert_eq(
        cop_option_set_ints(option(part, "depths"), part->state, depths, n, "test", &err),
        COP_OK, "%s", err.text);
    return part;
}

static void draft(struct cop_part *proposer, struct cop_part *builder, const cop_token *context,
                  int32_t n, struct cop_tree *tree, double *probabilities)
{
    struct cop_proposer_env env = {.vocab_size = 61, .context = 512};
    struct cop_error err = {0};
    cr_assert_eq(cop_propose_once(proposer, builder, COP_DRAW_DETERMINISTIC, &env, context, n,
                                  0, tree, probabilities, NULL, NULL, &err),
                 COP_OK, "%s", err.text);
}

/* Levels 1 and 2 are what the first model drafts, 3 to 5 what the second drafts after them. */
Test(propose_cascade, levels_have_their_drafters)
{
    static const int32_t depths[] = {2, 3};
    struct cop_model *one = open_tiny((struct tiny_model){.seed = 3});
    struct cop_model *two = open_tiny((struct tiny_model){.seed = 4});
    struct cop_part *first = new_draft(one), *second = new_draft(two);
    struct cop_part *cascade = ready(new_cascade(first, second, depths, 2));
    struct cop_part *chains[] = {new_chain(2), new_chain(3), new_chain(6), new_chain(4)};
    cop_token context[5] = {1, 2, 3};
    struct cop_tree tree, part;
    double p[7], q[7];
    cr_assert(cop_tree_init(&tree, 7, NULL) == COP_OK &&
              cop_tree_init(&part, 7, NULL) == COP_OK);
    draft(cascade, NULL, context, 3, &tree, p);
    cr_assert_eq(tree.size, 6);
    draft(first, chains[0], context, 3, &part, q);
    for (int32_t node = 1; node <= 2; node++) {
        cr_expect(tree.token[node] == part.token[node] && p[node] == q[node]);
        context[2 + node] = tree.token[node];
    }
    draft(second, chains[1], context, 5, &part, q);
    for (int32_t node = 1; node <= 3; node++) {
        cr_expect(tree.token[2 + node] == part.token[node] && p[2 + node] == q[node]);
    }
    draft(cascade, chains[2], context, 3, &tree, p); /* the last drafter goes on */
    draft(second, chains[3], context, 5, &part, q);
    cr_expect(tree.size == 7 && tree.token[6] == part.token[4]);
    cop_tree_release(&tree);
    cop_tree_release(&part);
    for (int32_t i = 0; i < 4; i++) {
        cop_part_free(chains[i]);
    }
    cop_part_free(cascade);
    cop_part_free(first);
    cop_part_free(second);
    cop_model_free(one);
    cop_model_free(two);
}

static void run_arm(struct cop_model *target, struct cop_part *proposer, const char *rule,
                    double temperature, struct trial *trials)
{
    static cop_token prompts[REQUESTS][PROMPT];
    struct cop_engine_options options = {.target = target,
                                         .proposer = proposer,
                                         .rule = proposer ? new_rule(rule) : NULL,
                                         .sampling = {.temperature = temperature, .top_p = 1},
                                         .batch = 2};
    for (int32_t i = 0; i < REQUESTS; i++) {
        random_prompt(prompts[i], PROMPT, 61, (uint64_t)i);
        trial_init(&trials[i], prompts[i], PROMPT - 4 * i, 60);
        trials[i].request.id = (uint32_t)i;
    }
    run_trials(&options, trials, REQUESTS);
    cop_part_free(options.rule);
}

static void expect_identity(struct cop_model *target, struct cop_part *proposer,
                            const char *rule, double temperature)
{
    static struct trial with[REQUESTS], without[REQUESTS];
    int64_t drafted = 0, accepted = 0;
    run_arm(target, proposer, rule, temperature, with);
    run_arm(target, NULL, rule, temperature, without);
    for (int32_t i = 0; i < REQUESTS; i++) {
        if (temperature == 0) {
            expect_equal_tokens(&with[i].result, &without[i].result, rule);
        }
        drafted += with[i].result.drafted;
        accepted += with[i].result.accepted;
        trial_release(&with[i]);
        trial_release(&without[i]);
    }
    cr_expect(drafted > 0 && accepted > 0 && accepted < drafted, "%s: %d of %d", rule,
              (int)accepted, (int)drafted);
}

Test(propose_cascade, tokens_equal_plain_decoding)
{
    static const int32_t depths[] = {2, 3};
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    struct cop_model *kin =
        open_tiny((struct tiny_model){.seed = 7, .noise = 0.1, .noise_seed = 1});
    struct cop_model *far =
        open_tiny((struct tiny_model){.seed = 7, .noise = 0.3, .noise_seed = 2});
    struct cop_part *first = new_draft(kin), *second = new_draft(far),
                    *lookup = new_lookup(3, 5);
    struct cop_part *models = ready(new_cascade(first, second, depths, 2));
    struct cop_part *mixed = ready(new_cascade(first, lookup, depths, 2));
    expect_identity(target, models, "match", 0);
    expect_identity(target, models, "token", 1);
    expect_identity(target, models, "block", 1);
    expect_identity(target, mixed, "match", 0);
    expect_identity(target, mixed, "sample_match", 1);
    /* Rules that change what the next cycle owes need rows that do not depend on the level. */
    struct cop_engine_options options = {.target = target,
                                         .proposer = models,
                                         .rule = new_rule("greedy_block"),
                                         .registry = registry(),
                                         .batch = 1,
                                         .sampling = {.temperature = 1, .top_p = 1}};
    struct cop_error err = {0};
    cr_expect_neq(cop_engine_check(&options, NULL, &err), COP_OK);
    cr_expect(strstr(err.text, "same in every cycle"), "%s", err.text);
    cop_part_free(options.rule);
    struct cop_part *wrong = new_cascade(first, second, depths, 1);
    cr_expect_neq(cop_part_prepare(wrong, &err), COP_OK);
    cr_expect(strstr(err.text, "depths has 1 entries for 2 drafters"), "%s", err.text);
    cop_part_free(wrong);
    cop_part_free(models);
    cop_part_free(mixed);
    cop_part_free(first);
    cop_part_free(second);
    cop_part_free(lookup);
    cop_model_free(target);
    cop_model_free(kin);
    cop_model_free(far);
}
