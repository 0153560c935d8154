/* The store of a run: every cycle's raw facts in one SQLite file, from which all metrics are
 * derived.
 *
 *     sessions   one row for each time the run was started or resumed
 *     arms       one row for each arm and sampling setting; plain decoding is one of them
 *     requests   one answer: tokens, text, counters, times; unique by arm, prompt,
 *                repeat, turn
 *     cycles     one row for each cycle of a request: the tree that was scored and its fate
 *     quality    what a quality measure said about a request
 *
 * A request's cycles are kept in memory (cop_record) and written together with its row in one
 * transaction when it has finished: a killed program loses the requests in flight and nothing
 * else, and a request that is there is whole. Lists are JSON text, so that any tool can read
 * them: in `cycles`, entry i of parents, tokens and logprobs belongs to node i + 1, parent 0 is
 * the root, and accepted holds node numbers in path order.
 *
 * A run that was made of other programs' answer files has NULL where they do not say: what was
 * drafted (requests.drafted; nodes, depth, root, last, origin of cycles), times of parts.
 *
 * Times of a cycle are of its whole batch. What one request is charged with
 * (requests.decode_seconds) is the sum over its cycles of (D + V + H) / batch_size, so that
 * sums over requests add up to wall time. */
#ifndef COP_TRACE_TRACE_H
#define COP_TRACE_TRACE_H

#include "core/cycle/engine.h"

#define COP_TRACE_VERSION 1 /* of the schema; another one is refused */

struct cop_trace;

enum cop_trace_mode {
    COP_TRACE_WRITE, /* makes the file and its tables when they are missing */
    COP_TRACE_READ
};
/* COP_ERR_IO, or COP_ERR_FORMAT for a file that is not a trace or has another version. */
enum cop_status cop_trace_open(struct cop_trace **out, const char *path,
                               enum cop_trace_mode mode, struct cop_error *err);
void cop_trace_close(struct cop_trace *trace); /* NULL is fine */

/* ---- Sessions and arms ----------------------------------------------------------------------
 */

struct cop_trace_session {
    const char *name, *version, *level, *shard; /* shard NULL: all of it */
};
enum cop_status cop_trace_session_start(struct cop_trace *trace,
                                        const struct cop_trace_session *session, int64_t *id,
                                        struct cop_error *err);
/* state: "finished", "interrupted", "failed"; a session that was killed stays "running". */
enum cop_status cop_trace_session_end(struct cop_trace *trace, int64_t session,
                                      const char *state, struct cop_error *err);

/* What the engine made of an arm's options, read back from it. */
struct cop_trace_arm {
    const char *name;
    const char *sampling; /* names the setting in tables: "T=0", "T=1 top_p=0.9" */
    double temperature;
    bool is_plain, is_lossless;
    const char *proposer, *builder, *rule, *length, *draw, *shape; /* NULL: none */
    const char *options;                                           /* JSON, defaults included */
};
/* Finds the arm by (name, sampling) or adds it. */
enum cop_status cop_trace_arm(struct cop_trace *trace, const struct cop_trace_arm *arm,
                              int64_t *id, struct cop_error *err);

/* ---- Requests -------------------------------------------------------------------------------
 */

struct cop_trace_key { /* which request of a run */
    int64_t arm;
    int32_t prompt; /* index in the dataset, from 1 */
    int32_t repeat, turn;
};
enum cop_status cop_trace_has(struct cop_trace *trace, const struct cop_trace_key *key,
                              bool *found, struct cop_error *err);

/* The cycles of one request while it is served. */
struct cop_record;
struct cop_record *cop_record_new(void); /* NULL: no memory */
void cop_record_free(struct cop_record *record);
/* Copies what the engine lends: hand it to a request as on_cycle with the record as user. */
enum cop_status cop_record_cycle(void *record, const struct cop_cycle *cycle,
                                 struct cop_error *err);

struct cop_trace_request {
    struct cop_trace_key key;
    int64_t session;
    const char *question, *category; /* the dataset's own id and category, or NULL */
    uint64_t seed;
    uint32_t request_id;
    int32_t place; /* as which arm of its prompt it was served, from 1: order effects */
    int32_t n_prompt;
    const cop_token *tokens; /* [n_tokens] */
    int32_t n_tokens;
    const char *text;
    size_t text_length;
    bool has_text_tokens; /* text_tokens is known */
    int32_t text_tokens;  /* what the text is cut into again, with what is added in front */
    const char *finish, *error; /* error NULL: none */
    double seconds, prefill_seconds;
    int32_t peak_pages;
};
/* Writes the request and its cycles in one transaction. A request that another process has
 * written meanwhile is left as it is. After failure nothing of the request is in the store, and
 * what was committed before stays. */
enum cop_status cop_trace_commit(struct cop_trace *trace,
                                 const struct cop_trace_request *request,
                                 const struct cop_record *record, struct cop_error *err);

enum cop_status cop_trace_quality(struct cop_trace *trace, const struct cop_trace_key *key,
                                  const char *measure, double value, struct cop_error *err);

/* ---- Any question in SQL --------------------------------------------------------------------
 */

enum cop_trace_type { COP_TRACE_NULL, COP_TRACE_INTEGER, COP_TRACE_REAL, COP_TRACE_TEXT };
struct cop_trace_value {
    enum cop_trace_type type;
    int64_t integer;
    double real;
    const char *bytes; /* TEXT [length]: of a column valid until the next step */
    size_t length;
};

struct cop_query;
/* One statement; values[0..n) replace its question marks. */
enum cop_status cop_query_open(struct cop_query **out, struct cop_trace *trace, const char *sql,
                               const struct cop_trace_value *values, int32_t n,
                               struct cop_error *err);
enum cop_status cop_query_step(struct cop_query *query, bool *has_row, struct cop_error *err);
int32_t cop_query_columns(const struct cop_query *query);
const char *cop_query_name(const struct cop_query *query, int32_t column);
struct cop_trace_value cop_query_value(const struct cop_query *query, int32_t column);
void cop_query_close(struct cop_query *query); /* NULL is fine */

#endif
