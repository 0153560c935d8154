/* Opening a file of recorded rows: what must be there, of which type and size. */
#include "lua/recorded/recorded.h"

#include <stdio.h>
#include <string.h>

static const char *const type_names[] = {"F16", "BF16", "F32", "F64", "I32", "I64"};

void cop_recorded_close(struct cop_recorded *r)
{
    cop_safetensors_close(r->file);
    r->file = NULL;
}

static enum cop_status fail_tensor(const struct cop_recorded *r, const char *name,
                                   const char *text, struct cop_error *err)
{
    return cop_fail(err, COP_ERR_FORMAT, "%s: tensor \"%s\" %s", cop_safetensors_path(r->file),
                    name, text);
}

/* The type of a tensor that must be among [first, last]; COP_NUMBER_COUNT: it is another. */
static enum cop_number_type type_of(const struct cop_recorded *r,
                                    const struct cop_tensor *tensor, int first, int last)
{
    const char *name = cop_safetensors_type(r->file, tensor);
    int type = first;
    while (type <= last && strcmp(type_names[type], name) != 0) {
        type++;
    }
    return type <= last ? (enum cop_number_type)type : COP_NUMBER_COUNT;
}

int64_t cop_recorded_integer(const struct cop_recorded_list *list, int64_t i)
{
    const char *at = list->tensor->data;
    int64_t wide;
    int32_t narrow;
    if (list->type == COP_NUMBER_I64) {
        memcpy(&wide, at + i * 8, sizeof wide);
        return wide;
    }
    memcpy(&narrow, at + i * 4, sizeof narrow);
    return narrow;
}

static enum cop_status find_list(const struct cop_recorded *r, struct cop_recorded_list *list,
                                 struct cop_error *err)
{
    list->tensor = cop_safetensors_tensor(r->file, list->name);
    if (!list->tensor) {
        return COP_OK;
    }
    list->type = type_of(r, list->tensor, COP_NUMBER_I32, COP_NUMBER_I64);
    if (list->type == COP_NUMBER_COUNT || list->tensor->rank != 1 ||
        list->tensor->dims[0] < 1 || list->tensor->dims[0] > INT32_MAX) {
        return fail_tensor(r, list->name, "must be a list of I32 or I64, not empty", err);
    }
    return COP_OK;
}

/* Entry i lies in [low, high], or in [low, i) for parents. */
static enum cop_status check_list(const struct cop_recorded *r,
                                  const struct cop_recorded_list *list, int64_t low,
                                  int64_t high, bool is_below_own, struct cop_error *err)
{
    for (int64_t i = 0; list->tensor && i < list->tensor->dims[0]; i++) {
        int64_t value = cop_recorded_integer(list, i), most = is_below_own ? i - 1 : high;
        if (value < low || value > most) {
            return cop_fail(err, COP_ERR_FORMAT,
                            "%s: tensor \"%s\": entry %lld is %lld, must be from %lld to %lld",
                            cop_safetensors_path(r->file), list->name, (long long)i,
                            (long long)value, (long long)low, (long long)most);
        }
    }
    return COP_OK;
}

/* A list of one number; absent: `absent`. */
static enum cop_status read_number(const struct cop_recorded *r, const char *name,
                                   int64_t absent, int64_t *out, struct cop_error *err)
{
    struct cop_recorded_list list = {.name = name};
    enum cop_status status = find_list(r, &list, err);
    *out = absent;
    if (status != COP_OK || !list.tensor) {
        return status;
    }
    if (list.tensor->dims[0] != 1) {
        return fail_tensor(r, name, "must hold one number", err);
    }
    *out = cop_recorded_integer(&list, 0);
    return *out >= 0 && *out <= INT32_MAX ? COP_OK
                                          : fail_tensor(r, name, "must be a 32-bit count", err);
}

/* ---- One side -------------------------------------------------------------------------------
 */

struct names {
    char law[32], logits[32];
    const char *rows, *ids, *rest;
};

static struct names names_of(const struct cop_recorded_side *side)
{
    bool is_target = strcmp(side->name, "target") == 0;
    struct names names = {.rows = is_target ? "target.rows" : "draft.rows",
                          .ids = is_target ? "target.ids" : "draft.ids",
                          .rest = is_target ? "target.rest" : "draft.rest"};
    (void)snprintf(names.law, sizeof names.law, "%s.probabilities", side->name);
    (void)snprintf(names.logits, sizeof names.logits, "%s.logits", side->name);
    return names;
}

/* The rows themselves: which tensor, its type and its two sizes. */
static enum cop_status find_rows(const struct cop_recorded *r, struct cop_recorded_side *side,
                                 const struct names *names, struct cop_error *err)
{
    const struct cop_tensor *law = cop_safetensors_tensor(r->file, names->law);
    const struct cop_tensor *logits = cop_safetensors_tensor(r->file, names->logits);
    if ((law != NULL) == (logits != NULL)) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: needs exactly one of the tensors \"%s\", \"%s\"",
                        cop_safetensors_path(r->file), names->logits, names->law);
    }
    side->tensor = law ? law : logits;
    side->are_logits = logits != NULL;
    const char *name = law ? names->law : names->logits;
    side->type = type_of(r, side->tensor, COP_NUMBER_F16, COP_NUMBER_F64);
    if (side->type == COP_NUMBER_COUNT) {
        return fail_tensor(r, name, "must be F16, BF16, F32 or F64", err);
    }
    side->width = side->tensor->dims[0];
    side->n_rows = side->tensor->rank == 2 ? side->tensor->dims[1] : -1;
    if (side->tensor->rank != 2 || side->width < 1 || side->width > INT32_MAX ||
        (!side->index.tensor && side->n_rows != r->n)) {
        return fail_tensor(r, name, "must be [rows, vocabulary], a row for each token", err);
    }
    return COP_OK;
}

/* The tokens of the k best and the mass of the others. */
static enum cop_status check_best(const struct cop_recorded *r, struct cop_recorded_side *side,
                                  const struct names *names, int64_t vocabulary,
                                  struct cop_error *err)
{
    const struct cop_tensor *ids = side->ids.tensor, *rest = side->rest.tensor;
    if (type_of(r, ids, COP_NUMBER_I32, COP_NUMBER_I32) == COP_NUMBER_COUNT || ids->rank != 2 ||
        ids->dims[0] != side->width || ids->dims[1] != side->n_rows) {
        return fail_tensor(r, names->ids, "must be I32, as many as there are logits", err);
    }
    if (!rest || type_of(r, rest, COP_NUMBER_F32, COP_NUMBER_F32) == COP_NUMBER_COUNT ||
        rest->rank != 1 || rest->dims[0] != side->n_rows) {
        return fail_tensor(r, names->rest, "must be F32, one for each row", err);
    }
    if (!side->are_logits) {
        return fail_tensor(r, names->ids, "needs log-probabilities in the tensor of logits",
                           err);
    }
    side->ids.type = COP_NUMBER_I32;
    if (vocabulary < 1) {
        return fail_tensor(r, "vocabulary", "must say how many tokens there are", err);
    }
    for (int64_t i = 0; i < side->n_rows * side->width; i++) {
        int64_t id = cop_recorded_integer(&side->ids, i);
        if (id < -1 || id >= vocabulary) {
            return cop_fail(err, COP_ERR_FORMAT,
                            "%s: tensor \"%s\": entry %lld is %lld, the vocabulary has %lld",
                            cop_safetensors_path(r->file), names->ids, (long long)i,
                            (long long)id, (long long)vocabulary);
        }
    }
    return COP_OK;
}

static enum cop_status find_side(struct cop_recorded *r, struct cop_recorded_side *side,
                                 int64_t vocabulary, struct cop_error *err)
{
    struct names names = names_of(side);
    side->index.name = names.rows;
    side->ids.name = names.ids;
    enum cop_status status = find_list(r, &side->index, err);
    if (status == COP_OK && side->index.tensor && side->index.tensor->dims[0] != r->n) {
        status = fail_tensor(r, names.rows, "must have an entry for each token", err);
    }
    if (status == COP_OK) {
        status = find_rows(r, side, &names, err);
    }
    if (status == COP_OK) {
        status = check_list(r, &side->index, -1, side->n_rows - 1, false, err);
    }
    side->ids.tensor = cop_safetensors_tensor(r->file, names.ids);
    side->rest.tensor = cop_safetensors_tensor(r->file, names.rest);
    if (status == COP_OK && side->ids.tensor) {
        status = check_best(r, side, &names, vocabulary, err);
    }
    int64_t vocab = side->ids.tensor ? vocabulary : side->width;
    if (status == COP_OK && r->vocab > 0 && vocab != r->vocab) {
        status = fail_tensor(r, side->are_logits ? names.logits : names.law,
                             "has another vocabulary than the target's rows", err);
    }
    r->vocab = vocab;
    return status;
}

/* ---- The whole ------------------------------------------------------------------------------
 */

static enum cop_status read_file(struct cop_recorded *r, struct cop_error *err)
{
    int64_t vocabulary = 0;
    enum cop_status status = COP_OK;
    for (int i = 0; i < COP_RECORDED_LISTS && status == COP_OK; i++) {
        status = find_list(r, &r->lists[i], err);
    }
    if (status == COP_OK && !r->lists[COP_RECORDED_TOKENS].tensor) {
        status = fail_tensor(r, "tokens", "is missing", err);
    }
    if (status != COP_OK) {
        return status;
    }
    const struct cop_recorded_list *parents = &r->lists[COP_RECORDED_PARENTS];
    r->n = r->lists[COP_RECORDED_TOKENS].tensor->dims[0];
    if (parents->tensor && parents->tensor->dims[0] != r->n) {
        return fail_tensor(r, "parents", "must have an entry for each token", err);
    }
    status = read_number(r, "vocabulary", 0, &vocabulary, err);
    if (status == COP_OK) {
        status = read_number(r, "context", 0, &r->context, err);
    }
    if (status == COP_OK) {
        status = read_number(r, "room", INT32_MAX, &r->room, err);
    }
    for (int i = 0; i < 2 && status == COP_OK; i++) {
        status = find_side(r, &r->sides[i], vocabulary, err);
    }
    if (status == COP_OK) {
        status = check_list(r, &r->lists[COP_RECORDED_TOKENS], 0, r->vocab - 1, false, err);
    }
    if (status == COP_OK) {
        status = check_list(r, parents, -1, 0, true, err);
    }
    return status == COP_OK
               ? check_list(r, &r->lists[COP_RECORDED_POSITIONS], 0, r->n - 1, false, err)
               : status;
}

enum cop_status cop_recorded_open(struct cop_recorded *r, const char *path,
                                  struct cop_error *err)
{
    *r = (struct cop_recorded){
        .lists = {{.name = "tokens"}, {.name = "parents"}, {.name = "positions"}},
        .sides = {{.name = "target"}, {.name = "draft"}}};
    enum cop_status status = cop_safetensors_open(&r->file, path, err);
    if (status == COP_OK) {
        status = read_file(r, err);
    }
    if (status != COP_OK) {
        cop_recorded_close(r);
    }
    return status;
}
