/* core.recorded(path): rows of a file (lua/recorded/recorded.h) for our scripts.
 *
 *     local rows = core.recorded(path)             nil, message, code
 *     rows.vocab, rows.context, rows.room          numbers
 *     rows.is_cut                                  only the best of a row were recorded
 *     rows.tokens, rows.parents, rows.positions    lists as in the file, absent ones nil
 *     rows.file:law(side, i, temperature)          a literal row, rest; or nothing
 *     rows.file:row(side, i, temperature)          the same as a row object
 *     rows.file:best(side, i)                      the token of highest probability
 *     rows.file:lists(side, i, token)              whether its probability was recorded
 *
 * side: "target", "draft". Entries count from 0, as in the file. */
#include "lua/home.h"
#include "lua/recorded/recorded.h"

#define OWNER    "cop.rows"
#define RECORDED "coppice.recorded"

/* A list as it stands in the file into the field of its name; absent ones are nil. */
static void push_integers(lua_State *L, const struct cop_recorded_list *list)
{
    if (!list->tensor) {
        return;
    }
    int64_t n = list->tensor->dims[0];
    lua_createtable(L, (int)n, 0);
    for (int64_t i = 0; i < n; i++) {
        lua_pushinteger(L, cop_recorded_integer(list, i));
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, list->name);
}

static int recorded_open(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    struct cop_recorded *r = lua_newuserdatauv(L, sizeof *r, 0);
    r->file = NULL;
    luaL_setmetatable(L, RECORDED);
    struct cop_error err = {0};
    if (cop_recorded_open(r, path, &err) != COP_OK) {
        return cop_lua_fail_of(L, OWNER, &err);
    }
    lua_newtable(L);
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, "file");
    cop_lua_set_integer(L, "vocab", r->vocab);
    cop_lua_set_integer(L, "context", r->context);
    cop_lua_set_integer(L, "room", r->room);
    lua_pushboolean(L, r->sides[0].ids.tensor || r->sides[1].ids.tensor);
    lua_setfield(L, -2, "is_cut");
    for (int i = 0; i < COP_RECORDED_LISTS; i++) {
        push_integers(L, &r->lists[i]);
    }
    return 1;
}

static const struct cop_recorded *check_recorded(lua_State *L, int *side, lua_Integer *entry)
{
    static const char *const names[] = {"target", "draft", NULL};
    const struct cop_recorded *r = luaL_checkudata(L, 1, RECORDED);
    *side = luaL_checkoption(L, 2, NULL, names);
    *entry = luaL_checkinteger(L, 3);
    luaL_argcheck(L, r->file && *entry >= 0 && *entry < r->n, 3, "no such row");
    return r;
}

/* Pushes a userdata that holds the law; NULL and nothing: no row was recorded. */
static const double *push_law(lua_State *L, double *rest)
{
    int side;
    lua_Integer entry;
    const struct cop_recorded *r = check_recorded(L, &side, &entry);
    double temperature = luaL_optnumber(L, 4, 1);
    luaL_argcheck(L, temperature > 0, 4, "must be above 0");
    struct cop_error err = {0};
    bool is_there = false;
    double *law = lua_newuserdatauv(L, (size_t)r->vocab * sizeof *law, 0);
    if (cop_recorded_law(r, side, entry, temperature, law, rest, &is_there, &err) != COP_OK) {
        cop_lua_raise(L, OWNER ": %s", err.text);
    }
    return is_there ? law : NULL;
}

static int64_t vocab_of(lua_State *L)
{
    const struct cop_recorded *r = lua_touserdata(L, 1);
    return r->vocab;
}

static int recorded_law(lua_State *L)
{
    double rest = 0;
    const double *law = push_law(L, &rest);
    if (!law) {
        return 0;
    }
    int64_t vocab = vocab_of(L);
    lua_createtable(L, (int)vocab, 0);
    for (int64_t i = 0; i < vocab; i++) {
        lua_pushnumber(L, law[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushnumber(L, rest);
    return 2;
}

static int recorded_row(lua_State *L)
{
    double rest = 0;
    const double *law = push_law(L, &rest);
    if (!law) {
        return 0;
    }
    cop_lua_push_law(L, -1, law, (int32_t)vocab_of(L));
    lua_pushnumber(L, rest);
    return 2;
}

static int recorded_best(lua_State *L)
{
    double rest = 0;
    const double *law = push_law(L, &rest);
    int64_t best = 0;
    for (int64_t i = 1; law && i < vocab_of(L); i++) {
        best = law[i] > law[best] ? i : best;
    }
    if (!law) {
        return 0;
    }
    lua_pushinteger(L, best);
    return 1;
}

/* Whether the probability of a token was recorded: true where all of a row was. */
static int recorded_lists(lua_State *L)
{
    int which;
    lua_Integer entry;
    const struct cop_recorded *r = check_recorded(L, &which, &entry);
    lua_pushboolean(L, cop_recorded_lists(r, which, entry, luaL_checkinteger(L, 4)));
    return 1;
}

static int recorded_gc(lua_State *L)
{
    cop_recorded_close(luaL_checkudata(L, 1, RECORDED));
    return 0;
}

void cop_lua_open_recorded(lua_State *L)
{
    static const luaL_Reg methods[] = {{"law", recorded_law},   {"row", recorded_row},
                                       {"best", recorded_best}, {"lists", recorded_lists},
                                       {"__gc", recorded_gc},   {NULL, NULL}};
    cop_lua_class(L, RECORDED, methods);
    lua_pushcfunction(L, recorded_open);
    lua_setfield(L, -2, "recorded");
}
