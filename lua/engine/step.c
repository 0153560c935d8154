/* engine:step, and what the core calls meanwhile: streaming, observing, delivering.
 *
 * The functions of a request lie in user value 2 of the engine, which stands at FUNCTIONS in
 * the frame of the step and is handed to every body. */
#include "lua/engine/engine.h"

#include <stdlib.h>

/* ---- Callbacks of a request -----------------------------------------------------------------
 */

struct text_call {
    const struct cop_lua_request *request;
    const char *text;
    size_t length;
    const cop_token *tokens;
    const int32_t *depths;
    int32_t n_tokens;
    bool goes_on;
};

#define FUNCTIONS 2 /* index of user value 2 in the frames of engine_step and of the bodies */

static bool push_function(lua_State *L, const struct cop_lua_request *request, const char *name)
{
    return lua_rawgeti(L, FUNCTIONS, request->serial) == LUA_TTABLE &&
           lua_getfield(L, -1, name) == LUA_TFUNCTION;
}

/* Calls the function below n arguments; what it raises is kept as it is (the first one). */
static bool call_keeping_error(lua_State *L, int n)
{
    if (lua_pcall(L, n, 1, 0) == LUA_OK) {
        return true;
    }
    if (lua_getfield(L, FUNCTIONS, "error") == LUA_TNIL) {
        lua_createtable(L, 1, 0); /* boxed: the error may be nil */
        lua_pushvalue(L, -3);
        lua_rawseti(L, -2, 1);
        lua_setfield(L, FUNCTIONS, "error");
    }
    return false;
}

static int text_body(lua_State *L)
{
    struct text_call *call = lua_touserdata(L, 1);
    if (!push_function(L, call->request, "on_text")) {
        return 0;
    }
    lua_pushlstring(L, call->text, call->length);
    lua_createtable(L, 0, 2);
    cop_lua_push_ids(L, call->tokens, (size_t)call->n_tokens);
    lua_setfield(L, -2, "tokens");
    cop_lua_push_ids(L, call->depths, (size_t)call->n_tokens);
    lua_setfield(L, -2, "depths");
    call->goes_on =
        call_keeping_error(L, 2) && !(lua_isboolean(L, -1) && !lua_toboolean(L, -1));
    return 0;
}

bool cop_lua_request_text(void *user, uint32_t id, const char *text, size_t length,
                          const cop_token *tokens, const int32_t *depths, int32_t n_tokens)
{
    (void)id;
    const struct cop_lua_request *request = user;
    struct text_call call = {.request = request,
                             .text = text,
                             .length = length,
                             .tokens = tokens,
                             .depths = depths,
                             .n_tokens = n_tokens};
    struct cop_error err;
    if (cop_lua_protected(request->box->home, text_body, &call, FUNCTIONS, "on_text", &err) !=
            COP_OK &&
        request->box->home->failure) {
        *request->box->home->failure = err;
    }
    return call.goes_on;
}

struct cycle_call {
    const struct cop_lua_request *request;
    const struct cop_cycle *cycle;
    bool is_fine;
};

static int cycle_body(lua_State *L)
{
    struct cycle_call *call = lua_touserdata(L, 1);
    call->is_fine = true;
    if (push_function(L, call->request, "on_cycle")) {
        cop_lua_push_cycle(L, call->cycle);
        call->is_fine = call_keeping_error(L, 1);
    }
    return 0;
}

enum cop_status cop_lua_request_cycle(void *user, const struct cop_cycle *cycle,
                                      struct cop_error *err)
{
    struct cop_lua_request *request = user;
    enum cop_status status = COP_OK;
    if (request->wants_cycles) {
        status = cop_lua_cycles_add(&request->cycles, cycle, err);
    }
    if (status == COP_OK && request->observer) {
        status = request->observer->cycle(request->observer->user, cycle, err);
    }
    if (status == COP_OK && request->has_cycle) {
        struct cycle_call call = {.request = request, .cycle = cycle};
        status = cop_lua_protected(request->box->home, cycle_body, &call, FUNCTIONS, "on_cycle",
                                   err);
        if (status == COP_OK && !call.is_fine) {
            status = cop_fail(err, COP_ERR_CALLBACK, "a function that observes cycles failed");
        }
    }
    return status;
}

enum cop_status cop_lua_request_rows(void *user, const struct cop_cycle_rows *rows,
                                     struct cop_error *err)
{
    const struct cop_lua_request *request = user;
    return request->observer->rows(request->observer->rows_user, rows, err);
}

void cop_lua_request_done(void *user, struct cop_result *result)
{
    struct cop_lua_request *request = user;
    request->result = *result; /* moved: what is left behind is empty */
    *result = (struct cop_result){0};
    request->is_done = true;
}

/* ---- Stepping -------------------------------------------------------------------------------
 */

/* The oldest request that is done, unlinked; NULL: none. */
static struct cop_lua_request *take_done(struct cop_lua_engine *box)
{
    struct cop_lua_request **oldest = NULL;
    for (struct cop_lua_request **at = &box->requests; *at; at = &(*at)->next) {
        oldest = (*at)->is_done ? at : oldest;
    }
    if (!oldest) {
        return NULL;
    }
    struct cop_lua_request *request = *oldest;
    *oldest = request->next;
    return request;
}

static void release_taken(void *block)
{
    struct cop_lua_request **request = block;
    if (*request) {
        cop_lua_request_free(*request);
        *request = NULL;
    }
}

/* Pushes the list of finished results; the functions of their requests, in the table at
 * `functions`, are forgotten. */
static void push_results(lua_State *L, struct cop_lua_engine *box, int functions)
{
    lua_newtable(L);
    struct cop_lua_request **taken = cop_lua_guard(L, sizeof *taken, release_taken);
    for (lua_Integer n = 1; (*taken = take_done(box)); n++) {
        cop_lua_push_result(L, &(*taken)->result);
        if ((*taken)->wants_cycles) {
            cop_lua_push_cycles(L, &(*taken)->cycles);
            lua_setfield(L, -2, "cycles");
        }
        lua_rawseti(L, -3, n);
        lua_pushnil(L);
        lua_rawseti(L, functions, (*taken)->serial);
        release_taken(taken);
    }
    lua_pop(L, 1);
}

int cop_lua_engine_step(lua_State *L)
{
    struct cop_lua_engine *box = cop_lua_check_engine(L);
    cop_lua_at_most(L, 1, "engine:step");
    lua_getiuservalue(L, 1, 2); /* at FUNCTIONS */
    int32_t active = 0;
    struct cop_error err = {0};
    struct cop_lua_border border;
    box->is_running = true;
    cop_lua_enter(box->home, L, &border);
    enum cop_status status = cop_engine_step(box->engine, &active, &err);
    status = cop_lua_leave(box->home, &border, status, &err);
    box->is_running = false;
    if (lua_getfield(L, FUNCTIONS, "error") == LUA_TTABLE) {
        lua_pushnil(L);
        lua_setfield(L, FUNCTIONS, "error");
        lua_rawgeti(L, -1, 1);
        return lua_error(L);
    }
    if (status != COP_OK) {
        return cop_lua_error(L, &err);
    }
    lua_pushinteger(L, active);
    push_results(L, box, FUNCTIONS);
    return 2;
}
