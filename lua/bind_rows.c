/* Rows as scripts see them: row[id], #row, row:top(k), row:logsumexp(); hidden vectors.
 *
 * Two kinds share one class. A row of a score owns nothing but keeps the buffer of its logits
 * alive; row[id] is a logit. A row that a callback lends lives until the callback returns;
 * row[id] is a probability, or a logit for target:logits(i). Ids outside the vocabulary are
 * nil. Two lent rows have a residual, row:minus(other), which a rule can pick from without
 * touching every token. Literal rows, Lua lists whose first entry belongs to token 0, are read
 * here too. */
#include "lua/home.h"

#include "core/cycle/draws/draws.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct row_box {
    enum cop_lua_row_face face;
    struct cop_row own;              /* a score's: raw logits only */
    const struct cop_row *lent;      /* a callback's; NULL: the own one */
    const struct cop_lua_home *home; /* of a lent row */
    uint64_t serial;                 /* of its scope */
};

/* ---- Pushing --------------------------------------------------------------------------------
 */

static struct row_box *push_box(lua_State *L, enum cop_lua_row_face face)
{
    luaL_checkstack(L, 4, NULL);
    struct row_box *box = lua_newuserdatauv(L, sizeof *box, 1);
    memset(box, 0, sizeof *box);
    box->face = face;
    luaL_setmetatable(L, COP_LUA_ROW);
    return box;
}

void cop_lua_push_logits(lua_State *L, int owner, const float *logits, int32_t vocab)
{
    owner = lua_absindex(L, owner);
    struct row_box *box = push_box(L, COP_LUA_FACE_LOGIT);
    box->own = (struct cop_row){.kind = COP_ROW_LOGITS, .vocab = vocab, .logits = logits};
    lua_pushvalue(L, owner);
    lua_setiuservalue(L, -2, 1);
}

void cop_lua_push_law(lua_State *L, int owner, const double *law, int32_t vocab)
{
    owner = lua_absindex(L, owner);
    struct row_box *box = push_box(L, COP_LUA_FACE_PROBABILITY);
    box->own = (struct cop_row){.kind = COP_ROW_DENSE, .vocab = vocab, .dense = law};
    lua_pushvalue(L, owner);
    lua_setiuservalue(L, -2, 1);
}

void cop_lua_push_row(lua_State *L, struct cop_lua_home *home, const struct cop_row *row,
                      enum cop_lua_row_face face)
{
    if (!row || row->kind == COP_ROW_NONE) {
        luaL_checkstack(L, 1, NULL);
        lua_pushnil(L);
        return;
    }
    struct row_box *box = push_box(L, face);
    box->lent = row;
    box->home = home;
    box->serial = home->scopes->serial;
}

/* ---- Reading --------------------------------------------------------------------------------
 */

static const struct cop_row *live_row(lua_State *L, const struct row_box *box)
{
    if (box->lent && !cop_lua_scope_is_open(box->home, box->serial)) {
        cop_lua_raise(L,
                      "this row was valid only until the function that received it returned");
    }
    return box->lent ? box->lent : &box->own;
}

const struct cop_row *cop_lua_test_row(lua_State *L, int index)
{
    const struct row_box *box = luaL_testudata(L, index, COP_LUA_ROW);
    return box && box->lent ? live_row(L, box) : NULL;
}

static const struct cop_row *check_row(lua_State *L, enum cop_lua_row_face *face)
{
    const struct row_box *box = luaL_checkudata(L, 1, COP_LUA_ROW);
    *face = box->face;
    return live_row(L, box);
}

/* Of a row that came as a law the logits are its logarithms, as they are for rules in C. */
static double entry(const struct cop_row *row, enum cop_lua_row_face face, cop_token id)
{
    return face != COP_LUA_FACE_LOGIT ? cop_row_probability(row, id)
           : row->logits              ? (double)row->logits[id]
                                      : log(cop_row_probability(row, id));
}

/* A strict order: higher logit first, ties to the lower id. */
static bool is_better(const float *logits, cop_token a, cop_token b)
{
    float left = logits[a], right = logits[b];
    return left > right || (left == right && a < b);
}

static void sift_down(const float *logits, cop_token *heap, int32_t count, int32_t at)
{
    for (;;) {
        int32_t worst = at;
        for (int32_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++) {
            worst = is_better(logits, heap[worst], heap[child]) ? child : worst;
        }
        if (worst == at) {
            return;
        }
        cop_token moved = heap[at];
        heap[at] = heap[worst];
        heap[worst] = moved;
        at = worst;
    }
}

/* The k best ids, best first: a heap with the worst on top, then emptied from the back. */
static void top_logits(const float *logits, int32_t vocab, int32_t k, cop_token *ids)
{
    for (int32_t i = 0; i < k; i++) {
        ids[i] = i;
    }
    for (int32_t i = k / 2 - 1; i >= 0; i--) {
        sift_down(logits, ids, k, i);
    }
    for (cop_token i = k; i < vocab; i++) {
        if (is_better(logits, i, ids[0])) {
            ids[0] = i;
            sift_down(logits, ids, k, 0);
        }
    }
    for (int32_t left = k - 1; left > 0; left--) {
        cop_token worst = ids[0];
        ids[0] = ids[left];
        ids[left] = worst;
        sift_down(logits, ids, left, 0);
    }
}

static void push_best(lua_State *L, const struct cop_row *row, enum cop_lua_row_face face,
                      cop_token id, double logsumexp)
{
    lua_createtable(L, 0, 3);
    cop_lua_set_integer(L, "id", id);
    if (face == COP_LUA_FACE_LOGIT) {
        double logit = entry(row, face, id);
        cop_lua_set_number(L, "logit", logit);
        cop_lua_set_number(L, "logprob", logit - logsumexp);
    } else {
        double probability = cop_row_probability(row, id);
        cop_lua_set_number(L, "probability", probability);
        cop_lua_set_number(L, "logprob", log(probability));
    }
}

static int row_top(lua_State *L)
{
    enum cop_lua_row_face face;
    const struct cop_row *row = check_row(L, &face);
    cop_lua_at_most(L, 2, "row:top");
    int32_t k = (int32_t)cop_lua_check_integer(L, 2, 1, INT32_MAX, "row:top: the count");
    k = k < row->vocab ? k : row->vocab;
    cop_token *ids = lua_newuserdatauv(L, (size_t)k * sizeof *ids, 0);
    double logsumexp = 0;
    if (face == COP_LUA_FACE_LOGIT && row->logits) {
        top_logits(row->logits, row->vocab, k, ids);
        logsumexp = cop_row_logsumexp(row);
    } else {
        k = cop_row_top(row, k, ids);
    }
    lua_createtable(L, k, 0);
    for (int32_t i = 0; i < k; i++) {
        push_best(L, row, face, ids[i], logsumexp);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int row_logsumexp(lua_State *L)
{
    enum cop_lua_row_face face;
    const struct cop_row *row = check_row(L, &face);
    cop_lua_at_most(L, 1, "row:logsumexp");
    if (!row->logits && face != COP_LUA_FACE_LOGIT) {
        return cop_lua_raise(L, "row:logsumexp: this row has no logits");
    }
    lua_pushnumber(L, row->logits ? cop_row_logsumexp(row) : 0); /* ln 1 */
    return 1;
}

static int row_length(lua_State *L)
{
    enum cop_lua_row_face face;
    lua_pushinteger(L, check_row(L, &face)->vocab);
    return 1;
}

static int row_text(lua_State *L)
{
    const struct row_box *box = luaL_checkudata(L, 1, COP_LUA_ROW);
    if (box->lent && !cop_lua_scope_is_open(box->home, box->serial)) {
        lua_pushliteral(L, "row (no longer valid)");
        return 1;
    }
    const struct cop_row *row = live_row(L, box);
    lua_pushfstring(L, "row of %d %s", (int)row->vocab,
                    box->face == COP_LUA_FACE_LOGIT ? "logits" : "probabilities");
    return 1;
}

/* ---- Residuals ------------------------------------------------------------------------------
 */

struct residual_box {
    struct cop_residual residual; /* of rows that a callback lends */
    const struct cop_lua_home *home;
    uint64_t serial;
};

/* row:minus(other): the positive part of the difference, as weights for draws:pick. */
static int row_minus(lua_State *L)
{
    cop_lua_at_most(L, 2, "row:minus");
    const struct row_box *box = luaL_checkudata(L, 1, COP_LUA_ROW);
    const struct cop_row *target = cop_lua_test_row(L, 1);
    const struct cop_row *draft = cop_lua_test_row(L, 2);
    if (!target || !draft || target->vocab != draft->vocab) {
        return cop_lua_raise(L,
                             "row:minus: needs two rows of a rule, of one vocabulary; got %s",
                             cop_lua_got(L, 2));
    }
    struct residual_box *out = lua_newuserdatauv(L, sizeof *out, 0);
    *out = (struct residual_box){
        .residual = {.target = target, .draft = draft, .target_scale = 1, .draft_scale = 1},
        .home = box->home,
        .serial = box->serial};
    luaL_setmetatable(L, COP_LUA_RESIDUAL);
    return 1;
}

const struct cop_residual *cop_lua_test_residual(lua_State *L, int index)
{
    const struct residual_box *box = luaL_testudata(L, index, COP_LUA_RESIDUAL);
    if (box && !cop_lua_scope_is_open(box->home, box->serial)) {
        cop_lua_raise(L, "these weights were valid only until the function that made them "
                         "returned");
    }
    return box ? &box->residual : NULL;
}

static int residual_sum(lua_State *L)
{
    luaL_checkudata(L, 1, COP_LUA_RESIDUAL);
    struct cop_weights weights = cop_residual_weights(cop_lua_test_residual(L, 1));
    lua_pushnumber(L, cop_weights_sum(&weights));
    return 1;
}

/* row[id], or a method: the upvalue holds those. */
static int row_index(lua_State *L)
{
    enum cop_lua_row_face face;
    const struct cop_row *row = check_row(L, &face);
    int is_integer = 0;
    lua_Integer id = lua_type(L, 2) == LUA_TNUMBER ? lua_tointegerx(L, 2, &is_integer) : -1;
    if (!is_integer) {
        lua_pushvalue(L, 2);
        lua_rawget(L, lua_upvalueindex(1));
    } else if (id < 0 || id >= row->vocab) {
        lua_pushnil(L);
    } else {
        lua_pushnumber(L, entry(row, face, (cop_token)id));
    }
    return 1;
}

/* ---- Rows as arguments ----------------------------------------------------------------------
 */

int32_t cop_lua_row_size(lua_State *L, int index, const char *what)
{
    const struct row_box *box = luaL_testudata(L, index, COP_LUA_ROW);
    if (box) {
        return live_row(L, box)->vocab;
    }
    if (lua_type(L, index) != LUA_TTABLE) {
        cop_lua_raise(L,
                      "%s must be a row: a list whose first entry is token 0, or a row "
                      "object; got %s",
                      what, cop_lua_got(L, index));
    }
    if (lua_rawgeti(L, index, 0) != LUA_TNIL) {
        cop_lua_raise(
            L, "%s has an entry 0; a list's first entry, which stands at 1, is token 0", what);
    }
    lua_pop(L, 1);
    lua_Unsigned count = lua_rawlen(L, index);
    if (count < 1 || count > INT32_MAX) {
        cop_lua_raise(L, "%s is an empty row", what);
    }
    return (int32_t)count;
}

void cop_lua_read_row(lua_State *L, int index, int32_t vocab, const char *what, double *out)
{
    luaL_checkstack(L, 4, NULL);
    index = lua_absindex(L, index);
    int32_t size = cop_lua_row_size(L, index, what);
    if (size != vocab) {
        cop_lua_raise(L, "%s has %d entries, expected %d", what, (int)size, (int)vocab);
    }
    const struct row_box *box = luaL_testudata(L, index, COP_LUA_ROW);
    for (int32_t i = 0; i < vocab; i++) {
        if (box) {
            out[i] = entry(live_row(L, box), box->face, i);
            continue;
        }
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        if (lua_type(L, -1) != LUA_TNUMBER) {
            cop_lua_raise(L, "%s: entry of token %d must be a number, got %s", what, (int)i,
                          cop_lua_got(L, -1));
        }
        out[i] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
}

void cop_lua_read_law(lua_State *L, int index, int32_t vocab, const char *what, double *out)
{
    cop_lua_read_row(L, index, vocab, what, out);
    double sum = 0;
    for (int32_t i = 0; i < vocab; i++) {
        if (!(out[i] >= 0) || out[i] > DBL_MAX) {
            cop_lua_raise(L, "%s: probability of token %d is %f", what, (int)i, out[i]);
        }
        sum += out[i];
    }
    if (!(fabs(sum - 1) <= 1e-6)) {
        cop_lua_raise(L, "%s: probabilities sum to %f, not to 1", what, sum);
    }
    for (int32_t i = 0; i < vocab && fabs(sum - 1) > COP_LUA_EXACT; i++) {
        out[i] /= sum;
    }
}

/* ---- Vectors --------------------------------------------------------------------------------
 */

struct vector_box {
    const float *values; /* of the userdata in user value 1 */
    int32_t count;
};

void cop_lua_push_vector(lua_State *L, int owner, const float *values, int32_t count)
{
    luaL_checkstack(L, 4, NULL);
    owner = lua_absindex(L, owner);
    struct vector_box *box = lua_newuserdatauv(L, sizeof *box, 1);
    *box = (struct vector_box){.values = values, .count = count};
    luaL_setmetatable(L, COP_LUA_VECTOR);
    lua_pushvalue(L, owner);
    lua_setiuservalue(L, -2, 1);
}

static int vector_index(lua_State *L)
{
    const struct vector_box *box = luaL_checkudata(L, 1, COP_LUA_VECTOR);
    int is_integer = 0;
    lua_Integer i = lua_type(L, 2) == LUA_TNUMBER ? lua_tointegerx(L, 2, &is_integer) : 0;
    if (is_integer && i >= 1 && i <= box->count) {
        lua_pushnumber(L, (double)box->values[i - 1]);
    } else {
        lua_pushnil(L);
    }
    return 1;
}

static int vector_length(lua_State *L)
{
    lua_pushinteger(L, ((struct vector_box *)luaL_checkudata(L, 1, COP_LUA_VECTOR))->count);
    return 1;
}

static int vector_text(lua_State *L)
{
    const struct vector_box *box = luaL_checkudata(L, 1, COP_LUA_VECTOR);
    lua_pushfstring(L, "vector of %d", (int)box->count);
    return 1;
}

void cop_lua_open_rows(lua_State *L)
{
    static const luaL_Reg row_methods[] = {
        {"top", row_top}, {"logsumexp", row_logsumexp}, {"minus", row_minus}, {NULL, NULL}};
    static const luaL_Reg residual_methods[] = {{"sum", residual_sum}, {NULL, NULL}};
    static const luaL_Reg row_meta[] = {
        {"__len", row_length}, {"__tostring", row_text}, {NULL, NULL}};
    static const luaL_Reg vector_meta[] = {{"__index", vector_index},
                                           {"__len", vector_length},
                                           {"__tostring", vector_text},
                                           {NULL, NULL}};
    cop_lua_class(L, COP_LUA_ROW, row_meta);
    cop_lua_class(L, COP_LUA_VECTOR, vector_meta);
    cop_lua_class(L, COP_LUA_RESIDUAL, residual_methods);
    luaL_getmetatable(L, COP_LUA_ROW);
    luaL_newlib(L, row_methods);
    lua_pushcclosure(L, row_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}
