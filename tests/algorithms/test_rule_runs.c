/* Lossless rules on a model: 200,000 runs of three tokens each, from fixed seeds, against the
 * exact law of the target. */
#include "core/proof/runs.h"
#include "tests/algorithms/engine_bench.h"

#ifdef COP_DEBUG /* the sanitizers look at the code, not at the law */
enum { RUNS = 2000 };
#else
enum { RUNS = 200000 };
#endif
enum { VOCAB = 64 };
static const double alpha = 1e-4;

static struct cop_model *target, *draft;
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
    struct cop_error err;
    target = open_tiny(description);
    description.noise = 0.5;
    description.noise_seed = 1;
    draft = open_tiny(description);
    cr_assert_eq(cop_runs_law_find(&law, target, prompt, 2, &sampling, &err), COP_OK, "%s",
                 err.text);
}

static void tear_down(void)
{
    cop_runs_law_release(&law);
    cop_model_free(target);
    cop_model_free(draft);
}
TestSuite(rule_runs, .init = set_up, .fini = tear_down, .timeout = 300);

/* ---- Builders for a claim
 * ---------------------------------------------------------------------
 */

static struct cop_part *builder_for(const struct cop_claim *claim)
{
    static const int32_t pairs[] = {2, 2};
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

static struct cop_runs_result run(const struct cop_rule_ops *rule,
                                  const struct cop_claim *claim, bool is_relaxed, int64_t n)
{
    struct cop_engine_options options = {.target = target,
                                         .proposer = new_draft(draft),
                                         .builder = builder_for(claim),
                                         .rule = ready(cop_part_new(&rule->plug)),
                                         .draw = claim->draw,
                                         .relaxed = is_relaxed,
                                         .sampling = sampling,
                                         .batch = 64,
                                         .registry = registry()};
    struct cop_runs runs = {
        .engine = &options, .prompt = prompt, .n_prompt = 2, .n_runs = n, .seed = 17};
    struct cop_runs_result result;
    struct cop_error err;
    cr_assert_eq(cop_runs_test(&result, &runs, &law, &err), COP_OK, "%s: %s", rule->plug.name,
                 err.text);
    cop_part_free(options.proposer);
    cop_part_free(options.builder);
    cop_part_free(options.rule);
    return result;
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

Test(rule_runs, lossless_rules_have_the_target_law)
{
    int32_t n = 0;
    for (size_t i = 0; i < registry()->count; i++) {
        const struct cop_rule_ops *rule = (const struct cop_rule_ops *)registry()->plugs[i];
        struct cop_claim claim;
        if (rule->plug.kind != COP_PLUG_RULE || rule->promise || !first_claim(rule, &claim)) {
            continue;
        }
        struct cop_runs_result result = run(rule, &claim, false, RUNS);
        for (int32_t d = 0; d < COP_RUNS_TOKENS; d++) {
            cr_expect_geq(result.position[d].dof, 15);
            cr_expect_geq(result.position[d].p, alpha,
                          "%s, %s: chi-square %.1f with %d degrees of freedom at position %d",
                          rule->plug.name, cop_draw_name(claim.draw),
                          result.position[d].statistic, result.position[d].dof, d + 1);
        }
        cr_expect_gt(result.accepted, RUNS / 10, "%s", rule->plug.name);
        cr_expect_lt(result.passes, 3 * RUNS, "%s", rule->plug.name);
        n++;
    }
    cr_expect_geq(n, 2);
}

/* ---- The statistic sees
 * -----------------------------------------------------------------------
 */

Test(rule_runs, relaxed_rules_fail)
{
    /* The best token, judged as if it had been drawn. */
    static const struct cop_claim best = {COP_DRAW_DETERMINISTIC, COP_SHAPE_CHAIN, false};
    const struct cop_plug *token = cop_registry_find(registry(), COP_PLUG_RULE, "token");
    struct cop_runs_result result =
        run((const struct cop_rule_ops *)token, &best, true, RUNS / 10);
    cr_expect_lt(result.p, alpha, "p = %g", result.p);
    const struct cop_plug *typical = cop_registry_find(registry(), COP_PLUG_RULE, "typical");
    if (typical) {
        result = run((const struct cop_rule_ops *)typical, &best, true, RUNS / 10);
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
