/* The rows of one request, for replay: target rows of all scored nodes and the rows that
 * drafted tokens were drawn from, in the layout that lua/recorded/recorded.h reads.
 *
 * Prefixes of all cycles make one trie; equal prefixes are one entry. The root of the first
 * cycle is entry 0, what was committed (roots and accepted nodes) is `positions`. Entry i is
 * "the token after which the rows of entry i come":
 *
 *     tokens, parents  [n]
 *     positions        [committed]
 *     context          [1]          tokens before entry 0
 *     room             [1]          levels that a cycle at entry 0 could draft, one less for
 *                                   each token committed since
 *     target.rows      [n]          which row is entry i's, -1: none; draft.rows the same
 *     target.logits    [rows, v]    shifted so that the best is 0; draft.logits the same
 *                                   or, with `top` > 0:
 *     target.logits    [rows, top]  log-probabilities at temperature 1, the best first
 *     target.ids       [rows, top]  their tokens, -1 where a row has fewer
 *     target.rest      [rows]       probability of all others; the same of the draft
 *     vocabulary       [1]
 *
 * Logits are what a rule calls raw: after penalties, biases and bans. A proposer that gives
 * probabilities has their logs recorded; points (lookups) are no law and are not recorded. Of
 * several drafters the first is. */
#ifndef COP_TRACE_ROWS_H
#define COP_TRACE_ROWS_H

#include "core/cycle/contract/observer.h"

struct cop_row_record;

/* is_wide: F32 instead of F16. top 0: all of the vocabulary. NULL: no memory. */
struct cop_row_record *cop_row_record_new(bool is_wide, int32_t top);
void cop_row_record_free(struct cop_row_record *record); /* NULL is fine */
/* A request's on_rows. */
enum cop_status cop_row_record_cycle(void *record, const struct cop_cycle_rows *rows,
                                     struct cop_error *err);
/* Writes the file; a record without cycles writes none. */
enum cop_status cop_row_record_save(const struct cop_row_record *record, const char *path,
                                    struct cop_error *err);

#endif
