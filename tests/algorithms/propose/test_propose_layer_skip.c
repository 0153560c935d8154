/* The target with layers left out: an early exit is the model with fewer layers, answers stay,
 * and nothing of it is left in the target's cache. */
#include "tests/algorithms/engine/engine_bench.h"

enum { PROMPT = 24, REQUESTS = 4 };

static struct cop_part *new_exit(int32_t exit)
{
    return ready(set_number(new_part(COP_PLUG_PROPOSER, "layer_skip"), "exit", exit));
}

static struct cop_part *new_skip(const char *what, const int32_t *layers, int32_t n)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "layer_skip");
    struct cop_error err = {0};
    cr_assert_eq(cop_option_set_ints(option(part, what), part->state, layers, n, "test", &err),
                 COP_OK, "%s", err.text);
    return ready(part);
}

static void run_arm(struct cop_model *target, struct cop_part *proposer,
                    struct cop_part *builder, const char *rule, double temperature,
                    struct trial *trials)
{
    static cop_token prompts[REQUESTS][PROMPT];
    struct cop_engine_options options = {.target = target,
                                         .proposer = proposer,
                                         .builder = builder,
                                         .rule = new_rule(rule),
                                         .sampling = {.temperature = temperature, .top_p = 1},
                                         .batch = 3};
    for (int32_t i = 0; i < REQUESTS; i++) {
        random_prompt(prompts[i], PROMPT, 61, (uint64_t)i);
        trial_init(&trials[i], prompts[i], PROMPT - 4 * i, 50);
        trials[i].request.id = (uint32_t)i;
    }
    run_trials(&options, trials, REQUESTS);
    cop_part_free(options.rule);
}

/* Compared with another proposer, or with plain decoding (NULL). */
static void expect_equal(struct cop_model *target, struct cop_part *proposer,
                         struct cop_part *other, struct cop_part *builder, const char *rule,
                         double temperature, const char *what)
{
    static struct trial with[REQUESTS], without[REQUESTS];
    int64_t drafted = 0, accepted = 0;
    run_arm(target, proposer, builder, rule, temperature, with);
    run_arm(target, other, other ? builder : NULL, rule, temperature, without);
    for (int32_t i = 0; i < REQUESTS; i++) {
        expect_equal_tokens(&with[i].result, &without[i].result, what);
        for (int32_t c = 0; other && c < with[i].n_cycles && c < without[i].n_cycles; c++) {
            cr_expect_eq(with[i].accepted[c], without[i].accepted[c], "%s", what);
            cr_expect_eq(with[i].drafted[c], without[i].drafted[c], "%s", what);
        }
        drafted += with[i].result.drafted;
        accepted += with[i].result.accepted;
        trial_release(&with[i]);
        trial_release(&without[i]);
    }
    cr_expect(drafted > 0 && accepted > 0 && accepted < drafted, "%s: %d of %d", what,
              (int)accepted, (int)drafted);
    cop_part_free(builder);
}

static void check_caches(void)
{
    setenv("COPPICE_CHECK_KV", "1", 1); /* debug builds: K and V after every cycle */
}

/* The first layers' keys and values are those of the smaller model, so its rows are too. */
Test(propose_layer_skip, an_early_exit_is_the_model_with_fewer_layers, .init = check_caches)
{
    static const int32_t widths[] = {3, 2, 1};
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7, .layers = 3});
    for (int32_t layers = 1; layers < 3; layers++) {
        struct cop_model *small = open_tiny((struct tiny_model){.seed = 7, .layers = layers});
        struct cop_part *exit_part = new_exit(layers), *model = new_draft(small);
        expect_equal(target, exit_part, model, new_chain(4), "match", 0, "greedy chain");
        expect_equal(target, exit_part, model, new_chain(4), "token", 1, "sampled chain");
        expect_equal(target, exit_part, model, new_widths(widths, 3), "recursive", 1, "tree");
        cop_part_free(exit_part);
        cop_part_free(model);
        cop_model_free(small);
    }
    cop_model_free(target);
}

Test(propose_layer_skip, tokens_equal_plain_decoding, .init = check_caches)
{
    static const int32_t widths[] = {3, 2, 1}, first[] = {0}, two[] = {1, 2};
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7, .layers = 3});
    struct cop_part *parts[] = {new_exit(1), new_exit(2), new_skip("skip_attention", two, 2),
                                new_skip("skip_mlp", two, 1), new_skip("skip_mlp", first, 1)};
    for (int32_t i = 0; i < 5; i++) {
        char what[32];
        snprintf(what, sizeof what, "part %d", i);
        expect_equal(target, parts[i], NULL, new_chain(4), "match", 0, what);
        expect_equal(target, parts[i], NULL, new_widths(widths, 3), "match", 0, what);
    }
    /* Two of them in one mixture have slots of their own in the target's cache. */
    struct cop_part *mixture = new_part(COP_PLUG_PROPOSER, "mixture");
    struct cop_error err = {0};
    (void)cop_option_set_object(option(mixture, "first"), mixture->state, parts[0], "t", &err);
    (void)cop_option_set_object(option(mixture, "second"), mixture->state, parts[3], "t", &err);
    expect_equal(target, ready(mixture), NULL, new_widths(widths, 3), "match", 0, "mixture");
    cop_part_free(mixture);
    for (int32_t i = 0; i < 5; i++) {
        cop_part_free(parts[i]);
    }
    cop_model_free(target);
}

/* Without an engine it has a cache of its own: as the inner part of another, or once. */
Test(propose_layer_skip, without_the_targets_cache_it_has_its_own)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7, .layers = 3});
    struct cop_model *small = open_tiny((struct tiny_model){.seed = 7, .layers = 2});
    struct cop_part *exit_part = new_exit(2), *model = new_draft(small), *chain = new_chain(5);
    struct cop_proposer_env env = {.target = target, .vocab_size = 61, .context = 512};
    const cop_token context[] = {4, 8, 15, 16, 23, 42};
    struct cop_tree a, b;
    double p[6], q[6];
    struct cop_error err = {0};
    cr_assert(cop_tree_init(&a, 6, NULL) == COP_OK && cop_tree_init(&b, 6, NULL) == COP_OK);
    cr_assert_eq(cop_propose_once(exit_part, chain, COP_DRAW_DETERMINISTIC, &env, context, 6, 0,
                                  &a, p, NULL, NULL, &err),
                 COP_OK, "%s", err.text);
    cr_assert_eq(cop_propose_once(model, chain, COP_DRAW_DETERMINISTIC, &env, context, 6, 0, &b,
                                  q, NULL, NULL, &err),
                 COP_OK, "%s", err.text);
    for (int32_t node = 1; node < 6; node++) {
        cr_expect_eq(a.token[node], b.token[node]);
        cr_expect_eq(p[node], q[node]);
    }
    struct cop_part *staged = new_part(COP_PLUG_PROPOSER, "staged");
    (void)cop_option_set_object(option(staged, "model"), staged->state, small, "t", &err);
    (void)cop_option_set_object(option(staged, "proposer"), staged->state, exit_part, "t",
                                &err);
    expect_equal(target, ready(staged), model, new_chain(5), "token", 1, "staged");
    cop_tree_release(&a);
    cop_tree_release(&b);
    cop_part_free(staged);
    cop_part_free(exit_part);
    cop_part_free(model);
    cop_part_free(chain);
    cop_model_free(target);
    cop_model_free(small);
}

Test(propose_layer_skip, impossible_layers_are_refused)
{
    static const int32_t third[] = {3};
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7, .layers = 3});
    struct cop_part *parts[] = {new_exit(3), new_skip("skip_mlp", third, 1)};
    static const char *const words[] = {"exit = 3 leaves nothing out", "layers are 0 to 2"};
    struct cop_error err = {0};
    for (int32_t i = 0; i < 2; i++) {
        struct cop_engine_options options = {.target = target,
                                             .proposer = parts[i],
                                             .batch = 1,
                                             .registry = registry(),
                                             .sampling = {.top_p = 1}};
        cr_expect_neq(cop_engine_check(&options, NULL, &err), COP_OK);
        cr_expect(strstr(err.text, words[i]), "%s", err.text);
        cop_part_free(parts[i]);
    }
    struct cop_part *nothing = new_part(COP_PLUG_PROPOSER, "layer_skip");
    cr_expect_neq(cop_part_prepare(nothing, &err), COP_OK);
    cr_expect(strstr(err.text, "leaves nothing out"), "%s", err.text);
    cop_part_free(nothing);
    cop_model_free(target);
}

/* Keys of a drafted token differ from those of the same token committed, unless all layers
 * below ran: a rule that owes something to the next cycle takes an early exit only. */
Test(propose_layer_skip, rows_of_skipped_parts_depend_on_the_root)
{
    static const int32_t first[] = {0};
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7, .layers = 3});
    struct cop_part *parts[] = {new_exit(2), new_skip("skip_mlp", first, 1)};
    struct cop_error err = {0};
    for (int32_t i = 0; i < 2; i++) {
        struct cop_engine_options options = {.target = target,
                                             .proposer = parts[i],
                                             .rule = new_rule("greedy_block"),
                                             .batch = 1,
                                             .registry = registry(),
                                             .sampling = {.temperature = 1, .top_p = 1}};
        enum cop_status status = cop_engine_check(&options, NULL, &err);
        cr_expect_eq(status == COP_OK, i == 0, "%s", err.text);
        cop_part_free(options.rule);
        cop_part_free(parts[i]);
    }
    cr_expect(strstr(err.text, "same in every cycle"), "%s", err.text);
    cop_model_free(target);
}
