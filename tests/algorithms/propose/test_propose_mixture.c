/* Several drafters in one tree: whose row a sibling comes from, and that answers stay. */
#include "tests/algorithms/engine/engine_bench.h"

enum { PROMPT = 24, REQUESTS = 3 };

static struct cop_part *new_mixture(struct cop_part *const *parts, int32_t n)
{
    static const char *const names[] = {"first", "second", "third", "fourth"};
    struct cop_part *mixture = new_part(COP_PLUG_PROPOSER, "mixture");
    struct cop_error err = {0};
    for (int32_t i = 0; i < n; i++) {
        cr_assert_eq(cop_option_set_object(option(mixture, names[i]), mixture->state, parts[i],
                                           "test", &err),
                     COP_OK, "%s", err.text);
    }
    return mixture;
}

static void expect_identity(struct cop_model *target, struct cop_part *proposer,
                            struct cop_part *builder, const char *rule, const char *what)
{
    struct cop_engine_options options = {.target = target,
                                         .proposer = proposer,
                                         .builder = builder,
                                         .rule = new_rule(rule),
                                         .batch = 2};
    struct cop_engine_options plain = {.target = target};
    static struct trial with[REQUESTS], without[REQUESTS];
    cop_token prompts[REQUESTS][PROMPT];
    int64_t drafted = 0, accepted = 0;
    for (int32_t i = 0; i < REQUESTS; i++) {
        random_prompt(prompts[i], PROMPT, 61, (uint64_t)i);
        trial_init(&with[i], prompts[i], PROMPT - i, 60);
        trial_init(&without[i], prompts[i], PROMPT - i, 60);
        with[i].request.id = without[i].request.id = (uint32_t)i;
    }
    run_trials(&options, with, REQUESTS);
    run_trials(&plain, without, REQUESTS);
    for (int32_t i = 0; i < REQUESTS; i++) {
        expect_equal_tokens(&with[i].result, &without[i].result, what);
        drafted += with[i].result.drafted;
        accepted += with[i].result.accepted;
        trial_release(&with[i]);
        trial_release(&without[i]);
    }
    cr_expect(drafted > 0 && accepted > 0 && accepted < drafted, "%s: %d of %d", what,
              (int)accepted, (int)drafted);
    cop_part_free(options.rule);
    cop_part_free(builder);
}

Test(propose_mixture, tokens_equal_plain_decoding)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    struct cop_model *kin =
        open_tiny((struct tiny_model){.seed = 7, .noise = 0.1, .noise_seed = 1});
    struct cop_model *far =
        open_tiny((struct tiny_model){.seed = 7, .noise = 0.3, .noise_seed = 2});
    struct cop_part *parts[] = {new_lookup(3, 5), new_draft(kin), new_draft(far)};
    struct cop_part *mixture = ready(new_mixture(parts, 3));
    static const int32_t widths[] = {4, 2, 1};
    expect_identity(target, mixture, NULL, "match", "own tree");
    expect_identity(target, mixture, new_chain(4), "token", "chain");
    expect_identity(target, mixture, new_widths(widths, 3), "recursive", "widths");
    cop_part_free(mixture);
    for (int32_t i = 0; i < 3; i++) {
        cop_part_free(parts[i]);
    }
    cop_model_free(target);
    cop_model_free(kin);
    cop_model_free(far);
}

/* On a chain whoever comes second is not asked where the lookup found something, and hears of
 * the tokens all the same: a staged drafter keeps a tree beside the engine's. */
Test(propose_mixture, a_staged_drafter_may_be_left_out)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    struct cop_model *kin =
        open_tiny((struct tiny_model){.seed = 7, .noise = 0.1, .noise_seed = 1});
    struct cop_part *inner = new_lookup(2, 4), *staged = new_part(COP_PLUG_PROPOSER, "staged");
    struct cop_error err = {0};
    cr_assert_eq(
        cop_option_set_object(option(staged, "model"), staged->state, kin, "test", &err),
        COP_OK, "%s", err.text);
    cr_assert_eq(
        cop_option_set_object(option(staged, "proposer"), staged->state, inner, "test", &err),
        COP_OK, "%s", err.text);
    struct cop_part *parts[] = {new_lookup(3, 5), ready(staged)};
    struct cop_part *mixture = ready(new_mixture(parts, 2));
    expect_identity(target, mixture, new_chain(5), "match", "chain");
    expect_identity(target, mixture, NULL, "match", "own tree");
    cop_part_free(mixture);
    cop_part_free(parts[0]);
    cop_part_free(staged);
    cop_part_free(inner);
    cop_model_free(target);
    cop_model_free(kin);
}

/* Sibling j has the probability that drafter j gives it; a third one comes from the last. */
Test(propose_mixture, siblings_are_drawn_from_their_drafters)
{
    struct cop_model *one = open_tiny((struct tiny_model){.seed = 3});
    struct cop_model *two = open_tiny((struct tiny_model){.seed = 4});
    struct cop_part *parts[] = {new_draft(one), new_draft(two)};
    struct cop_part *mixture = ready(new_mixture(parts, 2));
    static const int32_t widths[] = {3, 1}, all[] = {61};
    struct cop_part *tree_part = new_widths(widths, 2), *whole = new_widths(all, 1);
    struct cop_proposer_env env = {
        .vocab_size = 61, .context = 512, .sampling = {.temperature = 1, .top_p = 1}};
    const cop_token context[] = {1, 2, 3};
    struct cop_tree trees[3];
    double rows[2][61], probabilities[8], row[62];
    struct cop_error err = {0};
    for (int32_t i = 0; i < 2; i++) {
        cr_assert_eq(cop_tree_init(&trees[i], 62, NULL), COP_OK);
        cr_assert_eq(cop_propose_once(parts[i], whole, COP_DRAW_DETERMINISTIC, &env, context, 3,
                                      0, &trees[i], row, NULL, NULL, &err),
                     COP_OK, "%s", err.text);
        for (int32_t node = 1; node <= 61; node++) {
            rows[i][trees[i].token[node]] = row[node];
        }
    }
    struct cop_tree *tree = &trees[2];
    cr_assert_eq(cop_tree_init(tree, 8, NULL), COP_OK);
    for (uint64_t seed = 0; seed < 5; seed++) {
        cr_assert_eq(cop_propose_once(mixture, tree_part, COP_DRAW_INDEPENDENT, &env, context,
                                      3, seed, tree, probabilities, NULL, NULL, &err),
                     COP_OK, "%s", err.text);
        cr_assert_eq(tree->size, 7);
        cr_expect_eq(probabilities[1], rows[0][tree->token[1]]);
        cr_expect_eq(probabilities[2], rows[1][tree->token[2]]);
        cr_expect_eq(probabilities[3], rows[1][tree->token[3]]);
    }
    for (int32_t i = 0; i < 3; i++) {
        cop_tree_release(&trees[i]);
    }
    cop_part_free(mixture);
    cop_part_free(tree_part);
    cop_part_free(whole);
    cop_part_free(parts[0]);
    cop_part_free(parts[1]);
    cop_model_free(one);
    cop_model_free(two);
}

/* A lookup that finds nothing leaves its place, also on a chain; siblings of temperature 0 are
 * different tokens. */
Test(propose_mixture, a_drafter_without_a_row_leaves_its_place)
{
    struct cop_model *one = open_tiny((struct tiny_model){.seed = 3});
    struct cop_part *parts[] = {new_lookup(3, 5), new_draft(one), new_draft(one)};
    struct cop_part *mixture = ready(new_mixture(parts, 3));
    static const int32_t widths[] = {3};
    struct cop_part *tree_part = new_widths(widths, 1);
    struct cop_proposer_env env = {.vocab_size = 61, .context = 512};
    const cop_token fresh[] = {1, 2, 3}, again[] = {5, 9, 1, 5};
    struct cop_tree tree;
    double probabilities[4];
    struct cop_error err = {0};
    cr_assert_eq(cop_tree_init(&tree, 4, NULL), COP_OK);
    cr_assert_eq(cop_propose_once(mixture, tree_part, COP_DRAW_DETERMINISTIC, &env, fresh, 3, 0,
                                  &tree, probabilities, NULL, NULL, &err),
                 COP_OK, "%s", err.text);
    cr_expect_eq(tree.size, 4);
    cr_expect_gt(probabilities[1], probabilities[2]);
    cr_expect_gt(probabilities[2], probabilities[3]);
    cr_assert_eq(cop_propose_once(mixture, tree_part, COP_DRAW_DETERMINISTIC, &env, again, 4, 0,
                                  &tree, probabilities, NULL, NULL, &err),
                 COP_OK, "%s", err.text);
    cr_expect_eq(tree.size, 4);
    cr_expect_eq(tree.token[1], 9); /* what followed 5 */
    cr_expect_neq(tree.token[2], 9);
    cr_expect_neq(tree.token[3], tree.token[2]);
    cop_tree_release(&tree);
    cop_part_free(mixture);
    cop_part_free(tree_part);
    for (int32_t i = 0; i < 3; i++) {
        cop_part_free(parts[i]);
    }
    cop_model_free(one);
}

/* ---- Who is asked ------------------------------------------------------------------------ */

/* Drafters of one token at every node down to a depth, who note below how many nodes of each
 * depth they were asked. */
struct scribe {
    int32_t depth, n_asked[8];
};
static struct scribe scribes[2];
static const cop_token scribbles[2] = {11, 12};

static int32_t scribe_depth(const void *state)
{
    (void)state;
    return 4;
}
static enum cop_status scribe_begin(void *session, int32_t sequence, const cop_token *ids,
                                    int32_t n, struct cop_error *err)
{
    (void)session, (void)sequence, (void)ids, (void)n, (void)err;
    return COP_OK;
}
static enum cop_status scribe_observe(void *session, const struct cop_observed *observed,
                                      struct cop_error *err)
{
    (void)session, (void)observed, (void)err;
    return COP_OK;
}
static void scribe_end(void *session, int32_t sequence)
{
    (void)session, (void)sequence;
}

static enum cop_status scribe(int32_t which, struct cop_frontier *frontiers, int32_t n)
{
    int32_t depth = cop_tree_depth(frontiers[0].tree, frontiers[0].nodes[0]);
    for (int32_t f = 0; f < n; f++) {
        scribes[which].n_asked[depth] += frontiers[f].count;
        for (int32_t i = 0; depth < scribes[which].depth && i < frontiers[f].count; i++) {
            frontiers[f].rows[i] = (struct cop_row){
                .kind = COP_ROW_POINTS, .vocab = 61, .ids = &scribbles[which], .count = 1};
        }
    }
    return COP_OK;
}
static enum cop_status first_expand(void *session, struct cop_frontier *frontiers, int32_t n,
                                    struct cop_error *err)
{
    (void)session, (void)err;
    return scribe(0, frontiers, n);
}
static enum cop_status second_expand(void *session, struct cop_frontier *frontiers, int32_t n,
                                     struct cop_error *err)
{
    (void)session, (void)err;
    return scribe(1, frontiers, n);
}

#define SCRIBE(which, cheap)                                                                   \
    {                                                                                          \
        .plug = {.abi = COP_PLUG_ABI,                                                          \
                 .kind = COP_PLUG_PROPOSER,                                                    \
                 .name = #which,                                                               \
                 .help = "drafts one token"},                                                  \
        .supply = COP_SUPPLY_POINTS, .own_depth = scribe_depth, .begin = scribe_begin,         \
        .expand = which##_expand, .observe = scribe_observe, .end = scribe_end,                \
        .is_cheap = cheap                                                                      \
    }
static const struct cop_proposer_ops scribe_ops[] = {SCRIBE(first, true),
                                                     SCRIBE(second, false)};

static void new_scribes(int32_t first_depth, struct cop_part **parts)
{
    for (int32_t i = 0; i < 2; i++) {
        scribes[i] = (struct scribe){.depth = i == 0 ? first_depth : 8};
        parts[i] = ready(cop_part_new(&scribe_ops[i].plug));
    }
}

/* The second drafter is asked where the first leaves a place that the tree has a use for, and
 * not below where it was not asked. */
Test(propose_mixture, later_drafters_are_asked_for_places_that_are_left)
{
    static const struct {
        const char *what;
        int32_t first_depth, n_widths, widths[3], size, asked[4];
    } cases[] = {
        {"a match", 2, 3, {1, 1, 1}, 3, {0, 0, 0, 0}},
        {"no match", 0, 3, {1, 1, 1}, 4, {1, 1, 1, 0}},
        {"one of each", 3, 3, {2, 1, 1}, 7, {1, 0, 0, 0}},
        {"a short match", 1, 3, {2, 1, 1}, 7, {1, 2, 2, 0}},
        {"a second token that nobody has", 1, 2, {2, 2}, 5, {1, 2, 0, 0}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct cop_part *parts[2], *builder = new_widths(cases[c].widths, cases[c].n_widths);
        new_scribes(cases[c].first_depth, parts);
        struct cop_part *mixture = ready(new_mixture(parts, 2));
        const struct cop_proposer_env env = {.vocab_size = 61, .context = 512};
        const cop_token context[] = {1, 2, 3};
        struct cop_tree tree;
        struct cop_error err = {0};
        cr_assert_eq(cop_tree_init(&tree, 16, NULL), COP_OK);
        cr_assert_eq(cop_propose_once(mixture, builder, COP_DRAW_DETERMINISTIC, &env, context,
                                      3, 0, &tree, NULL, NULL, NULL, &err),
                     COP_OK, "%s", err.text);
        cr_expect_eq(tree.size, cases[c].size, "%s: %d nodes", cases[c].what, tree.size);
        for (int32_t depth = 0; depth < 4; depth++) {
            cr_expect_eq(scribes[1].n_asked[depth], cases[c].asked[depth], "%s: %d at depth %d",
                         cases[c].what, scribes[1].n_asked[depth], depth);
        }
        cop_tree_release(&tree);
        cop_part_free(mixture);
        cop_part_free(builder);
        cop_part_free(parts[0]);
        cop_part_free(parts[1]);
    }
}

/* Drafts what is offered, and nothing else. */
static bool more_if_offered(const void *state, const struct cop_length_in *in)
{
    (void)state;
    cr_expect(!in->offered || in->offered[0].ids == &scribbles[0]);
    return in->offered != NULL;
}
static const struct cop_length_ops frugal = {.plug = {.abi = COP_PLUG_ABI,
                                                      .kind = COP_PLUG_LENGTH,
                                                      .name = "frugal",
                                                      .help = "what is offered"},
                                             .more = more_if_offered};

/* A length policy sees what the cheap drafter found before the other one is asked. */
Test(propose_mixture, the_length_policy_decides_between_cheap_and_dear)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    for (int32_t first_depth = 0; first_depth < 3; first_depth += 2) {
        struct cop_part *parts[2];
        new_scribes(first_depth, parts);
        struct cop_engine_options options = {.target = target,
                                             .proposer = ready(new_mixture(parts, 2)),
                                             .builder = new_chain(4),
                                             .length = ready(cop_part_new(&frugal.plug)),
                                             .rule = new_rule("match"),
                                             .batch = 2};
        struct cop_engine_options plain = {.target = target};
        struct trial with, without;
        cop_token prompt[PROMPT];
        random_prompt(prompt, PROMPT, 61, 1);
        trial_init(&with, prompt, PROMPT, 20);
        trial_init(&without, prompt, PROMPT, 20);
        run_trials(&options, &with, 1);
        run_trials(&plain, &without, 1);
        expect_equal_tokens(&with.result, &without.result, "frugal");
        cr_expect_gt(scribes[0].n_asked[0], 10);
        cr_expect_eq(with.result.drafted > 0, first_depth > 0);
        for (int32_t depth = 0; depth < 4; depth++) {
            cr_expect_eq(scribes[1].n_asked[depth], 0);
        }
        trial_release(&with);
        trial_release(&without);
        cop_part_free(options.proposer);
        cop_part_free(options.builder);
        cop_part_free(options.length);
        cop_part_free(options.rule);
        cop_part_free(parts[0]);
        cop_part_free(parts[1]);
    }
    cop_model_free(target);
}

static void expect_refusal(struct cop_model *target, struct cop_part *mixture,
                           struct cop_part *builder, const char *rule, enum cop_draw draw,
                           const char *words)
{
    struct cop_engine_options options = {.target = target,
                                         .proposer = mixture,
                                         .builder = builder,
                                         .rule = new_rule(rule),
                                         .draw = draw,
                                         .batch = 1,
                                         .registry = registry(),
                                         .sampling = {.temperature = 1, .top_p = 1}};
    struct cop_error err = {0};
    cr_expect_neq(cop_engine_check(&options, NULL, &err), COP_OK, "%s", words);
    cr_expect(strstr(err.text, words), "%s", err.text);
    cop_part_free(options.rule);
    cop_part_free(builder);
}

Test(propose_mixture, what_several_rows_cannot_be_drawn_by_is_refused)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 3});
    struct cop_part *parts[] = {new_draft(target), new_draft(target)};
    struct cop_part *mixture = ready(new_mixture(parts, 2));
    static const int32_t widths[] = {2, 1};
    expect_refusal(target, mixture, new_widths(widths, 2), "recursive",
                   COP_DRAW_WITHOUT_REPLACEMENT, "draw = \"independent\"");
    expect_refusal(target, mixture, new_independent_paths(2, 2), "recursive",
                   COP_DRAW_INDEPENDENT, "merged paths come from one drafter");
    struct cop_part *nested[] = {mixture, parts[0]};
    struct cop_part *outer = new_mixture(nested, 2), *alone = new_mixture(parts, 1);
    struct cop_error err = {0};
    cr_expect_neq(cop_part_prepare(outer, &err), COP_OK);
    cr_expect(strstr(err.text, "list its drafters instead"), "%s", err.text);
    cr_expect_neq(cop_part_prepare(alone, &err), COP_OK);
    cr_expect(strstr(err.text, "\"second\" is required"), "%s", err.text);
    cop_part_free(outer);
    cop_part_free(alone);
    cop_part_free(mixture);
    cop_part_free(parts[0]);
    cop_part_free(parts[1]);
    cop_model_free(target);
}
