/* cop.propose.custom: a proposer written in Lua.
 *
 *     start(ids, sequence)   expand(tree, nodes, sequence) → { row, … }
 *     observe(info)          finish(sequence)
 *
 * Rows are "dense" (literal rows), "sparse" ({ [id] = probability }) or "points" (lists of
 * ids); an entry that is nil, false or empty proposes nothing below its node. They are copied
 * into memory of the sequence that lives until its cycle has been observed. */
#include "lua/custom/custom.h"

#include "core/cycle/contract/proposer.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OWNER "cop.propose.custom"

struct proposer_block {
    struct cop_proposer_ops ops;
    int32_t depth;
};

struct proposer_state {
    struct cop_custom custom;
    const struct proposer_block *block;
};

/* Memory that a sequence's rows lie in. */
struct chunk {
    struct chunk *next;
    max_align_t bytes[];
};

struct session {
    const struct proposer_state *state;
    int32_t vocab, n_sequences;
    bool vocab_grows;      /* with the ids that are proposed: nobody knows it */
    struct chunk **chunks; /* [n_sequences] */
};

struct proposer_options {
    char *name;
    int32_t rows, depth;
    void *start, *expand, *observe, *finish;
};

enum { ROWS_DENSE, ROWS_SPARSE, ROWS_POINTS };

#define A_FUNCTION(field, text)                                                                \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_OBJECT,                                             \
        .offset = offsetof(struct proposer_options, field), .choices = "function",             \
        .help = text                                                                           \
    }

static const struct cop_option proposer_options[] = {
    {.name = "name",
     .type = COP_OPTION_STRING,
     .offset = offsetof(struct proposer_options, name),
     .flags = COP_OPTION_REQUIRED,
     .help = "how results and messages call it"},
    {.name = "rows",
     .type = COP_OPTION_CHOICE,
     .offset = offsetof(struct proposer_options, rows),
     .choices = "dense|sparse|points",
     .flags = COP_OPTION_REQUIRED,
     .help = "what expand returns"},
    {.name = "depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct proposer_options, depth),
     .min = 1,
     .max = COP_TREE_LIMIT,
     .fallback = 5,
     .help = "of the chain that it drafts when no tree is named"},
    A_FUNCTION(start, "function(ids, sequence): a sequence begins with these tokens"),
    {.name = "expand",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct proposer_options, expand),
     .choices = "function",
     .flags = COP_OPTION_REQUIRED,
     .help = "function(tree, nodes, sequence): a row for each node"},
    A_FUNCTION(observe, "function(info): what a cycle committed"),
    A_FUNCTION(finish, "function(sequence): it is over"),
    {0}};

static void release_options(void *block)
{
    cop_option_release(proposer_options, block);
}

/* ---- Memory of rows -------------------------------------------------------------------------
 */

static void forget_rows(struct session *session, int32_t sequence)
{
    struct chunk *chunk = session->chunks[sequence];
    session->chunks[sequence] = NULL;
    while (chunk) {
        struct chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
}

/* Raises without memory; what was allocated is the session's at once. */
static void *row_memory(lua_State *L, struct session *session, int32_t sequence, size_t bytes)
{
    struct chunk *chunk = malloc(sizeof *chunk + bytes);
    if (!chunk) {
        luaL_error(L, "no memory for a row");
    }
    chunk->next = session->chunks[sequence];
    session->chunks[sequence] = chunk;
    return chunk->bytes;
}

/* ---- Reading rows: each reads the value at the top of the stack -----------------------------
 */

#define MOST_IDS (1 << 20) /* of a vocabulary that grows: as many as a pick takes */

/* Raises. */
static cop_token read_id(lua_State *L, int index, struct session *session, const char *what)
{
    int32_t most = (session->vocab_grows ? MOST_IDS : session->vocab) - 1;
    cop_token id = (cop_token)cop_lua_check_integer(L, index, 0, most, what);
    session->vocab = id < session->vocab ? session->vocab : id + 1;
    return id;
}

static void read_dense(lua_State *L, struct session *session, int32_t sequence,
                       const char *what, struct cop_row *row)
{
    if (session->vocab_grows) {
        session->vocab = cop_lua_row_size(L, -1, what);
    }
    double *values = row_memory(L, session, sequence, (size_t)session->vocab * sizeof *values);
    cop_lua_read_law(L, -1, session->vocab, what, values);
    row->kind = COP_ROW_DENSE;
    row->dense = values;
}

static void read_points(lua_State *L, struct session *session, int32_t sequence,
                        const char *what, struct cop_row *row)
{
    int32_t n = (int32_t)lua_rawlen(L, -1);
    cop_token *ids = row_memory(L, session, sequence, (size_t)n * sizeof *ids);
    int list = lua_gettop(L);
    for (int32_t i = 0; i < n; i++) {
        const char *which = lua_pushfstring(L, "%s: token id %d", what, (int)i + 1);
        lua_rawgeti(L, list, i + 1);
        ids[i] = read_id(L, -1, session, which);
        lua_settop(L, list);
    }
    row->kind = n > 0 ? COP_ROW_POINTS : COP_ROW_NONE;
    row->ids = ids;
    row->count = n;
}

struct entry {
    cop_token id;
    double probability;
};

static int by_id(const void *a, const void *b)
{
    cop_token left = ((const struct entry *)a)->id, right = ((const struct entry *)b)->id;
    return (left > right) - (left < right);
}

static int32_t read_entries(lua_State *L, struct session *session, const char *what,
                            struct entry *entries)
{
    int table = lua_gettop(L) - 1; /* the scratch lies above it */
    const char *which = lua_pushfstring(L, "%s: a token id", what);
    int32_t n = 0;
    double sum = 0;
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        cop_token id = read_id(L, -2, session, which);
        double probability = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
        if (!(probability >= 0 && probability <= DBL_MAX)) {
            luaL_error(L, "%s: probability of token %I is %s", what, (LUAI_UACINT)id,
                       cop_lua_got(L, -1));
        }
        sum += probability;
        if (probability > 0) {
            entries[n++] = (struct entry){.id = id, .probability = probability};
        }
    }
    if (n > 0 && !(fabs(sum - 1) <= 1e-6)) {
        luaL_error(L, "%s: probabilities sum to %f, not to 1", what, sum);
    }
    for (int32_t i = 0; i < n && fabs(sum - 1) > COP_LUA_EXACT; i++) {
        entries[i].probability /= sum;
    }
    lua_pop(L, 1);
    return n;
}

static void read_sparse(lua_State *L, struct session *session, int32_t sequence,
                        const char *what, struct cop_row *row)
{
    size_t size = 0;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        size++;
    }
    struct entry *entries = lua_newuserdatauv(L, (size + 1) * sizeof *entries, 0);
    int32_t n = read_entries(L, session, what, entries);
    qsort(entries, (size_t)n, sizeof *entries, by_id);
    cop_token *ids = row_memory(L, session, sequence, ((size_t)n + 1) * sizeof *ids);
    double *weights = row_memory(L, session, sequence, ((size_t)n + 1) * sizeof *weights);
    for (int32_t i = 0; i < n; i++) {
        ids[i] = entries[i].id;
        weights[i] = entries[i].probability;
    }
    lua_pop(L, 1);
    row->kind = n > 0 ? COP_ROW_SPARSE : COP_ROW_NONE;
    row->ids = ids;
    row->weights = weights;
    row->count = n;
}

/* The entry of one node, at the top of the stack. */
static void read_row(lua_State *L, struct session *session, int32_t sequence, int32_t number,
                     struct cop_row *row)
{
    *row = (struct cop_row){.kind = COP_ROW_NONE};
    if (lua_isnil(L, -1) || (lua_isboolean(L, -1) && !lua_toboolean(L, -1))) {
        return;
    }
    enum cop_supply supply = session->state->block->ops.supply;
    const char *what = lua_pushfstring(L, "row %d of expand", (int)number);
    lua_insert(L, -2);
    if (supply == COP_SUPPLY_DENSE) {
        read_dense(L, session, sequence, what, row);
    } else if (lua_type(L, -1) != LUA_TTABLE) {
        luaL_error(L, "%s must be a table, got %s", what, cop_lua_got(L, -1));
    } else if (supply == COP_SUPPLY_SPARSE) {
        read_sparse(L, session, sequence, what, row);
    } else {
        read_points(L, session, sequence, what, row);
    }
    row->vocab = session->vocab;
    lua_remove(L, -2);
}

/* ---- Slots ----------------------------------------------------------------------------------
 */

static int32_t own_depth(const void *state)
{
    return ((const struct proposer_state *)state)->block->depth;
}

static enum cop_status open(const void *state, const struct cop_proposer_env *env,
                            void **session_out, struct cop_error *err)
{
    struct session *session = calloc(1, sizeof *session);
    struct chunk **chunks = calloc((size_t)env->n_sequences, sizeof *chunks);
    if (!session || !chunks) {
        free(session);
        free(chunks);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a custom proposer");
    }
    *session = (struct session){.state = state,
                                .vocab = env->vocab_size,
                                .vocab_grows = env->vocab_is_guessed,
                                .n_sequences = env->n_sequences,
                                .chunks = chunks};
    *session_out = session;
    return COP_OK;
}

static void close_session(void *memory)
{
    struct session *session = memory;
    for (int32_t i = 0; session && i < session->n_sequences; i++) {
        forget_rows(session, i);
    }
    if (session) {
        free(session->chunks);
    }
    free(session);
}

struct begin_call {
    const struct session *session;
    int32_t sequence;
    const cop_token *ids;
    int32_t n;
};

static int begin_body(lua_State *L)
{
    const struct begin_call *call = lua_touserdata(L, 1);
    if (cop_custom_push(L, call->session->state, "start")) {
        cop_lua_push_ids(L, call->ids, (size_t)call->n);
        lua_pushinteger(L, call->sequence);
        lua_call(L, 2, 0);
    }
    return 0;
}

static enum cop_status begin(void *session, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err)
{
    struct begin_call call = {.session = session, .sequence = sequence, .ids = ids, .n = n};
    return cop_custom_call(call.session->state, begin_body, &call, err);
}

struct expand_call {
    struct session *session;
    struct cop_frontier *frontier;
};

static int expand_body(lua_State *L)
{
    const struct expand_call *call = lua_touserdata(L, 1);
    struct cop_frontier *frontier = call->frontier;
    const struct proposer_state *state = call->session->state;
    if (!cop_custom_push(L, state, "expand")) {
        return luaL_error(L, "the proposer's object is gone");
    }
    cop_lua_push_tree(L, state->custom.home, frontier->tree, NULL);
    cop_lua_push_ids(L, frontier->nodes, (size_t)frontier->count);
    lua_pushinteger(L, frontier->sequence);
    lua_call(L, 3, 1);
    if (lua_isnil(L, -1)) {
        return 0; /* proposes nothing: rows are NONE as they came */
    }
    if (lua_type(L, -1) != LUA_TTABLE) {
        return luaL_error(L, "expand must return a list of rows, got %s", cop_lua_got(L, -1));
    }
    if (lua_rawlen(L, -1) > (lua_Unsigned)frontier->count) {
        return luaL_error(L, "expand returned %d rows for %d nodes", (int)lua_rawlen(L, -1),
                          (int)frontier->count);
    }
    for (int32_t i = 0; i < frontier->count; i++) {
        lua_rawgeti(L, -1, i + 1);
        struct cop_row row;
        read_row(L, call->session, frontier->sequence, i + 1, &row);
        frontier->rows[i] = row;
        lua_pop(L, 1);
    }
    return 0;
}

static enum cop_status expand(void *session, struct cop_frontier *frontiers,
                              int32_t n_frontiers, struct cop_error *err)
{
    for (int32_t i = 0; i < n_frontiers; i++) {
        struct expand_call call = {.session = session, .frontier = &frontiers[i]};
        struct cop_error *where = frontiers[i].error ? frontiers[i].error : err;
        for (int32_t j = 0; j < frontiers[i].count; j++) {
            frontiers[i].rows[j] =
                (struct cop_row){.kind = COP_ROW_NONE, .vocab = call.session->vocab};
        }
        enum cop_status status =
            cop_custom_call(call.session->state, expand_body, &call, where);
        if (status != COP_OK && where == err) {
            return status;
        }
    }
    return COP_OK;
}

struct observe_call {
    const struct session *session;
    const struct cop_observed *observed;
};

/* info = { tokens =, accepted = { node, … }, cycle =, sequence = } */
static int observe_body(lua_State *L)
{
    const struct observe_call *call = lua_touserdata(L, 1);
    const struct cop_observed *observed = call->observed;
    if (cop_custom_push(L, call->session->state, "observe")) {
        lua_createtable(L, 0, 4);
        cop_lua_push_ids(L, observed->committed, (size_t)observed->n_accepted + 1);
        lua_setfield(L, -2, "tokens");
        cop_lua_push_ids(L, observed->accepted, (size_t)observed->n_accepted);
        lua_setfield(L, -2, "accepted");
        cop_lua_set_integer(L, "cycle", observed->cycle);
        cop_lua_set_integer(L, "sequence", observed->sequence);
        lua_call(L, 1, 0);
    }
    return 0;
}

static enum cop_status observe(void *memory, const struct cop_observed *observed,
                               struct cop_error *err)
{
    struct session *session = memory;
    struct observe_call call = {.session = session, .observed = observed};
    enum cop_status status = cop_custom_call(session->state, observe_body, &call, err);
    forget_rows(session, observed->sequence);
    return status;
}

struct end_call {
    const struct session *session;
    int32_t sequence;
};

static int end_body(lua_State *L)
{
    const struct end_call *call = lua_touserdata(L, 1);
    if (cop_custom_push(L, call->session->state, "finish")) {
        lua_pushinteger(L, call->sequence);
        lua_call(L, 1, 0);
    }
    return 0;
}

static void end(void *memory, int32_t sequence)
{
    struct session *session = memory;
    struct end_call call = {.session = session, .sequence = sequence};
    forget_rows(session, sequence);
    cop_custom_call_aside(session->state, end_body, &call);
}

/* ---- Constructor ----------------------------------------------------------------------------
 */

int cop_custom_proposer(lua_State *L)
{
    static const enum cop_supply supplies[] = {COP_SUPPLY_DENSE, COP_SUPPLY_SPARSE,
                                               COP_SUPPLY_POINTS};
    cop_lua_one_table(L, OWNER);
    struct proposer_options *how = cop_lua_guard(L, sizeof *how, release_options);
    cop_option_defaults(proposer_options, how);
    lua_newtable(L); /* 1 options, 2 guard, 3 kept */
    cop_lua_options(L, 1, proposer_options, how, OWNER, 3);
    struct cop_lua_part *box =
        cop_custom_begin(L, COP_PLUG_PROPOSER, sizeof(struct proposer_block), how->name);
    lua_pushvalue(L, 3);
    lua_setiuservalue(L, -2, 1);
    struct proposer_block *block = (struct proposer_block *)(void *)box->owned;
    block->depth = how->depth;
    block->ops.supply = supplies[how->rows];
    block->ops.own_depth = own_depth;
    block->ops.open = open;
    block->ops.close = close_session;
    block->ops.begin = begin;
    block->ops.expand = expand;
    block->ops.observe = observe;
    block->ops.end = end;
    block->ops.plug.state_size = sizeof(struct proposer_state);
    cop_custom_finish(L, box);
    ((struct proposer_state *)box->part->state)->block = block;
    return 1;
}
