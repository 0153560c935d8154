/* What a policy is shown by the engine, and how long its memory lives. */
#include "tests/algorithms/length/length_bench.h"

/* What a policy is shown before level 1. */
static struct {
    int32_t n_asked, n_offered, least_match;
} shown;

static bool watch(const void *state, const struct cop_length_in *in)
{
    (void)state;
    if (in->level == 1) {
        bool has_row = in->offered && in->n_drafters == 1 && in->n_frontier == 1 &&
                       in->offered[0].kind == COP_ROW_POINTS && in->offered[0].count > 0;
        shown.n_asked++;
        shown.n_offered += has_row;
        shown.least_match =
            in->n_matched < shown.least_match ? in->n_matched : shown.least_match;
    }
    return in->level < 3 && shown.n_asked % 2 == 0;
}
static const struct cop_length_ops watching = {.plug = {.abi = COP_PLUG_ABI,
                                                        .kind = COP_PLUG_LENGTH,
                                                        .name = "watching",
                                                        .help = "two levels, every other time"},
                                               .more = watch};

/* A lookup is asked first: the policy sees its row and its match, and may still draft nothing;
 * it is not asked where nothing was found. A model is asked last. */
Test(lengths, a_lookup_offers_before_the_policy_decides, .timeout = 60)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    for (int arm = 0; arm < 2; arm++) {
        static struct trial trial;
        struct cop_engine_options options = {.target = target,
                                             .proposer =
                                                 arm ? new_draft(target) : new_lookup(3, 5),
                                             .builder = new_chain(5),
                                             .length = ready(cop_part_new(&watching.plug))};
        memset(&shown, 0, sizeof shown);
        shown.least_match = 9;
        random_prompt(prompts[0], PROMPT, 61, 0);
        trial_init(&trial, prompts[0], PROMPT, ANSWER);
        run_trials(&options, &trial, 1);
        int32_t n_drafting = 0;
        for (int32_t c = 0; c < trial.n_cycles; c++) {
            n_drafting += trial.drafted[c] > 0;
            cr_expect_leq(trial.drafted[c], 2);
        }
        cr_expect_gt(n_drafting, 3);
        cr_expect_eq(n_drafting, shown.n_asked / 2);
        cr_expect_eq(shown.n_offered, arm ? 0 : shown.n_asked, "arm %d", arm);
        cr_expect_eq(shown.least_match, arm ? 0 : 1, "arm %d", arm);
        cr_expect(arm || shown.n_asked < trial.n_cycles, "where nothing was found");
        trial_release(&trial);
        cop_part_free(options.proposer);
        cop_part_free(options.builder);
        cop_part_free(options.length);
    }
    cop_model_free(target);
}

static int32_t n_shared;

static void count_cycle(const void *state, void *sequence_state,
                        const struct cop_length_cycle *cycle)
{
    (void)state;
    (void)sequence_state;
    n_shared = ++*(int32_t *)cycle->shared_state;
}
static bool always(const void *state, const struct cop_length_in *in)
{
    (void)state;
    return *(const int32_t *)in->shared_state == n_shared;
}
static const struct cop_length_ops counting = {.plug = {.abi = COP_PLUG_ABI,
                                                        .kind = COP_PLUG_LENGTH,
                                                        .name = "counting",
                                                        .help = "the engine's cycles"},
                                               .more = always,
                                               .observe = count_cycle,
                                               .shared_state_size = sizeof(int32_t)};

Test(lengths, what_is_shared_lives_as_long_as_the_engine, .timeout = 60)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    static struct trial trials[REQUESTS];
    for (int run = 0; run < 2; run++) { /* the second engine begins anew */
        struct cop_engine_options options = {.target = target,
                                             .proposer = new_lookup(3, 5),
                                             .length = ready(cop_part_new(&counting.plug))};
        n_shared = 0;
        make_trials(trials);
        run_trials(&options, trials, REQUESTS);
        int32_t n_cycles = 0;
        for (int32_t i = 0; i < REQUESTS; i++) {
            n_cycles += trials[i].n_cycles;
            cr_expect_gt(trials[i].result.drafted, 0);
            trial_release(&trials[i]);
        }
        cr_expect_eq(n_shared, n_cycles);
        cop_part_free(options.proposer);
        cop_part_free(options.length);
    }
    cop_model_free(target);
}
