/* cop.tree.custom and cop.length.custom: the shape of the guess, decided by a script.
 *
 *     grow   = function(tree, rows, budget)   once per level; tree:draw(parent, k) or
 *                                             tree:add(parent, id); false ends the growth
 *     decide = function(state)                before each level; true to go on
 *
 * rows(i) of grow is the row for the children of node i, one of tree:frontier(). state.rows(i)
 * is the row that node i's own token was drawn from: a policy may look back, never ahead. */
#include "lua/custom/custom.h"

#include "core/cycle/contract/builder.h"
#include "core/cycle/contract/length.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tree builder ---------------------------------------------------------------------------
 */

struct tree_block {
    struct cop_builder_ops ops;
    int32_t depth, nodes;
    enum cop_shape shape;
};

struct tree_state {
    struct cop_custom custom;
    const struct tree_block *block;
};

struct tree_options {
    char *name;
    int32_t depth, nodes, shape;
    void *grow;
};

static const struct cop_option tree_options[] = {
    {.name = "name",
     .type = COP_OPTION_STRING,
     .offset = offsetof(struct tree_options, name),
     .flags = COP_OPTION_REQUIRED,
     .help = "how results and messages call it"},
    {.name = "depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct tree_options, depth),
     .min = 1,
     .max = COP_TREE_LIMIT,
     .fallback = 16,
     .help = "levels below the root at most"},
    {.name = "nodes",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct tree_options, nodes),
     .min = 1,
     .max = COP_TREE_LIMIT,
     .fallback = 64,
     .help = "drafted nodes at most"},
    {.name = "shape",
     .type = COP_OPTION_CHOICE,
     .offset = offsetof(struct tree_options, shape),
     .choices = "tree|chain",
     .help = "chain: one child a node, which more rules are lossless for"},
    {.name = "grow",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct tree_options, grow),
     .choices = "function",
     .flags = COP_OPTION_REQUIRED,
     .help = "function(tree, rows, budget), called for each level"},
    {0}};

static void release_tree_options(void *block)
{
    cop_option_release(tree_options, block);
}

static enum cop_shape tree_shape(const void *state)
{
    return ((const struct tree_state *)state)->block->shape;
}

static int32_t tree_depth(const void *state)
{
    return ((const struct tree_state *)state)->block->depth;
}

static int32_t tree_nodes(const void *state)
{
    return ((const struct tree_state *)state)->block->nodes;
}

static const struct cop_row *frontier_row(lua_State *L, const void *context, int32_t i,
                                          int32_t j)
{
    (void)L;
    const struct cop_grow *grow = context;
    int32_t stride = grow->n_drafters > 1 ? grow->n_drafters : 1;
    int32_t drafter = j < stride ? j - 1 : stride - 1;
    for (int32_t k = 0; k < grow->n_frontier; k++) {
        if (grow->frontier[k] == i) {
            while (drafter > 0 && grow->rows[k * stride + drafter].kind == COP_ROW_NONE) {
                drafter--;
            }
            return &grow->rows[k * stride + drafter];
        }
    }
    return NULL;
}

struct grow_call {
    const struct tree_state *state;
    struct cop_grow *grow;
};

static int grow_body(lua_State *L)
{
    const struct grow_call *call = lua_touserdata(L, 1);
    struct cop_grow *grow = call->grow;
    struct cop_lua_home *home = call->state->custom.home;
    if (!cop_custom_push(L, call->state, "grow")) {
        return luaL_error(L, "the tree builder's object is gone");
    }
    cop_lua_push_tree(L, home, grow->tree, grow);
    cop_custom_push_rows(L, home, frontier_row, grow);
    lua_pushinteger(L, grow->budget);
    lua_call(L, 3, 1);
    if (lua_isboolean(L, -1) && !lua_toboolean(L, -1)) {
        grow->n_next = 0;
    }
    for (int32_t i = 0; call->state->block->shape == COP_SHAPE_CHAIN && i < grow->n_frontier;
         i++) {
        int32_t children = cop_tree_children(grow->tree, grow->frontier[i]);
        if (children > 1) {
            return luaL_error(L,
                              "grow gave node %d %d children, and shape = \"chain\" allows "
                              "one",
                              (int)grow->frontier[i], (int)children);
        }
    }
    return 0;
}

static enum cop_status tree_grow(const void *state, struct cop_grow *grow,
                                 struct cop_error *err)
{
    struct grow_call call = {.state = state, .grow = grow};
    return cop_custom_call(state, grow_body, &call, err);
}

int cop_custom_tree(lua_State *L)
{
    cop_lua_one_table(L, "cop.tree.custom");
    struct tree_options *how = cop_lua_guard(L, sizeof *how, release_tree_options);
    cop_option_defaults(tree_options, how);
    lua_newtable(L); /* 1 options, 2 guard, 3 kept */
    cop_lua_options(L, 1, tree_options, how, "cop.tree.custom", 3);
    struct cop_lua_part *box =
        cop_custom_begin(L, COP_PLUG_BUILDER, sizeof(struct tree_block), how->name);
    lua_pushvalue(L, 3);
    lua_setiuservalue(L, -2, 1);
    struct tree_block *block = (struct tree_block *)(void *)box->owned;
    block->depth = how->depth;
    block->nodes = how->nodes;
    block->shape = how->shape == 1 ? COP_SHAPE_CHAIN : COP_SHAPE_TREE;
    block->ops.draws = COP_DRAW_BIT(COP_DRAW_INDEPENDENT) |
                       COP_DRAW_BIT(COP_DRAW_WITHOUT_REPLACEMENT) |
                       COP_DRAW_BIT(COP_DRAW_DETERMINISTIC) | COP_DRAW_BIT(COP_DRAW_GREEDY) |
                       COP_DRAW_BIT(COP_DRAW_HUB_PAIR);
    block->ops.shape = tree_shape;
    block->ops.depth = tree_depth;
    block->ops.nodes = tree_nodes;
    block->ops.grow = tree_grow;
    block->ops.plug.state_size = sizeof(struct tree_state);
    cop_custom_finish(L, box);
    ((struct tree_state *)box->part->state)->block = block;
    return 1;
}

/* ---- Length policy --------------------------------------------------------------------------
 */

struct length_state {
    struct cop_custom custom;
};

struct length_options {
    char *name;
    void *decide;
};

static const struct cop_option length_options[] = {
    {.name = "name",
     .type = COP_OPTION_STRING,
     .offset = offsetof(struct length_options, name),
     .flags = COP_OPTION_REQUIRED,
     .help = "how results and messages call it"},
    {.name = "decide",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct length_options, decide),
     .choices = "function",
     .flags = COP_OPTION_REQUIRED,
     .help = "function(state), called before each level; true to go on"},
    {0}};

static void release_length_options(void *block)
{
    cop_option_release(length_options, block);
}

struct decide_call {
    const struct length_state *state;
    const struct cop_length_in *in;
    bool more;
};

static const struct cop_row *own_row(lua_State *L, const void *context, int32_t i, int32_t j)
{
    (void)j;
    const struct cop_length_in *in = context;
    if (i >= in->tree->size) {
        cop_lua_raise(L, "rows(%d): the tree has nodes 0 to %d", (int)i,
                      (int)in->tree->size - 1);
    }
    return i == 0 ? NULL : cop_rows_at(&in->draft, i);
}

/* state.cost: seconds and size of the cycle before; nil in the first. */
static void push_cost(lua_State *L, const struct cop_length_cycle *last)
{
    lua_createtable(L, 0, 5);
    cop_lua_set_integer(L, "nodes", last->nodes);
    cop_lua_set_integer(L, "levels", last->depth);
    const double seconds[] = {last->draft_seconds, last->score_seconds, last->host_seconds};
    for (int i = 0; i < 3; i++) {
        lua_pushnumber(L, seconds[i]);
        lua_setfield(L, -2, (const char *const[]){"D", "V", "H"}[i]);
    }
}

static int decide_body(lua_State *L)
{
    struct decide_call *call = lua_touserdata(L, 1);
    const struct cop_length_in *in = call->in;
    struct cop_lua_home *home = call->state->custom.home;
    if (!cop_custom_push(L, call->state, "decide")) {
        return luaL_error(L, "the length policy's object is gone");
    }
    lua_createtable(L, 0, 7);
    cop_lua_set_integer(L, "level", in->level);
    cop_lua_set_integer(L, "limit", in->limit);
    if (in->last) {
        push_cost(L, in->last);
        lua_setfield(L, -2, "cost");
    }
    cop_lua_push_tree(L, home, in->tree, NULL);
    lua_setfield(L, -2, "tree");
    cop_lua_push_ids(L, in->frontier, (size_t)in->n_frontier);
    lua_setfield(L, -2, "frontier");
    cop_custom_push_rows(L, home, own_row, in);
    lua_setfield(L, -2, "rows");
    lua_createtable(L, in->level, 0);
    for (int32_t d = 0; in->acceptance && d < in->level; d++) {
        if (!isnan(in->acceptance[d])) { /* unknown: nil */
            lua_pushnumber(L, in->acceptance[d]);
            lua_rawseti(L, -2, d + 1);
        }
    }
    lua_setfield(L, -2, "acceptance");
    lua_call(L, 1, 1);
    if (!lua_isboolean(L, -1)) {
        return luaL_error(L, "decide must return true or false, got %s", cop_lua_got(L, -1));
    }
    call->more = lua_toboolean(L, -1);
    return 0;
}

static bool length_more(const void *state, const struct cop_length_in *in)
{
    struct decide_call call = {.state = state, .in = in};
    cop_custom_call_aside(state, decide_body, &call);
    return call.more;
}

int cop_custom_length(lua_State *L)
{
    cop_lua_one_table(L, "cop.length.custom");
    struct length_options *how = cop_lua_guard(L, sizeof *how, release_length_options);
    lua_newtable(L); /* 1 options, 2 guard, 3 kept */
    cop_lua_options(L, 1, length_options, how, "cop.length.custom", 3);
    struct cop_lua_part *box =
        cop_custom_begin(L, COP_PLUG_LENGTH, sizeof(struct cop_length_ops), how->name);
    lua_pushvalue(L, 3);
    lua_setiuservalue(L, -2, 1);
    struct cop_length_ops *ops = (struct cop_length_ops *)(void *)box->owned;
    ops->more = length_more;
    ops->plug.state_size = sizeof(struct length_state);
    cop_custom_finish(L, box);
    return 1;
}
