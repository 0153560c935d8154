/* cop.tokenizer: text to ids and back. Strings may hold any bytes, zero included. */
#include "lua/home.h"

#include "core/text/chat/chat.h"
#include "lua/options/options.h"
#include <string.h>

struct tokenizer_box {
    struct cop_tokenizer *tokenizer; /* NULL: closed */
};

/* User value 1 of a tokenizer: its model's own chat function, or nil. */

struct cop_tokenizer *cop_lua_check_tokenizer(lua_State *L, int index, const char *owner)
{
    struct tokenizer_box *box = luaL_testudata(L, index, COP_LUA_TOKENIZER);
    if (!box) {
        cop_lua_raise(L, "%s: expected a tokenizer, got %s", owner, cop_lua_got(L, index));
    } else if (!box->tokenizer) {
        cop_lua_raise(L, "%s: this tokenizer is closed", owner);
    }
    return box ? box->tokenizer : NULL;
}

static struct tokenizer_box *push_box(lua_State *L)
{
    struct tokenizer_box *box = lua_newuserdatauv(L, sizeof *box, 1);
    box->tokenizer = NULL;
    luaL_setmetatable(L, COP_LUA_TOKENIZER);
    return box;
}

void cop_lua_push_tokenizer(lua_State *L, struct cop_tokenizer *tokenizer)
{
    push_box(L)->tokenizer = cop_tokenizer_share(tokenizer);
}

static int tokenizer_close(lua_State *L)
{
    struct tokenizer_box *box = luaL_checkudata(L, 1, COP_LUA_TOKENIZER);
    struct cop_tokenizer *tokenizer = box->tokenizer;
    box->tokenizer = NULL;
    cop_tokenizer_free(tokenizer);
    return 0;
}

static int tokenizer_text(lua_State *L)
{
    struct tokenizer_box *box = luaL_checkudata(L, 1, COP_LUA_TOKENIZER);
    if (!box->tokenizer) {
        lua_pushliteral(L, "cop.tokenizer (closed)");
    } else {
        lua_pushfstring(L, "cop.tokenizer (%d pieces)",
                        (int)cop_tokenizer_size(box->tokenizer));
    }
    return 1;
}

/* ---- Scratch that frees itself --------------------------------------------------------------
 */

static void release_ids(void *block)
{
    cop_ids_release(block);
}

static void release_text(void *block)
{
    cop_text_release(block);
}

static struct cop_ids *push_ids_guard(lua_State *L)
{
    return cop_lua_guard(L, sizeof(struct cop_ids), release_ids);
}

static struct cop_text *push_text_guard(lua_State *L)
{
    return cop_lua_guard(L, sizeof(struct cop_text), release_text);
}

/* ---- Methods --------------------------------------------------------------------------------
 */

static const char *check_text(lua_State *L, int index, size_t *length, const char *what)
{
    if (lua_type(L, index) != LUA_TSTRING) {
        cop_lua_raise(L, "%s must be a string, got %s", what, cop_lua_got(L, index));
    }
    return lua_tolstring(L, index, length);
}

static int tokenizer_encode(lua_State *L)
{
    static const struct cop_option options[] = {
        {.name = "special",
         .type = COP_OPTION_BOOL,
         .offset = offsetof(struct cop_encode_options, special),
         .help = "recognise the strings of control tokens"},
        {.name = "bos",
         .type = COP_OPTION_BOOL,
         .offset = offsetof(struct cop_encode_options, bos),
         .help = "put the beginning token in front"},
        {0}};
    const struct cop_tokenizer *tokenizer = cop_lua_check_tokenizer(L, 1, "tokenizer:encode");
    cop_lua_at_most(L, 3, "tokenizer:encode");
    size_t length;
    const char *text = check_text(L, 2, &length, "tokenizer:encode: the text");
    struct cop_encode_options how = {0};
    if (!lua_isnoneornil(L, 3)) {
        if (lua_type(L, 3) != LUA_TTABLE) {
            return cop_lua_raise(L, "tokenizer:encode: options must be a table, got %s",
                                 cop_lua_got(L, 3));
        }
        cop_lua_options(L, 3, options, &how, "tokenizer:encode", 0);
    }
    struct cop_ids *ids = push_ids_guard(L);
    struct cop_error err;
    if (cop_tokenizer_encode(tokenizer, text, length, how, ids, &err) != COP_OK) {
        return cop_lua_error_of(L, "tokenizer:encode", &err);
    }
    cop_lua_push_ids(L, ids->items, ids->count);
    cop_lua_guard_close(L, -2);
    return 1;
}

struct decode_options {
    bool special;
};

static int tokenizer_decode(lua_State *L)
{
    static const struct cop_option options[] = {
        {.name = "special",
         .type = COP_OPTION_BOOL,
         .offset = offsetof(struct decode_options, special),
         .fallback = 1,
         .help = "keep control tokens"},
        {0}};
    const struct cop_tokenizer *tokenizer = cop_lua_check_tokenizer(L, 1, "tokenizer:decode");
    cop_lua_at_most(L, 3, "tokenizer:decode");
    struct decode_options how = {.special = true};
    if (!lua_isnoneornil(L, 3)) {
        if (lua_type(L, 3) != LUA_TTABLE) {
            return cop_lua_raise(L, "tokenizer:decode: options must be a table, got %s",
                                 cop_lua_got(L, 3));
        }
        cop_lua_options(L, 3, options, &how, "tokenizer:decode", 0);
    }
    lua_settop(L, 3); /* the guards lie above what may be missing */
    struct cop_ids *ids = push_ids_guard(L);
    struct cop_text *text = push_text_guard(L);
    cop_lua_check_ids(L, 2, cop_tokenizer_size(tokenizer), "tokenizer:decode", ids);
    struct cop_error err;
    if (cop_tokenizer_decode(tokenizer, ids->items, ids->count, how.special, text, &err) !=
        COP_OK) {
        return cop_lua_error_of(L, "tokenizer:decode", &err);
    }
    lua_pushlstring(L, text->bytes ? text->bytes : "", text->length);
    cop_lua_guard_close(L, -2);
    cop_lua_guard_close(L, -3);
    return 1;
}

static int tokenizer_piece(lua_State *L)
{
    const struct cop_tokenizer *tokenizer = cop_lua_check_tokenizer(L, 1, "tokenizer:piece");
    cop_lua_at_most(L, 2, "tokenizer:piece");
    lua_Integer id = cop_lua_check_integer(L, 2, 0, cop_tokenizer_size(tokenizer) - 1,
                                           "tokenizer:piece: the token id");
    struct cop_string piece = cop_tokenizer_piece(tokenizer, (cop_token)id);
    lua_pushlstring(L, piece.length ? piece.bytes : "", piece.length);
    return 1;
}

static int tokenizer_id(lua_State *L)
{
    const struct cop_tokenizer *tokenizer = cop_lua_check_tokenizer(L, 1, "tokenizer:id");
    cop_lua_at_most(L, 2, "tokenizer:id");
    size_t length;
    const char *text = check_text(L, 2, &length, "tokenizer:id: the piece");
    cop_token id = cop_tokenizer_id(tokenizer, text, length);
    if (id < 0) {
        lua_pushnil(L);
    } else {
        lua_pushinteger(L, id);
    }
    return 1;
}

/* ---- Chat -----------------------------------------------------------------------------------
 */

struct chat_options {
    bool generation;
};

/* The strings of message i, kept alive by their table. */
static void read_message(lua_State *L, int list, lua_Integer i, struct cop_message *message)
{
    static const char *const known[] = {"role", "content"};
    lua_rawgeti(L, list, i);
    if (lua_type(L, -1) != LUA_TTABLE) {
        cop_lua_raise(L, "tokenizer:chat: message %I must be { role =, content = }, got %s",
                      (LUAI_UACINT)i, cop_lua_got(L, -1));
    }
    struct cop_string *parts[] = {&message->role, &message->content};
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        if (strcmp(key, "role") != 0 && strcmp(key, "content") != 0) {
            cop_lua_unknown(L, "tokenizer:chat", "key of a message:", key, known, 2);
        }
    }
    for (int k = 0; k < 2; k++) {
        lua_getfield(L, -1, known[k]);
        if (lua_type(L, -1) != LUA_TSTRING) {
            cop_lua_raise(L, "tokenizer:chat: %s of message %I must be a string, got %s",
                          known[k], (LUAI_UACINT)i, cop_lua_got(L, -1));
        }
        size_t length;
        const char *bytes = lua_tolstring(L, -1, &length);
        *parts[k] = (struct cop_string){.bytes = bytes, .length = length};
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

/* The model's own chat function: function(messages, options) → text. Its text at the top. */
static void call_chat_function(lua_State *L, bool generation)
{
    lua_pushvalue(L, 2);
    lua_createtable(L, 0, 1);
    cop_lua_set_boolean(L, "generation", generation);
    lua_call(L, 2, 1);
    if (lua_type(L, -1) != LUA_TSTRING) {
        cop_lua_raise(L,
                      "tokenizer:chat: the model's chat function must return a string, "
                      "returned %s",
                      cop_lua_got(L, -1));
    }
}

/* Pushes the text of the messages at 2; false: err is filled. */
static bool push_chat_text(lua_State *L, const struct cop_tokenizer *tokenizer, bool generation,
                           struct cop_error *err)
{
    size_t count = (size_t)lua_rawlen(L, 2);
    struct cop_message *messages = lua_newuserdatauv(L, (count + 1) * sizeof *messages, 0);
    for (size_t i = 0; i < count; i++) {
        read_message(L, 2, (lua_Integer)i + 1, &messages[i]);
    }
    if (lua_getiuservalue(L, 1, 1) == LUA_TFUNCTION) {
        call_chat_function(L, generation);
        return true;
    }
    struct cop_text *text = push_text_guard(L);
    if (cop_chat_render(tokenizer, messages, count, generation, text, err) != COP_OK) {
        return false;
    }
    lua_pushlstring(L, text->bytes ? text->bytes : "", text->length);
    cop_lua_guard_close(L, -2);
    return true;
}

static int tokenizer_chat(lua_State *L)
{
    static const struct cop_option options[] = {
        {.name = "generation",
         .type = COP_OPTION_BOOL,
         .offset = offsetof(struct chat_options, generation),
         .help = "open the assistant's answer"},
        {0}};
    const struct cop_tokenizer *tokenizer = cop_lua_check_tokenizer(L, 1, "tokenizer:chat");
    cop_lua_at_most(L, 3, "tokenizer:chat");
    if (lua_type(L, 2) != LUA_TTABLE) {
        return cop_lua_raise(L, "tokenizer:chat: expects a list of messages, got %s",
                             cop_lua_got(L, 2));
    }
    struct chat_options how = {0};
    if (!lua_isnoneornil(L, 3)) {
        if (lua_type(L, 3) != LUA_TTABLE) {
            return cop_lua_raise(L, "tokenizer:chat: options must be a table, got %s",
                                 cop_lua_got(L, 3));
        }
        cop_lua_options(L, 3, options, &how, "tokenizer:chat", 0);
    }
    struct cop_error err;
    if (!push_chat_text(L, tokenizer, how.generation, &err)) {
        return cop_lua_error_of(L, "tokenizer:chat", &err);
    }
    size_t length;
    const char *bytes = lua_tolstring(L, -1, &length);
    int text = lua_gettop(L);
    struct cop_ids *ids = push_ids_guard(L);
    struct cop_encode_options parse = {.special = true};
    if (cop_tokenizer_encode(tokenizer, bytes, length, parse, ids, &err) != COP_OK) {
        return cop_lua_error_of(L, "tokenizer:chat", &err);
    }
    lua_pushvalue(L, text);
    cop_lua_push_ids(L, ids->items, ids->count);
    cop_lua_guard_close(L, text + 1);
    return 2;
}

/* ---- Class ----------------------------------------------------------------------------------
 */

static const luaL_Reg methods[] = {{"encode", tokenizer_encode},
                                   {"decode", tokenizer_decode},
                                   {"piece", tokenizer_piece},
                                   {"chat", tokenizer_chat},
                                   {"id", tokenizer_id},
                                   {"close", tokenizer_close},
                                   {NULL, NULL}};

/* Fields first; methods are in the upvalue. */
static int tokenizer_index(lua_State *L)
{
    const struct tokenizer_box *box = luaL_checkudata(L, 1, COP_LUA_TOKENIZER);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL || lua_type(L, 2) != LUA_TSTRING) {
        return 1;
    }
    const char *key = lua_tostring(L, 2);
    if (!box->tokenizer) {
        return cop_lua_raise(L, "tokenizer: this tokenizer is closed");
    }
    if (strcmp(key, "size") == 0) {
        lua_pushinteger(L, cop_tokenizer_size(box->tokenizer));
    } else if (strcmp(key, "bos") == 0 && cop_tokenizer_bos(box->tokenizer) >= 0) {
        lua_pushinteger(L, cop_tokenizer_bos(box->tokenizer));
    } else if (strcmp(key, "adds_bos") == 0) {
        lua_pushboolean(L, cop_tokenizer_adds_bos(box->tokenizer));
    } else if (strcmp(key, "eos") == 0) {
        size_t count;
        const cop_token *eos = cop_tokenizer_eos(box->tokenizer, &count);
        cop_lua_push_ids(L, eos, count);
    } else {
        lua_pushnil(L);
    }
    return 1;
}

struct open_options {
    char *path;
};

static const struct cop_option open_options[] = {
    {.name = "path",
     .type = COP_OPTION_STRING,
     .offset = offsetof(struct open_options, path),
     .flags = COP_OPTION_REQUIRED | COP_OPTION_POSITIONAL,
     .help = "a GGUF file"},
    {0}};

static void release_open_options(void *block)
{
    cop_option_release(open_options, block);
}

static int tokenizer_new(lua_State *L)
{
    cop_lua_one_table(L, "cop.tokenizer");
    struct open_options *how =
        cop_lua_guard(L, sizeof(struct open_options), release_open_options);
    cop_lua_options(L, 1, open_options, how, "cop.tokenizer", 0);
    struct tokenizer_box *box = push_box(L);
    struct cop_error err;
    enum cop_status status = cop_tokenizer_open(&box->tokenizer, how->path, &err);
    if (status == COP_OK && !box->tokenizer) {
        status =
            cop_fail(&err, COP_ERR_FORMAT, "cop.tokenizer: %s has no tokenizer", how->path);
    }
    if (status != COP_OK) {
        return cop_lua_fail_of(L, "cop.tokenizer", &err);
    }
    return 1;
}

void cop_lua_open_tokenizer(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__gc", tokenizer_close},
                                    {"__close", tokenizer_close},
                                    {"__tostring", tokenizer_text},
                                    {NULL, NULL}};
    cop_lua_class(L, COP_LUA_TOKENIZER, meta);
    luaL_getmetatable(L, COP_LUA_TOKENIZER);
    luaL_newlib(L, methods);
    lua_pushcclosure(L, tokenizer_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    lua_pushcfunction(L, tokenizer_new);
    lua_setfield(L, -3, "tokenizer");
}
