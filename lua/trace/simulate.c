/* core.trace.simulate { requests = { { prompt =, progress = { … }, drafter = { … } }, … },
 * samples =, seed =, batch =, length =, match =, skips_empty =, cost = { 8 numbers } } → {
 * plain_seconds = { … }, seconds = { … }, requests = { … }, cycles =, committed = }:
 * core/trace/simulate.h
 *
 * The requests are drawn from the list (cop_mersenne_sample); length -1: oracle; cost: kv,
 * token, fixed of the target, the same of the draft, lookup, overhead. The script has checked
 * everything. */
#include "core/trace/simulate.h"
#include "lua/home.h"
#include "lua/trace/trace.h"

#include <string.h>

static double number_at(lua_State *L, const char *key)
{
    lua_getfield(L, 1, key);
    double value = luaL_checknumber(L, -1);
    lua_pop(L, 1);
    return value;
}

static struct cop_simulation read_simulation(lua_State *L)
{
    double cost[8];
    lua_getfield(L, 1, "cost");
    for (int i = 0; i < 8; i++) {
        lua_rawgeti(L, -1, i + 1);
        cost[i] = luaL_checknumber(L, -1);
        lua_pop(L, 1);
    }
    lua_getfield(L, 1, "skips_empty");
    bool skips_empty = lua_toboolean(L, -1);
    lua_pop(L, 2);
    return (struct cop_simulation){.cost = {.target = {cost[0], cost[1], cost[2]},
                                            .draft = {cost[3], cost[4], cost[5]},
                                            .lookup = cost[6],
                                            .overhead = cost[7]},
                                   .batch = (int32_t)number_at(L, "batch"),
                                   .length = (int32_t)number_at(L, "length"),
                                   .match = number_at(L, "match"),
                                   .skips_empty = skips_empty};
}

/* A userdata, pushed, with the integers of the list at the top, which it replaces. */
static void *read_list(lua_State *L, size_t size, lua_Unsigned count)
{
    char *list = lua_newuserdatauv(L, (size_t)count * size + 1, 0);
    for (lua_Unsigned i = 0; i < count; i++) {
        lua_rawgeti(L, -2, (lua_Integer)i + 1);
        int32_t value = (int32_t)luaL_checkinteger(L, -1);
        if (size == 1) {
            list[i] = (char)value;
        } else {
            memcpy(list + i * size, &value, sizeof value);
        }
        lua_pop(L, 1);
    }
    lua_replace(L, -2);
    return list;
}

/* Request `number`, from 0, of the list on the top; its arrays are pushed. */
static struct cop_simulated_request push_request(lua_State *L, uint32_t number)
{
    int list = lua_gettop(L);
    lua_rawgeti(L, list, (lua_Integer)number + 1);
    lua_getfield(L, -1, "prompt");
    struct cop_simulated_request request = {.n_prompt = (int32_t)luaL_checkinteger(L, -1)};
    lua_getfield(L, list + 1, "progress");
    lua_Unsigned count = lua_rawlen(L, -1);
    request.n_output = (int32_t)count;
    request.progress = read_list(L, sizeof *request.progress, count);
    lua_getfield(L, list + 1, "drafter");
    request.drafter = read_list(L, 1, count);
    return request;
}

static void add_to(lua_State *L, const char *key, int table, uint32_t i, double value)
{
    lua_getfield(L, table, key);
    lua_pushnumber(L, value);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
    lua_pop(L, 1);
}

int cop_lua_simulate(lua_State *L)
{
    struct cop_error err = {0};
    struct cop_mersenne coins = {0};
    luaL_checktype(L, 1, LUA_TTABLE);
    struct cop_simulation simulation = read_simulation(L);
    uint32_t count = (uint32_t)number_at(L, "samples");
    cop_mersenne_seed(&coins, (uint32_t)number_at(L, "seed"));
    lua_settop(L, 1);
    lua_newtable(L);
    static const char *const columns[] = {"plain_seconds", "seconds", "requests"};
    for (int i = 0; i < 3; i++) {
        lua_createtable(L, (int)count, 0);
        lua_setfield(L, 2, columns[i]);
    }
    lua_getfield(L, 1, "requests");
    uint32_t n = (uint32_t)lua_rawlen(L, 3);
    uint32_t *drawn = lua_newuserdatauv(L, ((size_t)count + n) * sizeof *drawn + 1, 0);
    lua_insert(L, 3);
    cop_mersenne_sample(&coins, n, count, drawn, drawn + count);
    int64_t cycles = 0, committed = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct cop_simulated_request request = push_request(L, drawn[i]);
        struct cop_simulated out;
        if (cop_simulate(&simulation, &request, &coins, &out, &err) != COP_OK) {
            return cop_lua_error(L, &err);
        }
        lua_settop(L, 4);
        add_to(L, "plain_seconds", 2, i, out.plain_seconds);
        add_to(L, "seconds", 2, i, out.seconds);
        add_to(L, "requests", 2, i, drawn[i] + 1.0);
        cycles += out.cycles;
        committed += out.committed;
    }
    lua_settop(L, 2);
    cop_lua_set_integer(L, "cycles", cycles);
    cop_lua_set_integer(L, "committed", committed);
    return 1;
}
