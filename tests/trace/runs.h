/* Hand-made runs for the tests of the trace: a store in a throw-away folder, and cycles written
 * down as numbers. */
#ifndef TESTS_TRACE_RUNS_H
#define TESTS_TRACE_RUNS_H

#include "core/trace/trace.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct scratch {
    char folder[64], path[96];
};

static inline struct scratch scratch_new(void)
{
    struct scratch scratch;
    (void)snprintf(scratch.folder, sizeof scratch.folder, "%s/coppice-trace-XXXXXX", P_tmpdir);
    cr_assert(mkdtemp(scratch.folder) != NULL);
    (void)snprintf(scratch.path, sizeof scratch.path, "%s/trace.db", scratch.folder);
    return scratch;
}

static inline void scratch_remove(const struct scratch *scratch)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[128];
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s%s", scratch->path, ends[i]);
        (void)unlink(path);
    }
    (void)rmdir(scratch->folder);
}

static inline struct cop_trace *open_run(const struct scratch *scratch, int64_t *session,
                                         int64_t *arm)
{
    struct cop_error err = {0};
    struct cop_trace *trace = NULL;
    const struct cop_trace_session start = {.name = "demo", .version = "0", .level = "plain"};
    const struct cop_trace_arm plain = {.name = "plain",
                                        .sampling = "T=0",
                                        .is_plain = true,
                                        .is_lossless = true,
                                        .options = "{}"};
    cr_assert_eq(cop_trace_open(&trace, scratch->path, COP_TRACE_WRITE, &err), COP_OK, "%s",
                 err.text);
    cr_assert_eq(cop_trace_session_start(trace, &start, session, &err), COP_OK, "%s", err.text);
    cr_assert_eq(cop_trace_arm(trace, &plain, arm, &err), COP_OK, "%s", err.text);
    return trace;
}

/* A cycle of a chain: `drafted` nodes with tokens 10, 11, … of which the first n_accepted are
 * kept; D, V and H of 1, 2 and 3 milliseconds. */
static inline void add_chain_cycle(struct cop_record *record, int32_t cycle, int32_t drafted,
                                   int32_t n_accepted, int32_t batch)
{
    struct cop_error err = {0};
    struct cop_tree tree;
    double logprobs[16];
    int32_t accepted[16];
    cr_assert_eq(cop_tree_init(&tree, 16, &err), COP_OK);
    cop_tree_reset(&tree, 5);
    logprobs[0] = (double)NAN;
    for (int32_t i = 0; i < drafted; i++) {
        cr_assert_eq(cop_tree_add(&tree, i, 10 + i, -1), i + 1);
        logprobs[i + 1] = -0.5 * (i + 1);
        accepted[i] = i + 1;
    }
    const struct cop_cycle facts = {.request = 1,
                                    .cycle = cycle,
                                    .tree = &tree,
                                    .draft_logprob = logprobs,
                                    .accepted = accepted,
                                    .n_accepted = n_accepted,
                                    .last = 99,
                                    .origin = n_accepted < drafted ? COP_ORIGIN_RECOVERED
                                                                   : COP_ORIGIN_BONUS,
                                    .progress = n_accepted + 1,
                                    .kept = n_accepted + 1,
                                    .context_length = 20,
                                    .tokens_scored = batch * (drafted + 1),
                                    .batch_size = batch,
                                    .kv_bytes_moved = 100,
                                    .draft_us = 1000,
                                    .score_us = 2000,
                                    .verify_us = 500,
                                    .commit_us = 1000,
                                    .other_us = 1500,
                                    .lua_us = 250};
    cr_assert_eq(cop_record_cycle(record, &facts, &err), COP_OK, "%s", err.text);
    cop_tree_release(&tree);
}

static inline enum cop_status commit_answer(struct cop_trace *trace, int64_t session,
                                            int64_t arm, int32_t prompt, const char *category,
                                            const struct cop_record *record,
                                            struct cop_error *err)
{
    static const cop_token tokens[] = {10, 11, 99, 70000};
    const struct cop_trace_request request = {
        .key = {.arm = arm, .prompt = prompt, .repeat = 1, .turn = 1},
        .session = session,
        .question = "q",
        .category = category,
        .seed = 17,
        .request_id = (uint32_t)prompt,
        .place = 1,
        .n_prompt = 21,
        .tokens = tokens,
        .n_tokens = 4,
        .text = "a\0b",
        .text_length = 3,
        .finish = "length",
        .seconds = 0.5,
        .prefill_seconds = 0.25,
        .peak_pages = 3};
    return cop_trace_commit(trace, &request, record, err);
}

/* The first column of the first row of a query, as text. */
static inline void ask_text(struct cop_trace *trace, const char *sql, char *out, size_t size)
{
    struct cop_error err = {0};
    struct cop_query *query = NULL;
    bool has_row = false;
    cr_assert_eq(cop_query_open(&query, trace, sql, NULL, 0, &err), COP_OK, "%s", err.text);
    cr_assert_eq(cop_query_step(query, &has_row, &err), COP_OK, "%s", err.text);
    out[0] = 0;
    if (has_row) {
        struct cop_trace_value value = cop_query_value(query, 0);
        switch (value.type) {
        case COP_TRACE_NULL: (void)snprintf(out, size, "null"); break;
        case COP_TRACE_INTEGER:
            (void)snprintf(out, size, "%lld", (long long)value.integer);
            break;
        case COP_TRACE_REAL: (void)snprintf(out, size, "%.9g", value.real); break;
        case COP_TRACE_TEXT:
            (void)snprintf(out, size, "%.*s", (int)value.length, value.bytes);
            break;
        }
    }
    cop_query_close(query);
}

#define EXPECT_TEXT(trace, sql, expected)                                                      \
    do {                                                                                       \
        char found_[256];                                                                      \
        ask_text(trace, sql, found_, sizeof found_);                                           \
        cr_expect_str_eq(found_, expected, "%s: got \"%s\"", sql, found_);                     \
    } while (0)

#endif
