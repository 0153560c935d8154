/* The parts of core.system, one open function per file; each adds to the table at the top. */
#ifndef COP_LUA_SYSTEM_H
#define COP_LUA_SYSTEM_H

#include <lua.h>

void cop_lua_open_json(lua_State *L);    /* json.decode, json.encode, json.list, json.null */
void cop_lua_open_files(lua_State *L);   /* folders, hashes, writing whole files */
void cop_lua_open_measure(lua_State *L); /* what a forward pass and the machine cost */
void cop_lua_open_parity(lua_State *L);  /* the kernels against their slow twins */
void cop_lua_open_corpus(lua_State *L);  /* datastores and rankings */
void cop_lua_open_sandbox(lua_State *L); /* programs that nobody has read */
void cop_lua_open_claims(lua_State *L);  /* into core itself: models */

/* Pushes the private table `core` of a state in which the module has been opened. */
void cop_lua_push_core(lua_State *L);

#endif
