/* Every published metric against numbers worked out by hand, and the identities of a trace. */
#include "core/trace/views.h"
#include "tests/trace/runs.h"

static struct scratch scratch;
static struct cop_trace *trace;
static int64_t session, plain, draft;

static void setup(void)
{
    struct cop_error err = {0};
    const struct cop_trace_arm arm = {.name = "draft", .sampling = "T=0", .options = "{}"};
    scratch = scratch_new();
    trace = open_run(&scratch, &session, &plain);
    cr_assert_eq(cop_trace_arm(trace, &arm, &draft, &err), COP_OK, "%s", err.text);
}

static void teardown(void)
{
    cop_trace_close(trace);
    scratch_remove(&scratch);
}

TestSuite(views, .init = setup, .fini = teardown);

struct cycles {
    int32_t drafted, accepted, times;
};

static int32_t text_tokens = -1; /* of the answers that are added; -1: not counted */

/* An answer of as many tokens as its cycles made; 0.25 seconds of prefill. */
static void add_answer(int64_t arm, int32_t prompt, const struct cycles *cycles, int32_t n,
                       const char *category)
{
    struct cop_error err = {0};
    struct cop_record *record = cop_record_new();
    cop_token tokens[256] = {0};
    int32_t n_tokens = 0, at = 0;
    for (int32_t i = 0; i < n; i++) {
        for (int32_t t = 0; t < cycles[i].times; t++) {
            add_chain_cycle(record, at++, cycles[i].drafted, cycles[i].accepted, 1);
            n_tokens += cycles[i].accepted + 1;
        }
    }
    const struct cop_trace_request request = {
        .key = {.arm = arm, .prompt = prompt, .repeat = 1, .turn = 1},
        .session = session,
        .category = category,
        .n_prompt = 21,
        .tokens = tokens,
        .n_tokens = n_tokens,
        .text = "x",
        .text_length = 1,
        .has_text_tokens = text_tokens >= 0,
        .text_tokens = text_tokens,
        .finish = "length",
        .prefill_seconds = 0.25};
    cr_assert_leq(n_tokens, 256);
    cr_assert_eq(cop_trace_commit(trace, &request, record, &err), COP_OK, "%s", err.text);
    cop_record_free(record);
}

/* vLLM's example: 43 rounds of 3 drafts, of which 39 accept none, 1 one, 3 all. Plain decoding
 * says the same 53 tokens. Cycles take 6 ms, 2 of them scoring. */
static void add_vllm_example(void)
{
    static const struct cycles rounds[] = {{3, 0, 39}, {3, 1, 1}, {3, 3, 3}};
    static const struct cycles tokens[] = {{0, 0, 53}};
    add_answer(draft, 1, rounds, 3, "a");
    add_answer(plain, 1, tokens, 1, "a");
}

#define EXPECT_VALUE(view, expected) EXPECT_VALUE_AT(view, "1", expected)
#define EXPECT_VALUE_AT(view, where, expected)                                                 \
    EXPECT_TEXT(trace,                                                                         \
                "SELECT printf('%.5f', value) FROM " view " WHERE arm = 'draft' AND " where,   \
                expected)

Test(views, vllm_example)
{
    add_vllm_example();
    EXPECT_VALUE("mean_acceptance_length_vllm", "1.23256");
    EXPECT_VALUE("draft_acceptance_rate", "0.07752");
    EXPECT_TEXT(trace, "SELECT group_concat(value) FROM acceptance_histogram_vllm", "39,1,3");
    EXPECT_TEXT(trace, "SELECT group_concat(accepted) FROM acceptance_histogram_vllm", "0,1,3");
    EXPECT_VALUE_AT("rate_at_depth_vllm", "depth = 1", "0.09302");   /* 4 / 43 */
    EXPECT_VALUE_AT("rate_at_depth_vllm", "depth = 3", "0.06977");   /* 3 / 43 */
    EXPECT_VALUE_AT("rate_at_depth_sglang", "depth = 2", "0.75000"); /* 3 / 4 */
    EXPECT_VALUE_AT("rate_at_depth_sglang", "depth = 3", "1.00000");
    EXPECT_VALUE_AT("alpha_at_depth_eagle", "depth = 1", "0.09302");
    EXPECT_VALUE("acceptance_per_test", "0.20000"); /* 10 / (10 + 40) */
}

Test(views, tokens_per_pass)
{
    add_vllm_example();
    EXPECT_VALUE("block_efficiency", "1.23256");
    EXPECT_VALUE("tau_eagle", "1.23256");
    EXPECT_VALUE("mean_accepted_tokens_spec_bench", "1.23256");
    EXPECT_VALUE("acc_length_sglang", "1.23256");
    EXPECT_VALUE("tokens_per_target_pass_sequoia", "1.23256");
    EXPECT_VALUE("gen_rate_specexec", "1.23256");
    EXPECT_VALUE("tokens_per_scored_position", "0.30814");   /* 53 / (43 * 4) */
    EXPECT_VALUE("tokens_per_target_equivalent", "0.82171"); /* 53 / (43 * 3 ms / 2 ms) */
    EXPECT_TEXT(trace, "SELECT value FROM block_efficiency WHERE arm = 'plain'", "1");
    EXPECT_TEXT(trace, "SELECT value FROM mean_acceptance_length_vllm WHERE arm = 'plain'",
                "null");
    EXPECT_TEXT(trace, "SELECT COUNT(*) FROM rate_at_depth_vllm WHERE arm = 'plain'", "0");
}

Test(views, speed)
{
    add_vllm_example();
    EXPECT_VALUE("tokens_per_second", "205.42636");            /* 53 / (43 * 6 ms) */
    EXPECT_VALUE("tokens_per_second_end_to_end", "104.33071"); /* 53 / (0.258 + 0.25) */
    EXPECT_VALUE("speed_up_of_pooled_rates", "1.23256");
    EXPECT_VALUE("speed_up_end_to_end", "1.11811"); /* (0.318 + 0.25) / 0.508 */
    EXPECT_VALUE("speed_up_spec_bench_corrected", "1.11811");
    EXPECT_VALUE("speed_up_spec_bench", "1.13961"); /* times 53 / 52 */
    EXPECT_VALUE("tokens_per_second_spec_bench", "104.33071");
    EXPECT_VALUE("tokens_per_second_spec_bench_of_plain", "91.54930"); /* 52 / 0.568 */
    EXPECT_VALUE("speed_up_dflash", "1.23256");
    EXPECT_VALUE("speed_proxy_sglang", "205.42636");
    EXPECT_VALUE("speed_up_proxy_sglang", "1.23256");
    EXPECT_VALUE("goodput_of_target_time", "116.27907"); /* 10 / 86 ms */
    EXPECT_VALUE("draft_share", "0.16667");
    EXPECT_VALUE("score_share", "0.33333");
    EXPECT_VALUE("host_share", "0.50000");
    EXPECT_VALUE("kv_bytes_per_token", "81.13208"); /* 4300 / 53 */
    EXPECT_TEXT(trace, "SELECT value FROM speed_up_end_to_end WHERE arm = 'plain'", "1");
}

/* Two answers of one and of four cycles: what is pooled differs from what is averaged. */
Test(views, pooled_and_averaged)
{
    static const struct cycles one[] = {{4, 4, 1}}, four[] = {{4, 0, 2}, {2, 2, 1}, {0, 0, 1}};
    add_answer(draft, 1, one, 1, "a");
    add_answer(draft, 2, four, 3, "b");
    EXPECT_VALUE("block_efficiency", "2.20000");                 /* 11 / 5 */
    EXPECT_VALUE("average_acceptance_length_dflash", "3.25000"); /* (5 + 6 / 4) / 2 */
    EXPECT_VALUE("acc_length_sglang_of_requests", "3.25000");
    EXPECT_VALUE("mean_acceptance_length_vllm", "2.50000"); /* 1 + 6 / 4 */
    EXPECT_VALUE("gen_rate_specexec", "2.75000");           /* 11 / 4 */
    EXPECT_VALUE("drafting_share", "0.80000");
    EXPECT_VALUE("acceptance_per_test", "0.75000");                  /* 6 / (6 + 2) */
    EXPECT_VALUE_AT("alpha_at_depth_eagle", "depth = 3", "1.00000"); /* 1 of 1 offered */
    EXPECT_VALUE_AT("rate_at_depth_sglang", "depth = 3", "0.50000"); /* 1 of 2 that got to 2 */
    EXPECT_VALUE_AT("rate_at_depth_of_cycles", "depth = 1", "0.40000");
    EXPECT_VALUE_AT("rate_at_depth_of_tests", "depth = 1", "0.50000");
    EXPECT_VALUE_AT("progress_distribution", "tokens = 1", "0.60000");
    EXPECT_VALUE_AT("verify_shapes", "nodes = 4", "0.60000");
    EXPECT_VALUE_AT("block_efficiency_at_nodes", "nodes = 4", "2.33333");
    EXPECT_VALUE_AT("block_efficiency_of_category", "category = 'b'", "1.50000");
    EXPECT_VALUE_AT("block_efficiency_at_position", "position = 0", "2.20000");
    EXPECT_TEXT(trace, "SELECT COUNT(*) FROM speed_up_of_pooled_rates", "0"); /* no baseline */
}

/* Spec-Bench's sub-tasks: a writing and a coding question are both of mt_bench. Plain
 * decoding's text is cut into 9 tokens where 10 were said, so that 8 count. */
Test(views, sub_tasks_of_spec_bench)
{
    static const struct cycles two[] = {{4, 4, 2}}, five[] = {{1, 1, 5}}, ten[] = {{0, 0, 10}};
    static const char *const categories[] = {"writing", "coding", "qa"};
    text_tokens = 9;
    for (int32_t i = 0; i < 3; i++) {
        add_answer(draft, i + 1, i == 0 ? two : five, 1, categories[i]);
        add_answer(plain, i + 1, ten, 1, categories[i]);
    }
    text_tokens = -1;
    EXPECT_VALUE_AT("mean_accepted_tokens_spec_bench_of_task", "task = 'mt_bench'",
                    "2.85714"); /* 20 / 7 */
    EXPECT_VALUE_AT("mean_accepted_tokens_spec_bench_of_task", "task = 'qa'", "2.00000");
    EXPECT_VALUE("mean_accepted_tokens_spec_bench", "2.50000"); /* 30 / 12 */
    EXPECT_VALUE("tokens_per_second_spec_bench",
                 "36.53217"); /* of 10 / 0.262, 10 / 0.28 twice */
    EXPECT_VALUE("tokens_per_second_spec_bench_of_plain", "25.80645"); /* 8 / 0.31 */
    EXPECT_VALUE_AT("speed_up_spec_bench_of_task", "task = 'qa'",
                    "1.38393"); /* 0.31 * 10 / 8 / 0.28 */
    EXPECT_VALUE_AT("speed_up_spec_bench_of_task", "task = 'mt_bench'", "1.43147");
}

/* The law of a distribution of progress: relaxed rules 4.7. */
Test(views, identities_of_counts)
{
    add_vllm_example();
    EXPECT_TEXT(trace, "SELECT printf('%.9f', SUM(value)) FROM progress_distribution",
                "2.000000000"); /* two arms */
    EXPECT_TEXT(trace,
                "SELECT printf('%.9f', SUM(value * tokens)) FROM progress_distribution"
                " WHERE arm = 'draft'",
                "1.232558140");
    EXPECT_TEXT(trace,
                "SELECT printf('%.9f', 1 + SUM(value)) FROM rate_at_depth_of_cycles"
                " WHERE arm = 'draft'",
                "1.232558140");
    EXPECT_TEXT(trace, "SELECT COUNT(*) FROM broken_identities", "0");
    EXPECT_TEXT(trace, "SELECT COUNT(*) FROM metrics", "64"); /* 32 of each arm */
}

Test(views, contradictions_are_named)
{
    struct cop_error err = {0};
    add_vllm_example();
    cop_trace_close(trace);
    struct cop_query *query = NULL;
    bool has_row;
    cr_assert_eq(cop_trace_open(&trace, scratch.path, COP_TRACE_WRITE, &err), COP_OK);
    cr_assert_eq(cop_query_open(&query, trace,
                                "UPDATE requests SET accepted = 11 WHERE arm = 2", NULL, 0,
                                &err),
                 COP_OK);
    cr_assert_eq(cop_query_step(query, &has_row, &err), COP_OK);
    cop_query_close(query);
    EXPECT_TEXT(trace,
                "SELECT group_concat(identity || ' ' || left_side || ' ' || right_side, '; ')"
                " FROM broken_identities",
                "accepted = sum of n_accepted 11 10; progress = accepted + cycles 53 54");
}

/* A reader has its own views, of a file that it cannot write, and may keep counts. */
Test(views, of_a_reader)
{
    struct cop_error err = {0};
    struct cop_trace *reader = NULL;
    add_vllm_example();
    cr_assert_eq(cop_trace_open(&reader, scratch.path, COP_TRACE_READ, &err), COP_OK, "%s",
                 err.text);
    EXPECT_TEXT(reader, "SELECT COUNT(*) FROM block_efficiency", "2");
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(cop_trace_cache(reader, &err), COP_OK, "%s", err.text);
        EXPECT_TEXT(reader,
                    "SELECT printf('%.5f', value) FROM draft_acceptance_rate"
                    " WHERE arm = 'draft'",
                    "0.07752");
        EXPECT_TEXT(reader, "SELECT COUNT(*) FROM metrics", "64");
    }
    cop_trace_close(reader);
}
