/* engine:submit: reading a request from a table and handing it to the core. */
#include "lua/engine/engine.h"

#include <stdlib.h>
#include <string.h>

struct submit_options {
    void *tokens, *seed, *stop, *on_text, *on_cycle, *observer;
    struct cop_int_list stop_tokens;
    int32_t max_tokens, min_tokens, logprobs, id;
    bool ignore_eos, cycles;
    struct cop_ids prompt;  /* read from `tokens` */
    const char **stop_list; /* its strings are Lua's */
    size_t *stop_lengths;
    int32_t n_stop;
};

#define A_VALUE(field, type_name, more, text)                                                  \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_OBJECT,                                             \
        .offset = offsetof(struct submit_options, field), .choices = type_name, .flags = more, \
        .help = text                                                                           \
    }

static const struct cop_option submit_options[] = {
    A_VALUE(tokens, "table", COP_OPTION_REQUIRED, "the prompt's ids"),
    A_VALUE(seed, "number", 0, "64 bits"),
    A_VALUE(stop, "any", 0, "a string or a list of strings"),
    A_VALUE(on_text, "function", 0, "function(text, info); false cancels"),
    A_VALUE(on_cycle, "function", 0, "function(cycle)"),
    A_VALUE(observer, "userdata", 0, "someone who sees cycles from C"),
    {.name = "stop_tokens",
     .type = COP_OPTION_INTS,
     .offset = offsetof(struct submit_options, stop_tokens),
     .max = INT32_MAX},
    {.name = "max_tokens",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct submit_options, max_tokens),
     .min = 1,
     .max = INT32_MAX,
     .fallback = 128},
    {.name = "min_tokens",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct submit_options, min_tokens),
     .max = INT32_MAX},
    {.name = "logprobs",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct submit_options, logprobs),
     .max = INT32_MAX,
     .flags = COP_OPTION_ABSENT},
    {.name = "id",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct submit_options, id),
     .max = INT32_MAX,
     .flags = COP_OPTION_ABSENT},
    {.name = "ignore_eos",
     .type = COP_OPTION_BOOL,
     .offset = offsetof(struct submit_options, ignore_eos)},
    {.name = "cycles",
     .type = COP_OPTION_BOOL,
     .offset = offsetof(struct submit_options, cycles)},
    {0}};

static void release_submit(void *block)
{
    struct submit_options *how = block;
    cop_ids_release(&how->prompt);
    free(how->stop_list);
    free(how->stop_lengths);
    how->stop_list = NULL;
    how->stop_lengths = NULL;
    cop_option_release(submit_options, how);
}

static void read_stop(lua_State *L, int index, const char *owner, struct submit_options *how)
{
    if (lua_type(L, index) != LUA_TSTRING) {
        cop_lua_raise(L, "%s: option \"stop\" must be a string or a list of strings, got %s",
                      owner, cop_lua_got(L, index));
    }
    how->stop_list[how->n_stop] = lua_tolstring(L, index, &how->stop_lengths[how->n_stop]);
    how->n_stop++;
}

/* The stop strings of the value at `index`, which keeps them alive. */
static void read_stops(lua_State *L, int index, const char *owner, struct submit_options *how)
{
    bool is_list = lua_type(L, index) == LUA_TTABLE;
    lua_Unsigned n = is_list ? lua_rawlen(L, index) : 1;
    how->stop_list = calloc((size_t)n + 1, sizeof *how->stop_list);
    how->stop_lengths = calloc((size_t)n + 1, sizeof *how->stop_lengths);
    if (!how->stop_list || !how->stop_lengths || n > INT32_MAX) {
        cop_lua_raise(L, "%s: option \"stop\": no memory", owner);
    }
    for (lua_Unsigned i = 0; is_list && i < n; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        read_stop(L, -1, owner, how);
        lua_pop(L, 1);
    }
    if (!is_list) {
        read_stop(L, index, owner, how);
    }
}

/* Reads the table at 2 into a guard that is pushed; functions and stops go to the table
 * `kept`. */
static struct submit_options *read_submit(lua_State *L, const struct cop_lua_engine *box,
                                          int kept, lua_Integer *seed)
{
    struct submit_options *how = cop_lua_guard(L, sizeof *how, release_submit);
    int guard = lua_gettop(L);
    cop_option_defaults(submit_options, how);
    cop_lua_options(L, 2, submit_options, how, "engine:submit", kept);
    *seed = 0;
    if (how->seed) {
        lua_getfield(L, kept, "seed");
        *seed = cop_lua_check_integer(L, -1, LUA_MININTEGER, LUA_MAXINTEGER, "option \"seed\"");
    }
    lua_getiuservalue(L, 1, 1);
    const char *owner = cop_lua_engine_owner(L, lua_gettop(L), "engine:submit");
    if (how->stop) {
        lua_getfield(L, kept, "stop");
        read_stops(L, lua_gettop(L), owner, how);
    }
    lua_getfield(L, kept, "tokens");
    cop_lua_check_ids(L, -1, cop_engine_facts(box->engine)->vocab_size, owner, &how->prompt);
    lua_settop(L, guard);
    return how;
}

static const struct cop_lua_observer *find_observer(lua_State *L, int kept,
                                                    const struct submit_options *how)
{
    if (!how->observer) {
        return NULL;
    }
    lua_getfield(L, kept, "observer");
    const struct cop_lua_observer *observer = luaL_testudata(L, -1, COP_LUA_OBSERVER);
    if (!observer) {
        cop_lua_raise(L, "option \"observer\" must be an observer, got %s", cop_lua_got(L, -1));
    }
    lua_pop(L, 1);
    return observer;
}

static enum cop_status submit(struct cop_lua_engine *box, struct cop_lua_request *request,
                              const struct submit_options *how, lua_Integer seed,
                              struct cop_error *err)
{
    const struct cop_request asked = {
        .prompt = how->prompt.items,
        .n_prompt = (int32_t)how->prompt.count,
        .seed = (uint64_t)seed,
        .id = request->id,
        .max_tokens = how->max_tokens,
        .min_tokens = how->min_tokens,
        .stop = how->stop_list,
        .stop_lengths = how->stop_lengths,
        .n_stop = how->n_stop,
        .stop_tokens = how->stop_tokens.items,
        .n_stop_tokens = how->stop_tokens.count,
        .ignore_eos = how->ignore_eos,
        .logprobs = how->logprobs >= 0 ? how->logprobs : -1,
        .on_text = request->has_text ? cop_lua_request_text : NULL,
        .on_cycle = request->has_cycle || request->wants_cycles || request->observer
                        ? cop_lua_request_cycle
                        : NULL,
        .on_rows = request->observer && request->observer->rows ? cop_lua_request_rows : NULL,
        .user = request,
        .cancel = &request->cancel};
    return cop_engine_submit(box->engine, &asked, cop_lua_request_done, err);
}

int cop_lua_engine_submit(lua_State *L)
{
    struct cop_lua_engine *box = cop_lua_check_engine(L);
    if (lua_gettop(L) != 2 || lua_type(L, 2) != LUA_TTABLE) {
        return cop_lua_raise(L, "engine:submit: expects one table of options");
    }
    lua_newtable(L); /* 3: what the request keeps */
    lua_Integer seed;
    const struct submit_options *how = read_submit(L, box, 3, &seed);
    const struct cop_lua_observer *observer = find_observer(L, 3, how);
    lua_getiuservalue(L, 1, 2);
    lua_pushvalue(L, 3);
    lua_rawseti(L, -2, ++box->n_submitted);
    struct cop_lua_request *request = calloc(1, sizeof *request);
    struct cop_error err;
    enum cop_status status =
        request ? COP_OK : cop_fail(&err, COP_ERR_MEMORY, "no memory for a request");
    if (request) {
        *request = (struct cop_lua_request){
            .box = box,
            .serial = box->n_submitted,
            .id = how->id >= 0 ? (uint32_t)how->id : (uint32_t)(box->n_submitted - 1),
            .has_text = how->on_text != NULL,
            .has_cycle = how->on_cycle != NULL,
            .wants_cycles = how->cycles,
            .observer = observer};
        status = submit(box, request, how, seed, &err);
    }
    if (status != COP_OK) {
        free(request);
        lua_pushnil(L);
        lua_rawseti(L, -2, box->n_submitted);
        lua_getiuservalue(L, 1, 1);
        return cop_lua_error_of(L, cop_lua_engine_owner(L, lua_gettop(L), "engine:submit"),
                                &err);
    }
    request->next = box->requests;
    box->requests = request;
    cop_lua_guard_close(L, 4);
    lua_pushinteger(L, request->id);
    return 1;
}
