/* What the files of the store share: the connection, and SQLite's answers as our errors. */
#ifndef COP_TRACE_STORE_H
#define COP_TRACE_STORE_H

#include "core/trace/trace.h"

#include <sqlite3.h>

struct cop_trace {
    sqlite3 *db;
    sqlite3_stmt *insert_request, *insert_cycle; /* prepared when first needed */
    bool is_cached;                              /* counts are temporary tables, not views */
};

/* Fills the record from the connection's last error; `what` begins the message. Always fails.
 */
enum cop_status cop_store_fail(struct cop_trace *trace, const char *what,
                               struct cop_error *err);
/* Statements without results. */
enum cop_status cop_store_run(struct cop_trace *trace, const char *sql, const char *what,
                              struct cop_error *err);
/* Prepares *statement unless it is there, else resets it. */
enum cop_status cop_store_prepare(struct cop_trace *trace, sqlite3_stmt **statement,
                                  const char *sql, struct cop_error *err);
/* Copies text, NULL included; length < 0: up to its end. */
void cop_store_bind_text(sqlite3_stmt *statement, int index, const char *text, int length);

#endif
