/* cop.accept.custom: an acceptance rule written in Lua.
 *
 *     verify = function(tree, target, draft, draws, state) … return nodes, last_token end
 *
 * What comes back is checked here, with a message for the person who wrote it: the nodes are a
 * path of the tree, the last token an id. Whether a token was drafted after a full path (bonus)
 * or not (recovered) follows from the path. State is a table of numbers for the script and an
 * array of them in the sequence's memory, so that the core can copy it. */
#include "lua/custom/custom.h"

#include "core/cycle/rule.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct number { /* no padding: the core may compare states as bytes */
    double value;
    int64_t is_integer;
};

/* The owned block. */
struct rule_block {
    struct cop_rule_ops ops;
    int32_t n_numbers;
    const struct number *initial;
};

struct rule_state {
    struct cop_custom custom;
    const struct rule_block *block;
};

struct rule_options {
    char *name;
    void *lossless_for, *initial, *verify;
};

static const struct cop_option rule_options[] = {
    {.name = "name",
     .type = COP_OPTION_STRING,
     .offset = offsetof(struct rule_options, name),
     .flags = COP_OPTION_REQUIRED,
     .help = "how results and messages call it"},
    {.name = "lossless_for",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct rule_options, lossless_for),
     .choices = "table",
     .help = "draws, or { draw =, shape =, temperature = }"},
    {.name = "state",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct rule_options, initial),
     .choices = "table",
     .help = "numbers that each sequence carries from cycle to cycle"},
    {.name = "verify",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct rule_options, verify),
     .choices = "function",
     .flags = COP_OPTION_REQUIRED,
     .help = "function(tree, target, draft, draws, state) that returns nodes, last token"},
    {0}};

#define OWNER "cop.accept.custom"

static void release_options(void *block)
{
    cop_option_release(rule_options, block);
}

/* ---- Claims ---------------------------------------------------------------------------------
 */

/* A string field of the claim at the top of the stack; NULL: absent. */
static const char *claim_text(lua_State *L, const char *key)
{
    lua_getfield(L, -1, key);
    if (!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TSTRING) {
        cop_lua_raise(L, OWNER ": lossless_for: \"%s\" must be a string, got %s", key,
                      cop_lua_got(L, -1));
    }
    const char *text = lua_tostring(L, -1);
    lua_pop(L, 1);
    return text; /* its table keeps it */
}

static enum cop_draw read_draw(lua_State *L, const char *name)
{
    if (name && strcmp(name, "any") == 0) {
        return COP_DRAW_COUNT;
    }
    const char *known[COP_DRAW_COUNT];
    size_t n = 0;
    for (int draw = COP_DRAW_INDEPENDENT; draw < COP_DRAW_COUNT; draw++) {
        known[n++] = cop_draw_name((enum cop_draw)draw);
    }
    enum cop_draw draw = name ? cop_draw_from_name(name) : COP_DRAW_COUNT;
    if (draw == COP_DRAW_COUNT || draw == COP_DRAW_AUTO) {
        cop_lua_unknown(L, OWNER ": lossless_for", "draw", name ? name : "", known, n);
    }
    return draw;
}

static enum cop_shape read_shape(lua_State *L, const char *name)
{
    static const char *const known[] = {"chain", "paths", "tree"};
    static const enum cop_shape shapes[] = {COP_SHAPE_CHAIN, COP_SHAPE_PATHS, COP_SHAPE_TREE};
    for (int i = 0; i < 3; i++) {
        if (!name || strcmp(name, known[i]) == 0) {
            return name ? shapes[i] : COP_SHAPE_TREE;
        }
    }
    cop_lua_unknown(L, OWNER ": lossless_for", "shape", name, known, 3);
    return COP_SHAPE_TREE;
}

static bool read_zero_only(lua_State *L, const char *name)
{
    static const char *const known[] = {"any", "zero"};
    if (name && strcmp(name, "any") != 0 && strcmp(name, "zero") != 0) {
        cop_lua_unknown(L, OWNER ": lossless_for", "temperature", name, known, 2);
    }
    return name && strcmp(name, "zero") == 0;
}

/* The claim at the top of the stack. */
static struct cop_claim read_claim(lua_State *L)
{
    static const char *const known[] = {"draw", "shape", "temperature"};
    if (lua_type(L, -1) == LUA_TSTRING) {
        return (struct cop_claim){.draw = read_draw(L, lua_tostring(L, -1)),
                                  .shape = COP_SHAPE_TREE};
    }
    if (lua_type(L, -1) != LUA_TTABLE) {
        cop_lua_raise(L, OWNER ": lossless_for: an entry must be a draw or a table, got %s",
                      cop_lua_got(L, -1));
    }
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        bool is_known = false;
        for (size_t i = 0; i < 3; i++) {
            is_known |= strcmp(key, known[i]) == 0;
        }
        if (!is_known) {
            cop_lua_unknown(L, OWNER ": lossless_for", "key", key, known, 3);
        }
    }
    return (struct cop_claim){.draw = read_draw(L, claim_text(L, "draw")),
                              .shape = read_shape(L, claim_text(L, "shape")),
                              .zero_only = read_zero_only(L, claim_text(L, "temperature"))};
}

/* Fills claims[0 .. n] (the last ends the list) from the list at `list`. */
static void read_claims(lua_State *L, int list, struct cop_claim *claims, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, list, (lua_Integer)i + 1);
        claims[i] = read_claim(L);
        lua_pop(L, 1);
    }
    claims[n] = (struct cop_claim){.draw = COP_DRAW_AUTO};
}

/* ---- State ----------------------------------------------------------------------------------
 */

/* The keys of the table at `index`, sorted as text, as a new list at the top. */
static void push_sorted_keys(lua_State *L, int index)
{
    lua_newtable(L);
    int list = lua_gettop(L);
    lua_Integer n = 0;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING && !lua_isinteger(L, -2)) {
            cop_lua_raise(L, OWNER ": state: keys must be names or integers, got %s",
                          cop_lua_got(L, -2));
        }
        if (lua_type(L, -1) != LUA_TNUMBER) {
            cop_lua_raise(L, OWNER ": state: values must be numbers, got %s",
                          cop_lua_got(L, -1));
        }
        lua_pushvalue(L, -2);
        const char *text = luaL_tolstring(L, -1, NULL);
        lua_Integer at = ++n;
        for (; at > 1; at--) {
            lua_rawgeti(L, list, at - 1);
            if (strcmp(luaL_tolstring(L, -1, NULL), text) <= 0) {
                lua_pop(L, 2);
                break;
            }
            lua_pop(L, 1);
            lua_rawseti(L, list, at);
        }
        lua_pop(L, 1);
        lua_rawseti(L, list, at);
    }
}

static struct number read_number(lua_State *L)
{
    return (struct number){.value = lua_tonumber(L, -1), .is_integer = lua_isinteger(L, -1)};
}

static void push_number(lua_State *L, const struct number *number)
{
    if (number->is_integer && fabs(number->value) < 9007199254740992.0) {
        lua_pushinteger(L, (lua_Integer)number->value);
    } else {
        lua_pushnumber(L, number->value);
    }
}

/* A table with the numbers of a sequence, at the top; the list of keys at `keys`. */
static void push_state(lua_State *L, int keys, const struct number *numbers, int32_t n)
{
    lua_createtable(L, 0, n);
    for (int32_t i = 0; i < n; i++) {
        lua_rawgeti(L, keys, i + 1);
        push_number(L, &numbers[i]);
        lua_rawset(L, -3);
    }
}

/* Checks everything before it writes anything back. */
static void pull_state(lua_State *L, int table, int keys, struct number *numbers, int32_t n)
{
    int32_t found = 0;
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        found++;
    }
    struct number *fresh = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *fresh, 0);
    for (int32_t i = 0; i < n; i++) {
        lua_rawgeti(L, keys, i + 1);
        lua_rawget(L, table);
        if (lua_type(L, -1) != LUA_TNUMBER) {
            const char *got = cop_lua_got(L, -1);
            lua_rawgeti(L, keys, i + 1);
            luaL_error(L, "state.%s must stay a number, got %s", luaL_tolstring(L, -1, NULL),
                       got);
        }
        fresh[i] = read_number(L);
        lua_pop(L, 1);
    }
    if (found != n) {
        luaL_error(L, "state has %d keys, began with %d: name all of them in the constructor",
                   (int)found, (int)n);
    }
    memcpy(numbers, fresh, (size_t)n * sizeof *fresh);
}

static void init_state(const void *state, void *sequence_state)
{
    const struct rule_block *block = ((const struct rule_state *)state)->block;
    memcpy(sequence_state, block->initial, (size_t)block->n_numbers * sizeof(struct number));
}

/* ---- Verify ---------------------------------------------------------------------------------
 */

struct verify_call {
    const struct rule_state *state;
    const struct cop_verify_in *in;
    struct cop_verdict *out;
};

static const struct cop_row *target_at(lua_State *L, const void *context, int32_t i, int32_t j)
{
    const struct cop_verify_in *in = context;
    (void)j;
    if (i >= in->tree->size) {
        cop_lua_raise(L, "target(%d): the tree has nodes 0 to %d", (int)i,
                      (int)in->tree->size - 1);
    }
    return cop_rows_at(&in->target, i);
}

/* The row of the children of node i: the one that its j-th child was drawn from. */
static const struct cop_row *draft_at(lua_State *L, const void *context, int32_t i, int32_t j)
{
    const struct cop_verify_in *in = context;
    if (i >= in->tree->size) {
        cop_lua_raise(L, "draft(%d): the tree has nodes 0 to %d", (int)i,
                      (int)in->tree->size - 1);
    }
    int32_t child = cop_tree_child(in->tree, i, j - 1);
    return child < 0 ? NULL : cop_rows_at(&in->draft, child);
}

/* The list at `index` as a path of the tree. */
static void take_path(lua_State *L, int index, const struct cop_tree *tree,
                      struct cop_verdict *out)
{
    if (lua_type(L, index) != LUA_TTABLE) {
        luaL_error(L,
                   "verify must return a list of nodes and the last token; the first value "
                   "is %s",
                   cop_lua_got(L, index));
    }
    lua_Unsigned n = lua_rawlen(L, index);
    int32_t above = 0;
    for (lua_Unsigned k = 0; k < n; k++) {
        lua_rawgeti(L, index, (lua_Integer)k + 1);
        int is_integer = 0;
        lua_Integer node = 0;
        if (lua_type(L, -1) == LUA_TNUMBER) {
            node = lua_tointegerx(L, -1, &is_integer);
        }
        if (!is_integer || node < 1 || node >= tree->size) {
            luaL_error(L,
                       "accepted node %d of verify's list is %s; this tree's nodes are 1 to "
                       "%d",
                       (int)k + 1, cop_lua_got(L, -1), (int)tree->size - 1);
        }
        if (tree->parent[node] != above) {
            luaL_error(L, "verify's list is no path: the parent of node %d is %d, not %d",
                       (int)node, (int)tree->parent[node], (int)above);
        }
        above = (int32_t)node;
        out->accepted[k] = above;
        lua_pop(L, 1);
    }
    out->n_accepted = (int32_t)n;
    out->origin = cop_tree_children(tree, above) == 0 ? COP_ORIGIN_BONUS : COP_ORIGIN_RECOVERED;
}

static int verify_body(lua_State *L)
{
    struct verify_call *call = lua_touserdata(L, 1);
    const struct rule_state *state = call->state;
    const struct cop_verify_in *in = call->in;
    struct cop_lua_home *home = state->custom.home;
    int32_t n_numbers = state->block->n_numbers;
    int32_t vocab = cop_rows_at(&in->target, 0)->vocab;
    if (!cop_custom_push(L, state, "verify")) {
        return luaL_error(L, "the rule's object is gone");
    }
    cop_lua_push_tree(L, home, in->tree, NULL);
    cop_custom_push_rows(L, home, target_at, in);
    cop_custom_push_rows(L, home, draft_at, in);
    cop_custom_push_draws(L, home, in->draws, in->tree, vocab);
    int keys = 0;
    if (n_numbers > 0 && cop_custom_push(L, state, "state_keys")) {
        keys = 2;
        lua_insert(L, keys); /* argument keys verify tree target draft draws */
        push_state(L, keys, in->sequence_state, n_numbers);
        lua_pushvalue(L, -1);
        lua_insert(L, 3); /* argument keys state verify … draws state */
    }
    int first = keys ? 4 : 2;
    lua_call(L, lua_gettop(L) - first, 2);
    int path = lua_gettop(L) - 1;
    take_path(L, path, in->tree, call->out);
    int is_integer = 0;
    lua_Integer last = -1;
    if (lua_type(L, path + 1) == LUA_TNUMBER) {
        last = lua_tointegerx(L, path + 1, &is_integer);
    }
    if (!is_integer || last < 0 || last >= vocab) {
        return luaL_error(L,
                          "verify must return the last token as its second value, an id "
                          "from 0 to %d; got %s",
                          (int)vocab - 1, cop_lua_got(L, path + 1));
    }
    call->out->last = (cop_token)last;
    if (keys) {
        pull_state(L, 3, keys, in->sequence_state, n_numbers);
    }
    return 0;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    struct verify_call call = {.state = state, .in = in, .out = out};
    return cop_custom_call(state, verify_body, &call, err);
}

/* ---- Constructor ----------------------------------------------------------------------------
 */

int cop_custom_rule(lua_State *L)
{
    cop_lua_one_table(L, OWNER);
    struct rule_options *how = cop_lua_guard(L, sizeof *how, release_options);
    lua_newtable(L); /* 1 options, 2 guard, 3 kept */
    cop_lua_options(L, 1, rule_options, how, OWNER, 3);
    size_t n_claims = 0, n_numbers = 0;
    if (how->lossless_for) {
        lua_getfield(L, 3, "lossless_for");
        n_claims = (size_t)lua_rawlen(L, -1);
        lua_pop(L, 1);
    }
    if (how->initial) {
        lua_getfield(L, 3, "state");
        push_sorted_keys(L, lua_gettop(L));
        n_numbers = (size_t)lua_rawlen(L, -1);
        lua_setfield(L, 3, "state_keys");
        lua_pop(L, 1);
    }
    size_t claims_at = sizeof(struct rule_block);
    size_t numbers_at = claims_at + (n_claims + 1) * sizeof(struct cop_claim);
    numbers_at = (numbers_at + 7) / 8 * 8;
    size_t size = numbers_at + n_numbers * sizeof(struct number);
    struct cop_lua_part *box = cop_custom_begin(L, COP_PLUG_RULE, size, how->name);
    int object = lua_gettop(L);
    lua_pushvalue(L, 3);
    lua_setiuservalue(L, object, 1);
    struct rule_block *block = (struct rule_block *)(void *)box->owned;
    struct cop_claim *claims = (struct cop_claim *)(void *)((char *)block + claims_at);
    struct number *numbers = (struct number *)(void *)((char *)block + numbers_at);
    lua_getfield(L, 3, "lossless_for");
    read_claims(L, lua_gettop(L), claims, n_claims);
    lua_getfield(L, 3, "state_keys");
    lua_getfield(L, 3, "state");
    for (size_t i = 0; i < n_numbers; i++) {
        lua_rawgeti(L, -2, (lua_Integer)i + 1);
        lua_rawget(L, -2);
        numbers[i] = read_number(L);
        lua_pop(L, 1);
    }
    lua_settop(L, object);
    block->initial = numbers;
    block->n_numbers = (int32_t)n_numbers;
    block->ops.lossless_for = claims;
    block->ops.verify = verify;
    block->ops.sequence_state_size = n_numbers * sizeof(struct number);
    block->ops.sequence_init = n_numbers ? init_state : NULL;
    block->ops.plug.state_size = sizeof(struct rule_state);
    cop_custom_finish(L, box);
    ((struct rule_state *)box->part->state)->block = block;
    return 1;
}
