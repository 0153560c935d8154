/* core.train: training data and trainers, for lua/scripts/train.lua, which checks options
 * first.
 *
 *     train.layers(model, head, options)                    layers whose states the head reads
 *     train.writer(model, path, fingerprint, recipe, layers)   → writer, next index
 *         writer:add(ids, n_prompt, index), writer:close()
 *     train.trainer(model, path, options)                   → trainer
 *         trainer:step() → loss, rows      trainer:measure(rows) → { rows =, depths =, … }
 *         trainer:begin(folder)
 *         trainer:save(path, identity), :load(path, identity), :publish(folder), :facts()
 */
#include "algorithms/train/trainer.h"
#include "lua/home.h"

#include <string.h>

#define OWNER   "cop.train"
#define WRITER  "coppice.corpus"
#define TRAINER "coppice.trainer"

static const char heads[] = "medusa|hydra|mlp|eagle|model";

/* ---- Options ------------------------------------------------------------------------------
 */

struct options {
    int32_t head, depths, blocks, inner, version, vocabulary, rows, window, labels, samples,
        held_out, loss;
    bool tied, scaled, copies_lm_head, shares_lm_head;
    double noise, feature_weight, steps, epochs, rate, warmup, decay, clip, depth_decay,
        prompt_weight, seed_low, seed_high;
};

#define FIELD(field, kind)                                                                     \
    .name = #field, .type = kind, .offset = offsetof(struct options, field)
#define INTEGER(field, low, high, value)                                                       \
    {                                                                                          \
        FIELD(field, COP_OPTION_INT), .min = low, .max = high, .fallback = value               \
    }
#define NUMBER(field, low, high, value)                                                        \
    {                                                                                          \
        FIELD(field, COP_OPTION_NUMBER), .min = low, .max = high, .fallback = value            \
    }

static const struct cop_option table[] = {
    {FIELD(head, COP_OPTION_CHOICE), .choices = heads, .flags = COP_OPTION_REQUIRED},
    INTEGER(depths, 1, COP_TRAIN_DEPTHS, 4),
    INTEGER(blocks, 1, 32, 1),
    INTEGER(inner, 0, 1 << 20, 0),
    INTEGER(version, 1, 3, 1),
    INTEGER(vocabulary, 0, 1 << 24, 0),
    INTEGER(rows, 1, 1 << 16, 256),
    INTEGER(window, 4, 1 << 14, 256),
    INTEGER(labels, 1, COP_CORPUS_LABELS, COP_CORPUS_LABELS),
    INTEGER(samples, 0, 1 << 20, 1024),
    INTEGER(held_out, 0, 1 << 20, 20),
    {FIELD(loss, COP_OPTION_CHOICE), .choices = "kl|ce"},
    {FIELD(tied, COP_OPTION_BOOL), .fallback = 1},
    {FIELD(scaled, COP_OPTION_BOOL), .fallback = 1},
    {FIELD(copies_lm_head, COP_OPTION_BOOL)},
    {FIELD(shares_lm_head, COP_OPTION_BOOL)},
    NUMBER(noise, 0, 100, 0.1),
    NUMBER(feature_weight, 0, 1e6, 10),
    NUMBER(steps, 0, 1e12, 0),
    NUMBER(epochs, 0, 1e9, 4),
    NUMBER(rate, 0, 1e3, 1e-3),
    NUMBER(warmup, 0, 1, 0.05),
    NUMBER(decay, 0, 1e3, 0),
    NUMBER(clip, 0, 1e9, 1),
    NUMBER(depth_decay, 0, 1, 0.8),
    NUMBER(prompt_weight, 0, 1, 0.3),
    NUMBER(seed_low, 0, 4294967295.0, 0),
    NUMBER(seed_high, 0, 4294967295.0, 0),
    {0}};

static const char *head_name(int32_t head)
{
    static const char *const names[] = {"medusa", "hydra", "mlp", "eagle", "model"};
    return names[head];
}

static struct cop_network_options network_options(const struct options *o)
{
    return (struct cop_network_options){.depths = o->depths,
                                        .blocks = o->blocks,
                                        .inner = o->inner,
                                        .version = o->version,
                                        .tied = o->tied,
                                        .scaled = o->scaled,
                                        .copies_lm_head = o->copies_lm_head,
                                        .shares_lm_head = o->shares_lm_head,
                                        .noise = o->noise,
                                        .feature_weight = o->feature_weight,
                                        .n_ids = o->vocabulary,
                                        .window = o->window,
                                        .seed = (uint64_t)o->seed_high << 32 |
                                                (uint64_t)o->seed_low};
}

static struct cop_trainer_options trainer_options(const struct options *o)
{
    struct cop_trainer_options out = {.head = head_name(o->head),
                                      .network = network_options(o),
                                      .samples = o->samples,
                                      .steps = (int64_t)o->steps,
                                      .epochs = o->epochs,
                                      .rate = o->rate,
                                      .warmup = o->warmup,
                                      .decay = o->decay,
                                      .clip = o->clip,
                                      .depth_decay = o->depth_decay};
    out.windows = (struct cop_windows_options){.rows = o->rows,
                                               .window = o->window,
                                               .labels = o->labels,
                                               .held_out = o->held_out,
                                               .prompt_weight = o->prompt_weight,
                                               .one_hot = o->loss == 1,
                                               .seed = out.network.seed};
    return out;
}

static void read_options(lua_State *L, int index, struct options *o)
{
    memset(o, 0, sizeof *o);
    cop_option_defaults(table, o);
    cop_lua_options(L, index, table, o, OWNER, 0); /* no strings or lists: nothing to release */
}

/* ---- Training data ------------------------------------------------------------------------
 */

struct writer {
    struct cop_corpus_writer *writer; /* NULL: closed */
    int32_t vocab;
};

static int train_layers(lua_State *L)
{
    struct cop_model *model = cop_lua_check_model(L, 1, OWNER);
    struct options o;
    read_options(L, 2, &o);
    const struct cop_network_options options = network_options(&o);
    int32_t layers[COP_CORPUS_LAYERS], n = 0;
    struct cop_error err;
    if (cop_train_layers(head_name(o.head), &options, model, layers, &n, &err) != COP_OK) {
        return cop_lua_error_of(L, OWNER, &err);
    }
    cop_lua_push_ids(L, layers, (size_t)n);
    return 1;
}

static int train_writer(lua_State *L)
{
    struct cop_corpus_source source = {.target = cop_lua_check_model(L, 1, OWNER),
                                       .fingerprint = luaL_checkstring(L, 3),
                                       .recipe = luaL_checkstring(L, 4)};
    const char *path = luaL_checkstring(L, 2);
    lua_Unsigned n = lua_rawlen(L, 5);
    luaL_argcheck(L, n >= 1 && n <= COP_CORPUS_LAYERS, 5, "one layer to eight");
    for (lua_Unsigned i = 0; i < n; i++) {
        lua_rawgeti(L, 5, (lua_Integer)i + 1);
        source.layers[i] = (int32_t)luaL_checkinteger(L, -1);
        lua_pop(L, 1);
    }
    source.n_layers = (int32_t)n;
    struct writer *box = lua_newuserdatauv(L, sizeof *box, 1);
    *box = (struct writer){.vocab = cop_model_info(source.target)->vocab_size};
    luaL_setmetatable(L, WRITER);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1); /* the model lives as long */
    struct cop_error err;
    int32_t next;
    if (cop_corpus_writer_open(&box->writer, path, &source, &next, &err) != COP_OK) {
        return cop_lua_fail_of(L, OWNER, &err);
    }
    lua_pushinteger(L, next);
    return 2;
}

struct ids_box {
    struct cop_ids ids;
};

static void release_ids(void *block)
{
    cop_ids_release(&((struct ids_box *)block)->ids);
}

static int writer_add(lua_State *L)
{
    struct writer *box = luaL_checkudata(L, 1, WRITER);
    luaL_argcheck(L, box->writer, 1, "is closed");
    lua_Integer n_prompt = luaL_checkinteger(L, 3), index = luaL_checkinteger(L, 4);
    struct ids_box *held = cop_lua_guard(L, sizeof *held, release_ids);
    int guard = lua_gettop(L);
    cop_lua_check_ids(L, 2, box->vocab, OWNER, &held->ids);
    struct cop_error err;
    enum cop_status status =
        cop_corpus_write(box->writer, held->ids.items, (int32_t)held->ids.count,
                         (int32_t)n_prompt, (int32_t)index, &cop_lua_interrupt, &err);
    cop_lua_guard_close(L, guard);
    if (status != COP_OK) {
        return cop_lua_fail_of(L, OWNER, &err);
    }
    lua_pushboolean(L, true);
    return 1;
}

static int writer_close(lua_State *L)
{
    struct writer *box = luaL_checkudata(L, 1, WRITER);
    struct cop_error err;
    enum cop_status status = cop_corpus_writer_close(box->writer, &err);
    box->writer = NULL;
    if (status != COP_OK) {
        return cop_lua_fail_of(L, OWNER, &err);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* ---- Trainers -----------------------------------------------------------------------------
 */

struct box {
    struct cop_trainer *trainer; /* NULL: closed */
};

static struct cop_trainer *check(lua_State *L)
{
    struct box *box = luaL_checkudata(L, 1, TRAINER);
    luaL_argcheck(L, box->trainer, 1, "is closed");
    return box->trainer;
}

static int answer(lua_State *L, enum cop_status status, const struct cop_error *err)
{
    if (status != COP_OK) {
        return cop_lua_fail_of(L, OWNER, err);
    }
    lua_pushboolean(L, true);
    return 1;
}

static int train_trainer(lua_State *L)
{
    struct cop_model *model = cop_lua_check_model(L, 1, OWNER);
    const char *corpus = luaL_checkstring(L, 2);
    struct options o;
    read_options(L, 3, &o);
    const struct cop_trainer_options options = trainer_options(&o);
    struct box *box = lua_newuserdatauv(L, sizeof *box, 1);
    box->trainer = NULL;
    luaL_setmetatable(L, TRAINER);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    struct cop_error err;
    if (cop_trainer_new(&box->trainer, &options, model, corpus, &err) != COP_OK) {
        return cop_lua_fail_of(L, OWNER, &err);
    }
    return 1;
}

static int trainer_close(lua_State *L)
{
    struct box *box = luaL_checkudata(L, 1, TRAINER);
    cop_trainer_free(box->trainer);
    box->trainer = NULL;
    return 0;
}

static int trainer_step(lua_State *L)
{
    struct cop_error err;
    double loss;
    int32_t rows;
    enum cop_status status = cop_trainer_step(check(L), &loss, &rows, &err);
    if (status != COP_OK) {
        return cop_lua_fail_of(L, OWNER, &err);
    }
    lua_pushnumber(L, loss);
    lua_pushinteger(L, rows);
    return 2;
}

static void push_shares(lua_State *L, const char *key, const int64_t *part,
                        const int64_t *whole, int32_t n)
{
    lua_createtable(L, n, 0);
    for (int32_t i = 0; i < n; i++) {
        lua_pushnumber(L, whole[i] > 0 ? (double)part[i] / (double)whole[i] : 0);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, key);
}

/* { rows =, conditional = { … }, alone = { … }, accepted = } */
static int trainer_measure(lua_State *L)
{
    struct cop_trainer *trainer = check(L);
    struct cop_train_accuracy a;
    struct cop_error err;
    enum cop_status status = cop_trainer_measure(trainer, luaL_checkinteger(L, 2), &a, &err);
    if (status != COP_OK) {
        return cop_lua_fail_of(L, OWNER, &err);
    }
    double accepted = 0, reached = 1;
    for (int32_t i = 0; i < a.depths; i++) {
        reached *= a.tried[i] > 0 ? (double)a.right[i] / (double)a.tried[i] : 0;
        accepted += reached;
    }
    lua_createtable(L, 0, 4);
    cop_lua_set_integer(L, "rows", a.rows);
    cop_lua_set_number(L, "accepted", accepted);
    push_shares(L, "conditional", a.right, a.tried, a.depths);
    push_shares(L, "alone", a.alone, a.alone_tried, a.depths);
    return 1;
}

static int trainer_save(lua_State *L)
{
    struct cop_error err;
    return answer(
        L, cop_trainer_save(check(L), luaL_checkstring(L, 2), luaL_checkstring(L, 3), &err),
        &err);
}

static int trainer_load(lua_State *L)
{
    struct cop_error err;
    return answer(
        L, cop_trainer_load(check(L), luaL_checkstring(L, 2), luaL_checkstring(L, 3), &err),
        &err);
}

static int trainer_publish(lua_State *L)
{
    struct cop_error err;
    return answer(L, cop_trainer_publish(check(L), luaL_checkstring(L, 2), &err), &err);
}

static int trainer_begin(lua_State *L)
{
    struct cop_error err;
    return answer(L, cop_trainer_begin(check(L), luaL_checkstring(L, 2), &err), &err);
}

static int trainer_facts(lua_State *L)
{
    struct cop_trainer_facts facts = cop_trainer_facts(check(L));
    lua_createtable(L, 0, 7);
    cop_lua_set_integer(L, "step", facts.step);
    cop_lua_set_integer(L, "steps", facts.steps);
    cop_lua_set_integer(L, "rows", facts.rows_an_epoch);
    cop_lua_set_integer(L, "held_rows", facts.held_rows);
    cop_lua_set_integer(L, "parameters", (lua_Integer)facts.parameters);
    cop_lua_set_integer(L, "texts", facts.texts);
    cop_lua_set_number(L, "rate", facts.rate);
    return 1;
}

void cop_lua_open_train(lua_State *L)
{
    static const luaL_Reg writer_methods[] = {{"add", writer_add},
                                              {"close", writer_close},
                                              {"__gc", writer_close},
                                              {"__close", writer_close},
                                              {NULL, NULL}};
    static const luaL_Reg trainer_methods[] = {{"step", trainer_step},
                                               {"measure", trainer_measure},
                                               {"save", trainer_save},
                                               {"load", trainer_load},
                                               {"publish", trainer_publish},
                                               {"facts", trainer_facts},
                                               {"begin", trainer_begin},
                                               {"close", trainer_close},
                                               {"__gc", trainer_close},
                                               {"__close", trainer_close},
                                               {NULL, NULL}};
    static const luaL_Reg functions[] = {{"layers", train_layers},
                                         {"writer", train_writer},
                                         {"trainer", train_trainer},
                                         {NULL, NULL}};
    cop_lua_class(L, WRITER, writer_methods);
    cop_lua_class(L, TRAINER, trainer_methods);
    luaL_newlib(L, functions);
    lua_setfield(L, -2, "train");
}
