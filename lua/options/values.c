/* One value of Lua as the value of an option: numbers, lists, paths, objects. The texts about
 * types and ranges are those of core/base/option.c. */
#include "lua/home.h"
#include "lua/options/options.h"

#include <string.h>

struct place { /* where a value goes, and who asks */
    const struct cop_option *option;
    void *state;
    const char *owner;
    const char *source; /* of a rule's ranges; NULL: none */
    int keeper;
};

/* "an integer from 1 to 4095": what the setter's own refusal says is wanted. */
static const char *wanted(const struct place *place, struct cop_error *err)
{
    static const char *const objects[][2] = {{"propose", "a proposer (cop.propose.…)"},
                                             {"tree", "a tree builder (cop.tree.…)"},
                                             {"accept", "a rule (cop.accept.…)"},
                                             {"length", "a length policy (cop.length.…)"},
                                             {"any", "a value"}};
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        if (place->option->type == COP_OPTION_OBJECT &&
            strcmp(place->option->choices, objects[i][0]) == 0) {
            return objects[i][1];
        }
    }
    if (place->option->type == COP_OPTION_BOOL) {
        (void)cop_option_set_object(place->option, place->state, NULL, place->owner, err);
    } else {
        (void)cop_option_set_bool(place->option, place->state, true, place->owner, err);
    }
    char *end = strstr(err->text, ", got ");
    if (end) {
        *end = '\0';
    }
    const char *text = strstr(err->text, "must be ");
    return text ? text + strlen("must be ") : err->text;
}

/* " (Cai et al. 2024, arXiv:2401.10774)": who set the range that was passed. */
static const char *source_of(lua_State *L, const struct place *place)
{
    return place->source ? lua_pushfstring(L, " (%s)", place->source) : "";
}

static int wrong_type(lua_State *L, const struct place *place, const char *got)
{
    struct cop_error err = {0};
    return cop_lua_raise(L, "%s: option \"%s\" must be %s, got %s%s", place->owner,
                         place->option->name, wanted(place, &err), got, source_of(L, place));
}

static void must(lua_State *L, const struct place *place, enum cop_status status,
                 const struct cop_error *err)
{
    if (status != COP_OK) {
        cop_lua_raise(L, "%s%s", err->text,
                      strstr(err->text, "must be ") ? source_of(L, place) : "");
    }
}

/* The list at the top of the stack as int32s, in a scratch userdata that is pushed. */
static int32_t *read_ints(lua_State *L, const struct place *place, int list, int32_t *count)
{
    lua_Unsigned n = lua_rawlen(L, list);
    if (n > INT32_MAX / 8) {
        wrong_type(L, place, "a list that is too long");
    }
    int32_t *items = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *items, 0);
    for (lua_Unsigned i = 0; i < n; i++) {
        lua_rawgeti(L, list, (lua_Integer)i + 1);
        int is_integer = 0;
        lua_Integer value = 0;
        if (lua_type(L, -1) == LUA_TNUMBER) {
            value = lua_tointegerx(L, -1, &is_integer);
        }
        if (!is_integer || value <= INT32_MIN || value > INT32_MAX) {
            const char *got = cop_lua_got(L, -1);
            wrong_type(L, place, lua_pushfstring(L, "%s as entry %I", got, (LUAI_UACINT)i + 1));
        }
        items[i] = (int32_t)value;
        lua_pop(L, 1);
    }
    *count = (int32_t)n;
    return items;
}

static void set_ints(lua_State *L, const struct place *place, int list)
{
    int32_t count;
    const int32_t *items = read_ints(L, place, list, &count);
    struct cop_error err;
    must(L, place,
         cop_option_set_ints(place->option, place->state, items, count, place->owner, &err),
         &err);
    lua_pop(L, 1);
}

/* Number of ranks of the path at the top of the stack; writes them (from 0) when `ranks`. */
static int32_t read_path(lua_State *L, const struct place *place, int32_t *ranks)
{
    int path = lua_gettop(L);
    if (lua_type(L, path) == LUA_TSTRING) {
        size_t length;
        const char *digits = lua_tolstring(L, path, &length);
        for (size_t i = 0; i < length; i++) {
            if (digits[i] < '0' || digits[i] > '9') {
                wrong_type(L, place, lua_pushfstring(L, "\"%s\"", digits));
            }
            if (ranks) {
                ranks[i] = digits[i] - '0';
            }
        }
        return (int32_t)length;
    }
    if (lua_type(L, path) != LUA_TTABLE) {
        wrong_type(L, place, cop_lua_got(L, path));
    }
    int32_t count;
    const int32_t *items = read_ints(L, place, path, &count);
    int32_t first = place->option->type == COP_OPTION_PATHS ? 1 : 0;
    for (int32_t i = 0; ranks && i < count; i++) {
        ranks[i] = items[i] - first;
    }
    lua_settop(L, path);
    return count;
}

static void set_numbers(lua_State *L, const struct place *place, int list)
{
    lua_Unsigned n = lua_rawlen(L, list);
    if (n > COP_TREE_LIMIT) {
        cop_lua_raise(L, "%s: option \"%s\" has more than %d entries", place->owner,
                      place->option->name, COP_TREE_LIMIT);
    }
    double *items = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *items, 0);
    for (lua_Unsigned i = 0; i < n; i++) {
        lua_rawgeti(L, list, (lua_Integer)i + 1);
        if (lua_type(L, -1) != LUA_TNUMBER) {
            wrong_type(L, place, cop_lua_got(L, -1));
        }
        items[i] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    struct cop_error err;
    must(L, place,
         cop_option_set_numbers(place->option, place->state, items, (int32_t)n, place->owner,
                                &err),
         &err);
    lua_pop(L, 1);
}

static void set_paths(lua_State *L, const struct place *place, int list)
{
    lua_Unsigned n = lua_rawlen(L, list);
    size_t total = 0;
    for (lua_Unsigned i = 1; i <= n; i++) {
        lua_rawgeti(L, list, (lua_Integer)i);
        total += (size_t)read_path(L, place, NULL);
        lua_pop(L, 1);
    }
    lua_Unsigned most = place->option->type == COP_OPTION_PATHS ? COP_TREE_LIMIT : 1 << 20;
    if (n > most || total > (size_t)COP_TREE_LIMIT * COP_TREE_LIMIT) {
        cop_lua_raise(L, "%s: option \"%s\" has more than %d lists", place->owner,
                      place->option->name, (int)most);
    }
    int32_t *ranks = lua_newuserdatauv(L, (total + 1) * sizeof *ranks, 0);
    int32_t *lengths = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *lengths, 0);
    size_t used = 0;
    for (lua_Unsigned i = 0; i < n; i++) {
        lua_rawgeti(L, list, (lua_Integer)i + 1);
        lengths[i] = read_path(L, place, ranks + used);
        used += (size_t)lengths[i];
        lua_pop(L, 1);
    }
    struct cop_error err;
    must(L, place,
         cop_option_set_paths(place->option, place->state, ranks, lengths, (int32_t)n,
                              place->owner, &err),
         &err);
    lua_pop(L, 2);
}

/* What an object option of this type stores for the value at `index`; NULL: another type. What
 * has to stay alive for it is pushed. */
static void *borrow(lua_State *L, const struct place *place, int index)
{
    static const int kinds[] = {COP_PLUG_PROPOSER, COP_PLUG_BUILDER, COP_PLUG_RULE,
                                COP_PLUG_LENGTH};
    const char *type = place->option->choices;
    if (strcmp(type, "model") == 0 && luaL_testudata(L, index, COP_LUA_MODEL)) {
        struct cop_model *model = cop_lua_check_model(L, index, place->owner);
        cop_lua_push_model_keeper(L, model);
        return model;
    }
    lua_pushvalue(L, index);
    if (strcmp(type, "tokenizer") == 0 && luaL_testudata(L, index, COP_LUA_TOKENIZER)) {
        return cop_lua_check_tokenizer(L, index, place->owner);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        enum cop_plug_kind kind = (enum cop_plug_kind)kinds[i];
        if (strcmp(type, cop_plug_kind_name(kind)) == 0 &&
            luaL_testudata(L, index, cop_lua_part_class(kind))) {
            return cop_lua_check_part(L, index, kind);
        }
    }
    static char anything; /* a script's own value: only its presence counts in C */
    bool fits = strcmp(type, "any") == 0 || strcmp(type, luaL_typename(L, index)) == 0;
    return fits ? &anything : NULL;
}

static void set_object(lua_State *L, const struct place *place, int index)
{
    void *object = borrow(L, place, index);
    if (!object) {
        wrong_type(L, place, cop_lua_got(L, index));
    }
    struct cop_error err;
    must(L, place,
         cop_option_set_object(place->option, place->state, object, place->owner, &err), &err);
    if (place->keeper) {
        lua_setfield(L, place->keeper, place->option->name);
    } else {
        lua_pop(L, 1);
    }
}

static void set_string(lua_State *L, const struct place *place, int index)
{
    size_t length;
    const char *text = lua_tolstring(L, index, &length);
    if (strlen(text) != length) {
        cop_lua_raise(L, "%s: option \"%s\" must not contain a zero byte", place->owner,
                      place->option->name);
    }
    struct cop_error err;
    must(L, place, cop_option_set_string(place->option, place->state, text, place->owner, &err),
         &err);
}

/* Checks the value at `index` and stores it. */
static void set_value(lua_State *L, const struct place *place, int index)
{
    luaL_checkstack(L, 12, NULL);
    struct cop_error err;
    int type = lua_type(L, index);
    if (place->option->type == COP_OPTION_OBJECT) {
        set_object(L, place, index);
    } else if (type == LUA_TNUMBER) {
        must(L, place,
             cop_option_set_number(place->option, place->state, lua_tonumber(L, index),
                                   place->owner, &err),
             &err);
    } else if (type == LUA_TBOOLEAN) {
        must(L, place,
             cop_option_set_bool(place->option, place->state, lua_toboolean(L, index) != 0,
                                 place->owner, &err),
             &err);
    } else if (type == LUA_TSTRING) {
        set_string(L, place, index);
    } else if (type == LUA_TTABLE && (place->option->type == COP_OPTION_INTS ||
                                      place->option->type == COP_OPTION_VOCABULARY)) {
        set_ints(L, place, index);
    } else if (type == LUA_TTABLE && place->option->type == COP_OPTION_NUMBERS) {
        set_numbers(L, place, index);
    } else if (type == LUA_TTABLE && (place->option->type == COP_OPTION_PATHS ||
                                      place->option->type == COP_OPTION_LISTS)) {
        set_paths(L, place, index);
    } else {
        wrong_type(L, place, cop_lua_got(L, index));
    }
}

void cop_lua_option_set(lua_State *L, int index, const struct cop_option *option, void *state,
                        const char *owner, int keeper, const char *source)
{
    struct place place = {option, state, owner, source, keeper};
    set_value(L, &place, lua_absindex(L, index));
}

int cop_lua_option_missing(lua_State *L, const struct cop_option *option, const char *owner)
{
    struct cop_error err = {0};
    union {
        max_align_t aligned;
        char bytes[64];
    } scratch;
    struct place place = {.option = option, .state = &scratch, .owner = owner};
    bool is_anything = option->type == COP_OPTION_OBJECT && option->help &&
                       strcmp(option->choices, "any") == 0;
    return cop_lua_raise(L, "%s: option \"%s\" is required: %s", owner, option->name,
                         is_anything ? option->help : wanted(&place, &err));
}
