/* The target drafts for itself in the pass that verifies: the window as a tree of scouts, the
 * pool, the guesses of Jacobi decoding, and answers that stay. */
#include "tests/algorithms/engine/engine_bench.h"

extern const struct cop_proposer_ops cop_propose_lookahead, cop_propose_jacobi;

enum { PROMPT = 24, REQUESTS = 3 };

static struct cop_part *new_lookahead(int32_t window, int32_t ngram, int32_t guesses)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "lookahead");
    set_number(set_number(part, "window", window), "ngram", ngram);
    return ready(set_number(part, "guesses", guesses));
}

static struct cop_part *set_off(struct cop_part *part, const char *name)
{
    struct cop_error err = {0};
    cr_assert_eq(cop_option_set_bool(option(part, name), part->state, false, "test", &err),
                 COP_OK);
    return part;
}

static struct cop_part *new_jacobi(int32_t tokens)
{
    return ready(set_number(new_part(COP_PLUG_PROPOSER, "jacobi"), "tokens", tokens));
}

/* ---- The layout -------------------------------------------------------------------------- */

/* W = 5, N = 4, G = 2: rows in the published order are root, level 0, 1, 2, branches; here the
 * branches, which the rule sees, come before the scouts. */
Test(propose_lookahead, the_window_is_the_published_layout)
{
    static const int32_t positions[] = {0, 1, 2, 3, 4, 1, 2, 3, 4, 5, 2,
                                        3, 4, 5, 6, 1, 2, 3, 1, 2, 3};
    static const int32_t visible[] = {1, 2, 3, 4, 5, 2, 3, 4, 5, 6, 3,
                                      4, 5, 6, 7, 2, 3, 4, 2, 3, 4};
    struct cop_part *part = set_off(new_lookahead(5, 4, 2), "warm_up");
    struct cop_proposer_env env = {
        .vocab_size = 61, .context = 512, .n_sequences = 1, .capacity = 6};
    const cop_token prompt[] = {7, 8, 9};
    void *session = NULL;
    struct cop_tree tree;
    struct cop_error err = {0};
    cr_assert_eq(cop_tree_init(&tree, 21, NULL), COP_OK);
    cr_assert_eq(cop_propose_lookahead.open(part->state, &env, &session, &err), COP_OK);
    cr_assert_eq(cop_propose_lookahead.begin(session, 0, prompt, 3, &err), COP_OK);
    cop_tree_reset(&tree, 9);
    for (int32_t branch = 0, node = 0; branch < 2; branch++, node = 0) {
        for (int32_t d = 0; d < 3; d++) {
            node = cop_tree_add(&tree, node, 10 * branch + d, 0);
        }
    }
    cop_propose_lookahead.scout(session, 0, &tree, 500);
    cr_assert_eq(tree.size, 21);
    cr_assert_eq(cop_tree_check(&tree, &err), COP_OK, "%s", err.text);
    cr_expect_eq(cop_proposer_facts(part).n_scouts, 14);
    int32_t ones = 0;
    for (int32_t row = 0; row < 21; row++) {
        int32_t node = row == 0 ? 0 : row < 15 ? row + 6 : row - 14, sees = 0;
        for (int32_t other = 0; other < 21; other++) {
            sees += cop_tree_is_ancestor(&tree, other, node);
        }
        cr_expect_eq(cop_tree_depth(&tree, node), positions[row], "row %d", row);
        cr_expect_eq(sees, visible[row], "row %d sees %d", row, sees);
        cr_expect_eq((tree.flags[node] & COP_NODE_SCOUT) != 0, row > 0 && row < 15);
        ones += sees;
    }
    cr_expect_eq(ones, 78);
    /* The rule sees the branches only; near the end of the context the window is cut. */
    cr_expect_eq(cop_tree_children(&tree, 0), 2);
    cop_tree_reset(&tree, 9);
    cop_propose_lookahead.scout(session, 0, &tree, 3);
    cr_expect_eq(tree.size, 1 + 3 + 3 + 2);
    cop_tree_release(&tree);
    cop_propose_lookahead.end(session, 0);
    cop_propose_lookahead.close(session);
    cop_part_free(part);
}

/* ---- By hand ----------------------------------------------------------------------------- */

static struct cop_row rows[32];
static const struct cop_row *row_at(void *context, int32_t node)
{
    (void)context;
    return &rows[node];
}

static void expect_points(void *session, const struct cop_tree *tree, int32_t node,
                          const cop_token *expected, int32_t n)
{
    struct cop_row row = {.kind = COP_ROW_NONE};
    struct cop_frontier frontier = {.tree = tree, .nodes = &node, .count = 1, .rows = &row};
    struct cop_error err = {0};
    cr_assert_eq(cop_propose_lookahead.expand(session, &frontier, 1, &err), COP_OK);
    cr_assert_eq(row.kind == COP_ROW_NONE ? 0 : row.count, n, "node %d", node);
    for (int32_t i = 0; i < n; i++) {
        cr_expect_eq(row.ids[i], expected[i]);
    }
}

/* W = 2, N = 3, G = 2: after a pass in which the top of column i has the best token 40 + i, the
 * pool holds (level 0, level 1, 40 + i); two tails of one token are a tree, the latest first.
 */
Test(propose_lookahead, columns_become_ngrams)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "lookahead");
    struct cop_error err = {0};
    set_number(set_number(set_number(part, "window", 2), "ngram", 3), "guesses", 2);
    set_off(set_off(part, "prompt_pool"), "warm_up");
    struct cop_proposer_env env = {
        .vocab_size = 61, .context = 512, .n_sequences = 1, .capacity = 8};
    const cop_token prompt[] = {5}; /* the whole window is 5 */
    void *session = NULL;
    struct cop_tree tree;
    cr_assert_eq(cop_tree_init(&tree, 12, NULL), COP_OK);
    cr_assert_eq(cop_propose_lookahead.open(ready(part)->state, &env, &session, &err), COP_OK);
    cr_assert_eq(cop_propose_lookahead.begin(session, 0, prompt, 1, &err), COP_OK);
    cop_tree_reset(&tree, 5);
    expect_points(session, &tree, 0, NULL, 0);
    cop_propose_lookahead.scout(session, 0, &tree, 100);
    cr_assert_eq(tree.size, 4); /* (0,1), (1,0), (1,1) */
    rows[2] = (struct cop_row){.kind = COP_ROW_ONE_HOT, .vocab = 61, .best = 40};
    rows[3] = (struct cop_row){.kind = COP_ROW_ONE_HOT, .vocab = 61, .best = 41};
    const cop_token last = 5;
    struct cop_observed observed = {
        .tree = &tree, .last = 5, .committed = &last, .target = {.at = row_at}};
    cr_assert_eq(cop_propose_lookahead.observe(session, &observed, &err), COP_OK);
    /* 5 → (5 40) and (5 41) */
    cop_tree_reset(&tree, 5);
    const cop_token five[] = {5}, tops[] = {41, 40};
    expect_points(session, &tree, 0, five, 1);
    int32_t child = cop_tree_add(&tree, 0, 5, 0);
    expect_points(session, &tree, child, tops, 2);
    /* The levels moved down: level 0 is now (root, 5), level 1 is (40, 41). */
    cop_propose_lookahead.scout(session, 0, &tree, 100);
    cr_assert_eq(tree.size, 5);
    cr_expect_eq(tree.token[2], 5);
    cr_expect_eq(tree.token[3], 40);
    cr_expect_eq(tree.token[4], 41);
    rows[3].best = 50;
    rows[4].best = 51;
    cr_assert_eq(cop_propose_lookahead.observe(session, &observed, &err), COP_OK);
    /* (40 50), (41 51) push out (5 40), then (5 41) */
    cop_tree_reset(&tree, 5);
    const cop_token next[] = {41, 40};
    expect_points(session, &tree, 0, next, 2);
    cop_tree_release(&tree);
    cop_propose_lookahead.end(session, 0);
    cop_propose_lookahead.close(session);
    cop_part_free(part);
}

/* W = 2, N = 4: four columns of level 0, three of two levels, then two of all three. The best
 * token after node i of pass p is 10 p + i. */
Test(propose_lookahead, a_cold_window_fills_level_by_level)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "lookahead");
    struct cop_error err = {0};
    set_number(set_number(part, "window", 2), "ngram", 4);
    struct cop_proposer_env env = {
        .vocab_size = 61, .context = 512, .n_sequences = 1, .capacity = 8};
    static const int32_t sizes[] = {4, 6, 6, 6};
    /* Tokens of the last window: level 0 is the prompt's 5; level 1 columns 2 and 3 of pass 1,
     * moved once; level 2 columns 1 and 2 of pass 2, which stood in its level 1. */
    static const cop_token last[] = {5, 5, 12, 13, 24, 25};
    const cop_token prompt[] = {5}, committed = 5;
    void *session = NULL;
    struct cop_tree tree;
    cr_assert_eq(cop_tree_init(&tree, 12, NULL), COP_OK);
    cr_assert_eq(cop_propose_lookahead.open(ready(part)->state, &env, &session, &err), COP_OK);
    cr_assert_eq(cop_propose_lookahead.begin(session, 0, prompt, 1, &err), COP_OK);
    for (int32_t pass = 1; pass <= 3; pass++) {
        cop_tree_reset(&tree, 5);
        cop_propose_lookahead.scout(session, 0, &tree, 100);
        cr_assert_eq(tree.size, sizes[pass - 1], "pass %d: %d nodes", pass, tree.size);
        for (int32_t i = 0; i < tree.size; i++) {
            rows[i] =
                (struct cop_row){.kind = COP_ROW_ONE_HOT, .vocab = 61, .best = 10 * pass + i};
            cr_expect(pass < 3 || tree.token[i] == last[i], "node %d carries %d", i,
                      tree.token[i]);
        }
        struct cop_observed observed = {
            .tree = &tree, .last = 5, .committed = &committed, .target = {.at = row_at}};
        cr_assert_eq(cop_propose_lookahead.observe(session, &observed, &err), COP_OK);
    }
    cop_tree_release(&tree);
    cop_propose_lookahead.end(session, 0);
    cop_propose_lookahead.close(session);
    cop_part_free(part);
}

/* Guesses 1 2 3 4; 1 is accepted, 2 is not. New guesses are the best tokens after 2, 3 and 4;
 * the last one is a token of the text. */
Test(propose_lookahead, jacobi_refines_what_was_not_accepted)
{
    struct cop_part *part = new_jacobi(4);
    struct cop_proposer_env env = {
        .vocab_size = 61, .context = 512, .n_sequences = 1, .capacity = 4};
    const cop_token prompt[] = {5}, committed[] = {5, 30};
    const int32_t accepted[] = {1};
    void *session = NULL;
    struct cop_tree tree;
    struct cop_error err = {0};
    cr_assert_eq(cop_tree_init(&tree, 5, NULL), COP_OK);
    cr_assert_eq(cop_propose_jacobi.open(part->state, &env, &session, &err), COP_OK);
    cr_assert_eq(cop_propose_jacobi.begin(session, 0, prompt, 1, &err), COP_OK);
    cop_tree_reset(&tree, 5);
    for (int32_t i = 0; i < 4; i++) { /* every guess is 5 */
        (void)cop_tree_add(&tree, i, 5, 0);
        rows[i + 1] = (struct cop_row){.kind = COP_ROW_ONE_HOT, .vocab = 61, .best = 30 + i};
    }
    struct cop_observed observed = {.tree = &tree,
                                    .accepted = accepted,
                                    .n_accepted = 1,
                                    .last = 30,
                                    .committed = committed,
                                    .target = {.at = row_at}};
    cr_assert_eq(cop_propose_jacobi.observe(session, &observed, &err), COP_OK);
    cop_tree_reset(&tree, 30);
    for (int32_t i = 0; i < 4; i++) {
        struct cop_row row = {.kind = COP_ROW_NONE};
        struct cop_frontier frontier = {.tree = &tree, .nodes = &i, .count = 1, .rows = &row};
        cr_assert_eq(cop_propose_jacobi.expand(session, &frontier, 1, &err), COP_OK);
        cr_assert_eq(row.count, 1);
        cr_expect(i == 3 ? row.ids[0] == 5 || row.ids[0] == 30 : row.ids[0] == 31 + i,
                  "guess %d is %d", i, row.ids[0]);
        (void)cop_tree_add(&tree, i, row.ids[0], 0);
    }
    cop_tree_release(&tree);
    cop_propose_jacobi.end(session, 0);
    cop_propose_jacobi.close(session);
    cop_part_free(part);
}

/* ---- Answers ----------------------------------------------------------------------------- */

static void expect_identity(struct cop_part *proposer, struct cop_part *builder,
                            int32_t context, double temperature, const char *what)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7, .context = context});
    struct cop_engine_options options = {.target = target,
                                         .proposer = proposer,
                                         .builder = builder,
                                         .sampling = {.temperature = temperature, .top_p = 1},
                                         .batch = 2};
    struct cop_engine_options plain = {
        .target = target, .sampling = options.sampling, .batch = 1};
    static struct trial with[REQUESTS], without[REQUESTS];
    static cop_token prompts[REQUESTS][PROMPT];
    int64_t drafted = 0, accepted = 0;
    for (int32_t i = 0; i < REQUESTS; i++) {
        random_prompt(prompts[i], PROMPT, 61, (uint64_t)i);
        trial_init(&with[i], prompts[i], PROMPT - 8 * i, 80);
        trial_init(&without[i], prompts[i], PROMPT - 8 * i, 80);
        with[i].request.id = without[i].request.id = (uint32_t)i;
    }
    run_trials(&options, with, REQUESTS);
    run_trials(&plain, without, REQUESTS);
    for (int32_t i = 0; i < REQUESTS; i++) {
        if (temperature == 0) {
            expect_equal_tokens(&with[i].result, &without[i].result, what);
        }
        cr_expect_eq(with[i].result.n_tokens, without[i].result.n_tokens, "%s", what);
        drafted += with[i].result.drafted;
        accepted += with[i].result.accepted;
        trial_release(&with[i]);
        trial_release(&without[i]);
    }
    cr_expect(drafted > 0 && accepted > 0 && accepted < drafted, "%s: %d of %d", what,
              (int)accepted, (int)drafted);
    cop_part_free(builder);
    cop_model_free(target);
}

static void check_caches(void)
{
    setenv("COPPICE_CHECK_KV", "1", 1); /* debug builds: K and V after every cycle */
}

Test(propose_lookahead, tokens_equal_plain_decoding, .init = check_caches)
{
    static const int32_t widths[] = {3, 2, 1};
    struct cop_part *small = new_lookahead(4, 3, 2), *large = new_lookahead(7, 5, 7);
    struct cop_part *jacobi = new_jacobi(6), *lookup = new_lookup(3, 5);
    expect_identity(large, NULL, 512, 0, "own tree");
    expect_identity(small, NULL, 512, 0, "small window");
    expect_identity(large, new_chain(4), 512, 0, "chain");
    expect_identity(large, new_widths(widths, 3), 512, 0, "widths");
    expect_identity(large, NULL, 64, 0, "end of the context");
    expect_identity(large, NULL, 512, 1, "sampled");
    expect_identity(jacobi, NULL, 512, 0, "jacobi");
    expect_identity(jacobi, NULL, 64, 1, "jacobi, sampled");
    struct cop_part *mixture = new_part(COP_PLUG_PROPOSER, "mixture");
    struct cop_error err = {0};
    (void)cop_option_set_object(option(mixture, "first"), mixture->state, lookup, "t", &err);
    (void)cop_option_set_object(option(mixture, "second"), mixture->state, large, "t", &err);
    expect_identity(ready(mixture), NULL, 512, 0, "mixture");
    cop_part_free(mixture);
    cop_part_free(small);
    cop_part_free(large);
    cop_part_free(jacobi);
    cop_part_free(lookup);
}

static int32_t n_wanted;

static bool every_fourth(const void *state, const struct cop_length_in *in)
{
    (void)state;
    return in->level > 1 || n_wanted++ % 4 == 0;
}
static const struct cop_length_ops sparing = {.plug = {.abi = COP_PLUG_ABI,
                                                       .kind = COP_PLUG_LENGTH,
                                                       .name = "sparing",
                                                       .help = "every fourth cycle"},
                                              .more = every_fourth};

/* A cycle that the length policy would have without a draft is a pass of one token, and so is
 * the last one of an answer; one that finds nothing to draft still sends its scouts. */
Test(propose_lookahead, no_scouts_without_a_draft)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    static struct trial plain, trial;
    cop_token prompt[PROMPT];
    struct cop_engine_options options = {.target = target};
    int32_t n_wide = 0, n_hidden = 0;
    random_prompt(prompt, PROMPT, 61, 0);
    trial_init(&plain, prompt, PROMPT, 60);
    run_trials(&options, &plain, 1);
    trial_init(&trial, prompt, PROMPT, 60);
    options.proposer = new_lookahead(4, 3, 2);
    options.length = ready(cop_part_new(&sparing.plug));
    n_wanted = 0;
    run_trials(&options, &trial, 1);
    for (int32_t c = 0; c < trial.n_cycles; c++) {
        bool is_wide = trial.scored[c] > 1;
        cr_expect_eq(is_wide, trial.undrafted[c] == COP_UNDRAFTED_NOT ||
                                  trial.undrafted[c] == COP_UNDRAFTED_NOTHING);
        n_wide += is_wide;
        n_hidden += is_wide && trial.drafted[c] == 0;
    }
    cr_expect_eq(n_wide, (n_wanted + 3) / 4);
    cr_expect_gt(n_hidden, 0);
    expect_equal_tokens(&trial.result, &plain.result, "sparing");
    trial_release(&plain);
    trial_release(&trial);
    cop_part_free(options.proposer);
    cop_part_free(options.length);
    cop_model_free(target);
}
