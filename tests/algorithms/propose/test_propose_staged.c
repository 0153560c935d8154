/* A draft model with a drafter: what is drafted is what the model alone drafts, in fewer
 * passes. */
#include "tests/algorithms/engine/engine_bench.h"

enum { PROMPT = 24, REQUESTS = 3 };

static struct cop_part *new_staged(struct cop_model *model, struct cop_part *inner,
                                   int32_t ahead)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "staged");
    struct cop_error err = {0};
    cr_assert_eq(cop_option_set_object(option(part, "model"), part->state, model, "test", &err),
                 COP_OK);
    cr_assert_eq(
        cop_option_set_object(option(part, "proposer"), part->state, inner, "test", &err),
        COP_OK);
    return ready(set_number(part, "ahead", ahead));
}

static void run_arm(struct cop_model *target, struct cop_part *proposer,
                    struct cop_part *builder, const char *rule, double temperature,
                    struct trial *trials)
{
    static cop_token prompts[REQUESTS][PROMPT];
    struct cop_engine_options options = {.target = target,
                                         .proposer = proposer,
                                         .builder = builder,
                                         .rule = proposer ? new_rule(rule) : NULL,
                                         .sampling = {.temperature = temperature, .top_p = 1},
                                         .processing = {.repetition_penalty = 1.2},
                                         .batch = 2};
    for (int32_t i = 0; i < REQUESTS; i++) {
        random_prompt(prompts[i], PROMPT, 61, (uint64_t)i);
        trial_init(&trials[i], prompts[i], PROMPT - 4 * i, 60);
        trials[i].request.id = (uint32_t)i;
    }
    run_trials(&options, trials, REQUESTS);
    cop_part_free(options.rule);
}

/* Same tokens and the same tree sizes in every cycle as the model alone. */
static void expect_same_drafts(struct cop_model *target, struct cop_model *draft,
                               struct cop_part *staged, struct cop_part *builder,
                               const char *rule, double temperature, const char *what)
{
    static struct trial with[REQUESTS], alone[REQUESTS], plain[REQUESTS];
    struct cop_part *model = new_draft(draft);
    int64_t drafted = 0, accepted = 0;
    run_arm(target, staged, builder, rule, temperature, with);
    run_arm(target, model, builder, rule, temperature, alone);
    run_arm(target, NULL, NULL, rule, temperature, plain);
    for (int32_t i = 0; i < REQUESTS; i++) {
        expect_equal_tokens(&with[i].result, &alone[i].result, what);
        cr_expect_eq(with[i].n_cycles, alone[i].n_cycles, "%s", what);
        for (int32_t c = 0; c < with[i].n_cycles && c < alone[i].n_cycles; c++) {
            cr_expect_eq(with[i].drafted[c], alone[i].drafted[c], "%s", what);
            cr_expect_eq(with[i].accepted[c], alone[i].accepted[c], "%s", what);
        }
        if (temperature == 0) {
            expect_equal_tokens(&with[i].result, &plain[i].result, what);
        }
        drafted += with[i].result.drafted;
        accepted += with[i].result.accepted;
        trial_release(&with[i]);
        trial_release(&alone[i]);
        trial_release(&plain[i]);
    }
    cr_expect(drafted > 0 && accepted > 0, "%s: %d of %d", what, (int)accepted, (int)drafted);
    cop_part_free(model);
    cop_part_free(builder);
}

Test(propose_staged, drafts_what_the_model_alone_drafts)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    struct cop_model *kin =
        open_tiny((struct tiny_model){.seed = 7, .noise = 0.1, .noise_seed = 1});
    struct cop_model *far =
        open_tiny((struct tiny_model){.seed = 7, .noise = 0.3, .noise_seed = 2});
    struct cop_part *inner[] = {new_lookup(3, 5), new_draft(far), new_draft(kin)};
    struct cop_part *recycling = ready(new_part(COP_PLUG_PROPOSER, "recycling"));
    static const int32_t widths[] = {3, 2, 1, 1};
    for (int32_t i = 0; i < 3; i++) {
        struct cop_part *staged = new_staged(kin, inner[i], 1 + 2 * i);
        expect_same_drafts(target, kin, staged, new_chain(6), "match", 0, "chain");
        expect_same_drafts(target, kin, staged, new_chain(6), "token", 1, "sampled chain");
        expect_same_drafts(target, kin, staged, new_widths(widths, 4), "recursive", 1, "tree");
        expect_same_drafts(target, kin, staged, new_widths(widths, 4), "match", 0, "best tree");
        cop_part_free(staged);
    }
    struct cop_part *learner = new_staged(kin, recycling, 4);
    expect_same_drafts(target, kin, learner, new_chain(6), "match", 0, "recycling");
    struct cop_part *deeper = new_staged(kin, learner, 3); /* three stages */
    expect_same_drafts(target, kin, deeper, new_chain(6), "token", 1, "three stages");
    cop_part_free(deeper);
    cop_part_free(learner);
    cop_part_free(recycling);
    for (int32_t i = 0; i < 3; i++) {
        cop_part_free(inner[i]);
    }
    cop_model_free(target);
    cop_model_free(kin);
    cop_model_free(far);
}

/* ---- An inner proposer that knows the answer --------------------------------------------- */

static cop_token answer[9];
static int32_t depths[64], n_asked;
static bool is_right;

static int32_t oracle_depth(const void *state)
{
    (void)state;
    return 8;
}
static enum cop_status oracle_begin(void *session, int32_t sequence, const cop_token *ids,
                                    int32_t n, struct cop_error *err)
{
    (void)session, (void)sequence, (void)ids, (void)n, (void)err;
    return COP_OK;
}
static enum cop_status oracle_expand(void *session, struct cop_frontier *frontiers, int32_t n,
                                     struct cop_error *err)
{
    (void)session, (void)err;
    static cop_token wrong = 60;
    int32_t depth = cop_tree_depth(frontiers[0].tree, frontiers[0].nodes[0]);
    cr_assert_eq(n, 1);
    depths[n_asked++] = depth;
    frontiers[0].rows[0] = (struct cop_row){.kind = COP_ROW_POINTS,
                                            .vocab = 61,
                                            .ids = is_right ? &answer[depth] : &wrong,
                                            .count = 1};
    return COP_OK;
}
static enum cop_status oracle_observe(void *session, const struct cop_observed *observed,
                                      struct cop_error *err)
{
    (void)session, (void)observed, (void)err;
    return COP_OK;
}
static void oracle_end(void *session, int32_t sequence)
{
    (void)session, (void)sequence;
}
static const struct cop_proposer_ops oracle = {.plug = {.abi = COP_PLUG_ABI,
                                                        .kind = COP_PLUG_PROPOSER,
                                                        .name = "oracle",
                                                        .help = "knows the answer"},
                                               .supply = COP_SUPPLY_POINTS,
                                               .own_depth = oracle_depth,
                                               .begin = oracle_begin,
                                               .expand = oracle_expand,
                                               .observe = oracle_observe,
                                               .end = oracle_end};

/* A chain of 8: right guesses of 4 ahead need two passes (rows after nodes 0 to 4, then 5 to
 * 8), wrong ones a pass a level. The nodes asked tell which passes there were. */
Test(propose_staged, right_guesses_save_passes)
{
    struct cop_model *draft = open_tiny((struct tiny_model){.seed = 3});
    struct cop_part *model = new_draft(draft), *inner = ready(cop_part_new(&oracle.plug));
    struct cop_part *staged = new_staged(draft, inner, 4), *chain = new_chain(8);
    struct cop_proposer_env env = {.vocab_size = 61, .context = 512};
    const cop_token context[] = {1, 2, 3};
    struct cop_tree tree;
    struct cop_error err = {0};
    cr_assert_eq(cop_tree_init(&tree, 9, NULL), COP_OK);
    cr_assert_eq(cop_propose_once(model, chain, COP_DRAW_DETERMINISTIC, &env, context, 3, 0,
                                  &tree, NULL, NULL, NULL, &err),
                 COP_OK);
    for (int32_t i = 0; i < 8; i++) {
        answer[i] = tree.token[i + 1];
    }
    static const int32_t right[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    for (int32_t pass = 0; pass < 2; pass++) {
        is_right = pass == 0;
        n_asked = 0;
        cr_assert_eq(cop_propose_once(staged, chain, COP_DRAW_DETERMINISTIC, &env, context, 3,
                                      0, &tree, NULL, NULL, NULL, &err),
                     COP_OK, "%s", err.text);
        for (int32_t i = 0; i < 8; i++) {
            cr_expect_eq(tree.token[i + 1], answer[i]);
        }
        if (is_right) {
            cr_expect_eq(n_asked, 9);
            cr_expect_arr_eq(depths, right, sizeof right);
        } else {
            cr_expect_eq(n_asked, 8 * 4); /* four ahead in each of eight passes */
        }
    }
    cop_tree_release(&tree);
    cop_part_free(staged);
    cop_part_free(inner);
    cop_part_free(model);
    cop_part_free(chain);
    cop_model_free(draft);
}
