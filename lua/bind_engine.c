/* core.engine: the engine as our scripts use it; cop.generate and experiments stand on it.
 *
 *     core.engine { target =, proposer =, tree =, length =, rule =, draw =, relaxed =,
 *                   temperature =, top_k =, top_p =, min_p =, batch = }
 *                                    → engine | nil, message, code
 *     core.engine_check { same }     → facts: { draw =, shape =, lossless =, rule =, tree =,
 *                                      proposer =, length =, depth =, nodes = }
 *     engine.facts                   the same
 *     engine:submit { tokens =, seed =, id =, max_tokens =, min_tokens =, stop =,
 *                     stop_tokens =, ignore_eos =, logprobs =, on_text =, on_cycle =,
 *                     cycles = true, observer = }     → the request's id
 *     engine:step()                  → active, { result, … } of those that finished
 *     engine:cancel(id)   engine:usage()   engine:close()
 *
 * on_text(text, { tokens =, depths = }) may return false to cancel. What a script's function
 * raises is kept, ends its request, and is raised again by step once the cycle is over; the
 * engine stays usable. A rule, proposer or tree builder that fails gives a result with finish =
 * "error", error = the message, code = "callback".
 *
 * User value 1: the keeper of parts and models; user value 2: functions of requests by serial
 * number, and `error`, what a function raised during a step. */
#include "lua/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct request {
    struct request *next;
    struct engine_box *box;
    lua_Integer serial;
    uint32_t id;
    bool has_text, has_cycle, wants_cycles;
    const struct cop_lua_observer *observer; /* kept alive with the functions */
    atomic_bool cancel;
    struct cop_lua_cycles cycles;
    bool is_done;
    struct cop_result result;
};

struct engine_box {
    struct cop_engine *engine; /* NULL: closed */
    struct cop_lua_home *home;
    struct request *requests; /* newest first */
    lua_Integer n_submitted;
    bool is_running;
};

/* ---- Options -------------------------------------------------------------------------------- */

struct engine_options {
    void *target, *proposer, *tree, *rule, *length;
    int32_t draw, top_k, batch;
    bool relaxed;
    double temperature, top_p, min_p;
};

#define AN_OBJECT(field, type_name, more, text)                                                \
    {.name = #field,                                                                           \
     .type = COP_OPTION_OBJECT,                                                                \
     .offset = offsetof(struct engine_options, field),                                         \
     .choices = type_name,                                                                     \
     .flags = more,                                                                            \
     .help = text}

static const struct cop_option engine_options[] = {
    AN_OBJECT(target, "model", COP_OPTION_REQUIRED, "whose distribution counts"),
    AN_OBJECT(proposer, "propose", 0, "absent: plain decoding"),
    AN_OBJECT(tree, "tree", 0, "absent: the proposer's own chain"),
    AN_OBJECT(rule, "accept", 0, "absent: match at temperature 0, sample_match above"),
    AN_OBJECT(length, "length", 0, "absent: everything"),
    {.name = "draw",
     .type = COP_OPTION_CHOICE,
     .offset = offsetof(struct engine_options, draw),
     .choices = "independent|without_replacement|deterministic|greedy_draw|hub_pair|beam|"
                "selected",
     .flags = COP_OPTION_ABSENT,
     .help = "absent: the one that rule, builder and proposer fit"},
    {.name = "relaxed",
     .type = COP_OPTION_BOOL,
     .offset = offsetof(struct engine_options, relaxed),
     .help = "allows a pair that is not lossless"},
    {.name = "temperature",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct engine_options, temperature),
     .max = HUGE_VAL,
     .help = "0: the best token"},
    {.name = "top_k",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct engine_options, top_k),
     .max = INT32_MAX,
     .help = "0: off"},
    {.name = "top_p",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct engine_options, top_p),
     .max = 1,
     .fallback = 1,
     .help = "1: off"},
    {.name = "min_p",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct engine_options, min_p),
     .max = 1,
     .help = "0: off"},
    {.name = "batch",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct engine_options, batch),
     .min = 1,
     .max = 256,
     .fallback = 1,
     .help = "sequences served together"},
    {0}};

/* Reads the table at 1; the keeper table is at `keeper`. */
static struct cop_engine_options read_engine(lua_State *L, const char *owner, int keeper)
{
    struct engine_options how = {0};
    cop_option_defaults(engine_options, &how);
    cop_lua_options(L, 1, engine_options, &how, owner, keeper);
    return (struct cop_engine_options){
        .target = how.target,
        .proposer = how.proposer,
        .builder = how.tree,
        .rule = how.rule,
        .length = how.length,
        .draw = how.draw >= 0 ? (enum cop_draw)(how.draw + COP_DRAW_INDEPENDENT)
                              : COP_DRAW_AUTO,
        .relaxed = how.relaxed,
        .sampling = {.temperature = how.temperature,
                     .top_k = how.top_k,
                     .top_p = how.top_p,
                     .min_p = how.min_p},
        .batch = how.batch,
        .registry = cop_lua_registry(L),
        .cancel = &cop_lua_interrupt,
        .foreign_us = cop_lua_microseconds(L)};
}

static void push_facts(lua_State *L, const struct cop_engine_facts *facts)
{
    lua_createtable(L, 0, 10);
    cop_lua_set_string(L, "draw", cop_draw_name(facts->draw));
    cop_lua_set_string(L, "shape", cop_shape_name(facts->shape));
    cop_lua_set_boolean(L, "lossless", facts->is_lossless);
    cop_lua_set_string(L, "rule", facts->rule);
    cop_lua_set_string(L, "tree", facts->builder);
    cop_lua_set_string(L, "proposer", facts->proposer);
    cop_lua_set_string(L, "length", facts->length);
    cop_lua_set_integer(L, "depth", facts->depth);
    cop_lua_set_integer(L, "nodes", facts->nodes);
}

static int engine_check(lua_State *L)
{
    cop_lua_one_table(L, "core.engine_check");
    lua_newtable(L);
    struct cop_engine_options options = read_engine(L, "core.engine_check", 2);
    struct cop_engine_facts facts;
    struct cop_error err;
    struct cop_lua_border border;
    cop_lua_enter(cop_lua_home(L), L, &border);
    enum cop_status status = cop_engine_check(&options, &facts, &err);
    status = cop_lua_leave(cop_lua_home(L), &border, status, &err);
    if (status != COP_OK) {
        return cop_lua_error(L, &err);
    }
    push_facts(L, &facts);
    return 1;
}

static enum cop_status open_engine(lua_State *L, struct engine_box *box,
                                   const struct cop_engine_options *options,
                                   struct cop_error *err)
{
    struct cop_lua_border border;
    cop_lua_enter(box->home, L, &border);
    enum cop_status status = cop_engine_new(&box->engine, options, err);
    return cop_lua_leave(box->home, &border, status, err);
}

static int engine_new(lua_State *L)
{
    cop_lua_one_table(L, "core.engine");
    lua_newtable(L);
    struct cop_engine_options options = read_engine(L, "core.engine", 2);
    struct engine_box *box = lua_newuserdatauv(L, sizeof *box, 2);
    *box = (struct engine_box){.home = cop_lua_home(L)};
    luaL_setmetatable(L, COP_LUA_ENGINE);
    lua_pushvalue(L, 2);
    lua_setiuservalue(L, -2, 1);
    lua_newtable(L);
    lua_setiuservalue(L, -2, 2);
    struct cop_error err;
    enum cop_status status = open_engine(L, box, &options, &err);
    if (cop_lua_collect(L, status)) {
        status = open_engine(L, box, &options, &err);
    }
    return status == COP_OK ? 1 : cop_lua_error(L, &err);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static struct engine_box *check_engine(lua_State *L)
{
    struct engine_box *box = luaL_checkudata(L, 1, COP_LUA_ENGINE);
    if (!box->engine) {
        cop_lua_raise(L, "this engine is closed");
    }
    if (box->is_running) {
        cop_lua_raise(L, "this engine is in the middle of a cycle");
    }
    return box;
}

static void free_request(struct request *request)
{
    cop_lua_cycles_release(&request->cycles);
    cop_result_release(&request->result);
    free(request);
}

static void close_engine(lua_State *L, struct engine_box *box)
{
    struct cop_engine *engine = box->engine;
    struct cop_lua_border border;
    struct cop_error err;
    box->engine = NULL;
    cop_lua_enter(box->home, L, &border);
    cop_engine_free(engine);
    (void)cop_lua_leave(box->home, &border, COP_OK, &err); /* nobody left to tell */
    while (box->requests) {
        struct request *request = box->requests;
        box->requests = request->next;
        free_request(request);
    }
}

static int engine_gc(lua_State *L)
{
    struct engine_box *box = luaL_checkudata(L, 1, COP_LUA_ENGINE);
    if (box->engine) {
        close_engine(L, box);
    }
    return 0;
}

static int engine_close(lua_State *L)
{
    struct engine_box *box = luaL_checkudata(L, 1, COP_LUA_ENGINE);
    if (box->is_running) {
        return cop_lua_raise(L, "engine:close: this engine is in the middle of a cycle");
    }
    return engine_gc(L);
}

static int engine_text(lua_State *L)
{
    const struct engine_box *box = luaL_checkudata(L, 1, COP_LUA_ENGINE);
    if (!box->engine) {
        lua_pushliteral(L, "engine (closed)");
        return 1;
    }
    const struct cop_engine_facts *facts = cop_engine_facts(box->engine);
    lua_pushfstring(L, "engine (%s, accept.%s, draw %s)",
                    facts->proposer ? facts->proposer : "plain", facts->rule,
                    cop_draw_name(facts->draw));
    return 1;
}

/* ---- Callbacks of a request ----------------------------------------------------------------- */

struct text_call {
    const struct request *request;
    const char *text;
    size_t length;
    const cop_token *tokens;
    const int32_t *depths;
    int32_t n_tokens;
    bool goes_on;
};

#define FUNCTIONS 2 /* index of user value 2 in the frames of engine_step and of the bodies */

static bool push_function(lua_State *L, const struct request *request, const char *name)
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
    call->goes_on = call_keeping_error(L, 2) &&
                    !(lua_isboolean(L, -1) && !lua_toboolean(L, -1));
    return 0;
}

static bool on_text(void *user, uint32_t id, const char *text, size_t length,
                    const cop_token *tokens, const int32_t *depths, int32_t n_tokens)
{
    (void)id;
    const struct request *request = user;
    struct text_call call = {.request = request,
                             .text = text,
                             .length = length,
                             .tokens = tokens,
                             .depths = depths,
                             .n_tokens = n_tokens};
    struct cop_error err;
    if (cop_lua_protected(request->box->home, text_body, &call, FUNCTIONS, "on_text",
                          &err) != COP_OK &&
        request->box->home->failure) {
        *request->box->home->failure = err;
    }
    return call.goes_on;
}

struct cycle_call {
    const struct request *request;
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

static enum cop_status on_cycle(void *user, const struct cop_cycle *cycle,
                                struct cop_error *err)
{
    struct request *request = user;
    enum cop_status status = COP_OK;
    if (request->wants_cycles) {
        status = cop_lua_cycles_add(&request->cycles, cycle, err);
    }
    if (status == COP_OK && request->observer) {
        status = request->observer->cycle(request->observer->user, cycle, err);
    }
    if (status == COP_OK && request->has_cycle) {
        struct cycle_call call = {.request = request, .cycle = cycle};
        status = cop_lua_protected(request->box->home, cycle_body, &call, FUNCTIONS,
                                   "on_cycle", err);
        if (status == COP_OK && !call.is_fine) {
            status = cop_fail(err, COP_ERR_CALLBACK, "a function that observes cycles failed");
        }
    }
    return status;
}

static void done(void *user, struct cop_result *result)
{
    struct request *request = user;
    request->result = *result; /* moved: what is left behind is empty */
    *result = (struct cop_result){0};
    request->is_done = true;
}

/* ---- Submitting ----------------------------------------------------------------------------- */

struct submit_options {
    void *tokens, *seed, *stop, *on_text, *on_cycle, *observer;
    struct cop_int_list stop_tokens;
    int32_t max_tokens, min_tokens, logprobs, id;
    bool ignore_eos, cycles;
    struct cop_ids prompt;  /* read from `tokens` */
    const char **stop_list; /* its strings are Lua's */
    int32_t n_stop;
};

#define A_VALUE(field, type_name, more, text)                                                  \
    {.name = #field,                                                                           \
     .type = COP_OPTION_OBJECT,                                                                \
     .offset = offsetof(struct submit_options, field),                                         \
     .choices = type_name,                                                                     \
     .flags = more,                                                                            \
     .help = text}

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
    how->stop_list = NULL;
    cop_option_release(submit_options, how);
}

static const char *check_stop(lua_State *L, int index)
{
    size_t length = 0;
    if (lua_type(L, index) != LUA_TSTRING) {
        cop_lua_raise(L, "option \"stop\" must be a string or a list of strings, got %s",
                      cop_lua_got(L, index));
    }
    const char *text = lua_tolstring(L, index, &length);
    if (strlen(text) != length) {
        cop_lua_raise(L, "option \"stop\" must not contain a zero byte");
    }
    return text;
}

/* The stop strings of the value at `index`, which keeps them alive. */
static void read_stops(lua_State *L, int index, struct submit_options *how)
{
    bool is_list = lua_type(L, index) == LUA_TTABLE;
    lua_Unsigned n = is_list ? lua_rawlen(L, index) : 1;
    how->stop_list = calloc((size_t)n + 1, sizeof *how->stop_list);
    if (!how->stop_list || n > INT32_MAX) {
        cop_lua_raise(L, "option \"stop\": no memory");
    }
    for (lua_Unsigned i = 0; i < n; i++) {
        if (is_list) {
            lua_rawgeti(L, index, (lua_Integer)i + 1);
            how->stop_list[i] = check_stop(L, -1);
            lua_pop(L, 1);
        } else {
            how->stop_list[i] = check_stop(L, index);
        }
    }
    how->n_stop = (int32_t)n;
}

/* Reads the table at 2 into a guard that is pushed; functions and stops go to the table
 * `kept`. */
static struct submit_options *read_submit(lua_State *L, int kept, lua_Integer *seed)
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
    if (how->stop) {
        lua_getfield(L, kept, "stop");
        read_stops(L, lua_gettop(L), how);
    }
    lua_getfield(L, kept, "tokens");
    cop_lua_check_ids(L, -1, INT32_MAX, &how->prompt); /* the engine knows the vocabulary */
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
        cop_lua_raise(L, "option \"observer\" must be an observer, got %s",
                      cop_lua_got(L, -1));
    }
    lua_pop(L, 1);
    return observer;
}

static enum cop_status submit(struct engine_box *box, struct request *request,
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
        .n_stop = how->n_stop,
        .stop_tokens = how->stop_tokens.items,
        .n_stop_tokens = how->stop_tokens.count,
        .ignore_eos = how->ignore_eos,
        .logprobs = how->logprobs >= 0 ? how->logprobs : -1,
        .on_text = request->has_text ? on_text : NULL,
        .on_cycle = request->has_cycle || request->wants_cycles || request->observer ? on_cycle
                                                                                     : NULL,
        .user = request,
        .cancel = &request->cancel};
    return cop_engine_submit(box->engine, &asked, done, err);
}

static int engine_submit(lua_State *L)
{
    struct engine_box *box = check_engine(L);
    if (lua_gettop(L) != 2 || lua_type(L, 2) != LUA_TTABLE) {
        return cop_lua_raise(L, "engine:submit: expects one table of options");
    }
    lua_newtable(L); /* 3: what the request keeps */
    lua_Integer seed;
    const struct submit_options *how = read_submit(L, 3, &seed);
    const struct cop_lua_observer *observer = find_observer(L, 3, how);
    lua_getiuservalue(L, 1, 2);
    lua_pushvalue(L, 3);
    lua_rawseti(L, -2, ++box->n_submitted);
    struct request *request = calloc(1, sizeof *request);
    struct cop_error err;
    enum cop_status status =
        request ? COP_OK : cop_fail(&err, COP_ERR_MEMORY, "no memory for a request");
    if (request) {
        *request = (struct request){.box = box,
                                    .serial = box->n_submitted,
                                    .id = how->id >= 0 ? (uint32_t)how->id
                                                       : (uint32_t)(box->n_submitted - 1),
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
        return cop_lua_error(L, &err);
    }
    request->next = box->requests;
    box->requests = request;
    cop_lua_guard_close(L, 4);
    lua_pushinteger(L, request->id);
    return 1;
}

/* ---- Stepping ------------------------------------------------------------------------------- */

/* The oldest request that is done, unlinked; NULL: none. */
static struct request *take_done(struct engine_box *box)
{
    struct request **oldest = NULL;
    for (struct request **at = &box->requests; *at; at = &(*at)->next) {
        oldest = (*at)->is_done ? at : oldest;
    }
    if (!oldest) {
        return NULL;
    }
    struct request *request = *oldest;
    *oldest = request->next;
    return request;
}

static void release_taken(void *block)
{
    struct request **request = block;
    if (*request) {
        free_request(*request);
        *request = NULL;
    }
}

/* Pushes the list of finished results; the functions of their requests, in the table at
 * `functions`, are forgotten. */
static void push_results(lua_State *L, struct engine_box *box, int functions)
{
    lua_newtable(L);
    struct request **taken = cop_lua_guard(L, sizeof *taken, release_taken);
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

static int engine_step(lua_State *L)
{
    struct engine_box *box = check_engine(L);
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

static int engine_cancel(lua_State *L)
{
    struct engine_box *box = luaL_checkudata(L, 1, COP_LUA_ENGINE);
    lua_Integer id = cop_lua_check_integer(L, 2, 0, UINT32_MAX, "engine:cancel: the id");
    bool is_known = false;
    for (struct request *request = box->requests; request; request = request->next) {
        if (request->id == (uint32_t)id && !request->is_done) {
            atomic_store(&request->cancel, true);
            is_known = true;
        }
    }
    lua_pushboolean(L, is_known);
    return 1;
}

static int engine_usage(lua_State *L)
{
    const struct engine_box *box = luaL_checkudata(L, 1, COP_LUA_ENGINE);
    if (!box->engine) {
        return cop_lua_raise(L, "this engine is closed");
    }
    struct cop_cache_usage usage = cop_engine_usage(box->engine);
    lua_createtable(L, 0, 5);
    cop_lua_set_integer(L, "pages", usage.pages);
    cop_lua_set_integer(L, "used", usage.used);
    cop_lua_set_integer(L, "peak", usage.peak);
    cop_lua_set_integer(L, "page_bytes", (lua_Integer)usage.page_bytes);
    cop_lua_set_integer(L, "bytes_moved", usage.bytes_moved);
    return 1;
}

/* ---- Class ---------------------------------------------------------------------------------- */

static int engine_index(lua_State *L)
{
    const struct engine_box *box = luaL_checkudata(L, 1, COP_LUA_ENGINE);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TNIL && lua_type(L, 2) == LUA_TSTRING &&
        strcmp(lua_tostring(L, 2), "facts") == 0 && box->engine) {
        push_facts(L, cop_engine_facts(box->engine));
    }
    return 1;
}

void cop_lua_open_engine(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__gc", engine_gc},
                                    {"__close", engine_close},
                                    {"__tostring", engine_text},
                                    {NULL, NULL}};
    static const luaL_Reg methods[] = {
        {"submit", engine_submit}, {"step", engine_step},   {"cancel", engine_cancel},
        {"usage", engine_usage},   {"close", engine_close}, {NULL, NULL}};
    cop_lua_class(L, COP_LUA_ENGINE, meta);
    luaL_getmetatable(L, COP_LUA_ENGINE);
    luaL_newlib(L, methods);
    lua_pushcclosure(L, engine_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    lua_pushcfunction(L, engine_new);
    lua_setfield(L, -2, "engine");
    lua_pushcfunction(L, engine_check);
    lua_setfield(L, -2, "engine_check");
}
