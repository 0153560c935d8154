/* Cost curves and speeds by depth, for cop.tune: core/trace/predict.h and core/trace/pace.h. */
#include "core/trace/pace.h"
#include "core/trace/predict.h"
#include "lua/home.h"
#include "lua/trace/trace.h"

/* core.trace.cost_at({ nodes =, contexts =, seconds = }, nodes, context) → seconds */
int cop_lua_cost_at(lua_State *L)
{
    const struct cop_cost_curve *curve = cop_lua_read_curve(L, 1);
    lua_pushnumber(L, cop_cost_at(curve, luaL_checknumber(L, 2), luaL_checknumber(L, 3)));
    return 1;
}

/* The list at `key`, in a userdata that stays on the stack; absent: empty. */
static const double *read_list(lua_State *L, const char *key, int32_t *count)
{
    *count = 0;
    if (lua_getfield(L, 1, key) != LUA_TTABLE) {
        return NULL;
    }
    lua_Unsigned n = lua_rawlen(L, -1);
    luaL_argcheck(L, n <= 1 << 20, 1, "a list of at most a million numbers");
    double *list = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *list, 0);
    for (lua_Unsigned i = 0; i < n; i++) {
        lua_rawgeti(L, -2, (lua_Integer)i + 1);
        list[i] = luaL_checknumber(L, -1);
        lua_pop(L, 1);
    }
    *count = (int32_t)n;
    return list;
}

static double read_number(lua_State *L, const char *key)
{
    lua_getfield(L, 1, key);
    double value = luaL_optnumber(L, -1, 0);
    lua_pop(L, 1);
    return value;
}

/* core.trace.pace({ acceptance =, score =, widths =, draft =, host = }, most)
 *    → best depth, { [0] = tokens, … }, { [0] = seconds, … } */
int cop_lua_pace(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_Integer most = luaL_checkinteger(L, 2);
    luaL_argcheck(L, most >= 0 && most <= 4096, 2, "0 to 4096 levels");
    struct cop_pace pace = {.draft = read_number(L, "draft"), .host = read_number(L, "host")};
    pace.acceptance = read_list(L, "acceptance", &pace.n_acceptance);
    pace.score = read_list(L, "score", &pace.n_score);
    pace.widths = read_list(L, "widths", &pace.n_widths);
    luaL_argcheck(L, pace.n_score >= 1, 1, "score must have at least one number");
    lua_pushinteger(L, cop_pace_best(&pace, 0, (int32_t)most));
    lua_createtable(L, (int)most, 1);
    lua_createtable(L, (int)most, 1);
    for (int32_t depth = 0; depth <= most; depth++) {
        lua_pushnumber(L, cop_pace_tokens(&pace, depth));
        lua_rawseti(L, -3, depth);
        lua_pushnumber(L, cop_pace_seconds(&pace, depth));
        lua_rawseti(L, -2, depth);
    }
    return 3;
}
