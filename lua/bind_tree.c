/* Token trees as scripts see them, and trees that scripts give.
 *
 * A tree is lent by a callback and dead afterwards. Node 0 is the root, drafted nodes count
 * from 1, so `tree.size`, the number of drafted nodes, is also the last node's number. While a
 * tree is grown it has two methods more: draw(parent, k) and add(parent, id). */
#include "lua/home.h"

#include "core/cycle/contract/builder.h"
#include <stdlib.h>
#include <string.h>

struct tree_box {
    const struct cop_tree *tree;
    struct cop_grow *grow; /* NULL: read only */
    const struct cop_lua_home *home;
    uint64_t serial;
};

void cop_lua_push_tree(lua_State *L, struct cop_lua_home *home, const struct cop_tree *tree,
                       struct cop_grow *grow)
{
    luaL_checkstack(L, 4, NULL);
    struct tree_box *box = lua_newuserdatauv(L, sizeof *box, 0);
    *box = (struct tree_box){
        .tree = tree, .grow = grow, .home = home, .serial = home->scopes->serial};
    luaL_setmetatable(L, COP_LUA_TREE);
}

static const struct tree_box *check_box(lua_State *L)
{
    const struct tree_box *box = luaL_checkudata(L, 1, COP_LUA_TREE);
    if (!cop_lua_scope_is_open(box->home, box->serial)) {
        cop_lua_raise(L, "this tree was valid only until the function that received it "
                         "returned");
    }
    return box;
}

int32_t cop_lua_check_node(lua_State *L, int index, const struct cop_tree *tree)
{
    return (int32_t)cop_lua_check_integer(L, index, 0, tree->size - 1, "a node of this tree");
}

/* ---- Reading --------------------------------------------------------------------------------
 */

static int tree_token(lua_State *L)
{
    const struct cop_tree *tree = check_box(L)->tree;
    lua_pushinteger(L, tree->token[cop_lua_check_node(L, 2, tree)]);
    return 1;
}

static int tree_parent(lua_State *L)
{
    const struct cop_tree *tree = check_box(L)->tree;
    int32_t parent = tree->parent[cop_lua_check_node(L, 2, tree)];
    if (parent < 0) {
        lua_pushnil(L);
    } else {
        lua_pushinteger(L, parent);
    }
    return 1;
}

static int tree_depth(lua_State *L)
{
    const struct cop_tree *tree = check_box(L)->tree;
    lua_pushinteger(L, cop_tree_depth(tree, cop_lua_check_node(L, 2, tree)));
    return 1;
}

static int tree_multiplicity(lua_State *L)
{
    const struct cop_tree *tree = check_box(L)->tree;
    lua_pushinteger(L, tree->multiplicity[cop_lua_check_node(L, 2, tree)]);
    return 1;
}

static int tree_children(lua_State *L)
{
    const struct cop_tree *tree = check_box(L)->tree;
    int32_t node = cop_lua_check_node(L, 2, tree);
    int32_t count = cop_tree_children(tree, node);
    lua_createtable(L, count, 0);
    for (int32_t j = 0; j < count; j++) {
        lua_pushinteger(L, cop_tree_child(tree, node, j));
        lua_rawseti(L, -2, j + 1);
    }
    return 1;
}

static int tree_frontier(lua_State *L)
{
    const struct cop_grow *grow = check_box(L)->grow;
    if (!grow) {
        return cop_lua_raise(L, "tree:frontier: this tree is not being grown");
    }
    cop_lua_push_ids(L, grow->frontier, (size_t)grow->n_frontier);
    return 1;
}

/* ---- Growing --------------------------------------------------------------------------------
 */

/* The place in the frontier of the node at 2. Raises. */
static int32_t check_frontier(lua_State *L, const struct tree_box *box, const char *method)
{
    if (!box->grow) {
        cop_lua_raise(L, "%s: this tree is not being grown", method);
    }
    int32_t node = cop_lua_check_node(L, 2, box->tree);
    for (int32_t i = 0; i < box->grow->n_frontier; i++) {
        if (box->grow->frontier[i] == node) {
            return i;
        }
    }
    cop_lua_raise(L, "%s: node %d is not one of the nodes that are expanded on level %d",
                  method, (int)node, (int)box->grow->level);
    return -1;
}

/* tree:draw(parent, k): up to k children, drawn from the parent's row; returns how many. */
static int tree_draw(lua_State *L)
{
    const struct tree_box *box = check_box(L);
    int32_t i = check_frontier(L, box, "tree:draw");
    int32_t k = (int32_t)cop_lua_check_integer(L, 3, 0, COP_TREE_LIMIT,
                                               "tree:draw: the number of children");
    lua_pushinteger(L, cop_grow_draw(box->grow, i, k));
    const struct cop_error *error = box->grow->draws->error;
    if (error && error->code != COP_OK) {
        cop_lua_raise(L, "tree:draw: %s", error->text);
    }
    return 1;
}

/* tree:add(parent, id): a child of the script's own choice; the node, or nil when the tree is
 * full. */
static int tree_add(lua_State *L)
{
    const struct tree_box *box = check_box(L);
    int32_t i = check_frontier(L, box, "tree:add");
    if (box->tree->draw != COP_DRAW_DETERMINISTIC) {
        return cop_lua_raise(L,
                             "tree:add: a chosen child is a deterministic draw, but this "
                             "tree's draw is \"%s\": use tree:draw, or draw = "
                             "\"deterministic\"",
                             cop_draw_name(box->tree->draw));
    }
    int32_t vocab = box->grow->rows[i].vocab;
    cop_token token = (cop_token)cop_lua_check_integer(
        L, 3, 0, vocab > 0 ? vocab - 1 : INT32_MAX, "tree:add: the token id");
    int32_t node = cop_grow_add(box->grow, i, token);
    if (node < 0) {
        lua_pushnil(L);
    } else {
        lua_pushinteger(L, node);
    }
    return 1;
}

/* ---- Class ----------------------------------------------------------------------------------
 */

static int tree_index(lua_State *L)
{
    const struct tree_box *box = check_box(L);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL || lua_type(L, 2) != LUA_TSTRING) {
        return 1;
    }
    const char *key = lua_tostring(L, 2);
    if (strcmp(key, "size") == 0) {
        lua_pushinteger(L, box->tree->size - 1);
    } else if (strcmp(key, "merged") == 0) {
        lua_pushboolean(L, box->tree->is_merged);
    } else if (strcmp(key, "drawn") == 0) {
        lua_pushstring(L, cop_draw_name(box->tree->draw));
    } else if (strcmp(key, "level") == 0 && box->grow) {
        lua_pushinteger(L, box->grow->level);
    } else {
        lua_pushnil(L);
    }
    return 1;
}

static int tree_length(lua_State *L)
{
    lua_pushinteger(L, check_box(L)->tree->size - 1);
    return 1;
}

static int tree_text(lua_State *L)
{
    const struct tree_box *box = luaL_checkudata(L, 1, COP_LUA_TREE);
    if (!cop_lua_scope_is_open(box->home, box->serial)) {
        lua_pushliteral(L, "tree (no longer valid)");
    } else {
        lua_pushfstring(L, "tree of %d drafted nodes", (int)box->tree->size - 1);
    }
    return 1;
}

void cop_lua_open_tree(lua_State *L)
{
    static const luaL_Reg meta[] = {
        {"__len", tree_length}, {"__tostring", tree_text}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"token", tree_token},
                                       {"parent", tree_parent},
                                       {"depth", tree_depth},
                                       {"children", tree_children},
                                       {"multiplicity", tree_multiplicity},
                                       {"frontier", tree_frontier},
                                       {"draw", tree_draw},
                                       {"add", tree_add},
                                       {NULL, NULL}};
    cop_lua_class(L, COP_LUA_TREE, meta);
    luaL_getmetatable(L, COP_LUA_TREE);
    luaL_newlib(L, methods);
    lua_pushcclosure(L, tree_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

/* ---- Trees that scripts give ----------------------------------------------------------------
 */

struct given {
    struct cop_int_list tokens, parents, multiplicity;
    bool is_merged;
};

static const struct cop_option given_options[] = {
    {.name = "tokens",
     .type = COP_OPTION_INTS,
     .offset = offsetof(struct given, tokens),
     .flags = COP_OPTION_REQUIRED,
     .help = "of the drafted nodes"},
    {.name = "parents",
     .type = COP_OPTION_INTS,
     .offset = offsetof(struct given, parents),
     .help = "of each; 0: the root; default a chain"},
    {.name = "merged",
     .type = COP_OPTION_BOOL,
     .offset = offsetof(struct given, is_merged),
     .help = "equal siblings are one node"},
    {.name = "multiplicity",
     .type = COP_OPTION_INTS,
     .offset = offsetof(struct given, multiplicity),
     .min = 1,
     .max = COP_TREE_LIMIT,
     .help = "of a merged tree: paths through each node; default one to each leaf"},
    {0}};

static void release_given(void *block)
{
    cop_option_release(given_options, block);
}

/* How many paths come through each node of a merged tree, and how many there are. */
static void set_multiplicity(lua_State *L, const struct given *given, const char *owner,
                             struct cop_tree *tree)
{
    int32_t n = given->multiplicity.count;
    if (n > 0 && (!given->is_merged || n != tree->size - 1)) {
        cop_lua_raise(L,
                      given->is_merged
                          ? "%s: tree: %d multiplicities for %d tokens"
                          : "%s: tree: option \"multiplicity\" needs merged = true",
                      owner, (int)n, (int)tree->size - 1);
    }
    if (!given->is_merged || tree->size < 2) {
        return;
    }
    for (int32_t node = 0; node < tree->size; node++) {
        tree->multiplicity[node] = 0;
    }
    for (int32_t node = tree->size - 1; node > 0; node--) {
        int32_t below = tree->multiplicity[node] > 0 ? tree->multiplicity[node] : 1;
        int32_t own = n > 0 ? given->multiplicity.items[node - 1] : below;
        if (own < below && tree->multiplicity[node] > 0) {
            cop_lua_raise(L, "%s: tree: %d paths through node %d, but %d through its children",
                          owner, (int)own, (int)node, (int)below);
        }
        tree->multiplicity[node] = own;
        tree->multiplicity[tree->parent[node]] += own;
    }
}

void cop_lua_read_tree(lua_State *L, int index, int32_t vocab, const char *owner,
                       struct cop_tree *tree)
{
    index = lua_absindex(L, index);
    if (lua_type(L, index) != LUA_TTABLE) {
        cop_lua_raise(L, "%s: the tree must be { tokens =, parents = }, got %s", owner,
                      cop_lua_got(L, index));
    }
    struct cop_option options[sizeof given_options / sizeof *given_options];
    memcpy(options, given_options, sizeof options);
    options[0].max = vocab - 1;
    options[1].max = COP_TREE_LIMIT;
    struct given *given = cop_lua_guard(L, sizeof *given, release_given);
    cop_lua_options(L, index, options, given, lua_pushfstring(L, "%s: tree", owner), 0);
    lua_pop(L, 1);
    int32_t count = given->tokens.count;
    if (given->parents.count > 0 && given->parents.count != count) {
        cop_lua_raise(L, "%s: tree: %d parents for %d tokens", owner, (int)given->parents.count,
                      (int)count);
    }
    if (count >= tree->capacity) {
        cop_lua_raise(L, "%s: tree: %d nodes, at most %d", owner, (int)count,
                      (int)tree->capacity - 1);
    }
    cop_tree_reset(tree, 0);
    tree->is_merged = given->is_merged;
    for (int32_t i = 0; i < count; i++) {
        int32_t parent = given->parents.count > 0 ? given->parents.items[i] : i;
        if (parent > i) {
            cop_lua_raise(L, "%s: tree: parent of node %d is %d, must be from 0 to %d", owner,
                          (int)i + 1, (int)parent, (int)i);
        }
        (void)cop_tree_add(tree, parent, given->tokens.items[i], parent);
    }
    set_multiplicity(L, given, owner, tree);
    struct cop_error err;
    if (cop_tree_check(tree, &err) != COP_OK) {
        cop_lua_raise(L, "%s: tree: %s", owner, err.text);
    }
    cop_lua_guard_close(L, -1);
    lua_pop(L, 1);
}

void cop_lua_push_shape(lua_State *L, const struct cop_tree *tree)
{
    lua_createtable(L, 0, 4);
    cop_lua_push_ids(L, tree->token + 1, (size_t)(tree->size - 1));
    lua_setfield(L, -2, "tokens");
    cop_lua_push_ids(L, tree->parent + 1, (size_t)(tree->size - 1));
    lua_setfield(L, -2, "parents");
    if (tree->is_merged) {
        cop_lua_push_ids(L, tree->multiplicity + 1, (size_t)(tree->size - 1));
        lua_setfield(L, -2, "multiplicity");
    }
}
