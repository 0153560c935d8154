/* One request on its way into the store: its cycles in memory, then one transaction.
 *
 * While a request is served only numbers are copied (cycles are timed); they become text when
 * the request has ended. */
#include "core/trace/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists of all cycles lie one after another in `numbers`: parents, tokens, accepted. */
struct kept_cycle {
    struct cop_cycle facts; /* its pointers are not followed */
    cop_token root;
    int32_t nodes, depth;
    size_t numbers, logprobs; /* where its lists begin */
};

struct cop_record {
    struct kept_cycle *cycles;
    int32_t n_cycles, capacity;
    int32_t *numbers;
    size_t n_numbers, numbers_capacity;
    float *logprobs;
    size_t n_logprobs, logprobs_capacity;
};

struct cop_record *cop_record_new(void)
{
    return calloc(1, sizeof(struct cop_record));
}

void cop_record_free(struct cop_record *record)
{
    if (record) {
        free(record->cycles);
        free(record->numbers);
        free(record->logprobs);
        free(record);
    }
}

/* Room for `more` entries of `size` bytes; false: no memory, *items unchanged. */
static bool reserve(void **items, size_t *capacity, size_t count, size_t more, size_t size)
{
    if (count + more <= *capacity) {
        return true;
    }
    size_t wanted = 2 * (count + more);
    void *grown = realloc(*items, wanted * size);
    if (!grown) {
        return false;
    }
    *items = grown;
    *capacity = wanted;
    return true;
}

static bool reserve_cycle(struct cop_record *record, size_t nodes, size_t accepted)
{
    void *cycles = record->cycles, *numbers = record->numbers, *logprobs = record->logprobs;
    size_t capacity = (size_t)record->capacity;
    bool fits =
        reserve(&cycles, &capacity, (size_t)record->n_cycles, 1, sizeof *record->cycles);
    record->cycles = cycles;
    record->capacity = (int32_t)capacity;
    fits = fits && reserve(&numbers, &record->numbers_capacity, record->n_numbers,
                           2 * nodes + accepted, sizeof *record->numbers);
    record->numbers = numbers;
    fits = fits && reserve(&logprobs, &record->logprobs_capacity, record->n_logprobs, nodes,
                           sizeof *record->logprobs);
    record->logprobs = logprobs;
    return fits;
}

static int32_t deepest(const struct cop_tree *tree)
{
    int32_t depth = 0;
    for (int32_t node = 1; node < tree->size; node++) {
        int32_t own = cop_tree_depth(tree, node);
        depth = own > depth ? own : depth;
    }
    return depth;
}

enum cop_status cop_record_cycle(void *user, const struct cop_cycle *cycle,
                                 struct cop_error *err)
{
    struct cop_record *record = user;
    const struct cop_tree *tree = cycle->tree;
    int32_t nodes = tree->size - 1;
    if (!reserve_cycle(record, (size_t)nodes, (size_t)cycle->n_accepted)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the trace of a cycle");
    }
    record->cycles[record->n_cycles++] = (struct kept_cycle){.facts = *cycle,
                                                             .root = tree->token[0],
                                                             .nodes = nodes,
                                                             .depth = deepest(tree),
                                                             .numbers = record->n_numbers,
                                                             .logprobs = record->n_logprobs};
    int32_t *numbers = record->numbers + record->n_numbers;
    float *logprobs = record->logprobs + record->n_logprobs;
    for (int32_t i = 0; i < nodes; i++) {
        numbers[i] = tree->parent[i + 1];
        numbers[nodes + i] = tree->token[i + 1];
        logprobs[i] = cycle->draft_logprob ? (float)cycle->draft_logprob[i + 1] : NAN;
    }
    for (int32_t i = 0; i < cycle->n_accepted; i++) {
        numbers[2 * nodes + i] = cycle->accepted[i];
    }
    record->n_numbers += 2 * (size_t)nodes + (size_t)cycle->n_accepted;
    record->n_logprobs += (size_t)nodes;
    return COP_OK;
}

/* ---- Lists as JSON text ---------------------------------------------------------------------
 */

#define NUMBER_WIDTH 16 /* of one entry with its comma, at most */

/* Caller frees; NULL: no memory. */
static char *ints_text(const int32_t *items, int32_t count)
{
    char *text = malloc((size_t)count * NUMBER_WIDTH + 3), *at = text;
    if (text) {
        *at++ = '[';
        for (int32_t i = 0; i < count; i++) {
            at += snprintf(at, NUMBER_WIDTH, i ? ",%d" : "%d", items[i]);
        }
        memcpy(at, "]", 2);
    }
    return text;
}

/* NaN (no row) and infinities become null. */
static char *floats_text(const float *items, int32_t count)
{
    char *text = malloc((size_t)count * NUMBER_WIDTH + 3), *at = text;
    if (text) {
        *at++ = '[';
        for (int32_t i = 0; i < count; i++) {
            const char *comma = i ? "," : "";
            at += isfinite(items[i])
                      ? snprintf(at, NUMBER_WIDTH, "%s%.6g", comma, (double)items[i])
                      : snprintf(at, NUMBER_WIDTH, "%snull", comma);
        }
        memcpy(at, "]", 2);
    }
    return text;
}

/* Gives the text to the statement, which frees it. */
static bool bind_list(sqlite3_stmt *statement, int index, char *text)
{
    return text && sqlite3_bind_text(statement, index, text, -1, free) == SQLITE_OK;
}

/* ---- Writing --------------------------------------------------------------------------------
 */

static double charged_seconds(const struct cop_cycle *cycle)
{
    double total = cycle->draft_us + cycle->score_us + cycle->verify_us + cycle->commit_us +
                   cycle->other_us;
    return total / 1e6 / cycle->batch_size;
}

struct totals {
    int64_t drafted, accepted, progress;
    double decode_seconds;
};

static struct totals add_up(const struct cop_record *record)
{
    struct totals totals = {0};
    for (int32_t i = 0; i < record->n_cycles; i++) {
        totals.drafted += record->cycles[i].nodes;
        totals.accepted += record->cycles[i].facts.n_accepted;
        totals.progress += record->cycles[i].facts.progress;
        totals.decode_seconds += charged_seconds(&record->cycles[i].facts);
    }
    return totals;
}

static const char insert_request[] =
    "INSERT INTO requests (session, arm, prompt, repeat, turn, question, category, seed,"
    " request_id, place, n_prompt, n_tokens, tokens, text, finish, error, forward_passes,"
    " drafted, accepted, progress, seconds, prefill_seconds, decode_seconds, peak_pages,"
    " text_tokens)"
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,"
    " ?19, ?20, ?21, ?22, ?23, ?24, ?25) ON CONFLICT (arm, prompt, repeat, turn) DO NOTHING";

static const char insert_cycle[] =
    "INSERT INTO cycles (request, cycle, root, nodes, depth, parents, tokens, logprobs,"
    " accepted, n_accepted, last, origin, progress, kept, context_length, tokens_scored,"
    " batch_size, kv_bytes_moved, draft_us, score_us, verify_us, commit_us, other_us, lua_us,"
    " undrafted)"
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,"
    " ?19, ?20, ?21, ?22, ?23, ?24, ?25)";

static bool bind_request(sqlite3_stmt *s, const struct cop_trace_request *request,
                         const struct cop_record *record)
{
    struct totals totals = add_up(record);
    const int64_t integers[] = {request->session, request->key.arm, request->key.prompt,
                                request->key.repeat, request->key.turn};
    for (int i = 0; i < 5; i++) {
        (void)sqlite3_bind_int64(s, 1 + i, integers[i]);
    }
    cop_store_bind_text(s, 6, request->question, -1);
    cop_store_bind_text(s, 7, request->category, -1);
    (void)sqlite3_bind_int64(s, 8, (sqlite3_int64)request->seed);
    (void)sqlite3_bind_int64(s, 9, request->request_id);
    (void)sqlite3_bind_int(s, 10, request->place);
    (void)sqlite3_bind_int(s, 11, request->n_prompt);
    (void)sqlite3_bind_int(s, 12, request->n_tokens);
    cop_store_bind_text(s, 14, request->text, (int)request->text_length);
    cop_store_bind_text(s, 15, request->finish, -1);
    cop_store_bind_text(s, 16, request->error, -1);
    (void)sqlite3_bind_int(s, 17, record->n_cycles);
    (void)sqlite3_bind_int64(s, 18, totals.drafted);
    (void)sqlite3_bind_int64(s, 19, totals.accepted);
    (void)sqlite3_bind_int64(s, 20, totals.progress);
    (void)sqlite3_bind_double(s, 21, request->seconds);
    (void)sqlite3_bind_double(s, 22, request->prefill_seconds);
    (void)sqlite3_bind_double(s, 23, totals.decode_seconds);
    (void)sqlite3_bind_int(s, 24, request->peak_pages);
    if (request->has_text_tokens) {
        (void)sqlite3_bind_int(s, 25, request->text_tokens);
    } else {
        (void)sqlite3_bind_null(s, 25);
    }
    return bind_list(s, 13, ints_text(request->tokens, request->n_tokens));
}

/* n_kept: of the cycle's tokens, those that are in the answer. */
static bool bind_cycle(sqlite3_stmt *s, int64_t request, const struct cop_record *record,
                       const struct kept_cycle *kept, int32_t n_kept)
{
    const struct cop_cycle *facts = &kept->facts;
    const int32_t *numbers = record->numbers + kept->numbers;
    const double times[] = {facts->draft_us,  facts->score_us, facts->verify_us,
                            facts->commit_us, facts->other_us, facts->lua_us};
    (void)sqlite3_bind_int64(s, 1, request);
    (void)sqlite3_bind_int(s, 2, facts->cycle);
    (void)sqlite3_bind_int(s, 3, kept->root);
    (void)sqlite3_bind_int(s, 4, kept->nodes);
    (void)sqlite3_bind_int(s, 5, kept->depth);
    (void)sqlite3_bind_int(s, 10, facts->n_accepted);
    (void)sqlite3_bind_int(s, 11, facts->last);
    cop_store_bind_text(s, 12, cop_origin_name(facts->origin), -1);
    (void)sqlite3_bind_int(s, 13, facts->progress);
    (void)sqlite3_bind_int(s, 14, n_kept);
    (void)sqlite3_bind_int(s, 15, facts->context_length);
    (void)sqlite3_bind_int(s, 16, facts->tokens_scored);
    (void)sqlite3_bind_int(s, 17, facts->batch_size);
    (void)sqlite3_bind_int64(s, 18, facts->kv_bytes_moved);
    for (int i = 0; i < 6; i++) {
        (void)sqlite3_bind_double(s, 19 + i, times[i]);
    }
    cop_store_bind_text(s, 25, cop_undrafted_name(facts->undrafted), -1);
    return bind_list(s, 6, ints_text(numbers, kept->nodes)) &&
           bind_list(s, 7, ints_text(numbers + kept->nodes, kept->nodes)) &&
           bind_list(s, 8, floats_text(record->logprobs + kept->logprobs, kept->nodes)) &&
           bind_list(s, 9, ints_text(numbers + 2 * kept->nodes, facts->n_accepted));
}

/* A stop string that ends in one cycle may begin in an earlier one, which did not know of it
 * yet: the answer's n_tokens are dealt out from the first cycle on. */
static enum cop_status write_cycles(struct cop_trace *trace, int64_t request, int32_t n_tokens,
                                    const struct cop_record *record, struct cop_error *err)
{
    for (int32_t i = 0, left = n_tokens; i < record->n_cycles; i++) {
        const struct kept_cycle *cycle = &record->cycles[i];
        int32_t n_kept = cycle->facts.kept < left ? cycle->facts.kept : left;
        left -= n_kept;
        enum cop_status status =
            cop_store_prepare(trace, &trace->insert_cycle, insert_cycle, err);
        if (status != COP_OK) {
            return status;
        }
        if (!bind_cycle(trace->insert_cycle, request, record, cycle, n_kept)) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory to write a cycle");
        }
        if (sqlite3_step(trace->insert_cycle) != SQLITE_DONE) {
            return cop_store_fail(trace, "cannot write a cycle to the trace", err);
        }
    }
    return COP_OK;
}

static enum cop_status write_request(struct cop_trace *trace,
                                     const struct cop_trace_request *request,
                                     const struct cop_record *record, struct cop_error *err)
{
    enum cop_status status =
        cop_store_prepare(trace, &trace->insert_request, insert_request, err);
    if (status != COP_OK) {
        return status;
    }
    if (!bind_request(trace->insert_request, request, record)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to write a request");
    }
    if (sqlite3_step(trace->insert_request) != SQLITE_DONE) {
        return cop_store_fail(trace, "cannot write a request to the trace", err);
    }
    if (sqlite3_changes(trace->db) == 0) {
        return COP_OK; /* another process was first */
    }
    return write_cycles(trace, sqlite3_last_insert_rowid(trace->db), request->n_tokens, record,
                        err);
}

enum cop_status cop_trace_commit(struct cop_trace *trace,
                                 const struct cop_trace_request *request,
                                 const struct cop_record *record, struct cop_error *err)
{
    enum cop_status status =
        cop_store_run(trace, "BEGIN IMMEDIATE", "cannot write to the trace", err);
    if (status != COP_OK) {
        return status;
    }
    status = write_request(trace, request, record, err);
    if (status == COP_OK) {
        status = cop_store_run(trace, "COMMIT", "cannot write a request to the trace", err);
    }
    if (status != COP_OK) { /* a statement in the middle would hold the transaction open */
        (void)sqlite3_reset(trace->insert_request);
        (void)sqlite3_reset(trace->insert_cycle);
        (void)sqlite3_exec(trace->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return status;
}
