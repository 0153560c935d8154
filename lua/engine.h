/* Requests of a Lua engine: what a cycle told, kept until somebody asks, and how it is shown.
 */
#ifndef COP_LUA_ENGINE_H
#define COP_LUA_ENGINE_H

#include "lua/home.h"

#include "core/cycle/observer.h"

/* Cycles of one request, deep copies in order. Zeroed: none. */
struct cop_lua_cycles {
    struct cop_lua_cycle *first, *last;
    int32_t count;
};
enum cop_status cop_lua_cycles_add(struct cop_lua_cycles *cycles, const struct cop_cycle *cycle,
                                   struct cop_error *err);
void cop_lua_cycles_release(struct cop_lua_cycles *cycles);

/* Pushes { progress =, accepted =, origin =, nodes =, tokens =, parents =, D =, V =, H =, … };
 * times in seconds. */
void cop_lua_push_cycle(lua_State *L, const struct cop_cycle *cycle);
/* Pushes the list of all of them. */
void cop_lua_push_cycles(lua_State *L, const struct cop_lua_cycles *cycles);
/* Pushes { tokens =, text =, finish =, … }. */
void cop_lua_push_result(lua_State *L, const struct cop_result *result);

#endif
