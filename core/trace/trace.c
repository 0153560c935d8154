/* Opening the store, its tables, and the rows of sessions and arms. */
#include "core/base/quote.h"
#include "core/trace/store.h"
#include "core/trace/views.h"

#include <stdlib.h>
#include <string.h>

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS sessions ("
    " id INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT, level TEXT, shard TEXT,"
    " started TEXT NOT NULL DEFAULT (datetime('now')), ended TEXT,"
    " state TEXT NOT NULL DEFAULT 'running');"

    "CREATE TABLE IF NOT EXISTS arms ("
    " id INTEGER PRIMARY KEY, name TEXT NOT NULL, sampling TEXT NOT NULL,"
    " temperature REAL NOT NULL, is_plain INTEGER NOT NULL, is_lossless INTEGER NOT NULL,"
    " proposer TEXT, builder TEXT, rule TEXT, length TEXT, draw TEXT, shape TEXT, options TEXT,"
    " UNIQUE (name, sampling));"

    "CREATE TABLE IF NOT EXISTS requests ("
    " id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions,"
    " arm INTEGER NOT NULL REFERENCES arms, prompt INTEGER NOT NULL, repeat INTEGER NOT NULL,"
    " turn INTEGER NOT NULL, question TEXT, category TEXT, seed INTEGER, request_id INTEGER,"
    " place INTEGER, n_prompt INTEGER, n_tokens INTEGER NOT NULL, tokens TEXT NOT NULL,"
    " text TEXT, finish TEXT NOT NULL, error TEXT, forward_passes INTEGER NOT NULL,"
    " drafted INTEGER, accepted INTEGER NOT NULL, progress INTEGER NOT NULL,"
    " seconds REAL, prefill_seconds REAL, decode_seconds REAL NOT NULL, peak_pages INTEGER,"
    " ended TEXT NOT NULL DEFAULT (datetime('now')), text_tokens INTEGER,"
    " UNIQUE (arm, prompt, repeat, turn));"

    "CREATE TABLE IF NOT EXISTS cycles ("
    " request INTEGER NOT NULL REFERENCES requests, cycle INTEGER NOT NULL,"
    " root INTEGER, nodes INTEGER, depth INTEGER,"
    " parents TEXT NOT NULL, tokens TEXT NOT NULL, logprobs TEXT NOT NULL,"
    " accepted TEXT NOT NULL, n_accepted INTEGER NOT NULL, last INTEGER,"
    " origin TEXT, progress INTEGER NOT NULL, kept INTEGER NOT NULL,"
    " context_length INTEGER, tokens_scored INTEGER, batch_size INTEGER NOT NULL,"
    " kv_bytes_moved INTEGER, draft_us REAL, score_us REAL, verify_us REAL, commit_us REAL,"
    " other_us REAL, lua_us REAL, undrafted TEXT, PRIMARY KEY (request, cycle)) WITHOUT ROWID;"

    "CREATE TABLE IF NOT EXISTS quality ("
    " arm INTEGER NOT NULL REFERENCES arms, prompt INTEGER NOT NULL, repeat INTEGER NOT NULL,"
    " turn INTEGER NOT NULL, measure TEXT NOT NULL, value REAL,"
    " PRIMARY KEY (measure, arm, prompt, repeat, turn)) WITHOUT ROWID;";

/* ---- SQLite's answers -----------------------------------------------------------------------
 */

static enum cop_status status_of(int code)
{
    switch (code & 0xff) {
    case SQLITE_NOMEM: return COP_ERR_MEMORY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return COP_ERR_FORMAT;
    case SQLITE_ERROR:
    case SQLITE_MISUSE:
    case SQLITE_RANGE:
    case SQLITE_CONSTRAINT: return COP_ERR_ARGUMENT;
    default: return COP_ERR_IO;
    }
}

enum cop_status cop_store_fail(struct cop_trace *trace, const char *what, struct cop_error *err)
{
    int code = sqlite3_extended_errcode(trace->db);
    const char *reason =
        (code & 0xff) == SQLITE_FULL ? "the disk is full" : sqlite3_errmsg(trace->db);
    return cop_fail(err, status_of(code), "%s: %s", what, reason);
}

enum cop_status cop_store_run(struct cop_trace *trace, const char *sql, const char *what,
                              struct cop_error *err)
{
    if (sqlite3_exec(trace->db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        return cop_store_fail(trace, what, err);
    }
    return COP_OK;
}

enum cop_status cop_store_prepare(struct cop_trace *trace, sqlite3_stmt **statement,
                                  const char *sql, struct cop_error *err)
{
    if (*statement) {
        (void)sqlite3_reset(*statement); /* reports the last run's error, seen already */
        return COP_OK;
    }
    if (sqlite3_prepare_v2(trace->db, sql, -1, statement, NULL) != SQLITE_OK) {
        return cop_store_fail(trace, "cannot ask the trace", err);
    }
    return COP_OK;
}

void cop_store_bind_text(sqlite3_stmt *statement, int index, const char *text, int length)
{
    if (text) {
        (void)sqlite3_bind_text(statement, index, text, length, SQLITE_TRANSIENT);
    } else {
        (void)sqlite3_bind_null(statement, index);
    }
}

/* ---- Opening --------------------------------------------------------------------------------
 */

static enum cop_status read_version(struct cop_trace *trace, int *version,
                                    struct cop_error *err)
{
    sqlite3_stmt *ask = NULL;
    enum cop_status status = cop_store_prepare(trace, &ask, "PRAGMA user_version", err);
    if (status == COP_OK) {
        if (sqlite3_step(ask) == SQLITE_ROW) {
            *version = sqlite3_column_int(ask, 0);
        } else {
            status = cop_store_fail(trace, "cannot read the trace", err);
        }
    }
    (void)sqlite3_finalize(ask);
    return status;
}

/* What later programs write and a store of an earlier one lacks. */
static enum cop_status add_columns(struct cop_trace *trace, const char *what,
                                   struct cop_error *err)
{
    static const char *const columns[][2] = {
        {"SELECT undrafted FROM cycles LIMIT 0",
         "ALTER TABLE cycles ADD COLUMN undrafted TEXT"},
        {"SELECT text_tokens FROM requests LIMIT 0",
         "ALTER TABLE requests ADD COLUMN text_tokens INTEGER"}};
    enum cop_status status = COP_OK;
    for (size_t i = 0; i < sizeof columns / sizeof *columns && status == COP_OK; i++) {
        sqlite3_stmt *ask = NULL;
        int code = sqlite3_prepare_v2(trace->db, columns[i][0], -1, &ask, NULL);
        (void)sqlite3_finalize(ask);
        status = code == SQLITE_OK ? COP_OK : cop_store_run(trace, columns[i][1], what, err);
    }
    return status;
}

enum { WAIT_MS = 20000, PAUSE_MS = 20 }; /* shards of one run share the file */

/* Write-ahead logging: a commit is one append, and a killed program leaves a whole file. SQLite
 * does not wait here: two programs that change one new file at the same moment hold locks that
 * the other wants, and are told so at once. */
static enum cop_status start_log(struct cop_trace *trace, const char *what,
                                 struct cop_error *err)
{
    static const char sql[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL";
    int code = SQLITE_BUSY;
    (void)sqlite3_busy_timeout(trace->db, 0);
    for (int waited = 0; code == SQLITE_BUSY && waited < WAIT_MS; waited += PAUSE_MS) {
        code = sqlite3_exec(trace->db, sql, NULL, NULL, NULL) & 0xff;
        if (code == SQLITE_BUSY) {
            (void)sqlite3_sleep(PAUSE_MS);
        }
    }
    if (code != SQLITE_OK) {
        return cop_store_fail(trace, what, err);
    }
    (void)sqlite3_busy_timeout(trace->db, WAIT_MS);
    return COP_OK;
}

static enum cop_status make_tables(struct cop_trace *trace, struct cop_error *err)
{
    static const char what[] = "cannot make the trace's tables";
    char set_version[64];
    (void)sqlite3_snprintf(sizeof set_version, set_version, "PRAGMA user_version = %d",
                           COP_TRACE_VERSION);
    const char *const steps[] = {"BEGIN IMMEDIATE", schema, set_version};
    enum cop_status status = start_log(trace, what, err);
    for (size_t i = 0; i < sizeof steps / sizeof *steps && status == COP_OK; i++) {
        status = cop_store_run(trace, steps[i], what, err);
    }
    if (status == COP_OK) {
        status = add_columns(trace, what, err);
    }
    if (status == COP_OK) {
        status = cop_trace_make_views(trace, false, err);
    }
    return status == COP_OK ? cop_store_run(trace, "COMMIT", what, err) : status;
}

static enum cop_status open_tables(struct cop_trace *trace, enum cop_trace_mode mode,
                                   struct cop_error *err)
{
    int version = 0;
    enum cop_status status = read_version(trace, &version, err);
    if (status != COP_OK) {
        return status;
    }
    if (version != COP_TRACE_VERSION && (version != 0 || mode == COP_TRACE_READ)) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "the trace has version %d of the tables, this program reads %d; use "
                        "the program that wrote it (manifest.json says which), or another "
                        "folder (--out DIR)",
                        version, COP_TRACE_VERSION);
    }
    return mode == COP_TRACE_WRITE ? make_tables(trace, err)
                                   : cop_trace_make_views(trace, true, err);
}

/* Names the file, and what its owner can do. */
static enum cop_status explain(const struct cop_trace *trace, const char *quoted,
                               enum cop_status status, struct cop_error *err)
{
    int code = sqlite3_errcode(trace->db) & 0xff;
    struct cop_error why = *err;
    if (code == SQLITE_NOTADB) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "\"%s\" is not a trace (%s); remove it to begin anew, or give another "
                        "folder (--out DIR)",
                        quoted, why.text);
    }
    if (code == SQLITE_CORRUPT) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "\"%s\" is damaged (%s); `sqlite3 trace.db .recover | sqlite3 new.db` "
                        "saves what is whole in it, then remove it to begin anew",
                        quoted, why.text);
    }
    return cop_fail(err, status, "\"%s\": %s", quoted, why.text);
}

enum cop_status cop_trace_open(struct cop_trace **out, const char *path,
                               enum cop_trace_mode mode, struct cop_error *err)
{
    char quoted[COP_QUOTE_SIZE];
    int flags = mode == COP_TRACE_READ ? SQLITE_OPEN_READONLY
                                       : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    *out = NULL;
    struct cop_trace *trace = calloc(1, sizeof *trace);
    if (!trace) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a trace");
    }
    if (sqlite3_open_v2(path, &trace->db, flags, NULL) != SQLITE_OK) {
        enum cop_status status = cop_fail(err, COP_ERR_IO, "cannot open the trace \"%s\": %s",
                                          cop_quote(quoted, path, strlen(path)),
                                          trace->db ? sqlite3_errmsg(trace->db) : "no memory");
        cop_trace_close(trace);
        return status;
    }
    (void)sqlite3_busy_timeout(trace->db, WAIT_MS);
    struct cop_error why = {0};
    enum cop_status status = open_tables(trace, mode, &why);
    if (status != COP_OK) {
        if (err) {
            *err = why;
            size_t length = strlen(path);
            size_t skipped = length > 60 ? length - 60 : 0;
            status = explain(trace, cop_quote(quoted, path + skipped, length - skipped), status,
                             err);
        }
        cop_trace_close(trace);
        return status;
    }
    *out = trace;
    return COP_OK;
}

void cop_trace_close(struct cop_trace *trace)
{
    if (trace) {
        (void)sqlite3_finalize(trace->insert_request);
        (void)sqlite3_finalize(trace->insert_cycle);
        (void)sqlite3_close_v2(trace->db);
        free(trace);
    }
}

/* ---- Sessions and arms ----------------------------------------------------------------------
 */

/* Runs a prepared statement to its end and frees it. */
static enum cop_status finish(struct cop_trace *trace, sqlite3_stmt *statement,
                              const char *what, struct cop_error *err)
{
    int code = sqlite3_step(statement);
    enum cop_status status =
        code == SQLITE_DONE || code == SQLITE_ROW ? COP_OK : cop_store_fail(trace, what, err);
    (void)sqlite3_finalize(statement);
    return status;
}

enum cop_status cop_trace_session_start(struct cop_trace *trace,
                                        const struct cop_trace_session *session, int64_t *id,
                                        struct cop_error *err)
{
    sqlite3_stmt *insert = NULL;
    enum cop_status status = cop_store_prepare(
        trace, &insert,
        "INSERT INTO sessions (name, version, level, shard) VALUES (?1, ?2, ?3, ?4)", err);
    if (status != COP_OK) {
        return status;
    }
    cop_store_bind_text(insert, 1, session->name, -1);
    cop_store_bind_text(insert, 2, session->version, -1);
    cop_store_bind_text(insert, 3, session->level, -1);
    cop_store_bind_text(insert, 4, session->shard, -1);
    status = finish(trace, insert, "cannot note the start of the run", err);
    *id = sqlite3_last_insert_rowid(trace->db);
    return status;
}

enum cop_status cop_trace_session_end(struct cop_trace *trace, int64_t session,
                                      const char *state, struct cop_error *err)
{
    sqlite3_stmt *update = NULL;
    enum cop_status status = cop_store_prepare(
        trace, &update, "UPDATE sessions SET ended = datetime('now'), state = ?2 WHERE id = ?1",
        err);
    if (status != COP_OK) {
        return status;
    }
    (void)sqlite3_bind_int64(update, 1, session);
    cop_store_bind_text(update, 2, state, -1);
    return finish(trace, update, "cannot note the end of the run", err);
}

static enum cop_status find_arm(struct cop_trace *trace, const struct cop_trace_arm *arm,
                                int64_t *id, struct cop_error *err)
{
    sqlite3_stmt *find = NULL;
    enum cop_status status = cop_store_prepare(
        trace, &find, "SELECT id FROM arms WHERE name = ?1 AND sampling = ?2", err);
    if (status != COP_OK) {
        return status;
    }
    cop_store_bind_text(find, 1, arm->name, -1);
    cop_store_bind_text(find, 2, arm->sampling, -1);
    int code = sqlite3_step(find);
    if (code == SQLITE_ROW) {
        *id = sqlite3_column_int64(find, 0);
    } else {
        status = code == SQLITE_DONE ? cop_fail(err, COP_ERR_ARGUMENT,
                                                "arm \"%s\" is not in the trace", arm->name)
                                     : cop_store_fail(trace, "cannot read the arms", err);
    }
    (void)sqlite3_finalize(find);
    return status;
}

enum cop_status cop_trace_arm(struct cop_trace *trace, const struct cop_trace_arm *arm,
                              int64_t *id, struct cop_error *err)
{
    sqlite3_stmt *insert = NULL;
    enum cop_status status = cop_store_prepare(
        trace, &insert,
        "INSERT INTO arms (name, sampling, temperature, is_plain, is_lossless, proposer,"
        " builder, rule, length, draw, shape, options)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
        " ON CONFLICT (name, sampling) DO NOTHING",
        err);
    if (status != COP_OK) {
        return status;
    }
    const char *const texts[] = {arm->proposer, arm->builder, arm->rule,   arm->length,
                                 arm->draw,     arm->shape,   arm->options};
    cop_store_bind_text(insert, 1, arm->name, -1);
    cop_store_bind_text(insert, 2, arm->sampling, -1);
    (void)sqlite3_bind_double(insert, 3, arm->temperature);
    (void)sqlite3_bind_int(insert, 4, arm->is_plain);
    (void)sqlite3_bind_int(insert, 5, arm->is_lossless);
    for (int i = 0; i < 7; i++) {
        cop_store_bind_text(insert, 6 + i, texts[i], -1);
    }
    status = finish(trace, insert, "cannot note an arm", err);
    return status == COP_OK ? find_arm(trace, arm, id, err) : status;
}

enum cop_status cop_trace_has(struct cop_trace *trace, const struct cop_trace_key *key,
                              bool *found, struct cop_error *err)
{
    sqlite3_stmt *find = NULL;
    enum cop_status status =
        cop_store_prepare(trace, &find,
                          "SELECT 1 FROM requests WHERE arm = ?1 AND prompt = ?2"
                          " AND repeat = ?3 AND turn = ?4",
                          err);
    if (status != COP_OK) {
        return status;
    }
    (void)sqlite3_bind_int64(find, 1, key->arm);
    (void)sqlite3_bind_int(find, 2, key->prompt);
    (void)sqlite3_bind_int(find, 3, key->repeat);
    (void)sqlite3_bind_int(find, 4, key->turn);
    int code = sqlite3_step(find);
    *found = code == SQLITE_ROW;
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        status = cop_store_fail(trace, "cannot read the requests", err);
    }
    (void)sqlite3_finalize(find);
    return status;
}

enum cop_status cop_trace_quality(struct cop_trace *trace, const struct cop_trace_key *key,
                                  const char *measure, double value, struct cop_error *err)
{
    sqlite3_stmt *insert = NULL;
    enum cop_status status = cop_store_prepare(
        trace, &insert,
        "INSERT OR REPLACE INTO quality (arm, prompt, repeat, turn, measure, value)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        err);
    if (status != COP_OK) {
        return status;
    }
    (void)sqlite3_bind_int64(insert, 1, key->arm);
    (void)sqlite3_bind_int(insert, 2, key->prompt);
    (void)sqlite3_bind_int(insert, 3, key->repeat);
    (void)sqlite3_bind_int(insert, 4, key->turn);
    cop_store_bind_text(insert, 5, measure, -1);
    (void)sqlite3_bind_double(insert, 6, value);
    return finish(trace, insert, "cannot write a quality", err);
}
