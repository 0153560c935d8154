/* Lossless rules on a model: 200,000 runs of three tokens each, from fixed seeds, against the
 * exact law of the target. */
#include "core/proof/runs.h"
#include "tests/algorithms/engine/engine_bench.h"

#include <pthread.h>

#ifdef COP_DEBUG /* the sanitizers look at the code, not at the law */
enum { RUNS = 2000 };
#else
enum { RUNS = 200000 };
#endif
enum { VOCAB = 64 };
static const double alpha = 1e-4;

enum { THREADS = 2 };
static struct cop_model *targets[THREADS], *drafts[THREADS]; /* a model serves one thread */
static struct cop_runs_law law;
static const cop_token prompt[] = {3, 17};
static const struct cop_sampling sampling = {.temperature = 1, .top_p = 1};

static void set_up(void)
{
    struct tiny_model description = {.seed = 7,
                                     .layers = 1,
                                     .hidden = 16,
                                     .heads = 2,
                                     .kv_heads = 1,
                                     .ffn = 32,
                                     .vocab = VOCAB,
                                     .context = 32,
                                     .sharpness = 1.5,
                                     .has_output = true};
    struct tiny_model disturbed = description;
    struct cop_error err;
    disturbed.noise = 0.5;
    disturbed.noise_seed = 1;
    for (int i = 0; i < THREADS; i++) {
        targets[i] = open_tiny(description);
        drafts[i] = open_tiny(disturbed);
    }
    (void)registry();
    cr_assert_eq(cop_runs_law_find(&law, targets[0], prompt, 2, &sampling, &err), COP_OK, "%s",
                 err.text);
}

static void tear_down(void)
{
    cop_runs_law_release(&law);
    for (int i = 0; i < THREADS; i++) {
        cop_model_free(targets[i]);
        cop_model_free(drafts[i]);
    }
}
TestSuite(rule_runs, .init = set_up, .fini = tear_down, .timeout = 900);

/* ---- Builders for a claim
 * ---------------------------------------------------------------------
 */

static struct cop_part *builder_for(const struct cop_claim *claim)
{
    static const int32_t pairs[] = {2, 2};
    if (claim->draw == COP_DRAW_BEAM) {
        return ready(set_number(new_part(COP_PLUG_BUILDER, "beam"), "depth", 2));
    }
    switch (claim->shape) {
    case COP_SHAPE_PATHS:
        if (claim->draw == COP_DRAW_INDEPENDENT) {
            struct cop_part *part = new_part(COP_PLUG_BUILDER, "independent_paths");
            return ready(set_number(set_number(part, "count", 2), "depth", 2));
        }
        return new_chain(2);
    case COP_SHAPE_TREE: return new_widths(pairs, 2);
    case COP_SHAPE_CHAIN: break;
    }
    return new_chain(2);
}

struct job {
    const struct cop_rule_ops *rule;
    struct cop_claim claim;
    bool is_relaxed;
    int64_t n_runs;
    enum cop_status status;
    struct cop_runs_result result;
    struct cop_error err;
};

static void run(struct job *job, int thread)
{
    struct cop_engine_options options = {.target = targets[thread],
                                         .proposer = new_draft(drafts[thread]),
                                         .builder = builder_for(&job->claim),
                                         .rule = ready(cop_part_new(&job->rule->plug)),
                                         .draw = job->claim.draw,
                                         .relaxed = job->is_relaxed,
                                         .sampling = sampling,
                                         .batch = 64,
                                         .registry = registry()};
    struct cop_runs runs = {
        .engine = &options, .prompt = prompt, .n_prompt = 2, .n_runs = job->n_runs, .seed = 17};
    job->status = cop_runs_test(&job->result, &runs, &law, &job->err);
    cop_part_free(options.proposer);
    cop_part_free(options.builder);
    cop_part_free(options.rule);
}

static struct cop_runs_result run_relaxed(const char *name, int64_t n_runs)
{
    struct job job = {.claim = {COP_DRAW_DETERMINISTIC, COP_SHAPE_CHAIN, false},
                      .is_relaxed = true,
                      .n_runs = n_runs};
    job.rule = (const struct cop_rule_ops *)cop_registry_find(registry(), COP_PLUG_RULE, name);
    run(&job, 0);
    cr_assert_eq(job.status, COP_OK, "%s: %s", name, job.err.text);
    return job.result;
}

/* The claim to try: the first one above temperature 0, and every draw is any draw. */
static bool first_claim(const struct cop_rule_ops *rule, struct cop_claim *claim)
{
    for (const struct cop_claim *c = rule->lossless_for; c->draw != COP_DRAW_AUTO; c++) {
        if (!c->zero_only) {
            *claim = *c;
            claim->draw = c->draw == COP_DRAW_COUNT ? COP_DRAW_INDEPENDENT : c->draw;
            return true;
        }
    }
    return false;
}

static struct job jobs[64];
static int32_t n_jobs;
static atomic_int next_job;

static void *work(void *thread)
{
    for (int i; (i = atomic_fetch_add(&next_job, 1)) < n_jobs;) {
        run(&jobs[i], *(const int *)thread);
    }
    return NULL;
}

static void expect_target_law(const struct job *job)
{
    const char *name = job->rule->plug.name;
    cr_assert_eq(job->status, COP_OK, "%s: %s", name, job->err.text);
    for (int32_t d = 0; d < COP_RUNS_TOKENS; d++) {
        const struct cop_chi_square *test = &job->result.position[d];
        cr_expect_geq(test->dof, 15);
        cr_expect_geq(test->p, alpha,
                      "%s, %s: chi-square %.1f with %d degrees of freedom at position %d", name,
                      cop_draw_name(job->claim.draw), test->statistic, test->dof, d + 1);
    }
    cr_expect_gt(job->result.accepted, RUNS / 10, "%s", name);
    cr_expect_lt(job->result.passes, 3 * RUNS, "%s", name);
}

Test(rule_runs, lossless_rules_have_the_target_law)
{
    static const int numbers[THREADS] = {0, 1};
    pthread_t other;
    for (size_t i = 0; i < registry()->count; i++) {
        const struct cop_rule_ops *rule = (const struct cop_rule_ops *)registry()->plugs[i];
        struct job job = {.rule = rule, .n_runs = RUNS};
        if (rule->plug.kind == COP_PLUG_RULE && !rule->promise &&
            first_claim(rule, &job.claim)) {
            cr_assert_lt(n_jobs, (int32_t)(sizeof jobs / sizeof *jobs));
            jobs[n_jobs++] = job;
        }
    }
    cr_assert_geq(n_jobs, 2);
    cr_assert_eq(pthread_create(&other, NULL, work, (void *)(uintptr_t)&numbers[1]), 0);
    (void)work((void *)(uintptr_t)&numbers[0]);
    cr_assert_eq(pthread_join(other, NULL), 0);
    for (int32_t i = 0; i < n_jobs; i++) {
        expect_target_law(&jobs[i]);
    }
}

/* ---- The statistic sees
 * -----------------------------------------------------------------------
 */

Test(rule_runs, relaxed_rules_fail)
{
    /* The best token, judged as if it had been drawn; and rules that promise less. */
    struct cop_runs_result result = run_relaxed("token", RUNS / 10);
    cr_expect_lt(result.p, alpha, "p = %g", result.p);
    if (cop_registry_find(registry(), COP_PLUG_RULE, "typical")) {
        result = run_relaxed("typical", RUNS / 10);
        cr_expect_lt(result.p, alpha, "p = %g", result.p);
    }
}

Test(rule_runs, the_law_is_a_law)
{
    for (int32_t d = 0; d < COP_RUNS_TOKENS; d++) {
        double sum = 0, most = 0;
        for (int32_t i = 0; i < VOCAB; i++) {
            sum += law.position[d][i];
            most = fmax(most, law.position[d][i]);
        }
        cr_expect_lt(fabs(sum - 1), 1e-9);
        cr_expect_lt(most, 0.6);
    }
}

Test(rule_runs, tails_of_chi_square)
{
    /* One degree of freedom: 2 (1 - Phi(1.96)); two: exp(-x / 2); the usual tables. */
    cr_expect_lt(fabs(cop_chi_square_tail(1.959963984540054 * 1.959963984540054, 1) - 0.05),
                 1e-12);
    cr_expect_lt(fabs(cop_chi_square_tail(4, 2) - exp(-2)), 1e-14);
    cr_expect_lt(fabs(cop_chi_square_tail(50, 2) - exp(-25)), 1e-24);
    cr_expect_lt(fabs(cop_chi_square_tail(31.410432844230918, 20) - 0.05), 1e-12);
    cr_expect_lt(fabs(cop_chi_square_tail(10.850811394182585, 20) - 0.95), 1e-12);
    cr_expect_eq(cop_chi_square_tail(0, 20), 1);
    /* Counts 30, 50, 20 against 1/2, 1/4, 1/4: 8 + 25 + 1. */
    static const int64_t counts[] = {30, 50, 20, 0};
    static const double halves[] = {.5, .25, .25, 0};
    struct cop_chi_square test = cop_chi_square_test(counts, 100, halves, 4);
    cr_expect_lt(fabs(test.statistic - 34), 1e-12);
    cr_expect_eq(test.dof, 2);
    static const int64_t impossible[] = {50, 25, 24, 1};
    cr_expect_eq(cop_chi_square_test(impossible, 100, halves, 4).p, 0);
}
