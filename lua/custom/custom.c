/* What the custom parts share: their memory, finding the script's functions, lent rows. */
#include "lua/custom/custom.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char objects_key = 'o'; /* registry: weak table, state -> object */

/* ---- Making ---------------------------------------------------------------------------------
 */

struct cop_lua_part *cop_custom_begin(lua_State *L, enum cop_plug_kind kind, size_t size,
                                      const char *name)
{
    const char *kind_name = cop_plug_kind_name(kind);
    if (!name[0]) {
        cop_lua_raise(L, "cop.%s.custom: option \"name\" must not be empty", kind_name);
    }
    struct cop_lua_part *box = cop_lua_part_new(L, kind);
    size_t name_size = strlen(name) + 1;
    size_t owner_size = name_size + strlen(kind_name) + sizeof "cop..custom \"\"";
    char *block = calloc(1, size + name_size + owner_size);
    if (!block) {
        cop_lua_raise(L, "cop.%s.custom: no memory", kind_name);
        return NULL; /* never reached */
    }
    box->owned = (struct cop_plug *)(void *)block;
    memcpy(block + size, name, name_size);
    char *owner = block + size + name_size;
    (void)snprintf(owner, owner_size, "cop.%s.custom \"%s\"", kind_name, name);
    box->owned->abi = COP_PLUG_ABI;
    box->owned->kind = kind;
    box->owned->name = block + size;
    box->owned->help = owner; /* where cop_custom_finish finds it */
    box->owned->source = "a script";
    return box;
}

void cop_custom_finish(lua_State *L, struct cop_lua_part *box)
{
    int object = lua_gettop(L);
    struct cop_error err;
    box->part = cop_part_new(box->owned);
    if (!box->part) {
        cop_lua_raise(L, "%s: no memory", box->owned->help);
    }
    *(struct cop_custom *)box->part->state =
        (struct cop_custom){.home = cop_lua_home(L), .owner = box->owned->help};
    if (cop_part_prepare(box->part, &err) != COP_OK) {
        cop_lua_raise(L, "%s: %s", box->owned->help, err.text);
    }
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &objects_key) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_createtable(L, 0, 1);
        lua_pushliteral(L, "v");
        lua_setfield(L, -2, "__mode");
        lua_setmetatable(L, -2);
        lua_pushvalue(L, -1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &objects_key);
    }
    lua_pushvalue(L, object);
    lua_rawsetp(L, -2, box->part->state);
    lua_settop(L, object);
}

/* ---- Calling --------------------------------------------------------------------------------
 */

bool cop_custom_push(lua_State *L, const void *state, const char *field)
{
    int top = lua_gettop(L);
    luaL_checkstack(L, 8, NULL);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &objects_key) == LUA_TTABLE &&
        lua_rawgetp(L, -1, state) == LUA_TUSERDATA &&
        lua_getiuservalue(L, -1, 1) == LUA_TTABLE && lua_getfield(L, -1, field) != LUA_TNIL) {
        lua_replace(L, top + 1);
        lua_settop(L, top + 1);
        return true;
    }
    lua_settop(L, top);
    return false;
}

enum cop_status cop_custom_call(const void *state, lua_CFunction body, void *argument,
                                struct cop_error *err)
{
    const struct cop_custom *custom = state;
    return cop_lua_protected(custom->home, body, argument, 0, custom->owner, err);
}

void cop_custom_call_aside(const void *state, lua_CFunction body, void *argument)
{
    const struct cop_custom *custom = state;
    struct cop_error err;
    struct cop_error *failure = custom->home->failure;
    if (cop_custom_call(state, body, argument, &err) != COP_OK && failure &&
        failure->code == COP_OK) {
        *failure = err;
    }
}

/* ---- Lent rows ------------------------------------------------------------------------------
 */

#define ROWS_OF "coppice.rows_of"

struct rows_box {
    cop_custom_rows at;
    const void *context;
    struct cop_lua_home *home;
    uint64_t serial;
};

static int answer(lua_State *L, enum cop_lua_row_face face)
{
    const struct rows_box *box = luaL_checkudata(L, 1, ROWS_OF);
    if (!cop_lua_scope_is_open(box->home, box->serial)) {
        return cop_lua_raise(L, "these rows were valid only until the function that received "
                                "them returned");
    }
    int32_t i = (int32_t)cop_lua_check_integer(L, 2, 0, COP_TREE_LIMIT, "the node");
    int32_t j = 1;
    if (!lua_isnoneornil(L, 3)) {
        j = (int32_t)cop_lua_check_integer(L, 3, 1, COP_TREE_LIMIT, "the number of the child");
    }
    cop_lua_push_row(L, box->home, box->at(L, box->context, i, j), face);
    return 1;
}

static int rows_call(lua_State *L)
{
    return answer(L, COP_LUA_FACE_PROBABILITY);
}

static int rows_logits(lua_State *L)
{
    return answer(L, COP_LUA_FACE_LOGIT);
}

void cop_custom_push_rows(lua_State *L, struct cop_lua_home *home, cop_custom_rows at,
                          const void *context)
{
    luaL_checkstack(L, 4, NULL);
    struct rows_box *box = lua_newuserdatauv(L, sizeof *box, 0);
    *box = (struct rows_box){
        .at = at, .context = context, .home = home, .serial = home->scopes->serial};
    luaL_setmetatable(L, ROWS_OF);
}

/* ---- Opening --------------------------------------------------------------------------------
 */

void cop_lua_open_custom(lua_State *L)
{
    static const luaL_Reg rows_meta[] = {
        {"__call", rows_call}, {"logits", rows_logits}, {NULL, NULL}};
    static const struct {
        enum cop_plug_kind kind;
        lua_CFunction make;
    } makers[] = {{COP_PLUG_RULE, cop_custom_rule},
                  {COP_PLUG_PROPOSER, cop_custom_proposer},
                  {COP_PLUG_BUILDER, cop_custom_tree},
                  {COP_PLUG_LENGTH, cop_custom_length}};
    cop_lua_class(L, ROWS_OF, rows_meta);
    cop_custom_open_draws(L);
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        lua_getfield(L, -2, cop_plug_kind_name(makers[i].kind));
        lua_pushliteral(L, "custom");
        lua_pushcfunction(L, makers[i].make);
        lua_rawset(L, -3);
        lua_pop(L, 1);
    }
}
