/* The engine as a Lua object (bind_engine.c), its requests (submit.c), what happens during a
 * step (step.c) and how cycles and results are shown (results.c). */
#ifndef COP_LUA_ENGINE_H
#define COP_LUA_ENGINE_H

#include "lua/home.h"

#include "core/cycle/contract/observer.h"

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

/* ---- The object and its requests ------------------------------------------------------------
 */

struct cop_lua_request {
    struct cop_lua_request *next;
    struct cop_lua_engine *box;
    lua_Integer serial;
    uint32_t id;
    bool has_text, has_cycle, wants_cycles;
    const struct cop_lua_observer *observer; /* kept alive with the functions */
    atomic_bool cancel;
    struct cop_lua_cycles cycles;
    bool is_done;
    struct cop_result result;
};

struct cop_lua_engine {
    struct cop_engine *engine; /* NULL: closed */
    struct cop_lua_home *home;
    struct cop_lua_request *requests; /* newest first */
    lua_Integer n_submitted;
    bool is_running;
};

/* User value 1: the keeper of parts and models, and `owner`. User value 2: by serial number,
 * the functions of requests; and `error`, { what a function raised during a step }. */

/* The engine at 1, open and not in the middle of a step. Raises. */
struct cop_lua_engine *cop_lua_check_engine(lua_State *L);
/* The function that a script called, for messages: owner of the keeper at `keeper`. */
const char *cop_lua_engine_owner(lua_State *L, int keeper, const char *fallback);
void cop_lua_request_free(struct cop_lua_request *request);

int cop_lua_engine_submit(lua_State *L);
int cop_lua_engine_step(lua_State *L);

/* What the core calls during a step: slots of struct cop_request. */
bool cop_lua_request_text(void *user, uint32_t id, const char *text, size_t length,
                          const cop_token *tokens, const int32_t *depths, int32_t n_tokens);
enum cop_status cop_lua_request_cycle(void *user, const struct cop_cycle *cycle,
                                      struct cop_error *err);
enum cop_status cop_lua_request_rows(void *user, const struct cop_cycle_rows *rows,
                                     struct cop_error *err);
void cop_lua_request_done(void *user, struct cop_result *result);

#endif
