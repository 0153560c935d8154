/* What the files of the binding share: one checker per type, one open function per file.
 *
 * lua/ is the only folder that includes lua.h. luaopen_coppice (module.c) makes the table
 * `coppice`, hands it to each cop_lua_open_… with the table on top of the stack, and then runs
 * the embedded scripts of lua/scripts in order; each script is called with (cop, core), where
 * `core` is the private table of functions that only our scripts use. Nothing writes globals.
 *
 * Errors: world failures return nil, message, code (cop_lua_fail); broken contracts raise at
 * the script's line (cop_lua_raise). Userdata is created closed and filled afterwards; whoever
 * borrows keeps the lender alive through a user value. */
#ifndef COP_LUA_BIND_H
#define COP_LUA_BIND_H

#include "core/base/error.h"
#include "core/base/option.h"
#include "core/cycle/contract/plug.h"
#include "core/cycle/engine.h"
#include "core/cycle/rows/row.h"
#include "core/model/model.h"
#include "core/text/tokenizer.h"

#include <lauxlib.h>
#include <lua.h>
#include <stdatomic.h>

/* Pushes nil, text, code name; returns 3. */
int cop_lua_fail(lua_State *L, const struct cop_error *err);
/* Raises "script.lua:12: text" at the line of the nearest Lua function outside our own scripts.
 */
int cop_lua_raise(lua_State *L, const char *format, ...);
/* ARGUMENT, UNSOUND, LIMIT and UNSUPPORTED from an option raise; everything else returns nil,
 * message, code. */
int cop_lua_error(lua_State *L, const struct cop_error *err);

/* Reads the option table at `index` into a state with defaults: strict keys ("unknown option …;
 * did you mean …?"), positional ones, types and ranges. `owner` begins messages
 * ("cop.tree.chain"). Objects that an option borrows are kept alive in the table at `keeper`
 * (an absolute index of a Lua table that lives as long as the state; 0: the caller does it).
 * Raises. */
void cop_lua_options(lua_State *L, int index, const struct cop_option *options, void *state,
                     const char *owner, int keeper);
/* The same; messages about ranges name the paper that they come from. */
void cop_lua_options_from(lua_State *L, int index, const struct cop_option *options,
                          void *state, const char *owner, int keeper, const char *source);

/* `owner` begins the message of what they raise. */
struct cop_tokenizer *cop_lua_check_tokenizer(lua_State *L, int index, const char *owner);
struct cop_model *cop_lua_check_model(lua_State *L, int index, const char *owner);
struct cop_part *cop_lua_check_part(lua_State *L, int index, enum cop_plug_kind kind);
/* The ids of a Lua list; raises on what is not an integer in [0, vocab). Free ids->items. */
void cop_lua_check_ids(lua_State *L, int index, int32_t vocab, const char *owner,
                       struct cop_ids *ids);

/* Someone who sees every cycle of an engine's requests from C: the trace. An engine's submit
 * takes one as `observer`. */
struct cop_lua_observer {
    enum cop_status (*cycle)(void *user, const struct cop_cycle *cycle, struct cop_error *err);
    void *user;
    /* optional, with a user of its own: the rows of each cycle */
    enum cop_status (*rows)(void *user, const struct cop_cycle_rows *rows,
                            struct cop_error *err);
    void *rows_user;
};
#define COP_LUA_OBSERVER "coppice.observer" /* metatable name of such a userdata */

/* The registry of this module, filled by algorithms/register.c and cop.load. */
struct cop_registry *cop_lua_registry(lua_State *L);
/* Microseconds spent in a script's functions since the module was opened: H's Lua share. */
double *cop_lua_microseconds(lua_State *L);
/* Set by Ctrl-C (bind_system.c); engines look at it. */
extern atomic_bool cop_lua_interrupt;

/* One function per file; each gets the module table at -2 and `core` at -1 and leaves the stack
 * as it was. */
void cop_lua_open_tokenizer(lua_State *L);
void cop_lua_open_model(lua_State *L);
void cop_lua_open_rows(lua_State *L);
void cop_lua_open_position(lua_State *L); /* core.position_law */
void cop_lua_open_recorded(lua_State *L); /* core.recorded: rows of a file */
void cop_lua_open_parts(
    lua_State *L); /* cop.propose, tree, accept, length; custom ones; cop.load */
void cop_lua_open_engine(
    lua_State *L); /* core.engine; cop.generate is lua/scripts/generate.lua on top of it */
void cop_lua_open_law(
    lua_State *L); /* exact_law, build_tree, propose_once, verify_rows, philox, process_row */
void cop_lua_open_trace(lua_State *L); /* core.trace */
void cop_lua_open_train(lua_State *L); /* core.train */
void cop_lua_open_system(
    lua_State *L); /* core.system: clock, files, terminal, signals, hashes */

int luaopen_coppice(lua_State *L);

#endif
