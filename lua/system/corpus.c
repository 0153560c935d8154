/* Corpora, the ids of texts and of lists one after another: sorted and written as a datastore,
 * or counted into a ranking. */
#include "algorithms/history/datastore.h"
#include "core/base/quote.h"
#include "core/files/torch.h"
#include "lua/home.h"
#include "lua/system/system.h"

#include <stdlib.h>
#include <string.h>

struct gathering {
    const char *owner; /* begins messages */
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
        status = cop_fail(
            err, COP_ERR_ARGUMENT,
            "%s: %s is text, which needs a tokenizer (files of ids end in .u16 or .u32)",
            g->owner, whence);
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

/* Tokenizer at index 2, files at 3, lists at 4: a guard at the top of the stack. */
static struct gathering *new_gathering(lua_State *L, const char *owner)
{
    luaL_checktype(L, 3, LUA_TTABLE);
    luaL_checktype(L, 4, LUA_TTABLE);
    struct gathering *g = cop_lua_guard(L, sizeof *g, release_gathering);
    g->owner = owner;
    if (!lua_isnil(L, 2)) {
        g->tokenizer = cop_lua_check_tokenizer(L, 2, owner);
        g->vocab = cop_tokenizer_size(g->tokenizer);
    }
    return g;
}

/* core.system.datastore(path, tokenizer, files, lists, vocab)
 * → tokens, vocab | nil, message, code */
static int datastore_write(lua_State *L)
{
    struct cop_error err = {0};
    const char *path = luaL_checkstring(L, 1);
    lua_settop(L, 5);
    struct gathering *g = new_gathering(L, "cop.datastore");
    if (!g->tokenizer) {
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

/* ---- Rankings -------------------------------------------------------------------------------
 */

struct counted {
    int64_t count;
    cop_token id;
    bool is_end; /* of an answer */
};

/* By count, then by id. */
static int by_count(const void *left, const void *right)
{
    const struct counted *a = left, *b = right;
    return a->count != b->count ? (a->count > b->count ? -1 : 1)
                                : (a->id > b->id) - (a->id < b->id);
}

/* The same behind the ends. */
static int ends_first(const void *left, const void *right)
{
    const struct counted *a = left, *b = right;
    return a->is_end != b->is_end ? b->is_end - a->is_end : by_count(left, right);
}

static void push_ranking(lua_State *L, const struct counted *counted, int32_t n,
                         int64_t n_tokens)
{
    int64_t covered = 0;
    lua_createtable(L, n, 0);
    for (int32_t i = 0; i < n; i++) {
        lua_pushinteger(L, counted[i].id);
        lua_rawseti(L, -2, i + 1);
        covered += counted[i].count;
    }
    lua_pushnumber(L, (lua_Number)covered / (lua_Number)n_tokens);
}

/* The `size` most frequent ids, with the tokenizer's ends among them, and the share of the
 * corpus that they are. */
static void rank(lua_State *L, const struct gathering *g, struct counted *counted,
                 int32_t vocab, int32_t size)
{
    size_t n_ends = 0;
    const cop_token *ends = g->tokenizer ? cop_tokenizer_eos(g->tokenizer, &n_ends) : NULL;
    int32_t n_kept = 0;
    for (int32_t id = 0; id < vocab; id++) {
        counted[id] = (struct counted){.id = id};
    }
    for (size_t i = 0; i < n_ends; i++) {
        if (ends[i] >= 0 && ends[i] < vocab) {
            counted[ends[i]].is_end = true;
        }
    }
    for (size_t i = 0; i < g->ids.count; i++) {
        counted[g->ids.items[i]].count++;
    }
    qsort(counted, (size_t)vocab, sizeof *counted, ends_first);
    while (n_kept < vocab && n_kept < size &&
           (counted[n_kept].count > 0 || counted[n_kept].is_end)) {
        n_kept++;
    }
    qsort(counted, (size_t)n_kept, sizeof *counted, by_count);
    push_ranking(L, counted, n_kept, (int64_t)g->ids.count);
}

/* core.system.ranking(size, tokenizer, files, lists) → ids, share | nil, message, code */
static int ranking(lua_State *L)
{
    struct cop_error err = {0};
    int32_t size = (int32_t)luaL_checkinteger(L, 1);
    lua_settop(L, 4);
    struct gathering *g = new_gathering(L, "cop.ranking");
    enum cop_status status = gather(L, g, &err);
    if (status == COP_OK && g->ids.count == 0) {
        status = cop_fail(&err, COP_ERR_ARGUMENT, "cop.ranking: there are no tokens to count");
    }
    if (status != COP_OK) {
        cop_lua_guard_close(L, 5);
        return cop_lua_error_of(L, "cop.ranking", &err);
    }
    int32_t vocab = vocab_of(g);
    rank(L, g, lua_newuserdatauv(L, (size_t)vocab * sizeof(struct counted), 0), vocab, size);
    cop_lua_guard_close(L, 5);
    return 2;
}

static void release_integers(void *block)
{
    free(*(int64_t **)block);
}

/* core.system.torch_integers(path) → list | nil, message, code */
static int torch_integers(lua_State *L)
{
    struct cop_error err = {0};
    struct cop_torch *file;
    size_t count = 0;
    const char *path = luaL_checkstring(L, 1);
    lua_settop(L, 1);
    int64_t **integers = cop_lua_guard(L, sizeof *integers, release_integers);
    enum cop_status status = cop_torch_open(&file, path, &err);
    if (status == COP_OK) {
        status = cop_torch_integers(file, integers, &count, &err);
        cop_torch_close(file);
    }
    if (status != COP_OK) {
        cop_lua_guard_close(L, 2);
        return cop_lua_error_of(L, "cop.ranking", &err);
    }
    lua_newtable(L);
    for (size_t i = 0; i < count; i++) {
        lua_pushinteger(L, (lua_Integer)(*integers)[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    cop_lua_guard_close(L, 2);
    return 1;
}

void cop_lua_open_corpus(lua_State *L)
{
    lua_pushcfunction(L, ranking);
    lua_setfield(L, -2, "ranking");
    lua_pushcfunction(L, torch_integers);
    lua_setfield(L, -2, "torch_integers");
    lua_pushcfunction(L, datastore_write);
    lua_setfield(L, -2, "datastore");
}
