/* cop.model and m:score.
 *
 * A model object holds one reference. Whoever borrows a model through an option keeps another
 * one (a "model keeper"), so m:close() ends the object, not what still runs with it. User value
 * 1: its tokenizer object, made once. */
#include "lua/home.h"

#include "core/base/path.h"
#include "core/cache/cache.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEPER "coppice.model_keeper"

struct model_box {
    struct cop_model *model; /* NULL: closed */
};

struct cop_model *cop_lua_check_model(lua_State *L, int index, const char *owner)
{
    struct model_box *box = luaL_testudata(L, index, COP_LUA_MODEL);
    if (!box) {
        cop_lua_raise(L, "%s: expected a model, got %s", owner, cop_lua_got(L, index));
    } else if (!box->model) {
        cop_lua_raise(L, "%s: this model is closed", owner);
    }
    return box ? box->model : NULL;
}

static int box_close(lua_State *L)
{
    struct model_box *box = lua_touserdata(L, 1);
    struct cop_model *model = box->model;
    box->model = NULL;
    cop_model_free(model);
    return 0;
}

static int box_text(lua_State *L)
{
    const struct model_box *box = lua_touserdata(L, 1);
    if (!box->model) {
        lua_pushliteral(L, "cop.model (closed)");
        return 1;
    }
    const struct cop_model_info *info = cop_model_info(box->model);
    lua_pushfstring(L, "cop.model (%s: %s, %d layers, vocabulary %d, %s %s)",
                    cop_path_name(info->path), info->architecture, (int)info->layers,
                    (int)info->vocab_size, info->device,
                    info->precision == COP_PRECISION_INT8 ? "int8" : "f32");
    return 1;
}

static int model_close(lua_State *L)
{
    luaL_checkudata(L, 1, COP_LUA_MODEL);
    return box_close(L);
}

void cop_lua_push_model(lua_State *L, struct cop_model *model)
{
    luaL_checkstack(L, 4, NULL);
    struct model_box *box = lua_newuserdatauv(L, sizeof *box, 1);
    box->model = NULL;
    luaL_setmetatable(L, COP_LUA_MODEL);
    box->model = cop_model_share(model);
}

void cop_lua_push_model_keeper(lua_State *L, struct cop_model *model)
{
    luaL_checkstack(L, 4, NULL);
    struct model_box *box = lua_newuserdatauv(L, sizeof *box, 0);
    box->model = NULL;
    if (luaL_newmetatable(L, KEEPER)) {
        lua_pushcfunction(L, box_close);
        lua_setfield(L, -2, "__gc");
        lua_pushcfunction(L, box_text);
        lua_setfield(L, -2, "__tostring");
    }
    lua_setmetatable(L, -2);
    box->model = cop_model_share(model);
}

/* ---- Opening --------------------------------------------------------------------------------
 */

struct open_options {
    char *path, *device, *level;
    int32_t precision, kv, context, pages, threads;
    void *chat; /* a function; only its presence counts here */
};

static const struct cop_option open_options[] = {
    {.name = "path",
     .type = COP_OPTION_STRING,
     .offset = offsetof(struct open_options, path),
     .flags = COP_OPTION_REQUIRED,
     .help = "a GGUF file"},
    {.name = "device",
     .type = COP_OPTION_STRING,
     .offset = offsetof(struct open_options, device),
     .help = "\"cpu\" (default) or \"reference\""},
    {.name = "precision",
     .type = COP_OPTION_CHOICE,
     .offset = offsetof(struct open_options, precision),
     .choices = "auto|f32|int8",
     .help = "of activations; auto: int8 for block-quantised weights, else f32"},
    {.name = "kv",
     .type = COP_OPTION_CHOICE,
     .offset = offsetof(struct open_options, kv),
     .choices = "f16|f32",
     .help = "format of keys and values in the cache"},
    {.name = "context",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct open_options, context),
     .min = 1,
     .max = 1 << 24,
     .flags = COP_OPTION_ABSENT,
     .help = "positions of one sequence; absent: 4096, or what the model was trained for if "
             "that is less"},
    {.name = "pages",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct open_options, pages),
     .min = 1,
     .max = 1 << 24,
     .flags = COP_OPTION_ABSENT,
     .help = "of each cache; absent: enough for every sequence at full context"},
    {.name = "threads",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct open_options, threads),
     .min = 1,
     .max = 1024,
     .flags = COP_OPTION_ABSENT,
     .help = "absent: one for each processor; results do not depend on it"},
    {.name = "level",
     .type = COP_OPTION_STRING,
     .offset = offsetof(struct open_options, level),
     .help = "limit of the instruction set: plain, avx2, avx512, avx512-vnni"},
    {.name = "chat",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct open_options, chat),
     .choices = "function",
     .help = "function(messages, options) that returns the text, for an unknown template"},
    {0}};

static void release_open_options(void *block)
{
    cop_option_release(open_options, block);
}

static int32_t processors(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > 1024 ? 1024 : (int32_t)count;
}

static struct cop_model_options model_options(const struct open_options *how)
{
    static const enum cop_precision_choice precisions[] = {
        COP_PRECISION_AUTO, COP_PRECISION_CHOOSE_F32, COP_PRECISION_CHOOSE_INT8};
    return (struct cop_model_options){.path = how->path,
                                      .device = how->device,
                                      .level = how->level,
                                      .precision = precisions[how->precision],
                                      .kv_f32 = how->kv == 1,
                                      .context = how->context > 0 ? how->context : 0,
                                      .pages = how->pages > 0 ? how->pages : 0,
                                      .threads =
                                          how->threads > 0 ? how->threads : processors()};
}

/* Pushes the tokenizer object of the model at 1, with its chat function from the table `keeper`
 * as user value; nothing is there without a tokenizer. */
static void keep_tokenizer(lua_State *L, int box, int keeper, const struct cop_model *model)
{
    struct cop_tokenizer *tokenizer = cop_model_tokenizer(model);
    if (!tokenizer) {
        return;
    }
    cop_lua_push_tokenizer(L, tokenizer);
    lua_getfield(L, keeper, "chat");
    lua_setiuservalue(L, -2, 1);
    lua_setiuservalue(L, box, 1);
}

static int model_new(lua_State *L)
{
    cop_lua_one_table(L, "cop.model");
    struct open_options *how =
        cop_lua_guard(L, sizeof(struct open_options), release_open_options);
    cop_option_defaults(open_options, how);
    lua_newtable(L);
    int keeper = lua_gettop(L);
    cop_lua_options(L, 1, open_options, how, "cop.model", keeper);
    struct model_box *box = lua_newuserdatauv(L, sizeof *box, 1);
    box->model = NULL;
    luaL_setmetatable(L, COP_LUA_MODEL);
    int index = lua_gettop(L);
    struct cop_error err;
    const struct cop_model_options options = model_options(how);
    if (cop_model_check_options(&options, &err) != COP_OK) {
        return cop_lua_error_of(L, "cop.model", &err);
    }
    enum cop_status status = cop_model_open(&box->model, &options, &err);
    if (cop_lua_collect(L, status)) {
        status = cop_model_open(&box->model, &options, &err);
    }
    if (status != COP_OK) { /* the file and the machine, whatever the code */
        return cop_lua_fail_of(L, "cop.model", &err);
    }
    cop_lua_pressure(L, cop_model_info(box->model)->weight_bytes);
    keep_tokenizer(L, index, keeper, box->model);
    lua_settop(L, index);
    return 1;
}

/* ---- Fields ---------------------------------------------------------------------------------
 */

static const char *precision_name(const struct cop_model_info *info)
{
    return info->precision == COP_PRECISION_INT8 ? "int8" : "f32";
}

static const char *text_of(const struct cop_model_info *info, const char *key)
{
    const struct {
        const char *key, *value;
    } texts[] = {{"architecture", info->architecture},
                 {"path", info->path},
                 {"device", info->device},
                 {"level", info->level},
                 {"precision", precision_name(info)},
                 {"kv", info->kv_f32 ? "f32" : "f16"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strcmp(texts[i].key, key) == 0) {
            return texts[i].value;
        }
    }
    return NULL;
}

static bool count_of(const struct cop_model_info *info, const char *key, lua_Integer *value)
{
    const struct {
        const char *key;
        lua_Integer value;
    } counts[] = {{"vocab_size", info->vocab_size},
                  {"hidden_size", info->hidden_size},
                  {"ffn_size", info->ffn_size},
                  {"layers", info->layers},
                  {"heads", info->heads},
                  {"kv_heads", info->kv_heads},
                  {"head_dim", info->head_dim},
                  {"context", info->context},
                  {"trained_context", info->trained_context},
                  {"threads", info->threads},
                  {"pages", info->pages},
                  {"bytes", (lua_Integer)info->weight_bytes},
                  {"file_bytes", (lua_Integer)info->file_bytes}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (strcmp(counts[i].key, key) == 0) {
            *value = counts[i].value;
            return true;
        }
    }
    return false;
}

/* Methods first (the upvalue), then fields; unknown ones are nil. */
static int model_index(lua_State *L)
{
    luaL_checkudata(L, 1, COP_LUA_MODEL);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL || lua_type(L, 2) != LUA_TSTRING) {
        return 1;
    }
    const struct cop_model_info *info = cop_model_info(cop_lua_check_model(L, 1, "model"));
    const char *key = lua_tostring(L, 2);
    const char *text = text_of(info, key);
    lua_Integer count;
    if (strcmp(key, "tokenizer") == 0) {
        lua_getiuservalue(L, 1, 1);
    } else if (strcmp(key, "load_seconds") == 0) {
        lua_pushnumber(L, info->load_seconds);
    } else if (text) {
        lua_pushstring(L, text);
    } else if (count_of(info, key, &count)) {
        lua_pushinteger(L, count);
    } else {
        lua_pushnil(L);
    }
    return 1;
}

/* ---- Class ----------------------------------------------------------------------------------
 */

void cop_lua_open_model(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__gc", model_close},
                                    {"__close", model_close},
                                    {"__tostring", box_text},
                                    {NULL, NULL}};
    static const luaL_Reg methods[] = {
        {"close", model_close}, {"score", cop_lua_model_score}, {NULL, NULL}};
    cop_lua_class(L, COP_LUA_MODEL, meta);
    luaL_getmetatable(L, COP_LUA_MODEL);
    luaL_newlib(L, methods);
    lua_pushcclosure(L, model_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    lua_pushcfunction(L, model_new);
    lua_setfield(L, -3, "model");
}
