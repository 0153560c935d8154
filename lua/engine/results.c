/* Cycles and results as Lua tables. */
#include "lua/engine/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A copy of a cycle and of what it lent, in one block. */
struct cop_lua_cycle {
    struct cop_lua_cycle *next;
    struct cop_cycle cycle;
    struct cop_tree tree; /* token and parent only */
    double numbers[];     /* draft_logprob, then the integers */
};

enum cop_status cop_lua_cycles_add(struct cop_lua_cycles *cycles, const struct cop_cycle *cycle,
                                   struct cop_error *err)
{
    size_t n = (size_t)cycle->tree->size, m = (size_t)cycle->n_accepted;
    struct cop_lua_cycle *copy =
        malloc(sizeof *copy + n * sizeof(double) + (2 * n + m) * sizeof(int32_t));
    if (!copy) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to keep a cycle");
    }
    int32_t *tokens = (int32_t *)(void *)(copy->numbers + n);
    int32_t *parents = tokens + n, *accepted = parents + n;
    *copy = (struct cop_lua_cycle){.cycle = *cycle};
    copy->tree =
        (struct cop_tree){.size = cycle->tree->size, .token = tokens, .parent = parents};
    copy->cycle.tree = &copy->tree;
    copy->cycle.draft_logprob = copy->numbers;
    copy->cycle.accepted = accepted;
    memcpy(tokens, cycle->tree->token, n * sizeof *tokens);
    memcpy(parents, cycle->tree->parent, n * sizeof *parents);
    memcpy(copy->numbers, cycle->draft_logprob, n * sizeof *copy->numbers);
    memcpy(accepted, cycle->accepted, m * sizeof *accepted);
    if (cycles->last) {
        cycles->last->next = copy;
    } else {
        cycles->first = copy;
    }
    cycles->last = copy;
    cycles->count++;
    return COP_OK;
}

void cop_lua_cycles_release(struct cop_lua_cycles *cycles)
{
    struct cop_lua_cycle *cycle = cycles->first;
    while (cycle) {
        struct cop_lua_cycle *next = cycle->next;
        free(cycle);
        cycle = next;
    }
    *cycles = (struct cop_lua_cycles){0};
}

void cop_lua_push_cycle(lua_State *L, const struct cop_cycle *cycle)
{
    luaL_checkstack(L, 8, NULL);
    lua_createtable(L, 0, 20);
    cop_lua_set_integer(L, "cycle", cycle->cycle);
    cop_lua_set_integer(L, "progress", cycle->progress);
    cop_lua_set_integer(L, "kept", cycle->kept);
    cop_lua_push_ids(L, cycle->accepted, (size_t)cycle->n_accepted);
    lua_setfield(L, -2, "accepted");
    cop_lua_set_integer(L, "last", cycle->last);
    cop_lua_set_string(L, "origin", cop_origin_name(cycle->origin));
    cop_lua_set_integer(L, "nodes", cycle->tree->size - 1);
    if (cycle->undrafted != COP_UNDRAFTED_NOT) {
        cop_lua_set_string(L, "undrafted", cop_undrafted_name(cycle->undrafted));
    }
    cop_lua_push_ids(L, cycle->tree->token + 1, (size_t)(cycle->tree->size - 1));
    lua_setfield(L, -2, "tokens");
    cop_lua_push_ids(L, cycle->tree->parent + 1, (size_t)(cycle->tree->size - 1));
    lua_setfield(L, -2, "parents");
    lua_createtable(L, cycle->tree->size - 1, 0);
    for (int32_t i = 1; i < cycle->tree->size; i++) {
        if (!isnan(cycle->draft_logprob[i])) { /* no row: nil */
            lua_pushnumber(L, cycle->draft_logprob[i]);
            lua_rawseti(L, -2, i);
        }
    }
    lua_setfield(L, -2, "draft_logprobs");
    cop_lua_set_number(L, "D", cycle->draft_us * 1e-6);
    cop_lua_set_number(L, "V", cycle->score_us * 1e-6);
    cop_lua_set_number(L, "H", (cycle->verify_us + cycle->commit_us + cycle->other_us) * 1e-6);
    cop_lua_set_number(L, "lua", cycle->lua_us * 1e-6);
    cop_lua_set_integer(L, "context", cycle->context_length);
    cop_lua_set_integer(L, "scored", cycle->tokens_scored);
    cop_lua_set_integer(L, "batch", cycle->batch_size);
    cop_lua_set_integer(L, "kv_bytes", cycle->kv_bytes_moved);
    cop_lua_set_integer(L, "request", cycle->request);
}

void cop_lua_push_cycles(lua_State *L, const struct cop_lua_cycles *cycles)
{
    luaL_checkstack(L, 4, NULL);
    lua_createtable(L, cycles->count, 0);
    lua_Integer n = 0;
    for (const struct cop_lua_cycle *cycle = cycles->first; cycle; cycle = cycle->next) {
        cop_lua_push_cycle(L, &cycle->cycle);
        lua_rawseti(L, -2, ++n);
    }
}

static void push_logprob(lua_State *L, const struct cop_logprob *logprob)
{
    lua_createtable(L, 0, 3);
    cop_lua_set_integer(L, "id", logprob->id);
    cop_lua_set_number(L, "logprob", logprob->logprob);
    lua_createtable(L, logprob->n_top, 0);
    for (int32_t i = 0; i < logprob->n_top; i++) {
        lua_createtable(L, 0, 2);
        cop_lua_set_integer(L, "id", logprob->top[i]);
        cop_lua_set_number(L, "logprob", logprob->top_logprobs[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "top");
}

static void push_counts(lua_State *L, const struct cop_result *result)
{
    cop_lua_set_integer(L, "request", result->request);
    cop_lua_set_integer(L, "forward_passes", result->forward_passes);
    cop_lua_set_integer(L, "drafted", result->drafted);
    cop_lua_set_integer(L, "accepted", result->accepted);
    cop_lua_set_integer(L, "progress", result->progress);
    cop_lua_set_integer(L, "peak_pages", result->peak_pages);
    if (result->forward_passes > 0) {
        cop_lua_set_number(L, "block_efficiency",
                           (double)result->progress / (double)result->forward_passes);
    }
    cop_lua_set_number(L, "seconds", result->seconds);
    cop_lua_set_number(L, "prefill_seconds", result->prefill_seconds);
    cop_lua_set_number(L, "draft_seconds", result->draft_seconds);
    cop_lua_set_number(L, "score_seconds", result->score_seconds);
    cop_lua_set_number(L, "host_seconds", result->host_seconds);
}

void cop_lua_push_result(lua_State *L, const struct cop_result *result)
{
    luaL_checkstack(L, 8, NULL);
    lua_createtable(L, 0, 24);
    cop_lua_push_ids(L, result->tokens, (size_t)result->n_tokens);
    lua_setfield(L, -2, "tokens");
    lua_pushlstring(L, result->text.bytes ? result->text.bytes : "", result->text.length);
    lua_setfield(L, -2, "text");
    cop_lua_set_string(L, "finish", cop_finish_name(result->finish));
    if (result->finish == COP_FINISH_ERROR) {
        cop_lua_set_string(L, "error", result->error.text);
        cop_lua_set_string(L, "code", cop_status_name(result->error.code));
    }
    if (result->logprobs) {
        lua_createtable(L, result->n_tokens, 0);
        for (int32_t i = 0; i < result->n_tokens; i++) {
            push_logprob(L, &result->logprobs[i]);
            lua_rawseti(L, -2, i + 1);
        }
        lua_setfield(L, -2, "logprobs");
    }
    push_counts(L, result);
}
