/* core.recorded: target and draft rows that another program recorded, in one safetensors file.
 *
 *     tokens              [n]     I32 or I64: row i is what comes after token i
 *     parents             [n]     I32 or I64, may be absent: the row before token i, lower than
 *                                 i; -1 where a text begins; absent: one text in order
 *     positions           [m]     I32 or I64, may be absent: rows at which a cycle may begin
 *     target.logits       [n, v]  F16, BF16, F32 or F64; or target.probabilities
 *     draft.logits        [n, v]  the same; or draft.probabilities
 *
 * tokens and parents make a trie of prefixes: a row counts for its own prefix and for no other.
 * Everything but the rows is checked when the file is opened, a row when it is asked for. */
#include "lua/home.h"

#include "core/files/safetensors.h"
#include "kernels/ops.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OWNER    "cop.rows"
#define RECORDED "coppice.recorded"

enum number_type { TYPE_F16, TYPE_BF16, TYPE_F32, TYPE_F64, TYPE_I32, TYPE_I64, TYPE_COUNT };

/* `slack`: how far a row of probabilities may sum from 1 by the rounding of its entries. */
static const struct {
    const char *name;
    size_t bytes;
    double slack;
} types[TYPE_COUNT] = {{"F16", 2, 1e-2}, {"BF16", 2, 2e-2}, {"F32", 4, 1e-4},
                       {"F64", 8, 1e-9}, {"I32", 4, 0},     {"I64", 8, 0}};

struct side { /* the rows of target or draft */
    const char *name;
    const struct cop_tensor *tensor;
    enum number_type type;
    bool are_logits;
};

struct recorded {
    struct cop_safetensors *file; /* NULL: closed */
    int64_t n, vocab;
    struct side sides[2]; /* target, draft */
};

static void release(void *block)
{
    struct recorded *recorded = block;
    cop_safetensors_close(recorded->file);
    recorded->file = NULL;
}

/* ---- Opening --------------------------------------------------------------------------------
 */

static enum cop_status fail_tensor(const struct recorded *r, const char *name, const char *text,
                                   struct cop_error *err)
{
    return cop_fail(err, COP_ERR_FORMAT, "%s: tensor \"%s\" %s", cop_safetensors_path(r->file),
                    name, text);
}

/* The type of a tensor that must be among [first, last]; TYPE_COUNT: it is another. */
static enum number_type type_of(const struct recorded *r, const struct cop_tensor *tensor,
                                enum number_type first, enum number_type last)
{
    const char *name = cop_safetensors_type(r->file, tensor);
    int type = (int)first;
    while (type <= (int)last && strcmp(types[type].name, name) != 0) {
        type++;
    }
    return type <= (int)last ? (enum number_type)type : TYPE_COUNT;
}

static enum cop_status find_side(struct recorded *r, struct side *side, struct cop_error *err)
{
    char laws[32], logits[32];
    (void)snprintf(laws, sizeof laws, "%s.probabilities", side->name);
    (void)snprintf(logits, sizeof logits, "%s.logits", side->name);
    const struct cop_tensor *law = cop_safetensors_tensor(r->file, laws);
    const struct cop_tensor *logit = cop_safetensors_tensor(r->file, logits);
    if ((law != NULL) == (logit != NULL)) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: needs exactly one of the tensors \"%s\", \"%s\"",
                        cop_safetensors_path(r->file), logits, laws);
    }
    side->tensor = law ? law : logit;
    side->are_logits = logit != NULL;
    const char *name = law ? laws : logits;
    side->type = type_of(r, side->tensor, TYPE_F16, TYPE_F64);
    if (side->type == TYPE_COUNT) {
        return fail_tensor(r, name, "must be F16, BF16, F32 or F64", err);
    }
    int64_t vocab = side->tensor->dims[0];
    if (side->tensor->rank != 2 || side->tensor->dims[1] != r->n || vocab < 1 ||
        vocab > INT32_MAX) {
        return fail_tensor(r, name, "must be [rows, vocabulary], a row for each token", err);
    }
    if (r->vocab > 0 && vocab != r->vocab) {
        return fail_tensor(r, name, "has another vocabulary than the target's rows", err);
    }
    r->vocab = vocab;
    return COP_OK;
}

static int64_t integer_at(const struct cop_tensor *tensor, enum number_type type, int64_t i)
{
    const char *at = (const char *)tensor->data + (size_t)i * types[type].bytes;
    int64_t wide;
    int32_t narrow;
    if (type == TYPE_I64) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

struct integers {
    const char *name;
    const struct cop_tensor *tensor; /* NULL: absent */
    enum number_type type;
};

static enum cop_status find_integers(const struct recorded *r, struct integers *list,
                                     struct cop_error *err)
{
    list->tensor = cop_safetensors_tensor(r->file, list->name);
    if (!list->tensor) {
        return COP_OK;
    }
    list->type = type_of(r, list->tensor, TYPE_I32, TYPE_I64);
    if (list->type == TYPE_COUNT || list->tensor->rank != 1 || list->tensor->dims[0] < 1 ||
        list->tensor->dims[0] > INT32_MAX) {
        return fail_tensor(r, list->name, "must be a list of I32 or I64, not empty", err);
    }
    return COP_OK;
}

/* Entry i lies in [low, high], where high counts from i on for parents. */
static enum cop_status check_integers(const struct recorded *r, const struct integers *list,
                                      int64_t low, int64_t high, bool is_below_own,
                                      struct cop_error *err)
{
    for (int64_t i = 0; list->tensor && i < list->tensor->dims[0]; i++) {
        int64_t value = integer_at(list->tensor, list->type, i);
        int64_t most = is_below_own ? i - 1 : high;
        if (value < low || value > most) {
            return cop_fail(err, COP_ERR_FORMAT,
                            "%s: tensor \"%s\": entry %lld is %lld, must be from %lld to %lld",
                            cop_safetensors_path(r->file), list->name, (long long)i,
                            (long long)value, (long long)low, (long long)most);
        }
    }
    return COP_OK;
}

enum { TOKENS, PARENTS, POSITIONS, LISTS };

static enum cop_status open_file(struct recorded *r, const char *path,
                                 struct integers lists[LISTS], struct cop_error *err)
{
    enum cop_status status = cop_safetensors_open(&r->file, path, err);
    for (int i = 0; i < LISTS && status == COP_OK; i++) {
        status = find_integers(r, &lists[i], err);
    }
    if (status == COP_OK && !lists[TOKENS].tensor) {
        status = fail_tensor(r, "tokens", "is missing", err);
    }
    if (status != COP_OK) {
        return status;
    }
    r->n = lists[TOKENS].tensor->dims[0];
    if (lists[PARENTS].tensor && lists[PARENTS].tensor->dims[0] != r->n) {
        return fail_tensor(r, "parents", "must have an entry for each token", err);
    }
    for (int i = 0; i < 2 && status == COP_OK; i++) {
        status = find_side(r, &r->sides[i], err);
    }
    if (status == COP_OK) {
        status = check_integers(r, &lists[TOKENS], 0, r->vocab - 1, false, err);
    }
    if (status == COP_OK) {
        status = check_integers(r, &lists[PARENTS], -1, 0, true, err);
    }
    return status == COP_OK ? check_integers(r, &lists[POSITIONS], 0, r->n - 1, false, err)
                            : status;
}

/* A list as it stands in the file into the field of its name; absent ones are nil. */
static void push_integers(lua_State *L, const struct integers *list)
{
    if (!list->tensor) {
        return;
    }
    int64_t n = list->tensor->dims[0];
    lua_createtable(L, (int)n, 0);
    for (int64_t i = 0; i < n; i++) {
        lua_pushinteger(L, integer_at(list->tensor, list->type, i));
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, list->name);
}

/* recorded(path) → { file =, vocab =, tokens =, parents =, positions = } | nil, message, code;
 * rows count from 0, as in the file. */
static int recorded_open(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    struct recorded *r = lua_newuserdatauv(L, sizeof *r, 0);
    *r = (struct recorded){.sides = {{.name = "target"}, {.name = "draft"}}};
    luaL_setmetatable(L, RECORDED);
    struct integers lists[LISTS] = {
        {.name = "tokens"}, {.name = "parents"}, {.name = "positions"}};
    struct cop_error err = {0};
    if (open_file(r, path, lists, &err) != COP_OK) {
        release(r);
        return cop_lua_fail_of(L, OWNER, &err);
    }
    lua_newtable(L);
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, "file");
    cop_lua_set_integer(L, "vocab", r->vocab);
    for (int i = 0; i < LISTS; i++) {
        push_integers(L, &lists[i]);
    }
    return 1;
}

/* ---- Rows -----------------------------------------------------------------------------------
 */

static double number_at(const char *at, enum number_type type)
{
    if (type == TYPE_F64) {
        double wide;
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    if (type == TYPE_F32) {
        float single;
        memcpy(&single, at, sizeof single);
        return (double)single;
    }
    uint16_t half;
    memcpy(&half, at, sizeof half);
    return (double)(type == TYPE_F16 ? cop_f16_to_f32(half) : cop_bf16_to_f32(half));
}

/* Logits may be -infinity, a token that cannot come; probabilities are finite. */
static void read_numbers(lua_State *L, const struct recorded *r, const struct side *side,
                         int64_t row, double *out)
{
    size_t bytes = types[side->type].bytes;
    const char *at = (const char *)side->tensor->data + (size_t)(row * r->vocab) * bytes;
    double sum = 0, best = -HUGE_VAL;
    for (int64_t i = 0; i < r->vocab; i++) {
        out[i] = number_at(at + (size_t)i * bytes, side->type);
        if (!(out[i] <= DBL_MAX) || (!side->are_logits && out[i] < 0)) {
            cop_lua_raise(L, OWNER ": %s: row %d of the %s: entry of token %d is %f",
                          cop_safetensors_path(r->file), (int)row, side->name, (int)i, out[i]);
        }
        sum += out[i];
        best = fmax(best, out[i]);
    }
    if (!side->are_logits && !(fabs(sum - 1) <= types[side->type].slack)) {
        cop_lua_raise(L, OWNER ": %s: row %d of the %s: probabilities sum to %f, not to 1",
                      cop_safetensors_path(r->file), (int)row, side->name, sum);
    }
    if (!(best >= -DBL_MAX)) {
        cop_lua_raise(L, OWNER ": %s: row %d of the %s has no token",
                      cop_safetensors_path(r->file), (int)row, side->name);
    }
}

/* The law at a temperature above 0: probabilities are logits of themselves. */
static void make_law(const struct side *side, double temperature, int64_t n, double *row)
{
    double best = -HUGE_VAL, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        best = fmax(best, row[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        if (side->are_logits) {
            row[i] = exp((row[i] - best) / temperature);
        } else if (temperature != 1) {
            row[i] = pow(row[i] / best, 1 / temperature);
        }
        sum += row[i];
    }
    for (int64_t i = 0; i < n; i++) {
        row[i] /= sum;
    }
}

/* file:law("target" | "draft", row, temperature) → a literal row that sums to 1 */
static int recorded_law(lua_State *L)
{
    static const char *const names[] = {"target", "draft", NULL};
    const struct recorded *r = luaL_checkudata(L, 1, RECORDED);
    const struct side *side = &r->sides[luaL_checkoption(L, 2, NULL, names)];
    lua_Integer row = luaL_checkinteger(L, 3);
    double temperature = luaL_checknumber(L, 4);
    luaL_argcheck(L, r->file && row >= 0 && row < r->n, 3, "no such row");
    luaL_argcheck(L, temperature > 0, 4, "must be above 0");
    double *law = lua_newuserdatauv(L, (size_t)r->vocab * sizeof *law, 0);
    read_numbers(L, r, side, row, law);
    make_law(side, temperature, r->vocab, law);
    lua_createtable(L, (int)r->vocab, 0);
    for (int64_t i = 0; i < r->vocab; i++) {
        lua_pushnumber(L, law[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int recorded_gc(lua_State *L)
{
    release(luaL_checkudata(L, 1, RECORDED));
    return 0;
}

void cop_lua_open_recorded(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"law", recorded_law}, {"__gc", recorded_gc}, {NULL, NULL}};
    cop_lua_class(L, RECORDED, methods);
    lua_pushcfunction(L, recorded_open);
    lua_setfield(L, -2, "recorded");
}
