/* Penalties, biases, bans and a script's processor as options in Lua. */
#ifndef COP_LUA_PROCESSING_H
#define COP_LUA_PROCESSING_H

#include "lua/home.h"

#include "core/cycle/rows/process.h"

struct cop_lua_processing {
    double repetition_penalty, presence_penalty, frequency_penalty; /* NaN: not given */
    void *logit_bias, *banned, *processor;                          /* NULL: not given */
};

/* Rows of an option table whose state has a struct cop_lua_processing at `offset`. */
#define COP_LUA_PENALTY(at, field, low, text)                                                  \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_NUMBER,                                             \
        .offset = (at) + offsetof(struct cop_lua_processing, field), .min = (low), .max = 1e6, \
        .flags = COP_OPTION_ABSENT, .help = text                                               \
    }
#define COP_LUA_PROCESS_OBJECT(at, field, type_name, text)                                     \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_OBJECT,                                             \
        .offset = (at) + offsetof(struct cop_lua_processing, field), .choices = type_name,     \
        .help = text                                                                           \
    }
#define COP_LUA_PROCESSING_OPTIONS(at)                                                         \
    COP_LUA_PENALTY(at, repetition_penalty, 0, "1: off"),                                      \
        COP_LUA_PENALTY(at, presence_penalty, -1e6, "0: off"),                                 \
        COP_LUA_PENALTY(at, frequency_penalty, -1e6, "0: off"),                                \
        COP_LUA_PROCESS_OBJECT(at, logit_bias, "table", "{ [id] = bias }"),                    \
        COP_LUA_PROCESS_OBJECT(at, banned, "table", "ids that are never chosen")

/* What the options mean. Their values lie in the table at `keeper` by name; the arrays and the
 * processor live as long as that table. Raises. */
struct cop_processing cop_lua_read_processing(lua_State *L,
                                              const struct cop_lua_processing *given,
                                              int keeper, const char *owner);

/* Metatable of a processor's row; core.steps. `core` at the top of the stack. */
void cop_lua_open_processing(lua_State *L);

#endif
