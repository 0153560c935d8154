/* cop.process_row: the processors of core/cycle/rows/process.h on one row, in double and in any
 * order. */
#include "lua/evidence/evidence.h"

#include "core/cycle/rows/process.h"
#include "lua/engine/processing.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OWNER "cop.process_row"

struct row_options {
    void *logits, *order, *history, *end_tokens;
    int32_t min_tokens, prompt_length;
    struct cop_sampling sampling;
    struct cop_lua_processing processing;
};

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
     .help = "of the steps; what it does not name does not happen"},
    {.name = "history",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct row_options, history),
     .choices = "table",
     .help = "the ids that penalties count"},
    {.name = "prompt_length",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct row_options, prompt_length),
     .max = INT32_MAX,
     .help = "so many of the history are the prompt, the rest the answer"},
    {.name = "min_tokens",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct row_options, min_tokens),
     .max = INT32_MAX,
     .help = "no end token before the answer has that many"},
    {.name = "end_tokens",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct row_options, end_tokens),
     .choices = "table",
     .help = "the ids that end an answer"},
    {.name = "temperature",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct row_options, sampling.temperature),
     .max = HUGE_VAL,
     .fallback = 1,
     .help = "0: the best token"},
    {.name = "top_k",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct row_options, sampling.top_k),
     .max = INT32_MAX,
     .help = "0: off"},
    {.name = "top_p",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct row_options, sampling.top_p),
     .max = 1,
     .fallback = 1,
     .help = "1: off"},
    {.name = "min_p",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct row_options, sampling.min_p),
     .max = 1,
     .help = "0: off"},
    COP_LUA_PROCESSING_OPTIONS(offsetof(struct row_options, processing)),
    COP_LUA_PROCESS_OBJECT(offsetof(struct row_options, processing), processor, "function",
                           "function(prefix ids, row): changes logits in place"),
    {0}};

/* The steps that a row by itself can take, in the documented order. */
static const enum cop_step usual[] = {COP_STEP_REPETITION_PENALTY,
                                      COP_STEP_PRESENCE_PENALTY,
                                      COP_STEP_FREQUENCY_PENALTY,
                                      COP_STEP_LOGIT_BIAS,
                                      COP_STEP_BANNED,
                                      COP_STEP_MIN_TOKENS,
                                      COP_STEP_PROCESSOR,
                                      COP_STEP_TEMPERATURE,
                                      COP_STEP_TOP_K,
                                      COP_STEP_TOP_P,
                                      COP_STEP_MIN_P};
enum { N_STEPS = sizeof usual / sizeof *usual };

struct work {
    struct cop_row_arena *arena;
    double *logits, *out; /* [vocab] */
    struct cop_ids history, ends;
};

static void release_work(void *block)
{
    struct work *work = block;
    cop_row_arena_free(work->arena);
    free(work->logits);
    free(work->out);
    cop_ids_release(&work->history);
    cop_ids_release(&work->ends);
    *work = (struct work){0};
}

/* The steps in the order asked for. */
static int read_order(lua_State *L, int list, enum cop_step *order)
{
    const char *names[N_STEPS];
    for (int i = 0; i < N_STEPS; i++) {
        names[i] = cop_steps[usual[i]].name;
    }
    lua_Unsigned n = lua_rawlen(L, list);
    bool seen[N_STEPS] = {0};
    for (lua_Unsigned i = 0; i < n; i++) {
        lua_rawgeti(L, list, (lua_Integer)i + 1);
        const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
        int step = 0;
        while (step < N_STEPS && strcmp(name, names[step]) != 0) {
            step++;
        }
        if (step == N_STEPS) {
            return cop_lua_unknown(L, OWNER, "step", name, names, N_STEPS);
        }
        if (seen[step]) {
            return cop_lua_raise(L, OWNER ": option \"order\" names %s twice", name);
        }
        seen[step] = true;
        order[i] = usual[step]; /* none is named twice, so i stays below N_STEPS */
        lua_pop(L, 1);
    }
    return (int)n;
}

/* A step whose option is given and which the order leaves out would be ignored in silence. */
static void check_left_out(lua_State *L, const enum cop_step *order, int n)
{
    int top = lua_gettop(L);
    for (int i = 0; i < N_STEPS; i++) {
        bool is_named = false;
        for (int k = 0; k < n; k++) {
            is_named = is_named || order[k] == usual[i];
        }
        const char *name = cop_steps[usual[i]].name;
        if (!is_named && lua_getfield(L, 1, name) != LUA_TNIL) {
            cop_lua_raise(
                L, OWNER ": option \"%s\" is given, but option \"order\" leaves the step out",
                name);
        }
        lua_settop(L, top);
    }
}

static enum cop_status process(struct cop_process *process, const struct cop_sampling *sampling,
                               const enum cop_step *order, int n, double *out,
                               struct cop_error *err)
{
    double *logits = process->logits.f64;
    int32_t vocab = process->logits.vocab;
    enum cop_status status = cop_processing_check(process->how, vocab, err);
    for (int i = 0; i < n && status == COP_OK; i++) {
        status = order[i] < COP_STEP_FIRST_SHAPING
                     ? cop_process_step(process, order[i], err)
                     : cop_exact_step(logits, vocab, order[i], sampling, err);
    }
    return status == COP_OK ? cop_exact_probabilities(logits, vocab, out, err) : status;
}

static void read_ids(lua_State *L, const char *name, int32_t vocab, struct cop_ids *out)
{
    if (lua_getfield(L, 2, name) != LUA_TNIL) {
        cop_lua_check_ids(L, lua_gettop(L), vocab, OWNER, out);
    }
    lua_pop(L, 1);
}

/* The steps that are taken, in order; returns how many. */
static int choose_order(lua_State *L, bool is_given, enum cop_step *order)
{
    memcpy(order, usual, sizeof usual);
    if (!is_given) {
        return N_STEPS;
    }
    lua_getfield(L, 2, "order");
    int n = read_order(L, lua_gettop(L), order);
    check_left_out(L, order, n);
    lua_pop(L, 1);
    return n;
}

/* Room for a row as long as the table at 3, and what the row at 3 and the lists say. Pushed. */
static struct work *read_work(lua_State *L, int32_t vocab)
{
    struct work *work = cop_lua_guard(L, sizeof *work, release_work);
    work->arena = cop_row_arena_new();
    work->logits = malloc((size_t)vocab * sizeof *work->logits);
    work->out = calloc((size_t)vocab, sizeof *work->out);
    if (!work->arena || !work->logits || !work->out) {
        cop_lua_raise(L, OWNER ": no memory");
    }
    cop_lua_read_row(L, 3, vocab, OWNER ": logits", work->logits);
    read_ids(L, "history", vocab, &work->history);
    read_ids(L, "end_tokens", vocab, &work->ends);
    return work;
}

int cop_evidence_process_row(lua_State *L)
{
    cop_lua_one_table(L, OWNER);
    struct row_options how;
    memset(&how, 0, sizeof how);
    cop_option_defaults(row_options, &how);
    lua_newtable(L); /* 2: kept */
    cop_lua_options(L, 1, row_options, &how, OWNER, 2);
    struct cop_processing processing = cop_lua_read_processing(L, &how.processing, 2, OWNER);
    enum cop_step order[N_STEPS];
    int n = choose_order(L, how.order != NULL, order);
    lua_getfield(L, 2, "logits"); /* 3 */
    int32_t vocab = cop_lua_row_size(L, 3, OWNER ": logits");
    struct work *work = read_work(L, vocab);
    int32_t n_history = (int32_t)work->history.count;
    if (how.prompt_length > n_history) {
        return cop_lua_raise(L,
                             OWNER ": option \"prompt_length\" is %d, the history has %d ids",
                             (int)how.prompt_length, (int)n_history);
    }
    bool is_short = n_history - how.prompt_length < how.min_tokens;
    struct cop_process steps = {.how = &processing,
                                .logits = {.f64 = work->logits, .vocab = vocab},
                                .prefix = work->history.items,
                                .n_prefix = n_history,
                                .n_prompt = how.prompt_length,
                                .ends = work->ends.items,
                                .n_ends = is_short ? work->ends.count : 0,
                                .arena = work->arena};
    struct cop_error err;
    struct cop_lua_border border;
    cop_lua_enter(cop_lua_home(L), L, &border);
    enum cop_status status = process(&steps, &how.sampling, order, n, work->out, &err);
    status = cop_lua_leave(cop_lua_home(L), &border, status, &err);
    if (status != COP_OK) {
        return cop_lua_error_of(L, OWNER, &err);
    }
    lua_createtable(L, vocab, 0);
    for (int32_t i = 0; i < vocab; i++) {
        lua_pushnumber(L, work->out[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}
