/* Metrics as queries over the trace. */
#include "core/trace/metrics.h"
#include "core/base/hash.h"
#include "core/base/json.h"

#include <stdlib.h>
#include <string.h>

/* The requests that count: of this arm and category, not failed. */
#define CHOSEN " WHERE r.arm = ?1 AND (?2 IS NULL OR r.category = ?2) AND r.error IS NULL"

static const char sum_requests[] =
    "SELECT COUNT(*), TOTAL(r.n_tokens), TOTAL(r.forward_passes), TOTAL(r.drafted),"
    " TOTAL(r.accepted), TOTAL(r.progress), TOTAL(r.decode_seconds), TOTAL(r.prefill_seconds),"
    " MAX(r.peak_pages) FROM requests r" CHOSEN;

static const char count_failed[] =
    "SELECT COUNT(*) FROM requests r WHERE r.arm = ?1 AND (?2 IS NULL OR r.category = ?2)"
    " AND r.error IS NOT NULL";

static const char sum_cycles[] =
    "SELECT TOTAL(c.nodes > 0), TOTAL(c.kv_bytes_moved), TOTAL(c.draft_us / c.batch_size),"
    " TOTAL(c.score_us / c.batch_size),"
    " TOTAL((c.verify_us + c.commit_us + c.other_us) / c.batch_size),"
    " TOTAL(c.lua_us / c.batch_size)"
    " FROM requests r JOIN cycles c ON c.request = r.id" CHOSEN;

/* A cycle tested one draft more than it accepted when it ended with a rejection; NULL: what it
 * drafted is not known. */
static const char count_depths[] =
    "SELECT n_accepted, n_accepted + is_rejected, COUNT(*) FROM (SELECT c.n_accepted,"
    " c.origin = 'recovered' AND c.nodes > 0 AS is_rejected"
    " FROM requests r JOIN cycles c ON c.request = r.id" CHOSEN ")"
    " GROUP BY 1, 2 ORDER BY n_accepted + COALESCE(is_rejected, 0) DESC";

static const char list_answers[] =
    "SELECT r.tokens FROM requests r" CHOSEN " ORDER BY r.prompt, r.repeat, r.turn";

struct question {
    struct cop_trace *trace;
    int64_t arm;
    const char *category;
};

static enum cop_status ask(const struct question *question, const char *sql,
                           struct cop_query **query, struct cop_error *err)
{
    struct cop_trace_value values[2] = {{.type = COP_TRACE_INTEGER, .integer = question->arm},
                                        {.type = COP_TRACE_NULL}};
    if (question->category) {
        values[1] = (struct cop_trace_value){.type = COP_TRACE_TEXT,
                                             .bytes = question->category,
                                             .length = strlen(question->category)};
    }
    return cop_query_open(query, question->trace, sql, values, 2, err);
}

/* The numbers of a query's only row. */
static enum cop_status ask_row(const struct question *question, const char *sql, double *out,
                               int32_t n, struct cop_error *err)
{
    struct cop_query *query;
    bool has_row = false;
    enum cop_status status = ask(question, sql, &query, err);
    if (status == COP_OK) {
        status = cop_query_step(query, &has_row, err);
    }
    for (int32_t i = 0; i < n; i++) {
        struct cop_trace_value value = {0};
        if (status == COP_OK && has_row) {
            value = cop_query_value(query, i);
        }
        out[i] = value.type == COP_TRACE_INTEGER ? (double)value.integer : value.real;
    }
    cop_query_close(query);
    return status;
}

static enum cop_status read_sums(const struct question *question, struct cop_metrics *metrics,
                                 struct cop_error *err)
{
    double sums[9], cycles[6], failed;
    enum cop_status status = ask_row(question, sum_requests, sums, 9, err);
    if (status == COP_OK) {
        status = ask_row(question, sum_cycles, cycles, 6, err);
    }
    if (status == COP_OK) {
        status = ask_row(question, count_failed, &failed, 1, err);
    }
    if (status != COP_OK) {
        return status;
    }
    *metrics = (struct cop_metrics){.requests = (int64_t)sums[0],
                                    .failed = (int64_t)failed,
                                    .tokens = (int64_t)sums[1],
                                    .forward_passes = (int64_t)sums[2],
                                    .drafted = (int64_t)sums[3],
                                    .accepted = (int64_t)sums[4],
                                    .progress = (int64_t)sums[5],
                                    .decode_seconds = sums[6],
                                    .prefill_seconds = sums[7],
                                    .peak_pages = (int32_t)sums[8],
                                    .drafting_cycles = (int64_t)cycles[0],
                                    .kv_bytes_moved = (int64_t)cycles[1],
                                    .draft_seconds = cycles[2] / 1e6,
                                    .score_seconds = cycles[3] / 1e6,
                                    .host_seconds = cycles[4] / 1e6,
                                    .lua_seconds = cycles[5] / 1e6};
    return COP_OK;
}

static void count_from(int64_t *counts, int32_t depth, int64_t cycles)
{
    for (int32_t d = 0; d <= depth; d++) {
        counts[d] += cycles;
    }
}

static bool make_lists(struct cop_metrics *metrics, int32_t depth)
{
    metrics->depth = depth;
    metrics->reached = calloc((size_t)depth + 1, sizeof *metrics->reached);
    metrics->tested = calloc((size_t)depth + 1, sizeof *metrics->tested);
    return metrics->reached && metrics->tested;
}

/* The first row is the deepest. */
static enum cop_status read_depths(const struct question *question, struct cop_metrics *metrics,
                                   struct cop_error *err)
{
    struct cop_query *query;
    bool has_row = false;
    enum cop_status status = ask(question, count_depths, &query, err);
    while (status == COP_OK) {
        status = cop_query_step(query, &has_row, err);
        if (status != COP_OK || !has_row) {
            break;
        }
        int64_t accepted = cop_query_value(query, 0).integer;
        bool is_known = cop_query_value(query, 1).type != COP_TRACE_NULL;
        int64_t tested = is_known ? cop_query_value(query, 1).integer : accepted;
        int64_t cycles = cop_query_value(query, 2).integer;
        if (accepted < 0 || tested < accepted || tested > COP_TREE_LIMIT) {
            status = cop_fail(err, COP_ERR_FORMAT, "the trace holds a cycle of %lld depths",
                              (long long)tested);
        } else if (!metrics->reached && !make_lists(metrics, (int32_t)tested)) {
            status = cop_fail(err, COP_ERR_MEMORY, "no memory for metrics");
        } else {
            count_from(metrics->reached, (int32_t)accepted, cycles);
            if (is_known) {
                count_from(metrics->tested, (int32_t)tested, cycles);
            }
        }
    }
    if (status == COP_OK && !metrics->reached && !make_lists(metrics, 0)) {
        status = cop_fail(err, COP_ERR_MEMORY, "no memory for metrics");
    }
    cop_query_close(query);
    return status;
}

uint64_t cop_fingerprint_add(uint64_t fingerprint, const cop_token *tokens, int32_t n)
{
    fingerprint = cop_hash_u64((uint64_t)n, fingerprint);
    for (int32_t i = 0; i < n; i++) { /* number by number: the same on every byte order */
        fingerprint = cop_hash_u64((uint64_t)tokens[i], fingerprint);
    }
    return fingerprint;
}

/* The ids of a JSON list. */
static enum cop_status read_ids(const struct cop_trace_value *text, struct cop_ids *ids,
                                struct cop_error *err)
{
    struct cop_json json;
    struct cop_json_event event = {0};
    enum cop_status status = COP_OK;
    ids->count = 0;
    cop_json_start(&json, text->bytes, text->length);
    do {
        status = cop_json_next(&json, &event, err);
        if (status == COP_OK && event.kind == COP_JSON_INTEGER) {
            status = cop_ids_push(ids, (cop_token)event.integer, err);
        }
    } while (status == COP_OK && event.kind != COP_JSON_END);
    cop_json_release(&json);
    return status;
}

static enum cop_status read_fingerprint(const struct question *question,
                                        struct cop_metrics *metrics, struct cop_error *err)
{
    struct cop_query *query;
    struct cop_ids ids = {0};
    bool has_row = false;
    enum cop_status status = ask(question, list_answers, &query, err);
    while (status == COP_OK) {
        status = cop_query_step(query, &has_row, err);
        if (status != COP_OK || !has_row) {
            break;
        }
        struct cop_trace_value text = cop_query_value(query, 0);
        status = read_ids(&text, &ids, err);
        metrics->fingerprint =
            cop_fingerprint_add(metrics->fingerprint, ids.items, (int32_t)ids.count);
    }
    cop_ids_release(&ids);
    cop_query_close(query);
    return status;
}

enum cop_status cop_trace_metrics(struct cop_trace *trace, int64_t arm, const char *category,
                                  struct cop_metrics *metrics, struct cop_error *err)
{
    const struct question question = {.trace = trace, .arm = arm, .category = category};
    memset(metrics, 0, sizeof *metrics);
    enum cop_status status = read_sums(&question, metrics, err);
    if (status == COP_OK) {
        status = read_depths(&question, metrics, err);
    }
    if (status == COP_OK) {
        status = read_fingerprint(&question, metrics, err);
    }
    if (status != COP_OK) {
        cop_metrics_release(metrics);
    }
    return status;
}

void cop_metrics_release(struct cop_metrics *metrics)
{
    free(metrics->reached);
    free(metrics->tested);
    memset(metrics, 0, sizeof *metrics);
}
