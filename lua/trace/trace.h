/* The trace object, shared by the files that give it methods. */
#ifndef COP_LUA_TRACE_H
#define COP_LUA_TRACE_H

#include "core/trace/predict.h"
#include "core/trace/trace.h"

#include <lua.h>

#define COP_LUA_TRACE "coppice.trace"

struct cop_lua_trace {
    struct cop_trace *trace; /* NULL: closed */
};
/* The open trace at index 1. Raises. */
struct cop_trace *cop_lua_check_trace(lua_State *L);

int cop_lua_trace_metrics(lua_State *L);
int cop_lua_trace_predict(lua_State *L);
int cop_lua_bootstrap(lua_State *L);
int cop_lua_sign_flip(lua_State *L);
int cop_lua_cost_at(lua_State *L);
int cop_lua_pace(lua_State *L);
int cop_lua_simulate(lua_State *L);

/* { nodes = {…}, contexts = {…}, seconds = {…} } at index; lives in a userdata that it pushes.
 */
const struct cop_cost_curve *cop_lua_read_curve(lua_State *L, int index);

#endif
