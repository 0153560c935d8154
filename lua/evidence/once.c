/* cop.propose_once and cop.build_tree: the tree that would be drafted, without a target to
 * score it.
 *
 * build_tree is propose_once with a proposer whose rows are the script's. Without rows a
 * builder whose shape does not depend on them is asked for its ranks. */
#include "lua/evidence/evidence.h"

#include "core/cycle/engine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- What both share ------------------------------------------------------------------------
 */

struct drawing {
    struct cop_tree tree;
    double *probabilities, *scores; /* [tree capacity] */
    struct cop_ids context;
    int32_t *parents, *ranks;  /* of a sketch */
    struct cop_part *proposer; /* build_tree's own */
    struct cop_part *builder;  /* the proposer's own */
    int32_t matched;           /* by a lookup; -1: it was none */
};

static void release_drawing(void *block)
{
    struct drawing *drawing = block;
    cop_tree_release(&drawing->tree);
    cop_ids_release(&drawing->context);
    cop_part_free(drawing->proposer);
    cop_part_free(drawing->builder);
    free(drawing->probabilities);
    free(drawing->scores);
    free(drawing->parents);
    free(drawing->ranks);
    memset(drawing, 0, sizeof *drawing);
}

/* values[1..n) that are numbers as a list `name` of the table at the top; none: no list. */
static bool push_values(lua_State *L, const char *name, const double *values, int32_t n)
{
    bool has_any = false;
    lua_createtable(L, n - 1, 0);
    for (int32_t node = 1; node < n; node++) {
        if (!isnan(values[node])) {
            lua_pushnumber(L, values[node]);
            lua_rawseti(L, -2, node);
            has_any = true;
        }
    }
    if (has_any) {
        lua_setfield(L, -2, name);
    } else {
        lua_pop(L, 1);
    }
    return has_any;
}

/* scores =, and what they say of the whole tree: expected_accepted. */
static void push_scores(lua_State *L, const double *scores, int32_t n)
{
    double sum = 0;
    for (int32_t node = 1; node < n; node++) {
        sum += scores[node];
    }
    if (push_values(L, "scores", scores, n) && !isnan(sum)) {
        cop_lua_set_number(L, "expected_accepted", sum);
    }
}

/* { tokens =, parents =, probabilities =, scores =, expected_accepted =, match = } */
static void push_drawing(lua_State *L, const struct drawing *drawing)
{
    const struct cop_tree *tree = &drawing->tree;
    cop_lua_push_shape(L, tree);
    (void)push_values(L, "probabilities", drawing->probabilities, tree->size);
    push_scores(L, drawing->scores, tree->size);
    if (drawing->matched >= 0) {
        cop_lua_set_integer(L, "match", drawing->matched);
    }
}

static const struct cop_builder_ops *builder_ops(const struct cop_part *builder)
{
    return (const struct cop_builder_ops *)(const void *)builder->plug;
}

static void make_room(lua_State *L, struct drawing *drawing, int32_t nodes, const char *owner)
{
    struct cop_error err;
    drawing->probabilities = calloc((size_t)nodes + 1, sizeof(double));
    drawing->scores = calloc((size_t)nodes + 1, sizeof(double));
    if (!drawing->probabilities || !drawing->scores ||
        cop_tree_init(&drawing->tree, nodes + 1, &err) != COP_OK) {
        cop_lua_raise(L, "%s: no memory for %d nodes", owner, (int)nodes);
    }
}

static enum cop_draw choose_draw(int32_t choice, const struct cop_part *builder)
{
    bool can_best =
        !builder || (builder_ops(builder)->draws & COP_DRAW_BIT(COP_DRAW_DETERMINISTIC));
    return cop_evidence_draw(choice, can_best ? COP_DRAW_DETERMINISTIC : COP_DRAW_INDEPENDENT);
}

static void check_draw(lua_State *L, const struct cop_part *builder, enum cop_draw draw,
                       enum cop_supply supply, const char *owner)
{
    struct cop_error err;
    if (builder && cop_builder_check_draw(builder, draw, &err) != COP_OK) {
        cop_lua_raise(L, "%s: %s", owner, err.text);
    }
    if (supply == COP_SUPPLY_POINTS && draw != COP_DRAW_DETERMINISTIC) {
        cop_lua_raise(L,
                      "%s: the proposer supplies points without probabilities: draw must be "
                      "\"deterministic\"",
                      owner);
    }
}

struct once {
    struct cop_part *proposer, *builder;
    enum cop_draw draw;
    const struct cop_proposer_env *env;
    lua_Integer seed;
};

/* Drafts for drawing->context; pushes the result. */
static int draft(lua_State *L, struct drawing *drawing, const struct once *once,
                 const char *owner)
{
    const struct cop_proposer_ops *ops =
        (const struct cop_proposer_ops *)(const void *)once->proposer->plug;
    check_draw(L, once->builder, once->draw, cop_proposer_facts(once->proposer).supply, owner);
    int32_t nodes = once->builder ? builder_ops(once->builder)->nodes(once->builder->state)
                                  : ops->own_depth(once->proposer->state);
    make_room(L, drawing, nodes, owner);
    struct cop_error err = {0};
    struct cop_lua_border border;
    struct cop_lua_home *home = cop_lua_home(L);
    cop_lua_enter(home, L, &border);
    enum cop_status status = cop_propose_once(
        once->proposer, once->builder, once->draw, once->env, drawing->context.items,
        (int32_t)drawing->context.count, (uint64_t)once->seed, &drawing->tree,
        drawing->probabilities, drawing->scores, &drawing->matched, &err);
    status = cop_lua_leave(home, &border, status, &err);
    if (status == COP_ERR_CALLBACK) {
        lua_pushstring(L, err.text);
        return lua_error(L);
    }
    if (status != COP_OK) {
        return cop_lua_error_of(L, owner, &err);
    }
    push_drawing(L, drawing);
    return 1;
}

/* ---- propose_once ---------------------------------------------------------------------------
 */

struct once_options {
    void *proposer, *context, *tree, *model, *seed;
    int32_t draw, vocab_size;
    double temperature;
};

#define ONCE_OBJECT(field, type_name, more, text)                                              \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_OBJECT,                                             \
        .offset = offsetof(struct once_options, field), .choices = type_name, .flags = more,   \
        .help = text                                                                           \
    }

static const struct cop_option once_options[] = {
    ONCE_OBJECT(proposer, "propose", COP_OPTION_REQUIRED, "the proposer"),
    ONCE_OBJECT(context, "table", COP_OPTION_REQUIRED, "token ids, at least one"),
    ONCE_OBJECT(tree, "tree", 0, "absent: the proposer's own shape"),
    ONCE_OBJECT(model, "model", 0, "the target"),
    ONCE_OBJECT(seed, "number", 0, "of random draws"),
    {.name = "draw",
     .type = COP_OPTION_CHOICE,
     .offset = offsetof(struct once_options, draw),
     .choices = COP_EVIDENCE_DRAWS,
     .flags = COP_OPTION_ABSENT,
     .help = "how children are picked; absent: deterministic where the builder can"},
    {.name = "vocab_size",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct once_options, vocab_size),
     .min = 1,
     .max = INT32_MAX,
     .flags = COP_OPTION_ABSENT,
     .help = "without a model: of the ids"},
    {.name = "temperature",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct once_options, temperature),
     .max = HUGE_VAL,
     .fallback = 1,
     .help = "of the draft's rows where it does not set its own"},
    {0}};

static lua_Integer read_seed(lua_State *L, void *is_given, int kept, const char *owner)
{
    if (!is_given) {
        return 0;
    }
    const char *what = lua_pushfstring(L, "%s: option \"seed\"", owner);
    lua_getfield(L, kept, "seed");
    lua_Integer seed = cop_lua_check_integer(L, -1, LUA_MININTEGER, LUA_MAXINTEGER, what);
    lua_pop(L, 2);
    return seed;
}

/* The value of an object option of this kind; NULL: another option, or absent. */
static void *named(const struct cop_part *part, const struct cop_option *o, const char *kind)
{
    const char *slot = (const char *)part->state + o->offset;
    bool is_it = o->type == COP_OPTION_OBJECT && o->choices && strcmp(o->choices, kind) == 0;
    return is_it ? *(void *const *)(const void *)slot : NULL;
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* The vocabulary of the model that the proposer's own options name, or those of the proposers
 * that it is made of; 0: none. */
static int32_t draft_vocab(const struct cop_part *proposer)
{
    int32_t vocab = 0;
    for (const struct cop_option *o = proposer->plug->options; o && o->name; o++) {
        const struct cop_model *model = named(proposer, o, "model");
        const struct cop_part *inner = named(proposer, o, "propose");
        vocab = model   ? larger(vocab, cop_model_info(model)->vocab_size)
                : inner ? larger(vocab, draft_vocab(inner))
                        : vocab;
    }
    return vocab;
}

/* One more than the highest id in the proposer's options: lists, or what it says itself. */
static int32_t listed_vocab(const struct cop_part *proposer)
{
    const struct cop_proposer_ops *ops = (const struct cop_proposer_ops *)proposer->plug;
    int32_t vocab = ops->vocab ? ops->vocab(proposer->state) : 0;
    for (const struct cop_option *o = proposer->plug->options; o && o->name; o++) {
        const char *slot = (const char *)proposer->state + o->offset;
        const struct cop_path_list *list = (const void *)slot;
        int32_t n =
            o->type == COP_OPTION_LISTS && list->count > 0 ? list->starts[list->count] : 0;
        for (int32_t i = 0; i < n; i++) {
            vocab = larger(vocab, list->ranks[i] < INT32_MAX ? list->ranks[i] + 1 : 0);
        }
        const struct cop_part *inner = named(proposer, o, "propose");
        vocab = inner ? larger(vocab, listed_vocab(inner)) : vocab;
    }
    return vocab;
}

/* What says how many ids there are; 0: nothing. */
static int32_t known_vocab(const struct once_options *how)
{
    return how->model            ? cop_model_info(how->model)->vocab_size
           : how->vocab_size > 0 ? how->vocab_size
                                 : draft_vocab(how->proposer);
}

/* As many as the context and the options need. */
static int32_t guess_vocab(const struct once_options *how, const struct drawing *drawing)
{
    int32_t vocab = larger(1, listed_vocab(how->proposer));
    for (size_t i = 0; i < drawing->context.count; i++) {
        cop_token id = drawing->context.items[i];
        vocab = larger(vocab, id < INT32_MAX ? id + 1 : id);
    }
    return vocab;
}

int cop_evidence_propose_once(lua_State *L)
{
    static const char owner[] = "cop.propose_once";
    cop_lua_one_table(L, owner);
    struct once_options how;
    cop_option_defaults(once_options, &how);
    lua_newtable(L); /* 2 kept, 3 drawing */
    cop_lua_options(L, 1, once_options, &how, owner, 2);
    struct drawing *drawing = cop_lua_guard(L, sizeof *drawing, release_drawing);
    lua_getfield(L, 2, "context");
    int32_t known = known_vocab(&how);
    cop_lua_check_ids(L, -1, known > 0 ? known : INT32_MAX, owner, &drawing->context);
    if (drawing->context.count < 1) {
        return cop_lua_raise(L, "%s: the context needs at least one token", owner);
    }
    lua_pop(L, 1);
    struct cop_proposer_env env = {.target = how.model,
                                   .vocab_size = known > 0 ? known : guess_vocab(&how, drawing),
                                   .vocab_is_guessed = known == 0,
                                   .context =
                                       how.model ? cop_model_info(how.model)->context : 1 << 20,
                                   .n_sequences = 1,
                                   .capacity = COP_TREE_LIMIT,
                                   .sampling = {.temperature = how.temperature, .top_p = 1},
                                   .cancel = &cop_lua_interrupt};
    struct cop_part *builder = how.tree;
    if (!builder) {
        struct cop_error err = {0};
        if (cop_proposer_own_tree(how.proposer, &drawing->builder, &err) != COP_OK) {
            return cop_lua_error_of(L, owner, &err);
        }
        builder = drawing->builder;
    }
    struct once once = {.proposer = how.proposer,
                        .builder = builder,
                        .draw = choose_draw(how.draw, builder),
                        .env = &env,
                        .seed = read_seed(L, how.seed, 2, owner)};
    return draft(L, drawing, &once, owner);
}

/* ---- build_tree -----------------------------------------------------------------------------
 */

struct build_options {
    void *tree, *rows, *seed;
    int32_t draw;
};

static const struct cop_option build_options[] = {
    {.name = "tree",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct build_options, tree),
     .choices = "tree",
     .flags = COP_OPTION_REQUIRED,
     .help = "the builder"},
    {.name = "rows",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct build_options, rows),
     .choices = "any",
     .help = "a row, or function(prefix) returning one; absent: the shape by ranks"},
    {.name = "seed",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct build_options, seed),
     .choices = "number",
     .help = "of random draws"},
    {.name = "draw",
     .type = COP_OPTION_CHOICE,
     .offset = offsetof(struct build_options, draw),
     .choices = COP_EVIDENCE_DRAWS,
     .flags = COP_OPTION_ABSENT,
     .help = "how children are picked; absent: deterministic where the builder can"},
    {0}};

/* { parents =, ranks =, scores =, expected_accepted = }: ranks count from 1. */
static int sketch(lua_State *L, const struct cop_part *builder, struct drawing *drawing)
{
    const struct cop_builder_ops *ops = builder_ops(builder);
    if (!ops->sketch) {
        return cop_lua_raise(L,
                             "cop.build_tree: the shape of cop.tree.%s depends on the rows: "
                             "option \"rows\" is required",
                             builder->plug->name);
    }
    int32_t room = ops->nodes(builder->state) + 1;
    drawing->parents = calloc((size_t)room, sizeof *drawing->parents);
    drawing->ranks = calloc((size_t)room, sizeof *drawing->ranks);
    drawing->scores = calloc((size_t)room, sizeof *drawing->scores);
    if (!drawing->parents || !drawing->ranks || !drawing->scores) {
        return cop_lua_raise(L, "cop.build_tree: no memory");
    }
    for (int32_t i = 0; i < room; i++) {
        drawing->scores[i] = (double)NAN;
    }
    int32_t n = ops->sketch(builder->state, drawing->parents, drawing->ranks, drawing->scores);
    lua_createtable(L, 0, 4);
    push_scores(L, drawing->scores, n);
    cop_lua_push_ids(L, drawing->parents + 1, (size_t)(n - 1));
    lua_setfield(L, -2, "parents");
    lua_createtable(L, n - 1, 0);
    for (int32_t i = 1; i < n; i++) {
        lua_pushinteger(L, drawing->ranks[i] + 1);
        lua_rawseti(L, -2, i);
    }
    lua_setfield(L, -2, "ranks");
    return 1;
}

int cop_evidence_build_tree(lua_State *L)
{
    static const char owner[] = "cop.build_tree";
    cop_lua_one_table(L, owner);
    struct build_options how;
    cop_option_defaults(build_options, &how);
    lua_newtable(L); /* 2 kept, 3 drawing */
    cop_lua_options(L, 1, build_options, &how, owner, 2);
    struct drawing *drawing = cop_lua_guard(L, sizeof *drawing, release_drawing);
    if (!how.rows) {
        return sketch(L, how.tree, drawing);
    }
    lua_getfield(L, 2, "rows");
    struct cop_source *source = cop_source_read(L, lua_gettop(L), false, "rows", owner, 0, 2);
    drawing->proposer = cop_source_proposer(source);
    struct cop_error err;
    if (!drawing->proposer || cop_ids_push(&drawing->context, 0, &err) != COP_OK) {
        return cop_lua_raise(L, "%s: no memory", owner);
    }
    struct cop_proposer_env env = {.vocab_size = source->vocab,
                                   .context = COP_TREE_LIMIT,
                                   .n_sequences = 1,
                                   .capacity = COP_TREE_LIMIT,
                                   .sampling = {.temperature = 1, .top_p = 1}};
    struct once once = {.proposer = drawing->proposer,
                        .builder = how.tree,
                        .draw = choose_draw(how.draw, how.tree),
                        .env = &env,
                        .seed = read_seed(L, how.seed, 2, owner)};
    return draft(L, drawing, &once, owner);
}
