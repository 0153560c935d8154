/* What a forward pass costs, measured from C: no Lua between the clock and the model. */
#include "lua/home.h"
#include "lua/system/system.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_SIZES 64

struct measuring {
    struct cop_model *model;
    struct cop_cache *cache;
    cop_token *tokens; /* [context + most nodes] */
    int32_t *parents;  /* [most nodes] a chain */
    float *logits;     /* [most nodes, vocab] */
    double *seconds;   /* [n_sizes][tries] */
    int32_t sizes[MAX_SIZES];
    int32_t n_sizes, most, context, tries;
    int32_t done;  /* rounds that were timed */
    double budget; /* seconds after which no further round begins, once there are three */
};

static void release_measuring(void *block)
{
    struct measuring *m = block;
    cop_cache_free(m->cache);
    free(m->tokens);
    free(m->parents);
    free(m->logits);
    free(m->seconds);
}

static double now_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static enum cop_status prepare(struct measuring *m, struct cop_error *err)
{
    int32_t vocab = cop_model_info(m->model)->vocab_size;
    size_t n = (size_t)m->context + (size_t)m->most;
    m->tokens = malloc(n * sizeof *m->tokens);
    m->parents = malloc((size_t)m->most * sizeof *m->parents);
    m->logits = malloc((size_t)m->most * (size_t)vocab * sizeof *m->logits);
    m->seconds = malloc((size_t)m->n_sizes * (size_t)m->tries * sizeof *m->seconds);
    if (!m->tokens || !m->parents || !m->logits || !m->seconds) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to measure %d nodes", m->most);
    }
    for (size_t i = 0; i < n; i++) { /* any ids: time does not depend on them */
        m->tokens[i] = (cop_token)((i * 7919 + 13) % (size_t)vocab);
    }
    for (int32_t i = 0; i < m->most; i++) {
        m->parents[i] = i - 1;
    }
    enum cop_status status = cop_model_cache_new(m->model, 1, m->most, &m->cache, err);
    if (status == COP_OK) {
        status = cop_model_prefill(m->model, m->cache, 0, m->tokens, m->context, 0,
                                   &cop_lua_interrupt, err);
    }
    return status;
}

static enum cop_status run_pass(struct measuring *m, int32_t nodes, double *seconds,
                                struct cop_error *err)
{
    const struct cop_score score = {.n = nodes,
                                    .tokens = m->tokens + m->context,
                                    .parents = m->parents,
                                    .logits = m->logits,
                                    .cancel = &cop_lua_interrupt};
    double started = now_seconds();
    enum cop_status status = cop_model_score(m->model, m->cache, &score, err);
    *seconds = now_seconds() - started;
    cop_cache_rollback(m->cache, 0);
    return status;
}

/* Decoding runs passes of about one size behind each other. One behind a much larger pass finds
 * less of the weights in the caches (on a processor whose last level holds the model it takes a
 * quarter longer), so each timed pass stands behind one of its own size. */
static enum cop_status time_pass(struct measuring *m, int32_t nodes, double *seconds,
                                 struct cop_error *err)
{
    enum cop_status status = run_pass(m, nodes, seconds, err);
    return status == COP_OK ? run_pass(m, nodes, seconds, err) : status;
}

#define FEWEST_ROUNDS 3

/* Sizes take turns, so that a slow moment of the machine touches all of them. The first round
 * warms up. */
static enum cop_status time_all(struct measuring *m, struct cop_error *err)
{
    double started = now_seconds();
    for (int32_t round = -1; round < m->tries; round++) {
        if (round >= FEWEST_ROUNDS && now_seconds() - started > m->budget) {
            break;
        }
        for (int32_t i = 0; i < m->n_sizes; i++) {
            double seconds;
            enum cop_status status = time_pass(m, m->sizes[i], &seconds, err);
            if (status != COP_OK) {
                return status;
            }
            if (round >= 0) {
                m->seconds[i * m->tries + round] = seconds;
            }
        }
        m->done = round + 1;
    }
    return COP_OK;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Pushes { nodes=, context=, seconds = median, spread = interquartile range }. */
static void push_point(lua_State *L, struct measuring *m, int32_t size)
{
    double *of = m->seconds + (size_t)size * (size_t)m->tries;
    int32_t n = m->done;
    qsort(of, (size_t)n, sizeof *of, compare);
    lua_createtable(L, 0, 5);
    cop_lua_set_integer(L, "nodes", m->sizes[size]);
    cop_lua_set_integer(L, "context", m->context);
    cop_lua_set_number(L, "seconds", (of[(n - 1) / 2] + of[n / 2]) / 2);
    cop_lua_set_integer(L, "tries", n);
    cop_lua_set_number(L, "spread", of[3 * (n - 1) / 4] - of[(n - 1) / 4]);
}

static void read_sizes(lua_State *L, int index, struct measuring *m)
{
    luaL_checktype(L, index, LUA_TTABLE);
    m->n_sizes = (int32_t)lua_rawlen(L, index);
    luaL_argcheck(L, m->n_sizes >= 1 && m->n_sizes <= MAX_SIZES, index, "1 to 64 sizes");
    for (int32_t i = 0; i < m->n_sizes; i++) {
        lua_rawgeti(L, index, i + 1);
        m->sizes[i] =
            (int32_t)cop_lua_check_integer(L, -1, 1, COP_TREE_LIMIT + 1, "cop.cost: sizes");
        m->most = m->sizes[i] > m->most ? m->sizes[i] : m->most;
        lua_pop(L, 1);
    }
}

/* score(model, context, sizes, tries, budget) → list of points | nil, message, code */
static int measure_score(lua_State *L)
{
    struct cop_error err = {0};
    lua_settop(L, 5);
    struct measuring *m = cop_lua_guard(L, sizeof *m, release_measuring);
    m->model = cop_lua_check_model(L, 1, "cop.cost");
    m->context = (int32_t)cop_lua_check_integer(L, 2, 0, 1 << 24, "cop.cost: contexts");
    read_sizes(L, 3, m);
    m->tries = (int32_t)cop_lua_check_integer(L, 4, 1, 10000, "cop.cost: tries");
    m->budget = luaL_checknumber(L, 5);
    enum cop_status status = prepare(m, &err);
    if (status == COP_OK) {
        status = time_all(m, &err);
    }
    if (status != COP_OK) {
        cop_lua_guard_close(L, 6);
        return cop_lua_error(L, &err);
    }
    lua_createtable(L, m->n_sizes, 0);
    for (int32_t i = 0; i < m->n_sizes; i++) {
        push_point(L, m, i);
        lua_rawseti(L, -2, i + 1);
    }
    cop_lua_guard_close(L, 6);
    return 1;
}

/* bandwidth(threads, tries) → bytes per second */
static int measure_bandwidth(lua_State *L)
{
    lua_pushnumber(L, cop_cpu_read_bandwidth((int32_t)luaL_checkinteger(L, 1),
                                             (int32_t)luaL_checkinteger(L, 2)));
    return 1;
}

/* int8_peak(threads) → multiply-accumulates per second */
static int measure_int8(lua_State *L)
{
    lua_pushnumber(L, cop_cpu_int8_peak((int32_t)luaL_checkinteger(L, 1)));
    return 1;
}

void cop_lua_open_measure(lua_State *L)
{
    static const luaL_Reg functions[] = {{"score", measure_score},
                                         {"bandwidth", measure_bandwidth},
                                         {"int8_peak", measure_int8},
                                         {NULL, NULL}};
    luaL_newlib(L, functions);
    lua_setfield(L, -2, "measure");
}
