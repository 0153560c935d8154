/* Reading penalties, biases and bans, and calling a script's processor.
 *
 *     processor = function(prefix, row) … row[5] = row[5] - 2 … end
 *
 * prefix: the ids of prompt and answer up to the node. row[id], row[id] = logit and #row work
 * until the function returns. The function may be called from within another callback (a rule
 * in Lua that asks for a row), where no stack index of the step is in reach: a weak table in
 * the registry leads from the C side's block to the keeper that holds the function. */
#include "lua/engine/processing.h"

#include <float.h>
#include <math.h>

static const char keepers_key = 'k'; /* registry: weak table, block -> keeper */

struct block {
    struct cop_lua_home *home;
    cop_token *banned; /* behind the biases */
    struct cop_bias bias[];
};

/* ---- Reading ----------------------------------------------------------------------------- */

static lua_Unsigned count_pairs(lua_State *L, int table)
{
    lua_Unsigned n = 0;
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        n++;
    }
    return n;
}

static cop_token read_id(lua_State *L, int index, const char *owner, const char *option)
{
    int is_integer = 0;
    lua_Integer id =
        lua_type(L, index) == LUA_TNUMBER ? lua_tointegerx(L, index, &is_integer) : 0;
    if (!is_integer || id < 0 || id > INT32_MAX) {
        cop_lua_raise(L, "%s: option \"%s\" must name token ids, got %s", owner, option,
                      cop_lua_got(L, index));
    }
    return (cop_token)id;
}

static void read_bias(lua_State *L, int table, const char *owner, struct cop_bias *out)
{
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1), out++) {
        out->id = read_id(L, lua_gettop(L) - 1, owner, "logit_bias");
        if (lua_type(L, -1) != LUA_TNUMBER) {
            cop_lua_raise(L,
                          "%s: option \"logit_bias\" must be a table id -> number; "
                          "[%d] is %s",
                          owner, (int)out->id, cop_lua_got(L, -1));
        }
        out->bias = lua_tonumber(L, -1);
    }
}

static void read_banned(lua_State *L, int table, lua_Unsigned n, const char *owner,
                        cop_token *out)
{
    for (lua_Unsigned i = 0; i < n; i++) {
        lua_rawgeti(L, table, (lua_Integer)i + 1);
        out[i] = read_id(L, lua_gettop(L), owner, "banned");
        lua_pop(L, 1);
    }
}

/* Remembers where the block at the top of the stack finds its keeper, which keeps it. */
static void keep_block(lua_State *L, int keeper)
{
    const void *block = lua_touserdata(L, -1);
    lua_setfield(L, keeper, "processing");
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &keepers_key) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_createtable(L, 0, 1);
        lua_pushliteral(L, "v");
        lua_setfield(L, -2, "__mode");
        lua_setmetatable(L, -2);
        lua_pushvalue(L, -1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &keepers_key);
    }
    lua_pushvalue(L, keeper);
    lua_rawsetp(L, -2, block);
    lua_pop(L, 1);
}

/* What the keeper's "logit_bias" and "banned" say, in a block that the keeper keeps. */
static struct block *read_block(lua_State *L, const struct cop_lua_processing *given,
                                int keeper, const char *owner, struct cop_processing *how)
{
    luaL_checkstack(L, 8, NULL);
    int top = lua_gettop(L);
    lua_getfield(L, keeper, "logit_bias"); /* top + 1, nil where it is not given */
    lua_getfield(L, keeper, "banned");
    lua_Unsigned n_bias = given->logit_bias ? count_pairs(L, top + 1) : 0;
    lua_Unsigned n_banned = given->banned ? lua_rawlen(L, top + 2) : 0;
    if (n_bias > INT32_MAX || n_banned > INT32_MAX ||
        (given->banned && count_pairs(L, top + 2) != n_banned)) {
        cop_lua_raise(L, "%s: option \"banned\" must be a list of token ids", owner);
    }
    struct block *block =
        lua_newuserdatauv(L,
                          sizeof *block + (size_t)n_bias * sizeof *block->bias +
                              (size_t)n_banned * sizeof *block->banned,
                          0);
    block->home = cop_lua_home(L);
    block->banned = (cop_token *)(void *)(block->bias + n_bias);
    if (n_bias > 0) {
        read_bias(L, top + 1, owner, block->bias);
    }
    if (n_banned > 0) {
        read_banned(L, top + 2, n_banned, owner, block->banned);
    }
    keep_block(L, keeper);
    lua_settop(L, top);
    how->bias = block->bias;
    how->n_bias = (int32_t)n_bias;
    how->banned = block->banned;
    how->n_banned = (int32_t)n_banned;
    return block;
}

static double penalty(double given)
{
    return isnan(given) ? 0 : given;
}

static enum cop_status call_processor(void *user, const cop_token *prefix, int32_t n_prefix,
                                      float *logits, int32_t vocab, struct cop_error *err);

struct cop_processing cop_lua_read_processing(lua_State *L,
                                              const struct cop_lua_processing *given,
                                              int keeper, const char *owner)
{
    struct cop_processing how = {.repetition_penalty = penalty(given->repetition_penalty),
                                 .presence_penalty = penalty(given->presence_penalty),
                                 .frequency_penalty = penalty(given->frequency_penalty)};
    if (given->repetition_penalty <= 0) {
        cop_lua_raise(L, "%s: option \"repetition_penalty\" must be above 0 (1: off), got %f",
                      owner, given->repetition_penalty);
    }
    if (given->logit_bias || given->banned || given->processor) {
        how.user = read_block(L, given, keeper, owner, &how);
        how.process = given->processor ? call_processor : NULL;
    }
    return how;
}

/* ---- The row that is lent ---------------------------------------------------------------- */

#define LOGITS "coppice.logits"

struct logits_box {
    float *logits;
    int32_t vocab;
    const struct cop_lua_home *home;
    uint64_t serial; /* of the callback's scope */
};

static struct logits_box *check_logits(lua_State *L)
{
    struct logits_box *box = luaL_checkudata(L, 1, LOGITS);
    if (!cop_lua_scope_is_open(box->home, box->serial)) {
        cop_lua_raise(L, "this row was valid only until the processor returned");
    }
    return box;
}

static int logits_index(lua_State *L)
{
    const struct logits_box *box = check_logits(L);
    int is_integer = 0;
    lua_Integer id = lua_type(L, 2) == LUA_TNUMBER ? lua_tointegerx(L, 2, &is_integer) : -1;
    if (is_integer && id >= 0 && id < box->vocab) {
        lua_pushnumber(L, (double)box->logits[id]);
    } else {
        lua_pushnil(L);
    }
    return 1;
}

static int logits_newindex(lua_State *L)
{
    struct logits_box *box = check_logits(L);
    lua_Integer id =
        cop_lua_check_integer(L, 2, 0, box->vocab - 1, "row[id] = logit: the token id");
    double value = lua_type(L, 3) == LUA_TNUMBER ? lua_tonumber(L, 3) : (double)NAN;
    if (!(value <= (double)FLT_MAX)) {
        return cop_lua_raise(L,
                             "row[%d] must be set to a number below infinity, or to "
                             "-math.huge for never; got %s",
                             (int)id, cop_lua_got(L, 3));
    }
    box->logits[id] = value >= -(double)FLT_MAX ? (float)value : -INFINITY;
    return 0;
}

static int logits_length(lua_State *L)
{
    lua_pushinteger(L, check_logits(L)->vocab);
    return 1;
}

static int logits_text(lua_State *L)
{
    const struct logits_box *box = luaL_checkudata(L, 1, LOGITS);
    lua_pushfstring(L, "row of %d logits", (int)box->vocab);
    return 1;
}

/* ---- Calling ----------------------------------------------------------------------------- */

struct processor_call {
    const struct block *block;
    const cop_token *prefix;
    int32_t n_prefix;
    float *logits;
    int32_t vocab;
};

static int processor_body(lua_State *L)
{
    const struct processor_call *call = lua_touserdata(L, 1);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &keepers_key) != LUA_TTABLE ||
        lua_rawgetp(L, -1, call->block) != LUA_TTABLE ||
        lua_getfield(L, -1, "processor") != LUA_TFUNCTION) {
        return luaL_error(L, "the processor is gone");
    }
    cop_lua_push_ids(L, call->prefix, (size_t)call->n_prefix);
    struct logits_box *box = lua_newuserdatauv(L, sizeof *box, 0);
    *box = (struct logits_box){.logits = call->logits,
                               .vocab = call->vocab,
                               .home = call->block->home,
                               .serial = call->block->home->scopes->serial};
    luaL_setmetatable(L, LOGITS);
    lua_call(L, 2, 0);
    return 0;
}

static enum cop_status call_processor(void *user, const cop_token *prefix, int32_t n_prefix,
                                      float *logits, int32_t vocab, struct cop_error *err)
{
    const struct block *block = user;
    struct processor_call call = {.block = block,
                                  .prefix = prefix,
                                  .n_prefix = n_prefix,
                                  .logits = logits,
                                  .vocab = vocab};
    return cop_lua_protected(block->home, processor_body, &call, 0, "processor", err);
}

/* ---- Opening ----------------------------------------------------------------------------- */

/* core.steps() → { { name =, help = }, … } in the documented order. */
static int steps(lua_State *L)
{
    lua_createtable(L, COP_STEP_COUNT, 0);
    for (int i = 0; i < COP_STEP_COUNT; i++) {
        lua_createtable(L, 0, 2);
        cop_lua_set_string(L, "name", cop_steps[i].name);
        cop_lua_set_string(L, "help", cop_steps[i].help);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

void cop_lua_open_processing(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__index", logits_index},
                                    {"__newindex", logits_newindex},
                                    {"__len", logits_length},
                                    {"__tostring", logits_text},
                                    {NULL, NULL}};
    cop_lua_class(L, LOGITS, meta);
    lua_pushcfunction(L, steps);
    lua_setfield(L, -2, "steps");
}
