/* core.trace: the store of a run for our scripts.
 *
 *     local trace = core.trace.open(path, "write" | "read")   → nil, message, code
 *     trace:start { name=, version=, level=, shard= }          → session
 *     trace:stop(session, "finished")
 *     trace:arm { name=, sampling=, temperature=, … }          → arm
 *     trace:has(arm, prompt, repeat, turn)                     → boolean
 *     core.trace.record([rows, top])                           → an observer for engine:submit
 *     record:save_rows(path)                                   a file of trace/rows.h
 *     trace:commit(record, { arm=, prompt=, …, tokens=, … })   writes it with its cycles
 *     trace:quality(arm, prompt, repeat, turn, measure, value)
 *     trace:metrics(arm [, category])                          → sums and counts
 *     trace:predict(arm, points)                               → seconds by a cost curve
 *     trace:cache()                                            reads the cycles for views now
 *     trace:rows(sql, values…)                                 → list of { column = value }
 *     trace:close()
 *     core.trace.definitions()     → list of { name =, key =, formula =, source = }: metrics
 *     core.trace.bootstrap { a=, b=, c=, d=, resamples=, level=, seed= } → value, low, high
 *     core.trace.sign_flip { a=, patterns=, level=, seed= } → value, p, is_exact, low, high
 *     core.trace.cost_at(points, nodes, context), core.trace.pace(table, most): trace/pace.c
 *     core.trace.simulate { … }: trace/simulate.c
 *
 * Everything that touches the disk returns nil, message, code on failure. */
#include "core/trace/rows.h"
#include "core/trace/views.h"
#include "lua/home.h"
#include "lua/trace/trace.h"

#include <string.h>

/* An observer userdata that owns the cycles it saw. */
struct lua_record {
    struct cop_lua_observer observer; /* first: what engine:submit reads */
    struct cop_record *record;
    struct cop_row_record *rows; /* NULL: rows are not kept */
};

struct cop_trace *cop_lua_check_trace(lua_State *L)
{
    struct cop_lua_trace *self = luaL_checkudata(L, 1, COP_LUA_TRACE);
    if (!self->trace) {
        luaL_error(L, "the trace is closed");
    }
    return self->trace;
}

static int answer(lua_State *L, enum cop_status status, const struct cop_error *err)
{
    if (status != COP_OK) {
        return cop_lua_fail(L, err);
    }
    lua_pushboolean(L, 1);
    return 1;
}

static int answer_integer(lua_State *L, enum cop_status status, const struct cop_error *err,
                          int64_t value)
{
    if (status != COP_OK) {
        return cop_lua_fail(L, err);
    }
    lua_pushinteger(L, value);
    return 1;
}

/* ---- Fields of an argument table ------------------------------------------------------------
 */

/* A string that the table keeps alive; NULL when absent. */
static const char *text_field(lua_State *L, int table, const char *key)
{
    const char *text = NULL;
    if (lua_getfield(L, table, key) == LUA_TSTRING) {
        text = lua_tostring(L, -1);
    }
    lua_pop(L, 1);
    return text;
}

static int64_t integer_field(lua_State *L, int table, const char *key)
{
    lua_getfield(L, table, key);
    int64_t value = lua_tointeger(L, -1);
    lua_pop(L, 1);
    return value;
}

static double number_field(lua_State *L, int table, const char *key)
{
    lua_getfield(L, table, key);
    double value = lua_tonumber(L, -1);
    lua_pop(L, 1);
    return value;
}

static bool flag_field(lua_State *L, int table, const char *key)
{
    lua_getfield(L, table, key);
    bool value = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

static struct cop_trace_key read_key(lua_State *L, int first)
{
    return (struct cop_trace_key){.arm = luaL_checkinteger(L, first),
                                  .prompt = (int32_t)luaL_checkinteger(L, first + 1),
                                  .repeat = (int32_t)luaL_checkinteger(L, first + 2),
                                  .turn = (int32_t)luaL_checkinteger(L, first + 3)};
}

/* ---- Opening, sessions, arms ----------------------------------------------------------------
 */

static int trace_open(lua_State *L)
{
    static const char *const modes[] = {"write", "read", NULL};
    struct cop_error err = {0};
    const char *path = luaL_checkstring(L, 1);
    int mode = luaL_checkoption(L, 2, "write", modes);
    struct cop_lua_trace *self = lua_newuserdatauv(L, sizeof *self, 0);
    self->trace = NULL;
    luaL_setmetatable(L, COP_LUA_TRACE);
    if (cop_trace_open(&self->trace, path, mode ? COP_TRACE_READ : COP_TRACE_WRITE, &err) !=
        COP_OK) {
        return cop_lua_fail(L, &err);
    }
    return 1;
}

static int trace_close(lua_State *L)
{
    struct cop_lua_trace *self = luaL_checkudata(L, 1, COP_LUA_TRACE);
    cop_trace_close(self->trace);
    self->trace = NULL;
    return 0;
}

static int trace_start(lua_State *L)
{
    struct cop_error err = {0};
    int64_t id = 0;
    struct cop_trace *trace = cop_lua_check_trace(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    const struct cop_trace_session session = {.name = text_field(L, 2, "name"),
                                              .version = text_field(L, 2, "version"),
                                              .level = text_field(L, 2, "level"),
                                              .shard = text_field(L, 2, "shard")};
    enum cop_status status = cop_trace_session_start(trace, &session, &id, &err);
    return answer_integer(L, status, &err, id);
}

static int trace_stop(lua_State *L)
{
    struct cop_error err = {0};
    struct cop_trace *trace = cop_lua_check_trace(L);
    enum cop_status status =
        cop_trace_session_end(trace, luaL_checkinteger(L, 2), luaL_checkstring(L, 3), &err);
    return answer(L, status, &err);
}

static int trace_arm(lua_State *L)
{
    struct cop_error err = {0};
    int64_t id = 0;
    struct cop_trace *trace = cop_lua_check_trace(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    const struct cop_trace_arm arm = {.name = text_field(L, 2, "name"),
                                      .sampling = text_field(L, 2, "sampling"),
                                      .temperature = number_field(L, 2, "temperature"),
                                      .is_plain = flag_field(L, 2, "is_plain"),
                                      .is_lossless = flag_field(L, 2, "is_lossless"),
                                      .proposer = text_field(L, 2, "proposer"),
                                      .builder = text_field(L, 2, "builder"),
                                      .rule = text_field(L, 2, "rule"),
                                      .length = text_field(L, 2, "length"),
                                      .draw = text_field(L, 2, "draw"),
                                      .shape = text_field(L, 2, "shape"),
                                      .options = text_field(L, 2, "options")};
    luaL_argcheck(L, arm.name && arm.sampling, 2, "an arm needs a name and a sampling");
    enum cop_status status = cop_trace_arm(trace, &arm, &id, &err);
    return answer_integer(L, status, &err, id);
}

/* ---- Requests -------------------------------------------------------------------------------
 */

static int trace_has(lua_State *L)
{
    struct cop_error err = {0};
    bool found = false;
    struct cop_trace *trace = cop_lua_check_trace(L);
    struct cop_trace_key key = read_key(L, 2);
    if (cop_trace_has(trace, &key, &found, &err) != COP_OK) {
        return cop_lua_fail(L, &err);
    }
    lua_pushboolean(L, found);
    return 1;
}

/* rows: "f16" | "f32" | nil; top: 0 for all */
static int record_new(lua_State *L)
{
    static const char *const formats[] = {"f16", "f32", NULL};
    int format = lua_isnoneornil(L, 1) ? -1 : luaL_checkoption(L, 1, NULL, formats);
    int32_t top = (int32_t)luaL_optinteger(L, 2, 0);
    struct lua_record *self = lua_newuserdatauv(L, sizeof *self, 0);
    memset(self, 0, sizeof *self);
    luaL_setmetatable(L, COP_LUA_OBSERVER);
    self->record = cop_record_new();
    if (!self->record) {
        return luaL_error(L, "no memory for a record");
    }
    self->observer = (struct cop_lua_observer){.cycle = cop_record_cycle, .user = self->record};
    if (format >= 0) {
        self->rows = cop_row_record_new(format == 1, top);
        if (!self->rows) {
            return luaL_error(L, "no memory for a record");
        }
        self->observer.rows = cop_row_record_cycle;
        self->observer.rows_user = self->rows;
    }
    return 1;
}

static int record_gc(lua_State *L)
{
    struct lua_record *self = luaL_checkudata(L, 1, COP_LUA_OBSERVER);
    cop_record_free(self->record);
    cop_row_record_free(self->rows);
    memset(self, 0, sizeof *self);
    return 0;
}

static struct lua_record *check_record(lua_State *L, int index)
{
    struct lua_record *record = luaL_checkudata(L, index, COP_LUA_OBSERVER);
    luaL_argcheck(L, record->observer.cycle == cop_record_cycle, index, "a record is expected");
    return record;
}

static int record_save_rows(lua_State *L)
{
    struct cop_error err = {0};
    const struct lua_record *record = check_record(L, 1);
    const char *path = luaL_checkstring(L, 2);
    luaL_argcheck(L, record->rows, 1, "rows were not kept");
    return answer(L, cop_row_record_save(record->rows, path, &err), &err);
}

static void release_ids(void *block)
{
    cop_ids_release(block);
}

static void read_request(lua_State *L, int table, struct cop_trace_request *request)
{
    *request = (struct cop_trace_request){
        .key = {.arm = integer_field(L, table, "arm"),
                .prompt = (int32_t)integer_field(L, table, "prompt"),
                .repeat = (int32_t)integer_field(L, table, "repeat"),
                .turn = (int32_t)integer_field(L, table, "turn")},
        .session = integer_field(L, table, "session"),
        .question = text_field(L, table, "question"),
        .category = text_field(L, table, "category"),
        .seed = (uint64_t)integer_field(L, table, "seed"),
        .request_id = (uint32_t)integer_field(L, table, "request_id"),
        .place = (int32_t)integer_field(L, table, "place"),
        .n_prompt = (int32_t)integer_field(L, table, "n_prompt"),
        .finish = text_field(L, table, "finish"),
        .error = text_field(L, table, "error"),
        .seconds = number_field(L, table, "seconds"),
        .prefill_seconds = number_field(L, table, "prefill_seconds"),
        .peak_pages = (int32_t)integer_field(L, table, "peak_pages")};
    if (lua_getfield(L, table, "text") == LUA_TSTRING) {
        request->text = lua_tolstring(L, -1, &request->text_length);
    }
    request->has_text_tokens = lua_getfield(L, table, "text_tokens") == LUA_TNUMBER;
    request->text_tokens = (int32_t)lua_tointeger(L, -1);
    lua_pop(L, 2);
}

static int trace_commit(lua_State *L)
{
    struct cop_error err = {0};
    struct cop_trace_request request;
    struct cop_trace *trace = cop_lua_check_trace(L);
    const struct lua_record *record = check_record(L, 2);
    luaL_checktype(L, 3, LUA_TTABLE);
    lua_settop(L, 3);
    read_request(L, 3, &request);
    luaL_argcheck(L, request.finish, 3, "a request needs finish");
    struct cop_ids *ids = cop_lua_guard(L, sizeof *ids, release_ids);
    lua_getfield(L, 3, "tokens");
    cop_lua_check_ids(L, -1, INT32_MAX, "trace", ids);
    request.tokens = ids->items;
    request.n_tokens = (int32_t)ids->count;
    enum cop_status status = cop_trace_commit(trace, &request, record->record, &err);
    cop_lua_guard_close(L, 4);
    return answer(L, status, &err);
}

static int trace_quality(lua_State *L)
{
    struct cop_error err = {0};
    struct cop_trace *trace = cop_lua_check_trace(L);
    struct cop_trace_key key = read_key(L, 2);
    enum cop_status status =
        cop_trace_quality(trace, &key, luaL_checkstring(L, 6), luaL_checknumber(L, 7), &err);
    return answer(L, status, &err);
}

/* ---- Questions ------------------------------------------------------------------------------
 */

static void push_value(lua_State *L, const struct cop_trace_value *value)
{
    switch (value->type) {
    case COP_TRACE_NULL: lua_pushnil(L); break;
    case COP_TRACE_INTEGER: lua_pushinteger(L, value->integer); break;
    case COP_TRACE_REAL: lua_pushnumber(L, value->real); break;
    case COP_TRACE_TEXT: lua_pushlstring(L, value->bytes, value->length); break;
    }
}

static struct cop_trace_value read_argument(lua_State *L, int index)
{
    struct cop_trace_value value = {0};
    if (lua_isinteger(L, index)) {
        value.type = COP_TRACE_INTEGER;
        value.integer = lua_tointeger(L, index);
    } else if (lua_type(L, index) == LUA_TNUMBER) {
        value.type = COP_TRACE_REAL;
        value.real = lua_tonumber(L, index);
    } else if (!lua_isnil(L, index)) {
        value.type = COP_TRACE_TEXT;
        value.bytes = luaL_checklstring(L, index, &value.length);
    }
    return value;
}

struct query_guard {
    struct cop_query *query;
};

static void release_query(void *block)
{
    struct query_guard *guard = block;
    cop_query_close(guard->query);
    guard->query = NULL;
}

#define MAX_VALUES 32

static int trace_rows(lua_State *L)
{
    struct cop_error err = {0};
    struct cop_trace_value values[MAX_VALUES];
    struct cop_trace *trace = cop_lua_check_trace(L);
    const char *sql = luaL_checkstring(L, 2);
    int n = lua_gettop(L) - 2;
    luaL_argcheck(L, n <= MAX_VALUES, 3, "too many values");
    for (int i = 0; i < n; i++) {
        values[i] = read_argument(L, 3 + i);
    }
    struct query_guard *guard = cop_lua_guard(L, sizeof *guard, release_query);
    bool has_row = false;
    enum cop_status status = cop_query_open(&guard->query, trace, sql, values, n, &err);
    lua_newtable(L);
    for (lua_Integer row = 1; status == COP_OK; row++) {
        status = cop_query_step(guard->query, &has_row, &err);
        if (status != COP_OK || !has_row) {
            break;
        }
        lua_newtable(L);
        for (int32_t i = 0; i < cop_query_columns(guard->query); i++) {
            struct cop_trace_value value = cop_query_value(guard->query, i);
            push_value(L, &value);
            lua_setfield(L, -2, cop_query_name(guard->query, i));
        }
        lua_rawseti(L, -2, row);
    }
    release_query(guard);
    return status == COP_OK ? 1 : cop_lua_fail(L, &err);
}

static int trace_cache(lua_State *L)
{
    struct cop_error err = {0};
    enum cop_status status = cop_trace_cache(cop_lua_check_trace(L), &err);
    return answer(L, status, &err);
}

static int definitions(lua_State *L)
{
    lua_Integer n = 0;
    lua_newtable(L);
    for (const struct cop_trace_view *view = cop_trace_views; view->name; view++) {
        if (view->formula) {
            lua_newtable(L);
            cop_lua_set_string(L, "name", view->name);
            cop_lua_set_string(L, "key", view->key);
            cop_lua_set_string(L, "formula", view->formula);
            cop_lua_set_string(L, "source", view->source);
            lua_rawseti(L, -2, ++n);
        }
    }
    return 1;
}

void cop_lua_open_trace(lua_State *L)
{
    static const luaL_Reg methods[] = {{"start", trace_start},
                                       {"stop", trace_stop},
                                       {"arm", trace_arm},
                                       {"has", trace_has},
                                       {"commit", trace_commit},
                                       {"quality", trace_quality},
                                       {"metrics", cop_lua_trace_metrics},
                                       {"predict", cop_lua_trace_predict},
                                       {"rows", trace_rows},
                                       {"cache", trace_cache},
                                       {"close", trace_close},
                                       {"__gc", trace_close},
                                       {"__close", trace_close},
                                       {NULL, NULL}};
    static const luaL_Reg record_methods[] = {
        {"save_rows", record_save_rows}, {"__gc", record_gc}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"open", trace_open},
                                         {"record", record_new},
                                         {"bootstrap", cop_lua_bootstrap},
                                         {"sign_flip", cop_lua_sign_flip},
                                         {"cost_at", cop_lua_cost_at},
                                         {"pace", cop_lua_pace},
                                         {"simulate", cop_lua_simulate},
                                         {"definitions", definitions},
                                         {NULL, NULL}};
    cop_lua_class(L, COP_LUA_TRACE, methods);
    cop_lua_class(L, COP_LUA_OBSERVER, record_methods);
    luaL_newlib(L, functions);
    lua_setfield(L, -2, "trace");
}
