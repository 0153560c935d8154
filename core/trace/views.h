/* The metrics of a trace, as views of its database: one view for each published definition,
 * named after it, so that any program that reads SQLite answers questions without this one.
 *
 *     counts              views over requests and cycles from which all others are made; a
 *                         reader may turn them into temporary tables (cop_trace_cache), so that
 *                         cycles are read once
 *     one of a metric     a row for each arm and sampling: arm_id, arm, sampling, [key,] value;
 *                         with a key (depth, tokens, nodes, category, …) for each of its
 *                         values; none, or NULL, where it says nothing about an arm (plain
 *                         decoding drafts nothing)
 *     metrics             all metrics without a key: metric, arm, sampling, value
 *     broken_identities   where the trace contradicts itself; empty in every run
 *
 * Failed requests are left out. Views hold no data: they are made anew whenever a program opens
 * the trace to write, and a reader has temporary ones of its own version. */
#ifndef COP_TRACE_VIEWS_H
#define COP_TRACE_VIEWS_H

#include "core/trace/trace.h"

struct cop_trace_view {
    const char *name;
    const char *key;     /* the column before the value; NULL: none */
    const char *formula; /* what it is, in words of the trace; NULL: counts, no metric */
    const char *source;  /* who prints this number, and under which name; NULL: we do */
    const char *sql;     /* counts: the view; metrics: arm_id, [key,] value */
};
/* Each uses only those before it. Ends with a name of NULL. */
extern const struct cop_trace_view cop_trace_views[];

enum cop_status cop_trace_make_views(struct cop_trace *trace, bool are_temporary,
                                     struct cop_error *err);
/* Reads all cycles now; what is asked later is of this moment. */
enum cop_status cop_trace_cache(struct cop_trace *trace, struct cop_error *err);

#endif
