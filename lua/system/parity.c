/* Parity of the kernels with their slow twins, as a list. */
#include "kernels/parity.h"
#include "lua/home.h"
#include "lua/system/system.h"

#include <stdio.h>
#include <stdlib.h>

struct parity_case {
    char op[32], shape[96];
    double worst, tolerance;
};

/* Reports arrive from C code that Lua must not jump over: they are collected first. */
struct parity_list {
    struct parity_case *cases;
    size_t count, capacity;
    bool is_short; /* no memory for all of them */
};

static void release_list(void *block)
{
    free(((struct parity_list *)block)->cases);
}

static void collect(void *user, const char *op, const char *shape, double worst,
                    double tolerance)
{
    struct parity_list *list = user;
    if (list->count == list->capacity) {
        size_t capacity = 2 * list->capacity + 64;
        struct parity_case *grown = realloc(list->cases, capacity * sizeof *grown);
        if (!grown) {
            list->is_short = true;
            return;
        }
        list->cases = grown;
        list->capacity = capacity;
    }
    struct parity_case *entry = &list->cases[list->count++];
    (void)snprintf(entry->op, sizeof entry->op, "%s", op);
    (void)snprintf(entry->shape, sizeof entry->shape, "%s", shape);
    entry->worst = worst;
    entry->tolerance = tolerance;
}

/* parity([level]) → failures, { { op =, shape =, worst =, tolerance = }, … } | nil, message,
 * code
 */
static int parity(lua_State *L)
{
    const char *level = luaL_optstring(L, 1, NULL);
    struct parity_list *list = cop_lua_guard(L, sizeof *list, release_list);
    int failures = cop_parity_run(level, collect, list);
    if (failures < 0 || list->is_short) {
        struct cop_error err = {0};
        (void)cop_fail(&err, COP_ERR_UNSUPPORTED,
                       "kernel parity at level \"%s\": no memory, or this machine lacks it",
                       level ? level : cop_cpu_best_level());
        return cop_lua_fail(L, &err);
    }
    lua_pushinteger(L, failures);
    lua_createtable(L, (int)list->count, 0);
    for (size_t i = 0; i < list->count; i++) {
        lua_createtable(L, 0, 4);
        cop_lua_set_string(L, "op", list->cases[i].op);
        cop_lua_set_string(L, "shape", list->cases[i].shape);
        cop_lua_set_number(L, "worst", list->cases[i].worst);
        cop_lua_set_number(L, "tolerance", list->cases[i].tolerance);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 2;
}

void cop_lua_open_parity(lua_State *L)
{
    lua_pushcfunction(L, parity);
    lua_setfield(L, -2, "parity");
}
