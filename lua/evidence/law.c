/* cop.exact_law and cop.relaxed_law: the law of one cycle by enumeration
 * (core/cycle/law/law.h).
 *
 * exact_law refuses a pair that the rule does not claim, with the engine's own message;
 * relaxed_law takes any and adds what is of interest for rules that change the distribution. */
#include "lua/evidence/evidence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct law_options {
    void *rule, *target, *draft, *drafts, *tree, *length;
    struct cop_int_list widths;
    struct cop_path_list paths;
    int32_t draw, independent_paths, depth, horizon;
    double temperature;
};

#define AN_OBJECT(field, type_name, more, text)                                                \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_OBJECT,                                             \
        .offset = offsetof(struct law_options, field), .choices = type_name, .flags = more,    \
        .help = text                                                                           \
    }

/* The first two are about the rule; an optimum has the others. */
enum { RULE_OPTIONS = 2 };
static const struct cop_option law_options[] = {
    AN_OBJECT(rule, "accept", COP_OPTION_REQUIRED, "the rule whose verify is enumerated"),
    {.name = "horizon",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct law_options, horizon),
     .min = 1,
     .max = 64,
     .fallback = 1,
     .help = "cycles; of a rule that carries state: tokens at least"},
    AN_OBJECT(target, "any", COP_OPTION_REQUIRED, "a row, or function(prefix) returning one"),
    AN_OBJECT(draft, "any", 0, "the same"),
    AN_OBJECT(drafts, "table", 0, "several draft rows: sibling j is drawn from drafts[j]"),
    AN_OBJECT(tree, "any", 0, "{ tokens =, parents = }, or a cop.tree object"),
    AN_OBJECT(length, "length", 0, "a length policy"),
    {.name = "widths",
     .type = COP_OPTION_INTS,
     .offset = offsetof(struct law_options, widths),
     .flags = COP_OPTION_FILLED,
     .help = "children of each node, level by level"},
    {.name = "paths",
     .type = COP_OPTION_PATHS,
     .offset = offsetof(struct law_options, paths),
     .help = "rank paths"},
    {.name = "draw",
     .type = COP_OPTION_CHOICE,
     .offset = offsetof(struct law_options, draw),
     .choices = COP_EVIDENCE_DRAWS,
     .flags = COP_OPTION_ABSENT,
     .help = "absent: the rule's first claim that fits"},
    {.name = "independent_paths",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct law_options, independent_paths),
     .min = 1,
     .max = COP_TREE_LIMIT,
     .flags = COP_OPTION_ABSENT,
     .help = "paths of `depth` tokens, merged"},
    {.name = "depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct law_options, depth),
     .min = 1,
     .max = COP_TREE_LIMIT,
     .flags = COP_OPTION_ABSENT,
     .help = "with independent_paths"},
    {.name = "temperature",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct law_options, temperature),
     .max = 1,
     .fallback = 1,
     .help = "0: target rows one-hot, draws deterministic"},
    {0}};

static void release_options(void *block)
{
    cop_option_release(law_options, block);
}

static void release_tree(void *block)
{
    cop_tree_release(block);
}

static void release_law(void *block)
{
    cop_law_release(block);
}

/* ---- Reading --------------------------------------------------------------------------------
 */

static void check_shape(lua_State *L, const struct law_options *how, const char *owner)
{
    int shapes = (how->widths.count > 0) + (how->paths.count > 0) +
                 (how->independent_paths > 0) + (how->tree != NULL);
    if (shapes != 1) {
        cop_lua_raise(L, "%s: needs exactly one of: widths, paths, independent_paths, tree",
                      owner);
    }
    if ((how->depth > 0) != (how->independent_paths > 0)) {
        cop_lua_raise(L, "%s: options \"independent_paths\" and \"depth\" go together", owner);
    }
    if (how->temperature > 0 && how->temperature < 1) {
        cop_lua_raise(L, "%s: option \"temperature\" must be 0 or 1: the rows are laws already",
                      owner);
    }
}

/* A given tree, in a guard that is pushed, or a builder; the option table is at 1. */
static void read_shape(lua_State *L, const struct law_options *how, const char *owner, int kept,
                       struct cop_law_case *what)
{
    if (how->widths.count > 0) {
        what->builder = cop_evidence_widths(L, &how->widths, owner);
        return;
    }
    if (how->paths.count > 0) {
        what->builder = cop_evidence_paths(L, &how->paths, owner);
        return;
    }
    if (how->independent_paths > 0) {
        what->builder =
            cop_evidence_independent_paths(L, how->independent_paths, how->depth, owner);
        return;
    }
    lua_getfield(L, kept, "tree");
    if (luaL_testudata(L, -1, cop_lua_part_class(COP_PLUG_BUILDER))) {
        what->builder = cop_lua_check_part(L, -1, COP_PLUG_BUILDER);
        return;
    }
    struct cop_tree *tree = cop_lua_guard(L, sizeof *tree, release_tree);
    struct cop_error err;
    if (cop_tree_init(tree, COP_TREE_LIMIT + 1, &err) != COP_OK) {
        cop_lua_raise(L, "%s: %s", owner, err.text);
    }
    tree->draw = what->draw;
    cop_lua_read_tree(L, -2, what->vocab, owner, tree);
    what->given = tree;
}

static void read_draft(lua_State *L, const struct law_options *how, const char *owner, int kept,
                       struct cop_law_case *what)
{
    if ((how->draft != NULL) == (how->drafts != NULL)) {
        cop_lua_raise(L, "%s: needs exactly one of: draft, drafts", owner);
    }
    bool is_list = how->drafts != NULL;
    lua_getfield(L, kept, is_list ? "drafts" : "draft");
    struct cop_source *source = cop_source_read(
        L, lua_gettop(L), is_list, is_list ? "drafts" : "draft", owner, what->vocab, kept);
    what->draft = cop_source_row;
    what->draft_context = source;
    what->n_drafters = source->n;
    what->one_each = is_list;
}

/* ---- Results --------------------------------------------------------------------------------
 */

static void push_outcomes(lua_State *L, const struct cop_law *law)
{
    lua_createtable(L, (int)law->n_outcomes, 0);
    for (int64_t i = 0; i < law->n_outcomes; i++) {
        const struct cop_law_outcome *outcome = &law->outcomes[i];
        lua_createtable(L, 0, 3);
        cop_lua_push_ids(L, outcome->tokens, (size_t)outcome->n_accepted + 1);
        lua_setfield(L, -2, "tokens");
        cop_lua_set_integer(L, "accepted", outcome->n_accepted);
        cop_lua_set_number(L, "probability", outcome->probability);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static void push_law_row(lua_State *L, const double *row, int32_t vocab)
{
    lua_createtable(L, vocab, 0);
    for (int32_t i = 0; i < vocab; i++) {
        lua_pushnumber(L, row[i]);
        lua_rawseti(L, -2, i + 1);
    }
}

/* KL(target || output) in nats; infinite where the output lacks a token of the target. */
static double divergence(const double *target, const double *output, int32_t vocab)
{
    double sum = 0;
    for (int32_t i = 0; i < vocab; i++) {
        if (target[i] > 0) {
            sum += output[i] > 0 ? target[i] * log(target[i] / output[i]) : (double)INFINITY;
        }
    }
    return sum > 0 ? sum : 0;
}

static double distance(const double *target, const double *output, int32_t vocab)
{
    double sum = 0;
    for (int32_t i = 0; i < vocab; i++) {
        sum += fabs(target[i] - output[i]);
    }
    return sum / 2;
}

/* acceptance, position, total_variation_per_position, kl: into the table at the top. */
static void push_positions(lua_State *L, const struct cop_law *law, int32_t vocab)
{
    cop_lua_set_number(L, "acceptance", 1 - law->accepted[0]);
    lua_newtable(L);
    lua_newtable(L);
    lua_newtable(L); /* law, position, total variation, kl */
    for (int32_t d = 0; d <= law->depth && d < law->length; d++) {
        const double *output = law->position + (ptrdiff_t)d * vocab;
        const double *target = law->target_position + (ptrdiff_t)d * vocab;
        push_law_row(L, output, vocab);
        lua_rawseti(L, -4, d + 1);
        lua_pushnumber(L, distance(target, output, vocab));
        lua_rawseti(L, -3, d + 1);
        lua_pushnumber(L, divergence(target, output, vocab));
        lua_rawseti(L, -2, d + 1);
    }
    lua_setfield(L, -4, "kl");
    lua_setfield(L, -3, "total_variation_per_position");
    lua_setfield(L, -2, "position");
}

void cop_evidence_push_law(lua_State *L, const struct cop_law *law, int32_t vocab,
                           bool is_relaxed)
{
    luaL_checkstack(L, 12, NULL);
    lua_createtable(L, 0, 12);
    cop_lua_set_number(L, "total_variation", law->total_variation);
    cop_lua_set_number(L, "expected_accepted", law->expected_accepted);
    lua_createtable(L, law->depth, 1);
    for (int32_t d = 0; d <= law->depth; d++) {
        lua_pushnumber(L, law->accepted[d]);
        lua_rawseti(L, -2, d);
    }
    lua_setfield(L, -2, "accepted");
    push_outcomes(L, law);
    lua_setfield(L, -2, "outcomes");
    cop_lua_set_integer(L, "cases", law->branches);
    cop_lua_set_integer(L, "depth", law->depth);
    cop_lua_set_integer(L, "length", law->length);
    cop_lua_set_string(L, "draw", cop_draw_name(law->draw));
    cop_lua_set_string(L, "shape", cop_shape_name(law->shape));
    if (is_relaxed) {
        push_positions(L, law, vocab);
    }
}

/* ---- The two functions ----------------------------------------------------------------------
 */

/* The core's advice is for engines, which take `relaxed`; a law has a function of its own. */
static void advise(lua_State *L, struct cop_error *err)
{
    if (err->code == COP_ERR_UNSOUND) {
        const char *text = luaL_gsub(L, err->text, "say relaxed = true", "ask cop.relaxed_law");
        (void)snprintf(err->text, sizeof err->text, "%s", text);
        lua_pop(L, 1);
    }
}

/* Stack: 1 options, 2 guard of the options, 3 kept objects and functions. */
void cop_evidence_read_case(lua_State *L, const char *owner, bool has_rule,
                            struct cop_law_case *what)
{
    cop_lua_one_table(L, owner);
    struct law_options *how = cop_lua_guard(L, sizeof *how, release_options);
    cop_option_defaults(law_options, how);
    lua_newtable(L);
    cop_lua_options(L, 1, law_options + (has_rule ? 0 : RULE_OPTIONS), how, owner, 3);
    check_shape(L, how, owner);
    lua_getfield(L, 3, "target");
    struct cop_source *target = cop_source_read(L, lua_gettop(L), false, "target", owner, 0, 3);
    *what = (struct cop_law_case){.rule = how->rule,
                                  .length = how->length,
                                  .draw = cop_evidence_draw(how->draw, COP_DRAW_AUTO),
                                  .is_zero_temperature = how->temperature == 0,
                                  .vocab = target->vocab,
                                  .horizon = how->horizon,
                                  .target = cop_source_row,
                                  .target_context = target};
    read_draft(L, how, owner, 3, what);
    read_shape(L, how, owner, 3, what);
}

static int enumerate(lua_State *L, const char *owner, bool is_relaxed)
{
    struct cop_law_case what;
    cop_evidence_read_case(L, owner, true, &what);
    what.relaxed = is_relaxed;
    struct cop_law *law = cop_lua_guard(L, sizeof *law, release_law);
    struct cop_lua_home *home = cop_lua_home(L);
    struct cop_lua_border border;
    struct cop_error err;
    cop_lua_enter(home, L, &border);
    enum cop_status status = cop_law_enumerate(law, &what, &err);
    status = cop_lua_leave(home, &border, status, &err);
    if (status == COP_ERR_CALLBACK) {
        lua_pushstring(L, err.text); /* it names the script's line already */
        return lua_error(L);
    }
    if (status != COP_OK) {
        advise(L, &err);
        return cop_lua_error_of(L, owner, &err);
    }
    cop_evidence_push_law(L, law, what.vocab, is_relaxed);
    return 1;
}

static int exact_law(lua_State *L)
{
    return enumerate(L, "cop.exact_law", false);
}

static int relaxed_law(lua_State *L)
{
    return enumerate(L, "cop.relaxed_law", true);
}

void cop_lua_open_law(lua_State *L)
{
    static const luaL_Reg functions[] = {{"exact_law", exact_law},
                                         {"relaxed_law", relaxed_law},
                                         {"optimum", cop_evidence_optimum},
                                         {"verify_rows", cop_evidence_verify_rows},
                                         {"build_tree", cop_evidence_build_tree},
                                         {"propose_once", cop_evidence_propose_once},
                                         {"philox", cop_evidence_philox},
                                         {"process_row", cop_evidence_process_row},
                                         {NULL, NULL}};
    lua_pushvalue(L, -2);
    luaL_setfuncs(L, functions, 0);
    lua_pop(L, 1);
    cop_evidence_open_proof(L);
    cop_evidence_open_runs(L);
}
