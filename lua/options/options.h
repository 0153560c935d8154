/* The steps of cop_lua_options, for option tables that are described in Lua (spec.c). */
#ifndef COP_LUA_OPTIONS_H
#define COP_LUA_OPTIONS_H

#include "lua/bind.h"

/* Refuses keys that no option has, and positions that no option takes. */
void cop_lua_option_keys(lua_State *L, int table, const struct cop_option *options,
                         const char *owner);
/* Pushes the value that the table has for an option, under its name or by position; nil: none.
 */
void cop_lua_option_push(lua_State *L, int table, const struct cop_option *options,
                         const struct cop_option *option, const char *owner);
/* values.c: checks the value at `index` and stores it in the state; what an object needs to
 * stay alive goes into the table at `keeper`, under the option's name (0: nowhere). */
void cop_lua_option_set(lua_State *L, int index, const struct cop_option *option, void *state,
                        const char *owner, int keeper, const char *source);
int cop_lua_option_missing(lua_State *L, const struct cop_option *option, const char *owner);
/* describe.c: ends the call of core.describe, if one is under way, with these options; `rows`:
 * the index of the table in Lua that they were read from, or 0. */
void cop_lua_option_describe(lua_State *L, const struct cop_option *options, int rows);
/* Sets `text` of the table at the top: what help says of an option, however long. */
void cop_lua_set_option_text(lua_State *L, const struct cop_option *option);
void cop_lua_open_describe(lua_State *L); /* core.describe */

void cop_lua_open_spec(lua_State *L); /* core.options */

#endif
