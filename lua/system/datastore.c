/* core.datastore(path, tokenizer, files, lists, vocab): ids of texts and of lists, one after
 * another, sorted and written. */
#include "algorithms/history/datastore.h"
#include "core/base/quote.h"
#include "lua/home.h"
#include "lua/system/system.h"

#include <string.h>

struct gathering {
    struct cop_ids ids;
    struct cop_map map;
    const struct cop_tokenizer *tokenizer; /* NULL: files hold ids */
    int32_t vocab;                         /* ids are below it; 0: any */
};

static void release_gathering(void *block)
{
    struct gathering *g = block;
    cop_ids_release(&g->ids);
    cop_map_close(&g->map);
}

static enum cop_status push_id(struct gathering *g, int64_t id, const char *whence,
                               struct cop_error *err)
{
    int64_t limit = g->vocab > 0 ? g->vocab : 1 << 21;
    return id >= 0 && id < limit
               ? cop_ids_push(&g->ids, (cop_token)id, err)
               : cop_fail(err, COP_ERR_FORMAT, "%s: id %lld is not in the vocabulary of %lld",
                          whence, (long long)id, (long long)limit);
}

static bool ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

/* Raw ids of two or four bytes, in the machine's order. */
static enum cop_status take_raw(struct gathering *g, const char *whence, size_t width,
                                struct cop_error *err)
{
    if (g->map.size % width != 0) {
        return cop_fail(err, COP_ERR_FORMAT, "%s: %zu bytes are no whole number of ids", whence,
                        g->map.size);
    }
    enum cop_status status = COP_OK;
    for (size_t at = 0; at < g->map.size && status == COP_OK; at += width) {
        uint32_t wide = 0;
        uint16_t narrow = 0;
        memcpy(width == 4 ? (void *)&wide : (void *)&narrow, g->map.data + at, width);
        status = push_id(g, width == 4 ? wide : narrow, whence, err);
    }
    return status;
}

static enum cop_status take_file(struct gathering *g, const char *path, struct cop_error *err)
{
    char whence[COP_QUOTE_SIZE];
    enum cop_status status = cop_map_open(&g->map, path, err);
    if (status != COP_OK) {
        return status;
    }
    cop_quote(whence, path, strlen(path));
    if (ends_with(path, ".u16") || ends_with(path, ".u32")) {
        status = take_raw(g, whence, ends_with(path, ".u16") ? 2 : 4, err);
    } else if (!g->tokenizer) {
        status =
            cop_fail(err, COP_ERR_ARGUMENT,
                     "cop.datastore: %s is text, which needs a tokenizer (files of ids end "
                     "in .u16 or .u32)",
                     whence);
    } else {
        const char *text = g->map.size ? (const char *)g->map.data : "";
        status = cop_tokenizer_encode(g->tokenizer, text, g->map.size,
                                      (struct cop_encode_options){0}, &g->ids, err);
    }
    cop_map_close(&g->map);
    return status;
}

/* Lists of ids at index 4. */
static enum cop_status take_lists(lua_State *L, struct gathering *g, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    lua_Unsigned n_lists = lua_rawlen(L, 4);
    for (lua_Unsigned l = 1; l <= n_lists && status == COP_OK; l++) {
        lua_rawgeti(L, 4, (lua_Integer)l);
        lua_Unsigned n = lua_istable(L, -1) ? lua_rawlen(L, -1) : 0;
        for (lua_Unsigned i = 1; i <= n && status == COP_OK; i++) {
            lua_rawgeti(L, -1, (lua_Integer)i);
            int is_integer;
            lua_Integer id = lua_tointegerx(L, -1, &is_integer);
            status = push_id(g, is_integer ? id : -1, "tokens", err);
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
    return status;
}

static int32_t vocab_of(const struct gathering *g)
{
    int32_t vocab = g->vocab > 0 ? g->vocab : 1;
    for (size_t i = 0; i < g->ids.count; i++) {
        vocab = g->ids.items[i] >= vocab ? g->ids.items[i] + 1 : vocab;
    }
    return vocab;
}

static enum cop_status gather(lua_State *L, struct gathering *g, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    lua_Unsigned n_files = lua_rawlen(L, 3);
    for (lua_Unsigned i = 1; i <= n_files && status == COP_OK; i++) {
        lua_rawgeti(L, 3, (lua_Integer)i);
        status = take_file(g, luaL_checkstring(L, -1), err);
        lua_pop(L, 1);
    }
    return status == COP_OK ? take_lists(L, g, err) : status;
}

/* → tokens, vocab | nil, message, code */
static int datastore_write(lua_State *L)
{
    struct cop_error err = {0};
    const char *path = luaL_checkstring(L, 1);
    luaL_checktype(L, 3, LUA_TTABLE);
    luaL_checktype(L, 4, LUA_TTABLE);
    lua_settop(L, 5);
    struct gathering *g = cop_lua_guard(L, sizeof *g, release_gathering);
    if (!lua_isnil(L, 2)) {
        g->tokenizer = cop_lua_check_tokenizer(L, 2, "cop.datastore");
        g->vocab = cop_tokenizer_size(g->tokenizer);
    } else {
        g->vocab = (int32_t)luaL_optinteger(L, 5, 0);
    }
    enum cop_status status = gather(L, g, &err);
    int32_t vocab = vocab_of(g);
    if (status == COP_OK && g->ids.count == 0) {
        status =
            cop_fail(&err, COP_ERR_ARGUMENT, "cop.datastore: there are no tokens to store");
    }
    if (status == COP_OK) {
        uint64_t tokenizer = g->tokenizer ? cop_tokenizer_fingerprint(g->tokenizer) : 0;
        status = cop_datastore_write(path, g->ids.items, (int64_t)g->ids.count, vocab,
                                     tokenizer, &err);
    }
    if (status != COP_OK) {
        cop_lua_guard_close(L, 6);
        return cop_lua_error_of(L, "cop.datastore", &err);
    }
    lua_pushinteger(L, (lua_Integer)g->ids.count);
    lua_pushinteger(L, vocab);
    cop_lua_guard_close(L, 6);
    return 2;
}

void cop_lua_open_datastore(lua_State *L)
{
    lua_pushcfunction(L, datastore_write);
    lua_setfield(L, -2, "datastore");
}
