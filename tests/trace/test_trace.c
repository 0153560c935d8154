/* The store: what is written can be read by anybody, and nothing half-written stays. */
#include "tests/trace/runs.h"

Test(trace, a_request_is_written_with_its_cycles)
{
    struct scratch scratch = scratch_new();
    struct cop_error err = {0};
    int64_t session, arm;
    struct cop_trace *trace = open_run(&scratch, &session, &arm);
    struct cop_record *record = cop_record_new();
    add_chain_cycle(record, 0, 3, 2, 1);
    add_chain_cycle(record, 1, 0, 0, 2);
    cr_assert_eq(commit_answer(trace, session, arm, 7, "chat", record, &err), COP_OK, "%s",
                 err.text);
    EXPECT_TEXT(trace, "SELECT tokens FROM requests", "[10,11,99,70000]");
    EXPECT_TEXT(trace, "SELECT length(CAST(text AS BLOB)) FROM requests", "3");
    EXPECT_TEXT(trace, "SELECT forward_passes FROM requests", "2");
    EXPECT_TEXT(trace, "SELECT drafted || ' ' || accepted || ' ' || progress FROM requests",
                "3 2 4");
    /* 6 ms alone, then 6 ms shared by two */
    EXPECT_TEXT(trace, "SELECT decode_seconds FROM requests", "0.009");
    EXPECT_TEXT(trace, "SELECT parents FROM cycles WHERE cycle = 0", "[0,1,2]");
    EXPECT_TEXT(trace, "SELECT tokens FROM cycles WHERE cycle = 0", "[10,11,12]");
    EXPECT_TEXT(trace, "SELECT logprobs FROM cycles WHERE cycle = 0", "[-0.5,-1,-1.5]");
    EXPECT_TEXT(trace, "SELECT accepted FROM cycles WHERE cycle = 0", "[1,2]");
    EXPECT_TEXT(trace, "SELECT origin FROM cycles WHERE cycle = 0", "recovered");
    EXPECT_TEXT(trace,
                "SELECT root || ' ' || nodes || ' ' || depth FROM cycles WHERE cycle = 0",
                "5 3 3");
    EXPECT_TEXT(trace, "SELECT parents || tokens || accepted FROM cycles WHERE cycle = 1",
                "[][][]");
    EXPECT_TEXT(trace, "SELECT origin FROM cycles WHERE cycle = 1", "bonus");
    cop_record_free(record);
    cop_trace_close(trace);
    scratch_remove(&scratch);
}

Test(trace, tokens_without_a_row_have_null_logprobs)
{
    struct scratch scratch = scratch_new();
    struct cop_error err = {0};
    int64_t session, arm;
    struct cop_trace *trace = open_run(&scratch, &session, &arm);
    struct cop_record *record = cop_record_new();
    struct cop_tree tree;
    const double logprobs[] = {(double)NAN, (double)NAN, -HUGE_VAL, -2};
    const int32_t accepted[] = {2};
    cr_assert_eq(cop_tree_init(&tree, 8, &err), COP_OK);
    cop_tree_reset(&tree, 1);
    cop_tree_add(&tree, 0, 4, -1);
    cop_tree_add(&tree, 0, 5, -1);
    cop_tree_add(&tree, 1, 6, -1);
    const struct cop_cycle facts = {.tree = &tree,
                                    .draft_logprob = logprobs,
                                    .accepted = accepted,
                                    .n_accepted = 1,
                                    .batch_size = 1};
    cr_assert_eq(cop_record_cycle(record, &facts, &err), COP_OK);
    cr_assert_eq(commit_answer(trace, session, arm, 1, NULL, record, &err), COP_OK, "%s",
                 err.text);
    EXPECT_TEXT(trace, "SELECT logprobs FROM cycles", "[null,null,-2]");
    EXPECT_TEXT(trace, "SELECT parents || accepted || depth FROM cycles", "[0,0,1][2]2");
    EXPECT_TEXT(trace, "SELECT category FROM requests", "null");
    cop_tree_release(&tree);
    cop_record_free(record);
    cop_trace_close(trace);
    scratch_remove(&scratch);
}

Test(trace, a_reopened_run_knows_what_is_done)
{
    struct scratch scratch = scratch_new();
    struct cop_error err = {0};
    int64_t session, arm, again;
    bool found = true;
    struct cop_trace *trace = open_run(&scratch, &session, &arm);
    struct cop_record *record = cop_record_new();
    add_chain_cycle(record, 0, 1, 1, 1);
    cr_assert_eq(commit_answer(trace, session, arm, 3, NULL, record, &err), COP_OK);
    cop_trace_close(trace);
    trace = open_run(&scratch, &session, &again);
    cr_expect_eq(again, arm, "the arm is found, not added");
    cr_expect_eq(session, 2);
    struct cop_trace_key key = {.arm = arm, .prompt = 3, .repeat = 1, .turn = 1};
    cr_assert_eq(cop_trace_has(trace, &key, &found, &err), COP_OK);
    cr_expect(found);
    key.turn = 2;
    cr_assert_eq(cop_trace_has(trace, &key, &found, &err), COP_OK);
    cr_expect(!found);
    /* a second writer of the same request changes nothing */
    add_chain_cycle(record, 1, 1, 1, 1);
    cr_expect_eq(commit_answer(trace, session, arm, 3, NULL, record, &err), COP_OK, "%s",
                 err.text);
    EXPECT_TEXT(trace, "SELECT COUNT(*) FROM requests", "1");
    EXPECT_TEXT(trace, "SELECT COUNT(*) FROM cycles", "1");
    cr_assert_eq(cop_trace_session_end(trace, session, "finished", &err), COP_OK);
    EXPECT_TEXT(trace, "SELECT group_concat(state) FROM sessions", "running,finished");
    cop_record_free(record);
    cop_trace_close(trace);
    scratch_remove(&scratch);
}

/* A full disk in the middle of a request: one message, the request is gone whole, the earlier
 * one stays, and writing works again when there is room. */
Test(trace, a_full_disk_loses_the_request_in_flight_only)
{
    struct scratch scratch = scratch_new();
    struct cop_error err = {0};
    int64_t session, arm;
    struct cop_trace *trace = open_run(&scratch, &session, &arm);
    struct cop_record *small = cop_record_new(), *large = cop_record_new();
    add_chain_cycle(small, 0, 2, 1, 1);
    for (int32_t i = 0; i < 2000; i++) {
        add_chain_cycle(large, i, 8, 1, 1);
    }
    cr_assert_eq(commit_answer(trace, session, arm, 1, NULL, small, &err), COP_OK);
    EXPECT_TEXT(trace, "PRAGMA max_page_count = 30", "30");
    cr_expect_eq(commit_answer(trace, session, arm, 2, NULL, large, &err), COP_ERR_IO);
    cr_expect_str_eq(err.text, "cannot write a cycle to the trace: the disk is full");
    EXPECT_TEXT(trace, "SELECT group_concat(prompt) FROM requests", "1");
    EXPECT_TEXT(trace, "SELECT COUNT(*) FROM cycles", "1");
    EXPECT_TEXT(trace, "PRAGMA max_page_count = 100000", "100000");
    cr_expect_eq(commit_answer(trace, session, arm, 2, NULL, large, &err), COP_OK, "%s",
                 err.text);
    EXPECT_TEXT(trace, "SELECT COUNT(*) FROM cycles", "2001");
    EXPECT_TEXT(trace, "PRAGMA integrity_check", "ok");
    cop_record_free(small);
    cop_record_free(large);
    cop_trace_close(trace);
    scratch_remove(&scratch);
}

/* What a killed program leaves: an unfinished transaction that the next opening does not see.
 */
Test(trace, an_unfinished_transaction_is_not_seen)
{
    struct scratch scratch = scratch_new();
    struct cop_error err = {0};
    int64_t session, arm;
    struct cop_trace *trace = open_run(&scratch, &session, &arm), *reader = NULL;
    struct cop_record *record = cop_record_new();
    add_chain_cycle(record, 0, 2, 1, 1);
    cr_assert_eq(commit_answer(trace, session, arm, 1, NULL, record, &err), COP_OK);
    EXPECT_TEXT(trace, "BEGIN IMMEDIATE", "");
    EXPECT_TEXT(trace, "UPDATE requests SET prompt = 5", "");
    cr_assert_eq(cop_trace_open(&reader, scratch.path, COP_TRACE_READ, &err), COP_OK, "%s",
                 err.text);
    EXPECT_TEXT(reader, "SELECT prompt FROM requests", "1");
    cop_trace_close(reader);
    cop_record_free(record);
    cop_trace_close(trace);
    scratch_remove(&scratch);
}

Test(trace, files_that_are_no_traces_are_refused)
{
    struct scratch scratch = scratch_new();
    struct cop_error err = {0};
    struct cop_trace *trace = NULL;
    cr_expect_eq(cop_trace_open(&trace, scratch.path, COP_TRACE_READ, &err), COP_ERR_IO);
    cr_expect(strstr(err.text, "trace.db") != NULL, "%s", err.text);
    FILE *file = fopen(scratch.path, "wb");
    cr_assert(file != NULL);
    for (int i = 0; i < 2000; i++) {
        (void)fputs("not a database ", file);
    }
    (void)fclose(file);
    cr_expect_eq(cop_trace_open(&trace, scratch.path, COP_TRACE_WRITE, &err), COP_ERR_FORMAT);
    cr_expect_null(trace);
    (void)unlink(scratch.path);
    int64_t session, arm;
    trace = open_run(&scratch, &session, &arm);
    EXPECT_TEXT(trace, "PRAGMA user_version = 999", "");
    cop_trace_close(trace);
    cr_expect_eq(cop_trace_open(&trace, scratch.path, COP_TRACE_WRITE, &err), COP_ERR_FORMAT);
    cr_expect(strstr(err.text, "version 999") != NULL, "%s", err.text);
    scratch_remove(&scratch);
}

Test(trace, queries_take_values_and_say_what_is_wrong)
{
    struct scratch scratch = scratch_new();
    struct cop_error err = {0};
    int64_t session, arm;
    bool has_row = false;
    struct cop_query *query = NULL;
    struct cop_trace *trace = open_run(&scratch, &session, &arm);
    const struct cop_trace_value values[] = {
        {.type = COP_TRACE_INTEGER, .integer = INT64_MAX},
        {.type = COP_TRACE_REAL, .real = 0.1},
        {.type = COP_TRACE_TEXT, .bytes = "a\0b", .length = 3},
        {.type = COP_TRACE_NULL}};
    cr_assert_eq(
        cop_query_open(&query, trace, "SELECT ? AS i, ? AS x, ? AS s, ? AS n", values, 4, &err),
        COP_OK, "%s", err.text);
    cr_expect_eq(cop_query_step(query, &has_row, &err), COP_OK);
    cr_expect(has_row);
    cr_expect_eq(cop_query_columns(query), 4);
    cr_expect_str_eq(cop_query_name(query, 2), "s");
    cr_expect_eq(cop_query_value(query, 0).integer, INT64_MAX);
    cr_expect_eq(cop_query_value(query, 1).real, 0.1);
    cr_expect_eq(cop_query_value(query, 2).length, 3);
    cr_expect_eq(cop_query_value(query, 3).type, COP_TRACE_NULL);
    cr_expect_eq(cop_query_step(query, &has_row, &err), COP_OK);
    cr_expect(!has_row);
    cop_query_close(query);
    cr_expect_eq(cop_query_open(&query, trace, "SELECT nothing", NULL, 0, &err),
                 COP_ERR_ARGUMENT);
    cr_expect(strstr(err.text, "nothing") != NULL, "%s", err.text);
    cr_expect_eq(cop_query_open(&query, trace, "SELECT ?", NULL, 0, &err), COP_ERR_ARGUMENT);
    cr_expect_eq(cop_query_open(&query, trace, " ", NULL, 0, &err), COP_ERR_ARGUMENT);
    cop_trace_close(trace);
    scratch_remove(&scratch);
}

/* Cycles of 3, 2 and 1 tokens; a stop string that ends in the third begins in the second. */
Test(trace, a_stop_string_may_cut_into_earlier_cycles)
{
    struct cop_error err = {0};
    struct scratch scratch = scratch_new();
    int64_t session, arm;
    struct cop_trace *trace = open_run(&scratch, &session, &arm);
    struct cop_record *record = cop_record_new();
    add_chain_cycle(record, 0, 3, 2, 1);
    add_chain_cycle(record, 1, 3, 1, 1);
    add_chain_cycle(record, 2, 3, 0, 1);
    cr_assert_eq(commit_answer(trace, session, arm, 1, NULL, record, &err), COP_OK);
    EXPECT_TEXT(trace,
                "SELECT group_concat(kept) FROM (SELECT kept FROM cycles ORDER BY cycle)",
                "3,1,0");
    EXPECT_TEXT(trace, "SELECT count(*) FROM broken_identities", "0");
    cop_record_free(record);
    cop_trace_close(trace);
    scratch_remove(&scratch);
}
