/* core.engine: the engine as our scripts use it; cop.generate and experiments stand on it.
 *
 *     core.engine { target =, proposer =, tree =, length =, rule =, draw =, relaxed =,
 *                   temperature =, top_k =, top_p =, min_p =, repetition_penalty =,
 *                   presence_penalty =, frequency_penalty =, logit_bias =, banned =,
 *                   processor =, batch = }
 *                                    → engine | nil, message, code
 *     core.engine_check { same }     → facts: { draw =, shape =, lossless =, rule =, tree =,
 *                                      remembers =, proposer =, length =, depth =, nodes =,
 *                                      draft_bytes = }
 *     engine.facts                   the same
 *     engine:submit { tokens =, seed =, id =, max_tokens =, min_tokens =, stop =,
 *                     stop_tokens =, ignore_eos =, logprobs =, on_text =, on_cycle =,
 *                     cycles = true, observer = }     → the request's id
 *     engine:step()                  → active, { result, … } of those that finished
 *     engine:cancel(id)   engine:usage()   engine:close()
 *     engine:share(other)            prompts that one has read, the other copies
 *
 * on_text(text, { tokens =, depths = }) may return false to cancel. What a script's function
 * raises is kept, ends its request, and is raised again by step once the cycle is over; the
 * engine stays usable. A rule, proposer or tree builder that fails gives a result with finish =
 * "error", error = the message, code = "callback".
 *
 * An option `owner` names the function that a script called, for messages. */
#include "lua/engine/engine.h"
#include "lua/engine/processing.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options --------------------------------------------------------------------------------
 */

struct engine_options {
    void *owner, *target, *proposer, *tree, *rule, *length;
    int32_t draw, top_k, batch;
    bool relaxed;
    double temperature, top_p, min_p;
    struct cop_lua_processing processing;
};

#define AN_OBJECT(field, type_name, more, text)                                                \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_OBJECT,                                             \
        .offset = offsetof(struct engine_options, field), .choices = type_name, .flags = more, \
        .help = text                                                                           \
    }

static const struct cop_option engine_options[] = {
    AN_OBJECT(owner, "string", 0, "begins messages"),
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
    COP_LUA_PROCESSING_OPTIONS(offsetof(struct engine_options, processing)),
    COP_LUA_PROCESS_OBJECT(offsetof(struct engine_options, processing), processor, "function",
                           "function(prefix ids, row): changes logits in place"),
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
        .draw =
            how.draw >= 0 ? (enum cop_draw)(how.draw + COP_DRAW_INDEPENDENT) : COP_DRAW_AUTO,
        .relaxed = how.relaxed,
        .sampling = {.temperature = how.temperature,
                     .top_k = how.top_k,
                     /* 0 keeps the best token alone, as any mass that it has does */
                     .top_p = how.top_p > 0 ? how.top_p : DBL_TRUE_MIN,
                     .min_p = how.min_p},
        .processing = cop_lua_read_processing(L, &how.processing, keeper,
                                              cop_lua_engine_owner(L, keeper, owner)),
        .batch = how.batch,
        .registry = cop_lua_registry(L),
        .cancel = &cop_lua_interrupt,
        .foreign_us = cop_lua_microseconds(L)};
}

const char *cop_lua_engine_owner(lua_State *L, int keeper, const char *fallback)
{
    lua_getfield(L, keeper, "owner");
    const char *owner = lua_tostring(L, -1);
    lua_pop(L, 1);
    return owner ? owner : fallback; /* the keeper keeps it */
}

static void push_facts(lua_State *L, const struct cop_engine_facts *facts)
{
    lua_createtable(L, 0, 11);
    cop_lua_set_string(L, "draw", cop_draw_name(facts->draw));
    cop_lua_set_string(L, "shape", cop_shape_name(facts->shape));
    cop_lua_set_boolean(L, "lossless", facts->is_lossless);
    cop_lua_set_boolean(L, "remembers", facts->remembers);
    cop_lua_set_string(L, "rule", facts->rule);
    cop_lua_set_string(L, "tree", facts->builder);
    cop_lua_set_string(L, "proposer", facts->proposer);
    cop_lua_set_string(L, "length", facts->length);
    cop_lua_set_integer(L, "depth", facts->depth);
    cop_lua_set_integer(L, "nodes", facts->nodes);
    cop_lua_set_integer(L, "draft_bytes", (lua_Integer)facts->draft_bytes);
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
        return cop_lua_error_of(L, cop_lua_engine_owner(L, 2, "core.engine_check"), &err);
    }
    push_facts(L, &facts);
    return 1;
}

static enum cop_status open_engine(lua_State *L, struct cop_lua_engine *box,
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
    struct cop_lua_engine *box = lua_newuserdatauv(L, sizeof *box, 2);
    *box = (struct cop_lua_engine){.home = cop_lua_home(L)};
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
    return status == COP_OK
               ? 1
               : cop_lua_error_of(L, cop_lua_engine_owner(L, 2, "core.engine"), &err);
}

/* ---- Life -----------------------------------------------------------------------------------
 */

struct cop_lua_engine *cop_lua_check_engine(lua_State *L)
{
    struct cop_lua_engine *box = luaL_checkudata(L, 1, COP_LUA_ENGINE);
    if (!box->engine) {
        cop_lua_raise(L, "this engine is closed");
    }
    if (box->is_running) {
        cop_lua_raise(L, "this engine is in the middle of a cycle");
    }
    return box;
}

void cop_lua_request_free(struct cop_lua_request *request)
{
    cop_lua_cycles_release(&request->cycles);
    cop_result_release(&request->result);
    free(request);
}

static void close_engine(lua_State *L, struct cop_lua_engine *box)
{
    struct cop_engine *engine = box->engine;
    struct cop_lua_border border;
    struct cop_error err;
    box->engine = NULL;
    cop_lua_enter(box->home, L, &border);
    cop_engine_free(engine);
    (void)cop_lua_leave(box->home, &border, COP_OK, &err); /* nobody left to tell */
    while (box->requests) {
        struct cop_lua_request *request = box->requests;
        box->requests = request->next;
        cop_lua_request_free(request);
    }
}

static int engine_gc(lua_State *L)
{
    struct cop_lua_engine *box = luaL_checkudata(L, 1, COP_LUA_ENGINE);
    if (box->engine) {
        close_engine(L, box);
    }
    return 0;
}

static int engine_close(lua_State *L)
{
    struct cop_lua_engine *box = luaL_checkudata(L, 1, COP_LUA_ENGINE);
    if (box->is_running) {
        return cop_lua_raise(L, "engine:close: this engine is in the middle of a cycle");
    }
    return engine_gc(L);
}

static int engine_text(lua_State *L)
{
    const struct cop_lua_engine *box = luaL_checkudata(L, 1, COP_LUA_ENGINE);
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

static int engine_cancel(lua_State *L)
{
    struct cop_lua_engine *box = luaL_checkudata(L, 1, COP_LUA_ENGINE);
    lua_Integer id = cop_lua_check_integer(L, 2, 0, UINT32_MAX, "engine:cancel: the id");
    bool is_known = false;
    for (struct cop_lua_request *request = box->requests; request; request = request->next) {
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
    const struct cop_lua_engine *box = luaL_checkudata(L, 1, COP_LUA_ENGINE);
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

/* engine:share(other) → true | nil, message, code */
static int engine_share(lua_State *L)
{
    struct cop_lua_engine *box = cop_lua_check_engine(L);
    const struct cop_lua_engine *with = luaL_checkudata(L, 2, COP_LUA_ENGINE);
    struct cop_error err;
    if (!with->engine) {
        return cop_lua_raise(L, "the other engine is closed");
    }
    enum cop_status status = cop_engine_share(box->engine, with->engine, &err);
    if (status != COP_OK) {
        return cop_lua_error_of(L, "engine:share", &err);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* engine:forget() → true | nil, message, code: the engine is closed then */
static int engine_forget(lua_State *L)
{
    struct cop_lua_engine *box = cop_lua_check_engine(L);
    struct cop_lua_border border;
    struct cop_error err;
    cop_lua_enter(box->home, L, &border);
    enum cop_status status = cop_engine_forget(box->engine, &err);
    status = cop_lua_leave(box->home, &border, status, &err);
    if (status != COP_OK) {
        close_engine(L, box);
        return cop_lua_error_of(L, "engine:forget", &err);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* ---- Class ----------------------------------------------------------------------------------
 */

static int engine_index(lua_State *L)
{
    const struct cop_lua_engine *box = luaL_checkudata(L, 1, COP_LUA_ENGINE);
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
        {"submit", cop_lua_engine_submit}, {"step", cop_lua_engine_step},
        {"cancel", engine_cancel},         {"usage", engine_usage},
        {"share", engine_share},           {"forget", engine_forget},
        {"close", engine_close},           {NULL, NULL}};
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
    cop_lua_open_processing(L);
}
