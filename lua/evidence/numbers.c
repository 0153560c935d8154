/* cop.philox and cop.process_row: the engine's own generator and row processors, one call at a
 * time. */
#include "lua/evidence/evidence.h"

#include "core/base/philox.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Philox ---------------------------------------------------------------------------------
 */

static void read_words(lua_State *L, int index, lua_Integer n, const char *what, uint32_t *out)
{
    if (lua_type(L, index) != LUA_TTABLE || (lua_Integer)lua_rawlen(L, index) != n) {
        cop_lua_raise(L, "cop.philox: the %s must be a list of %I integers, got %s", what,
                      (LUAI_UACINT)n, cop_lua_got(L, index));
    }
    for (lua_Integer i = 0; i < n; i++) {
        lua_rawgeti(L, index, i + 1);
        const char *name =
            lua_pushfstring(L, "cop.philox: word %I of the %s", (LUAI_UACINT)i + 1, what);
        out[i] = (uint32_t)cop_lua_check_integer(L, -2, 0, UINT32_MAX, name);
        lua_pop(L, 2);
    }
}

int cop_evidence_philox(lua_State *L)
{
    cop_lua_at_most(L, 2, "cop.philox");
    uint32_t counter[4], key[2], out[4];
    read_words(L, 1, 4, "counter", counter);
    read_words(L, 2, 2, "key", key);
    cop_philox(counter, key, 10, out);
    lua_createtable(L, 4, 0);
    for (int i = 0; i < 4; i++) {
        lua_pushinteger(L, out[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* ---- Rows -----------------------------------------------------------------------------------
 */

#define OWNER "cop.process_row"

struct row_options {
    void *logits, *order, *history;
    double temperature, top_p, min_p;
    int32_t top_k;
    double repetition_penalty, presence_penalty, frequency_penalty;
    void *logit_bias, *banned;
};

#define NOT_BUILT(field, kind)                                                                 \
    {                                                                                          \
        .name = #field, .type = kind, .offset = offsetof(struct row_options, field),           \
        .choices = "any", .flags = COP_OPTION_ABSENT, .help = "not built yet"                  \
    }

static const struct cop_option row_options[] = {
    {.name = "logits",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct row_options, logits),
     .choices = "any",
     .flags = COP_OPTION_REQUIRED,
     .help = "a literal row or a row object"},
    {.name = "order",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct row_options, order),
     .choices = "table",
     .help = "of the steps; default temperature, top_k, top_p, min_p"},
    {.name = "temperature",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct row_options, temperature),
     .max = HUGE_VAL,
     .fallback = 1,
     .help = "0: the best token"},
    {.name = "top_k",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct row_options, top_k),
     .max = INT32_MAX,
     .help = "0: off"},
    {.name = "top_p",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct row_options, top_p),
     .max = 1,
     .fallback = 1,
     .help = "1: off"},
    {.name = "min_p",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct row_options, min_p),
     .max = 1,
     .help = "0: off"},
    NOT_BUILT(history, COP_OPTION_OBJECT),
    NOT_BUILT(repetition_penalty, COP_OPTION_NUMBER),
    NOT_BUILT(presence_penalty, COP_OPTION_NUMBER),
    NOT_BUILT(frequency_penalty, COP_OPTION_NUMBER),
    NOT_BUILT(logit_bias, COP_OPTION_OBJECT),
    NOT_BUILT(banned, COP_OPTION_OBJECT),
    {0}};

enum step { STEP_TEMPERATURE, STEP_TOP_K, STEP_TOP_P, STEP_MIN_P, N_STEPS };
static const char *const step_names[N_STEPS] = {"temperature", "top_k", "top_p", "min_p"};

struct work {
    struct cop_row_arena *arena;
    float *logits; /* [vocab] what is left of them: -inf for what was cut */
    double *out;
    int32_t vocab;
};

static void release_work(void *block)
{
    struct work *work = block;
    cop_row_arena_free(work->arena);
    free(work->logits);
    free(work->out);
    *work = (struct work){0};
}

static void refuse_unbuilt(lua_State *L, const struct row_options *how)
{
    for (const struct cop_option *o = row_options; o->name; o++) {
        bool is_later = strcmp(o->help, "not built yet") == 0;
        if (is_later && !cop_option_is_absent(o, how) && strcmp(o->name, "history") != 0) {
            cop_lua_raise(L, OWNER ": %s is not built yet", o->name);
        }
    }
}

/* The step of a name; N_STEPS: unknown. */
static int find_step(const char *name)
{
    for (int step = 0; step < N_STEPS; step++) {
        if (strcmp(name, step_names[step]) == 0) {
            return step;
        }
    }
    return N_STEPS;
}

/* The steps in the order asked for; those that are not named do not happen. */
static int read_order(lua_State *L, int list, enum step *order)
{
    int n = (int)lua_rawlen(L, list);
    unsigned seen = 0;
    if (n > N_STEPS) {
        cop_lua_raise(L, OWNER ": option \"order\" names %d steps, there are %d", n,
                      (int)N_STEPS);
    }
    for (int i = 0; i < n; i++) {
        lua_rawgeti(L, list, i + 1);
        const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
        int step = find_step(name);
        if (step == N_STEPS) {
            cop_lua_unknown(L, OWNER, "step", name, step_names, N_STEPS);
        }
        if (seen & 1u << step) {
            cop_lua_raise(L, OWNER ": option \"order\" names %s twice", name);
        }
        seen |= 1u << step;
        order[i] = (enum step)step;
        lua_pop(L, 1);
    }
    return n;
}

/* One step: the engine's own, applied to what is left. Logits are never rescaled: every step
 * sees the temperature that came before it. */
static enum cop_status apply(struct work *work, const struct row_options *how, enum step step,
                             double temperature, struct cop_error *err)
{
    struct cop_sampling sampling = COP_SAMPLING_DEFAULT;
    sampling.temperature = temperature;
    sampling.top_k = step == STEP_TOP_K ? how->top_k : 0;
    sampling.top_p = step == STEP_TOP_P ? how->top_p : 1;
    sampling.min_p = step == STEP_MIN_P ? how->min_p : 0;
    struct cop_row row = {0};
    enum cop_status status =
        cop_row_from_logits(&row, work->logits, work->vocab, &sampling, work->arena, err);
    if (status == COP_OK) {
        status = cop_row_normalise(&row, work->arena, err);
    }
    if (status != COP_OK) {
        return status;
    }
    cop_row_fill(&row, 0, work->vocab, work->out);
    for (int32_t i = 0; i < work->vocab; i++) {
        bool was_cut = row.kind == COP_ROW_ONE_HOT
                           ? i != row.best
                           : row.mask && !(row.mask[i / 64] >> (i % 64) & 1);
        if (was_cut) {
            work->logits[i] = -INFINITY;
        }
    }
    return COP_OK;
}

static enum cop_status process(struct work *work, const struct row_options *how,
                               const enum step *order, int n, struct cop_error *err)
{
    double temperature = 1;
    bool is_default = n == N_STEPS;
    for (int i = 0; i < n; i++) {
        is_default &= (int)order[i] == i;
    }
    if (is_default) { /* exactly what a run does */
        const struct cop_sampling sampling = {.temperature = how->temperature,
                                              .top_k = how->top_k,
                                              .top_p = how->top_p,
                                              .min_p = how->min_p};
        struct cop_row row = {0};
        enum cop_status status =
            cop_row_from_logits(&row, work->logits, work->vocab, &sampling, work->arena, err);
        if (status == COP_OK) {
            status = cop_row_normalise(&row, work->arena, err);
        }
        if (status == COP_OK) {
            cop_row_fill(&row, 0, work->vocab, work->out);
        }
        return status;
    }
    enum cop_status status = COP_OK;
    for (int i = 0; i < n && status == COP_OK; i++) {
        if (order[i] == STEP_TEMPERATURE) {
            temperature = how->temperature;
        }
        status = apply(work, how, order[i], temperature, err);
    }
    return status == COP_OK ? apply(work, how, STEP_TEMPERATURE, temperature, err) : status;
}

/* Rows of the engine are f32. No step here depends on a common offset, so the largest logit
 * becomes 0 first: rounding then costs 6e-8 of the distance to it, whatever the offset was. */
static void round_logits(struct work *work)
{
    double most = -HUGE_VAL;
    for (int32_t i = 0; i < work->vocab; i++) {
        most = work->out[i] > most ? work->out[i] : most;
    }
    for (int32_t i = 0; i < work->vocab; i++) {
        work->logits[i] = (float)(isfinite(most) ? work->out[i] - most : work->out[i]);
    }
}

int cop_evidence_process_row(lua_State *L)
{
    cop_lua_one_table(L, OWNER);
    struct row_options how;
    cop_option_defaults(row_options, &how);
    lua_newtable(L); /* 2: kept */
    cop_lua_options(L, 1, row_options, &how, OWNER, 2);
    refuse_unbuilt(L, &how);
    enum step order[N_STEPS] = {STEP_TEMPERATURE, STEP_TOP_K, STEP_TOP_P, STEP_MIN_P};
    int n = N_STEPS;
    if (how.order) {
        lua_getfield(L, 2, "order");
        n = read_order(L, lua_gettop(L), order);
        lua_pop(L, 1);
    }
    lua_getfield(L, 2, "logits"); /* 3 */
    struct work *work = cop_lua_guard(L, sizeof *work, release_work);
    work->vocab = cop_lua_row_size(L, 3, OWNER ": logits");
    work->arena = cop_row_arena_new();
    work->logits = malloc((size_t)work->vocab * sizeof *work->logits);
    work->out = calloc((size_t)work->vocab, sizeof *work->out);
    if (!work->arena || !work->logits || !work->out) {
        return cop_lua_raise(L, OWNER ": no memory");
    }
    cop_lua_read_row(L, 3, work->vocab, OWNER ": logits", work->out);
    round_logits(work);
    struct cop_error err;
    if (process(work, &how, order, n, &err) != COP_OK) {
        return cop_lua_error_of(L, OWNER, &err);
    }
    lua_createtable(L, work->vocab, 0);
    for (int32_t i = 0; i < work->vocab; i++) {
        lua_pushnumber(L, work->out[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}
