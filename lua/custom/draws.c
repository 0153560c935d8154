/* The draws object of a custom rule: draws:flip, draws:pick, draws:race. */
#include "lua/custom/custom.h"

#include "core/cycle/draws/draws.h"
#include <float.h>
#include <string.h>

#define DRAWS "coppice.draws"

struct draws_box {
    const struct cop_draws *draws;
    const struct cop_tree *tree;
    int64_t position; /* of the root */
    int32_t vocab;
    const struct cop_lua_home *home;
    uint64_t serial;
};

void cop_custom_push_draws(lua_State *L, struct cop_lua_home *home,
                           const struct cop_draws *draws, const struct cop_tree *tree,
                           int64_t position, int32_t vocab)
{
    luaL_checkstack(L, 4, NULL);
    struct draws_box *box = lua_newuserdatauv(L, sizeof *box, 0);
    *box = (struct draws_box){.draws = draws,
                              .tree = tree,
                              .position = position,
                              .vocab = vocab,
                              .home = home,
                              .serial = home->scopes->serial};
    luaL_setmetatable(L, DRAWS);
}

/* draws:method(purpose, node, …): the box and the two names of the question. */
static const struct draws_box *check_question(lua_State *L, uint32_t *purpose, uint32_t *key)
{
    const struct draws_box *box = luaL_checkudata(L, 1, DRAWS);
    if (!cop_lua_scope_is_open(box->home, box->serial)) {
        cop_lua_raise(L, "these draws were valid only until the function that received them "
                         "returned");
    }
    size_t length = 0;
    if (lua_type(L, 2) != LUA_TSTRING || strlen(lua_tolstring(L, 2, &length)) != length) {
        cop_lua_raise(L, "draws: the purpose must be a string, got %s", cop_lua_got(L, 2));
    }
    *purpose = cop_purpose(lua_tostring(L, 2));
    *key = box->tree->key[cop_lua_check_node(L, 3, box->tree)];
    return box;
}

static void check_answer(lua_State *L, const struct draws_box *box)
{
    if (box->draws->error && box->draws->error->code != COP_OK) {
        cop_lua_raise(L, "draws: %s", box->draws->error->text);
    }
}

static int draws_flip(lua_State *L)
{
    uint32_t purpose, key;
    const struct draws_box *box = check_question(L, &purpose, &key);
    if (lua_type(L, 4) != LUA_TNUMBER) {
        return cop_lua_raise(L, "draws:flip: the probability must be a number, got %s",
                             cop_lua_got(L, 4));
    }
    bool heads = cop_flip(box->draws, purpose, key, lua_tonumber(L, 4));
    check_answer(L, box);
    lua_pushboolean(L, heads);
    return 1;
}

struct table_weights {
    const double *values;
};

static void fill_table(const void *context, int32_t first, int32_t count, double *out)
{
    const struct table_weights *weights = context;
    memcpy(out, weights->values + first, (size_t)count * sizeof *out);
}

/* Weights from a table id -> weight; ids that are missing weigh nothing. Pushes scratch. */
static const double *read_weights(lua_State *L, int index, int32_t vocab)
{
    if (lua_type(L, index) != LUA_TTABLE) {
        cop_lua_raise(L,
                      "draws:pick: the weights must be a row, row:minus(other) or a "
                      "table id -> weight; got %s",
                      cop_lua_got(L, index));
    }
    double *values = lua_newuserdatauv(L, (size_t)vocab * sizeof *values, 0);
    memset(values, 0, (size_t)vocab * sizeof *values);
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        lua_Integer id = cop_lua_check_integer(L, -2, 0, vocab - 1, "draws:pick: a token id");
        double weight = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
        if (!(weight >= 0 && weight <= DBL_MAX)) {
            cop_lua_raise(L,
                          "draws:pick: the weight of token %I must be a number of at least "
                          "0, got %s",
                          (LUAI_UACINT)id, cop_lua_got(L, -1));
        }
        values[id] = weight;
    }
    return values;
}

static int draws_pick(lua_State *L)
{
    uint32_t purpose, key;
    const struct draws_box *box = check_question(L, &purpose, &key);
    const struct cop_row *row = cop_lua_test_row(L, 4);
    const struct cop_residual *residual = row ? NULL : cop_lua_test_residual(L, 4);
    struct table_weights table = {0};
    struct cop_weights weights;
    if (row) {
        weights = cop_row_weights(row);
    } else if (residual) {
        weights = cop_residual_weights(residual);
    } else {
        table.values = read_weights(L, 4, box->vocab);
        weights =
            (struct cop_weights){.vocab = box->vocab, .fill = fill_table, .context = &table};
    }
    cop_token id = cop_pick(box->draws, purpose, key, &weights);
    check_answer(L, box);
    lua_pushinteger(L, id);
    return 1;
}

static int draws_race(lua_State *L)
{
    uint32_t purpose, key;
    const struct draws_box *box = check_question(L, &purpose, &key);
    if (purpose == COP_PURPOSE_SHARED) { /* for the token after the node */
        int32_t depth = cop_tree_depth(box->tree, (int32_t)lua_tointeger(L, 3));
        key = cop_shared_key(box->position, depth + 1);
    }
    const struct cop_row *row = cop_lua_test_row(L, 4);
    struct cop_row literal = {.kind = COP_ROW_DENSE, .vocab = box->vocab};
    if (!row) {
        double *values = lua_newuserdatauv(L, (size_t)box->vocab * sizeof *values, 0);
        cop_lua_read_law(L, 4, box->vocab, "draws:race: the row", values);
        literal.dense = values;
        row = &literal;
    }
    int32_t k =
        (int32_t)cop_lua_check_integer(L, 5, 1, box->vocab, "draws:race: the number of ids");
    cop_token *ids = lua_newuserdatauv(L, (size_t)k * sizeof *ids, 0);
    int32_t n = cop_race(box->draws, purpose, key, row, k, ids);
    check_answer(L, box);
    cop_lua_push_ids(L, ids, (size_t)n);
    return 1;
}

void cop_custom_open_draws(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"flip", draws_flip}, {"pick", draws_pick}, {"race", draws_race}, {NULL, NULL}};
    cop_lua_class(L, DRAWS, methods);
}
