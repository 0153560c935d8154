/* Lines from a person: editing, history and completion through libedit, and calls that Ctrl-C
 * ends. Part of the program, not of the module: a stock Lua has a line editor of its own. */
#ifndef COP_LUA_EDIT_H
#define COP_LUA_EDIT_H

#include <lua.h>

/* Sets field "edit" of the table at the top: call; and where libedit is built in: open, line.
 */
void cop_lua_open_edit(lua_State *L);

#endif
