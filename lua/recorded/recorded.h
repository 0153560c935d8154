/* Target and draft rows that another program or a run of ours recorded: one safetensors file.
 *
 *     tokens         [n]        I32 or I64: entry i is a token, its rows what comes after it
 *     parents        [n]        I32 or I64, may be absent: the entry before token i, lower
 *                               than i; -1 where a text begins; absent: one text in order
 *     positions      [m]        I32 or I64, may be absent: entries at which a cycle may begin
 *     target.logits  [n, v]     F16, BF16, F32 or F64; or target.probabilities
 *     draft.logits   [n, v]     the same; or draft.probabilities
 *
 * May be there besides, for rows that were recorded in part:
 *
 *     target.rows    [n]        I32 or I64: which row is entry i's, -1: none; then the tensor
 *                               target.logits is [rows, v]; draft.rows the same
 *     target.ids     [rows, k]  I32: tokens of a row's k best, -1 where there are fewer; then
 *                               target.logits is [rows, k], log-probabilities at temperature 1
 *     target.rest    [rows]     F32: the probability of all others; the same of the draft
 *     vocabulary     [1]        I32 or I64, needed with ids
 *     context        [1]        I32 or I64: tokens before entry 0
 *     room           [1]        levels that the answer's limit let a cycle at entry 0 draft,
 *                               one less for each token after it; absent: any number
 *
 * tokens and parents make a trie of prefixes: a row counts for its own prefix and for no other.
 * Everything but the rows is checked when the file is opened, a row when it is asked for. */
#ifndef COP_LUA_RECORDED_H
#define COP_LUA_RECORDED_H

#include "core/base/error.h"
#include "core/files/safetensors.h"
#include <stdbool.h>
#include <stdint.h>

enum cop_number_type {
    COP_NUMBER_F16,
    COP_NUMBER_BF16,
    COP_NUMBER_F32,
    COP_NUMBER_F64,
    COP_NUMBER_I32,
    COP_NUMBER_I64,
    COP_NUMBER_COUNT
};

struct cop_recorded_list {
    const char *name;
    const struct cop_tensor *tensor; /* NULL: absent */
    enum cop_number_type type;
};
int64_t cop_recorded_integer(const struct cop_recorded_list *list, int64_t i);

struct cop_recorded_side { /* the rows of target or draft */
    const char *name;
    const struct cop_tensor *tensor;
    enum cop_number_type type;
    bool are_logits;
    struct cop_recorded_list index, ids, rest; /* rest: a tensor of one type, F32 */
    int64_t n_rows, width;                     /* of the tensor */
};

enum { COP_RECORDED_TOKENS, COP_RECORDED_PARENTS, COP_RECORDED_POSITIONS, COP_RECORDED_LISTS };

struct cop_recorded {
    struct cop_safetensors *file; /* NULL: closed */
    int64_t n, vocab, context, room;
    struct cop_recorded_list lists[COP_RECORDED_LISTS];
    struct cop_recorded_side sides[2]; /* target, draft */
};

/* Opens and checks; after failure it is closed. */
enum cop_status cop_recorded_open(struct cop_recorded *recorded, const char *path,
                                  struct cop_error *err);
void cop_recorded_close(struct cop_recorded *recorded);

/* The law after entry i at a temperature above 0 into law[vocab]; *rest: of it, the mass that
 * was not recorded and is spread evenly over the tokens that are not among the k best.
 * *is_there false: no row was recorded. COP_ERR_FORMAT for a row that is no law. */
enum cop_status cop_recorded_law(const struct cop_recorded *recorded, int side, int64_t entry,
                                 double temperature, double *law, double *rest, bool *is_there,
                                 struct cop_error *err);
/* Whether a token's own probability after an entry was recorded. */
bool cop_recorded_lists(const struct cop_recorded *recorded, int side, int64_t entry,
                        int64_t token);

#endif
