/* cop.accept.custom: an acceptance rule written in Lua.
 *
 *     verify = function(tree, target, draft, draws, state) … return nodes, last_token end
 *
 * What comes back is checked here, with a message for the person who wrote it: the nodes are a
 * path of the tree, the last token an id. Whether a token was drafted after a full path (bonus)
 * or not (recovered) follows from the path. State is a table of numbers for the script and an
 * array of them in the sequence's memory, so that the core can copy it. */
#include "lua/custom/custom.h"

#include "core/cycle/contract/rule.h"
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
    bool shares_noise;
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
    {.name = "shares_noise",
     .type = COP_OPTION_BOOL,
     .offset = offsetof(struct rule_options, shares_noise),
     .help = "chains are drafted with the noise of draws:race(\"shared\", node, row, 1)"},
    {0}};

#define OWNER "cop.accept.custom"

static void release_options(void *block)
{
    cop_option_release(rule_options, block);
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
        if (cop_tree_is_ancestor(tree, (int32_t)node, above)) {
            luaL_error(L, "node %d is twice in verify's list", (int)node);
        }
        if (tree->parent[node] != above) {
            luaL_error(L, "verify's list is no path: the parent of node %d is %d, not %d",
                       (int)node, (int)tree->parent[node], (int)above);
        }
        above = (int32_t)node;
        out->accepted[k] = above;
        lua_pop(L, 1);
    }
    int32_t n_keys = 0;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        n_keys++;
    }
    if (n_keys != (int32_t)n) {
        luaL_error(L, "verify's first value is no list: it has holes, or keys that are not 1, "
                      "2, ...");
    }
    out->n_accepted = (int32_t)n;
    out->origin = cop_tree_children(tree, above) == 0 ? COP_ORIGIN_BONUS : COP_ORIGIN_RECOVERED;
}

static cop_token take_last(lua_State *L, int index, int32_t vocab)
{
    int is_integer = 0;
    lua_Integer last = -1;
    if (lua_type(L, index) == LUA_TNUMBER) {
        last = lua_tointegerx(L, index, &is_integer);
    }
    if (!is_integer || last < 0 || last >= vocab) {
        luaL_error(L,
                   "verify must return the last token as its second value, an id from 0 to "
                   "%d; got %s",
                   (int)vocab - 1, cop_lua_got(L, index));
    }
    return (cop_token)last;
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
    cop_custom_push_draws(L, home, in->draws, in->tree, in->position, vocab);
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
    call->out->last = take_last(L, path + 1, vocab);
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

/* The parts of the owned block: ops and numbers of the rule, claims, initial state. */
struct plan {
    size_t n_claims, n_numbers;
    size_t claims_at, numbers_at, size;
};

/* Measures what the table of kept values at `kept` asks for; enters the sorted keys of the
 * state as "state_keys". */
static struct plan measure(lua_State *L, int kept, const struct rule_options *how)
{
    struct plan plan = {.claims_at = sizeof(struct rule_block)};
    if (how->lossless_for) {
        lua_getfield(L, kept, "lossless_for");
        plan.n_claims = (size_t)lua_rawlen(L, -1);
        lua_pop(L, 1);
    }
    if (how->initial) {
        lua_getfield(L, kept, "state");
        push_sorted_keys(L, lua_gettop(L));
        plan.n_numbers = (size_t)lua_rawlen(L, -1);
        lua_setfield(L, kept, "state_keys");
        lua_pop(L, 1);
    }
    size_t end = plan.claims_at + (plan.n_claims + 1) * sizeof(struct cop_claim);
    plan.numbers_at = (end + 7) / 8 * 8;
    plan.size = plan.numbers_at + plan.n_numbers * sizeof(struct number);
    return plan;
}

static void fill_block(lua_State *L, int kept, const struct plan *plan,
                       struct rule_block *block)
{
    struct cop_claim *claims = (struct cop_claim *)(void *)((char *)block + plan->claims_at);
    struct number *numbers = (struct number *)(void *)((char *)block + plan->numbers_at);
    int top = lua_gettop(L);
    lua_getfield(L, kept, "lossless_for");
    cop_custom_read_claims(L, lua_gettop(L), claims, plan->n_claims);
    lua_getfield(L, kept, "state_keys");
    lua_getfield(L, kept, "state");
    for (size_t i = 0; i < plan->n_numbers; i++) {
        lua_rawgeti(L, -2, (lua_Integer)i + 1);
        lua_rawget(L, -2);
        numbers[i] = read_number(L);
        lua_pop(L, 1);
    }
    lua_settop(L, top);
    block->initial = numbers;
    block->n_numbers = (int32_t)plan->n_numbers;
    block->ops.lossless_for = claims;
    block->ops.several_rows = true; /* draft(i, j) is there to be asked */
    block->ops.verify = verify;
    block->ops.sequence_state_size = plan->n_numbers * sizeof(struct number);
    block->ops.sequence_init = plan->n_numbers ? init_state : NULL;
    block->ops.plug.state_size = sizeof(struct rule_state);
}

int cop_custom_rule(lua_State *L)
{
    cop_lua_one_table(L, OWNER);
    struct rule_options *how = cop_lua_guard(L, sizeof *how, release_options);
    lua_newtable(L); /* 1 options, 2 guard, 3 kept */
    cop_lua_options(L, 1, rule_options, how, OWNER, 3);
    struct plan plan = measure(L, 3, how);
    struct cop_lua_part *box = cop_custom_begin(L, COP_PLUG_RULE, plan.size, how->name);
    lua_pushvalue(L, 3);
    lua_setiuservalue(L, -2, 1);
    struct rule_block *block = (struct rule_block *)(void *)box->owned;
    fill_block(L, 3, &plan, block);
    block->ops.shares_noise = how->shares_noise;
    cop_custom_finish(L, box);
    ((struct rule_state *)box->part->state)->block = block;
    return 1;
}
