/* m:score: target rows for a token tree that hangs off a context, from one forward pass.
 *
 *     context  c0 c1 c2        prefilled: c0 c1      scored: c2 n1 n2 n3
 *     nodes    n1 n2 n3        rows[0] follows c2, rows[i] follows node i
 *
 * A cache is made for the call and dropped after it. The rows own their memory. */
#include "lua/home.h"

#include "core/cache/cache.h"
#include <stdlib.h>
#include <string.h>

#define OWNER "model:score"
#define ROWS  "coppice.rows"

struct call {
    struct cop_int_list context, nodes, parents, hidden;
    struct cop_cache *cache;
    int32_t *tokens, *tree; /* [n]: the last token of the context and the nodes */
    int32_t n;
};

/* What the rows keep alive. */
struct buffers {
    float *logits; /* [n, vocab] */
    float *hidden; /* [n_hidden, n, hidden_size] */
};

static const struct cop_option plain_options[] = {
    {.name = "context",
     .type = COP_OPTION_INTS,
     .offset = offsetof(struct call, context),
     .flags = COP_OPTION_REQUIRED,
     .help = "token ids, at least one"},
    {.name = "nodes",
     .type = COP_OPTION_INTS,
     .offset = offsetof(struct call, nodes),
     .help = "drafted token ids"},
    {.name = "parents",
     .type = COP_OPTION_INTS,
     .offset = offsetof(struct call, parents),
     .help = "of each node; 0: the last token of the context; default a chain"},
    {.name = "hidden",
     .type = COP_OPTION_INTS,
     .offset = offsetof(struct call, hidden),
     .help = "layers whose outputs to return"},
    {0}};

static void release_call(void *block)
{
    struct call *call = block;
    cop_cache_free(call->cache);
    free(call->tokens);
    free(call->tree);
    cop_option_release(plain_options, call);
    *call = (struct call){0};
}

static void release_buffers(void *block)
{
    struct buffers *buffers = block;
    free(buffers->logits);
    free(buffers->hidden);
    *buffers = (struct buffers){0};
}

/* The option table with the ranges of this model. */
static void read_options(lua_State *L, struct call *call, const struct cop_model_info *info)
{
    struct cop_option options[sizeof plain_options / sizeof *plain_options];
    memcpy(options, plain_options, sizeof options);
    options[0].max = options[1].max = info->vocab_size - 1;
    options[2].max = COP_TREE_LIMIT;
    options[3].max = info->layers;
    cop_lua_options(L, 2, options, call, OWNER, 0);
    if (call->context.count < 1) {
        cop_lua_raise(L, OWNER ": the context needs at least one token");
    }
    if (call->nodes.count > COP_TREE_LIMIT) {
        cop_lua_raise(L, OWNER ": %d nodes, at most %d", (int)call->nodes.count,
                      COP_TREE_LIMIT);
    }
    if (call->parents.count > 0 && call->parents.count != call->nodes.count) {
        cop_lua_raise(L, OWNER ": %d parents for %d nodes", (int)call->parents.count,
                      (int)call->nodes.count);
    }
    for (int32_t i = 0; i < call->parents.count; i++) {
        if (call->parents.items[i] > i) {
            cop_lua_raise(L, OWNER ": parent of node %d is %d, must be from 0 to %d",
                          (int)i + 1, (int)call->parents.items[i], (int)i);
        }
    }
}

static bool fill_tree(struct call *call)
{
    call->n = call->nodes.count + 1;
    call->tokens = malloc((size_t)call->n * sizeof *call->tokens);
    call->tree = malloc((size_t)call->n * sizeof *call->tree);
    if (!call->tokens || !call->tree) {
        return false;
    }
    call->tokens[0] = call->context.items[call->context.count - 1];
    call->tree[0] = -1;
    for (int32_t i = 0; i < call->nodes.count; i++) {
        call->tokens[i + 1] = call->nodes.items[i];
        call->tree[i + 1] = call->parents.count > 0 ? call->parents.items[i] : i;
    }
    return true;
}

/* Looked at before anything is computed: of the two limits the context is the one to raise. */
static enum cop_status check_context(const struct call *call, const struct cop_model_info *info,
                                     struct cop_error *err)
{
    if (call->context.count > info->context) {
        return cop_fail(err, COP_ERR_LIMIT,
                        OWNER ": %d tokens do not fit the context of %d tokens; raise the "
                              "model's `context`",
                        (int)call->context.count, (int)info->context);
    }
    return COP_OK;
}

static enum cop_status run(struct cop_model *model, struct call *call, struct buffers *out,
                           struct cop_error *err)
{
    const struct cop_model_info *info = cop_model_info(model);
    size_t n = (size_t)call->nodes.count + 1;
    size_t n_hidden = (size_t)call->hidden.count;
    out->logits = malloc(n * (size_t)info->vocab_size * sizeof *out->logits);
    out->hidden = malloc((n_hidden * n * (size_t)info->hidden_size + 1) * sizeof *out->hidden);
    if (!fill_tree(call) || !out->logits || !out->hidden) {
        return cop_fail(err, COP_ERR_MEMORY, OWNER ": no memory for %zu rows", n);
    }
    enum cop_status status = cop_model_cache_new(model, 1, call->n, &call->cache, err);
    if (status == COP_OK) {
        status = cop_model_prefill(model, call->cache, 0, call->context.items,
                                   call->context.count - 1, 0, &cop_lua_interrupt, err);
    }
    if (status == COP_OK) {
        const struct cop_score score = {.n = call->n,
                                        .tokens = call->tokens,
                                        .parents = call->tree,
                                        .logits = out->logits,
                                        .hidden_layers = call->hidden.items,
                                        .n_hidden = call->hidden.count,
                                        .hidden = n_hidden ? out->hidden : NULL,
                                        .cancel = &cop_lua_interrupt};
        status = cop_model_score(model, call->cache, &score, err);
    }
    for (int32_t i = 0; status == COP_OK && i < call->n; i++) {
        const float *row = out->logits + (size_t)i * (size_t)info->vocab_size;
        if (cop_argmax(row, info->vocab_size) < 0) {
            status = cop_fail(err, COP_ERR_NUMERIC,
                              OWNER ": the row after node %d is not finite", (int)i);
        }
    }
    return status;
}

static int rows_text(lua_State *L)
{
    lua_pushfstring(L, "rows of a root and %I nodes", (LUAI_UACINT)lua_rawlen(L, 1));
    return 1;
}

/* { [layer] = { [0] = vector, … } } */
static void push_hidden(lua_State *L, int owner, const struct call *call, const float *hidden,
                        int32_t width)
{
    lua_newtable(L);
    for (int32_t h = 0; h < call->hidden.count; h++) {
        lua_createtable(L, call->n, 1);
        for (int32_t i = 0; i < call->n; i++) {
            size_t at = ((size_t)h * (size_t)call->n + (size_t)i) * (size_t)width;
            cop_lua_push_vector(L, owner, hidden + at, width);
            lua_rawseti(L, -2, i);
        }
        lua_rawseti(L, -2, call->hidden.items[h]);
    }
}

int cop_lua_model_score(lua_State *L)
{
    struct cop_model *model = cop_lua_check_model(L, 1, OWNER);
    const struct cop_model_info *info = cop_model_info(model);
    cop_lua_at_most(L, 2, OWNER);
    if (lua_type(L, 2) != LUA_TTABLE) {
        return cop_lua_raise(L, OWNER ": expects one table of options, got %s",
                             cop_lua_got(L, 2));
    }
    cop_lua_push_model_keeper(L, model); /* lives as long as the call */
    struct call *call = cop_lua_guard(L, sizeof *call, release_call);
    read_options(L, call, info);
    struct buffers *buffers = cop_lua_guard(L, sizeof *buffers, release_buffers);
    int owner = lua_gettop(L);
    struct cop_error err;
    enum cop_status status = check_context(call, info, &err);
    if (status == COP_OK) {
        status = run(model, call, buffers, &err);
    }
    if (status != COP_OK) {
        cop_lua_guard_close(L, owner);
        cop_lua_guard_close(L, owner - 1);
        return cop_lua_fail_of(L, OWNER, &err);
    }
    lua_createtable(L, call->n, 2);
    for (int32_t i = 0; i < call->n; i++) {
        size_t at = (size_t)i * (size_t)info->vocab_size;
        cop_lua_push_logits(L, owner, buffers->logits + at, info->vocab_size);
        lua_rawseti(L, -2, i);
    }
    push_hidden(L, owner, call, buffers->hidden, info->hidden_size);
    lua_setfield(L, -2, "hidden");
    if (luaL_newmetatable(L, ROWS)) {
        lua_pushcfunction(L, rows_text);
        lua_setfield(L, -2, "__tostring");
    }
    lua_setmetatable(L, -2);
    cop_lua_guard_close(L, owner - 1);
    cop_lua_pressure(L, (size_t)call->n * (size_t)info->vocab_size * sizeof(float));
    return 1;
}
