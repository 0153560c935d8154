/* Rules, proposers, tree builders and length policies whose slots are a script's functions.
 *
 * The C table of a custom part is made at run time and owned by its object; the functions stay
 * in the object's keeper (user value 1), so that a function may refer to its own part without
 * keeping it alive for ever. C finds the object through a weak table: state of the part ->
 * object. Engines keep the objects of their parts alive. */
#ifndef COP_LUA_CUSTOM_H
#define COP_LUA_CUSTOM_H

#include "lua/home.h"

/* Begins the state of every custom part. */
struct cop_custom {
    struct cop_lua_home *home;
    const char *owner; /* `cop.accept.custom "mine"`, begins messages; in the owned block */
};

/* Pushes a closed part with a zeroed block of `size` bytes (the ops table first) as its owned
 * memory, followed by room for its name and owner. Raises for a name that is no name. */
struct cop_lua_part *cop_custom_begin(lua_State *L, enum cop_plug_kind kind, size_t size,
                                      const char *name);
/* Makes the part from the filled ops table; its state begins with struct cop_custom. */
void cop_custom_finish(lua_State *L, struct cop_lua_part *box);

/* Inside a callback: pushes the keeper's field; false, and nothing pushed, when there is none
 * or the object is gone. */
bool cop_custom_push(lua_State *L, const void *state, const char *field);

/* Runs a body with the part's owner in messages. */
enum cop_status cop_custom_call(const void *state, lua_CFunction body, void *argument,
                                struct cop_error *err);
/* For slots without a status: the failure is reported when the border is left. */
void cop_custom_call_aside(const void *state, lua_CFunction body, void *argument);

/* Pushes a callable that answers rows(i), with `logits` as a method: at(context, i, j) gives
 * the row or NULL and may raise; `logits` rows show logits. Lives as long as the callback. */
typedef const struct cop_row *(*cop_custom_rows)(lua_State *L, const void *context, int32_t i,
                                                 int32_t j);
void cop_custom_push_rows(lua_State *L, struct cop_lua_home *home, cop_custom_rows at,
                          const void *context);

struct cop_claim;
/* Fills claims[0 .. n] (the last one ends the list) from the list at `list`. Raises. */
void cop_custom_read_claims(lua_State *L, int list, struct cop_claim *claims, size_t n);

int cop_custom_rule(lua_State *L);
int cop_custom_proposer(lua_State *L);
int cop_custom_tree(lua_State *L);
int cop_custom_length(lua_State *L);

void cop_custom_open_draws(lua_State *L);
struct cop_draws;
/* Pushes the draws object of a rule; node keys come from the tree, those of shared noise from
 * the position of its root. */
void cop_custom_push_draws(lua_State *L, struct cop_lua_home *home,
                           const struct cop_draws *draws, const struct cop_tree *tree,
                           int64_t position, int32_t vocab);

#endif
