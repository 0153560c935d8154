/* Questions in SQL, row by row. */
#include "core/trace/store.h"

#include <stdlib.h>

struct cop_query {
    struct cop_trace *trace;
    sqlite3_stmt *statement;
};

static void bind_value(sqlite3_stmt *statement, int index, const struct cop_trace_value *value)
{
    switch (value->type) {
    case COP_TRACE_NULL: (void)sqlite3_bind_null(statement, index); break;
    case COP_TRACE_INTEGER: (void)sqlite3_bind_int64(statement, index, value->integer); break;
    case COP_TRACE_REAL: (void)sqlite3_bind_double(statement, index, value->real); break;
    case COP_TRACE_TEXT:
        cop_store_bind_text(statement, index, value->bytes, (int)value->length);
        break;
    }
}

enum cop_status cop_query_open(struct cop_query **out, struct cop_trace *trace, const char *sql,
                               const struct cop_trace_value *values, int32_t n,
                               struct cop_error *err)
{
    *out = NULL;
    struct cop_query *query = calloc(1, sizeof *query);
    if (!query) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a query");
    }
    query->trace = trace;
    enum cop_status status = cop_store_prepare(trace, &query->statement, sql, err);
    if (status == COP_OK && !query->statement) {
        status = cop_fail(err, COP_ERR_ARGUMENT, "the query is empty");
    }
    if (status == COP_OK && sqlite3_bind_parameter_count(query->statement) != n) {
        status =
            cop_fail(err, COP_ERR_ARGUMENT, "the query has %d question marks for %d values",
                     sqlite3_bind_parameter_count(query->statement), n);
    }
    if (status != COP_OK) {
        cop_query_close(query);
        return status;
    }
    for (int32_t i = 0; i < n; i++) {
        bind_value(query->statement, i + 1, &values[i]);
    }
    *out = query;
    return COP_OK;
}

enum cop_status cop_query_step(struct cop_query *query, bool *has_row, struct cop_error *err)
{
    int code = sqlite3_step(query->statement);
    *has_row = code == SQLITE_ROW;
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        return cop_store_fail(query->trace, "cannot read the trace", err);
    }
    return COP_OK;
}

int32_t cop_query_columns(const struct cop_query *query)
{
    return sqlite3_column_count(query->statement);
}

const char *cop_query_name(const struct cop_query *query, int32_t column)
{
    return sqlite3_column_name(query->statement, column);
}

struct cop_trace_value cop_query_value(const struct cop_query *query, int32_t column)
{
    struct cop_trace_value value = {0};
    switch (sqlite3_column_type(query->statement, column)) {
    case SQLITE_INTEGER:
        value.type = COP_TRACE_INTEGER;
        value.integer = sqlite3_column_int64(query->statement, column);
        break;
    case SQLITE_FLOAT:
        value.type = COP_TRACE_REAL;
        value.real = sqlite3_column_double(query->statement, column);
        break;
    case SQLITE_NULL: break;
    default:
        value.type = COP_TRACE_TEXT;
        value.bytes = (const char *)sqlite3_column_text(query->statement, column);
        value.length = (size_t)sqlite3_column_bytes(query->statement, column);
        break;
    }
    return value;
}

void cop_query_close(struct cop_query *query)
{
    if (query) {
        (void)sqlite3_finalize(query->statement);
        free(query);
    }
}
