/* Views out of definitions: in the file for everybody, or temporary for a reader. */
#include "core/trace/views.h"
#include "core/trace/store.h"

#include <string.h>

/* What holds in every trace, for each request of request_counts: left = right. */
static const struct {
    const char *text, *left, *right;
} identities[] = {
    /* one whose sides are not known holds */
    {"forward_passes = cycles", "forward_passes", "cycles"},
    {"drafted = sum of nodes", "drafted", "sum_nodes"},
    {"accepted = sum of n_accepted", "accepted", "sum_accepted"},
    {"progress = sum of progress", "progress", "sum_progress"},
    {"progress = accepted + cycles", "progress", "accepted + cycles"},
    {"n_tokens = sum of kept", "n_tokens", "CASE WHEN sum_nodes NOT NULL THEN sum_kept END"},
    {"progress = n_accepted + 1, kept <= progress, n_accepted <= depth <= nodes in each cycle",
     "odd_cycles", "0"},
};

static bool is_count(const struct cop_trace_view *view)
{
    return view->formula == NULL;
}

/* Views whose making reads cycles; the others read these. */
static bool reads_cycles(const struct cop_trace_view *view)
{
    return is_count(view) && strstr(view->sql, "JOIN cycles") != NULL;
}

/* Runs text that SQLite has allocated, and frees it. */
static enum cop_status run_text(struct cop_trace *trace, char *sql, struct cop_error *err)
{
    if (!sql) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the views of the trace");
    }
    enum cop_status status =
        cop_store_run(trace, sql, "cannot make the views of the trace", err);
    sqlite3_free(sql);
    return status;
}

static enum cop_status make_view(struct cop_trace *trace, const char *schema, const char *name,
                                 const char *sql, struct cop_error *err)
{
    return run_text(trace,
                    sqlite3_mprintf("DROP VIEW IF EXISTS %s.%s; CREATE %s VIEW %s AS %s",
                                    schema, name, strcmp(schema, "temp") == 0 ? "TEMP" : "",
                                    name, sql),
                    err);
}

static enum cop_status make_metric(struct cop_trace *trace, const char *schema,
                                   const struct cop_trace_view *view, struct cop_error *err)
{
    char *sql = sqlite3_mprintf("SELECT m.arm_id, a.name AS arm, a.sampling, %s%s%s m.value"
                                " FROM (%s) AS m JOIN arms a ON a.id = m.arm_id",
                                view->key ? "m." : "", view->key ? view->key : "",
                                view->key ? "," : "", view->sql);
    if (!sql) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the views of the trace");
    }
    enum cop_status status = make_view(trace, schema, view->name, sql, err);
    sqlite3_free(sql);
    return status;
}

/* A view of several questions in a row; takes the text. */
static enum cop_status make_union(struct cop_trace *trace, const char *schema, const char *name,
                                  sqlite3_str *sql, struct cop_error *err)
{
    char *text = sqlite3_str_finish(sql);
    if (!text) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the views of the trace");
    }
    enum cop_status status = make_view(trace, schema, name, text, err);
    sqlite3_free(text);
    return status;
}

static enum cop_status make_metrics(struct cop_trace *trace, const char *schema,
                                    struct cop_error *err)
{
    sqlite3_str *sql = sqlite3_str_new(trace->db);
    const char *between = "";
    for (const struct cop_trace_view *view = cop_trace_views; view->name; view++) {
        if (!is_count(view) && !view->key) {
            sqlite3_str_appendf(sql, "%sSELECT '%s' AS metric, arm, sampling, value FROM %s",
                                between, view->name, view->name);
            between = " UNION ALL ";
        }
    }
    return make_union(trace, schema, "metrics", sql, err);
}

static enum cop_status make_identities(struct cop_trace *trace, const char *schema,
                                       struct cop_error *err)
{
    sqlite3_str *sql = sqlite3_str_new(trace->db);
    const char *before = "WITH counted AS MATERIALIZED (SELECT * FROM request_counts) ";
    for (size_t i = 0; i < sizeof identities / sizeof *identities; i++) {
        sqlite3_str_appendf(sql,
                            "%sSELECT '%s' AS identity, request, %s AS left_side,"
                            " %s AS right_side FROM counted WHERE %s <> %s",
                            before, identities[i].text, identities[i].left, identities[i].right,
                            identities[i].left, identities[i].right);
        before = " UNION ALL ";
    }
    return make_union(trace, schema, "broken_identities", sql, err);
}

enum cop_status cop_trace_make_views(struct cop_trace *trace, bool are_temporary,
                                     struct cop_error *err)
{
    const char *schema = are_temporary ? "temp" : "main";
    enum cop_status status = COP_OK;
    for (const struct cop_trace_view *view = cop_trace_views; view->name && status == COP_OK;
         view++) {
        status = is_count(view) ? make_view(trace, schema, view->name, view->sql, err)
                                : make_metric(trace, schema, view, err);
    }
    if (status == COP_OK) {
        status = make_metrics(trace, schema, err);
    }
    return status == COP_OK ? make_identities(trace, schema, err) : status;
}

static enum cop_status cache_counts(struct cop_trace *trace, struct cop_error *err)
{
    const char *kind = trace->is_cached ? "TABLE" : "VIEW";
    enum cop_status status = COP_OK;
    for (const struct cop_trace_view *view = cop_trace_views; view->name && status == COP_OK;
         view++) {
        if (reads_cycles(view)) {
            status = run_text(
                trace,
                sqlite3_mprintf("DROP %s IF EXISTS temp.%s; CREATE TEMP TABLE %s AS %s", kind,
                                view->name, view->name, view->sql),
                err);
        }
    }
    return status;
}

enum cop_status cop_trace_cache(struct cop_trace *trace, struct cop_error *err)
{
    static const char what[] = "cannot read the cycles of the trace";
    enum cop_status status = cop_store_run(trace, "BEGIN", what, err);
    if (status == COP_OK) {
        status = cache_counts(trace, err);
        if (status == COP_OK) {
            status = cop_store_run(trace, "COMMIT", what, err);
        }
        if (status != COP_OK) {
            (void)sqlite3_exec(trace->db, "ROLLBACK", NULL, NULL, NULL);
        }
    }
    trace->is_cached = trace->is_cached || status == COP_OK;
    return status;
}
