/* Multi-draft heads in the engine: drafts depend on committed tokens alone, and no answer
 * changes. */
#include "tests/algorithms/heads/head_bench.h"

#include "tests/algorithms/heads/checkpoints.h"

TestSuite(heads, .init = open_target, .fini = close_target, .timeout = 60);

struct watch {
    struct cop_part *proposer;
    cop_token committed[PROMPT + ANSWER + 8];
    int32_t n, n_drafted, n_compared;
};

/* Whatever was drafted and rejected before: a cycle's drafts are those of a fresh context. */
static enum cop_status compare_with_fresh(void *user, const struct cop_cycle *cycle,
                                          struct cop_error *err)
{
    struct watch *watch = user;
    struct drafts fresh = draft(watch->proposer, NULL, watch->committed, watch->n);
    (void)err;
    /* Near the end of an answer the engine drafts less deep. */
    cr_expect_leq(cycle->tree->size - 1, fresh.n);
    for (int32_t i = 0; i < cycle->tree->size - 1; i++) {
        cr_expect_eq(cycle->tree->token[i + 1], fresh.tokens[i], "cycle %d, draft %d",
                     cycle->cycle, i);
        cr_expect_float_eq(cycle->draft_logprob[i + 1], log(fresh.probabilities[i]), 1e-12);
        watch->n_compared++;
    }
    for (int32_t i = 0; i < cycle->n_accepted; i++) {
        watch->committed[watch->n++] = cycle->tree->token[cycle->accepted[i]];
    }
    watch->committed[watch->n++] = cycle->last;
    watch->n_drafted += cycle->tree->size - 1;
    return COP_OK;
}

static void free_result(void *user, struct cop_result *result)
{
    (void)user;
    cr_expect_eq(result->error.code, COP_OK, "%s", result->error.text);
    cop_result_release(result);
}

static struct cop_part *make(int32_t kind)
{
    return kind == 0   ? new_heads("medusa", new_medusa(SHARED))
           : kind == 1 ? new_heads("hydra", new_hydra(SHARED))
           : kind == 2 ? new_heads("mlp", new_mlp(true, true))
                       : new_heads("medusa", new_reduced(ONE, true, map));
}

Test(heads, drafts_depend_on_committed_tokens_alone)
{
    for (int32_t kind = 0; kind < 3; kind++) {
        static struct watch watches[MATES];
        struct cop_part *proposer = make(kind);
        struct cop_engine_options options = {
            .target = target, .proposer = proposer, .batch = 2};
        struct cop_engine *engine = new_engine(&options);
        struct cop_error err = {0};
        for (int32_t i = 0; i < MATES; i++) {
            watches[i] = (struct watch){.proposer = proposer, .n = i == 0 ? 1 : PROMPT - i};
            random_prompt(watches[i].committed, watches[i].n, VOCAB, 20 + (uint64_t)i);
            struct cop_request request = {.prompt = watches[i].committed,
                                          .n_prompt = watches[i].n,
                                          .max_tokens = ANSWER,
                                          .logprobs = -1,
                                          .user = &watches[i],
                                          .on_cycle = compare_with_fresh};
            cr_assert_eq(cop_engine_submit(engine, &request, free_result, &err), COP_OK);
        }
        cr_assert_eq(cop_engine_run(engine, &err), COP_OK, "%s", err.text);
        for (int32_t i = 0; i < MATES; i++) {
            cr_expect_geq(watches[i].n_compared, 30, "kind %d, request %d: %d", kind, i,
                          watches[i].n_compared);
        }
        cop_engine_free(engine);
        cop_part_free(proposer);
    }
}

static int32_t n_tokens_accepted;

static void run_arm(struct cop_part *proposer, struct cop_part *builder, int32_t batch,
                    double penalty, const struct trial *plain, const char *what)
{
    struct cop_engine_options options = {
        .target = target, .proposer = proposer, .builder = builder, .batch = batch};
    static struct trial trials[MATES];
    options.processing.repetition_penalty = penalty;
    for (int32_t i = 0; i < MATES; i++) {
        trial_init(&trials[i], plain[i].request.prompt, plain[i].request.n_prompt, ANSWER);
    }
    run_trials(&options, trials, MATES);
    for (int32_t i = 0; i < MATES; i++) {
        expect_equal_tokens(&plain[i].result, &trials[i].result, what);
        n_tokens_accepted += (int32_t)trials[i].result.accepted;
        trial_release(&trials[i]);
    }
}

/* Each family with its own chain and two trees, alone and in a batch, with and without a
 * penalty that changes rows by their paths. */
Test(heads, greedy_answers_are_those_of_plain_decoding)
{
    static cop_token prompts[MATES][PROMPT];
    static struct trial plain[2][MATES];
    static const char *const names[] = {"medusa", "hydra", "mlp", "medusa with a map"};
    for (int32_t p = 0; p < 2; p++) {
        struct cop_engine_options options = {.target = target};
        options.processing.repetition_penalty = p ? 1.3 : 0;
        for (int32_t i = 0; i < MATES; i++) {
            random_prompt(prompts[i], PROMPT, VOCAB, 40 + (uint64_t)i);
            trial_init(&plain[p][i], prompts[i], i == 0 ? 1 : PROMPT, ANSWER);
        }
        run_trials(&options, plain[p], MATES);
    }
    for (int32_t kind = 0; kind < 4; kind++) {
        struct cop_part *proposer = make(kind);
        struct cop_part *builders[] = {
            NULL, new_widths((int32_t[]){3, 2, 2, 1}, 4),
            new_paths((int32_t[]){0, 0, 0, 1, 1, 0}, (int32_t[]){1, 2, 1, 2}, 4)};
        n_tokens_accepted = 0;
        for (int32_t b = 0; b < 3; b++) {
            for (int32_t p = 0; p < 2; p++) {
                run_arm(proposer, builders[b], 1 + (b + p) % MATES, p ? 1.3 : 0, plain[p],
                        names[kind]);
            }
            cop_part_free(builders[b]);
        }
        cr_expect_gt(n_tokens_accepted, 0, "%s: nothing was ever accepted", names[kind]);
        cop_part_free(proposer);
    }
    for (int32_t i = 0; i < 2 * MATES; i++) {
        trial_release(&plain[i / MATES][i % MATES]);
    }
}

/* Output layers of their own, and the target's. */
Test(heads, q8_0_drafts_nearly_the_same)
{
    static const char *const names[] = {"medusa", "medusa", "hydra", "mlp"};
    struct head_folder *folders[] = {new_medusa(SHARED), new_medusa(COPIES), new_hydra(COPIES),
                                     new_mlp(true, true)};
    for (int32_t i = 0; i < 4; i++) {
        expect_q8_0(target, names[i], head_folder_path(folders[i]));
        head_folder_free(folders[i]);
    }
}
