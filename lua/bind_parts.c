/* Constructors of everything registered: cop.propose.*, cop.tree.*, cop.accept.*, cop.length.*.
 *
 * A constructor is made from the plug's option table and nothing else. The object that it
 * returns holds one reference to a part; what the options borrow (models) is kept in the
 * object's user value. Asking a kind's table for a name that it lacks raises with the nearest
 * known one. */
#include "lua/home.h"
#include "lua/options/options.h"

#include "core/cycle/contract/rule.h"

#include <stdlib.h>
#include <string.h>

static const enum cop_plug_kind kinds[] = {COP_PLUG_PROPOSER, COP_PLUG_BUILDER, COP_PLUG_RULE,
                                           COP_PLUG_LENGTH};
#define N_KINDS (sizeof kinds / sizeof *kinds)

const char *cop_lua_part_class(enum cop_plug_kind kind)
{
    switch (kind) {
    case COP_PLUG_PROPOSER: return "coppice.propose";
    case COP_PLUG_BUILDER: return "coppice.tree_builder";
    case COP_PLUG_RULE: return "coppice.accept";
    case COP_PLUG_LENGTH: return "coppice.length";
    case COP_PLUG_OBSERVER:
    case COP_PLUG_KINDS: break;
    }
    return "coppice.observe";
}

/* ---- The object -----------------------------------------------------------------------------
 */

struct cop_lua_part *cop_lua_part_new(lua_State *L, enum cop_plug_kind kind)
{
    luaL_checkstack(L, 4, NULL);
    struct cop_lua_part *box = lua_newuserdatauv(L, sizeof *box, 1);
    *box = (struct cop_lua_part){0};
    luaL_setmetatable(L, cop_lua_part_class(kind));
    lua_newtable(L);
    lua_setiuservalue(L, -2, 1);
    return box;
}

static int part_gc(lua_State *L)
{
    struct cop_lua_part *box = lua_touserdata(L, 1);
    cop_part_free(box->part);
    free(box->owned);
    *box = (struct cop_lua_part){0};
    return 0;
}

struct cop_part *cop_lua_check_part(lua_State *L, int index, enum cop_plug_kind kind)
{
    struct cop_lua_part *box = luaL_testudata(L, index, cop_lua_part_class(kind));
    if (!box || !box->part) {
        cop_lua_raise(L, "expected a cop.%s object, got %s", cop_plug_kind_name(kind),
                      cop_lua_got(L, index));
    }
    return box ? box->part : NULL;
}

/* The part at `index`, of whatever kind, or NULL. */
static struct cop_lua_part *test_part(lua_State *L, int index)
{
    struct cop_lua_part *box = NULL;
    for (size_t i = 0; i < N_KINDS && !box; i++) {
        box = luaL_testudata(L, index, cop_lua_part_class(kinds[i]));
    }
    return box && box->part ? box : NULL;
}

/* ---- Printing -------------------------------------------------------------------------------
 */

/* Bytes that cop_option_print may need. */
static size_t room_for(const struct cop_option *option, const void *state)
{
    const char *slot = (const char *)state + option->offset;
    switch (option->type) {
    case COP_OPTION_INTS: return (size_t)((const struct cop_int_list *)slot)->count * 14 + 16;
    case COP_OPTION_NUMBERS:
        return (size_t)((const struct cop_number_list *)slot)->count * 28 + 16;
    case COP_OPTION_LISTS: return 64;
    case COP_OPTION_PATHS: {
        const struct cop_path_list *paths = (const struct cop_path_list *)slot;
        size_t ranks = paths->count ? (size_t)paths->starts[paths->count] : 0;
        return ranks * 14 + (size_t)paths->count * 4 + 16;
    }
    case COP_OPTION_STRING: {
        const char *text = *(char *const *)slot;
        return text ? strlen(text) * 4 + 16 : 16;
    }
    case COP_OPTION_INT:
    case COP_OPTION_NUMBER:
    case COP_OPTION_BOOL:
    case COP_OPTION_CHOICE:
    case COP_OPTION_VOCABULARY:
    case COP_OPTION_OBJECT: break;
    }
    return 128;
}

/* Pushes "depth = 5", or "4, 2, 2" for a positional list; keeper: table at that index. */
static void push_setting(lua_State *L, const struct cop_option *option, const void *state,
                         int keeper)
{
    if (option->type == COP_OPTION_OBJECT) {
        lua_getfield(L, keeper, option->name);
        lua_pushfstring(L, "%s = %s", option->name, luaL_tolstring(L, -1, NULL));
        lua_replace(L, -3);
        lua_pop(L, 1);
        return;
    }
    size_t room = room_for(option, state);
    char *text = lua_newuserdatauv(L, room, 0);
    cop_option_print(option, state, text, room);
    bool is_list = option->type == COP_OPTION_INTS || option->type == COP_OPTION_NUMBERS ||
                   option->type == COP_OPTION_PATHS;
    size_t length = strlen(text);
    if (is_list && (option->flags & COP_OPTION_POSITIONAL) && length >= 2) {
        lua_pushlstring(L, text + 1, length - 2);
    } else {
        lua_pushfstring(L, "%s = %s", option->name, text);
    }
    lua_remove(L, -2);
}

/* cop.tree.chain { depth = 5 } */
static int part_text(lua_State *L)
{
    const struct cop_lua_part *box = lua_touserdata(L, 1);
    if (!box->part) {
        lua_pushliteral(L, "part (unfinished)");
        return 1;
    }
    const struct cop_plug *plug = box->part->plug;
    const char *kind = cop_plug_kind_name(plug->kind);
    if (box->owned) {
        lua_pushfstring(L, "cop.%s.custom { name = \"%s\" }", kind, plug->name);
        return 1;
    }
    lua_settop(L, 1);
    lua_getiuservalue(L, 1, 1);
    lua_pushfstring(L, "cop.%s.%s {", kind, plug->name);
    bool is_first = true;
    for (const struct cop_option *o = plug->options; o && o->name; o++) {
        if (cop_option_is_absent(o, box->part->state)) {
            continue;
        }
        lua_pushstring(L, is_first ? " " : ", ");
        push_setting(L, o, box->part->state, 2);
        lua_concat(L, 3);
        is_first = false;
    }
    lua_pushstring(L, is_first ? "}" : " }");
    lua_concat(L, 2);
    return 1;
}

/* part.name, part.kind */
static int part_index(lua_State *L)
{
    const struct cop_lua_part *box = lua_touserdata(L, 1);
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (box->part && strcmp(key, "name") == 0) {
        lua_pushstring(L, box->part->plug->name);
    } else if (box->part && strcmp(key, "kind") == 0) {
        lua_pushstring(L, cop_plug_kind_name(box->part->plug->kind));
    } else {
        lua_pushnil(L);
    }
    return 1;
}

/* ---- Constructors ---------------------------------------------------------------------------
 */

/* Pushes the registry's table of that key, a new one at first. */
static void push_kept(lua_State *L, const void *key)
{
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, key) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, key);
    }
}

/* The text at the top of the stack as a warning of Lua's, each text once. */
static void warn_once(lua_State *L)
{
    const char *text = lua_tostring(L, -1);
    static const char told_key = 0;
    push_kept(L, &told_key);
    if (lua_getfield(L, -1, text) == LUA_TNIL) {
        lua_warning(L, text, 0);
        lua_pushboolean(L, true);
        lua_setfield(L, -3, text);
    }
    lua_pop(L, 3);
}

/* Key of the last failures, by kind of part. */
static const char failures_key = 0;

/* Remembers the text at `index`, or nil, as the last failure of that kind. */
static void note_failure(lua_State *L, const struct cop_plug *plug, int index)
{
    index = lua_absindex(L, index);
    push_kept(L, &failures_key);
    lua_pushvalue(L, index);
    lua_setfield(L, -2, cop_plug_kind_name(plug->kind));
    lua_pop(L, 1);
}

/* Upvalues: the plug, "cop.tree.chain". */
static int construct(lua_State *L)
{
    const struct cop_plug *plug = lua_touserdata(L, lua_upvalueindex(1));
    const char *owner = lua_tostring(L, lua_upvalueindex(2));
    cop_lua_one_table(L, owner);
    struct cop_lua_part *box = cop_lua_part_new(L, plug->kind);
    lua_getiuservalue(L, 2, 1);
    struct cop_error err = {0};
    box->part = cop_part_new(plug);
    if (!box->part) {
        (void)cop_fail(&err, COP_ERR_MEMORY, "%s: no memory", owner);
        return cop_lua_error(L, &err);
    }
    cop_lua_options_from(L, 1, plug->options, box->part->state, owner, 3,
                         plug->kind == COP_PLUG_RULE ? plug->source : NULL);
    if (cop_part_prepare(box->part, &err) != COP_OK) {
        int n = cop_lua_error_of(L, owner, &err); /* nil, message, code */
        note_failure(L, plug, -2);
        lua_pushfstring(L,
                        "%s (nil is returned, and an option with nil is one that is not "
                        "given: assert(%s { ... }) stops here)",
                        lua_tostring(L, -2), owner);
        warn_once(L);
        return n;
    }
    lua_settop(L, 2);
    lua_pushnil(L);
    note_failure(L, plug, -1);
    lua_pop(L, 1);
    if (err.code == COP_OK && err.text[0]) {
        lua_pushfstring(L, "%s: %s", owner, err.text);
        warn_once(L);
    }
    return 1;
}

/* cop.accept.tokn: upvalue 1 is "cop.accept". */
static int unknown_part(lua_State *L)
{
    const char *owner = lua_tostring(L, lua_upvalueindex(1));
    if (lua_type(L, 2) != LUA_TSTRING) {
        return cop_lua_raise(L, "%s: unknown name [%s]", owner, cop_lua_got(L, 2));
    }
    size_t count = 0;
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        count++;
    }
    const char **known = lua_newuserdatauv(L, (count + 1) * sizeof *known, 0);
    size_t n = 0;
    for (lua_pushnil(L); n < count && lua_next(L, 1); lua_pop(L, 1)) {
        if (lua_type(L, -2) == LUA_TSTRING) { /* sorted: pairs has no order of its own */
            const char *name = lua_tostring(L, -2);
            size_t at = n++;
            for (; at > 0 && strcmp(known[at - 1], name) > 0; at--) {
                known[at] = known[at - 1];
            }
            known[at] = name;
        }
    }
    return cop_lua_unknown(L, owner, "name", lua_tostring(L, 2), known, n);
}

void cop_lua_enter_parts(lua_State *L, int module, size_t first)
{
    const struct cop_registry *registry = cop_lua_registry(L);
    module = lua_absindex(L, module);
    for (size_t i = first; i < registry->count; i++) {
        const struct cop_plug *plug = registry->plugs[i];
        if (plug->kind == COP_PLUG_OBSERVER) {
            continue;
        }
        union { /* a table of functions that nobody writes to */
            const struct cop_plug *table;
            void *pointer;
        } lent = {.table = plug};
        const char *kind = cop_plug_kind_name(plug->kind);
        lua_getfield(L, module, kind);
        lua_pushstring(L, plug->name);
        lua_pushlightuserdata(L, lent.pointer);
        lua_pushfstring(L, "cop.%s.%s", kind, plug->name);
        lua_pushcclosure(L, construct, 2);
        lua_rawset(L, -3);
        lua_pop(L, 1);
    }
}

/* ---- What scripts of ours ask ---------------------------------------------------------------
 */

static void push_option(lua_State *L, const struct cop_option *option)
{
    lua_createtable(L, 0, 7);
    cop_lua_set_string(L, "name", option->name);
    cop_lua_set_option_text(L, option);
    cop_lua_set_boolean(L, "positional", option->flags & COP_OPTION_POSITIONAL);
    cop_lua_set_boolean(L, "required", option->flags & COP_OPTION_REQUIRED);
    if (option->type == COP_OPTION_INT || option->type == COP_OPTION_NUMBER) {
        cop_lua_set_number(L, "low", option->min);
        cop_lua_set_number(L, "high", option->max);
        cop_lua_set_boolean(L, "whole", option->type == COP_OPTION_INT);
    }
}

/* What a rule says of itself: lossless, defined, promise, cost. */
static void push_rule(lua_State *L, const struct cop_rule_ops *rule)
{
    char text[256];
    cop_claims_list(rule->lossless_for, text, sizeof text);
    cop_lua_set_string(L, "lossless", text);
    cop_claims_list(rule->defined_for, text, sizeof text);
    cop_lua_set_string(L, "defined", text);
    cop_lua_set_string(L, "promise", rule->promise);
    cop_lua_set_string(L, "cost", rule->cost);
}

/* What a builder says of itself: draws = { name = true, … }. */
static void push_builder(lua_State *L, const struct cop_builder_ops *builder)
{
    lua_createtable(L, 0, COP_DRAW_COUNT);
    for (int draw = COP_DRAW_INDEPENDENT; draw < COP_DRAW_COUNT; draw++) {
        if (builder->draws & COP_DRAW_BIT(draw)) {
            cop_lua_set_boolean(L, cop_draw_name((enum cop_draw)draw), true);
        }
    }
    lua_setfield(L, -2, "draws");
}

/* core.draws(): the names of the ways to pick children. */
static int core_draws(lua_State *L)
{
    lua_createtable(L, COP_DRAW_COUNT, 0);
    for (int draw = COP_DRAW_INDEPENDENT; draw < COP_DRAW_COUNT; draw++) {
        lua_pushstring(L, cop_draw_name((enum cop_draw)draw));
        lua_rawseti(L, -2, draw - COP_DRAW_INDEPENDENT + 1);
    }
    return 1;
}

/* core.parts(): { { kind =, name =, help =, source =, synonyms =, options = { { name =, text =
 * }, … } }, … } in order of registration. */
static int core_parts(lua_State *L)
{
    const struct cop_registry *registry = cop_lua_registry(L);
    lua_createtable(L, (int)registry->count, 0);
    for (size_t i = 0; i < registry->count; i++) {
        const struct cop_plug *plug = registry->plugs[i];
        lua_createtable(L, 0, 10);
        cop_lua_set_string(L, "kind", cop_plug_kind_name(plug->kind));
        cop_lua_set_string(L, "name", plug->name);
        cop_lua_set_string(L, "help", plug->help);
        cop_lua_set_string(L, "source", plug->source);
        cop_lua_set_string(L, "synonyms", plug->synonyms);
        if (plug->kind == COP_PLUG_RULE) {
            push_rule(L, (const struct cop_rule_ops *)plug);
        } else if (plug->kind == COP_PLUG_BUILDER) {
            push_builder(L, (const struct cop_builder_ops *)plug);
        }
        lua_newtable(L);
        for (lua_Integer n = 0; plug->options && plug->options[n].name; n++) {
            push_option(L, &plug->options[n]);
            lua_rawseti(L, -2, n + 1);
        }
        lua_setfield(L, -2, "options");
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* core.part(value): { kind =, name =, text = } or nil. */
static int core_part(lua_State *L)
{
    const struct cop_lua_part *box = test_part(L, 1);
    if (!box) {
        lua_pushnil(L);
        return 1;
    }
    lua_createtable(L, 0, 3);
    cop_lua_set_string(L, "kind", cop_plug_kind_name(box->part->plug->kind));
    cop_lua_set_string(L, "name", box->part->plug->name);
    luaL_tolstring(L, 1, NULL);
    lua_setfield(L, -2, "text");
    return 1;
}

/* core.failed_part("propose"): why the last one that a script wanted is nil, told once; nil: it
 * is there. */
static int core_failed_part(lua_State *L)
{
    const char *kind = luaL_checkstring(L, 1);
    push_kept(L, &failures_key);
    lua_getfield(L, -1, kind);
    lua_pushnil(L);
    lua_setfield(L, -3, kind);
    return 1;
}

void cop_lua_open_parts(lua_State *L)
{
    static const luaL_Reg meta[] = {
        {"__gc", part_gc}, {"__tostring", part_text}, {"__index", part_index}, {NULL, NULL}};
    for (size_t i = 0; i < N_KINDS; i++) {
        const char *kind = cop_plug_kind_name(kinds[i]);
        cop_lua_class(L, cop_lua_part_class(kinds[i]), meta);
        lua_newtable(L);
        lua_createtable(L, 0, 1);
        lua_pushfstring(L, "cop.%s", kind);
        lua_pushcclosure(L, unknown_part, 1);
        lua_setfield(L, -2, "__index");
        lua_setmetatable(L, -2);
        lua_setfield(L, -3, kind);
    }
    cop_lua_enter_parts(L, -2, 0);
    lua_pushcfunction(L, core_parts);
    lua_setfield(L, -2, "parts");
    lua_pushcfunction(L, core_draws);
    lua_setfield(L, -2, "draws");
    lua_pushcfunction(L, core_part);
    lua_setfield(L, -2, "part");
    lua_pushcfunction(L, core_failed_part);
    lua_setfield(L, -2, "failed_part");
    cop_lua_open_custom(L);
    cop_lua_open_plugin(L);
}
