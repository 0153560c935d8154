/* cop.verify_rows: one verification of given rows, by hand or by all branches.
 *
 * Row lists: the first entry belongs to node 0; entry i of `draft` is the row that the children
 * of node i were drawn from, of drafts[j] the one that the j-th child was. Coin i is the
 * uniform of the accept test of node i (struct cop_coin_list); the last token takes a further
 * one, the uniform `pick`, or the heaviest token with pick = "argmax". */
#include "lua/evidence/evidence.h"

#include "core/cycle/draws/coins.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OWNER "cop.verify_rows"

struct verify_options {
    void *rule, *tree, *target, *draft, *drafts, *logits, *coins, *seed, *pick;
    int32_t draw;
    bool enumerate;
};

#define AN_OBJECT(field, type_name, more, text)                                                \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_OBJECT,                                             \
        .offset = offsetof(struct verify_options, field), .choices = type_name, .flags = more, \
        .help = text                                                                           \
    }

static const struct cop_option verify_options[] = {
    AN_OBJECT(rule, "accept", COP_OPTION_REQUIRED, "the rule"),
    AN_OBJECT(tree, "table", COP_OPTION_REQUIRED, "{ tokens =, parents =, merged = }"),
    AN_OBJECT(target, "table", 0, "rows of nodes 0, 1, …"),
    AN_OBJECT(draft, "table", 0, "rows of the children of nodes 0, 1, …"),
    AN_OBJECT(drafts, "table", 0,
              "several drafters: drafts[j] is such a list for j-th children"),
    AN_OBJECT(logits, "table", 0, "in place of target, or { target =, draft = }"),
    AN_OBJECT(coins, "table", 0, "uniforms in [0, 1) of the accept tests, by node"),
    AN_OBJECT(seed, "number", 0, "coins of a run"),
    AN_OBJECT(pick, "any", 0, "the last token: \"argmax\", or a uniform in [0, 1)"),
    {.name = "draw",
     .type = COP_OPTION_CHOICE,
     .offset = offsetof(struct verify_options, draw),
     .choices = COP_EVIDENCE_DRAWS,
     .help = "how the tree's tokens were picked"},
    {.name = "enumerate",
     .type = COP_OPTION_BOOL,
     .offset = offsetof(struct verify_options, enumerate),
     .help = "the exact law for these tokens"},
    {0}};

/* Rows of one kind. `rows[i].kind` NONE: not given. */
struct row_list {
    int32_t n, vocab;
    double *values; /* [n, vocab] laws */
    float *logits;  /* [n, vocab] or NULL */
    struct cop_row *rows;
};

struct verification {
    struct cop_tree tree;
    struct row_list target;
    struct row_list *drafts; /* [n_drafters] */
    int32_t n_drafters;
    struct cop_row_arena *arena;
    double *coins;
    bool *taken;
    int32_t n_coins;
    int32_t *accepted;
    void *sequence_state;
    struct cop_coins run;
    struct cop_law law;
};

static void release_list(struct row_list *list)
{
    free(list->values);
    free(list->logits);
    free(list->rows);
}

static void release(void *block)
{
    struct verification *v = block;
    cop_tree_release(&v->tree);
    release_list(&v->target);
    for (int32_t j = 0; j < v->n_drafters; j++) {
        release_list(&v->drafts[j]);
    }
    free(v->drafts);
    cop_row_arena_free(v->arena);
    cop_coins_release(&v->run);
    cop_law_release(&v->law);
    free(v->coins);
    free(v->taken);
    free(v->accepted);
    free(v->sequence_state);
    memset(v, 0, sizeof *v);
}

static void must(lua_State *L, enum cop_status status, const struct cop_error *err)
{
    if (status != COP_OK) {
        cop_lua_raise(L, OWNER ": %s", err->text);
    }
}

/* ---- Rows -----------------------------------------------------------------------------------
 */

/* Reads row i, at the top of the stack. */
static void read_row(lua_State *L, struct verification *v, struct row_list *list, int32_t i,
                     const char *what)
{
    double *values = list->values + (ptrdiff_t)i * list->vocab;
    struct cop_row *row = &list->rows[i];
    if (!list->logits) {
        cop_lua_read_law(L, -1, list->vocab, what, values);
        *row = (struct cop_row){.kind = COP_ROW_DENSE, .vocab = list->vocab, .dense = values};
        return;
    }
    float *logits = list->logits + (ptrdiff_t)i * list->vocab;
    cop_lua_read_row(L, -1, list->vocab, what, values);
    for (int32_t k = 0; k < list->vocab; k++) {
        logits[k] = (float)values[k];
    }
    struct cop_sampling sampling = COP_SAMPLING_DEFAULT;
    sampling.temperature = 1;
    struct cop_error err;
    must(L, cop_row_from_logits(row, logits, list->vocab, &sampling, v->arena, &err), &err);
    must(L, cop_row_normalise(row, v->arena, &err), &err);
}

/* The list at the top of the stack; n entries, those at the end may be missing unless all are
 * needed. */
static void read_list(lua_State *L, struct verification *v, struct row_list *list, int32_t n,
                      const char *name, bool are_logits, bool needs_all)
{
    int index = lua_gettop(L);
    list->n = n;
    list->rows = calloc((size_t)n, sizeof *list->rows);
    for (int32_t i = 0; i < n; i++) {
        const char *what = lua_pushfstring(L, OWNER ": %s of node %d", name, (int)i);
        if (lua_rawgeti(L, index, i + 1) == LUA_TNIL ||
            (lua_isboolean(L, -1) && !lua_toboolean(L, -1))) {
            if (needs_all) {
                cop_lua_raise(L, "%s is missing: a row for each of the nodes 0 to %d", what,
                              (int)n - 1);
            }
            lua_settop(L, index);
            continue;
        }
        if (!list->values) {
            list->vocab = list->vocab > 0 ? list->vocab : cop_lua_row_size(L, -1, what);
            size_t count = (size_t)n * (size_t)list->vocab;
            list->values = calloc(count, sizeof *list->values);
            list->logits = are_logits ? calloc(count, sizeof *list->logits) : NULL;
        }
        if (!list->rows || !list->values || (are_logits && !list->logits)) {
            cop_lua_raise(L, OWNER ": no memory");
        }
        read_row(L, v, list, i, what);
        lua_settop(L, index);
    }
}

/* Pushes the row list for `side` ("target", "draft"), nil when there is none; true when it
 * holds logits. */
static bool push_side(lua_State *L, const struct verify_options *how, const char *side)
{
    lua_getfield(L, 3, side);
    if (!how->logits) {
        return false;
    }
    lua_getfield(L, 3, "logits");
    if (lua_rawlen(L, -1) == 0) { /* { target =, draft = } */
        lua_getfield(L, -1, side);
        lua_remove(L, -2);
    } else if (strcmp(side, "target") != 0) {
        lua_pop(L, 1);
        return false;
    }
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        return false;
    }
    if (!lua_isnil(L, -2)) {
        cop_lua_raise(L, OWNER ": %s is given twice: as laws and as logits", side);
    }
    if (lua_type(L, -1) != LUA_TTABLE) {
        cop_lua_raise(L, OWNER ": logits.%s must be a list of rows, got %s", side,
                      cop_lua_got(L, -1));
    }
    lua_remove(L, -2);
    return true;
}

/* Number of nodes, root included, of the tree table at the top. */
static int32_t count_nodes(lua_State *L)
{
    lua_getfield(L, -1, "tokens");
    lua_Unsigned n = lua_type(L, -1) == LUA_TTABLE ? lua_rawlen(L, -1) : 0;
    lua_pop(L, 1);
    if (n > COP_TREE_LIMIT) {
        cop_lua_raise(L, OWNER ": the tree has more than %d nodes", COP_TREE_LIMIT);
    }
    return (int32_t)n + 1;
}

/* Reads draft, or drafts; none of them: rules without need for rows. */
static void read_drafts(lua_State *L, const struct verify_options *how, struct verification *v,
                        int32_t n)
{
    if (how->draft && how->drafts) {
        cop_lua_raise(L, OWNER ": needs at most one of: draft, drafts");
    }
    if (how->drafts) {
        lua_getfield(L, 3, "drafts");
    }
    lua_Unsigned count = how->drafts ? lua_rawlen(L, -1) : 1;
    if (count < 1 || count > COP_TREE_LIMIT) {
        cop_lua_raise(L, OWNER ": drafts must be a list of row lists, one for each drafter");
    }
    for (int32_t i = 1; how->drafts && i < v->tree.size; i++) {
        if (v->tree.rank[i] >= (int32_t)count) {
            cop_lua_raise(L,
                          OWNER ": drafts has %d entries, but node %d has more children; give "
                                "one list of rows for each sibling",
                          (int)count, (int)v->tree.parent[i]);
        }
    }
    v->drafts = calloc((size_t)count, sizeof *v->drafts);
    if (!v->drafts) {
        cop_lua_raise(L, OWNER ": no memory");
    }
    v->n_drafters = (int32_t)count;
    for (int32_t j = 0; j < v->n_drafters; j++) {
        bool are_logits = false;
        v->drafts[j].vocab = v->target.vocab;
        if (!how->drafts) {
            are_logits = push_side(L, how, "draft");
        } else if (lua_rawgeti(L, -1, (lua_Integer)j + 1) != LUA_TTABLE) {
            cop_lua_raise(L, OWNER ": drafts[%d] must be a list of rows, got %s", (int)j + 1,
                          cop_lua_got(L, -1));
        }
        if (!lua_isnil(L, -1)) {
            read_list(L, v, &v->drafts[j], n, "draft row", are_logits, false);
        }
        lua_pop(L, 1);
    }
}

static void read_all(lua_State *L, const struct verify_options *how, struct verification *v)
{
    struct cop_error err;
    lua_getfield(L, 3, "tree");
    int32_t n = count_nodes(L);
    v->arena = cop_row_arena_new();
    v->accepted = malloc((size_t)n * sizeof *v->accepted);
    if (!v->arena || !v->accepted) {
        cop_lua_raise(L, OWNER ": no memory");
    }
    must(L, cop_tree_init(&v->tree, n, &err), &err);
    bool are_logits = push_side(L, how, "target");
    if (lua_isnil(L, -1)) {
        cop_lua_raise(L, OWNER ": needs the target's rows: target, or logits");
    }
    read_list(L, v, &v->target, n, "target row", are_logits, true);
    read_drafts(L, how, v, n);
    lua_settop(L, 4);
    lua_getfield(L, 3, "tree");
    v->tree.draw = cop_evidence_draw(how->draw, COP_DRAW_INDEPENDENT);
    cop_lua_read_tree(L, -1, v->target.vocab, OWNER, &v->tree);
    lua_settop(L, 4);
}

static const struct cop_row *target_at(void *context, int32_t node)
{
    return &((struct verification *)context)->target.rows[node];
}

static const struct cop_row *draft_at(void *context, int32_t node)
{
    const struct verification *v = context;
    int32_t parent = node > 0 ? v->tree.parent[node] : -1;
    const struct row_list *list = &v->drafts[v->n_drafters > 1 ? v->tree.rank[node] : 0];
    bool is_given = parent >= 0 && list->rows && list->rows[parent].kind != COP_ROW_NONE;
    return is_given ? &list->rows[parent] : NULL;
}

/* ---- One verification -----------------------------------------------------------------------
 */

static void read_coins(lua_State *L, struct verification *v)
{
    lua_getfield(L, 3, "coins");
    v->n_coins = (int32_t)lua_rawlen(L, -1);
    v->coins = calloc((size_t)v->n_coins + 1, sizeof *v->coins);
    v->taken = calloc((size_t)v->n_coins + 1, sizeof *v->taken);
    if (!v->coins || !v->taken) {
        cop_lua_raise(L, OWNER ": no memory");
    }
    for (int32_t i = 0; i < v->n_coins; i++) {
        lua_rawgeti(L, -1, i + 1);
        double coin = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
        if (!(coin >= 0 && coin < 1)) {
            cop_lua_raise(L, OWNER ": coin %d must be a number in [0, 1), got %s", (int)i + 1,
                          cop_lua_got(L, -1));
        }
        v->coins[i] = coin;
        lua_pop(L, 1);
    }
    lua_settop(L, 4);
}

/* The option pick, which replaces the coin of the last token. */
static void read_pick(lua_State *L, const struct verify_options *how,
                      struct cop_coin_list *list)
{
    if (!how->pick) {
        return;
    }
    lua_getfield(L, 3, "pick");
    double pick = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
    list->pick_best =
        lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "argmax") == 0;
    list->has_pick = pick >= 0 && pick < 1;
    list->pick = pick;
    if (!list->pick_best && !list->has_pick) {
        cop_lua_raise(
            L, OWNER ": option \"pick\" must be \"argmax\" or a number in [0, 1), got %s",
            cop_lua_got(L, -1));
    }
    lua_pop(L, 1);
}

static lua_Integer read_seed(lua_State *L, const struct verify_options *how)
{
    lua_Integer seed = 0;
    if (how->seed) {
        lua_getfield(L, 3, "seed");
        seed = cop_lua_check_integer(L, -1, LUA_MININTEGER, LUA_MAXINTEGER,
                                     OWNER ": option \"seed\"");
        lua_pop(L, 1);
    }
    return seed;
}

static enum cop_status run_rule(const struct cop_part *rule, struct verification *v,
                                const struct cop_draws *draws, struct cop_verdict *verdict,
                                struct cop_error *err)
{
    const struct cop_rule_ops *ops = (const struct cop_rule_ops *)(const void *)rule->plug;
    if (ops->sequence_state_size > 0) {
        v->sequence_state = calloc(1, ops->sequence_state_size);
        if (!v->sequence_state) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory for the rule's state");
        }
        if (ops->sequence_init) {
            ops->sequence_init(rule->state, v->sequence_state);
        }
    }
    const struct cop_verify_in in = {.tree = &v->tree,
                                     .target = {target_at, v},
                                     .draft = {draft_at, v},
                                     .draws = draws,
                                     .sequence_state = v->sequence_state};
    *verdict = (struct cop_verdict){.accepted = v->accepted, .last = -1};
    enum cop_status pair =
        cop_rule_check_pair(ops, v->tree.draw, cop_tree_shape(&v->tree), false, err);
    if (pair != COP_OK) {
        return pair;
    }
    enum cop_status status = ops->verify(rule->state, &in, verdict, err);
    return status == COP_OK ? cop_rule_check(ops, &in, verdict, draws->error, err) : status;
}

static void push_verdict(lua_State *L, const struct verification *v,
                         const struct cop_verdict *verdict)
{
    lua_createtable(L, 0, 4);
    cop_lua_set_integer(L, "accepted", verdict->n_accepted);
    cop_lua_push_ids(L, verdict->accepted, (size_t)verdict->n_accepted);
    lua_setfield(L, -2, "nodes");
    lua_createtable(L, verdict->n_accepted + 1, 0);
    for (int32_t i = 0; i <= verdict->n_accepted; i++) {
        lua_pushinteger(L, i < verdict->n_accepted ? v->tree.token[verdict->accepted[i]]
                                                   : verdict->last);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "tokens");
    cop_lua_set_string(L, "origin", cop_origin_name(verdict->origin));
}

static int verify_once(lua_State *L, const struct verify_options *how, struct verification *v)
{
    if ((how->coins != NULL) == (how->seed != NULL)) {
        return cop_lua_raise(L, OWNER ": needs exactly one of: coins, seed");
    }
    if (how->pick && how->seed) {
        return cop_lua_raise(L, OWNER ": option \"pick\" goes with coins, a seed has its own");
    }
    struct cop_error draw_error = {0}, err = {0};
    struct cop_coin_list list = {.tree = &v->tree};
    struct cop_draws draws;
    if (how->coins) {
        read_coins(L, v);
        list.coins = v->coins;
        list.count = v->n_coins;
        list.taken = v->taken;
        read_pick(L, how, &list);
        draws = cop_coin_list_draws(&list, &draw_error);
    } else {
        cop_coins_init(&v->run, (uint64_t)read_seed(L, how), 0, &draw_error);
        draws = cop_coins_draws(&v->run);
    }
    struct cop_verdict verdict;
    struct cop_lua_border border;
    struct cop_lua_home *home = cop_lua_home(L);
    cop_lua_enter(home, L, &border);
    enum cop_status status = run_rule(how->rule, v, &draws, &verdict, &err);
    status = cop_lua_leave(home, &border, status, &err);
    if (status == COP_ERR_CALLBACK) {
        lua_pushstring(L, err.text);
        return lua_error(L);
    }
    if (status != COP_OK) {
        return cop_lua_error_of(L, OWNER, &err);
    }
    push_verdict(L, v, &verdict);
    return 1;
}

/* ---- All branches ---------------------------------------------------------------------------
 */

/* Whether a node's path has just these tokens. */
static bool is_prefix_of(const struct cop_tree *tree, int32_t node, const cop_token *prefix,
                         int32_t length)
{
    for (; length > 0 && node > 0 && tree->token[node] == prefix[length - 1]; length--) {
        node = tree->parent[node];
    }
    return length == 0 && node == 0;
}

/* The target row after a prefix: of the node that it leads to. A prefix that leaves the tree
 * gets the root's: both laws that are compared go on alike from there. */
static enum cop_status target_row(void *context, const cop_token *prefix, int32_t length,
                                  int32_t drafter, double *out, struct cop_error *err)
{
    (void)drafter;
    (void)err;
    const struct verification *v = context;
    int32_t node = v->tree.size - 1;
    while (node > 0 && !is_prefix_of(&v->tree, node, prefix, length)) {
        node--;
    }
    cop_row_fill(&v->target.rows[node], 0, v->target.vocab, out);
    return COP_OK;
}

static int verify_all(lua_State *L, const struct verify_options *how, struct verification *v)
{
    if (how->coins || how->seed || how->pick) {
        return cop_lua_raise(L, OWNER ": enumerate = true needs no coins, seed or pick");
    }
    const struct cop_rows target = {target_at, v}, draft = {draft_at, v};
    const struct cop_law_case what = {.rule = how->rule,
                                      .given = &v->tree,
                                      .draw = v->tree.draw,
                                      .relaxed = true,
                                      .vocab = v->target.vocab,
                                      .horizon = 1,
                                      .target = target_row,
                                      .n_drafters = how->drafts ? v->n_drafters : 0,
                                      .target_context = v,
                                      .given_target = &target,
                                      .given_draft = &draft};
    struct cop_error err = {0};
    struct cop_lua_border border;
    struct cop_lua_home *home = cop_lua_home(L);
    cop_lua_enter(home, L, &border);
    enum cop_status status = cop_law_enumerate(&v->law, &what, &err);
    status = cop_lua_leave(home, &border, status, &err);
    if (status == COP_ERR_CALLBACK) {
        lua_pushstring(L, err.text);
        return lua_error(L);
    }
    if (status != COP_OK) {
        return cop_lua_error_of(L, OWNER, &err);
    }
    cop_evidence_push_law(L, &v->law, v->target.vocab, true);
    return 1;
}

int cop_evidence_verify_rows(lua_State *L)
{
    cop_lua_one_table(L, OWNER);
    struct verify_options how;
    cop_option_defaults(verify_options, &how);
    lua_settop(L, 1);
    lua_pushnil(L);
    lua_newtable(L); /* 1 options, 3 kept, 4 the verification */
    cop_lua_options(L, 1, verify_options, &how, OWNER, 3);
    struct verification *v = cop_lua_guard(L, sizeof *v, release);
    read_all(L, &how, v);
    return how.enumerate ? verify_all(L, &how, v) : verify_once(L, &how, v);
}
