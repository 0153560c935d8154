#include "core/trace/rows.h"

#include "core/files/safetensors_write.h"
#include "kernels/ops.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bytes { /* grows by doubling */
    char *items;
    size_t size, capacity;
};

/* Room for `more` bytes at the end, counted in; NULL: no memory, nothing changed. */
static void *extend(struct bytes *bytes, size_t more)
{
    if (bytes->size + more > bytes->capacity) {
        size_t capacity = 2 * (bytes->size + more);
        char *items = realloc(bytes->items, capacity);
        if (!items) {
            return NULL;
        }
        bytes->items = items;
        bytes->capacity = capacity;
    }
    bytes->size += more;
    return bytes->items + bytes->size - more;
}

static bool push_int(struct bytes *bytes, int32_t value)
{
    void *at = extend(bytes, sizeof value);
    if (at) {
        memcpy(at, &value, sizeof value);
    }
    return at != NULL;
}

static int32_t *ints(const struct bytes *bytes)
{
    return (int32_t *)(void *)bytes->items;
}

struct side {
    struct bytes index; /* i32 by entry */
    struct bytes logits, ids, rest;
    int32_t n_rows;
};

struct cop_row_record {
    bool is_wide;
    int32_t top, vocab;
    int32_t n, context, room;
    struct bytes tokens, parents, positions; /* i32 */
    /* Of the trie: an entry's newest child, its elder sibling. i32 by entry */
    struct bytes newest, elder;
    struct side target, draft;
    int32_t root;        /* entry of the next cycle's root; -1: no cycle yet */
    struct bytes places; /* scratch, i32 by node: its entry */
    struct bytes law;    /* scratch, a row of doubles */
    cop_token *best;     /* scratch [top] */
};

struct cop_row_record *cop_row_record_new(bool is_wide, int32_t top)
{
    struct cop_row_record *record = calloc(1, sizeof *record);
    if (record) {
        record->is_wide = is_wide;
        record->top = top;
        record->root = -1;
    }
    return record;
}

static void release_side(struct side *side)
{
    free(side->index.items);
    free(side->logits.items);
    free(side->ids.items);
    free(side->rest.items);
}

void cop_row_record_free(struct cop_row_record *record)
{
    if (record) {
        release_side(&record->target);
        release_side(&record->draft);
        free(record->tokens.items);
        free(record->parents.items);
        free(record->positions.items);
        free(record->newest.items);
        free(record->elder.items);
        free(record->places.items);
        free(record->law.items);
        free(record->best);
        free(record);
    }
}

/* ---- The trie -------------------------------------------------------------------------------
 */

/* The entry of `token` after `parent`, made when it is not there; -1: no memory. */
static int32_t enter(struct cop_row_record *record, int32_t parent, cop_token token)
{
    int32_t at = parent < 0 ? -1 : ints(&record->newest)[parent];
    while (at >= 0 && ints(&record->tokens)[at] != token) {
        at = ints(&record->elder)[at];
    }
    if (at >= 0) {
        return at;
    }
    int32_t elder = parent < 0 ? -1 : ints(&record->newest)[parent];
    if (!push_int(&record->tokens, token) || !push_int(&record->parents, parent) ||
        !push_int(&record->newest, -1) || !push_int(&record->elder, elder) ||
        !push_int(&record->target.index, -1) || !push_int(&record->draft.index, -1)) {
        return -1;
    }
    if (parent >= 0) {
        ints(&record->newest)[parent] = record->n;
    }
    return record->n++;
}

/* ---- One row --------------------------------------------------------------------------------
 */

/* The row as logits, and the highest of them. false: it is no law. */
static bool read_logits(const struct cop_row *row, double *out, double *best)
{
    *best = -HUGE_VAL;
    if (!row || row->kind == COP_ROW_NONE || row->kind == COP_ROW_POINTS) {
        return false;
    }
    if (!row->logits) {
        cop_row_fill(row, 0, row->vocab, out);
    }
    for (int32_t i = 0; i < row->vocab; i++) {
        out[i] = row->logits ? (double)row->logits[i] : log(out[i]);
        if (!(out[i] <= DBL_MAX)) {
            return false;
        }
        *best = fmax(*best, out[i]);
    }
    return *best >= -DBL_MAX;
}

static bool push_number(const struct cop_row_record *record, struct bytes *to, double value)
{
    float single = (float)value;
    uint16_t half = cop_f32_to_f16(single);
    void *at = extend(to, record->is_wide ? sizeof single : sizeof half);
    if (at) {
        memcpy(at, record->is_wide ? (void *)&single : (void *)&half,
               record->is_wide ? sizeof single : sizeof half);
    }
    return at != NULL;
}

static bool push_all(const struct cop_row_record *record, struct side *side,
                     const double *logits, double best)
{
    bool fits = true;
    for (int32_t i = 0; i < record->vocab && fits; i++) {
        fits = push_number(record, &side->logits, logits[i] - best);
    }
    return fits;
}

/* The `top` best, and the mass of all others. */
static bool push_top(const struct cop_row_record *record, struct side *side,
                     const struct cop_row *row, const double *logits, double best)
{
    double sum = 0, kept = 0;
    for (int32_t i = 0; i < record->vocab; i++) {
        sum += exp(logits[i] - best);
    }
    cop_token *ids = record->best;
    int32_t count = row->logits ? cop_row_top_logits(row, record->top, ids)
                                : cop_row_top(row, record->top, ids);
    bool fits = true;
    for (int32_t k = 0; k < record->top && fits; k++) {
        double value = k < count ? logits[ids[k]] - best - log(sum) : -HUGE_VAL;
        kept += exp(value);
        fits = push_number(record, &side->logits, value) &&
               push_int(&side->ids, k < count ? ids[k] : -1);
    }
    float rest = (float)fmax(0, 1 - kept);
    void *at = fits ? extend(&side->rest, sizeof rest) : NULL;
    if (at) {
        memcpy(at, &rest, sizeof rest);
    }
    return at != NULL;
}

static enum cop_status add_row(struct cop_row_record *record, struct side *side, int32_t entry,
                               const struct cop_row *row, struct cop_error *err)
{
    double best, *logits = (double *)(void *)record->law.items;
    if (ints(&side->index)[entry] >= 0 || !read_logits(row, logits, &best)) {
        return COP_OK;
    }
    if (!(record->top > 0 ? push_top(record, side, row, logits, best)
                          : push_all(record, side, logits, best))) {
        return cop_fail(err, COP_ERR_MEMORY,
                        "no memory for the recorded rows of a request (record fewer: top =)");
    }
    ints(&side->index)[entry] = side->n_rows++;
    return COP_OK;
}

/* ---- One cycle ------------------------------------------------------------------------------
 */

static bool place_nodes(struct cop_row_record *record, const struct cop_tree *tree)
{
    record->places.size = 0;
    if (record->root < 0) {
        record->root = enter(record, -1, tree->token[0]);
        if (record->root < 0 || !push_int(&record->positions, record->root)) {
            return false;
        }
    }
    if (!push_int(&record->places, record->root)) {
        return false;
    }
    for (int32_t node = 1; node < tree->size; node++) {
        int32_t parent = ints(&record->places)[tree->parent[node]];
        int32_t entry = enter(record, parent, tree->token[node]);
        if (entry < 0 || !push_int(&record->places, entry)) {
            return false;
        }
    }
    return true;
}

static enum cop_status add_rows(struct cop_row_record *record,
                                const struct cop_cycle_rows *rows, struct cop_error *err)
{
    const struct cop_tree *tree = rows->tree;
    enum cop_status status = COP_OK;
    for (int32_t node = 0; node < tree->size && status == COP_OK; node++) {
        int32_t entry = ints(&record->places)[node];
        status = add_row(record, &record->target, entry, cop_rows_at(&rows->target, node), err);
        if (status == COP_OK && node > 0) {
            int32_t parent = ints(&record->places)[tree->parent[node]];
            status =
                add_row(record, &record->draft, parent, cop_rows_at(&rows->draft, node), err);
        }
    }
    return status;
}

static bool follow(struct cop_row_record *record, const struct cop_cycle_rows *rows)
{
    bool fits = true;
    int32_t at = record->root;
    for (int32_t i = 0; i < rows->n_accepted && fits; i++) {
        at = ints(&record->places)[rows->accepted[i]];
        fits = push_int(&record->positions, at);
    }
    record->root = fits ? enter(record, at, rows->last) : -1;
    return record->root >= 0 && push_int(&record->positions, record->root);
}

enum cop_status cop_row_record_cycle(void *user, const struct cop_cycle_rows *rows,
                                     struct cop_error *err)
{
    struct cop_row_record *record = user;
    const struct cop_row *first = cop_rows_at(&rows->target, 0);
    if (record->root < 0) {
        record->vocab = first->vocab;
        record->context = rows->context_length;
        record->room = rows->room;
        record->top = record->top < record->vocab ? record->top : record->vocab;
        free(record->best);
        record->best = malloc((size_t)record->top * sizeof *record->best + 1);
    }
    record->law.size = 0;
    enum cop_status status = COP_OK;
    if (!record->best || !extend(&record->law, (size_t)record->vocab * sizeof(double)) ||
        !place_nodes(record, rows->tree)) {
        status = COP_ERR_MEMORY;
    }
    if (status == COP_OK) {
        status = add_rows(record, rows, err);
        if (status != COP_OK) {
            return status;
        }
        status = follow(record, rows) ? COP_OK : COP_ERR_MEMORY;
    }
    return status == COP_OK ? COP_OK
                            : cop_fail(err, status, "no memory for the rows of a cycle");
}

/* ---- The file -------------------------------------------------------------------------------
 */

static struct cop_tensor_bytes list_of(const char *name, const void *items, size_t bytes)
{
    return (struct cop_tensor_bytes){name, "I32", 1, {(int64_t)(bytes / 4)}, items, bytes};
}

/* names: rows, logits, ids, rest */
static int32_t add_side(const struct cop_row_record *record, const struct side *side,
                        const char *const names[4], struct cop_tensor_bytes *out)
{
    const char *type = record->is_wide ? "F32" : "F16";
    int64_t width = record->top > 0 ? record->top : record->vocab;
    out[0] = list_of(names[0], side->index.items, side->index.size);
    out[1] = (struct cop_tensor_bytes){
        names[1], type, 2, {side->n_rows, width}, side->logits.items, side->logits.size};
    if (record->top == 0) {
        return 2;
    }
    out[2] = (struct cop_tensor_bytes){names[2],        "I32",         2, {side->n_rows, width},
                                       side->ids.items, side->ids.size};
    out[3] = (struct cop_tensor_bytes){names[3],         "F32",          1, {side->n_rows},
                                       side->rest.items, side->rest.size};
    return 4;
}

static bool has_target(const struct cop_row_record *record, int32_t entry)
{
    return ints(&record->target.index)[entry] >= 0;
}

enum cop_status cop_row_record_save(const struct cop_row_record *record, const char *path,
                                    struct cop_error *err)
{
    static const char *const target[] = {"target.rows", "target.logits", "target.ids",
                                         "target.rest"};
    static const char *const draft[] = {"draft.rows", "draft.logits", "draft.ids",
                                        "draft.rest"};
    if (record->n == 0) {
        return COP_OK;
    }
    size_t positions = record->positions.size; /* the last root has met no cycle */
    while (positions > 0 && !has_target(record, ints(&record->positions)[positions / 4 - 1])) {
        positions -= 4;
    }
    struct cop_tensor_bytes out[14] = {
        list_of("tokens", record->tokens.items, record->tokens.size),
        list_of("parents", record->parents.items, record->parents.size),
        list_of("positions", record->positions.items, positions),
        list_of("context", &record->context, 4),
        list_of("room", &record->room, 4),
        list_of("vocabulary", &record->vocab, 4)};
    int32_t count = 6;
    count += add_side(record, &record->target, target, out + count);
    count += add_side(record, &record->draft, draft, out + count);
    return cop_safetensors_write(path, out, count, err);
}
