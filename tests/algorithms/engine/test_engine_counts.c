/* Proposers without a model are invisible at temperature 0: each with its own shape, a chain, a
 * wide and a listed tree gives the tokens of plain decoding, and has drafts accepted. */
#include "tests/algorithms/propose/propose_bench.h"

enum {
    LOOKUP,
    CACHE,
    AUTOMATON,
    SUFFIX_PATH,
    SUFFIX_TREE,
    RECYCLING,
    RECYCLING_SEEN,
    PROPOSERS
};
enum { OWN, CHAIN, WIDTHS, PATHS, BEST_FIRST, EXPAND_RERANK, TREES };
enum { REQUESTS = 4, PROMPT = 24, ANSWER = 60 };

static cop_token prompts[REQUESTS][PROMPT];

/* The first two prompts are history of those that take one. */
static struct cop_part *new_proposer(int32_t proposer)
{
    static const char *const names[] = {"lookup",      "ngram_cache", "suffix_automaton",
                                        "suffix_tree", "suffix_tree", "recycling",
                                        "recycling"};
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, names[proposer]);
    switch (proposer) {
    case CACHE: return ready(set_list(part, "static", prompts[0], 2 * PROMPT));
    case AUTOMATON: return ready(set_list(part, "history", prompts[0], 2 * PROMPT));
    case SUFFIX_TREE:
        set_number(set_string(part, "shape", "tree"), "factor", 4);
        return ready(
            set_number(set_list(part, "history", prompts[0], 2 * PROMPT), "requests", 2));
    case RECYCLING_SEEN: return ready(set_string(part, "unseen", "none"));
    default: return ready(part);
    }
}

static struct cop_part *new_tree(int32_t tree)
{
    static const int32_t widths[] = {3, 2, 1};
    static const int32_t ranks[] = {0, 0, 0, 0, 1, 1, 0, 0, 0}, lengths[] = {1, 2, 2, 1, 3};
    switch (tree) {
    case CHAIN: return new_chain(6);
    case WIDTHS: return new_widths(widths, 3);
    case PATHS: return new_paths(ranks, lengths, 5);
    case BEST_FIRST:
        return ready(set_number(new_part(COP_PLUG_BUILDER, "best_first"), "budget", 12));
    case EXPAND_RERANK:
        return ready(set_number(new_part(COP_PLUG_BUILDER, "expand_rerank"), "budget", 12));
    default: return NULL;
    }
}

static void make_trials(struct trial *trials)
{
    for (int32_t i = 0; i < REQUESTS; i++) {
        random_prompt(prompts[i], PROMPT, 61, (uint64_t)i);
        trial_init(&trials[i], prompts[i], PROMPT - 4 * i, ANSWER);
        trials[i].request.id = (uint32_t)i;
    }
}

Test(engine_counts, tokens_equal_plain_decoding, .timeout = 120)
{
    static struct trial plain[REQUESTS], trials[REQUESTS];
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    struct cop_engine_options options = {.target = target};
    make_trials(plain);
    run_trials(&options, plain, REQUESTS);
    for (int32_t proposer = 0; proposer < PROPOSERS; proposer++) {
        for (int32_t tree = 0; tree < TREES; tree++) {
            options = (struct cop_engine_options){.target = target,
                                                  .proposer = new_proposer(proposer),
                                                  .builder = new_tree(tree),
                                                  .batch = 1 + (proposer + tree) % 3};
            int64_t drafted = 0, accepted = 0;
            make_trials(trials);
            run_trials(&options, trials, REQUESTS);
            for (int32_t i = 0; i < REQUESTS; i++) {
                char what[64];
                snprintf(what, sizeof what, "proposer %d, tree %d, request %d", proposer, tree,
                         i);
                expect_equal_tokens(&trials[i].result, &plain[i].result, what);
                drafted += trials[i].result.drafted;
                accepted += trials[i].result.accepted;
                trial_release(&trials[i]);
            }
            cr_expect_gt(drafted, 0, "proposer %d, tree %d", proposer, tree);
            cr_expect_gt(accepted, 0, "proposer %d, tree %d", proposer, tree);
            cop_part_free(options.proposer);
            cop_part_free(options.builder);
        }
    }
    for (int32_t i = 0; i < REQUESTS; i++) {
        trial_release(&plain[i]);
    }
    cop_model_free(target);
}

/* What the engine says it runs: the proposer's own tree, and its bounds. */
Test(engine_counts, facts_name_the_own_tree)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    static const int32_t expected[PROPOSERS][3] = {
        [LOOKUP] = {10, 10, COP_SHAPE_CHAIN},      [CACHE] = {16, 16, COP_SHAPE_CHAIN},
        [AUTOMATON] = {40, 40, COP_SHAPE_CHAIN},   [SUFFIX_PATH] = {32, 32, COP_SHAPE_CHAIN},
        [SUFFIX_TREE] = {32, 32, COP_SHAPE_TREE},  [RECYCLING] = {6, 80, COP_SHAPE_TREE},
        [RECYCLING_SEEN] = {6, 80, COP_SHAPE_TREE}};
    for (int32_t i = 0; i < PROPOSERS; i++) {
        struct cop_engine_options options = {.target = target,
                                             .proposer = new_proposer(i),
                                             .sampling = COP_SAMPLING_DEFAULT,
                                             .batch = 1,
                                             .registry = registry()};
        struct cop_engine_facts facts;
        struct cop_error err = {0};
        cr_assert_eq(cop_engine_check(&options, &facts, &err), COP_OK, "%s", err.text);
        cr_expect_eq(facts.depth, expected[i][0], "%d: depth %d", i, facts.depth);
        cr_expect_eq(facts.nodes, expected[i][1], "%d: nodes %d", i, facts.nodes);
        cr_expect_eq((int32_t)facts.shape, expected[i][2], "%d", i);
        cr_expect_eq(facts.draw, COP_DRAW_DETERMINISTIC);
        cr_expect(facts.is_lossless);
        cop_part_free(options.proposer);
    }
    cop_model_free(target);
}
