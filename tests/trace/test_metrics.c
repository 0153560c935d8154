/* Metrics, predictions and intervals against numbers worked out by hand. */
#include "core/trace/bootstrap.h"
#include "core/trace/metrics.h"
#include "core/trace/predict.h"
#include "tests/trace/runs.h"

static struct scratch scratch;
static struct cop_trace *trace;
static int64_t session, arm;

static void commit_cycles(int32_t prompt, const char *category, const int32_t (*cycles)[2],
                          int32_t n, int32_t batch)
{
    struct cop_error err = {0};
    struct cop_record *record = cop_record_new();
    for (int32_t i = 0; i < n; i++) {
        add_chain_cycle(record, i, cycles[i][0], cycles[i][1], batch);
    }
    cr_assert_eq(commit_answer(trace, session, arm, prompt, category, record, &err), COP_OK,
                 "%s", err.text);
    cop_record_free(record);
}

static void setup(void)
{
    scratch = scratch_new();
    trace = open_run(&scratch, &session, &arm);
}

static void teardown(void)
{
    cop_trace_close(trace);
    scratch_remove(&scratch);
}

TestSuite(metrics, .init = setup, .fini = teardown);

/* Drafted, accepted: (4,4) (4,0) (4,2) in chat, (0,0) (2,2) in code. */
static void commit_two_prompts(void)
{
    static const int32_t chat[][2] = {{4, 4}, {4, 0}, {4, 2}}, code[][2] = {{0, 0}, {2, 2}};
    commit_cycles(1, "chat", chat, 3, 1);
    commit_cycles(2, "code", code, 2, 1);
}

Test(metrics, counts_and_depths)
{
    struct cop_metrics m;
    struct cop_error err = {0};
    commit_two_prompts();
    cr_assert_eq(cop_trace_metrics(trace, arm, NULL, &m, &err), COP_OK, "%s", err.text);
    cr_expect_eq(m.requests, 2);
    cr_expect_eq(m.forward_passes, 5);
    cr_expect_eq(m.drafted, 14);
    cr_expect_eq(m.accepted, 8);
    cr_expect_eq(m.progress, 13);
    cr_expect_eq(m.drafting_cycles, 4);
    cr_expect_eq(m.tokens, 8); /* both answers have four */
    cr_assert_eq(m.depth, 4);
    static const int64_t reached[] = {5, 3, 3, 1, 1}, tested[] = {5, 4, 3, 2, 1};
    for (int32_t d = 0; d <= 4; d++) {
        cr_expect_eq(m.reached[d], reached[d], "reached %d: %lld", d, (long long)m.reached[d]);
        cr_expect_eq(m.tested[d], tested[d], "tested %d: %lld", d, (long long)m.tested[d]);
    }
    cr_expect_float_eq(m.decode_seconds, 5 * 0.006, 1e-12);
    cr_expect_float_eq(m.draft_seconds, 5 * 0.001, 1e-12);
    cr_expect_float_eq(m.score_seconds, 5 * 0.002, 1e-12);
    cr_expect_float_eq(m.host_seconds, 5 * 0.003, 1e-12);
    cr_expect_float_eq(m.prefill_seconds, 0.5, 1e-12);
    cr_expect_eq(m.kv_bytes_moved, 500);
    cr_expect_eq(m.peak_pages, 3);
    cop_metrics_release(&m);
}

Test(metrics, of_one_category)
{
    struct cop_metrics m;
    struct cop_error err = {0};
    commit_two_prompts();
    cr_assert_eq(cop_trace_metrics(trace, arm, "code", &m, &err), COP_OK, "%s", err.text);
    cr_expect_eq(m.requests, 1);
    cr_expect_eq(m.forward_passes, 2);
    cr_expect_eq(m.progress, 4);
    cr_expect_eq(m.depth, 2);
    cr_expect_eq(m.tested[1], 1, "a cycle without drafts tests nothing");
    cop_metrics_release(&m);
    cr_assert_eq(cop_trace_metrics(trace, arm, "none", &m, &err), COP_OK, "%s", err.text);
    cr_expect_eq(m.requests, 0);
    cr_expect_eq(m.depth, 0);
    cr_expect_eq(m.reached[0], 0);
    cop_metrics_release(&m);
}

Test(metrics, a_shared_cycle_is_charged_in_parts)
{
    struct cop_metrics m;
    struct cop_error err = {0};
    static const int32_t cycles[][2] = {{2, 1}, {2, 1}};
    commit_cycles(1, NULL, cycles, 2, 4);
    cr_assert_eq(cop_trace_metrics(trace, arm, NULL, &m, &err), COP_OK, "%s", err.text);
    cr_expect_float_eq(m.decode_seconds, 2 * 0.006 / 4, 1e-12);
    cr_expect_float_eq(m.draft_seconds + m.score_seconds + m.host_seconds, m.decode_seconds,
                       1e-12);
    cop_metrics_release(&m);
}

Test(metrics, the_fingerprint_knows_order_and_borders)
{
    struct cop_metrics m;
    struct cop_error err = {0};
    static const cop_token tokens[] = {10, 11, 99, 70000}, other[] = {10, 11, 99, 4464};
    commit_two_prompts();
    cr_assert_eq(cop_trace_metrics(trace, arm, NULL, &m, &err), COP_OK, "%s", err.text);
    uint64_t twice = cop_fingerprint_add(cop_fingerprint_add(0, tokens, 4), tokens, 4);
    cr_expect_eq(m.fingerprint, twice);
    cr_expect_neq(cop_fingerprint_add(0, tokens, 4), cop_fingerprint_add(0, other, 4));
    cr_expect_neq(cop_fingerprint_add(cop_fingerprint_add(0, tokens, 1), tokens + 1, 3),
                  cop_fingerprint_add(cop_fingerprint_add(0, tokens, 2), tokens + 2, 2));
    cop_metrics_release(&m);
}

/* ---- Prediction -----------------------------------------------------------------------------
 */

static const int32_t curve_nodes[] = {1, 2, 4}, curve_contexts[] = {0, 100};
static const double curve_seconds[] = {1, 1.5, 2.5, 2, 2.5, 4.5};
static const struct cop_cost_curve curve = {.nodes = curve_nodes,
                                            .contexts = curve_contexts,
                                            .seconds = curve_seconds,
                                            .n_nodes = 3,
                                            .n_contexts = 2};

Test(metrics, cost_between_and_beyond_the_points)
{
    static const double cases[][3] = {{1, 0, 1},     {2, 0, 1.5},  {3, 0, 2},
                                      {4, 100, 4.5}, {1, 50, 1.5}, {3, 50, 2.75},
                                      {6, 0, 3.5},   {1, 200, 3},  {1, -500, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_float_eq(cop_cost_at(&curve, cases[i][0], cases[i][1]), cases[i][2], 1e-12,
                           "V(%g, %g) = %g", cases[i][0], cases[i][1],
                           cop_cost_at(&curve, cases[i][0], cases[i][1]));
    }
    const struct cop_cost_curve point = {.nodes = curve_nodes,
                                         .contexts = curve_contexts,
                                         .seconds = curve_seconds,
                                         .n_nodes = 1,
                                         .n_contexts = 1};
    cr_expect_eq(cop_cost_at(&point, 64, 1000), 1);
}

/* V(3, 20) = 2.3; D + H = 0.004; alone and in a batch of two (6 tokens: V = 4.1). */
Test(metrics, predicted_seconds_of_a_trace)
{
    struct cop_error err = {0};
    double seconds;
    static const int32_t one[][2] = {{2, 1}};
    commit_cycles(1, NULL, one, 1, 1);
    cr_assert_eq(cop_trace_predict(trace, arm, &curve, &seconds, &err), COP_OK, "%s", err.text);
    double alone = 2 + 0.2 * (3.5 - 2) + 0.004;
    cr_expect_float_eq(seconds, alone, 1e-9, "%g", seconds);
    commit_cycles(2, NULL, one, 1, 2);
    cr_assert_eq(cop_trace_predict(trace, arm, &curve, &seconds, &err), COP_OK, "%s", err.text);
    double shared = (3.5 + 0.2 * (6.5 - 3.5) + 0.004) / 2;
    cr_expect_float_eq(seconds, alone + shared, 1e-9, "%g", seconds);
}

/* ---- Bootstrap ------------------------------------------------------------------------------
 */

Test(bootstrap, constant_ratios_have_no_width)
{
    struct cop_error err = {0};
    struct cop_interval out;
    static const double a[] = {2, 4, 6}, b[] = {1, 2, 3};
    const struct cop_bootstrap of = {
        .a = a, .b = b, .n = 3, .resamples = 500, .level = 0.95, .seed = 1};
    cr_assert_eq(cop_bootstrap_interval(&of, &out, &err), COP_OK, "%s", err.text);
    cr_expect_float_eq(out.value, 2, 1e-12);
    cr_expect_float_eq(out.low, 2, 1e-12);
    cr_expect_float_eq(out.high, 2, 1e-12);
}

/* A ratio of throughputs: (6 tokens / 3 s) / (8 tokens / 8 s). */
Test(bootstrap, four_columns_are_a_speed_up)
{
    struct cop_error err = {0};
    struct cop_interval out;
    static const double a[] = {2, 4}, b[] = {1, 2}, c[] = {4, 4}, d[] = {5, 3};
    const struct cop_bootstrap of = {
        .a = a, .b = b, .c = c, .d = d, .n = 2, .resamples = 2000, .level = 0.95, .seed = 3};
    cr_assert_eq(cop_bootstrap_interval(&of, &out, &err), COP_OK, "%s", err.text);
    cr_expect_float_eq(out.value, 2, 1e-12);
    cr_expect_float_eq(out.low, 1.5, 1e-12);  /* the second item twice */
    cr_expect_float_eq(out.high, 2.5, 1e-12); /* the first item twice */
}

/* The mean of 0 and 1 over n items has a binomial law: the interval follows its quantiles. */
Test(bootstrap, a_mean_follows_the_binomial_law)
{
    struct cop_error err = {0};
    struct cop_interval out, same, other;
    double items[100];
    for (int i = 0; i < 100; i++) {
        items[i] = i % 2;
    }
    struct cop_bootstrap of = {
        .a = items, .n = 100, .resamples = 20000, .level = 0.95, .seed = 7};
    cr_assert_eq(cop_bootstrap_interval(&of, &out, &err), COP_OK);
    cr_assert_eq(cop_bootstrap_interval(&of, &same, &err), COP_OK);
    cr_expect_eq(out.value, 0.5);
    cr_expect_float_eq(out.low, 0.40, 0.011, "%g", out.low); /* binomial 2.5 %: 40 of 100 */
    cr_expect_float_eq(out.high, 0.60, 0.011, "%g", out.high);
    cr_expect_eq(out.low, same.low);
    of.seed = 8;
    of.resamples = 11;
    cr_assert_eq(cop_bootstrap_interval(&of, &other, &err), COP_OK);
    of.seed = 9;
    cr_assert_eq(cop_bootstrap_interval(&of, &same, &err), COP_OK);
    cr_expect_neq(other.low + other.high, same.low + same.high, "the seed matters");
}

Test(bootstrap, nothing_to_draw_from_is_refused)
{
    struct cop_error err = {0};
    struct cop_interval out;
    const struct cop_bootstrap none = {.n = 0, .resamples = 10, .level = 0.95};
    cr_expect_eq(cop_bootstrap_interval(&none, &out, &err), COP_ERR_ARGUMENT);
}
