/* cop.optimum: what no rule can pass for a way of drafting (core/cycle/law/optimum.h).
 *
 * certificate holds the minimising H, the proof of the number: a list of token ids where a
 * formula did one level, else for each depth a list of paths. attained says whether some rule
 * accepts that much (one level), or whether the value is only a bound. */
#include "lua/evidence/evidence.h"

#include "core/cycle/law/optimum.h"

#define OWNER "cop.optimum"

static void release_optimum(void *block)
{
    cop_optimum_release(block);
}

static void push_paths(lua_State *L, const struct cop_optimum_cut *cut, int32_t depth)
{
    lua_createtable(L, cut->n_paths, 0);
    for (int32_t i = 0; i < cut->n_paths; i++) {
        cop_lua_push_ids(L, cut->tokens + (ptrdiff_t)i * depth, (size_t)depth);
        lua_rawseti(L, -2, i + 1);
    }
}

static void push_certificate(lua_State *L, const struct cop_optimum *optimum)
{
    if (optimum->method == COP_OPTIMUM_SUBSET) {
        cop_lua_push_ids(L, optimum->cuts[0].tokens, (size_t)optimum->cuts[0].n_paths);
        return;
    }
    lua_createtable(L, optimum->depth, 0);
    for (int32_t d = 1; d <= optimum->depth; d++) {
        push_paths(L, &optimum->cuts[d - 1], d);
        lua_rawseti(L, -2, d);
    }
}

static void push_optimum(lua_State *L, const struct cop_optimum *optimum)
{
    luaL_checkstack(L, 8, NULL);
    lua_createtable(L, 0, 8);
    cop_lua_set_number(L, "value", optimum->value);
    cop_lua_set_string(L, "method", cop_optimum_method_name(optimum->method));
    push_certificate(L, optimum);
    lua_setfield(L, -2, "certificate");
    lua_createtable(L, optimum->depth, 0);
    for (int32_t d = 0; d < optimum->depth; d++) {
        lua_pushnumber(L, optimum->levels[d]);
        lua_rawseti(L, -2, d + 1);
    }
    lua_setfield(L, -2, "levels");
    lua_pushboolean(L, optimum->is_attained);
    lua_setfield(L, -2, "attained");
    cop_lua_set_string(L, "draw", cop_draw_name(optimum->draw));
    cop_lua_set_integer(L, "cases", optimum->branches);
}

int cop_evidence_optimum(lua_State *L)
{
    struct cop_law_case what;
    cop_evidence_read_case(L, OWNER, false, &what);
    struct cop_optimum *optimum = cop_lua_guard(L, sizeof *optimum, release_optimum);
    struct cop_lua_home *home = cop_lua_home(L);
    struct cop_lua_border border;
    struct cop_error err;
    cop_lua_enter(home, L, &border);
    enum cop_status status = cop_optimum_find(optimum, &what, &err);
    status = cop_lua_leave(home, &border, status, &err);
    if (status == COP_ERR_CALLBACK) {
        lua_pushstring(L, err.text); /* it names the script's line already */
        return lua_error(L);
    }
    if (status != COP_OK) {
        return cop_lua_error_of(L, OWNER, &err);
    }
    push_optimum(L, optimum);
    return 1;
}
