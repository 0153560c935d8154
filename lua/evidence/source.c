/* Rows of a script as functions of the prefix. */
#include "lua/evidence/evidence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void release_source(void *block)
{
    struct cop_source *source = block;
    free(source->literal);
    free(source->is_function);
    source->literal = NULL;
    source->is_function = NULL;
}

/* Pushes the i-th row that the value at `index` stands for. */
static void push_item(lua_State *L, int index, bool is_list, int32_t i)
{
    if (is_list) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
    } else {
        lua_pushvalue(L, index);
    }
}

/* The number of entries of the row at the top of the stack; a function is asked for its row of
 * the root. */
static int32_t find_vocab(lua_State *L, const char *what)
{
    if (lua_type(L, -1) != LUA_TFUNCTION) {
        return cop_lua_row_size(L, -1, what);
    }
    lua_pushvalue(L, -1);
    lua_newtable(L);
    lua_call(L, 1, 1);
    int32_t vocab = cop_lua_row_size(L, -1, what);
    lua_pop(L, 1);
    return vocab;
}

struct cop_source *cop_source_read(lua_State *L, int index, bool is_list, const char *name,
                                   const char *owner, int32_t vocab, int functions)
{
    luaL_checkstack(L, 16, NULL);
    index = lua_absindex(L, index);
    struct cop_source *source = cop_lua_guard(L, sizeof *source, release_source);
    int top = lua_gettop(L);
    lua_Unsigned n = is_list ? lua_rawlen(L, index) : 1;
    if (n < 1 || n > COP_TREE_LIMIT) {
        cop_lua_raise(L, "%s: option \"%s\" must be a list of rows", owner, name);
    }
    const char *what = lua_pushfstring(L, "%s: %s", owner, name);
    push_item(L, index, is_list, 0);
    vocab = vocab > 0 ? vocab : find_vocab(L, what);
    lua_pop(L, 1);
    *source = (struct cop_source){.home = cop_lua_home(L),
                                  .owner = owner,
                                  .name = name,
                                  .vocab = vocab,
                                  .n = (int32_t)n,
                                  .functions = functions};
    source->literal = calloc((size_t)n * (size_t)vocab, sizeof *source->literal);
    source->is_function = calloc((size_t)n, sizeof *source->is_function);
    if (!source->literal || !source->is_function) {
        cop_lua_raise(L, "%s: no memory for rows", owner);
    }
    for (int32_t i = 0; i < source->n; i++) {
        push_item(L, index, is_list, i);
        source->is_function[i] = lua_type(L, -1) == LUA_TFUNCTION;
        if (source->is_function[i]) {
            lua_pushfstring(L, "%s %d", name, (int)i + 1);
            lua_pushvalue(L, -2);
            lua_rawset(L, functions);
        } else {
            cop_lua_read_law(L, -1, vocab, what, source->literal + (ptrdiff_t)i * vocab);
        }
        lua_pop(L, 1);
    }
    lua_settop(L, top);
    return source;
}

struct row_call {
    const struct cop_source *source;
    const cop_token *prefix;
    int32_t length, drafter;
    double *out;
};

/* The call and the table of functions. */
static int row_body(lua_State *L)
{
    const struct row_call *call = lua_touserdata(L, 1);
    lua_pushfstring(L, "%s %d", call->source->name, (int)call->drafter + 1);
    lua_rawget(L, 2);
    cop_lua_push_ids(L, call->prefix, (size_t)call->length);
    lua_call(L, 1, 1);
    cop_lua_read_law(L, -1, call->source->vocab, call->source->name, call->out);
    return 0;
}

enum cop_status cop_source_row(void *context, const cop_token *prefix, int32_t length,
                               int32_t drafter, double *out, struct cop_error *err)
{
    const struct cop_source *source = context;
    int32_t i = drafter < source->n ? drafter : source->n - 1;
    if (!source->is_function[i]) {
        memcpy(out, source->literal + (ptrdiff_t)i * source->vocab,
               (size_t)source->vocab * sizeof *out);
        return COP_OK;
    }
    struct row_call call = {
        .source = source, .prefix = prefix, .length = length, .drafter = i, .out = out};
    char who[64];
    (void)snprintf(who, sizeof who, "%s: %s", source->owner, source->name);
    return cop_lua_protected(source->home, row_body, &call, source->functions, who, err);
}

/* ---- Shapes ---------------------------------------------------------------------------------
 */

/* Pushes a part of the builder `name`, not prepared; *option is its first option. */
static struct cop_part *push_builder(lua_State *L, const char *name, const char *owner,
                                     const struct cop_option **option)
{
    const struct cop_plug *plug =
        cop_registry_find(cop_lua_registry(L), COP_PLUG_BUILDER, name);
    struct cop_lua_part *box = cop_lua_part_new(L, COP_PLUG_BUILDER);
    box->part = plug ? cop_part_new(plug) : NULL;
    if (!box->part || !plug->options) {
        cop_lua_raise(L, "%s: no tree builder \"%s\"", owner, name);
        return NULL;
    }
    *option = plug->options;
    return box->part;
}

static struct cop_part *prepare(lua_State *L, struct cop_part *part, enum cop_status status,
                                struct cop_error *err)
{
    if (status == COP_OK) {
        status = cop_part_prepare(part, err);
    }
    if (status != COP_OK) {
        cop_lua_raise(L, "%s", err->text);
    }
    return part;
}

struct cop_part *cop_evidence_widths(lua_State *L, const struct cop_int_list *widths,
                                     const char *owner)
{
    const struct cop_option *option;
    struct cop_part *part = push_builder(L, "widths", owner, &option);
    struct cop_error err;
    enum cop_status status =
        cop_option_set_ints(option, part->state, widths->items, widths->count, owner, &err);
    return prepare(L, part, status, &err);
}

struct cop_part *cop_evidence_paths(lua_State *L, const struct cop_path_list *paths,
                                    const char *owner)
{
    const struct cop_option *option;
    struct cop_part *part = push_builder(L, "paths", owner, &option);
    int32_t *lengths = lua_newuserdatauv(L, ((size_t)paths->count + 1) * sizeof *lengths, 0);
    for (int32_t i = 0; i < paths->count; i++) {
        lengths[i] = paths->starts[i + 1] - paths->starts[i];
    }
    struct cop_error err;
    enum cop_status status = cop_option_set_paths(option, part->state, paths->ranks, lengths,
                                                  paths->count, owner, &err);
    lua_pop(L, 1);
    return prepare(L, part, status, &err);
}

struct cop_part *cop_evidence_independent_paths(lua_State *L, int32_t count, int32_t depth,
                                                const char *owner)
{
    const struct cop_option *option;
    struct cop_part *part = push_builder(L, "independent_paths", owner, &option);
    struct cop_error err;
    enum cop_status status = cop_option_set_number(&option[0], part->state, count, owner, &err);
    if (status == COP_OK) {
        status = cop_option_set_number(&option[1], part->state, depth, owner, &err);
    }
    return prepare(L, part, status, &err);
}

enum cop_draw cop_evidence_draw(int32_t choice, enum cop_draw absent)
{
    return choice >= 0 ? (enum cop_draw)(choice + COP_DRAW_INDEPENDENT) : absent;
}
