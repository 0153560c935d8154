/* Every policy: exact laws, and tokens that do not notice. */
#include "tests/algorithms/laws.h"
#include "tests/algorithms/length/length_bench.h"

enum { ENTROPY, SCHEDULE, GIVEN, MEASURED, CONFIDENCE, POLICIES };

static struct cop_part *policy_of(int policy)
{
    static const double costs[] = {1, 1.2, 1.4};
    switch (policy) {
    case ENTROPY: return ready(set_number(new_length("entropy"), "threshold", .57));
    case SCHEDULE: return ready(set_number(new_length("schedule"), "start", 1));
    case GIVEN:
        return ready(
            set_number(set_numbers(new_length("adaptive"), "costs", costs, 3), "rest", 1));
    case MEASURED: return ready(new_length("adaptive"));
    default: return ready(new_length("confidence"));
    }
}

/* Two cycles, so that what the first one taught shapes the second. */
Test(lengths, exact_laws, .timeout = 60)
{
    static const char *const rules[] = {"token", "block", "hierarchical"};
    for (int policy = 0; policy < POLICIES; policy++) {
        double shortest = 9;
        for (int i = 0; i < 3 * FLAVOURS; i++) {
            int flavour = i % FLAVOURS;
            struct mixed_row target = {3, flavour, 5, false}, draft = {3, flavour, 5, true};
            struct cop_law_case what = {.rule = new_rule(rules[i / FLAVOURS]),
                                        .builder = chain_of(2),
                                        .length = policy_of(policy),
                                        .draw = COP_DRAW_INDEPENDENT,
                                        .vocab = 3,
                                        .horizon = 2,
                                        .target = mixed_rows,
                                        .draft = mixed_rows,
                                        .target_context = &target,
                                        .draft_context = &draft};
            struct cop_law law = law_of(what);
            cr_expect_lt(law.total_variation, 1e-13, "policy %d, %s, flavour %d: %g", policy,
                         rules[i / FLAVOURS], flavour, law.total_variation);
            if (flavour == EQUAL && law.expected_accepted < shortest) {
                shortest = law.expected_accepted;
            }
            cop_law_release(&law);
        }
        /* Where the draft is the target, all of it is kept: fewer than 2 is the policy's doing.
         */
        cr_expect(policy == MEASURED || policy == GIVEN ? shortest > 1.999 : shortest < 1.999,
                  "policy %d: %g", policy, shortest);
    }
}

Test(lengths, tokens_equal_plain_decoding, .timeout = 60)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    struct cop_model *kin =
        open_tiny((struct tiny_model){.seed = 7, .noise = 0.1, .noise_seed = 1});
    static struct trial plain[REQUESTS], trials[REQUESTS];
    static const int32_t widths[] = {3, 2, 1};
    struct cop_engine_options options = {.target = target};
    make_trials(plain);
    run_trials(&options, plain, REQUESTS);
    for (int arm = 0; arm < 2 * POLICIES; arm++) {
        options = (struct cop_engine_options){
            .target = target,
            .proposer = arm % 2 ? new_draft(kin) : new_lookup(3, 5),
            .builder = arm % 2 ? new_widths(widths, 3) : new_chain(5),
            .length = policy_of(arm / 2),
            .batch = 2};
        make_trials(trials);
        run_trials(&options, trials, REQUESTS);
        int64_t drafted = 0, accepted = 0;
        for (int32_t i = 0; i < REQUESTS; i++) {
            char what[64];
            snprintf(what, sizeof what, "arm %d, request %d", arm, i);
            expect_equal_tokens(&trials[i].result, &plain[i].result, what);
            drafted += trials[i].result.drafted;
            accepted += trials[i].result.accepted;
            trial_release(&trials[i]);
        }
        cr_expect_gt(drafted, 0, "arm %d", arm);
        cr_expect_gt(accepted, 0, "arm %d", arm);
        cop_part_free(options.proposer);
        cop_part_free(options.builder);
        cop_part_free(options.length);
    }
    for (int32_t i = 0; i < REQUESTS; i++) {
        trial_release(&plain[i]);
    }
    cop_model_free(target);
    cop_model_free(kin);
}

static int32_t largest; /* nodes that a tree had before it was finished */

static bool watch(const void *state, const struct cop_length_in *in)
{
    (void)state;
    largest = in->tree->size - 1 > largest ? in->tree->size - 1 : largest;
    return true;
}
static const struct cop_length_ops watching = {
    .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_LENGTH, .name = "watching", .help = "all"},
    .more = watch};

/* Under a policy that may stop, a sampled tree has no node too many at any level, since none
 * may be taken away again; the best of a row may. */
Test(lengths, samples_stay_where_a_policy_may_stop, .timeout = 60)
{
    enum { BUDGET = 6 };
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    struct cop_model *kin =
        open_tiny((struct tiny_model){.seed = 7, .noise = 0.1, .noise_seed = 1});
    static struct trial trials[REQUESTS];
    for (int sampled = 0; sampled < 2; sampled++) {
        struct cop_part *builder = new_part(COP_PLUG_BUILDER, "threshold");
        struct cop_engine_options options = {
            .target = target,
            .proposer = new_draft(kin),
            .builder = ready(set_number(builder, "budget", BUDGET)),
            .rule = new_rule(sampled ? "recursive" : "sample_match"),
            .draw = sampled ? COP_DRAW_WITHOUT_REPLACEMENT : COP_DRAW_DETERMINISTIC,
            .length = ready(cop_part_new(&watching.plug)),
            .sampling = {.temperature = 1}};
        largest = 0;
        make_trials(trials);
        run_trials(&options, trials, REQUESTS);
        cr_expect(sampled ? largest <= BUDGET && largest > 1 : largest > BUDGET, "%d nodes",
                  largest);
        for (int32_t i = 0; i < REQUESTS; i++) {
            cr_expect_gt(trials[i].result.drafted, 0);
            trial_release(&trials[i]);
        }
        cop_part_free(options.proposer);
        cop_part_free(options.builder);
        cop_part_free(options.rule);
        cop_part_free(options.length);
    }
    cop_model_free(target);
    cop_model_free(kin);
}

/* With given costs a seed gives the same tokens and the same trees, whatever the clock does. */
Test(lengths, given_costs_are_deterministic, .timeout = 60)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    struct cop_model *kin =
        open_tiny((struct tiny_model){.seed = 7, .noise = 0.1, .noise_seed = 1});
    static struct trial runs[2][REQUESTS];
    for (int run = 0; run < 2; run++) {
        struct cop_engine_options options = {.target = target,
                                             .proposer = new_draft(kin),
                                             .builder = new_chain(4),
                                             .rule = new_rule("token"),
                                             .length = policy_of(GIVEN),
                                             .sampling = {.temperature = 1},
                                             .batch = run ? 3 : 1};
        make_trials(runs[run]);
        run_trials(&options, runs[run], REQUESTS);
        cop_part_free(options.proposer);
        cop_part_free(options.builder);
        cop_part_free(options.rule);
        cop_part_free(options.length);
    }
    for (int32_t i = 0; i < REQUESTS; i++) {
        expect_equal_tokens(&runs[0][i].result, &runs[1][i].result, "seed");
        cr_expect_eq(runs[0][i].n_cycles, runs[1][i].n_cycles);
        cr_expect_gt(runs[0][i].result.drafted, 0);
        cr_expect_eq(memcmp(runs[0][i].depth, runs[1][i].depth, sizeof(int32_t) * MOST_CYCLES),
                     0);
        trial_release(&runs[0][i]);
        trial_release(&runs[1][i]);
    }
    cop_model_free(target);
    cop_model_free(kin);
}
